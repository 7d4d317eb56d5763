//! Unreadable records: each is kept aside, reported once, and affects only its own item.
//!
//! A process that finds one moves it to `damaged/`, where nothing overwrites it, with a note of the consequences of its
//! loss. A workflow adds such notes to the journal at its next turn. The caller must hold the run lock, or the lock of
//! the record's writers: otherwise the record may just be in the middle of being replaced.

use camino::{Utf8Path, Utf8PathBuf};

use super::State;
use crate::files::disk;
use crate::files::{
    PathError, create_private_directory, read_optional, remove_durably, rename_durably,
    replace_atomically,
};

/// The suffix of a note that was not reported yet.
const UNTOLD: &str = "untold";

/// A record that was set aside and not reported yet.
pub(crate) struct DamagedRecord {
    /// What it was, where it is now, and the consequences.
    pub(crate) reason: String,
    note: Utf8PathBuf,
}

impl DamagedRecord {
    /// Records that the journal has it.
    pub(crate) fn was_told(&self) -> Result<(), PathError> {
        remove_durably(&self.note)
    }
}

impl State {
    /// Keeps a record aside. `loss` describes the consequences.
    pub(crate) fn set_aside(&self, path: &Utf8Path, loss: &str) -> Result<(), PathError> {
        let kept = self.free_name(path);
        self.note_damaged(path, &kept, loss)?;
        rename_durably(path, &kept)
    }

    /// Keeps bytes aside that were part of a file.
    pub(crate) fn keep_aside(
        &self,
        path: &Utf8Path,
        bytes: &[u8],
        loss: &str,
    ) -> Result<(), PathError> {
        let kept = self.free_name(path);
        self.note_damaged(path, &kept, loss)?;
        replace_atomically(&kept, bytes)
    }

    /// Written before anything is moved: after a crash in between, the record is found again and gets the same note.
    fn note_damaged(&self, path: &Utf8Path, kept: &Utf8Path, loss: &str) -> Result<(), PathError> {
        create_private_directory(&self.damaged())?;
        let name = path.strip_prefix(&self.directory).unwrap_or(path);
        let reason =
            format!("`{name}` of private state cannot be read, and is kept as `{kept}`: {loss}");
        replace_atomically(&with_end(kept, UNTOLD), reason.as_bytes())
    }

    /// Whether a record from this path was kept aside.
    pub(crate) fn was_set_aside(&self, path: &Utf8Path) -> bool {
        disk::exists(&self.name_aside(path, 0))
    }

    /// Returns what was kept aside and not reported yet.
    pub(crate) fn untold(&self) -> Vec<DamagedRecord> {
        let directory = self.damaged();
        let listed = disk::list(&directory).into_iter().flatten();
        let names = listed.filter_map(|entry| entry.name.into_string().ok());
        let mut notes: Vec<Utf8PathBuf> = names
            .map(|name| directory.join(name))
            .filter(|note| note.extension() == Some(UNTOLD))
            .collect();
        notes.sort();
        let read = |note: Utf8PathBuf| {
            let text = read_optional(&note).ok().flatten()?;
            Some(DamagedRecord { reason: String::from_utf8_lossy(&text).into_owned(), note })
        };
        notes.into_iter().filter_map(read).collect()
    }

    /// Returns the directory of unreadable records, and their number; `None` if there are none.
    pub fn damaged_records(&self) -> Option<(Utf8PathBuf, usize)> {
        let listed = disk::list(&self.damaged()).ok()?;
        let is_note = |name: &str| Utf8Path::new(name).extension() == Some(UNTOLD);
        let kept = listed.iter().filter(|entry| !entry.name.to_str().is_some_and(is_note));
        let count = kept.count();
        (count > 0).then(|| (self.damaged(), count))
    }

    fn free_name(&self, path: &Utf8Path) -> Utf8PathBuf {
        let mut names = (0..).map(|number| self.name_aside(path, number));
        names.find(|name| !disk::exists(name)).expect("there are more numbers than records")
    }

    fn name_aside(&self, path: &Utf8Path, number: u32) -> Utf8PathBuf {
        let name = path.strip_prefix(&self.directory).unwrap_or(path).as_str().replace('/', "~");
        self.damaged().join(if number == 0 { name } else { format!("{name}.{number}") })
    }

    fn damaged(&self) -> Utf8PathBuf {
        self.directory.join("damaged")
    }
}

fn with_end(path: &Utf8Path, end: &str) -> Utf8PathBuf {
    Utf8PathBuf::from(format!("{path}.{end}"))
}
