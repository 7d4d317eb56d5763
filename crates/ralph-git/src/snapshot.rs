//! Snapshots of the whole working tree as a commit under a ref of Ralph's, and restoring them.
//!
//! Tracked files and those that git would track are saved: whatever their names, and whatever the state of `HEAD` and
//! the index, neither of which is touched. Anything that cannot be saved is left out and reported, and never prevents
//! saving the rest: files that cannot be read or vanish meanwhile, sockets and the like, nested repositories.
//!
//! Restoring a tree writes and removes only what differs, and removes no file that the snapshot left out.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use super::call::{Call, UserConfig, path_bytes};
use super::commits::{CommitError, CommitSteps, ScratchIndex, parse_id};
use super::drivers::Drivers;
use super::evidence::{Dirt, is_own};
use super::{ChangeKind, Git, Oid};

/// A saved working tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    pub commit: Oid,
    /// What could not be saved.
    pub left_out: Vec<PathBuf>,
}

impl Git {
    /// Saves the working tree, except for Ralph's own files, under a ref. `None` without a working tree.
    pub fn take_snapshot(
        &self,
        name: &str,
        own: &[PathBuf],
        message: &str,
    ) -> Result<Option<Snapshot>, CommitError> {
        let Some(root) = self.place().worktree.clone() else { return Ok(None) };
        let (mut paths, mut left_out) = (Vec::new(), Vec::new());
        for dirty in Dirt::of(self, own)?.paths {
            let path = dirty.entry.path;
            // A name that ends in a slash is a nested repository.
            let is_repository = path_bytes(&path).ends_with(b"/");
            if is_repository || !can_be_kept(&root.as_std_path().join(&path)) {
                left_out.push(path);
            } else {
                paths.push(path);
            }
        }
        paths.sort();
        paths.dedup();
        let drivers = Drivers::of(self)?;
        let head = self.head()?;
        let base = match head.id() {
            Some(id) => id.clone(),
            None => self.object_format()?.empty_tree(),
        };
        let steps = CommitSteps { git: self, drivers: &drivers, base: &base };
        let index = ScratchIndex::absent(&self.place().git_dir);
        if head.id().is_some() {
            steps.call(&index, &["read-tree", base.as_str()], b"")?;
        }
        take_in_what_can_be(&steps, &index, &paths, &mut left_out);
        let tree = parse_id(&["write-tree"], &steps.call(&index, &["write-tree"], b"")?)?;
        let commit = self.keep_tree(name, &tree, head.id().as_slice(), message)?;
        left_out.sort();
        left_out.dedup();
        Ok(Some(Snapshot { commit, left_out }))
    }

    /// Restores the working tree to a snapshot, except for Ralph's own files. `now` is a snapshot of the current state
    /// and determines what differs. Returns the paths that were written or removed.
    pub fn return_to_snapshot(
        &self,
        then: &Oid,
        now: &Snapshot,
        own: &[PathBuf],
    ) -> Result<Vec<PathBuf>, CommitError> {
        let Some(root) = self.place().worktree.clone() else { return Ok(Vec::new()) };
        let (mut back, mut gone) = (Vec::new(), Vec::new());
        for change in self.changes(then, &now.commit)? {
            match change.kind {
                ChangeKind::Added | ChangeKind::Copied { .. } => gone.push(change.path),
                ChangeKind::Renamed { from } => {
                    gone.push(change.path);
                    back.push(from);
                }
                _ => back.push(change.path),
            }
        }
        let kept: HashSet<&Path> = now.left_out.iter().map(PathBuf::as_path).collect();
        let is_touched = |path: &PathBuf| !is_own(own, path) && !kept.contains(path.as_path());
        back.retain(is_touched);
        gone.retain(is_touched);
        for path in &gone {
            // Already removed by another process.
            let _ = fs::remove_file(root.as_std_path().join(path));
        }
        if !back.is_empty() {
            let drivers = Drivers::of(self)?;
            let source = format!("--source={then}");
            let args = [
                "restore",
                "--quiet",
                "--worktree",
                &source,
                "--pathspec-from-file=-",
                "--pathspec-file-nul",
            ];
            let names: Vec<u8> =
                back.iter().flat_map(|path| path_bytes(path).iter().copied().chain([0])).collect();
            let call = Call::new(&args).person(UserConfig::Heard).configs(drivers.overrides());
            self.call(call.input(&names))?;
        }
        back.append(&mut gone);
        Ok(back)
    }
}

/// Whether git could read a path: a file that opens, a symlink, or missing by now.
fn can_be_kept(path: &Path) -> bool {
    let Ok(found) = fs::symlink_metadata(path) else { return true };
    let kind = found.file_type();
    if kind.is_dir()
        || kind.is_socket()
        || kind.is_fifo()
        || kind.is_char_device()
        || kind.is_block_device()
    {
        return false;
    }
    kind.is_symlink() || fs::File::open(path).is_ok()
}

/// Adds paths to an index. If git refuses some, they are found by bisection and left out.
fn take_in_what_can_be(
    steps: &CommitSteps<'_>,
    index: &ScratchIndex,
    paths: &[PathBuf],
    left_out: &mut Vec<PathBuf>,
) {
    let mut open = vec![paths];
    while let Some(some) = open.pop() {
        if some.is_empty() || steps.take_in(index, some).is_ok() {
            continue;
        }
        if let [one] = some {
            left_out.push(one.clone());
            continue;
        }
        let (first, second) = some.split_at(some.len() / 2);
        open.extend([second, first]);
    }
}

#[cfg(test)]
#[path = "snapshot_tests.rs"]
mod tests;
