//! Equal claims of an item: runs in a row that failed and left the work as the one before had left it. Trying again would
//! bring the same, so that a person is asked sooner than after other rejections.

use ralph_model::id::RunId;
use serde::{Deserialize, Serialize};

use crate::digest;
use crate::files::PathError;
use crate::state::{Entry, State};

/// The last failed runs of an item that left the same, kept in private state so that a restart does not forget them.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct EqualClaims {
    /// A digest of what they left.
    left: String,
    times: u32,
    /// The last of them.
    run: RunId,
}

const CLAIMS: Entry<EqualClaims> = Entry::new("equal-claims", "equal claims are counted anew");

/// Counts a failed run that left the work like this.
pub(super) fn count(state: &State, item: &str, run: &RunId, left: &str) -> Result<(), PathError> {
    let left = digest::of_bytes(left.as_bytes());
    let earlier = CLAIMS.load(state, item)?.filter(|earlier| earlier.left == left);
    // A conclusion that a crash cut short is drawn again.
    if earlier.as_ref().is_some_and(|earlier| earlier.run == *run) {
        return Ok(());
    }
    let times = earlier.map_or(0, |earlier| earlier.times).saturating_add(1);
    CLAIMS.save(state, item, &EqualClaims { left, times, run: run.clone() })
}

/// Returns after how many rejections a person is asked about an item: once it repeats itself, at once.
pub(super) fn most_rejections(
    state: &State,
    item: &str,
    repeats: u32,
    rejections: u32,
) -> Result<u32, PathError> {
    let is_spent = CLAIMS.load(state, item)?.is_some_and(|claims| claims.times >= repeats);
    Ok(if is_spent { rejections.min(1) } else { rejections })
}

/// Resets the count: the item is done, or a person allows another try.
pub(super) fn forget(state: &State, item: &str) -> Result<(), PathError> {
    CLAIMS.forget(state, item)
}
