//! The one completion decision of an iteration.
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

/// What was found when a run of the loop had ended as it should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IterationReport {
    pub signal: LoopSignal,
    /// The plan document that counts, if there is one.
    pub plan: Option<PlanMark>,
    /// Every plan document, also those that do not count.
    pub documents: Vec<PlanMark>,
    /// Whether anything differs from the snapshot that the task began with.
    pub changed: bool,
    /// Why nothing has to change, where the agent says so.
    pub no_change: Option<String>,
    /// Files of the harness that the run had changed.
    pub touched: Vec<String>,
    /// How the tree and the agent's files of the mailbox are now.
    pub trace: String,
}

/// What follows from the end of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoopDecision {
    Ask {
        question: String,
    },
    /// Commands were shown and not run.
    UseTools,
    GoOn,
    /// The completion does not count, because the plan is to be validated first.
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

/// Decides what follows from the end of a run.
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
