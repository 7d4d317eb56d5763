//! What a run leaves behind: everything that is needed to draw its conclusions, also by a Ralph that starts after this
//! one died.
//!
//! It is on disk, in private state, before the journal says that the run ended, and it is removed when the workflow has
//! taken it into its state files. So a run that is over is never repeated.

use camino::{Utf8Path, Utf8PathBuf};
use jiff::Timestamp;
use ralph_model::id::RunId;
use ralph_model::journal::RunFinished;
use ralph_model::role::Role;
use ralph_model::run::RunOutcome;
use serde::{Deserialize, Serialize};

use super::{RunReport, RunRequest};
use crate::files::{
    PathError, create_private_directory, read_optional, remove_optional, replace_atomically,
};
use crate::state::State;

/// A run that is over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    pub run: RunId,
    /// What it was for.
    pub item: String,
    pub role: Role,
    pub agent: String,
    pub model: Option<String>,
    pub attempt: u32,
    /// Where its logs are.
    pub dir: Utf8PathBuf,
    /// What it printed.
    pub log: Utf8PathBuf,
    pub prompt: String,
    pub outcome: RunOutcome,
    pub final_message: Option<String>,
    pub session: Option<String>,
    /// What was taken from its outbox: names and texts.
    pub outbox: Vec<(String, String)>,
    pub at: Timestamp,
    pub finished: RunFinished,
}

impl RunResult {
    pub(crate) fn of(
        report: &RunReport,
        request: &RunRequest<'_>,
        finished: RunFinished,
        at: Timestamp,
    ) -> RunResult {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        RunResult {
            run: report.id.clone(),
            item: request.item.unwrap_or_default().to_owned(),
            role: request.role,
            agent: request.agent.to_owned(),
            model: report.facts.model.clone().or_else(|| request.model.map(str::to_owned)),
            attempt: request.attempt,
            dir: report.logs.directory.clone(),
            log: report.logs.stdout.clone(),
            prompt: text(request.prompt),
            outcome: report.outcome.clone(),
            final_message: report.facts.final_message.clone(),
            session: report.facts.session.clone(),
            outbox: report
                .outbox
                .taken
                .iter()
                .map(|taken| (taken.name.clone(), text(&taken.bytes)))
                .collect(),
            at,
            finished,
        }
    }

    /// Returns a file of the outbox.
    pub fn file(&self, name: &str) -> Option<&str> {
        self.outbox.iter().find(|(found, _)| found == name).map(|(_, text)| text.as_str())
    }

    /// Puts it where the next start finds it.
    pub(crate) fn keep(&self, path: &Utf8Path) -> Result<(), PathError> {
        if let Some(directory) = path.parent() {
            create_private_directory(directory)?;
        }
        let bytes = serde_json::to_vec(self).expect("results have string keys only");
        replace_atomically(path, &bytes)
    }

    /// Returns the result of an item that nobody has taken yet. One that cannot be read is as if there were none: the
    /// step is done again.
    pub fn pending(state: &State, item: &str) -> Result<Option<RunResult>, PathError> {
        let bytes = read_optional(&state.pending_result(item))?;
        Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    }

    /// Notes that the state files know all that follows from it.
    pub fn taken(state: &State, item: &str) -> Result<(), PathError> {
        remove_optional(&state.pending_result(item))
    }
}
