//! What a person is told when a command cannot go on: what happened, why, and what to do next.

use std::error::Error;
use std::fmt::Write as _;

use crate::exit::Exit;

/// A command that stopped.
#[derive(Debug)]
pub(crate) struct CliError {
    pub(crate) exit: Exit,
    pub(crate) message: String,
    pub(crate) hints: Vec<String>,
}

impl CliError {
    /// Wrong usage, configuration or set-up: the person must change something.
    pub(crate) fn usage(error: impl Into<Box<dyn Error>>) -> CliError {
        CliError::with_exit(Exit::Usage, error)
    }

    /// The world got in the way of the work.
    pub(crate) fn failed(error: impl Into<Box<dyn Error>>) -> CliError {
        CliError::with_exit(Exit::Unfinished, error)
    }

    /// Only a person can say how to go on, and none is there to be asked.
    pub(crate) fn person_needed(error: impl Into<Box<dyn Error>>) -> CliError {
        CliError::with_exit(Exit::PersonNeeded, error)
    }

    fn with_exit(exit: Exit, error: impl Into<Box<dyn Error>>) -> CliError {
        CliError { exit, message: chain(error.into().as_ref()), hints: Vec::new() }
    }

    /// Adds what to do next.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> CliError {
        self.hints.push(hint.into());
        self
    }

    /// Adds what to do next, as far as something is known.
    pub(crate) fn hints(self, hints: impl IntoIterator<Item: Into<String>>) -> CliError {
        hints.into_iter().fold(self, CliError::hint)
    }
}

/// The message with its causes, each said once.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let _ = write!(text, ": {error}");
        cause = error.source();
    }
    text
}
