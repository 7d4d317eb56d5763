//! The level of proof of accepted work merged with newer commits of the branch, if it differs from the level of the work
//! alone: a gate that those commits made red proves nothing about the merge, and a verifier is asked about it.
//!
//! Work lands with the level in its record and marker, or not at all. If a merge measures another level, or raises a
//! question that no verifier was asked, that is recorded here and the work is judged again before it lands. So the level
//! is durable before the landing, and a restart after the landing reads the same one.

use ralph_model::build::Work;
use ralph_model::id::RunId;
use ralph_model::proof::ProofLevel;
use ralph_model::verdict::VerifierQuestion;
use serde::{Deserialize, Serialize};

use super::review::{ReviewRecord, ReviewStanding, standing_of};
use crate::files::PathError;
use crate::judge::Case;
use crate::run::RunResult;
use crate::state::{Entry, State};

const MERGES: Entry<MergeRecord> =
    Entry::new("merge-reviews", "a verifier is asked about the merge again");

/// How often a merge may prove more than it did the last time. A flaky gate could go on like that.
const MOST_CHANGES: u32 = 3;

/// What is written where an item waits for its merge to be judged.
pub(crate) const ASKED_FIRST: &str = "a verifier is asked first";

#[derive(Clone, Debug, Serialize, Deserialize)]
struct MergeRecord {
    /// What is known of the work by itself.
    judged: ProofLevel,
    /// What is known of the merge, as it was measured last.
    level: ProofLevel,
    changes: u32,
    /// The gates that a verifier is asked about, or was.
    gates: Vec<String>,
    /// The verifier's run that accepted the work by itself, where the workflow has a phase for that. It was not asked.
    after: Option<RunId>,
    /// What is asked, and what was said.
    review: ReviewRecord,
}

impl MergeRecord {
    fn is_open(&self) -> bool {
        !self.review.questions.is_empty() && self.review.said.is_none()
    }
}

/// A merge that is about to land.
pub(crate) struct MergeRequest<'a> {
    pub(crate) item: &'a str,
    /// The accepted work.
    pub(crate) works: &'a [Work],
    /// The level that its record and its marker name.
    pub(crate) level: ProofLevel,
    /// The gates that a verifier was asked about for the work by itself.
    pub(crate) asked: &'a [String],
    /// The run that verified the work by itself.
    pub(crate) after: Option<&'a RunId>,
    /// A person accepted the work: no one else is asked.
    pub(crate) is_persons_word: bool,
}

/// Whether a merge can land.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MergeStanding {
    /// With the level that was requested.
    Settled,
    /// The work is to be judged once more; `is_asked` if a verifier is to be asked about the merge.
    Unsettled { is_asked: bool },
}

/// Compares what merges measure with what is to be said of them, and records where they differ.
pub(crate) fn compare(
    state: &State,
    request: &MergeRequest<'_>,
    cases: &[&Case],
) -> Result<MergeStanding, PathError> {
    let kept = load(state, request.item, request.works)?;
    if kept.is_none() && cases.is_empty() {
        return Ok(MergeStanding::Settled);
    }
    let judged = kept.as_ref().map_or(request.level, |kept| kept.judged);
    let level = level_of(judged, request.works.len(), cases.iter().map(|case| case.level()));
    let answered = kept.as_ref().filter(|kept| !kept.is_open());
    let answered: &[String] = answered.map_or(&[], |kept| &kept.gates);
    let (mut gates, mut questions) = (answered.to_vec(), Vec::new());
    for case in cases {
        for (gate, question) in case.open_questions() {
            if !request.is_persons_word && !request.asked.contains(&gate) && !gates.contains(&gate)
            {
                gates.push(gate);
                questions.push(question);
            }
        }
    }
    let changes = kept.as_ref().map_or(0, |kept| kept.changes);
    let is_told = level == request.level || level > request.level && changes >= MOST_CHANGES;
    let is_asked = !questions.is_empty();
    if is_told && !is_asked {
        return Ok(MergeStanding::Settled);
    }
    let review = match kept {
        // Asked already: what was said, or what was wrong with the last answer, is still known.
        Some(kept) if kept.is_open() == is_asked && (!is_asked || kept.gates == gates) => {
            kept.review
        }
        _ => ReviewRecord::asking(request.works, questions),
    };
    let after = request.after.cloned();
    let changes = changes + u32::from(level != request.level);
    let record = MergeRecord { judged, level, changes, gates, after, review };
    MERGES.save(state, request.item, &record)?;
    Ok(MergeStanding::Unsettled { is_asked })
}

/// Returns what is known of work as it lands, from what is known of it by itself and of its merges.
///
/// A merge can prove what the work by itself could not: a gate that was red on the branch is green by now. An approval
/// of changed checks and the flakiness of a gate still apply to the merge.
fn level_of(
    judged: ProofLevel,
    works: usize,
    merges: impl ExactSizeIterator<Item = ProofLevel>,
) -> ProofLevel {
    let is_whole = merges.len() >= works;
    match merges.min() {
        Some(lowest) if is_whole && judged == ProofLevel::NotProven => lowest,
        Some(lowest) => lowest.min(judged),
        None => judged,
    }
}

fn load(state: &State, item: &str, works: &[Work]) -> Result<Option<MergeRecord>, PathError> {
    Ok(MERGES.load(state, item)?.filter(|kept| kept.review.works == works))
}

/// Returns what is to be said of work of this level when it lands.
pub(super) fn level(
    state: &State,
    item: &str,
    works: &[Work],
    judged: ProofLevel,
) -> Result<ProofLevel, PathError> {
    // What was judged once more may be another level than the merge was compared with.
    let kept = load(state, item, works)?;
    let of_merge = |kept: MergeRecord| {
        if kept.judged == judged { kept.level } else { kept.level.min(judged) }
    };
    Ok(kept.map_or(judged, of_merge))
}

/// Returns what a verifier is still to be asked about the merge of this work.
pub(super) fn questions(
    state: &State,
    item: &str,
    works: &[Work],
) -> Result<Vec<VerifierQuestion>, PathError> {
    let open = load(state, item, works)?.filter(MergeRecord::is_open);
    Ok(open.map(|open| open.review.questions).unwrap_or_default())
}

/// Notes that a verifier which was asked about the merge of this work verified it.
pub(super) fn verified(
    state: &State,
    item: &str,
    works: &[Work],
    result: &RunResult,
) -> Result<(), PathError> {
    let Some(mut kept) = load(state, item, works)?.filter(MergeRecord::is_open) else {
        return Ok(());
    };
    if kept.after.as_ref() == Some(&result.run) {
        return Ok(());
    }
    kept.review.answer(result);
    MERGES.save(state, item, &kept)
}

/// Returns what is asked about the merge of work on an item and not answered yet.
pub(super) fn open_review(state: &State, item: &str) -> Result<Option<ReviewRecord>, PathError> {
    let open = MERGES.load(state, item)?.filter(MergeRecord::is_open);
    Ok(open.map(|open| open.review))
}

/// Keeps what a verifier said of a merge; tells whether it was asked about one.
pub(super) fn keep(state: &State, item: &str, result: &RunResult) -> Result<bool, PathError> {
    let Some(mut kept) = MERGES.load(state, item)? else { return Ok(false) };
    if kept.review.run.as_ref() == Some(&result.run) {
        return Ok(true);
    }
    if !kept.is_open() {
        return Ok(false);
    }
    kept.review.answer(result);
    MERGES.save(state, item, &kept)?;
    Ok(true)
}

/// Says what is known of the question about a merge of this work; `None` if none is asked.
pub(super) fn standing(
    state: &State,
    item: &str,
    works: &[Work],
) -> Result<Option<ReviewStanding>, PathError> {
    let Some(mut kept) = load(state, item, works)? else { return Ok(None) };
    if kept.review.questions.is_empty() {
        return Ok(None);
    }
    let (standing, again) = standing_of(&kept.review, &[], "");
    if let Some(review) = again {
        kept.review = review;
        MERGES.save(state, item, &kept)?;
    }
    Ok(Some(standing))
}

pub(crate) fn forget(state: &State, item: &str) -> Result<(), PathError> {
    MERGES.forget(state, item)
}
