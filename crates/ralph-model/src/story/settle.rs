//! Turns events of a story into writes, in crash-safe order.
//!
//! An acceptance is recorded before its consequences: after that [`heal`] returns the rest; before it, the result of
//! the run is still pending and is judged again. Every other fact is one record, which also settles its run.

use super::{StoryClaim, StoryInPrd, StoryMarkers, StoryRecord, StoryState};
use crate::build::{Acceptance, Rejection, Work};
use crate::id::RunId;
use crate::prd::Story;

/// The feedback if the story was changed while a run was working on it.
const CHANGED: &str = "The story was changed while the last run was working on it. That run's work is still there: keep what fits the story as it is now, and change the rest.";

/// Something that happened to a story.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoryFact {
    /// A run is about to be given this text.
    Given {
        story: Story,
    },
    /// A run claims that nothing has to change.
    NoChangeClaimed {
        run: RunId,
        reason: String,
    },
    /// A verifier gave its opinion on that.
    OpinionGiven {
        opinion: String,
    },
    Accepted {
        run: Option<RunId>,
        acceptance: Acceptance,
    },
    /// Work was rejected, or a run ended without a valid claim.
    Rejected {
        run: Option<RunId>,
        rejection: Rejection,
    },
    /// Accepted work does not fit the branch as it is now. It is sent back at no cost.
    LandingRefused {
        why: String,
    },
    /// Accepted work failed to land too often: a person decides.
    LandingStuck {
        question: String,
    },
    /// The merge of accepted work with what the branch has become is to be judged, too, before it lands.
    LandingUnsettled {
        question: String,
    },
    /// The judge cannot decide on this work.
    Undecided {
        run: Option<RunId>,
        works: Vec<Work>,
        question: String,
    },
    /// A person allows another try of a story that was rejected too often, with advice for the next run.
    Retried {
        advice: Option<String>,
    },
    /// The story was changed while the run was working on it: its claim is about another text.
    Outdated {
        run: RunId,
    },
    /// The story was removed, or a person marked it as passing, while the run was working on it.
    LaidAside {
        run: RunId,
    },
}

/// One write. Each is atomic and idempotent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoryWrite {
    Record(Box<StoryRecord>),
    /// Puts the work on the branch, with a PRD in which the story passes.
    Pass {
        acceptance: Acceptance,
    },
    /// Removes the pinned gates and the recorded base of the story.
    ForgetBeginning,
}

/// A fact that cannot happen to a story in this state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a story that is {state:?} cannot be {fact:?}")]
pub struct IllegalStoryFact {
    pub state: Box<StoryState>,
    pub fact: Box<StoryFact>,
}

/// Returns the writes of a fact, in order, or refuses a fact that is illegal in this state.
pub fn settle(
    markers: &StoryMarkers,
    fact: &StoryFact,
    most_rejections: u32,
) -> Result<Vec<StoryWrite>, IllegalStoryFact> {
    let state = StoryState::of(markers, most_rejections);
    if !is_legal(&state, markers, fact) {
        let fact = Box::new(fact.clone());
        return Err(IllegalStoryFact { state: Box::new(state), fact });
    }
    let old = &markers.record;
    let settled = |run: Option<&RunId>| run.cloned().or_else(|| old.settled_run.clone());
    let record = |claim: StoryClaim, run: Option<&RunId>| StoryRecord {
        claim,
        settled_run: settled(run),
        ..old.clone()
    };
    let one = |record: StoryRecord| vec![StoryWrite::Record(Box::new(record))];
    Ok(match fact {
        StoryFact::Given { story } => {
            let old = if is_changed(markers) { outdated(old, None) } else { old.clone() };
            one(StoryRecord { given: Some(story.clone()), ..old })
        }
        StoryFact::NoChangeClaimed { run, reason } => {
            one(record(StoryClaim::NoChange { reason: reason.clone() }, Some(run)))
        }
        StoryFact::OpinionGiven { opinion } => {
            let StoryState::NoChange { reason } = state else {
                unreachable!("legal only while an opinion is awaited");
            };
            one(record(StoryClaim::NoChangeReviewed { reason, opinion: opinion.clone() }, None))
        }
        StoryFact::Accepted { run, acceptance } => {
            let (run, acceptance) = (run.clone(), acceptance.clone());
            let claim = StoryClaim::Accepted { run: run.clone(), acceptance: acceptance.clone() };
            let mut writes = one(record(claim, None));
            writes.push(StoryWrite::Pass { acceptance });
            writes.extend(forgotten(settled(run.as_ref())));
            writes
        }
        StoryFact::Rejected { run, rejection } => one(StoryRecord {
            rejections: old.rejections.saturating_add(1),
            rejected: rejection.commit.clone(),
            feedback: Some(rejection.for_agent.clone()),
            ..record(StoryClaim::None, run.as_ref())
        }),
        StoryFact::LandingRefused { why } => {
            let StoryClaim::Accepted { run, .. } = &old.claim else {
                unreachable!("legal only for work that was accepted");
            };
            one(StoryRecord {
                feedback: Some(why.clone()),
                landings_refused: old.landings_refused.saturating_add(1),
                ..record(StoryClaim::None, run.as_ref())
            })
        }
        StoryFact::LandingStuck { question } | StoryFact::LandingUnsettled { question } => {
            let StoryClaim::Accepted { run, acceptance } = &old.claim else {
                unreachable!("legal only for work that was accepted");
            };
            let (works, question) = (acceptance.works.clone(), question.clone());
            let is_stuck = matches!(fact, StoryFact::LandingStuck { .. });
            one(StoryRecord {
                landings_refused: if is_stuck { 0 } else { old.landings_refused },
                ..record(StoryClaim::Undecided { works, question }, run.as_ref())
            })
        }
        StoryFact::Undecided { run, works, question } => {
            let (works, question) = (works.clone(), question.clone());
            one(record(StoryClaim::Undecided { works, question }, run.as_ref()))
        }
        StoryFact::Retried { advice } => one(StoryRecord {
            rejections: 0,
            feedback: advice.clone().or_else(|| old.feedback.clone()),
            ..old.clone()
        }),
        StoryFact::Outdated { run } => one(outdated(old, Some(run))),
        StoryFact::LaidAside { run } => forgotten(Some(run.clone())),
    })
}

/// Whether a fact can occur in a state.
fn is_legal(state: &StoryState, markers: &StoryMarkers, fact: &StoryFact) -> bool {
    use {StoryFact as F, StoryState as S};
    match fact {
        F::Given { .. } => matches!(state, S::Open),
        F::NoChangeClaimed { .. } => matches!(state, S::Open) && !is_changed(markers),
        F::OpinionGiven { .. } => matches!(state, S::NoChange { .. }),
        // Findings about another text do not apply to this one.
        F::Accepted { .. } | F::Undecided { .. } if is_changed(markers) => false,
        F::Accepted { run, .. } => match state {
            S::Open => run.is_some(),
            // Only a person can settle these, and a person's fact has no run.
            S::NoChangeReviewed { .. } | S::Undecided { .. } => run.is_none(),
            _ => false,
        },
        F::Rejected { run, .. } => match state {
            S::Open => run.is_some(),
            S::NoChangeReviewed { .. } | S::Undecided { .. } => run.is_none(),
            _ => false,
        },
        F::Undecided { run, .. } => match state {
            S::Open => run.is_some(),
            S::Undecided { .. } => run.is_none(),
            _ => false,
        },
        F::LandingRefused { .. } | F::LandingStuck { .. } | F::LandingUnsettled { .. } => {
            matches!(state, S::Accepted)
        }
        F::Retried { .. } => matches!(state, S::Exhausted { .. }),
        F::Outdated { .. } => matches!(state, S::Open) && is_changed(markers),
        F::LaidAside { .. } => matches!(state, S::NotFailing),
    }
}

fn is_changed(markers: &StoryMarkers) -> bool {
    markers.in_prd == StoryInPrd::Failing { changed: true }
}

/// The end of work on a story: only its last run is kept.
fn forgotten(settled_run: Option<RunId>) -> Vec<StoryWrite> {
    let record = StoryRecord { settled_run, ..StoryRecord::default() };
    vec![StoryWrite::ForgetBeginning, StoryWrite::Record(Box::new(record))]
}

/// The record of a story whose requirements changed: claims and rejections were about the old text.
fn outdated(old: &StoryRecord, run: Option<&RunId>) -> StoryRecord {
    StoryRecord {
        settled_run: run.cloned().or_else(|| old.settled_run.clone()),
        feedback: Some(CHANGED.to_owned()),
        ..StoryRecord::default()
    }
}

/// Returns the writes that a crash prevented, and those that follow from a story that was changed or removed meanwhile.
pub fn heal(markers: &StoryMarkers) -> Vec<StoryWrite> {
    let record = &markers.record;
    let run = match &record.claim {
        StoryClaim::None => return Vec::new(),
        StoryClaim::Accepted { run, .. } => run.as_ref(),
        _ => None,
    };
    let settled_run = run.cloned().or_else(|| record.settled_run.clone());
    match (markers.in_prd, &record.claim) {
        (StoryInPrd::Gone | StoryInPrd::Passes, _) => forgotten(settled_run),
        (StoryInPrd::Failing { changed: true }, _) => {
            vec![StoryWrite::Record(Box::new(outdated(record, run)))]
        }
        (StoryInPrd::Failing { changed: false }, StoryClaim::Accepted { acceptance, .. }) => {
            let mut writes = vec![StoryWrite::Pass { acceptance: acceptance.clone() }];
            writes.extend(forgotten(settled_run));
            writes
        }
        (StoryInPrd::Failing { changed: false }, _) => Vec::new(),
    }
}
