//! Whether a slot has nothing uncommitted, found by one walk in process: mostly that is so.
//!
//! The files are held against the private index of the last preparation, which is that of the base, and what differs
//! against what the agent has committed since. Nothing of the slot's own repository takes part but the commit, which is in
//! the mirror. Whatever is not as plain as that is left to a look by git.

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

/// Names what is neither tracked nor ignored at or below some paths.
type Others<'a> = &'a dyn Fn(&[PathBuf]) -> Result<Vec<PathBuf>, GitError>;

/// A slot that is looked at.
pub(super) struct Untouched<'a> {
    pub(super) mirror: &'a Mirror,
    pub(super) root: &'a Utf8Path,
    /// The index of the last preparation.
    pub(super) index: &'a Utf8Path,
    pub(super) base: &'a Oid,
    /// What the agent has committed.
    pub(super) head: &'a Oid,
    pub(super) others: Others<'a>,
}

impl Untouched<'_> {
    /// Tells whether every file is as the commit has it, and nothing else is there but what is ignored. `Err` where only git
    /// can tell.
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

    /// Returns what the agent's commits changed, each with its content and whether it can be executed.
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

    /// Tells whether a file is, byte by byte, what was committed.
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
