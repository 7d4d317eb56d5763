//! What a process prints: kept byte for byte, and cut into lines for whoever reads along.
//!
//! Memory stays flat whatever comes: the log is written before anything is parsed, there are a few buffers, and a line
//! longer than [`LINE_CAP`] is handed on as its beginning. Cutting and parsing happen where the bytes arrive: see
//! [`crate::parser`] for what becomes of a flood.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::io::Errno;

use crate::parser::Parser;

/// The longest line a watcher sees whole.
pub(crate) const LINE_CAP: usize = 4 << 20;

pub(crate) const CHUNK: usize = 256 << 10;

/// Where a line came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    Stdout,
    Stderr,
}

/// Reads along while a process prints, on the thread that supervises it or, in a flood, on one of its own.
pub trait Watcher: Send {
    /// A line without its line end. Where it was longer than [`LINE_CAP`], its beginning.
    fn line(&mut self, stream: Stream, line: &[u8]);
}

/// Cuts bytes into lines.
#[derive(Debug, Default)]
pub struct Lines {
    begun: Vec<u8>,
    overlong: bool,
}

impl Lines {
    /// Takes the next bytes and hands on every line that is complete.
    pub fn feed(&mut self, mut bytes: &[u8], mut each: impl FnMut(&[u8])) {
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            let (line, rest) = bytes.split_at(end);
            bytes = &rest[1..];
            if self.begun.is_empty() && !self.overlong {
                each(without_return(&line[..line.len().min(LINE_CAP)]));
            } else {
                self.keep(line);
                each(without_return(&self.begun));
                self.begun.clear();
                self.overlong = false;
            }
        }
        self.keep(bytes);
    }

    /// Hands on what stands after the last line end.
    pub fn finish(&mut self, mut each: impl FnMut(&[u8])) {
        if !self.begun.is_empty() {
            each(without_return(&self.begun));
        }
        self.begun = Vec::new();
        self.overlong = false;
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = LINE_CAP - self.begun.len();
        if bytes.len() > room {
            self.overlong = true;
        }
        self.begun.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}

fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// The file that keeps a stream.
#[derive(Debug)]
pub enum Log {
    Open(File),
    /// Made when there is something to keep: most agents print nothing on stderr.
    WhenNeeded(PathBuf),
}

impl Log {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        let file = match self {
            _ if bytes.is_empty() => return Ok(()),
            Log::Open(file) => file,
            Log::WhenNeeded(path) => {
                *self = Log::Open(File::create_new(path)?);
                return self.write_all(bytes);
            }
        };
        file.write_all(bytes)
    }
}

impl From<File> for Log {
    fn from(file: File) -> Log {
        Log::Open(file)
    }
}

/// One stream of the process, and the file that keeps it.
pub(crate) struct OutputPipe {
    pub(crate) stream: Stream,
    pub(crate) pipe: OwnedFd,
    pub(crate) log: Log,
}

/// How much was kept of each stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoggedBytes {
    pub stdout_bytes: u64,
    pub stderr_bytes: u64,
}

/// The output of one process: kept as it comes, then handed to the parser.
pub(crate) struct Output<'scope, 'env, W> {
    open: Vec<OutputPipe>,
    parser: Parser<'scope, 'env, W>,
    buffer: Vec<u8>,
    kept: LoggedBytes,
    failure: Option<io::Error>,
}

impl<'scope, 'env, W: Watcher + 'scope> Output<'scope, 'env, W> {
    pub(crate) fn new(channels: [OutputPipe; 2], parser: Parser<'scope, 'env, W>) -> Self {
        let (buffer, kept) = (vec![0; CHUNK], LoggedBytes::default());
        Output { open: channels.into(), parser, buffer, kept, failure: None }
    }

    /// What to poll: the streams that have not reached their end.
    pub(crate) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.open.iter().map(|channel| channel.pipe.as_fd())
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.open.is_empty()
    }

    /// Why the output cannot be kept any more.
    pub(crate) fn failure(&self) -> Option<&io::Error> {
        self.failure.as_ref()
    }

    /// Takes one chunk of each stream that has one. Returns whether there was any.
    pub(crate) fn take(&mut self) -> bool {
        let mut anything = false;
        let mut index = 0;
        while index < self.open.len() {
            match self.take_from(index) {
                Ok(0) => {
                    let channel = self.open.remove(index);
                    self.parser.end(channel.stream);
                    continue;
                }
                Ok(_) => anything = true,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => {
                    // Closed pipes tell the agent that nobody listens any more.
                    self.failure.get_or_insert(error);
                    self.open.clear();
                    return false;
                }
            }
            index += 1;
        }
        anything
    }

    fn take_from(&mut self, index: usize) -> io::Result<usize> {
        let channel = &mut self.open[index];
        let count = loop {
            match rustix::io::read(&channel.pipe, &mut self.buffer[..]) {
                Ok(count) => break count,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        };
        channel.log.write_all(&self.buffer[..count])?;
        match channel.stream {
            Stream::Stdout => self.kept.stdout_bytes += count as u64,
            Stream::Stderr => self.kept.stderr_bytes += count as u64,
        }
        self.parser.feed(channel.stream, &mut self.buffer, count);
        Ok(count)
    }

    /// Ends it here: hands on what stands after the last line ends, and says how much was kept.
    pub(crate) fn finish(self) -> (W, io::Result<LoggedBytes>) {
        let watcher = self.parser.finish();
        (watcher, self.failure.map_or(Ok(self.kept), Err))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lines_of(pieces: &[&[u8]]) -> Vec<Vec<u8>> {
        let (mut lines, mut seen) = (Lines::default(), Vec::new());
        for piece in pieces {
            lines.feed(piece, |line| seen.push(line.to_vec()));
        }
        lines.finish(|line| seen.push(line.to_vec()));
        seen
    }

    proptest! {
        #[test]
        fn lines_do_not_depend_on_how_the_bytes_were_cut(
            bytes in prop::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), any::<u8>()], 0..400),
            cuts in prop::collection::vec(0usize..400, 0..20),
        ) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.sort_unstable();
            let mut pieces = Vec::new();
            let mut from = 0;
            for cut in cuts {
                pieces.push(&bytes[from..cut]);
                from = cut;
            }
            pieces.push(&bytes[from..]);
            let mut expected: Vec<Vec<u8>> =
                bytes.split(|byte| *byte == b'\n').map(|line| without_return(line).to_vec()).collect();
            // What follows the last line end is a line only if there is something.
            if bytes.is_empty() || bytes.ends_with(b"\n") {
                expected.pop();
            }
            prop_assert_eq!(lines_of(&pieces), expected);
        }
    }

    #[test]
    fn a_line_over_the_cap_is_handed_on_as_its_beginning_and_the_next_one_whole() {
        let long = vec![b'x'; LINE_CAP + 10];
        let seen = lines_of(&[&long[..1000], &long[1000..], b"tail\nnext\n"]);
        assert_eq!(seen.len(), 2);
        assert_eq!(seen[0].len(), LINE_CAP);
        assert_eq!(seen[1], b"next");
    }
}
