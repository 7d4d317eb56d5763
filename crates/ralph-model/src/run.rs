//! One run of an agent: the facts the harness gathered while it went on, and what they add up to.
//!
//! `RunFacts` is a fold over the run's events and its end; `RunOutcome` is a pure function of the facts. Exit codes
//! alone decide nothing: some agents exit with 0 after an error, and some die after their work is done.

use std::collections::HashSet;
use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::event::{AgentEvent, ErrorKind, LimitStatus};
use crate::usage::Usage;

/// Why a run is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "end", rename_all = "snake_case")]
pub enum RunEnd {
    /// The agent ended by itself.
    Exited,
    /// It ran longer than it may.
    WallTimeout { after: Duration },
    /// It made no progress for longer than it may.
    IdleTimeout { after: Duration },
    /// Its context was full and it does not compact by itself.
    ContextLimit { used: u64, window: u64 },
    /// The person interrupted.
    Interrupted,
    /// It reported an error after which it could only fail, and was stopped.
    Hopeless,
    /// It could not be started.
    NotStarted { reason: String },
    /// The machine got in the way (a full disk, a guard that was killed).
    MachineFault { reason: String },
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    Code(i32),
    Signal(i32),
}

impl Exit {
    pub const fn is_success(self) -> bool {
        matches!(self, Exit::Code(0))
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exit::Code(code) => write!(f, "exit {code}"),
            Exit::Signal(signal) => write!(f, "signal {signal}"),
        }
    }
}

/// An error the agent reported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentError {
    pub kind: ErrorKind,
    pub message: String,
}

/// A usage limit that the run hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageLimit {
    pub resets_at: Option<Timestamp>,
}

/// How full the model's context is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextFill {
    pub used: u64,
    pub window: Option<u64>,
}

/// Everything the harness knows of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunFacts {
    pub session: Option<String>,
    pub model: Option<String>,
    pub usage: Usage,
    pub usage_is_cumulative: bool,
    pub cost_usd: Option<f64>,
    pub cost_is_cumulative: bool,
    pub context: Option<ContextFill>,
    pub tool_calls: u64,
    pub open_tools: HashSet<String>,
    pub last_text: Option<String>,
    pub final_message: Option<String>,
    pub error: Option<AgentError>,
    pub limit: Option<UsageLimit>,
    pub retries: u64,
}

impl RunFacts {
    /// Takes one event into account.
    pub fn apply(&mut self, event: &AgentEvent) {
        match event {
            AgentEvent::Session { id, model } => {
                self.session = Some(id.clone());
                if model.is_some() {
                    self.model.clone_from(model);
                }
            }
            AgentEvent::Text { text } => self.last_text = Some(text.clone()),
            AgentEvent::ToolCall { id, .. } => {
                self.tool_calls += 1;
                self.open_tools.insert(id.clone());
            }
            AgentEvent::ToolResult { id, .. } => {
                self.open_tools.remove(id);
            }
            AgentEvent::Usage { usage, cumulative } => {
                self.usage = *usage;
                self.usage_is_cumulative = *cumulative;
            }
            AgentEvent::Cost { usd, cumulative } => {
                self.cost_usd = Some(*usd);
                self.cost_is_cumulative = *cumulative;
            }
            AgentEvent::Context { used, window } => {
                let window = window.or(self.context.and_then(|context| context.window));
                self.context = Some(ContextFill { used: *used, window });
            }
            AgentEvent::RateLimit { status: LimitStatus::Rejected, resets_at } => {
                let known = self.limit.and_then(|limit| limit.resets_at);
                self.limit = Some(UsageLimit { resets_at: resets_at.or(known) });
            }
            AgentEvent::RateLimit { .. } => {}
            AgentEvent::Retry { .. } => self.retries += 1,
            AgentEvent::Final { text } => self.final_message = Some(text.clone()),
            AgentEvent::Error { kind, message, .. } => {
                if *kind == ErrorKind::UsageLimit && self.limit.is_none() {
                    self.limit = Some(UsageLimit { resets_at: None });
                }
                self.error = Some(AgentError { kind: *kind, message: message.clone() });
            }
        }
    }
}

/// What a run amounts to, before anyone looks at what it claims.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum RunOutcome {
    /// The agent finished its turn and said a last word.
    Completed,
    /// A timeout: a fact about the work.
    TimedOut { idle: bool, after: Duration },
    /// The context was full: a fact about the work.
    ContextFull,
    /// The person interrupted; nothing follows from it.
    Interrupted,
    /// Not the work's fault: the same step is repeated at no cost.
    Trouble { trouble: Trouble },
}

/// What got in the way of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Trouble {
    UsageLimit { resets_at: Option<Timestamp> },
    Network { message: String },
    Server { message: String },
    Auth { message: String },
    Billing { message: String },
    UnknownSession { message: String },
    Spawn { message: String },
    Machine { message: String },
    NoOutput,
    Crash { exit: Exit },
    Agent { message: String },
}
