//! The repositories of a simulated machine, in memory, with their working trees on the simulated disk.
//!
//! Commits, refs, `HEAD`, notes and ignore files are modelled; the index is not, so nothing is ever staged. One git
//! command is one effect, because a started git process completes even if Ralph dies meanwhile. Commits and refs are
//! durable at once. All repositories share their objects: the person's, the draft of home, and clones.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use ralph_model::plan::Record;

use crate::files::simulated::{each_file_below, effect, get, put};
use crate::git::commits::{CommitError, CommitRequest, Committed};
use crate::git::evidence::{Dirt, DirtyPath, FileStamp, is_own};
use crate::git::home_copy::{HomeBlob, HomeChange};
use crate::git::item_refs::ItemKey;
use crate::git::replaced::Replaced;
use crate::git::saved::SavedDirt;
use crate::git::undo::RefReturn;
use crate::git::{
    ChangeKind, CommitHeader, GitError, Head, Oid, PathChange, PathState, Ref, RefsSnapshot,
    StatusEntry,
};
use crate::repository::{GitAccess, HeldFile};

/// A file of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Blob {
    pub(super) id: Oid,
    pub(super) content: Arc<[u8]>,
}

impl RepositoryState {
    fn new(root: &Utf8Path, branch: &str) -> RepositoryState {
        let head = HeadState::Branch(branch.to_owned());
        RepositoryState { root: root.to_owned(), refs: BTreeMap::new(), head, is_whole: false }
    }
}

impl Blob {
    pub(super) fn new(content: &[u8]) -> Blob {
        Blob { id: id_of(&[b"blob", content]), content: content.into() }
    }
}

pub(super) type Tree = BTreeMap<Arc<str>, Blob>;

#[derive(Clone, Debug)]
pub(super) struct SimulatedCommit {
    pub(super) id: Oid,
    pub(super) message: String,
    pub(super) tree_id: Oid,
    pub(super) tree: Arc<Tree>,
    /// By number; always of earlier commits.
    pub(super) parents: Vec<usize>,
}

#[derive(Clone, Debug)]
enum HeadState {
    Branch(String),
    Detached(Oid),
}

/// What one repository has of its own.
#[derive(Debug)]
pub(super) struct RepositoryState {
    root: Utf8PathBuf,
    pub(super) refs: BTreeMap<String, Oid>,
    head: HeadState,
    /// Ralph completed making it; the next opening recreates one that is not whole.
    pub(super) is_whole: bool,
}

/// All repositories, as seen from one of them.
#[derive(Debug)]
pub(super) struct GitState {
    pub(super) commits: Vec<SimulatedCommit>,
    by_id: HashMap<Oid, usize>,
    trees: HashMap<Oid, Arc<Tree>>,
    blobs: HashMap<Oid, Arc<[u8]>>,
    repositories: Vec<RepositoryState>,
    /// The one that it is seen from.
    at: usize,
    pub(super) notes: BTreeMap<Oid, String>,
    /// All ids that were ever in a committed plan.
    pub(super) plan_ids: BTreeSet<String>,
    /// The keys of items that have or had state on refs.
    pub(super) item_keys: BTreeMap<String, ItemKey>,
}

/// A repository.
#[derive(Clone, Debug)]
pub(super) struct SimulatedGit {
    pub(super) root: Utf8PathBuf,
    number: usize,
    state: Arc<Mutex<GitState>>,
}

/// Hashes to something that looks like an object id.
fn id_of(parts: &[&[u8]]) -> Oid {
    let mut hash: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    for part in parts {
        for byte in part.iter().chain(&[0xff]) {
            hash = (hash ^ u128::from(*byte)).wrapping_mul(0x0100_0000_0000_0000_0000_013b);
        }
    }
    let text = format!("{hash:032x}{:08x}", (hash ^ (hash >> 64)) & 0xffff_ffff);
    Oid::parse(text.as_bytes()).expect("it has forty hexadecimal digits")
}

pub(super) fn failed(args: &str, why: &str) -> GitError {
    GitError::Failed { args: args.to_owned(), code: Some(1), stderr: why.to_owned() }
}

pub(super) fn text_of(path: &Path) -> &str {
    path.to_str().expect("paths of the simulation are text")
}

impl GitState {
    pub(super) fn here(&self) -> &RepositoryState {
        &self.repositories[self.at]
    }

    pub(super) fn here_mut(&mut self) -> &mut RepositoryState {
        &mut self.repositories[self.at]
    }

    fn number(&self, id: &Oid) -> Option<usize> {
        self.by_id.get(id).copied()
    }

    fn head_id(&self) -> Option<&Oid> {
        match &self.here().head {
            HeadState::Branch(name) => self.here().refs.get(name),
            HeadState::Detached(id) => Some(id),
        }
    }

    pub(super) fn head_tree(&self) -> Arc<Tree> {
        let head = self.head_id().and_then(|id| self.number(id));
        head.map(|number| Arc::clone(&self.commits[number].tree)).unwrap_or_default()
    }

    pub(super) fn tree_at(&self, id: &Oid) -> Option<Arc<Tree>> {
        let of_commit = self.number(id).map(|number| &self.commits[number].tree);
        of_commit.or_else(|| self.trees.get(id)).cloned()
    }

    pub(super) fn blob(&self, id: &Oid) -> Option<&Arc<[u8]>> {
        self.blobs.get(id)
    }

    fn has(&self, id: &Oid) -> bool {
        self.by_id.contains_key(id) || self.trees.contains_key(id) || self.blobs.contains_key(id)
    }

    /// Stores a content.
    pub(super) fn keep_blob(&mut self, content: &[u8]) -> Blob {
        let blob = Blob::new(content);
        self.blobs.insert(blob.id.clone(), Arc::clone(&blob.content));
        blob
    }

    /// Stores a tree with its contents; returns its id.
    pub(super) fn keep_tree(&mut self, tree: Tree) -> (Oid, Arc<Tree>) {
        let mut parts: Vec<&[u8]> = Vec::new();
        for (path, blob) in &tree {
            parts.extend([path.as_bytes(), blob.id.as_str().as_bytes()]);
        }
        let id = id_of(&parts);
        if let Some(known) = self.trees.get(&id) {
            return (id, Arc::clone(known));
        }
        for blob in tree.values() {
            self.blobs.insert(blob.id.clone(), Arc::clone(&blob.content));
        }
        let tree = Arc::new(tree);
        self.trees.insert(id.clone(), Arc::clone(&tree));
        (id, tree)
    }

    fn head(&self) -> Head {
        match &self.here().head {
            HeadState::Detached(id) => Head::Detached { id: id.clone() },
            HeadState::Branch(name) => match self.here().refs.get(name) {
                Some(id) => Head::Branch { name: name.clone(), id: id.clone() },
                None => Head::Unborn { name: name.clone() },
            },
        }
    }

    pub(super) fn add(&mut self, tree: Tree, parents: Vec<usize>, message: &str) -> Oid {
        let (tree_id, tree) = self.keep_tree(tree);
        let number = self.commits.len();
        let id = id_of(&[tree_id.as_str().as_bytes(), message.as_bytes(), &number.to_le_bytes()]);
        let (message, made) = (message.to_owned(), id.clone());
        self.commits.push(SimulatedCommit { id: made, message, tree_id, tree, parents });
        self.by_id.insert(id.clone(), number);
        id
    }

    /// Adds a commit on top of others.
    pub(super) fn add_on(&mut self, tree: Tree, parents: &[&Oid], message: &str) -> Oid {
        let parents = parents.iter().filter_map(|id| self.number(id)).collect();
        self.add(tree, parents, message)
    }

    pub(super) fn move_head(&mut self, id: Oid) {
        let RepositoryState { head, refs, .. } = self.here_mut();
        match head {
            HeadState::Branch(name) => drop(refs.insert(name.clone(), id)),
            HeadState::Detached(at) => *at = id,
        }
    }

    /// Commits a tree on top of `HEAD`, unless `HEAD` already has it.
    fn commit(&mut self, tree: Tree, message: &str) -> Option<Oid> {
        if *self.head_tree() == tree {
            return None;
        }
        let parents = self.head_id().and_then(|id| self.number(id)).into_iter().collect();
        let id = self.add(tree, parents, message);
        self.move_head(id.clone());
        Some(id)
    }

    /// Returns all ancestors of some commits, including them.
    pub(super) fn reachable(&self, tips: impl Iterator<Item = Oid>) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        let mut open: Vec<usize> = tips.filter_map(|id| self.number(&id)).collect();
        while let Some(number) = open.pop() {
            if found.insert(number) {
                open.extend(&self.commits[number].parents);
            }
        }
        found
    }

    pub(super) fn is_ancestor(&self, ancestor: &Oid, descendant: &Oid) -> bool {
        let (Some(ancestor), Some(descendant)) = (self.number(ancestor), self.number(descendant))
        else {
            return false;
        };
        // Parents always have lower numbers.
        let (mut open, mut seen) = (vec![descendant], HashSet::new());
        while let Some(number) = open.pop() {
            if number == ancestor {
                return true;
            }
            if number > ancestor && seen.insert(number) {
                open.extend(&self.commits[number].parents);
            }
        }
        false
    }

    pub(super) fn refs(&self, root: &Utf8Path) -> RefsSnapshot {
        let refs = self.here().refs.iter();
        let refs = refs.map(|(name, id)| Ref { name: name.clone(), id: id.clone() });
        let heads = self.head_id().map(|id| (root.as_std_path().to_owned(), id.clone()));
        let worktree_heads = heads.into_iter().collect();
        RefsSnapshot { head: self.head(), refs: refs.collect(), worktree_heads }
    }

    pub(super) fn find(&self, claimed: &str) -> Option<&SimulatedCommit> {
        let is_id = (4..=64).contains(&claimed.len())
            && claimed.bytes().all(|byte| byte.is_ascii_hexdigit());
        let claimed = claimed.to_ascii_lowercase();
        let mut found =
            self.commits.iter().filter(|commit| is_id && commit.id.as_str().starts_with(&claimed));
        let first = found.next()?;
        found.next().is_none().then_some(first)
    }

    fn resolve(&self, name: &str) -> Option<Oid> {
        if name == "HEAD" {
            return self.head_id().cloned();
        }
        let named = ["", "refs/", "refs/tags/", "refs/heads/"];
        let found = named.iter().find_map(|start| self.here().refs.get(&format!("{start}{name}")));
        found.cloned().or_else(|| self.find(name).map(|commit| commit.id.clone()))
    }

    pub(super) fn changes(from: &Tree, to: &Tree) -> Vec<PathChange> {
        let change = |kind, path: &str, id: Option<&Blob>| {
            let mode = |is_there: bool| if is_there { "100644" } else { "000000" }.to_owned();
            let modes = (mode(kind != ChangeKind::Added), mode(id.is_some()));
            PathChange { kind, path: path.into(), modes, id: id.map(|blob| blob.id.clone()) }
        };
        let mut gone: Vec<(&str, &Blob)> = from
            .iter()
            .filter(|(path, _)| !to.contains_key(*path))
            .map(|(path, blob)| (&**path, blob))
            .collect();
        let mut changes = Vec::new();
        for (path, blob) in to {
            match from.get(path) {
                Some(old) if old == blob => {}
                Some(_) => changes.push(change(ChangeKind::Modified, path, Some(blob))),
                None => {
                    let same =
                        |(_, old): &(&str, &Blob)| old.id == blob.id && !blob.content.is_empty();
                    let kind = match gone.iter().position(same) {
                        Some(at) => ChangeKind::Renamed { from: gone.remove(at).0.into() },
                        None => ChangeKind::Added,
                    };
                    changes.push(change(kind, path, Some(blob)));
                }
            }
        }
        changes.extend(gone.iter().map(|(path, _)| change(ChangeKind::Deleted, path, None)));
        changes.sort_by(|one, other| one.path.cmp(&other.path));
        changes
    }
}

impl SimulatedGit {
    /// Creates a repository with one commit of the files at the root.
    pub(super) fn init(root: &Utf8Path) -> SimulatedGit {
        let state = GitState {
            commits: Vec::new(),
            by_id: HashMap::new(),
            trees: HashMap::new(),
            blobs: HashMap::new(),
            repositories: vec![RepositoryState::new(root, "refs/heads/main")],
            at: 0,
            notes: BTreeMap::new(),
            plan_ids: BTreeSet::new(),
            item_keys: BTreeMap::new(),
        };
        let state = Arc::new(Mutex::new(state));
        let git = SimulatedGit { root: root.to_owned(), number: 0, state };
        git.commit_all("begin");
        git
    }

    /// Returns the repository of the machine at a root, if there is one.
    pub(super) fn beside(&self, root: &Utf8Path) -> Option<SimulatedGit> {
        let number = self.state().repositories.iter().position(|one| one.root == root)?;
        Some(SimulatedGit { root: root.to_owned(), number, state: Arc::clone(&self.state) })
    }

    /// Makes a repository at a root anew, on a branch without commits. It is not whole yet.
    pub(super) fn make_beside(&self, root: &Utf8Path, branch: &str) -> SimulatedGit {
        let new = RepositoryState::new(root, branch);
        let mut state = self.state();
        match state.repositories.iter_mut().find(|one| one.root == root) {
            Some(known) => *known = new,
            None => state.repositories.push(new),
        }
        drop(state);
        let mut files = Vec::new();
        each_file_below(root, |path, _, _| files.push(root.join(path)));
        for file in &files {
            put(file, None);
        }
        self.beside(root).expect("it was just made")
    }

    pub(super) fn state(&self) -> MutexGuard<'_, GitState> {
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                panic!("a repository is asked within another question")
            }
        };
        state.at = self.number;
        state
    }

    pub(super) fn path(&self, inside: &str) -> Utf8PathBuf {
        self.root.join(inside)
    }

    /// The working tree, except for untracked ignored files.
    fn work_tree(&self, tracked: &Tree) -> BTreeMap<String, (Vec<u8>, FileStamp)> {
        let ignores = Ignores::of(&self.root);
        let mut found = BTreeMap::new();
        each_file_below(&self.root, |path, content, (inode, changed)| {
            if tracked.contains_key(path) || !ignores.matches(path) {
                let changed = (0, i64::try_from(changed).unwrap_or(0));
                let size = content.len() as u64;
                let stamp = FileStamp { inode, size, mode: 0o100_644, modified: changed, changed };
                found.insert(path.to_owned(), (content.to_vec(), stamp));
            }
        });
        found
    }

    fn dirty(&self, wanted: impl Fn(&str) -> bool) -> Vec<DirtyPath> {
        let tracked = self.state().head_tree();
        let now = self.work_tree(&tracked);
        let mut dirty = Vec::new();
        for (path, blob) in tracked.iter().filter(|(path, _)| wanted(path)) {
            let found = now.get(&**path);
            let worktree = match found {
                Some((content, _)) if **content == *blob.content => continue,
                Some(_) => 'M',
                None => 'D',
            };
            let state = PathState::Tracked { index: '.', worktree };
            let entry = StatusEntry { path: (&**path).into(), state };
            dirty.push(DirtyPath { entry, file: found.map(|(_, stamp)| stamp.clone()) });
        }
        for (path, (_, stamp)) in &now {
            if wanted(path) && !tracked.contains_key(path.as_str()) {
                let entry = StatusEntry { path: path.into(), state: PathState::Untracked };
                dirty.push(DirtyPath { entry, file: Some(stamp.clone()) });
            }
        }
        dirty
    }

    /// Commits files as they are in the working tree.
    fn commit_named(&self, paths: &[PathBuf], message: &str) -> Option<Oid> {
        let mut tree = (*self.state().head_tree()).clone();
        for path in paths {
            let name = text_of(path);
            match get(&self.path(name)) {
                Some(content) => drop(tree.insert(name.into(), Blob::new(&content))),
                None => drop(tree.remove(name)),
            }
        }
        let committed = self.state().commit(tree, message);
        if committed.is_some() {
            self.learn_plan_ids(paths);
            effect(|| format!("git commit {:?}", message.lines().next().unwrap_or_default()));
        }
        committed
    }

    /// Commits files as they are in the working tree, without moving `HEAD`.
    pub(super) fn commit_aside(&self, paths: &[PathBuf], message: &str) -> Oid {
        let mut state = self.state();
        let mut tree = (*state.head_tree()).clone();
        for path in paths {
            match get(&self.path(text_of(path))) {
                Some(content) => drop(tree.insert(text_of(path).into(), Blob::new(&content))),
                None => drop(tree.remove(text_of(path))),
            }
        }
        let head = state.head_id().cloned();
        let made = state.add_on(tree, &head.iter().collect::<Vec<_>>(), message);
        drop(state);
        effect(|| "git commit-tree".to_owned());
        made
    }

    fn learn_plan_ids(&self, paths: &[PathBuf]) {
        for path in paths.iter().filter(|path| path.ends_with("plan.jsonl")) {
            let Some(content) = get(&self.path(text_of(path))) else { continue };
            for line in content.split(|byte| *byte == b'\n') {
                let id = match Record::of_line(line) {
                    Record::Task(head) => head.id.to_string(),
                    Record::Issue { id } => id.to_string(),
                    _ => continue,
                };
                self.state().plan_ids.insert(id);
            }
        }
    }

    /// Commits everything that is not ignored, as `git add -A && git commit` does.
    pub(super) fn commit_all(&self, message: &str) -> Option<Oid> {
        let tracked = self.state().head_tree();
        let mut paths: Vec<PathBuf> = tracked.keys().map(|path| (&**path).into()).collect();
        paths.extend(self.work_tree(&tracked).into_keys().map(PathBuf::from));
        self.commit_named(&paths, message)
    }

    /// Commits some files.
    pub(super) fn commit_some(&self, paths: &[&str], message: &str) -> Option<Oid> {
        let paths: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
        self.commit_named(&paths, message)
    }

    /// Creates a branch at `HEAD` and checks it out, or checks out an existing one. If a file blocks the checkout,
    /// nothing happens.
    pub(super) fn switch_new(&self, branch: &str) {
        let name = format!("refs/heads/{branch}");
        if self.switch(&name, false).is_ok() {
            return;
        }
        if self.state().here().refs.contains_key(&name) {
            return self.switch_new(&format!("{branch}-2"));
        }
        let mut state = self.state();
        if let Some(id) = state.head_id().cloned() {
            state.here_mut().refs.insert(name.clone(), id);
        }
        state.here_mut().head = HeadState::Branch(name);
        drop(state);
        effect(|| format!("git switch -c {branch}"));
    }

    pub(super) fn detach(&self) {
        let mut state = self.state();
        if let Some(id) = state.head_id().cloned() {
            state.here_mut().head = HeadState::Detached(id);
        }
        drop(state);
        effect(|| "git switch --detach".to_owned());
    }

    /// Resets the checked-out branch by some commits, with its files.
    pub(super) fn reset_hard(&self, back: usize) {
        let target = {
            let state = self.state();
            let mut at = state.head_id().and_then(|id| state.number(id));
            for _ in 0..back {
                at = at.and_then(|at| state.commits[at].parents.first().copied());
            }
            at.map(|at| state.commits[at].id.clone())
        };
        if let Some(target) = target {
            self.check_out(&target, true).expect("nothing can be in the way");
            self.state().move_head(target);
            effect(|| format!("git reset --hard HEAD~{back}"));
        }
    }

    /// Sets tracked files to their versions in a commit. Uncommitted changes are kept, stop it, or are lost.
    pub(super) fn check_out(&self, target: &Oid, discard: bool) -> Result<(), GitError> {
        let obstacles = if discard { Vec::new() } else { self.obstacles(target)? };
        if let Some(path) = obstacles.first() {
            let why = format!("Your local changes to {path} would be overwritten");
            return Err(failed("switch", &why));
        }
        let (old, new) = {
            let state = self.state();
            let new = state.tree_at(target).ok_or_else(|| failed("switch", "no such commit"))?;
            (state.head_tree(), new)
        };
        let paths: BTreeSet<&Arc<str>> = old.keys().chain(new.keys()).collect();
        let mut writes = Vec::new();
        for path in paths {
            let content = get(&self.path(path));
            let (from, to) = (old.get(path), new.get(path));
            let is_clean = content.as_deref() == from.map(|blob| &*blob.content);
            if from != to || (discard && !is_clean) {
                writes.push((Arc::clone(path), to.map(|blob| Arc::clone(&blob.content))));
            }
        }
        for (path, content) in writes {
            put(&self.path(&path), content.as_deref());
        }
        Ok(())
    }

    /// Returns the files whose uncommitted changes a checkout of a commit would overwrite.
    pub(super) fn obstacles(&self, target: &Oid) -> Result<Vec<Arc<str>>, GitError> {
        let (old, new) = {
            let state = self.state();
            let new = state.tree_at(target).ok_or_else(|| failed("switch", "no such commit"))?;
            (state.head_tree(), new)
        };
        let paths: BTreeSet<&Arc<str>> = old.keys().chain(new.keys()).collect();
        let is_obstacle = |path: &&&Arc<str>| {
            let (from, to) = (old.get(**path), new.get(**path));
            let is_clean = get(&self.path(path)).as_deref() == from.map(|blob| &*blob.content);
            from != to && !is_clean
        };
        Ok(paths.iter().filter(is_obstacle).map(|path| Arc::clone(path)).collect())
    }

    fn switch(&self, branch: &str, discard: bool) -> Result<(), CommitError> {
        let target = self.state().here().refs.get(branch).cloned();
        let target = target.ok_or_else(|| failed("switch", "no such branch"))?;
        self.check_out(&target, discard)?;
        self.state().here_mut().head = HeadState::Branch(branch.to_owned());
        effect(|| format!("git switch {branch}"));
        Ok(())
    }
}

impl GitAccess for SimulatedGit {
    fn head(&self) -> Result<Head, GitError> {
        Ok(self.state().head())
    }

    fn current_head(&self) -> Result<Head, GitError> {
        self.head()
    }

    fn refs(&self) -> Result<RefsSnapshot, GitError> {
        Ok(self.state().refs(&self.root))
    }

    fn resolve(&self, name: &str) -> Result<Option<Oid>, GitError> {
        Ok(self.state().resolve(name))
    }

    fn have(&self, ids: &[Oid]) -> Result<Vec<bool>, GitError> {
        let state = self.state();
        Ok(ids.iter().map(|id| state.has(id)).collect())
    }

    fn find_commit(&self, claimed: &str) -> Result<Option<CommitHeader>, GitError> {
        let state = self.state();
        Ok(state.find(claimed).map(|commit| CommitHeader {
            id: commit.id.clone(),
            tree: commit.tree_id.clone(),
            parents: commit.parents.iter().map(|at| state.commits[*at].id.clone()).collect(),
        }))
    }

    fn is_ancestor(&self, ancestor: &Oid, descendant: &Oid) -> Result<bool, GitError> {
        Ok(self.state().is_ancestor(ancestor, descendant))
    }

    fn merge_base(&self, one: &Oid, other: &Oid) -> Result<Option<Oid>, GitError> {
        let state = self.state();
        let one = state.reachable([one.clone()].into_iter());
        let other = state.reachable([other.clone()].into_iter());
        Ok(one.intersection(&other).max().map(|number| state.commits[*number].id.clone()))
    }

    fn changes(&self, from: &Oid, to: &Oid) -> Result<Vec<PathChange>, GitError> {
        let state = self.state();
        match (state.tree_at(from), state.tree_at(to)) {
            (Some(from), Some(to)) => Ok(GitState::changes(&from, &to)),
            _ => Err(failed("diff-tree", "bad object")),
        }
    }

    fn tree_changes(&self, from: &Oid, to: &Oid) -> Result<Vec<HomeChange>, GitError> {
        let state = self.state();
        let from = state.tree_at(from).unwrap_or_default();
        let to = state.tree_at(to).unwrap_or_default();
        let gone = from.keys().filter(|path| !to.contains_key(*path));
        let gone = gone.map(|path| HomeChange { path: (**path).into(), after: None });
        let written = to.iter().filter(|(path, blob)| from.get(*path) != Some(*blob));
        let written = written.map(|(path, blob)| {
            let after = Some(HomeBlob { mode: "100644".to_owned(), id: blob.id.clone() });
            HomeChange { path: (**path).into(), after }
        });
        let mut changes: Vec<HomeChange> = gone.chain(written).collect();
        changes.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(changes)
    }

    fn file_at(&self, commit: &Oid, path: &Path) -> Result<Option<Vec<u8>>, GitError> {
        let tree = self.state().tree_at(commit).unwrap_or_default();
        Ok(tree.get(text_of(path)).map(|blob| blob.content.to_vec()))
    }

    fn status(&self) -> Result<Vec<StatusEntry>, GitError> {
        Ok(self.dirty(|_| true).into_iter().map(|dirty| dirty.entry).collect())
    }

    fn status_within(&self, directory: &Path) -> Result<Vec<StatusEntry>, GitError> {
        let within = |path: &str| Path::new(path).starts_with(directory);
        Ok(self.dirty(within).into_iter().map(|dirty| dirty.entry).collect())
    }

    fn status_among(
        &self,
        directory: &Path,
        among: &BTreeSet<PathBuf>,
    ) -> Result<Vec<StatusEntry>, GitError> {
        let mut status = self.status_within(directory)?;
        status.retain(|entry| among.contains(&entry.path));
        Ok(status)
    }

    fn dirt(&self, own: &[PathBuf]) -> Result<Dirt, GitError> {
        Ok(Dirt { paths: self.dirty(|path| !is_own(own, Path::new(path))) })
    }

    fn hidden(&self, _: &[PathBuf]) -> Result<Vec<(PathBuf, Option<FileStamp>)>, GitError> {
        Ok(Vec::new())
    }

    fn ignored(&self, paths: &[PathBuf]) -> Result<HashSet<PathBuf>, GitError> {
        let (ignores, tracked) = (Ignores::of(&self.root), self.state().head_tree());
        let is_ignored = |path: &&PathBuf| {
            let name = text_of(path);
            ignores.matches(name) && !tracked.contains_key(name)
        };
        Ok(paths.iter().filter(is_ignored).cloned().collect())
    }

    fn save_dirt(&self, dirt: &Dirt) -> Result<Option<SavedDirt>, CommitError> {
        if dirt.paths.is_empty() {
            return Ok(None);
        }
        let mut tree = (*self.state().head_tree()).clone();
        let mut files = Vec::new();
        for dirty in &dirt.paths {
            let name = text_of(&dirty.entry.path);
            let blob = get(&self.path(name)).map(|content| Blob::new(&content));
            files.push((dirty.entry.path.clone(), blob.as_ref().map(|blob| blob.id.clone())));
            match blob {
                Some(blob) => drop(tree.insert(name.into(), blob)),
                None => drop(tree.remove(name)),
            }
        }
        files.sort();
        files.dedup();
        let mut state = self.state();
        let parents = state.head_id().and_then(|id| state.number(id)).into_iter().collect();
        let made = state.add(tree, parents, "What was not committed before a run");
        let tree_id = state.find(made.as_str()).expect("it was just made").tree_id.clone();
        let name = format!("refs/ralph/saved/{}", &tree_id.as_str()[..16]);
        let commit = state.here_mut().refs.entry(name.clone()).or_insert(made).clone();
        drop(state);
        effect(|| format!("git update-ref {name}"));
        Ok(Some(SavedDirt { name, commit, files }))
    }

    fn return_saved(&self, saved: &SavedDirt, paths: &[&Path]) -> Result<(), CommitError> {
        let tree = self.state().tree_at(&saved.commit);
        let tree = tree.ok_or_else(|| failed("restore", "no such commit"))?;
        for path in paths {
            let name = text_of(path);
            put(&self.path(name), tree.get(name).map(|blob| &*blob.content));
        }
        effect(|| format!("git restore --source={}", saved.name));
        Ok(())
    }

    fn commit_paths(&self, request: &CommitRequest<'_>) -> Result<(), CommitError> {
        self.commit_named(request.paths, request.message);
        Ok(())
    }

    fn commit_files(&self, request: &CommitRequest<'_>) -> Result<(), CommitError> {
        self.commit_paths(request)
    }

    fn hold_index(&self, _: Duration) -> Result<Box<dyn HeldFile + '_>, GitError> {
        Ok(Box::new(HeldInMemory { git: self }))
    }

    fn switch_to(&self, branch: &str) -> Result<(), CommitError> {
        self.switch(branch, false)
    }

    fn switch_discarding(&self, branch: &str) -> Result<(), CommitError> {
        self.switch(branch, true)
    }

    fn fast_forward(&self, commit: &Oid) -> Result<(), CommitError> {
        let head = self.state().head_id().cloned();
        if !head.is_some_and(|head| self.state().is_ancestor(&head, commit)) {
            return Err(failed("merge --ff-only", "Not possible to fast-forward").into());
        }
        self.check_out(commit, false)?;
        self.state().move_head(commit.clone());
        effect(|| "git merge --ff-only".to_owned());
        Ok(())
    }

    fn return_refs(&self, refs: &[RefReturn]) -> Result<(), GitError> {
        let mut state = self.state();
        if refs.iter().any(|to| state.here().refs.get(&to.name) != to.now.as_ref()) {
            return Err(failed("update-ref", "cannot lock ref"));
        }
        for RefReturn { name, before, .. } in refs {
            match before {
                Some(id) => drop(state.here_mut().refs.insert(name.clone(), id.clone())),
                None => drop(state.here_mut().refs.remove(name)),
            }
        }
        drop(state);
        effect(|| "git update-ref".to_owned());
        Ok(())
    }
}

struct HeldInMemory<'g> {
    git: &'g SimulatedGit,
}

impl HeldFile for HeldInMemory<'_> {
    fn commit(
        self: Box<Self>,
        request: &CommitRequest<'_>,
        replaced: Replaced<'_>,
    ) -> Result<Option<Committed>, CommitError> {
        for path in request.paths {
            let content = get(&self.git.path(text_of(path))).unwrap_or_default();
            if content != replaced.after {
                return Err(CommitError::Replaced { path: path.clone() });
            }
        }
        self.git.commit_paths(request)?;
        Ok(None)
    }
}

/// The patterns in the ignore files of a working tree: names, paths, directories, and one `*`.
struct Ignores {
    /// Each with the directory of its file.
    patterns: Vec<(String, String)>,
}

impl Ignores {
    fn of(root: &Utf8Path) -> Ignores {
        let mut patterns = Vec::new();
        for directory in ["", "ralph/", ".ralph/"] {
            let text = get(&root.join(directory).join(".gitignore")).unwrap_or_default();
            let text = String::from_utf8_lossy(&text).into_owned();
            let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
            patterns.extend(lines.map(|line| (directory.to_owned(), line.to_owned())));
        }
        Ignores { patterns }
    }

    fn matches(&self, path: &str) -> bool {
        self.patterns.iter().any(|(directory, pattern)| {
            let Some(below) = path.strip_prefix(directory.as_str()) else { return false };
            let name = pattern.trim_end_matches('/');
            if name.contains('/') {
                let name = name.trim_start_matches('/');
                return Utf8Path::new(below).starts_with(name);
            }
            below.split('/').any(|part| match name.split_once('*') {
                None => part == name,
                Some((start, end)) => {
                    part.len() >= start.len() + end.len()
                        && part.starts_with(start)
                        && part.ends_with(end)
                }
            })
        })
    }
}
