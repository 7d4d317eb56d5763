//! The signals a person sends: Ctrl-C once and twice, Ctrl-Z, and the terminations of a service manager.
//!
//! Handlers only write a byte into a pipe; whoever waits polls it. There is one set of handlers per process.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGTSTP, SIGXFSZ};
use signal_hook::low_level;

/// What the person wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalRequest {
    /// Ctrl-C, a termination, or the end of the terminal.
    Stop,
    /// Ctrl-Z.
    Suspend,
}

/// Where signals arrive.
#[derive(Debug)]
pub struct SignalPipe {
    stop: UnixStream,
    stop_write: UnixStream,
    suspend: UnixStream,
}

impl SignalPipe {
    /// Takes over the signals of this process.
    pub fn install() -> io::Result<SignalPipe> {
        let (stop, stop_write) = UnixStream::pair()?;
        let (suspend, suspend_write) = UnixStream::pair()?;
        stop.set_nonblocking(true)?;
        suspend.set_nonblocking(true)?;
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            low_level::pipe::register(signal, stop_write.try_clone()?)?;
        }
        low_level::pipe::register(SIGTSTP, suspend_write)?;
        // A file that may not grow is an error to be told, not a reason to die.
        signal_hook::flag::register(SIGXFSZ, std::sync::Arc::default())?;
        Ok(SignalPipe { stop, stop_write, suspend })
    }

    /// What to poll for reading; a wish may then be taken.
    pub fn fds(&self) -> [BorrowedFd<'_>; 2] {
        [self.stop.as_fd(), self.suspend.as_fd()]
    }

    /// Takes one wish that arrived, if any. Stops come first.
    pub fn take(&self) -> Option<SignalRequest> {
        if self.take_stop() {
            return Some(SignalRequest::Stop);
        }
        take_byte(&self.suspend).then_some(SignalRequest::Suspend)
    }

    /// Takes a request to stop that arrived, if there is one.
    pub(crate) fn take_stop(&self) -> bool {
        take_byte(&self.stop)
    }

    /// Has a request to stop that was taken count for whoever looks next.
    pub(crate) fn put_back_stop(&self) {
        // If the pipe is full there are others.
        let _ = rustix::io::write(&self.stop_write, &[0]);
    }

    /// Waits for a wish, at most for `timeout`. Ctrl-Z is granted here: the wait goes on when the process does.
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

/// Stops this process as Ctrl-Z would have, and returns when it is continued.
pub(crate) fn suspend_self() -> io::Result<()> {
    low_level::emulate_default_handler(SIGTSTP)
}

/// Has a question asked and waits until something can be read; `false` if the person would rather stop.
pub fn wait_for_input(input: impl AsFd, ask: impl FnOnce()) -> io::Result<bool> {
    let (stop, stop_write) = UnixStream::pair()?;
    stop.set_nonblocking(true)?;
    let mut registered = Vec::new();
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        registered.push(low_level::pipe::register(signal, stop_write.try_clone()?)?);
    }
    // A person who sees the question may stop it.
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
