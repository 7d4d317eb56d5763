//! Removes git lock files that a killed run left behind.
//!
//! A lock file belongs to a run if it did not exist when the run started and all processes of the run have ended. A
//! lock that a live process may hold is never removed: see [`remove_left_behind`].

use camino::Utf8PathBuf;
use ralph_model::journal::Note;

use crate::git::{RepositoryLocation, remove_left_behind};

/// Returns the lock files of these repositories that do not exist now.
pub(crate) fn free_locks(places: &[RepositoryLocation]) -> Vec<Utf8PathBuf> {
    let mut locks: Vec<Utf8PathBuf> =
        places.iter().flat_map(RepositoryLocation::lock_files).collect();
    locks.retain(|lock| lock.symlink_metadata().is_err());
    locks
}

/// Removes the lock files that a dead run left behind, and returns them.
pub(crate) fn remove_left(locks: &[Utf8PathBuf]) -> Vec<Utf8PathBuf> {
    locks.iter().filter(|lock| remove_left_behind(lock.as_std_path())).cloned().collect()
}

/// Removes lock files of `refs/notes/ralph` that a dead Ralph left behind. The caller must hold the run lock, so that
/// no other Ralph works in this workspace.
pub(crate) fn remove_left_of_notes(places: &[RepositoryLocation]) -> Vec<Utf8PathBuf> {
    let locks: Vec<Utf8PathBuf> = places.iter().map(RepositoryLocation::notes_lock).collect();
    remove_left(&locks)
}

/// Describes a removed lock.
pub(crate) fn removed(lock: &Utf8PathBuf) -> String {
    format!("removed `{lock}`, which a process left that no longer exists")
}

/// Returns the journal note of a removed lock.
pub(crate) fn removed_note(lock: &Utf8PathBuf) -> Note {
    Note { reason: removed(lock), ..Note::default() }
}
