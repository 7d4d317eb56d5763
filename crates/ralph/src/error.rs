//! Errors of commands: the message, its cause, and hints.

use std::error::Error;
use std::fmt::Write as _;

use ralph_engine::workflow::WorkflowError;

use crate::exit::Exit;

/// The hint for untrusted settings.
pub(crate) const TRUST_HINT: &str = "`ralph trust` shows what would take effect, and asks";

/// The error that stops a command.
#[derive(Debug)]
pub(crate) struct CliError {
    pub(crate) exit: Exit,
    pub(crate) message: String,
    pub(crate) hints: Vec<String>,
}

impl CliError {
    /// A usage, configuration or set-up error: the person must change something.
    pub(crate) fn usage(error: impl Into<Box<dyn Error>>) -> CliError {
        CliError::with_exit(Exit::Usage, error)
    }

    /// An external failure.
    pub(crate) fn failed(error: impl Into<Box<dyn Error>>) -> CliError {
        let error = error.into();
        let workflow = error.downcast_ref::<WorkflowError>();
        if workflow.is_some_and(WorkflowError::is_untrusted) {
            return CliError::person_needed(error).hint(TRUST_HINT);
        }
        if let Some(WorkflowError::GateCannotRun(finding)) = workflow {
            let hints = [
                finding.advice(),
                "no agent was run; `ralph gates run` tries the gates, `--anyway` continues without them"
                    .to_owned(),
            ];
            return CliError::usage(error.to_string()).hints(hints);
        }
        if matches!(workflow, Some(WorkflowError::Declined)) {
            return CliError::declined();
        }
        if matches!(workflow, Some(WorkflowError::Branch(_))) {
            return CliError::person_needed(error);
        }
        CliError::with_exit(Exit::Unfinished, error)
    }

    /// The person was asked and declined.
    pub(crate) fn declined() -> CliError {
        CliError { exit: Exit::Done, message: "nothing was done".to_owned(), hints: Vec::new() }
    }

    /// A person must decide, and there is no terminal.
    pub(crate) fn person_needed(error: impl Into<Box<dyn Error>>) -> CliError {
        CliError::with_exit(Exit::PersonNeeded, error)
    }

    /// A workflow cannot continue.
    pub(crate) fn workflow(error: WorkflowError) -> CliError {
        match &error {
            WorkflowError::NoSpace { .. } => CliError::usage(error).hint(
                "free some space (`ralph slots prune` removes unused clones), or set `slots.dir` to a directory on another disk",
            ),
            _ => CliError::failed(error),
        }
    }

    /// A person's signal ended it.
    pub(crate) fn interrupted() -> CliError {
        CliError::with_exit(Exit::Interrupted, "interrupted")
    }

    fn with_exit(exit: Exit, error: impl Into<Box<dyn Error>>) -> CliError {
        CliError { exit, message: chain(error.into().as_ref()), hints: Vec::new() }
    }

    /// Adds a hint.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> CliError {
        self.hints.push(hint.into());
        self
    }

    /// Adds hints, if there are any.
    pub(crate) fn hints(self, hints: impl IntoIterator<Item: Into<String>>) -> CliError {
        hints.into_iter().fold(self, CliError::hint)
    }
}

impl From<WorkflowError> for CliError {
    fn from(error: WorkflowError) -> CliError {
        CliError::failed(error)
    }
}

/// Returns the message with its causes, without repetitions.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let _ = write!(text, ": {error}");
        cause = error.source();
    }
    text
}
