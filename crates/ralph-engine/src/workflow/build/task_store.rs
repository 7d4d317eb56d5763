//! A task's markers on disk: its line in the plan, and its record in private state. Facts become writes here.

use ralph_model::build::{
    Acceptance, Rejection, TaskClaim, TaskFact, TaskInPlan, TaskMarkers, TaskRecord, TaskState,
    TaskWrite, Work, heal, settle,
};
use ralph_model::journal::{WorkflowFields, WorkflowKind};
use ralph_model::plan::{Change, DoneAt, Kill, Line, Plan, PlanError};

use super::{Build, none};
use crate::files::PathError;
use crate::gates::pin::PinnedGates;
use crate::plan_file::PlanFileError;
use crate::state::{Entry, State};
use crate::workflow::WorkflowError;
use crate::workflow::driver::forget_troubles;
use crate::workflow::repositories::BEFORE;

pub(super) const TASKS: Entry<TaskRecord> = Entry::new("tasks");

/// Reads everything that is on disk about a task of this plan.
pub(super) fn markers(
    state: &State,
    plan: &Plan<'_>,
    task: &str,
) -> Result<TaskMarkers, PathError> {
    let found = plan.pending().into_iter().find(|pending| pending.id == task);
    let in_plan = match found {
        None => TaskInPlan::NotPending,
        Some(found) => {
            let tombstones = plan.document().lines().iter().filter_map(Line::tombstone);
            let rejections = tombstones
                .filter(|tombstone| tombstone.id == task)
                .map(|tombstone| tombstone.reason.to_string())
                .collect();
            TaskInPlan::Pending { killed: found.kill.is_some(), rejections }
        }
    };
    let record = TASKS.load(state, task)?.unwrap_or_default();
    Ok(TaskMarkers { in_plan, record })
}

/// What a list of writes that a crash had cut short was about.
pub(super) enum Healed {
    Accepted,
    Rejected { for_agent: String },
}

impl Build<'_, '_> {
    pub(super) fn markers_in(
        &self,
        plan: &Plan<'_>,
        task: &str,
    ) -> Result<TaskMarkers, WorkflowError> {
        Ok(markers(&self.session.context.state, plan, task)?)
    }

    pub(super) fn markers(&self, task: &str) -> Result<TaskMarkers, WorkflowError> {
        let bytes = self.plan.read()?;
        self.markers_in(&Plan::parse(&bytes), task)
    }

    pub(super) fn state_of(&self, task: &str) -> Result<TaskState, WorkflowError> {
        Ok(TaskState::of(&self.markers(task)?, self.most_rejections()))
    }

    fn most_rejections(&self) -> u32 {
        self.session.context.config.limits.rejections
    }

    /// Returns why nothing has to change, if that is what a task's builder claims and no verifier has looked at it.
    pub(super) fn no_change_claim(
        &self,
        plan: &Plan<'_>,
        task: &str,
    ) -> Result<Option<String>, WorkflowError> {
        Ok(match TaskState::of(&self.markers_in(plan, task)?, self.most_rejections()) {
            TaskState::NoChange { reason } => Some(reason),
            _ => None,
        })
    }

    /// Writes what a fact comes to, and commits the plan.
    pub(super) fn settle(&mut self, task: &str, fact: &TaskFact) -> Result<(), WorkflowError> {
        let writes = settle(&self.markers(task)?, fact, self.most_rejections())?;
        self.write(task, &writes)
    }

    /// Completes the writes of a verdict that a crash cut short.
    pub(super) fn heal(&mut self, task: &str) -> Result<Option<Healed>, WorkflowError> {
        let markers = self.markers(task)?;
        let writes = heal(&markers);
        let healed = match &markers.record.claim {
            TaskClaim::Accepted { .. } => Healed::Accepted,
            TaskClaim::Rejected { rejection, .. } => {
                Healed::Rejected { for_agent: rejection.for_agent.clone() }
            }
            _ => return Ok(None),
        };
        self.write(task, &writes)?;
        Ok(Some(healed))
    }

    fn write(&mut self, task: &str, writes: &[TaskWrite]) -> Result<(), WorkflowError> {
        for write in writes {
            match write {
                TaskWrite::Record(record) => {
                    let state = &self.session.context.state;
                    if **record == TaskRecord::default() {
                        TASKS.forget(state, task)?;
                    } else {
                        TASKS.save(state, task, record)?;
                    }
                }
                TaskWrite::AdvanceBranches { works } => self.take_in(works, Some(task))?,
                TaskWrite::PlanDone { acceptance } => self.plan_done(task, acceptance)?,
                TaskWrite::PlanReject { rejection } => self.plan_reject(task, rejection)?,
                TaskWrite::PlanKill { kill, log } => self.plan_kill(task, *kill, log.as_deref())?,
                TaskWrite::BeginAttempt => {
                    self.project.repositories.begin_attempt(&self.session.context.state, task)?;
                }
                TaskWrite::ForgetBeginning => {
                    let state = &self.session.context.state;
                    PinnedGates::forget(state, task)?;
                    BEFORE.forget(state, task)?;
                    forget_troubles(state, task)?;
                }
            }
        }
        Ok(())
    }

    fn plan_done(&mut self, task: &str, acceptance: &Acceptance) -> Result<(), WorkflowError> {
        let bytes = self.plan.read()?;
        let plan = Plan::parse(&bytes);
        let view = plan.task_view(task);
        let origins = view.iter().flat_map(|view| view.parent.iter().chain(&view.created_from));
        let origins: Vec<String> = origins.map(ToString::to_string).collect();
        let done_at = acceptance.done_at.clone().map_or(DoneAt::Unborn, DoneAt::Commit);
        if !self.change_plan(|plan| plan.done(task, &done_at))? {
            return Ok(());
        }
        // The gates have passed: what comes of the same task after this one begins here.
        for origin in &origins {
            BEFORE.forget(&self.session.context.state, origin)?;
        }
        let fields = WorkflowFields {
            task: Some(task.to_owned()),
            commit: acceptance.done_at.as_ref().map(ToString::to_string),
            proven_by_gates: Some(acceptance.proven_by_gates),
            ..none()
        };
        // A person decided that nothing had to change: that was told when they did.
        if acceptance.works.is_empty() {
            return Ok(());
        }
        self.tell(WorkflowKind::TaskDone, fields)
    }

    fn plan_reject(&mut self, task: &str, rejection: &Rejection) -> Result<(), WorkflowError> {
        let Rejection { commit, for_agent, for_person } = rejection;
        let done_at = commit.clone().map_or(DoneAt::Unborn, DoneAt::Commit);
        let changed = self.change_plan(|plan| {
            plan.done(task, &done_at)?;
            plan.reject(task, for_agent)
        })?;
        if !changed {
            return Ok(());
        }
        let fields = WorkflowFields {
            task: Some(task.to_owned()),
            commit: commit.as_ref().map(ToString::to_string),
            reason: Some(for_person.clone()),
            ..none()
        };
        self.tell(WorkflowKind::TaskRejected, fields)
    }

    fn plan_kill(
        &mut self,
        task: &str,
        kill: Kill,
        log: Option<&str>,
    ) -> Result<(), WorkflowError> {
        if !self.change_plan(|plan| plan.kill(task, kill, log))? {
            return Ok(());
        }
        let fields = WorkflowFields {
            task: Some(task.to_owned()),
            reason: Some(kill.name().to_owned()),
            ..none()
        };
        self.tell(WorkflowKind::TaskKilled, fields)
    }

    /// Changes the plan and commits it. Returns `false` where a person has taken the task from the pending ones since it
    /// was looked at: their word stands.
    pub(super) fn change_plan(
        &mut self,
        change: impl FnOnce(&mut Plan<'_>) -> Result<Change, PlanError>,
    ) -> Result<bool, WorkflowError> {
        match self.plan.change(change) {
            Ok(_) => {
                self.commit_plan()?;
                Ok(true)
            }
            Err(PlanFileError::Plan(
                PlanError::NotPending { .. } | PlanError::UnknownTask { .. },
            )) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes work into the branches that its run began on.
    pub(super) fn take_in(
        &mut self,
        works: &[Work],
        task: Option<&str>,
    ) -> Result<(), WorkflowError> {
        for work in works {
            if let Some(reason) = self.project.repositories.take_in(work)? {
                let task = task.map(str::to_owned);
                let fields = WorkflowFields { task, reason: Some(reason), ..none() };
                self.tell(WorkflowKind::Note, fields)?;
            }
        }
        Ok(())
    }
}
