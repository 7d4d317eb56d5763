//! Landings in the simulated repository, by the same rules as `ralph_git::landing` and `ralph_git::item_refs`.
//!
//! Files merge as a whole: lines are not. A landing moves its refs in one effect, the checked-out branch follows with its
//! files in another, and the refs of the landing go in a third.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::git::{GitState, SimulatedGit, Tree, failed, text_of};
use crate::files::simulated::effect;
use crate::git::evidence::is_own;
use crate::git::item_refs::{ItemKey, ItemRecord, ItemRefError, ItemWrite};
use crate::git::landing::{
    BranchTip, Carried, FileEdit, FollowOutcome, JudgedWork, LandOutcome, LandingCommit,
    LandingError, MergeSides, NewerCommits, TipState, TreeMerge, WaitReason,
};
use crate::git::{Head, Oid};
use crate::repository::GitAccess;
use crate::workflow::isolation::access::{ItemAccess, LandingAccess};

const LANDED: &str = "refs/ralph/landed/";
const FOLLOWED: &str = "refs/ralph/followed/";
const ITEMS: &str = "refs/ralph/item/";
const CANDIDATES: &str = "refs/ralph/candidate/";

/// How often following is tried again after a lost race.
const ATTEMPTS: usize = 16;

/// What is expected of refs, and what they become.
#[derive(Default)]
struct RefTransaction {
    expected: Vec<(String, Option<Oid>)>,
    wanted: Vec<(String, Option<Oid>)>,
}

impl RefTransaction {
    fn verify(mut self, name: &str, now: Option<&Oid>) -> Self {
        self.expected.push((name.to_owned(), now.cloned()));
        self
    }

    fn set(mut self, name: &str, id: &Oid) -> Self {
        self.wanted.push((name.to_owned(), Some(id.clone())));
        self
    }

    fn update(mut self, name: &str, id: Option<&Oid>, now: Option<&Oid>) -> Self {
        self.wanted.push((name.to_owned(), id.cloned()));
        self.verify(name, now)
    }

    /// Moves all refs, or none if one is not as expected.
    fn commit(self, git: &SimulatedGit, what: &str) -> bool {
        let mut state = git.state();
        let refs = &mut state.here_mut().refs;
        if self.expected.iter().any(|(name, now)| refs.get(name) != now.as_ref()) {
            return false;
        }
        for (name, id) in self.wanted {
            match id {
                Some(id) => drop(refs.insert(name, id)),
                None => drop(refs.remove(&name)),
            }
        }
        drop(state);
        effect(|| format!("git update-ref: {what}"));
        true
    }
}

/// The refs of a branch.
struct BranchRefs {
    branch: Option<Oid>,
    landed: Option<Oid>,
    followed: Option<Oid>,
}

fn short(branch: &str) -> &str {
    branch.strip_prefix("refs/heads/").unwrap_or(branch)
}

fn landed_ref(branch: &str) -> String {
    format!("{LANDED}{}", short(branch))
}

fn followed_ref(branch: &str) -> String {
    format!("{FOLLOWED}{}", short(branch))
}

fn candidate_ref(branch: &str, key: &ItemKey, part: &str) -> String {
    format!("{CANDIDATES}{}/{key}/{part}", ItemKey::new(short(branch)))
}

/// Takes some paths of a tree from another one.
fn with_paths_of(tree: &Tree, other: &Tree, paths: &[PathBuf]) -> Tree {
    let is_named = |path: &Arc<str>| is_own(paths, Path::new(&**path));
    let others = other.iter().filter(|(path, _)| is_named(path));
    let kept = tree.iter().filter(|(path, _)| !is_named(path));
    kept.chain(others).map(|(path, blob)| (Arc::clone(path), blob.clone())).collect()
}

/// Merges two trees path by path; returns the paths that both changed, each in its own way.
fn merged(base: &Tree, ours: &Tree, theirs: &Tree) -> (Tree, Vec<PathBuf>) {
    let paths: BTreeSet<&Arc<str>> = base.keys().chain(ours.keys()).chain(theirs.keys()).collect();
    let (mut tree, mut conflicts) = (BTreeMap::new(), Vec::new());
    for path in paths {
        let (base, ours, theirs) = (base.get(path), ours.get(path), theirs.get(path));
        let kept = if ours == base || ours == theirs {
            theirs
        } else if theirs == base {
            ours
        } else {
            conflicts.push(PathBuf::from(&**path));
            ours.or(theirs)
        };
        if let Some(kept) = kept {
            tree.insert(Arc::clone(path), kept.clone());
        }
    }
    (tree, conflicts)
}

impl GitState {
    fn tree_or_fail(&self, id: &Oid) -> Result<Arc<Tree>, LandingError> {
        Ok(self.tree_at(id).ok_or_else(|| failed("cat-file", "no such object"))?)
    }

    fn branch_refs(&self, branch: &str) -> BranchRefs {
        let found = |name: &str| self.here().refs.get(name).cloned();
        BranchRefs {
            branch: found(branch),
            landed: found(&landed_ref(branch)),
            followed: found(&followed_ref(branch)),
        }
    }

    fn contains_followed(&self, now: &Oid, refs: &BranchRefs) -> bool {
        refs.followed.as_ref().is_some_and(|followed| self.is_ancestor(followed, now))
    }
}

impl SimulatedGit {
    /// Returns what is on `main`, with what has landed and not been followed.
    pub(super) fn tip_tree(&self) -> Arc<Tree> {
        let state = self.state();
        let refs = state.branch_refs("refs/heads/main");
        let tip = refs.landed.or(refs.branch);
        tip.and_then(|tip| state.tree_at(&tip)).unwrap_or_default()
    }

    /// Deletes the refs of a landing that the branch has followed; `false` if they moved meanwhile.
    fn finish_following(&self, branch: &str, now: &Oid, refs: &BranchRefs) -> bool {
        let transaction = RefTransaction::default()
            .verify(branch, Some(now))
            .update(&landed_ref(branch), None, refs.landed.as_ref())
            .update(&followed_ref(branch), None, refs.followed.as_ref());
        transaction.commit(self, "followed")
    }

    /// Merges the person's newer commits with landed work.
    fn merge_newer(
        &self,
        branch: &str,
        landed: &Oid,
        now: &Oid,
        home: &mut dyn FnMut(&MergeSides<'_>) -> Vec<FileEdit>,
    ) -> Result<Result<Oid, Vec<PathBuf>>, LandingError> {
        let (tree, conflicts) = match LandingAccess::merge(self, landed, now, None)? {
            TreeMerge::Clean { tree } => (tree, Vec::new()),
            TreeMerge::Conflict { tree, paths } => (tree, paths),
        };
        let edits = home(&MergeSides { ours: landed, theirs: now, conflicts: &conflicts });
        let is_open = |path: &&PathBuf| !edits.iter().any(|edit| edit.path == **path);
        let open: Vec<PathBuf> = conflicts.iter().filter(is_open).cloned().collect();
        if !open.is_empty() {
            return Ok(Err(open));
        }
        Ok(Ok(LandingAccess::commit(
            self,
            &LandingCommit {
                tree: &tree,
                tip: landed,
                as_in_tip: &[],
                edits: &edits,
                parents: &[landed, now],
                message: &format!("Merge branch '{}' into landed work\n", short(branch)),
                signing: crate::git::commits::Signing::Unsigned,
            },
        )?))
    }

    fn squashed(&self, tree: Tree, parents: &[&Oid], candidate: &Oid) -> Oid {
        let mut state = self.state();
        let message = state.find(candidate.as_str()).map(|commit| commit.message.clone());
        let made = state.add_on(tree, parents, &message.unwrap_or_default());
        drop(state);
        effect(|| "git commit-tree".to_owned());
        made
    }
}

impl LandingAccess for SimulatedGit {
    fn tip(
        &self,
        branch: &str,
        home: &mut dyn FnMut(&MergeSides<'_>) -> Vec<FileEdit>,
    ) -> Result<BranchTip, LandingError> {
        let refs = self.state().branch_refs(branch);
        let (now, landed) = match (refs.branch.clone(), refs.landed.clone()) {
            (None, None) => return Ok(BranchTip::Unborn),
            (Some(now), None) => {
                let commit = now.clone();
                return Ok(BranchTip::At(TipState { commit, branch: now, landed: None }));
            }
            (None, Some(landed)) => {
                let followed = refs.followed;
                return Ok(BranchTip::Diverged { landed, branch: None, followed });
            }
            (Some(now), Some(landed)) => (now, landed),
        };
        let state = self.state();
        let (is_behind, is_ahead) =
            (state.is_ancestor(&landed, &now), state.is_ancestor(&now, &landed));
        let has_followed = state.contains_followed(&now, &refs);
        drop(state);
        let at = |commit: &Oid| {
            let (commit, landed) = (commit.clone(), Some(landed.clone()));
            TipState { commit, branch: now.clone(), landed }
        };
        if is_behind {
            return Ok(BranchTip::At(at(&now)));
        }
        if !has_followed {
            let (branch, followed) = (Some(now), refs.followed);
            return Ok(BranchTip::Diverged { landed, branch, followed });
        }
        if is_ahead {
            return Ok(BranchTip::At(at(&landed)));
        }
        Ok(match self.merge_newer(branch, &landed, &now, home)? {
            Ok(merge) => BranchTip::Newer(NewerCommits { read: at(&landed), merge }),
            Err(paths) => BranchTip::Conflict { landed, branch: now, paths },
        })
    }

    fn land_marked(
        &self,
        branch: &str,
        read: &TipState,
        commit: &Oid,
        marks: &[(&str, &Oid)],
    ) -> Result<LandOutcome, LandingError> {
        effect(|| "git fetch from the mirror".to_owned());
        let mut transaction = RefTransaction::default()
            .verify(branch, Some(&read.branch))
            .update(&landed_ref(branch), Some(commit), read.landed.as_ref())
            .set(&followed_ref(branch), &read.branch);
        for (name, id) in marks {
            transaction = transaction.set(name, id);
        }
        let is_landed = transaction.commit(self, "landed");
        Ok(if is_landed { LandOutcome::Landed } else { LandOutcome::Lost })
    }

    fn follow(&self, branch: &str) -> Result<FollowOutcome, LandingError> {
        for _ in 0..ATTEMPTS {
            let refs = self.state().branch_refs(branch);
            let Some(landed) = refs.landed.clone() else { return Ok(FollowOutcome::Current) };
            let Some(now) = refs.branch.clone() else {
                return Ok(FollowOutcome::Diverged { landed, branch: None });
            };
            let state = self.state();
            let (is_behind, is_ahead) =
                (state.is_ancestor(&landed, &now), state.is_ancestor(&now, &landed));
            let has_followed = state.contains_followed(&now, &refs);
            drop(state);
            if is_behind {
                if self.finish_following(branch, &now, &refs) {
                    return Ok(FollowOutcome::Followed { commit: now });
                }
                continue;
            }
            if !has_followed {
                return Ok(FollowOutcome::Diverged { landed, branch: Some(now) });
            }
            if !is_ahead {
                return Ok(FollowOutcome::NewerCommits { landed, branch: now });
            }
            let is_checked_out =
                matches!(self.head()?, Head::Branch { name, .. } if name == branch);
            if is_checked_out {
                let files = self.obstacles(&landed)?;
                if !files.is_empty() {
                    let files = files.iter().map(|path| PathBuf::from(&**path)).collect();
                    let worktree = self.root.clone().into();
                    let reason = WaitReason::Uncommitted;
                    return Ok(FollowOutcome::Waits { landed, worktree, files, reason });
                }
                self.check_out(&landed, false)?;
                self.state().move_head(landed.clone());
                effect(|| "the checkout follows".to_owned());
            } else {
                let moved = RefTransaction::default().update(branch, Some(&landed), Some(&now));
                if !moved.commit(self, "the branch follows") {
                    continue;
                }
            }
            if self.finish_following(branch, &landed, &refs) {
                return Ok(FollowOutcome::Followed { commit: landed });
            }
        }
        Err(LandingError::Contended { branch: branch.to_owned() })
    }

    fn merge(
        &self,
        tip: &Oid,
        candidate: &Oid,
        base: Option<&Oid>,
    ) -> Result<TreeMerge, LandingError> {
        let base = match base {
            Some(base) => Some(base.clone()),
            None => self.merge_base(tip, candidate)?,
        };
        let mut state = self.state();
        let base = base.and_then(|base| state.tree_at(&base)).unwrap_or_default();
        let (ours, theirs) = (state.tree_or_fail(tip)?, state.tree_or_fail(candidate)?);
        let (tree, paths) = merged(&base, &ours, &theirs);
        let (tree, _) = state.keep_tree(tree);
        Ok(if paths.is_empty() {
            TreeMerge::Clean { tree }
        } else {
            TreeMerge::Conflict { tree, paths }
        })
    }

    fn carry_over(
        &self,
        tip: &Oid,
        base: &Oid,
        candidate: &Oid,
        own: &[PathBuf],
    ) -> Result<Carried, LandingError> {
        let tree = match LandingAccess::merge(self, tip, candidate, Some(base))? {
            TreeMerge::Conflict { paths, .. } if paths.iter().any(|path| !is_own(own, path)) => {
                return Ok(Carried::Conflict(paths));
            }
            TreeMerge::Clean { tree } | TreeMerge::Conflict { tree, .. } => tree,
        };
        let state = self.state();
        let (tree, at_tip) = (state.tree_or_fail(&tree)?, state.tree_or_fail(tip)?);
        drop(state);
        let tree = with_paths_of(&tree, &at_tip, own);
        if tree == *at_tip {
            return Ok(Carried::Nothing);
        }
        Ok(Carried::Commit(self.squashed(tree, &[tip], candidate)))
    }

    fn detached_change(&self, base: &Oid, candidate: &Oid) -> Result<Oid, LandingError> {
        let mut state = self.state();
        let (before, after) = (state.tree_or_fail(base)?, state.tree_or_fail(candidate)?);
        let before = state.add_on((*before).clone(), &[], "before the change\n");
        drop(state);
        Ok(self.squashed((*after).clone(), &[&before], candidate))
    }

    fn tree_of(&self, commit: &Oid) -> Result<Oid, LandingError> {
        let found = self.find_commit(commit.as_str())?;
        Ok(found.ok_or_else(|| failed("rev-parse", "no such commit"))?.tree)
    }

    fn commit(&self, request: &LandingCommit<'_>) -> Result<Oid, LandingError> {
        let LandingCommit { tree, tip, as_in_tip, edits, parents, message, .. } = *request;
        let mut state = self.state();
        let (tree, tip) = (state.tree_or_fail(tree)?, state.tree_or_fail(tip)?);
        let mut tree = with_paths_of(&tree, &tip, as_in_tip);
        for FileEdit { path, content } in edits {
            match content {
                Some(content) => {
                    let blob = state.keep_blob(content);
                    tree.insert(text_of(path).into(), blob);
                }
                None => drop(tree.remove(text_of(path))),
            }
        }
        let made = state.add_on(tree, parents, message);
        drop(state);
        effect(|| format!("git commit-tree {:?}", message.lines().next().unwrap_or_default()));
        Ok(made)
    }

    fn keep_left(&self, key: &ItemKey, commit: &Oid) -> Result<(), LandingError> {
        RefTransaction::default().set(&key.left_ref(), commit).commit(self, "left");
        Ok(())
    }

    fn keep_candidate(
        &self,
        branch: &str,
        key: &ItemKey,
        candidate: &JudgedWork,
    ) -> Result<(), LandingError> {
        if LandingAccess::candidate(self, branch, key)?.as_ref() != Some(candidate) {
            RefTransaction::default()
                .set(&candidate_ref(branch, key, "base"), &candidate.base)
                .set(&candidate_ref(branch, key, "work"), &candidate.work)
                .commit(self, "candidate");
        }
        Ok(())
    }

    fn candidate(&self, branch: &str, key: &ItemKey) -> Result<Option<JudgedWork>, LandingError> {
        let state = self.state();
        let found = |part: &str| state.here().refs.get(&candidate_ref(branch, key, part)).cloned();
        Ok(found("base").zip(found("work")).map(|(base, work)| JudgedWork { base, work }))
    }

    fn drop_landed_candidates(&self, branch: &str, tip: &Oid) -> Result<(), LandingError> {
        let below = format!("{CANDIDATES}{}/", ItemKey::new(short(branch)));
        let state = self.state();
        let works = state.here().refs.iter().filter(|(name, id)| {
            name.starts_with(&below) && name.ends_with("/work") && state.is_ancestor(id, tip)
        });
        let works: Vec<(String, Oid)> =
            works.map(|(name, id)| (name.clone(), id.clone())).collect();
        drop(state);
        for (work, id) in works {
            let base = format!("{}/base", work.trim_end_matches("/work"));
            let now = self.resolve(&base)?;
            let gone = RefTransaction::default().update(&work, None, Some(&id));
            gone.update(&base, None, now.as_ref()).commit(self, "candidate");
        }
        Ok(())
    }

    fn drop_candidate(&self, branch: &str, key: &ItemKey) -> Result<(), LandingError> {
        let Some(candidate) = LandingAccess::candidate(self, branch, key)? else { return Ok(()) };
        RefTransaction::default()
            .update(&candidate_ref(branch, key, "base"), None, Some(&candidate.base))
            .update(&candidate_ref(branch, key, "work"), None, Some(&candidate.work))
            .commit(self, "candidate");
        Ok(())
    }
}

impl ItemAccess for SimulatedGit {
    fn may_have_refs(&self, below: &str) -> bool {
        self.state().here().refs.keys().any(|name| name.starts_with(below))
    }

    fn may_have_items(&self) -> bool {
        self.may_have_refs(ITEMS)
    }

    fn read_every_item(&self) -> Result<Vec<ItemRecord>, ItemRefError> {
        let state = self.state();
        let records = state.here().refs.iter().filter_map(|(name, id)| {
            let (key, number) = name.strip_prefix(ITEMS)?.rsplit_once('/')?;
            let commit = state.find(id.as_str())?;
            let files = commit.tree.iter();
            Some(ItemRecord {
                key: state.item_keys.get(key)?.clone(),
                number: number.parse().ok()?,
                commit: id.clone(),
                message: commit.message.clone(),
                files: files.map(|(path, blob)| ((**path).into(), blob.content.to_vec())).collect(),
            })
        });
        Ok(records.collect())
    }

    fn write_item(&self, write: &ItemWrite<'_>) -> Result<Oid, ItemRefError> {
        let ItemWrite { key, number, files, message, previous } = *write;
        let mut state = self.state();
        let mut tree = Tree::new();
        for (path, content) in files {
            let blob = state.keep_blob(content);
            tree.insert(text_of(path).into(), blob);
        }
        let parents: Vec<&Oid> = previous.into_iter().collect();
        let made = state.add_on(tree, &parents, message);
        state.item_keys.insert(key.to_string(), key.clone());
        drop(state);
        effect(|| format!("git commit-tree for {key}"));
        let name = format!("{ITEMS}{key}/{number}");
        let moved = RefTransaction::default().update(&name, Some(&made), previous);
        if moved.commit(self, "in flight") {
            return Ok(made);
        }
        Err(ItemRefError::Lost { key: key.clone() })
    }

    fn drop_item(&self, record: &ItemRecord) -> Result<bool, ItemRefError> {
        let name = format!("{ITEMS}{}/{}", record.key, record.number);
        let gone = RefTransaction::default().update(&name, None, Some(&record.commit));
        Ok(gone.commit(self, "in flight no more"))
    }
}
