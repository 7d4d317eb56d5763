//! The files of a slot: exactly those of a commit, and the named caches.
//!
//! The index of the last preparation is kept outside the slot, where no agent can write. With it, only differences are
//! written; without it, everything is.

use std::fs;
use std::path::{Path, PathBuf};

use camino::{Utf8Path, Utf8PathBuf};
use gix_hash::Kind;

use super::super::call::Call;
use super::super::clearing::{
    ClearError, FileError, TIMEOUT, clean, is_real_dir, remove, remove_all_but,
};
use super::super::commits::copy_index;
use super::super::scan::{IndexFile, Part};
use super::super::settings::Unfit;
use super::super::tree_move::TreeMove;
use super::super::{Git, GitError, Oid, regular_file};
use super::SlotError;

/// What to do with files that the commit lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Others {
    Removed,
    Kept,
}

/// A working tree that must contain the files of a commit.
pub(super) struct WorkTree<'a> {
    pub(super) git: &'a Git,
    /// The private index of the last preparation; missing before the first.
    pub(super) index: Utf8PathBuf,
    pub(super) caches: &'a [Utf8PathBuf],
    /// The commit of the last preparation, if that was completed.
    pub(super) last: Option<&'a Oid>,
    pub(super) kind: Kind,
}

impl WorkTree<'_> {
    /// Writes the files of a commit, removes all others unless they are kept, and gives the repository a copy of the
    /// index.
    pub(super) fn check_out(&self, commit: &Oid, others: Others) -> Result<(), SlotError> {
        // A lock left by a killed Ralph's git: no other process uses this index.
        let _ = fs::remove_file(format!("{}.lock", self.index));
        let moved = self.last.map(|last| self.move_from(last, commit, others));
        // Otherwise git scans everything.
        if let Some(Ok(())) = moved {
            return self.give_index();
        }
        match self.reset_and_clean(commit, others) {
            Ok(()) => {}
            Err(error @ (SlotError::UnsafeTree { .. } | SlotError::Incomplete { .. })) => {
                return Err(error);
            }
            // Directories may be locked, or too deep for git; the kept index may be damaged.
            Err(_) => {
                self.empty()?;
                self.reset_and_clean(commit, others)?;
            }
        }
        self.give_index()
    }

    /// Gives the repository a copy of the index.
    fn give_index(&self) -> Result<(), SlotError> {
        let own = self.git.place().git_dir.join("index");
        Ok(copy_index(&self.index, &own).map_err(|error| FileError::new("write", &own, error))?)
    }

    /// Moves the tree from the commit of the last preparation to another, after a single scan for changes.
    fn move_from(&self, last: &Oid, commit: &Oid, others: Others) -> Result<(), Unfit> {
        let root = self.root();
        let known = IndexFile::read(self.index.as_std_path(), self.kind)?;
        let kept = self.caches.iter().filter(|cache| is_real_dir(root, cache));
        let kept: Vec<PathBuf> = kept.map(|cache| cache.as_std_path().to_owned()).collect();
        let part = Part { kept: &kept, ..Part::default() };
        let mut found = known.scan(root.as_std_path(), &part)?;
        known.confirm(root.as_std_path(), &mut found, self.kind);
        if others == Others::Removed {
            for other in &found.others {
                let removed = remove(root.as_std_path().join(other));
                removed.map_err(|_| Unfit("something cannot be removed"))?;
            }
        }
        let (git, index, unsure) = (self.git, &self.index, &found.unsure);
        TreeMove { git, kind: self.kind, index, from: last, to: commit, unsure }.make(&known)
    }

    fn reset_and_clean(&self, commit: &Oid, others: Others) -> Result<(), SlotError> {
        self.reset_to(commit).map_err(|error| self.explain(commit, error))?;
        if others == Others::Kept {
            return Ok(());
        }
        clean(self.git, Some(&self.index), self.caches).map_err(|error| match error {
            ClearError::Files(error) => self.uncleared(&error),
            ClearError::Git(error) => self.explain(commit, error),
        })
    }

    /// Removes everything except the caches and the repository.
    fn empty(&self) -> Result<(), SlotError> {
        let root = self.root();
        let _ = fs::remove_file(&self.index);
        let kept = self.caches.iter().filter(|cache| is_real_dir(root, cache));
        let kept = kept.map(|cache| cache.as_std_path()).chain([Path::new(".git")]);
        let kept: Vec<&Path> = kept.collect();
        remove_all_but(root.as_std_path(), Path::new(""), &kept)
            .map_err(|error| self.uncleared(&error))
    }

    fn root(&self) -> &Utf8Path {
        self.git.place().worktree.as_deref().unwrap_or(Utf8Path::new(""))
    }

    fn reset_to(&self, commit: &Oid) -> Result<(), GitError> {
        let args = ["read-tree", "--reset", "-u", commit.as_str()];
        let call = Call::new(&args).timeout(TIMEOUT).env("GIT_INDEX_FILE", self.index.as_str());
        // If a crash tears it, the next preparation does without it.
        self.git.call(call.config("core.fsync", "none")).map(|_| ())
    }

    fn uncleared(&self, error: &FileError) -> SlotError {
        SlotError::Uncleared {
            directory: self.root().to_owned(),
            detail: format!("{error}: {}", error.source),
        }
    }

    fn explain(&self, commit: &Oid, error: GitError) -> SlotError {
        let GitError::Failed { stderr, .. } = &error else { return SlotError::Git(error) };
        let detail = stderr.clone();
        if stderr.contains("invalid path") {
            return SlotError::UnsafeTree { commit: commit.clone(), detail };
        }
        let missing = ["unable to read", "bad object", "failed to unpack tree", "not a tree"];
        if missing.iter().any(|text| stderr.contains(text)) {
            return SlotError::Incomplete { commit: commit.clone(), detail };
        }
        let in_the_way = [
            "unlink",
            "remove",
            "create file",
            "create directory",
            "create symlink",
            "write file",
            "Operation not permitted",
            "Permission denied",
            "resource busy",
            "not empty",
        ];
        if in_the_way.iter().any(|text| stderr.contains(text)) {
            return SlotError::Uncleared { directory: self.root().to_owned(), detail };
        }
        SlotError::Git(error)
    }
}

/// Reads a file that may exist in a slot's private directory.
pub(super) fn read_private(path: &Utf8Path) -> Option<Vec<u8>> {
    regular_file::read_regular(path.as_std_path()).ok().flatten()
}
