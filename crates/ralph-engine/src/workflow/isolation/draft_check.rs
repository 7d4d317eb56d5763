//! Checks the draft of home when a workflow starts: its files must match its commits, or Ralph's record of what it
//! wrote, and its commits must be the ones last seen. Otherwise it is recreated.
//!
//! A transition whose files are not all as they were written is taken back as a whole, as if Ralph had died before it.

use std::fs;
use std::path::{Path, PathBuf};

use camino::{Utf8Path, Utf8PathBuf};

use super::draft::{HomeDraft, SEEN};
use crate::files::{read_optional, replace_atomically};
use crate::init::ignores;
use crate::plan_file::draft::merge_plan;
use crate::plan_file::{PLAN_FILE, is_as_noted};
use crate::state::State;
use crate::workflow::WorkflowError;
use crate::workflow::written::WrittenFile;

/// What follows from a damaged file of the draft, for people.
const LOSS: &str = "it is as Ralph last committed it";

/// A plan as Ralph wrote it and has not committed it, and as the branch had it.
pub(super) struct WrittenPlan {
    was: Vec<u8>,
    now: Vec<u8>,
}

impl HomeDraft {
    /// Whether the draft is at its last seen commit, or a descendant.
    pub(super) fn is_as_seen(&self, state: &State) -> Result<bool, WorkflowError> {
        let Some(seen) = SEEN.load(state, &self.key)? else { return Ok(true) };
        let Ok(head) = self.git().head() else { return Ok(false) };
        if self.copy.head_tree().is_err() {
            return Ok(false);
        }
        let leads_to = |id: &crate::git::Oid| {
            head.id().is_some_and(|head| {
                head == id || self.git().is_ancestor(id, head).is_ok_and(|leads| leads)
            })
        };
        // The second, where Ralph died between moving the draft and noting it.
        Ok(match (&seen.draft, &seen.tip) {
            (None, _) => true,
            (Some(draft), None) => leads_to(draft),
            (Some(draft), Some(tip)) => leads_to(draft) || leads_to(tip),
        })
    }

    /// Tells whether all that its commits hold can be read.
    pub(super) fn is_sound(&self) -> bool {
        self.copy.is_sound()
    }

    /// Makes the next opening recreate the draft.
    pub(super) fn give_up(&self) -> Result<(), WorkflowError> {
        Ok(self.copy.give_up()?)
    }

    /// Makes the files of the draft what its commits say, but for those that Ralph wrote since; returns these.
    pub(super) fn restore(
        &self,
        state: &State,
        written: &[WrittenFile],
    ) -> Result<Vec<Utf8PathBuf>, WorkflowError> {
        if !self.copy.has_index() {
            self.copy.mend_index()?;
        }
        let root = self.copy.root().to_owned();
        let is_whole = written.iter().all(WrittenFile::is_as_written);
        let (mut kept, mut damaged) = (Vec::new(), Vec::new());
        for entry in self.git().status()? {
            let path = without_slash(&entry.path);
            let file = Utf8Path::from_path(&path).map(|path| root.join(path));
            match file {
                Some(file) if is_whole && written.iter().any(|one| one.path == file) => {
                    kept.push(file);
                }
                // It is committed by who knows its message.
                Some(file) if self.is_plan(&file) && is_as_noted(state, &file)? => {}
                _ => damaged.push(path),
            }
        }
        if damaged.is_empty() {
            return Ok(kept);
        }
        for path in &damaged {
            self.keep_unknown(state, &root.as_std_path().join(path))?;
        }
        self.copy.restore(&damaged)?;
        Ok(kept)
    }

    /// Returns what Ralph has written to the plan of a draft that must be recreated, if it is known to be its own.
    pub(super) fn uncommitted_plan(
        &self,
        state: &State,
    ) -> Result<Option<WrittenPlan>, WorkflowError> {
        let path = self.home().join(PLAN_FILE);
        if !is_as_noted(state, &path)? {
            return Ok(None);
        }
        let Some(now) = read_optional(&path)? else { return Ok(None) };
        // Its own commits are lost, and were published when they were made.
        let was = match self.seen_tip(state)? {
            Some(tip) => self.git().file_at(&tip, &self.in_commit(&path))?.unwrap_or_default(),
            None => Vec::new(),
        };
        Ok(Some(WrittenPlan { was, now }))
    }

    /// Puts into the plan what was written to an earlier draft of it and not committed.
    pub(super) fn take_up_plan(&self, written: Option<WrittenPlan>) -> Result<(), WorkflowError> {
        let Some(WrittenPlan { was, now }) = written else { return Ok(()) };
        let path = self.home().join(PLAN_FILE);
        let here = read_optional(&path)?.unwrap_or_default();
        let merged = merge_plan(&was, &now, &here);
        if merged != here {
            replace_atomically(&path, &merged)?;
        }
        Ok(())
    }

    fn is_plan(&self, file: &Utf8Path) -> bool {
        file == self.home().join(PLAN_FILE)
    }

    /// Keeps a content that nothing else has: somebody has put it there.
    fn keep_unknown(&self, state: &State, file: &Path) -> Result<(), WorkflowError> {
        let is_file = file.symlink_metadata().is_ok_and(|found| found.is_file());
        let (true, Ok(bytes), Some(path)) = (is_file, fs::read(file), Utf8Path::from_path(file))
        else {
            return Ok(());
        };
        if path == self.home().join(".gitignore") && ignores::is_own(&bytes) {
            return Ok(());
        }
        // What a commit of Ralph's or of the person's has was put there by a move of the draft that a crash cut short.
        let id = self.copy.blob_id(&bytes)?;
        if self.git().have(&[id])? != [true] {
            state.keep_aside(path, &bytes, LOSS)?;
        }
        Ok(())
    }
}

fn without_slash(path: &Path) -> PathBuf {
    path.components().collect()
}
