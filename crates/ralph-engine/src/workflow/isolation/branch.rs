//! The run's branch in the person's repository: its position, the effect of a landing, and moving it forward.

use std::collections::BTreeSet;
use std::path::PathBuf;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use ralph_model::id::CommitId;

use super::draft::{NOTES, merge_home_file};
use super::{PersonsRepository, RACES, object};
use crate::git::commits::Signing;
use crate::git::evidence::is_own;
use crate::git::landing::{
    BranchTip, Carried, FileEdit, FollowOutcome, LandOutcome, LandingCommit, LandingError,
    MergeSides, NewerCommits, TipState, TreeMerge, WaitReason,
};
use crate::git::undo::RefReturn;
use crate::git::{Git, GitError, Head, Oid, PathChange, PathState, read_regular, shown};
use crate::judge::Case;
use crate::workflow::WorkflowError;

/// A commit that joins a tip with accepted work and changes of home.
pub(super) enum Joined {
    Commit(JoinedCommit),
    /// The tip has it all.
    Nothing,
    Conflict {
        paths: Vec<PathBuf>,
    },
}

pub(super) struct JoinedCommit {
    pub(super) commit: Oid,
    pub(super) is_merge: bool,
    /// It holds more than what was judged.
    pub(super) is_unmeasured: bool,
    /// The work as one new commit on the tip, where it was carried over.
    pub(super) carried: Option<Oid>,
}

impl JoinedCommit {
    /// Returns it as a commit that may land, if nothing about it has to be measured.
    pub(super) fn known(&self) -> Option<LandableCommit> {
        (!self.is_unmeasured).then(|| LandableCommit(self.commit.clone()))
    }
}

/// A commit that a branch may be moved to. The ways to make one are all that a tip can be: no combination gets there that
/// nothing was measured of.
pub(super) struct LandableCommit(Oid);

impl LandableCommit {
    /// A merge that this case is about.
    pub(super) fn measured(joined: &JoinedCommit, case: &Case) -> Option<LandableCommit> {
        case.is_about(&joined.commit).then(|| LandableCommit(joined.commit.clone()))
    }

    /// Newer commits with landed work; see [`super::newer`], which alone calls it.
    pub(super) fn of_newer(newer: &NewerCommits) -> LandableCommit {
        LandableCommit(newer.merge.clone())
    }

    /// Landed work taken back: a person's word, which is said to be unchecked.
    pub(super) fn reverted(commit: &Oid) -> LandableCommit {
        LandableCommit(commit.clone())
    }
}

/// Where a branch stands.
pub(super) enum Standing {
    Unborn,
    At(TipState),
    /// The person has newer commits than landed work.
    Newer(NewerCommits),
}

/// What is to be joined with a tip.
pub(super) struct JoinRequest<'a> {
    pub(super) tip: &'a TipState,
    /// Where work on the item began.
    pub(super) base: Option<&'a Oid>,
    pub(super) candidate: Option<&'a Oid>,
    pub(super) home: &'a [FileEdit],
    pub(super) message: &'a str,
    pub(super) signing: Signing,
}

/// Returns the branch that work lands on, in full: the one that was asked for, or the one that is checked out.
///
/// On a detached `HEAD` there is one branch a day for it.
pub(super) fn run_branch(
    git: &Git,
    onto: Option<&str>,
    now: Timestamp,
) -> Result<String, WorkflowError> {
    let head = git.head()?;
    let name = match (onto, &head) {
        (Some(onto), _) => format!("refs/heads/{}", onto.trim_start_matches("refs/heads/")),
        (None, Head::Branch { name, .. } | Head::Unborn { name }) => return Ok(name.clone()),
        (None, Head::Detached { .. }) => {
            let day = now.to_zoned(TimeZone::UTC).strftime("%Y%m%d");
            format!("refs/heads/ralph/detached-{day}")
        }
    };
    if git.resolve(&name)?.is_none() {
        let in_the_way = |other: &str| {
            let below = |one: &str, other: &str| {
                one.strip_prefix(other).is_some_and(|rest| rest.starts_with('/'))
            };
            below(&name, other) || below(other, &name)
        };
        if let Some(other) = git.refs()?.refs.iter().find(|other| in_the_way(&other.name)) {
            let short = |name: &str| name.trim_start_matches("refs/heads/").to_owned();
            return Err(WorkflowError::Branch(format!(
                "the branch `{}` cannot be created, because the branch `{}` exists: rename that one, or choose another with \
                 `--onto`",
                short(&name),
                short(&other.name)
            )));
        }
        let before = head.id().cloned();
        git.return_refs(&[RefReturn { name: name.clone(), before, now: None }])?;
    }
    Ok(name)
}

/// Tells whether a change leaves a regular file behind.
pub(super) fn is_regular(change: &PathChange) -> bool {
    change.modes.1.starts_with("100")
}

impl PersonsRepository {
    /// Returns where work lands now: what has landed, with the person's newer commits, or the branch itself.
    ///
    /// Newer commits that change more than home have to be checked first ([`Clones::take_up_newer`](super::Clones)).
    pub(super) fn tip(&self) -> Result<Option<TipState>, WorkflowError> {
        for _ in 0..RACES {
            let newer = match self.standing()? {
                Standing::Unborn => return Ok(None),
                Standing::At(tip) => return Ok(Some(tip)),
                Standing::Newer(newer) => newer,
            };
            let Some(landable) = self.needs_no_gate(&newer)? else {
                let branch = self.short_branch().to_owned();
                return Err(WorkflowError::Unchecked { branch });
            };
            self.advance(&newer.read, &landable, &[])?;
        }
        Err(self.contended())
    }

    /// The branch was moved by others each time. Nothing is wrong with what was to land on it: it is tried again.
    pub(super) fn contended(&self) -> WorkflowError {
        LandingError::Contended { branch: self.short_branch().to_owned() }.into()
    }

    /// Returns where the branch stands, with all of it in the mirror.
    pub(super) fn standing(&self) -> Result<Standing, WorkflowError> {
        let mut problem = None;
        let mut merge_home = |sides: &MergeSides<'_>| {
            self.merge_home(sides).unwrap_or_else(|error| {
                problem = Some(error);
                Vec::new()
            })
        };
        let tip = self.landing().tip(&self.branch, &mut merge_home)?;
        if let Some(error) = problem {
            return Err(error.into());
        }
        let branch = self.short_branch();
        match tip {
            BranchTip::Unborn if self.had_commits.get() => {
                Err(WorkflowError::Branch(self.says_gone()?))
            }
            BranchTip::Unborn => Ok(Standing::Unborn),
            BranchTip::At(tip) => {
                self.had_commits.set(true);
                self.gates.fill_mirror(std::slice::from_ref(&tip.commit))?;
                Ok(Standing::At(tip))
            }
            BranchTip::Newer(newer) => Ok(Standing::Newer(newer)),
            BranchTip::Diverged { landed, .. } => Err(WorkflowError::Branch(format!(
                "`{branch}` was rewritten or deleted while landed work waited for it; that work is in {landed} \
                 (refs/ralph/landed/{branch}): merge it, or delete that ref to give it up"
            ))),
            BranchTip::Conflict { landed, branch: now, paths } => {
                let paths: Vec<String> = paths.iter().map(|path| shown(path)).collect();
                let in_the_way = self.untracked_of(&now, &landed)?;
                let first = if in_the_way.is_empty() {
                    String::new()
                } else {
                    // Ralph committed the person's file, and git would not overwrite it.
                    let names = in_the_way.join(" ");
                    format!("`git add -- {names}`, `git commit -m \"before the merge\"`, then ")
                };
                Err(WorkflowError::Branch(format!(
                    "your newer commits on `{branch}` and landed work ({landed}) both changed {}: merge them in your \
                     checkout of `{branch}`: {first}`git merge refs/ralph/landed/{branch}`; resolve the conflict and commit",
                    paths.join(", ")
                )))
            }
        }
    }

    /// Returns the untracked files of the checkout that landed work adds: git does not merge over them.
    fn untracked_of(&self, branch: &Oid, landed: &Oid) -> Result<Vec<String>, WorkflowError> {
        let git = self.git();
        if !matches!(git.head()?, Head::Branch { name, .. } if name == self.branch) {
            return Ok(Vec::new());
        }
        let landed: BTreeSet<PathBuf> =
            git.changes(branch, landed)?.into_iter().map(|change| change.path).collect();
        let status = git.status()?;
        let untracked = status.iter().filter(|entry| entry.state == PathState::Untracked);
        let in_the_way = untracked.filter(|entry| landed.contains(&entry.path));
        Ok(in_the_way.map(|entry| shown(&entry.path)).collect())
    }

    /// Says that the run's branch is gone, and what it is called now where its new name tells.
    fn says_gone(&self) -> Result<String, WorkflowError> {
        let branch = self.short_branch();
        let renamed = match self.git().head()? {
            Head::Branch { name, .. } => {
                let log = self.gates.place().common_dir.join("logs").join(&name);
                let log = read_regular(log.as_std_path()).ok().flatten().unwrap_or_default();
                let log = String::from_utf8_lossy(&log);
                let is_renamed = log.contains(&format!("renamed {} to {name}", self.branch));
                is_renamed.then(|| name.trim_start_matches("refs/heads/").to_owned())
            }
            _ => None,
        };
        Ok(match renamed {
            Some(name) => format!(
                "the branch `{branch}`, which work lands on, was renamed to `{name}` meanwhile; nothing is lost: start again to continue on `{name}`"
            ),
            None => format!(
                "the branch `{branch}`, which work lands on, is gone; nothing is lost: make it again (`git branch \
                 {branch} <commit>`), or start again on another branch"
            ),
        })
    }

    pub(super) fn short_branch(&self) -> &str {
        self.branch.strip_prefix("refs/heads/").unwrap_or(&self.branch)
    }

    /// Merges files of home that lines cannot be merged in: the plan by record, notes by line, others as the person has
    /// them.
    fn merge_home(&self, sides: &MergeSides<'_>) -> Result<Vec<FileEdit>, GitError> {
        let truth = self.gates.truth();
        let base = truth.merge_base(sides.ours, sides.theirs)?;
        let mut edits = Vec::new();
        for path in sides.conflicts.iter().filter(|path| is_own(&self.own, path)) {
            let base = match &base {
                Some(base) => truth.file_at(base, path)?.unwrap_or_default(),
                None => Vec::new(),
            };
            let ours = truth.file_at(sides.ours, path)?;
            let theirs = truth.file_at(sides.theirs, path)?;
            let content = match (ours, theirs) {
                (Some(ours), Some(theirs)) => Some(merge_home_file(path, &base, &ours, theirs)),
                (_, theirs) => theirs,
            };
            edits.push(FileEdit { path: path.clone(), content });
        }
        Ok(edits)
    }

    /// Makes the commit that lands: on top of the accepted one where it has the tip already, else a merge. Where nothing
    /// of home lands with it, the accepted commit itself does.
    ///
    /// Work whose base the branch no longer contains (it was amended, squashed, rebased or moved back) is carried over as
    /// one new commit, so that nothing comes back which the person has dropped.
    pub(super) fn join(&self, request: &JoinRequest<'_>) -> Result<Joined, WorkflowError> {
        let (landing, truth) = (self.landing(), self.gates.truth());
        let tip = &request.tip.commit;
        let candidate = match request.candidate {
            Some(candidate) if !truth.is_ancestor(candidate, tip)? => Some(candidate),
            _ => None,
        };
        let mut carried = None;
        let (tree, parents, is_unmeasured) = match (candidate, request.base) {
            (None, _) if request.home.is_empty() => return Ok(Joined::Nothing),
            (None, _) => (landing.tree_of(tip)?, vec![tip], false),
            // Before anything else: also a tip that leads to the candidate may have lost what leads there from the base.
            (Some(candidate), Some(base)) if !truth.is_ancestor(base, tip)? => {
                match landing.carry_over(tip, base, candidate, &self.own)? {
                    Carried::Commit(commit) => carried = Some(commit),
                    // It is there, or landed before a crash.
                    Carried::Nothing if request.home.is_empty() => return Ok(Joined::Nothing),
                    Carried::Nothing => {}
                    Carried::Conflict(paths) => return Ok(self.conflict(paths)),
                }
                if let Some(commit) = carried.clone().filter(|_| request.home.is_empty()) {
                    let (is_merge, is_unmeasured) = (false, true);
                    let joined = JoinedCommit { commit, is_merge, is_unmeasured, carried };
                    return Ok(Joined::Commit(joined));
                }
                let below = carried.as_ref().unwrap_or(tip);
                (landing.tree_of(below)?, vec![below], true)
            }
            (Some(candidate), _) if request.home.is_empty() && self.leads_on(tip, candidate)? => {
                let (commit, is_merge, is_unmeasured) = (candidate.clone(), false, false);
                let joined = JoinedCommit { commit, is_merge, is_unmeasured, carried };
                return Ok(Joined::Commit(joined));
            }
            (Some(candidate), _) if truth.is_ancestor(tip, candidate)? => {
                (landing.tree_of(candidate)?, vec![candidate], false)
            }
            (Some(candidate), base) => {
                let tree = match landing.merge(tip, candidate, None)? {
                    TreeMerge::Clean { tree } => tree,
                    TreeMerge::Conflict { tree, paths } => {
                        if paths.iter().any(|path| !is_own(&self.own, path)) {
                            return Ok(self.conflict(paths));
                        }
                        tree
                    }
                };
                let is_unmeasured = match base {
                    Some(base) => !self.changed_outside_home(base, tip)?.is_empty(),
                    None => true,
                };
                (tree, vec![tip, candidate], is_unmeasured)
            }
        };
        let is_merge = parents.len() > 1;
        let commit = landing.commit(&LandingCommit {
            tree: &tree,
            tip,
            // Home and configuration never come from an agent's commit.
            as_in_tip: &self.own,
            edits: request.home,
            parents: &parents,
            message: request.message,
            signing: request.signing,
        })?;
        Ok(Joined::Commit(JoinedCommit { commit, is_merge, is_unmeasured, carried }))
    }

    /// Tells whether a clone's commit has work that the branch has not, in whatever commits. `base` is where it began.
    pub(super) fn is_nowhere(
        &self,
        base: Option<&CommitId>,
        commit: &Oid,
    ) -> Result<bool, WorkflowError> {
        let base = base.map(object);
        if base.as_ref() == Some(commit) {
            return Ok(false);
        }
        let Some(tip) = self.tip()? else { return Ok(true) };
        if self.contains(&tip.commit, commit)? {
            return Ok(false);
        }
        let Some(base) = base else { return Ok(true) };
        // It may have been carried over, as another commit.
        let carried = self.landing().carry_over(&tip.commit, &base, commit, &self.own)?;
        Ok(!matches!(carried, Carried::Nothing))
    }

    /// Tells whether a commit has another in its history.
    pub(super) fn contains(&self, commit: &Oid, other: &Oid) -> Result<bool, WorkflowError> {
        Ok(self.gates.truth().is_ancestor(other, commit)?)
    }

    /// Names what of Ralph's own work changed since its base and is not as the work has it in what landed.
    pub(super) fn left_out(
        &self,
        base: Option<&Oid>,
        candidate: &Oid,
        landed: &Oid,
        given: &[(PathBuf, &[u8])],
    ) -> Result<Vec<String>, WorkflowError> {
        let Some(base) = base else { return Ok(Vec::new()) };
        let truth = self.gates.truth();
        let kept = truth.changes(landed, candidate)?;
        let is_left_out = |change: &PathChange| {
            let path = &change.path;
            let is_note = NOTES.iter().any(|name| path.ends_with(name)) && is_regular(change);
            is_own(&self.own, path) && !is_note && kept.iter().any(|change| change.path == *path)
        };
        let mut changes = truth.changes(base, candidate)?;
        changes.retain(is_left_out);
        // Work on a branch without the last commits of home has not changed what these did.
        if !changes.is_empty()
            && let Some(common) = truth.merge_base(base, candidate)?.filter(|common| common != base)
        {
            changes = truth.changes(&common, candidate)?;
            changes.retain(is_left_out);
        }
        let mut left_out = Vec::new();
        for change in &changes {
            let given =
                given.iter().find(|(path, _)| *path == change.path).map(|(_, bytes)| *bytes);
            if given.is_none() || truth.file_at(candidate, &change.path)?.as_deref() != given {
                left_out.push(shown(&change.path));
            }
        }
        Ok(left_out)
    }

    /// Tells whether a commit is the tip with work alone: nothing of Ralph's own is changed.
    fn leads_on(&self, tip: &Oid, candidate: &Oid) -> Result<bool, WorkflowError> {
        let truth = self.gates.truth();
        if !truth.is_ancestor(tip, candidate)? {
            return Ok(false);
        }
        Ok(!truth.changes(tip, candidate)?.iter().any(|change| is_own(&self.own, &change.path)))
    }

    fn conflict(&self, mut paths: Vec<PathBuf>) -> Joined {
        paths.retain(|path| !is_own(&self.own, path));
        Joined::Conflict { paths }
    }

    /// Moves what has landed to a commit, if the branch is still as it was read; other refs are set with it.
    pub(super) fn advance(
        &self,
        tip: &TipState,
        commit: &LandableCommit,
        marks: &[(&str, &Oid)],
    ) -> Result<LandOutcome, WorkflowError> {
        Ok(self.landing().land_marked(&self.branch, tip, &commit.0, marks)?)
    }

    /// Lets the branch follow what has landed, where that disturbs nothing; returns why it waits, and what to do. `then`
    /// tells what comes after that.
    pub(super) fn follow(&self, then: &str) -> Result<Option<String>, WorkflowError> {
        let outcome = self.landing().follow(&self.branch)?;
        Ok(why_it_waits(self.short_branch(), &outcome, then))
    }
}

/// What a person does once nothing is in the way any more.
pub(super) const THEN_LAND: &str = "then run `ralph land`";

/// Says why a branch does not follow what has landed, and what to do; `None` if nothing keeps it.
pub(super) fn why_it_waits(branch: &str, outcome: &FollowOutcome, then: &str) -> Option<String> {
    let (files, reason) = match outcome {
        FollowOutcome::Current | FollowOutcome::Followed { .. } => return None,
        FollowOutcome::Waits { files, reason, .. } => (files, reason),
        FollowOutcome::NewerCommits { .. } => {
            return Some(format!(
                "`{branch}` has newer commits of yours: the next landing or `ralph land` merges them, if they do not conflict and the gates pass with both"
            ));
        }
        FollowOutcome::Diverged { .. } => {
            return Some(format!(
                "`{branch}` was rewritten; what has landed is in refs/ralph/landed/{branch}: merge it, or delete that ref to \
                 give it up"
            ));
        }
    };
    let files: Vec<String> = files.iter().map(|path| shown(path)).collect();
    let files = files.join(", ");
    let (why, what) = match reason {
        WaitReason::Uncommitted => (
            format!("it has uncommitted changes in {files}"),
            "commit, stash or remove them".to_owned(),
        ),
        WaitReason::Unmerged => (
            format!("it has unmerged changes in {files}"),
            "resolve them and run `git add` on them".to_owned(),
        ),
        WaitReason::Operation(operation) => {
            (format!("a {operation} is under way"), format!("end the {operation}"))
        }
        WaitReason::Busy => (
            "another git process is using it".to_owned(),
            "wait for it to end (if it crashed, remove `.git/index.lock`)".to_owned(),
        ),
        WaitReason::SeveralWorktrees => (
            "several worktrees have the branch checked out".to_owned(),
            "check another branch out in all but one".to_owned(),
        ),
        WaitReason::Unavailable => (
            "its directory does not exist".to_owned(),
            "restore it, or remove that worktree".to_owned(),
        ),
        WaitReason::NeedsFilter { filter } => {
            return Some(format!(
                "your checkout of `{branch}` waits: your filter `{filter}` has to write {files}; run `git merge --ff-only refs/ralph/landed/{branch}`"
            ));
        }
        WaitReason::Refused { message } => (message.clone(), "fix that".to_owned()),
    };
    Some(format!("your checkout of `{branch}` waits: {why}; {what}, {then}"))
}
