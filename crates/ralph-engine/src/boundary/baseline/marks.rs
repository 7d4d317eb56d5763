//! Marks on files that were recorded, by which the kernel tells whether anything happened to them since.
//!
//! Where thousands of files lie in a watched directory, looking at each of them twice a run costs more than the run. A mark
//! (inotify) is on the file itself and not on its name: a write through another name, through a map of its memory or by
//! another program raises an event, and so do a new hard link and a change of permissions. Directories are marked as well,
//! for entries that are created or removed.
//!
//! A mark only ever says that something *may* have happened; then everything is looked at, as it is where there can be no
//! marks, where the event queue overflowed, and after a crash.

use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::fs::{AtFlags, CWD, statat, statfs};

/// How many files a directory has at least that is marked: fewer are looked at in no time.
const WORTHWHILE: usize = 1000;

/// File systems whose every change goes through this kernel and to the file that was marked: ext2 to ext4, XFS, Btrfs,
/// tmpfs, F2FS. Not overlayfs, where the first write to a file makes another of it.
const RELIABLE: [u64; 5] = [0xEF53, 0x5846_5342, 0x9123_683E, 0x0102_1994, 0xF2F5_2010];

/// What has been marked below one directory.
#[derive(Debug)]
struct MarkedRoot {
    path: PathBuf,
    /// Which directory it is: another can be put in its place, or in that of one above it.
    identity: (u64, u64),
    /// Nothing has happened since it was found as it was recorded.
    is_quiet: bool,
}

/// The marks of one baseline.
#[derive(Debug, Default)]
pub(super) struct Marks {
    inotify: Option<OwnedFd>,
    roots: Vec<MarkedRoot>,
    /// Which root a mark belongs to.
    owners: HashMap<i32, usize>,
    /// There can be no marks here.
    is_refused: bool,
}

impl Marks {
    /// Tells whether marking that many files is worth it, and possible as far as is known.
    pub(super) fn are_worthwhile(&self, files: usize) -> bool {
        !self.is_refused && files >= WORTHWHILE
    }

    /// Tells whether nothing has happened below a directory since it was found as it was recorded.
    pub(super) fn is_quiet(&mut self, root: &Path) -> bool {
        if self.roots.is_empty() {
            return false;
        }
        self.listen();
        let marked = self.roots.iter().find(|marked| marked.path == root);
        marked.is_some_and(|marked| marked.is_quiet && identity(root) == Some(marked.identity))
    }

    /// Marks a directory and paths below it. They count once [`Marks::found_unchanged`] says that they are, by a look after
    /// this, as they were recorded.
    pub(super) fn put(&mut self, root: &Path, below: &[PathBuf]) {
        let index = self.roots.iter().position(|marked| marked.path == root);
        let index = index.unwrap_or(self.roots.len());
        let Some(identity) = identity(root).filter(|_| is_reliable(root)) else { return };
        let marked = MarkedRoot { path: root.to_owned(), identity, is_quiet: false };
        if index < self.roots.len() {
            self.roots[index] = marked;
        } else {
            self.roots.push(marked);
        }
        if self.try_put(index, root, below).is_none() {
            *self = Marks { is_refused: true, ..Marks::default() };
        }
    }

    fn try_put(&mut self, index: usize, root: &Path, below: &[PathBuf]) -> Option<()> {
        // The person's other programs need some, too.
        if self.owners.len() + below.len() > allowance() / 2 {
            return None;
        }
        if self.inotify.is_none() {
            self.inotify = Some(inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?);
        }
        let inotify = self.inotify.as_ref().expect("it was made above");
        let what = WatchFlags::MODIFY
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::ATTRIB
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::DONT_FOLLOW;
        for path in std::iter::once(root).chain(below.iter().map(PathBuf::as_path)) {
            let mark = inotify::add_watch(inotify, path, what).ok()?;
            // One file in two directories would be told of one of them only.
            if *self.owners.entry(mark).or_insert(index) != index {
                return None;
            }
        }
        Some(())
    }

    /// Notes that a directory was looked through after it was marked, and was as it had been recorded.
    pub(super) fn found_unchanged(&mut self, root: &Path) {
        if let Some(marked) = self.roots.iter_mut().find(|marked| marked.path == root) {
            marked.is_quiet = true;
        }
        // What happened since the look counts.
        self.listen();
    }

    /// Takes what the kernel tells.
    fn listen(&mut self) {
        let Marks { inotify: Some(inotify), roots, owners, .. } = self else { return };
        let mut buffer = [const { MaybeUninit::uninit() }; 8192];
        let mut reader = Reader::new(inotify, &mut buffer);
        loop {
            match reader.next() {
                Ok(event) => {
                    // The event queue overflowed, or the watch descriptor is unknown.
                    match owners.get(&event.wd()) {
                        Some(index) => roots[*index].is_quiet = false,
                        None => stir(roots),
                    }
                    if event.events().contains(ReadFlags::IGNORED) {
                        owners.remove(&event.wd());
                    }
                }
                Err(rustix::io::Errno::AGAIN) => return,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => {
                    stir(roots);
                    return;
                }
            }
        }
    }
}

/// Notes that something may have happened anywhere.
fn stir(roots: &mut [MarkedRoot]) {
    for root in roots {
        root.is_quiet = false;
    }
}

/// Returns which directory a path leads to.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let found = statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    Some((found.st_dev, found.st_ino))
}

fn is_reliable(root: &Path) -> bool {
    let kind = statfs(root).ok().and_then(|found| u64::try_from(found.f_type).ok());
    kind.is_some_and(|kind| RELIABLE.contains(&kind))
}

/// Returns how many marks all programs of the person may have.
fn allowance() -> usize {
    let text = std::fs::read_to_string("/proc/sys/fs/inotify/max_user_watches");
    text.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
#[path = "marks_tests.rs"]
mod tests;
