//! What follows from a planner's run: its plan becomes the spec's, unless a person wrote one meanwhile.

use camino::Utf8Path;
use ralph_model::contract::PlannerClaim;
use ralph_model::journal::PlanPass;
use ralph_model::memory::merge_notes;
use ralph_model::pipeline::{Fact, Markers, Phase, SpecState};

use crate::files::read_optional;
use crate::run::RunResult;
use crate::workflow::driver::Turn;
use crate::workflow::home_committer::CommittedFile;
use crate::workflow::pipeline::SpecEnd;
use crate::workflow::pipeline::phases::{PLAN, SCRATCHPAD};
use crate::workflow::pipeline::spec_work::SpecWork;
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
                "{path} was written by hand during planning and is used; the planner's plan is in {}",
                result.dir
            );
            self.note(reason)?;
            return Ok(Turn::Again);
        }
        let plan = result.file(PLAN);
        let claim = result.answer().planner_claim(&self.pipeline.options.magic_phrase, plan);
        let outcome = match (unfinished(&result.outcome), claim) {
            (Some(outcome), _) => outcome,
            (None, PlannerClaim::Planned) if self.is_old_plan(markers, plan)? => {
                "it left the invalid plan unchanged".to_owned()
            }
            (None, PlannerClaim::NoPlan) => format!("it left no plan in `{PLAN}` of its outbox"),
            (None, PlannerClaim::Unfinished) => {
                format!("its last line was not `{}`", self.pipeline.options.magic_phrase)
            }
            (None, PlannerClaim::Planned) => {
                let text = plan.expect("a planner that planned left a plan").to_owned();
                let scratchpad = match result.file(SCRATCHPAD) {
                    Some(written) => Some(self.with_persons_notes(written)?),
                    None => None,
                };
                let run = result.run.clone();
                self.settle(&Fact::PlanWritten { text, scratchpad, run }, "is planned")?;
                let store = &self.pipeline.store;
                let plan_file = store.relative_to_home(&store.path(self.spec.plan_md()));
                let plan_attempt = store.load(self.spec)?.plan.map_or(1, |plan| plan.attempt);
                self.tell(|spec| PlanPass { spec, plan_attempt, plan_file })?;
                return Ok(Turn::Again);
            }
        };
        self.fail_attempt(Phase::Plan, outcome, None, None, Some(result))
    }

    /// Returns the scratchpad that a planner left, with the lines that a person wrote into theirs meanwhile. In a clone the
    /// draft of home is merged with the person's by itself.
    fn with_persons_notes(&self, written: &str) -> Result<String, WorkflowError> {
        let project = &self.pipeline.project;
        let CommittedFile::Committed(base) = project.committed_file(Utf8Path::new(SCRATCHPAD))?
        else {
            return Ok(written.to_owned());
        };
        let now = read_optional(&self.pipeline.store.scratchpad())?.unwrap_or_default();
        // Home is committed before each run, so that is what the planner was given.
        let base = base.unwrap_or_default();
        if !project.is_in_place() || now == base {
            return Ok(written.to_owned());
        }
        let has = |text: &[u8], line: &str| {
            text.split(|byte| *byte == b'\n').any(|found| found == line.as_bytes())
        };
        // A Ralph that died after it had written the file finds it merged.
        let is_merged = written.lines().all(|line| has(&base, line) || has(&now, line));
        let merged = if is_merged { now } else { merge_notes(&base, written.as_bytes(), &now) };
        Ok(String::from_utf8_lossy(&merged).into_owned())
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
