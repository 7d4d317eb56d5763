//! Determines whether a run's item is still wanted.
//!
//! A person's decision on an item in progress is a commit on the run's branch. During a run the branch is polled; once
//! it shows that the item is no longer wanted, the run is stopped. The workflow decides what follows, from the state of
//! the branch by then. Only how soon a run ends depends on this.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

use crate::clock::Clock;
use crate::git::Git;

/// The polling interval of the branch.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What a branch tells about an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    Wanted,
    /// A person decided on it: it is done, or deleted.
    Decided,
    /// The branch does not have it: it is not committed there yet, or it was removed.
    Absent,
}

/// Reads the state of an item from files of home at a commit.
pub(crate) type ReadWish = fn(&[Option<Vec<u8>>], &str) -> Wish;

/// An item, and where to find out whether it is wanted.
#[derive(Clone, Debug)]
pub(crate) struct WantedItem {
    /// The person's repository that contains home.
    pub(crate) git: Git,
    /// The full name of the run's branch.
    pub(crate) branch: String,
    /// Files of home, by their paths in commits.
    pub(crate) files: Vec<PathBuf>,
    pub(crate) id: String,
    pub(crate) read: ReadWish,
}

impl WantedItem {
    /// Returns what the branch tells about the item; `None` if it cannot be read.
    fn wish(&self) -> Option<Wish> {
        let commit = self.git.resolve(&self.branch).ok()??;
        let read = |path: &PathBuf| self.git.file_at(&commit, path).ok();
        let files: Option<Vec<Option<Vec<u8>>>> = self.files.iter().map(read).collect();
        Some((self.read)(&files?, &self.id))
    }

    /// Returns a value that changes whenever the branch does.
    fn stamp(&self) -> Vec<Option<(u64, u64, i64, i64)>> {
        let place = &self.git.place().common_dir;
        let names = [self.branch.as_str(), "packed-refs", "reftable/tables.list"];
        let stamp = |name: &str| {
            let found = fs::metadata(place.join(name)).ok()?;
            Some((found.ino(), found.size(), found.mtime(), found.mtime_nsec()))
        };
        names.map(stamp).to_vec()
    }
}

/// Watches an item during its run.
pub(super) struct WantedWatch<'a> {
    wanted: &'a WantedItem,
    clock: &'a dyn Clock,
    stamp: Vec<Option<(u64, u64, i64, i64)>>,
    looked: Duration,
    /// Whether the branch has had the item. What it never had is not removed from it.
    was_there: bool,
    is_withdrawn: bool,
}

impl<'a> WantedWatch<'a> {
    /// Begins to watch; `None` if the branch shows the item as decided to begin with.
    pub(super) fn begin(wanted: &'a WantedItem, clock: &'a dyn Clock) -> Option<WantedWatch<'a>> {
        let (stamp, looked) = (wanted.stamp(), clock.monotonic());
        let was_there = match wanted.wish()? {
            Wish::Wanted => true,
            Wish::Absent => false,
            Wish::Decided => return None,
        };
        Some(WantedWatch { wanted, clock, stamp, looked, was_there, is_withdrawn: false })
    }

    /// Checks the branch if the interval has elapsed and it has moved; returns whether the item is no longer wanted.
    pub(super) fn look(&mut self) -> bool {
        let now = self.clock.monotonic();
        if self.is_withdrawn || now.saturating_sub(self.looked) < LOOK_EVERY {
            return self.is_withdrawn;
        }
        self.looked = now;
        let stamp = self.wanted.stamp();
        if stamp != self.stamp {
            self.stamp = stamp;
            match self.wanted.wish() {
                Some(Wish::Wanted) => self.was_there = true,
                Some(Wish::Decided) => self.is_withdrawn = true,
                Some(Wish::Absent) => self.is_withdrawn = self.was_there,
                None => {}
            }
        }
        self.is_withdrawn
    }

    pub(super) fn is_withdrawn(&self) -> bool {
        self.is_withdrawn
    }
}
