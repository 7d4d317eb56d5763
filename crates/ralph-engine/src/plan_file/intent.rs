//! The intended commit message of a change, recorded before it is written.
//!
//! Whether a task was removed because it was accepted or because it was deleted is recorded only in the commit message.
//! A note exists exactly as long as a change may be on disk and not in git. A process that holds the write lock and
//! finds another writer's note knows that the writer died, or that it was a run whose changes are committed at its end.

use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};

use crate::digest;
use crate::files::PathError;
use crate::files::note::{clear_note, read_note, sync_note, write_note};
use crate::state::State;

/// A change to be committed.
#[derive(Serialize, Deserialize)]
pub(super) struct Intent {
    message: String,
    /// The digest of the file after the change.
    digest: String,
}

impl Intent {
    pub(super) fn note(
        state: &State,
        plan: &Utf8Path,
        message: &str,
        digest: &str,
    ) -> Result<(), PathError> {
        let intent = Intent { message: message.to_owned(), digest: digest.to_owned() };
        let text = serde_json::to_string(&intent).expect("it is plain data");
        // After a power failure there may be a note without a change, or a change without a note: either only costs the
        // message, or in the draft of home the change, whose writer died before it had told anybody of it.
        write_note(&place(state, plan), &text)
    }

    /// Makes the note durable: what it is about has been acknowledged already, and is about to be nowhere else.
    pub(super) fn keep(state: &State, plan: &Utf8Path) -> Result<(), PathError> {
        sync_note(&place(state, plan))
    }

    /// Returns the note of a dead writer. A damaged one is ignored.
    pub(super) fn left(state: &State, plan: &Utf8Path) -> Result<Option<Intent>, PathError> {
        let text = read_note(&place(state, plan))?;
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
    }

    pub(super) fn settle(state: &State, plan: &Utf8Path) -> Result<(), PathError> {
        clear_note(&place(state, plan))
    }

    pub(super) fn message(&self) -> &str {
        &self.message
    }

    /// Whether the file matches the result of the change.
    pub(super) fn was_written(&self, bytes: &[u8]) -> bool {
        self.digest == digest::of_bytes(bytes)
    }
}

fn place(state: &State, plan: &Utf8Path) -> Utf8PathBuf {
    state.plan_directory(plan).join("intent")
}
