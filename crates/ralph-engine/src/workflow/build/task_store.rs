//! A task's markers on disk: its line in the plan, and its record in private state. Facts become writes here.

use ralph_model::build::{
    Acceptance, Rejection, TaskClaim, TaskFact, TaskInPlan, TaskMarkers, TaskRecord, TaskState,
    TaskWrite, Work, heal, settle,
};
use ralph_model::journal::{Note, TaskDone, TaskKilled, TaskRejected};
use ralph_model::pipeline::records::Base;
use ralph_model::plan::{Change, DoneAt, Kill, Line, Plan, PlanError};
use ralph_model::role::Role;

use super::Build;
use crate::config::Limits;
use crate::files::PathError;
use crate::gates::pin::PinnedGates;
use crate::plan_file::PlanFileError;
use crate::state::{Entry, State};
use crate::workflow::WorkflowError;
use crate::workflow::driver::forget_troubles;
use crate::workflow::isolation::landing::{
    LandingEnd, LandingRequest, MOST_REFUSED, landed_before, stuck_question, take_in,
};
use crate::workflow::merge_review::ASKED_FIRST;
use crate::workflow::repositories::BEFORE;
use crate::workflow::{equal_claims, review};

pub(super) const TASKS: Entry<TaskRecord> =
    Entry::new("tasks", "what is known of the task is what the plan says");

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

/// Whether all that a fact comes to was written.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Settled {
    Whole,
    /// Accepted work does not fit what the branch has become, and goes back.
    Refused {
        why: String,
    },
    /// It was refused too often: a person decides.
    Stuck {
        question: String,
    },
    /// What it was merged with is to be judged, too.
    Unsettled,
}

/// What a list of writes that a crash had cut short was about.
pub(super) enum Healed {
    Accepted,
    Rejected {
        for_agent: String,
    },
    /// Accepted work is to be judged once more.
    Unsettled,
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
        Ok(TaskState::of(&self.markers(task)?, self.most_rejections(task)?))
    }

    fn most_rejections(&self, task: &str) -> Result<u32, PathError> {
        let context = &self.session.context;
        let Limits { repeats, rejections, .. } = context.config.limits;
        equal_claims::most_rejections(&context.state, task, repeats, rejections)
    }

    /// Returns why nothing has to change, if that is what a task's builder claims and no verifier has looked at it.
    pub(super) fn no_change_claim(
        &self,
        plan: &Plan<'_>,
        task: &str,
    ) -> Result<Option<String>, WorkflowError> {
        Ok(match TaskState::of(&self.markers_in(plan, task)?, self.most_rejections(task)?) {
            TaskState::NoChange { reason } => Some(reason),
            _ => None,
        })
    }

    /// Tells whether work on a task waits for a verifier's word.
    pub(super) fn is_waiting_for_review(
        &self,
        plan: &Plan<'_>,
        task: &str,
    ) -> Result<bool, WorkflowError> {
        match TaskState::of(&self.markers_in(plan, task)?, self.most_rejections(task)?) {
            TaskState::Undecided { works } => self.is_review_wanted(task, &works),
            _ => Ok(false),
        }
    }

    /// Writes what a fact comes to, and commits the plan. Work that cannot land goes back.
    pub(super) fn settle(&mut self, task: &str, fact: &TaskFact) -> Result<Settled, WorkflowError> {
        let writes = settle(&self.markers(task)?, fact, self.most_rejections(task)?)?;
        self.write(task, &writes)
    }

    /// Completes the writes of a verdict that a crash cut short.
    pub(super) fn heal(&mut self, task: &str) -> Result<Option<Healed>, WorkflowError> {
        let markers = self.markers(task)?;
        let writes = heal(&markers);
        let mut healed = match &markers.record.claim {
            TaskClaim::Accepted { .. } => Healed::Accepted,
            TaskClaim::Rejected { rejection, .. } => {
                Healed::Rejected { for_agent: rejection.for_agent.clone() }
            }
            _ => return Ok(None),
        };
        // What is stuck is judged once more, and then a person is asked.
        match self.write(task, &writes)? {
            Settled::Whole => {}
            Settled::Unsettled => healed = Healed::Unsettled,
            Settled::Refused { why } | Settled::Stuck { question: why } => {
                healed = Healed::Rejected { for_agent: why };
            }
        }
        Ok(Some(healed))
    }

    fn write(&mut self, task: &str, writes: &[TaskWrite]) -> Result<Settled, WorkflowError> {
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
                // Done with the plan that says so: a task is not done whose work is not there.
                TaskWrite::AdvanceBranches { .. } => {}
                TaskWrite::PlanDone { acceptance } => match self.plan_done(task, acceptance)? {
                    LandingEnd::Refused { why, tips } => {
                        return self.landing_refused(task, acceptance, why, &tips);
                    }
                    LandingEnd::Unsettled { .. } => {
                        let question = ASKED_FIRST.to_owned();
                        self.settle(task, &TaskFact::LandingUnsettled { question })?;
                        return Ok(Settled::Unsettled);
                    }
                    LandingEnd::Landed { .. } | LandingEnd::Nothing => {}
                },
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
                    equal_claims::forget(state, task)?;
                    self.project.leave_for_good(self.session, task)?;
                }
            }
        }
        Ok(Settled::Whole)
    }

    /// Sends accepted work back that the branch has moved away from; after the third time in a row a person is asked.
    fn landing_refused(
        &mut self,
        task: &str,
        acceptance: &Acceptance,
        why: String,
        tips: &Base,
    ) -> Result<Settled, WorkflowError> {
        let refused = self.markers(task)?.record.landings_refused;
        let fact = if refused + 1 >= MOST_REFUSED {
            let commit = acceptance.done_at.as_ref().map(ToString::to_string);
            let question = stuck_question(commit.as_deref(), &why);
            TaskFact::LandingStuck { question }
        } else {
            TaskFact::LandingRefused { why: why.clone() }
        };
        let reason = format!("the work could not land: {}", why.lines().next().unwrap_or_default());
        self.tell(Note { spec: None, task: Some(task.to_owned()), reason })?;
        self.settle(task, &fact)?;
        if let TaskFact::LandingStuck { question } = fact {
            return Ok(Settled::Stuck { question });
        }
        self.project.go_on_from(self.session, task, tips)?;
        Ok(Settled::Refused { why })
    }

    /// Puts accepted work on the run's branch, in one commit with the plan that says so.
    fn land(
        &mut self,
        task: &str,
        acceptance: &Acceptance,
        done_at: &DoneAt,
    ) -> Result<LandingEnd, WorkflowError> {
        let bytes = self.plan.read()?;
        let mut plan = Plan::parse(&bytes);
        // A person's decision on the task takes precedence: its work is kept, and does not land.
        let Ok(change) = plan.done(task, done_at) else { return Ok(LandingEnd::Nothing) };
        let plan = vec![(self.plan.path().to_owned(), plan.render())];
        let works = &acceptance.works;
        let Some(before) = self.project.before_landing(self.session, task, works)? else {
            return Ok(LandingEnd::Landed { level: landed_before(acceptance) });
        };
        let asked = review::asked_gates(&self.session.context.state, task, works)?;
        let base = self.project.slot_base(self.session, task)?.unwrap_or_else(|| before.base());
        let pinned = self.pin(task)?;
        let message = change.message().unwrap_or_else(|| format!("ralph: {task} is done"));
        let request = LandingRequest {
            item: task,
            works: &acceptance.works,
            base: &base,
            before: &before,
            pinned: &pinned,
            level: acceptance.level,
            asked: &asked,
            after: None,
            is_persons_word: false,
            files: &|_| Ok(plan.clone()),
            with: &[],
            given: &[],
            marks: None,
            message: &message,
            worker: Role::Builder,
        };
        self.project.land(self.session, &request)
    }

    fn plan_done(
        &mut self,
        task: &str,
        acceptance: &Acceptance,
    ) -> Result<LandingEnd, WorkflowError> {
        let bytes = self.plan.read()?;
        let plan = Plan::parse(&bytes);
        let view = plan.task_view(task);
        let origins = view.iter().flat_map(|view| view.parent.iter().chain(&view.created_from));
        let origins: Vec<String> = origins.map(ToString::to_string).collect();
        let done_at = acceptance.done_at.clone().map_or(DoneAt::Unborn, DoneAt::Commit);
        let landing = if acceptance.works.is_empty() {
            LandingEnd::Nothing
        } else if self.project.is_in_place() {
            take_in(&self.project.repositories, acceptance)?
        } else {
            self.land(task, acceptance, &done_at)?
        };
        if matches!(landing, LandingEnd::Refused { .. } | LandingEnd::Unsettled { .. }) {
            return Ok(landing);
        }
        // A home that is not committed is not part of what landed.
        let is_changed = self.change_plan(|plan| plan.done(task, &done_at))?;
        if !is_changed && self.project.is_in_place() {
            return Ok(LandingEnd::Nothing);
        }
        // The gates have passed: what comes of the same task after this one begins here.
        for origin in &origins {
            BEFORE.forget(&self.session.context.state, origin)?;
        }
        // If a person decided that nothing had to change, that was reported then.
        if let LandingEnd::Landed { level } = landing {
            self.tell(TaskDone {
                task: task.to_owned(),
                commit: acceptance.done_at.as_ref().map(ToString::to_string),
                level: Some(level),
            })?;
        }
        Ok(landing)
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
        let commit = commit.as_ref().map(ToString::to_string);
        self.tell(TaskRejected { task: task.to_owned(), commit, reason: for_person.clone() })
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
        self.tell(TaskKilled { task: task.to_owned(), reason: kill.name().to_owned() })
    }

    /// Changes the plan and commits it. Returns `false` if a person has taken the task off the pending list since it
    /// was read: their decision takes precedence.
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

    /// Takes unfinished work into the branches that its run began on, where they can have it.
    pub(super) fn take_in(&mut self, works: &[Work]) -> Result<(), WorkflowError> {
        for work in works {
            if let Some(reason) = self.project.repositories.take_in(work)? {
                self.tell(Note { spec: None, task: None, reason })?;
            }
        }
        Ok(())
    }
}
