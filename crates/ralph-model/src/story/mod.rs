//! The state machine of `ralph run` for one story: from its entry in the PRD and its record to the next step.
//!
//! The PRD says what to do and, at the tip of the run's branch, what is done; the [`StoryRecord`], in private state,
//! says how far the judgement of a claim has progressed. There is no other state. An event ([`StoryFact`]) becomes an
//! ordered list of writes ([`settle`]); [`heal`] returns the writes that a crash prevented, and those that follow from
//! a story that was changed or removed meanwhile.
//!
//! | state | next step |
//! |---|---|
//! | not failing | none: the story passes, or is gone |
//! | open | an implementer |
//! | accepted | none: [`heal`] completes the writes |
//! | no change claimed | a verifier's opinion |
//! | no change reviewed | a person's decision |
//! | undecided | the judge again, then a person's decision |
//! | open, and rejected too often | a person's decision |

mod settle;

use serde::{Deserialize, Serialize};

use crate::build::{Acceptance, Work};
use crate::id::{CommitId, RunId};
use crate::prd::Story;

pub use settle::{IllegalStoryFact, StoryFact, StoryWrite, heal, settle};

/// What private state holds about a story.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoryRecord {
    /// The text of the story given to the last run: a claim is about exactly this text.
    #[serde(default)]
    pub given: Option<Story>,
    #[serde(default)]
    pub claim: StoryClaim,
    /// The run whose result is recorded. Processing its result again after a crash changes nothing.
    #[serde(default)]
    pub settled_run: Option<RunId>,
    /// How often its work was rejected since a person last allowed another try.
    #[serde(default)]
    pub rejections: u32,
    /// The commit rejected last: if it is claimed again, it is rejected without being measured.
    #[serde(default)]
    pub rejected: Option<CommitId>,
    /// The feedback for the next run.
    #[serde(default)]
    pub feedback: Option<String>,
    /// How often accepted work could not land on the branch and was sent back.
    #[serde(default)]
    pub landings_refused: u32,
}

/// How far the judgement of a claim has progressed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum StoryClaim {
    #[default]
    None,
    /// The work was accepted; the branch and the PRD may not reflect it yet.
    Accepted { run: Option<RunId>, acceptance: Acceptance },
    /// The implementer claims that nothing has to change. A verifier gives its opinion first.
    NoChange { reason: String },
    /// A person decides, with the verifier's opinion.
    NoChangeReviewed { reason: String, opinion: String },
    /// The judge could not decide on this work.
    Undecided { works: Vec<Work>, question: String },
}

/// A story as the PRD has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoryInPrd {
    Gone,
    Passes,
    Failing {
        /// Its requirements differ from what the last run was given.
        changed: bool,
    },
}

/// Everything on disk about one story.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoryMarkers {
    pub in_prd: StoryInPrd,
    pub record: StoryRecord,
}

impl StoryMarkers {
    /// Combines a story of the PRD with its record.
    pub fn of(story: Option<&Story>, record: StoryRecord) -> StoryMarkers {
        let in_prd = match story {
            None => StoryInPrd::Gone,
            Some(story) if story.passes => StoryInPrd::Passes,
            Some(story) => StoryInPrd::Failing {
                changed: record.given.as_ref().is_some_and(|given| !given.asks_for_the_same(story)),
            },
        };
        StoryMarkers { in_prd, record }
    }
}

/// The state of a story.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoryState {
    NotFailing,
    Open,
    /// Decided; the remaining writes are not complete.
    Accepted,
    NoChange {
        reason: String,
    },
    NoChangeReviewed {
        reason: String,
        opinion: String,
    },
    Undecided {
        works: Vec<Work>,
        question: String,
    },
    /// Rejected too often; `last` is the latest reason.
    Exhausted {
        times: u32,
        last: String,
    },
}

impl StoryState {
    /// Derives the state from the markers. `most` is the number of rejections after which a person is asked.
    pub fn of(markers: &StoryMarkers, most: u32) -> StoryState {
        let StoryInPrd::Failing { changed } = markers.in_prd else { return StoryState::NotFailing };
        let record = &markers.record;
        match record.claim.clone() {
            StoryClaim::Accepted { .. } => StoryState::Accepted,
            StoryClaim::NoChange { reason } => StoryState::NoChange { reason },
            StoryClaim::NoChangeReviewed { reason, opinion } => {
                StoryState::NoChangeReviewed { reason, opinion }
            }
            StoryClaim::Undecided { works, question } => StoryState::Undecided { works, question },
            // Rejections were about the story's text at that time.
            StoryClaim::None if changed || record.rejections < most => StoryState::Open,
            StoryClaim::None => StoryState::Exhausted {
                times: record.rejections,
                last: record.feedback.clone().unwrap_or_default(),
            },
        }
    }
}

#[cfg(test)]
#[path = "story_tests.rs"]
mod tests;
