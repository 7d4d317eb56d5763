//! The state of every spec, for people and programs; read-only.

use ralph_model::board::{Board, RunState, RunView};
use ralph_model::journal::RunFinished;
use ralph_model::pipeline::records::Try;
use ralph_model::pipeline::{Action, AttemptLimits, Markers, SpecState, heal, next};
use ralph_model::plan::{Plan, Stage};
use ralph_model::run::RunOutcome;
use ralph_model::spec::check::{SpecFault, check, title};
use ralph_model::spec::name::SpecPath;
use serde::Serialize;

use super::store::SpecStore;
use crate::files::PathError;
use crate::plan_file::finished::PlanPlace;
use crate::state::State;
use crate::workflow::WorkflowError;
use crate::workflow::build::planning::made_tasks_of;

/// One spec of the backlog.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SpecRow {
    pub spec: String,
    pub(crate) id: String,
    pub title: Option<String>,
    pub state: &'static str,
    pub attempts_used: u32,
    pub(crate) plan: Option<u32>,
    pub commit: Option<String>,
    pub proof: Option<String>,
    pub changed_since_done: bool,
    pub question: Option<String>,
    /// The person's answer to the question; the next `ralph pipeline` acts on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// Of the runs whose cost is known.
    pub cost_usd: Option<f64>,
    pub runs_without_cost: u64,
    pub(crate) tokens: u64,
    pub(crate) runs: u64,
    /// The result of the last spent attempt.
    pub last: Option<Try>,
    /// What cut its last run short, which cost no attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// Why its state files cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl SpecRow {
    /// A spec whose state files cannot be read.
    pub fn unreadable(spec: &SpecPath, problem: &str) -> SpecRow {
        SpecRow {
            spec: spec.to_string(),
            id: spec.id().to_owned(),
            state: "broken",
            problem: Some(problem.to_owned()),
            ..SpecRow::default()
        }
    }

    /// A spec that the pipeline knows nothing of may be the one that `ralph plan` made tasks of: then it is `tasks`, and `built`
    /// once nothing is left to do.
    pub fn regard_tasks(
        &mut self,
        plan: &Plan,
        state: Option<&State>,
        place: &PlanPlace<'_>,
    ) -> Result<(), PathError> {
        if !["fresh", "draft"].contains(&self.state) || plan.spec() != Some(self.spec.as_str()) {
            return Ok(());
        }
        match plan.certain_stage() {
            Some(Stage::Complete) if made_tasks_of(state, &self.spec, place)? => {
                self.state = "built";
            }
            // A planner that failed leaves a plan without tasks, too.
            Some(Stage::Complete) => {}
            _ => self.state = "tasks",
        }
        Ok(())
    }
}

/// Looks at one spec. The limits are those of the next start.
pub fn row(
    store: &SpecStore,
    spec: &SpecPath,
    board: &Board,
    limits: AttemptLimits,
) -> Result<SpecRow, WorkflowError> {
    let markers = store.load(spec)?;
    let state = SpecState::of(&markers);
    let item = board.item(&spec.run_id());
    let text = store.text(spec.as_str())?.unwrap_or_default();
    let candidate = markers.candidate.as_ref().and_then(|record| record.candidate_commit.clone());
    let done = markers.done.clone();
    let commit = match &done {
        Some(done) => done.commit.clone(),
        None => candidate,
    };
    let question = match &state {
        SpecState::Waiting { question } => Some(question.clone()),
        _ => None,
    };
    let answered = question.as_ref().and_then(|_| board.answered(&spec.run_id()));
    let is_open = !matches!(state, SpecState::Done | SpecState::Waiting { .. });
    Ok(SpecRow {
        spec: spec.to_string(),
        id: spec.id().to_owned(),
        title: title(&text).ok().map(str::to_owned),
        state: match state_name(&state, &markers) {
            "fresh" if matches!(check(&text), Err(SpecFault::Template { .. })) => "draft",
            "waiting" if answered.is_some() => "answered",
            _ if matches!(next(&markers, limits), Action::GiveUp(_)) => "failed",
            name => name,
        },
        attempts_used: markers.attempts_used(),
        plan: markers.plan.as_ref().map(|plan| plan.attempt),
        commit: commit.map(String::from),
        proof: done.and_then(|done| done.proof),
        changed_since_done: is_changed(&markers, &text),
        answer: answered.and_then(|question| question.answer.clone()),
        question,
        cost_usd: item.and_then(|item| item.totals.cost_usd),
        runs_without_cost: item.map_or(0, |item| item.totals.runs_without_cost),
        tokens: item.map_or(0, |item| item.totals.usage.total()),
        runs: item.map_or(0, |item| item.runs),
        trouble: if is_open { trouble(board, &spec.run_id()) } else { None },
        last: markers.plan.and_then(|plan| plan.tries.last().cloned()),
        problem: None,
    })
}

/// Returns what cut the last run of an item short.
fn trouble(board: &Board, item: &str) -> Option<String> {
    let is_of_item = |run: &&RunView| {
        run.started.as_ref().is_some_and(|(_, started)| started.item.as_deref() == Some(item))
    };
    match board.runs().rev().find(is_of_item)?.state() {
        RunState::Finished(RunFinished { outcome: RunOutcome::Trouble { trouble }, .. }) => {
            Some(trouble.to_string())
        }
        _ => None,
    }
}

/// Tells whether `ralph build` has done all that `ralph plan` made of a spec, and the pipeline has not begun it.
pub fn is_built(
    store: &SpecStore,
    spec: &SpecPath,
    plan: &Plan,
    state: Option<&State>,
    place: &PlanPlace<'_>,
) -> Result<bool, PathError> {
    let is_fresh = store.load(spec).is_ok_and(|markers| {
        markers.plan.is_none() && markers.candidate.is_none() && markers.done.is_none()
    });
    let is_complete = || plan.certain_stage() == Some(Stage::Complete);
    let is_planned = is_fresh && plan.spec() == Some(spec.as_str()) && is_complete();
    Ok(is_planned && made_tasks_of(state, spec.as_str(), place)?)
}

/// Returns the questions that specs wait with, by item, also where private state was lost and does not know them.
pub fn waiting(store: &SpecStore, specs: &[SpecPath]) -> Vec<(String, String)> {
    let question = |spec: &SpecPath| match SpecState::of(&store.load(spec).ok()?) {
        SpecState::Waiting { question } => Some((spec.run_id(), question)),
        _ => None,
    };
    specs.iter().filter_map(question).collect()
}

/// Returns a state's name.
pub(crate) fn state_name(state: &SpecState, markers: &Markers) -> &'static str {
    let torn = !heal(markers).is_empty();
    match state {
        SpecState::Done => "done",
        SpecState::Unplanned { replan: Some(_), .. } => "replan",
        SpecState::Unplanned { .. } if markers.plan.is_some() => "planning",
        SpecState::Unplanned { .. } => "fresh",
        SpecState::HandWritten { .. } if torn => "replan",
        SpecState::Planned { feedback: Some(_) } => "rejected",
        SpecState::HandWritten { .. } | SpecState::Planned { feedback: None } => "planned",
        SpecState::Candidate { .. } => "candidate",
        SpecState::Waiting { .. } => "waiting",
    }
}

/// Returns whether a spec is not what it was when it was done.
pub(crate) fn changed_since_done(
    store: &SpecStore,
    spec: &SpecPath,
    markers: &Markers,
) -> Result<bool, WorkflowError> {
    Ok(is_changed(markers, &store.text(spec.as_str())?.unwrap_or_default()))
}

/// Returns whether the text of a spec is not what it was when it was done.
fn is_changed(markers: &Markers, text: &str) -> bool {
    let then = markers.done.as_ref().and_then(|done| done.spec_digest.as_ref());
    then.is_some_and(|then| *then != crate::digest::of_bytes(text.as_bytes()))
}

/// Tells one text of a spec from another.
pub fn digest(store: &SpecStore, spec: &SpecPath) -> Result<String, WorkflowError> {
    let text = store.text(spec.as_str())?.unwrap_or_default();
    Ok(crate::digest::of_bytes(text.as_bytes()))
}
