//! Compares files without reading them: one `fstatat` each, by inode data that cannot be forged without a trace.
//!
//! The ctime is decisive: an edit in place that keeps the size and restores the mtime still changes it. Symlinks are
//! inspected, never followed. A directory's ctime changes when a name in it is added, removed or replaced, so a
//! directory with an unchanged ctime need not be listed again.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ralph_proc::listing::Listing;
use rustix::fd::AsFd;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, openat, statat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// What tells one state of a file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stamp {
    pub(super) ino: u64,
    pub(super) size: i64,
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) mtime: (i64, u64),
    pub(super) ctime: (i64, u64),
}

impl Stamp {
    /// Looks at a path; `None` if there is nothing.
    pub(super) fn of(path: &Path) -> Option<Stamp> {
        Stamp::below(CWD, path)
    }

    /// Looks at a path from a directory on.
    pub(super) fn below(directory: impl AsFd, path: &Path) -> Option<Stamp> {
        statat(directory, path, AtFlags::SYMLINK_NOFOLLOW).ok().map(|stat| Stamp::from_stat(&stat))
    }

    fn from_stat(stat: &Stat) -> Stamp {
        let kind = FileType::from_raw_mode(stat.st_mode);
        if kind.is_dir() {
            // What is in a directory is looked at by itself; of the directory only its permissions count.
            let (ino, size, mtime, ctime) = (0, 0, (0, 0), (0, 0));
            let (mode, uid, gid) = (fields::mode(stat), stat.st_uid, stat.st_gid);
            return Stamp { ino, size, mode, uid, gid, mtime, ctime };
        }
        Stamp {
            ino: stat.st_ino,
            size: stat.st_size,
            mode: fields::mode(stat),
            uid: stat.st_uid,
            gid: stat.st_gid,
            mtime: fields::mtime(stat),
            ctime: fields::ctime(stat),
        }
    }

    pub(super) fn kind(&self) -> FileType {
        fields::kind(self.mode)
    }

    pub(super) fn permissions(&self) -> u32 {
        self.mode & 0o7777
    }

    /// Whether the other is the same file with nothing but other permissions.
    pub(super) fn differs_in_permissions_only(&self, other: &Stamp) -> bool {
        let data = |stamp: &Stamp| (stamp.ino, stamp.size, stamp.mtime, stamp.kind());
        data(self) == data(other) && self.ownership() != other.ownership()
    }

    /// Whose it is, and what others may do with it.
    pub(super) fn ownership(&self) -> (u32, u32, u32) {
        (self.mode, self.uid, self.gid)
    }

    /// Whether the other is the same file with nothing but other times.
    pub(super) fn differs_in_times_only(&self, other: &Stamp) -> bool {
        let data = |stamp: &Stamp| (stamp.ino, stamp.size, stamp.ownership());
        data(self) == data(other)
    }
}

/// The fields of what the system tells of a file, whose widths differ.
#[cfg(target_os = "linux")]
mod fields {
    use rustix::fs::{FileType, Stat};

    pub(super) fn mode(stat: &Stat) -> u32 {
        stat.st_mode
    }

    pub(super) fn kind(mode: u32) -> FileType {
        FileType::from_raw_mode(mode)
    }

    pub(super) fn mtime(stat: &Stat) -> (i64, u64) {
        (stat.st_mtime, stat.st_mtime_nsec)
    }

    pub(super) fn ctime(stat: &Stat) -> (i64, u64) {
        (stat.st_ctime, stat.st_ctime_nsec)
    }
}

#[cfg(target_os = "macos")]
mod fields {
    use rustix::fs::{FileType, RawMode, Stat};

    pub(super) fn mode(stat: &Stat) -> u32 {
        stat.st_mode.into()
    }

    pub(super) fn kind(mode: u32) -> FileType {
        RawMode::try_from(mode).map_or(FileType::Unknown, FileType::from_raw_mode)
    }

    pub(super) fn mtime(stat: &Stat) -> (i64, u64) {
        (stat.st_mtime, stat.st_mtime_nsec.cast_unsigned())
    }

    pub(super) fn ctime(stat: &Stat) -> (i64, u64) {
        (stat.st_ctime, stat.st_ctime_nsec.cast_unsigned())
    }
}

/// How long ago, in seconds, a directory must have changed before its listing, so that a later change is sure to have
/// another time: the clocks of file systems tick, in milliseconds or, at the worst, two seconds.
const TICK: i64 = 2;

/// A directory that was listed, as it was before.
#[derive(Clone, Debug)]
pub(super) struct Listed {
    path: PathBuf,
    ino: u64,
    ctime: (i64, u64),
}

impl Listed {
    pub(super) fn of(path: PathBuf, stat: &Stat) -> Listed {
        Listed { path, ino: stat.st_ino, ctime: fields::ctime(stat) }
    }

    /// Whether a change after the listing, which began at `second`, shows in the directory's time.
    pub(super) fn is_settled(&self, second: i64) -> bool {
        self.ctime.0 + TICK < second
    }

    /// Whether it still has the names that were listed, and each is the same file.
    pub(super) fn is_same(&self) -> bool {
        statat(CWD, &self.path, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| (stat.st_ino, fields::ctime(&stat)) == (self.ino, self.ctime))
    }
}

/// Whether a walk goes into a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WalkStep {
    Enter,
    Pass,
}

/// What a walk came through.
#[derive(Debug, Default)]
pub(super) struct WalkFindings {
    /// The directories that it went into.
    pub(super) listed: Vec<Listed>,
    /// Those that it could not look through, in part or at all: what is in them is not known, which is not the same as
    /// nothing.
    pub(super) unread: Vec<PathBuf>,
}

/// Visits everything below a directory: the path, its last part, and what it looks like.
pub(super) fn walk(
    root: &Path,
    visit: &mut dyn FnMut(&Path, &[u8], &Stamp) -> WalkStep,
) -> WalkFindings {
    walk_named(root, &|_| true, visit)
}

/// Visits what is below a directory, as [`walk`] does, where its name is wanted.
pub(super) fn walk_named(
    root: &Path,
    wanted: &dyn Fn(&[u8]) -> bool,
    visit: &mut dyn FnMut(&Path, &[u8], &Stamp) -> WalkStep,
) -> WalkFindings {
    let mut listing = Listing::new();
    let mut walked = WalkFindings::default();
    let stat = statat(CWD, root, AtFlags::SYMLINK_NOFOLLOW);
    let mut open: Vec<Listed> = stat.iter().map(|stat| Listed::of(root.to_owned(), stat)).collect();
    while let Some(mut entered) = open.pop() {
        let path = &mut entered.path;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = match openat(CWD, &*path, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(error) => {
                if !is_gone(error) {
                    walked.unread.push(entered.path);
                }
                continue;
            }
        };
        let mut is_read = true;
        let listed = listing.each(&fd, |name, _| {
            if matches!(name.to_bytes(), b"." | b"..") || !wanted(name.to_bytes()) {
                return;
            }
            let found = match statat(&fd, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(found) => found,
                Err(error) => {
                    is_read &= is_gone(error);
                    return;
                }
            };
            let stamp = Stamp::from_stat(&found);
            path.push(std::ffi::OsStr::from_bytes(name.to_bytes()));
            if visit(path, name.to_bytes(), &stamp) == WalkStep::Enter && stamp.kind().is_dir() {
                open.push(Listed::of(PathBuf::from(path.as_path()), &found));
            }
            path.pop();
        });
        if is_read && listed.is_ok() {
            walked.listed.push(entered);
        } else {
            walked.unread.push(entered.path);
        }
    }
    walked
}

/// Whether an error only says that something has gone meanwhile, or is no directory any more.
pub(super) fn is_gone(error: Errno) -> bool {
    matches!(error, Errno::NOENT | Errno::NOTDIR | Errno::LOOP)
}
