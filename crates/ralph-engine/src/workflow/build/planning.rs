//! `ralph plan <spec>`: a planner turns a spec into tasks.

use ralph_model::plan::{Plan, Unfinished};
use ralph_model::prompt::PlanPrompt;
use ralph_model::role::Role;
use ralph_model::run::{RunOutcome, Trouble};

use super::channel::Assignment;
use super::runs::json;
use super::taking::told;
use super::{Build, BuildEnd, Round, none};
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
    /// Makes a spec the current one and has a planner add its tasks.
    pub fn plan_spec(
        &mut self,
        spec: &str,
        existing: Existing,
    ) -> Result<PlanningEnd, WorkflowError> {
        self.keeper.prepare()?;
        if existing == Existing::Cancel {
            self.settle(|plan: &mut Plan<'_>| plan.cancel_unfinished())?;
        }
        self.settle(|plan| plan.set_spec(spec, Unfinished::Refuse))?;
        self.settle(|plan: &mut Plan<'_>| plan.clear_tombstones())?;
        let mut round = Round::default();
        loop {
            let result = match self.run_planner(&round)? {
                StepEnd::Ran(result) => result,
                StepEnd::Limited { agent, wait } => {
                    return Ok(PlanningEnd::Stopped(BuildEnd::Limited { agent, wait }));
                }
                StepEnd::OutOfBudget(what) => {
                    return Ok(PlanningEnd::Stopped(BuildEnd::OutOfBudget(what)));
                }
                StepEnd::Interrupted => return Ok(PlanningEnd::Stopped(BuildEnd::Interrupted)),
            };
            RunResult::taken(self.desk.context.state, "plan")?;
            round.streak.apply(&result.outcome);
            let RunOutcome::Trouble { trouble } = &result.outcome else {
                return self.take_planning(&result);
            };
            if let Some(end) = self.after_trouble(&round, trouble)? {
                return Ok(PlanningEnd::Stopped(end));
            }
        }
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
            item: "plan",
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
