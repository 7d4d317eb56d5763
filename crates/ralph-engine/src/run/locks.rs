//! Git's lock files around a run: those that it leaves are removed, so that nobody has to do that by hand.
//!
//! A lock is a run's if nobody had it when the run began and everything of the run is dead. One that a living process
//! could have stays: see [`remove_left_behind`].

use camino::Utf8PathBuf;
use ralph_model::journal::{JournalEvent, WorkflowEvent, WorkflowFields, WorkflowKind};

use crate::git::{RepositoryLocation, remove_left_behind};

/// Returns the locks of repositories that nobody has.
pub(crate) fn free_locks(places: &[RepositoryLocation]) -> Vec<Utf8PathBuf> {
    let mut locks: Vec<Utf8PathBuf> =
        places.iter().flat_map(RepositoryLocation::lock_files).collect();
    locks.retain(|lock| lock.symlink_metadata().is_err());
    locks
}

/// Removes those that a run left which is dead, and returns them.
pub(crate) fn remove_left(locks: &[Utf8PathBuf]) -> Vec<Utf8PathBuf> {
    locks.iter().filter(|lock| remove_left_behind(lock.as_std_path())).cloned().collect()
}

/// Removes locks of Ralph's notes that were left by a Ralph that died. To be called with the lock of the workspace, when
/// no other Ralph is at work in it.
pub(crate) fn remove_left_of_notes(places: &[RepositoryLocation]) -> Vec<Utf8PathBuf> {
    let locks: Vec<Utf8PathBuf> = places.iter().map(RepositoryLocation::notes_lock).collect();
    remove_left(&locks)
}

/// Says that a lock was removed.
pub(crate) fn removed(lock: &Utf8PathBuf) -> String {
    format!("removed `{lock}`, which a process left that no longer exists")
}

/// Records that a lock was removed.
pub(crate) fn removed_event(lock: &Utf8PathBuf) -> JournalEvent {
    let fields = WorkflowFields { reason: Some(removed(lock)), ..WorkflowFields::default() };
    JournalEvent::Workflow(Box::new(WorkflowEvent { kind: WorkflowKind::Note, fields }))
}
