//! The plan as the agent of a run has changed it, kept in private state until the run is over.
//!
//! While a run goes on the plan's file is not touched, so nothing that the agent does to the work tree (`git reset --hard`,
//! `git stash`, `git add -A`, a checkout of another branch) loses a change that was acknowledged, or takes it into a commit.
//! After the run the changes are merged, record by record, into what the file holds then: a person may have changed it
//! meanwhile. A draft is on disk before its change is acknowledged, and until the file has it; merging it twice changes nothing
//! more, so a crash in between does no harm.

use std::collections::HashSet;

use camino::{Utf8Path, Utf8PathBuf};
use ralph_model::plan::merge::merge;
use ralph_model::plan::{Change, Record, commit_message};
use serde::{Deserialize, Serialize};

use crate::files::{
    PathError, create_private_directory, disk, read_optional, remove_durably, replace_atomically,
};
use crate::git::history::LineChange;
use crate::state::State;

/// A plan, and what a run made of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Draft {
    /// The file when the run began.
    base: Vec<u8>,
    plan: Vec<u8>,
    /// What was changed, as far as this process knows.
    changes: Vec<Change>,
    /// What the changes are committed as; `None` if there are none.
    message: Option<String>,
}

/// The first line of a draft's file; the two plans follow.
#[derive(Serialize, Deserialize)]
struct Header {
    message: String,
    base: usize,
}

impl Draft {
    pub(super) fn of(base: Vec<u8>) -> Draft {
        Draft { plan: base.clone(), base, changes: Vec::new(), message: None }
    }

    /// Reads what a run of a killed Ralph left. One that cannot be read is kept aside: its writers are locked out.
    pub(super) fn load(state: &State, path: &Utf8Path) -> Result<Option<Draft>, PathError> {
        let Some(bytes) = read_optional(&place(state, path))? else { return Ok(None) };
        let draft = || {
            let end = memchr::memchr(b'\n', &bytes)?;
            let header: Header = serde_json::from_slice(&bytes[..end]).ok()?;
            let (base, plan) = bytes[end + 1..].split_at_checked(header.base)?;
            let (base, plan) = (base.to_vec(), plan.to_vec());
            Some(Draft { base, plan, changes: Vec::new(), message: Some(header.message) })
        };
        let draft = draft();
        if draft.is_none() {
            let loss = "what a run of a killed Ralph had changed in the plan is lost";
            state.set_aside(&place(state, path), loss)?;
        }
        Ok(draft)
    }

    pub(super) fn is_left(state: &State, path: &Utf8Path) -> bool {
        disk::exists(&place(state, path))
    }

    pub(super) fn plan(&self) -> &[u8] {
        &self.plan
    }

    /// Returns what was changed and what it is committed as, if anything was.
    pub(super) fn changes(&self) -> Option<(&[Change], &str)> {
        Some((&self.changes, self.message.as_deref()?))
    }

    /// Takes in a change, which is on disk when this returns.
    pub(super) fn take(
        &mut self,
        change: &Change,
        plan: Vec<u8>,
        state: &State,
        path: &Utf8Path,
    ) -> Result<(), PathError> {
        let mut changes = self.changes.clone();
        changes.push(change.clone());
        let Some(message) = commit_message(&changes) else { return Ok(()) };
        let header = Header { message, base: self.base.len() };
        let mut bytes = serde_json::to_vec(&header).expect("it is plain data");
        bytes.push(b'\n');
        bytes.extend_from_slice(&self.base);
        bytes.extend_from_slice(&plan);
        let file = place(state, path);
        create_private_directory(file.parent().expect("it lies in private state"))?;
        replace_atomically(&file, &bytes)?;
        (self.plan, self.changes, self.message) = (plan, changes, Some(header.message));
        Ok(())
    }

    /// Removes a draft that the file has. It must not return when the power fails: a person may have removed by then what it
    /// added.
    pub(super) fn forget(state: &State, path: &Utf8Path) -> Result<(), PathError> {
        remove_durably(&place(state, path))
    }

    /// Returns the plan with what the file holds now.
    ///
    /// Where a person and the run changed the same record in ways that exclude each other, the person's word stands; what the
    /// run added is there in any case.
    pub(super) fn merged_into(&self, file: &[u8]) -> Vec<u8> {
        if file == self.base {
            return self.plan.clone();
        }
        match merge(&self.base, file, &self.plan) {
            Ok(merged) if merged.conflicts.is_empty() => merged.bytes,
            _ => self.added_to(file),
        }
    }

    fn added_to(&self, file: &[u8]) -> Vec<u8> {
        let id_of = |line: &[u8]| match Record::of_line(line) {
            Record::Task(head) => Some(head.id.into_owned()),
            Record::Issue { id } => Some(id.into_owned()),
            _ => None,
        };
        let ids = |bytes: &[u8]| -> HashSet<String> {
            bytes.split(|byte| *byte == b'\n').filter_map(id_of).collect()
        };
        let known: HashSet<String> = ids(file).into_iter().chain(ids(&self.base)).collect();
        let mut merged = file.to_vec();
        for line in LineChange::between(&self.base, &self.plan).added {
            if id_of(line).is_some_and(|id| !known.contains(&id)) {
                if !merged.is_empty() && !merged.ends_with(b"\n") {
                    merged.push(b'\n');
                }
                merged.extend_from_slice(line);
                merged.push(b'\n');
            }
        }
        merged
    }
}

fn place(state: &State, path: &Utf8Path) -> Utf8PathBuf {
    state.plan_directory(path).join("draft")
}
