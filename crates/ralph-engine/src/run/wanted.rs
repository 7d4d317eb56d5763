//! Whether what a run is for is still wanted.
//!
//! A person's word on an item at work is a commit on the run's branch. While a run goes on, the branch is looked at from
//! time to time; once it says that the item is no longer wanted, the run is stopped. What follows from that is decided
//! by the workflow, from what the branch says by then. Nothing depends on this but how soon a run ends.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

use crate::clock::Clock;
use crate::git::Git;

/// How often the branch is looked at.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What tells whether an item is wanted, from files of home as a commit has them.
pub(crate) type Wish = fn(&[Option<Vec<u8>>], &str) -> bool;

/// An item, and where it is said whether it is wanted.
#[derive(Clone, Debug)]
pub(crate) struct WantedItem {
    /// The person's repository that has home.
    pub(crate) git: Git,
    /// The run's branch, in full.
    pub(crate) branch: String,
    /// Files of home, named as commits do.
    pub(crate) files: Vec<PathBuf>,
    pub(crate) id: String,
    pub(crate) wish: Wish,
}

impl WantedItem {
    /// Tells whether the branch has it that the item is wanted; `None` where that cannot be told.
    fn is_wanted(&self) -> Option<bool> {
        let commit = self.git.resolve(&self.branch).ok()??;
        let read = |path: &PathBuf| self.git.file_at(&commit, path).ok();
        let files: Option<Vec<Option<Vec<u8>>>> = self.files.iter().map(read).collect();
        Some((self.wish)(&files?, &self.id))
    }

    /// Returns what changes whenever the branch does.
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

/// Watches an item while a run for it goes on.
pub(super) struct WantedWatch<'a> {
    wanted: &'a WantedItem,
    clock: &'a dyn Clock,
    stamp: Vec<Option<(u64, u64, i64, i64)>>,
    looked: Duration,
    is_withdrawn: bool,
}

impl<'a> WantedWatch<'a> {
    /// Begins to watch; `None` for an item of which the branch does not say that it is wanted to begin with.
    pub(super) fn begin(wanted: &'a WantedItem, clock: &'a dyn Clock) -> Option<WantedWatch<'a>> {
        let stamp = wanted.stamp();
        let (looked, is_withdrawn) = (clock.monotonic(), false);
        wanted.is_wanted()?.then_some(WantedWatch { wanted, clock, stamp, looked, is_withdrawn })
    }

    /// Looks at the branch if it is time to, and it has moved; tells whether the item is not wanted any more.
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
