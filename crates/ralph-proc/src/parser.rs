//! Splits a process's output into lines and passes them to the watcher, on the supervising thread.
//!
//! Starting a thread costs more than most runs' output. Only in a flood is the rest split and read on a separate
//! thread, in parallel with logging it. Either way every line is read in order by one watcher.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{Builder, Scope, ScopedJoinHandle};

use crate::output::{CHUNK, Lines, Stream, Watcher};

/// How much output is read before a thread is worth its cost.
const FLOOD: usize = 8 << 20;

/// The queue length to the thread; when it is full, logging waits.
const UNDER_WAY: usize = 6;

/// See the module.
pub(crate) struct Parser<'scope, 'env, W> {
    scope: &'scope Scope<'scope, 'env>,
    at: At<'scope, W>,
    read: usize,
}

enum At<'scope, W> {
    Here(Cutter<W>),
    There(Conveyor, ScopedJoinHandle<'scope, Cutter<W>>),
}

/// The watcher and the unterminated line of each stream.
struct Cutter<W> {
    watcher: W,
    stdout: Lines,
    stderr: Lines,
}

/// The supervising thread's end of the queue: chunks go out, empty buffers come back.
struct Conveyor {
    parcels: SyncSender<Parcel>,
    empties: Receiver<Vec<u8>>,
}

/// The next task of the other thread.
enum Parcel {
    /// Read the first `count` bytes of a stream's buffer.
    Chunk {
        stream: Stream,
        buffer: Vec<u8>,
        count: usize,
    },
    End(Stream),
    Flush,
}

impl<'scope, 'env, W: Watcher + 'scope> Parser<'scope, 'env, W> {
    pub(crate) fn new(scope: &'scope Scope<'scope, 'env>, watcher: W) -> Self {
        let (stdout, stderr) = (Lines::default(), Lines::default());
        Parser { scope, at: At::Here(Cutter { watcher, stdout, stderr }), read: 0 }
    }

    /// Passes the first `count` bytes of a buffer on. The buffer may be exchanged for another of its size.
    pub(crate) fn feed(&mut self, stream: Stream, buffer: &mut Vec<u8>, count: usize) {
        self.read = self.read.saturating_add(count);
        match &mut self.at {
            At::Here(cutter) => {
                cutter.feed(stream, &buffer[..count]);
                if self.read > FLOOD {
                    self.move_there();
                }
            }
            At::There(conveyor, _) => {
                let empty = conveyor.empties.try_recv().unwrap_or_else(|_| vec![0; CHUNK]);
                let buffer = std::mem::replace(buffer, empty);
                // If the thread is gone it has panicked: the join reports it, and the log must be complete anyway.
                let _ = conveyor.parcels.send(Parcel::Chunk { stream, buffer, count });
            }
        }
    }

    /// Flushes the watcher.
    pub(crate) fn flush(&mut self) {
        match &mut self.at {
            At::Here(cutter) => cutter.watcher.flush(),
            At::There(conveyor, _) => {
                let _ = conveyor.parcels.send(Parcel::Flush);
            }
        }
    }

    /// A stream has ended.
    pub(crate) fn end(&mut self, stream: Stream) {
        match &mut self.at {
            At::Here(cutter) => cutter.end(stream),
            At::There(conveyor, _) => {
                let _ = conveyor.parcels.send(Parcel::End(stream));
            }
        }
    }

    /// Processes the rest and returns the watcher.
    pub(crate) fn finish(self) -> W {
        let mut cutter = match self.at {
            At::Here(cutter) => cutter,
            At::There(conveyor, thread) => {
                drop(conveyor);
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            }
        };
        cutter.end(Stream::Stdout);
        cutter.end(Stream::Stderr);
        cutter.watcher
    }

    fn move_there(&mut self) {
        let (parcel_in, parcel_out) = sync_channel::<Parcel>(UNDER_WAY);
        let (empty_in, empty_out) = channel();
        // The watcher is moved only once there is a thread: if none can be started, it must not be lost.
        let (cutter_in, cutter_out) = sync_channel::<Cutter<W>>(1);
        let thread = Builder::new().spawn_scoped(self.scope, move || {
            let mut cutter = cutter_out.recv().expect("the cutter follows the thread");
            cutter.follow(&parcel_out, &empty_in);
            cutter
        });
        let Ok(thread) = thread else {
            self.read = 0;
            return;
        };
        let conveyor = Conveyor { parcels: parcel_in, empties: empty_out };
        if let At::Here(cutter) = std::mem::replace(&mut self.at, At::There(conveyor, thread)) {
            cutter_in.send(cutter).expect("the thread waits for its cutter");
        }
    }
}

impl<W: Watcher> Cutter<W> {
    fn feed(&mut self, stream: Stream, bytes: &[u8]) {
        let Cutter { watcher, stdout, stderr } = self;
        let lines = if stream == Stream::Stdout { stdout } else { stderr };
        lines.feed(bytes, |line| watcher.line(stream, line));
    }

    fn end(&mut self, stream: Stream) {
        let Cutter { watcher, stdout, stderr } = self;
        let lines = if stream == Stream::Stdout { stdout } else { stderr };
        lines.finish(|line| watcher.line(stream, line));
    }

    fn follow(&mut self, parcels: &Receiver<Parcel>, empties: &Sender<Vec<u8>>) {
        for parcel in parcels {
            match parcel {
                Parcel::Chunk { stream, buffer, count } => {
                    self.feed(stream, &buffer[..count]);
                    let _ = empties.send(buffer);
                }
                Parcel::End(stream) => self.end(stream),
                Parcel::Flush => self.watcher.flush(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Counting {
        lines: usize,
        bytes: usize,
        last: (Stream, Vec<u8>),
        threads: Vec<std::thread::ThreadId>,
    }

    impl Watcher for Counting {
        fn line(&mut self, stream: Stream, line: &[u8]) {
            self.lines += 1;
            self.bytes += line.len() + 1;
            self.last = (stream, line.to_vec());
            let thread = std::thread::current().id();
            if self.threads.last() != Some(&thread) {
                self.threads.push(thread);
            }
        }
    }

    /// Feeds numbered lines in chunks with arbitrary boundaries, and unterminated ends of both streams.
    fn read(lines: usize) -> Counting {
        let text: Vec<u8> =
            (0..lines).flat_map(|line| format!("line {line}\n").into_bytes()).collect();
        let last = (Stream::Stdout, Vec::new());
        let watcher = Counting { lines: 0, bytes: 0, last, threads: Vec::new() };
        std::thread::scope(|scope| {
            let mut parser = Parser::new(scope, watcher);
            let mut buffer = vec![0; CHUNK];
            for chunk in text.chunks(CHUNK - 7).chain([&b"cut short"[..]]) {
                buffer[..chunk.len()].copy_from_slice(chunk);
                parser.feed(Stream::Stdout, &mut buffer, chunk.len());
                assert_eq!(buffer.len(), CHUNK);
            }
            parser.end(Stream::Stdout);
            buffer[..4].copy_from_slice(b"last");
            parser.feed(Stream::Stderr, &mut buffer, 4);
            parser.finish()
        })
    }

    #[test]
    fn what_little_is_printed_is_read_on_the_thread_that_supervises() {
        let seen = read(1000);
        assert_eq!((seen.lines, seen.last), (1002, (Stream::Stderr, b"last".to_vec())));
        assert_eq!(seen.threads, [std::thread::current().id()]);
    }

    #[test]
    fn every_line_of_a_flood_is_read_once_and_in_order_on_another_thread() {
        let lines = 2 * FLOOD / "line 100000\n".len();
        let seen = read(lines);
        let written: usize = (0..lines).map(|line| format!("line {line}\n").len()).sum();
        assert_eq!((seen.lines, seen.bytes), (lines + 2, written + "cut short\nlast\n".len()));
        assert_eq!(seen.last, (Stream::Stderr, b"last".to_vec()));
        // Here, on the other thread, and finally here again for the rest.
        assert_eq!(seen.threads.len(), 3, "{:?}", seen.threads);
    }
}
