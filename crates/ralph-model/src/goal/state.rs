//! `plan_state.json`: the state of an interview, and its next step.
//!
//! Unknown fields are preserved by every rewrite. A file of another schema version is refused, never overwritten.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{MOST_RETRIES, MOST_TURNS, Uncertainty, UnderstandAdvice};
use crate::id::RunId;
use crate::prd::{Prd, utf8};

const SCHEMA_VERSION: u32 = 1;

/// The id of the question about verification commands.
pub(super) const CHECKS: &str = "checks";

/// The name of a state of the interview.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GoalStage {
    Preflight,
    CollectContext,
    DraftPrd,
    ReviewPrd,
    Done,
}

/// What to do with an existing PRD.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExistingPrd {
    /// The interviewer sees it, and unchanged stories keep their `passes`.
    Update,
    Overwrite,
}

/// An answered question of the interviewer, or a person's statement on something else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QuestionAndAnswer {
    pub id: String,
    pub question: String,
    pub answer: String,
    pub asked_at: Timestamp,
}

/// An unanswered question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenQuestion {
    pub id: String,
    pub question: String,
}

/// An interview.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GoalState {
    pub(super) schema_version: u32,
    pub state: GoalStage,
    pub(super) root: String,
    pub goal: String,
    pub created_at: Timestamp,
    pub(super) updated_at: Timestamp,
    #[serde(default)]
    pub qa: Vec<QuestionAndAnswer>,
    #[serde(default)]
    pub uncertainties: Vec<Uncertainty>,
    #[serde(default)]
    pub recommend_understand: UnderstandAdvice,
    /// The last draft that matches the schema, with `passes` as set by the harness.
    #[serde(default)]
    pub last_prd_draft: Option<Prd>,
    #[serde(default)]
    pub approved_prd_at: Option<Timestamp>,
    #[serde(default)]
    pub existing_prd: Option<ExistingPrd>,
    /// Whether there was no map before home was scaffolded.
    #[serde(default)]
    pub map_was_missing: bool,
    #[serde(default)]
    pub(super) open_questions: Vec<OpenQuestion>,
    /// The problems of the last turn, for the next one.
    #[serde(default)]
    pub problems: Vec<String>,
    /// Consecutive invalid turns.
    #[serde(default)]
    pub(super) invalid_turns: u32,
    /// Turns since the last review.
    #[serde(default)]
    pub(super) turns: u32,
    /// The last run whose result is recorded.
    #[serde(default)]
    pub settled_run: Option<RunId>,
    /// The last transcript entry; a crash may have prevented writing it.
    #[serde(default)]
    pub(super) last_entry: String,
    /// Approved, but possibly not written yet.
    #[serde(default)]
    pub(super) unwritten_prd: Option<Prd>,
    #[serde(flatten)]
    pub(super) rest: BTreeMap<String, Value>,
}

/// The initial data of an interview.
#[derive(Clone, Debug)]
pub struct GoalBeginning<'a> {
    pub goal: &'a str,
    /// The workspace.
    pub root: &'a str,
    pub map_was_missing: bool,
    pub at: Timestamp,
}

/// The state cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GoalStateError {
    #[error("it is not the state of an interview: {0}")]
    Unreadable(String),
    #[error("it has the schema version {found}; this Ralph knows {SCHEMA_VERSION}")]
    Version { found: u32 },
}

/// The next step of an interview.
#[derive(Clone, Debug, PartialEq)]
pub enum GoalStep<'a> {
    /// Ask what to do with the existing PRD.
    ChooseExisting,
    /// Ask for the commands that verify the work.
    ConfirmChecks,
    Ask(&'a OpenQuestion),
    /// Have the interviewer take a turn.
    Turn,
    /// Ask for the approval of this draft.
    Review(&'a Prd),
    End(GoalEnd),
}

/// How an interview ends by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GoalEnd {
    Approved,
    /// Too many consecutive invalid turns; these are the last problems.
    NotValid {
        problems: Vec<String>,
    },
    /// The interviewer keeps asking and never drafts.
    NoDraft {
        turns: u32,
    },
}

impl GoalState {
    /// Begins an interview.
    pub fn begin(beginning: &GoalBeginning<'_>) -> GoalState {
        GoalState {
            schema_version: SCHEMA_VERSION,
            state: GoalStage::Preflight,
            root: beginning.root.to_owned(),
            goal: beginning.goal.to_owned(),
            created_at: beginning.at,
            updated_at: beginning.at,
            qa: Vec::new(),
            uncertainties: Vec::new(),
            recommend_understand: UnderstandAdvice::default(),
            last_prd_draft: None,
            approved_prd_at: None,
            existing_prd: None,
            map_was_missing: beginning.map_was_missing,
            open_questions: Vec::new(),
            problems: Vec::new(),
            invalid_turns: 0,
            turns: 0,
            settled_run: None,
            last_entry: super::transcript::beginning(beginning),
            unwritten_prd: None,
            rest: BTreeMap::new(),
        }
    }

    /// Reads the file.
    pub fn parse(bytes: impl AsRef<[u8]>) -> Result<GoalState, GoalStateError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Version {
            schema_version: u32,
        }
        let text = utf8(bytes.as_ref()).map_err(GoalStateError::Unreadable)?;
        let unreadable = |error: serde_json::Error| GoalStateError::Unreadable(error.to_string());
        let Version { schema_version } = serde_json::from_str(text).map_err(unreadable)?;
        if schema_version != SCHEMA_VERSION {
            return Err(GoalStateError::Version { found: schema_version });
        }
        serde_json::from_str(text).map_err(unreadable)
    }

    /// Returns the file's text.
    pub fn render(&self) -> String {
        let json = serde_json::to_string_pretty(self).expect("an interview is plain data");
        format!("{json}\n")
    }

    /// Resets the turn counts of an interviewer that failed too often: the person allows another try.
    #[must_use]
    pub fn renewed(mut self) -> GoalState {
        (self.invalid_turns, self.turns) = (0, 0);
        self
    }

    /// Whether this interview has the same goal.
    pub fn is_for(&self, goal: &str) -> bool {
        self.goal.split_whitespace().eq(goal.split_whitespace())
    }

    /// Returns the next step. `has_prd` says whether a PRD with stories exists.
    pub fn next(&self, has_prd: bool) -> GoalStep<'_> {
        match self.state {
            GoalStage::Done => return GoalStep::End(GoalEnd::Approved),
            GoalStage::Preflight if has_prd && self.existing_prd.is_none() => {
                return GoalStep::ChooseExisting;
            }
            GoalStage::Preflight => return GoalStep::ConfirmChecks,
            GoalStage::CollectContext => {
                if let Some(open) = self.open_questions.first() {
                    return GoalStep::Ask(open);
                }
            }
            // A review without a draft is a damaged state: request another draft.
            GoalStage::ReviewPrd => {
                if let Some(draft) = &self.last_prd_draft {
                    return GoalStep::Review(draft);
                }
            }
            GoalStage::DraftPrd => {}
        }
        if self.invalid_turns > MOST_RETRIES {
            let problems = self.problems.clone();
            return GoalStep::End(GoalEnd::NotValid { problems });
        }
        if self.turns >= MOST_TURNS {
            return GoalStep::End(GoalEnd::NoDraft { turns: self.turns });
        }
        GoalStep::Turn
    }

    /// Returns the unanswered questions.
    pub fn open_questions(&self) -> &[OpenQuestion] {
        &self.open_questions
    }

    /// Returns the number of turns since the last review.
    pub fn tries_made(&self) -> u32 {
        self.turns.saturating_add(self.invalid_turns)
    }
}
