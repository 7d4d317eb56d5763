//! The plan: tasks, issues and tombstones of the current spec, one JSON record per line in `plan.jsonl`.
//!
//! [`Document`] is the file, [`Plan`] its meaning: the stage of the work, the next task, and every possible change. A
//! change is atomic, touches only its own lines, and is refused while any line cannot be parsed. Only tasks of the
//! current spec are built and verified; a line without a spec belongs to the current one. Locks, commits and
//! permissions are handled elsewhere.

mod add;
mod change;
mod document;
mod draft;
mod edit;
mod error;
mod flaw;
mod ids;
mod issues;
mod life;
pub mod merge;
mod order;
mod prioritize;
mod record;
mod remove;
mod scan;
mod spec;
mod stage;
mod task_fields;
mod validate;
pub mod view;

use std::collections::HashMap;

use crate::channel::MutationRequest;
use crate::id::CommitId;

pub use change::{Added, Change, Named, commit_message};
pub(crate) use change::{CANCELS, DELETES, SETS_SPEC};
pub use document::{Document, Line};
pub use error::{PlanError, WishError};
pub use flaw::{Flaw, Problem, ProblemKind};
pub use ids::{InvalidIssueId, InvalidTaskId, IssueId, TaskId};
pub(crate) use record::accepted_by_line;
pub use record::{Issue, Record, Task, TaskHead, Tombstone};
pub use stage::{Next, Stage};
pub use task_fields::{Kill, Priority, Status};

/// The current plan.
#[derive(Clone, Debug, Default)]
pub struct Plan<'a> {
    document: Document<'a>,
}

/// The commit that contains the work of a done task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DoneAt {
    Commit(CommitId),
    /// There is no commit yet.
    Unborn,
}

/// What a change needs to know in addition to the plan.
pub struct PlanContext<'s> {
    /// Whether an id was ever in the plan.
    pub known: &'s dyn Fn(&str) -> bool,
    /// Whether `known` covers the whole history of the plan, and not only a part of it.
    pub past_is_whole: &'s dyn Fn() -> bool,
    /// Unpredictable numbers for new ids.
    pub random: &'s mut dyn FnMut() -> u64,
    pub done_at: DoneAt,
}

/// Whether unfinished tasks block a change of the spec or are cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfinished {
    Refuse,
    Cancel,
}

/// The lines of a plan's tasks, by id.
struct Index<'p> {
    tasks: HashMap<&'p str, (usize, Option<usize>)>,
}

impl<'p> Index<'p> {
    fn of(lines: &'p [Line<'_>]) -> Index<'p> {
        let mut tasks = HashMap::with_capacity(lines.len());
        for (at, line) in lines.iter().enumerate() {
            if let Some(head) = line.head() {
                tasks.entry(&*head.id).or_insert((at, None)).1 = Some(at);
            }
        }
        Index { tasks }
    }

    /// Returns the line of a task whose id is unique.
    fn get(&self, id: &str) -> Result<usize, PlanError> {
        match self.tasks.get(id) {
            None => Err(PlanError::UnknownTask { id: id.to_owned() }),
            Some((first, Some(last))) if first != last => {
                Err(PlanError::Ambiguous { id: id.to_owned(), first: first + 1, second: last + 1 })
            }
            Some((at, _)) => Ok(*at),
        }
    }
}

impl<'a> Plan<'a> {
    /// Parses the bytes of `plan.jsonl`; a missing file counts as empty.
    pub fn parse(bytes: &'a [u8]) -> Plan<'a> {
        Plan { document: Document::parse(bytes) }
    }

    pub fn document(&self) -> &Document<'a> {
        &self.document
    }

    pub fn render(&self) -> Vec<u8> {
        self.document.render()
    }

    /// Returns the current spec, if one is set.
    pub fn spec(&self) -> Option<&str> {
        let mut specs = self.document.lines.iter().rev().filter_map(|line| match &line.record {
            Record::Spec { spec } => Some(&**spec),
            _ => None,
        });
        specs.next().filter(|spec| !spec.is_empty())
    }

    /// Whether a task belongs to the current spec and is built and verified now.
    fn is_current(spec: Option<&str>, head: &TaskHead<'_>) -> bool {
        head.spec.is_empty() || Some(&*head.spec) == spec
    }

    /// The tasks of the current spec, with the number of their line.
    fn current(&self) -> impl DoubleEndedIterator<Item = (usize, &TaskHead<'a>)> {
        let spec = self.spec();
        let lines = self.document.lines.iter().enumerate();
        lines
            .filter_map(|(at, line)| Some((at, line.head()?)))
            .filter(move |(_, head)| Plan::is_current(spec, head))
    }

    fn with_status(&self, status: Status) -> impl Iterator<Item = usize> {
        self.current().filter(move |(_, head)| head.status == status).map(|(at, _)| at)
    }

    /// Refuses to write while any line cannot be parsed.
    pub fn writable(&self) -> Result<(), PlanError> {
        let problems: Vec<_> = self.document.broken().collect();
        if problems.is_empty() { Ok(()) } else { Err(PlanError::Unreadable { problems }) }
    }

    /// Refuses to let agents work on a plan with problems that no agent can fix: unparsable lines, duplicate ids,
    /// dependency cycles. Any change by such a run would be refused.
    pub fn workable(&self) -> Result<(), PlanError> {
        self.writable()?;
        let problems = self.obstacles();
        if problems.is_empty() { Ok(()) } else { Err(PlanError::Unworkable { problems }) }
    }

    fn task_at(&self, at: usize) -> Task<'_> {
        self.document.lines[at].task().expect("a line with a task's head is a task")
    }

    fn named(&self, at: usize) -> Named {
        let task = self.task_at(at);
        Named { id: task.id.into_owned(), name: task.name.into_owned() }
    }

    /// Returns the ids of the tasks and issues that `request` affects, even if it names none.
    ///
    /// Permission checks use these.
    pub fn targets(&self, request: &MutationRequest) -> Result<Vec<String>, PlanError> {
        let id_of = |at: usize| self.task_at(at).id.into_owned();
        Ok(match request {
            MutationRequest::TaskDone { id: None, .. } => vec![id_of(self.next_to_do()?)],
            MutationRequest::TaskReject { id: None, .. } => vec![id_of(self.first_done()?)],
            MutationRequest::TaskAccept { ids } if ids.is_empty() => {
                self.with_status(Status::Done).map(id_of).collect()
            }
            MutationRequest::IssueDone { ids } if ids.is_empty() => {
                self.issues().take(1).map(|issue| issue.id.into_owned()).collect()
            }
            MutationRequest::IssueDoneAll => {
                self.issues().map(|issue| issue.id.into_owned()).collect()
            }
            MutationRequest::TaskDone { id, .. } | MutationRequest::TaskReject { id, .. } => {
                id.iter().cloned().collect()
            }
            MutationRequest::TaskDelete { id } => vec![id.clone()],
            MutationRequest::TaskAccept { ids } | MutationRequest::IssueDone { ids } => ids.clone(),
            MutationRequest::TaskAdd { .. }
            | MutationRequest::TaskPrioritize
            | MutationRequest::TaskShow { .. }
            | MutationRequest::IssueAdd { .. }
            | MutationRequest::SetSpec { .. } => Vec::new(),
        })
    }

    /// Makes the requested change; a question changes nothing.
    pub fn apply(
        &mut self,
        request: &MutationRequest,
        surroundings: &mut PlanContext<'_>,
    ) -> Result<Change, PlanError> {
        match request {
            MutationRequest::TaskAdd { task } => self.add(task, surroundings),
            MutationRequest::TaskDone { id: Some(id), .. } => self.done(id, &surroundings.done_at),
            MutationRequest::TaskDone { id: None, .. } => self.done_next(&surroundings.done_at),
            MutationRequest::TaskAccept { ids } if ids.is_empty() => self.accept_all(),
            MutationRequest::TaskAccept { ids } => self.accept(ids),
            MutationRequest::TaskReject { id: Some(id), reason } => self.reject(id, reason),
            MutationRequest::TaskReject { id: None, reason } => self.reject_first(reason),
            MutationRequest::TaskDelete { id } => self.delete(id),
            MutationRequest::TaskPrioritize => self.prioritize(),
            MutationRequest::TaskShow { .. } => Ok(Change::Nothing),
            MutationRequest::IssueAdd { description } => self.add_issue(description, surroundings),
            MutationRequest::IssueDone { ids } if ids.is_empty() => self.first_issue_done(),
            MutationRequest::IssueDone { ids } => self.issues_done(ids),
            MutationRequest::IssueDoneAll => self.all_issues_done(),
            MutationRequest::SetSpec { spec, cancel_unfinished } => {
                let unfinished =
                    if *cancel_unfinished { Unfinished::Cancel } else { Unfinished::Refuse };
                self.set_spec(spec, unfinished)
            }
        }
    }
}

#[cfg(test)]
#[path = "format_tests.rs"]
mod format_tests;
#[cfg(test)]
#[path = "mutation_tests.rs"]
mod mutation_tests;
#[cfg(test)]
#[path = "plan_properties_tests.rs"]
mod plan_properties_tests;
#[cfg(test)]
#[path = "stage_tests.rs"]
mod stage_tests;
