//! Files of home that are being written and are not committed yet, with what they are to hold.
//!
//! They are named before they are written, and their digests are noted before they are committed. So a start after a
//! crash can tell what Ralph has written from what something else has made of it.

use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};

use crate::digest;
use crate::files::note::{read_note, write_note};
use crate::files::{PathError, read_optional};

/// Stands for a file that is not there.
const ABSENT: &str = "-";

/// A file that is being written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WrittenFile {
    pub(crate) path: Utf8PathBuf,
    /// Of what was written; `None` as long as that is under way.
    digest: Option<String>,
}

impl WrittenFile {
    /// Names a file that is about to be written.
    pub(crate) fn named(path: Utf8PathBuf) -> WrittenFile {
        WrittenFile { path, digest: None }
    }

    /// Tells whether the file is as it was written.
    pub(crate) fn is_as_written(&self) -> bool {
        self.digest.is_some() && self.digest == digest_of(&self.path).ok()
    }
}

/// Notes which files are about to be written.
pub(crate) fn note_names(note: &Utf8Path, files: &[WrittenFile]) -> Result<(), PathError> {
    write_note(note, &serde_json::to_string(files).expect("paths are text"))
}

/// Notes what the files hold that were written.
pub(crate) fn note_written(note: &Utf8Path, files: &[WrittenFile]) -> Result<(), PathError> {
    let written = |file: &WrittenFile| {
        Ok(WrittenFile { path: file.path.clone(), digest: Some(digest_of(&file.path)?) })
    };
    let files: Vec<WrittenFile> = files.iter().map(written).collect::<Result<_, PathError>>()?;
    note_names(note, &files)
}

/// Reads which files were being written. A note that is damaged names none.
pub(crate) fn read_written(note: &Utf8Path) -> Result<Vec<WrittenFile>, PathError> {
    let text = read_note(note)?;
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default())
}

fn digest_of(path: &Utf8Path) -> Result<String, PathError> {
    let content = read_optional(path)?;
    Ok(content.map_or_else(|| ABSENT.to_owned(), |bytes| digest::of_bytes(&bytes)))
}
