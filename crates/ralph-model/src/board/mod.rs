//! The journal folded into a summary: runs, items, sums, gates, questions, waits, and the workflows themselves.
//!
//! A board is purely a fold, so a restart, `ralph status` and a live view all have the same state. It only reflects
//! what was recorded: whether a run without a recorded end is still alive is determined by the run lock.
//!
//! Invariants: memory is bounded however long the journal is; folding a prefix, serialising the board, reading it back
//! and folding the rest gives the same as folding everything. The bounds never drop data that decisions depend on,
//! except for items and runs followed by thousands of others.

mod gates;
mod items;
mod questions;
mod runs;
mod sums;
mod workflows;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use self::gates::GateTimes;
pub use self::items::{ItemView, LastVerdict};
pub use self::questions::Question;
pub use self::runs::{RunState, RunView};
pub use self::sums::{SumRow, Totals};
pub use self::workflows::{Activity, WorkflowView};

use self::items::Items;
use self::questions::QuestionLog;
use self::runs::RunLog;
use self::sums::Sums;
use self::workflows::WorkflowLog;
use crate::id::RunId;
use crate::journal::{Envelope, JournalEntry, JournalEvent, JournalLineError, RunFinished};
use crate::policy::limit::{LimitHolder, LimitWait};
use crate::role::Role;
use crate::run::{RunOutcome, Trouble};

/// Incremented whenever the same journal folds into a different board; snapshots of older versions are discarded.
pub const BOARD_VERSION: u32 = 4;

/// The event kinds that affect a board. The data of all other kinds is skipped without parsing.
const FOLDED: &[&str] = &[
    "run_started",
    "run_finished",
    "gate_finished",
    "gate_started",
    "iteration_start",
    "iteration_result",
    "verdict",
    "verify_start",
    "landed",
    "workflow_started",
    "workflow_ended",
    "usage_limit_wait",
    "backoff_wait",
    "limit_wait_started",
    "limit_wait_ended",
    "leftovers_ended",
    "question_asked",
    "question_answered",
    "answer_taken",
    "budget_near",
    "budget_exhausted",
    "build_start",
    "build_result",
];

/// The folded state of the whole journal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Board {
    runs: RunLog,
    totals: Totals,
    sums: Sums,
    items: Items,
    /// The item that the last run of each role was for.
    last_items: BTreeMap<Role, String>,
    gates: BTreeMap<String, GateTimes>,
    limits: BTreeMap<String, AgentLimit>,
    questions: QuestionLog,
    workflows: WorkflowLog,
    /// The current iteration of the build loop.
    iteration: u32,
}

/// The usage-limit state of an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct AgentLimit {
    holder: LimitHolder,
    wait: Option<LimitWait>,
    unknown_in_a_row: u32,
    in_a_row: u32,
}

impl Board {
    /// Applies one line of the journal, without its line end.
    pub fn apply_line(&mut self, line: &str) -> Result<(), JournalLineError> {
        if let Some(envelope) = Envelope::as_written(line) {
            if !FOLDED.contains(&envelope.event()) {
                return Ok(());
            }
            if let Ok(entry) = envelope.into_entry() {
                self.apply(&entry);
                return Ok(());
            }
        }
        // Not in this version's format, or not an entry at all: this parse returns the reason.
        let envelope = Envelope::parse(line.as_bytes())?;
        if FOLDED.contains(&envelope.event()) {
            self.apply(&envelope.into_entry()?);
        }
        Ok(())
    }

    /// Applies one entry.
    pub fn apply(&mut self, entry: &JournalEntry) {
        match &entry.event {
            JournalEvent::RunStarted(started) => {
                if let Some(id) = &entry.run {
                    if let Some(item) = &started.item {
                        self.items.started(item, id, started);
                        self.last_items.insert(started.role, item.clone());
                    }
                    self.runs.started(id, entry.at, started);
                }
            }
            JournalEvent::RunFinished(finished) => self.apply_finish(entry, finished),
            JournalEvent::LimitWaitStarted(started) => {
                let (agent, account) = (started.agent.clone(), started.account.clone());
                let holder = LimitHolder { agent, account };
                let limit = self.limits.entry(holder.key()).or_insert(AgentLimit {
                    holder,
                    wait: None,
                    unknown_in_a_row: 0,
                    in_a_row: 0,
                });
                if started.worked {
                    (limit.in_a_row, limit.unknown_in_a_row) = (0, 0);
                }
                limit.in_a_row = limit.in_a_row.saturating_add(1);
                limit.wait = Some(LimitWait { until: started.until, known: started.known });
                // A known reset between two unknown ones does not show that the agent got through.
                if !started.known {
                    limit.unknown_in_a_row = limit.unknown_in_a_row.saturating_add(1);
                }
            }
            JournalEvent::LimitWaitEnded(ended) => {
                // Interrupting the wait does not end the limit: the next start continues the same wait.
                let (agent, account) = (ended.agent.clone(), ended.account.clone());
                let key = LimitHolder { agent, account }.key();
                if ended.cleared {
                    self.limits.remove(&key);
                } else if !ended.interrupted
                    && let Some(limit) = self.limits.get_mut(&key)
                {
                    limit.wait = None;
                }
            }
            JournalEvent::LeftoversEnded(ended) => {
                if let Some(id) = &entry.run {
                    self.runs.abandoned(id, entry.at);
                    let started = self.runs.get(id).filter(|run| run.finished.is_none());
                    let started = started.and_then(|run| run.started.as_ref());
                    if let Some(item) = started.and_then(|(_, started)| started.item.as_deref()) {
                        self.items.abandoned(item, id, ended.session.as_deref());
                    }
                }
            }
            JournalEvent::QuestionAsked(_)
            | JournalEvent::QuestionAnswered(_)
            | JournalEvent::AnswerTaken(_) => self.questions.apply(entry),
            JournalEvent::GateFinished(finished) => {
                gates::apply(&mut self.gates, finished, entry.at);
            }
            JournalEvent::Verdict(verdict) => {
                self.items.judged(verdict, entry.at);
                if let Some(run) = self.last_run_of(&verdict.item) {
                    run.verdict = Some(verdict.clone());
                }
            }
            JournalEvent::VerifyStart(verify) => {
                if let Some(run) = self.last_run_of(&verify.item) {
                    run.candidate = Some(verify.commit.clone());
                }
            }
            JournalEvent::Landed(landed) => {
                if let Some(run) = self.last_run_of(&landed.item) {
                    run.landed = Some(landed.commit.clone());
                }
            }
            JournalEvent::IterationStart(started) => {
                self.iteration = started.iteration.unwrap_or(self.iteration + 1);
            }
            JournalEvent::IterationResult(result) => self.items.stepped(result),
            JournalEvent::BuildStart(_) | JournalEvent::BuildResult(_) => self.iteration = 0,
            _ => {}
        }
        self.workflows.apply(entry);
    }

    fn last_run_of(&mut self, item: &str) -> Option<&mut RunView> {
        let id = self.items.last_run(item)?.clone();
        self.runs.get_mut(&id)
    }

    fn apply_finish(&mut self, entry: &JournalEntry, finished: &RunFinished) {
        let started = match &entry.run {
            None => None,
            Some(id) => match self.runs.finished(id, entry.at, finished) {
                // Recorded twice: the harness died after writing it and before noting that.
                None => return,
                Some(run) => run.started.as_ref().map(|(_, started)| started.clone()),
            },
        };
        let started = started.as_deref();
        if let Some(started) = started {
            let limited = matches!(
                finished.outcome,
                RunOutcome::Trouble { trouble: Trouble::UsageLimit { .. } }
            );
            // The entry does not say which login it was. A success of one login only shortens the waits of another.
            let of_agent = |limit: &&mut AgentLimit| limit.holder.agent == started.agent;
            for limit in self.limits.values_mut().filter(of_agent).filter(|_| !limited) {
                limit.unknown_in_a_row = 0;
                limit.in_a_row = 0;
            }
            if let Some(item) = &started.item {
                self.items.finished(item, started, finished);
            }
        }
        self.totals.add(finished);
        self.sums.add(entry.at, started, finished);
    }

    /// Marks every run without a recorded end as abandoned unless it is still running. The journal does not know which
    /// processes are alive.
    pub fn abandon_all_but(&mut self, is_under_way: impl Fn(&RunId) -> bool) {
        self.runs.abandon_all_but(is_under_way);
    }

    /// The last runs, in the order in which they first appear in the journal.
    pub fn runs(&self) -> impl DoubleEndedIterator<Item = &RunView> + ExactSizeIterator {
        self.runs.recent()
    }

    /// Returns a run that is among the last, or that has no recorded end.
    pub fn run(&self, id: &RunId) -> Option<&RunView> {
        self.runs.get(id)
    }

    /// Sums over all runs.
    pub const fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Sums by day, agent, model and role; the oldest first.
    pub fn sums(&self) -> &[SumRow] {
        self.sums.rows()
    }

    /// The state of an item, if it is among the most recently worked-on ones.
    pub fn item(&self, item: &str) -> Option<&ItemView> {
        self.items.get(item)
    }

    /// Returns the number of the next run of an item and role, not counting runs that were cut short by trouble.
    pub fn next_try(&self, item: &str, role: Role) -> u32 {
        self.item(item).and_then(|view| view.tries.get(&role)).copied().unwrap_or(0) + 1
    }

    /// The item that the last run of a role was for.
    pub fn last_item(&self, role: Role) -> Option<&str> {
        self.last_items.get(&role).map(String::as_str)
    }

    /// Durations and results of gates, by name.
    pub const fn gates(&self) -> &BTreeMap<String, GateTimes> {
        &self.gates
    }

    /// The last workflows, the latest last.
    pub fn workflows(&self) -> impl DoubleEndedIterator<Item = &WorkflowView> {
        self.workflows.recent()
    }

    /// The current iteration of the build loop, if a loop is running.
    pub const fn iteration(&self) -> u32 {
        self.iteration
    }

    /// Returns an agent's remaining wait, as of `now`.
    pub fn limit_wait(&self, holder: &LimitHolder, now: Timestamp) -> Option<LimitWait> {
        self.limits.get(&holder.key())?.wait.filter(|wait| wait.until > now)
    }

    /// Returns all remaining waits, by agent.
    pub fn limit_waits(&self, now: Timestamp) -> impl Iterator<Item = (&LimitHolder, LimitWait)> {
        let waits = self.limits.values().filter_map(|limit| Some((&limit.holder, limit.wait?)));
        waits.filter(move |(_, wait)| wait.until > now)
    }

    /// Returns who has waited for a limit since it last got through, or is to wait.
    pub fn limited(&self) -> impl Iterator<Item = &LimitHolder> {
        let is_limited = |limit: &&AgentLimit| limit.wait.is_some() || limit.in_a_row > 0;
        self.limits.values().filter(is_limited).map(|limit| &limit.holder)
    }

    /// How many waits without a known reset an agent had since it last got through, for the length of the next one.
    pub fn unknown_limits_in_a_row(&self, holder: &LimitHolder) -> u32 {
        self.limits.get(&holder.key()).map_or(0, |limit| limit.unknown_in_a_row)
    }

    /// How many waits an agent had since its last success.
    pub fn limits_in_a_row(&self, holder: &LimitHolder) -> u32 {
        self.limits.get(&holder.key()).map_or(0, |limit| limit.in_a_row)
    }

    /// The unanswered questions, oldest first.
    pub fn open_questions(&self) -> impl Iterator<Item = &Question> {
        self.questions.unsettled().iter().filter(|question| question.answer.is_none())
    }

    /// The answered questions whose workflows have not continued yet, oldest first.
    pub fn answered_questions(&self) -> impl Iterator<Item = &Question> {
        self.questions.unsettled().iter().filter(|question| question.answer.is_some())
    }

    /// The answered question of an item whose workflow has not continued yet.
    pub fn answered(&self, item: &str) -> Option<&Question> {
        self.answered_questions().find(|question| question.item == item)
    }

    /// The total number of questions asked.
    pub const fn questions_asked(&self) -> u64 {
        self.questions.asked()
    }
}

#[cfg(test)]
#[path = "board_tests.rs"]
mod tests;
