//! The connection from the output's watcher to the supervisor: progress, a busy tool, stop.
//!
//! It is written for every event of a flood, so it is a few atomics; the supervisor is woken only for urgent news.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How the watcher reports progress to the supervisor, or requests a stop.
#[derive(Clone, Debug)]
pub struct Pulse {
    inner: Arc<PulseInner>,
}

#[derive(Debug)]
struct PulseInner {
    started: Instant,
    last_progress_ms: AtomicU64,
    busy: AtomicBool,
    stop: AtomicBool,
    wake: UnixStream,
    wake_read: UnixStream,
}

impl Pulse {
    pub fn new() -> io::Result<Pulse> {
        let (wake, wake_read) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        wake_read.set_nonblocking(true)?;
        Ok(Pulse {
            inner: Arc::new(PulseInner {
                started: Instant::now(),
                last_progress_ms: AtomicU64::new(0),
                busy: AtomicBool::new(false),
                stop: AtomicBool::new(false),
                wake,
                wake_read,
            }),
        })
    }

    /// The time since the start: reading a clock is expensive, so callers read it once and pass it on.
    pub fn elapsed(&self) -> Duration {
        self.inner.started.elapsed()
    }

    /// There was progress at `at`.
    pub fn progress(&self, at: Duration) {
        let at = u64::try_from(at.as_millis()).unwrap_or(u64::MAX);
        self.inner.last_progress_ms.store(at, Ordering::Relaxed);
    }

    /// Whether a tool is running, so that silence means nothing.
    pub fn set_busy(&self, busy: bool) {
        if self.inner.busy.swap(busy, Ordering::Relaxed) != busy {
            self.wake();
        }
    }

    /// This run can only fail: end it.
    pub fn request_stop(&self) {
        self.inner.stop.store(true, Ordering::Relaxed);
        self.wake();
    }

    pub(crate) fn wake(&self) {
        let _ = (&self.inner.wake).write(&[1]);
    }

    pub(crate) fn drain(&self) {
        let mut bytes = [0; 64];
        while matches!(io::Read::read(&mut &self.inner.wake_read, &mut bytes), Ok(64)) {}
    }

    /// The descriptor to poll for news of the watcher.
    pub(crate) fn waker(&self) -> BorrowedFd<'_> {
        self.inner.wake_read.as_fd()
    }

    pub(crate) fn last_progress(&self) -> Duration {
        Duration::from_millis(self.inner.last_progress_ms.load(Ordering::Relaxed))
    }

    pub(crate) fn busy(&self) -> bool {
        self.inner.busy.load(Ordering::Relaxed)
    }

    pub(crate) fn stop_requested(&self) -> bool {
        self.inner.stop.load(Ordering::Relaxed)
    }
}
