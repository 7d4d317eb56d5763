//! The plan's part of the status: its stage, the remaining work, and the next task.

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
        let named = |id: &str, name: &str| Some((id.to_owned(), name.to_owned()));
        Some(PlanSummary {
            spec: plan.spec().map(str::to_owned),
            stage: plan.certain_stage(),
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
        let issues = plural(self.issues as u64, "issue");
        let stage = self.stage.map_or("cannot be read", Stage::name);
        let next = self.next.as_ref();
        let next = next.map(|(id, name)| format!("; next: {id} {}", one_line(name, 60)));
        let mut lines = vec![styled!(
            "{}       {spec}: {stage}, {} pending, {} done, {issues}{}",
            ui.paint(Tone::Strong, "plan"),
            self.pending,
            self.done,
            next.unwrap_or_default()
        )];
        let problems = self.problems.iter().map(|problem| one_line(problem, 300));
        lines.extend(
            problems.map(|problem| ui.paint(Tone::Bad, &format!("plan.jsonl: {problem}")).into()),
        );
        lines
    }
}
