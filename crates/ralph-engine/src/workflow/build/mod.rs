//! The build loop: stage after stage, until the spec's plan is complete or a bound ends it.
//!
//! The plan file says which stage the work is in and what is next; [`task_store`] keeps how far the judgement of each
//! task has come. [`stages`] makes the task of an agent for each stage, [`conclude`] draws the conclusions of its run,
//! [`judging`] has the judge decide on a claim, and [`questions`] settles what needs a person. [`channel`] applies what
//! agents ask for while they run, and [`made`] notes what came of issues; [`planning`] turns a spec into tasks, and
//! [`nothing_missing`] settles the claim that there are none.

pub(crate) mod channel;
mod conclude;
mod gain;
mod judging;
mod kill_log;
mod made;
mod nothing_missing;
pub mod planning;
mod questions;
mod stages;
mod task_store;

use std::sync::Arc;

use camino::Utf8Path;
use ralph_model::build::{TaskInPlan, TaskState};
use ralph_model::checks::allow_lines;
use ralph_model::journal::{
    BuildResult, BuildStart, IterationResult, IterationStart, JournalEvent, StepResult,
};
use ralph_model::plan::{Next, Plan, Stage, Status, TaskId};
use ralph_model::role::Role;

use self::channel::{PlanChannel, SharedProbe};
use self::kill_log::LogBases;
use self::questions::OPINION;
use self::task_store::TASKS;
use super::WorkflowError;
use super::driver::{Ended, Subject, Turn, Void, Workflow, WorkflowStep, drive, forget_troubles};
use super::project::Project;
use super::repositories::BEFORE;
use super::review::{MeasuredWork, REVIEW};
use crate::files::read_optional;
use crate::gates::pin::PinnedGates;
use crate::git::commits::Signing;
use crate::plan_file::{PLAN_FILE, PlanFile};
use crate::run::{RESULTS, RunReport, RunResult};
use crate::session::Session;
use crate::specs::SPECS;

/// The name of the workflow in the results of its runs.
const WORKFLOW: &str = "build";

/// How deep a task is broken into subtasks before it becomes an issue.
const DEEPEST: usize = 3;

/// How often the same may come round before it is a loop.
const ROUNDS_THAT_LOOP: u32 = 3;

/// The build loop of one home.
pub struct Build<'r, 's> {
    session: &'r mut Session<'s>,
    project: &'r mut Project,
    plan: Arc<PlanFile>,
    /// Tells whether the run under way has changed anything; shared with its channel.
    probe: SharedProbe,
    signing: Signing,
    /// A line of a final message that ends the loop, if there is one.
    promise: Option<String>,
    round: Round,
    /// Of work that waits for a verifier's word.
    measured: MeasuredWork,
}

/// How the loop ended by itself.
#[derive(Clone, Debug, PartialEq)]
pub enum BuildEnd {
    Complete,
    /// There is no spec to build.
    NoPlan,
    /// An agent gave the promise that ends the loop, in this stage of the plan.
    Promised {
        stage: Stage,
    },
    /// Round after round nothing changes.
    Looping {
        stage: Stage,
    },
    /// Work continues, but the remaining work does not decrease.
    NoGain {
        rounds: u32,
        open: usize,
    },
}

impl BuildEnd {
    /// Returns how the log names it.
    pub const fn name(&self) -> &'static str {
        match self {
            BuildEnd::Complete => "complete",
            BuildEnd::NoPlan => "no_plan",
            BuildEnd::Promised { .. } => "promised",
            BuildEnd::Looping { .. } => "looping",
            BuildEnd::NoGain { .. } => "no_gain",
        }
    }
}

/// What is known of the loop that is not on disk. Losing it costs time, never truth.
#[derive(Default)]
struct Round {
    iteration: u32,
    /// What the next step is for.
    item: Option<String>,
    /// The step under way, until its result is concluded.
    step: Option<IterationResult>,
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

impl<'r, 's> Build<'r, 's> {
    /// Prepares the loop. Agents of the session change this plan from now on.
    pub fn new(
        session: &'r mut Session<'s>,
        project: &'r mut Project,
        plan: Arc<PlanFile>,
        promise: Option<String>,
    ) -> Build<'r, 's> {
        let probe = SharedProbe::default();
        let config = &session.context.config;
        let most_rejections = config.limits.rejections;
        let signing = Signing::allowed(config.git.sign);
        session.store = Box::new(PlanChannel {
            plan: Arc::clone(&plan),
            state: session.context.state.clone(),
            probe: Arc::clone(&probe),
            most_rejections,
        });
        let (round, measured) = (Round::default(), MeasuredWork::default());
        Build { session, project, plan, probe, signing, promise, round, measured }
    }

    /// Counts planning's runs no longer: a number of runs is about what comes after it.
    pub fn forget_planning_runs(&mut self) {
        let spent = &mut self.session.spent;
        (spent.iterations, spent.attempts, spent.consecutive_failures) = (0, 0, 0);
    }

    /// Forgets the troubles and the rejections of all pending tasks, and rounds without a gain: a person has it tried
    /// again.
    pub fn renew(&mut self) -> Result<(), WorkflowError> {
        self.forget_rounds()?;
        let bytes = self.plan.read()?;
        for task in Plan::parse(&bytes).pending() {
            forget_troubles(&self.session.context.state, &task.id)?;
            self.retry_if_exhausted(&task.id)?;
        }
        for stage in ["verify", "investigate", "plan"] {
            forget_troubles(&self.session.context.state, stage)?;
        }
        Ok(())
    }

    /// Goes from stage to stage.
    pub fn run(&mut self) -> Result<Ended<BuildEnd>, WorkflowError> {
        self.project.committer.prepare()?;
        self.return_after_kill()?;
        self.forget_what_is_done()?;
        self.begin_rounds()?;
        // Building what there is does not wait for the rest of the plan.
        self.forget_planning()?;
        let (spec, boundary) = (self.spec()?, self.session.context.boundary.told());
        self.tell(BuildStart { spec, boundary })?;
        let ended = drive(self)?;
        self.commit_plan()?;
        self.commit_spec()?;
        self.project.follow_at_end(self.session)?;
        self.end_rounds()?;
        let result = match &ended {
            Ended::By(end) => end.name(),
            Ended::Stopped(stop) => stop.name(),
        };
        let iteration = Some(self.round.iteration);
        self.tell(BuildResult { result: result.to_owned(), iteration })?;
        self.session.ending = Some(result);
        Ok(ended)
    }

    /// Returns to the branches that the last builder began on, if its Ralph died in the middle of the run. Where the run was
    /// over its result is concluded first, and returns.
    fn return_after_kill(&mut self) -> Result<(), WorkflowError> {
        if RESULTS.all(&self.session.context.state)?.is_empty() {
            self.project.is_where_work_began(self.session, ralph_model::role::Role::Builder)?;
        }
        Ok(())
    }

    /// Removes the records and beginnings of tasks that are done or gone, which a killed Ralph may have left: a
    /// rejected one starts over.
    fn forget_what_is_done(&mut self) -> Result<(), WorkflowError> {
        let bytes = self.plan.read()?;
        let plan = Plan::parse(&bytes);
        let state = &self.session.context.state;
        made::forget_closed(state, &plan)?;
        for task in plan.done_tasks() {
            BEFORE.forget(state, &task.id)?;
        }
        let results = RESULTS.all(state)?;
        let unfinished = plan.unfinished();
        let kept = unfinished.iter().map(|task| &*task.id);
        // A result that is not concluded yet needs the record that says whether it is settled.
        let kept = kept.chain(results.iter().map(|result| result.item.as_str()));
        TASKS.retain(state, kept)?;
        // A question about a task that a person deleted or marked as done is withdrawn.
        let board = self.session.journal.board();
        let open = board.open_questions().map(|question| question.item.clone());
        let is_settled = |item: &String| {
            item.parse::<TaskId>().is_ok()
                && !unfinished.iter().any(|task| task.id == *item && task.status != Status::Done)
        };
        let settled: Vec<String> = open.filter(is_settled).collect();
        for item in settled {
            self.session.questions().withdraw(&item)?;
        }
        Ok(())
    }

    /// Commits what was changed in the plan since the last commit, and the rest of home; in clones also to the branch.
    fn commit_plan(&mut self) -> Result<(), WorkflowError> {
        if self.project.is_in_place() {
            // A builder whose result is not concluded yet, as after Ctrl-C, may have left another branch behind: the plan
            // belongs on the one that it began on.
            for result in RESULTS.all(&self.session.context.state)? {
                if result.role == Role::Builder {
                    self.project.return_to_branches(self.session, &result.item)?;
                }
            }
        }
        self.plan.commit()?;
        self.project.commit_home(self.session, "ralph: update home", None)?;
        self.project.publish_each(self.session)
    }

    /// Commits the spec that is built, where the person had not: the plan that is on the branch names it.
    fn commit_spec(&mut self) -> Result<(), WorkflowError> {
        let Some(spec) = self.spec()? else { return Ok(()) };
        let file = Utf8Path::new(SPECS).join(&spec);
        self.project.publish(self.session, &format!("ralph: spec {spec}"), &[&file])
    }

    /// Has a run that only reads work at the tip of the branch, with nothing of an earlier one.
    fn enter_anew(&mut self, item: &str) -> Result<(), WorkflowError> {
        self.project.leave(self.session, item)?;
        self.project.enter(self.session, item)
    }

    /// Returns the gates of a task as they were pinned; a person's change since then is taken up and recorded.
    fn pin(&mut self, item: &str) -> Result<PinnedGates, WorkflowError> {
        let subject = Subject { item: Some(item.to_owned()), ..Subject::default() };
        let mut pinned = self.session.pin(item, subject)?;
        let bytes = self.plan.read()?;
        let plan = Plan::parse(&bytes);
        if plan.spec().is_some() {
            pinned.allow.extend(allow_lines(&self.source(&plan)?.text));
        }
        Ok(pinned)
    }

    fn log_bases(&self) -> LogBases<'_> {
        let context = &self.session.context;
        LogBases {
            workspace: &context.workspace.root,
            home: context.home_path(),
            private: context.state.directory(),
        }
    }

    fn spec(&self) -> Result<Option<String>, WorkflowError> {
        let bytes = self.plan.read()?;
        Ok(Plan::parse(&bytes).spec().map(str::to_owned))
    }

    fn tell(&mut self, event: impl Into<JournalEvent>) -> Result<(), WorkflowError> {
        Ok(self.session.record(event)?)
    }

    /// Records the result of the current step, once.
    fn end_step(
        &mut self,
        result: StepResult,
        reason: Option<String>,
    ) -> Result<(), WorkflowError> {
        let Some(step) = self.round.step.take() else { return Ok(()) };
        self.tell(IterationResult { result, reason, ..step })
    }

    /// Returns what tells one state of plan and work from another.
    fn print(&self, plan: &[u8]) -> Result<Vec<u8>, WorkflowError> {
        Ok([plan, self.project.repositories.print()?.as_bytes()].concat())
    }

    /// Tells whether the same came round too often.
    fn loops(&mut self, stage: Stage, bytes: &[u8]) -> Result<bool, WorkflowError> {
        let now = Some((stage, self.print(bytes)?));
        let round = &mut self.round;
        round.same = if round.last == now { round.same + 1 } else { 0 };
        round.last = now;
        Ok(round.same >= ROUNDS_THAT_LOOP)
    }

    /// Records what a run for an item did wrong, as feedback for the next.
    fn fail(&mut self, item: &str, feedback: String) -> Result<Turn<BuildEnd>, WorkflowError> {
        // Without a step under way a verdict was completed that a crash had cut short.
        self.round.step.get_or_insert_with(|| IterationResult {
            item: Some(item.to_owned()),
            ..IterationResult::default()
        });
        self.end_step(StepResult::Failed, Some(feedback.clone()))?;
        self.round.feedback = Some((item.to_owned(), feedback));
        Ok(Turn::Failed)
    }
}

/// Refuses to have agents work on a plan that no change could be made to.
fn refuse_unworkable(path: &Utf8Path, plan: &Plan<'_>) -> Result<(), WorkflowError> {
    match plan.document().broken().chain(plan.obstacles()).next() {
        Some(problem) => {
            let (path, reason) = (path.to_owned(), problem.to_string());
            Err(WorkflowError::StateFile { path, reason })
        }
        None => Ok(()),
    }
}

impl<'s> Workflow<'s> for Build<'_, 's> {
    type End = BuildEnd;

    fn session(&mut self) -> &mut Session<'s> {
        self.session
    }

    fn item(&self) -> Option<String> {
        self.round.item.clone()
    }

    fn subject(&self) -> Subject {
        Subject { item: self.round.item.clone(), ..Subject::default() }
    }

    /// Returns the oldest result of this loop that is not recorded, whatever the plan says is next: what agents changed
    /// in the plan while they ran may have moved it on.
    fn pending(&mut self) -> Result<Option<RunResult>, WorkflowError> {
        let state = &self.session.context.state;
        let mut results = RESULTS.all(state)?;
        // Several homes can share the private state of a workspace; logs are in the home that a run belongs to.
        let home = self.session.context.home_path();
        results.retain(|result| result.workflow == WORKFLOW && result.dir.starts_with(home));
        results.sort_by_key(|result| result.at);
        for result in results {
            let record = TASKS.load(state, &result.item)?;
            if record.is_some_and(|record| record.settled_run.as_ref() == Some(&result.run)) {
                RESULTS.forget(state, &result.item)?;
                continue;
            }
            self.round.item = Some(result.item.clone());
            return Ok(Some(result));
        }
        Ok(None)
    }

    fn next(&mut self) -> Result<WorkflowStep<BuildEnd>, WorkflowError> {
        self.project.sync(self.session)?;
        let bytes = self.plan.read()?;
        let plan = Plan::parse(&bytes);
        let pending = plan.pending();
        self.project.leave_decided(self.session, |item| {
            item.parse::<TaskId>().is_ok() && !pending.iter().any(|task| task.id == item)
        })?;
        // Before an agent starts, also on a plan that was edited since the last one ended.
        refuse_unworkable(self.plan.path(), &plan)?;
        if self.project.is_checked_out()? {
            // One that cannot be worked on is not taken up from the checkout.
            let path = self.session.context.home_path().join(PLAN_FILE);
            let bytes = read_optional(&path)?.unwrap_or_default();
            refuse_unworkable(&path, &Plan::parse(&bytes))?;
        }
        let next = plan.next();
        let stage = plan.stage();
        self.round.item = Some(item_of(&next));
        let is_unplanned = self.is_unplanned(!matches!(next, Next::Plan | Next::Complete))?;
        match &next {
            Next::Complete if is_unplanned => {
                return Ok(WorkflowStep::Turn(Turn::End(BuildEnd::NoPlan)));
            }
            Next::Plan => return Ok(WorkflowStep::Turn(Turn::End(BuildEnd::NoPlan))),
            Next::Complete => return Ok(WorkflowStep::Turn(Turn::End(BuildEnd::Complete))),
            Next::Build(task) => {
                if let Some(turn) = self.settle_without_run(&task.id)? {
                    return Ok(WorkflowStep::Turn(turn));
                }
            }
            Next::Decompose(_) | Next::Verify(_) | Next::Investigate(_) => {}
        }
        let claim = match &next {
            Next::Build(task) => self.no_change_claim(&plan, &task.id)?,
            _ => None,
        };
        if let Some(end) = self.no_gain(&plan)? {
            return Ok(WorkflowStep::Turn(Turn::End(end)));
        }
        // A claim is in the task's record and not in the plan: the rounds only look the same.
        let is_reviewed = match &next {
            Next::Build(task) => self.is_waiting_for_review(&plan, &task.id)?,
            _ => false,
        };
        if claim.is_none() && !is_reviewed && self.loops(stage, &bytes)? {
            return Ok(WorkflowStep::Turn(Turn::End(BuildEnd::Looping { stage })));
        }
        if let Some(what) = self.session.exhausted()? {
            return Ok(WorkflowStep::Turn(Turn::Stop(super::driver::Stop::OutOfBudget(what))));
        }
        self.round.iteration += 1;
        let task = match &next {
            Next::Build(task) | Next::Decompose(task) => Some(task),
            _ => None,
        };
        let stage = if claim.is_some() || is_reviewed { Stage::Verify } else { stage };
        let item = item_of(&next);
        let item = match (&claim, is_reviewed) {
            (Some(_), _) => format!("{item}{OPINION}"),
            (None, true) => format!("{item}{REVIEW}"),
            (None, false) => item,
        };
        let step = IterationResult {
            iteration: Some(self.round.iteration),
            stage: Some(stage),
            try_number: Some(self.session.journal.board().next_try(&item, role_of(stage))),
            item: Some(item),
            ..IterationResult::default()
        };
        self.tell(IterationStart {
            iteration: step.iteration,
            stage: step.stage,
            item: step.item.clone(),
            try_number: step.try_number,
            task: task.map(|task| task.id.to_string()),
            name: task.map(|task| task.name.to_string()),
            spec: plan.spec().map(str::to_owned),
        })?;
        self.round.step = Some(step);
        match next {
            Next::Build(task) => match claim {
                Some(reason) => self.ask_for_opinion(&plan, &task.id, &reason),
                None if is_reviewed => self.ask_for_review(&plan, &task.id),
                None => self.build(&plan, &task),
            },
            Next::Verify(_) => self.verify(&plan),
            Next::Investigate(issues) => self.investigate(&plan, &issues),
            Next::Decompose(task) => self.decompose(&plan, &task),
            Next::Plan | Next::Complete => unreachable!("they have ended the loop above"),
        }
    }

    /// Notes what a builder left, for the next run of its task.
    fn ended(&mut self, _: RunReport, result: &RunResult) -> Result<(), WorkflowError> {
        if result.role != Role::Builder {
            return Ok(());
        }
        self.project.repositories.note_left(&self.session.context.state, &result.item)
    }

    fn conclude(&mut self, result: &RunResult) -> Result<Turn<BuildEnd>, WorkflowError> {
        // What the run asked for comes before what the person did meanwhile. A builder in place may stand on a branch of its
        // own: its plan is written and committed once its conclusions have returned to the one that it began on.
        if result.role != Role::Builder || !self.project.is_in_place() {
            self.plan.commit()?;
        }
        self.project.sync(self.session)?;
        if result.role == Role::Builder {
            // Also for a result that an earlier process left.
            self.project.enter(self.session, &result.item)?;
        }
        let turn = self.conclude_run(result)?;
        if result.role != Role::Builder {
            self.project.leave(self.session, &result.item)?;
        }
        self.end_step(
            match &turn {
                Turn::Progress | Turn::Again => StepResult::Progress,
                Turn::Failed => StepResult::Failed,
                Turn::Trouble(_) => StepResult::Trouble,
                Turn::Stop(_) | Turn::End(_) => StepResult::Stopped,
            },
            None,
        )?;
        Ok(turn)
    }

    /// Runs that never claimed anything are the rounds of a loop ([`Build::loops`]).
    fn work_left(&self, task: &str) -> Option<String> {
        let is_rejected = match self.markers(task).ok()?.in_plan {
            TaskInPlan::Pending { rejections, .. } => !rejections.is_empty(),
            TaskInPlan::NotPending => false,
        };
        self.project.repositories.print().ok().filter(|_| is_rejected)
    }

    fn has_lost_work(&mut self, result: &RunResult) -> Result<bool, WorkflowError> {
        self.project.has_lost_clone(self.session, result)
    }

    fn take_up_newer(&mut self) -> Result<(), WorkflowError> {
        self.project.take_up_newer(self.session)
    }

    fn mend_clone(&mut self, error: &WorkflowError) -> Result<bool, WorkflowError> {
        self.project.mend_clone(self.session, error)
    }

    /// A loop that is about to end, or to ask a person, does not wait first.
    fn tries_again(&mut self) -> Result<bool, WorkflowError> {
        let bytes = self.plan.read()?;
        let plan = Plan::parse(&bytes);
        if let Next::Build(task) = plan.next()
            && matches!(self.state_of(&task.id)?, TaskState::Exhausted { .. })
        {
            return Ok(false);
        }
        if self.no_gain(&plan)?.is_some() {
            return Ok(false);
        }
        let is_last_round = self.round.same + 1 >= ROUNDS_THAT_LOOP;
        Ok(!is_last_round || self.round.last != Some((plan.stage(), self.print(&bytes)?)))
    }

    fn discard(&mut self, result: &RunResult, void: Void) -> Result<(), WorkflowError> {
        // That nothing came of it is not the work's fault: it is no round of a loop.
        self.round.last = None;
        self.discard_run(result)?;
        if void == Void::Resumed && result.role == Role::Builder {
            self.begin_again(&result.item)?;
        }
        self.end_step(StepResult::Trouble, None)
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

/// The role of a stage's run.
const fn role_of(stage: Stage) -> Role {
    match stage {
        Stage::Plan => Role::Planner,
        Stage::Decompose => Role::Decomposer,
        Stage::Build => Role::Builder,
        Stage::Verify | Stage::Complete => Role::Verifier,
        Stage::Investigate => Role::Investigator,
    }
}
