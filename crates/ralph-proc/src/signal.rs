//! The signals a person sends: Ctrl-C once and twice, Ctrl-Z, and the terminations of a service manager.
//!
//! Handlers only write a byte into a pipe, which the waiting code polls. There is one set of handlers per process.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGTSTP, SIGXFSZ};
use signal_hook::low_level;

/// The person's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalRequest {
    /// Ctrl-C, a termination, or the end of the terminal.
    Stop,
    /// Ctrl-Z.
    Suspend,
}

/// Receives signals.
#[derive(Debug)]
pub struct SignalPipe {
    stop: UnixStream,
    stop_write: UnixStream,
    suspend: UnixStream,
}

impl SignalPipe {
    /// Installs the signal handlers of this process.
    pub fn install() -> io::Result<SignalPipe> {
        let (stop, stop_write) = UnixStream::pair()?;
        let (suspend, suspend_write) = UnixStream::pair()?;
        stop.set_nonblocking(true)?;
        suspend.set_nonblocking(true)?;
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            low_level::pipe::register(signal, stop_write.try_clone()?)?;
        }
        low_level::pipe::register(SIGTSTP, suspend_write)?;
        // An exceeded file size limit must be a reportable error, not fatal.
        signal_hook::flag::register(SIGXFSZ, std::sync::Arc::default())?;
        Ok(SignalPipe { stop, stop_write, suspend })
    }

    /// The descriptors to poll for reading; then a request may be available.
    pub fn fds(&self) -> [BorrowedFd<'_>; 2] {
        [self.stop.as_fd(), self.suspend.as_fd()]
    }

    /// Takes one pending request, if any. Stops come first.
    pub fn take(&self) -> Option<SignalRequest> {
        if self.take_stop() {
            return Some(SignalRequest::Stop);
        }
        take_byte(&self.suspend).then_some(SignalRequest::Suspend)
    }

    /// Takes a pending stop request, if there is one.
    pub(crate) fn take_stop(&self) -> bool {
        take_byte(&self.stop)
    }

    /// Puts a consumed stop request back for the next reader.
    pub(crate) fn put_back_stop(&self) {
        // If the pipe is full there are others.
        let _ = rustix::io::write(&self.stop_write, &[0]);
    }

    /// Waits for a request, at most `timeout`. Ctrl-Z is handled here: the wait continues when the process does.
    pub fn wait(&self, timeout: Duration) -> Option<SignalRequest> {
        let mut polled = self.fds().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        let _ = poll(&mut polled, Timespec::try_from(timeout).ok().as_ref());
        let wish = self.take()?;
        if wish == SignalRequest::Suspend {
            let _ = suspend_self();
        }
        Some(wish)
    }
}

/// Stops this process like Ctrl-Z, and returns when it is continued.
pub(crate) fn suspend_self() -> io::Result<()> {
    low_level::emulate_default_handler(SIGTSTP)
}

/// Asks a question and waits for input; `false` if the person stops.
pub fn wait_for_input(input: impl AsFd, ask: impl FnOnce()) -> io::Result<bool> {
    let (stop, stop_write) = UnixStream::pair()?;
    stop.set_nonblocking(true)?;
    let mut registered = Vec::new();
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        registered.push(low_level::pipe::register(signal, stop_write.try_clone()?)?);
    }
    // Once the question is shown, the person may stop it.
    ask();
    let waited = loop {
        let mut polled =
            [input.as_fd(), stop.as_fd()].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        match poll(&mut polled, None) {
            Err(Errno::INTR) => {}
            other => break other,
        }
    };
    for id in registered {
        low_level::unregister(id);
    }
    waited?;
    Ok(!take_byte(&stop))
}

fn take_byte(mut stream: &UnixStream) -> bool {
    let mut byte = [0];
    matches!(stream.read(&mut byte), Ok(1))
}
