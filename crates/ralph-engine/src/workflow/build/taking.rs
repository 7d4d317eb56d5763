//! From a run's result to the plan: what was claimed is judged, and what came through the channel is committed.

use ralph_model::contract::FinalMessage;
use ralph_model::id::CommitId;
use ralph_model::journal::{PipelineFields, PipelineKind};
use ralph_model::pipeline::is_yes;
use ralph_model::plan::{DoneAt, Kill, Plan};
use ralph_model::receipt::Worker;
use ralph_model::role::Role;
use ralph_model::run::RunOutcome;
use ralph_model::verdict::{PersonQuestion, Reason, Verdict, VerifierReport};

use super::channel::FEWEST_PARTS;
use super::claims::{self, Claim};
use super::{Build, BuildEnd, Round, Turn, none};
use crate::gates::pin::PinnedGates;
use crate::judge::{Attested, Said};
use crate::run::RunResult;
use crate::workflow::repositories::BeforeAll;
use crate::workflow::{Hindrance, WorkflowError, hindrance};

/// How a verifier's item is named that is asked for its opinion on a task.
const OPINION: &str = "-opinion";

impl Build<'_, '_, '_> {
    /// Draws the conclusions of a run.
    pub(super) fn take(
        &mut self,
        round: &mut Round,
        result: &RunResult,
    ) -> Result<Turn, WorkflowError> {
        let item = result.item.clone();
        if let RunOutcome::Trouble { trouble } = &result.outcome {
            RunResult::taken(self.desk.context.state, &item)?;
            self.commit_plan()?;
            return Ok(Turn::Trouble(trouble.clone()));
        }
        round.streak.apply(&result.outcome);
        let turn = match result.role {
            Role::Builder => self.take_build(&item, result)?,
            Role::Verifier => match item.strip_suffix(OPINION) {
                Some(task) => self.take_opinion(task, result)?,
                None => self.take_stage(result, "the verifier accepted and rejected nothing")?,
            },
            Role::Decomposer => self.take_decomposition(result)?,
            _ => self.take_stage(result, "no issue was resolved and no task was added")?,
        };
        RunResult::taken(self.desk.context.state, &item)?;
        if self.is_promised(result) {
            return Ok(Turn::End(BuildEnd::Promised));
        }
        Ok(turn)
    }

    fn is_promised(&self, result: &RunResult) -> bool {
        let said = result.final_message.as_deref().unwrap_or("");
        self.promise.is_some_and(|promise| FinalMessage::new(said).says(promise))
    }

    fn take_build(&mut self, task: &str, result: &RunResult) -> Result<Turn, WorkflowError> {
        let Some(before) = BeforeAll::load(self.desk.context.state, task)? else {
            return Ok(Turn::Again);
        };
        let kill = match &result.outcome {
            RunOutcome::TimedOut { .. } => Some(Kill::Timeout),
            RunOutcome::ContextFull => Some(Kill::Context),
            _ => None,
        };
        if let Some(kill) = kill {
            let log = result.log.strip_prefix(self.desk.context.workspace);
            let log = log.unwrap_or(&result.log).to_string();
            self.settle(|plan| plan.kill(task, kill, Some(&log)))?;
            claims::forget(self.desk.context.state, task)?;
            self.back_to_branches(&before)?;
            let fields = PipelineFields {
                task: Some(task.to_owned()),
                reason: Some(kill.name().to_owned()),
                ..none()
            };
            self.tell(PipelineKind::TaskKilled, fields)?;
            return Ok(Turn::Again);
        }
        if let RunOutcome::Violation { paths } = &result.outcome {
            let reason =
                format!("the run changed what its role must not change: {}", paths.join(", "));
            return self.turn_down(task, None, &reason, &reason);
        }
        let claim = claims::load(self.desk.context.state, task)?;
        let Some(claim) = claim.filter(|claim| claim.run == result.run) else {
            self.commit_plan()?;
            self.back_to_branches(&before)?;
            let feedback = format!(
                "the run ended without claiming its task: `ralph task done {task}` is missing"
            );
            return Ok(Turn::Failed { feedback });
        };
        if claim.no_change.is_some() {
            self.back_to_branches(&before)?;
            self.commit_plan()?;
            return Ok(Turn::Again);
        }
        self.judge_build(task, &before)
    }

    fn judge_build(&mut self, task: &str, before: &BeforeAll) -> Result<Turn, WorkflowError> {
        let name = self.name_of(task)?;
        self.repositories.commit_leftovers(
            before,
            &format!("{name}\n\nTask: {task}\n"),
            self.signing,
        )?;
        let Some((commit, _)) = self.repositories.work_of(before)? else {
            return self.turn_down(task, None, "there is no commit", "there is no commit");
        };
        let pinned = self.pin(task)?;
        let said = Said::Commit { claimed: commit.clone() };
        let case = self.repositories.examine(
            &self.gate_context,
            before,
            &pinned,
            &said,
            &mut *self.observer,
        )?;
        self.back_to_branches(before)?;
        match case.verdict(&VerifierReport::NotAsked) {
            Err(trouble) => Ok(Turn::Trouble(trouble)),
            Ok(Verdict::Accepted { proven_by_gates, .. }) => {
                let worker = &self.desk.launch(Role::Builder).choice;
                let attested = Attested {
                    item: task,
                    worker: Worker { agent: worker.name.clone(), model: worker.model.clone() },
                    boundary: self.desk.boundary,
                    verifier: None,
                    at: self.desk.context.clock.now(),
                    ralph: env!("CARGO_PKG_VERSION"),
                };
                self.repositories.judge(&self.gate_context, before, &pinned, |judge| {
                    Ok(judge.attest(&case, attested)?)
                })?;
                self.mark_done(task, &DoneAt::Commit(commit.clone()))?;
                let fields = PipelineFields {
                    task: Some(task.to_owned()),
                    commit: Some(commit.to_string()),
                    proven_by_gates: Some(proven_by_gates),
                    ..none()
                };
                self.tell(PipelineKind::TaskDone, fields)?;
                Ok(Turn::Again)
            }
            Ok(Verdict::Rejected { reasons }) => {
                let agent: Vec<String> = reasons.iter().map(Reason::for_agent).collect();
                let person: Vec<String> = reasons.iter().map(Reason::for_person).collect();
                self.turn_down(task, Some(&commit), &agent.join(" "), &person.join(" "))
            }
            Ok(Verdict::NeedsHuman { question }) => self.ask_person(task, &question),
            Ok(Verdict::PlanInvalid { reason }) => {
                self.turn_down(task, Some(&commit), &reason, &reason)
            }
        }
    }

    fn mark_done(&mut self, task: &str, done_at: &DoneAt) -> Result<(), WorkflowError> {
        self.settle(|plan| plan.done(task, done_at))?;
        PinnedGates::forget(self.desk.context.state, task)?;
        Ok(claims::forget(self.desk.context.state, task)?)
    }

    /// Returns a task to the pending ones with the reason on it.
    fn turn_down(
        &mut self,
        task: &str,
        commit: Option<&CommitId>,
        for_agent: &str,
        for_person: &str,
    ) -> Result<Turn, WorkflowError> {
        let done_at = commit.map_or(DoneAt::Unborn, |commit| DoneAt::Commit(commit.clone()));
        self.settle(|plan| {
            plan.done(task, &done_at)?;
            plan.reject(task, for_agent)
        })?;
        claims::forget(self.desk.context.state, task)?;
        let fields = PipelineFields {
            task: Some(task.to_owned()),
            commit: commit.map(ToString::to_string),
            reason: Some(for_person.to_owned()),
            ..none()
        };
        self.tell(PipelineKind::TaskRejected, fields)?;
        Ok(Turn::Failed { feedback: for_agent.to_owned() })
    }

    /// Settles a claim that nothing has to change: a verifier's opinion is asked for, then a person decides.
    pub(super) fn settle_open_claim(&mut self, task: &str) -> Result<Option<Turn>, WorkflowError> {
        let Some(claim) = claims::load(self.desk.context.state, task)? else { return Ok(None) };
        let Some(reason) = claim.no_change.clone() else { return Ok(None) };
        if let Some(answered) = self.desk.overview.answered(task).cloned() {
            let answer = answered.answer.unwrap_or_default();
            let fields = PipelineFields {
                task: Some(task.to_owned()),
                reason: Some(answer.clone()),
                ..none()
            };
            self.tell(PipelineKind::PersonAnswered, fields)?;
            let turn = if is_yes(&answer) {
                let head = self.repositories.base()?.into_values().next();
                self.mark_done(task, &head.map_or(DoneAt::Unborn, DoneAt::Commit))?;
                Turn::Again
            } else {
                let told = format!("A person looked at it and says: {answer}");
                self.turn_down(task, None, &told, &told)?;
                Turn::Again
            };
            // Only now: an answer that was taken and not acted on would be lost.
            self.questions().take_answer(task)?;
            return Ok(Some(turn));
        }
        if claim.opinion.is_none() {
            return self.ask_for_opinion(task, &reason).map(Some);
        }
        let question = PersonQuestion::NoChange { reason, opinion: claim.opinion };
        self.ask_person(task, &question).map(Some)
    }

    fn ask_for_opinion(&mut self, task: &str, reason: &str) -> Result<Turn, WorkflowError> {
        let item = format!("{task}{OPINION}");
        if let Some(result) = self.pending(&item)? {
            return self.take(&mut Round::default(), &result);
        }
        let bytes = self.plan.read()?;
        let plan = Plan::parse(&bytes);
        let tasks = super::runs::json(&plan.task_view(task));
        let feedback = format!(
            "The builder of {task} says that nothing has to change ({reason}). Do not accept or reject it: look whether \
             that is so, and say in your last message what you think and why. A person decides."
        );
        let mut round = Round::default();
        self.verify_with(&mut round, &plan, &item, &[], &tasks, Some(&feedback))
    }

    fn take_opinion(&mut self, task: &str, result: &RunResult) -> Result<Turn, WorkflowError> {
        let state = self.desk.context.state;
        if let Some(claim) = claims::load(state, task)? {
            let said = result.final_message.clone();
            let opinion = said.unwrap_or_else(|| "it gave none".to_owned());
            claims::save(
                state,
                task,
                &Claim { opinion: Some(opinion.trim().to_owned()), ..claim },
            )?;
        }
        self.commit_plan()?;
        Ok(Turn::Again)
    }

    fn ask_person(&mut self, task: &str, question: &PersonQuestion) -> Result<Turn, WorkflowError> {
        let question = question.to_string();
        self.questions().ask(task, &question, None)?;
        self.commit_plan()?;
        let fields = PipelineFields {
            task: Some(task.to_owned()),
            question: Some(question.clone()),
            ..none()
        };
        self.tell(PipelineKind::PersonNeeded, fields)?;
        Ok(Turn::End(BuildEnd::Waiting { task: task.to_owned(), question }))
    }

    /// Takes a run whose work is what it changed in the plan.
    fn take_stage(&mut self, result: &RunResult, nothing: &str) -> Result<Turn, WorkflowError> {
        let changed = self.has_changed_plan()?;
        if result.role == Role::Verifier && changed {
            self.prioritize()?;
        }
        self.commit_plan()?;
        match &result.outcome {
            RunOutcome::Completed if changed => Ok(Turn::Again),
            RunOutcome::Completed => Ok(Turn::Failed { feedback: nothing.to_owned() }),
            outcome => Ok(Turn::Failed { feedback: told(outcome) }),
        }
    }

    fn take_decomposition(&mut self, result: &RunResult) -> Result<Turn, WorkflowError> {
        let parts = super::channel::locked(&self.assignment).parts;
        let bytes = self.plan.read()?;
        let task = result.item.trim_end_matches("-decompose");
        let is_there = Plan::parse(&bytes).task_view(task).is_some();
        if is_there && parts >= FEWEST_PARTS {
            // The subtasks are there; only the last step is missing.
            self.settle(|plan| plan.delete(task))?;
        }
        self.take_stage(result, "the task was not broken into subtasks")
    }

    /// Orders what is pending.
    pub(super) fn prioritize(&mut self) -> Result<(), WorkflowError> {
        self.settle(|plan: &mut Plan<'_>| plan.prioritize())?;
        Ok(())
    }

    /// Tells whether the run has changed the plan, also for a Ralph that was not there.
    fn has_changed_plan(&self) -> Result<bool, WorkflowError> {
        if !super::channel::locked(&self.assignment).changes.is_empty() {
            return Ok(true);
        }
        Ok(self.plan.is_uncommitted()?)
    }

    fn back_to_branches(&mut self, before: &BeforeAll) -> Result<(), WorkflowError> {
        for problem in self.repositories.return_to_branches(&mut before.clone())? {
            let fields = PipelineFields { reason: Some(problem), ..none() };
            self.tell(PipelineKind::Note, fields)?;
        }
        Ok(())
    }

    fn name_of(&self, task: &str) -> Result<String, WorkflowError> {
        let bytes = self.plan.read()?;
        let plan = Plan::parse(&bytes);
        Ok(plan.task_view(task).map_or_else(|| task.to_owned(), |task| task.name.to_string()))
    }
}

/// Tells what got in the way of judging from what stops the command.
pub(super) fn trouble_or_error(error: WorkflowError) -> Result<Turn, WorkflowError> {
    match hindrance(&error) {
        Some(Hindrance::Interrupted) => Ok(Turn::End(BuildEnd::Interrupted)),
        Some(Hindrance::Trouble(trouble)) => Ok(Turn::Trouble(trouble)),
        None => Err(error),
    }
}

fn told(outcome: &RunOutcome) -> String {
    match outcome {
        RunOutcome::TimedOut { .. } => "the run took too long and was ended".to_owned(),
        RunOutcome::ContextFull => "the run's context was full".to_owned(),
        RunOutcome::Violation { paths } => {
            format!("the run changed what its role must not change: {}", paths.join(", "))
        }
        RunOutcome::Completed | RunOutcome::Interrupted | RunOutcome::Trouble { .. } => {
            "the run had no result".to_owned()
        }
    }
}
