//! `ralph plan <spec>`: a planner turns a spec into tasks.
//!
//! From before its run until its conclusions are drawn a note in private state says which spec is being planned. Whoever
//! finds one goes on: what becomes of the tasks was asked already, and a run that is over is not repeated.

use camino::Utf8PathBuf;
use ralph_model::plan::{Plan, Unfinished};
use ralph_model::prompt::PlanPrompt;
use ralph_model::role::Role;
use ralph_model::run::{RunOutcome, Trouble};
use serde::{Deserialize, Serialize};

use super::channel::Assignment;
use super::runs::json;
use super::taking::told;
use super::{Build, BuildEnd, Round, none};
use crate::files::{create_private_directory, read_optional, remove_optional, replace_atomically};
use crate::outbox::Outbox;
use crate::run::RunResult;
use crate::wait::Waited;
use crate::workflow::WorkflowError;
use crate::workflow::desk::{Step, StepEnd};

/// What becomes of the tasks that are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// They go; git keeps them.
    Cancel,
    /// They stay, for it is the same spec.
    Keep,
}

/// What planning runs are for.
const ITEM: &str = "plan";

/// A spec that is being planned.
#[derive(Serialize, Deserialize)]
struct UnderWay {
    spec: String,
}

/// How planning ended.
#[derive(Clone, Debug, PartialEq)]
pub enum PlanningEnd {
    Planned {
        tasks: usize,
    },
    /// The planner did not do what it was asked, and what it did instead. Tasks that it added all the same are kept.
    Failed {
        why: String,
        tasks: usize,
    },
    Stopped(BuildEnd),
}

impl Build<'_, '_, '_> {
    /// Returns the spec whose planning was cut short, if it is still the current one.
    pub fn planning_under_way(&self) -> Result<Option<String>, WorkflowError> {
        let bytes = read_optional(&self.note())?;
        let note = bytes.and_then(|bytes| serde_json::from_slice::<UnderWay>(&bytes).ok());
        let spec = self.spec()?;
        Ok(note.map(|note| note.spec).filter(|planned| spec.as_ref() == Some(planned)))
    }

    /// Makes a spec the current one and has a planner add its tasks.
    pub fn plan_spec(
        &mut self,
        spec: &str,
        existing: Existing,
    ) -> Result<PlanningEnd, WorkflowError> {
        self.keeper.prepare()?;
        if existing == Existing::Cancel {
            // Under its own message, whatever happens: history would take what was done for accepted otherwise.
            self.plan.change_and_commit(|plan: &mut Plan<'_>| plan.cancel_unfinished())?;
        }
        self.settle(|plan| plan.set_spec(spec, Unfinished::Refuse))?;
        self.settle(|plan: &mut Plan<'_>| plan.clear_tombstones())?;
        RunResult::taken(self.desk.context.state, ITEM)?;
        let note = self.note();
        create_private_directory(note.parent().expect("it lies in private state"))?;
        let bytes = serde_json::to_vec(&UnderWay { spec: spec.to_owned() });
        replace_atomically(&note, &bytes.expect("it is plain data"))?;
        self.go_on_planning()
    }

    /// Brings the planning of the current spec to its end.
    pub fn go_on_planning(&mut self) -> Result<PlanningEnd, WorkflowError> {
        self.keeper.prepare()?;
        let mut round = Round::default();
        loop {
            let result = if let Some(result) = self.pending(ITEM)? {
                result
            } else {
                match self.run_planner(&round)? {
                    StepEnd::Ran(result) => *result,
                    StepEnd::Limited { agent, wait } => {
                        return Ok(PlanningEnd::Stopped(BuildEnd::Limited { agent, wait }));
                    }
                    StepEnd::OutOfBudget(what) => {
                        return Ok(PlanningEnd::Stopped(BuildEnd::OutOfBudget(what)));
                    }
                    StepEnd::Interrupted => return Ok(PlanningEnd::Stopped(BuildEnd::Interrupted)),
                }
            };
            round.streak.apply(&result.outcome);
            let RunOutcome::Trouble { trouble } = &result.outcome else {
                let end = self.take_planning(&result)?;
                self.forget_planning()?;
                return Ok(end);
            };
            if let Trouble::UsageLimit { resets_at } = trouble {
                // Ralph died before it could note that; the next step waits.
                self.desk.begin_wait(&result.agent, *resets_at, ITEM)?;
                continue;
            }
            RunResult::taken(self.desk.context.state, ITEM)?;
            if let Some(end) = self.after_trouble(&round, trouble)? {
                return Ok(PlanningEnd::Stopped(end));
            }
        }
    }

    /// Forgets that a spec was being planned.
    pub(super) fn forget_planning(&self) -> Result<(), WorkflowError> {
        remove_optional(&self.note())?;
        Ok(RunResult::taken(self.desk.context.state, ITEM)?)
    }

    fn note(&self) -> Utf8PathBuf {
        self.desk.context.state.plan_directory(self.plan.path()).join("planning.json")
    }

    fn after_trouble(
        &mut self,
        round: &Round,
        trouble: &Trouble,
    ) -> Result<Option<BuildEnd>, WorkflowError> {
        if round.streak.stops().is_some() {
            return Ok(Some(BuildEnd::Stuck { trouble: trouble.clone() }));
        }
        let waited = self.desk.pause(round.streak.length(), none(), &mut *self.observer)?;
        Ok((waited == Waited::Interrupted).then_some(BuildEnd::Interrupted))
    }

    fn run_planner(&mut self, round: &Round) -> Result<StepEnd, WorkflowError> {
        let bytes = self.plan.read()?;
        let plan = Plan::parse(&bytes);
        *super::channel::locked(&self.assignment) = Assignment::default();
        self.repositories.note(&self.repositories.base()?)?;
        let source = self.source(&plan)?;
        let tasks = plan.tasks_view();
        let known = (!tasks.pending.is_empty() || !tasks.done.is_empty()).then(|| json(&tasks));
        let context =
            PlanPrompt { surroundings: self.surroundings(&source, None), tasks: known.as_deref() };
        let prompt = self.words(&context);
        let step = Step {
            role: Role::Planner,
            item: ITEM,
            attempt: round.streak.length() + 1,
            prompt: &prompt,
            resume: None,
            outbox: Outbox::Named(&[]),
            directory: None,
            writable: &[],
            variables: &[],
            given: &[],
        };
        Ok(self.desk.step(&step, &mut *self.observer)?)
    }

    fn take_planning(&mut self, result: &RunResult) -> Result<PlanningEnd, WorkflowError> {
        let bytes = self.plan.read()?;
        let tasks = Plan::parse(&bytes).pending().len();
        let why = match &result.outcome {
            RunOutcome::Completed if tasks > 0 => {
                self.prioritize()?;
                return Ok(PlanningEnd::Planned { tasks });
            }
            RunOutcome::Completed => "it added no task".to_owned(),
            outcome => told(outcome),
        };
        self.commit_plan()?;
        Ok(PlanningEnd::Failed { why, tasks })
    }
}
