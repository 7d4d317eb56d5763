//! Follows files of lines while other processes append to them: the journal, and the events of a run.
//!
//! Invariant: a line is delivered once, when its line end is written. The cursor is the byte offset after the last
//! delivered line; it stays valid as long as the file only grows. A tail without a line end is left: its writer is
//! still writing, or has died and the next writer truncates it. If the file was truncated below the cursor, or
//! replaced, it is read from the beginning, and that is reported. A follower takes no lock and writes nothing, and the
//! file need not exist yet.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::files::notifier::{Interest, Notifier};
use crate::files::{PathError, parent};

/// The polling interval without kernel notifications.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The polling interval with notifications: some file systems miss some.
const LOOK_ANYWAY: Duration = Duration::from_secs(2);

const CHUNK: usize = 64 << 10;

/// An event of a follower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Followed<'a> {
    /// A line without its line end.
    Line(&'a [u8]),
    /// The file was truncated or replaced: the following lines are from its beginning.
    Restarted,
}

/// Follows one file.
#[derive(Debug)]
pub struct Follower {
    path: Utf8PathBuf,
    file: Option<File>,
    cursor: u64,
    notifier: Option<Notifier>,
}

impl Follower {
    /// Follows a file from a cursor: 0, or a value of [`Follower::cursor`] or [`start_of_last`].
    pub fn new(path: &Utf8Path, cursor: u64) -> Follower {
        Follower { path: path.to_owned(), file: None, cursor, notifier: None }
    }

    /// The offset after the last delivered line.
    pub fn cursor(&self) -> u64 {
        self.cursor
    }

    /// Delivers every line completed since the last call.
    pub fn take(&mut self, mut each: impl FnMut(Followed<'_>)) -> Result<(), PathError> {
        // Before the file is read, so that later appends are reported.
        if self.notifier.is_none() {
            self.notifier = Notifier::of(parent(&self.path), Interest::Changes);
        }
        self.take_lines(&mut each).map_err(|source| PathError::new("read", &self.path, source))
    }

    fn take_lines(&mut self, each: &mut impl FnMut(Followed<'_>)) -> io::Result<()> {
        loop {
            let opened = self.file.take().map_or_else(|| open(&self.path), |file| Ok(Some(file)));
            let Some(file) = opened? else { return Ok(()) };
            if is_cut(&file, self.cursor)? {
                self.cursor = 0;
                each(Followed::Restarted);
            }
            self.cursor += take_from(&file, self.cursor, each)?;
            if !is_replaced(&file, &self.path)? {
                self.file = Some(file);
                return Ok(());
            }
            self.cursor = 0;
            each(Followed::Restarted);
        }
    }

    /// Discards pending notifications. If the directory was removed, it is watched again once it reappears.
    fn settle(&mut self) {
        if self.notifier.as_ref().is_some_and(|notifier| notifier.news().uprooted) {
            self.notifier = None;
        }
    }
}

/// Waits until one of the files may have new content. Returns whether `reader`, the consumer of the output, has gone.
pub fn wait<'f>(
    followers: impl IntoIterator<Item = &'f mut Follower>,
    reader: BorrowedFd<'_>,
) -> io::Result<bool> {
    let mut followers: Vec<&mut Follower> = followers.into_iter().collect();
    let told: Vec<_> = followers.iter().filter_map(|follower| follower.notifier.as_ref()).collect();
    let is_told = !followers.is_empty() && told.len() == followers.len();
    let patience = if is_told { LOOK_ANYWAY } else { LOOK_EVERY };
    // A closed reader is reported even without requesting events.
    let mut fds = vec![PollFd::from_borrowed_fd(reader, PollFlags::empty())];
    fds.extend(told.iter().map(|told| PollFd::new(*told, PollFlags::IN)));
    let timeout = Timespec::try_from(patience).expect("it is a short time");
    let waited = poll(&mut fds, Some(&timeout));
    let is_gone = !fds[0].revents().is_empty();
    drop(fds);
    match waited {
        Ok(_) | Err(Errno::INTR) => {}
        Err(errno) => return Err(errno.into()),
    }
    for follower in &mut followers {
        follower.settle();
    }
    Ok(is_gone)
}

/// Returns the cursor before the last `count` complete lines of a file; 0 if it has no more, or does not exist.
pub fn start_of_last(path: &Utf8Path, count: usize) -> Result<u64, PathError> {
    let start = || -> io::Result<u64> {
        let Some(file) = open(path)? else { return Ok(0) };
        let mut end = file.metadata()?.len();
        // Plus the line end of the line before the first of them.
        let mut left = count.saturating_add(1);
        let mut block = vec![0; CHUNK];
        while end > 0 {
            let size = end.min(CHUNK as u64);
            let block = &mut block[..usize::try_from(size).expect("a chunk is small")];
            file.read_exact_at(block, end - size)?;
            for at in memchr::memrchr_iter(b'\n', block) {
                left -= 1;
                if left == 0 {
                    return Ok(end - size + at as u64 + 1);
                }
            }
            end -= size;
        }
        Ok(0)
    };
    start().map_err(|source| PathError::new("read", path, source))
}

/// Opens a regular file; `None` if there is none.
fn open(path: &Utf8Path) -> io::Result<Option<File>> {
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let flags = i32::try_from(flags.bits()).expect("flags are small");
    match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) if file.metadata()?.is_file() => Ok(Some(file)),
        Ok(_) => Err(io::Error::other("it is not a file")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether a file is shorter than what was already read.
fn is_cut(file: &File, cursor: u64) -> io::Result<bool> {
    let Some(last) = cursor.checked_sub(1) else { return Ok(false) };
    let mut byte = [0];
    Ok(file.read_at(&mut byte, last)? == 0 || byte != *b"\n")
}

/// Whether another file has the name now. A missing name may come back.
fn is_replaced(file: &File, path: &Utf8Path) -> io::Result<bool> {
    let of = |found: &std::fs::Metadata| (found.dev(), found.ino());
    match path.symlink_metadata() {
        Ok(found) => Ok(of(&found) != of(&file.metadata()?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Delivers the complete lines of a file after `start`, and returns their length in bytes.
fn take_from(file: &File, start: u64, each: &mut impl FnMut(Followed<'_>)) -> io::Result<u64> {
    let mut bytes = Vec::new();
    // The offsets of `bytes` and of the next read, both relative to `start`.
    let (mut taken, mut read) = (0, 0);
    let mut chunk = vec![0; CHUNK];
    loop {
        let count = file.read_at(&mut chunk, start + read)?;
        read += count as u64;
        let searched = bytes.len();
        bytes.extend_from_slice(&chunk[..count]);
        let mut begin = 0;
        for end in memchr::memchr_iter(b'\n', &bytes[searched..]).map(|at| searched + at) {
            each(Followed::Line(&bytes[begin..end]));
            begin = end + 1;
        }
        bytes.drain(..begin);
        taken += begin as u64;
        // The current end of the file. Reading on could join a torn tail with its replacement.
        if count < CHUNK {
            return Ok(taken);
        }
    }
}

#[cfg(test)]
#[path = "follow_tests.rs"]
mod tests;
