//! The stored result of a run: everything needed to conclude it, even by a Ralph that starts after this one died.
//!
//! It is on disk, in private state, before the journal records the end of the run, and it is removed when the workflow
//! has applied it to its state files. So a finished run is never repeated.

use camino::{Utf8Path, Utf8PathBuf};
use jiff::Timestamp;
use ralph_model::contract::FinalMessage;
use ralph_model::id::RunId;
use ralph_model::journal::RunFinished;
use ralph_model::permission::Mutation;
use ralph_model::role::Role;
use ralph_model::run::RunOutcome;
use serde::{Deserialize, Serialize};

use super::{RunReport, RunRequest};
use crate::boundary::BoundaryReport;
use crate::files::read_optional;
use crate::state::Entry;

/// The results that no workflow has recorded yet, by item.
pub(crate) const RESULTS: Entry<RunResult> =
    Entry::new("results", "a run had ended, and its result is lost: the work is done again");

/// The results of ended runs that were not compared with the earlier state yet, by item.
pub(crate) const UNCOMPARED: Entry<RunResult> =
    Entry::new("uncompared", "a run had ended, and its result is lost: the work is done again");

/// A finished run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunResult {
    pub(crate) run: RunId,
    /// The workflow that requested it.
    #[serde(default)]
    pub(crate) workflow: String,
    /// Its item.
    pub(crate) item: String,
    pub(crate) role: Role,
    pub(crate) agent: String,
    pub(crate) model: Option<String>,
    pub(crate) attempt: u32,
    /// The directory of its logs.
    pub(crate) dir: Utf8PathBuf,
    /// Its output.
    pub(crate) log: Utf8PathBuf,
    pub(crate) prompt: String,
    pub(crate) outcome: RunOutcome,
    pub(crate) final_message: Option<String>,
    pub(crate) session: Option<String>,
    /// The collected outbox: names and texts.
    pub(crate) outbox: Vec<(String, String)>,
    /// The changes to the plan that it requested and that were made, in order.
    #[serde(default)]
    pub(crate) mutations: Vec<Mutation>,
    pub(crate) at: Timestamp,
    pub(crate) finished: RunFinished,
    /// The question to a person before the run is concluded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) question: Option<String>,
    /// State files that the run or a person changed, and the directory with the changed versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) unattributed: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) saved_in: Option<Utf8PathBuf>,
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
            question: report.boundary.question().filter(|_| request.is_of_workflow()),
            unattributed: report.boundary.not_attributed(),
            saved_in: report.boundary.saved_in.clone(),
        }
    }

    /// Applies the findings of a comparison after the run.
    pub(crate) fn hold_to(&mut self, found: &BoundaryReport) {
        self.outcome.hold_to(found.violated_by_run());
        self.finished.outcome = self.outcome.clone();
        self.question = found.question();
        self.unattributed = found.not_attributed();
        self.saved_in.clone_from(&found.saved_in);
    }

    /// Returns a file of the workspace as it was at the end of the run, if it was reverted then.
    pub(crate) fn put_away(&self, path: &Utf8Path) -> Option<String> {
        let kept = self.saved_in.as_ref()?.join("workspace").join(path);
        String::from_utf8(read_optional(&kept).ok()??).ok()
    }

    /// Returns the final message as an answer to the prompt.
    pub(crate) fn answer(&self) -> FinalMessage<'_> {
        FinalMessage::new(self.final_message.as_deref().unwrap_or("")).in_answer_to(&self.prompt)
    }

    /// Returns a file of the outbox.
    pub(crate) fn file(&self, name: &str) -> Option<&str> {
        self.outbox.iter().find(|(found, _)| found == name).map(|(_, text)| text.as_str())
    }
}
