//! What a session records, asks and waits for. Everything is in the journal before the call returns.

use std::time::Duration;

use jiff::Timestamp;
use ralph_model::journal::{
    BudgetStop, JournalEntry, JournalEvent, LimitWaitEnded, LimitWaitStarted, WorkflowEvent,
    WorkflowFields, WorkflowKind,
};
use ralph_model::policy::backoff::backoff;
use ralph_model::policy::budget::{self, BudgetExhausted};
use ralph_model::policy::limit::LimitWait;
use ralph_model::run::UsageLimit;

use super::Session;
use crate::files::PathError;
use crate::gates::GateError;
use crate::gates::pin::PinnedGates;
use crate::questions::Questions;
use crate::run::RunResult;
use crate::wait::{RealWaiter, Waited, Waiter};

impl Session<'_> {
    /// Records an event of the workflow, and shows it.
    pub(crate) fn tell(
        &mut self,
        kind: WorkflowKind,
        fields: WorkflowFields,
    ) -> Result<(), PathError> {
        let event = WorkflowEvent { kind, fields };
        self.observer.recorded(&event);
        self.record(JournalEvent::Workflow(Box::new(event)))
    }

    pub(crate) fn record(&mut self, event: JournalEvent) -> Result<(), PathError> {
        let entry = JournalEntry { at: self.context.clock.now(), run: None, event };
        self.journal.record(&entry)?;
        self.overview.apply(&entry);
        Ok(())
    }

    /// Records the end of a run whose Ralph died after it had kept the result and before it could record the end.
    pub(crate) fn record_missing_end(&mut self, result: &RunResult) -> Result<(), PathError> {
        let run = self.overview.runs().iter().find(|run| run.id == result.run);
        if run.is_some_and(|run| run.finished.is_some()) {
            return Ok(());
        }
        let event = JournalEvent::RunFinished(Box::new(result.finished.clone()));
        let entry = JournalEntry { at: result.at, run: Some(result.run.clone()), event };
        self.journal.record(&entry)?;
        self.overview.apply(&entry);
        Ok(())
    }

    /// Returns the budget that is used up, if one is, and records that.
    pub(crate) fn exhausted(&mut self) -> Result<Option<BudgetExhausted>, PathError> {
        let Err(what) = budget::check(&self.budget, &self.spent) else { return Ok(None) };
        self.record(JournalEvent::BudgetExhausted(BudgetStop { what }))?;
        Ok(Some(what))
    }

    /// Records that an agent is at its usage limit, before the wait begins: a restart in the middle of it goes on
    /// waiting.
    pub(crate) fn begin_limit_wait(
        &mut self,
        agent: &str,
        resets_at: Option<Timestamp>,
    ) -> Result<LimitWait, PathError> {
        let unknown = self.overview.unknown_limits_in_a_row(agent);
        let now = self.context.clock.now();
        let limit = UsageLimit { resets_at };
        let wait = self.context.limit_policy().wait_until(limit, unknown, now);
        let LimitWait { until, known } = wait;
        let started = LimitWaitStarted { agent: agent.to_owned(), until, known };
        self.record(JournalEvent::LimitWaitStarted(started))?;
        Ok(wait)
    }

    /// Waits for a usage limit to end. `None` where nobody is to wait for it.
    pub(crate) fn wait_for_limit(
        &mut self,
        agent: &str,
        wait: LimitWait,
        fields: WorkflowFields,
    ) -> Result<Option<Waited>, PathError> {
        let left = wait.until.duration_since(self.context.clock.now());
        let fields = WorkflowFields {
            agent: Some(agent.to_owned()),
            wait_seconds: Some(u64::try_from(left.as_secs()).unwrap_or(0)),
            reason: Some(if wait.known { "reset_seconds" } else { "unknown_reset" }.to_owned()),
            ..fields
        };
        self.tell(WorkflowKind::UsageLimitWait, fields)?;
        if !self.context.wait_for_limits {
            return Ok(None);
        }
        let waited = self.wait_until(wait.until, |observer, left| observer.waiting(wait, left));
        let interrupted = waited == Waited::Interrupted;
        let ended = LimitWaitEnded { agent: agent.to_owned(), interrupted };
        self.record(JournalEvent::LimitWaitEnded(ended))?;
        Ok(Some(waited))
    }

    /// Waits after so many failures in a row.
    pub(crate) fn pause(
        &mut self,
        failures: u32,
        fields: WorkflowFields,
    ) -> Result<Waited, PathError> {
        let Some(wait) = backoff(failures, self.context.config.limits.backoff) else {
            return Ok(Waited::Reached);
        };
        let fields = WorkflowFields { wait_seconds: Some(wait.as_secs()), ..fields };
        self.tell(WorkflowKind::BackoffWait, fields)?;
        let now = self.context.clock.now();
        let until = now.checked_add(wait).unwrap_or(now);
        Ok(self.wait_until(until, |observer, left| observer.pausing(left)))
    }

    fn wait_until(
        &mut self,
        until: Timestamp,
        show: impl Fn(&mut dyn super::WorkflowObserver, Duration),
    ) -> Waited {
        let context = &self.context;
        let observer = &mut *self.observer;
        RealWaiter { clock: context.clock, signals: Some(&context.signals) }
            .wait_until(until, &mut |left| show(observer, left))
    }

    /// Returns the gates of an item as they were pinned; a person's change since then is taken up and recorded.
    pub(crate) fn pin(
        &mut self,
        item: &str,
        fields: WorkflowFields,
    ) -> Result<PinnedGates, GateError> {
        let config = (self.reload)().ok();
        let config = config.as_ref().unwrap_or(&self.context.config);
        let (pinned, changes) = PinnedGates::keep(&self.context.state, item, config)?;
        if !changes.is_empty() {
            let changes: Vec<String> = changes.iter().map(ToString::to_string).collect();
            let fields = WorkflowFields { reason: Some(changes.join(", ")), ..fields };
            self.tell(WorkflowKind::GatesChanged, fields)?;
        }
        Ok(pinned)
    }

    /// The questions that wait for a person.
    pub(crate) fn questions(&mut self) -> Questions<'_> {
        Questions {
            journal: &mut self.journal,
            overview: &mut self.overview,
            clock: self.context.clock,
        }
    }
}
