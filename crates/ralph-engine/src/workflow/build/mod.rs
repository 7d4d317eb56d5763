//! The build loop: stage after stage, until the spec's plan is complete or a budget ends it.
//!
//! The plan file is the state; `ralph_model::plan` says which stage it is in and what is next. As in the pipeline, a
//! result that a dead Ralph left behind is taken first, by the code that takes one that has just come in.

pub mod channel;
mod claims;
mod judging;
mod kill_log;
mod opinion;
pub mod planning;
mod runs;
mod taking;

use std::sync::Arc;

use camino::Utf8Path;
use ralph_model::journal::{WorkflowFields, WorkflowKind};
use ralph_model::plan::{Change, Next, Plan, PlanError, Stage};
use ralph_model::policy::budget::BudgetExhausted;
use ralph_model::policy::limit::LimitWait;
use ralph_model::policy::trouble::TroubleStreak;
use ralph_model::prompt::{Prompts, RulesSource};
use ralph_model::run::{RunOutcome, Trouble};

use self::channel::SharedAssignment;
use self::kill_log::LogBases;
use super::WorkflowError;
use super::desk::{Desk, StepObserver};
use super::keeper::HomeKeeper;
use super::repositories::{BeforeAll, Repositories};
use crate::config::{Config, ConfigError};
use crate::gates::pin::PinnedGates;
use crate::gates::{GateContext, GateObserver};
use crate::git::commits::Signing;
use crate::plan_file::PlanFile;
use crate::run::RunResult;
use crate::wait::Waited;

/// How deep a task is broken into subtasks before it becomes an issue.
const DEEPEST: usize = 3;

/// How often the same may come round before it is a loop.
const ROUNDS_THAT_LOOP: u32 = 3;

/// Shows the build loop to whoever watches.
pub trait BuildObserver: StepObserver + GateObserver {}

impl<T: StepObserver + GateObserver> BuildObserver for T {}

/// The build loop of one home.
pub struct Build<'a, 'd, 'c> {
    pub desk: Desk<'d, 'c>,
    pub plan: Arc<PlanFile>,
    /// What the run under way was given; shared with its channel.
    pub assignment: SharedAssignment,
    pub keeper: HomeKeeper,
    pub repositories: Repositories,
    pub gate_context: GateContext<'a>,
    pub prompts: &'a Prompts,
    pub rules: Option<RulesSource<'a>>,
    pub home: &'a Utf8Path,
    /// A line of a final message that ends the loop, if there is one.
    pub promise: Option<&'a str>,
    pub signing: Signing,
    /// Reads the configuration again: a person may change gates between two runs.
    pub reload: &'a dyn Fn() -> Result<Config, ConfigError>,
    pub observer: &'a mut dyn BuildObserver,
}

/// How the loop ended.
#[derive(Clone, Debug, PartialEq)]
pub enum BuildEnd {
    Complete,
    /// There is no spec to build.
    NoPlan,
    /// An agent gave the promise that ends the loop; what the plan says of it.
    Promised {
        stage: Stage,
    },
    /// Round after round nothing changes.
    Looping {
        stage: Stage,
    },
    Stuck {
        trouble: Trouble,
    },
    Waiting {
        task: String,
        question: String,
    },
    Limited {
        agent: String,
        wait: LimitWait,
    },
    OutOfBudget(BudgetExhausted),
    Interrupted,
}

impl BuildEnd {
    /// Returns how the log names it.
    pub const fn name(&self) -> &'static str {
        match self {
            BuildEnd::Complete => "complete",
            BuildEnd::NoPlan => "no_plan",
            BuildEnd::Promised { .. } => "promised",
            BuildEnd::Looping { .. } => "looping",
            BuildEnd::Stuck { .. } => "stuck",
            BuildEnd::Waiting { .. } => "waiting",
            BuildEnd::Limited { .. } => "limited",
            BuildEnd::OutOfBudget(_) => "out_of_budget",
            BuildEnd::Interrupted => "interrupted",
        }
    }
}

/// What is known of the loop that is not on disk. Losing it costs time, never truth.
#[derive(Default)]
struct Round {
    iteration: u32,
    streak: TroubleStreak,
    failures: u32,
    /// What the last run for an item did wrong.
    feedback: Option<(String, String)>,
    /// What the last rounds looked like before they began.
    last: Option<(Stage, Vec<u8>)>,
    same: u32,
}

impl Round {
    /// Returns what the last run for an item did wrong, if it was the last run of all.
    fn feedback_for(&self, item: &str) -> Option<&str> {
        let (about, feedback) = self.feedback.as_ref()?;
        (about == item).then_some(feedback)
    }
}

/// What follows from one turn of the loop.
enum Turn {
    Again,
    /// A run for an item came to nothing.
    Failed {
        item: String,
        feedback: String,
    },
    Trouble(Trouble),
    End(BuildEnd),
}

impl Build<'_, '_, '_> {
    /// Goes from stage to stage.
    pub fn run(&mut self) -> Result<BuildEnd, WorkflowError> {
        self.keeper.prepare()?;
        self.forget_what_is_done()?;
        // Who builds what there is does not wait for the rest of it.
        self.forget_planning()?;
        let spec = self.spec()?;
        let fields = WorkflowFields {
            spec,
            boundary: Some(self.desk.boundary.as_str().to_owned()),
            ..none()
        };
        self.tell(WorkflowKind::BuildStart, fields)?;
        let mut round = Round::default();
        let end = self.go_round(&mut round)?;
        self.commit_plan()?;
        let fields = WorkflowFields {
            result: Some(end.name().to_owned()),
            iteration: Some(round.iteration),
            ..none()
        };
        self.tell(WorkflowKind::BuildResult, fields)?;
        Ok(end)
    }

    /// Forgets the claims and beginnings of tasks that are done, which a Ralph that died may have left: if one is
    /// rejected, it begins anew.
    fn forget_what_is_done(&self) -> Result<(), WorkflowError> {
        let bytes = self.plan.read()?;
        let state = self.desk.context.state;
        for task in Plan::parse(&bytes).done_tasks() {
            claims::forget(state, &task.id)?;
            BeforeAll::forget(state, &task.id)?;
        }
        Ok(())
    }

    fn go_round(&mut self, round: &mut Round) -> Result<BuildEnd, WorkflowError> {
        loop {
            let turn = match self.turn(round) {
                Ok(turn) => turn,
                Err(error) => taking::trouble_or_error(error)?,
            };
            let failures = match turn {
                Turn::End(end) => return Ok(end),
                Turn::Again => {
                    round.failures = 0;
                    // What becomes of a run is for the loop to say, not for how its process ended.
                    self.desk.spent.consecutive_failures = 0;
                    round.feedback = None;
                    continue;
                }
                Turn::Failed { item, feedback } => {
                    let reason = Some(feedback.clone());
                    self.tell(WorkflowKind::IterationResult, WorkflowFields { reason, ..none() })?;
                    round.feedback = Some((item, feedback));
                    round.failures += 1;
                    self.desk.spent.consecutive_failures = round.failures;
                    if let Some(what) = self.desk.exhausted()? {
                        return Ok(BuildEnd::OutOfBudget(what));
                    }
                    round.failures
                }
                Turn::Trouble(trouble) => {
                    // That nothing came of it is not the work's fault.
                    round.last = None;
                    round.streak.apply(&RunOutcome::Trouble { trouble: trouble.clone() });
                    let reason = Some(trouble.to_string());
                    self.tell(WorkflowKind::Trouble, WorkflowFields { reason, ..none() })?;
                    if round.streak.stops().is_some() {
                        return Ok(BuildEnd::Stuck { trouble });
                    }
                    round.streak.length()
                }
            };
            if self.desk.pause(failures, none(), &mut *self.observer)? == Waited::Interrupted {
                return Ok(BuildEnd::Interrupted);
            }
        }
    }

    /// Takes a result that is there, or else does what is next.
    fn turn(&mut self, round: &mut Round) -> Result<Turn, WorkflowError> {
        let bytes = self.plan.read()?;
        let plan = Plan::parse(&bytes);
        if let Some(problem) = plan.document().broken().next() {
            let path = self.plan.path().to_owned();
            return Err(WorkflowError::StateFile { path, reason: problem.to_string() });
        }
        let next = plan.next();
        let item = item_of(&next);
        if let Some(result) = self.pending(&item)? {
            return self.take(round, &result);
        }
        let stage = plan.stage();
        if matches!(next, Next::Plan) {
            return Ok(Turn::End(BuildEnd::NoPlan));
        }
        if matches!(next, Next::Complete) {
            return Ok(Turn::End(BuildEnd::Complete));
        }
        if self.loops(round, stage, &bytes)? {
            return Ok(Turn::End(BuildEnd::Looping { stage }));
        }
        if let Some(what) = self.desk.exhausted()? {
            return Ok(Turn::End(BuildEnd::OutOfBudget(what)));
        }
        round.iteration += 1;
        let task = match &next {
            Next::Build(task) | Next::Decompose(task) => Some(task.id.to_string()),
            _ => None,
        };
        let fields = WorkflowFields {
            stage: Some(stage),
            task: task.clone(),
            iteration: Some(round.iteration),
            spec: plan.spec().map(str::to_owned),
            reason: match &next {
                Next::Build(task) | Next::Decompose(task) => Some(task.name.to_string()),
                _ => None,
            },
            ..none()
        };
        self.tell(WorkflowKind::IterationStart, fields)?;
        match next {
            Next::Build(task) => self.build(round, &plan, &task),
            Next::Verify(_) => self.verify(round, &plan),
            Next::Investigate(issues) => self.investigate(round, &plan, &issues),
            Next::Decompose(task) => self.decompose(round, &plan, &task),
            Next::Plan | Next::Complete => unreachable!("they have ended the loop above"),
        }
    }

    /// Tells whether the same came round too often.
    fn loops(&self, round: &mut Round, stage: Stage, bytes: &[u8]) -> Result<bool, WorkflowError> {
        let print = [bytes, self.repositories.print()?.as_bytes()].concat();
        let now = Some((stage, print));
        round.same = if round.last == now { round.same + 1 } else { 0 };
        round.last = now;
        Ok(round.same >= ROUNDS_THAT_LOOP)
    }

    /// Returns the result of the last run, if it was for this item and nobody has taken it.
    fn pending(&mut self, item: &str) -> Result<Option<RunResult>, WorkflowError> {
        let state = self.desk.context.state;
        let Some(result) = RunResult::pending(state, item)? else { return Ok(None) };
        let last = self.desk.overview.last_run();
        if last.is_none_or(|last| last.id != result.run) {
            RunResult::taken(state, item)?;
            return Ok(None);
        }
        self.desk.remember_end(&result)?;
        Ok(Some(result))
    }

    /// Changes the plan and commits it with everything that the run changed before.
    fn settle(
        &mut self,
        change: impl FnOnce(&mut Plan<'_>) -> Result<Change, PlanError>,
    ) -> Result<(), WorkflowError> {
        self.plan.change(change)?;
        self.commit_plan()
    }

    /// Commits what was changed in the plan since the last commit, and the rest of home.
    fn commit_plan(&mut self) -> Result<(), WorkflowError> {
        channel::locked(&self.assignment).changes.clear();
        self.plan.commit()?;
        if let Err(problem) = self.keeper.commit("ralph: update home") {
            let reason = Some(format!("Ralph's files are not committed: {problem}"));
            self.tell(WorkflowKind::Note, WorkflowFields { reason, ..none() })?;
        }
        Ok(())
    }

    /// Returns the gates of a task as they were pinned; a person's change since then is taken up and said.
    fn pin(&mut self, item: &str) -> Result<PinnedGates, WorkflowError> {
        let fields = WorkflowFields { task: Some(item.to_owned()), ..none() };
        self.desk.pin(item, self.reload, fields, &mut *self.observer)
    }

    fn log_bases(&self) -> LogBases<'_> {
        LogBases {
            workspace: self.desk.context.workspace,
            home: self.home,
            private: self.desk.context.state.directory(),
        }
    }

    fn spec(&self) -> Result<Option<String>, WorkflowError> {
        let bytes = self.plan.read()?;
        Ok(Plan::parse(&bytes).spec().map(str::to_owned))
    }

    fn tell(&mut self, kind: WorkflowKind, fields: WorkflowFields) -> Result<(), WorkflowError> {
        Ok(self.desk.tell(kind, fields, &mut *self.observer)?)
    }
}

/// What the run of a step is for.
fn item_of(next: &Next<'_>) -> String {
    match next {
        Next::Build(task) => task.id.to_string(),
        Next::Decompose(task) => format!("{}-decompose", task.id),
        Next::Verify(_) => "verify".to_owned(),
        Next::Investigate(_) => "investigate".to_owned(),
        Next::Plan | Next::Complete => "plan".to_owned(),
    }
}

fn none() -> WorkflowFields {
    WorkflowFields::default()
}
