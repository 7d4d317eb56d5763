//! Questions to the person: those without an answer, and answers that their workflow has not consumed.
//!
//! An item has one question at a time: a new one replaces the old one, answered or not, because the work that the old
//! one was about has continued since. Of several answers the last one counts: a person can correct theirs until the workflow
//! has continued.

use jiff::Timestamp;

use serde::{Deserialize, Serialize};

use crate::id::RunId;
use crate::journal::{JournalEntry, JournalEvent, QuestionKind};

/// A question to the person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    pub id: String,
    pub item: String,
    pub text: String,
    pub asked_at: Timestamp,
    /// The run that caused it.
    pub run: Option<RunId>,
    pub kind: Option<QuestionKind>,
    pub choices: Vec<String>,
    /// The commit that it is about, if there is one.
    pub commit: Option<String>,
    pub answer: Option<String>,
}

/// The questions in the journal that are not settled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct QuestionLog {
    asked: u64,
    unsettled: Vec<Question>,
}

impl QuestionLog {
    pub(super) fn apply(&mut self, entry: &JournalEntry) {
        match &entry.event {
            JournalEvent::QuestionAsked(asked) => {
                self.asked += 1;
                self.unsettled.retain(|known| known.item != asked.item && known.id != asked.id);
                self.unsettled.push(Question {
                    id: asked.id.clone(),
                    item: asked.item.clone(),
                    text: asked.question.clone(),
                    asked_at: entry.at,
                    run: entry.run.clone(),
                    kind: asked.kind,
                    choices: asked.choices.clone(),
                    commit: asked.commit.clone(),
                    answer: None,
                });
            }
            JournalEvent::QuestionAnswered(answered) => {
                let mut known = self.unsettled.iter_mut();
                if let Some(question) = known.find(|question| question.id == answered.id) {
                    question.answer = Some(answered.answer.clone());
                }
            }
            JournalEvent::AnswerTaken(taken) => {
                self.unsettled.retain(|question| question.id != taken.id);
            }
            _ => {}
        }
    }

    /// The total number of questions asked.
    pub(super) const fn asked(&self) -> u64 {
        self.asked
    }

    /// All unsettled questions, oldest first.
    pub(super) fn unsettled(&self) -> &[Question] {
        &self.unsettled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::Board;
    use crate::journal::samples::{entry, of_run, run_id, time};
    use crate::journal::{AnswerTaken, QuestionAnswered, QuestionAsked};

    fn asked(id: &str, item: &str) -> JournalEvent {
        let question = format!("What of {item}?");
        let (id, item) = (id.to_owned(), item.to_owned());
        let (kind, choices, commit) = (None, Vec::new(), None);
        QuestionAsked { id, item, question, kind, choices, commit }.into()
    }

    fn answered(id: &str, answer: &str) -> JournalEvent {
        QuestionAnswered { id: id.to_owned(), answer: answer.to_owned(), by: None }.into()
    }

    fn taken(id: &str) -> JournalEvent {
        AnswerTaken { id: id.to_owned() }.into()
    }

    fn fold(events: &[JournalEvent]) -> Board {
        let mut board = Board::default();
        for event in events {
            board.apply(&of_run(1, 5, event.clone()));
        }
        board
    }

    fn open(board: &Board) -> Vec<&str> {
        board.open_questions().map(|question| question.id.as_str()).collect()
    }

    #[test]
    fn a_question_is_open_until_it_is_answered_and_its_answer_waits_until_it_is_taken() {
        let story = [asked("q1", "a"), asked("q2", "b"), answered("q1", "yes"), taken("q1")];
        let open_after = |steps: usize| {
            let board = fold(&story[..steps]);
            (open(&board).join(" "), board.answered("a").map(|found| found.id.clone()))
        };
        assert_eq!(open_after(0), (String::new(), None));
        assert_eq!(open_after(1), ("q1".to_owned(), None));
        assert_eq!(open_after(2), ("q1 q2".to_owned(), None));
        assert_eq!(open_after(3), ("q2".to_owned(), Some("q1".to_owned())));
        assert_eq!(open_after(4), ("q2".to_owned(), None));
    }

    #[test]
    fn an_open_question_tells_all_that_is_known() {
        let board = fold(&[asked("q1", "a")]);
        let expected = Question {
            id: "q1".to_owned(),
            item: "a".to_owned(),
            text: "What of a?".to_owned(),
            asked_at: time(5),
            run: Some(run_id(1)),
            kind: None,
            choices: Vec::new(),
            commit: None,
            answer: None,
        };
        assert_eq!(board.open_questions().collect::<Vec<_>>(), [&expected]);
    }

    #[test]
    fn a_new_question_takes_the_place_of_the_items_old_one() {
        let board = fold(&[asked("q1", "a"), answered("q1", "yes"), asked("q2", "a")]);
        assert_eq!(open(&board), ["q2"]);
        assert_eq!(board.answered("a"), None);
        assert_eq!(board.questions_asked(), 2);
    }

    #[test]
    fn the_last_answer_counts_and_answers_to_nothing_are_passed_over() {
        let board = fold(&[
            answered("q9", "?"),
            asked("q1", "a"),
            answered("q1", "yes"),
            answered("q1", "no"),
        ]);
        assert_eq!(board.answered("a").unwrap().answer.as_deref(), Some("no"));
        let mut empty = Board::default();
        empty.apply(&entry(0, taken("q1")));
        assert_eq!(empty.open_questions().count(), 0);
    }
}
