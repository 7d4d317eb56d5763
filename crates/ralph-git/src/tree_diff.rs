//! Differences between two trees, in process: equal directories are not entered.

use std::cmp::Ordering;
use std::sync::Arc;

use gix_hash::ObjectId;

use super::call::path_from;
use super::direct::trees::{TreeItem, TreeItems, items};
use super::home_copy::HomeCopyError;
use super::objects::{ObjectKind, Objects};
use super::parse::{ChangeKind, PathChange};
use super::{Git, ObjectError, Oid};

/// The mode bits that distinguish files, symlinks, directories and submodules.
const KIND: u32 = 0o170_000;

/// Returns the differences between two trees, path by path in git's order, without rename detection.
pub(super) fn changes(
    objects: &mut Objects,
    from: &ObjectId,
    to: &ObjectId,
) -> Result<Vec<PathChange>, ObjectError> {
    let mut diff = TreeDiff { objects, path: Vec::new(), changes: Vec::new() };
    diff.trees(Some(from), Some(to))?;
    Ok(diff.changes)
}

/// Returns the tree of a commit; a tree is its own.
pub(super) fn tree_of(objects: &mut Objects, id: &ObjectId) -> Result<ObjectId, ObjectError> {
    if *id == ObjectId::empty_tree(objects.kind) {
        return Ok(*id);
    }
    let mut bytes = Vec::new();
    match objects.read(id, ObjectKind::Commit, &mut bytes) {
        Ok(_) => {}
        Err(ObjectError::Malformed { .. }) => {
            return objects.read(id, ObjectKind::Tree, &mut bytes).map(|_| *id);
        }
        Err(error) => return Err(error),
    }
    let line = bytes.split(|byte| *byte == b'\n').next();
    let tree = line.and_then(|line| line.strip_prefix(b"tree "));
    let tree = tree.and_then(|hex| ObjectId::from_hex(hex).ok());
    tree.ok_or_else(|| ObjectError::Malformed { id: Oid::of(id) })
}

impl Git {
    /// The same for commits or trees of this repository.
    pub(super) fn changes_in_process(
        &self,
        from: &Oid,
        to: &Oid,
    ) -> Result<Vec<PathChange>, HomeCopyError> {
        let (mut objects, _) = self.own_objects()?;
        let from = tree_of(&mut objects, &from.to_id())?;
        let to = tree_of(&mut objects, &to.to_id())?;
        Ok(changes(&mut objects, &from, &to)?)
    }
}

/// Returns a mode as git interprets it: some have more than one encoding.
fn mode_of(item: Option<&TreeItem<'_>>) -> Option<u32> {
    let Some(item) = item else { return Some(0) };
    let mode = u32::from_str_radix(std::str::from_utf8(item.mode).ok()?, 8).ok()?;
    Some(match mode & KIND {
        0o100_000 if mode & 0o100 != 0 => 0o100_755,
        0o100_000 => 0o100_644,
        0o120_000 => 0o120_000,
        0o040_000 => 0o040_000,
        _ => 0o160_000,
    })
}

struct TreeDiff<'o> {
    objects: &'o mut Objects,
    /// The current directory; ends in a slash, or is empty.
    path: Vec<u8>,
    changes: Vec<PathChange>,
}

impl TreeDiff<'_> {
    fn read(&mut self, id: Option<&ObjectId>) -> Result<Arc<[u8]>, ObjectError> {
        id.map_or_else(|| Ok(Arc::from([])), |id| self.objects.read_tree(id))
    }

    fn trees(&mut self, from: Option<&ObjectId>, to: Option<&ObjectId>) -> Result<(), ObjectError> {
        if from == to {
            return Ok(());
        }
        let kind = self.objects.kind;
        let (old, new) = (self.read(from)?, self.read(to)?);
        let torn = || {
            let id = from.or(to).map_or_else(|| ObjectId::empty_tree(kind), |id| *id);
            ObjectError::Malformed { id: Oid::of(&id) }
        };
        let (mut old, mut new) = (items(&old, kind), items(&new, kind));

        let (mut before, mut after) = (next(&mut old, &torn)?, next(&mut new, &torn)?);
        loop {
            let order = match (&before, &after) {
                (None, None) => return Ok(()),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(one), Some(other)) if one.name == other.name => {
                    one.is_tree().cmp(&other.is_tree())
                }
                (Some(one), Some(other)) => one.key().cmp(other.key()),
            };
            match order {
                Ordering::Less => {
                    self.entry(before.as_ref(), None)?;
                    before = next(&mut old, &torn)?;
                }
                Ordering::Greater => {
                    self.entry(None, after.as_ref())?;
                    after = next(&mut new, &torn)?;
                }
                Ordering::Equal => {
                    self.entry(before.as_ref(), after.as_ref())?;
                    (before, after) = (next(&mut old, &torn)?, next(&mut new, &torn)?);
                }
            }
        }
    }

    /// Compares the entries of one name: both are directories, or neither is.
    fn entry(
        &mut self,
        before: Option<&TreeItem<'_>>,
        after: Option<&TreeItem<'_>>,
    ) -> Result<(), ObjectError> {
        let Some(any) = before.or(after) else { return Ok(()) };
        if let (Some(before), Some(after)) = (before, after)
            && before.id == after.id
            && before.mode == after.mode
        {
            return Ok(());
        }
        let start = self.path.len();
        self.path.extend_from_slice(any.name);
        if any.is_tree() {
            self.path.push(b'/');
            let id = |item: Option<&TreeItem<'_>>| item.map(|item| item.id);
            self.trees(id(before).as_ref(), id(after).as_ref())?;
        } else {
            let malformed = || ObjectError::Malformed { id: Oid::of(&any.id) };
            let was = mode_of(before).ok_or_else(malformed)?;
            let is = mode_of(after).ok_or_else(malformed)?;
            let kind = match (before, after) {
                (None, _) => Some(ChangeKind::Added),
                (_, None) => Some(ChangeKind::Deleted),
                _ if was & KIND != is & KIND => Some(ChangeKind::TypeChanged),
                (Some(before), Some(after)) if was == is && before.id == after.id => None,
                _ => Some(ChangeKind::Modified),
            };
            self.changes.extend(kind.map(|kind| PathChange {
                kind,
                path: path_from(&self.path),
                modes: (format!("{was:06o}"), format!("{is:06o}")),
                id: after.map(|item| Oid::of(&item.id)),
            }));
        }
        self.path.truncate(start);
        Ok(())
    }
}

fn next<'a>(
    items: &mut TreeItems<'a>,
    torn: &dyn Fn() -> ObjectError,
) -> Result<Option<TreeItem<'a>>, ObjectError> {
    items.next().map(|item| item.ok_or_else(torn)).transpose()
}

#[cfg(test)]
#[path = "tree_diff_tests.rs"]
mod tests;
