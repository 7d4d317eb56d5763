//! The status of a work tree in which nothing tracked differs from `HEAD`, found in process.
//!
//! Mostly that is so, and git would look at every file of the tree for each question to say it. Here one [`scan`] tells that
//! the files are as the index has them, and the index is held against the tree of `HEAD`, as far as it does not remember that
//! tree itself. Whatever differs or is odd is git's to say. Which files beside are ignored git is asked, by name.
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
    /// Returns what is not tracked in a part of the work tree where everything else is as `HEAD` has it; `None` where
    /// something differs, or only git can tell.
    pub(super) fn quick_status(&self, part: &Part<'_>) -> Option<Vec<StatusEntry>> {
        self.place().check().ok()?;
        let others = self.untracked(part).ok()??;
        if others.is_empty() {
            return Some(Vec::new());
        }
        let ignored = self.ignored(&others).ok()?;
        let root = self.place().worktree.as_ref()?.as_std_path();
        let told: Vec<PathBuf> =
            others.into_iter().filter(|path| !ignored.contains(path)).collect();
        // What is in a directory, or whether it is a repository, is a longer story.
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

    /// Returns what the index does not have, where all that it has is as `HEAD` and the work tree have it.
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

/// An index that is held against a tree.
struct Comparison<'i> {
    objects: Objects,
    index: &'i IndexFile,
    /// The trees that the index remembers, by the paths of their directories.
    known: HashMap<Vec<u8>, ObjectId>,
    but: Vec<&'i [u8]>,
    /// The directory that is compared; ends in a slash, or is empty.
    path: Vec<u8>,
}

impl<'i> Comparison<'i> {
    fn read(&mut self, tree: &ObjectId) -> Result<Arc<[u8]>, Unfit> {
        self.objects.read_tree(tree).map_err(|_| UNREAD)
    }

    /// Returns the tree of a directory, and goes there.
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

    /// Tells whether entries of the index are what a tree has.
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

    /// Passes over entries that are not looked at, of a directory whose name has so many bytes.
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
