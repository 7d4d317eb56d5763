//! What agents find and leave in addition to their work: the PRD to claim in, the progress file, the map.
//!
//! The prompt names copies in the outbox. Prompts of other loops name the files of home in the tree that a run works in:
//! in a slot these are placed before each run, so that they are as they should be whatever an earlier run made of them,
//! and read after it. No file of home is ever taken from there but the lines that an agent adds to the progress file.

use camino::{Utf8Path, Utf8PathBuf};
use ralph_model::goal::map::MAP_FILE;
use ralph_model::memory::merge_notes;
use ralph_model::prd::{PRD_FILE, Prd, claims_to_pass};
use serde::{Deserialize, Serialize};

use super::Stories;
use crate::files::beneath::{place_beneath, read_beneath};
use crate::files::{PathError, read_optional, replace_atomically};
use crate::run::RunResult;
use crate::state::Entry;
use crate::workflow::WorkflowError;
use crate::workflow::project::work_root;

pub(super) const PROGRESS_FILE: &str = "progress.txt";

/// The most bytes of a file that is read from a slot.
const LARGEST: usize = 4 << 20;

/// The progress file as the run under way was given it, by item.
const NOTES: Entry<GivenNotes> =
    Entry::new("story_notes", "notes given to its last run may count as new ones");

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct GivenNotes {
    /// The PRD, with what passed then.
    prd: String,
    progress: String,
    /// What it and the agent's lines were merged to, noted before it is written.
    merged: Option<String>,
}

impl Stories<'_, '_> {
    /// Returns where home is in the tree that runs work in, named from its root; `None` if it is not in it.
    fn home_in_slot(&self) -> Option<(&Utf8Path, &Utf8Path)> {
        self.session.slot.as_ref()?;
        let context = &self.session.context;
        let inside = context.home_path().strip_prefix(&context.workspace.root).ok()?;
        Some((work_root(self.session), inside))
    }

    fn progress_path(&self) -> Utf8PathBuf {
        self.project.home().join(PROGRESS_FILE)
    }

    fn progress(&self) -> Result<String, WorkflowError> {
        let bytes = read_optional(&self.progress_path())?.unwrap_or_default();
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Returns where a run finds the map of the code.
    pub(super) fn map_path(&self) -> Utf8PathBuf {
        match self.home_in_slot() {
            Some((root, home)) => root.join(home).join(MAP_FILE),
            None => self.session.context.home_path().join(MAP_FILE),
        }
    }

    /// Places what a run for a story finds; returns the progress file as it is given.
    pub(super) fn place_notes(&self, item: &str, prd: &str) -> Result<String, WorkflowError> {
        let progress = self.progress()?;
        let given = GivenNotes { prd: prd.to_owned(), progress: progress.clone(), merged: None };
        NOTES.save(&self.session.context.state, item, &given)?;
        if let Some((root, home)) = self.home_in_slot() {
            let map = read_optional(&self.session.context.home_path().join(MAP_FILE))?;
            let files = [
                (self.options.prd.as_path(), Some(prd.as_bytes())),
                (Utf8Path::new(PROGRESS_FILE), Some(progress.as_bytes())),
                (Utf8Path::new(MAP_FILE), map.as_deref()),
            ];
            for (name, bytes) in files {
                let (Some(bytes), path) = (bytes, home.join(name)) else { continue };
                // An agent that put something else at the place of home does without them.
                let placed = place_beneath(root, &path, bytes);
                if let Err(source) = placed
                    && source.kind() == std::io::ErrorKind::StorageFull
                {
                    return Err(PathError::new("write", &root.join(path), source).into());
                }
            }
        }
        Ok(progress)
    }

    /// Returns the files of home that the last run for a story was given in its slot.
    pub(super) fn given(&self, item: &str) -> Result<Vec<(Utf8PathBuf, Vec<u8>)>, WorkflowError> {
        let state = &self.session.context.state;
        let Some(given) = NOTES.load(state, item)? else { return Ok(Vec::new()) };
        let home = self.project.home();
        let mut files = vec![(home.join(&self.options.prd), given.prd.into_bytes())];
        if let Some(map) = read_optional(&self.session.context.home_path().join(MAP_FILE))? {
            files.push((home.join(MAP_FILE), map));
        }
        Ok(files)
    }

    /// Takes back what a run in place wrote as `passes` into the person's own PRD; tells whether that claims its story.
    ///
    /// Where the boundary holds there is nothing to take back.
    pub(super) fn take_back_passes(&mut self, item: &str, id: &str) -> Result<bool, WorkflowError> {
        if !self.project.is_in_place() {
            return Ok(false);
        }
        let Some(given) = NOTES.load(&self.session.context.state, item)? else { return Ok(false) };
        let path = self.prd_in_checkout();
        let bytes = read_optional(&path)?.unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let is_claimed = claims_to_pass(&text, id);
        let restored = match (Prd::parse(&bytes), Prd::parse(&given.prd)) {
            (Ok(now), Ok(given)) => now.without_failing_of(&given).render(),
            (Err(_), _) => given.prd.clone(),
            (Ok(_), Err(_)) => return Ok(is_claimed),
        };
        if restored != text {
            replace_atomically(&path, restored.as_bytes())?;
        }
        Ok(is_claimed)
    }

    /// Tells whether a run claims that its story passes.
    pub(super) fn is_claimed(&self, result: &RunResult, id: &str) -> bool {
        let in_outbox = result.file(PRD_FILE).is_some_and(|copy| claims_to_pass(copy, id));
        let in_slot = || {
            let (root, home) = self.home_in_slot()?;
            read_beneath(root, &home.join(&self.options.prd), LARGEST)
        };
        in_outbox
            || result.answer().promises(ralph_model::contract::PROMISE)
            || in_slot().is_some_and(|copy| claims_to_pass(&String::from_utf8_lossy(&copy), id))
    }

    /// Takes the lines that a run added to the progress file. A person's lines stay, whatever the run did to them.
    pub(super) fn take_notes(
        &mut self,
        item: &str,
        result: &RunResult,
    ) -> Result<(), WorkflowError> {
        let Some(given) = NOTES.load(&self.session.context.state, item)? else { return Ok(()) };
        let now = self.progress()?;
        // A Ralph that died after it had written the file finds it written.
        if given.merged.as_ref() == Some(&now) {
            return Ok(());
        }
        let in_slot = || {
            let (root, home) = self.home_in_slot()?;
            read_beneath(root, &home.join(PROGRESS_FILE), LARGEST)
        };
        let left = [result.file(PROGRESS_FILE).map(|text| text.as_bytes().to_vec()), in_slot()];
        let mut merged = now.clone().into_bytes();
        for left in left.into_iter().flatten().filter(|left| !left.is_empty()) {
            merged = merge_notes(given.progress.as_bytes(), &left, &merged);
        }
        let merged = String::from_utf8_lossy(&merged).into_owned();
        if merged == now {
            return Ok(());
        }
        let given = GivenNotes { merged: Some(merged.clone()), ..given };
        NOTES.save(&self.session.context.state, item, &given)?;
        let path = self.progress_path();
        if self.project.is_in_place() {
            // It is committed with the rest of home: by itself it would be in the way of accepted work on another branch.
            return Ok(replace_atomically(&path, merged.as_bytes())?);
        }
        let files = vec![path.clone()];
        let write = || replace_atomically(&path, merged.as_bytes());
        let message = "ralph: notes of a run";
        self.project.write_and_commit(self.session, files, write, message, None)
    }

    pub(super) fn forget_notes(&self, item: &str) -> Result<(), PathError> {
        NOTES.forget(&self.session.context.state, item)
    }
}
