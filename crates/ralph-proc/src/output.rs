//! What a process prints: kept byte for byte, and cut into lines for whoever reads along.
//!
//! Memory stays flat whatever comes: the log is written before anything is parsed, buffers go round between the reader
//! and the parser, and a line longer than [`LINE_CAP`] is handed on as its beginning.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

/// The longest line a watcher sees whole.
pub const LINE_CAP: usize = 4 << 20;

const CHUNK: usize = 256 << 10;
/// Chunks on their way to the parser; the reader waits when all are.
const CHUNKS_UNDER_WAY: usize = 6;

/// Where a line came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    Stdout,
    Stderr,
}

/// Reads along while a process prints. Runs on a thread of its own.
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

/// One stream of the process, and the file that keeps it.
pub(crate) struct Channel {
    pub(crate) stream: Stream,
    pub(crate) pipe: OwnedFd,
    pub(crate) log: File,
}

/// How much was kept of each stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    pub stdout_bytes: u64,
    pub stderr_bytes: u64,
}

/// Copies the channels into their logs and to the parser until both are at their end.
///
/// When `cancel` becomes readable, what is in the pipes at that moment is still taken, and nothing after it.
pub(crate) fn read_all(
    mut channels: Vec<Channel>,
    cancel: BorrowedFd<'_>,
    parser: &ToParser,
) -> io::Result<Kept> {
    let mut kept = Kept::default();
    let mut cancelled = false;
    while !channels.is_empty() {
        let mut ready = vec![true; channels.len()];
        if !cancelled {
            let mut fds: Vec<PollFd<'_>> = channels
                .iter()
                .map(|channel| PollFd::new(&channel.pipe, PollFlags::IN))
                .chain([PollFd::from_borrowed_fd(cancel, PollFlags::IN)])
                .collect();
            match poll(&mut fds, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            cancelled = fds.last().is_some_and(|fd| !fd.revents().is_empty());
            if !cancelled {
                ready = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
            }
        }
        let mut still_open = Vec::with_capacity(channels.len());
        let mut anything = false;
        for (mut channel, ready) in channels.into_iter().zip(ready) {
            if !ready {
                still_open.push(channel);
                continue;
            }
            let mut buffer =
                parser.empties.try_recv().unwrap_or_else(|_| Vec::with_capacity(CHUNK));
            match fill(&channel.pipe, &mut buffer) {
                Ok(0) => continue,
                Ok(count) => {
                    anything = true;
                    channel.log.write_all(&buffer)?;
                    match channel.stream {
                        Stream::Stdout => kept.stdout_bytes += count as u64,
                        Stream::Stderr => kept.stderr_bytes += count as u64,
                    }
                    // A parser that has gone (it panicked) must not keep the log from being whole.
                    let _ = parser.chunks.send(Chunk { stream: channel.stream, bytes: buffer });
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            still_open.push(channel);
        }
        channels = still_open;
        if cancelled && !anything {
            break;
        }
    }
    Ok(kept)
}

/// Reads once into an empty buffer.
fn fill(pipe: &OwnedFd, buffer: &mut Vec<u8>) -> io::Result<usize> {
    buffer.resize(CHUNK, 0);
    loop {
        match rustix::io::read(pipe.as_fd(), &mut buffer[..]) {
            Ok(count) => {
                buffer.truncate(count);
                return Ok(count);
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Bytes on their way to the parser.
pub(crate) struct Chunk {
    stream: Stream,
    bytes: Vec<u8>,
}

/// The reader's end of the way to the parser: chunks go there, empty buffers come back.
pub(crate) struct ToParser {
    chunks: SyncSender<Chunk>,
    empties: Receiver<Vec<u8>>,
}

/// The parser's end of that way.
pub(crate) struct FromReader {
    chunks: Receiver<Chunk>,
    empties: Sender<Vec<u8>>,
}

pub(crate) fn conveyor() -> (ToParser, FromReader) {
    let (chunk_in, chunk_out) = sync_channel(CHUNKS_UNDER_WAY);
    let (empty_in, empty_out) = channel();
    let to_parser = ToParser { chunks: chunk_in, empties: empty_out };
    (to_parser, FromReader { chunks: chunk_out, empties: empty_in })
}

/// Cuts chunks into lines for the watcher until there are no more.
pub(crate) fn parse_all(reader: &FromReader, watcher: &mut dyn Watcher) {
    let (mut stdout, mut stderr) = (Lines::default(), Lines::default());
    for chunk in &reader.chunks {
        let lines = match chunk.stream {
            Stream::Stdout => &mut stdout,
            Stream::Stderr => &mut stderr,
        };
        lines.feed(&chunk.bytes, |line| watcher.line(chunk.stream, line));
        let _ = reader.empties.send(chunk.bytes);
    }
    stdout.finish(|line| watcher.line(Stream::Stdout, line));
    stderr.finish(|line| watcher.line(Stream::Stderr, line));
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
