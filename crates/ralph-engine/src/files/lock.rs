//! Locks between processes: one workflow per home, one writer at a time.
//!
//! The file of a lock is in private state, which another user, a container or another path to the same directory does
//! not share. Writers therefore lock the home directory itself as well, and workflows its `specs`: their inodes are the
//! same for all processes.
//!
//! The kernel holds the lock, so it ends with its process, however that ends; nothing here ever decides by age or by
//! pid whether a lock is stale. The content of the lock file is only for the message that names the owner, and is used
//! only if that very process is alive. The file is kept when the lock is released: removing it would let two processes
//! lock two files of the same name.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::thread;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::disk::{self, DiskFile, open_directory, open_lock_file};
use super::{PathError, open_privately, read_optional};
use ralph_proc::tree::ProcessIdentity;

/// The owner of a lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LockOwner {
    pub(crate) process: ProcessIdentity,
    /// The command line, such as `ralph build`.
    pub(crate) command: String,
    pub(crate) since: Timestamp,
    /// Where other processes leave messages for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) place: Option<OwnerPlace>,
}

/// The home that a running Ralph has locked, by its own path, and its private state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OwnerPlace {
    pub(crate) home: Utf8PathBuf,
    pub(crate) state: Utf8PathBuf,
}

impl LockOwner {
    /// Describes this process as an owner.
    pub(crate) fn current(command: impl Into<String>, since: Timestamp) -> Self {
        LockOwner { process: disk::own_process(), command: command.into(), since, place: None }
    }

    /// Adds where other processes leave messages for it.
    pub(crate) fn at(self, home: &Utf8Path, state: &Utf8Path) -> Self {
        let place = OwnerPlace { home: home.to_owned(), state: state.to_owned() };
        LockOwner { place: Some(place), ..self }
    }
}

impl std::fmt::Display for LockOwner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}` (pid {}, since {:.0})", self.command, self.process.pid, self.since)
    }
}

/// A lock could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error("{} is already running here", owner_or_another(.owner.as_deref()))]
    RunHeld { owner: Option<String> },
    #[error("{} is writing in this home and did not finish within {waited:?}", owner_or_another(.owner.as_deref()))]
    WriteHeld { owner: Option<String>, waited: Duration },
    #[error(transparent)]
    Path(#[from] PathError),
}

fn owner_or_another(owner: Option<&str>) -> &str {
    owner.unwrap_or("another process")
}

/// The right to run a workflow in a home. Released on drop, or with the process.
#[derive(Debug)]
pub(crate) struct RunLock {
    _directory: Option<HeldLock>,
    _file: HeldLock,
}

/// Returns the directory of a home that a workflow locks in addition to its lock file.
pub(crate) fn locked_directory(home: &Utf8Path) -> Utf8PathBuf {
    home.join("specs")
}

/// How long a killed process may still hold a lock: through a forked child before its exec.
const DYING: Duration = Duration::from_secs(2);

impl RunLock {
    /// Takes the lock, or returns its owner.
    pub(crate) fn acquire(path: &Utf8Path, owner: &LockOwner) -> Result<Self, LockError> {
        RunLock::acquire_with(path, None, owner)
    }

    /// Takes the lock file and a directory shared by all processes that can access the home, or returns their owner.
    ///
    /// A directory that is missing or cannot be locked is not an error: then only the lock file protects.
    pub(crate) fn acquire_with(
        path: &Utf8Path,
        shared: Option<&Utf8Path>,
        owner: &LockOwner,
    ) -> Result<Self, LockError> {
        let is_dying = |path: &Utf8Path| holder(path).is_none();
        let file = try_until(is_dying, path, || HeldLock::try_acquire(path, Some(owner)))?;
        let Some(file) = file else {
            let owner = current_owner(path).map(|owner| owner.to_string());
            return Err(LockError::RunHeld { owner });
        };
        let mut directory = None;
        if let Some((shared, opened)) =
            shared.and_then(|path| Some((path, open_directory(path).ok()?)))
        {
            let held = HeldLock { file: opened, is_named: false };
            match try_until(is_dying, shared, || Ok(held.try_again()))? {
                None => return Err(LockError::RunHeld { owner: holder(shared) }),
                Some(is_held) => directory = Some(held).filter(|_| is_held),
            }
        }
        Ok(RunLock { _directory: directory, _file: file })
    }
}

/// Tries at once, and again as long as no holder of the lock can be found.
fn try_until<T>(
    is_dying: impl Fn(&Utf8Path) -> bool,
    path: &Utf8Path,
    mut attempt: impl FnMut() -> Result<Option<T>, PathError>,
) -> Result<Option<T>, PathError> {
    let mut waited = Duration::ZERO;
    loop {
        let held = attempt()?;
        if held.is_some() || waited >= DYING || !is_dying(path) {
            return Ok(held);
        }
        thread::sleep(PAUSE);
        waited += PAUSE;
    }
}

const PAUSE: Duration = Duration::from_millis(10);

/// The right to write a home's state files, held briefly. Released on drop, or with the process.
#[derive(Debug)]
pub struct WriteLock {
    /// Released first, so that a process that waits for the file finds the directory free.
    _directory: Option<HeldLock>,
    _file: HeldLock,
}

impl WriteLock {
    /// Takes the lock file and the home directory, waiting up to `patience` for their holders.
    ///
    /// No owner is recorded for such a short time: if the wait times out, the kernel knows the holder. A home that is
    /// missing, or on a file system that cannot lock directories (NFS), is protected by the lock file alone.
    pub fn acquire(
        path: &Utf8Path,
        home: &Utf8Path,
        patience: Duration,
    ) -> Result<Self, LockError> {
        let mut waited = Duration::ZERO;
        let file = wait(path, patience, &mut waited, || HeldLock::try_acquire(path, None))?;
        let opened = open_directory(home).ok();
        let mut directory = opened.map(|file| HeldLock { file, is_named: false });
        if let Some(held) = &directory {
            let is_held = wait(home, patience, &mut waited, || Ok(held.try_again()))?;
            directory = directory.filter(|_| is_held);
        }
        Ok(WriteLock { _directory: directory, _file: file })
    }
}

/// Tries until the lock is taken, for at most this long in total.
fn wait<T>(
    path: &Utf8Path,
    patience: Duration,
    waited: &mut Duration,
    mut attempt: impl FnMut() -> Result<Option<T>, PathError>,
) -> Result<T, LockError> {
    // The kernel's own waiting has no timeout. Pauses are summed up, so that no clock is read.
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(held) = attempt()? {
            return Ok(held);
        }
        if *waited >= patience {
            return Err(LockError::WriteHeld { owner: holder(path), waited: *waited });
        }
        let step = pause.min(patience.saturating_sub(*waited));
        thread::sleep(step);
        *waited += step;
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

/// Whether a live process is recorded as the owner in a lock file.
pub fn is_owned(path: &Utf8Path) -> bool {
    current_owner(path).is_some()
}

/// Returns the owner recorded in the lock file, if that process is alive.
fn current_owner(path: &Utf8Path) -> Option<LockOwner> {
    let text = read_optional(path).ok()??;
    let owner: LockOwner = serde_json::from_slice(&text).ok()?;
    disk::is_alive(&owner.process).then_some(owner)
}

/// Returns the name of the process that holds a lock, whether or not it recorded itself there.
fn holder(path: &Utf8Path) -> Option<String> {
    if let Some(owner) = current_owner(path) {
        return Some(owner.to_string());
    }
    let pid = locking_process(path)?;
    let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let words = String::from_utf8_lossy(&command);
    let command: Vec<&str> = words.split_terminator('\0').collect();
    Some(format!("`{}` (pid {pid})", command.join(" ")))
}

/// Returns where the Ralph that has locked a directory accepts messages.
///
/// Its private state may be unknown to this process (another state directory, another path to the same home), so its
/// lock file is found among its open files. `None` if the directory is not locked, or if the owner is not visible:
/// another user, another container.
pub(crate) fn place_of_owner(directory: &Utf8Path) -> Option<OwnerPlace> {
    let pid = locking_process(directory)?;
    let open = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let files = open.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    let mut files = files.filter_map(|file| Utf8PathBuf::from_path_buf(file).ok());
    files.find_map(|file| {
        let is_lock = file.extension() == Some("run")
            && file.parent().and_then(Utf8Path::file_name) == Some("locks");
        let owner = is_lock.then(|| current_owner(&file)).flatten()?;
        owner.place.filter(|_| owner.process.pid == pid)
    })
}

/// Returns the process that has a file or directory locked, according to the kernel.
fn locking_process(path: &Utf8Path) -> Option<i32> {
    let inode = format!(":{}", fs::metadata(path).ok()?.ino());
    let locks = fs::read_to_string("/proc/locks").ok()?;
    // For example `1: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF`.
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_it = words.get(1) == Some(&"FLOCK") && words.get(5)?.ends_with(&inode);
        is_it.then(|| words[4].parse::<i32>().ok())?
    })
}

#[derive(Debug)]
struct HeldLock {
    file: DiskFile,
    /// Whether its file records the owner.
    is_named: bool,
}

impl HeldLock {
    fn try_acquire(path: &Utf8Path, owner: Option<&LockOwner>) -> Result<Option<Self>, PathError> {
        let error = |source: io::Error| PathError::new("lock", path, source);
        let file = open_privately(path, "lock", open_lock_file)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(problem) if problem.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(problem) => return Err(error(problem)),
        }
        // The lock is held now; failing to write the owner (a full disk) only costs others the name.
        let _ = owner.map(|owner| write_owner(&file, owner));
        Ok(Some(HeldLock { file, is_named: owner.is_some() }))
    }

    /// Locks an open file: `None` if another process has it, `false` if it cannot be locked at all.
    fn try_again(&self) -> Option<bool> {
        match self.file.try_lock() {
            Ok(()) => Some(true),
            Err(problem) if problem.kind() == io::ErrorKind::WouldBlock => None,
            Err(_) => Some(false),
        }
    }
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        // Unlocking, rather than only closing, also releases it from a forked child before its exec.
        if self.is_named {
            let _ = self.file.set_length(0);
        }
        self.file.unlock();
    }
}

fn write_owner(file: &DiskFile, owner: &LockOwner) -> io::Result<()> {
    let mut text = serde_json::to_vec(owner)?;
    text.push(b'\n');
    file.set_length(0)?;
    file.write_all_at(&text, 0)
}

#[cfg(test)]
#[path = "lock_tests.rs"]
mod tests;
