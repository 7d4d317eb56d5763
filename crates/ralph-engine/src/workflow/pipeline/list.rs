//! Where every spec stands, for people and machines; nothing is written.

use std::collections::HashMap;

use ralph_model::journal::Overview;
use ralph_model::pipeline::records::Try;
use ralph_model::pipeline::{Markers, SpecState, heal};
use ralph_model::spec::name::SpecPath;
use serde::Serialize;

use super::store::SpecStore;
use crate::workflow::WorkflowError;

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
    pub cost_usd: Option<f64>,
    pub(crate) tokens: u64,
    pub(crate) runs: usize,
    /// What came of the last attempt that was spent.
    pub last: Option<Try>,
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
}

/// What the runs of every item took, added up in one pass over all runs.
#[derive(Debug, Default)]
pub struct ItemCosts {
    by_item: HashMap<String, ItemCost>,
}

#[derive(Clone, Copy, Debug, Default)]
struct ItemCost {
    cost_usd: Option<f64>,
    tokens: u64,
    runs: usize,
}

impl ItemCosts {
    pub fn of(overview: &Overview) -> ItemCosts {
        let mut by_item: HashMap<String, ItemCost> = HashMap::new();
        for run in overview.runs() {
            let Some(item) = run.started.as_ref().and_then(|(_, started)| started.item.clone())
            else {
                continue;
            };
            let cost = by_item.entry(item).or_default();
            cost.runs += 1;
            if let Some((_, finished)) = &run.finished {
                cost.tokens += finished.usage.total();
                if let Some(usd) = finished.cost_usd {
                    *cost.cost_usd.get_or_insert(0.0) += usd;
                }
            }
        }
        ItemCosts { by_item }
    }
}

/// Looks at one spec.
pub fn row(
    store: &SpecStore,
    spec: &SpecPath,
    costs: &ItemCosts,
) -> Result<SpecRow, WorkflowError> {
    let markers = store.load(spec)?;
    let state = SpecState::of(&markers);
    let cost = costs.by_item.get(&spec.run_id()).copied().unwrap_or_default();
    let text = store.text(spec.as_str())?.unwrap_or_default();
    let candidate = markers.candidate.as_ref().and_then(|record| record.candidate_commit.clone());
    let done = markers.done.clone();
    let commit = match &done {
        Some(done) => done.commit.clone(),
        None => candidate,
    };
    Ok(SpecRow {
        spec: spec.to_string(),
        id: spec.id().to_owned(),
        title: ralph_model::spec::check::check(&text).ok().map(str::to_owned),
        state: state_name(&state, &markers),
        attempts_used: markers.attempts_used(),
        plan: markers.plan.as_ref().map(|plan| plan.attempt),
        commit: commit.map(String::from),
        proof: done.and_then(|done| done.proof),
        changed_since_done: is_changed(&markers, &text),
        question: match state {
            SpecState::Waiting { question } => Some(question),
            _ => None,
        },
        cost_usd: cost.cost_usd,
        tokens: cost.tokens,
        runs: cost.runs,
        last: markers.plan.and_then(|plan| plan.tries.last().cloned()),
        problem: None,
    })
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
