//! The machine of `ralph run` for one story of the PRD: from its line in the PRD and its record to the one next step.
//!
//! The PRD says what is to be done, and at the tip of the run's branch what is done; the [`StoryRecord`], in private
//! state, says how far the judgement of a claim has come. There is no state beside these two. What happened
//! ([`StoryFact`]) becomes an ordered list of writes ([`settle`]); [`heal`] returns the writes that a crash prevented, and
//! those that follow from a story that was changed or removed meanwhile.
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
    /// The story as the last run was given it: a claim is about this text and no other.
    #[serde(default)]
    pub given: Option<Story>,
    #[serde(default)]
    pub claim: StoryClaim,
    /// The run whose result is recorded. A result of this run that turns up again, after a crash, changes nothing.
    #[serde(default)]
    pub settled_run: Option<RunId>,
    /// How often work on it was rejected since a person last had it tried again.
    #[serde(default)]
    pub rejections: u32,
    /// The commit that was rejected last: claimed again, it is rejected without being measured.
    #[serde(default)]
    pub rejected: Option<CommitId>,
    /// What the next run is to know.
    #[serde(default)]
    pub feedback: Option<String>,
    /// How often accepted work could not be put on the branch and went back.
    #[serde(default)]
    pub landings_refused: u32,
}

/// How far the judgement of a claim has come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum StoryClaim {
    #[default]
    None,
    /// The work was accepted; the branch and the PRD may not have it yet.
    Accepted { run: Option<RunId>, acceptance: Acceptance },
    /// Nothing has to change, says the implementer. A verifier gives its opinion first.
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
        /// It asks for something else than the last run was given.
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
    /// Puts a story of the PRD and its record together.
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

/// Where a story stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoryState {
    NotFailing,
    Open,
    /// Decided; the writes that follow are not all done.
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
    /// Rejected too often; `last` says what was wrong the last time.
    Exhausted {
        times: u32,
        last: String,
    },
}

impl StoryState {
    /// Reads the state from the markers. `most` is the number of rejections after which a person is asked.
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
            // Rejections were about the text that the story had then.
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
