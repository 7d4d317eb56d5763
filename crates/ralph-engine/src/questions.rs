//! Questions that only a person can settle: asked by a workflow, answered by `ralph answer`, consumed by the workflow.
//!
//! They are stored in the journal, so they survive like it, and a live view knows them too. Every step is on disk
//! before the call returns and before the board is updated.

use ralph_model::board::Question;
use ralph_model::item_name::meant;
use ralph_model::journal::{
    AnswerOrigin, AnswerTaken, JournalEvent, QuestionAnswered, QuestionAsked, QuestionKind,
};

use crate::clock::Clock;
use crate::files::PathError;
use crate::journal::Journal;

/// The questions of one workspace.
pub struct Questions<'a> {
    pub journal: &'a mut Journal,
    pub clock: &'a dyn Clock,
}

/// An answer without a matching question.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    #[error("no open question")]
    NoneOpen,
    #[error("`{item}` has no open question")]
    NotOpen { item: String, open: Vec<Question> },
    #[error("no answer to `{item}` given")]
    NoText { item: String, open: Vec<Question> },
    #[error("`{item}` matches several open questions")]
    Ambiguous { item: String, open: Vec<Question> },
    #[error("several questions are open")]
    Several { open: Vec<Question> },
    #[error(transparent)]
    Path(#[from] PathError),
}

/// Returns the places of the questions that a name stands for: a question's id, with or without its `q`, or an item.
fn asked_by(open: &[Question], name: &str) -> Vec<usize> {
    if let Some(place) = open.iter().position(|found| found.id == name) {
        return vec![place];
    }
    let items: Vec<&str> = open.iter().map(|found| found.item.as_str()).collect();
    let mut places = meant(&items, name);
    let numbered = format!("q{name}");
    places.extend(open.iter().position(|found| found.id == numbered));
    places.dedup();
    places
}

impl Questions<'_> {
    /// Asks the person on behalf of an item. Asking the same again changes nothing; a different question replaces the
    /// old one.
    pub fn ask(
        &mut self,
        item: &str,
        question: &str,
        kind: QuestionKind,
        commit: Option<&str>,
    ) -> Result<Question, PathError> {
        if let Some(open) = self.open_of(item).filter(|open| open.text == question) {
            return Ok(open);
        }
        let id = format!("q{}", self.journal.board().questions_asked() + 1);
        let (item, question) = (item.to_owned(), question.to_owned());
        let (choices, commit) = (kind.choices(), commit.map(str::to_owned));
        let asked =
            QuestionAsked { id, item: item.clone(), question, kind: Some(kind), choices, commit };
        self.record(asked)?;
        Ok(self.open_of(&item).expect("what was just asked is open"))
    }

    /// Asks, unless the item's question already has an answer that its workflow has not consumed.
    pub fn ask_unless_answered(&mut self, item: &str, question: &str) -> Result<(), PathError> {
        if self.journal.board().answered(item).is_none() {
            self.ask(item, question, QuestionKind::Accept, None)?;
        }
        Ok(())
    }

    /// Answers the open question of an item, by its name or the question's id, or the only open one.
    pub fn answer(
        &mut self,
        item: Option<&str>,
        text: &str,
        by: AnswerOrigin,
    ) -> Result<Question, AnswerError> {
        let mut open: Vec<Question> = self.journal.board().open_questions().cloned().collect();
        let place = match item {
            _ if open.is_empty() => return Err(AnswerError::NoneOpen),
            None if open.len() > 1 => return Err(AnswerError::Several { open }),
            // The name of the item alone is not an answer to its question.
            None if open[0].item == text || open[0].id == text => {
                return Err(AnswerError::NoText { item: text.to_owned(), open });
            }
            None => 0,
            Some(item) => match asked_by(&open, item)[..] {
                [place] => place,
                [] => return Err(AnswerError::NotOpen { item: item.to_owned(), open }),
                _ => return Err(AnswerError::Ambiguous { item: item.to_owned(), open }),
            },
        };
        let mut question = open.swap_remove(place);
        let (id, answer) = (question.id.clone(), text.to_owned());
        self.record(QuestionAnswered { id, answer, by: Some(by) })?;
        question.answer = Some(text.to_owned());
        Ok(question)
    }

    /// Returns the answer to an item's question of a kind. An answer to a question of another kind was acted on just
    /// before Ralph died, and must not decide this one: it is consumed.
    pub(crate) fn answer_to(
        &mut self,
        item: &str,
        kind: QuestionKind,
    ) -> Result<Option<String>, PathError> {
        let Some(answered) = self.journal.board().answered(item).cloned() else { return Ok(None) };
        if answered.kind.is_some_and(|asked| asked != kind) {
            self.take_answer(item)?;
            return Ok(None);
        }
        Ok(answered.answer)
    }

    /// Consumes the answer to an item's question, which settles the question.
    pub(crate) fn take_answer(&mut self, item: &str) -> Result<Option<Question>, PathError> {
        let Some(question) = self.journal.board().answered(item).cloned() else { return Ok(None) };
        let id = question.id.clone();
        self.record(AnswerTaken { id })?;
        Ok(Some(question))
    }

    /// Withdraws an item's question, answered or not, because it was settled otherwise.
    pub fn withdraw(&mut self, item: &str) -> Result<(), PathError> {
        let open = self.open_of(item).or_else(|| self.journal.board().answered(item).cloned());
        let Some(question) = open else { return Ok(()) };
        self.record(AnswerTaken { id: question.id })
    }

    fn open_of(&self, item: &str) -> Option<Question> {
        self.journal.board().open_questions().find(|open| open.item == item).cloned()
    }

    fn record(&mut self, event: impl Into<JournalEvent>) -> Result<(), PathError> {
        self.journal.record(self.clock.now(), None, event)
    }
}

#[cfg(test)]
mod tests {
    use camino::Utf8PathBuf;
    use ralph_model::board::Board;

    use super::*;
    use crate::clock::SystemClock;
    use crate::journal::load_board;
    use crate::test_place::Place;

    /// Each step is done by a freshly started Ralph that has read the journal.
    struct Night {
        place: Place,
    }

    impl Night {
        fn new() -> Night {
            Night { place: Place::new() }
        }

        fn path(&self) -> Utf8PathBuf {
            self.place.root.join("journal.jsonl")
        }

        fn start<T>(&self, step: impl FnOnce(&mut Questions<'_>) -> T) -> T {
            let mut journal = Journal::open(&self.path()).unwrap();
            journal.fold().unwrap();
            let done = step(&mut Questions { journal: &mut journal, clock: &SystemClock });
            assert_eq!(*journal.board(), self.read());
            done
        }

        fn read(&self) -> Board {
            load_board(&self.path()).unwrap()
        }

        fn ask(&self, item: &str, question: &str) -> Question {
            self.start(|questions| {
                questions.ask(item, question, QuestionKind::Retry, Some("c0ffee")).unwrap()
            })
        }

        fn answer(&self, item: Option<&str>, text: &str) -> Result<Question, AnswerError> {
            self.start(|questions| questions.answer(item, text, AnswerOrigin::Cli))
        }
    }

    #[test]
    fn a_question_survives_restarts_until_its_answer_is_taken() {
        let night = Night::new();
        let asked = night.ask("0001-a", "Is nothing to be done?");
        assert_eq!((asked.id.as_str(), asked.kind), ("q1", Some(QuestionKind::Retry)));
        assert_eq!(
            (asked.choices, asked.commit.as_deref()),
            (vec!["yes".to_owned(), "no".to_owned()], Some("c0ffee"))
        );
        assert_eq!(night.start(|questions| questions.take_answer("0001-a").unwrap()), None);
        let answered = night.answer(None, "Right.").unwrap();
        assert_eq!(answered.item, "0001-a");
        let taken = night.start(|questions| questions.take_answer("0001-a").unwrap()).unwrap();
        assert_eq!(taken.answer.as_deref(), Some("Right."));
        assert_eq!(night.start(|questions| questions.take_answer("0001-a").unwrap()), None);
        let error = night.answer(None, "again").unwrap_err();
        assert!(matches!(error, AnswerError::NoneOpen));
    }

    /// An answer that was acted on but not consumed still exists when the next question is of another kind.
    #[test]
    fn an_answer_decides_no_question_of_another_kind() {
        let night = Night::new();
        night.ask("a", "Try it again?");
        night.answer(None, "yes").unwrap();
        let to = |kind| night.start(|questions| questions.answer_to("a", kind).unwrap());
        assert_eq!(to(QuestionKind::Retry).as_deref(), Some("yes"));
        assert_eq!(to(QuestionKind::Accept), None);
        assert_eq!(to(QuestionKind::Retry), None, "it is taken");
    }

    #[test]
    fn several_open_questions_need_a_name() {
        let night = Night::new();
        for item in ["a", "b"] {
            night.ask(item, "?");
        }
        let error = night.answer(None, "x").unwrap_err();
        assert!(matches!(error, AnswerError::Several { open } if open.len() == 2));
        let error = night.answer(Some("c"), "x").unwrap_err();
        assert!(matches!(error, AnswerError::NotOpen { open, .. } if open.len() == 2));
        let by_id = night.answer(Some("q2"), "x").unwrap();
        assert_eq!(by_id.item, "b");
        assert_eq!(night.answer(None, "y").unwrap().item, "a");
    }

    #[test]
    fn a_question_that_is_settled_otherwise_is_withdrawn() {
        let night = Night::new();
        for answered in [false, true] {
            night.ask("a", "?");
            if answered {
                night.answer(None, "yes").unwrap();
            }
            night.start(|questions| questions.withdraw("a").unwrap());
            assert_eq!(night.read().open_questions().count(), 0);
            assert_eq!(night.start(|questions| questions.take_answer("a").unwrap()), None);
        }
        night.start(|questions| questions.withdraw("a").unwrap());
    }

    #[test]
    fn asking_the_same_again_after_a_crash_asks_once() {
        let night = Night::new();
        let first = night.ask("a", "?");
        assert_eq!(night.ask("a", "?"), first);
        let other = night.ask("a", "But?");
        assert_eq!(other.id, "q2");
        assert_eq!(night.read().open_questions().count(), 1);
    }

    #[test]
    fn a_question_is_found_by_what_a_person_would_type() {
        let night = Night::new();
        for item in ["0005-greet", "ralph/dark/US-001", "ralph/dark/US-002"] {
            night.ask(item, "Try it again?");
        }
        let refused = |name: &str| night.answer(Some(name), "x").unwrap_err().to_string();
        assert_eq!(refused("US-00"), "`US-00` matches several open questions");
        assert_eq!(refused("9"), "`9` has no open question");
        for (name, item) in [("us-002", 2), ("5", 0), ("2", 1)] {
            let items = ["0005-greet", "ralph/dark/US-001", "ralph/dark/US-002"];
            assert_eq!(night.answer(Some(name), "yes").unwrap().item, items[item], "{name}");
        }
    }
}
