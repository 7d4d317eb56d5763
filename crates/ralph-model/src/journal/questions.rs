//! Events of questions and requests: from agents for changes to the plan, from the harness for a person's decision.

use serde::{Deserialize, Serialize};

use super::event_data;
use crate::channel::MutationRequest;

/// An agent requested a change to the plan through its run's channel, and got a reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MutationRequested {
    pub request: MutationRequest,
    pub accepted: bool,
    /// The text of the reply.
    pub text: String,
}

/// A file in a run's channel was not a request. Recorded once for each reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestIgnored {
    pub name: String,
    pub reason: String,
}

/// The meaning of a person's `yes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuestionKind {
    /// The work is accepted as it is.
    Accept,
    /// The item is tried again.
    Retry,
    /// A question of a newer Ralph.
    #[serde(other)]
    Other,
}

impl QuestionKind {
    /// Returns the answers with a fixed meaning; any other text is passed to the next attempt.
    pub fn choices(self) -> Vec<String> {
        match self {
            QuestionKind::Accept => vec!["yes".to_owned()],
            QuestionKind::Retry => vec!["yes".to_owned(), "no".to_owned()],
            QuestionKind::Other => Vec::new(),
        }
    }
}

/// An item needs a person's decision to continue.
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

/// The origin of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerOrigin {
    Cli,
    /// The question was settled without a person.
    Harness,
    /// An origin that only a newer Ralph knows.
    #[serde(other)]
    Other,
}

/// The person answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionAnswered {
    pub id: String,
    pub answer: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<AnswerOrigin>,
}

/// The workflow continued with the answer.
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
