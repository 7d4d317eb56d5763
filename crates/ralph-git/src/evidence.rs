//! Measures a claimed commit.
//!
//! Compares with the state recorded before the run: every ref and the person's dirty files. Questions about commits are
//! put to the private mirror, which is updated first; the working tree is asked only for its own content. Nothing is
//! decided here: the verdict decides whether a fact is a problem.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::call::{Call, path_from};
use super::mirror::{Mirror, MirrorError};
use super::parse::{ChangeKind, CommitHeader, Head, PathChange, StatusEntry, parse_ids};
use super::saved::SavedDirt;
use super::scan::IndexFile;
use super::settings::OwnSettings;
use super::{Git, GitError, LONG, Oid, RefsSnapshot, read_regular, unexpected};

/// A measurement failed.
#[derive(Debug, thiserror::Error)]
pub enum EvidenceError {
    #[error(transparent)]
    Mirror(#[from] MirrorError),
    #[error(transparent)]
    Git(#[from] GitError),
}

/// A path that differed from `HEAD`, and its file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirtyPath {
    pub entry: StatusEntry,
    /// `None` if there is no file.
    pub file: Option<FileStamp>,
}

/// Identifies a state of a file; `ctime` cannot be set back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileStamp {
    pub inode: u64,
    pub size: u64,
    pub mode: u32,
    pub modified: (i64, i64),
    pub changed: (i64, i64),
}

/// Everything in a working tree that differs from `HEAD`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dirt {
    pub paths: Vec<DirtyPath>,
}

/// The changes of a working tree's dirt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// Dirty now and clean before: left by the run.
    pub new: Vec<PathBuf>,
    /// Dirty before and now, but another file or state: the person's, changed since.
    pub(crate) touched: Vec<PathBuf>,
    /// Dirty before and clean now: committed, restored or removed.
    pub vanished: Vec<PathBuf>,
}

impl Dirt {
    /// Scans a working tree except for Ralph's own files, which have a separate guard and separate commits.
    pub fn of(git: &Git, own: &[PathBuf]) -> Result<Self, GitError> {
        let root = git.place().worktree.clone().unwrap_or_default();
        // If home is the working tree itself, there is nothing to scan.
        let is_all = own.iter().any(|path| path.as_os_str().is_empty());
        let found = if is_all { Vec::new() } else { git.status_without(own)? };
        let stamped = |entry: StatusEntry| {
            let file = stamp(&root.as_std_path().join(&entry.path));
            DirtyPath { entry, file }
        };
        Ok(Dirt { paths: found.into_iter().map(stamped).collect() })
    }

    /// Returns the entry of a path.
    pub fn find(&self, path: &Path) -> Option<&DirtyPath> {
        self.paths.iter().find(|dirty| dirty.entry.path == path)
    }

    /// Compares with the current dirt.
    pub fn leftovers(&self, now: &Dirt) -> Leftovers {
        let mut leftovers = Leftovers::default();
        for dirty in &now.paths {
            let path = dirty.entry.path.clone();
            match self.find(&path) {
                None => leftovers.new.push(path),
                Some(before) if before != dirty => leftovers.touched.push(path),
                Some(_) => {}
            }
        }
        let paths = self.paths.iter().map(|dirty| &dirty.entry.path);
        leftovers.vanished = paths.filter(|path| now.find(path).is_none()).cloned().collect();
        leftovers
    }
}

fn stamp(path: &Path) -> Option<FileStamp> {
    let found = fs::symlink_metadata(path).ok()?;
    Some(FileStamp {
        inode: found.ino(),
        size: found.size(),
        mode: found.mode(),
        modified: (found.mtime(), found.mtime_nsec()),
        changed: (found.ctime(), found.ctime_nsec()),
    })
}

/// The state of one repository before the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Before {
    /// The base of the item; `None` if there was no commit yet.
    pub base: Option<Oid>,
    pub refs: RefsSnapshot,
    /// The targets of all refs when work on the item began, before its first run.
    #[serde(default)]
    pub begun: Vec<Oid>,
    /// What the person committed during work on the item, or had not committed before an earlier run of it, by content
    /// ids: not done by any run.
    #[serde(default, with = "super::names::path_pairs_record")]
    pub theirs: Vec<(PathBuf, Option<Oid>)>,
    pub dirt: Dirt,
    /// The saved part of the dirt.
    #[serde(default)]
    pub saved: Option<SavedDirt>,
    /// Files hidden from git, with their states.
    #[serde(default, with = "super::names::path_pairs_record")]
    pub hidden: Vec<(PathBuf, Option<FileStamp>)>,
}

impl Git {
    /// Returns the files hidden from git, which no status lists. Files excluded by a sparse checkout are not included.
    pub fn hidden(&self, own: &[PathBuf]) -> Result<Vec<(PathBuf, Option<FileStamp>)>, GitError> {
        let Some(root) = &self.place().worktree else { return Ok(Vec::new()) };
        let own_settings = OwnSettings::read(self.place());
        if let Ok(settings) = own_settings
            && let index = self.place().git_dir.join("index")
            && IndexFile::read(index.as_std_path(), settings.layout.format.kind()).is_ok()
        {
            // Such an index has no entry with such a flag.
            return Ok(Vec::new());
        }
        let args = ["ls-files", "-v", "-z", "--full-name"];
        let output = self.call(Call::new(&args).cwd(root.as_std_path()).timeout(LONG))?.stdout;
        let mut hidden = Vec::new();
        for entry in output.split(|byte| *byte == 0) {
            let [tag, b' ', path @ ..] = entry else { continue };
            if !tag.is_ascii_lowercase() && *tag != b'S' {
                continue;
            }
            let path = path_from(path);
            let file = stamp(&root.as_std_path().join(&path));
            if file.is_some() && !is_own(own, &path) {
                hidden.push((path, file));
            }
        }
        Ok(hidden)
    }
}

impl Before {
    /// Whether a change only consists of what the person had left uncommitted, or committed themselves.
    fn is_persons(&self, change: &PathChange) -> bool {
        let saved = self.saved.iter().flat_map(|saved| &saved.files);
        let mut persons = saved.chain(&self.theirs);
        persons.any(|(path, id)| *path == change.path && *id == change.id)
    }
}

/// One repository of the workspace.
#[derive(Clone, Copy, Debug)]
pub struct EvidenceRepository<'a> {
    pub git: &'a Git,
    pub mirror: &'a Mirror,
    pub before: &'a Before,
    /// Ralph's own paths in this working tree: home and settings, relative to its root.
    pub own: &'a [PathBuf],
}

/// The facts after a run, about the claimed commit and every repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitEvidence {
    /// Where the commit exists; empty if nowhere, one entry except for copies of one repository.
    pub commits: Vec<GitCommitEvidence>,
    /// One per repository, in the given order.
    pub repositories: Vec<RepositoryEvidence>,
}

/// The facts about the claimed commit in one repository.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is one measured fact")]
pub struct GitCommitEvidence {
    /// The index of the repository.
    pub repository: usize,
    pub commit: CommitHeader,
    /// It is neither the base nor an ancestor of it.
    pub is_new_since_base: bool,
    /// Before the run, no ref pointed to it or to a descendant of it.
    pub is_new_in_run: bool,
    pub descends_from_base: bool,
    /// Refs from which it is reachable now; empty on a detached `HEAD`.
    pub on_refs: Vec<String>,
    /// Those of them that the run created or moved.
    pub on_moved_refs: Vec<String>,
    /// It is `HEAD` or an ancestor of it.
    pub is_on_head: bool,
    /// Changes between base and commit: outside Ralph's home, without the person's uncommitted files, and in it.
    pub outside_home: Vec<PathChange>,
    pub inside_home: Vec<PathChange>,
}

/// The facts about one repository after a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepositoryEvidence {
    pub head_now: Head,
    /// Refs whose old commits are no longer reachable.
    pub dropped: Vec<Dropped>,
    pub leftovers: Leftovers,
}

/// History that was rewritten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// The ref, or `HEAD` of a worktree that was detached.
    pub name: String,
    pub old_tip: Oid,
    /// The lost commits, newest first.
    pub commits: Vec<Oid>,
}

/// Measures a claim: a commit id, or a unique prefix of it.
pub fn measure(
    repositories: &[EvidenceRepository<'_>],
    claimed: &str,
) -> Result<GitEvidence, EvidenceError> {
    let mut evidence = GitEvidence { commits: Vec::new(), repositories: Vec::new() };
    for (index, repository) in repositories.iter().enumerate() {
        // A hash that is unknown here may be a commit of a sibling.
        let claimed = repository.git.find_commit(claimed.trim())?;
        let also: Vec<Oid> = claimed.iter().map(|commit| commit.id.clone()).collect();
        let now = repository.mirror.fill(repository.git, &also)?;
        if let Some(claimed) = claimed
            && let Some(commit) = repository.mirror.git().find_commit(claimed.id.as_str())?
        {
            evidence.commits.push(repository.measure_commit(index, commit, &now)?);
        }
        evidence.repositories.push(repository.measure_refs(&now)?);
    }
    Ok(evidence)
}

impl EvidenceRepository<'_> {
    fn measure_commit(
        &self,
        repository: usize,
        commit: CommitHeader,
        now: &RefsSnapshot,
    ) -> Result<GitCommitEvidence, EvidenceError> {
        let truth = self.mirror.git();
        let id = commit.id.clone();
        let base = self.before.base.as_ref();
        let (is_new_since_base, began_at) = match base {
            None => (true, None),
            Some(base) => (!truth.is_ancestor(&id, base)?, self.began_at(base, &id)?),
        };
        let descends_from_base = base.is_none() || began_at.is_some();
        let is_new_since_base = is_new_since_base && self.is_nobodys(&id, now)?;
        let news = truth.new_commits(std::slice::from_ref(&id), &self.before.refs.tips())?;
        let containing = self.tips_containing(&id)?;
        let on_refs = now.refs.iter().filter(|reference| containing.contains(&reference.id));
        let on_refs: Vec<String> = on_refs.map(|reference| reference.name.clone()).collect();
        let is_moved = |name: &&String| self.before.refs.id_of(name) != now.id_of(name);
        let empty = self.mirror.object_format().empty_tree();
        let changes = truth.changes(began_at.as_ref().or(base).unwrap_or(&empty), &id)?;
        let (inside_home, mut outside_home): (Vec<PathChange>, Vec<PathChange>) =
            changes.into_iter().partition(|change| self.is_home(change));
        outside_home.retain(|change| !self.before.is_persons(change));
        for at in (0..outside_home.len()).rev() {
            if self.leads_out(&id, &outside_home[at])? {
                outside_home.remove(at);
            }
        }
        Ok(GitCommitEvidence {
            repository,
            is_new_since_base,
            is_new_in_run: news.contains(&id),
            descends_from_base,
            on_moved_refs: on_refs.iter().filter(is_moved).cloned().collect(),
            on_refs,
            is_on_head: now.head.id().is_some_and(|head| containing.contains(head)),
            outside_home,
            inside_home,
            commit,
        })
    }

    /// Returns the commit that a candidate is based on: the base, or an ancestor that differs from it only in Ralph's
    /// own files. A branch from `origin/main` lacks the unpushed commits of home.
    fn began_at(&self, base: &Oid, id: &Oid) -> Result<Option<Oid>, EvidenceError> {
        let truth = self.mirror.git();
        if truth.is_ancestor(base, id)? {
            return Ok(Some(base.clone()));
        }
        let common = truth.merge_base(base, id)?.filter(|common| common != id);
        let Some(common) = common else { return Ok(None) };
        let since = truth.changes(&common, base)?;
        Ok(since.iter().all(|change| self.is_home(change)).then_some(common))
    }

    /// Whether a commit is not someone else's: it did not exist when the item began, and was not fetched since.
    fn is_nobodys(&self, id: &Oid, now: &RefsSnapshot) -> Result<bool, EvidenceError> {
        let remote =
            now.refs.iter().filter(|reference| reference.name.starts_with("refs/remotes/"));
        let remote = remote.map(|reference| reference.id.clone());
        let fetched = fetched(&self.git.place().git_dir);
        let mut known: Vec<Oid> =
            self.before.begun.iter().cloned().chain(remote).chain(fetched).collect();
        known.sort();
        known.dedup();
        // Objects missing in the mirror cannot be descendants of the claim.
        let there = self.mirror.git().have(&known)?;
        let known: Vec<Oid> =
            known.into_iter().zip(there).filter(|(_, there)| *there).map(|(id, _)| id).collect();
        if known.is_empty() {
            return Ok(true);
        }
        let news = self.mirror.git().new_commits(std::slice::from_ref(id), &known)?;
        Ok(news.contains(id))
    }

    /// Whether a change is a symlink out of the tree: its target is not in the commit.
    fn leads_out(&self, commit: &Oid, change: &PathChange) -> Result<bool, GitError> {
        if change.modes.1 != "120000" {
            return Ok(false);
        }
        let target = self.mirror.git().file_at(commit, &change.path)?.unwrap_or_default();
        let target = path_from(&target);
        let mut depth = change.path.components().count().saturating_sub(1);
        for part in target.components() {
            match part {
                Component::RootDir | Component::Prefix(_) => return Ok(true),
                Component::ParentDir if depth == 0 => return Ok(true),
                Component::ParentDir => depth -= 1,
                Component::Normal(_) => depth += 1,
                Component::CurDir => {}
            }
        }
        Ok(false)
    }

    /// A file moved out of home, or into it, is a change outside.
    fn is_home(&self, change: &PathChange) -> bool {
        match &change.kind {
            ChangeKind::Renamed { from } => {
                is_own(self.own, from) && is_own(self.own, &change.path)
            }
            _ => is_own(self.own, &change.path),
        }
    }

    /// Returns which of the tips ever seen are descendants of a commit.
    fn tips_containing(&self, id: &Oid) -> Result<HashSet<Oid>, GitError> {
        let args = ["for-each-ref", "--format=%(objectname)", "--contains", id.as_str()];
        let output = self.mirror.git().ask(&args)?;
        let tips = parse_ids(&output).ok_or_else(|| unexpected(&args, &output))?;
        Ok(tips.into_iter().collect())
    }

    fn measure_refs(&self, now: &RefsSnapshot) -> Result<RepositoryEvidence, EvidenceError> {
        Ok(RepositoryEvidence {
            head_now: now.head.clone(),
            dropped: self.dropped(now)?,
            leftovers: self.before.dirt.leftovers(&Dirt::of(self.git, self.own)?),
        })
    }

    fn dropped(&self, now: &RefsSnapshot) -> Result<Vec<Dropped>, GitError> {
        let truth = self.mirror.git();
        let before = &self.before.refs;
        let tips = now.tips_of_persons();
        let refs = before.refs.iter().filter(|reference| is_somebodys(&reference.name));
        let refs = refs.map(|reference| (reference.name.clone(), reference.id.clone()));
        let heads = before
            .worktree_heads
            .iter()
            .map(|(path, id)| (format!("HEAD of `{}`", path.display()), id.clone()));
        let old: Vec<(String, Oid)> =
            refs.chain(heads).filter(|(_, id)| tips.binary_search(id).is_err()).collect();
        let old_tips: Vec<Oid> = old.iter().map(|(_, id)| id.clone()).collect();
        // One query settles the usual case, in which nothing was dropped.
        if truth.new_commits(&old_tips, &tips)?.is_empty() {
            return Ok(Vec::new());
        }
        let mut dropped: Vec<Dropped> = Vec::new();
        for (name, old_tip) in old {
            let told = dropped.iter().any(|known| known.old_tip == old_tip);
            if told && name.starts_with("HEAD of ") {
                continue;
            }
            let commits = truth.new_commits(std::slice::from_ref(&old_tip), &tips)?;
            if !commits.is_empty() {
                dropped.push(Dropped { name, old_tip, commits });
            }
        }
        Ok(dropped)
    }
}

/// Returns what was fetched last from a remote.
fn fetched(git_dir: &camino::Utf8Path) -> Vec<Oid> {
    let path = git_dir.join("FETCH_HEAD");
    // An agent can remove it as well: what it has is a help, and no proof.
    let text = read_regular(path.as_std_path()).ok().flatten().unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.lines().filter_map(|line| Oid::parse(line.split('\t').next()?.as_bytes())).collect()
}

/// Whether a path is one of Ralph's own, or inside one.
pub fn is_own(own: &[PathBuf], path: &Path) -> bool {
    own.iter().any(|own| path.starts_with(own))
}

/// Remote-tracking refs are not rewritten here, and Ralph's own refs are not the person's history.
fn is_somebodys(name: &str) -> bool {
    !name.starts_with("refs/remotes/") && !name.starts_with("refs/ralph/")
}

#[cfg(test)]
#[path = "evidence_tests.rs"]
mod tests;
