//! The pipeline at work: one spec after the other through plan, implement, verify, until it is done.
//!
//! The loop has one shape: read the markers, ask the machine what is next, do it, write down what came of it. A result
//! that a dead Ralph left behind is taken first, by the same code that takes one that has just come in; so there is no
//! second way of continuing.

pub mod dry_run;
mod judging;
pub mod list;
pub mod queue;
mod steps;
pub mod store;

use camino::Utf8Path;
use ralph_model::journal::{WorkflowFields, WorkflowKind};
use ralph_model::pipeline::records::Try;
use ralph_model::pipeline::{Action, Fact, Markers, SpecState, Write, heal, next, settle};
use ralph_model::policy::budget::BudgetExhausted;
use ralph_model::policy::limit::LimitWait;
use ralph_model::policy::trouble::TroubleStreak;
use ralph_model::prompt::{Prompts, RulesSource};
use ralph_model::role::Role;
use ralph_model::run::{RunOutcome, Trouble};
use ralph_model::spec::name::SpecPath;

use self::store::SpecStore;
use super::WorkflowError;
use super::desk::{Desk, StepObserver};
use super::keeper::HomeKeeper;
use super::repositories::{BeforeAll, Repositories};
use crate::config::{Config, ConfigError};
use crate::gates::pin::PinnedGates;
use crate::gates::{GateContext, GateObserver};
use crate::judge::Case;
use crate::run::RunResult;
use crate::wait::Waited;

/// What the person asked for.
#[derive(Clone, Debug)]
pub struct PipelineOptions {
    pub magic_phrase: String,
    pub max_attempts: u32,
    pub keep_going: bool,
    /// Specs whose done marker and candidate do not count.
    pub forced: Vec<SpecPath>,
    /// Specs that get their attempts back.
    pub renewed: Vec<SpecPath>,
}

/// Shows the pipeline to whoever watches.
pub trait PipelineObserver: StepObserver + GateObserver {}

impl<T: StepObserver + GateObserver> PipelineObserver for T {}

/// The pipeline of one home.
pub struct Pipeline<'a, 'd, 'c> {
    pub desk: Desk<'d, 'c>,
    pub store: SpecStore,
    pub keeper: HomeKeeper,
    pub repositories: Repositories,
    pub gate_context: GateContext<'a>,
    pub prompts: &'a Prompts,
    pub rules: Option<RulesSource<'a>>,
    pub home: &'a Utf8Path,
    pub options: &'a PipelineOptions,
    /// Reads the configuration again: a person may change gates between two runs.
    pub reload: &'a dyn Fn() -> Result<Config, ConfigError>,
    pub observer: &'a mut dyn PipelineObserver,
}

/// How work on one spec ended.
#[derive(Clone, Debug, PartialEq)]
pub enum SpecEnd {
    Done {
        commit: Option<String>,
        proven: bool,
    },
    Skipped {
        changed_since_done: bool,
    },
    /// All attempts are spent.
    Failed {
        tries: Vec<Try>,
    },
    /// The same trouble came three times in a row.
    Stuck {
        trouble: Trouble,
    },
    /// A person has to decide.
    Waiting {
        question: String,
    },
    Limited {
        agent: String,
        wait: LimitWait,
    },
    OutOfBudget(BudgetExhausted),
    /// The spec itself cannot be used.
    Unusable {
        problem: String,
    },
    Interrupted,
}

impl SpecEnd {
    /// Returns how the log names it.
    pub const fn name(&self) -> &'static str {
        match self {
            SpecEnd::Done { .. } => "completed",
            SpecEnd::Skipped { .. } => "skipped",
            SpecEnd::Failed { .. } => "failed",
            SpecEnd::Stuck { .. } => "stuck",
            SpecEnd::Waiting { .. } => "waiting",
            SpecEnd::Limited { .. } => "limited",
            SpecEnd::OutOfBudget(_) => "out_of_budget",
            SpecEnd::Unusable { .. } => "unusable",
            SpecEnd::Interrupted => "interrupted",
        }
    }
}

/// What is known of the spec under way that is not on disk. Losing it costs time, never truth.
struct Work<'s> {
    spec: &'s SpecPath,
    /// What the spec is called in the journal and in private state.
    item: String,
    pinned: PinnedGates,
    streak: TroubleStreak,
    failures: u32,
    case: Option<Case>,
    /// The spec as its verifier was given it: a person may edit it meanwhile.
    spec_digest: Option<String>,
}

/// What follows from one turn of the loop.
enum Turn {
    Again,
    /// The work failed: try again after a pause.
    Failed,
    /// Something got in the way: try the same again after a pause.
    Trouble(Trouble),
    End(SpecEnd),
}

impl Pipeline<'_, '_, '_> {
    /// Works on a spec until it is done, or cannot go on.
    pub fn work(&mut self, spec: &SpecPath) -> Result<SpecEnd, WorkflowError> {
        let forced = self.options.forced.contains(spec);
        let markers = self.heal(spec)?;
        if markers.done.is_some() && !forced {
            let changed_since_done = list::changed_since_done(&self.store, spec, &markers)?;
            RunResult::taken(self.desk.context.state, &spec.run_id())?;
            let reason = changed_since_done.then(|| "changed since done".to_owned());
            self.tell(spec, WorkflowKind::SpecSkipped, WorkflowFields { reason, ..none() })?;
            return Ok(SpecEnd::Skipped { changed_since_done });
        }
        self.tell(spec, WorkflowKind::SpecStart, WorkflowFields { forced, ..none() })?;
        let item = spec.run_id();
        let pinned = self.pin(&item)?;
        self.begin(spec, &markers, forced)?;
        if let Some(problem) = self.store.drop_broken_sessions(spec)? {
            let reason = Some(format!("the sessions were forgotten: {problem}"));
            self.tell(spec, WorkflowKind::Note, WorkflowFields { reason, ..none() })?;
        }
        let mut work = Work {
            spec,
            item,
            pinned,
            streak: TroubleStreak::default(),
            failures: 0,
            case: None,
            spec_digest: None,
        };
        let end = self.turn_until_end(&mut work)?;
        if matches!(end, SpecEnd::Done { .. }) {
            PinnedGates::forget(self.desk.context.state, &work.item)?;
        }
        Ok(end)
    }

    fn turn_until_end(&mut self, work: &mut Work<'_>) -> Result<SpecEnd, WorkflowError> {
        loop {
            let turn = match self.turn(work) {
                Ok(turn) => turn,
                Err(error) => judging::trouble_or_error(error)?,
            };
            let failures = match turn {
                Turn::End(end) => return Ok(end),
                Turn::Again => {
                    work.failures = 0;
                    continue;
                }
                Turn::Failed => {
                    work.failures += 1;
                    work.failures
                }
                Turn::Trouble(trouble) => {
                    work.streak.apply(&RunOutcome::Trouble { trouble: trouble.clone() });
                    let reason = Some(trouble.to_string());
                    self.tell(
                        work.spec,
                        WorkflowKind::Trouble,
                        WorkflowFields { reason, ..none() },
                    )?;
                    if work.streak.stops().is_some() {
                        return Ok(SpecEnd::Stuck { trouble });
                    }
                    work.streak.length()
                }
            };
            if self.has_attempts_left(work)? && self.pause(work, failures)? == Waited::Interrupted {
                return Ok(SpecEnd::Interrupted);
            }
        }
    }

    /// A spec that has nothing left to try does not wait for its next try.
    fn has_attempts_left(&self, work: &Work<'_>) -> Result<bool, WorkflowError> {
        let used = self.store.load(work.spec)?.attempts_used();
        Ok(used < self.options.max_attempts)
    }

    fn pause(&mut self, work: &Work<'_>, failures: u32) -> Result<Waited, WorkflowError> {
        let fields = WorkflowFields { spec: Some(work.spec.to_string()), ..none() };
        Ok(self.desk.pause(failures, fields, &mut *self.observer)?)
    }

    /// Takes a result that is there, or else does what is next.
    fn turn(&mut self, work: &mut Work<'_>) -> Result<Turn, WorkflowError> {
        let markers = self.heal(work.spec)?;
        if let Some(result) = self.pending(work, &markers)? {
            return self.take(work, &markers, &result);
        }
        let state = SpecState::of(&markers);
        match next(&state, markers.attempts_used(), self.options.max_attempts) {
            Action::Skip => Ok(Turn::End(Self::done_end(&markers))),
            Action::Adopt { number } => {
                let base = self.repositories.base()?;
                self.settle(work, &Fact::PlanAdopted { number, base }, "takes the plan by hand")?;
                let plan_file = Some(self.store.from_home(&self.store.path(work.spec.plan_md())));
                self.tell(
                    work.spec,
                    WorkflowKind::PlanAdopted,
                    WorkflowFields { plan_file, ..none() },
                )?;
                Ok(Turn::Again)
            }
            Action::Plan { number, replan } => self.plan(work, &markers, number, replan.as_ref()),
            Action::Implement { feedback } => self.implement(work, &markers, feedback.as_deref()),
            Action::Verify { commit, no_change } => {
                self.verify(work, &markers, &commit, no_change.as_deref())
            }
            Action::AskPerson { question } => self.ask_person(work, &markers, question),
            Action::GiveUp => {
                let tries = markers.plan.map(|plan| plan.tries).unwrap_or_default();
                let reason = Some("max attempts exceeded".to_owned());
                self.tell(
                    work.spec,
                    WorkflowKind::SpecFailed,
                    WorkflowFields { reason, ..none() },
                )?;
                Ok(Turn::End(SpecEnd::Failed { tries }))
            }
        }
    }

    /// Brings to an end what a crash cut short, and reads the markers.
    fn heal(&mut self, spec: &SpecPath) -> Result<Markers, WorkflowError> {
        let markers = self.store.load(spec)?;
        let writes = heal(&markers);
        if writes.is_empty() {
            return Ok(markers);
        }
        self.write(spec, &writes)?;
        self.commit_home(spec, "is put in order")?;
        self.store.load(spec)
    }

    /// Returns the result that nobody has taken yet. One that the state files know already is forgotten.
    fn pending(
        &mut self,
        work: &Work<'_>,
        markers: &Markers,
    ) -> Result<Option<RunResult>, WorkflowError> {
        let state = self.desk.context.state;
        let Some(result) = RunResult::pending(state, &work.item)? else { return Ok(None) };
        let known = markers.plan.as_ref().and_then(|plan| plan.settled_run.as_deref());
        if known == Some(result.run.as_str()) || markers.done.is_some() {
            RunResult::taken(state, &work.item)?;
            return Ok(None);
        }
        self.desk.remember_end(&result)?;
        Ok(Some(result))
    }

    /// Returns to the branches that the last run began on, if its Ralph died before it could.
    ///
    /// Commits on a head that was detached are found by that head alone: it stays until the run's result is taken.
    fn is_where_work_began(&mut self) -> Result<bool, WorkflowError> {
        let mut runs = self.desk.overview.runs().iter().rev();
        let started = runs.find_map(|run| {
            run.started
                .as_ref()
                .map(|(_, started)| started)
                .filter(|run| run.role == Role::Implementer)
        });
        let Some(item) = started.and_then(|started| started.item.clone()) else { return Ok(true) };
        let state = self.desk.context.state;
        let Some(before) = BeforeAll::load(state, &item)? else { return Ok(true) };
        let is_pending = RunResult::pending(state, &item)?.is_some();
        if is_pending && self.repositories.is_detached_since(&before)? {
            return Ok(false);
        }
        self.return_to_branches(&item)?;
        Ok(true)
    }

    /// Prepares a spec that is about to be worked on: forced, or with its attempts counted anew.
    fn begin(
        &mut self,
        spec: &SpecPath,
        markers: &Markers,
        forced: bool,
    ) -> Result<(), WorkflowError> {
        let fact = if forced {
            RunResult::taken(self.desk.context.state, &spec.run_id())?;
            let number = self.store.next_done_archive(spec);
            Fact::Forced { number, base: self.repositories.base()? }
        } else if self.options.renewed.contains(spec) {
            let base = match &markers.plan {
                Some(plan) => self.repositories.moved_base(&plan.base)?,
                None => None,
            };
            Fact::BudgetRenewed { base }
        } else {
            return Ok(());
        };
        let writes = settle(markers, &fact, self.now());
        self.write(spec, &writes)?;
        self.commit_home(spec, if forced { "begins again" } else { "gets its attempts back" })
    }

    /// Returns the gates of an item as they were pinned; a person's change since then is taken up and said.
    fn pin(&mut self, item: &str) -> Result<PinnedGates, WorkflowError> {
        let fields = WorkflowFields { spec: Some(item.to_owned()), ..none() };
        self.desk.pin(item, self.reload, fields, &mut *self.observer)
    }

    /// Writes what a fact comes to, commits home, and forgets the result that it came from.
    fn settle(&mut self, work: &Work<'_>, fact: &Fact, message: &str) -> Result<(), WorkflowError> {
        let markers = self.store.load(work.spec)?;
        let writes = settle(&markers, fact, self.now());
        self.write(work.spec, &writes)?;
        RunResult::taken(self.desk.context.state, &work.item)?;
        self.commit_home(work.spec, message)
    }

    fn write(&mut self, spec: &SpecPath, writes: &[Write]) -> Result<(), WorkflowError> {
        for write in writes {
            self.store.perform(spec, write)?;
        }
        Ok(())
    }

    /// Commits home. That it cannot be committed does not stop the work: the files are there.
    fn commit_home(&mut self, spec: &SpecPath, message: &str) -> Result<(), WorkflowError> {
        let message = format!("ralph: {} {message}", spec.id());
        if let Err(problem) = self.keeper.commit(&message) {
            let reason = Some(format!("Ralph's files are not committed: {problem}"));
            self.tell(spec, WorkflowKind::Note, WorkflowFields { reason, ..none() })?;
        }
        Ok(())
    }

    fn ask_person(
        &mut self,
        work: &mut Work<'_>,
        markers: &Markers,
        question: String,
    ) -> Result<Turn, WorkflowError> {
        if let Some(answered) = self.desk.overview.answered(&work.item).cloned() {
            let answer = answered.answer.unwrap_or_default();
            let fields = WorkflowFields { reason: Some(answer.clone()), ..none() };
            self.tell(work.spec, WorkflowKind::PersonAnswered, fields)?;
            self.take_answer(work, markers, &answer)?;
            // Only now: an answer that was taken and not acted on would be lost.
            self.desk.questions().take_answer(&work.item)?;
            return Ok(Turn::Again);
        }
        self.desk.questions().ask(&work.item, &question, None)?;
        let fields = WorkflowFields { question: Some(question.clone()), ..none() };
        self.tell(work.spec, WorkflowKind::PersonNeeded, fields)?;
        Ok(Turn::End(SpecEnd::Waiting { question }))
    }

    fn done_end(markers: &Markers) -> SpecEnd {
        let done = markers.done.clone().unwrap_or_default();
        let proven =
            done.proof.as_deref() == Some(ralph_model::pipeline::done::Proof::Gates.as_str());
        SpecEnd::Done { commit: done.commit.map(String::from), proven }
    }

    fn tell(
        &mut self,
        spec: &SpecPath,
        kind: WorkflowKind,
        fields: WorkflowFields,
    ) -> Result<(), WorkflowError> {
        let fields = WorkflowFields { spec: Some(spec.to_string()), ..fields };
        Ok(self.desk.tell(kind, fields, &mut *self.observer)?)
    }

    /// The time, as the files tell it.
    fn now(&self) -> jiff::Timestamp {
        let now = self.desk.context.clock.now();
        jiff::Timestamp::from_second(now.as_second()).unwrap_or(now)
    }

    /// Returns what there was before the last run that could write, or at least where work began.
    fn before(&self, work: &Work<'_>, markers: &Markers) -> Result<BeforeAll, WorkflowError> {
        if let Some(before) = BeforeAll::load(self.desk.context.state, &work.item)? {
            return Ok(before);
        }
        let base = markers.plan.as_ref().map(|plan| plan.base.clone()).unwrap_or_default();
        self.repositories.note(&base)
    }
}

fn none() -> WorkflowFields {
    WorkflowFields::default()
}
