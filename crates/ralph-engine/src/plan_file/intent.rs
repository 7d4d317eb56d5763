//! What a change was meant to be committed as, noted before it is written.
//!
//! Whether a task left the file because it was accepted or because it was deleted is recorded in the commit message
//! only. A note exists exactly as long as a change may be on disk and not in git. A process that holds the write lock and
//! finds a note of another writer knows that the writer died, or that it was a run whose changes are committed at its end.

use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};

use crate::digest;
use crate::files::PathError;
use crate::files::note::{clear_note, read_note, write_note};
use crate::state::State;

/// A change that is to be committed.
#[derive(Serialize, Deserialize)]
pub(super) struct Intent {
    message: String,
    /// Of the file as the change leaves it.
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
        // After a power failure there may be a note without a change, or a change without a note: either only costs the message.
        write_note(&place(state, plan), &text)
    }

    /// Returns the note that a dead writer left. A damaged one is none.
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

    /// Tells whether the file is as the change was to leave it.
    pub(super) fn was_written(&self, bytes: &[u8]) -> bool {
        self.digest == digest::of_bytes(bytes)
    }
}

fn place(state: &State, plan: &Utf8Path) -> Utf8PathBuf {
    state.plan_directory(plan).join("intent")
}
