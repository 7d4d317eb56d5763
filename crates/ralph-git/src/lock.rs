//! Lock files of git: their holders, and the locks that Ralph itself takes.
//!
//! Git records no owner in a lock, so one left by a dead process looks like any other. It can only be determined
//! whether a process has it open, or is a git that works in this repository. Ralph marks its own locks with a
//! permission bit that is meaningless on a file, and holds a kernel lock on them, which ends with the process: so it
//! recognises locks left by an earlier Ralph, whatever their content.
//!
//! Git's own lock is removed only if the caller knows that it was left behind: every process that could have taken it
//! is dead ([`remove_left_behind`]).

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use camino::Utf8PathBuf;
use ralph_proc::witness;
use rustix::fs::{FlockOperation, flock};

use super::error::GitError;
use super::notes::NOTES_REF;
use super::{RepositoryLocation, regular_file};

/// The holder of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// A live process has it open, or is a git that works in this repository.
    Alive { pid: u32, name: String },
    /// No live process can hold it: it was left behind.
    Dead,
    /// The system does not tell.
    Unknown,
}

impl Holder {
    pub(super) fn advice(&self, lock: &Path) -> String {
        let lock = lock.display();
        match self {
            Holder::Alive { pid, name } => {
                format!("`{name}` (process {pid}) is using it; wait for it or end it")
            }
            Holder::Dead => {
                format!("a process that no longer exists left it: rm '{lock}'")
            }
            Holder::Unknown => format!(
                "another git process may be using it; if not, a crashed one left it: rm '{lock}'"
            ),
        }
    }
}

/// The permission bit that marks Ralph's own locks.
const MARK: u32 = 0o1000;

/// Determines the holder of a lock.
pub(super) fn holder_of(lock: &Path) -> Holder {
    let lock = lock.to_owned();
    witness::look(move || seen_holder_of(&lock))
}

fn seen_holder_of(lock: &Path) -> Holder {
    let Ok(processes) = fs::read_dir("/proc") else { return Holder::Unknown };
    if !Path::new("/proc/self/fd").exists() {
        return Holder::Unknown;
    }
    // The lock of a ref is in a subdirectory.
    let git_dir = lock.ancestors().find(|dir| dir.join("HEAD").exists());
    let git_dir = git_dir.or(lock.parent()).unwrap_or(lock);
    let worktree = git_dir.parent().unwrap_or(git_dir);
    let mut is_hidden = false;
    for process in processes.flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse::<u32>().ok())
        else {
            continue;
        };
        let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
        let name = name.trim().to_owned();
        let works_here = name.starts_with("git")
            && match fs::read_link(process.path().join("cwd")) {
                Ok(cwd) => cwd.starts_with(git_dir) || cwd.starts_with(worktree),
                Err(error) => {
                    // A git process of another user, which could work here.
                    is_hidden |= error.kind() == io::ErrorKind::PermissionDenied;
                    false
                }
            };
        if works_here || has_open(&process.path(), lock) {
            return Holder::Alive { pid, name };
        }
    }
    if is_hidden { Holder::Unknown } else { Holder::Dead }
}

fn has_open(process: &Path, lock: &Path) -> bool {
    let Ok(descriptors) = fs::read_dir(process.join("fd")) else { return false };
    descriptors.flatten().any(|fd| fs::read_link(fd.path()).is_ok_and(|target| target == lock))
}

/// Removes a lock left by a killed Ralph; returns whether it did.
///
/// The file is held open and locked meanwhile: otherwise, between the check and the removal, another process could
/// remove it and take the lock again, which would then be removed instead.
pub(super) fn remove_abandoned(lock: &Path) -> bool {
    let Ok((file, metadata)) = regular_file::open(lock) else { return false };
    if metadata.mode() & MARK == 0 {
        return false;
    }
    let is_held = flock(&file, FlockOperation::NonBlockingLockExclusive).is_err();
    let is_there = || fs::symlink_metadata(lock).is_ok_and(|now| now.ino() == metadata.ino());
    !is_held && is_there() && fs::remove_file(lock).is_ok()
}

/// How long an apparently abandoned lock is watched before it is removed. A process that holds one without being
/// visible from here is done within that time.
const WATCHED: Duration = Duration::from_millis(500);

impl RepositoryLocation {
    /// Returns the locks that a git or Ralph killed in the middle of a commit or a note leaves.
    pub fn lock_files(&self) -> Vec<Utf8PathBuf> {
        let head =
            regular_file::read_regular(self.git_dir.join("HEAD").as_std_path()).ok().flatten();
        let head = head.and_then(|head| String::from_utf8(head).ok()).unwrap_or_default();
        let branch = head.strip_prefix("ref:").map(|name| format!("{}.lock", name.trim()));
        let own = ["index.lock", "HEAD.lock"].map(|name| self.git_dir.join(name));
        let shared = ["packed-refs.lock".to_owned()].into_iter().chain(branch);
        let shared = shared.map(|name| self.common_dir.join(name)).chain([self.notes_lock()]);
        own.into_iter().chain(shared).collect()
    }

    /// Returns the lock of the ref with Ralph's notes.
    pub fn notes_lock(&self) -> Utf8PathBuf {
        self.common_dir.join(format!("{NOTES_REF}.lock"))
    }
}

/// Removes a lock that was left behind by a dead process, and returns whether it did.
///
/// The caller must know that the process which took it has ended; visible processes are checked as well, and a lock
/// that a live one could hold is kept.
pub fn remove_left_behind(lock: &Path) -> bool {
    let unheld = || {
        let found = fs::symlink_metadata(lock).ok().filter(fs::Metadata::is_file)?;
        let at = (found.ino(), found.size(), found.mtime(), found.mtime_nsec());
        (holder_of(lock) == Holder::Dead).then_some(at)
    };
    let Some(first) = unheld() else { return false };
    sleep(WATCHED);
    let Ok((file, _)) = regular_file::open(lock) else { return false };
    let is_held = flock(&file, FlockOperation::NonBlockingLockExclusive).is_err();
    // Otherwise this process would be found as its holder.
    drop(file);
    !is_held && unheld() == Some(first) && fs::remove_file(lock).is_ok()
}

/// Retries until it succeeds or the time has elapsed. The lock of a killed Ralph is removed; any other is reported with
/// its holder.
fn with_patience<T>(
    lock: &Path,
    patience: Duration,
    mut attempt: impl FnMut() -> io::Result<Option<T>>,
) -> Result<T, GitError> {
    let deadline = Instant::now() + patience;
    let mut pause = Duration::from_millis(2);
    loop {
        let made =
            attempt().map_err(|source| GitError::Unlockable { path: lock.to_owned(), source })?;
        if let Some(made) = made {
            return Ok(made);
        }
        if remove_abandoned(lock) {
            continue;
        }
        if Instant::now() >= deadline {
            return Err(GitError::Locked { holder: holder_of(lock), path: lock.to_owned() });
        }
        sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(100));
    }
}

/// Waits until a lock is free.
pub(super) fn wait_for_others(lock: &Path, patience: Duration) -> Result<(), GitError> {
    with_patience(lock, patience, || Ok(fs::symlink_metadata(lock).is_err().then_some(())))
}

/// A git lock held by this process: until it is dropped, or has replaced the file it protects.
#[derive(Debug)]
pub(super) struct LockFile {
    path: PathBuf,
    file: File,
    is_given_away: bool,
}

impl LockFile {
    /// Takes a lock, waiting for another holder at most `patience`; one left by a killed Ralph is removed.
    pub(super) fn take(path: &Path, patience: Duration) -> Result<Self, GitError> {
        with_patience(path, patience, || Self::create(path))
    }

    /// Creates the lock; `None` if it is taken.
    fn create(path: &Path) -> io::Result<Option<Self>> {
        let made = OpenOptions::new().write(true).create_new(true).mode(MARK | 0o666).open(path);
        let file = match made {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
            made => made?,
        };
        // A process that found the file before it was locked may be about to remove it.
        let _ = flock(&file, FlockOperation::LockExclusive);
        if file.metadata()?.nlink() == 0 {
            return Ok(None);
        }
        Ok(Some(LockFile { path: path.to_owned(), file, is_given_away: false }))
    }

    /// Returns the lock file itself, to write the new content.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Renames the lock to the file it protects, with these permissions.
    pub(super) fn become_file(
        mut self,
        path: &Path,
        permissions: Option<Permissions>,
    ) -> io::Result<()> {
        fs::rename(&self.path, path)?;
        self.is_given_away = true;
        // The mark is removed last: it does no harm there, and a lock without it could not be distinguished from
        // others.
        let own = || self.file.metadata().ok().map(|made| made.permissions());
        if let Some(permissions) = permissions.or_else(own) {
            let unmarked = Permissions::from_mode(permissions.mode() & !MARK);
            let _ = self.file.set_permissions(unmarked);
        }
        Ok(())
    }
}

impl Drop for LockFile {
    fn drop(&mut self) {
        if !self.is_given_away {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_with_an_open_descriptor_names_its_process_and_one_without_is_left_behind() {
        let dir = tempfile::tempdir().unwrap();
        let git_dir = dir.path().canonicalize().unwrap().join("r/.git");
        fs::create_dir_all(&git_dir).unwrap();
        let lock = git_dir.join("index.lock");
        let file = fs::File::create(&lock).unwrap();
        let Holder::Alive { pid, .. } = holder_of(&lock) else { panic!("not found") };
        assert_eq!(pid, std::process::id());
        drop(file);
        assert_eq!(holder_of(&lock), Holder::Dead);
        assert!(Holder::Dead.advice(&lock).contains("rm '"));
    }

    #[test]
    fn a_lock_of_a_dead_ralph_is_taken_over_and_one_of_somebody_else_never() {
        let dir = tempfile::tempdir().unwrap();
        let git_dir = dir.path().canonicalize().unwrap().join("r/.git");
        fs::create_dir_all(&git_dir).unwrap();
        let path = git_dir.join("index.lock");
        let take = || LockFile::take(&path, Duration::from_millis(20));
        // As left by a process that dies at once, and by one that dies while it writes the new index.
        for text in ["", "DIRC"] {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(MARK | 0o644)).unwrap();
            drop(take().unwrap());
            assert!(!path.exists());
        }
        let lock = take().unwrap();
        let held = take().unwrap_err();
        assert!(matches!(held, GitError::Locked { holder: Holder::Alive { .. }, .. }), "{held:?}");
        let index = git_dir.join("index");
        lock.become_file(&index, None).unwrap();
        assert_eq!(fs::metadata(index).unwrap().permissions().mode() & MARK, 0);
        assert!(!path.exists());
        fs::write(&path, "").unwrap();
        let error = take().unwrap_err();
        assert!(matches!(error, GitError::Locked { holder: Holder::Dead, .. }), "{error:?}");
        assert!(path.exists());
    }

    #[test]
    fn a_lock_is_removed_as_left_behind_only_if_no_process_can_have_it() {
        let dir = tempfile::tempdir().unwrap();
        let git_dir = dir.path().canonicalize().unwrap().join("r/.git");
        fs::create_dir_all(git_dir.join("refs/notes")).unwrap();
        fs::write(git_dir.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        for name in ["index.lock", "refs/notes/ralph.lock"] {
            let path = git_dir.join(name);
            let file = fs::File::create(&path).unwrap();
            assert!(!remove_left_behind(&path) && path.exists(), "{name}");
            drop(file);
            assert!(remove_left_behind(&path) && !path.exists(), "{name}");
            assert!(!remove_left_behind(&path), "{name}");
        }
        // One held by Ralph, and one that is not a file.
        let path = git_dir.join("index.lock");
        let lock = LockFile::take(&path, Duration::ZERO).unwrap();
        assert!(!remove_left_behind(&path));
        drop(lock);
        fs::create_dir(&path).unwrap();
        assert!(!remove_left_behind(&path) && path.exists());
    }

    #[test]
    fn the_locks_of_a_repository_are_those_of_its_index_head_branch_and_notes() {
        let world = super::super::testing::World::new();
        let dir = world.repository("r");
        let place = RepositoryLocation::discover(&dir).unwrap();
        let branch = fs::read_to_string(place.git_dir.join("HEAD")).unwrap();
        let branch = branch.trim().strip_prefix("ref: ").unwrap().to_owned();
        let locks = place.lock_files();
        for name in ["index", "HEAD", "packed-refs", &branch, "refs/notes/ralph"] {
            assert!(locks.contains(&place.git_dir.join(format!("{name}.lock"))), "{locks:?}");
        }
    }

    #[test]
    fn a_lock_that_cannot_be_made_names_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("gone/index.lock");
        let error = LockFile::take(&path, Duration::ZERO).unwrap_err();
        assert!(error.to_string().starts_with("cannot create `"), "{error}");
        assert!(error.hint().is_some_and(|hint| hint.contains("gone`")), "{error:?}");
    }
}
