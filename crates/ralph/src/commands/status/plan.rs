//! The plan's part of the status: its stage, the remaining work, and the next task.

use ralph_engine::workflow::build::planning::made_tasks_of;
use ralph_model::plan::{Next, Plan, Stage};
use serde::Serialize;

use crate::render::human::{one_line, plural};
use crate::render::text::StyledLine;
use crate::render::{Tone, Ui, styled};
use crate::setup::Setup;

/// The state of a home's plan.
#[derive(Serialize)]
pub(super) struct PlanSummary {
    spec: Option<String>,
    /// Absent if an unparsable line may be unfinished work.
    stage: Option<Stage>,
    /// A plan that was never made has no tasks either.
    #[serde(skip)]
    is_planned: bool,
    pending: usize,
    done: usize,
    issues: usize,
    /// The id and name of the next task.
    next: Option<(String, String)>,
    problems: Vec<String>,
}

/// Reads the plan including changes in flight; `None` if there is none.
pub(in crate::commands) fn seen_plan(setup: &Setup) -> Option<Vec<u8>> {
    let overlay = setup.overlay().unwrap_or_default();
    match overlay.file("plan.jsonl") {
        Some(file) => file.map(<[u8]>::to_vec),
        None => std::fs::read(setup.home.path.join("plan.jsonl")).ok(),
    }
}

impl PlanSummary {
    /// Returns the status of the plan; `None` if there is none.
    pub(super) fn of(setup: &Setup) -> Option<PlanSummary> {
        let bytes = seen_plan(setup)?;
        let plan = Plan::parse(&bytes);
        let stage = plan.certain_stage();
        let known = setup.find_state().ok().flatten();
        let is_made = |spec| made_tasks_of(known.as_ref(), spec, &setup.plan_place());
        let is_planned = stage != Some(Stage::Complete)
            || plan.spec().is_some_and(|spec| is_made(spec).unwrap_or(true));
        let named = |id: &str, name: &str| Some((id.to_owned(), name.to_owned()));
        Some(PlanSummary {
            spec: plan.spec().map(str::to_owned),
            stage,
            is_planned,
            pending: plan.pending().len(),
            done: plan.done_tasks().count(),
            issues: plan.issues().count(),
            next: match plan.next() {
                Next::Build(task) | Next::Decompose(task) => named(&task.id, &task.name),
                _ => None,
            },
            problems: plan.document().broken().map(|problem| problem.to_string()).collect(),
        })
    }

    pub(super) fn lines(&self, ui: Ui) -> Vec<StyledLine> {
        let spec = self.spec.as_deref().unwrap_or("no spec");
        let state = match self.stage {
            Some(Stage::Complete) if self.is_planned => "complete".to_owned(),
            Some(Stage::Complete) => format!("not planned yet; `ralph plan {spec}` plans it"),
            stage => self.open(stage),
        };
        let mut lines = vec![styled!("{}       {spec}: {state}", ui.paint(Tone::Strong, "plan"))];
        let problems = self.problems.iter().map(|problem| one_line(problem, 300));
        lines.extend(
            problems.map(|problem| ui.paint(Tone::Bad, &format!("plan.jsonl: {problem}")).into()),
        );
        lines
    }
    pub(super) fn has_work(&self) -> bool {
        !matches!(self.stage, Some(Stage::Complete | Stage::Plan))
    }

    /// What is open, and which task is next.
    fn open(&self, stage: Option<Stage>) -> String {
        let stage = stage.map_or("cannot be read", Stage::name);
        let issues = plural(self.issues as u64, "issue");
        let next = self.next.as_ref();
        let next = next.map(|(id, name)| format!("; next: {id} {}", one_line(name, 60)));
        let next = next.unwrap_or_default();
        format!("{stage}, {} pending, {} done, {issues}{next}", self.pending, self.done)
    }
}
