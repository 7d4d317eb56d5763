//! The time at which the last process of a run had ended, as recorded by its guard: later changes are not the run's.
//!
//! The time is the note's own ctime. The kernel takes it from the same clock as for all files, and it cannot be set
//! back. The note is overwritten by each run, and covers one run only.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::host;
use crate::tree::ProcessIdentity;

/// Where a guard records the end of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndNote {
    pub path: String,
    /// The id of the run.
    pub run: String,
}

/// A time of the clock used for file times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FileTime {
    pub seconds: i64,
    nanoseconds: i64,
}

impl EndNote {
    /// Records the end. Must be called when no process of the run is left.
    pub(crate) fn write(&self) -> io::Result<()> {
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&self.path)?;
        file.write_all_at(format!("{}\n", self.run).as_bytes(), 0)
    }

    /// Returns when the run ended; `None` if that was not recorded.
    pub fn read(&self) -> Option<FileTime> {
        let text = fs::read_to_string(&self.path).ok()?;
        let is_of_run = text.lines().next() == Some(self.run.as_str());
        is_of_run.then(|| FileTime::of(Path::new(&self.path)).ok())?
    }
}

impl FileTime {
    /// The ctime of a path; symlinks are not followed.
    fn of(path: &Path) -> io::Result<FileTime> {
        let found = fs::symlink_metadata(path)?;
        Ok(FileTime { seconds: found.ctime(), nanoseconds: found.ctime_nsec() })
    }

    /// Returns the boot time of the machine, if that was after a process had started: the process and all its
    /// descendants ended with the reboot.
    pub fn of_boot_after(process: &ProcessIdentity) -> Option<FileTime> {
        if process.boot == host::boot_id() {
            return None;
        }
        Some(FileTime { seconds: host::boot_time()?, nanoseconds: 0 })
    }

    /// Whether a path was changed later. For a missing path the directory's time is used, which may have another cause:
    /// then it is unknown, and the answer is yes.
    pub fn is_before_change_of(self, path: &Path) -> bool {
        for path in path.ancestors() {
            match FileTime::of(path) {
                Ok(changed) => return changed > self,
                Err(error) if is_missing(&error) => {}
                Err(_) => return false,
            }
        }
        false
    }
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits until a change gets a later time than the last one.
    fn wait_for_a_tick(path: &Path, since: FileTime) {
        while FileTime::of(path).unwrap() <= since {
            fs::write(path, "tick").unwrap();
        }
    }

    #[test]
    fn a_note_tells_what_came_before_it_from_what_came_later() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        for name in ["before", "edited", "deleted"] {
            fs::write(at(name), "1").unwrap();
        }
        fs::create_dir(at("below")).unwrap();
        fs::write(at("below/deleted"), "1").unwrap();
        let note = EndNote { path: at("note").to_str().unwrap().into(), run: "one".into() };
        assert_eq!(note.read(), None);
        note.write().unwrap();
        let moment = note.read().unwrap();
        assert_eq!(EndNote { run: "two".into(), ..note.clone() }.read(), None);
        assert!(!moment.is_before_change_of(&at("before")));
        assert!(!moment.is_before_change_of(&at("below/never")));
        wait_for_a_tick(&at("edited"), moment);
        fs::remove_file(at("below/deleted")).unwrap();
        fs::write(at("new"), "1").unwrap();
        for name in ["edited", "new", "below/deleted"] {
            assert!(moment.is_before_change_of(&at(name)), "{name}");
        }
        assert!(!moment.is_before_change_of(&at("before")));
        // Another run overwrites it.
        EndNote { run: "three".into(), ..note.clone() }.write().unwrap();
        assert_eq!(note.read(), None);
    }
}
