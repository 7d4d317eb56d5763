//! From a run's result to the plan: what was claimed goes to the judge, and what came through the channel is committed.

use ralph_model::contract::FinalMessage;
use ralph_model::journal::{WorkflowFields, WorkflowKind};
use ralph_model::plan::{Change, DoneAt, Kill, Line, Plan};
use ralph_model::role::Role;
use ralph_model::run::{RunOutcome, Trouble};

use super::channel::{FEWEST_PARTS, parts_of};
use super::claims::{self, Claim, Rejection};
use super::opinion::OPINION;
use super::{Build, BuildEnd, Round, Turn, none};
use crate::gates::pin::PinnedGates;
use crate::run::RunResult;
use crate::workflow::repositories::{BeforeAll, Work};
use crate::workflow::{Hindrance, WorkflowError, hindrance};

impl Build<'_, '_, '_> {
    /// Draws the conclusions of a run.
    pub(super) fn take(
        &mut self,
        round: &mut Round,
        result: &RunResult,
    ) -> Result<Turn, WorkflowError> {
        let item = result.item.clone();
        if let RunOutcome::Trouble { trouble } = &result.outcome {
            if result.role == Role::Builder {
                // What a run says that ends so is not known to be its last word.
                claims::forget(self.desk.context.state, &item)?;
            }
            if let Trouble::UsageLimit { resets_at } = trouble {
                // Ralph died before it could note that; the next step waits.
                self.desk.begin_wait(&result.agent, *resets_at, &item)?;
                return Ok(Turn::Again);
            }
            RunResult::taken(self.desk.context.state, &item)?;
            self.commit_plan()?;
            return Ok(Turn::Trouble(trouble.clone()));
        }
        let turn = match result.role {
            Role::Builder => self.take_build(&item, result)?,
            Role::Verifier => match item.strip_suffix(OPINION) {
                Some(task) => self.take_opinion(task, result)?,
                None => self.take_stage(result, "the verifier accepted and rejected nothing")?,
            },
            Role::Decomposer => self.take_decomposition(result)?,
            _ => self.take_stage(result, "no issue was resolved and no task was added")?,
        };
        if matches!(turn, Turn::Trouble(_)) {
            // It could not be judged, and is judged again: the run itself is over.
            return Ok(turn);
        }
        round.streak.apply(&result.outcome);
        RunResult::taken(self.desk.context.state, &item)?;
        if self.is_promised(result) && !matches!(turn, Turn::End(_)) {
            let bytes = self.plan.read()?;
            return Ok(Turn::End(BuildEnd::Promised { stage: Plan::parse(&bytes).stage() }));
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
        if !self.is_wanted(task)? {
            return self.lay_aside(task, &before);
        }
        let kill = match &result.outcome {
            RunOutcome::TimedOut { .. } => Some(Kill::Timeout),
            RunOutcome::ContextFull => Some(Kill::Context),
            _ => None,
        };
        if let Some(kill) = kill {
            let log = self.log_bases().name(&result.log);
            // What it got done is where its parts begin.
            let name = self.name_of(task)?;
            let message = format!("{name} (unfinished: {})\n\nTask: {task}\n", kill.name());
            self.repositories.commit_leftovers(&before, &message, self.signing)?;
            self.bring_home(&before)?;
            self.settle(|plan| plan.kill(task, kill, Some(&log)))?;
            claims::forget(self.desk.context.state, task)?;
            let fields = WorkflowFields {
                task: Some(task.to_owned()),
                reason: Some(kill.name().to_owned()),
                ..none()
            };
            self.tell(WorkflowKind::TaskKilled, fields)?;
            return Ok(Turn::Again);
        }
        if let RunOutcome::Violation { paths } = &result.outcome {
            let reason =
                format!("the run changed what its role must not change: {}", paths.join(", "));
            self.back_to_branches(&before)?;
            return self.turn_down(task, Rejection::plain(reason));
        }
        let claim = claims::load(self.desk.context.state, task)?;
        let Some(claim) = claim.filter(|claim| claim.run == result.run) else {
            self.commit_plan()?;
            self.back_to_branches(&before)?;
            let feedback = format!(
                "the run ended without claiming its task: `ralph task done {task}` is missing"
            );
            return Ok(Turn::Failed { item: task.to_owned(), feedback });
        };
        if let Some(rejection) = claim.rejection {
            // Ralph died between the verdict and the plan: it is not judged twice.
            self.back_to_branches(&before)?;
            return self.turn_down(task, rejection);
        }
        if claim.asked.is_some() {
            // Ralph died between the verdict and the question: whoever settles open claims asks it.
            return Ok(Turn::Again);
        }
        if claim.no_change.is_some() {
            self.back_to_branches(&before)?;
            self.commit_plan()?;
            claims::save(self.desk.context.state, task, &Claim { stands: true, ..claim })?;
            return Ok(Turn::Again);
        }
        self.judge_build(task, &before)
    }

    fn is_wanted(&self, task: &str) -> Result<bool, WorkflowError> {
        let bytes = self.plan.read()?;
        Ok(Plan::parse(&bytes).pending().iter().any(|pending| pending.id == task))
    }

    /// Ends work on a task that a person took from the pending ones while a run was on it. Their word stands; what was
    /// made is kept, as nobody but them can say what it is worth.
    fn lay_aside(&mut self, task: &str, before: &BeforeAll) -> Result<Turn, WorkflowError> {
        let name = self.name_of(task)?;
        let message = format!("{name} (no longer pending)\n\nTask: {task}\n");
        self.repositories.commit_leftovers(before, &message, self.signing)?;
        self.bring_home(before)?;
        self.commit_plan()?;
        let state = self.desk.context.state;
        claims::forget(state, task)?;
        PinnedGates::forget(state, task)?;
        BeforeAll::forget(state, task)?;
        let reason = format!(
            "`{task}` was no longer pending when its run ended; what the run made is committed, and not judged"
        );
        let fields = WorkflowFields { task: Some(task.to_owned()), reason: Some(reason), ..none() };
        self.tell(WorkflowKind::Note, fields)?;
        Ok(Turn::Again)
    }

    pub(super) fn mark_done(&mut self, task: &str, done_at: &DoneAt) -> Result<(), WorkflowError> {
        let bytes = self.plan.read()?;
        let plan = Plan::parse(&bytes);
        let view = plan.task_view(task);
        let origins = view.iter().flat_map(|view| view.parent.iter().chain(&view.created_from));
        let origins: Vec<String> = origins.map(ToString::to_string).collect();
        self.settle(|plan| plan.done(task, done_at))?;
        let state = self.desk.context.state;
        PinnedGates::forget(state, task)?;
        claims::forget(state, task)?;
        // The gates have passed: what comes of the same task after this one begins here.
        for item in origins.iter().map(String::as_str).chain([task]) {
            BeforeAll::forget(state, item)?;
        }
        Ok(())
    }

    /// Returns a task to the pending ones with the reason on it.
    pub(super) fn turn_down(
        &mut self,
        task: &str,
        rejection: Rejection,
    ) -> Result<Turn, WorkflowError> {
        let state = self.desk.context.state;
        if let Some(claim) = claims::load(state, task)? {
            let rejection = Some(rejection.clone());
            claims::save(state, task, &Claim { rejection, ..claim })?;
        }
        let Rejection { commit, for_agent, for_person } = rejection;
        let done_at = commit.clone().map_or(DoneAt::Unborn, DoneAt::Commit);
        if self.is_turned_down(task, &for_agent)? {
            self.commit_plan()?;
        } else {
            self.settle(|plan| {
                plan.done(task, &done_at)?;
                plan.reject(task, &for_agent)
            })?;
        }
        claims::forget(state, task)?;
        if let Some(mut before) = BeforeAll::load(state, task)? {
            self.repositories.begin_attempt(&mut before)?;
            before.save(state, task)?;
        }
        let fields = WorkflowFields {
            task: Some(task.to_owned()),
            commit: commit.as_ref().map(ToString::to_string),
            reason: Some(for_person),
            ..none()
        };
        self.tell(WorkflowKind::TaskRejected, fields)?;
        Ok(Turn::Failed { item: task.to_owned(), feedback: for_agent })
    }

    /// Tells whether the plan has a rejection already, from a Ralph that died right after it.
    fn is_turned_down(&self, task: &str, reason: &str) -> Result<bool, WorkflowError> {
        let bytes = self.plan.read()?;
        let plan = Plan::parse(&bytes);
        let told = plan.task_view(task).is_some_and(|task| task.reject.as_deref() == Some(reason));
        let mut tombstones = plan.document().lines().iter().filter_map(Line::tombstone);
        Ok(told && tombstones.any(|found| found.id == task && found.reason == reason))
    }

    /// Takes a run whose work is what it changed in the plan.
    fn take_stage(&mut self, result: &RunResult, nothing: &str) -> Result<Turn, WorkflowError> {
        let changed = self.has_changed_plan(result.role)?;
        if result.role == Role::Verifier && changed {
            self.prioritize()?;
        }
        self.commit_plan()?;
        match &result.outcome {
            RunOutcome::Completed if changed => Ok(Turn::Again),
            RunOutcome::Completed => {
                Ok(Turn::Failed { item: result.item.clone(), feedback: nothing.to_owned() })
            }
            outcome => Ok(Turn::Failed { item: result.item.clone(), feedback: told(outcome) }),
        }
    }

    fn take_decomposition(&mut self, result: &RunResult) -> Result<Turn, WorkflowError> {
        let bytes = self.plan.read()?;
        let plan = Plan::parse(&bytes);
        let task = result.item.trim_end_matches("-decompose");
        let is_there = plan.task_view(task).is_some();
        if is_there && parts_of(&plan, task) >= FEWEST_PARTS {
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

    /// Tells whether the run has brought the plan forward, also for a Ralph that was not there.
    fn has_changed_plan(&self, role: Role) -> Result<bool, WorkflowError> {
        let changes = &super::channel::locked(&self.assignment).changes;
        if changes.is_empty() {
            return Ok(self.plan.is_uncommitted()?);
        }
        // A verifier that only finds something to say has not done what it was asked.
        Ok(role != Role::Verifier
            || changes.iter().any(|change| {
                matches!(change, Change::TasksAccepted { .. } | Change::TaskRejected { .. })
            }))
    }

    /// Returns to the branches that a run began on, with the work that it did on others.
    fn bring_home(&mut self, before: &BeforeAll) -> Result<(), WorkflowError> {
        let works = self.repositories.work_of(before)?;
        self.back_to_branches(before)?;
        self.take_in(&works, None)
    }

    /// Takes work into the branches that its run began on.
    pub(super) fn take_in(
        &mut self,
        works: &[Work],
        task: Option<&str>,
    ) -> Result<(), WorkflowError> {
        for work in works {
            if let Some(reason) = self.repositories.take_in(work)? {
                let task = task.map(str::to_owned);
                let fields = WorkflowFields { task, reason: Some(reason), ..none() };
                self.tell(WorkflowKind::Note, fields)?;
            }
        }
        Ok(())
    }

    pub(super) fn back_to_branches(&mut self, before: &BeforeAll) -> Result<(), WorkflowError> {
        for problem in self.repositories.return_to_branches(&mut before.clone())? {
            let fields = WorkflowFields { reason: Some(problem), ..none() };
            self.tell(WorkflowKind::Note, fields)?;
        }
        Ok(())
    }

    pub(super) fn name_of(&self, task: &str) -> Result<String, WorkflowError> {
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

pub(super) fn told(outcome: &RunOutcome) -> String {
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
