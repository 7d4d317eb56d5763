//! Equal claims of an item: consecutive failed runs that leave the work unchanged. Another attempt would have the same
//! result, so a person is asked earlier than after other rejections.

use ralph_model::id::RunId;
use serde::{Deserialize, Serialize};

use crate::digest;
use crate::files::PathError;
use crate::state::{Entry, State};

/// The consecutive failed runs of an item that left the same work. Persisted, so that a restart does not reset the count.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct EqualClaims {
    /// A digest of the work they left.
    left: String,
    times: u32,
    /// The last of them.
    run: RunId,
}

const CLAIMS: Entry<EqualClaims> = Entry::new("equal-claims", "equal claims are counted from zero");

/// Counts a failed run, given the work it left.
pub(super) fn count(state: &State, item: &str, run: &RunId, left: &str) -> Result<(), PathError> {
    let left = digest::of_bytes(left.as_bytes());
    let earlier = CLAIMS.load(state, item)?.filter(|earlier| earlier.left == left);
    // Idempotent: after a crash the same run is concluded again.
    if earlier.as_ref().is_some_and(|earlier| earlier.run == *run) {
        return Ok(());
    }
    let times = earlier.map_or(0, |earlier| earlier.times).saturating_add(1);
    CLAIMS.save(state, item, &EqualClaims { left, times, run: run.clone() })
}

/// Returns the number of rejections after which a person is asked: one if the item repeats itself.
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
