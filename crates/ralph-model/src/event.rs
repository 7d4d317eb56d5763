//! What an agent said and did in a run: one closed vocabulary for every agent CLI.
//!
//! Adapters translate their CLI's stream into these events; nothing above the adapters knows a CLI's own format. The
//! wire form (one JSON object a line) is what `events.jsonl` of a run holds and what the rehearsal agent prints.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::usage::Usage;

/// One thing an agent's stream told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AgentEvent {
    /// The agent has a session that can be resumed by this id.
    Session {
        id: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
    },
    /// The model said something. Not yet its last word.
    Text { text: String },
    /// A tool was called; it is open until a result with the same id comes.
    ToolCall { id: String, name: String, summary: String },
    /// A tool call ended.
    ToolResult { id: String, ok: bool, summary: String },
    /// Tokens used. `cumulative` counts the whole session, resumed runs included; else it counts since the run began.
    Usage {
        usage: Usage,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        cumulative: bool,
    },
    /// What the run cost by the agent's own reckoning. `cumulative` as for usage.
    Cost {
        usd: f64,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        cumulative: bool,
    },
    /// How full the model's context is.
    Context {
        used: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        window: Option<u64>,
    },
    /// The provider told about the account's limit.
    RateLimit {
        status: LimitStatus,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resets_at: Option<Timestamp>,
    },
    /// The agent tries a request again by itself. This is not progress.
    Retry {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<u16>,
        message: String,
    },
    /// The agent's last word: the only text in which markers count.
    Final { text: String },
    /// Something failed. `fatal` says that this run cannot succeed any more, even if the agent goes on trying.
    Error { kind: ErrorKind, message: String, fatal: bool },
}

impl AgentEvent {
    /// Whether this event shows that work goes on, for the idle timeout.
    pub const fn is_progress(&self) -> bool {
        !matches!(
            self,
            AgentEvent::Retry { .. } | AgentEvent::Error { .. } | AgentEvent::RateLimit { .. }
        )
    }
}

/// Where the account stands with its provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitStatus {
    Allowed,
    Warning,
    Rejected,
}

/// What kind of thing went wrong, as far as the harness must tell them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The account's usage limit: wait, then go on.
    UsageLimit,
    /// Credit or quota that does not come back by waiting for a known time.
    Billing,
    /// The key or login is not accepted.
    Auth,
    /// The provider is overloaded or failed.
    Server,
    /// The provider cannot be reached, or the connection broke.
    Network,
    /// The model's context is full.
    Context,
    /// The session that was to be resumed does not exist.
    UnknownSession,
    /// The agent was interrupted.
    Interrupted,
    /// Anything else the agent reported.
    Other,
}
