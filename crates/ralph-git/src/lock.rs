//! Lock files of git: who holds one, and those that Ralph itself takes.
//!
//! Git leaves no name in a lock, so that one left by a dead process looks like any other. What can be found out is
//! whether a process has it open, or is a git that works in this repository. Ralph marks those that it takes with a
//! permission bit that means nothing on a file, and holds a kernel's lock on them, which ends with the process: so it
//! recognises what an earlier Ralph left behind, whatever has been written to it.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

use super::error::GitError;
use super::regular_file;

/// Who holds a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// A live process has it open, or is a git that works in this repository.
    Alive { pid: u32, name: String },
    /// No live process could have it: it was left behind.
    Dead,
    /// This system does not say.
    Unknown,
}

impl Holder {
    pub(super) fn advice(&self, lock: &Path) -> String {
        let lock = lock.display();
        match self {
            Holder::Alive { pid, name } => {
                format!("`{name}` (process {pid}) is at work there; wait for it or end it")
            }
            Holder::Dead => {
                format!("it was left by a process that no longer exists; remove it: rm '{lock}'")
            }
            Holder::Unknown => format!(
                "another git may be at work there; if none is, it was left by one that died: rm '{lock}'"
            ),
        }
    }
}

/// The permission bit by which a lock of Ralph's is known.
const MARK: u32 = 0o1000;

/// Finds out who holds a lock.
pub(super) fn holder_of(lock: &Path) -> Holder {
    let Ok(processes) = fs::read_dir("/proc") else { return Holder::Unknown };
    if !Path::new("/proc/self/fd").exists() {
        return Holder::Unknown;
    }
    let git_dir = lock.parent().unwrap_or(lock);
    let worktree = git_dir.parent().unwrap_or(git_dir);
    for process in processes.flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse::<u32>().ok())
        else {
            continue;
        };
        let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
        let name = name.trim().to_owned();
        let works_here = name.starts_with("git")
            && fs::read_link(process.path().join("cwd"))
                .is_ok_and(|cwd| cwd.starts_with(git_dir) || cwd.starts_with(worktree));
        if works_here || has_open(&process.path(), lock) {
            return Holder::Alive { pid, name };
        }
    }
    Holder::Dead
}

fn has_open(process: &Path, lock: &Path) -> bool {
    let Ok(descriptors) = fs::read_dir(process.join("fd")) else { return false };
    descriptors.flatten().any(|fd| fs::read_link(fd.path()).is_ok_and(|target| target == lock))
}

/// Removes a lock that a dead Ralph left, and says whether it did.
///
/// What is looked at is held meanwhile: between the look and the removal nobody else can remove it and take the lock anew,
/// which would then be removed instead.
pub(super) fn remove_abandoned(lock: &Path) -> bool {
    let Ok((file, metadata)) = regular_file::open(lock) else { return false };
    if metadata.mode() & MARK == 0 {
        return false;
    }
    let is_held = flock(&file, FlockOperation::NonBlockingLockExclusive).is_err();
    let is_there = || fs::symlink_metadata(lock).is_ok_and(|now| now.ino() == metadata.ino());
    !is_held && is_there() && fs::remove_file(lock).is_ok()
}

/// Tries until it is done, for at most so long. A lock of a dead Ralph is removed; what stays locked is explained.
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

/// Waits until nobody has a lock.
pub(super) fn wait_for_others(lock: &Path, patience: Duration) -> Result<(), GitError> {
    with_patience(lock, patience, || Ok(fs::symlink_metadata(lock).is_err().then_some(())))
}

/// A lock of git's that this process has: until it is dropped, or has become what it protects.
#[derive(Debug)]
pub(super) struct LockFile {
    path: PathBuf,
    file: File,
    is_given_away: bool,
}

impl LockFile {
    /// Takes a lock, waiting for another holder at most for `patience`; one left by a dead Ralph is removed.
    pub(super) fn take(path: &Path, patience: Duration) -> Result<Self, GitError> {
        with_patience(path, patience, || Self::create(path))
    }

    /// Makes the lock; `None` if somebody has it.
    fn create(path: &Path) -> io::Result<Option<Self>> {
        let made = OpenOptions::new().write(true).create_new(true).mode(MARK | 0o666).open(path);
        let file = match made {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
            made => made?,
        };
        // One who met it just now, not held yet, may be about to remove it.
        let _ = flock(&file, FlockOperation::LockExclusive);
        if file.metadata()?.nlink() == 0 {
            return Ok(None);
        }
        Ok(Some(LockFile { path: path.to_owned(), file, is_given_away: false }))
    }

    /// Returns the lock itself, to write to it what it is to become.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Gives the lock the name of what it protects, with these permissions.
    pub(super) fn become_file(
        mut self,
        path: &Path,
        permissions: Option<Permissions>,
    ) -> io::Result<()> {
        fs::rename(&self.path, path)?;
        self.is_given_away = true;
        // The mark goes last: it does no harm there, and a lock without it could not be told from others.
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
        // As one leaves it that dies at once, and one that dies while it writes the new index.
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
    fn a_lock_that_cannot_be_made_names_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("gone/index.lock");
        let error = LockFile::take(&path, Duration::ZERO).unwrap_err();
        assert!(error.to_string().starts_with("cannot create `"), "{error}");
        assert!(error.hint().is_some_and(|hint| hint.contains("gone`")), "{error:?}");
    }
}
