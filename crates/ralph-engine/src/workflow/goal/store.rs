//! The files of goal-driven work in home: the PRD, the map, the interview's state and its transcript.

use camino::{Utf8Path, Utf8PathBuf};
use jiff::Timestamp;
use ralph_model::goal::map::MAP_FILE;
use ralph_model::goal::{GoalState, GoalWrite, STATE_FILE, TRANSCRIPT_FILE, heal};
use ralph_model::prd::{PRD_FILE, Prd, PrdError};
use ralph_model::prompt::PromptKind;

use crate::files::disk::{self, open_to_append};
use crate::files::{PathError, fault, read_optional, rename_durably, replace_atomically};
use crate::workflow::WorkflowError;
use crate::workflow::home_committer::{CommittedFile, HomeCommitter};

/// Goal-driven work as it is on disk.
#[derive(Clone, Debug)]
pub struct GoalStore {
    home: Utf8PathBuf,
}

/// The PRD of a home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PrdOnDisk {
    /// There is none, or a scaffolded one without stories, which is none.
    None,
    Valid(Prd),
    /// A file that does not fit the schema, perhaps one of another loop.
    Invalid(PrdError),
}

impl PrdOnDisk {
    pub fn valid(self) -> Option<Prd> {
        match self {
            PrdOnDisk::Valid(prd) => Some(prd),
            PrdOnDisk::None | PrdOnDisk::Invalid(_) => None,
        }
    }
}

impl GoalStore {
    pub fn new(home: &Utf8Path) -> GoalStore {
        GoalStore { home: home.to_owned() }
    }

    pub fn prd_path(&self) -> Utf8PathBuf {
        self.home.join(PRD_FILE)
    }

    pub fn map_path(&self) -> Utf8PathBuf {
        self.home.join(MAP_FILE)
    }

    pub(super) fn state_path(&self) -> Utf8PathBuf {
        self.home.join(STATE_FILE)
    }

    pub(super) fn transcript_path(&self) -> Utf8PathBuf {
        self.home.join(TRANSCRIPT_FILE)
    }

    /// Reads the PRD.
    pub fn prd(&self) -> Result<PrdOnDisk, PathError> {
        let Some(bytes) = read_optional(&self.prd_path())? else { return Ok(PrdOnDisk::None) };
        Ok(match Prd::parse(&bytes) {
            Ok(prd) if prd.user_stories.is_empty() => PrdOnDisk::None,
            Ok(prd) => PrdOnDisk::Valid(prd),
            Err(_) if bytes.trim_ascii().is_empty() => PrdOnDisk::None,
            Err(error) => PrdOnDisk::Invalid(error),
        })
    }

    /// Replaces the PRD.
    pub fn write_prd(&self, prd: &Prd) -> Result<(), PathError> {
        replace_atomically(&self.prd_path(), prd.render().as_bytes())
    }

    /// Keeps the PRD that is about to be replaced: in a commit, or else in a file beside it, whose path is returned.
    pub fn keep_prd(
        &self,
        committer: &HomeCommitter,
        message: &str,
        at: Timestamp,
    ) -> Result<Option<Utf8PathBuf>, WorkflowError> {
        let Some(bytes) = read_optional(&self.prd_path())? else { return Ok(None) };
        committer.commit(message)?;
        let kept = committer.file_at_head(PRD_FILE.into())?;
        let is_scaffold = || self.prd().is_ok_and(|found| found == PrdOnDisk::None);
        if kept == CommittedFile::Committed(Some(bytes)) || is_scaffold() {
            return Ok(None);
        }
        Ok(Some(self.copy_prd(at)?))
    }

    /// Copies the PRD to a file beside it; returns where it is.
    pub(super) fn copy_prd(&self, at: Timestamp) -> Result<Utf8PathBuf, PathError> {
        let path = self.home.join(format!("prd.{}.json", at.strftime("%Y%m%d-%H%M%SZ")));
        let bytes = read_optional(&self.prd_path())?.unwrap_or_default();
        replace_atomically(&path, &bytes)?;
        Ok(path)
    }

    /// Reads the map; an absent one is empty.
    pub fn map(&self) -> Result<String, PathError> {
        Ok(text(&self.map_path())?.unwrap_or_default())
    }

    /// Reads the prompt of mappers; the built-in one where there is none.
    pub fn understand_prompt(&self) -> Result<String, PathError> {
        let kind = PromptKind::Understand;
        let own = text(&self.home.join(kind.file_name()))?;
        Ok(own.unwrap_or_else(|| kind.builtin_text().to_owned()))
    }

    /// Reads the state of the interview that was begun last.
    pub fn interview(&self) -> Result<Option<GoalState>, WorkflowError> {
        let path = self.state_path();
        let Some(bytes) = read_optional(&path)? else { return Ok(None) };
        match GoalState::parse(&bytes) {
            Ok(state) => Ok(Some(state)),
            Err(error) => Err(WorkflowError::StateFile { path, reason: error.to_string() }),
        }
    }

    /// Does what a crash prevented, and returns the state after it.
    pub(super) fn heal(&self, state: GoalState) -> Result<GoalState, PathError> {
        let transcript = text(&self.transcript_path())?.unwrap_or_default();
        let writes = heal(&state, &transcript);
        Ok(self.write_all(&writes)?.unwrap_or(state))
    }

    /// Writes in order; returns the last state among the writes.
    pub(super) fn write_all(&self, writes: &[GoalWrite]) -> Result<Option<GoalState>, PathError> {
        let mut last = None;
        for write in writes {
            match write {
                GoalWrite::State(state) => {
                    replace_atomically(&self.state_path(), state.render().as_bytes())?;
                    last = Some((**state).clone());
                }
                GoalWrite::Prd(prd) => self.write_prd(prd)?,
                GoalWrite::Transcript(text) => self.append_transcript(text)?,
            }
        }
        Ok(last)
    }

    /// Adds to the transcript.
    pub(super) fn append_transcript(&self, text: &str) -> Result<(), PathError> {
        let path = self.transcript_path();
        let error = |source| PathError::new("append to", &path, source);
        let file = open_to_append(&path).map_err(error)?;
        file.write_all(text.as_bytes()).and_then(|()| file.sync_data()).map_err(error)?;
        fault::after_write();
        Ok(())
    }

    /// Moves the state of an interview aside; returns where it is now.
    pub(super) fn archive(&self, state: &GoalState) -> Result<Utf8PathBuf, PathError> {
        let stamp = state.created_at.strftime("%Y%m%d-%H%M%SZ");
        let names = (1..).map(|number: u32| match number {
            1 => format!("plan_state.{stamp}.json"),
            number => format!("plan_state.{stamp}-{number}.json"),
        });
        let mut paths = names.map(|name| self.home.join(name));
        let path = paths.find(|path| !disk::exists(path)).expect("there is always another number");
        rename_durably(&self.state_path(), &path)?;
        Ok(path)
    }
}

fn text(path: &Utf8Path) -> Result<Option<String>, PathError> {
    let bytes = read_optional(path)?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}
