//! Claims that nothing has to change: never taken at their word. A verifier's opinion is asked for, then a person decides.

use ralph_model::journal::{WorkflowFields, WorkflowKind};
use ralph_model::pipeline::is_yes;
use ralph_model::plan::{DoneAt, Plan};
use ralph_model::verdict::PersonQuestion;

use super::claims::{self, Claim, Rejection};
use super::{Build, BuildEnd, Round, Turn, none};
use crate::run::RunResult;
use crate::workflow::WorkflowError;

/// How a verifier's item is named that is asked for its opinion on a task.
pub(super) const OPINION: &str = "-opinion";

impl Build<'_, '_, '_> {
    /// Settles a claim that nothing has to change: a verifier's opinion is asked for, then a person decides.
    pub(super) fn settle_open_claim(&mut self, task: &str) -> Result<Option<Turn>, WorkflowError> {
        let Some(claim) = claims::load(self.desk.context.state, task)? else { return Ok(None) };
        let Some(reason) = claim.no_change.clone().filter(|_| claim.stands) else {
            return Ok(None);
        };
        if let Some(answered) = self.desk.overview.answered(task).cloned() {
            let answer = answered.answer.unwrap_or_default();
            let fields = WorkflowFields {
                task: Some(task.to_owned()),
                reason: Some(answer.clone()),
                ..none()
            };
            self.tell(WorkflowKind::PersonAnswered, fields)?;
            let turn = if is_yes(&answer) {
                let head = self.repositories.base()?.into_values().next();
                self.mark_done(task, &head.map_or(DoneAt::Unborn, DoneAt::Commit))?;
                Turn::Again
            } else {
                let told = format!("A person looked at it and says: {answer}");
                self.turn_down(task, Rejection::plain(told))?;
                Turn::Again
            };
            // Only now: an answer that was taken and not acted on would be lost.
            self.desk.questions().take_answer(task)?;
            return Ok(Some(turn));
        }
        if claim.opinion.is_none() {
            return self.ask_for_opinion(task, &reason).map(Some);
        }
        let question = PersonQuestion::NoChange { reason, opinion: claim.opinion };
        self.ask_person(task, &question).map(Some)
    }

    fn ask_for_opinion(&mut self, task: &str, reason: &str) -> Result<Turn, WorkflowError> {
        let item = format!("{task}{OPINION}");
        if let Some(result) = self.pending(&item)? {
            return self.take(&mut Round::default(), &result);
        }
        let bytes = self.plan.read()?;
        let plan = Plan::parse(&bytes);
        let tasks = super::runs::json(&plan.task_view(task));
        let feedback = format!(
            "The builder of {task} says that nothing has to change ({reason}). Do not accept or reject it: look whether \
             that is so, and say in your last message what you think and why. A person decides."
        );
        let mut round = Round::default();
        self.verify_with(&mut round, &plan, &item, &[], &tasks, Some(&feedback))
    }

    pub(super) fn take_opinion(
        &mut self,
        task: &str,
        result: &RunResult,
    ) -> Result<Turn, WorkflowError> {
        let state = self.desk.context.state;
        if let Some(claim) = claims::load(state, task)? {
            let said = result.final_message.clone();
            let opinion = said.unwrap_or_else(|| "it gave none".to_owned());
            claims::save(
                state,
                task,
                &Claim { opinion: Some(opinion.trim().to_owned()), ..claim },
            )?;
        }
        self.commit_plan()?;
        Ok(Turn::Again)
    }

    pub(super) fn ask_person(
        &mut self,
        task: &str,
        question: &PersonQuestion,
    ) -> Result<Turn, WorkflowError> {
        let question = question.to_string();
        self.desk.questions().ask(task, &question, None)?;
        self.commit_plan()?;
        let fields = WorkflowFields {
            task: Some(task.to_owned()),
            question: Some(question.clone()),
            ..none()
        };
        self.tell(WorkflowKind::PersonNeeded, fields)?;
        Ok(Turn::End(BuildEnd::Waiting { task: task.to_owned(), question }))
    }
}
