//! Questions that only a person can settle: asked by a workflow, answered by `ralph answer`, consumed by the workflow.
//!
//! They are stored in the journal, so they survive like it, and a live view knows them too. Every step is on disk
//! before the call returns and before the board is updated.

use ralph_model::answer::{TakenAs, taken_as};
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
    #[error("`{text}` begins like a yes but is not one")]
    Unclear { text: String, question: Box<Question> },
    #[error(transparent)]
    Path(#[from] PathError),
}

/// An answer that was recorded.
#[derive(Debug)]
pub struct RecordedAnswer {
    pub question: Question,
    pub taken_as: TakenAs,
    /// The answer that it replaces.
    pub instead_of: Option<String>,
}

/// Returns the places of the questions that a name stands for: a question's id, an item, or an id without its `q`.
fn asked_by(open: &[Question], name: &str) -> Vec<usize> {
    if let Some(place) = open.iter().position(|found| found.id == name) {
        return vec![place];
    }
    let items: Vec<&str> = open.iter().map(|found| found.item.as_str()).collect();
    let places = meant(&items, name);
    if !places.is_empty() {
        return places;
    }
    let numbered = format!("q{name}");
    open.iter().position(|found| found.id == numbered).into_iter().collect()
}

/// Finds the question that is meant among some.
fn find(among: &[Question], item: Option<&str>, text: &str) -> Result<Question, AnswerError> {
    let open = || among.to_vec();
    let place = match item {
        _ if among.is_empty() => return Err(AnswerError::NoneOpen),
        None if among.len() > 1 => return Err(AnswerError::Several { open: open() }),
        // The name of the item alone is not an answer to its question.
        None if among[0].item == text || among[0].id == text => {
            return Err(AnswerError::NoText { item: text.to_owned(), open: open() });
        }
        None => 0,
        Some(item) => match asked_by(among, item)[..] {
            [place] => place,
            [] => return Err(AnswerError::NotOpen { item: item.to_owned(), open: open() }),
            _ => return Err(AnswerError::Ambiguous { item: item.to_owned(), open: open() }),
        },
    };
    Ok(among[place].clone())
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

    /// Answers the question of an item, by its name or the question's id, or the only open one. Until its workflow has
    /// consumed it, a person's answer can be replaced by another.
    pub fn answer(
        &mut self,
        item: Option<&str>,
        text: &str,
        by: AnswerOrigin,
    ) -> Result<RecordedAnswer, AnswerError> {
        let board = self.journal.board();
        let open: Vec<Question> = board.open_questions().cloned().collect();
        let answered: Vec<Question> = match by {
            AnswerOrigin::Harness => Vec::new(),
            _ => board.answered_questions().cloned().collect(),
        };
        let mut question = match find(&open, item, text) {
            Err(AnswerError::NoneOpen | AnswerError::NotOpen { .. }) if !answered.is_empty() => {
                match find(&answered, item, text) {
                    Err(AnswerError::NotOpen { .. }) => find(&open, item, text),
                    found => found,
                }
            }
            found => found,
        }?;
        let taken_as = taken_as(question.kind.unwrap_or(QuestionKind::Other), text);
        if taken_as == TakenAs::Unclear {
            return Err(AnswerError::Unclear { text: text.to_owned(), question: question.into() });
        }
        let (id, answer) = (question.id.clone(), text.to_owned());
        self.record(QuestionAnswered { id, answer, by: Some(by) })?;
        let instead_of = question.answer.replace(text.to_owned());
        Ok(RecordedAnswer { question, taken_as, instead_of })
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
            self.start(|questions| {
                questions.answer(item, text, AnswerOrigin::Cli).map(|recorded| recorded.question)
            })
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
    fn an_answer_is_replaced_until_it_is_taken_and_what_begins_like_a_yes_replaces_nothing() {
        let night = Night::new();
        night.ask("a", "Try it again?");
        night.answer(None, "yes").unwrap();
        let error = night.answer(Some("a"), "yes please").unwrap_err();
        assert!(matches!(error, AnswerError::Unclear { question, .. } if question.item == "a"));
        let again = |item, text| {
            night.start(|questions| questions.answer(item, text, AnswerOrigin::Cli).unwrap())
        };
        let second = again(Some("a"), "no");
        assert_eq!((second.taken_as, second.instead_of.as_deref()), (TakenAs::No, Some("yes")));
        let third = again(None, "use the table");
        let told = (third.taken_as, third.instead_of.as_deref());
        assert_eq!(told, (TakenAs::Text, Some("no")));
        // What is open comes first, and the harness replaces nothing that a person said.
        night.ask("b", "?");
        assert_eq!(night.answer(None, "stop").unwrap().item, "b");
        let by_harness = |questions: &mut Questions<'_>| {
            questions.answer(Some("a"), "settled", AnswerOrigin::Harness).map(|_| ())
        };
        assert!(matches!(night.start(by_harness), Err(AnswerError::NoneOpen)));
        assert!(matches!(night.answer(None, "x"), Err(AnswerError::Several { .. })));
        let taken = night.start(|questions| questions.take_answer("a").unwrap()).unwrap();
        assert_eq!(taken.answer.as_deref(), Some("use the table"));
        let error = night.answer(Some("a"), "no").unwrap_err();
        assert!(matches!(error, AnswerError::NoneOpen), "{error}");
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
        // A number is an item's before it is a question's.
        for item in ["0001-a", "0006-f"] {
            night.ask(item, "Try it again?");
        }
        let fifth_and_sixth = ["0001-a", "0006-f"].map(|item| night.ask(item, "Really?").id);
        assert_eq!(fifth_and_sixth, ["q6", "q7"]);
        assert_eq!(night.answer(Some("6"), "yes").unwrap().item, "0006-f");
    }
}
