//! What a run leaves behind: everything that is needed to draw its conclusions, also by a Ralph that starts after this
//! one died.
//!
//! It is on disk, in private state, before the journal says that the run ended, and it is removed when the workflow has
//! taken it into its state files. So a run that is over is never repeated.

use camino::Utf8PathBuf;
use jiff::Timestamp;
use ralph_model::id::RunId;
use ralph_model::journal::RunFinished;
use ralph_model::permission::Mutation;
use ralph_model::role::Role;
use ralph_model::run::RunOutcome;
use serde::{Deserialize, Serialize};

use super::{RunReport, RunRequest};
use crate::state::Entry;

/// The results that no workflow has recorded yet, by item.
pub(crate) const RESULTS: Entry<RunResult> = Entry::new("results");

/// A run that is over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    pub run: RunId,
    /// The workflow that asked for it.
    #[serde(default)]
    pub workflow: String,
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
    /// The changes to the plan that it asked for and that were made, in order.
    #[serde(default)]
    pub mutations: Vec<Mutation>,
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
            workflow: request.workflow.to_owned(),
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
            mutations: report.served.mutations.clone(),
            at,
            finished,
        }
    }

    /// Returns a file of the outbox.
    pub fn file(&self, name: &str) -> Option<&str> {
        self.outbox.iter().find(|(found, _)| found == name).map(|(_, text)| text.as_str())
    }
}
