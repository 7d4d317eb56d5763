//! Waiting until something arrives in a directory: notified by the kernel where possible, else by polling.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use camino::Utf8Path;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// How long nothing is looked at where the kernel does not tell.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What became known since the last time.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct News {
    /// What was moved into the directory, in that order.
    pub(super) names: Vec<String>,
    /// There may be more than the names.
    pub(super) incomplete: bool,
    /// The directory itself was moved or removed.
    pub(super) uprooted: bool,
}

/// Watches one directory.
pub(super) struct Arrivals {
    notifier: Option<notifier::Notifier>,
}

impl Arrivals {
    pub(super) fn of(directory: &Utf8Path) -> Arrivals {
        Arrivals { notifier: notifier::Notifier::of(directory) }
    }

    /// Waits until something may have arrived, `stop` is closed or written to, or `patience` is over.
    /// Tells whether it was `stop`.
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

    /// What to poll for news; `None` where the kernel does not tell, and one must look every [`LOOK_EVERY`].
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.notifier.as_ref().map(AsFd::as_fd)
    }

    /// Returns what arrived, without waiting.
    pub(super) fn news(&self) -> News {
        match &self.notifier {
            Some(notifier) => notifier.news(),
            None => News { incomplete: true, ..News::default() },
        }
    }
}

#[cfg(target_os = "linux")]
mod notifier {
    use std::mem::MaybeUninit;
    use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

    use camino::Utf8Path;
    use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};

    use super::News;

    /// The kernel's own messenger.
    pub(super) struct Notifier {
        inotify: OwnedFd,
    }

    impl Notifier {
        /// `None` where the person has too many of them already.
        pub(super) fn of(directory: &Utf8Path) -> Option<Notifier> {
            let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?;
            let what = WatchFlags::MOVED_TO
                | WatchFlags::MOVE_SELF
                | WatchFlags::DELETE_SELF
                | WatchFlags::ONLYDIR
                | WatchFlags::DONT_FOLLOW;
            inotify::add_watch(&inotify, directory.as_std_path(), what).ok()?;
            Some(Notifier { inotify })
        }

        pub(super) fn news(&self) -> News {
            let mut news = News::default();
            let mut buffer = [const { MaybeUninit::uninit() }; 4096];
            let mut reader = Reader::new(&self.inotify, &mut buffer);
            while let Ok(event) = reader.next() {
                let what = event.events();
                news.incomplete |= what.contains(ReadFlags::QUEUE_OVERFLOW);
                news.uprooted |= what.intersects(ReadFlags::MOVE_SELF | ReadFlags::DELETE_SELF);
                if what.contains(ReadFlags::MOVED_TO) {
                    let name = event.file_name().map(|name| name.to_string_lossy().into_owned());
                    news.names.extend(name);
                }
            }
            news
        }
    }

    impl AsFd for Notifier {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.inotify.as_fd()
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod notifier {
    use std::os::fd::{AsFd, BorrowedFd};

    use camino::Utf8Path;

    use super::News;

    /// There is none here.
    pub(super) enum Notifier {}

    impl Notifier {
        pub(super) fn of(_: &Utf8Path) -> Option<Notifier> {
            None
        }

        pub(super) fn news(&self) -> News {
            match *self {}
        }
    }

    impl AsFd for Notifier {
        fn as_fd(&self) -> BorrowedFd<'_> {
            match *self {}
        }
    }
}

#[cfg(test)]
impl Arrivals {
    /// One that looks again and again, as where the kernel does not tell.
    pub(super) const fn that_looks() -> Arrivals {
        Arrivals { notifier: None }
    }
}
