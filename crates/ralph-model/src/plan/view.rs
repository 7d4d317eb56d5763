//! The plan as `ralph query` and `ralph task show` print it.
//!
//! Every field of a task that is present is shown, under its name in the file; absent fields are omitted.

use std::borrow::Cow;

use serde::{Serialize, Serializer};

use super::record::{Issue, Task};
use super::stage::{Next, Stage};
use super::task_fields::{Priority, Status};
use super::{Change, Plan};

/// `ralph query`.
#[derive(Clone, Debug, Serialize)]
pub struct StateView<'p> {
    pub spec: Option<&'p str>,
    pub tasks: TasksView<'p>,
    pub issues: Vec<IssueView<'p>>,
    pub stage: Stage,
    pub next: NextView<'p>,
}

/// `ralph query tasks`.
#[derive(Clone, Debug, Serialize)]
pub struct TasksView<'p> {
    /// In execution order.
    pub pending: Vec<TaskView<'p>>,
    pub done: Vec<TaskView<'p>>,
}

/// `ralph query tasks --done`.
#[derive(Clone, Debug, Serialize)]
pub struct DoneTasksView<'p> {
    pub done: Vec<TaskView<'p>>,
}

/// One task.
#[derive(Clone, Debug, Serialize)]
pub struct TaskView<'p> {
    pub id: Cow<'p, str>,
    pub name: Cow<'p, str>,
    pub spec: Cow<'p, str>,
    pub s: Status,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notes: Option<Cow<'p, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accept: Option<Cow<'p, str>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deps: Vec<Cow<'p, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub done_at: Option<Cow<'p, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reject: Option<Cow<'p, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kill: Option<Cow<'p, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kill_log: Option<Cow<'p, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<Cow<'p, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decompose_depth: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_from: Option<Cow<'p, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supersedes: Option<Cow<'p, str>>,
}

impl<'p> From<Task<'p>> for TaskView<'p> {
    fn from(task: Task<'p>) -> TaskView<'p> {
        TaskView {
            id: task.id,
            name: task.name,
            spec: task.spec,
            s: task.status,
            notes: task.notes,
            accept: task.accept,
            deps: task.deps,
            done_at: task.done_at,
            priority: task.priority,
            reject: task.reject,
            kill: task.kill,
            kill_log: task.kill_log,
            parent: task.parent,
            decompose_depth: task.decompose_depth,
            created_from: task.created_from,
            supersedes: task.supersedes,
        }
    }
}

/// One issue.
#[derive(Clone, Debug, Serialize)]
pub struct IssueView<'p> {
    pub id: Cow<'p, str>,
    pub desc: Cow<'p, str>,
    pub spec: Cow<'p, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
}

impl<'p> From<Issue<'p>> for IssueView<'p> {
    fn from(issue: Issue<'p>) -> IssueView<'p> {
        IssueView { id: issue.id, desc: issue.desc, spec: issue.spec, priority: issue.priority }
    }
}

/// `ralph query next`.
#[derive(Clone, Debug)]
pub struct NextView<'p>(pub Next<'p>);

impl Serialize for NextView<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Item {
            action: Stage,
            item: Option<String>,
        }
        #[derive(Serialize)]
        struct OneTask<'p> {
            action: Stage,
            task: TaskView<'p>,
        }
        #[derive(Serialize)]
        struct Killed<'p> {
            action: Stage,
            task: TaskView<'p>,
            kill_reason: Option<Cow<'p, str>>,
            kill_log: Option<Cow<'p, str>>,
        }
        #[derive(Serialize)]
        struct Issues<'p> {
            action: Stage,
            items: Vec<IssueView<'p>>,
            count: usize,
        }
        match self.0.clone() {
            Next::Plan => Item { action: Stage::Plan, item: None }.serialize(to),
            Next::Complete => Item { action: Stage::Complete, item: None }.serialize(to),
            Next::Build(task) => {
                OneTask { action: Stage::Build, task: (*task).into() }.serialize(to)
            }
            Next::Decompose(task) => Killed {
                action: Stage::Decompose,
                kill_reason: task.kill.clone(),
                kill_log: task.kill_log.clone(),
                task: (*task).into(),
            }
            .serialize(to),
            Next::Verify(count) => {
                let tasks = if count == 1 { "task" } else { "tasks" };
                let item = Some(format!("{count} done {tasks}"));
                Item { action: Stage::Verify, item }.serialize(to)
            }
            Next::Investigate(issues) => Issues {
                action: Stage::Investigate,
                count: issues.len(),
                items: issues.into_iter().map(Into::into).collect(),
            }
            .serialize(to),
        }
    }
}

/// `ralph task prioritize`.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PrioritizedView {
    pub prioritized: usize,
    pub high: usize,
    pub medium: usize,
    pub low: usize,
}

impl PrioritizedView {
    /// Returns the priorities that the change set; none for any other change.
    pub fn of(change: &Change) -> PrioritizedView {
        match *change {
            Change::Prioritized { high, medium, low } => {
                PrioritizedView { prioritized: high + medium + low, high, medium, low }
            }
            _ => PrioritizedView { prioritized: 0, high: 0, medium: 0, low: 0 },
        }
    }
}

impl Plan<'_> {
    pub fn state_view(&self) -> StateView<'_> {
        StateView {
            spec: self.spec(),
            tasks: self.tasks_view(),
            issues: self.issues_view(),
            stage: self.stage(),
            next: self.next_view(),
        }
    }

    pub fn tasks_view(&self) -> TasksView<'_> {
        TasksView {
            pending: self.pending().into_iter().map(Into::into).collect(),
            done: self.done_view().done,
        }
    }

    pub fn done_view(&self) -> DoneTasksView<'_> {
        DoneTasksView { done: self.done_tasks().map(Into::into).collect() }
    }

    pub fn issues_view(&self) -> Vec<IssueView<'_>> {
        self.issues().map(Into::into).collect()
    }

    pub fn next_view(&self) -> NextView<'_> {
        NextView(self.next())
    }

    /// Returns one task of any spec.
    pub fn task_view(&self, id: &str) -> Option<TaskView<'_>> {
        let mut lines = self.document.lines.iter();
        let line = lines.find(|line| line.head().is_some_and(|head| head.id == id))?;
        line.task().map(Into::into)
    }
}
