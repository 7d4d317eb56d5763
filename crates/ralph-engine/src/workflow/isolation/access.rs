//! What isolation does with git, as traits: the person's repository, the draft of home, and clones. Git itself
//! implements them here, the simulation in memory; both pass the same conformance suite.
//!
//! A method that has the name of one in `ralph_git` does the same.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};

use super::equipment::Equipment;
use crate::gates::{GateRepository, WorkRepository};
use crate::git::home_copy::{HomeBlob, HomeChange, HomeCopy, HomeCopyError};
use crate::git::item_refs::{ItemKey, ItemRecord, ItemRefError, ItemWrite};
use crate::git::landing::{
    BranchTip, Carried, FileEdit, FollowOutcome, JudgedWork, LandOutcome, Landing, LandingCommit,
    LandingError, MergeSides, TipState, TreeMerge,
};
use crate::git::mirror::MirrorError;
use crate::git::slot::{
    KeptLeftovers, LeftoverRequest, Slot, SlotError, SlotRequest, branch_for, checkout_size,
};
use crate::git::{Git, GitError, Oid, RepositoryLocation};
use crate::repository::GitAccess;
use crate::workflow::WorkflowError;

/// The person's repository, with Ralph's mirror of it.
pub(crate) trait LandingRepository: WorkRepository {
    fn place(&self) -> &RepositoryLocation;
    fn items(&self) -> &dyn ItemAccess;
    /// Returns the mirror: its objects were hashed when they came in.
    fn truth(&self) -> &dyn GitAccess;
    fn landing(&self) -> Box<dyn LandingAccess + '_>;
    /// Makes a damaged mirror anew; returns whether it was.
    fn mend_mirror(&self) -> Result<bool, MirrorError>;
    /// Opens the copy of home in a directory, or creates it there. The flag says whether it is new.
    fn home_copy(
        &self,
        directory: &Utf8Path,
        inside: &Path,
    ) -> Result<(Box<dyn HomeAccess>, bool), HomeCopyError>;
    /// Returns how many bytes the files of a commit have.
    fn size_at(&self, commit: &Oid) -> Result<u64, GitError>;
    /// Opens a clone as its last run left it; `None` if it is not there any more, or damaged.
    fn open_clone(&self, place: &ClonePlace) -> Result<Option<Box<dyn ItemClone>>, SlotError>;
    /// Prepares a clone for an item, whatever is in its directory.
    fn prepare_clone(
        &self,
        request: &CloneRequest<'_>,
        equipment: &mut Equipment<'_>,
    ) -> Result<Box<dyn ItemClone>, WorkflowError>;
}

/// The person's repository, with the state of items in flight on its refs.
pub(crate) trait ItemAccess: GitAccess {
    fn may_have_refs(&self, below: &str) -> bool;
    fn may_have_items(&self) -> bool;
    fn read_every_item(&self) -> Result<Vec<ItemRecord>, ItemRefError>;
    fn write_item(&self, write: &ItemWrite<'_>) -> Result<Oid, ItemRefError>;
    fn drop_item(&self, record: &ItemRecord) -> Result<bool, ItemRefError>;
}

/// What landings do in the person's repository and in the mirror. Branches are named in full.
pub(crate) trait LandingAccess {
    fn tip(
        &self,
        branch: &str,
        home: &mut dyn FnMut(&MergeSides<'_>) -> Vec<FileEdit>,
    ) -> Result<BranchTip, LandingError>;
    fn land_marked(
        &self,
        branch: &str,
        read: &TipState,
        commit: &Oid,
        marks: &[(&str, &Oid)],
    ) -> Result<LandOutcome, LandingError>;
    fn follow(&self, branch: &str) -> Result<FollowOutcome, LandingError>;
    fn merge(
        &self,
        tip: &Oid,
        candidate: &Oid,
        base: Option<&Oid>,
    ) -> Result<TreeMerge, LandingError>;
    fn carry_over(
        &self,
        tip: &Oid,
        base: &Oid,
        candidate: &Oid,
        own: &[PathBuf],
    ) -> Result<Carried, LandingError>;
    fn detached_change(&self, base: &Oid, candidate: &Oid) -> Result<Oid, LandingError>;
    fn tree_of(&self, commit: &Oid) -> Result<Oid, LandingError>;
    fn commit(&self, request: &LandingCommit<'_>) -> Result<Oid, LandingError>;
    fn keep_left(&self, key: &ItemKey, commit: &Oid) -> Result<(), LandingError>;
    fn keep_candidate(
        &self,
        branch: &str,
        key: &ItemKey,
        candidate: &JudgedWork,
    ) -> Result<(), LandingError>;
    fn candidate(&self, branch: &str, key: &ItemKey) -> Result<Option<JudgedWork>, LandingError>;
    fn drop_landed_candidates(&self, branch: &str, tip: &Oid) -> Result<(), LandingError>;
    fn drop_candidate(&self, branch: &str, key: &ItemKey) -> Result<(), LandingError>;
}

/// Ralph's own copy of home: a repository whose commits hold home alone.
pub(crate) trait HomeAccess {
    fn git(&self) -> &dyn GitAccess;
    /// Returns the root of its work tree.
    fn root(&self) -> &Utf8Path;
    fn give_up(&self) -> Result<(), HomeCopyError>;
    fn is_sound(&self) -> bool;
    fn has_index(&self) -> bool;
    fn mend_index(&self) -> Result<(), GitError>;
    fn restore(&self, paths: &[PathBuf]) -> Result<(), GitError>;
    fn tree_at(&self, commit: Option<&Oid>) -> Result<Oid, GitError>;
    fn head_tree(&self) -> Result<Oid, GitError>;
    fn steps(&self, tip: Option<&Oid>) -> Result<Vec<(String, Oid)>, GitError>;
    fn stand_on(&self, parent: Option<&Oid>, tree: &Oid) -> Result<(), GitError>;
    fn tree_with(&self, tree: &Oid, changes: &[HomeChange]) -> Result<Oid, GitError>;
    fn blobs_in(&self, tree: &Oid, paths: &[&Path])
    -> Result<Vec<Option<HomeBlob>>, HomeCopyError>;
    fn blobs(&self, ids: &[Oid]) -> Result<HashMap<Oid, Vec<u8>>, GitError>;
    fn write_blob(&self, bytes: &[u8]) -> Result<Oid, GitError>;
    fn blob_id(&self, bytes: &[u8]) -> Result<Oid, HomeCopyError>;
}

/// Where a clone is.
#[derive(Clone, Debug)]
pub(crate) struct ClonePlace {
    pub(crate) directory: Utf8PathBuf,
    /// What no agent can write.
    pub(crate) private: Utf8PathBuf,
    pub(crate) number: u32,
}

/// What a clone is prepared for.
#[derive(Debug)]
pub(crate) struct CloneRequest<'a> {
    pub(crate) place: &'a ClonePlace,
    pub(crate) item: &'a str,
    /// The run's branch, in full; empty where there is none.
    pub(crate) branch: &'a str,
    /// The tip of that branch.
    pub(crate) tip: &'a Oid,
    /// The commit that is checked out.
    pub(crate) at: &'a Oid,
    /// The path of the workspace in the repository.
    pub(crate) prefix: &'a Utf8Path,
}

/// A clone of a repository of the person's, in which an item's runs work.
pub(crate) trait ItemClone {
    fn git(&self) -> &dyn GitAccess;
    /// Returns where it is on this machine; a simulated one is nowhere.
    fn place(&self) -> Option<RepositoryLocation>;
    /// Returns the item's branch, in full.
    fn branch(&self) -> &str;
    /// Returns the repository as the judge and workflows see it.
    fn work(&self) -> Arc<dyn WorkRepository>;
    /// Imports everything that its refs lead to into the mirror.
    fn transfer(&self) -> Result<(), SlotError>;
    fn leftovers(&self, message: &str) -> Result<Option<KeptLeftovers>, SlotError>;
    /// Points a ref of the clone to an object of the mirror.
    fn point(&self, name: &str, id: &Oid) -> Result<(), SlotError>;
    /// Copies LFS contents that a commit needs to the person's store; returns the files whose contents are nowhere.
    fn transfer_lfs(&self, commit: &Oid) -> Result<Vec<PathBuf>, SlotError>;
}

/// A clone made by git, of a repository on this machine.
struct GitClone {
    slot: Slot,
    person: GateRepository,
}

impl LandingRepository for GateRepository {
    fn place(&self) -> &RepositoryLocation {
        self.git.place()
    }

    fn items(&self) -> &dyn ItemAccess {
        &self.git
    }

    fn truth(&self) -> &dyn GitAccess {
        self.mirror.git()
    }

    fn landing(&self) -> Box<dyn LandingAccess + '_> {
        Box::new(Landing { person: &self.git, mirror: &self.mirror })
    }

    fn mend_mirror(&self) -> Result<bool, MirrorError> {
        self.mirror.mend(&self.git)
    }

    fn home_copy(
        &self,
        directory: &Utf8Path,
        inside: &Path,
    ) -> Result<(Box<dyn HomeAccess>, bool), HomeCopyError> {
        let (copy, is_new) = HomeCopy::open(&self.mirror, directory, inside)?;
        Ok((Box::new(copy), is_new))
    }

    fn size_at(&self, commit: &Oid) -> Result<u64, GitError> {
        checkout_size(&self.mirror, commit)
    }

    fn open_clone(&self, place: &ClonePlace) -> Result<Option<Box<dyn ItemClone>>, SlotError> {
        match Slot::open(self.git.program(), &place.directory, &place.private) {
            // A repository that the agent has destroyed is useless: the item starts over.
            Err(SlotError::Tampered { .. }) => Ok(None),
            opened => Ok(opened?.map(|slot| {
                let clone: Box<dyn ItemClone> = Box::new(GitClone { slot, person: self.clone() });
                clone
            })),
        }
    }

    fn prepare_clone(
        &self,
        request: &CloneRequest<'_>,
        equipment: &mut Equipment<'_>,
    ) -> Result<Box<dyn ItemClone>, WorkflowError> {
        let CloneRequest { place, item, branch, tip, at, prefix } = *request;
        let caches: Vec<Utf8PathBuf> =
            equipment.checkout.cache.iter().map(Utf8PathBuf::from).collect();
        let refs = self.mirror.fill(&self.git, std::slice::from_ref(tip))?;
        let item_branch = branch_for(&ItemKey::new(item), &refs);
        let copied = equipment.copied(self)?;
        let request = SlotRequest {
            directory: &place.directory,
            private: &place.private,
            mirror: &self.mirror,
            person: &self.git,
            refs: &refs,
            base: at,
            branch: &item_branch,
            run_branch: (!branch.is_empty()).then_some((branch, tip)),
            caches: &caches,
            exclude: &copied,
        };
        let (slot, unfilled) = Slot::prepare(&request)?;
        equipment.note_unfilled(&unfilled);
        let slot = equipment.equip(&request, slot, place.number, prefix)?;
        Ok(Box::new(GitClone { slot, person: self.clone() }))
    }
}

impl ItemAccess for Git {
    fn may_have_refs(&self, below: &str) -> bool {
        Git::may_have_refs(self, below)
    }

    fn may_have_items(&self) -> bool {
        Git::may_have_items(self)
    }

    fn read_every_item(&self) -> Result<Vec<ItemRecord>, ItemRefError> {
        Git::read_every_item(self)
    }

    fn write_item(&self, write: &ItemWrite<'_>) -> Result<Oid, ItemRefError> {
        Git::write_item(self, write)
    }

    fn drop_item(&self, record: &ItemRecord) -> Result<bool, ItemRefError> {
        Git::drop_item(self, record)
    }
}

impl LandingAccess for Landing<'_> {
    fn tip(
        &self,
        branch: &str,
        home: &mut dyn FnMut(&MergeSides<'_>) -> Vec<FileEdit>,
    ) -> Result<BranchTip, LandingError> {
        Landing::tip(self, branch, home)
    }

    fn land_marked(
        &self,
        branch: &str,
        read: &TipState,
        commit: &Oid,
        marks: &[(&str, &Oid)],
    ) -> Result<LandOutcome, LandingError> {
        Landing::land_marked(self, branch, read, commit, marks)
    }

    fn follow(&self, branch: &str) -> Result<FollowOutcome, LandingError> {
        Landing::follow(self, branch)
    }

    fn merge(
        &self,
        tip: &Oid,
        candidate: &Oid,
        base: Option<&Oid>,
    ) -> Result<TreeMerge, LandingError> {
        Landing::merge(self, tip, candidate, base)
    }

    fn carry_over(
        &self,
        tip: &Oid,
        base: &Oid,
        candidate: &Oid,
        own: &[PathBuf],
    ) -> Result<Carried, LandingError> {
        Landing::carry_over(self, tip, base, candidate, own)
    }

    fn detached_change(&self, base: &Oid, candidate: &Oid) -> Result<Oid, LandingError> {
        Landing::detached_change(self, base, candidate)
    }

    fn tree_of(&self, commit: &Oid) -> Result<Oid, LandingError> {
        Landing::tree_of(self, commit)
    }

    fn commit(&self, request: &LandingCommit<'_>) -> Result<Oid, LandingError> {
        Landing::commit(self, request)
    }

    fn keep_left(&self, key: &ItemKey, commit: &Oid) -> Result<(), LandingError> {
        Landing::keep_left(self, key, commit)
    }

    fn keep_candidate(
        &self,
        branch: &str,
        key: &ItemKey,
        candidate: &JudgedWork,
    ) -> Result<(), LandingError> {
        Landing::keep_candidate(self, branch, key, candidate)
    }

    fn candidate(&self, branch: &str, key: &ItemKey) -> Result<Option<JudgedWork>, LandingError> {
        Landing::candidate(self, branch, key)
    }

    fn drop_landed_candidates(&self, branch: &str, tip: &Oid) -> Result<(), LandingError> {
        Landing::drop_landed_candidates(self, branch, tip)
    }

    fn drop_candidate(&self, branch: &str, key: &ItemKey) -> Result<(), LandingError> {
        Landing::drop_candidate(self, branch, key)
    }
}

impl HomeAccess for HomeCopy {
    fn git(&self) -> &dyn GitAccess {
        HomeCopy::git(self)
    }

    fn root(&self) -> &Utf8Path {
        let place = HomeCopy::git(self).place();
        place.worktree.as_deref().expect("a copy of home has a work tree")
    }

    fn give_up(&self) -> Result<(), HomeCopyError> {
        HomeCopy::give_up(self)
    }

    fn is_sound(&self) -> bool {
        HomeCopy::is_sound(self)
    }

    fn has_index(&self) -> bool {
        HomeCopy::has_index(self)
    }

    fn mend_index(&self) -> Result<(), GitError> {
        HomeCopy::mend_index(self)
    }

    fn restore(&self, paths: &[PathBuf]) -> Result<(), GitError> {
        HomeCopy::restore(self, paths)
    }

    fn tree_at(&self, commit: Option<&Oid>) -> Result<Oid, GitError> {
        HomeCopy::tree_at(self, commit)
    }

    fn head_tree(&self) -> Result<Oid, GitError> {
        HomeCopy::head_tree(self)
    }

    fn steps(&self, tip: Option<&Oid>) -> Result<Vec<(String, Oid)>, GitError> {
        HomeCopy::steps(self, tip)
    }

    fn stand_on(&self, parent: Option<&Oid>, tree: &Oid) -> Result<(), GitError> {
        HomeCopy::stand_on(self, parent, tree)
    }

    fn tree_with(&self, tree: &Oid, changes: &[HomeChange]) -> Result<Oid, GitError> {
        HomeCopy::git(self).tree_with(tree, changes)
    }

    fn blobs_in(
        &self,
        tree: &Oid,
        paths: &[&Path],
    ) -> Result<Vec<Option<HomeBlob>>, HomeCopyError> {
        HomeCopy::git(self).blobs_in(tree, paths)
    }

    fn blobs(&self, ids: &[Oid]) -> Result<HashMap<Oid, Vec<u8>>, GitError> {
        HomeCopy::git(self).blobs(ids)
    }

    fn write_blob(&self, bytes: &[u8]) -> Result<Oid, GitError> {
        HomeCopy::git(self).write_blob(bytes)
    }

    fn blob_id(&self, bytes: &[u8]) -> Result<Oid, HomeCopyError> {
        HomeCopy::git(self).blob_id(bytes)
    }
}

impl ItemClone for GitClone {
    fn git(&self) -> &dyn GitAccess {
        self.slot.git()
    }

    fn place(&self) -> Option<RepositoryLocation> {
        Some(self.slot.git().place().clone())
    }

    fn branch(&self) -> &str {
        self.slot.branch()
    }

    fn work(&self) -> Arc<dyn WorkRepository> {
        Arc::new(self.person.at(self.slot.git().clone()))
    }

    fn transfer(&self) -> Result<(), SlotError> {
        self.slot.transfer(&self.person.mirror).map(drop)
    }

    fn leftovers(&self, message: &str) -> Result<Option<KeptLeftovers>, SlotError> {
        let (mirror, person) = (&self.person.mirror, &self.person.git);
        self.slot.leftovers(&LeftoverRequest { mirror, person, message })
    }

    fn point(&self, name: &str, id: &Oid) -> Result<(), SlotError> {
        self.slot.point(name, id)
    }

    fn transfer_lfs(&self, commit: &Oid) -> Result<Vec<PathBuf>, SlotError> {
        if !self.slot.git().place().git_dir.join("lfs").exists() {
            return Ok(Vec::new());
        }
        self.slot.transfer_lfs(&self.person.mirror, &self.person.git, commit)
    }
}
