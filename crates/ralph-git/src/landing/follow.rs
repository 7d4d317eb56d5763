//! The branch follows landed work, and so does the worktree that has it checked out, where that disturbs nothing.
//!
//! A branch that is checked out nowhere moves in the transaction that deletes the two refs of the landing. One that is
//! checked out moves with the files and the index of its worktree ([`fast_forward`](super::fast_forward)); the refs go
//! last, so that a crash at any instant before leaves what is needed to go on.

use std::path::PathBuf;

use super::super::{BranchUse, Git, GitError, GitOperation, Oid};
use super::fast_forward::{FastForward, Forwarded};
use super::transaction::RefTransaction;
use super::{
    ATTEMPTS, BranchRefs, Landing, LandingError, contains_followed, followed_ref, landed_ref,
    refs_of,
};

/// What became of a branch for which work has landed.
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
        /// Files of the worktree, from its root, that are in the way.
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
    /// Files that the landed work touches have uncommitted changes, or are not tracked.
    Uncommitted,
    /// A merge or the like has not been ended.
    Operation(GitOperation),
    /// Another git holds the index.
    Busy,
    /// Several worktrees have the branch checked out.
    SeveralWorktrees,
    /// The worktree's directory is not there, or is another repository.
    Unavailable,
    /// Files would have to be written by a filter, which is not run.
    NeedsFilter { filter: String },
    /// Git refused, in its own words.
    Refused { message: String },
}

impl Landing<'_> {
    /// Brings a branch, named in full, to the work that has landed for it. Can be repeated at any time.
    pub fn follow(&self, branch: &str) -> Result<FollowOutcome, LandingError> {
        for _ in 0..ATTEMPTS {
            let refs = refs_of(self.person, branch)?;
            let Some(landed) = refs.landed.clone() else { return Ok(FollowOutcome::Current) };
            let Some(now) = refs.branch.clone() else {
                return Ok(FollowOutcome::Diverged { landed, branch: None });
            };
            let uses = self.person.uses_of(branch)?;
            if self.person.is_ancestor(&landed, &now)? {
                // A crash may have come between the move of the branch and that of the index.
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
    /// Returns what would become of a branch, named in full, if it were to follow the work that has landed for it. Nothing
    /// is moved.
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

/// Says of a failed call in a person's worktree whether it only has to wait.
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
