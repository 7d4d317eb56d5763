//! What follows from a planner's run: its plan becomes the spec's, unless a person wrote one meanwhile.

use ralph_model::contract::PlannerClaim;
use ralph_model::journal::{WorkflowFields, WorkflowKind};
use ralph_model::pipeline::{Fact, Markers, Phase, SpecState};

use crate::run::RunResult;
use crate::workflow::driver::Turn;
use crate::workflow::pipeline::phases::{PLAN, SCRATCHPAD};
use crate::workflow::pipeline::spec_work::SpecWork;
use crate::workflow::pipeline::{SpecEnd, none};
use crate::workflow::{WorkflowError, unfinished};

impl SpecWork<'_, '_, '_> {
    pub(super) fn conclude_plan(
        &mut self,
        markers: &Markers,
        result: &RunResult,
    ) -> Result<Turn<SpecEnd>, WorkflowError> {
        if matches!(SpecState::of(markers), SpecState::HandWritten { .. }) {
            let path = self.pipeline.store.path(self.spec.plan_md());
            let reason = format!(
                "{path} was written by hand while the planner was at work, and is used; the planner's plan is in {}",
                result.dir
            );
            self.tell(WorkflowKind::Note, WorkflowFields { reason: Some(reason), ..none() })?;
            return Ok(Turn::Again);
        }
        let plan = result.file(PLAN);
        let claim = result.answer().planner_claim(&self.pipeline.options.magic_phrase, plan);
        let outcome = match (unfinished(&result.outcome), claim) {
            (Some(outcome), _) => outcome,
            (None, PlannerClaim::Planned) if self.is_old_plan(markers, plan)? => {
                "it left the plan that did not hold as it was".to_owned()
            }
            (None, PlannerClaim::NoPlan) => format!("it left no plan in `{PLAN}` of its outbox"),
            (None, PlannerClaim::Unfinished) => {
                "its last line was not the phrase that it was to end with".to_owned()
            }
            (None, PlannerClaim::Planned) => {
                let text = plan.expect("a planner that planned left a plan").to_owned();
                let scratchpad = result.file(SCRATCHPAD).map(str::to_owned);
                let run = result.run.clone();
                self.settle(&Fact::PlanWritten { text, scratchpad, run }, "is planned")?;
                let store = &self.pipeline.store;
                let plan_file = Some(store.relative_to_home(&store.path(self.spec.plan_md())));
                self.tell(WorkflowKind::PlanPass, WorkflowFields { plan_file, ..none() })?;
                return Ok(Turn::Again);
            }
        };
        self.fail_attempt(Phase::Plan, outcome, None, None, Some(result))
    }

    /// Tells whether a planner that was to plan again left the plan that it found.
    fn is_old_plan(&self, markers: &Markers, plan: Option<&str>) -> Result<bool, WorkflowError> {
        let SpecState::Unplanned { replan: Some(replan), .. } = SpecState::of(markers) else {
            return Ok(false);
        };
        let old = self.pipeline.store.text(&self.spec.archive(replan.archive))?;
        Ok(old.is_some() && old.as_deref() == plan)
    }
}
