//! Names the files below a directory that may have changed since the last check, so that a large tree need not be
//! scanned repeatedly. Based on inotify; without it, everything counts as changed.
//!
//! This covers ordinary changes by people. It is not a defence: a file with a second link elsewhere can be written
//! through that link without a notification here.

pub(crate) use imp::TreeWatch;

#[cfg(target_os = "linux")]
mod imp {
    use std::collections::{BTreeSet, HashMap};
    use std::ffi::OsStr;
    use std::mem::MaybeUninit;
    use std::os::fd::OwnedFd;
    use std::os::unix::ffi::OsStrExt;
    use std::path::PathBuf;

    use camino::{Utf8Path, Utf8PathBuf};
    use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
    use rustix::fs::statfs;

    use crate::files::disk::{FileKind, list};

    /// The maximum number of watched directories: the person's other programs need some, too.
    const MOST_DIRECTORIES: usize = 500;

    /// File systems whose every change goes through this kernel: ext2 to ext4, XFS, Btrfs, tmpfs, overlayfs, F2FS, ZFS.
    const LOCAL: [u64; 7] =
        [0xEF53, 0x5846_5342, 0x9123_683E, 0x0102_1994, 0x794C_7630, 0xF2F5_2010, 0x2FC1_2FC1];

    /// A watch over a directory and everything below it.
    #[derive(Debug)]
    pub(crate) struct TreeWatch {
        inotify: OwnedFd,
        /// The watched directories, relative to the root.
        directories: HashMap<i32, Utf8PathBuf>,
        /// Ignored names, each in the directory of a watch.
        ignored: Vec<(i32, &'static str)>,
    }

    impl TreeWatch {
        /// Watches a tree except for the ignored paths, relative to its root. `None` if the watch would not be
        /// reliable.
        pub(crate) fn over(root: &Utf8Path, ignored: &'static [&'static str]) -> Option<TreeWatch> {
            let kind = statfs(root.as_std_path()).ok()?.f_type;
            if !LOCAL.contains(&u64::try_from(kind).ok()?) {
                return None;
            }
            let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?;
            let what = WatchFlags::MODIFY
                | WatchFlags::CLOSE_WRITE
                | WatchFlags::ATTRIB
                | WatchFlags::CREATE
                | WatchFlags::DELETE
                | WatchFlags::MOVED_FROM
                | WatchFlags::MOVED_TO
                | WatchFlags::DELETE_SELF
                | WatchFlags::MOVE_SELF
                | WatchFlags::ONLYDIR
                | WatchFlags::DONT_FOLLOW;
            let add = |path: &Utf8Path| inotify::add_watch(&inotify, path.as_std_path(), what).ok();
            let mut open: Vec<Utf8PathBuf> = vec![root.to_owned()];
            let mut directories = HashMap::new();
            let mut names = Vec::new();
            while let Some(directory) = open.pop() {
                // Watch before listing, so that concurrent creations are reported.
                if directories.len() == MOST_DIRECTORIES {
                    return None;
                }
                let watch = add(&directory)?;
                let below = directory.strip_prefix(root).ok()?;
                directories.insert(watch, below.to_owned());
                let here = ignored.iter().filter_map(|path| {
                    let path = Utf8Path::new(path);
                    (path.parent() == Some(below)).then(|| path.file_name()).flatten()
                });
                let here: Vec<&'static str> = here.collect();
                names.extend(here.iter().map(|name| (watch, *name)));
                for entry in list(&directory).ok()? {
                    if entry.kind.ok()? != FileKind::Directory {
                        continue;
                    }
                    let name = entry.name.into_string().ok()?;
                    if !here.contains(&name.as_str()) {
                        open.push(directory.join(name));
                    }
                }
            }
            Some(TreeWatch { inotify, directories, ignored: names })
        }

        /// Returns the files that may have changed since the watch was set up or since the last call, relative to the
        /// root. `None` if that cannot be told by names: a directory has changed, or too much has happened.
        pub(crate) fn changes(&self) -> Option<BTreeSet<PathBuf>> {
            let mut changes = Some(BTreeSet::new());
            let mut buffer = [const { MaybeUninit::uninit() }; 4096];
            let mut reader = Reader::new(&self.inotify, &mut buffer);
            // Events are read to the last, so that each is reported once.
            while let Ok(event) = reader.next() {
                let whole = ReadFlags::QUEUE_OVERFLOW | ReadFlags::ISDIR | ReadFlags::IGNORED;
                let name = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()));
                let is_ignored = |name: &OsStr| {
                    self.ignored
                        .iter()
                        .any(|(watch, ignored)| *watch == event.wd() && name == *ignored)
                };
                if name.is_some_and(is_ignored)
                    && !event.events().contains(ReadFlags::QUEUE_OVERFLOW)
                {
                    continue;
                }
                let directory = self.directories.get(&event.wd());
                match (directory.zip(name), &mut changes) {
                    (Some((directory, name)), Some(known)) if !event.events().intersects(whole) => {
                        known.insert(directory.as_std_path().join(name));
                    }
                    _ => changes = None,
                }
            }
            changes
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod imp {
    use std::collections::BTreeSet;
    use std::path::PathBuf;

    use camino::Utf8Path;

    /// Not supported on this platform.
    #[derive(Debug)]
    pub(crate) enum TreeWatch {}

    impl TreeWatch {
        pub(crate) fn over(_: &Utf8Path, _: &'static [&'static str]) -> Option<TreeWatch> {
            None
        }

        pub(crate) fn changes(&self) -> Option<BTreeSet<PathBuf>> {
            match *self {}
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
#[path = "tree_watch_tests.rs"]
mod tests;
