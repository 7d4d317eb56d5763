//! From a goal in one sentence to an approved PRD: the interview's machine, and the decisions that follow it.
//!
//! What an interview knows is [`GoalState`], the file `plan_state.json`. It has one next step ([`GoalState::next`]). What
//! happened ([`GoalFact`]) becomes an ordered list of writes ([`settle`]); [`heal`] returns those that a crash prevented.
//! So an interview that was killed goes on at the question that was open, and no question is asked twice.
//!
//! | state | next step |
//! |---|---|
//! | `preflight` | what becomes of a PRD that is there, then the verification commands |
//! | `collect_context` | the first open question, or else a turn of the interviewer |
//! | `draft_prd` | a turn of the interviewer, with what was wrong with its draft |
//! | `review_prd` | the person's approval |
//! | `done` | none |
//!
//! [`map`] reads `codebase_map.md`; [`exec`] says what needs whose consent before it starts.

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

/// How often an envelope or a draft that is not valid is asked for again.
pub(crate) const MOST_RETRIES: u32 = 5;

/// How many turns an interviewer may take without a draft that can be reviewed.
pub(crate) const MOST_TURNS: u32 = 20;

#[cfg(test)]
#[path = "goal_tests.rs"]
mod tests;
