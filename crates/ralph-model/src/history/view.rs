//! Histories as `ralph log` prints them, and its filters.

use jiff::Timestamp;
use serde::Serialize;

use super::{Event, History, TaskHistory, What};
use crate::id::CommitId;
use crate::plan::{Plan, Status};

/// The start of the shown period.
#[derive(Clone, Copy)]
pub enum Since<'f> {
    Date(Timestamp),
    /// Whether a commit is the named one or an ancestor of it.
    Commit(&'f dyn Fn(&CommitId) -> bool),
}

/// The filter; all given conditions must match.
#[derive(Clone, Copy, Default)]
pub struct Filter<'f> {
    pub spec: Option<&'f str>,
    pub branch: Option<&'f str>,
    pub since: Option<Since<'f>>,
}

impl Filter<'_> {
    fn takes_task(&self, task: &TaskHistory) -> bool {
        self.spec.is_none_or(|spec| task.spec == spec)
            && self.branch.is_none_or(|branch| task.branch.as_deref() == Some(branch))
    }

    fn takes_event(&self, event: &Event) -> bool {
        match self.since {
            None => true,
            Some(Since::Date(date)) => event.date >= date,
            Some(Since::Commit(was_there)) => !was_there(&event.commit),
        }
    }
}

/// The outcome of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskOutcome {
    Pending,
    Done,
    Accepted,
    Rejected,
    Cancelled,
}

/// A commit and its time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Moment {
    pub commit: String,
    pub date: Timestamp,
}

/// A rejection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RejectionView {
    pub commit: String,
    pub date: Timestamp,
    pub reason: String,
}

/// One task of the history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HistoryView<'h> {
    pub id: &'h str,
    pub desc: &'h str,
    pub spec: &'h str,
    pub branch: Option<&'h str>,
    pub author: &'h str,
    pub created: Option<Moment>,
    pub done: Option<Moment>,
    pub accepted: Option<Moment>,
    pub rejected: Option<RejectionView>,
    pub cancelled: Option<Moment>,
    pub outcome: TaskOutcome,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notes: Option<&'h str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accept: Option<&'h str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub deps: &'h [String],
}

/// `ralph log --all`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LogView<'h> {
    /// In the order in which they were created.
    pub tasks: Vec<HistoryView<'h>>,
}

/// One change of state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChangeView<'h> {
    pub id: &'h str,
    pub desc: &'h str,
    pub spec: &'h str,
    pub change: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'h str>,
    pub commit: &'h CommitId,
    pub date: Timestamp,
}

/// `ralph log`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecentView<'h> {
    /// Newest first.
    pub changes: Vec<ChangeView<'h>>,
}

impl What {
    const fn name(&self) -> &'static str {
        match self {
            What::Created => "created",
            What::Done { .. } => "done",
            What::Rejected { .. } => "rejected",
            What::Killed { .. } => "killed",
            What::Reopened => "reopened",
            What::Restored => "restored",
            What::Removed => "removed",
            What::Accepted => "accepted",
            What::Cancelled => "cancelled",
        }
    }
}

impl TaskHistory {
    fn last(&self, wanted: impl Fn(&What) -> bool) -> Option<&Event> {
        self.events.iter().rev().find(|event| wanted(&event.what))
    }

    /// Returns the outcome of the task; `now` is its status in the current plan, if it is there.
    pub(crate) fn outcome(&self, now: Option<Status>) -> TaskOutcome {
        match now {
            Some(Status::Pending) => return TaskOutcome::Pending,
            Some(Status::Done) => return TaskOutcome::Done,
            Some(Status::Accepted) => return TaskOutcome::Accepted,
            None => {}
        }
        let ends =
            |what: &What| matches!(what, What::Accepted | What::Rejected { .. } | What::Cancelled);
        match self.last(ends).map(|event| &event.what) {
            Some(What::Accepted) => TaskOutcome::Accepted,
            Some(What::Rejected { .. }) => TaskOutcome::Rejected,
            // It disappeared without a record, as can happen with rewritten history.
            _ => TaskOutcome::Cancelled,
        }
    }

    fn view<'h>(&'h self, id: &'h str, now: Option<Status>) -> HistoryView<'h> {
        let outcome = self.outcome(now);
        let rejected = self.last(|what| matches!(what, What::Rejected { .. }));
        let ended = |wanted: TaskOutcome, what: &What| {
            self.last(|other| other == what).filter(|_| outcome == wanted).map(moment)
        };
        HistoryView {
            id,
            desc: &self.name,
            spec: &self.spec,
            branch: self.branch.as_deref(),
            author: &self.author,
            created: self.events.first().map(moment),
            done: self.last(|what| matches!(what, What::Done { .. })).map(moment),
            accepted: ended(TaskOutcome::Accepted, &What::Accepted),
            rejected: rejected.map(|event| RejectionView {
                commit: event.commit.to_string(),
                date: event.date,
                reason: event.reason().unwrap_or_default().to_owned(),
            }),
            cancelled: ended(TaskOutcome::Cancelled, &What::Cancelled),
            outcome,
            notes: self.notes.as_deref(),
            accept: self.accept.as_deref(),
            deps: &self.deps,
        }
    }
}

impl Event {
    fn reason(&self) -> Option<&str> {
        match &self.what {
            What::Rejected { reason } | What::Killed { reason } => Some(reason),
            _ => None,
        }
    }
}

/// For done work, the commit that contains it, if known.
fn moment(event: &Event) -> Moment {
    let commit = match &event.what {
        What::Done { at: Some(at) } => at.clone(),
        _ => event.commit.to_string(),
    };
    Moment { commit, date: event.date }
}

impl History {
    /// Returns the matching tasks, each with its outcome; `now` is the current plan.
    ///
    /// Since a date or commit, a task is shown if anything happened to it since then.
    pub fn log_view<'h>(&'h self, now: &Plan<'_>, filter: &Filter<'_>) -> LogView<'h> {
        let status: std::collections::HashMap<&str, Status> = now
            .document()
            .lines()
            .iter()
            .filter_map(|line| match &line.record {
                crate::plan::Record::Task(head) => Some((&*head.id, head.status)),
                _ => None,
            })
            .collect();
        let mut tasks: Vec<_> = self
            .tasks
            .iter()
            .filter(|(_, task)| filter.takes_task(task))
            .filter(|(_, task)| task.events.iter().any(|event| filter.takes_event(event)))
            .collect();
        tasks.sort_by_key(|(_, task)| task.events.first().map(|event| event.number));
        let tasks =
            tasks.into_iter().map(|(id, task)| task.view(id, status.get(id.as_str()).copied()));
        LogView { tasks: tasks.collect() }
    }

    /// Returns the newest matching state changes, at most `most`.
    pub fn recent_view(&self, filter: &Filter<'_>, most: usize) -> RecentView<'_> {
        let mut changes: Vec<(u64, ChangeView<'_>)> = Vec::new();
        for (id, task) in self.tasks.iter().filter(|(_, task)| filter.takes_task(task)) {
            for event in task.events.iter().filter(|event| filter.takes_event(event)) {
                let view = ChangeView {
                    id,
                    desc: &task.name,
                    spec: &task.spec,
                    change: event.what.name(),
                    reason: event.reason(),
                    commit: &event.commit,
                    date: event.date,
                };
                changes.push((event.number, view));
            }
        }
        changes.sort_unstable_by_key(|(number, _)| std::cmp::Reverse(*number));
        changes.truncate(most);
        RecentView { changes: changes.into_iter().map(|(_, view)| view).collect() }
    }
}
