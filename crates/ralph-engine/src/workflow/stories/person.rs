//! What needs a person: the claim that nothing has to change, work that could not be judged, a story that was rejected too
//! often.

use ralph_model::answer::{is_no, is_yes};
use ralph_model::build::{Acceptance, Rejection, Work};
use ralph_model::journal::{
    PersonAnswered, PersonNeeded, QuestionKind, ReasonText, VerdictKind, VerdictReached,
};
use ralph_model::story::{StoryClaim, StoryFact};
use ralph_model::verdict::PersonQuestion;

use super::judging::Arbiter;
use super::{Stories, StoriesEnd};
use crate::workflow::driver::{Stop, Turn};
use crate::workflow::isolation::landing::is_stuck_question;
use crate::workflow::repositories::BEFORE;
use crate::workflow::{WorkflowError, equal_claims};

impl Stories<'_, '_> {
    /// Returns the person's answer to a question about a story, and records that it was heard.
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
        commit: Option<&str>,
    ) -> Result<Turn<StoriesEnd>, WorkflowError> {
        self.session.questions().ask(item, &question, asked, commit)?;
        let (task, text) = (Some(item.to_owned()), question.clone());
        self.tell(PersonNeeded { spec: None, task, question: text })?;
        Ok(Turn::Stop(Stop::Waiting { item: item.to_owned(), question, asked }))
    }

    fn tell_persons_verdict(
        &mut self,
        item: &str,
        verdict: VerdictKind,
        answer: &str,
    ) -> Result<(), WorkflowError> {
        self.tell(VerdictReached {
            item: item.to_owned(),
            verdict,
            by: "person".to_owned(),
            reasons: vec![ReasonText::new("person", answer)],
            ..VerdictReached::default()
        })
    }

    /// Sends a story back with what a person said.
    fn object(&mut self, item: &str, answer: &str, works: &[Work]) -> Result<(), WorkflowError> {
        self.tell_persons_verdict(item, VerdictKind::Rejected, answer)?;
        let commit = works.first().map(|work| work.commit.clone());
        let plain = Rejection::plain(format!("A person looked at it and says: {answer}"));
        let rejection = Rejection { commit, ..plain };
        self.settle(item, &StoryFact::Rejected { run: None, rejection })?;
        Ok(())
    }

    pub(super) fn decide_no_change(
        &mut self,
        item: &str,
        reason: String,
        opinion: String,
    ) -> Result<Turn<StoriesEnd>, WorkflowError> {
        let Some(answer) = self.heard(item, QuestionKind::Accept)? else {
            let question = PersonQuestion::NoChange { reason, opinion: Some(opinion) }.to_string();
            return self.ask_person(item, question, QuestionKind::Accept, None);
        };
        if is_yes(&answer) {
            self.tell_persons_verdict(item, VerdictKind::Accepted, &answer)?;
            let acceptance = Acceptance {
                works: Vec::new(),
                done_at: None,
                level: ralph_model::proof::ProofLevel::NotProven,
            };
            self.settle(item, &StoryFact::Accepted { run: None, acceptance })?;
        } else {
            self.object(item, &answer, &[])?;
        }
        // After acting on it: an answer that was taken before a crash would be lost.
        self.session.questions().take_answer(item)?;
        Ok(Turn::Progress)
    }

    /// Judges undecided work once more. A person may have fixed the obstacle.
    pub(super) fn judge_again(
        &mut self,
        item: &str,
        works: &[Work],
    ) -> Result<Turn<StoriesEnd>, WorkflowError> {
        self.project.enter(self.session, item)?;
        let before = BEFORE.load(&self.session.context.state, item)?;
        let claim = self.markers(item)?.record.claim;
        let stuck = match claim {
            StoryClaim::Undecided { question, .. } if is_stuck_question(&question) => {
                Some(question)
            }
            _ => None,
        };
        let kind = if stuck.is_some() { QuestionKind::Retry } else { QuestionKind::Accept };
        let answer = self.heard(item, kind)?;
        if let (None, Some(question)) = (&answer, &stuck) {
            // Without an answer the landing would only be refused again, after another run of an agent.
            return self.ask_person(item, question.clone(), kind, None);
        }
        let is_stuck = stuck.is_some();
        if is_stuck && answer.as_deref().is_some_and(is_no) {
            return self.decline(item);
        }
        let turn = match (&answer, before) {
            (Some(answer), _) if !is_yes(answer) => {
                self.object(item, answer, works)?;
                if is_stuck {
                    self.project.go_on_from_tips(self.session, item)?;
                }
                Turn::Progress
            }
            (_, None) => {
                // The base is no longer known, so the work cannot be judged: it starts over.
                let why = "the work can no longer be judged".to_owned();
                let reasons = vec![ReasonText::new("cannot_be_judged", &why)];
                self.reject(item, None, Rejection::plain(why), reasons)?
            }
            (answer, Some(before)) => {
                let arbiter = if answer.is_some() { Arbiter::Agrees } else { Arbiter::NotAsked };
                self.judge_works(item, &before, works.to_vec(), arbiter, None)?
            }
        };
        if !matches!(turn, Turn::Trouble(_) | Turn::Stop(_)) {
            self.session.questions().withdraw(item)?;
            self.session.questions().take_answer(item)?;
        }
        Ok(turn)
    }

    /// Leaves a story as it is: the person said no to another try.
    fn decline(&mut self, item: &str) -> Result<Turn<StoriesEnd>, WorkflowError> {
        self.session.questions().take_answer(item)?;
        Ok(Turn::Stop(Stop::Declined { item: item.to_owned() }))
    }

    /// Asks whether a story that was rejected too often is to be tried again.
    pub(super) fn decide_retry(
        &mut self,
        item: &str,
        times: u32,
        last: &str,
    ) -> Result<Turn<StoriesEnd>, WorkflowError> {
        let Some(answer) = self.heard(item, QuestionKind::Retry)? else {
            let last = last.split_whitespace().collect::<Vec<_>>().join(" ");
            let question =
                format!("it was rejected {times} times, the last time: {last} Try it again?");
            return self.ask_person(item, question, QuestionKind::Retry, None);
        };
        if is_no(&answer) {
            return self.decline(item);
        }
        let advice =
            (!is_yes(&answer)).then(|| format!("A person looked at it and says: {answer}"));
        self.settle(item, &StoryFact::Retried { advice })?;
        equal_claims::forget(&self.session.context.state, item)?;
        self.session.questions().take_answer(item)?;
        Ok(Turn::Again)
    }
}
