//! State changes of a task: done, accepted, rejected, killed.

use std::collections::HashSet;

use super::edit::{MemberEdit, NewRecord};
use super::task_fields::{Kill, Status};
use super::{Change, DoneAt, Index, Named, Plan, PlanError};

/// The tombstone's commit if none was recorded.
const UNKNOWN_COMMIT: &str = "unknown";

/// Clears the killed state, under all its names.
const NOT_KILLED: [&str; 4] = ["kill", "kill_log", "decompose", "kill_reason"];

impl Plan<'_> {
    /// Marks the next task as done.
    pub(crate) fn done_next(&mut self, done_at: &DoneAt) -> Result<Change, PlanError> {
        self.writable()?;
        let at = self.next_to_do()?;
        Ok(self.mark_done(at, done_at))
    }

    /// Marks a pending task as done and clears its killed state.
    pub fn done(&mut self, id: &str, done_at: &DoneAt) -> Result<Change, PlanError> {
        self.writable()?;
        let at = Index::of(&self.document.lines).get(id)?;
        match self.task_at(at).status {
            Status::Pending => Ok(self.mark_done(at, done_at)),
            status => Err(PlanError::NotPending { id: id.to_owned(), status }),
        }
    }

    fn mark_done(&mut self, at: usize, done_at: &DoneAt) -> Change {
        let task = self.named(at);
        let mut changes: Vec<_> = NOT_KILLED.into_iter().map(MemberEdit::none).collect();
        changes.push(MemberEdit::text("s", "d"));
        changes.push(match done_at {
            DoneAt::Commit(commit) => MemberEdit::text("done_at", commit.as_str()),
            DoneAt::Unborn => MemberEdit::none("done_at"),
        });
        self.document.edit(at, &changes);
        self.finish(Change::TaskDone { task })
    }

    /// Removes all done tasks of the current spec from the plan.
    pub(crate) fn accept_all(&mut self) -> Result<Change, PlanError> {
        self.writable()?;
        let done: HashSet<usize> = self.with_status(Status::Done).collect();
        if done.is_empty() {
            return Err(PlanError::NothingDone);
        }
        Ok(self.take_out(&done))
    }

    /// Removes done tasks from the plan; a task that is not done aborts the whole change.
    pub(crate) fn accept(&mut self, ids: &[String]) -> Result<Change, PlanError> {
        self.writable()?;
        let index = Index::of(&self.document.lines);
        let mut done = HashSet::new();
        for id in ids {
            let at = index.get(id)?;
            match self.task_at(at).status {
                Status::Done => done.insert(at),
                status => return Err(PlanError::NotDone { id: id.clone(), status }),
            };
        }
        Ok(if done.is_empty() { Change::Nothing } else { self.take_out(&done) })
    }

    fn take_out(&mut self, done: &HashSet<usize>) -> Change {
        let mut lines: Vec<_> = done.iter().copied().collect();
        lines.sort_unstable();
        let tasks = lines.into_iter().map(|at| self.named(at)).collect();
        self.document.remove(|at, _| done.contains(&at));
        self.finish(Change::TasksAccepted { tasks })
    }

    /// Rejects the first done task.
    pub(crate) fn reject_first(&mut self, reason: &str) -> Result<Change, PlanError> {
        self.writable()?;
        let at = self.first_done()?;
        self.mark_rejected(at, reason)
    }

    /// Rejects a done task: a tombstone stays, and the task is pending again with the reason.
    pub fn reject(&mut self, id: &str, reason: &str) -> Result<Change, PlanError> {
        self.writable()?;
        let at = Index::of(&self.document.lines).get(id)?;
        match self.task_at(at).status {
            Status::Done => self.mark_rejected(at, reason),
            status => Err(PlanError::NotDone { id: id.to_owned(), status }),
        }
    }

    fn mark_rejected(&mut self, at: usize, reason: &str) -> Result<Change, PlanError> {
        let reason = reason.trim();
        if reason.is_empty() {
            return Err(PlanError::NoReason);
        }
        let (task, done_at) = {
            let task = self.task_at(at);
            let done_at = task.done_at.as_deref().unwrap_or(UNKNOWN_COMMIT).to_owned();
            (Named { id: task.id.into_owned(), name: task.name.into_owned() }, done_at)
        };
        let tombstone = NewRecord::new("reject")
            .with(MemberEdit::text("id", &task.id))
            .with(MemberEdit::text("done_at", &done_at))
            .with(MemberEdit::text("reason", reason));
        self.document.edit(
            at,
            &[
                MemberEdit::text("s", "p"),
                MemberEdit::none("done_at"),
                MemberEdit::text("reject", reason),
            ],
        );
        self.document.insert(&[tombstone]);
        Ok(self.finish(Change::TaskRejected { task, reason: reason.to_owned() }))
    }

    /// Records that a run of the task was killed; this voids a claim that it is done.
    pub fn kill(&mut self, id: &str, kill: Kill, log: Option<&str>) -> Result<Change, PlanError> {
        self.writable()?;
        let at = Index::of(&self.document.lines).get(id)?;
        let status = self.task_at(at).status;
        if status == Status::Accepted {
            return Err(PlanError::NotPending { id: id.to_owned(), status });
        }
        let task = self.named(at);
        let log = log
            .map_or_else(|| MemberEdit::none("kill_log"), |log| MemberEdit::text("kill_log", log));
        let mut changes =
            vec![MemberEdit::text("kill", kill.name()), log, MemberEdit::none("kill_reason")];
        // A killed task is read as pending even if its line says done, so correct the line too.
        if self.task_at(at).done_at.is_some() || status == Status::Done {
            changes.extend([MemberEdit::text("s", "p"), MemberEdit::none("done_at")]);
        }
        let before = self.document.lines[at].bytes().to_vec();
        self.document.edit(at, &changes);
        if self.document.lines[at].bytes() == before {
            return Ok(Change::Nothing);
        }
        Ok(self.finish(Change::TaskKilled { task, kill }))
    }

    /// Common final step of every change.
    pub(super) fn finish(&mut self, change: Change) -> Change {
        self.document.end_last_line();
        change
    }
}
