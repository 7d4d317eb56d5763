//! Questions that only a person can settle: asked by a workflow, answered by `ralph answer`, taken up by the workflow.
//!
//! The journal is where they are kept, so they survive as it does and a view that follows along knows them too. Every
//! step is on disk before the call returns and before the overview knows of it.

use ralph_model::id::RunId;
use ralph_model::journal::{
    AnswerTaken, JournalEntry, JournalEvent, Overview, Question, QuestionAnswered, QuestionAsked,
};

use crate::clock::Clock;
use crate::files::PathError;
use crate::journal::Journal;

/// The questions of one workspace.
pub struct Questions<'a> {
    pub journal: &'a mut Journal,
    /// What the journal adds up to; kept in step.
    pub overview: &'a mut Overview,
    pub clock: &'a dyn Clock,
}

/// An answer has no question to go to.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    #[error("no question waits for an answer")]
    NoneOpen,
    #[error("no question of `{item}` waits for an answer")]
    NotOpen { item: String, open: Vec<Question> },
    #[error("several questions wait for an answer")]
    Several { open: Vec<Question> },
    #[error(transparent)]
    Path(#[from] PathError),
}

impl Questions<'_> {
    /// Asks the person on behalf of an item. Asking the same again changes nothing; another question replaces the old one.
    pub fn ask(
        &mut self,
        item: &str,
        question: &str,
        run: Option<&RunId>,
    ) -> Result<Question, PathError> {
        if let Some(open) = self.open_of(item).filter(|open| open.text == question) {
            return Ok(open);
        }
        let id = format!("q{}", self.overview.questions_asked() + 1);
        let (item, question) = (item.to_owned(), question.to_owned());
        let asked = QuestionAsked { id, item: item.clone(), question };
        self.record(run, JournalEvent::QuestionAsked(asked))?;
        Ok(self.open_of(&item).expect("what was just asked is open"))
    }

    /// Asks, unless an answer to an item's question waits for its workflow.
    pub fn ask_unless_answered(&mut self, item: &str, question: &str) -> Result<(), PathError> {
        if self.overview.answered(item).is_none() {
            self.ask(item, question, None)?;
        }
        Ok(())
    }

    /// Answers the open question of an item, by its name or the question's id, or the only one that is open.
    pub fn answer(&mut self, item: Option<&str>, text: &str) -> Result<Question, AnswerError> {
        let mut open: Vec<Question> = self.overview.open_questions().cloned().collect();
        let place = match item {
            _ if open.is_empty() => return Err(AnswerError::NoneOpen),
            None if open.len() > 1 => return Err(AnswerError::Several { open }),
            None => 0,
            Some(item) => {
                match open.iter().position(|found| found.item == item || found.id == item) {
                    Some(place) => place,
                    None => return Err(AnswerError::NotOpen { item: item.to_owned(), open }),
                }
            }
        };
        let mut question = open.swap_remove(place);
        let (id, answer) = (question.id.clone(), text.to_owned());
        self.record(None, JournalEvent::QuestionAnswered(QuestionAnswered { id, answer }))?;
        question.answer = Some(text.to_owned());
        Ok(question)
    }

    /// Takes the answer to an item's question, once: the question is settled with it.
    pub(crate) fn take_answer(&mut self, item: &str) -> Result<Option<Question>, PathError> {
        let Some(question) = self.overview.answered(item).cloned() else { return Ok(None) };
        let id = question.id.clone();
        self.record(None, JournalEvent::AnswerTaken(AnswerTaken { id }))?;
        Ok(Some(question))
    }

    /// Withdraws an item's question, answered or not: what it was about is settled otherwise.
    pub fn withdraw(&mut self, item: &str) -> Result<(), PathError> {
        let open = self.open_of(item).or_else(|| self.overview.answered(item).cloned());
        let Some(question) = open else { return Ok(()) };
        self.record(None, JournalEvent::AnswerTaken(AnswerTaken { id: question.id }))
    }

    fn open_of(&self, item: &str) -> Option<Question> {
        self.overview.open_questions().find(|open| open.item == item).cloned()
    }

    fn record(&mut self, run: Option<&RunId>, event: JournalEvent) -> Result<(), PathError> {
        let entry = JournalEntry { at: self.clock.now(), run: run.cloned(), event };
        self.journal.record(&entry)?;
        self.overview.apply(&entry);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use camino::Utf8PathBuf;
    use ralph_model::journal::parse_line;

    use super::*;
    use crate::clock::SystemClock;
    use crate::journal::for_each_line;
    use crate::test_place::Place;

    /// Each step is done by a Ralph that has just started and knows what the journal tells.
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
            let mut overview = self.read();
            let mut journal = Journal::open(&self.path()).unwrap();
            let done = step(&mut Questions {
                journal: &mut journal,
                overview: &mut overview,
                clock: &SystemClock,
            });
            assert_eq!(overview, self.read());
            done
        }

        fn read(&self) -> Overview {
            let mut overview = Overview::default();
            for_each_line(&self.path(), |line| {
                parse_line(line.as_bytes()).map(|entry| overview.apply(&entry))
            })
            .unwrap();
            overview
        }
    }

    #[test]
    fn a_question_survives_restarts_until_its_answer_is_taken() {
        let night = Night::new();
        let run: RunId = "20261115-203000Z-00000001".parse().unwrap();
        let asked = night.start(|questions| {
            questions.ask("0001-a", "Is nothing to be done?", Some(&run)).unwrap()
        });
        assert_eq!((asked.id.as_str(), asked.run), ("q1", Some(run)));
        assert_eq!(night.start(|questions| questions.take_answer("0001-a").unwrap()), None);
        let answered = night.start(|questions| questions.answer(None, "Right.").unwrap());
        assert_eq!(answered.item, "0001-a");
        let taken = night.start(|questions| questions.take_answer("0001-a").unwrap()).unwrap();
        assert_eq!(taken.answer.as_deref(), Some("Right."));
        assert_eq!(night.start(|questions| questions.take_answer("0001-a").unwrap()), None);
        let error = night.start(|questions| questions.answer(None, "again").unwrap_err());
        assert!(matches!(error, AnswerError::NoneOpen));
    }

    #[test]
    fn several_open_questions_need_a_name() {
        let night = Night::new();
        for item in ["a", "b"] {
            night.start(|questions| questions.ask(item, "?", None).unwrap());
        }
        let error = night.start(|questions| questions.answer(None, "x").unwrap_err());
        assert!(matches!(error, AnswerError::Several { open } if open.len() == 2));
        let error = night.start(|questions| questions.answer(Some("c"), "x").unwrap_err());
        assert!(matches!(error, AnswerError::NotOpen { open, .. } if open.len() == 2));
        let by_id = night.start(|questions| questions.answer(Some("q2"), "x").unwrap());
        assert_eq!(by_id.item, "b");
        assert_eq!(night.start(|questions| questions.answer(None, "y").unwrap()).item, "a");
    }

    #[test]
    fn a_question_that_is_settled_otherwise_is_withdrawn() {
        let night = Night::new();
        for answered in [false, true] {
            night.start(|questions| questions.ask("a", "?", None).unwrap());
            if answered {
                night.start(|questions| questions.answer(None, "yes").unwrap());
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
        let first = night.start(|questions| questions.ask("a", "?", None).unwrap());
        assert_eq!(night.start(|questions| questions.ask("a", "?", None).unwrap()), first);
        let other = night.start(|questions| questions.ask("a", "But?", None).unwrap());
        assert_eq!(other.id, "q2");
        assert_eq!(night.read().open_questions().count(), 1);
    }
}
