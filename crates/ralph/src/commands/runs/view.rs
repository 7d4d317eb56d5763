//! A run as shown to people and programs.

use camino::Utf8PathBuf;
use jiff::Timestamp;
use ralph_engine::run::{events_of, log_of};
use ralph_engine::workflow::isolation::upkeep::LandedBranch;
use ralph_model::board::{RunState, RunView};
use ralph_model::journal::{ChangeSize, RunFinished, VerdictKind, VerdictReached};
use ralph_model::role::Role;
use ralph_model::run::{RunOutcome, Trouble};
use serde::Serialize;

use crate::render::Tone;
use crate::render::human::{duration, local_time, one_line};
use crate::setup::{Setup, now};

#[derive(Serialize)]
pub(crate) struct JsonRun<'b> {
    id: &'b str,
    item: Option<&'b str>,
    started: Option<Timestamp>,
    role: Option<Role>,
    agent: Option<&'b str>,
    model: Option<&'b str>,
    attempt: Option<u32>,
    /// The number of the clone it worked in; `null` in the checkout.
    slot: Option<u32>,
    /// `running`, `finished` or `abandoned`.
    state: &'static str,
    outcome: Option<&'b RunOutcome>,
    session: Option<&'b str>,
    duration_ms: Option<u64>,
    tokens: Option<u64>,
    tokens_are_estimate: bool,
    cost_usd: Option<f64>,
    /// What it committed; `null` where it committed nothing.
    changed: Option<ChangeSize>,
    /// The last line of its final message.
    final_line: Option<&'b str>,
    /// The claimed or judged commit; `null` if there is none.
    commit: Option<&'b str>,
    /// The decision on its item before the item's next run began.
    verdict: Option<&'b VerdictReached>,
    /// The commit with which its work landed on the branch.
    landed: Option<&'b str>,
    dir: Option<&'b str>,
    /// `null` if it no longer exists.
    log: Option<Utf8PathBuf>,
    events: Option<Utf8PathBuf>,
}

impl<'b> JsonRun<'b> {
    pub(crate) fn new(setup: &Setup, run: &'b RunView) -> JsonRun<'b> {
        let (state, finished) = match run.state() {
            RunState::Running => ("running", None),
            RunState::Abandoned => ("abandoned", None),
            RunState::Finished(finished) => ("finished", Some(finished)),
        };
        let began = run.started.as_ref().map(|(at, _)| *at);
        let started = run.started.as_ref().map(|(_, started)| &**started);
        let told = finished.and_then(|finished| finished.model.as_deref());
        JsonRun {
            id: run.id.as_str(),
            item: started.and_then(|started| started.item.as_deref()),
            started: began,
            role: started.map(|started| started.role),
            agent: started.map(|started| started.agent.as_str()),
            model: told.or_else(|| started.and_then(|started| started.model.as_deref())),
            attempt: started.map(|started| started.attempt),
            slot: started.and_then(|started| started.slot),
            state,
            outcome: finished.map(|finished| &finished.outcome),
            session: finished.and_then(|finished| finished.session.as_deref()),
            duration_ms: finished
                .and_then(|finished| u64::try_from(finished.duration.as_millis()).ok()),
            tokens: finished.map(|finished| finished.usage.total()),
            tokens_are_estimate: finished.is_some_and(|finished| finished.usage_is_estimate),
            cost_usd: finished.and_then(|finished| finished.cost_usd),
            changed: finished.and_then(|finished| finished.changed),
            final_line: finished.and_then(|finished| finished.final_line.as_deref()),
            commit: commit_of(run),
            verdict: run.verdict.as_deref(),
            landed: run.landed.as_deref(),
            dir: started.map(|started| started.dir.as_str()),
            log: log_file(setup, run),
            events: events_file(run),
        }
    }
}

/// The commit that was claimed or judged in a run.
pub(super) fn commit_of(run: &RunView) -> Option<&str> {
    let judged = run.verdict.as_ref().and_then(|verdict| verdict.commit.as_deref());
    judged.or(run.candidate.as_deref())
}

/// Returns the path of a run's output, if it still exists.
pub(crate) fn log_file(setup: &Setup, run: &RunView) -> Option<Utf8PathBuf> {
    let (_, started) = run.started.as_ref()?;
    Some(log_of(started, Some(&setup.home.path))).filter(|log| log.exists())
}

/// Returns the path of a run's events, if they still exist.
pub(super) fn events_file(run: &RunView) -> Option<Utf8PathBuf> {
    let (_, started) = run.started.as_ref()?;
    Some(events_of(started)).filter(|events| events.exists())
}

/// Returns the state of a run.
pub(crate) fn state_of(run: &RunView) -> (Tone, String) {
    match run.state() {
        RunState::Running => (Tone::Active, "running".to_owned()),
        RunState::Abandoned => (Tone::Attention, "Ralph was killed".to_owned()),
        RunState::Finished(finished) => outcome_of(finished),
    }
}

/// How a run ended.
pub(crate) fn outcome_of(finished: &RunFinished) -> (Tone, String) {
    match &finished.outcome {
        RunOutcome::Completed => {
            (Tone::Good, format!("completed in {}", duration(finished.duration)))
        }
        RunOutcome::TimedOut { .. } => (Tone::Bad, "timed out".to_owned()),
        RunOutcome::ContextFull => (Tone::Bad, "context full".to_owned()),
        RunOutcome::Violation { paths } => {
            (Tone::Bad, format!("changed what it must not: {}", paths.join(", ")))
        }
        RunOutcome::Interrupted => (Tone::Attention, "interrupted".to_owned()),
        RunOutcome::Withdrawn => (Tone::Attention, "withdrawn".to_owned()),
        RunOutcome::Trouble { trouble: Trouble::UsageLimit { resets_at: Some(at) } } => {
            (Tone::Bad, format!("usage limit, resets at {}", local_time(*at, now())))
        }
        RunOutcome::Trouble { trouble } => (Tone::Bad, one_line(&trouble.to_string(), 100)),
    }
}

/// Returns a short description of the decision after a run.
///
/// Landed work may still wait for the person's branch to follow.
pub(super) fn decision(waiting: &[LandedBranch], run: &RunView) -> Option<(Tone, String)> {
    if let Some(landed) = &run.landed {
        if waiting.iter().any(|branch| branch.commits.contains(landed)) {
            return Some((Tone::Attention, "accepted, waits to land".to_owned()));
        }
        return Some((Tone::Good, "landed".to_owned()));
    }
    let verdict = run.verdict.as_deref()?;
    let (tone, word) = match verdict.verdict {
        VerdictKind::Accepted => (Tone::Good, "accepted"),
        VerdictKind::Rejected => (Tone::Bad, "rejected"),
        VerdictKind::PlanInvalid => (Tone::Attention, "the plan is invalid"),
        VerdictKind::NeedsHuman => (Tone::Attention, "waits for a person"),
        VerdictKind::Other => (Tone::Attention, "decided by a newer Ralph"),
    };
    Some((tone, format!("{word} ({})", verdict.by)))
}
