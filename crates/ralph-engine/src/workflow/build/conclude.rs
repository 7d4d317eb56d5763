//! From a run's result to the plan: what was claimed goes to the judge, and what came through the channel is committed.

use ralph_model::build::{TaskFact, TaskState};
use ralph_model::contract::FinalMessage;
use ralph_model::journal::{Note, ReasonText};
use ralph_model::permission::Mutation;
use ralph_model::plan::{Kill, Plan};
use ralph_model::role::Role;
use ralph_model::run::RunOutcome;
use ralph_model::shown::shown;

use super::channel::{FEWEST_PARTS, parts_of};
use super::questions::OPINION;
use super::task_store::Healed;
use super::{Build, BuildEnd};
use crate::run::RunResult;
use crate::workflow::driver::{Turn, forget_troubles};
use crate::workflow::repositories::{BEFORE, BeforeAll};
use crate::workflow::review::REVIEW;
use crate::workflow::{WorkflowError, unfinished};
use ralph_model::build::Rejection;

impl Build<'_, '_> {
    /// Draws the conclusions of a run.
    pub(super) fn conclude_run(
        &mut self,
        result: &RunResult,
    ) -> Result<Turn<BuildEnd>, WorkflowError> {
        self.round.feedback = None;
        let item = result.item.as_str();
        let turn = match result.role {
            Role::Builder => self.conclude_builder(item, result)?,
            Role::Verifier => match (item.strip_suffix(OPINION), item.strip_suffix(REVIEW)) {
                (Some(task), _) => self.conclude_opinion(task, result)?,
                (_, Some(task)) => self.conclude_review(task, result)?,
                (None, None) => {
                    self.conclude_stage(result, "the verifier accepted and rejected nothing")?
                }
            },
            Role::Decomposer => self.conclude_decomposer(result)?,
            _ => self.conclude_stage(result, "no issue was resolved and no task was added")?,
        };
        if matches!(turn, Turn::Progress) {
            forget_troubles(&self.session.context.state, item)?;
        }
        if matches!(turn, Turn::Trouble(_) | Turn::End(_) | Turn::Stop(_)) {
            return Ok(turn);
        }
        if self.is_promised(result) {
            let bytes = self.plan.read()?;
            return Ok(Turn::End(BuildEnd::Promised { stage: Plan::parse(&bytes).stage() }));
        }
        Ok(turn)
    }

    fn is_promised(&self, result: &RunResult) -> bool {
        let said = result.final_message.as_deref().unwrap_or("");
        self.promise.as_deref().is_some_and(|promise| FinalMessage::new(said).says(promise))
    }

    /// Nothing follows from a run; a claim that it made is void.
    pub(super) fn discard_run(&mut self, result: &RunResult) -> Result<(), WorkflowError> {
        if result.role == Role::Builder {
            // Before the run is settled: after that what it destroyed is not looked at again.
            self.back_to_branches(&result.item)?;
            let state = self.state_of(&result.item)?;
            if matches!(state, TaskState::Open | TaskState::Claimed { .. }) {
                self.settle(&result.item, &TaskFact::RunVoid { run: result.run.clone() })?;
            }
        }
        self.commit_plan()
    }

    fn conclude_builder(
        &mut self,
        task: &str,
        result: &RunResult,
    ) -> Result<Turn<BuildEnd>, WorkflowError> {
        // A verdict that a crash cut short is completed, not reached again.
        match self.heal(task)? {
            Some(Healed::Accepted) => return Ok(Turn::Progress),
            Some(Healed::Rejected { for_agent }) => return self.fail(task, for_agent),
            Some(Healed::Unsettled) => return Ok(Turn::Again),
            None => {}
        }
        let Some(before) = BEFORE.load(&self.session.context.state, task)? else {
            return Ok(Turn::Again);
        };
        let run = result.run.clone();
        let state = self.state_of(task)?;
        if state == TaskState::NotPending {
            return self.lay_aside(task, &before, result);
        }
        if result.outcome == RunOutcome::Withdrawn {
            // The person has changed their mind since.
            self.discard_run(result)?;
            return Ok(Turn::Again);
        }
        let kill = match &result.outcome {
            RunOutcome::TimedOut { .. } => Some(Kill::Timeout),
            RunOutcome::ContextFull => Some(Kill::Context),
            _ => None,
        };
        if let Some(kill) = kill {
            let log = Some(self.log_bases().name(&result.log));
            // What it got done is where its parts begin.
            let name = self.name_of(task)?;
            let message = format!("{name} (unfinished: {})\n\nTask: {task}\n", kill.name());
            let repositories = &self.project.repositories;
            if let Some(reason) = repositories.commit_leftovers(&before, &message, self.signing)? {
                self.tell(Note { spec: None, task: Some(task.to_owned()), reason })?;
            }
            self.bring_home(task, &before)?;
            self.settle(task, &TaskFact::Killed { run, kill, log })?;
            return Ok(Turn::Progress);
        }
        if let Some(reason) = unfinished(&result.outcome) {
            self.back_to_branches(task)?;
            let reasons = vec![ReasonText::new("run_unfinished", &reason)];
            return self.reject(task, Some(run), Rejection::plain(reason), reasons);
        }
        match state {
            TaskState::Claimed { run: claimed, no_change } if claimed == run => {
                if no_change.is_none() {
                    return self.judge_build(task, &before, run);
                }
                self.back_to_branches(task)?;
                self.commit_plan()?;
                self.settle(task, &TaskFact::NoChangeStands { run })?;
                Ok(Turn::Progress)
            }
            _ => {
                self.back_to_branches(task)?;
                self.commit_plan()?;
                self.settle(task, &TaskFact::Unclaimed { run })?;
                let feedback = format!(
                    "the run ended without a claim that was accepted; `ralph task done {task}` makes one, once the work is done"
                );
                self.fail(task, feedback)
            }
        }
    }

    /// Ends work on a task that a person took off the pending list during its run. Their decision takes precedence; the
    /// work is kept: only they can say what it is worth.
    fn lay_aside(
        &mut self,
        task: &str,
        before: &BeforeAll,
        result: &RunResult,
    ) -> Result<Turn<BuildEnd>, WorkflowError> {
        let name = self.name_of(task)?;
        let message = format!("{name} (no longer pending)\n\nTask: {task}\n");
        let repositories = &self.project.repositories;
        if let Some(reason) = repositories.commit_leftovers(before, &message, self.signing)? {
            self.tell(Note { spec: None, task: Some(task.to_owned()), reason })?;
        }
        self.bring_home(task, before)?;
        let kept = self.keep_given_up(task, before)?;
        self.commit_plan()?;
        self.settle(task, &TaskFact::LaidAside { run: result.run.clone() })?;
        let kept = kept.map_or("committed".to_owned(), |name| format!("kept in {name}"));
        let reason = format!(
            "`{task}` was no longer pending when its run ended; the run's work is {kept}, and not judged"
        );
        self.tell(Note { spec: None, task: Some(task.to_owned()), reason })?;
        Ok(Turn::Progress)
    }

    /// Keeps what was made for a task in its clone; returns the ref that has it, if there is any.
    fn keep_given_up(
        &self,
        task: &str,
        before: &BeforeAll,
    ) -> Result<Option<String>, WorkflowError> {
        let base = self.project.slot_base(self.session, task)?.unwrap_or_else(|| before.base());
        let works = self.project.repositories.work_of(before)?;
        self.project.keep_given_up(task, &works, &base)
    }

    /// Concludes a run whose work is what it changed in the plan.
    fn conclude_stage(
        &mut self,
        result: &RunResult,
        nothing: &str,
    ) -> Result<Turn<BuildEnd>, WorkflowError> {
        let changed = has_changed_plan(result);
        if result.role == Role::Verifier && changed {
            self.plan.change(|plan: &mut Plan<'_>| plan.prioritize())?;
        }
        self.commit_plan()?;
        let is_split = result.role == Role::Decomposer && changed;
        if !is_split {
            self.count_round(&result.run)?;
        }
        match unfinished(&result.outcome) {
            None if changed => Ok(Turn::Progress),
            why => self.fail(&result.item, why.unwrap_or_else(|| nothing.to_owned())),
        }
    }

    fn conclude_decomposer(&mut self, result: &RunResult) -> Result<Turn<BuildEnd>, WorkflowError> {
        let bytes = self.plan.read()?;
        let plan = Plan::parse(&bytes);
        let task = result.item.trim_end_matches("-decompose");
        let is_there = plan.task_view(task).is_some();
        if is_there && parts_of(&plan, task) >= FEWEST_PARTS {
            // The subtasks are there; only the last step is missing.
            self.change_plan(|plan| plan.delete(task))?;
        }
        self.conclude_stage(result, "the task was not broken into subtasks")
    }

    /// Returns to the branches that a run began on, with the work that it did on others.
    fn bring_home(&mut self, task: &str, before: &BeforeAll) -> Result<(), WorkflowError> {
        let works = self.project.repositories.work_of(before)?;
        self.back_to_branches(task)?;
        self.take_in(&works)
    }

    pub(super) fn back_to_branches(&mut self, task: &str) -> Result<(), WorkflowError> {
        self.project.return_to_branches(self.session, task)
    }

    /// Returns the name of a task as commit messages have it.
    pub(super) fn name_of(&self, task: &str) -> Result<String, WorkflowError> {
        let bytes = self.plan.read()?;
        let plan = Plan::parse(&bytes);
        Ok(plan.task_view(task).map_or_else(|| task.to_owned(), |task| shown(&task.name).into()))
    }
}

/// Tells whether a run has brought the plan forward. The result says so itself, so that a restart concludes the same.
fn has_changed_plan(result: &RunResult) -> bool {
    result.mutations.iter().any(|mutation| match result.role {
        // A verifier that only finds something to say has not done what it was asked.
        Role::Verifier => matches!(mutation, Mutation::TaskAccept | Mutation::TaskReject),
        _ => true,
    })
}
