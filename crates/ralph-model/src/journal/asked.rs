//! What the journal keeps of those who ask: agents for changes to the plan, the harness for a person's word.

use serde::{Deserialize, Serialize};

use crate::channel::MutationRequest;

/// An agent asked for a change to the plan through its run's channel, and was answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MutationRequested {
    pub request: MutationRequest,
    pub accepted: bool,
    /// What the agent was told.
    pub text: String,
}

/// Something in a run's channel was no request. Told once for each reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestIgnored {
    pub name: String,
    pub reason: String,
}

/// An item needs a person's word to go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionAsked {
    /// Unique in this journal.
    pub id: String,
    pub item: String,
    pub question: String,
}

/// The person gave their word.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionAnswered {
    pub id: String,
    pub answer: String,
}

/// The workflow went on with the answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerTaken {
    pub id: String,
}
