//! The status of a working tree without tracked changes against `HEAD`, found in process.
//!
//! That is the usual case, in which git would scan every file of the tree for each query. Here one [`scan`] checks that
//! the files match the index, and the index is compared with the tree of `HEAD`, as far as its tree cache does not
//! cover that. Anything different or unusual is left to git. Git is asked by name which of the other files are ignored.
//!
//! [`scan`]: super::scan

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gix_hash::ObjectId;

use super::call::path_bytes;
use super::direct::trees::items;
use super::objects::Objects;
use super::parse::PathState;
use super::refs::RefFiles;
use super::scan::{IndexFile, Part, Tracked};
use super::settings::{OwnSettings, Unfit};
use super::{Git, StatusEntry, tree_diff};

const UNREAD: Unfit = Unfit("an object cannot be read in process");

impl Git {
    /// Returns the untracked files in a part of the working tree where everything else matches `HEAD`; `None` if
    /// something differs, or only git can tell.
    pub(super) fn quick_status(&self, part: &Part<'_>) -> Option<Vec<StatusEntry>> {
        self.place().check().ok()?;
        let others = self.untracked(part).ok()??;
        if others.is_empty() {
            return Some(Vec::new());
        }
        let ignored = self.ignored_untracked(&others).ok()?;
        let root = self.place().worktree.as_ref()?.as_std_path();
        let told: Vec<PathBuf> =
            others.into_iter().filter(|path| !ignored.contains(path)).collect();
        // The content of a directory, or whether it is a repository, is left to git.
        let is_file = |path: &PathBuf| {
            let found = std::fs::symlink_metadata(root.join(path));
            found.is_ok_and(|found| !found.is_dir())
        };
        if !told.iter().all(is_file) {
            return None;
        }
        let entry = |path| StatusEntry { path, state: PathState::Untracked };
        Some(told.into_iter().map(entry).collect())
    }

    /// Returns what is not in the index, if everything in it matches `HEAD` and the working tree.
    fn untracked(&self, part: &Part<'_>) -> Result<Option<Vec<PathBuf>>, Unfit> {
        let own = OwnSettings::read(self.place())?;
        if !own.layout.refs_are_files {
            return Err(Unfit("its refs are in a table"));
        }
        let kind = own.layout.format.kind();
        let root = self.place().worktree.as_ref().ok_or(UNREAD)?.as_std_path();
        let head = RefFiles::of(self.place()).head()?.id().cloned();
        let Some(head) = head else { return Ok(None) };
        let index = IndexFile::read(self.place().git_dir.join("index").as_std_path(), kind)?;
        let mut found = index.scan(root, part)?;
        index.confirm(root, &mut found, kind);
        if !found.unsure.is_empty() {
            return Ok(None);
        }
        let mut objects = Objects::open(self.place(), kind);
        objects.is_private = self.is_private;
        let tree = tree_diff::tree_of(&mut objects, &head.to_id()).map_err(|_| UNREAD)?;
        let mut comparison = Comparison {
            objects,
            index: &index,
            known: index.trees(),
            but: part.but.iter().map(|path| path_bytes(path)).collect(),
            path: Vec::new(),
        };
        let tree = match part.within {
            None => Some(tree),
            Some(within) => comparison.find(tree, within)?,
        };
        let is_same = match tree {
            Some(tree) => comparison.is_same(&tree, index.below(&comparison.path.clone()))?,
            None => index.below(&comparison.path).is_empty(),
        };
        Ok(is_same.then_some(found.others))
    }
}

/// An index being compared with a tree.
struct Comparison<'i> {
    objects: Objects,
    index: &'i IndexFile,
    /// The index's tree cache, by directory path.
    known: HashMap<Vec<u8>, ObjectId>,
    but: Vec<&'i [u8]>,
    /// The current directory; ends in a slash, or is empty.
    path: Vec<u8>,
}

impl<'i> Comparison<'i> {
    fn read(&mut self, tree: &ObjectId) -> Result<Arc<[u8]>, Unfit> {
        self.objects.read_tree(tree).map_err(|_| UNREAD)
    }

    /// Returns the tree of a directory, and makes it current.
    fn find(&mut self, mut tree: ObjectId, directory: &Path) -> Result<Option<ObjectId>, Unfit> {
        let mut found = Some(tree);
        for part in directory.components() {
            let name = part.as_os_str().as_encoded_bytes();
            self.path.extend_from_slice(name);
            self.path.push(b'/');
            if found.is_some() {
                let bytes = self.read(&tree)?;
                let mut items = items(&bytes, self.objects.kind).flatten();
                let item = items.find(|item| item.name == name && item.is_tree());
                found = item.map(|item| item.id);
                tree = found.unwrap_or(tree);
            }
        }
        Ok(found)
    }

    /// Whether entries of the index match a tree.
    fn is_same(&mut self, tree: &ObjectId, entries: Tracked<'i>) -> Result<bool, Unfit> {
        let start = self.path.len();
        let directory = self.path.strip_suffix(b"/").unwrap_or(&self.path);
        if self.known.get(directory) == Some(tree) {
            return Ok(true);
        }
        let bytes = self.read(tree)?;
        let mut rest = entries;
        for item in items(&bytes, self.objects.kind) {
            let item = item.ok_or(UNREAD)?;
            self.path.truncate(start);
            self.path.extend_from_slice(item.name);
            if self.but.contains(&self.path.as_slice()) {
                continue;
            }
            rest = self.pass(rest, start);
            if item.is_tree() {
                self.path.push(b'/');
                let below;
                (below, rest) = self.index.split(rest, &self.path);
                if below.is_empty() || !self.is_same(&item.id, below)? {
                    return Ok(false);
                }
                continue;
            }
            let Some((first, others)) = rest.split_first() else { return Ok(false) };
            if !self.index.is_entry(first, &self.path, item.mode, &item.id) {
                return Ok(false);
            }
            rest = others;
        }
        self.path.truncate(start);
        Ok(self.pass(rest, start).is_empty())
    }

    /// Skips excluded entries of a directory whose name has this many bytes.
    fn pass(&self, mut entries: Tracked<'i>, directory: usize) -> Tracked<'i> {
        while let Some((first, rest)) = entries.split_first() {
            let name = self.index.name(first);
            let is_out = |but: &&[u8]| {
                let is_here = but.get(directory..).is_some_and(|here| !here.contains(&b'/'));
                let rest = name.strip_prefix(*but).filter(|_| is_here);
                rest.is_some_and(|rest| matches!(rest, [] | [b'/', ..]))
            };
            let Some(but) = self.but.iter().find(|but| is_out(but)) else { break };
            if name.len() == but.len() {
                entries = rest;
            } else {
                let below = [but, &b"/"[..]].concat();
                entries = self.index.split(entries, &below).1;
            }
        }
        entries
    }
}

#[cfg(test)]
#[path = "quick_status_tests.rs"]
mod tests;
