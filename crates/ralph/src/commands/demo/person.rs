//! The person of the demo: commits to the branch while an agent is working, and checks that the checkout stays
//! unchanged.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ralph_model::journal::JournalEvent;

use super::stage::DemoStage;
use crate::error::CliError;
use crate::render::Tone;

/// The subject of the person's commit.
const SUBJECT: &str = "A note on how names are used";

pub(super) struct DemoPerson {
    stage: Arc<DemoStage>,
    /// The state of the checkout when the first agent started.
    start: String,
    /// Whether it was unchanged when the first candidate was found.
    was_still: AtomicBool,
    has_committed: AtomicBool,
}

impl DemoPerson {
    pub(super) fn new(stage: &Arc<DemoStage>) -> Result<DemoPerson, CliError> {
        Ok(DemoPerson {
            stage: Arc::clone(stage),
            start: state(stage)?,
            was_still: AtomicBool::new(false),
            has_committed: AtomicBool::new(false),
        })
    }

    /// Performs the person's action for this event, and returns a comment on it.
    pub(super) fn act(&self, event: &JournalEvent) -> Option<(Tone, String)> {
        match event {
            JournalEvent::CandidateWritten(written) if written.spec.starts_with("0001") => {
                let is_still = state(&self.stage).is_ok_and(|now| now == self.start);
                self.was_still.store(is_still, Ordering::Relaxed);
                is_still.then(|| {
                    let text = "The agent works in a clone: your checkout has not moved yet. Now a second agent looks at \
                                exactly this commit, with fresh eyes.";
                    (Tone::Progress, text.to_owned())
                })
            }
            JournalEvent::ImplStart(start)
                if start.spec.starts_with("0002")
                    && start.attempt > 1
                    && !self.has_committed.swap(true, Ordering::Relaxed) =>
            {
                self.commit().ok()?;
                let text = "Meanwhile you commit something to the same branch. Neither of you disturbs the other.";
                Some((Tone::Active, text.to_owned()))
            }
            _ => None,
        }
    }

    fn commit(&self) -> Result<(), CliError> {
        let path = self.stage.repository().join("NOTES.md");
        fs::write(&path, "Names are used for files: keep them short.\n")
            .map_err(CliError::failed)?;
        self.stage.git(&["add", "NOTES.md"])?;
        let who = ["-c", "user.name=Demo", "-c", "user.email=demo@localhost"];
        let message = format!("--message={SUBJECT}");
        let commit = ["commit", "--quiet", &message];
        self.stage.git(&[who.as_slice(), commit.as_slice()].concat()).map(|_| ())
    }

    pub(super) fn saw_stillness(&self) -> bool {
        self.was_still.load(Ordering::Relaxed)
    }

    /// Whether the person's commit is a parent of a merge that has its own receipt.
    pub(super) fn was_merged(&self) -> Result<bool, CliError> {
        let stage = &self.stage;
        let merges = stage.git(&["log", "--merges", "--format=%H %P", "main"])?;
        let subject = format!("--grep={SUBJECT}");
        let own = stage.git(&["log", "--format=%H", &subject, "main"])?;
        let receipts = stage.git(&["notes", "--ref=ralph", "list"])?;
        Ok(merges.lines().any(|line| {
            let (merge, parents) = line.split_once(' ').unwrap_or((line, ""));
            parents.split(' ').any(|parent| parent == own.trim()) && receipts.contains(merge)
        }))
    }
}

/// The state of the checkout that an agent's work would change.
fn state(stage: &DemoStage) -> Result<String, CliError> {
    let head = stage.git(&["rev-parse", "HEAD"])?;
    Ok(head + &stage.git(&["status", "--porcelain"])?)
}
