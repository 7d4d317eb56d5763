//! What git says of a work tree before the first run: which files are its own, which are the person's, which are ignored.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use crate::git::{Git, Oid};

/// What git knows of a work tree when it is looked at for the first time.
#[derive(Default)]
pub(super) struct TreeStatus {
    /// Clean files, by where they lie.
    pub(super) objects: HashMap<PathBuf, Oid>,
    /// Changed and untracked files.
    pub(super) dirty: HashSet<PathBuf>,
    /// Directories that hold something that is not ignored.
    pub(super) directories: HashSet<PathBuf>,
}

impl TreeStatus {
    /// Asks git which files are its own and clean, and which are not. `None` where git knows nothing.
    pub(super) fn of(gits: &[Git]) -> Option<TreeStatus> {
        let mut status = TreeStatus::default();
        for git in gits {
            let root = git.place().worktree.as_ref()?.as_std_path();
            status.directories.insert(root.to_owned());
            let head = git.head().ok()?;
            let files = head.id().map(|id| git.tree(id)).transpose().ok()?.unwrap_or_default();
            for file in files {
                let path = root.join(&file.path);
                status.reaches(root, &path);
                status.objects.insert(path, file.id);
            }
            for entry in git.status().ok()? {
                let path = root.join(&entry.path);
                status.reaches(root, &path);
                status.objects.remove(&path);
                status.dirty.insert(path);
            }
        }
        (!gits.is_empty()).then_some(status)
    }

    fn reaches(&mut self, root: &Path, path: &Path) {
        for directory in path.ancestors().skip(1).take_while(|directory| *directory != root) {
            if !self.directories.insert(directory.to_owned()) {
                break;
            }
        }
    }
}
