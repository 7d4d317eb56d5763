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

/// Decides whether an item is wanted, from files of home at a commit.
pub(crate) type Wish = fn(&[Option<Vec<u8>>], &str) -> bool;

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
    pub(crate) wish: Wish,
}

impl WantedItem {
    /// Whether the item is wanted according to the branch; `None` if unknown.
    fn is_wanted(&self) -> Option<bool> {
        let commit = self.git.resolve(&self.branch).ok()??;
        let read = |path: &PathBuf| self.git.file_at(&commit, path).ok();
        let files: Option<Vec<Option<Vec<u8>>>> = self.files.iter().map(read).collect();
        Some((self.wish)(&files?, &self.id))
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
    is_withdrawn: bool,
}

impl<'a> WantedWatch<'a> {
    /// Begins to watch; `None` if the branch does not show the item as wanted to begin with.
    pub(super) fn begin(wanted: &'a WantedItem, clock: &'a dyn Clock) -> Option<WantedWatch<'a>> {
        let stamp = wanted.stamp();
        let (looked, is_withdrawn) = (clock.monotonic(), false);
        wanted.is_wanted()?.then_some(WantedWatch { wanted, clock, stamp, looked, is_withdrawn })
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
            self.is_withdrawn = self.wanted.is_wanted() == Some(false);
        }
        self.is_withdrawn
    }

    pub(super) fn is_withdrawn(&self) -> bool {
        self.is_withdrawn
    }
}
