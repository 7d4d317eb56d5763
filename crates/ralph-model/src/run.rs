//! One run of an agent: the facts the harness gathers during it.
//!
//! `RunFacts` is a fold over the run's events; [`crate::outcome`] decides the outcome.

use std::collections::HashSet;
use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::event::{AgentEvent, ErrorKind, LimitStatus};
use crate::millis;
use crate::usage::Usage;

/// Why a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RunEnd {
    /// The agent exited by itself.
    Exited,
    /// It exceeded its time limit.
    WallTimeout {
        #[serde(with = "millis", rename = "after_ms")]
        after: Duration,
    },
    /// It made no progress for too long.
    IdleTimeout {
        #[serde(with = "millis", rename = "after_ms")]
        after: Duration,
    },
    /// Its context was full and it does not compact by itself.
    ContextLimit { used: u64, window: u64 },
    /// The person interrupted.
    Interrupted,
    /// Meanwhile the person decided on its item.
    Withdrawn,
    /// It reported an error after which it could only fail, and was stopped.
    Hopeless,
    /// It could not be started.
    NotStarted { reason: String },
    /// The machine or the harness failed (a full disk, a directory that cannot be created, a killed guard).
    MachineFault { reason: String },
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessExit {
    Code(i32),
    Signal(i32),
}

impl ProcessExit {
    pub const fn is_success(self) -> bool {
        matches!(self, ProcessExit::Code(0))
    }
}

impl fmt::Display for ProcessExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProcessExit::Code(code) => write!(f, "exit {code}"),
            ProcessExit::Signal(signal) => write!(f, "signal {signal}"),
        }
    }
}

/// An error the agent reported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentError {
    pub kind: ErrorKind,
    pub message: String,
    pub fatal: bool,
}

impl AgentError {
    /// Whether this error says more about the run than `other`, which came later.
    ///
    /// The first fatal error is the cause, and later ones are its consequences: an agent that stops because its key was
    /// refused reports an interruption next. A cause is replaced only if its kind is unknown and the later one's is
    /// known.
    fn outranks(&self, other: &AgentError) -> bool {
        let vague =
            |error: &AgentError| matches!(error.kind, ErrorKind::Other | ErrorKind::Interrupted);
        self.fatal && (!other.fatal || vague(other) || !vague(self))
    }
}

/// A request that the agent retries by itself, with no output of the model since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retrying {
    pub status: Option<u16>,
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

/// All facts of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunFacts {
    pub session: Option<String>,
    pub model: Option<String>,
    pub usage: Usage,
    pub usage_is_cumulative: bool,
    pub cost_usd: Option<f64>,
    pub cost_is_cumulative: bool,
    pub context: Option<ContextFill>,
    /// The highest fill of the context.
    pub context_max: Option<u64>,
    pub tool_calls: u64,
    pub open_tools: HashSet<String>,
    pub last_text: Option<String>,
    pub final_message: Option<String>,
    pub error: Option<AgentError>,
    /// The limit in force: nothing the agent did later shows that it has ended.
    pub limit: Option<UsageLimit>,
    /// When the last limit that was reported resets, also if the agent has called tools since.
    pub last_reset: Option<Timestamp>,
    pub retries: u64,
    pub retrying: Option<Retrying>,
}

impl RunFacts {
    /// Applies one event.
    pub fn apply(&mut self, event: &AgentEvent) {
        match event {
            AgentEvent::Session { id, model } => {
                self.session = Some(id.clone());
                if model.is_some() {
                    self.model.clone_from(model);
                }
            }
            AgentEvent::Text { text } => {
                self.model_spoke();
                // In place, because there may be millions of them.
                self.last_text.get_or_insert_default().clone_from(text);
            }
            AgentEvent::ToolCall { id, .. } => {
                self.model_spoke();
                // Some agents report a limit as text of the model; a tool call cannot be faked that way.
                self.limit = None;
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
                self.context_max = self.context_max.max(Some(*used));
            }
            AgentEvent::RateLimit { status: LimitStatus::Rejected, resets_at } => {
                self.last_reset = resets_at.or(self.last_reset);
                self.limit = Some(UsageLimit { resets_at: self.last_reset });
            }
            AgentEvent::RateLimit { .. } => {
                self.limit = None;
                self.last_reset = None;
                self.retrying = None;
            }
            AgentEvent::Retry { status, message } => {
                self.retries += 1;
                self.retrying = Some(Retrying { status: *status, message: message.clone() });
            }
            AgentEvent::Final { text } => self.final_message = Some(text.clone()),
            AgentEvent::Error { kind, message, fatal } => {
                if *kind == ErrorKind::UsageLimit && self.limit.is_none() {
                    self.limit = Some(UsageLimit { resets_at: self.last_reset });
                }
                let error = AgentError { kind: *kind, message: message.clone(), fatal: *fatal };
                match &mut self.error {
                    // The same error again: the later message has more detail.
                    Some(known) if known.kind == error.kind => {
                        known.message = error.message;
                        known.fatal |= error.fatal;
                    }
                    Some(known) if known.outranks(&error) => {}
                    _ => self.error = Some(error),
                }
            }
        }
    }

    /// Clears errors that the agent has overcome, since the model responds again.
    fn model_spoke(&mut self) {
        self.retrying = None;
        self.error = self.error.take().filter(|error| error.fatal);
    }
}

/// The outcome of a run, before its claims are considered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RunOutcome {
    /// The agent finished its turn.
    Completed,
    /// A timeout: a fact about the work.
    TimedOut {
        idle: bool,
        #[serde(with = "millis", rename = "after_ms")]
        after: Duration,
    },
    /// The context was full: a fact about the work.
    ContextFull,
    /// The agent finished its turn, but changed what its role must not change: a fact about the work.
    Violation { paths: Vec<String> },
    /// The person interrupted; nothing follows from it.
    Interrupted,
    /// It was stopped because the person meanwhile decided on its item.
    Withdrawn,
    /// Not the work's fault: the same step is repeated at no cost.
    Trouble { trouble: Trouble },
}

impl RunOutcome {
    /// Records violations of the role's permissions. They only matter if the agent finished its turn.
    pub fn hold_to(&mut self, violated: Vec<String>) {
        if *self == RunOutcome::Completed && !violated.is_empty() {
            *self = RunOutcome::Violation { paths: violated };
        }
    }
}

/// What prevented a run from doing its work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Trouble {
    UsageLimit {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resets_at: Option<Timestamp>,
    },
    Network {
        message: String,
    },
    Server {
        message: String,
    },
    Auth {
        message: String,
    },
    Billing {
        message: String,
    },
    UnknownSession {
        message: String,
    },
    Spawn {
        message: String,
    },
    Machine {
        message: String,
    },
    NoOutput {
        /// The end of its stderr.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stderr: Option<String>,
    },
    Crash {
        exit: ProcessExit,
        /// The end of its stderr.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stderr: Option<String>,
    },
    Agent {
        message: String,
    },
}

/// The kinds of trouble, for counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TroubleKind {
    UsageLimit,
    Network,
    Server,
    Auth,
    Billing,
    UnknownSession,
    Spawn,
    Machine,
    NoOutput,
    Crash,
    Agent,
}

impl Trouble {
    pub(crate) const fn kind(&self) -> TroubleKind {
        match self {
            Trouble::UsageLimit { .. } => TroubleKind::UsageLimit,
            Trouble::Network { .. } => TroubleKind::Network,
            Trouble::Server { .. } => TroubleKind::Server,
            Trouble::Auth { .. } => TroubleKind::Auth,
            Trouble::Billing { .. } => TroubleKind::Billing,
            Trouble::UnknownSession { .. } => TroubleKind::UnknownSession,
            Trouble::Spawn { .. } => TroubleKind::Spawn,
            Trouble::Machine { .. } => TroubleKind::Machine,
            Trouble::NoOutput { .. } => TroubleKind::NoOutput,
            Trouble::Crash { .. } => TroubleKind::Crash,
            Trouble::Agent { .. } => TroubleKind::Agent,
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::UsageLimit { resets_at: Some(reset) } => {
                write!(f, "the usage limit was hit, it resets at {reset}")
            }
            Trouble::UsageLimit { resets_at: None } => f.write_str("the usage limit was hit"),
            Trouble::Network { message } => write!(f, "cannot reach the provider: {message}"),
            Trouble::Server { message } => write!(f, "the provider failed: {message}"),
            Trouble::Auth { message } => write!(f, "login rejected: {message}"),
            Trouble::Billing { message } => write!(f, "the account has no credit: {message}"),
            Trouble::UnknownSession { message } => {
                write!(f, "the session no longer exists: {message}")
            }
            Trouble::Spawn { message } => write!(f, "the agent could not be started: {message}"),
            Trouble::Machine { message } => write!(f, "machine error: {message}"),
            Trouble::NoOutput { stderr: None } => f.write_str("the agent printed no answer"),
            Trouble::NoOutput { stderr: Some(said) } => {
                write!(f, "the agent printed no answer on stdout; on stderr: {said}")
            }
            Trouble::Crash { exit, stderr: None } => write!(f, "the agent ended with {exit}"),
            Trouble::Crash { exit, stderr: Some(said) } => {
                write!(f, "the agent ended with {exit}: {said}")
            }
            Trouble::Agent { message } => write!(f, "the agent reported an error: {message}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(events: &[AgentEvent]) -> RunFacts {
        let mut facts = RunFacts::default();
        for event in events {
            facts.apply(event);
        }
        facts
    }

    fn text() -> AgentEvent {
        AgentEvent::Text { text: "on it".to_owned() }
    }

    fn call() -> AgentEvent {
        AgentEvent::ToolCall { id: "1".to_owned(), name: "sh".to_owned(), summary: String::new() }
    }

    fn error(kind: ErrorKind, fatal: bool) -> AgentEvent {
        AgentEvent::Error { kind, message: format!("{kind:?}"), fatal }
    }

    fn rejected(resets_at: Option<Timestamp>) -> AgentEvent {
        AgentEvent::RateLimit { status: LimitStatus::Rejected, resets_at }
    }

    fn known_kind(events: &[AgentEvent]) -> Option<ErrorKind> {
        facts(events).error.map(|error| error.kind)
    }

    #[test]
    fn an_error_is_forgotten_once_the_model_speaks_again_unless_it_is_fatal() {
        assert_eq!(known_kind(&[error(ErrorKind::Server, false)]), Some(ErrorKind::Server));
        assert_eq!(known_kind(&[error(ErrorKind::Server, false), text()]), None);
        assert_eq!(known_kind(&[error(ErrorKind::Server, false), call()]), None);
        assert_eq!(known_kind(&[error(ErrorKind::Auth, true), text()]), Some(ErrorKind::Auth));
        let last_word = AgentEvent::Final { text: "sorry".to_owned() };
        assert_eq!(
            known_kind(&[error(ErrorKind::Server, false), last_word]),
            Some(ErrorKind::Server)
        );
    }

    #[test]
    fn the_cause_is_not_replaced_by_its_echo() {
        let table = [
            (ErrorKind::Auth, true, ErrorKind::Interrupted, true, ErrorKind::Auth),
            (ErrorKind::Auth, true, ErrorKind::Other, false, ErrorKind::Auth),
            (ErrorKind::Auth, true, ErrorKind::Network, true, ErrorKind::Auth),
            (ErrorKind::Other, true, ErrorKind::Network, true, ErrorKind::Network),
            (ErrorKind::Other, true, ErrorKind::Network, false, ErrorKind::Other),
            (ErrorKind::Server, false, ErrorKind::Other, false, ErrorKind::Other),
        ];
        for (first, first_fatal, second, second_fatal, known) in table {
            let events = [error(first, first_fatal), error(second, second_fatal)];
            assert_eq!(known_kind(&events), Some(known), "{events:?}");
        }
    }

    #[test]
    fn a_limit_stands_until_something_shows_that_it_is_over() {
        let reset = Some(Timestamp::UNIX_EPOCH);
        let known = Some(UsageLimit { resets_at: reset });
        let allowed = AgentEvent::RateLimit { status: LimitStatus::Allowed, resets_at: None };
        assert_eq!(facts(&[rejected(reset)]).limit, known);
        assert_eq!(facts(&[rejected(reset), rejected(None)]).limit, known);
        assert_eq!(facts(&[rejected(reset), error(ErrorKind::UsageLimit, true)]).limit, known);
        assert_eq!(facts(&[rejected(reset), text()]).limit, known);
        assert_eq!(facts(&[rejected(reset), call()]).limit, None);
        assert_eq!(facts(&[rejected(reset), allowed]).limit, None);
        assert_eq!(
            facts(&[error(ErrorKind::UsageLimit, true)]).limit,
            Some(UsageLimit { resets_at: None })
        );
    }

    #[test]
    fn a_retry_is_over_once_the_model_speaks_or_the_provider_lets_it() {
        let retry = AgentEvent::Retry { status: Some(529), message: "overloaded".to_owned() };
        let retrying = Retrying { status: Some(529), message: "overloaded".to_owned() };
        assert_eq!(facts(std::slice::from_ref(&retry)).retrying, Some(retrying));
        let over = facts(&[retry.clone(), text()]);
        assert_eq!((over.retrying, over.retries), (None, 1));
        let allowed = AgentEvent::RateLimit { status: LimitStatus::Allowed, resets_at: None };
        assert_eq!(facts(&[retry, allowed]).retrying, None);
    }
}
