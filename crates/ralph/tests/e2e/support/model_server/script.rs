//! The turns of the scripted model, independent of any vendor.
//!
//! A step is played for each request that offers tools; after the end the last step repeats, so that a client which
//! asks once more than expected gets a sensible response.

use std::time::Duration;

use serde_json::Value;

/// The token usage of one turn of the model.
///
/// `input` includes the cached tokens, `output` the reasoning; the dialects subtract where their vendor does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tokens {
    pub(crate) input: u64,
    pub(crate) cached: u64,
    pub(crate) output: u64,
    pub(crate) reasoning: u64,
}

impl Default for Tokens {
    fn default() -> Self {
        Tokens { input: 100, cached: 10, output: 7, reasoning: 0 }
    }
}

/// The model's action in one step.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// Says something and ends its turn.
    Text(String),
    /// Says something, then the commit that the last tool printed, then one more line, and ends its turn.
    Claim { report: String, last_line: String },
    /// Calls the agent's shell tool with a command.
    Shell(String),
    /// Calls the agent's file-writing tool, or its shell if it has none.
    Write { path: String, content: String },
    /// Responds with this status and body.
    Http { status: u16, body: Value },
    /// Begins a stream and puts an error into it.
    SseError(Value),
    /// Closes the connection before any response.
    DropBefore,
    /// Closes the connection in the middle of the response.
    DropMid,
}

/// One step of a script.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) act: Act,
    pub(crate) tokens: Tokens,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) delay: Duration,
    times: usize,
}

/// The steps of a scripted model.
#[derive(Clone, Debug, Default)]
pub(crate) struct Script {
    steps: Vec<Step>,
}

impl Script {
    pub(crate) fn new() -> Self {
        Script::default()
    }

    pub(crate) fn text(self, text: &str) -> Self {
        self.step(Act::Text(text.to_owned()))
    }

    /// Ends a turn according to the pipeline's contract, with a commit that the script cannot know.
    pub(crate) fn claim(self, report: &str, last_line: &str) -> Self {
        self.step(Act::Claim { report: report.to_owned(), last_line: last_line.to_owned() })
    }

    pub(crate) fn shell(self, command: &str) -> Self {
        self.step(Act::Shell(command.to_owned()))
    }

    pub(crate) fn write(self, path: &str, content: &str) -> Self {
        self.step(Act::Write { path: path.to_owned(), content: content.to_owned() })
    }

    pub(crate) fn http(self, status: u16, headers: &[(&str, &str)], body: Value) -> Self {
        self.step(Act::Http { status, body }).headers(headers)
    }

    pub(crate) fn sse_error(self, error: Value) -> Self {
        self.step(Act::SseError(error))
    }

    pub(crate) fn drop_before(self) -> Self {
        self.step(Act::DropBefore)
    }

    pub(crate) fn drop_mid(self) -> Self {
        self.step(Act::DropMid)
    }

    /// Makes the last step wait before it responds.
    pub(crate) fn hang(mut self, delay: Duration) -> Self {
        self.last().delay = delay;
        self
    }

    /// Sets the token usage of the last step.
    pub(crate) fn usage(mut self, tokens: Tokens) -> Self {
        self.last().tokens = tokens;
        self
    }

    /// Repeats the last step this many times.
    pub(crate) fn times(mut self, times: usize) -> Self {
        self.last().times = times;
        self
    }

    /// Adds headers to the response of the last step.
    pub(crate) fn headers(mut self, headers: &[(&str, &str)]) -> Self {
        let owned = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        self.last().headers.extend(owned);
        self
    }

    /// Returns the step for the request with this zero-based number, and its index in the script.
    pub(crate) fn at(&self, request: usize) -> (usize, &Step) {
        let mut end = 0;
        for (place, step) in self.steps.iter().enumerate() {
            end += step.times;
            if request < end {
                return (place, step);
            }
        }
        let last = self.steps.len() - 1;
        (last, &self.steps[last])
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    fn step(mut self, act: Act) -> Self {
        self.steps.push(Step {
            act,
            tokens: Tokens::default(),
            headers: Vec::new(),
            delay: Duration::ZERO,
            times: 1,
        });
        self
    }

    fn last(&mut self) -> &mut Step {
        self.steps.last_mut().expect("a modifier follows the step it modifies")
    }
}
