//! Events of runs: start and end, usage, and what had to be reverted afterwards.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::event_data;
use crate::millis;
use crate::role::Role;
use crate::run::{ProcessExit, RunEnd, RunOutcome};
use crate::usage::Usage;

/// A run began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunStarted {
    /// The item the run works on. `None` for a single run that a person requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<String>,
    pub role: Role,
    pub agent: String,
    /// As configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    pub attempt: u32,
    /// The number of this run among those of its item and role that were not cut short by trouble.
    #[serde(default, rename = "try", skip_serializing_if = "Option::is_none")]
    pub try_number: Option<u32>,
    /// The boundary in force.
    pub boundary: String,
    /// The directory of the run's log.
    pub dir: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumed_session: Option<String>,
    /// The number of the clone it works in; `None` in the person's checkout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<u32>,
}

/// A run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunFinished {
    pub end: RunEnd,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<ProcessExit>,
    pub outcome: RunOutcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// As reported by the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The usage of this run only, even if the agent counts over the whole session.
    pub usage: Usage,
    /// Whether the tokens were estimated from the sizes of prompt and output, because the agent reports none.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub usage_is_estimate: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Whether the cost was computed from a price table rather than reported by the agent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cost_is_estimate: bool,
    #[serde(with = "millis", rename = "duration_ms")]
    pub duration: Duration,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ms: Option<u64>,
    #[serde(default)]
    pub tool_calls: u64,
    /// The maximum number of tokens in its context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_max: Option<u64>,
    /// Requests that the agent retried by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout_bytes: Option<u64>,
    /// Leftover processes that were terminated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leftovers: Option<u64>,
    /// What it committed, where it may commit and did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<ChangeSize>,
    /// What its outbox held and was not taken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_taken: Vec<OutboxRefusal>,
    /// Advice for the person on a failed run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub advice: Vec<String>,
    /// The last line of the final message, as [`super::summary_line`] cuts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub final_line: Option<String>,
}

/// How much lies between where every `HEAD` stood before a run and where it stood after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeSize {
    pub commits: u64,
    pub files: u64,
    /// Lines; those of binary files are not counted.
    pub added: u64,
    pub removed: u64,
}

/// A wait for the end of a usage limit began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitWaitStarted {
    pub agent: String,
    /// Distinguishes commands and logins of one agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    pub until: Timestamp,
    /// Whether `until` comes from the provider.
    pub known: bool,
    /// Whether the agent used tools since it last waited: the waits that come do not grow out of those before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub worked: bool,
}

/// A wait for a usage limit ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitWaitEnded {
    pub agent: String,
    /// Distinguishes commands and logins of one agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// Whether the wait was interrupted before the limit ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
    /// Whether a person had the limit forgotten: the next wait is as long as a first one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cleared: bool,
}

/// Processes of a run whose harness died were found and terminated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftoversEnded {
    pub processes: u32,
    /// The agent's session, as far as reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
}

/// Private state was lost and rebuilt from the committed files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateRebuilt {
    pub reason: String,
}

event_data! {
    /// A relative location that stays valid after a move or on another machine: relative to one of these.
    Place {
        /// Ralph's home.
        home: Option<String>,
        /// The workspace's private state.
        state: Option<String>,
    }

    /// A refused file of a run's outbox.
    OutboxRefusal {
        name: String,
        reason: String,
    }

    /// A run changed protected files.
    BoundaryCrossed {
        /// What its role must not change.
        violations: Vec<String>,
        /// Everything that was restored to its state before the run.
        put_back: Vec<String>,
        /// What could not be restored.
        left: Vec<String>,
        /// Changes that only the person can have made, and that are kept for that reason.
        kept: Vec<String>,
        /// Where the reverted changes are saved: a directory of private state.
        saved_in: Option<String>,
        /// The commit that contains them, if they were in a working tree.
        displaced: Option<String>,
    }
}
