//! The journal: actions and observations of the harness, one JSON object per line, append-only.
//!
//! A line is `{"v":1,"at":"…","run":"…","wf":"…","event":"run_started","data":{…}}`. The version is incremented when an
//! older Ralph would misread a new line; the older one then refuses it. New events and new fields do not require that:
//! an event of unknown name is kept verbatim, and unknown fields are ignored. That loses nothing, because a journal is
//! never rewritten from parsed entries.
//!
//! Every kind of event is one struct with named fields, listed once in [`JournalEvent`]. [`crate::board`] folds the
//! entries.

mod build;
mod gates;
mod goal;
mod kinds;
mod pipeline;
mod questions;
mod runs;
mod text;
mod wire;
mod workflow;

use jiff::Timestamp;

use crate::id::RunId;

pub use build::{
    BuildResult, BuildStart, IterationResult, IterationStart, PlanChanged, StepResult, TaskDone,
    TaskKilled, TaskRejected,
};
pub use gates::{
    GateAttempt, GateFinished, GatePoint, GateStarted, GateTests, GatesChanged, ReasonText,
    SetupStarted, VerdictKind, VerdictReached, WorkLanded,
};
pub use goal::{ConsentAsked, InterviewTurn, PrdApproved, StoryPassed, TopicMapped};
pub use kinds::JournalEvent;
pub use pipeline::{
    CandidateLoaded, CandidateWritten, ImplException, ImplNoCompletion, ImplNonzeroExit,
    ImplRejected, ImplRunComplete, ImplStart, PlanAdopted, PlanException, PlanFail,
    PlanInvalidated, PlanPass, PlanRunComplete, PlanStart, RunComplete, RunStart, RunStopped,
    SpecFailed, SpecQueue, SpecResult, SpecSkipped, SpecStart, VerifyException, VerifyFail,
    VerifyNonzeroExit, VerifyPass, VerifyRunComplete, VerifyStart,
};
pub use questions::{
    AnswerOrigin, AnswerTaken, MutationRequested, PersonAnswered, PersonNeeded, QuestionAnswered,
    QuestionAsked, QuestionKind, RequestIgnored,
};
pub use runs::{
    BoundaryCrossed, ChangeSize, LeftoversEnded, LimitWaitEnded, LimitWaitStarted, OutboxRefusal,
    Place, RunFinished, RunStarted, StateRebuilt,
};
pub use text::{render_text, summary_line};
pub(crate) use wire::Envelope;
pub use wire::{
    Entries, JOURNAL_VERSION, JournalError, JournalLineError, UnknownEvent, entries, parse_line,
    render_line,
};
pub use workflow::{
    BackoffWait, BudgetLimits, BudgetNear, BudgetStop, Note, RoleAgent, RunError, TroubleMet,
    UsageLimitWait, WorkflowEnded, WorkflowStarted,
};

/// One line of the journal.
#[derive(Clone, Debug, PartialEq)]
pub struct JournalEntry {
    pub at: Timestamp,
    /// The run it is about, if any.
    pub run: Option<RunId>,
    /// The invocation that wrote it, if it was a workflow.
    pub wf: Option<RunId>,
    pub event: JournalEvent,
}

/// Whether a field is empty and can be omitted from its line.
trait Absent {
    fn is_absent(&self) -> bool;
}

impl<T> Absent for Option<T> {
    fn is_absent(&self) -> bool {
        self.is_none()
    }
}

impl<T> Absent for Vec<T> {
    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

impl<K, V> Absent for std::collections::BTreeMap<K, V> {
    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

impl Absent for String {
    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

macro_rules! always_told {
    ($($type:ty)*) => {$(impl Absent for $type {
        fn is_absent(&self) -> bool {
            false
        }
    })*};
}

always_told! { i32 u32 u64 GateAttempt GatePoint StepResult VerdictKind }

/// Declares the data of events in which every field has a default: empty fields are omitted, and read as the default.
macro_rules! event_data {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(default)]
        pub struct $name {
            $(
                $(#[$field_doc])*
                #[serde(skip_serializing_if = "crate::journal::Absent::is_absent")]
                pub $field: $type,
            )*
        }
    )*};
}
use event_data;

#[cfg(test)]
pub(crate) mod any;
#[cfg(test)]
pub(crate) mod samples;
