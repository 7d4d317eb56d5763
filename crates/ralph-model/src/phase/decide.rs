//! The single completion decision of an iteration.
//!
//! The first line that applies decides:
//!
//! | the run signals | phase | plan | decision |
//! |---|---|---|---|
//! | waiting | | | ask the person |
//! | commands as text | | | tell it to use its tools; no gates |
//! | nothing | | | go on |
//! | complete | PLAN | there is one | swallowed: it is validated first |
//! | complete | PLAN | a validated one is gone | swallowed |
//! | complete | BUILD | not as it was validated, or gone | swallowed: it is validated first |
//! | complete | | | nothing changed, and that is the claim: a person decides |
//! | complete | | | nothing changed: rejected |
//! | complete | | | gates |

use super::words::bounded;
use super::{LoopPhase, LoopRecord, LoopSignal, PlanMark};

/// The findings after a run of the loop ended properly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IterationReport {
    pub signal: LoopSignal,
    /// The effective plan document, if there is one.
    pub plan: Option<PlanMark>,
    /// Every plan document, including ineffective ones.
    pub documents: Vec<PlanMark>,
    /// Whether anything differs from the snapshot taken when the task began.
    pub changed: bool,
    /// The agent's reason why nothing has to change, if it claims that.
    pub no_change: Option<String>,
    /// The harness's files that the run changed.
    pub touched: Vec<String>,
    /// A fingerprint of the tree and of the agent's mailbox files.
    pub trace: String,
}

/// The consequence of the end of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoopDecision {
    Ask {
        question: String,
    },
    /// Commands were shown but not run.
    UseTools,
    GoOn,
    /// The completion does not count because the plan must be validated first.
    Swallowed(Swallowed),
    NoChange {
        reason: String,
    },
    NothingChanged,
    /// Evidence and gates decide.
    Judge,
}

/// Why a completion does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swallowed {
    NotValidated,
    Changed,
    Gone,
}

/// Decides the consequence of the end of a run.
pub fn decide(record: &LoopRecord, report: &IterationReport) -> LoopDecision {
    match &report.signal {
        LoopSignal::Waiting { question } => {
            return LoopDecision::Ask { question: question.clone() };
        }
        LoopSignal::CommandsAsText => return LoopDecision::UseTools,
        LoopSignal::GoOn => return LoopDecision::GoOn,
        LoopSignal::Complete => {}
    }
    if let Some(why) = swallowed(record, report.plan.as_ref()) {
        return LoopDecision::Swallowed(why);
    }
    match (&report.no_change, report.changed) {
        (Some(reason), false) => LoopDecision::NoChange { reason: bounded(reason) },
        (None, false) => LoopDecision::NothingChanged,
        (_, true) => LoopDecision::Judge,
    }
}

fn swallowed(record: &LoopRecord, plan: Option<&PlanMark>) -> Option<Swallowed> {
    match (record.phase, plan, &record.validated) {
        (LoopPhase::Plan, Some(_), _) => Some(Swallowed::NotValidated),
        (_, None, Some(_)) => Some(Swallowed::Gone),
        (LoopPhase::Build, plan, validated) if plan != validated.as_ref() => {
            Some(Swallowed::Changed)
        }
        _ => None,
    }
}
