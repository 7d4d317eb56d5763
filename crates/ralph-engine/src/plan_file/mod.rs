//! `plan.jsonl` on disk and in git: one writer at a time, atomic changes, each in its own commit.
//!
//! A change is made under the write lock, on the current file, and is on disk before the lock is released. The index
//! lock of the repository is held from before the file is read until the change is committed, so that git does not
//! replace the file meanwhile; either exactly the written content is committed, on the branch whose file was read, or
//! nothing. The commit message is recorded first ([`intent`]), so that a change left uncommitted by a crash is
//! committed by the next writer under its own message: otherwise the history would be wrong. Changes by agents during a
//! run are kept separate until the run has ended ([`draft`]). [`past`] knows the outcome of removed tasks, and all ids
//! ever used. Permissions are checked elsewhere.

pub(crate) mod draft;
pub mod finished;
mod intent;
pub mod known;
pub mod merge_driver;
pub mod past;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use ralph_model::plan::{Change, DoneAt, Plan, PlanContext, PlanError, commit_message};

use self::draft::Draft;
use self::intent::Intent;
use self::known::PastIds;
use self::past::{Past, PlanPast};
use crate::boundary::vouch_for;
use crate::digest;
use crate::files::disk;
use crate::files::lock::{LockError, WriteLock, is_owned};
use crate::files::note::read_note;
use crate::files::{
    PathError, create_directory, read_optional, remove_abandoned, replace_atomically,
    sync_directory,
};
use crate::git::commits::{CommitError, CommitRequest, Signing};
use crate::git::replaced::Replaced;
use crate::git::{GitError, GitProgram, Oid};
use crate::home::Home;
use crate::repository::HeldFile;
use crate::state::State;

/// The plan's file name in home.
pub const PLAN_FILE: &str = "plan.jsonl";

/// How long to wait for another writer, or another program that holds the index.
const PATIENCE: Duration = Duration::from_secs(30);

/// The plan of one home.
pub struct PlanFile {
    path: Utf8PathBuf,
    lock: Utf8PathBuf,
    /// The lock of the process that runs agents in this home.
    run_lock: Utf8PathBuf,
    state: State,
    /// The repository that contains the plan, if any.
    past: Option<Box<dyn PlanPast>>,
    /// Whether changes are committed at all.
    commits: bool,
    signing: Signing,
    patience: Duration,
    /// Changes of this writer to be committed later.
    later: Mutex<Vec<Change>>,
    /// A staged version of the file that a commit of this writer replaced.
    displaced: Mutex<Option<Oid>>,
    /// What the agent of the current run, or of one that just ended, sees and changes.
    draft: Mutex<Option<Draft>>,
}

/// A change that is on disk.
struct Written {
    change: Change,
    /// The file before and after the change.
    before: Vec<u8>,
    after: Vec<u8>,
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
    #[error(transparent)]
    Git(#[from] GitError),
    #[error("the plan was changed, but not committed")]
    Commit(#[from] CommitError),
    /// Not made because an earlier change cannot be committed: each has its own message.
    #[error("nothing was changed: the change before this one is still to be committed")]
    Waits(#[source] CommitError),
    /// The file changed since it was read.
    #[error("the change was not kept")]
    Lost(#[source] CommitError),
}

impl PlanFileError {
    /// Returns advice for the person.
    pub fn hint(&self) -> Option<String> {
        match self {
            PlanFileError::Commit(CommitError::Git(error)) => error.hint().map(|hint| {
                format!("{hint}; the next change to the plan commits this one along with it")
            }),
            PlanFileError::Commit(CommitError::Unmerged { path })
            | PlanFileError::Waits(CommitError::Unmerged { path }) => {
                Some(format!("resolve the conflict in `{0}`, then `git add {0}`", path.display()))
            }
            PlanFileError::Commit(CommitError::NeedsFilter { .. })
            | PlanFileError::Waits(CommitError::NeedsFilter { .. }) => {
                let directory = "the `.gitattributes` beside it";
                Some(format!("a line `{PLAN_FILE} -filter` in {directory} exempts the plan"))
            }
            PlanFileError::Commit(CommitError::NotSigned(_)) => Some(
                "the signing method comes from your own git configuration, not from the repository's: see `git config \
                 --global gpg.format` and `user.signingkey`; the next change to the plan commits this one along with it"
                    .to_owned(),
            ),
            PlanFileError::Commit(_) => {
                Some("the next change to the plan commits this one along with it".to_owned())
            }
            PlanFileError::Waits(CommitError::Git(error)) => {
                error.hint().map(|hint| format!("{hint}; then repeat this change"))
            }
            PlanFileError::Waits(_) => {
                Some("fix that, then repeat this change".to_owned())
            }
            PlanFileError::Lost(CommitError::Older { path }) => Some(format!(
                "`git checkout HEAD -- {0}` brings the last one back; if the earlier one is wanted, commit it first",
                path.display()
            )),
            PlanFileError::Lost(_) => Some("repeat this change".to_owned()),
            PlanFileError::Git(error) => error.hint(),
            PlanFileError::Lock(LockError::WriteHeld { .. }) => {
                Some("wait for it to end, then try again".to_owned())
            }
            PlanFileError::Plan(PlanError::Unreadable { .. }) => {
                Some("`ralph validate` lists everything that is wrong".to_owned())
            }
            _ => None,
        }
    }
}

impl PlanFile {
    pub fn open(program: &GitProgram, state: &State, home: &Home, signing: Signing) -> PlanFile {
        let past = Past::of(program, &home.path, Some(state));
        PlanFile::over(past.map(|past| Box::new(past) as Box<dyn PlanPast>), state, home, signing)
    }

    /// Opens the plan of a home with the history of its repository.
    pub(crate) fn over(
        past: Option<Box<dyn PlanPast>>,
        state: &State,
        home: &Home,
        signing: Signing,
    ) -> PlanFile {
        PlanFile {
            path: home.path.join(PLAN_FILE),
            lock: state.write_lock(home),
            run_lock: state.run_lock(home),
            past,
            state: state.clone(),
            commits: true,
            signing,
            patience: PATIENCE,
            later: Mutex::default(),
            displaced: Mutex::default(),
            draft: Mutex::default(),
        }
    }

    /// Keeps the plan out of git, if the person does not want home committed.
    #[must_use]
    pub fn uncommitted(self) -> PlanFile {
        PlanFile { commits: false, ..self }
    }

    pub fn path(&self) -> &Utf8Path {
        &self.path
    }

    /// Returns the plan: the file, including the changes of a run's agent.
    pub fn read(&self) -> Result<Vec<u8>, PathError> {
        let file = self.read_file()?;
        Ok(match &*self.draft() {
            Some(draft) if draft.changes().is_some() => draft.merged_into(&file),
            _ => file,
        })
    }

    /// Returns the content of the file; empty if missing.
    fn read_file(&self) -> Result<Vec<u8>, PathError> {
        Ok(read_optional(&self.path)?.unwrap_or_default())
    }

    /// Begins a run: its agent sees the current plan, whatever happens to the file meanwhile.
    pub(crate) fn begin_run(&self) -> Result<(), PlanFileError> {
        let _lock = self.lock()?;
        self.land()?;
        *self.draft() = Some(Draft::of(self.read_file()?));
        Ok(())
    }

    /// Takes over the changes of a killed Ralph's run. The caller must hold the run lock.
    pub fn for_runs(self) -> Result<PlanFile, PathError> {
        *self.draft() = Draft::load(&self.state, &self.path)?;
        Ok(self)
    }

    /// Returns the plan as seen by the agent of the current run.
    pub(crate) fn read_in_run(&self) -> Result<Vec<u8>, PathError> {
        match &*self.draft() {
            Some(draft) => Ok(draft.plan().to_vec()),
            None => self.read_file(),
        }
    }

    /// Makes a change requested by the agent of the current run. It is written to the file after the run.
    pub(crate) fn change_in_run<E>(
        &self,
        change: impl FnOnce(&mut Plan<'_>) -> Result<Change, E>,
    ) -> Result<Change, PlanFileError>
    where
        PlanFileError: From<E>,
    {
        let _lock = self.lock()?;
        let mut slot = self.draft();
        if slot.is_none() {
            *slot = Some(Draft::of(self.read_file()?));
        }
        let draft = slot.as_mut().expect("it was made above");
        let before = draft.plan().to_vec();
        let mut plan = Plan::parse(&before);
        let change = change(&mut plan)?;
        let after = plan.render();
        if after != before {
            draft.take(&change, after, &self.state, &self.path)?;
        }
        Ok(change)
    }

    /// Writes the changes of a finished run's agent. They are committed later, as one change. The caller must hold the
    /// lock.
    fn land(&self) -> Result<(), PlanFileError> {
        if self.draft().is_none() && Draft::is_left(&self.state, &self.path) {
            // The draft of a killed Ralph, unless one is running now.
            if is_owned(&self.run_lock) {
                return Ok(());
            }
            *self.draft() = Draft::load(&self.state, &self.path)?;
        }
        let Some(draft) = self.draft().take() else { return Ok(()) };
        let Some((changes, message)) = draft.changes() else { return Ok(()) };
        let written = self.write_draft(&draft, message);
        if written.is_err() {
            *self.draft() = Some(draft);
            return written;
        }
        *self.later() = changes.to_vec();
        // A start restores the draft of home to its last commit, but for a plan that is as noted.
        Intent::keep(&self.state, &self.path)?;
        Ok(Draft::forget(&self.state, &self.path)?)
    }

    fn write_draft(&self, draft: &Draft, message: &str) -> Result<(), PlanFileError> {
        self.heal()?;
        // No checkout may happen between reading and writing.
        let _held = self.hold_index()?;
        let before = self.read_file()?;
        let after = draft.merged_into(&before);
        if after != before {
            let digest = digest::of_bytes(&after);
            self.note(Some(message.to_owned()), &digest)?;
            self.put(&before, &after, &digest)?;
        }
        Ok(())
    }

    /// Makes a change and writes it; it is committed later, possibly by another writer.
    pub(crate) fn change(
        &self,
        change: impl FnOnce(&mut Plan<'_>) -> Result<Change, PlanError>,
    ) -> Result<Change, PlanFileError> {
        let _lock = self.lock()?;
        self.land()?;
        let mut later = std::mem::take(&mut *self.later());
        let noted = Intent::left(&self.state, &self.path)?;
        if noted.is_none_or(|noted| Some(noted.message()) != commit_message(&later).as_deref()) {
            later.clear();
            self.heal()?;
        }
        let before = later.len();
        // No checkout may happen between reading and writing.
        let held = self.hold_index()?;
        let changed = self.write(change, |change, digest| {
            later.push(change.clone());
            self.note(commit_message(&later), digest)
        });
        drop(held);
        if changed.is_err() {
            later.truncate(before);
        }
        *self.later() = later;
        changed.map(|written| written.change)
    }

    /// Makes a change, writes it and commits it.
    pub fn change_and_commit(
        &self,
        change: impl FnOnce(&mut Plan<'_>) -> Result<Change, PlanError>,
    ) -> Result<Change, PlanFileError> {
        let _lock = self.lock()?;
        self.land()?;
        self.heal()?;
        let held = self.hold_index()?;
        let written = self.write(change, |change, digest| self.note(change.message(), digest))?;
        if let Some(message) = written.change.message() {
            self.commit_written(&message, held, &written.before, &written.after)?;
        }
        Ok(written.change)
    }

    /// Commits what is written: deferred changes with their own messages, then any other edits.
    pub fn commit(&self) -> Result<(), PlanFileError> {
        let _lock = self.lock()?;
        self.land()?;
        self.heal()?;
        let Some(past) = self.past.as_ref().filter(|_| self.commits) else { return Ok(()) };
        let paths = [Path::to_owned(past.path())];
        past.git().commit_files(&self.request(&paths, "ralph: update plan\n"))?;
        Ok(Intent::settle(&self.state, &self.path)?)
    }

    /// Returns the lookup of all ids that were ever in the plan.
    pub(crate) fn known_ids(&self) -> PastIds<'_> {
        PastIds::in_past(self.past.as_deref())
    }

    /// Calls a function with the context that a change needs in addition to the plan.
    pub fn with_context<T>(
        &self,
        done_at: DoneAt,
        change: impl FnOnce(&mut PlanContext<'_>) -> T,
    ) -> T {
        let ids = self.known_ids();
        let (known, past_is_whole) = (|id: &str| ids.has(id), || ids.is_whole());
        let mut random = random_numbers();
        change(&mut PlanContext {
            known: &known,
            past_is_whole: &past_is_whole,
            random: &mut random,
            done_at,
        })
    }

    /// Returns the staged version of the file, if the last commit replaced it and nothing else contains it.
    pub fn displaced(&self) -> Option<Oid> {
        self.displaced.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Explains which part of the plan's history is missing, and how to fetch it.
    pub fn gap(&self) -> Option<String> {
        self.past.as_ref().and_then(|past| past.gap())
    }

    /// Returns the commit that contains work finished now.
    pub fn done_at(&self) -> Result<DoneAt, PlanFileError> {
        let Some(past) = &self.past else { return Ok(DoneAt::Unborn) };
        let head = past.git().current_head()?;
        let commit = head.id().and_then(|id| id.as_str().parse().ok());
        Ok(commit.map_or(DoneAt::Unborn, DoneAt::Commit))
    }

    /// Whether the file differs from `HEAD`.
    pub fn is_uncommitted(&self) -> Result<bool, PlanFileError> {
        let Some(past) = self.past.as_ref().filter(|_| self.commits) else { return Ok(false) };
        let committed = match past.git().head()?.id() {
            Some(head) => past.git().file_at(head, past.path())?,
            None => None,
        };
        Ok(committed.unwrap_or_default() != self.read_file()?)
    }

    fn lock(&self) -> Result<WriteLock, LockError> {
        WriteLock::acquire(&self.lock, self.home(), self.patience)
    }

    fn home(&self) -> &Utf8Path {
        self.path.parent().expect("the plan is in home")
    }

    fn draft(&self) -> MutexGuard<'_, Option<Draft>> {
        self.draft.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn later(&self) -> MutexGuard<'_, Vec<Change>> {
        self.later.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the commit message of a change that is about to be written.
    fn note(&self, message: Option<String>, digest: &str) -> Result<(), PathError> {
        match message.filter(|_| self.commits && self.past.is_some()) {
            Some(message) => Intent::note(&self.state, &self.path, &message, digest),
            None => Ok(()),
        }
    }

    /// Commits, under its own message, what another writer wrote and did not commit: it has died, or commits later.
    fn heal(&self) -> Result<(), PlanFileError> {
        let Some(intent) = Intent::left(&self.state, &self.path)? else { return Ok(()) };
        let held = self.hold_index().map_err(|why| PlanFileError::Waits(why.into()))?;
        let bytes = self.read_file()?;
        if intent.was_written(&bytes) {
            // The writer may have died before its file was sure to keep its name: what the commit has must not be gone from
            // the work tree when the power fails.
            sync_directory(self.home())?;
            let committed = self.commit_written(intent.message(), held, &bytes, &bytes);
            committed.map_err(|error| match error {
                PlanFileError::Commit(why) => PlanFileError::Waits(why),
                other => other,
            })?;
        }
        // The writer may have died before renaming its temporary file, which git would otherwise add with everything
        // else.
        if disk::is_directory(self.home()) {
            remove_abandoned(self.home())?;
        }
        Ok(Intent::settle(&self.state, &self.path)?)
    }

    fn write(
        &self,
        change: impl FnOnce(&mut Plan<'_>) -> Result<Change, PlanError>,
        before_writing: impl FnOnce(&Change, &str) -> Result<(), PathError>,
    ) -> Result<Written, PlanFileError> {
        let before = self.read_file()?;
        let mut plan = Plan::parse(&before);
        let change = change(&mut plan)?;
        let after = plan.render();
        if after != before {
            let digest = digest::of_bytes(&after);
            before_writing(&change, &digest)?;
            self.put(&before, &after, &digest)?;
        }
        Ok(Written { change, before, after })
    }

    /// Replaces the file.
    fn put(&self, before: &[u8], after: &[u8], digest: &str) -> Result<(), PathError> {
        // A run that is under way must not take it for its agent's doing.
        vouch_for(&self.state, self.home(), &self.path, digest)?;
        if before.is_empty() {
            create_directory(self.home())?;
        }
        replace_atomically(&self.path, after)
    }

    /// Keeps git from replacing the file, if it is committed.
    fn hold_index(&self) -> Result<Option<Box<dyn HeldFile + '_>>, GitError> {
        let past = self.past.as_ref().filter(|_| self.commits);
        past.map(|past| past.git().hold_index(self.patience)).transpose()
    }

    fn request<'a>(&self, paths: &'a [PathBuf], message: &'a str) -> CommitRequest<'a> {
        CommitRequest { paths, message, signing: self.signing, patience: self.patience }
    }

    /// Commits the file as written while the index is locked.
    fn commit_written(
        &self,
        message: &str,
        held: Option<Box<dyn HeldFile + '_>>,
        before: &[u8],
        after: &[u8],
    ) -> Result<(), PlanFileError> {
        let Some((past, held)) = self.past.as_ref().zip(held) else { return Ok(()) };
        let paths = [Path::to_owned(past.path())];
        let message = format!("{}\n", message.trim_end());
        let request = self.request(&paths, &message);
        match held.commit(&request, Replaced { before, after }) {
            Ok(made) => {
                if let Some(made) = made {
                    past.note_commit(&made, before, after);
                    let staged = made.displaced.into_iter().map(|(_, id)| id).next();
                    *self.displaced.lock().unwrap_or_else(PoisonError::into_inner) = staged;
                }
                Ok(Intent::settle(&self.state, &self.path)?)
            }
            Err(why @ CommitError::Older { .. }) => {
                vouch_for(&self.state, self.home(), &self.path, &digest::of_bytes(before))?;
                replace_atomically(&self.path, before)?;
                Intent::settle(&self.state, &self.path)?;
                Err(PlanFileError::Lost(why))
            }
            Err(why @ CommitError::Replaced { .. }) => {
                Intent::settle(&self.state, &self.path)?;
                Err(PlanFileError::Lost(why))
            }
            Err(why) => Err(why.into()),
        }
    }
}

/// Whether a plan matches a recorded intent: then it is Ralph's own change, only not committed yet.
pub(crate) fn is_as_noted(state: &State, plan: &Utf8Path) -> Result<bool, PathError> {
    let Some(bytes) = read_optional(plan)? else { return Ok(false) };
    let noted = Intent::left(state, plan)?.is_some_and(|intent| intent.was_written(&bytes));
    Ok(noted
        || read_note(&state.vouched(plan))?.is_some_and(|known| known == digest::of_bytes(&bytes)))
}

/// Random numbers for new ids. They need not be secret, only different from those of other processes.
fn random_numbers() -> impl FnMut() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    let mut count = 0_u64;
    let keys = RandomState::new();
    move || {
        #[cfg(test)]
        if let Some(number) = crate::files::simulated::random() {
            return number;
        }
        count += 1;
        keys.hash_one((std::process::id(), count))
    }
}

#[cfg(test)]
#[path = "plan_file_tests.rs"]
mod tests;
