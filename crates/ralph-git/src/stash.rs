//! The stash, a list that only the log of its ref holds: `refs/stash` names the newest entry, and lines of
//! `logs/refs/stash` the older ones and all messages. No ref transaction brings these back.
//!
//! The log is written through `refs/stash.lock`, which git takes for every change of the list, and through no link.

use std::fs;
use std::io::Write;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::diverted::{leads_through_link, refuse_diverted};
use super::lock::LockFile;
use super::undo::RefReturn;
use super::{Git, GitError, Oid, RepositoryLocation, regular_file};

const STASH: &str = "refs/stash";
/// Keeps the commits of all entries, which a run can drop and have pruned.
const SAVED: &str = "refs/ralph/saved/stash";
/// How long to wait for another program that changes the list.
const PATIENCE: Duration = Duration::from_secs(10);

/// The entries of a stash, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Stash {
    lines: Vec<StashLine>,
}

/// A line of the log. A message is bytes, and nearly always text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
enum StashLine {
    Text(String),
    Bytes(Vec<u8>),
}

impl StashLine {
    fn of(bytes: &[u8]) -> StashLine {
        match std::str::from_utf8(bytes) {
            Ok(text) => StashLine::Text(text.to_owned()),
            Err(_) => StashLine::Bytes(bytes.to_owned()),
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            StashLine::Text(text) => text.as_bytes(),
            StashLine::Bytes(bytes) => bytes,
        }
    }

    /// The commit of the entry: the second word, after what the ref pointed to before.
    fn id(&self) -> Option<Oid> {
        Oid::parse(self.bytes().split(|byte| *byte == b' ').nth(1)?)
    }

    fn message(&self) -> &[u8] {
        let mut parts = self.bytes().splitn(2, |byte| *byte == b'\t');
        parts.nth(1).unwrap_or_default()
    }

    /// Whether it is the same entry, wherever it is on the list.
    fn is_same(&self, other: &StashLine) -> bool {
        self.id() == other.id() && self.message() == other.message()
    }
}

impl Stash {
    /// Reads the list. One that cannot be read is empty.
    pub fn of(place: &RepositoryLocation) -> Stash {
        let log = place.common_dir.join("logs").join(STASH);
        let log = regular_file::read_regular(log.as_std_path()).ok().flatten().unwrap_or_default();
        let lines = log.split(|byte| *byte == b'\n').map(StashLine::of);
        Stash { lines: lines.filter(|line| line.id().is_some()).collect() }
    }

    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Returns the commits of the entries, oldest first.
    pub fn ids(&self) -> Vec<Oid> {
        self.lines.iter().filter_map(StashLine::id).collect()
    }

    /// Returns the entries that another list does not have.
    #[must_use]
    pub fn without(&self, other: &Stash) -> Stash {
        let is_there = |line: &&StashLine| other.lines.iter().any(|there| there.is_same(line));
        Stash { lines: self.lines.iter().filter(|line| !is_there(line)).cloned().collect() }
    }

    /// Returns the list with newer entries on top.
    #[must_use]
    pub fn below(&self, newer: &Stash) -> Stash {
        Stash { lines: self.lines.iter().chain(&newer.lines).cloned().collect() }
    }
}

impl Git {
    /// Returns the entries of a list whose commits exist.
    pub fn existing(&self, stash: &Stash) -> Result<Stash, GitError> {
        if stash.is_empty() {
            return Ok(Stash::default());
        }
        let there = self.have(&stash.ids())?;
        let lines = stash.lines.iter().zip(there);
        Ok(Stash {
            lines: lines.filter(|(_, there)| *there).map(|(line, _)| line.clone()).collect(),
        })
    }

    /// Keeps all entries under a ref of Ralph's: as parents of one commit, which is replaced when the list has changed.
    pub fn save_stash(&self) -> Result<(), GitError> {
        let stash = self.existing(&Stash::of(self.place()))?;
        let mut ids = stash.ids();
        ids.sort();
        ids.dedup();
        let Some(newest) = stash.ids().pop() else { return Ok(()) };
        if let Some(saved) = self.resolve(SAVED)?
            && self.commit_header(&saved)?.is_some_and(|known| known.parents == ids)
        {
            return Ok(());
        }
        let Some(header) = self.commit_header(&newest)? else { return Ok(()) };
        let parents: Vec<&Oid> = ids.iter().collect();
        self.keep_tree(SAVED, &header.tree, &parents, "The stash before a run").map(drop)
    }

    /// Makes the stash this list. `now` is what its ref points to, and all commits must exist.
    pub fn return_stash(&self, stash: &Stash, now: Option<&Oid>) -> Result<(), GitError> {
        let (newest, name) = (stash.ids().pop(), STASH.to_owned());
        if newest.as_ref() != now {
            self.return_refs(&[RefReturn { name, before: newest, now: now.cloned() }])?;
        }
        let place = self.place();
        place.check()?;
        refuse_diverted(place)?;
        let common = &place.common_dir;
        let log = common.join("logs").join(STASH);
        let lock = common.join(format!("{STASH}.lock"));
        if leads_through_link(common, &log, &["logs/refs"])
            || leads_through_link(common, &lock, &["refs"])
        {
            return Err(GitError::Diverted { link: log });
        }
        let unwritable =
            |source| GitError::Unlockable { path: log.clone().into_std_path_buf(), source };
        let _held = LockFile::take(lock.as_std_path(), PATIENCE)?;
        if let Some(parent) = log.parent() {
            fs::create_dir_all(parent).map_err(unwritable)?;
        }
        let fresh = LockFile::take(log.with_extension("lock").as_std_path(), PATIENCE)?;
        let mut text = Vec::new();
        for line in &stash.lines {
            text.extend_from_slice(line.bytes());
            text.push(b'\n');
        }
        let mut file = fresh.file();
        file.write_all(&text).and_then(|()| file.sync_all()).map_err(unwritable)?;
        fresh.become_file(log.as_std_path(), None).map_err(unwritable)
    }
}

#[cfg(test)]
#[path = "stash_tests.rs"]
mod tests;
