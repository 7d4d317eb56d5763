//! Turns events of an interview into writes, in crash-safe order.
//!
//! The state is always written first and is decisive; it contains the transcript's last entry and an approved PRD until
//! these are known to be written, so that [`heal`] can complete them. A fact whose state was not written never
//! happened: its question is asked again, or its run's result is still pending.

use jiff::Timestamp;

use super::state::{
    CHECKS, ExistingPrd, GoalStage, GoalState, GoalStep, OpenQuestion, QuestionAndAnswer,
};
use super::{PlannerEnvelope, transcript};
use crate::id::RunId;
use crate::prd::Prd;

/// Something that happened in an interview.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GoalFact<'a> {
    ExistingChosen(ExistingPrd),
    /// The person named the commands that verify the work.
    ChecksConfirmed {
        question: &'a str,
        answer: &'a str,
    },
    /// The person answered the open question.
    Answered {
        answer: &'a str,
    },
    /// The interviewer ended a turn with this message.
    TurnEnded {
        run: &'a RunId,
        said: &'a str,
    },
    /// A turn was terminated by a limit: it has no valid message.
    TurnCutShort {
        run: &'a RunId,
        why: &'a str,
    },
    Approved,
    /// The person rejects the draft and says what to change.
    ChangesWanted {
        question: &'a str,
        answer: &'a str,
    },
}

/// One atomic write.
#[derive(Clone, Debug, PartialEq)]
pub enum GoalWrite {
    State(Box<GoalState>),
    /// Appended to the transcript.
    Transcript(String),
    Prd(Prd),
}

/// The consequence of a turn of the interviewer.
#[derive(Clone, Debug, PartialEq, Eq)]
enum TurnTaken {
    Asks,
    Drafted,
    /// It has to try again, because of these problems.
    Invalid {
        problems: Vec<String>,
    },
}

/// A fact that cannot happen in this state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an interview in {stage:?} cannot have {fact}")]
pub struct IllegalGoalFact {
    pub stage: GoalStage,
    pub fact: String,
}

/// Returns the writes of a fact, in order. `prd` is the existing PRD, if it has stories.
pub fn settle(
    state: &GoalState,
    fact: &GoalFact<'_>,
    prd: Option<&Prd>,
    at: Timestamp,
) -> Result<Vec<GoalWrite>, IllegalGoalFact> {
    let illegal = || IllegalGoalFact { stage: state.state, fact: format!("{fact:?}") };
    let step = state.next(prd.is_some());
    let mut new = GoalState { updated_at: at, ..state.clone() };
    let entry = match (fact, step) {
        (GoalFact::ExistingChosen(choice), GoalStep::ChooseExisting) => {
            new.existing_prd = Some(*choice);
            let word = match choice {
                ExistingPrd::Update => "update it",
                ExistingPrd::Overwrite => "overwrite it",
            };
            transcript::answer(at, "What should happen to the existing PRD?", word)
        }
        (GoalFact::ChecksConfirmed { question, answer }, GoalStep::ConfirmChecks) => {
            new.state = GoalStage::CollectContext;
            new.learn(CHECKS, question, answer, at);
            transcript::answer(at, question, answer)
        }
        (GoalFact::Answered { answer }, GoalStep::Ask(open)) => {
            let open = open.clone();
            new.open_questions.remove(0);
            new.learn(&open.id, &open.question, answer, at);
            transcript::answer(at, &open.question, answer)
        }
        (GoalFact::TurnEnded { run, said }, GoalStep::Turn) => {
            let taken = new.take_turn(said, prd);
            new.settled_run = Some((*run).clone());
            let problems = match taken {
                TurnTaken::Invalid { problems } => problems,
                TurnTaken::Asks | TurnTaken::Drafted => Vec::new(),
            };
            transcript::turn(at, said, &problems)
        }
        (GoalFact::TurnCutShort { run, why }, GoalStep::Turn) => {
            new.fail_turn(vec![(*why).to_owned()]);
            new.settled_run = Some((*run).clone());
            transcript::turn(at, "", &[(*why).to_owned()])
        }
        (GoalFact::Approved, GoalStep::Review(draft)) => {
            let draft = draft.clone();
            new.state = GoalStage::Done;
            new.approved_prd_at = Some(at);
            let entry = transcript::approval(at, &draft.summary());
            new.unwritten_prd = Some(draft.clone());
            new.last_entry.clone_from(&entry);
            let written = GoalState { unwritten_prd: None, ..new.clone() };
            return Ok(vec![
                GoalWrite::State(Box::new(new)),
                GoalWrite::Prd(draft),
                GoalWrite::Transcript(entry),
                GoalWrite::State(Box::new(written)),
            ]);
        }
        (GoalFact::ChangesWanted { question, answer }, GoalStep::Review(draft)) => {
            let summary = draft.summary();
            new.state = GoalStage::CollectContext;
            new.turns = 0;
            let id = new.fresh_id();
            new.learn(&id, question, answer, at);
            transcript::refusal(at, &summary, question, answer)
        }
        _ => return Err(illegal()),
    };
    new.last_entry.clone_from(&entry);
    Ok(vec![GoalWrite::State(Box::new(new)), GoalWrite::Transcript(entry)])
}

/// Returns the writes that a crash prevented.
pub fn heal(state: &GoalState, transcript: &str) -> Vec<GoalWrite> {
    let mut writes = Vec::new();
    writes.extend(state.unwritten_prd.clone().map(GoalWrite::Prd));
    let entry = &state.last_entry;
    if !entry.is_empty() && !transcript.contains(entry.as_str()) {
        // A truncated entry is completed, not repeated.
        let cuts = (0..entry.len()).rev().filter(|cut| entry.is_char_boundary(*cut));
        let mut cuts = cuts.filter(|cut| transcript.ends_with(&entry[..*cut]));
        let cut = cuts.next().unwrap_or(0);
        writes.push(GoalWrite::Transcript(entry[cut..].to_owned()));
    }
    if state.unwritten_prd.is_some() {
        let written = GoalState { unwritten_prd: None, ..state.clone() };
        writes.push(GoalWrite::State(Box::new(written)));
    }
    writes
}

impl GoalState {
    /// Applies the interviewer's message to the state.
    fn take_turn(&mut self, said: &str, prd: Option<&Prd>) -> TurnTaken {
        let envelope = match PlannerEnvelope::parse(said) {
            Ok(envelope) => envelope,
            Err(error) => return self.fail_turn(vec![error.to_string()]),
        };
        self.uncertainties = envelope.uncertainties;
        self.recommend_understand = envelope.recommend_understand;
        let draft = envelope.prd_draft.map(|draft| {
            let draft = Prd::from_value(&draft).map_err(|error| error.errors)?;
            let errors = draft.draft_errors();
            if errors.is_empty() { Ok(draft) } else { Err(errors) }
        });
        let draft = match draft.transpose() {
            Ok(draft) => draft,
            Err(errors) => {
                self.state = GoalStage::DraftPrd;
                return self.fail_turn(errors);
            }
        };
        let updated = prd.filter(|_| self.existing_prd == Some(ExistingPrd::Update));
        let draft = draft.map(|draft| draft.with_passes_of(updated));
        if draft.is_none() && envelope.questions.is_empty() {
            return self
                .fail_turn(vec!["the answer has neither questions nor a prdDraft".to_owned()]);
        }
        self.invalid_turns = 0;
        self.turns = self.turns.saturating_add(1);
        self.problems.clear();
        let drafted = draft.is_some();
        self.last_prd_draft = draft.or_else(|| self.last_prd_draft.take());
        // A draft with open questions is not reviewed: the answers may change it.
        if envelope.questions.is_empty() && drafted {
            self.state = GoalStage::ReviewPrd;
            self.turns = 0;
            return TurnTaken::Drafted;
        }
        self.state = GoalStage::CollectContext;
        for question in envelope.questions {
            let id = self.fresh_id();
            self.open_questions.push(OpenQuestion { id, question });
        }
        TurnTaken::Asks
    }

    fn fail_turn(&mut self, problems: Vec<String>) -> TurnTaken {
        self.invalid_turns = self.invalid_turns.saturating_add(1);
        self.problems.clone_from(&problems);
        TurnTaken::Invalid { problems }
    }

    fn learn(&mut self, id: &str, question: &str, answer: &str, asked_at: Timestamp) {
        self.qa.push(QuestionAndAnswer {
            id: id.to_owned(),
            question: question.to_owned(),
            answer: answer.to_owned(),
            asked_at,
        });
    }

    /// Returns an unused question id.
    fn fresh_id(&self) -> String {
        let known = self.qa.iter().map(|known| &known.id);
        let known: Vec<&String> =
            known.chain(self.open_questions.iter().map(|open| &open.id)).collect();
        let mut numbers = (1..).map(|number: usize| format!("q{number}"));
        numbers.find(|id| !known.contains(&id)).expect("there is always a next number")
    }
}
