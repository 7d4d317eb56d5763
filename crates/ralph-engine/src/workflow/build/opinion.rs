//! Claims that a person has to decide on. That nothing has to change is never taken at its word: a verifier's opinion is
//! asked for first. Work that could not be judged is judged once more before it is asked about again.

use ralph_model::journal::{WorkflowFields, WorkflowKind};
use ralph_model::pipeline::is_yes;
use ralph_model::plan::{DoneAt, Plan};
use ralph_model::verdict::PersonQuestion;

use super::claims::{self, Claim, Rejection};
use super::judging::Person;
use super::{Build, BuildEnd, Round, Turn, none};
use crate::questions::AnswerError;
use crate::run::RunResult;
use crate::workflow::WorkflowError;
use crate::workflow::repositories::{BeforeAll, Work};

/// How a verifier's item is named that is asked for its opinion on a task.
pub(super) const OPINION: &str = "-opinion";

impl Build<'_, '_, '_> {
    /// Settles a claim that waits for a person, as far as that can be done.
    pub(super) fn settle_open_claim(&mut self, task: &str) -> Result<Option<Turn>, WorkflowError> {
        let Some(claim) = claims::load(self.desk.context.state, task)? else { return Ok(None) };
        if let Some(works) = &claim.asked {
            return self.settle_asked(task, works);
        }
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

    /// Settles a claim on work that the judge could not decide on. A person may have put right what was in the way.
    fn settle_asked(&mut self, task: &str, works: &[Work]) -> Result<Option<Turn>, WorkflowError> {
        let state = self.desk.context.state;
        let Some(before) = BeforeAll::load(state, task)? else {
            claims::forget(state, task)?;
            return Ok(None);
        };
        let answered = self.desk.overview.answered(task).cloned();
        let answer = answered.map(|answered| answered.answer.unwrap_or_default());
        if let Some(answer) = &answer {
            let (task, reason) = (Some(task.to_owned()), Some(answer.clone()));
            self.tell(WorkflowKind::PersonAnswered, WorkflowFields { task, reason, ..none() })?;
        }
        let turn = match &answer {
            Some(answer) if !is_yes(answer) => {
                let commit = works.first().map(|work| work.commit.clone());
                let told = format!("A person looked at it and says: {answer}");
                self.turn_down(task, Rejection { commit, ..Rejection::plain(told) })?;
                Turn::Again
            }
            answer => {
                let person = if answer.is_some() { Person::Agrees } else { Person::NotAsked };
                let examined = self.examine(task, &before, works.to_vec())?;
                self.conclude(task, &before, &examined, person)?
            }
        };
        if answer.is_none() && !matches!(turn, Turn::End(_) | Turn::Trouble(_)) {
            // It was decided without an answer, and nobody is to be kept waiting for one.
            let settled = self.desk.questions().answer(Some(task), "it could be judged after all");
            if let Err(AnswerError::Path(error)) = settled {
                return Err(error.into());
            }
        }
        if !matches!(turn, Turn::Trouble(_)) {
            self.desk.questions().take_answer(task)?;
        }
        Ok(Some(turn))
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
