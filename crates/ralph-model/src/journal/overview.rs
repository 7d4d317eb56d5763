//! What the journal adds up to: the runs, what they cost, and what is being waited for.
//!
//! An overview is a fold and nothing else, so that a restart, `ralph status` and a view that follows along know the
//! same. It speaks of what was written down: whether a run without an end still lives is for the run lock to say.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use jiff::Timestamp;

use super::questions::{Question, QuestionLog};
use super::{JournalEntry, JournalEvent, RunFinished, RunStarted};
use crate::id::RunId;
use crate::policy::limit::LimitWait;
use crate::run::{RunOutcome, Trouble};
use crate::usage::Usage;

/// Everything the journal tells, folded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overview {
    runs: Vec<RunView>,
    /// Where each run stands in `runs`.
    places: HashMap<RunId, usize>,
    totals: Totals,
    limits: BTreeMap<String, AgentLimit>,
    questions: QuestionLog,
}

/// One run as the journal knows it.
#[derive(Clone, Debug, PartialEq)]
pub struct RunView {
    pub id: RunId,
    /// Missing where the journal begins in the middle of a run.
    pub started: Option<(Timestamp, Box<RunStarted>)>,
    pub finished: Option<(Timestamp, Box<RunFinished>)>,
    /// When its leftovers were ended, because its harness had died.
    pub abandoned: Option<Timestamp>,
}

/// How far a run has come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RunState<'a> {
    /// It has begun, and nothing tells of its end.
    Running,
    Finished(&'a RunFinished),
    /// Its harness died before it ended.
    Abandoned,
}

impl RunView {
    pub fn state(&self) -> RunState<'_> {
        match (&self.finished, self.abandoned) {
            (Some((_, finished)), _) => RunState::Finished(finished),
            (None, Some(_)) => RunState::Abandoned,
            (None, None) => RunState::Running,
        }
    }
}

/// Sums over all finished runs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Totals {
    pub finished_runs: u64,
    pub usage: Usage,
    pub cost_usd: f64,
    /// Whether some of the cost is an estimate.
    pub cost_is_estimate: bool,
    /// Runs of which nobody knows the cost.
    pub runs_without_cost: u64,
    pub duration: Duration,
}

/// Where an agent stands with its limit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct AgentLimit {
    wait: Option<LimitWait>,
    unknown_in_a_row: u32,
}

impl Overview {
    /// Takes one entry into account.
    pub fn apply(&mut self, entry: &JournalEntry) {
        match &entry.event {
            JournalEvent::RunStarted(started) => {
                if let Some(id) = &entry.run {
                    let run = self.run_mut(id);
                    run.started.get_or_insert_with(|| (entry.at, started.clone()));
                }
            }
            JournalEvent::RunFinished(finished) => self.apply_finish(entry, finished),
            JournalEvent::LimitWaitStarted(started) => {
                let limit = self.limits.entry(started.agent.clone()).or_default();
                limit.wait = Some(LimitWait { until: started.until, known: started.known });
                // A known reset between two unknown ones does not show that the agent got through.
                if !started.known {
                    limit.unknown_in_a_row = limit.unknown_in_a_row.saturating_add(1);
                }
            }
            JournalEvent::LimitWaitEnded(ended) => {
                // Whoever stops waiting does not end the limit: the next start goes on with the same wait.
                if !ended.interrupted
                    && let Some(limit) = self.limits.get_mut(&ended.agent)
                {
                    limit.wait = None;
                }
            }
            JournalEvent::LeftoversEnded(_) => {
                // Gates are ended like runs and have ids of their own: what never began as a run is none.
                let place = entry.run.as_ref().and_then(|id| self.places.get(id));
                if let Some(place) = place {
                    self.runs[*place].abandoned = Some(entry.at);
                }
            }
            JournalEvent::QuestionAsked(_)
            | JournalEvent::QuestionAnswered(_)
            | JournalEvent::AnswerTaken(_) => self.questions.apply(entry),
            JournalEvent::BackoffStarted(_)
            | JournalEvent::BudgetExhausted(_)
            | JournalEvent::Interrupted
            | JournalEvent::BoundaryCrossed(_)
            | JournalEvent::StateRebuilt(_)
            | JournalEvent::MutationRequested(_)
            | JournalEvent::RequestIgnored(_)
            | JournalEvent::Workflow(_)
            | JournalEvent::Unknown(_) => {}
        }
    }

    fn apply_finish(&mut self, entry: &JournalEntry, finished: &RunFinished) {
        if let Some(id) = &entry.run {
            let run = self.run_mut(id);
            if run.finished.is_some() {
                // Told twice, by a harness that died between writing it down and knowing so.
                return;
            }
            run.finished = Some((entry.at, Box::new(finished.clone())));
            let agent = run.started.as_ref().map(|(_, started)| started.agent.clone());
            let limited = matches!(
                finished.outcome,
                RunOutcome::Trouble { trouble: Trouble::UsageLimit { .. } }
            );
            if !limited && let Some(limit) = agent.and_then(|agent| self.limits.get_mut(&agent)) {
                limit.unknown_in_a_row = 0;
            }
        }
        let totals = &mut self.totals;
        totals.finished_runs += 1;
        totals.usage += finished.usage;
        totals.duration = totals.duration.saturating_add(finished.duration);
        match finished.cost_usd {
            Some(usd) => {
                totals.cost_usd += usd;
                totals.cost_is_estimate |= finished.cost_is_estimate;
            }
            None => totals.runs_without_cost += 1,
        }
    }

    /// Returns the run of that id, as one not heard of before if need be.
    fn run_mut(&mut self, id: &RunId) -> &mut RunView {
        let place = *self.places.entry(id.clone()).or_insert_with(|| {
            let id = id.clone();
            self.runs.push(RunView { id, started: None, finished: None, abandoned: None });
            self.runs.len() - 1
        });
        &mut self.runs[place]
    }

    /// All runs, in the order in which they were first told of.
    pub fn runs(&self) -> &[RunView] {
        &self.runs
    }

    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Returns the wait that an agent is still to sit out, as of `now`.
    pub fn limit_wait(&self, agent: &str, now: Timestamp) -> Option<LimitWait> {
        self.limits.get(agent)?.wait.filter(|wait| wait.until > now)
    }

    /// Returns all waits that are still to be sat out, by agent.
    pub fn limit_waits(&self, now: Timestamp) -> impl Iterator<Item = (&str, LimitWait)> {
        let waits = self.limits.iter().filter_map(|(agent, limit)| Some((agent, limit.wait?)));
        waits.filter(move |(_, wait)| wait.until > now).map(|(agent, wait)| (agent.as_str(), wait))
    }

    /// How many waits without a known reset an agent had since it last got through, for the length of the next one.
    pub fn unknown_limits_in_a_row(&self, agent: &str) -> u32 {
        self.limits.get(agent).map_or(0, |limit| limit.unknown_in_a_row)
    }

    /// The questions that wait for a person, the oldest first.
    pub fn open_questions(&self) -> impl Iterator<Item = &Question> {
        self.questions.unsettled().iter().filter(|question| question.answer.is_none())
    }

    /// The answered question of an item whose workflow has not gone on yet.
    pub fn answered(&self, item: &str) -> Option<&Question> {
        let mut unsettled = self.questions.unsettled().iter();
        unsettled.find(|question| question.item == item && question.answer.is_some())
    }

    /// How many questions were ever asked.
    pub fn questions_asked(&self) -> u64 {
        self.questions.asked()
    }
}

#[cfg(test)]
#[path = "overview_tests.rs"]
mod tests;
