//! Append-only files of lines.
//!
//! Invariant: when [`AppendFile::append`] returns, the line is complete and on disk, and the file ends in a line end
//! ([`AppendFile::append_unsynced`]: the same except on disk). A tail without a line end is the torn line of a dead
//! writer; it is truncated before the next line, which is reported. Several processes may append to one file: the
//! kernel's lock on it keeps their lines apart.

use std::io;
use std::thread;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};

use super::disk::{DiskFile, open_to_append};
use super::{PathError, parent, sync_directory};

/// A truncated tail, left by a writer that died in the middle of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TornTail {
    pub(crate) bytes: u64,
}

/// A file of lines, open for appending.
#[derive(Debug)]
pub(crate) struct AppendFile {
    file: DiskFile,
    path: Utf8PathBuf,
    /// Whether the lock was held for longer than it takes to write a line: then it is not waited for again.
    is_hogged: bool,
}

/// How long another process may hold the lock. Every process that can read the file can take it, even an agent.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(2);

impl AppendFile {
    /// Opens a file, creating it if needed.
    pub(crate) fn open(path: &Utf8Path) -> Result<Self, PathError> {
        let file = open_to_append(path).map_err(|source| PathError::new("open", path, source))?;
        if file.found().is_ok_and(|found| found.length == 0) {
            sync_directory(parent(path))?;
        }
        Ok(AppendFile { file, path: path.to_owned(), is_hogged: false })
    }

    /// Whether the file ends in a complete line.
    pub(crate) fn is_whole(&self) -> Result<bool, PathError> {
        let whole = || -> io::Result<bool> {
            let length = self.file.found()?.length;
            Ok(sound_length(&self.file, length)? == length)
        };
        whole().map_err(|source| PathError::new("read", &self.path, source))
    }

    /// Appends one line durably, after truncating a dead writer's torn line.
    pub(crate) fn append(&mut self, line: &str) -> Result<Option<TornTail>, PathError> {
        self.append_and(line, DiskFile::sync_data)
    }

    /// Appends one line that a power failure may lose, because its content is durable elsewhere. The next durable line
    /// also syncs it.
    pub(crate) fn append_unsynced(&mut self, line: &str) -> Result<Option<TornTail>, PathError> {
        self.append_and(line, |_| Ok(()))
    }

    fn append_and(
        &mut self,
        line: &str,
        sync: fn(&DiskFile) -> io::Result<()>,
    ) -> Result<Option<TornTail>, PathError> {
        assert!(!line.contains('\n'), "BUG: a line of a file of lines holds a line end");
        let is_locked = self.lock();
        let error = |source: io::Error| PathError::new("append to", &self.path, source);
        let is_locked = is_locked.map_err(error)?;
        let appended = if is_locked {
            append_locked(&self.file, line, sync)
        } else {
            append_unlocked(&self.file, line, sync).map(|()| None)
        };
        if is_locked {
            self.file.unlock();
        }
        appended.map_err(error)
    }

    /// Takes the lock, if it becomes available in time.
    fn lock(&mut self) -> io::Result<bool> {
        let mut waited = Duration::ZERO;
        loop {
            match self.file.try_lock() {
                Ok(()) => {
                    self.is_hogged = false;
                    return Ok(true);
                }
                Err(problem) if problem.kind() != io::ErrorKind::WouldBlock => return Err(problem),
                Err(_) if self.is_hogged || waited >= PATIENCE => {
                    self.is_hogged = true;
                    return Ok(false);
                }
                Err(_) => {
                    thread::sleep(PAUSE);
                    waited += PAUSE;
                }
            }
        }
    }
}

/// Appends a line without the lock: in one write, after a line end, and without truncating anything.
fn append_unlocked(
    file: &DiskFile,
    line: &str,
    sync: fn(&DiskFile) -> io::Result<()>,
) -> io::Result<()> {
    let length = file.found()?.length;
    let is_torn = sound_length(file, length)? < length;
    let text = format!("{}{line}\n", if is_torn { "\n" } else { "" });
    file.write_all(text.as_bytes()).and_then(|()| sync(file))
}

fn append_locked(
    file: &DiskFile,
    line: &str,
    sync: fn(&DiskFile) -> io::Result<()>,
) -> io::Result<Option<TornTail>> {
    let length = file.found()?.length;
    let sound = sound_length(file, length)?;
    let torn = (sound < length).then(|| TornTail { bytes: length - sound });
    if torn.is_some() {
        file.set_length(sound)?;
    }
    let mut bytes = Vec::with_capacity(line.len() + 1);
    bytes.extend_from_slice(line.as_bytes());
    bytes.push(b'\n');
    let written = file.write_all(&bytes).and_then(|()| sync(file));
    if written.is_err() {
        // A partial line on a full disk would be reported as a crash at the next start.
        let _ = file.set_length(sound);
    }
    written.map(|()| torn)
}

/// Returns the length of the complete lines.
fn sound_length(file: &DiskFile, length: u64) -> io::Result<u64> {
    let mut end = length;
    let mut last = [0];
    if end == 0 {
        return Ok(0);
    }
    file.read_exact_at(&mut last, end - 1)?;
    if last == *b"\n" {
        return Ok(end);
    }
    let mut block = [0; 4096];
    while end > 0 {
        let size = end.min(4096);
        let start = end - size;
        let block = &mut block[..usize::try_from(size).expect("a block is small")];
        file.read_exact_at(block, start)?;
        if let Some(at) = block.iter().rposition(|byte| *byte == b'\n') {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}
