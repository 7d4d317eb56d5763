//! The engine's operations on one repository, as a trait: implemented here with git itself, and by the simulation in
//! memory. Both pass the same conformance suite.
//!
//! It contains only what workflows, home and the plan need. Commands that show a repository to a person, mirrors and
//! checkouts use git directly.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::git::commits::{CommitError, CommitRequest, Committed, commit_paths};
use crate::git::direct::{commit_files, commit_replaced};
use crate::git::evidence::{Dirt, FileStamp};
use crate::git::home_copy::HomeChange;
use crate::git::replaced::{HeldIndex, Replaced};
use crate::git::saved::SavedDirt;
use crate::git::undo::RefReturn;
use crate::git::{CommitHeader, Git, GitError, Head, Oid, PathChange, RefsSnapshot, StatusEntry};

/// A repository with a working tree. Every method does the same as the method or function of that name in `ralph_git`.
pub(crate) trait GitAccess: Send + Sync {
    fn head(&self) -> Result<Head, GitError>;
    fn current_head(&self) -> Result<Head, GitError>;
    fn refs(&self) -> Result<RefsSnapshot, GitError>;
    fn resolve(&self, name: &str) -> Result<Option<Oid>, GitError>;
    fn have(&self, ids: &[Oid]) -> Result<Vec<bool>, GitError>;
    fn find_commit(&self, claimed: &str) -> Result<Option<CommitHeader>, GitError>;
    fn is_ancestor(&self, ancestor: &Oid, descendant: &Oid) -> Result<bool, GitError>;
    fn merge_base(&self, one: &Oid, other: &Oid) -> Result<Option<Oid>, GitError>;
    fn changes(&self, from: &Oid, to: &Oid) -> Result<Vec<PathChange>, GitError>;
    fn tree_changes(&self, from: &Oid, to: &Oid) -> Result<Vec<HomeChange>, GitError>;
    fn file_at(&self, commit: &Oid, path: &Path) -> Result<Option<Vec<u8>>, GitError>;
    fn status(&self) -> Result<Vec<StatusEntry>, GitError>;
    fn status_within(&self, directory: &Path) -> Result<Vec<StatusEntry>, GitError>;
    fn status_among(
        &self,
        directory: &Path,
        among: &BTreeSet<PathBuf>,
    ) -> Result<Vec<StatusEntry>, GitError>;
    /// See [`Dirt::of`].
    fn dirt(&self, own: &[PathBuf]) -> Result<Dirt, GitError>;
    fn hidden(&self, own: &[PathBuf]) -> Result<Vec<(PathBuf, Option<FileStamp>)>, GitError>;
    fn ignored(&self, paths: &[PathBuf]) -> Result<HashSet<PathBuf>, GitError>;
    fn save_dirt(&self, dirt: &Dirt) -> Result<Option<SavedDirt>, CommitError>;
    fn return_saved(&self, saved: &SavedDirt, paths: &[&Path]) -> Result<(), CommitError>;
    fn commit_paths(&self, request: &CommitRequest<'_>) -> Result<(), CommitError>;
    fn commit_files(&self, request: &CommitRequest<'_>) -> Result<(), CommitError>;
    /// Locks the index until the result is dropped, or its file is committed.
    fn hold_index(&self, patience: Duration) -> Result<Box<dyn HeldFile + '_>, GitError>;
    fn switch_to(&self, branch: &str) -> Result<(), CommitError>;
    fn switch_discarding(&self, branch: &str) -> Result<(), CommitError>;
    fn fast_forward(&self, commit: &Oid) -> Result<(), CommitError>;
    fn return_refs(&self, refs: &[RefReturn]) -> Result<(), GitError>;
}

/// The locked index of a repository, while one file is replaced.
pub(crate) trait HeldFile {
    /// See [`commit_replaced`]. The simulation never tells of the commit.
    fn commit(
        self: Box<Self>,
        request: &CommitRequest<'_>,
        replaced: Replaced<'_>,
    ) -> Result<Option<Committed>, CommitError>;
}

struct HeldByGit<'g> {
    git: &'g Git,
    index: HeldIndex,
}

impl HeldFile for HeldByGit<'_> {
    fn commit(
        self: Box<Self>,
        request: &CommitRequest<'_>,
        replaced: Replaced<'_>,
    ) -> Result<Option<Committed>, CommitError> {
        commit_replaced(self.git, request, self.index, replaced)
    }
}

impl GitAccess for Git {
    fn head(&self) -> Result<Head, GitError> {
        Git::head(self)
    }

    fn current_head(&self) -> Result<Head, GitError> {
        Git::current_head(self)
    }

    fn refs(&self) -> Result<RefsSnapshot, GitError> {
        Git::refs(self)
    }

    fn resolve(&self, name: &str) -> Result<Option<Oid>, GitError> {
        Git::resolve(self, name)
    }

    fn have(&self, ids: &[Oid]) -> Result<Vec<bool>, GitError> {
        Git::have(self, ids)
    }

    fn find_commit(&self, claimed: &str) -> Result<Option<CommitHeader>, GitError> {
        Git::find_commit(self, claimed)
    }

    fn is_ancestor(&self, ancestor: &Oid, descendant: &Oid) -> Result<bool, GitError> {
        Git::is_ancestor(self, ancestor, descendant)
    }

    fn merge_base(&self, one: &Oid, other: &Oid) -> Result<Option<Oid>, GitError> {
        Git::merge_base(self, one, other)
    }

    fn changes(&self, from: &Oid, to: &Oid) -> Result<Vec<PathChange>, GitError> {
        Git::changes(self, from, to)
    }

    fn tree_changes(&self, from: &Oid, to: &Oid) -> Result<Vec<HomeChange>, GitError> {
        Git::tree_changes(self, from, to)
    }

    fn file_at(&self, commit: &Oid, path: &Path) -> Result<Option<Vec<u8>>, GitError> {
        Git::file_at(self, commit, path)
    }

    fn status(&self) -> Result<Vec<StatusEntry>, GitError> {
        Git::status(self)
    }

    fn status_within(&self, directory: &Path) -> Result<Vec<StatusEntry>, GitError> {
        Git::status_within(self, directory)
    }

    fn status_among(
        &self,
        directory: &Path,
        among: &BTreeSet<PathBuf>,
    ) -> Result<Vec<StatusEntry>, GitError> {
        Git::status_among(self, directory, among)
    }

    fn dirt(&self, own: &[PathBuf]) -> Result<Dirt, GitError> {
        Dirt::of(self, own)
    }

    fn hidden(&self, own: &[PathBuf]) -> Result<Vec<(PathBuf, Option<FileStamp>)>, GitError> {
        Git::hidden(self, own)
    }

    fn ignored(&self, paths: &[PathBuf]) -> Result<HashSet<PathBuf>, GitError> {
        Git::ignored(self, paths)
    }

    fn save_dirt(&self, dirt: &Dirt) -> Result<Option<SavedDirt>, CommitError> {
        Git::save_dirt(self, dirt)
    }

    fn return_saved(&self, saved: &SavedDirt, paths: &[&Path]) -> Result<(), CommitError> {
        Git::return_saved(self, saved, paths)
    }

    fn commit_paths(&self, request: &CommitRequest<'_>) -> Result<(), CommitError> {
        commit_paths(self, request).map(drop)
    }

    fn commit_files(&self, request: &CommitRequest<'_>) -> Result<(), CommitError> {
        commit_files(self, request).map(drop)
    }

    fn hold_index(&self, patience: Duration) -> Result<Box<dyn HeldFile + '_>, GitError> {
        let index = Git::hold_index(self, patience)?;
        Ok(Box::new(HeldByGit { git: self, index }))
    }

    fn switch_to(&self, branch: &str) -> Result<(), CommitError> {
        Git::switch_to(self, branch)
    }

    fn switch_discarding(&self, branch: &str) -> Result<(), CommitError> {
        Git::switch_discarding(self, branch)
    }

    fn fast_forward(&self, commit: &Oid) -> Result<(), CommitError> {
        Git::fast_forward(self, commit)
    }

    fn return_refs(&self, refs: &[RefReturn]) -> Result<(), GitError> {
        Git::return_refs(self, refs)
    }
}
