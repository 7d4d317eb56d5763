//! Moves a working tree of Ralph's own from one commit to another together with its index, at a cost proportional to
//! the difference: nothing else is scanned or written.
//!
//! The caller knows what differs from the index ([`scan`](super::scan)) and that no other process writes to the tree.
//! Contents are written by git, as on a checkout; the index is changed in process. Anything except regular files
//! (symlinks, submodules, a file in place of a directory, changed attributes) is [`Unfit`]: then the state of the tree
//! is unknown, and git has to write all of it.
//!
//! The index is written last: after a crash it shows every file already written as modified.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::path::{Path, PathBuf};

use camino::Utf8Path;
use gix_hash::{Kind, ObjectId};

use super::call::{Call, path_bytes};
use super::clearing::TIMEOUT;
use super::direct::index::{IndexChange, IndexEdit, NotPatched, first_index, patch};
use super::scan::IndexFile;
use super::settings::Unfit;
use super::{Git, Oid, regular_file};

/// With more files than this the git binary is faster.
const FEW: usize = 128;

const UNWRITABLE: Unfit = Unfit("the tree or its index cannot be written");

/// A tree to be moved.
pub(super) struct TreeMove<'a> {
    /// Contains the working tree and, in its object store, both commits.
    pub(super) git: &'a Git,
    pub(super) kind: Kind,
    /// The index of the working tree: the files of `from`.
    pub(super) index: &'a Utf8Path,
    pub(super) from: &'a Oid,
    pub(super) to: &'a Oid,
    /// Files that differ from the index.
    pub(super) unsure: &'a [PathBuf],
}

/// A file's target state: its content, and whether it is executable; `None` removes it.
type Wanted = Option<(ObjectId, bool)>;

impl TreeMove<'_> {
    /// The same, only if the touched files match the index.
    pub(super) fn make_over_known(&self, index: &IndexFile) -> Result<(), Unfit> {
        let root = self.git.place().worktree.as_ref().ok_or(UNWRITABLE)?.as_std_path();
        if !self.wanted(index)?.keys().all(|path| index.is_there(root, path, self.kind)) {
            return Err(Unfit("something else is in a file's place"));
        }
        self.make(index)
    }

    /// Writes the differences, and the index.
    pub(super) fn make(&self, index: &IndexFile) -> Result<(), Unfit> {
        let wanted = self.wanted(index)?;
        if wanted.is_empty() {
            return Ok(());
        }
        let root = self.git.place().worktree.as_ref().ok_or(UNWRITABLE)?.as_std_path();
        for path in wanted.iter().filter_map(|(path, wanted)| wanted.is_none().then_some(path)) {
            remove(root, path)?;
        }
        let kept: Vec<(&PathBuf, (ObjectId, bool))> =
            wanted.iter().filter_map(|(path, wanted)| Some((path, (*wanted)?))).collect();
        // It may be a cache, which git must not remove.
        let is_dir = |path: &Path| fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
        if kept.iter().any(|(path, _)| is_dir(&root.join(path))) {
            return Err(Unfit("a file comes in place of a directory"));
        }
        self.write_files(&kept)?;
        let mut files: Vec<(&[u8], (ObjectId, bool), Metadata)> = Vec::new();
        for (path, wanted) in kept {
            let found = fs::symlink_metadata(root.join(path)).map_err(|_| UNWRITABLE)?;
            if !found.is_file() {
                return Err(UNWRITABLE);
            }
            files.push((path_bytes(path), wanted, found));
        }
        files.sort_by_key(|(path, ..)| *path);
        let edits: Vec<IndexEdit<'_>> = files
            .iter()
            .map(|(path, (id, executable), file)| IndexEdit {
                path,
                id: *id,
                executable: *executable,
                file: Some(file),
            })
            .collect();
        let gone = wanted.iter().filter(|(path, wanted)| wanted.is_none() && index.has(path));
        let mut gone: Vec<&[u8]> = gone.map(|(path, _)| path_bytes(path)).collect();
        gone.sort_unstable();
        let is_new = |(path, wanted): &(&PathBuf, &Wanted)| wanted.is_some() && !index.has(path);
        let count = |count: usize| i32::try_from(count).unwrap_or(0);
        let expected = count(wanted.iter().filter(is_new).count()) - count(gone.len());
        self.change_index(&IndexChange { edits: &edits, gone: &gone, watched: &[], expected })
    }

    /// Returns the target state of each touched path.
    fn wanted(&self, index: &IndexFile) -> Result<BTreeMap<PathBuf, Wanted>, Unfit> {
        let missing = |_| Unfit("an object cannot be read in process");
        let mut wanted: BTreeMap<PathBuf, Wanted> = BTreeMap::new();
        for path in self.unsure {
            let file = index.file(path).ok_or(Unfit("it is no matter of plain files"))?;
            wanted.insert(path.clone(), Some(file));
        }
        for change in self.git.changes_in_process(self.from, self.to).map_err(missing)? {
            let after = match (change.modes.1.as_str(), &change.id) {
                ("100644", Some(id)) => Some((id.to_id(), false)),
                ("100755", Some(id)) => Some((id.to_id(), true)),
                ("000000", None) => None,
                _ => return Err(Unfit("it is no matter of plain files")),
            };
            if !matches!(change.modes.0.as_str(), "100644" | "100755" | "000000") {
                return Err(Unfit("it is no matter of plain files"));
            }
            wanted.insert(change.path, after);
        }
        let odd = |path: &PathBuf| path.file_name().is_none_or(|name| name == ".gitattributes");
        if wanted.len() > FEW || wanted.keys().any(odd) {
            return Err(Unfit("it is no matter of a few plain files"));
        }
        let mut before: Option<&PathBuf> = None;
        for path in wanted.keys() {
            // A path sorts directly before what is below it.
            if before.is_some_and(|before| path.starts_with(before)) {
                return Err(Unfit("a file comes in place of a directory"));
            }
            before = Some(path);
        }
        Ok(wanted)
    }

    /// Lets git write files, as on a checkout.
    fn write_files(&self, files: &[(&PathBuf, (ObjectId, bool))]) -> Result<(), Unfit> {
        if files.is_empty() {
            return Ok(());
        }
        let scratch = format!("{}.ralph-move", self.index);
        let written = self.write_by(&scratch, files);
        let _ = fs::remove_file(&scratch);
        written
    }

    fn write_by(&self, scratch: &str, files: &[(&PathBuf, (ObjectId, bool))]) -> Result<(), Unfit> {
        let edit = |(path, (id, executable)): &(&'_ PathBuf, (ObjectId, bool))| {
            (path_bytes(path).to_vec(), *id, *executable)
        };
        let mut entries: Vec<(Vec<u8>, ObjectId, bool)> = files.iter().map(edit).collect();
        entries.sort();
        let edits: Vec<IndexEdit<'_>> = entries
            .iter()
            .map(|(path, id, executable)| IndexEdit {
                path,
                id: *id,
                executable: *executable,
                file: None,
            })
            .collect();
        let _ = fs::remove_file(scratch);
        let file = File::create_new(scratch).map_err(|_| UNWRITABLE)?;
        first_index(self.kind, &edits, &file)?;
        drop(file);
        let args = ["checkout-index", "--force", "--quiet", "--all"];
        let call = Call::new(&args).timeout(TIMEOUT).env("GIT_INDEX_FILE", scratch);
        self.git.call(call).map(|_| ()).map_err(|_| UNWRITABLE)
    }

    fn change_index(&self, change: &IndexChange<'_>) -> Result<(), Unfit> {
        let path = self.index.as_std_path();
        let (old, metadata) = regular_file::open(path).map_err(|_| UNWRITABLE)?;
        let new = format!("{}.ralph-new", self.index);
        let _ = fs::remove_file(&new);
        let file = File::create_new(&new).map_err(|_| UNWRITABLE)?;
        // Its time is now: where times did not decide, contents were compared, and no other process writes here.
        let patched = patch(Some((&old, &metadata)), self.kind, change, &file);
        let made = match patched {
            Ok(_) => fs::rename(&new, path).map_err(|_| UNWRITABLE),
            Err(NotPatched::Unfit(unfit)) => Err(unfit),
            Err(NotPatched::Unmerged(_)) => Err(UNWRITABLE),
        };
        if made.is_err() {
            let _ = fs::remove_file(&new);
        }
        made
    }
}

/// Removes a file, and the directories above it that become empty.
fn remove(root: &Path, path: &Path) -> Result<(), Unfit> {
    match fs::remove_file(root.join(path)) {
        Err(error) if !regular_file::is_absence(&error) => return Err(UNWRITABLE),
        _ => {}
    }
    for above in path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()) {
        if fs::remove_dir(root.join(above)).is_err() {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "tree_move_tests.rs"]
mod tests;
