//! Lock files of git: who holds one, and the taking of `index.lock` by Ralph itself.
//!
//! Git leaves no name in a lock, so that one left by a dead process looks like any other. What can be found out is
//! whether a process has it open, or is a git that works in this repository; Ralph writes its own process id into those
//! that it takes, and so recognises what an earlier Ralph left behind.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, test_kill_process};

use super::error::GitError;

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

/// How an `index.lock` of Ralph's begins; its process id follows.
pub(super) const SIGNATURE: &str = "ralph ";

/// Finds out who holds a lock.
pub(super) fn holder_of(lock: &Path) -> Holder {
    if let Some(pid) = signed_by(lock) {
        return if is_alive(pid) {
            Holder::Alive { pid, name: "ralph".to_owned() }
        } else {
            Holder::Dead
        };
    }
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

fn signed_by(lock: &Path) -> Option<u32> {
    let size = fs::symlink_metadata(lock).ok().filter(fs::Metadata::is_file)?.len();
    if size > 64 {
        return None;
    }
    fs::read_to_string(lock).ok()?.strip_prefix(SIGNATURE)?.trim().parse().ok()
}

pub(super) fn is_abandoned(lock: &Path) -> bool {
    signed_by(lock).is_some_and(|pid| !is_alive(pid))
}

/// Removes a lock of a dead Ralph, one remover at a time: between the look and the removal another could have removed it
/// and taken the lock anew, which would then be removed instead.
pub(super) fn remove_abandoned(lock: &Path) -> io::Result<()> {
    let directory = fs::File::open(lock.parent().unwrap_or(lock))?;
    flock(&directory, FlockOperation::NonBlockingLockExclusive)?;
    if is_abandoned(lock) { fs::remove_file(lock) } else { Ok(()) }
}

pub(super) fn is_alive(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

/// The `index.lock` of one work tree, held until dropped.
#[derive(Debug)]
pub(super) struct IndexLock {
    path: PathBuf,
}

impl IndexLock {
    /// Takes the lock, waiting for another holder at most for `patience`; one left by a dead Ralph is removed.
    pub(super) fn take(path: PathBuf, patience: Duration) -> Result<Self, GitError> {
        let deadline = Instant::now() + patience;
        let mut pause = Duration::from_millis(2);
        loop {
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(mut file) => {
                    let lock = IndexLock { path };
                    file.write_all(format!("{SIGNATURE}{}\n", std::process::id()).as_bytes())
                        .map_err(|source| lock.trouble(source))?;
                    return Ok(lock);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(source) => return Err(IndexLock { path }.refused(source)),
            }
            if is_abandoned(&path) && remove_abandoned(&path).is_ok() {
                continue;
            }
            if Instant::now() >= deadline {
                return Err(GitError::Locked { holder: holder_of(&path), path });
            }
            sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(100));
        }
    }

    fn trouble(&self, source: io::Error) -> GitError {
        GitError::Start { args: format!("(lock {})", self.path.display()), source }
    }

    /// Reports why the lock could not be made, without removing what is not ours.
    fn refused(self, source: io::Error) -> GitError {
        let error = self.trouble(source);
        std::mem::forget(self);
        error
    }
}

impl Drop for IndexLock {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
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
        fs::write(&path, format!("{SIGNATURE}{}\n", i32::MAX)).unwrap();
        let lock = IndexLock::take(path.clone(), Duration::ZERO).unwrap();
        assert_eq!(signed_by(&path), Some(std::process::id()));
        drop(lock);
        assert!(!path.exists());
        fs::write(&path, "").unwrap();
        let error = IndexLock::take(path.clone(), Duration::from_millis(20)).unwrap_err();
        assert!(matches!(error, GitError::Locked { holder: Holder::Dead, .. }), "{error:?}");
        assert!(path.exists());
    }
}
