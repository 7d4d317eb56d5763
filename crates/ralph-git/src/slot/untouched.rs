//! Checks by one walk in process whether a slot has nothing uncommitted, the usual case.
//!
//! The files are compared with the private index of the last preparation, which is that of the base, and differences
//! with the agent's commits since. Of the slot's own repository only the commit is used, which is in the mirror.
//! Anything more complicated is left to git.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use camino::Utf8Path;
use gix_hash::{Kind, ObjectId};

use super::super::clearing::is_real_dir;
use super::super::direct::trees::NewObjects;
use super::super::mirror::Mirror;
use super::super::scan::{IndexFile, Part};
use super::super::settings::Unfit;
use super::super::{GitError, Oid, regular_file};

const UNREAD: Unfit = Unfit("an object cannot be read in process");

/// Returns what is neither tracked nor ignored at or below some paths.
type Others<'a> = &'a dyn Fn(&[PathBuf]) -> Result<Vec<PathBuf>, GitError>;

/// A slot to check.
pub(super) struct Untouched<'a> {
    pub(super) mirror: &'a Mirror,
    pub(super) root: &'a Utf8Path,
    /// The index of the last preparation.
    pub(super) index: &'a Utf8Path,
    pub(super) base: &'a Oid,
    /// The agent's latest commit.
    pub(super) head: &'a Oid,
    pub(super) others: Others<'a>,
}

impl Untouched<'_> {
    /// Whether every file matches the commit, and nothing else exists except ignored files. `Err` if only git can tell.
    pub(super) fn is_so(&self) -> Result<bool, Unfit> {
        let kind = self.mirror.object_format().kind();
        let index = IndexFile::read(self.index.as_std_path(), kind)?;
        let mut found = index.scan(self.root.as_std_path(), &Part::default())?;
        index.confirm(self.root.as_std_path(), &mut found, kind);
        let committed = self.committed()?;
        if !found.unsure.iter().all(|path| committed.contains_key(path)) {
            return Ok(false);
        }
        for (path, after) in &committed {
            if !self.is_as(path, after.as_ref(), kind) {
                return Ok(false);
            }
        }
        found.others.retain(|path| !committed.contains_key(path));
        if found.others.is_empty() {
            return Ok(true);
        }
        let others = (self.others)(&found.others).map_err(|_| UNREAD)?;
        let known: HashSet<&PathBuf> = committed.keys().collect();
        Ok(others.iter().all(|path| known.contains(path)))
    }

    /// Returns the changes of the agent's commits, each with its content and whether it is executable.
    fn committed(&self) -> Result<BTreeMap<PathBuf, Option<(ObjectId, bool)>>, Unfit> {
        let changes = self.mirror.git().changes_in_process(self.base, self.head);
        let mut committed = BTreeMap::new();
        for change in changes.map_err(|_| UNREAD)? {
            let after = match (change.modes.1.as_str(), change.id) {
                ("100644", Some(id)) => Some((id.to_id(), false)),
                ("100755", Some(id)) => Some((id.to_id(), true)),
                ("000000", None) => None,
                _ => return Err(Unfit("it is no matter of plain files")),
            };
            committed.insert(change.path, after);
        }
        Ok(committed)
    }

    /// Whether a file equals the committed one, byte by byte.
    fn is_as(&self, path: &Path, committed: Option<&(ObjectId, bool)>, kind: Kind) -> bool {
        let at = self.root.as_std_path().join(path);
        let Some((id, executable)) = committed else {
            return fs::symlink_metadata(&at).is_err_and(|error| regular_file::is_absence(&error));
        };
        let above = path.parent().and_then(Utf8Path::from_path);
        if !above.is_some_and(|above| is_real_dir(self.root, above)) {
            return false;
        }
        let Ok((file, metadata)) = regular_file::open(&at) else { return false };
        let Ok(content) = regular_file::read_open(&file, &metadata) else { return false };
        let is_same = NewObjects::new(kind).add("blob", &content).is_ok_and(|found| found == *id);
        is_same && *executable == (metadata.mode() & 0o100 != 0)
    }
}
