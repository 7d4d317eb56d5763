//! Events of an agent's run: one closed vocabulary for every agent CLI.
//!
//! Adapters translate their CLI's stream into these events; nothing above the adapters knows a CLI's own format. The
//! wire form (one JSON object a line) is what `events.jsonl` of a run holds and what the rehearsal agent prints.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::usage::Usage;

/// One event of an agent's stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AgentEvent {
    /// The agent has a session that can be resumed by this id.
    Session {
        id: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
    },
    /// The model said something. Not its final message.
    Text { text: String },
    /// A tool was called; it is open until a result with the same id comes.
    ToolCall { id: String, name: String, summary: String },
    /// A tool call ended.
    ToolResult { id: String, ok: bool, summary: String },
    /// Tokens used. `cumulative` means the whole session, including resumed runs; otherwise since the run began.
    Usage {
        usage: Usage,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        cumulative: bool,
    },
    /// The cost of the run according to the agent. `cumulative` as for usage.
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
    /// The provider reported the state of the account's limit.
    RateLimit {
        status: LimitStatus,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resets_at: Option<Timestamp>,
    },
    /// The agent retries a request by itself. This is not progress.
    Retry {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<u16>,
        message: String,
    },
    /// The agent's final message: the only text in which markers count.
    Final { text: String },
    /// Something failed. `fatal` means that this run cannot succeed any more, even if the agent keeps trying.
    Error { kind: ErrorKind, message: String, fatal: bool },
}

impl AgentEvent {
    /// Whether this event counts as progress for the idle timeout.
    pub const fn is_progress(&self) -> bool {
        !matches!(
            self,
            AgentEvent::Retry { .. } | AgentEvent::Error { .. } | AgentEvent::RateLimit { .. }
        )
    }
}

/// The account's limit status at its provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitStatus {
    Allowed,
    Warning,
    Rejected,
}

/// The kinds of errors that the harness must distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The account's usage limit: wait, then continue.
    UsageLimit,
    /// Exhausted credit or quota that does not reset at a known time.
    Billing,
    /// The key or login is not accepted.
    Auth,
    /// The provider is overloaded or failed.
    Server,
    /// The provider cannot be reached, or the connection broke.
    Network,
    /// The model's context is full.
    Context,
    /// The session to resume does not exist.
    UnknownSession,
    /// The agent was interrupted.
    Interrupted,
    /// Anything else the agent reported.
    Other,
}
