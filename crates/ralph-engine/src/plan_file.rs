//! `plan.jsonl` on disk and in git: one writer at a time, each change whole, and committed alone.
//!
//! A change is made under the write lock, on what the file holds then, and is on disk before the lock is given back. What
//! was written and not committed, because a crash came between, the next commit takes along.

use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use jiff::Timestamp;
use ralph_model::plan::{Change, Plan, PlanError};

use crate::boundary::vouch;
use crate::files::lock::{LockError, LockOwner, WriteLock};
use crate::files::{PathError, create_directory, read_optional, replace_atomically};
use crate::git::commits::{CommitError, CommitRequest, Signing, commit_paths};
use crate::git::{Git, GitProgram};
use crate::home::Home;
use crate::state::State;

/// How long another writer, or another program that holds the index, is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// The plan of one home.
pub struct PlanFile {
    path: Utf8PathBuf,
    lock: Utf8PathBuf,
    state: State,
    /// The repository that has the plan, with the plan's path from the root of its work tree.
    place: Option<(Git, Utf8PathBuf)>,
    signing: Signing,
    /// What the person typed, for others who find the plan locked.
    command: String,
}

/// A change was not made; the plan is as it was.
#[derive(Debug, thiserror::Error)]
pub enum PlanFileError {
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    Path(#[from] PathError),
    #[error("the plan was changed, but not committed")]
    Commit(#[from] CommitError),
}

/// What a change came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    pub change: Change,
    /// The plan as it is now.
    pub bytes: Vec<u8>,
}

impl PlanFile {
    pub fn open(
        program: &GitProgram,
        state: &State,
        home: &Home,
        signing: Signing,
        command: impl Into<String>,
    ) -> PlanFile {
        let path = home.path.join("plan.jsonl");
        let place = Git::discover(program.clone(), &home.path).ok().and_then(|git| {
            let worktree = git.place().worktree.clone()?;
            let inside = path.strip_prefix(&worktree).ok()?.to_owned();
            Some((git, inside))
        });
        let (state, command) = (state.clone(), command.into());
        PlanFile { path, lock: state.write_lock(home), state, place, signing, command }
    }

    pub fn path(&self) -> &Utf8Path {
        &self.path
    }

    /// Returns what the file holds; nothing where there is none.
    pub fn read(&self) -> Result<Vec<u8>, PathError> {
        Ok(read_optional(&self.path)?.unwrap_or_default())
    }

    /// Makes a change and writes it; committing is for later.
    pub fn change(
        &self,
        at: Timestamp,
        change: impl FnOnce(&mut Plan<'_>) -> Result<Change, PlanError>,
    ) -> Result<Changed, PlanFileError> {
        let owner = LockOwner::current(self.command.clone(), at);
        let _lock = WriteLock::acquire(&self.lock, &owner, PATIENCE)?;
        self.write(change)
    }

    /// Makes a change, writes it and commits it.
    pub fn change_and_commit(
        &self,
        at: Timestamp,
        change: impl FnOnce(&mut Plan<'_>) -> Result<Change, PlanError>,
    ) -> Result<Changed, PlanFileError> {
        let owner = LockOwner::current(self.command.clone(), at);
        let _lock = WriteLock::acquire(&self.lock, &owner, PATIENCE)?;
        let changed = self.write(change)?;
        if let Some(message) = changed.change.subject() {
            self.commit_locked(&message)?;
        }
        Ok(changed)
    }

    /// Commits what is written.
    pub fn commit(&self, at: Timestamp, message: &str) -> Result<(), PlanFileError> {
        let owner = LockOwner::current(self.command.clone(), at);
        let _lock = WriteLock::acquire(&self.lock, &owner, PATIENCE)?;
        self.commit_locked(message)
    }

    /// Returns what tells whether an id was ever in the plan. History is looked at when the first id is asked for.
    pub fn known_ids(&self) -> Box<dyn Fn(&str) -> bool + '_> {
        Box::new(|_| false)
    }

    /// Tells whether the file is not what `HEAD` has.
    pub fn is_uncommitted(&self) -> Result<bool, PlanFileError> {
        let Some((git, inside)) = &self.place else { return Ok(false) };
        let committed = match git.head().map_err(CommitError::from)?.id() {
            Some(head) => git.file_at(head, inside.as_std_path()).map_err(CommitError::from)?,
            None => None,
        };
        Ok(committed.unwrap_or_default() != self.read()?)
    }

    fn write(
        &self,
        change: impl FnOnce(&mut Plan<'_>) -> Result<Change, PlanError>,
    ) -> Result<Changed, PlanFileError> {
        let before = self.read()?;
        let mut plan = Plan::parse(&before);
        let change = change(&mut plan)?;
        let bytes = plan.render();
        if bytes != before {
            // A run that is under way must not take it for its agent's doing.
            vouch(&self.state, &self.path, &bytes)?;
            create_directory(self.path.parent().expect("it lies in home"))?;
            replace_atomically(&self.path, &bytes)?;
        }
        Ok(Changed { change, bytes })
    }

    fn commit_locked(&self, message: &str) -> Result<(), PlanFileError> {
        let Some((git, inside)) = &self.place else { return Ok(()) };
        let request = CommitRequest {
            paths: &[inside.as_std_path().to_owned()],
            message,
            signing: self.signing,
            patience: PATIENCE,
        };
        match commit_paths(git, &request) {
            Err(CommitError::Moved) => commit_paths(git, &request)?,
            result => result?,
        };
        Ok(())
    }
}
