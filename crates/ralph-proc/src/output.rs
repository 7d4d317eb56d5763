//! The output of a process: kept byte for byte up to a limit, and split into lines for the watcher.
//!
//! Of an output larger than its limit the beginning and the end are kept, with a line between them that says how much
//! was omitted. Memory use is constant: the log is written before anything is parsed, there are a few buffers, and a
//! line longer than [`LINE_CAP`] is passed on truncated. Splitting and parsing happen where the bytes arrive: see
//! [`crate::parser`] for floods.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::host;
use crate::parser::Parser;

/// The longest line that a watcher sees in full.
pub(crate) const LINE_CAP: usize = 4 << 20;

pub(crate) const CHUNK: usize = 256 << 10;

/// The default size of pipes, unless the user's quota is exceeded.
const DEFAULT_PIPE: usize = 64 << 10;

/// Larger pipes mean fewer context switches between agent and harness. Only a stream that fills its pipe gets one: all
/// pipes of a user share a quota, and exceeding it gives every program smaller ones.
const FLOOD_PIPE: usize = 1 << 20;

/// The minimum interval of flushes, and so the maximum delay of a watcher's results.
const FLUSH_EVERY: Duration = Duration::from_millis(50);

/// The maximum kept end of an output that is larger than its limit.
const TAIL: u64 = 4 << 20;

/// The origin of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    Stdout,
    Stderr,
}

/// Observes the output of a process, on the supervising thread or, in a flood, on a separate one.
pub trait Watcher: Send {
    /// A line without its line end, truncated to [`LINE_CAP`].
    fn line(&mut self, stream: Stream, line: &[u8]);

    /// Makes the results so far visible to others. Called soon after a line, whether or not another one comes. An
    /// implementation without a buffer has nothing to do.
    fn flush(&mut self) {}
}

/// Splits bytes into lines.
#[derive(Debug, Default)]
pub struct Lines {
    begun: Vec<u8>,
    overlong: bool,
}

impl Lines {
    /// Processes the next bytes and passes on every complete line.
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

    /// Passes on the text after the last line end.
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

/// The log file of a stream.
#[derive(Debug)]
pub enum Log {
    Open(File),
    /// Created on the first write: most agents print nothing on stderr.
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

/// A log that keeps the beginning and the end of an output beyond its limit.
#[derive(Debug)]
pub(crate) struct CappedLog {
    log: Log,
    /// How much more of the beginning is kept.
    room: u64,
    /// The last bytes beyond the beginning, at most `most_tail`.
    tail: VecDeque<u8>,
    most_tail: usize,
    left_out: u64,
}

impl CappedLog {
    pub(crate) fn new(log: Log, cap: u64) -> CappedLog {
        let tail = TAIL.min(cap / 2);
        let most_tail = usize::try_from(tail).unwrap_or(usize::MAX);
        CappedLog { log, room: cap - tail, tail: VecDeque::new(), most_tail, left_out: 0 }
    }

    /// Takes bytes and returns how many of them were written to the file.
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<u64> {
        let room = usize::try_from(self.room).unwrap_or(usize::MAX);
        let (head, rest) = bytes.split_at(bytes.len().min(room));
        self.log.write_all(head)?;
        self.room -= head.len() as u64;
        if !rest.is_empty() {
            let kept = &rest[rest.len().saturating_sub(self.most_tail)..];
            let old = (self.tail.len() + kept.len()).saturating_sub(self.most_tail);
            self.tail.drain(..old);
            self.tail.extend(kept);
            self.left_out += (old + rest.len() - kept.len()) as u64;
        }
        Ok(head.len() as u64)
    }

    /// Writes the end of the output to the file, and returns its length.
    fn finish(mut self) -> io::Result<u64> {
        let note = match self.left_out {
            0 => String::new(),
            count => format!("\n[ralph: {count} bytes are left out here, by limits.log]\n"),
        };
        self.log.write_all(note.as_bytes())?;
        self.log.write_all(self.tail.make_contiguous())?;
        Ok((note.len() + self.tail.len()) as u64)
    }
}

/// One stream of the process, and its log file.
pub(crate) struct OutputPipe {
    stream: Stream,
    pipe: OwnedFd,
    log: CappedLog,
    /// Whether a larger pipe was requested.
    is_grown: bool,
}

impl OutputPipe {
    pub(crate) fn new(stream: Stream, pipe: OwnedFd, log: CappedLog) -> OutputPipe {
        OutputPipe { stream, pipe, log, is_grown: false }
    }
}

/// How much of each stream was kept: the sizes of their logs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoggedBytes {
    pub stdout_bytes: u64,
    pub stderr_bytes: u64,
}

impl LoggedBytes {
    fn add(&mut self, stream: Stream, count: u64) {
        match stream {
            Stream::Stdout => self.stdout_bytes += count,
            Stream::Stderr => self.stderr_bytes += count,
        }
    }
}

/// The output of one process: logged as it arrives, then passed to the parser.
pub(crate) struct Output<'scope, 'env, W> {
    open: Vec<OutputPipe>,
    parser: Parser<'scope, 'env, W>,
    buffer: Vec<u8>,
    kept: LoggedBytes,
    failure: Option<io::Error>,
    /// When the watcher was asked to flush last.
    flushed: Option<Instant>,
    /// Whether something was read since.
    is_unflushed: bool,
}

impl<'scope, 'env, W: Watcher + 'scope> Output<'scope, 'env, W> {
    pub(crate) fn new(channels: [OutputPipe; 2], parser: Parser<'scope, 'env, W>) -> Self {
        let (buffer, kept) = (vec![0; CHUNK], LoggedBytes::default());
        let (flushed, is_unflushed) = (None, false);
        Output { open: channels.into(), parser, buffer, kept, failure: None, flushed, is_unflushed }
    }

    /// Returns the time until the next flush is due; `None` where none is needed.
    pub(crate) fn until_flush(&self) -> Option<Duration> {
        let since = self.flushed.map_or(FLUSH_EVERY, |flushed| flushed.elapsed());
        self.is_unflushed.then(|| FLUSH_EVERY.saturating_sub(since))
    }

    /// Flushes the watcher if it is due.
    pub(crate) fn flush_when_due(&mut self) {
        if self.until_flush().is_some_and(|left| left.is_zero()) {
            self.parser.flush();
            self.flushed = Some(Instant::now());
            self.is_unflushed = false;
        }
    }

    /// The descriptors to poll: the streams that have not ended.
    pub(crate) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.open.iter().map(|channel| channel.pipe.as_fd())
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.open.is_empty()
    }

    /// Why the output can no longer be logged.
    pub(crate) fn failure(&self) -> Option<&io::Error> {
        self.failure.as_ref()
    }

    /// Reads one chunk of each readable stream. Returns whether there was any.
    pub(crate) fn take(&mut self) -> bool {
        let mut anything = false;
        let mut index = 0;
        while index < self.open.len() {
            match self.take_from(index) {
                Ok(0) => {
                    let channel = self.open.remove(index);
                    self.parser.end(channel.stream);
                    self.close(channel);
                    continue;
                }
                Ok(_) => anything = true,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => {
                    // Closed pipes tell the agent that its reader is gone.
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
        let written = channel.log.write_all(&self.buffer[..count])?;
        self.kept.add(channel.stream, written);
        if count >= DEFAULT_PIPE && !channel.is_grown {
            channel.is_grown = true;
            // Refused to users with many pipes; then the existing size is used.
            host::grow_pipe(&channel.pipe, FLOOD_PIPE);
        }
        self.parser.feed(channel.stream, &mut self.buffer, count);
        self.is_unflushed |= count > 0;
        Ok(count)
    }

    /// Completes the log of a finished stream.
    fn close(&mut self, channel: OutputPipe) {
        match channel.log.finish() {
            Ok(written) => self.kept.add(channel.stream, written),
            Err(error) => drop(self.failure.get_or_insert(error)),
        }
    }

    /// Ends it here: passes on unterminated lines, and returns how much was kept.
    pub(crate) fn finish(mut self) -> (W, io::Result<LoggedBytes>) {
        for channel in std::mem::take(&mut self.open) {
            self.close(channel);
        }
        let watcher = self.parser.finish();
        (watcher, self.failure.map_or(Ok(self.kept), Err))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::{Arc, Mutex};

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

    fn logged(cap: u64, pieces: &[&[u8]]) -> (Vec<u8>, u64) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut log = CappedLog::new(File::create(&path).unwrap().into(), cap);
        let written: u64 = pieces.iter().map(|piece| log.write_all(piece).unwrap()).sum();
        let written = written + log.finish().unwrap();
        (std::fs::read(path).unwrap(), written)
    }

    #[test]
    fn a_log_beyond_its_limit_has_the_beginning_the_end_and_a_line_between() {
        let (log, written) = logged(8, &[b"abc", b"defgh", b"ij", b"klmnopq"]);
        let expected = "abcd\n[ralph: 9 bytes are left out here, by limits.log]\nnopq";
        assert_eq!(String::from_utf8_lossy(&log), expected);
        assert_eq!(written, expected.len() as u64);
        assert_eq!(logged(8, &[b"abcdefgh"]), (b"abcdefgh".to_vec(), 8));
    }

    struct Nobody;

    impl Watcher for Nobody {
        fn line(&mut self, _: Stream, _: &[u8]) {}
    }

    /// A stream whose log is in a directory, and the end that a process writes to.
    fn channel(dir: &Path, stream: Stream) -> (OutputPipe, OwnedFd) {
        let (ours, theirs) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
        rustix::io::ioctl_fionbio(&ours, true).unwrap();
        let log = CappedLog::new(Log::WhenNeeded(dir.join(format!("{stream:?}"))), u64::MAX);
        (OutputPipe::new(stream, ours, log), theirs)
    }

    /// The number of lines read at each flush.
    struct Flushing {
        lines: usize,
        flushed: Arc<Mutex<Vec<usize>>>,
    }

    impl Watcher for Flushing {
        fn line(&mut self, _: Stream, _: &[u8]) {
            self.lines += 1;
        }

        fn flush(&mut self) {
            self.flushed.lock().unwrap().push(self.lines);
        }
    }

    #[test]
    fn what_was_read_is_flushed_within_a_tenth_of_a_second_though_nothing_more_comes() {
        use rustix::event::{PollFd, PollFlags, poll};
        let dir = tempfile::tempdir().unwrap();
        let (stdout, speaks) = channel(dir.path(), Stream::Stdout);
        let (stderr, _silent) = channel(dir.path(), Stream::Stderr);
        let flushed = Arc::new(Mutex::new(Vec::new()));
        let watcher = Flushing { lines: 0, flushed: Arc::clone(&flushed) };
        std::thread::scope(|scope| {
            let mut output = Output::new([stdout, stderr], Parser::new(scope, watcher));
            let mut agent = File::from(speaks);
            // The first line is flushed at once; one shortly after it by the timer, although the agent is silent from
            // then on.
            for lines in 1..=2 {
                agent.write_all(b"a line\n").unwrap();
                assert!(output.take());
                while flushed.lock().unwrap().last() != Some(&lines) {
                    let left = output.until_flush().expect("something was read");
                    assert!(left <= Duration::from_millis(100), "{left:?}");
                    let timeout = left.try_into().unwrap();
                    let fds = output.fds().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
                    poll(&mut fds.collect::<Vec<_>>(), Some(&timeout)).unwrap();
                    assert!(!output.take(), "nothing more comes");
                    output.flush_when_due();
                }
                assert_eq!(output.until_flush(), None, "nothing is left to be flushed");
            }
            drop(agent);
            output.finish().1.unwrap();
        });
        assert_eq!(*flushed.lock().unwrap(), [1, 2]);
    }

    #[test]
    fn only_a_stream_that_fills_its_pipe_gets_a_larger_one() {
        use rustix::pipe::fcntl_getpipe_size;
        let dir = tempfile::tempdir().unwrap();
        let (stdout, flood) = channel(dir.path(), Stream::Stdout);
        let (stderr, trickle) = channel(dir.path(), Stream::Stderr);
        std::thread::scope(|scope| {
            let mut output = Output::new([stdout, stderr], Parser::new(scope, Nobody));
            let before = fcntl_getpipe_size(&trickle).unwrap();
            File::from(flood.try_clone().unwrap()).write_all(&vec![b'x'; DEFAULT_PIPE]).unwrap();
            File::from(trickle.try_clone().unwrap()).write_all(b"a line\n").unwrap();
            assert!(output.take());
            // Not if the user's pipe quota is exceeded.
            assert!(before < DEFAULT_PIPE || fcntl_getpipe_size(&flood).unwrap() == FLOOD_PIPE);
            assert_eq!(fcntl_getpipe_size(&trickle).unwrap(), before);
            drop((flood, trickle));
            output.take();
            let (_, kept) = output.finish();
            let kept = kept.unwrap();
            assert_eq!((kept.stdout_bytes, kept.stderr_bytes), (DEFAULT_PIPE as u64, 7));
        });
    }

    proptest! {
        #[test]
        fn a_log_keeps_all_that_fits_and_else_both_ends(
            cap in 2_u64..40,
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..30), 0..8),
        ) {
            let all = pieces.concat();
            let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
            let (log, written) = logged(cap, &pieces);
            prop_assert_eq!(log.len() as u64, written);
            if all.len() as u64 <= cap {
                prop_assert_eq!(log, all);
            } else {
                let tail = usize::try_from(cap / 2).unwrap();
                let head = usize::try_from(cap).unwrap() - tail;
                prop_assert!(log.starts_with(&all[..head]));
                prop_assert!(log.ends_with(&all[all.len() - tail..]));
            }
        }

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
            // Text after the last line end is a line only if it is not empty.
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
