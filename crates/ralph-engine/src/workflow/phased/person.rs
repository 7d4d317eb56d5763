//! What needs a person: the agent's own questions, the claim that nothing has to change, work that could not be judged.

use ralph_model::answer::{is_no, is_yes};
use ralph_model::build::{Acceptance, Work};
use ralph_model::journal::{AnswerOrigin, PersonAnswered, PersonNeeded, QuestionKind, VerdictKind};
use ralph_model::phase::{LoopFact, LoopRecord, LoopStanding};
use ralph_model::proof::ProofLevel;
use ralph_model::verdict::PersonQuestion;

use super::judging::PersonsWord;
use super::{Phased, PhasedEnd};
use crate::questions::AnswerError;
use crate::workflow::WorkflowError;
use crate::workflow::driver::{Stop, Turn};
use crate::workflow::isolation::landing::is_stuck_question;
use crate::workflow::repositories::BEFORE;

impl Phased<'_, '_> {
    /// Answers the open question of a task.
    pub(super) fn answer(&mut self, item: &str, text: &str) -> Result<(), WorkflowError> {
        match self.session.questions().answer(Some(item), text, AnswerOrigin::Cli) {
            Ok(_) => Ok(()),
            Err(AnswerError::Path(error)) => Err(error.into()),
            Err(error @ AnswerError::Unclear { .. }) => Err(WorkflowError::Answer(error.into())),
            Err(_) => self.note("there was no question to answer"),
        }
    }

    /// Returns the person's answer to a question about a task, and records that it was heard.
    fn heard(&mut self, item: &str, asked: QuestionKind) -> Result<Option<String>, WorkflowError> {
        let Some(answer) = self.session.questions().answer_to(item, asked)? else {
            return Ok(None);
        };
        let reason = answer.clone();
        self.tell(PersonAnswered { spec: None, task: Some(item.to_owned()), reason })?;
        Ok(Some(answer))
    }

    pub(super) fn ask_person(
        &mut self,
        item: &str,
        question: String,
        asked: QuestionKind,
    ) -> Result<Turn<PhasedEnd>, WorkflowError> {
        self.session.questions().ask(item, &question, asked, None)?;
        let (task, text) = (Some(item.to_owned()), question.clone());
        self.tell(PersonNeeded { spec: None, task, question: text })?;
        Ok(Turn::Stop(Stop::Waiting { item: item.to_owned(), question, asked }))
    }

    pub(super) fn wait_for_answer(
        &mut self,
        item: &str,
        question: &str,
    ) -> Result<Turn<PhasedEnd>, WorkflowError> {
        let Some(answer) = self.heard(item, QuestionKind::Other)? else {
            return self.ask_person(item, question.to_owned(), QuestionKind::Other);
        };
        self.settle(&LoopFact::Answered { answer })?;
        // After acting on it: an answer that was taken before a crash would be lost.
        self.session.questions().take_answer(item)?;
        Ok(Turn::Progress)
    }

    pub(super) fn decide_no_change(
        &mut self,
        item: &str,
        reason: &str,
        opinion: &str,
    ) -> Result<Turn<PhasedEnd>, WorkflowError> {
        let Some(answer) = self.heard(item, QuestionKind::Accept)? else {
            let (reason, opinion) = (reason.to_owned(), Some(opinion.to_owned()));
            let question = PersonQuestion::NoChange { reason, opinion }.to_string();
            return self.ask_person(item, question, QuestionKind::Accept);
        };
        let fact = if is_yes(&answer) {
            self.tell_persons_verdict(item, VerdictKind::Accepted, &answer)?;
            let done_at = self.heads()?.into_iter().next().map(|work| work.commit);
            let acceptance =
                Acceptance { works: Vec::new(), done_at, level: ProofLevel::NotProven };
            let summary = format!("nothing had to change: {reason}");
            LoopFact::Accepted { run: None, acceptance, summary }
        } else {
            self.tell_persons_verdict(item, VerdictKind::Rejected, &answer)?;
            LoopFact::Objected { answer }
        };
        self.settle(&fact)?;
        self.session.questions().take_answer(item)?;
        Ok(Turn::Progress)
    }

    /// Judges undecided work once more. A person may have fixed the obstacle.
    pub(super) fn judge_again(
        &mut self,
        record: &LoopRecord,
        item: &str,
        works: &[Work],
    ) -> Result<Turn<PhasedEnd>, WorkflowError> {
        let before = BEFORE.load(&self.session.context.state, item)?;
        let stuck = match &record.standing {
            LoopStanding::Undecided { question, .. } if is_stuck_question(question) => {
                Some(question)
            }
            _ => None,
        };
        let kind = if stuck.is_some() { QuestionKind::Retry } else { QuestionKind::Accept };
        let answer = self.heard(item, kind)?;
        if let (None, Some(question)) = (&answer, stuck) {
            // Without an answer the landing would only be refused again, after another run of an agent.
            return self.ask_person(item, question.clone(), kind);
        }
        let is_stuck = stuck.is_some();
        if is_stuck && answer.as_deref().is_some_and(is_no) {
            self.session.questions().take_answer(item)?;
            return Ok(Turn::Stop(Stop::Declined { item: item.to_owned() }));
        }
        let turn = match (&answer, before) {
            (Some(answer), _) if !is_yes(answer) => {
                self.tell_persons_verdict(item, VerdictKind::Rejected, answer)?;
                self.settle(&LoopFact::Objected { answer: answer.clone() })?;
                if is_stuck && !self.project.is_in_place() {
                    self.go_on_from_tips(item)?;
                }
                Turn::Progress
            }
            (_, None) => {
                let answer = "the work can no longer be judged".to_owned();
                self.settle(&LoopFact::Objected { answer })?;
                Turn::Again
            }
            (answer, Some(before)) => {
                let consent =
                    if answer.is_some() { PersonsWord::Given } else { PersonsWord::NotAsked };
                self.judge_works(record, &before, works.to_vec(), None, consent)?
            }
        };
        if !matches!(turn, Turn::Trouble(_) | Turn::Stop(_)) {
            self.session.questions().withdraw(item)?;
        }
        Ok(turn)
    }
}
