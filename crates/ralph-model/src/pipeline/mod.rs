//! The pipeline's state machine: from the markers on disk to the state of a spec, and from there to the next step.
//!
//! There is no state besides the markers. An event ([`Fact`]) becomes an ordered list of writes ([`settle::settle`]),
//! and the state after them is again derived from the markers, so resuming means reading. Every prefix of such a list
//! is a valid state too: [`settle::heal`] returns the writes that a crash prevented.

pub mod done;
pub mod records;
pub mod settle;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::id::CommitId;
use done::DoneView;
use records::{CandidateRecord, CandidateStatus, PlanRecord, PlanStatus, SpecIdentity, Try};

pub use settle::{Candidate, Fact, IllegalFact, Write, heal, settle};

/// The default number of attempts per spec.
pub const DEFAULT_ATTEMPTS: u32 = 10;

/// The reason for invalidating a plan whose file was removed.
pub(crate) const PLAN_MISSING: &str = "plan file missing";

/// The phases of the pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    Plan,
    Implement,
    Verify,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Phase::Plan => "plan",
            Phase::Implement => "implement",
            Phase::Verify => "verify",
        })
    }
}

/// Everything on disk about one spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Markers {
    pub spec: SpecIdentity,
    /// The done marker, with the fields that could be parsed.
    pub done: Option<DoneView>,
    pub plan: Option<PlanRecord>,
    /// The [`text_mark`] of the plan in `plans/<rel>.md`, if it exists and is not blank.
    pub plan_text: Option<String>,
    /// The numbers of the archived plans.
    pub archived: Vec<u32>,
    pub candidate: Option<CandidateRecord>,
}

/// The state of a spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpecState {
    Done,
    /// A planner has to write the plan of this number.
    Unplanned {
        number: u32,
        replan: Option<Replan>,
    },
    /// A person wrote the plan; it is adopted unchanged.
    HandWritten {
        number: u32,
    },
    Planned {
        feedback: Option<String>,
    },
    /// A commit, or the claim that none is needed, awaits verification.
    Candidate {
        commit: CommitId,
        no_change: Option<String>,
    },
    Waiting {
        question: String,
    },
}

/// Why a new plan is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replan {
    pub reason: String,
    /// The archive number of the failed plan, if its text still exists.
    pub archive: u32,
}

impl SpecState {
    /// Derives the state from the markers.
    pub fn of(markers: &Markers) -> SpecState {
        if markers.done.is_some() {
            return SpecState::Done;
        }
        let Some(plan) = &markers.plan else {
            let number = 1;
            return if markers.plan_text.is_some() {
                SpecState::HandWritten { number }
            } else {
                SpecState::Unplanned { number, replan: None }
            };
        };
        match plan.status {
            // No planner wrote this text: a person did, while a planner was working or after it failed.
            PlanStatus::Planning
                if markers.plan_text.is_some() && markers.plan_text != plan.text_mark =>
            {
                SpecState::HandWritten { number: plan.attempt }
            }
            // Any existing text was not declared finished.
            PlanStatus::Planning => SpecState::Unplanned {
                number: plan.attempt,
                replan: plan
                    .invalidation_reason
                    .clone()
                    .map(|reason| Replan { reason, archive: plan.attempt.saturating_sub(1) }),
            },
            // Its own text is archived, so this is a different one that no planner wrote.
            PlanStatus::Invalidated
                if markers.plan_text.is_some() && markers.archived.contains(&plan.attempt) =>
            {
                SpecState::HandWritten { number: plan.attempt + 1 }
            }
            PlanStatus::Invalidated => unplanned_after(plan, plan.invalidation_reason.as_deref()),
            PlanStatus::Active if markers.plan_text.is_none() => {
                unplanned_after(plan, Some(PLAN_MISSING))
            }
            PlanStatus::Active => of_candidate(markers.candidate.as_ref()),
        }
    }
}

impl SpecState {
    /// Returns its name for messages.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            SpecState::Done => "done",
            SpecState::Unplanned { .. } => "not planned",
            SpecState::HandWritten { .. } => "planned by hand",
            SpecState::Planned { .. } => "planned",
            SpecState::Candidate { .. } => "a candidate",
            SpecState::Waiting { .. } => "waiting for a person",
        }
    }
}

fn unplanned_after(plan: &PlanRecord, reason: Option<&str>) -> SpecState {
    let reason = reason.unwrap_or("no reason was noted").to_owned();
    let replan = Some(Replan { reason, archive: plan.attempt });
    SpecState::Unplanned { number: plan.attempt + 1, replan }
}

fn of_candidate(candidate: Option<&CandidateRecord>) -> SpecState {
    let Some(record) = candidate else { return SpecState::Planned { feedback: None } };
    match (record.status, &record.candidate_commit) {
        (CandidateStatus::Candidate, Some(commit)) => {
            SpecState::Candidate { commit: commit.clone(), no_change: record.no_change.clone() }
        }
        (CandidateStatus::Waiting, _) => SpecState::Waiting {
            question: record.question.clone().unwrap_or_else(|| "Is it done?".to_owned()),
        },
        // Without a done marker it does not count: a person removed the marker.
        (CandidateStatus::Verified, _) => SpecState::Planned { feedback: None },
        (CandidateStatus::Candidate | CandidateStatus::Rejected, _) => {
            SpecState::Planned { feedback: record.feedback.clone() }
        }
    }
}

/// The next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// It is done.
    Skip,
    Plan {
        number: u32,
        replan: Option<Replan>,
    },
    /// Take the plan that a person wrote.
    Adopt {
        number: u32,
    },
    Implement {
        feedback: Option<String>,
    },
    Verify {
        commit: CommitId,
        no_change: Option<String>,
    },
    /// Wait for a person's answer.
    AskPerson {
        question: String,
    },
    GiveUp(GiveUp),
}

/// Why no further attempt is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GiveUp {
    AttemptsSpent,
    /// The last attempts all ended the same way, so the next one would too.
    Repetition {
        times: u32,
    },
}

/// How many attempts a spec has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptLimits {
    pub attempts: u32,
    /// How many repetitions of the same planning failure or claim are too many.
    pub repeats: u32,
}

impl AttemptLimits {
    /// Returns why no further attempt may follow these tries, if so.
    pub(crate) fn reached(self, attempts_used: u32, tries: &[Try]) -> Option<GiveUp> {
        if attempts_used >= self.attempts {
            return Some(GiveUp::AttemptsSpent);
        }
        let times = repeats(tries);
        (times >= self.repeats).then_some(GiveUp::Repetition { times })
    }
}

/// Counts the attempts that ended like the last one: consecutive planning failures of the same kind, or claims of the
/// same commit, even with others in between.
fn repeats(tries: &[Try]) -> u32 {
    let Some(last) = tries.last() else { return 0 };
    let same_failure = |tried: &&Try| {
        last.phase == Phase::Plan && (tried.phase, &tried.outcome) == (last.phase, &last.outcome)
    };
    let count = match &last.claim {
        Some(claim) => tries.iter().filter(|tried| tried.claim.as_ref() == Some(claim)).count(),
        None => tries.iter().rev().take_while(same_failure).count(),
    };
    count.try_into().unwrap_or(u32::MAX)
}

/// Returns the next step for these markers.
pub fn next(markers: &Markers, limits: AttemptLimits) -> Action {
    let tries = markers.plan.as_ref().map(|plan| plan.tries.as_slice()).unwrap_or_default();
    let given_up = limits.reached(markers.attempts_used(), tries);
    match (SpecState::of(markers), given_up) {
        (SpecState::Done, _) => Action::Skip,
        (SpecState::Waiting { question }, _) => Action::AskPerson { question },
        (SpecState::HandWritten { number }, _) => Action::Adopt { number },
        (_, Some(why)) => Action::GiveUp(why),
        (SpecState::Unplanned { number, replan }, None) => Action::Plan { number, replan },
        (SpecState::Planned { feedback }, None) => Action::Implement { feedback },
        (SpecState::Candidate { commit, no_change }, None) => Action::Verify { commit, no_change },
    }
}

/// A fingerprint of a plan's text: its length and a hash (FNV-1a). It distinguishes a person's edit from our own text.
pub fn text_mark(text: &str) -> String {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in text.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("{}-{hash:016x}", text.len())
}

impl Markers {
    pub fn attempts_used(&self) -> u32 {
        self.plan.as_ref().map_or(0, |plan| plan.attempts_used)
    }
}

#[cfg(test)]
#[path = "pipeline_tests.rs"]
mod tests;
