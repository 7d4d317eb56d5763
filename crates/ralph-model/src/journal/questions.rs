//! Events of those who ask: agents for changes to the plan, the harness for a person's word.

use serde::{Deserialize, Serialize};

use super::event_data;
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

/// What a person's `yes` means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuestionKind {
    /// The work is accepted as it is.
    Accept,
    /// The item is tried again.
    Retry,
    /// Something that a newer Ralph asks.
    #[serde(other)]
    Other,
}

impl QuestionKind {
    /// Returns the answers that mean something by themselves; any other goes to the next attempt.
    pub fn choices(self) -> Vec<String> {
        match self {
            QuestionKind::Accept => vec!["yes".to_owned()],
            QuestionKind::Retry => vec!["yes".to_owned(), "no".to_owned()],
            QuestionKind::Other => Vec::new(),
        }
    }
}

/// An item needs a person's word to go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionAsked {
    /// Unique in this journal.
    pub id: String,
    pub item: String,
    pub question: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<QuestionKind>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
    /// The commit that it is about, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
}

/// From where an answer came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerOrigin {
    Cli,
    /// The question was settled without a person.
    Harness,
    /// A way that a newer Ralph knows.
    #[serde(other)]
    Other,
}

/// The person gave their word.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionAnswered {
    pub id: String,
    pub answer: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<AnswerOrigin>,
}

/// The workflow went on with the answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerTaken {
    pub id: String,
}

event_data! {
    /// The workflow stops at an item until a person has answered.
    PersonNeeded {
        spec: Option<String>,
        task: Option<String>,
        question: String,
    }

    /// The workflow acts on a person's answer.
    PersonAnswered {
        spec: Option<String>,
        task: Option<String>,
        /// The answer.
        reason: String,
    }
}
