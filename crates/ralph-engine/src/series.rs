//! The same prompt, run until it was answered often enough: limits are waited for, budgets kept, failures paced.
//!
//! This is the oldest loop there is (`while :; do cat PROMPT | agent; done`), with a harness around it. It takes no
//! position on whether the work is done: that is for the workflows, which judge.

use std::time::Duration;

use jiff::Timestamp;
use ralph_model::journal::{
    BackoffStarted, BudgetStop, JournalEntry, JournalEvent, LimitWaitEnded, LimitWaitStarted,
    Overview,
};
use ralph_model::policy::backoff::backoff;
use ralph_model::policy::budget::{self, Budget, BudgetExhausted, FinishedRun, RunResult, Spent};
use ralph_model::policy::limit::{LimitPolicy, LimitWait};
use ralph_model::policy::trouble::TroubleStreak;
use ralph_model::run::{RunOutcome, Trouble, UsageLimit};

use crate::files::PathError;
use crate::run::{RunContext, RunError, RunObserver, RunReport, RunRequest, run_agent};
use crate::wait::{Waited, Waiter};

/// How often and within which bounds.
#[derive(Clone, Copy, Debug)]
pub struct SeriesPolicy {
    /// How many runs are to complete.
    pub repeat: u32,
    pub budget: Budget,
    pub limit: LimitPolicy,
    /// Whether to wait for a usage limit to end.
    pub wait_for_limits: bool,
    /// The longest pause after failures in a row.
    pub longest_pause: Duration,
}

/// How a series ended.
#[derive(Clone, Debug, PartialEq)]
pub enum SeriesEnd {
    /// All runs completed.
    Completed,
    /// A run did not complete, and it was the only one asked for.
    Failed,
    /// The same trouble three times in a row.
    Stuck,
    /// The limit stands and nobody waits for it.
    Limited {
        wait: LimitWait,
    },
    OutOfBudget(BudgetExhausted),
    Interrupted,
}

/// Shows a series to whoever watches.
pub trait SeriesObserver {
    /// A run is about to begin. `number` counts completed runs.
    fn begin(&mut self, number: u32, resumed: bool) -> Box<dyn RunObserver>;
    /// A run ended. The observer that `begin` returned has been dropped.
    fn ended(&mut self, report: &RunReport);
    /// Waiting for a limit; called about once a second.
    fn waiting(&mut self, wait: LimitWait, left: Duration);
    /// Waiting after a failure.
    fn pausing(&mut self, left: Duration);
}

/// What a resumed session is told before the prompt it already knows.
pub(crate) const GO_ON: &str = "You were interrupted by a usage limit, which is over now. Go on with the task where you left \
     off. This is the task again:\n\n";

/// A series in progress.
pub struct Series<'a, 'c> {
    pub context: &'a mut RunContext<'c>,
    pub policy: SeriesPolicy,
    pub waiter: &'a mut dyn Waiter,
    pub observer: &'a mut dyn SeriesObserver,
    /// What the journal told when the command started.
    pub overview: Overview,
}

impl Series<'_, '_> {
    /// Runs the request as often as the policy says.
    pub fn run(&mut self, request: &RunRequest<'_>) -> Result<SeriesEnd, RunError> {
        let mut spent = Spent::default();
        let mut streak = TroubleStreak::default();
        let mut resume: Option<String> = None;
        let mut completed = 0;
        // A limit that was hit before a restart still stands: hitting it again would only prolong it.
        if let Some(wait) = self.overview.limit_wait(request.agent, self.context.clock.now())
            && let Some(end) = self.sit_out(request.agent, wait, Waiting::Again)?
        {
            return Ok(end);
        }
        while completed < self.policy.repeat {
            if let Err(exhausted) = budget::check(&self.policy.budget, &spent) {
                self.journal(JournalEvent::BudgetExhausted(BudgetStop { what: exhausted }))?;
                return Ok(SeriesEnd::OutOfBudget(exhausted));
            }
            let report = self.once(request, completed + 1, resume.take().as_deref())?;
            spent.apply(&finished_run(&report));
            streak.apply(&report.outcome);
            match &report.outcome {
                RunOutcome::Completed => completed += 1,
                RunOutcome::Interrupted => {
                    self.journal(JournalEvent::Interrupted)?;
                    return Ok(SeriesEnd::Interrupted);
                }
                RunOutcome::Trouble { trouble: Trouble::UsageLimit { resets_at } } => {
                    let wait = self.next_wait(request.agent, *resets_at);
                    if let Some(end) = self.sit_out(request.agent, wait, Waiting::Anew)? {
                        return Ok(end);
                    }
                    resume = session_to_resume(&report, request.adapter.traits().resumes);
                }
                _ if self.policy.repeat == 1 => return Ok(SeriesEnd::Failed),
                RunOutcome::Trouble { .. } if streak.stops().is_some() => {
                    return Ok(SeriesEnd::Stuck);
                }
                RunOutcome::Trouble { .. }
                | RunOutcome::TimedOut { .. }
                | RunOutcome::ContextFull
                | RunOutcome::Violation { .. } => {
                    let failures = spent.consecutive_failures.max(streak.length());
                    if self.pause(failures)? == Waited::Interrupted {
                        return Ok(SeriesEnd::Interrupted);
                    }
                }
            }
        }
        Ok(SeriesEnd::Completed)
    }

    fn once(
        &mut self,
        request: &RunRequest<'_>,
        number: u32,
        resume: Option<&str>,
    ) -> Result<RunReport, RunError> {
        let prompt = resume.map(|_| [GO_ON.as_bytes(), request.prompt].concat());
        let resumed = resume.is_some();
        let request = RunRequest {
            resume: resume.or(request.resume),
            prompt: prompt.as_deref().unwrap_or(request.prompt),
            ..*request
        };
        let mut observer = self.observer.begin(number, resumed || request.resume.is_some());
        let report = run_agent(self.context, &request, observer.as_mut())?;
        drop(observer);
        self.observer.ended(&report);
        let entry = JournalEntry {
            at: self.context.clock.now(),
            run: Some(report.id.clone()),
            event: report.journal_event(),
        };
        self.overview.apply(&entry);
        Ok(report)
    }

    fn next_wait(&self, agent: &str, resets_at: Option<Timestamp>) -> LimitWait {
        let unknown = self.overview.unknown_limits_in_a_row(agent);
        self.policy.limit.wait_until(UsageLimit { resets_at }, unknown, self.context.clock.now())
    }

    /// Waits for a limit to end. Returns an end if nobody is to wait, or the person interrupts.
    fn sit_out(
        &mut self,
        agent: &str,
        wait: LimitWait,
        waiting: Waiting,
    ) -> Result<Option<SeriesEnd>, PathError> {
        let LimitWait { until, known } = wait;
        if waiting == Waiting::Anew {
            // On disk before the wait begins: a restart in the middle of it goes on waiting.
            let started = LimitWaitStarted { agent: agent.to_owned(), until, known };
            self.journal(JournalEvent::LimitWaitStarted(started))?;
        }
        if !self.policy.wait_for_limits {
            return Ok(Some(SeriesEnd::Limited { wait }));
        }
        let observer = &mut *self.observer;
        let waited = self.waiter.wait_until(until, &mut |left| observer.waiting(wait, left));
        let interrupted = waited == Waited::Interrupted;
        let ended = LimitWaitEnded { agent: agent.to_owned(), interrupted };
        self.journal(JournalEvent::LimitWaitEnded(ended))?;
        Ok(interrupted.then_some(SeriesEnd::Interrupted))
    }

    fn pause(&mut self, failures: u32) -> Result<Waited, PathError> {
        let Some(wait) = backoff(failures, self.policy.longest_pause) else {
            return Ok(Waited::Reached);
        };
        let reason = "the last run did not complete".to_owned();
        self.journal(JournalEvent::BackoffStarted(BackoffStarted { wait, reason }))?;
        let now = self.context.clock.now();
        let until = now.checked_add(wait).unwrap_or(now);
        let observer = &mut *self.observer;
        let waited = self.waiter.wait_until(until, &mut |left| observer.pausing(left));
        if waited == Waited::Interrupted {
            self.journal(JournalEvent::Interrupted)?;
        }
        Ok(waited)
    }

    fn journal(&mut self, event: JournalEvent) -> Result<(), PathError> {
        let entry = JournalEntry { at: self.context.clock.now(), run: None, event };
        self.overview.apply(&entry);
        self.context.journal.record(&entry)
    }
}

/// Whether a wait is new or was begun before a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    Anew,
    Again,
}

/// A session is worth resuming if something had been done in it when the limit came.
pub(crate) fn session_to_resume(report: &RunReport, resumes: bool) -> Option<String> {
    let worked = report.facts.tool_calls > 0 || report.facts.last_text.is_some();
    report.facts.session.clone().filter(|_| worked && resumes)
}

pub(crate) fn finished_run(report: &RunReport) -> FinishedRun {
    let result = match report.outcome {
        RunOutcome::Completed => RunResult::Succeeded,
        RunOutcome::TimedOut { .. } | RunOutcome::ContextFull | RunOutcome::Violation { .. } => {
            RunResult::Failed
        }
        RunOutcome::Interrupted | RunOutcome::Trouble { .. } => RunResult::Troubled,
    };
    FinishedRun { result, usage: report.usage, cost_usd: report.cost_usd, duration: report.elapsed }
}
