//! The plan including the changes of a run's agent, kept in private state until the run has ended.
//!
//! During a run the plan's file is not touched, so nothing the agent does to the working tree (`git reset --hard`, `git
//! stash`, `git add -A`, checking out another branch) loses an acknowledged change, or adds it to a commit. After the
//! run the changes are merged, record by record, into the current file: a person may have changed it meanwhile. A draft
//! is on disk from before its change is acknowledged until the file contains it; merging is idempotent, so a crash in
//! between does no harm.

use std::collections::HashSet;

use camino::{Utf8Path, Utf8PathBuf};
use ralph_model::plan::merge::merge;
use ralph_model::plan::{Change, Plan, Record, commit_message};
use serde::{Deserialize, Serialize};

use crate::files::{
    PathError, create_private_directory, disk, read_optional, remove_durably, replace_atomically,
};
use crate::git::history::LineChange;
use crate::state::State;

/// A plan, and a run's version of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Draft {
    /// The file when the run began.
    base: Vec<u8>,
    plan: Vec<u8>,
    /// The changes, as far as this process knows.
    changes: Vec<Change>,
    /// The commit message of the changes; `None` if there are none.
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

    /// Reads the draft of a killed Ralph's run. An unreadable one is kept aside: the caller holds the writers' lock.
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

    /// Returns the changes and their commit message, if there are any.
    pub(super) fn changes(&self) -> Option<(&[Change], &str)> {
        Some((&self.changes, self.message.as_deref()?))
    }

    /// Adds a change, which is on disk when this returns.
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

    /// Removes a draft that the file contains. It must not reappear after a power failure: by then a person may have
    /// removed what it added.
    pub(super) fn forget(state: &State, path: &Utf8Path) -> Result<(), PathError> {
        remove_durably(&place(state, path))
    }

    /// Returns the plan merged with the current file.
    ///
    /// If a person and the run changed the same record in incompatible ways, the person's version wins; the run's
    /// additions are kept in any case.
    pub(super) fn merged_into(&self, file: &[u8]) -> Vec<u8> {
        if file == self.base {
            return self.plan.clone();
        }
        merge_plan(&self.base, &self.plan, file)
    }
}

/// Merges the plan. A person's version wins if both changed the same field; additions of Ralph or a run are kept in any
/// case.
pub(crate) fn merge_plan(base: &[u8], ours: &[u8], theirs: &[u8]) -> Vec<u8> {
    let merged = |base: &[u8], ours: &[u8]| {
        let merged = merge(base, ours, theirs).ok().filter(|merged| merged.conflicts.is_empty());
        merged.map(|merged| merged.bytes)
    };
    let is_workable = |plan: &[u8]| Plan::parse(plan).workable().is_ok();
    match merged(base, ours) {
        Some(merged) if is_workable(&merged) || !is_workable(theirs) => return merged,
        _ => {}
    }
    // With duplicate ids it is unknown which record was removed. The person has resolved that, and Ralph changes no
    // such record.
    let doubled = repeated_ids(base).chain(repeated_ids(ours)).collect();
    let (base, ours) = (without(base, &doubled), without(ours, &doubled));
    merged(&base, &ours).unwrap_or_else(|| added_to(theirs, &base, &ours))
}

fn lines(plan: &[u8]) -> impl Iterator<Item = &[u8]> {
    plan.split_inclusive(|byte| *byte == b'\n')
}

fn id_in(line: &[u8]) -> Option<String> {
    id_of(line.strip_suffix(b"\n").unwrap_or(line))
}

/// Returns the duplicate ids of a plan.
fn repeated_ids(plan: &[u8]) -> impl Iterator<Item = String> {
    let mut seen = HashSet::new();
    lines(plan).filter_map(id_in).filter(move |id| !seen.insert(id.clone()))
}

/// Returns a plan without the records of some ids.
fn without(plan: &[u8], ids: &HashSet<String>) -> Vec<u8> {
    lines(plan)
        .filter(|line| id_in(line).is_none_or(|id| !ids.contains(&id)))
        .flatten()
        .copied()
        .collect()
}

/// Returns a plan plus the records that another added to its base. Other changes of both are taken from the first.
fn added_to(file: &[u8], base: &[u8], plan: &[u8]) -> Vec<u8> {
    let ids = |bytes: &[u8]| -> HashSet<String> {
        bytes.split(|byte| *byte == b'\n').filter_map(id_of).collect()
    };
    let known: HashSet<String> = ids(file).into_iter().chain(ids(base)).collect();
    let mut merged = file.to_vec();
    for line in LineChange::between(base, plan).added {
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

/// Returns the id of the task or issue in a line.
fn id_of(line: &[u8]) -> Option<String> {
    match Record::of_line(line) {
        Record::Task(head) => Some(head.id.into_owned()),
        Record::Issue { id } => Some(id.into_owned()),
        _ => None,
    }
}

fn place(state: &State, path: &Utf8Path) -> Utf8PathBuf {
    state.plan_directory(path).join("draft")
}

#[cfg(test)]
mod tests {
    use super::merge_plan;

    const SPEC: &str = "{\"t\":\"spec\",\"spec\":\"s.md\"}\n";

    fn plan(records: &[&str]) -> Vec<u8> {
        format!("{SPEC}{}\n", records.join("\n")).into_bytes()
    }

    fn task(id: &str, name: &str) -> String {
        format!(
            "{{\"t\":\"task\",\"id\":\"{id}\",\"spec\":\"s.md\",\"name\":\"{name}\",\"s\":\"p\"}}"
        )
    }

    #[test]
    fn what_was_added_is_there_though_something_else_is_in_conflict() {
        let issue = "{\"t\":\"issue\",\"id\":\"i-1\",\"spec\":\"s.md\",\"desc\":\"seen\"}";
        let (base, ours, theirs) = (task("t-a", "a"), task("t-a", "ours"), task("t-a", "theirs"));
        let merged = merge_plan(&plan(&[&base]), &plan(&[&ours, issue]), &plan(&[&theirs]));
        let merged = String::from_utf8(merged).unwrap();
        assert!(merged.contains("theirs") && !merged.contains("ours"), "{merged}");
        assert!(merged.contains("i-1"), "{merged}");
    }

    #[test]
    fn an_id_that_stood_twice_is_as_the_person_has_mended_it() {
        let (one, two) = (task("t-a", "a"), task("t-b", "b"));
        let done = one.replace("\"s\":\"p\"", "\"s\":\"d\"");
        let merged = merge_plan(
            &plan(&[&one, &two, &two]),
            &plan(&[&done, &two, &two]),
            &plan(&[&one, &two]),
        );
        let merged = String::from_utf8(merged).unwrap();
        assert_eq!(merged.matches("t-b").count(), 1, "{merged}");
        assert!(merged.contains("\"s\":\"d\""), "{merged}");
    }
}
