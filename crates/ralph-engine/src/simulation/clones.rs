//! What Ralph makes of a simulated repository of the person's: clones, and the copy of home.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use camino::Utf8Path;

use super::git::{SimulatedGit, Tree, text_of};
use super::repository::SimulatedRepository;
use crate::files::simulated::{effect, put};
use crate::gates::WorkRepository;
use crate::git::home_copy::{HomeBlob, HomeChange, HomeCopyError};
use crate::git::item_refs::ItemKey;
use crate::git::mirror::MirrorError;
use crate::git::slot::{KeptLeftovers, SlotError, branch_for};
use crate::git::{GitError, Oid, RepositoryLocation};
use crate::repository::GitAccess;
use crate::workflow::WorkflowError;
use crate::workflow::isolation::access::{
    ClonePlace, CloneRequest, HomeAccess, ItemAccess, ItemClone, LandingAccess, LandingRepository,
};
use crate::workflow::isolation::equipment::Equipment;

/// The only branch of the copy of home.
const HOME_BRANCH: &str = "refs/heads/home";

/// The copy of home.
struct SimulatedHome {
    git: SimulatedGit,
    inside: PathBuf,
}

/// A clone for an item.
struct SimulatedClone {
    git: SimulatedGit,
    person: SimulatedGit,
    branch: String,
}

impl LandingRepository for SimulatedRepository {
    fn place(&self) -> &RepositoryLocation {
        &self.place
    }

    fn items(&self) -> &dyn ItemAccess {
        &self.git
    }

    fn truth(&self) -> &dyn GitAccess {
        &self.git
    }

    fn landing(&self) -> Box<dyn LandingAccess + '_> {
        Box::new(self.git.clone())
    }

    fn mend_mirror(&self) -> Result<bool, MirrorError> {
        Ok(false)
    }

    fn home_copy(
        &self,
        directory: &Utf8Path,
        inside: &Path,
    ) -> Result<(Box<dyn HomeAccess>, bool), HomeCopyError> {
        let known = self.git.beside(directory).filter(|git| git.state().here().is_whole);
        let is_new = known.is_none();
        let git = known.unwrap_or_else(|| {
            let git = self.git.make_beside(directory, HOME_BRANCH);
            effect(|| "git init of the draft".to_owned());
            git.state().here_mut().is_whole = true;
            effect(|| "the draft is ready".to_owned());
            git
        });
        Ok((Box::new(SimulatedHome { git, inside: inside.to_owned() }), is_new))
    }

    fn size_at(&self, _: &Oid) -> Result<u64, GitError> {
        Ok(0)
    }

    fn open_clone(&self, place: &ClonePlace) -> Result<Option<Box<dyn ItemClone>>, SlotError> {
        let whole = self.git.beside(&place.directory).filter(|git| git.state().here().is_whole);
        Ok(whole.map(|git| {
            let branch = git.state().here().refs.keys().find(|name| is_items(name)).cloned();
            let (person, branch) = (self.git.clone(), branch.unwrap_or_default());
            let clone: Box<dyn ItemClone> = Box::new(SimulatedClone { git, person, branch });
            clone
        }))
    }

    fn prepare_clone(
        &self,
        request: &CloneRequest<'_>,
        _: &mut Equipment<'_>,
    ) -> Result<Box<dyn ItemClone>, WorkflowError> {
        let refs = self.git.refs()?;
        let branch = branch_for(&ItemKey::new(request.item), &refs);
        let git = self.git.make_beside(&request.place.directory, &branch);
        effect(|| format!("git clone into {}", request.place.directory));
        let tree = self.git.state().tree_at(request.at).unwrap_or_default();
        for (path, blob) in tree.iter() {
            put(&git.path(path), Some(&blob.content));
        }
        let mut state = git.state();
        let own = &mut state.here_mut().refs;
        for found in refs.refs.iter().filter(|one| one.name.starts_with("refs/heads/")) {
            own.insert(found.name.clone(), found.id.clone());
        }
        own.insert(request.branch.to_owned(), request.tip.clone());
        own.insert(branch.clone(), request.at.clone());
        state.here_mut().is_whole = true;
        drop(state);
        effect(|| format!("the clone of {} is ready", request.item));
        let person = self.git.clone();
        Ok(Box::new(SimulatedClone { git, person, branch }))
    }
}

/// Whether a branch of a clone is its item's.
fn is_items(branch: &str) -> bool {
    branch.starts_with("refs/heads/ralph/")
}

impl ItemClone for SimulatedClone {
    fn git(&self) -> &dyn GitAccess {
        &self.git
    }

    fn place(&self) -> Option<RepositoryLocation> {
        None
    }

    fn branch(&self) -> &str {
        &self.branch
    }

    fn work(&self) -> Arc<dyn WorkRepository> {
        let person = Some(self.person.clone());
        Arc::new(SimulatedRepository::of(self.git.clone(), person))
    }

    fn transfer(&self) -> Result<(), SlotError> {
        effect(|| "git fetch from the clone".to_owned());
        Ok(())
    }

    fn leftovers(&self, message: &str) -> Result<Option<KeptLeftovers>, SlotError> {
        let status = self.git.status()?;
        let mut paths: Vec<PathBuf> = status.into_iter().map(|entry| entry.path).collect();
        paths.sort();
        let Some(parent) = self.git.head()?.id().cloned() else { return Ok(None) };
        if paths.is_empty() {
            return Ok(None);
        }
        let commit = Some(self.git.commit_aside(&paths, message));
        let (nested, unfiltered) = (Vec::new(), Vec::new());
        Ok(Some(KeptLeftovers { commit, parent, paths, nested, unfiltered }))
    }

    fn point(&self, name: &str, id: &Oid) -> Result<(), SlotError> {
        self.git.state().here_mut().refs.insert(name.to_owned(), id.clone());
        effect(|| format!("git update-ref {name}"));
        Ok(())
    }

    fn transfer_lfs(&self, _: &Oid) -> Result<Vec<PathBuf>, SlotError> {
        Ok(Vec::new())
    }
}

impl SimulatedHome {
    fn tree(&self, id: &Oid) -> Arc<Tree> {
        self.git.state().tree_at(id).unwrap_or_default()
    }

    fn keep(&self, tree: Tree) -> Oid {
        self.git.state().keep_tree(tree).0
    }
}

impl HomeAccess for SimulatedHome {
    fn git(&self) -> &dyn GitAccess {
        &self.git
    }

    fn root(&self) -> &Utf8Path {
        &self.git.root
    }

    fn give_up(&self) -> Result<(), HomeCopyError> {
        self.git.state().here_mut().is_whole = false;
        effect(|| "the draft is given up".to_owned());
        Ok(())
    }

    fn is_sound(&self) -> bool {
        true
    }

    /// The index is not modelled; git makes it with the first commit.
    fn has_index(&self) -> bool {
        self.git.head().is_ok_and(|head| head.id().is_some())
    }

    fn mend_index(&self) -> Result<(), GitError> {
        Ok(())
    }

    fn restore(&self, paths: &[PathBuf]) -> Result<(), GitError> {
        let tree = self.git.state().head_tree();
        let damaged = paths.iter().map(|path| text_of(path));
        for path in damaged.chain(tree.keys().map(|path| &**path)) {
            put(&self.git.path(path), tree.get(path).map(|blob| &*blob.content));
        }
        effect(|| "git checkout-index in the draft".to_owned());
        Ok(())
    }

    fn tree_at(&self, commit: Option<&Oid>) -> Result<Oid, GitError> {
        let tree = commit.map(|commit| self.tree(commit)).unwrap_or_default();
        let home = tree.iter().filter(|(path, _)| Path::new(&***path).starts_with(&self.inside));
        Ok(self.keep(home.map(|(path, blob)| (Arc::clone(path), blob.clone())).collect()))
    }

    fn head_tree(&self) -> Result<Oid, GitError> {
        let tree = self.git.state().head_tree();
        Ok(self.keep((*tree).clone()))
    }

    fn steps(&self, tip: Option<&Oid>) -> Result<Vec<(String, Oid)>, GitError> {
        let Some(head) = self.git.head()?.id().cloned() else { return Ok(Vec::new()) };
        let state = self.git.state();
        let published = state.reachable(tip.cloned().into_iter());
        let own = state.reachable(std::iter::once(head));
        let own = own.difference(&published).map(|number| &state.commits[*number]);
        let message = |text: &str| format!("{}\n", text.trim_end());
        Ok(own.map(|commit| (message(&commit.message), commit.tree_id.clone())).collect())
    }

    fn stand_on(&self, parent: Option<&Oid>, tree: &Oid) -> Result<(), GitError> {
        let before = self.git.state().head_tree();
        let after = self.tree(tree);
        if before != after {
            for path in before.keys().chain(after.keys()) {
                let (old, new) = (before.get(path), after.get(path));
                if old != new {
                    put(&self.git.path(path), new.map(|blob| &*blob.content));
                }
            }
            effect(|| "git read-tree in the draft".to_owned());
        }
        let mut state = self.git.state();
        let parents: Vec<&Oid> = parent.into_iter().collect();
        let made = state.add_on((*after).clone(), &parents, "ralph: update home\n");
        state.here_mut().refs.insert(HOME_BRANCH.to_owned(), made);
        drop(state);
        effect(|| "git update-ref in the draft".to_owned());
        Ok(())
    }

    fn tree_with(&self, tree: &Oid, changes: &[HomeChange]) -> Result<Oid, GitError> {
        let mut tree = (*self.tree(tree)).clone();
        let mut state = self.git.state();
        for HomeChange { path, after } in changes {
            let name = text_of(path);
            match after.as_ref().and_then(|blob| state.blob(&blob.id)).cloned() {
                Some(content) => drop(tree.insert(name.into(), super::git::Blob::new(&content))),
                None => drop(tree.remove(name)),
            }
        }
        Ok(state.keep_tree(tree).0)
    }

    fn blobs_in(
        &self,
        tree: &Oid,
        paths: &[&Path],
    ) -> Result<Vec<Option<HomeBlob>>, HomeCopyError> {
        let tree = self.tree(tree);
        let found = paths.iter().map(|path| {
            let blob = tree.get(text_of(path))?;
            Some(HomeBlob { mode: "100644".to_owned(), id: blob.id.clone() })
        });
        Ok(found.collect())
    }

    fn blobs(&self, ids: &[Oid]) -> Result<HashMap<Oid, Vec<u8>>, GitError> {
        let state = self.git.state();
        let found = ids.iter().filter_map(|id| Some((id.clone(), state.blob(id)?.to_vec())));
        Ok(found.collect())
    }

    fn write_blob(&self, bytes: &[u8]) -> Result<Oid, GitError> {
        Ok(self.git.state().keep_blob(bytes).id)
    }

    fn blob_id(&self, bytes: &[u8]) -> Result<Oid, HomeCopyError> {
        Ok(super::git::Blob::new(bytes).id)
    }
}
