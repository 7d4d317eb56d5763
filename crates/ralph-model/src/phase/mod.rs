//! The loop's machine: one task, gated between PLAN and BUILD by the harness.
//!
//! The [`LoopRecord`], in private state, is the only truth: phase, counts, feedback and the plan that was validated. The
//! files that an agent sees in its mailbox mirror it ([`mirror`]) and are written again before each run, so editing them
//! changes nothing. What happened ([`LoopFact`]) becomes an ordered list of writes ([`settle`]); [`heal`] returns the
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
//! Reading plan documents, running gates and measuring changes is the engine's; checking a plan is `ralph-outline`'s.

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

/// What a loop's agent is to do now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoopPhase {
    #[default]
    Plan,
    Build,
}

impl LoopPhase {
    /// Returns the name that `phase.txt` has.
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
    /// In a clone of Ralph's own; accepted work lands.
    Slot,
    /// In the person's checkout, as every task did before there were slots.
    #[default]
    Checkout,
}

/// What a person asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoopTask {
    /// Counts the tasks of one workspace, from 1.
    pub number: u32,
    pub text: String,
}

/// A plan document as it was at one moment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PlanMark {
    /// Its name in the mailbox.
    pub file: String,
    /// The digest of its content.
    pub digest: String,
}

/// How often what may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopBounds {
    pub iterations: u32,
    /// Gate failures in a row.
    pub failures: u32,
    /// Runs in a row that changed nothing and claimed nothing.
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
    /// Runs that were concluded since the task began, or since a person let it go on.
    pub iterations: u32,
    /// Gate failures in a row.
    pub failures: u32,
    /// The plan that BUILD was entered with. It stays after a return to PLAN: from then on the task has a plan.
    pub validated: Option<PlanMark>,
    /// Every plan document that was there while the task was worked on. They belong to this task and to no later one.
    pub bound: Vec<PlanMark>,
    /// What the harness wants the next run to fix.
    pub feedback: Option<String>,
    /// What a person said since the last run. It comes before the feedback, and is for one run.
    pub said: Option<String>,
    pub standing: LoopStanding,
    /// The run whose result is recorded. A result of this run that turns up again, after a crash, changes nothing.
    pub settled_run: Option<RunId>,
    /// How often in a row accepted work did not fit what the branch had become.
    #[serde(default)]
    pub landings_refused: u32,
    /// How tree and mailbox were when the last run had ended.
    #[serde(default)]
    pub trace: Option<String>,
    /// How many runs in a row left both as they were and claimed nothing.
    #[serde(default)]
    pub idle: u32,
}

/// How far a task has come, beside its phase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum LoopStanding {
    /// The task was recorded; mailbox and snapshot may not be ready yet.
    Beginning {
        /// The number of the task before this one.
        earlier: Option<u32>,
        /// Its plan documents that are to be archived.
        plans: Vec<String>,
        /// Its text, where it ended unfinished.
        given_up: Option<String>,
    },
    Working,
    /// The agent asked a person.
    Waiting {
        question: String,
    },
    /// Nothing has to change, says the agent. A verifier gives its opinion first.
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
    /// The work was accepted; branches, snapshot and history may not have it yet.
    Accepted {
        acceptance: Acceptance,
        summary: String,
    },
    Done {
        acceptance: Acceptance,
    },
    /// A person takes the task back; the tree may not be as it was yet.
    RollingBack,
    RolledBack,
}

impl LoopRecord {
    /// Whether the task is over and a new one replaces nothing.
    pub const fn is_over(&self) -> bool {
        matches!(self.standing, LoopStanding::Done { .. } | LoopStanding::RolledBack)
    }

    /// Returns what `feedback.md` holds: a person's words first.
    pub fn told(&self) -> Option<String> {
        let idle = (self.idle > 0).then_some(words::IDLE);
        let parts: Vec<&str> = [self.said.as_deref(), self.feedback.as_deref(), idle]
            .into_iter()
            .flatten()
            .map(str::trim_end)
            .collect();
        (!parts.is_empty()).then(|| parts.join("\n\n") + "\n")
    }

    /// Whether all iterations are used and work would go on otherwise.
    pub fn is_spent(&self, bounds: LoopBounds) -> bool {
        self.standing == LoopStanding::Working && self.iterations >= bounds.iterations
    }
}

#[cfg(test)]
#[path = "phase_tests.rs"]
mod tests;
