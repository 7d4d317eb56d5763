//! The outcome of a run, decided from its facts and its end.
//!
//! The first line that applies decides:
//!
//! | how it ended | what else is known | outcome |
//! |---|---|---|
//! | not started | | trouble: spawn |
//! | machine fault | | trouble: machine |
//! | interrupted | | interrupted |
//! | withdrawn | | withdrawn |
//! | context limit | | context full |
//! | exited with 0, a whole turn | the claim is missing, and a limit stands | trouble: usage limit |
//! | exited with 0, a whole turn | the claim is missing, no tool call, and the last 200 lines or the message speak of a limit | trouble: usage limit |
//! | exited with 0, a whole turn | claims are unknown, no tool call, and the last 10 lines speak of a limit | trouble: usage limit |
//! | exited with 0, a whole turn | | completed |
//! | timeout, hopeless, exited | a limit stands | trouble: usage limit |
//! | timeout, hopeless, exited | an error of a kind that says what it is | trouble of that kind (context: full) |
//! | timeout | the agent was retrying a request | trouble by the request's status |
//! | timeout | | timed out |
//! | hopeless, exited | the last lines speak of a limit | trouble: usage limit |
//! | hopeless | | trouble: agent |
//! | exited | any other error | trouble: agent |
//! | exited, unknown how | | trouble: machine |
//! | exited with another code or by a signal | | trouble: crash |
//! | exited with 0 | no text, no tool call, a request was granted | completed |
//! | exited with 0 | no text, no tool call | trouble: no output |
//! | exited with 0 | no last word | trouble: agent |
//!
//! A whole turn is one with no error, a final message, and text or tool calls. An exit code alone decides nothing: some
//! agents exit with 0 after an error, and some crash after their work is done. So an exit with 0 rules out a limit only
//! if the run did what it was asked for, its [`ClaimCheck`]: a wrapper (`agent | tee log`) exits with 0 whatever the
//! agent does. A run that made tool calls reached its model, and is judged by what it said.
//!
//! A timeout is a fact about the work unless the agent reported what it was waiting for. Text is never consulted for a
//! run that timed out: a run that works on rate-limit code would be repeated forever, because limits cost nothing.

use jiff::Timestamp;

use crate::event::ErrorKind;
use crate::policy::limit::{usage_limit_at_the_end, usage_limit_in_text};
use crate::run::{
    AgentError, ProcessExit, Retrying, RunEnd, RunFacts, RunOutcome, Trouble, UsageLimit,
};

/// How many characters of stderr are shown after a crash, or if there is no answer.
const LONGEST_STDERR: usize = 400;

/// Whether a run produced what its role must end with: the lines that the prompt asks for, or a granted request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimCheck {
    Made,
    /// A request was granted through the channel; it counts as a claim and shows that the run did something.
    Granted,
    Missing,
    /// Unknown: this role has no completion marker.
    Unknown,
}

/// The end of a run, in addition to its events.
#[derive(Clone, Copy, Debug)]
pub struct RunClose<'a> {
    pub end: &'a RunEnd,
    pub exit: Option<ProcessExit>,
    /// The last lines of the output, stdout and stderr, as text.
    pub tail: &'a str,
    /// The last non-blank lines of stderr alone.
    pub stderr: &'a str,
    pub claim: ClaimCheck,
    /// The person's own phrases for a usage limit.
    pub limit_patterns: &'a [String],
    pub now: Timestamp,
}

impl RunFacts {
    /// Returns the outcome of the run.
    pub fn outcome(&self, close: &RunClose<'_>) -> RunOutcome {
        let timed_out = match close.end {
            RunEnd::NotStarted { reason } => {
                return trouble(Trouble::Spawn { message: reason.clone() });
            }
            RunEnd::MachineFault { reason } => {
                return trouble(Trouble::Machine { message: reason.clone() });
            }
            RunEnd::Interrupted => return RunOutcome::Interrupted,
            RunEnd::Withdrawn => return RunOutcome::Withdrawn,
            RunEnd::ContextLimit { .. } => return RunOutcome::ContextFull,
            RunEnd::WallTimeout { after } => {
                Some(RunOutcome::TimedOut { idle: false, after: *after })
            }
            RunEnd::IdleTimeout { after } => {
                Some(RunOutcome::TimedOut { idle: true, after: *after })
            }
            RunEnd::Exited | RunEnd::Hopeless => None,
        };
        if *close.end == RunEnd::Exited && self.is_complete(close.exit) {
            return match self.limit_of_a_whole_turn(close) {
                Some(UsageLimit { resets_at }) => trouble(Trouble::UsageLimit { resets_at }),
                None => RunOutcome::Completed,
            };
        }
        if let Some(UsageLimit { resets_at }) = self.limit {
            return trouble(Trouble::UsageLimit { resets_at });
        }
        if let Some(outcome) = self.error.as_ref().and_then(|error| self.told_by_error(error)) {
            return outcome;
        }
        if let Some(timed_out) = timed_out {
            return self
                .retrying
                .as_ref()
                .map_or(timed_out, |retrying| self.told_by_retry(retrying));
        }
        if let Some(UsageLimit { resets_at }) =
            usage_limit_in_text(close.tail, close.limit_patterns, close.now)
        {
            return trouble(Trouble::UsageLimit { resets_at });
        }
        if let Some(error) = &self.error {
            return trouble(Trouble::Agent { message: error.message.clone() });
        }
        if *close.end == RunEnd::Hopeless {
            return agent_trouble("stopped early, as it could only fail");
        }
        match close.exit {
            None => trouble(Trouble::Machine {
                message: "the agent's exit status is unknown".to_owned(),
            }),
            Some(exit) if !exit.is_success() => {
                trouble(Trouble::Crash { exit, stderr: one_line(close.stderr) })
            }
            Some(_) if !self.did_anything() && close.claim == ClaimCheck::Granted => {
                RunOutcome::Completed
            }
            Some(_) if !self.did_anything() => {
                trouble(Trouble::NoOutput { stderr: one_line(close.stderr) })
            }
            Some(_) => agent_trouble("it ended without a last message"),
        }
    }

    /// Returns the limit that a run reported instead of an answer.
    fn limit_of_a_whole_turn(&self, close: &RunClose<'_>) -> Option<UsageLimit> {
        let spoke_only = self.tool_calls == 0;
        match close.claim {
            ClaimCheck::Missing if self.limit.is_some() => self.limit,
            ClaimCheck::Missing if spoke_only => {
                let said = self.final_message.as_deref().unwrap_or_default();
                usage_limit_in_text(close.tail, close.limit_patterns, close.now)
                    .or_else(|| usage_limit_in_text(said, close.limit_patterns, close.now))
            }
            ClaimCheck::Unknown if spoke_only => {
                usage_limit_at_the_end(close.tail, close.limit_patterns, close.now)
            }
            ClaimCheck::Made | ClaimCheck::Granted | ClaimCheck::Missing | ClaimCheck::Unknown => {
                None
            }
        }
    }

    fn is_complete(&self, exit: Option<ProcessExit>) -> bool {
        exit.is_some_and(ProcessExit::is_success)
            && self.error.is_none()
            && self.final_message.is_some()
            && self.did_anything()
    }

    /// Whether the model said something or called a tool. An empty final message after tool calls is still a whole
    /// turn.
    fn did_anything(&self) -> bool {
        let said =
            |text: &Option<String>| text.as_ref().is_some_and(|text| !text.trim().is_empty());
        self.tool_calls > 0 || said(&self.last_text) || said(&self.final_message)
    }

    /// Returns the outcome of an error, if its kind identifies the cause.
    fn told_by_error(&self, error: &AgentError) -> Option<RunOutcome> {
        let message = error.message.clone();
        Some(trouble(match error.kind {
            ErrorKind::UsageLimit => Trouble::UsageLimit { resets_at: self.last_reset },
            ErrorKind::Billing => Trouble::Billing { message },
            ErrorKind::Auth => Trouble::Auth { message },
            ErrorKind::Server => Trouble::Server { message },
            ErrorKind::Network => Trouble::Network { message },
            ErrorKind::UnknownSession => Trouble::UnknownSession { message },
            ErrorKind::Context => return Some(RunOutcome::ContextFull),
            // An interruption by the person ends the run as such; one that only the agent reports is an ordinary error.
            ErrorKind::Interrupted | ErrorKind::Other => return None,
        }))
    }

    fn told_by_retry(&self, retrying: &Retrying) -> RunOutcome {
        let message = retrying.message.clone();
        trouble(match retrying.status {
            Some(429) => Trouble::UsageLimit { resets_at: self.last_reset },
            Some(401 | 403) => Trouble::Auth { message },
            Some(402) => Trouble::Billing { message },
            Some(500..) => Trouble::Server { message },
            _ => Trouble::Network { message },
        })
    }
}

fn trouble(trouble: Trouble) -> RunOutcome {
    RunOutcome::Trouble { trouble }
}

/// Joins lines into one without terminal control characters; `None` if there are none.
fn one_line(lines: &str) -> Option<String> {
    let lines: Vec<&str> = lines.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let text: String = lines.join(" | ").chars().filter(|c| !c.is_control()).collect();
    let end = text.char_indices().nth(LONGEST_STDERR).map_or(text.len(), |(at, _)| at);
    (end > 0).then(|| text[..end].to_owned())
}

fn agent_trouble(message: &str) -> RunOutcome {
    trouble(Trouble::Agent { message: message.to_owned() })
}

#[cfg(test)]
#[path = "outcome_tests.rs"]
mod tests;
