//! Texts that work is judged by, where an agent can edit them: specs in the person's checkout.
//!
//! An agent's edit of a spec may be its work, but the spec is judged by as the person left it. If a record is lost, the file
//! counts as it is.

use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};

use super::{State, hash};
use crate::digest;
use crate::files::{PathError, create_private_directory, read_optional, replace_atomically};

/// A text that a run has edited.
#[derive(Serialize, Deserialize)]
struct EditedText {
    /// The digest of what the run made of it. After a person's edit it is another.
    edited: String,
    /// What it was before.
    text: String,
}

impl State {
    fn edited_text(&self, path: &Utf8Path) -> Utf8PathBuf {
        self.directory().join("edited").join(hash(&[path.as_str()]))
    }

    /// Records what a file was before a run edited it.
    pub(crate) fn note_edited_text(
        &self,
        path: &Utf8Path,
        before: Vec<u8>,
        now: &[u8],
    ) -> Result<(), PathError> {
        let text = String::from_utf8_lossy(&self.judged_text(path, before)).into_owned();
        let record = EditedText { edited: digest::of_bytes(now), text };
        let file = self.edited_text(path);
        create_private_directory(file.parent().unwrap_or(self.directory()))?;
        replace_atomically(&file, &serde_json::to_vec(&record).expect("it is plain data"))
    }

    /// Returns the text of a file, whose content is given, as a person left it.
    pub(crate) fn judged_text(&self, path: &Utf8Path, now: Vec<u8>) -> Vec<u8> {
        let record = read_optional(&self.edited_text(path)).ok().flatten();
        let record = record.and_then(|text| serde_json::from_slice::<EditedText>(&text).ok());
        match record.filter(|record| record.edited == digest::of_bytes(&now)) {
            Some(record) => record.text.into_bytes(),
            None => now,
        }
    }
}
