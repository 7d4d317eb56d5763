//! What a change was meant to be committed as, noted before it is written.
//!
//! Which tasks left the file because they were accepted and which because somebody deleted them, only the message of the
//! commit tells. A note is there exactly as long as a change may be on disk and not in git; whoever holds the write lock and
//! finds one of another writer knows that it has died, or that it is a run's and was to be committed when that ends.

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
        // After a power failure there may be a note of nothing, or a change without one: both are only less well told.
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
