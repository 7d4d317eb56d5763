//! Trees that differ from another one at some paths: files added or removed, whole directories replaced.
//!
//! Done in process, at a cost that depends on the directories on the way and not on the size of the tree. A directory
//! that becomes empty is removed, because git has no empty ones.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use gix_hash::ObjectId;

use super::call::path_bytes;
use super::direct::trees::{NewObjects, TreeItem, items};
use super::objects::{ObjectError, ObjectKind, Objects};
use super::{ObjectError as Error, Oid};

const DIRECTORY: &[u8] = b"40000";

/// The new content of a path of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TreeChange {
    Remove,
    /// A file, symlink or directory, with its mode in tree format.
    Put {
        mode: Vec<u8>,
        id: ObjectId,
    },
}

/// The changes below one directory.
#[derive(Debug, Default)]
pub(super) struct TreeChanges {
    here: Option<TreeChange>,
    below: BTreeMap<Vec<u8>, TreeChanges>,
}

impl TreeChanges {
    /// Adds a change at a path relative to the root; `false` if no tree can have such a path.
    ///
    /// A later change of the same path replaces an earlier one; changes below a path apply to what is put there.
    pub(super) fn add(&mut self, path: &Path, change: TreeChange) -> bool {
        let normal =
            |part| matches!(part, Component::Normal(name) if !name.eq_ignore_ascii_case(".git"));
        if path.as_os_str().is_empty() || !path.components().all(normal) {
            return false;
        }
        let mut at = self;
        for part in path.components() {
            at = at.below.entry(path_bytes(Path::new(part.as_os_str())).to_vec()).or_default();
        }
        at.here = Some(change);
        true
    }

    /// Creates the tree that differs from `base` by the changes.
    pub(super) fn apply(
        &self,
        objects: &mut Objects,
        fresh: &mut NewObjects,
        base: Option<ObjectId>,
    ) -> Result<ObjectId, Error> {
        match self.tree(objects, fresh, base)? {
            Some(id) => Ok(id),
            None => add(fresh, &[], base),
        }
    }

    /// The same; `None` if nothing is left.
    fn tree(
        &self,
        objects: &mut Objects,
        fresh: &mut NewObjects,
        base: Option<ObjectId>,
    ) -> Result<Option<ObjectId>, Error> {
        let mut entries = match base {
            Some(id) => read(objects, &id)?,
            None => BTreeMap::new(),
        };
        for (name, changes) in &self.below {
            match &changes.here {
                Some(TreeChange::Remove) => drop(entries.remove(name)),
                Some(TreeChange::Put { mode, id }) => {
                    entries.insert(name.clone(), (mode.clone(), *id));
                }
                None => {}
            }
            if changes.below.is_empty() {
                continue;
            }
            let there = entries.get(name).filter(|(mode, _)| is_directory(mode));
            let was_directory = there.is_some();
            let below = there.map(|(_, id)| *id);
            match changes.tree(objects, fresh, below)? {
                Some(id) => drop(entries.insert(name.clone(), (DIRECTORY.to_vec(), id))),
                None if was_directory => drop(entries.remove(name)),
                None => {}
            }
        }
        if entries.is_empty() {
            return Ok(None);
        }
        let mut sorted: Vec<TreeItem<'_>> =
            entries.iter().map(|(name, (mode, id))| TreeItem { mode, name, id: *id }).collect();
        sorted.sort_by(|one, other| one.key().cmp(other.key()));
        add(fresh, &sorted, base).map(Some)
    }
}

fn is_directory(mode: &[u8]) -> bool {
    mode == DIRECTORY || mode == b"040000"
}

/// Names of a directory with their modes and objects.
type Entries = BTreeMap<Vec<u8>, (Vec<u8>, ObjectId)>;

fn read(objects: &mut Objects, id: &ObjectId) -> Result<Entries, ObjectError> {
    let bytes = objects.read_tree(id)?;
    let malformed = || ObjectError::Malformed { id: Oid::of(id) };
    items(&bytes, objects.kind)
        .map(|item| item.map(|item| (item.name.to_vec(), (item.mode.to_vec(), item.id))))
        .collect::<Option<_>>()
        .ok_or_else(malformed)
}

fn add(
    fresh: &mut NewObjects,
    sorted: &[TreeItem<'_>],
    base: Option<ObjectId>,
) -> Result<ObjectId, ObjectError> {
    let mut tree = Vec::new();
    for item in sorted {
        tree.extend_from_slice(item.mode);
        tree.push(b' ');
        tree.extend_from_slice(item.name);
        tree.push(0);
        tree.extend_from_slice(item.id.as_slice());
    }
    fresh.add("tree", &tree).map_err(|unfit| ObjectError::Unreadable {
        id: base
            .filter(|id| !id.is_null())
            .as_ref()
            .map_or_else(|| Oid::of(&ObjectId::empty_tree(fresh.kind())), Oid::of),
        reason: unfit.0.to_owned(),
    })
}

/// Returns the entry of a tree at a path; a whole directory is a tree.
pub(super) fn find_entry(
    objects: &mut Objects,
    root: &ObjectId,
    path: &Path,
) -> Result<Option<TreeChange>, ObjectError> {
    let mut at = Some((DIRECTORY.to_vec(), *root));
    for part in path.components() {
        let Some((mode, id)) = at else { return Ok(None) };
        if !is_directory(&mode) {
            return Ok(None);
        }
        let bytes = objects.read_tree(&id)?;
        let name = path_bytes(Path::new(part.as_os_str()));
        let mut items = items(&bytes, objects.kind);
        let found = items.find(|item| item.as_ref().is_none_or(|item| item.name == name));
        at = match found {
            Some(None) => return Err(ObjectError::Malformed { id: Oid::of(&id) }),
            Some(Some(item)) => Some((item.mode.to_vec(), item.id)),
            None => None,
        };
    }
    Ok(at.map(|(mode, id)| TreeChange::Put { mode, id }))
}

/// Reads every file below a tree, by relative path; symlinks count as files with their targets.
pub(super) fn all_files(
    objects: &mut Objects,
    root: &ObjectId,
) -> Result<Vec<(std::path::PathBuf, Vec<u8>)>, ObjectError> {
    let mut files = Vec::new();
    let mut open = vec![(Vec::new(), *root)];
    while let Some((prefix, id)) = open.pop() {
        for (name, (mode, id)) in read(objects, &id)? {
            let mut path: Vec<u8> = prefix.clone();
            path.extend(&name);
            if is_directory(&mode) {
                path.push(b'/');
                open.push((path, id));
            } else if mode != b"160000" {
                let mut content = Vec::new();
                objects.read(&id, ObjectKind::Blob, &mut content)?;
                files.push((super::call::path_from(&path), content));
            }
        }
    }
    files.sort();
    Ok(files)
}
