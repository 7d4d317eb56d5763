//! The history of tasks, folded from the versions of the plan.
//!
//! Versions come in commit order, parents before children, each as the lines it removed and added compared with each of
//! its parents. Events are derived from those lines alone, so the fold keeps only one history per task and can be
//! stored and resumed later. A merge is credited only with what differs from all of its parents: everything else
//! happened on a branch and was seen there.
//!
//! The order of events decides the outcome of a task: one that is removed while done was accepted, whatever was
//! recorded earlier, as was one that an `accept` record names; one that is removed while pending was rejected if its
//! last attempt was, and cancelled otherwise. The caller determines which versions there are, and whether a stored fold
//! still belongs to them.

mod view;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::id::CommitId;
use crate::plan::{CANCELS, DELETES, Record, SETS_SPEC, Status, Task, Tombstone, accepted_by_line};

pub use view::{ChangeView, Filter, HistoryView, LogView, RecentView, Since, TaskOutcome};

/// Lines that a version removed and added, without line ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangedLines<'a> {
    pub removed: Vec<&'a [u8]>,
    pub added: Vec<&'a [u8]>,
}

/// The beginnings of commit subjects that a history needs; [`PlanVersion::subject`] may be empty for all others.
pub const TELLING_SUBJECTS: [&str; 3] = [DELETES, CANCELS, SETS_SPEC];

/// How many events of one task are kept: the first and the last ones.
const MOST_EVENTS: usize = 64;

/// One version of the plan.
#[derive(Clone, Copy, Debug)]
pub struct PlanVersion<'a> {
    pub commit: &'a CommitId,
    /// Such as `user@email`.
    pub author: &'a str,
    pub date: Timestamp,
    /// The branch by which the caller knows it.
    pub branch: Option<&'a str>,
    /// The first line of its message.
    pub subject: &'a str,
    /// The changes compared with each parent; a commit without parents is compared with an empty plan.
    pub changes: &'a [ChangedLines<'a>],
}

/// What happened to a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum What {
    Created,
    /// `at` is the commit that holds the work.
    Done {
        at: Option<String>,
    },
    Rejected {
        reason: String,
    },
    Killed {
        reason: String,
    },
    /// It is pending again, without a rejection.
    Reopened,
    /// It was added to the file again.
    Restored,
    Accepted,
    Cancelled,
    /// It was removed from the file after its last attempt had been rejected.
    Removed,
}

/// An event of a task, with its time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Numbers all events, so that those of several tasks can be ordered.
    pub number: u64,
    pub commit: CommitId,
    pub date: Timestamp,
    pub what: What,
}

/// The history of one task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskHistory {
    pub name: String,
    pub spec: String,
    pub notes: Option<String>,
    pub accept: Option<String>,
    pub deps: Vec<String>,
    pub branch: Option<String>,
    pub author: String,
    pub events: Vec<Event>,
}

/// The histories of all tasks so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    tasks: BTreeMap<String, TaskHistory>,
    /// Ids of issues, which are taken like those of tasks.
    issues: std::collections::BTreeSet<String>,
    next_number: u64,
}

/// A task before and after a version, compared with one parent.
#[derive(Default)]
struct Pair<'a> {
    before: Option<Task<'a>>,
    after: Option<Task<'a>>,
    /// Reasons of tombstones that the version added.
    reasons: Vec<String>,
}

/// The changes of a version compared with one parent.
struct Diff<'a> {
    /// In file order: removed or changed tasks first, then added ones.
    tasks: Vec<(String, Pair<'a>)>,
    /// The index of each task in `tasks`.
    places: HashMap<String, usize>,
    issues: Vec<String>,
    spec_changed: bool,
    superseded: Vec<String>,
    /// Tasks that an `accept` record names.
    accepted: Vec<String>,
}

impl<'a> Diff<'a> {
    fn of(changed: &ChangedLines<'a>) -> Diff<'a> {
        let mut diff = Diff {
            tasks: Vec::new(),
            places: HashMap::new(),
            issues: Vec::new(),
            spec_changed: false,
            superseded: Vec::new(),
            accepted: Vec::new(),
        };
        let (mut old_spec, mut new_spec) = (None, None);
        let mut old_tombstones: HashMap<(String, String, String), usize> = HashMap::new();
        for line in &changed.removed {
            match Record::of_line(line) {
                Record::Task(head) => {
                    diff.pair(head.id.into_owned()).before = task_of(line);
                }
                Record::Reject { .. } => {
                    if let Some(key) = Tombstone::of_line(line).map(tombstone_key) {
                        *old_tombstones.entry(key).or_default() += 1;
                    }
                }
                Record::Spec { spec } => old_spec = Some(spec),
                _ => {}
            }
        }
        for line in &changed.added {
            match Record::of_line(line) {
                Record::Task(head) => {
                    let task = task_of(line);
                    let superseded = task.as_ref().and_then(|task| task.supersedes.as_deref());
                    diff.superseded.extend(superseded.map(str::to_owned));
                    diff.pair(head.id.into_owned()).after = task;
                }
                Record::Reject { .. } => {
                    let Some(key) = Tombstone::of_line(line).map(tombstone_key) else { continue };
                    match old_tombstones.get_mut(&key) {
                        Some(count) if *count > 0 => *count -= 1,
                        _ => diff.pair(key.0).reasons.push(key.2),
                    }
                }
                Record::Issue { id } => diff.issues.push(id.into_owned()),
                Record::Spec { spec } => new_spec = Some(spec),
                Record::Other => {
                    diff.accepted.extend(accepted_by_line(line).map(Cow::into_owned));
                }
                _ => {}
            }
        }
        // Setting a spec for the first time removes nothing.
        diff.spec_changed = old_spec.is_some() && old_spec != new_spec;
        diff
    }

    fn pair(&mut self, id: String) -> &mut Pair<'a> {
        let at = *self.places.entry(id).or_insert_with_key(|id| {
            self.tasks.push((id.clone(), Pair::default()));
            self.tasks.len() - 1
        });
        &mut self.tasks[at].1
    }

    fn get(&self, id: &str) -> Option<&Pair<'a>> {
        self.places.get(id).map(|at| &self.tasks[*at].1)
    }
}

/// Decodes a task exactly as its line says. Treating a killed task as pending is up to the caller that looks for work.
fn task_of(line: &[u8]) -> Option<Task<'_>> {
    let task = Task::of_line(line)?;
    let status = if task.was_done { Status::Done } else { task.status };
    Some(Task { status, ..task })
}

fn tombstone_key(tombstone: Tombstone<'_>) -> (String, String, String) {
    let Tombstone { id, done_at, reason } = tombstone;
    (id.into_owned(), done_at.into_owned(), reason.into_owned())
}

impl History {
    /// Applies the next version.
    pub fn apply(&mut self, version: &PlanVersion<'_>) {
        let diffs: Vec<Diff<'_>> = version.changes.iter().map(Diff::of).collect();
        let Some((first, others)) = diffs.split_first() else { return };
        for (id, pair) in &first.tasks {
            let mut events = self.events(id, pair, first, version);
            for other in others {
                // Unchanged compared with one parent: the change happened on that parent's side.
                let there = other
                    .get(id)
                    .map(|pair| self.events(id, pair, other, version))
                    .unwrap_or_default();
                events.retain(|event| there.contains(event));
            }
            if let Some(task) = &pair.after {
                self.describe(id, task, version, &events);
            }
            for what in events {
                self.record(id, version, what);
            }
        }
        self.issues.extend(diffs.iter().flat_map(|diff| diff.issues.iter().cloned()));
    }

    /// Returns every task that ever existed, by id.
    pub fn tasks(&self) -> impl Iterator<Item = (&str, &TaskHistory)> {
        self.tasks.iter().map(|(id, task)| (id.as_str(), task))
    }

    /// Returns the events of a task between a parent and this version, in order.
    fn events(
        &self,
        id: &str,
        pair: &Pair<'_>,
        diff: &Diff<'_>,
        version: &PlanVersion<'_>,
    ) -> Vec<What> {
        let mut events = Vec::new();
        let done = |task: &Task<'_>| What::Done { at: task.done_at.as_deref().map(str::to_owned) };
        let rejected =
            || pair.reasons.iter().map(|reason| What::Rejected { reason: reason.clone() });
        match (&pair.before, &pair.after) {
            (None, None) => events.extend(rejected()),
            (None, Some(task)) => {
                let known = self.tasks.get(id);
                match known.and_then(|task| task.events.last()).map(|event| &event.what) {
                    None => events.push(What::Created),
                    Some(What::Accepted | What::Cancelled | What::Removed) => {
                        events.push(What::Restored);
                    }
                    // It was also added on another branch.
                    Some(_) => {}
                }
                events.extend(rejected());
                let done = (task.status != Status::Pending).then(|| done(task));
                events.extend(
                    done.filter(|done| known.and_then(TaskHistory::last_attempt) != Some(done)),
                );
                events.extend((task.status == Status::Accepted).then_some(What::Accepted));
            }
            (Some(before), Some(after)) => {
                events.extend(rejected());
                let reopened = before.status != Status::Pending && after.status == Status::Pending;
                if reopened && pair.reasons.is_empty() {
                    let reason = after.reject.as_deref().filter(|_| after.reject != before.reject);
                    events.push(match reason {
                        Some(reason) => What::Rejected { reason: reason.to_owned() },
                        None => What::Reopened,
                    });
                }
                if after.killed && (!before.killed || before.kill_log != after.kill_log) {
                    let reason = after.kill.as_deref().unwrap_or_default().to_owned();
                    events.push(What::Killed { reason });
                }
                let again = before.status == Status::Pending || before.done_at != after.done_at;
                if after.status == Status::Done && again {
                    events.push(done(after));
                }
                if after.status == Status::Accepted && before.status != Status::Accepted {
                    events.push(What::Accepted);
                }
            }
            (Some(before), None) => {
                events.extend(rejected());
                events.extend(self.end(id, before, pair, diff, version));
            }
        }
        events
    }

    /// Returns how a task was removed from the file; `None` if it was accepted before.
    fn end(
        &self,
        id: &str,
        before: &Task<'_>,
        pair: &Pair<'_>,
        diff: &Diff<'_>,
        version: &PlanVersion<'_>,
    ) -> Option<What> {
        let cancelling = diff.spec_changed
            || TELLING_SUBJECTS.iter().any(|says| version.subject.starts_with(says));
        let superseded = diff.superseded.iter().any(|other| other == id);
        let accepted = diff.accepted.iter().any(|other| other == id) && pair.reasons.is_empty();
        match before.status {
            Status::Accepted => None,
            Status::Done | Status::Pending if accepted => Some(What::Accepted),
            Status::Done if !cancelling && !superseded && pair.reasons.is_empty() => {
                Some(What::Accepted)
            }
            Status::Done | Status::Pending => {
                let last = self.tasks.get(id).and_then(TaskHistory::last_attempt);
                let rejected = match last {
                    _ if !pair.reasons.is_empty() => true,
                    Some(What::Rejected { .. }) => true,
                    // It was done again since: the reason it still carries is an older one.
                    Some(_) => false,
                    None => before.status == Status::Pending && before.reject.is_some(),
                };
                Some(if rejected { What::Removed } else { What::Cancelled })
            }
        }
    }

    /// Records the task's own description.
    fn describe(&mut self, id: &str, task: &Task<'_>, version: &PlanVersion<'_>, events: &[What]) {
        // A merge that only brings in a task does not make the merge's author the task's author.
        if events.is_empty() && !self.tasks.contains_key(id) {
            return;
        }
        let entry = self.tasks.entry(id.to_owned()).or_insert_with(|| TaskHistory {
            name: String::new(),
            spec: String::new(),
            notes: None,
            accept: None,
            deps: Vec::new(),
            branch: version.branch.map(str::to_owned),
            author: version.author.to_owned(),
            events: Vec::new(),
        });
        entry.name = task.name.clone().into_owned();
        entry.spec = task.spec.clone().into_owned();
        entry.notes = task.notes.as_deref().map(str::to_owned);
        entry.accept = task.accept.as_deref().map(str::to_owned);
        entry.deps = task.deps.iter().map(|id| id.clone().into_owned()).collect();
    }

    fn record(&mut self, id: &str, version: &PlanVersion<'_>, what: What) {
        let Some(task) = self.tasks.get_mut(id) else { return };
        if task.events.len() == MOST_EVENTS {
            task.events.remove(1);
        }
        let number = self.next_number;
        self.next_number += 1;
        task.events.push(Event {
            number,
            commit: version.commit.clone(),
            date: version.date,
            what,
        });
    }
}

impl TaskHistory {
    /// The last event of an attempt since the task was added to the file.
    fn last_attempt(&self) -> Option<&What> {
        self.events
            .iter()
            .rev()
            .map(|event| &event.what)
            .take_while(|what| **what != What::Restored)
            .find(|what| matches!(what, What::Done { .. } | What::Rejected { .. }))
    }
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
