//! The loop: one task, over runs with a fresh context each, gated between PLAN and BUILD by the harness.
//!
//! [`store`] keeps the record and performs the machine's writes; [`planning`] validates the plan that is in the mailbox;
//! [`runs`] makes the task of an agent, [`conclude`] draws the conclusions of its run, [`judging`] has the judge decide on
//! the work, with the gates of [`gates`]; [`person`] settles what needs a person; [`reflection`] asks how it went. [`place`]
//! has the slot, its mailbox and the landing, [`work`] every other call that touches the repositories.
//!
//! Invariant: nothing that a file of the mailbox says moves the machine but the claims of a run that has ended.

mod conclude;
mod gates;
mod judging;
mod person;
mod place;
mod planning;
mod reflection;
mod runs;
mod store;
mod work;

use ralph_model::build::Acceptance;
use ralph_model::journal::{IterationResult, JournalEvent, Note, StepResult};
use ralph_model::phase::mailbox::COUNTER;
use ralph_model::phase::{LoopBounds, LoopFact, LoopPlace, LoopRecord, LoopStanding, LoopTask};
use ralph_model::proof::LandedLevel;
use ralph_model::role::Role;
use ralph_model::run::RunOutcome;

use self::planning::present_plans;
use self::store::LOOPS;
use super::WorkflowError;
use super::driver::{Ended, Subject, Turn, Void, Workflow, WorkflowStep, drive, forget_troubles};
use super::isolation::landing::landed_before;
use super::project::Project;
use crate::config::LoopSettings;
use crate::git::commits::Signing;
use crate::mailbox::exchange::Direction;
use crate::mailbox::{Mailbox, MailboxState, inspect};
use crate::run::{RESULTS, RunReport, RunResult};
use crate::session::Session;
use crate::state::{Entry, State};
use crate::workflow::review::{MeasuredWork, REVIEW};

/// The name of the workflow in the results of its runs.
const WORKFLOW: &str = "loop";

/// How a verifier's item is named that is asked for its opinion on a task.
const OPINION: &str = "-opinion";

/// How the item of a run is named that is asked how an accepted task went.
const REFLECTION: &str = "-reflection";

/// The loop of one workspace.
pub struct Phased<'r, 's> {
    session: &'r mut Session<'s>,
    project: &'r mut Project,
    /// Where the agent reads and writes: in its slot, or the person's own.
    mailbox: Mailbox,
    persons_mailbox: Mailbox,
    /// The task whose slot is open.
    entered: Option<String>,
    bounds: LoopBounds,
    signing: Signing,
    /// As they were before the last run; see [`Phased::pin`].
    settings: LoopSettings,
    /// What the next step is for.
    item: Option<String>,
    /// The current iteration, until its result is recorded.
    iteration: Option<IterationResult>,
    /// A task was accepted just now, and its agent is to be asked how it went.
    reflects: bool,
    /// Of work that waits for a verifier's word.
    measured: MeasuredWork,
}

/// How the loop ended by itself.
#[derive(Clone, Debug, PartialEq)]
pub enum PhasedEnd {
    Done {
        commit: Option<String>,
        level: LandedLevel,
        summary: Option<String>,
    },
    /// Gates failed too often in a row.
    Aborted {
        gates: Vec<String>,
        failures: u32,
    },
    /// Too many runs in a row changed nothing and claimed nothing.
    Idle {
        runs: u32,
    },
    OutOfIterations {
        iterations: u32,
    },
    /// There is no task, or it was taken back.
    NoTask,
}

impl PhasedEnd {
    /// Returns how the log names it.
    pub const fn name(&self) -> &'static str {
        match self {
            PhasedEnd::Done { .. } => "completed",
            PhasedEnd::Aborted { .. } => "aborted",
            PhasedEnd::Idle { .. } => "idle",
            PhasedEnd::OutOfIterations { .. } => "out_of_iterations",
            PhasedEnd::NoTask => "no_task",
        }
    }
}

/// Returns what a task is called in the journal and in private state.
fn item_of(task: u32) -> String {
    format!("loop-{task}")
}

/// The number of the last task that a command ended with as done.
const TOLD: Entry<u32> = Entry::new("loop-told", "the end of the last task is reported again");

impl<'r, 's> Phased<'r, 's> {
    /// Opens the loop, unless its mailbox belongs to another tool.
    pub fn open(
        session: &'r mut Session<'s>,
        project: &'r mut Project,
        iterations: Option<u32>,
    ) -> Result<Phased<'r, 's>, WorkflowError> {
        let config = &session.context.config;
        let mailbox = Mailbox::new(&config.mailbox);
        if inspect(mailbox.path())? == MailboxState::Foreign {
            return Err(WorkflowError::ForeignMailbox { path: mailbox.path().to_owned() });
        }
        let usual = LoopBounds::default();
        let bounds = LoopBounds {
            iterations: iterations.unwrap_or(usual.iterations),
            failures: config.limits.rejections,
            idle: config.limits.repeats,
        };
        let signing = Signing::allowed(config.git.sign);
        let settings = session.loop_settings();
        Ok(Phased {
            session,
            project,
            persons_mailbox: mailbox.clone(),
            mailbox,
            entered: None,
            bounds,
            signing,
            settings,
            item: None,
            iteration: None,
            reflects: false,
            measured: MeasuredWork::default(),
        })
    }

    /// Returns the last task as it is recorded, for commands that only look.
    pub fn last(state: &State) -> Result<Option<LoopRecord>, WorkflowError> {
        Ok(LOOPS.load(state, store::KEY)?)
    }

    /// Returns the task that private state knows, after completing what a crash cut short.
    pub fn current(&mut self) -> Result<Option<LoopRecord>, WorkflowError> {
        self.heal()?;
        self.record()
    }

    /// Completes writes that a crash prevented. Returns whether the task is done and no command has reported that yet:
    /// one that is killed after its last write exits without a report.
    pub fn completes_acceptance(&mut self) -> Result<bool, WorkflowError> {
        let Some(record) = self.current()? else { return Ok(false) };
        let told = TOLD.load(&self.session.context.state, store::KEY)?;
        let is_done = matches!(record.standing, LoopStanding::Done { .. });
        Ok(is_done && told != Some(record.task.number))
    }

    /// Notes that the person was told that a task is done.
    pub fn note_told(&mut self, task: u32) -> Result<(), WorkflowError> {
        Ok(TOLD.save(&self.session.context.state, store::KEY, &task)?)
    }

    /// Begins a task. One that is unfinished is given up.
    pub fn start(&mut self, text: &str) -> Result<(), WorkflowError> {
        let earlier = self.current()?;
        if let Some(earlier) = earlier.as_ref().filter(|record| !record.is_over()) {
            self.give_up(earlier)?;
        }
        self.step_out()?;
        self.mailbox.make_ready()?;
        if let Some(earlier) = &earlier {
            let item = item_of(earlier.task.number);
            self.session.questions().withdraw(&item)?;
            RESULTS.forget(&self.session.context.state, &item)?;
        }
        let counted = self.mailbox.read(COUNTER).and_then(|text| text.trim().parse().ok());
        let last = earlier.map_or(0, |record| record.task.number).max(counted.unwrap_or(0));
        let task = LoopTask { number: last.saturating_add(1), text: text.to_owned() };
        let (present, place) = (present_plans(&self.mailbox), self.place());
        self.settle(&LoopFact::Started { task, place, present })
    }

    /// Resumes an unfinished task, with an answer to its question if there is one. Returns `false` without an
    /// unfinished task.
    pub fn resume(&mut self, answer: Option<&str>) -> Result<bool, WorkflowError> {
        let Some(record) = self.current()?.filter(|record| !record.is_over()) else {
            return Ok(false);
        };
        let item = item_of(record.task.number);
        forget_troubles(&self.session.context.state, &item)?;
        if let Some(answer) = answer {
            self.answer(&item, answer)?;
        }
        let has_stopped =
            matches!(record.standing, LoopStanding::Aborted { .. } | LoopStanding::Idle);
        if has_stopped || record.is_spent(self.bounds) {
            self.settle(&LoopFact::Resumed)?;
        }
        Ok(true)
    }

    /// Takes the last task back: what it did in its slot is kept and given up, what has landed is reverted by a commit, and
    /// in place the tree is put back after what is in it was saved. Returns `false` where there is no task.
    pub fn roll_back(&mut self) -> Result<bool, WorkflowError> {
        let Some(record) = self.current()? else { return Ok(false) };
        if record.standing == LoopStanding::RolledBack {
            return Ok(false);
        }
        let item = item_of(record.task.number);
        self.session.questions().withdraw(&item)?;
        RESULTS.forget(&self.session.context.state, &item)?;
        if let (LoopPlace::Slot, LoopStanding::Done { acceptance }) =
            (record.place, &record.standing)
        {
            self.revert(record.task.number, acceptance)?;
        }
        self.settle(&LoopFact::RolledBack)?;
        self.step_out()?;
        self.project.follow_at_end(self.session)?;
        Ok(true)
    }

    /// Goes from iteration to iteration.
    pub fn run(&mut self) -> Result<Ended<PhasedEnd>, WorkflowError> {
        self.project.committer.prepare()?;
        self.heal()?;
        self.return_after_kill()?;
        let ended = drive(self);
        // Whoever looks at an unfinished task finds what the next run will be told. What a run claims that was not judged
        // to the end stays: the next start judges it.
        if let Some(record) = self.record()?.filter(|record| !record.is_over())
            && !self.awaits_judgement(&record)?
        {
            self.write_mirror(&record)?;
        }
        self.exchange(Direction::Out)?;
        let ended = self.without_reflection(ended?)?;
        self.commit_home()?;
        self.project.publish(self.session, "ralph: update home", &[])?;
        self.project.follow_at_end(self.session)?;
        self.session.ending = Some(match &ended {
            Ended::By(end) => end.name(),
            Ended::Stopped(stop) => stop.name(),
        });
        Ok(ended)
    }

    /// Tells whether the result of the task's last run is still to be concluded.
    fn awaits_judgement(&self, record: &LoopRecord) -> Result<bool, WorkflowError> {
        let result = RESULTS.load(&self.session.context.state, &item_of(record.task.number))?;
        Ok(result.is_some_and(|result| record.settled_run.as_ref() != Some(&result.run)))
    }

    fn done(&self, acceptance: &Acceptance) -> PhasedEnd {
        PhasedEnd::Done {
            commit: acceptance.done_at.as_ref().map(ToString::to_string),
            level: landed_before(acceptance),
            summary: self.mailbox.read(ralph_model::phase::mailbox::SUMMARY),
        }
    }

    fn commit_home(&mut self) -> Result<(), WorkflowError> {
        self.project.commit_home(self.session, "ralph: update home", None)
    }

    fn tell(&mut self, event: impl Into<JournalEvent>) -> Result<(), WorkflowError> {
        Ok(self.session.record(event)?)
    }

    fn note(&mut self, reason: impl Into<String>) -> Result<(), WorkflowError> {
        self.tell(Note { spec: None, task: self.item.clone(), reason: reason.into() })
    }

    /// Records the result of the current iteration, once.
    fn end_iteration(
        &mut self,
        result: StepResult,
        reason: Option<String>,
    ) -> Result<(), WorkflowError> {
        let Some(iteration) = self.iteration.take() else { return Ok(()) };
        self.tell(IterationResult { result, reason, ..iteration })
    }
}

impl<'s> Workflow<'s> for Phased<'_, 's> {
    type End = PhasedEnd;

    fn session(&mut self) -> &mut Session<'s> {
        self.session
    }

    fn item(&self) -> Option<String> {
        self.item.clone()
    }

    fn subject(&self) -> Subject {
        Subject { item: self.item.clone(), ..Subject::default() }
    }

    /// Returns the result of the task's builder or verifier that the record does not have yet.
    fn pending(&mut self) -> Result<Option<RunResult>, WorkflowError> {
        let Some(record) = self.record()? else { return Ok(None) };
        let item = item_of(record.task.number);
        let state = &self.session.context.state;
        for suffix in ["", OPINION, REVIEW, REFLECTION] {
            let name = format!("{item}{suffix}");
            let Some(result) = RESULTS.load(state, &name)? else { continue };
            let is_settled = match result.role {
                Role::Builder => record.settled_run.as_ref() == Some(&result.run),
                _ if suffix == REVIEW => !matches!(record.standing, LoopStanding::Undecided { .. }),
                _ => !matches!(record.standing, LoopStanding::NoChange { .. }),
            };
            if is_settled || record.is_over() {
                RESULTS.forget(state, &name)?;
                continue;
            }
            self.item = Some(name);
            self.enter_task(&record)?;
            return Ok(Some(result));
        }
        Ok(None)
    }

    fn next(&mut self) -> Result<WorkflowStep<PhasedEnd>, WorkflowError> {
        self.heal()?;
        self.project.sync(self.session)?;
        let Some(record) = self.record()? else {
            return Ok(WorkflowStep::Turn(Turn::End(PhasedEnd::NoTask)));
        };
        self.enter_task(&record)?;
        let item = item_of(record.task.number);
        self.item = Some(item.clone());
        let turn = match &record.standing {
            LoopStanding::Working => return self.iterate(record, &item),
            LoopStanding::NoChange { reason } => {
                return self.ask_for_opinion(&record, &item, reason);
            }
            LoopStanding::Waiting { question } => self.wait_for_answer(&item, question)?,
            LoopStanding::NoChangeReviewed { reason, opinion } => {
                self.decide_no_change(&item, reason, opinion)?
            }
            LoopStanding::Undecided { works, .. } => {
                if self.is_review_wanted(&item, works)? {
                    return self.ask_for_review(&record, &item);
                }
                self.judge_again(&record, &item, works)?
            }
            LoopStanding::Aborted { gates } => {
                let (gates, failures) = (gates.clone(), record.failures);
                Turn::End(PhasedEnd::Aborted { gates, failures })
            }
            LoopStanding::Idle => Turn::End(PhasedEnd::Idle { runs: record.idle }),
            LoopStanding::Done { acceptance } => {
                if std::mem::take(&mut self.reflects) {
                    return self.reflect(&record, &item, acceptance);
                }
                Turn::End(self.done(acceptance))
            }
            LoopStanding::RolledBack
            | LoopStanding::Beginning { .. }
            | LoopStanding::Accepted { .. }
            | LoopStanding::RollingBack => Turn::End(PhasedEnd::NoTask),
        };
        Ok(WorkflowStep::Turn(turn))
    }

    fn ended(&mut self, _: RunReport, result: &RunResult) -> Result<(), WorkflowError> {
        if result.role != Role::Builder {
            return Ok(());
        }
        self.project.repositories.note_left(&self.session.context.state, &result.item)
    }

    fn conclude(&mut self, result: &RunResult) -> Result<Turn<PhasedEnd>, WorkflowError> {
        let turn = self.conclude_run(result)?;
        let step = match &turn {
            Turn::Progress | Turn::Again => StepResult::Progress,
            Turn::Failed => StepResult::Failed,
            Turn::Trouble(_) => StepResult::Trouble,
            Turn::Stop(_) | Turn::End(_) => StepResult::Stopped,
        };
        self.end_iteration(step, None)?;
        if result.outcome == RunOutcome::Completed && !matches!(turn, Turn::Trouble(_)) {
            forget_troubles(&self.session.context.state, &result.item)?;
        }
        Ok(turn)
    }

    fn discard(&mut self, result: &RunResult, void: Void) -> Result<(), WorkflowError> {
        if result.role == Role::Builder {
            self.back_to_branches(&result.item)?;
            if void == Void::Resumed {
                self.begin_run(&result.item)?;
            }
        }
        self.end_iteration(StepResult::Trouble, None)
    }

    /// How an accepted task went is asked once; what comes of that changes nothing.
    fn end_on_trouble(&self) -> Option<PhasedEnd> {
        let record = self.record().ok()??;
        match &record.standing {
            LoopStanding::Done { acceptance } => Some(self.done(acceptance)),
            _ => None,
        }
    }

    fn has_lost_work(&mut self, result: &RunResult) -> Result<bool, WorkflowError> {
        self.project.has_lost_clone(self.session, result)
    }

    fn take_up_newer(&mut self) -> Result<(), WorkflowError> {
        self.project.take_up_newer(self.session)
    }

    fn mend_clone(&mut self, error: &WorkflowError) -> Result<bool, WorkflowError> {
        let Some(item) = self.entered.clone() else { return Ok(false) };
        if !error.may_be_of_repository() || self.project.repositories.unsound().is_none() {
            return Ok(false);
        }
        // The mailbox is copied along.
        self.step_out()?;
        let is_anew = self.project.mend_clone(self.session, error)?;
        self.enter(&item)?;
        Ok(is_anew)
    }

    /// A task that has nothing left to try does not wait for its next try.
    fn tries_again(&mut self) -> Result<bool, WorkflowError> {
        let record = LOOPS.load(&self.session.context.state, store::KEY)?;
        Ok(record.is_some_and(|record| {
            record.standing == LoopStanding::Working && !record.is_spent(self.bounds)
        }))
    }
}

#[cfg(test)]
#[path = "degenerate_tests.rs"]
mod degenerate_tests;
