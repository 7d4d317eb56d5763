//! A session's records, questions and waits. Everything is in the journal before the call returns.

use std::mem::discriminant;
use std::time::Duration;

use jiff::Timestamp;
use ralph_model::journal::{
    BackoffWait, BudgetNear, BudgetStop, GatesChanged, JournalEvent, LimitWaitEnded,
    LimitWaitStarted, Note, UsageLimitWait,
};
use ralph_model::policy::backoff::backoff;
use ralph_model::policy::budget::{self, BudgetExhausted};
use ralph_model::policy::limit::{LimitHolder, LimitWait};
use ralph_model::run::{RunOutcome, Trouble, UsageLimit};
use ralph_proc::signal::SignalRequest;

use super::Session;
use crate::config::{Config, LoopSettings};
use crate::files::PathError;
use crate::gates::GateError;
use crate::gates::pin::PinnedGates;
use crate::questions::Questions;
use crate::run::{RESULTS, RunResult};
use crate::wait::Waited;
use crate::workflow::driver::Subject;

impl Session<'_> {
    /// Records an event and passes it to the session's subscribers.
    pub(crate) fn record(&mut self, event: impl Into<JournalEvent>) -> Result<(), PathError> {
        self.journal.record(self.context.clock.now(), None, event)
    }

    /// Reports unreadable records of private state that were kept aside.
    pub(crate) fn tell_damaged(&mut self) -> Result<(), PathError> {
        for damaged in self.context.state.untold() {
            // Recorded first: after a crash between the two it is recorded again.
            self.record(Note { reason: damaged.reason.clone(), ..Note::default() })?;
            damaged.was_told()?;
        }
        Ok(())
    }

    /// Records the end of a run whose Ralph died after storing the result and before recording the end. Returns the
    /// result of the run.
    pub(crate) fn record_missing_end(&mut self, result: RunResult) -> Result<RunResult, PathError> {
        // A run unknown to the board is from long ago, and has its end.
        let Some(run) = self.journal.board().run(&result.run) else { return Ok(result) };
        if let Some((_, finished)) = &run.finished {
            // A result that could not be stored may exist anyway. The run counts as a machine fault, and is repeated.
            return Ok(match &finished.outcome {
                spoilt @ RunOutcome::Trouble { trouble: Trouble::Machine { .. } } => {
                    RunResult { outcome: spoilt.clone(), ..result }
                }
                _ => result,
            });
        }
        // A Ralph that died while storing the result may have left it visible but not durable. Once its end is in the
        // journal it must not get lost.
        if !result.item.is_empty() {
            RESULTS.save(&self.context.state, &result.item, &result)?;
        }
        self.journal.record(result.at, Some(&result.run), result.finished.clone())?;
        Ok(result)
    }

    /// Returns the exhausted budget, if any, and records that; a nearly exhausted one is recorded once.
    pub(crate) fn exhausted(&mut self) -> Result<Option<BudgetExhausted>, PathError> {
        let near: Vec<BudgetExhausted> = budget::near(&self.budget, &self.spent).collect();
        for what in near {
            if !self.told_near.contains(&discriminant(&what)) {
                self.told_near.push(discriminant(&what));
                self.record(BudgetNear { what })?;
            }
        }
        let Err(what) = budget::check(&self.budget, &self.spent) else { return Ok(None) };
        self.record(BudgetStop { what })?;
        Ok(Some(what))
    }

    /// Records that an agent is at its usage limit, before the wait begins: after a restart in the middle of it, the
    /// wait continues.
    pub(crate) fn begin_limit_wait(
        &mut self,
        holder: &LimitHolder,
        resets_at: Option<Timestamp>,
        worked: bool,
    ) -> Result<LimitWait, PathError> {
        let board = self.journal.board();
        let (unknown, all) = if worked {
            (0, 0)
        } else {
            (board.unknown_limits_in_a_row(holder), board.limits_in_a_row(holder))
        };
        let now = self.context.clock.now();
        let (policy, limit) = (self.context.limit_policy(), UsageLimit { resets_at });
        let wait = policy.no_shorter(policy.wait_until(limit, unknown, now), all, now);
        let LimitWait { until, known } = wait;
        let LimitHolder { agent, account } = holder.clone();
        let started = LimitWaitStarted { agent, account, until, known, worked };
        self.record(started)?;
        Ok(wait)
    }

    /// Waits for a usage limit to end. `None` if waiting is disabled.
    pub(crate) fn wait_for_limit(
        &mut self,
        holder: &LimitHolder,
        wait: LimitWait,
        subject: Subject,
    ) -> Result<Option<Waited>, PathError> {
        let left = wait.until.duration_since(self.context.clock.now());
        let seconds = u64::try_from(left.as_secs()).unwrap_or(0);
        let margin = self.context.config.limits.margin.as_secs();
        let Subject { spec, item, phase } = subject;
        self.record(UsageLimitWait {
            spec,
            item,
            phase,
            agent: holder.agent.clone(),
            wait_seconds: Some(seconds),
            reset_seconds: wait.known.then(|| seconds.saturating_sub(margin)),
            reason: if wait.known { "reset_seconds" } else { "unknown_reset" }.to_owned(),
            until: Some(wait.until),
        })?;
        if !self.context.wait_for_limits {
            return Ok(None);
        }
        let waited = self.wait_until(wait.until);
        let interrupted = waited == Waited::Interrupted;
        let LimitHolder { agent, account } = holder.clone();
        self.record(LimitWaitEnded { agent, account, interrupted, cleared: false })?;
        Ok(Some(waited))
    }

    /// Waits after consecutive failures.
    pub(crate) fn pause(
        &mut self,
        failures: u32,
        reason: Option<&str>,
        subject: Subject,
    ) -> Result<Waited, PathError> {
        let Some(wait) = backoff(failures, self.context.config.limits.backoff) else {
            return Ok(Waited::Reached);
        };
        let Subject { spec, item, phase } = subject;
        let (wait_seconds, reason) = (Some(wait.as_secs()), reason.map(str::to_owned));
        self.record(BackoffWait { spec, item, phase, wait_seconds, reason })?;
        Ok(self.wait(wait))
    }

    /// Whether the person has asked to stop; consumes the request.
    pub(crate) fn is_asked_to_stop(&self) -> bool {
        let signals = self.context.signals.as_ref();
        signals.is_some_and(|signals| signals.wait(Duration::ZERO) == Some(SignalRequest::Stop))
    }

    /// Waits for some time; the person may interrupt it.
    pub(crate) fn wait(&mut self, span: Duration) -> Waited {
        let now = self.context.clock.now();
        self.wait_until(now.checked_add(span).unwrap_or(now))
    }

    fn wait_until(&mut self, until: Timestamp) -> Waited {
        let Session { context, journal, waiter, .. } = self;
        let mut tick = |left| journal.waiting(left);
        waiter.wait_until(context.clock, context.signals.as_ref(), until, &mut tick)
    }

    /// Returns the pinned gates of an item; a person's change since then is taken over and recorded.
    pub(crate) fn pin(&mut self, item: &str, subject: Subject) -> Result<PinnedGates, GateError> {
        let config = (self.reload)().ok();
        let config = config.as_ref().unwrap_or(&self.context.config);
        if !config.is_trusted() {
            // Armed settings have changed meanwhile: an item in progress continues with its pins, the next one waits
            // for the person.
            let kept = PinnedGates::load(&self.context.state, item)?;
            return kept.ok_or(GateError::Untrusted);
        }
        let (pinned, changes) = PinnedGates::keep(&self.context.state, item, config)?;
        if !changes.is_empty() {
            let changes: Vec<String> = changes.iter().map(ToString::to_string).collect();
            let (reason, Subject { spec, item, .. }) = (changes.join(", "), subject);
            let task = item.filter(|_| spec.is_none());
            self.record(GatesChanged { spec, task, reason })?;
        }
        Ok(pinned)
    }

    /// Returns the person's current settings of the loop: between two runs, any change by an agent has been reverted.
    pub(crate) fn loop_settings(&self) -> LoopSettings {
        let config = (self.reload)().ok().filter(Config::is_trusted);
        config.as_ref().unwrap_or(&self.context.config).loop_settings.clone()
    }

    /// The unanswered questions.
    pub(crate) fn questions(&mut self) -> Questions<'_> {
        Questions { journal: &mut self.journal, clock: self.context.clock }
    }
}
