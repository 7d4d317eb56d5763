//! The stash after a run: every entry that was on the list is on it again, where it was and with its message. What the run
//! stashed itself is kept with what it moved refs to.

use ralph_proc::end_note::FileTime;

use super::compare::{BoundaryFinding, BoundaryReport, FindingKind, Watch, is_later, is_ref_later};
use super::refs::Refs;
use super::run_refs::{RefsBefore, fetch_back};
use crate::git::stash::Stash;
use crate::git::{Git, Oid};
use crate::state::State;

pub(super) const STASH: &str = "refs/stash";

/// A list that differs from that before the run.
pub(super) struct StashReturn {
    stash: Stash,
    now: Option<Oid>,
    /// Entries that are not on the list any more when it is back.
    pub(super) dropped: Vec<Oid>,
    pub(super) found: BoundaryFinding,
    /// The commits of some entries are gone for good.
    is_incomplete: bool,
}

impl Watch {
    /// Finds what is to be put back of the stash; `None` if it is as it was.
    pub(super) fn stash_to_return(
        gone: Option<FileTime>,
        git: &Git,
        before: &RefsBefore,
        now: &Refs,
        state: &State,
        report: &mut BoundaryReport,
    ) -> Option<StashReturn> {
        let place = git.place();
        let there = Stash::of(place);
        let id = now.get(STASH).and_then(|text| Oid::parse(text.as_bytes()));
        let ids = before.stash.ids();
        if before.stash.is_empty() || there == before.stash && id.as_ref() == ids.last() {
            return None;
        }
        let lost = before.stash.without(&there);
        let made = there.without(&before.stash);
        let log = place.common_dir.join("logs").join(STASH);
        let is_persons = is_later(gone, log.as_std_path()) || is_ref_later(gone, place, STASH);
        let what = if id.is_some() { FindingKind::Changed } else { FindingKind::Removed };
        let found = BoundaryFinding { path: STASH.to_owned(), what };
        if is_persons && lost.is_empty() && id.is_some() {
            report.kept.push(found);
            return None;
        }
        fetch_back(git, state, &ids);
        // What the person stashed after a kill stays on top.
        let all = if is_persons { before.stash.below(&made) } else { before.stash.clone() };
        let mut dropped = if is_persons { Vec::new() } else { made.ids() };
        dropped.extend(id.iter().filter(|_| !is_persons).cloned());
        dropped.retain(|id| !ids.contains(id));
        let stash = git.existing(&all).unwrap_or_default();
        let is_incomplete = stash != all;
        Some(StashReturn { stash, now: id, dropped, found, is_incomplete })
    }
}

impl StashReturn {
    /// Puts the list back. Returns whether all of it could be.
    pub(super) fn perform(&self, git: &Git) -> bool {
        !self.stash.is_empty()
            && git.return_stash(&self.stash, self.now.as_ref()).is_ok()
            && !self.is_incomplete
    }
}
