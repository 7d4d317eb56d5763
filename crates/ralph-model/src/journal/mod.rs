//! The journal: what the harness did and learned, one JSON object a line, only ever appended to.
//!
//! A line is `{"v":1,"at":"…","run":"…","event":"run_started","data":{…}}`. The version goes up when a line of the new
//! kind would be misread by an older Ralph; then the older one refuses it. New events and new fields do not need that:
//! an event of unknown name is kept word for word, and unknown fields are passed over. Nothing is lost by that, because
//! nobody ever writes a journal anew from what was read.

mod asked;
mod overview;
mod questions;
mod text;
mod wire;
mod workflow;

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::id::RunId;
use crate::millis;
use crate::policy::budget::BudgetExhausted;
use crate::role::Role;
use crate::run::{ProcessExit, RunEnd, RunOutcome};
use crate::usage::Usage;

pub use asked::{AnswerTaken, MutationRequested, QuestionAnswered, QuestionAsked, RequestIgnored};
pub use overview::{Overview, RunState, RunView, Totals};
pub use questions::Question;
pub use text::{render_text, summary_line};
pub use wire::{
    Entries, JOURNAL_VERSION, JournalError, JournalLineError, UnknownEvent, entries, parse_line,
    render_line,
};
pub use workflow::{WorkflowEvent, WorkflowFields, WorkflowKind};

/// One line of the journal.
#[derive(Clone, Debug, PartialEq)]
pub struct JournalEntry {
    pub at: Timestamp,
    /// The run it is about, if it is about one.
    pub run: Option<RunId>,
    pub event: JournalEvent,
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum JournalEvent {
    RunStarted(Box<RunStarted>),
    RunFinished(Box<RunFinished>),
    LimitWaitStarted(LimitWaitStarted),
    LimitWaitEnded(LimitWaitEnded),
    BackoffStarted(BackoffStarted),
    BoundaryCrossed(Box<BoundaryCrossed>),
    LeftoversEnded(LeftoversEnded),
    StateRebuilt(StateRebuilt),
    BudgetExhausted(BudgetStop),
    MutationRequested(Box<MutationRequested>),
    RequestIgnored(RequestIgnored),
    QuestionAsked(QuestionAsked),
    QuestionAnswered(QuestionAnswered),
    AnswerTaken(AnswerTaken),
    Workflow(Box<WorkflowEvent>),
    /// The person interrupted the workflow.
    Interrupted,
    /// Something that a newer Ralph wrote.
    Unknown(UnknownEvent),
}

/// A run began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunStarted {
    /// What the run is for. A single run that a person asked for is for nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<String>,
    pub role: Role,
    pub agent: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    pub attempt: u32,
    /// The boundary in force.
    pub boundary: String,
    /// Where the run's log is.
    pub dir: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumed_session: Option<String>,
}

/// A run is over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunFinished {
    pub end: RunEnd,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<ProcessExit>,
    pub outcome: RunOutcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// What this run used, also where the agent counts over the whole session.
    pub usage: Usage,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Whether the cost was reckoned from a price table and not told by the agent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cost_is_estimate: bool,
    #[serde(with = "millis", rename = "duration_ms")]
    pub duration: Duration,
    #[serde(default)]
    pub tool_calls: u64,
    /// The last line of the final message, as [`summary_line`] cuts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub final_line: Option<String>,
}

/// A wait for the end of a usage limit began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitWaitStarted {
    pub agent: String,
    pub until: Timestamp,
    /// Whether `until` comes from the provider.
    pub known: bool,
}

/// A wait for the end of a usage limit is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitWaitEnded {
    pub agent: String,
    /// Whether somebody stopped waiting before the limit ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
}

/// A wait after a failure began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackoffStarted {
    #[serde(with = "millis", rename = "wait_ms")]
    pub wait: Duration,
    pub reason: String,
}

/// A run was found to have changed what was watched.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundaryCrossed {
    /// What its role must not change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub violations: Vec<String>,
    /// Everything that is as it was before the run again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub put_back: Vec<String>,
    /// What only the person can have changed, and what stays for that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<String>,
    /// Where the changes are that were undone: a directory of private state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saved_in: Option<String>,
    /// The commit that has them, where they were in a work tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub displaced: Option<String>,
}

/// Processes of a run whose harness died were found and ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftoversEnded {
    pub processes: u32,
}

/// Private state was lost and made anew from the committed files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateRebuilt {
    pub reason: String,
}

/// No further run may start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BudgetStop {
    pub what: BudgetExhausted,
}

#[cfg(test)]
mod samples;
