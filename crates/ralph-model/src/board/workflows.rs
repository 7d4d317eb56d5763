//! The last workflows: how they were started, their current activity, what they spent, and how they ended.

use std::collections::VecDeque;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::Totals;
use crate::id::RunId;
use crate::journal::{JournalEntry, JournalEvent, WorkflowStarted};
use crate::policy::budget::BudgetExhausted;

/// How many workflows are kept.
const MOST_WORKFLOWS: usize = 20;

/// One workflow, from its start to its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkflowView {
    pub at: Timestamp,
    pub started: WorkflowStarted,
    /// When it ended, and how. A workflow that was killed has no end.
    pub ended: Option<(Timestamp, String)>,
    /// Its latest activity, and since when.
    pub activity: Option<(Timestamp, Activity)>,
    pub spent: Totals,
    /// The parts of the budget that are nearly or fully used up.
    pub budget: Vec<BudgetExhausted>,
}

/// The current activity of a workflow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Activity {
    Run {
        run: RunId,
        item: Option<String>,
    },
    Gate {
        gate: String,
        item: Option<String>,
    },
    /// It waits for a usage limit to end.
    Limit {
        agent: String,
        until: Option<Timestamp>,
    },
    /// It waits after a failure.
    Backoff {
        until: Option<Timestamp>,
    },
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct WorkflowLog {
    recent: VecDeque<WorkflowView>,
}

impl WorkflowLog {
    pub(super) fn apply(&mut self, entry: &JournalEntry) {
        if let JournalEvent::WorkflowStarted(started) = &entry.event {
            if self.recent.len() == MOST_WORKFLOWS {
                self.recent.pop_front();
            }
            self.recent.push_back(WorkflowView {
                at: entry.at,
                started: (**started).clone(),
                ended: None,
                activity: None,
                spent: Totals::default(),
                budget: Vec::new(),
            });
            return;
        }
        let Some(wf) = &entry.wf else { return };
        let Some(view) = self.recent.iter_mut().rev().find(|view| view.started.id == *wf) else {
            return;
        };
        let activity = match &entry.event {
            JournalEvent::RunStarted(started) => entry.run.as_ref().map(|run| {
                let item = started.item.clone();
                Activity::Run { run: run.clone(), item }
            }),
            JournalEvent::GateStarted(started) => {
                let (gate, item) = (started.gate.clone(), started.item.clone());
                Some(Activity::Gate { gate, item })
            }
            JournalEvent::UsageLimitWait(wait) => {
                Some(Activity::Limit { agent: wait.agent.clone(), until: wait.until })
            }
            JournalEvent::BackoffWait(wait) => {
                let seconds = wait.wait_seconds.and_then(|seconds| i64::try_from(seconds).ok());
                let wait = seconds.map(SignedDuration::from_secs);
                let until = wait.and_then(|wait| entry.at.checked_add(wait).ok());
                Some(Activity::Backoff { until })
            }
            JournalEvent::RunFinished(finished) => {
                view.spent.add(finished);
                None
            }
            JournalEvent::WorkflowEnded(ended) => {
                view.ended = Some((entry.at, ended.how.clone()));
                None
            }
            JournalEvent::BudgetNear(near) => {
                view.note_budget(near.what);
                return;
            }
            JournalEvent::BudgetExhausted(stop) => {
                view.note_budget(stop.what);
                return;
            }
            JournalEvent::GateFinished(_) | JournalEvent::LimitWaitEnded(_) => None,
            _ => return,
        };
        view.activity = activity.map(|activity| (entry.at, activity));
    }

    pub(super) fn recent(&self) -> impl DoubleEndedIterator<Item = &WorkflowView> {
        self.recent.iter()
    }
}

impl WorkflowView {
    fn note_budget(&mut self, what: BudgetExhausted) {
        let same = |known: &BudgetExhausted| {
            std::mem::discriminant(known) == std::mem::discriminant(&what)
        };
        self.budget.retain(|known| !same(known));
        self.budget.push(what);
    }
}
