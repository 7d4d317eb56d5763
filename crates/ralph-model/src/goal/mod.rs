//! From a one-sentence goal to an approved PRD: the interview's state machine, and the decisions after it.
//!
//! The state of an interview is [`GoalState`], the file `plan_state.json`. It has one next step ([`GoalState::next`]).
//! An event ([`GoalFact`]) becomes an ordered list of writes ([`settle`]); [`heal`] returns those that a crash
//! prevented. So a killed interview resumes at the open question, and no question is asked twice.
//!
//! | state | next step |
//! |---|---|
//! | `preflight` | what becomes of a PRD that is there, then the verification commands |
//! | `collect_context` | the first open question, or else a turn of the interviewer |
//! | `draft_prd` | a turn of the interviewer, with what was wrong with its draft |
//! | `review_prd` | the person's approval |
//! | `done` | none |
//!
//! [`map`] parses `codebase_map.md`; [`exec`] defines which steps need whose consent before they start.

mod envelope;
pub mod exec;
pub mod map;
mod settle;
mod state;
mod transcript;

pub use envelope::{EnvelopeError, PlannerEnvelope, Uncertainty, UnderstandAdvice};
pub use settle::{GoalFact, GoalWrite, IllegalGoalFact, heal, settle};
pub use state::{
    ExistingPrd, GoalBeginning, GoalEnd, GoalStage, GoalState, GoalStateError, GoalStep,
    OpenQuestion, QuestionAndAnswer,
};
pub use transcript::decision;

/// The files of an interview in home.
pub const STATE_FILE: &str = "plan_state.json";
pub const TRANSCRIPT_FILE: &str = "plan_transcript.md";

/// How often an invalid envelope or draft is requested again.
pub(crate) const MOST_RETRIES: u32 = 5;

/// How many turns an interviewer may take without a reviewable draft.
pub(crate) const MOST_TURNS: u32 = 20;

#[cfg(test)]
#[path = "goal_tests.rs"]
mod tests;
