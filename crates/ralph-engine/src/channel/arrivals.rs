//! Waits for files to arrive in a directory: notified by the kernel if possible, otherwise by polling.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use camino::Utf8Path;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::files::notifier::{Interest, News, Notifier};

/// The polling interval without kernel notifications.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Watches one directory.
pub(super) struct Arrivals {
    notifier: Option<Notifier>,
}

impl Arrivals {
    pub(super) fn of(directory: &Utf8Path) -> Arrivals {
        Arrivals { notifier: Notifier::of(directory, Interest::Arrivals) }
    }

    /// Waits until something may have arrived, `stop` is closed or written to, or `patience` has elapsed. Returns
    /// whether it was `stop`.
    pub(super) fn wait(
        &self,
        stop: Option<BorrowedFd<'_>>,
        patience: Option<Duration>,
    ) -> io::Result<bool> {
        let told = self.notifier.as_ref().map(AsFd::as_fd);
        let patience = if told.is_some() {
            patience
        } else {
            Some(patience.map_or(LOOK_EVERY, |patience| patience.min(LOOK_EVERY)))
        };
        let patience = patience.map(|patience| {
            Timespec::try_from(patience).expect("nobody waits for more than a lifetime")
        });
        let mut fds: Vec<PollFd<'_>> = [stop, told]
            .into_iter()
            .flatten()
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        match poll(&mut fds, patience.as_ref()) {
            Ok(_) => Ok(stop.is_some() && !fds[0].revents().is_empty()),
            Err(Errno::INTR) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    /// The descriptor to poll for notifications; `None` without kernel support, where the caller must poll every
    /// [`LOOK_EVERY`].
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.notifier.as_ref().map(AsFd::as_fd)
    }

    /// Returns arrivals without waiting.
    pub(super) fn news(&self) -> News {
        match &self.notifier {
            Some(notifier) => notifier.news(),
            None => News { incomplete: true, ..News::default() },
        }
    }
}

#[cfg(test)]
impl Arrivals {
    /// Creates one that polls, as without kernel support.
    pub(super) const fn that_looks() -> Arrivals {
        Arrivals { notifier: None }
    }
}
