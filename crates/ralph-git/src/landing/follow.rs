//! The branch follows landed work, and so does the worktree that has it checked out, if that does not interfere.
//!
//! A branch that is not checked out moves in the transaction that deletes the two refs of the landing. A checked-out
//! one moves with the files and the index of its worktree ([`fast_forward`](super::fast_forward)); the refs are deleted
//! last, so that a crash at any point before leaves what is needed to continue.

use std::path::PathBuf;

use super::super::{BranchUse, Git, GitError, GitOperation, Oid};
use super::fast_forward::{FastForward, Forwarded};
use super::transaction::RefTransaction;
use super::{
    ATTEMPTS, BranchRefs, Landing, LandingError, contains_followed, followed_ref, landed_ref,
    refs_of,
};

/// The result for a branch with landed work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FollowOutcome {
    /// No landed work is ahead of the branch.
    Current,
    Followed {
        commit: Oid,
    },
    /// It cannot follow now. Nothing has changed; later items build on the landed work.
    Waits {
        landed: Oid,
        worktree: PathBuf,
        /// Files of the worktree, relative to its root, that are obstacles.
        files: Vec<PathBuf>,
        reason: WaitReason,
    },
    /// The person has newer commits: [`Landing::tip`] merges them first.
    NewerCommits {
        landed: Oid,
        branch: Oid,
    },
    /// The branch was rewritten or deleted: a question to the person.
    Diverged {
        landed: Oid,
        branch: Option<Oid>,
    },
}

/// Why a worktree does not follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitReason {
    /// Files that the landed work touches have uncommitted changes, or are untracked.
    Uncommitted,
    /// Files are unmerged in the index, with no operation in progress: a `git stash pop` that ended in a conflict.
    Unmerged,
    /// A merge or similar operation is in progress.
    Operation(GitOperation),
    /// Another git process holds the index.
    Busy,
    /// Several worktrees have the branch checked out.
    SeveralWorktrees,
    /// The worktree's directory is missing, or is another repository.
    Unavailable,
    /// Files would need a filter, which is not run.
    NeedsFilter { filter: String },
    /// Git refused, with this message.
    Refused { message: String },
}

impl Landing<'_> {
    /// Brings a branch, given in full, to the work that has landed for it. Idempotent.
    pub fn follow(&self, branch: &str) -> Result<FollowOutcome, LandingError> {
        for _ in 0..ATTEMPTS {
            let refs = refs_of(self.person, branch)?;
            let Some(landed) = refs.landed.clone() else { return Ok(FollowOutcome::Current) };
            let Some(now) = refs.branch.clone() else {
                return Ok(FollowOutcome::Diverged { landed, branch: None });
            };
            let uses = self.person.uses_of(branch)?;
            if self.person.is_ancestor(&landed, &now)? {
                // A crash may have happened between moving the branch and updating the index.
                for one in uses.iter().filter_map(|one| one.git.as_ref()) {
                    FastForward::complete(one, &landed)?;
                }
                if self.finish(branch, &refs)? {
                    return Ok(FollowOutcome::Followed { commit: now });
                }
                continue;
            }
            if !contains_followed(self.person, &now, refs.followed.as_ref())? {
                return Ok(FollowOutcome::Diverged { landed, branch: Some(now) });
            }
            if !self.person.is_ancestor(&now, &landed)? {
                return Ok(FollowOutcome::NewerCommits { landed, branch: now });
            }
            let (files, worktree, reason) = match self.advance(branch, &uses, &now, &landed)? {
                Forwarded::Done => {
                    if self.finish(branch, &BranchRefs { branch: Some(landed.clone()), ..refs })? {
                        return Ok(FollowOutcome::Followed { commit: landed });
                    }
                    continue;
                }
                Forwarded::Lost => continue,
                Forwarded::Waits { files, worktree, reason } => (files, worktree, reason),
            };
            return Ok(FollowOutcome::Waits { landed, worktree, files, reason });
        }
        Err(LandingError::Contended { branch: branch.to_owned() })
    }

    /// Moves the branch, and the worktree that has it checked out.
    fn advance(
        &self,
        branch: &str,
        uses: &[BranchUse],
        now: &Oid,
        landed: &Oid,
    ) -> Result<Forwarded, LandingError> {
        let waits = |one: &BranchUse, reason| {
            let worktree = one.worktree.path.clone();
            Ok(Forwarded::Waits { files: Vec::new(), worktree, reason })
        };
        match uses {
            [] => {
                let mut refs = RefTransaction::new(self.person, "ralph: follow", now)?;
                refs.update(branch, Some(landed), Some(now));
                Ok(if refs.commit()? { Forwarded::Done } else { Forwarded::Lost })
            }
            [one] => match (&one.git, one.operation) {
                (_, Some(operation)) => waits(one, WaitReason::Operation(operation)),
                (None, None) => waits(one, WaitReason::Unavailable),
                (Some(git), None) => FastForward { git, branch, from: now, to: landed }.run(),
            },
            [_, second, ..] => waits(second, WaitReason::SeveralWorktrees),
        }
    }

    /// Deletes the refs of a landing that the branch has followed; `false` if they moved meanwhile.
    fn finish(&self, branch: &str, refs: &BranchRefs) -> Result<bool, LandingError> {
        let Some(like) = refs.branch.as_ref().or(refs.landed.as_ref()) else { return Ok(true) };
        let mut end = RefTransaction::new(self.person, "ralph: followed", like)?;
        end.verify(branch, refs.branch.as_ref());
        end.update(&landed_ref(branch)?, None, refs.landed.as_ref());
        if let Some(followed) = &refs.followed {
            end.update(&followed_ref(branch)?, None, Some(followed));
        }
        Ok(end.commit()?)
    }
}

impl Git {
    /// Returns what would happen if a branch, given in full, followed the work that has landed for it. Nothing is
    /// moved.
    pub fn look_at_following(&self, branch: &str) -> Result<FollowOutcome, LandingError> {
        let refs = refs_of(self, branch)?;
        let Some(landed) = refs.landed else { return Ok(FollowOutcome::Current) };
        let Some(now) = refs.branch else {
            return Ok(FollowOutcome::Diverged { landed, branch: None });
        };
        if self.is_ancestor(&landed, &now)? {
            return Ok(FollowOutcome::Followed { commit: now });
        }
        if !contains_followed(self, &now, refs.followed.as_ref())? {
            return Ok(FollowOutcome::Diverged { landed, branch: Some(now) });
        }
        if !self.is_ancestor(&now, &landed)? {
            return Ok(FollowOutcome::NewerCommits { landed, branch: now });
        }
        let uses = self.uses_of(branch)?;
        let (files, reason) = match &uses[..] {
            [] => return Ok(FollowOutcome::Followed { commit: landed }),
            [_, _, ..] => (Vec::new(), WaitReason::SeveralWorktrees),
            [one] => match (&one.git, one.operation) {
                (_, Some(operation)) => (Vec::new(), WaitReason::Operation(operation)),
                (None, None) => (Vec::new(), WaitReason::Unavailable),
                (Some(git), None) => {
                    let forward = FastForward { git, branch, from: &now, to: &landed };
                    match forward.obstacle()? {
                        Some(obstacle) => obstacle,
                        None => return Ok(FollowOutcome::Followed { commit: landed }),
                    }
                }
            },
        };
        let worktree = uses.last().map(|one| one.worktree.path.clone()).unwrap_or_default();
        Ok(FollowOutcome::Waits { landed, worktree, files, reason })
    }
}

/// Decides whether a failed call in a person's worktree only has to wait.
pub(super) fn waits_for(error: GitError) -> Result<WaitReason, GitError> {
    match error {
        GitError::Locked { .. } => Ok(WaitReason::Busy),
        GitError::Failed { stderr, .. } => Ok(WaitReason::Refused { message: stderr }),
        other => Err(other),
    }
}

/// Returns the root of a worktree.
pub(super) fn root_of(git: &Git) -> PathBuf {
    git.place().worktree.clone().unwrap_or_default().into()
}
