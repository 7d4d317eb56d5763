//! The build loop's state machine for one task: from its line in the plan and its record to the next step.
//!
//! The plan file says what to do; the [`TaskRecord`], in private state, says how far the judgement of a claim has
//! progressed. There is no other state. An event ([`TaskFact`]) becomes an ordered list of writes ([`settle`]), and the
//! state after them is derived from the markers again, so resuming means reading. Every prefix of such a list is a
//! valid state too: [`heal`] returns the writes that a crash prevented.
//!
//! | state | next step |
//! |---|---|
//! | not pending | none: the task is done, deleted or accepted |
//! | open | a builder |
//! | claimed | a builder: the run that made the claim is gone, and its claim with it |
//! | accepted, rejected | none: [`heal`] completes the writes |
//! | no change claimed | a verifier's opinion |
//! | no change reviewed | a person's decision |
//! | undecided | the judge again, then a person's decision |
//! | open, and rejected too often | a person's decision |

mod settle;

use serde::{Deserialize, Serialize};

use crate::id::{CommitId, RunId};
use crate::proof::ProofLevel;

pub use settle::{IllegalTaskFact, TaskFact, TaskWrite, heal, settle};

/// The commit that an attempt ended with in one repository.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Work {
    pub commit: CommitId,
    /// The directory of the repository in the workspace; empty for the workspace itself.
    pub repository: String,
}

/// What private state holds about a task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskRecord {
    #[serde(default)]
    pub claim: TaskClaim,
    /// The run whose result is recorded. Processing its result again after a crash changes nothing.
    #[serde(default)]
    pub settled_run: Option<RunId>,
    /// Rejections that no longer count, because a person asked for another attempt.
    #[serde(default)]
    pub forgiven: u32,
    /// Runs since then that ended without a claim. They count as rejections.
    #[serde(default)]
    pub unclaimed: u32,
    /// The person's advice for the next run, or why its work could not land.
    #[serde(default)]
    pub advice: Option<String>,
    /// How often accepted work could not land on the branch and was sent back.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub landings_refused: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// How far the judgement of a claim has progressed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum TaskClaim {
    #[default]
    None,
    /// A run claims that the task is done. The claim counts once that run has ended properly.
    Made { run: RunId, no_change: Option<String> },
    /// The claim was rejected; the plan may not say so yet.
    Rejected {
        run: Option<RunId>,
        rejection: Rejection,
        /// How many tombstones the task had before this one.
        earlier: usize,
    },
    /// The claim was accepted; branches and plan may not reflect it yet.
    Accepted { run: Option<RunId>, acceptance: Acceptance },
    /// The builder claims that nothing has to change. A verifier gives its opinion first.
    NoChange { reason: String },
    /// A person decides, with the verifier's opinion.
    NoChangeReviewed { reason: String, opinion: String },
    /// The judge could not decide on this work.
    Undecided { works: Vec<Work>, question: String },
}

/// Work that was accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acceptance {
    /// Empty where nothing had to change.
    pub works: Vec<Work>,
    /// The commit that the plan names for the task.
    pub done_at: Option<CommitId>,
    pub level: ProofLevel,
}

/// Why a claim was rejected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejection {
    pub commit: Option<CommitId>,
    pub for_agent: String,
    pub for_person: String,
}

impl Rejection {
    /// Returns a rejection without a commit, with the same text for agents and people.
    pub fn plain(reason: String) -> Rejection {
        Rejection { commit: None, for_agent: reason.clone(), for_person: reason }
    }

    /// Adds the problems found in another repository.
    #[must_use]
    pub fn and(self, more: &Rejection) -> Rejection {
        Rejection {
            commit: self.commit,
            for_agent: format!("{}\n\n{}", self.for_agent, more.for_agent),
            for_person: format!("{} {}", self.for_person, more.for_person),
        }
    }
}

/// A task as the plan file has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskInPlan {
    /// Done, accepted or deleted.
    NotPending,
    Pending {
        killed: bool,
        /// The reasons of its tombstones, the oldest first.
        rejections: Vec<String>,
    },
}

/// Everything on disk about one task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskMarkers {
    pub in_plan: TaskInPlan,
    pub record: TaskRecord,
}

impl TaskMarkers {
    /// Returns the number of rejections in the plan.
    fn tombstones(&self) -> usize {
        match &self.in_plan {
            TaskInPlan::NotPending => 0,
            TaskInPlan::Pending { rejections, .. } => rejections.len(),
        }
    }
}

/// The state of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskState {
    NotPending,
    Open,
    Claimed {
        run: RunId,
        no_change: Option<String>,
    },
    /// Decided; the remaining writes are not complete.
    Accepted,
    /// Decided; the remaining writes are not complete.
    Rejected,
    NoChange {
        reason: String,
    },
    NoChangeReviewed {
        reason: String,
        opinion: String,
    },
    Undecided {
        works: Vec<Work>,
    },
    /// Rejected or left unclaimed too often; `last` is the latest reason.
    Exhausted {
        times: u32,
        last: String,
    },
}

impl TaskState {
    /// Derives the state from the markers. `most` is the number of rejections after which a person is asked.
    pub fn of(markers: &TaskMarkers, most: u32) -> TaskState {
        let TaskInPlan::Pending { rejections, .. } = &markers.in_plan else {
            return TaskState::NotPending;
        };
        match markers.record.claim.clone() {
            TaskClaim::Made { run, no_change } => TaskState::Claimed { run, no_change },
            TaskClaim::Accepted { .. } => TaskState::Accepted,
            TaskClaim::Rejected { .. } => TaskState::Rejected,
            TaskClaim::NoChange { reason } => TaskState::NoChange { reason },
            TaskClaim::NoChangeReviewed { reason, opinion } => {
                TaskState::NoChangeReviewed { reason, opinion }
            }
            TaskClaim::Undecided { works, .. } => TaskState::Undecided { works },
            TaskClaim::None => {
                let TaskRecord { forgiven, unclaimed, .. } = &markers.record;
                let rejected = u32::try_from(rejections.len()).unwrap_or(u32::MAX);
                let times = rejected.saturating_sub(*forgiven).saturating_add(*unclaimed);
                if times < most {
                    return TaskState::Open;
                }
                let last = match rejections.last() {
                    Some(last) if *unclaimed == 0 => last.clone(),
                    _ => "the last run ended without claiming the task".to_owned(),
                };
                TaskState::Exhausted { times, last }
            }
        }
    }
}

#[cfg(test)]
#[path = "build_tests.rs"]
mod tests;
