//! Landing: judged work reaches the person's branch, by compare-and-swap, without overwriting anything of theirs.
//!
//! Three refs describe a branch. The branch itself is the person's. `refs/ralph/landed/<branch>` exists while landed
//! work is ahead of it: the next item builds on that. `refs/ralph/followed/<branch>` is the position of the branch when
//! work last landed; a branch that no longer contains it was rewritten, which only a person can resolve.
//!
//! Where the person has newer commits, these and landed work were never tested together: [`Landing::tip`] only prepares
//! their merge, and the caller lands it once it has been checked.
//!
//! Order of a landing: merge and commit in the mirror ([`Landing::merge`], [`Landing::commit`]), then
//! [`Landing::land`]: objects are copied to the person's repository, then one transaction verifies the branch and moves
//! the other two refs. [`Landing::follow`] moves the branch and the worktree that has it checked out, and deletes the
//! two refs. Each step is idempotent after a crash; the loser of a race reads again ([`Landing::tip`]).

mod candidate;
mod commit;
mod fast_forward;
mod follow;
mod merge;
mod plain_forward;
mod transaction;

use std::path::PathBuf;

use ralph_proc::fault;

use super::clearing::FileError;
use super::commits::{CommitError, Signing};
use super::drivers::Drivers;
use super::item_refs::ItemKey;
use super::mirror::{Mirror, MirrorError};
use super::new_commit::NewCommit;
use super::{Git, GitError, ObjectError, Oid};
pub use candidate::JudgedWork;
pub use commit::{FileEdit, LandingCommit};
pub use follow::{FollowOutcome, WaitReason};
pub use merge::{Carried, MergeSides, TreeMerge};
use transaction::RefTransaction;

const LANDED: &str = "refs/ralph/landed/";
const FOLLOWED: &str = "refs/ralph/followed/";
/// How often following is tried again after a lost race.
const ATTEMPTS: usize = 16;

/// Work could not be landed, or it is unknown whether it was: the refs tell.
#[derive(Debug, thiserror::Error)]
pub enum LandingError {
    #[error("`{name}` is not the full name of a branch")]
    NotABranch { name: String },
    #[error(
        "`{branch}` was moved by another process each time that work was about to land on it: it is tried again"
    )]
    Contended { branch: String },
    #[error("`{}` cannot be a file of a commit", super::shown(path))]
    Path { path: PathBuf },
    #[error("the landing's objects cannot be written: {reason}")]
    Objects { reason: &'static str },
    #[error(transparent)]
    Read(#[from] ObjectError),
    #[error(transparent)]
    Files(#[from] FileError),
    #[error(transparent)]
    Mirror(#[from] MirrorError),
    #[error(transparent)]
    Commit(#[from] CommitError),
    #[error(transparent)]
    Git(#[from] GitError),
}

/// Where work on a branch continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BranchTip {
    /// The branch has no commit yet.
    Unborn,
    At(TipState),
    /// The person has commits that landed work was not merged with yet.
    Newer(NewerCommits),
    /// While landed work was ahead, the branch was rewritten or deleted: a question to the person.
    Diverged {
        landed: Oid,
        branch: Option<Oid>,
        followed: Option<Oid>,
    },
    /// The person's newer commits and landed work change the same lines: a question to the person.
    Conflict {
        landed: Oid,
        branch: Oid,
        paths: Vec<PathBuf>,
    },
}

/// The refs of a branch when they were read. A landing counts only if they are unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TipState {
    /// What the next item builds on, and what a landing is merged with.
    pub commit: Oid,
    pub branch: Oid,
    pub landed: Option<Oid>,
}

/// The person's newer commits merged with landed work. The merge is in the mirror alone: it is the tip once it has landed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewerCommits {
    /// The tip without them.
    pub read: TipState,
    pub merge: Oid,
}

/// The result of a landing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LandOutcome {
    Landed,
    /// Branch or landed work moved since the tip was read; nothing has changed.
    Lost,
}

/// The person's repository and the mirror in which landings are prepared.
#[derive(Clone, Copy, Debug)]
pub struct Landing<'a> {
    pub person: &'a Git,
    pub mirror: &'a Mirror,
}

/// The three refs of a branch, read at one time.
struct BranchRefs {
    branch: Option<Oid>,
    landed: Option<Oid>,
    followed: Option<Oid>,
}

impl Landing<'_> {
    /// Returns where work on a branch, given in full, continues.
    ///
    /// Newer commits of the person's are merged with landed work, but that merge does not land by itself; `home` merges
    /// the files that cannot be merged by line.
    pub fn tip(
        &self,
        branch: &str,
        home: &mut dyn FnMut(&MergeSides<'_>) -> Vec<FileEdit>,
    ) -> Result<BranchTip, LandingError> {
        let refs = refs_of(self.person, branch)?;
        let (now, landed) = match (refs.branch, refs.landed) {
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
        let at = |commit: &Oid| {
            let (commit, landed) = (commit.clone(), Some(landed.clone()));
            TipState { commit, branch: now.clone(), landed }
        };
        if self.person.is_ancestor(&landed, &now)? {
            return Ok(BranchTip::At(at(&now)));
        }
        if !contains_followed(self.person, &now, refs.followed.as_ref())? {
            let (branch, followed) = (Some(now), refs.followed);
            return Ok(BranchTip::Diverged { landed, branch, followed });
        }
        if self.person.is_ancestor(&now, &landed)? {
            return Ok(BranchTip::At(at(&landed)));
        }
        Ok(match self.merge_newer(branch, &landed, &now, home)? {
            Ok(merge) => BranchTip::Newer(NewerCommits { read: at(&landed), merge }),
            Err(paths) => BranchTip::Conflict { landed, branch: now, paths },
        })
    }

    /// Lands a commit of the mirror on a branch whose tip was read before.
    ///
    /// The commit must descend from `read.commit`. All its objects are in the person's repository before a ref moves.
    pub fn land(
        &self,
        branch: &str,
        read: &TipState,
        commit: &Oid,
    ) -> Result<LandOutcome, LandingError> {
        self.land_marked(branch, read, commit, &[])
    }

    /// The same; other refs are set atomically with it. Their targets must be ancestors of the commit, or in the
    /// person's repository.
    pub fn land_marked(
        &self,
        branch: &str,
        read: &TipState,
        commit: &Oid,
        marks: &[(&str, &Oid)],
    ) -> Result<LandOutcome, LandingError> {
        self.bring(commit)?;
        let (landed, followed) = (landed_ref(branch)?, followed_ref(branch)?);
        let mut refs = RefTransaction::new(self.person, "ralph: land", commit)?;
        refs.verify(branch, Some(&read.branch));
        refs.update(&landed, Some(commit), read.landed.as_ref());
        refs.set(&followed, &read.branch);
        for (name, id) in marks {
            refs.set(name, id);
        }
        Ok(if refs.commit()? { LandOutcome::Landed } else { LandOutcome::Lost })
    }

    /// Keeps an item's uncommitted leftovers, a commit of the mirror, on the item's own ref.
    pub fn keep_left(&self, key: &ItemKey, commit: &Oid) -> Result<(), LandingError> {
        self.bring(commit)?;
        let mut refs = RefTransaction::new(self.person, "ralph: leftovers", commit)?;
        refs.set(&key.left_ref(), commit);
        refs.commit()?;
        Ok(())
    }

    /// Copies a commit of the mirror, with all its ancestors, to the person's repository.
    fn bring(&self, commit: &Oid) -> Result<(), LandingError> {
        if self.person.have(std::slice::from_ref(commit))? != [true] {
            self.person.take_from(&self.mirror.git().place().git_dir, commit)?;
            fault::after_write();
        }
        Ok(())
    }

    /// Merges the person's newer commits with landed work; returns the conflicting paths if that fails.
    fn merge_newer(
        &self,
        branch: &str,
        landed: &Oid,
        now: &Oid,
        home: &mut dyn FnMut(&MergeSides<'_>) -> Vec<FileEdit>,
    ) -> Result<Result<Oid, Vec<PathBuf>>, LandingError> {
        self.mirror.fill(self.person, &[])?;
        let merged = self.merge(landed, now, None)?;
        let (TreeMerge::Clean { tree } | TreeMerge::Conflict { tree, .. }) = &merged;
        let conflicts = match &merged {
            TreeMerge::Clean { .. } => &[][..],
            TreeMerge::Conflict { paths, .. } => paths,
        };
        let edits = home(&MergeSides { ours: landed, theirs: now, conflicts });
        let is_open = |path: &&PathBuf| !edits.iter().any(|edit| edit.path == **path);
        let open: Vec<PathBuf> = conflicts.iter().filter(is_open).cloned().collect();
        if !open.is_empty() {
            return Ok(Err(open));
        }
        let short = branch.strip_prefix("refs/heads/").unwrap_or(branch);
        let commit = self.commit(&LandingCommit {
            tree,
            tip: landed,
            as_in_tip: &[],
            edits: &edits,
            parents: &[landed, now],
            message: &format!("Merge branch '{short}' into landed work\n"),
            signing: Signing::Unsigned,
        })?;
        Ok(Ok(commit))
    }

    /// Creates a commit in the mirror, in the person's name.
    fn write_commit(&self, commit: &NewCommit<'_>) -> Result<Oid, LandingError> {
        let drivers = Drivers::of(self.person)?;
        let id = commit.write(self.mirror.git(), self.person, &drivers)?;
        self.mirror.keep(&id)?;
        Ok(id)
    }
}

/// Reads the three refs of a branch.
fn refs_of(person: &Git, branch: &str) -> Result<BranchRefs, LandingError> {
    let names = [branch.to_owned(), landed_ref(branch)?, followed_ref(branch)?];
    let found = person.refs_at(&names.each_ref().map(String::as_str))?;
    // Refs below these names are found as well.
    let [branch, landed, followed] =
        names.map(|name| found.iter().find(|one| one.name == name).map(|one| one.id.clone()));
    Ok(BranchRefs { branch, landed, followed })
}

fn contains_followed(person: &Git, now: &Oid, followed: Option<&Oid>) -> Result<bool, GitError> {
    match followed {
        Some(followed) => person.is_ancestor(followed, now),
        None => Ok(false),
    }
}

fn landed_ref(branch: &str) -> Result<String, LandingError> {
    short_name(branch).map(|short| format!("{LANDED}{short}"))
}

fn followed_ref(branch: &str) -> Result<String, LandingError> {
    short_name(branch).map(|short| format!("{FOLLOWED}{short}"))
}

fn short_name(branch: &str) -> Result<&str, LandingError> {
    let short = branch.strip_prefix("refs/heads/").filter(|short| !short.is_empty());
    short.ok_or_else(|| LandingError::NotABranch { name: branch.to_owned() })
}

#[cfg(test)]
#[path = "landing_tests.rs"]
mod tests;
