//! The loop's state machine: one task, gated between PLAN and BUILD by the harness.
//!
//! The [`LoopRecord`], in private state, is the single source of truth: phase, counts, feedback and the validated plan.
//! The files that an agent sees in its mailbox mirror it ([`mirror`]) and are rewritten before each run, so editing
//! them has no effect. An event ([`LoopFact`]) becomes an ordered list of writes ([`settle`]); [`heal`] returns the
//! writes that a crash prevented. A run has one completion decision ([`decide`]), however often it signals completion.
//!
//! | state | next step |
//! |---|---|
//! | no task, done, rolled back | none |
//! | working | validate the plan where it is due, then a builder |
//! | working, all iterations used · aborted · idle | none, until a person lets the task go on |
//! | waiting | a person's answer to the agent's question |
//! | no change claimed | a verifier's opinion |
//! | no change reviewed · undecided | a person's decision |
//! | beginning, accepted, rolling back | none: [`heal`] completes the writes; work that the branch refuses goes back |
//!
//! The engine reads plan documents, runs gates and measures changes; `ralph-outline` checks a plan.

mod decide;
pub mod mailbox;
mod reflection;
mod settle;
mod signal;
mod words;

use serde::{Deserialize, Serialize};

use crate::build::{Acceptance, Work};
use crate::id::RunId;

pub use decide::{IterationReport, LoopDecision, decide};
pub use reflection::reflection_line;
pub use settle::{IllegalLoopFact, LoopFact, LoopWrite, PlanVerdict, SnapshotPoint, heal, settle};
pub use signal::{LoopSignal, RunEnding, signal};
pub use words::escalation;

/// What a loop's agent has to do now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoopPhase {
    #[default]
    Plan,
    Build,
}

impl LoopPhase {
    /// Returns the name written to `phase.txt`.
    pub const fn name(self) -> &'static str {
        match self {
            LoopPhase::Plan => "plan",
            LoopPhase::Build => "build",
        }
    }
}

/// Where the runs of a task work. A task stays where it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoopPlace {
    /// In a clone owned by Ralph; accepted work lands.
    Slot,
    /// In the person's checkout, as all tasks did before slots existed.
    #[default]
    Checkout,
}

/// A task requested by a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoopTask {
    /// The number of the task in the workspace, from 1.
    pub number: u32,
    pub text: String,
}

/// A plan document at one point in time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PlanMark {
    /// Its name in the mailbox.
    pub file: String,
    /// The digest of its content.
    pub digest: String,
}

/// Limits of a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopBounds {
    pub iterations: u32,
    /// Consecutive gate failures.
    pub failures: u32,
    /// Consecutive runs that changed nothing and claimed nothing.
    pub idle: u32,
}

impl Default for LoopBounds {
    fn default() -> LoopBounds {
        LoopBounds { iterations: 20, failures: 5, idle: 3 }
    }
}

/// What private state holds about the loop's task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoopRecord {
    pub task: LoopTask,
    #[serde(default)]
    pub place: LoopPlace,
    pub phase: LoopPhase,
    /// Runs concluded since the task began, or since a person last let it continue.
    pub iterations: u32,
    /// Consecutive gate failures.
    pub failures: u32,
    /// The plan with which BUILD was entered. It is kept after a return to PLAN: from then on the task has a plan.
    pub validated: Option<PlanMark>,
    /// Every plan document that existed while the task was worked on. They belong to this task and not to a later one.
    pub bound: Vec<PlanMark>,
    /// What the harness wants the next run to fix.
    pub feedback: Option<String>,
    /// The harness's files that the last run changed. Separate from the feedback, because a check of the plan replaces
    /// that.
    #[serde(default)]
    pub touched: Vec<String>,
    /// The person's message since the last run. It precedes the feedback, and is for one run only.
    pub said: Option<String>,
    pub standing: LoopStanding,
    /// The run whose result is recorded. Processing its result again after a crash changes nothing.
    pub settled_run: Option<RunId>,
    /// How often in a row accepted work did not fit the branch as it was then.
    #[serde(default)]
    pub landings_refused: u32,
    /// The fingerprint of tree and mailbox after the last run.
    #[serde(default)]
    pub trace: Option<String>,
    /// How many consecutive runs left both unchanged and claimed nothing.
    #[serde(default)]
    pub idle: u32,
}

/// The progress of a task in addition to its phase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum LoopStanding {
    /// The task was recorded; mailbox and snapshot may not be ready yet.
    Beginning {
        /// The number of the task before this one.
        earlier: Option<u32>,
        /// Its plan documents to archive.
        plans: Vec<String>,
        /// Its text, where it ended unfinished.
        given_up: Option<String>,
    },
    Working,
    /// The agent asked a person.
    Waiting {
        question: String,
    },
    /// The agent claims that nothing has to change. A verifier gives its opinion first.
    NoChange {
        reason: String,
    },
    /// A person decides, with the verifier's opinion.
    NoChangeReviewed {
        reason: String,
        opinion: String,
    },
    /// The judge could not decide on this work.
    Undecided {
        works: Vec<Work>,
        question: String,
    },
    /// Gates failed too often in a row.
    Aborted {
        gates: Vec<String>,
    },
    /// Too many runs in a row changed nothing and claimed nothing.
    Idle,
    /// The work was accepted; branches, snapshot and history may not reflect it yet.
    Accepted {
        acceptance: Acceptance,
        summary: String,
    },
    Done {
        acceptance: Acceptance,
    },
    /// A person rolls the task back; the tree may not be restored yet.
    RollingBack,
    RolledBack,
}

impl LoopRecord {
    /// Whether the task has ended, so that a new one replaces nothing.
    pub const fn is_over(&self) -> bool {
        matches!(self.standing, LoopStanding::Done { .. } | LoopStanding::RolledBack)
    }

    /// Returns the content of `feedback.md`: the person's message first.
    pub fn told(&self) -> Option<String> {
        let idle = (self.idle > 0).then_some(words::IDLE);
        let touched = (!self.touched.is_empty()).then(|| words::touched(&self.touched));
        let told = [self.said.as_deref(), self.feedback.as_deref(), touched.as_deref(), idle];
        let parts: Vec<&str> = told.into_iter().flatten().map(str::trim_end).collect();
        (!parts.is_empty()).then(|| parts.join("\n\n") + "\n")
    }

    /// Whether all iterations are used up and work would otherwise continue.
    pub fn is_spent(&self, bounds: LoopBounds) -> bool {
        self.standing == LoopStanding::Working && self.iterations >= bounds.iterations
    }
}

#[cfg(test)]
#[path = "phase_tests.rs"]
mod tests;
