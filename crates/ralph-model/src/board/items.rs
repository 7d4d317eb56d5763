//! What is known of the items that were worked on last.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Totals;
use crate::journal::{
    IterationResult, RunFinished, RunStarted, StepResult, VerdictKind, VerdictReached,
};
use crate::role::Role;
use crate::run::{RunOutcome, Trouble};

/// How many items are kept. A quarter more is let in before the oldest are dropped, as dropping looks at all of them.
const MOST_ITEMS: usize = 8000;

/// One item: a spec, a task, or a step that has no other name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ItemView {
    /// Which of all changes to items was the last one to this.
    touched: u64,
    /// How many runs were started for it.
    pub runs: u64,
    pub totals: Totals,
    /// By role, how many runs came to an end that says something of the work, since the item last got through.
    pub tries: BTreeMap<Role, u32>,
    pub last_verdict: Option<LastVerdict>,
    /// The last run that is known, and the session it left if it hit its usage limit.
    last_run: Option<LastRun>,
}

/// What was decided on an item last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LastVerdict {
    pub at: Timestamp,
    pub verdict: VerdictReached,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct LastRun {
    role: Role,
    agent: String,
    limited_session: Option<String>,
}

impl ItemView {
    /// Returns the session of the item's last run, if that was of this role and agent and hit its usage limit.
    pub fn limited_session(&self, role: Role, agent: &str) -> Option<&str> {
        let last =
            self.last_run.as_ref().filter(|last| last.role == role && last.agent == agent)?;
        last.limited_session.as_deref()
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Items {
    changes: u64,
    known: BTreeMap<String, ItemView>,
}

impl Items {
    pub(super) fn started(&mut self, item: &str, started: &RunStarted) {
        let view = self.touch(item);
        view.runs += 1;
        let (role, agent) = (started.role, started.agent.clone());
        view.last_run = Some(LastRun { role, agent, limited_session: None });
    }

    pub(super) fn finished(&mut self, item: &str, started: &RunStarted, finished: &RunFinished) {
        let view = self.touch(item);
        view.totals.add(finished);
        match &finished.outcome {
            RunOutcome::Completed
            | RunOutcome::TimedOut { .. }
            | RunOutcome::ContextFull
            | RunOutcome::Violation { .. } => *view.tries.entry(started.role).or_default() += 1,
            RunOutcome::Trouble { trouble: Trouble::UsageLimit { .. } } => {
                if let Some(last) = &mut view.last_run {
                    last.limited_session.clone_from(&finished.session);
                }
            }
            RunOutcome::Interrupted | RunOutcome::Trouble { .. } => {}
        }
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
