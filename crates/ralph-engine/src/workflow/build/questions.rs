//! Tasks that are settled without a builder: a verdict that a crash cut short, and what needs a person.
//!
//! That nothing has to change is never taken at the builder's word: a verifier gives its opinion first. Work that could not
//! be judged is judged once more before a person is asked about it again.

use ralph_model::answer::{is_no, is_yes};
use ralph_model::build::{Acceptance, Rejection, TaskClaim, TaskFact, TaskState, Work};
use ralph_model::journal::{
    AnswerOrigin, PersonAnswered, PersonNeeded, QuestionKind, ReasonText, VerdictKind,
    VerdictReached,
};
use ralph_model::plan::Plan;
use ralph_model::proof::ProofLevel;
use ralph_model::verdict::PersonQuestion;

use super::judging::Person;
use super::stages::wish_of;
use super::task_store::Healed;
use super::{Build, BuildEnd, WORKFLOW};
use crate::plan_file::PLAN_FILE;
use crate::questions::AnswerError;
use crate::run::RunResult;
use crate::workflow::driver::{Stop, Turn, WorkflowStep};
use crate::workflow::isolation::landing::is_stuck_question;
use crate::workflow::repositories::BEFORE;
use crate::workflow::review::{self, REVIEW, ReviewRequest};
use crate::workflow::{WorkflowError, equal_claims};

/// How a verifier's item is named that is asked for its opinion on a task.
pub(super) const OPINION: &str = "-opinion";

impl Build<'_, '_> {
    /// Settles a task as far as that needs no run. Returns `None` if one is needed.
    pub(super) fn settle_without_run(
        &mut self,
        task: &str,
    ) -> Result<Option<Turn<BuildEnd>>, WorkflowError> {
        match self.heal(task)? {
            Some(Healed::Accepted) => return Ok(Some(Turn::Progress)),
            Some(Healed::Rejected { for_agent }) => return self.fail(task, for_agent).map(Some),
            Some(Healed::Unsettled) => return Ok(Some(Turn::Again)),
            None => {}
        }
        match self.state_of(task)? {
            TaskState::NoChangeReviewed { reason, opinion } => {
                let question = PersonQuestion::NoChange { reason, opinion: Some(opinion) };
                self.decide_no_change(task, &question).map(Some)
            }
            TaskState::Undecided { works } if !self.is_review_wanted(task, &works)? => {
                self.judge_again(task, &works).map(Some)
            }
            TaskState::Exhausted { times, last } => {
                let question = format!(
                    "it was rejected {} because: {} Try it again?",
                    match times {
                        1 => "once".to_owned(),
                        times => format!("{times} times, the last time"),
                    },
                    end_sentence(&last)
                );
                self.decide_retry(task, question).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Returns the person's answer to a question about a task, and records that it was heard.
    fn answer(&mut self, task: &str, asked: QuestionKind) -> Result<Option<String>, WorkflowError> {
        let Some(answer) = self.session.questions().answer_to(task, asked)? else {
            return Ok(None);
        };
        let reason = answer.clone();
        self.tell(PersonAnswered { spec: None, task: Some(task.to_owned()), reason })?;
        Ok(Some(answer))
    }

    /// Records what a person decided on a task.
    fn tell_persons_verdict(
        &mut self,
        task: &str,
        verdict: VerdictKind,
        answer: &str,
    ) -> Result<(), WorkflowError> {
        self.tell(VerdictReached {
            item: task.to_owned(),
            verdict,
            by: "person".to_owned(),
            reasons: vec![ReasonText::new("person", answer)],
            ..VerdictReached::default()
        })
    }

    fn decide_no_change(
        &mut self,
        task: &str,
        question: &PersonQuestion,
    ) -> Result<Turn<BuildEnd>, WorkflowError> {
        let Some(answer) = self.answer(task, QuestionKind::Accept)? else {
            let question = question.to_string();
            return self.ask_person(task, question, QuestionKind::Accept, None);
        };
        let accepted = is_yes(&answer);
        let kind = if accepted { VerdictKind::Accepted } else { VerdictKind::Rejected };
        self.tell_persons_verdict(task, kind, &answer)?;
        let fact = if accepted {
            let done_at = self.project.repositories.base()?.into_values().next();
            let acceptance =
                Acceptance { works: Vec::new(), done_at, level: ProofLevel::NotProven };
            TaskFact::Accepted { run: None, acceptance }
        } else {
            TaskFact::Rejected { run: None, rejection: objection(&answer, &[]) }
        };
        self.settle(task, &fact)?;
        // After acting on it: an answer that was taken before a crash would be lost.
        self.session.questions().take_answer(task)?;
        Ok(Turn::Progress)
    }

    /// Judges undecided work once more. A person may have fixed the obstacle.
    fn judge_again(&mut self, task: &str, works: &[Work]) -> Result<Turn<BuildEnd>, WorkflowError> {
        self.project.enter(self.session, task)?;
        let Some(before) = BEFORE.load(&self.session.context.state, task)? else {
            // The base is no longer known, so the work cannot be judged: it starts over.
            let reason = "the work can no longer be judged".to_owned();
            let reasons = vec![ReasonText::new("cannot_be_judged", &reason)];
            return self.reject(task, None, Rejection::plain(reason), reasons);
        };
        let claim = self.markers(task)?.record.claim;
        let stuck = match &claim {
            TaskClaim::Undecided { question, .. } if is_stuck_question(question) => Some(question),
            _ => None,
        };
        let kind = if stuck.is_some() { QuestionKind::Retry } else { QuestionKind::Accept };
        let answer = self.answer(task, kind)?;
        if let (None, Some(question)) = (&answer, stuck) {
            // Judged again it would only be refused again, and so on for ever.
            return self.ask_person(task, question.clone(), kind, None);
        }
        let turn = match &answer {
            Some(answer) if stuck.is_some() && is_no(answer) => {
                Turn::Stop(Stop::Declined { item: task.to_owned() })
            }
            Some(answer) if !is_yes(answer) => {
                self.tell_persons_verdict(task, VerdictKind::Rejected, answer)?;
                let rejection = objection(answer, works);
                self.settle(task, &TaskFact::Rejected { run: None, rejection })?;
                if stuck.is_some() {
                    self.project.go_on_from_tips(self.session, task)?;
                }
                Turn::Progress
            }
            answer => {
                let person = if answer.is_some() { Person::Agrees } else { Person::NotAsked };
                let examined = self.examine(task, &before, works.to_vec())?;
                self.conclude_claim(task, &before, examined, person, None)?
            }
        };
        if answer.is_none() && !matches!(turn, Turn::Stop(_) | Turn::Trouble(_)) {
            // It was decided without an answer, so the question is withdrawn.
            let text = "it could be judged after all";
            let settled = self.session.questions().answer(Some(task), text, AnswerOrigin::Harness);
            if let Err(AnswerError::Path(error)) = settled {
                return Err(error.into());
            }
        }
        if !matches!(turn, Turn::Trouble(_)) {
            self.session.questions().take_answer(task)?;
        }
        Ok(turn)
    }

    /// Asks whether a task that was rejected too often is to be tried again.
    fn decide_retry(
        &mut self,
        task: &str,
        question: String,
    ) -> Result<Turn<BuildEnd>, WorkflowError> {
        let Some(answer) = self.answer(task, QuestionKind::Retry)? else {
            return self.ask_person(task, question, QuestionKind::Retry, None);
        };
        if is_no(&answer) {
            self.session.questions().take_answer(task)?;
            return Ok(Turn::Stop(Stop::Declined { item: task.to_owned() }));
        }
        let advice =
            (!is_yes(&answer)).then(|| format!("A person looked at it and says: {answer}"));
        self.settle(task, &TaskFact::Retried { advice })?;
        equal_claims::forget(&self.session.context.state, task)?;
        self.session.questions().take_answer(task)?;
        Ok(Turn::Again)
    }

    /// Has a task tried again that was rejected too often, on a person's word.
    pub(super) fn retry_if_exhausted(&mut self, task: &str) -> Result<(), WorkflowError> {
        if matches!(self.state_of(task)?, TaskState::Exhausted { .. }) {
            self.settle(task, &TaskFact::Retried { advice: None })?;
            equal_claims::forget(&self.session.context.state, task)?;
            self.session.questions().withdraw(task)?;
        }
        Ok(())
    }

    /// Tells whether a verifier is to be asked about work before a person is.
    pub(super) fn is_review_wanted(
        &self,
        task: &str,
        works: &[Work],
    ) -> Result<bool, WorkflowError> {
        let is_answered = self.session.journal.board().answered(task).is_some();
        Ok(!is_answered && review::is_wanted(&self.session.context.state, task, works)?)
    }

    /// Has a verifier answer what the judge cannot settle about work on a task.
    pub(super) fn ask_for_review(
        &mut self,
        plan: &Plan<'_>,
        task: &str,
    ) -> Result<WorkflowStep<BuildEnd>, WorkflowError> {
        let pinned = self.pin(task)?;
        self.project.enter(self.session, task)?;
        *super::channel::locked(&self.probe) = None;
        let source = self.source(plan)?;
        let tasks = super::stages::json(&plan.task_view(task));
        let before = BEFORE.load(&self.session.context.state, task)?;
        let base = before.map(|before| before.base()).unwrap_or_default();
        // Trouble of this run is counted apart from the task's own.
        self.round.item = Some(format!("{task}{REVIEW}"));
        let (source, base, pinned) = (&source, &base, &pinned);
        let request =
            ReviewRequest { workflow: WORKFLOW, item: task, source, tasks: &tasks, base, pinned };
        if let Some(mut run) = review::task(self.session, self.project, &request)? {
            run.wanted = self.project.wanted(task, &[PLAN_FILE], wish_of);
            return self.start(run);
        }
        Ok(review::missing_work())
    }

    pub(super) fn conclude_review(
        &mut self,
        task: &str,
        result: &RunResult,
    ) -> Result<Turn<BuildEnd>, WorkflowError> {
        review::keep(&self.session.context.state, task, result)?;
        self.commit_plan()?;
        Ok(Turn::Progress)
    }

    /// Asks a verifier what it thinks of the claim that nothing has to change.
    pub(super) fn ask_for_opinion(
        &mut self,
        plan: &Plan<'_>,
        task: &str,
        reason: &str,
    ) -> Result<WorkflowStep<BuildEnd>, WorkflowError> {
        let tasks = super::stages::json(&plan.task_view(task));
        let feedback = format!(
            "The builder of {task} says that nothing has to change ({reason}). Do not accept or reject it: check whether that is true, and say in your last message what you think and why. A person decides."
        );
        let item = format!("{task}{OPINION}");
        // Trouble of this run is counted apart from the task's own.
        self.round.item = Some(item.clone());
        self.verify_with(plan, &item, Vec::new(), &tasks, Some(&feedback))
    }

    pub(super) fn conclude_opinion(
        &mut self,
        task: &str,
        result: &RunResult,
    ) -> Result<Turn<BuildEnd>, WorkflowError> {
        if matches!(self.state_of(task)?, TaskState::NoChange { .. }) {
            let said = result.final_message.as_deref().unwrap_or("it gave none");
            let opinion = said.trim().to_owned();
            self.settle(task, &TaskFact::OpinionGiven { opinion })?;
        }
        self.commit_plan()?;
        Ok(Turn::Progress)
    }

    pub(super) fn ask_person(
        &mut self,
        task: &str,
        question: String,
        asked: QuestionKind,
        commit: Option<&str>,
    ) -> Result<Turn<BuildEnd>, WorkflowError> {
        self.session.questions().ask(task, &question, asked, commit)?;
        self.commit_plan()?;
        let (task_id, text) = (Some(task.to_owned()), question.clone());
        self.tell(PersonNeeded { spec: None, task: task_id, question: text })?;
        Ok(Turn::Stop(Stop::Waiting { item: task.to_owned(), question, asked }))
    }
}

/// What a person objects to, as a rejection of the work.
fn objection(answer: &str, works: &[Work]) -> Rejection {
    let commit = works.first().map(|work| work.commit.clone());
    Rejection { commit, ..Rejection::plain(format!("A person looked at it and says: {answer}")) }
}

/// Ends a text as a sentence, on one line.
fn end_sentence(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.ends_with(['.', '!', '?']) { line } else { format!("{line}.") }
}
