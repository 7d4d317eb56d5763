//! Where every spec stands, for people and machines; nothing is written.

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

/// Looks at one spec.
pub fn row(
    store: &SpecStore,
    spec: &SpecPath,
    overview: &Overview,
) -> Result<SpecRow, WorkflowError> {
    let markers = store.load(spec)?;
    let state = SpecState::of(&markers);
    let item = spec.run_id();
    let runs = overview.runs().iter().filter(|run| {
        run.started.as_ref().is_some_and(|(_, started)| started.item.as_deref() == Some(&item))
    });
    let (mut cost_usd, mut tokens, mut count) = (None, 0, 0);
    for run in runs {
        count += 1;
        if let Some((_, finished)) = &run.finished {
            tokens += finished.usage.total();
            if let Some(usd) = finished.cost_usd {
                *cost_usd.get_or_insert(0.0) += usd;
            }
        }
    }
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
        changed_since_done: changed_since_done(store, spec, &markers)?,
        question: match state {
            SpecState::Waiting { question } => Some(question),
            _ => None,
        },
        cost_usd,
        tokens,
        runs: count,
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
    let Some(then) = markers.done.as_ref().and_then(|done| done.spec_digest.clone()) else {
        return Ok(false);
    };
    Ok(then != digest(store, spec)?)
}

/// Tells one text of a spec from another.
pub fn digest(store: &SpecStore, spec: &SpecPath) -> Result<String, WorkflowError> {
    let text = store.text(spec.as_str())?.unwrap_or_default();
    Ok(crate::digest::of_bytes(text.as_bytes()))
}
