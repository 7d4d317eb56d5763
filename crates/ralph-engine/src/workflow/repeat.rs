//! The same prompt, run until it was answered often enough: the oldest loop there is, with a harness around it.
//!
//! It takes no position on whether the work is done: that is for the workflows that judge.

use ralph_model::run::RunOutcome;

use super::WorkflowError;
use super::driver::{Ended, Subject, Turn, Void, Workflow, WorkflowStep, drive};
use crate::boundary;
use crate::run::{RunReport, RunResult};
use crate::session::{AgentTask, Session};

/// How repeated runs ended when nothing stopped them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepeatEnd {
    /// All runs completed.
    Completed,
    /// A run did not complete, and it was the only one asked for.
    Failed,
}

struct Repeat<'r, 's> {
    session: &'r mut Session<'s>,
    task: AgentTask,
    left: u32,
    only_one: bool,
    last: Option<RunReport>,
}

/// What repeated runs came to.
pub struct Repeated {
    pub ended: Ended<RepeatEnd>,
    pub last: Option<RunReport>,
    /// What is to be said of where they left the person.
    pub notes: Vec<String>,
}

/// Runs a task until `times` of its runs have completed.
pub fn repeat(
    session: &mut Session<'_>,
    task: AgentTask,
    times: u32,
) -> Result<Repeated, WorkflowError> {
    let places = boundary::repositories(&session.context.workspace.root);
    let began = boundary::checked_out(&places);
    let mut repeat = Repeat { session, task, left: times, only_one: times == 1, last: None };
    let ended = drive(&mut repeat)?;
    let last = repeat.last;
    let mut notes = Vec::new();
    for ((place, then), now) in places.iter().zip(&began).zip(boundary::checked_out(&places)) {
        if let (Some(then), Some(now)) = (then, now)
            && *then != now
        {
            let place = place.worktree.as_ref().unwrap_or(&place.git_dir);
            notes.push(format!("{now} is checked out in {place}; the run began on {then}"));
        }
    }
    Ok(Repeated { ended, last, notes })
}

impl<'s> Workflow<'s> for Repeat<'_, 's> {
    type End = RepeatEnd;

    fn session(&mut self) -> &mut Session<'s> {
        self.session
    }

    fn item(&self) -> Option<String> {
        None
    }

    fn subject(&self) -> Subject {
        Subject::default()
    }

    fn pending(&mut self) -> Result<Option<RunResult>, WorkflowError> {
        Ok(None)
    }

    fn next(&mut self) -> Result<WorkflowStep<RepeatEnd>, WorkflowError> {
        Ok(match self.left {
            0 => WorkflowStep::Turn(Turn::End(RepeatEnd::Completed)),
            _ => WorkflowStep::Run(Box::new(self.task.clone())),
        })
    }

    fn ended(&mut self, report: RunReport, _: &RunResult) -> Result<(), WorkflowError> {
        self.last = Some(report);
        Ok(())
    }

    fn conclude(&mut self, result: &RunResult) -> Result<Turn<RepeatEnd>, WorkflowError> {
        if result.outcome == RunOutcome::Completed {
            self.left -= 1;
            return Ok(Turn::Progress);
        }
        Ok(if self.only_one { Turn::End(RepeatEnd::Failed) } else { Turn::Failed })
    }

    fn end_on_trouble(&self) -> Option<RepeatEnd> {
        self.only_one.then_some(RepeatEnd::Failed)
    }

    fn discard(&mut self, _: &RunResult, _: Void) -> Result<(), WorkflowError> {
        Ok(())
    }
}
