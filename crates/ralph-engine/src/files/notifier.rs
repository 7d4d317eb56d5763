//! Kernel notifications of a directory. Nothing depends on them: without them the caller polls.

pub(crate) use imp::Notifier;

/// The kinds of notifications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interest {
    /// Files moved into the directory.
    Arrivals,
    /// Files of the directory that are created, written or renamed.
    Changes,
}

/// The events since the last call.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct News {
    /// The names of files moved into the directory, in order.
    pub(crate) names: Vec<String>,
    /// There may be more than these names.
    pub(crate) incomplete: bool,
    /// The directory itself was moved or removed.
    pub(crate) uprooted: bool,
}

#[cfg(target_os = "linux")]
mod imp {
    use std::mem::MaybeUninit;
    use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

    use camino::Utf8Path;
    use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};

    use super::{Interest, News};

    /// A kernel notification handle.
    #[derive(Debug)]
    pub(crate) struct Notifier {
        inotify: OwnedFd,
    }

    impl Notifier {
        /// `None` if the user's limit of instances is reached.
        pub(crate) fn of(directory: &Utf8Path, interest: Interest) -> Option<Notifier> {
            let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?;
            let what = match interest {
                Interest::Arrivals => WatchFlags::MOVED_TO | WatchFlags::DONT_FOLLOW,
                Interest::Changes => WatchFlags::MOVED_TO | WatchFlags::CREATE | WatchFlags::MODIFY,
            };
            let itself = WatchFlags::MOVE_SELF | WatchFlags::DELETE_SELF | WatchFlags::ONLYDIR;
            inotify::add_watch(&inotify, directory.as_std_path(), what | itself).ok()?;
            Some(Notifier { inotify })
        }

        /// Returns pending events, without waiting.
        pub(crate) fn news(&self) -> News {
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
mod imp {
    use std::os::fd::{AsFd, BorrowedFd};

    use camino::Utf8Path;

    use super::{Interest, News};

    /// Not supported on this platform.
    #[derive(Debug)]
    pub(crate) enum Notifier {}

    impl Notifier {
        pub(crate) fn of(_: &Utf8Path, _: Interest) -> Option<Notifier> {
            None
        }

        pub(crate) fn news(&self) -> News {
            match *self {}
        }
    }

    impl AsFd for Notifier {
        fn as_fd(&self) -> BorrowedFd<'_> {
            match *self {}
        }
    }
}
