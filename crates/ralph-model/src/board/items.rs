//! State of the most recently worked-on items.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Totals;
use crate::id::RunId;
use crate::journal::{
    IterationResult, RunFinished, RunStarted, StepResult, VerdictKind, VerdictReached,
};
use crate::role::Role;
use crate::run::{RunOutcome, Trouble};

/// How many items are kept. Pruning scans all items, so it starts only when there are a quarter more.
const MOST_ITEMS: usize = 8000;

/// One item: a spec, a task, or a step that has no other name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ItemView {
    /// The sequence number of the last change to this item, among all items.
    touched: u64,
    /// How many runs were started for it.
    pub runs: u64,
    pub totals: Totals,
    /// Per role, the number of runs that ended with a result about the work, since the item was last completed.
    pub tries: BTreeMap<Role, u32>,
    pub last_verdict: Option<LastVerdict>,
    /// The last known run, and its session if it was cut short.
    last_run: Option<LastRun>,
}

/// The latest verdict on an item.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LastVerdict {
    pub at: Timestamp,
    pub verdict: VerdictReached,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct LastRun {
    id: Option<RunId>,
    role: Role,
    agent: String,
    slot: Option<u32>,
    open_session: Option<String>,
}

impl ItemView {
    /// Returns the session of the item's last run, if that run had this role and agent, worked in this slot, and was
    /// cut short by a usage limit, an interruption, or the death of its harness.
    pub fn open_session(&self, role: Role, agent: &str, slot: Option<u32>) -> Option<&str> {
        let is_same =
            |last: &&LastRun| last.role == role && last.agent == agent && last.slot == slot;
        self.last_run.as_ref().filter(is_same)?.open_session.as_deref()
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Items {
    changes: u64,
    known: BTreeMap<String, ItemView>,
}

impl Items {
    pub(super) fn started(&mut self, item: &str, id: &RunId, started: &RunStarted) {
        let view = self.touch(item);
        view.runs += 1;
        let (role, agent, slot) = (started.role, started.agent.clone(), started.slot);
        let id = Some(id.clone());
        view.last_run = Some(LastRun { id, role, agent, slot, open_session: None });
    }

    /// Notes the session of a run whose harness died.
    pub(super) fn abandoned(&mut self, item: &str, id: &RunId, session: Option<&str>) {
        if let Some(view) = self.known.get_mut(item)
            && let Some(last) = view.last_run.as_mut().filter(|last| last.id.as_ref() == Some(id))
        {
            last.open_session = session.map(str::to_owned);
        }
    }

    pub(super) fn finished(&mut self, item: &str, started: &RunStarted, finished: &RunFinished) {
        let view = self.touch(item);
        view.totals.add(finished);
        match &finished.outcome {
            RunOutcome::Completed
            | RunOutcome::TimedOut { .. }
            | RunOutcome::ContextFull
            | RunOutcome::Violation { .. } => *view.tries.entry(started.role).or_default() += 1,
            RunOutcome::Interrupted
            | RunOutcome::Trouble { trouble: Trouble::UsageLimit { .. } } => {
                if let Some(last) = &mut view.last_run {
                    last.open_session.clone_from(&finished.session);
                }
            }
            RunOutcome::Withdrawn | RunOutcome::Trouble { .. } => {}
        }
    }

    /// Returns the last run of an item.
    pub(super) fn last_run(&self, item: &str) -> Option<&RunId> {
        self.known.get(item)?.last_run.as_ref()?.id.as_ref()
    }

    pub(super) fn judged(&mut self, verdict: &VerdictReached, at: Timestamp) {
        let view = self.touch(&verdict.item);
        if verdict.verdict == VerdictKind::Accepted {
            view.tries.clear();
        }
        view.last_verdict = Some(LastVerdict { at, verdict: verdict.clone() });
    }

    pub(super) fn stepped(&mut self, step: &IterationResult) {
        if let (StepResult::Progress, Some(item)) = (step.result, &step.item)
            && let Some(view) = self.known.get_mut(item)
        {
            view.tries.clear();
        }
    }

    pub(super) fn get(&self, item: &str) -> Option<&ItemView> {
        self.known.get(item)
    }

    fn touch(&mut self, item: &str) -> &mut ItemView {
        self.changes += 1;
        let is_new = !self.known.contains_key(item);
        if is_new && self.known.len() >= MOST_ITEMS + MOST_ITEMS / 4 {
            let mut touched: Vec<u64> = self.known.values().map(|view| view.touched).collect();
            let at = touched.len() - MOST_ITEMS;
            let (_, oldest_kept, _) = touched.select_nth_unstable(at);
            let oldest_kept = *oldest_kept;
            self.known.retain(|_, view| view.touched >= oldest_kept);
        }
        let view = self.known.entry(item.to_owned()).or_default();
        view.touched = self.changes;
        view
    }
}
