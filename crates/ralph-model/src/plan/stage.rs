//! The stage of the work, and the next step.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::order::{self, Pending};
use super::record::{Issue, Record, Task};
use super::task_fields::Status;
use super::{Plan, PlanError};

/// The stage of the work on a spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Stage {
    /// There is no spec.
    Plan,
    /// A pending task was killed and is too big.
    Decompose,
    Build,
    Verify,
    Investigate,
    Complete,
}

impl Stage {
    pub const fn name(self) -> &'static str {
        match self {
            Stage::Plan => "PLAN",
            Stage::Decompose => "DECOMPOSE",
            Stage::Build => "BUILD",
            Stage::Verify => "VERIFY",
            Stage::Investigate => "INVESTIGATE",
            Stage::Complete => "COMPLETE",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The next step, with its subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next<'p> {
    Plan,
    Decompose(Box<Task<'p>>),
    Build(Box<Task<'p>>),
    /// How many tasks are done.
    Verify(usize),
    Investigate(Vec<Issue<'p>>),
    Complete,
}

/// Bounds the walk up the parents, which may form a cycle.
const MOST_STEPS: usize = 100;

impl Plan<'_> {
    pub fn stage(&self) -> Stage {
        if self.spec().is_none() {
            return Stage::Plan;
        }
        let (mut pending, mut done) = (false, false);
        for (_, head) in self.current() {
            match head.status {
                Status::Pending if head.killed => return Stage::Decompose,
                Status::Pending => pending = true,
                Status::Done => done = true,
                Status::Accepted => {}
            }
        }
        if pending {
            Stage::Build
        } else if done {
            Stage::Verify
        } else if self.document.lines.iter().any(|line| matches!(line.record, Record::Issue { .. }))
        {
            Stage::Investigate
        } else {
            Stage::Complete
        }
    }

    /// Returns the stage; `None` instead of complete if a line cannot be parsed, because it may be a task.
    pub fn certain_stage(&self) -> Option<Stage> {
        let stage = self.stage();
        let is_certain = stage != Stage::Complete || self.document.broken().next().is_none();
        is_certain.then_some(stage)
    }

    pub fn next(&self) -> Next<'_> {
        match self.stage() {
            Stage::Plan => Next::Plan,
            Stage::Decompose => {
                let at = self.first_killed().expect("this stage is about a killed task");
                Next::Decompose(Box::new(self.task_at(at)))
            }
            Stage::Build => {
                let at = self.first_pending().expect("this stage is about a pending task");
                Next::Build(Box::new(self.task_at(at)))
            }
            Stage::Verify => Next::Verify(self.with_status(Status::Done).count()),
            Stage::Investigate => Next::Investigate(self.issues().collect()),
            Stage::Complete => Next::Complete,
        }
    }

    /// Returns the number of a task's ancestors in the decomposition; zero for one that is not in the file.
    ///
    /// Parents are removed when they are decomposed, so a subtask records its own depth. If it does not, its remaining
    /// ancestors in the file are counted, plus one for the last, removed one.
    pub fn depth(&self, id: &str) -> usize {
        let mut steps = 0;
        let mut here = self.task_view(id);
        while let Some(task) = here.filter(|_| steps < MOST_STEPS) {
            if let Some(depth) = task.decompose_depth {
                return depth as usize + steps;
            }
            let Some(parent) = task.parent else { return steps };
            steps += 1;
            here = self.task_view(&parent);
        }
        steps
    }

    /// Returns the pending tasks of the current spec in execution order.
    pub fn pending(&self) -> Vec<Task<'_>> {
        let (tasks, elsewhere) = self.waiting();
        order::order(&tasks, &elsewhere).into_iter().map(|at| self.task_at(at)).collect()
    }

    /// Returns the done tasks of the current spec in file order.
    pub fn done_tasks(&self) -> impl Iterator<Item = Task<'_>> {
        self.with_status(Status::Done).map(|at| self.task_at(at))
    }

    /// Returns every issue in file order.
    pub fn issues(&self) -> impl Iterator<Item = Issue<'_>> {
        let lines = self.document.lines.iter();
        lines
            .filter(|line| matches!(line.record, Record::Issue { .. }))
            .filter_map(super::Line::issue)
    }

    /// The pending tasks of the current spec, and the ids of those of other specs.
    fn waiting(&self) -> (Vec<Pending<'_, '_>>, Vec<&str>) {
        let spec = self.spec();
        let (mut tasks, mut elsewhere) = (Vec::new(), Vec::new());
        for (at, line) in self.document.lines.iter().enumerate() {
            let Some(head) = line.head() else { continue };
            if head.status != Status::Pending {
                continue;
            }
            if Plan::is_current(spec, head) {
                tasks.push((at, head));
            } else {
                elsewhere.push(&*head.id);
            }
        }
        (tasks, elsewhere)
    }

    fn first_pending(&self) -> Option<usize> {
        let (tasks, elsewhere) = self.waiting();
        order::first(&tasks, &elsewhere)
    }

    fn first_killed(&self) -> Option<usize> {
        let (mut tasks, elsewhere) = self.waiting();
        tasks.retain(|(_, head)| head.killed);
        order::first(&tasks, &elsewhere)
    }

    /// Returns the line of the task that `done` without an id refers to: the one that `next` returns.
    pub(super) fn next_to_do(&self) -> Result<usize, PlanError> {
        match self.stage() {
            Stage::Decompose => {
                let at = self.first_killed().expect("this stage is about a killed task");
                Err(PlanError::WaitsForDecomposition { id: self.task_at(at).id.into_owned() })
            }
            Stage::Build => Ok(self.first_pending().expect("this stage is about a pending task")),
            Stage::Plan => Err(PlanError::NoSpec),
            Stage::Verify | Stage::Investigate | Stage::Complete => Err(PlanError::NothingPending),
        }
    }

    pub(super) fn first_done(&self) -> Result<usize, PlanError> {
        self.with_status(Status::Done).next().ok_or(PlanError::NothingDone)
    }
}
