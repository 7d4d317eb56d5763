//! Running an agent for a workflow: budgets before it, usage limits waited for, its result kept until it is taken.
//!
//! A step is one run, or several of the same attempt where a limit came between. What came of it is for the workflow to
//! say; here nothing is concluded but that a limit is to be waited for.

use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use jiff::Timestamp;
use ralph_model::journal::{
    BudgetStop, JournalEntry, JournalEvent, LimitWaitEnded, LimitWaitStarted, Overview,
    WorkflowEvent, WorkflowFields, WorkflowKind,
};
use ralph_model::policy::backoff::backoff;
use ralph_model::policy::budget::{self, Budget, BudgetExhausted, Spent};
use ralph_model::policy::limit::{LimitPolicy, LimitWait};
use ralph_model::role::Role;
use ralph_model::run::{RunOutcome, Trouble, UsageLimit};

use super::WorkflowError;
use crate::boundary::InForce;
use crate::config::{Config, ConfigError};
use crate::files::PathError;
use crate::gates::pin::PinnedGates;
use crate::launch::Launch;
use crate::outbox::Outbox;
use crate::questions::Questions;
use crate::run::{RunContext, RunError, RunObserver, RunReport, RunResult, run_agent};
use crate::series::{GO_ON, finished_run, session_to_resume};
use crate::wait::{Waited, Waiter};

/// What a workflow runs its agents with.
pub struct Desk<'a, 'c> {
    pub context: &'a mut RunContext<'c>,
    pub config: &'a Config,
    /// The agent of each role that the workflow has.
    pub launches: &'a [(Role, Launch)],
    pub boundary: InForce,
    pub waiter: &'a mut dyn Waiter,
    pub limit: LimitPolicy,
    /// Whether to wait for a usage limit to end.
    pub wait_for_limits: bool,
    pub budget: Budget,
    pub spent: Spent,
    /// The size of the agents' context, if the person says so.
    pub context_limit: Option<u64>,
    /// What the journal tells; kept in step.
    pub overview: Overview,
}

/// One step.
#[derive(Clone, Copy)]
pub struct Step<'a> {
    pub role: Role,
    pub item: &'a str,
    pub attempt: u32,
    pub prompt: &'a str,
    pub resume: Option<&'a str>,
    pub outbox: Outbox<'a>,
    /// Where the run works, if not in the workspace.
    pub directory: Option<&'a Utf8Path>,
    /// Paths beside the role's own that it may write.
    pub writable: &'a [Utf8PathBuf],
    /// What the run sees in its environment beside the usual.
    pub variables: &'a [(&'a str, &'a str)],
    /// The ids of the tasks and issues that the run is to work on.
    pub given: &'a [String],
}

/// How a step ended.
pub enum StepEnd {
    Ran(Box<RunResult>),
    /// The limit stands and nobody waits for it.
    Limited {
        agent: String,
        wait: LimitWait,
    },
    OutOfBudget(BudgetExhausted),
    Interrupted,
}

/// Shows steps to whoever watches.
pub trait StepObserver {
    /// A run is about to begin.
    fn begin(&mut self, step: &Step<'_>, agent: &str, resumed: bool) -> Box<dyn RunObserver>;
    /// A run ended. The observer that `begin` returned has been dropped.
    fn ended(&mut self, report: &RunReport);
    /// Waiting for a limit; called about once a second.
    fn waiting(&mut self, wait: LimitWait, left: Duration);
    /// Waiting after a failure.
    fn pausing(&mut self, left: Duration);
    /// Something happened that the journal tells of.
    fn told(&mut self, event: &WorkflowEvent);
}

impl<'a> Desk<'a, '_> {
    /// Returns the agent that plays a role.
    pub fn launch(&self, role: Role) -> &'a Launch {
        let found = self.launches.iter().find(|(known, _)| *known == role);
        &found.expect("a workflow names all its roles before it begins").1
    }

    /// Returns the budget that is used up, if one is, and notes that.
    pub fn exhausted(&mut self) -> Result<Option<BudgetExhausted>, PathError> {
        let Err(what) = budget::check(&self.budget, &self.spent) else { return Ok(None) };
        self.journal(JournalEvent::BudgetExhausted(BudgetStop { what }))?;
        Ok(Some(what))
    }

    /// Runs an agent until it has ended for another reason than its usage limit.
    pub fn step(
        &mut self,
        step: &Step<'_>,
        observer: &mut dyn StepObserver,
    ) -> Result<StepEnd, RunError> {
        let agent = self.launch(step.role).choice.name.clone();
        // A limit that was hit before a restart still stands: hitting it again would only prolong it.
        if let Some(wait) = self.overview.limit_wait(&agent, self.context.clock.now())
            && let Some(end) = self.sit_out(&agent, wait, step, observer)?
        {
            return Ok(end);
        }
        let mut resumed: Option<String> = None;
        loop {
            if let Some(exhausted) = self.exhausted()? {
                return Ok(StepEnd::OutOfBudget(exhausted));
            }
            let (report, result) = self.once(step, resumed.as_deref(), observer)?;
            self.spent.apply(&finished_run(&report));
            match &report.outcome {
                RunOutcome::Interrupted => {
                    self.journal(JournalEvent::Interrupted)?;
                    RunResult::taken(self.context.state, step.item)?;
                    return Ok(StepEnd::Interrupted);
                }
                RunOutcome::Trouble { trouble: Trouble::UsageLimit { resets_at } } => {
                    let wait = self.begin_wait(&agent, *resets_at, step.item)?;
                    let request = self.launch(step.role);
                    let again = session_to_resume(&report, request.adapter.traits().resumes);
                    if let Some(end) = self.sit_out(&agent, wait, step, observer)? {
                        return Ok(end);
                    }
                    resumed = again.or(resumed);
                }
                _ => return Ok(StepEnd::Ran(Box::new(result))),
            }
        }
    }

    fn once(
        &mut self,
        step: &Step<'_>,
        resumed: Option<&str>,
        observer: &mut dyn StepObserver,
    ) -> Result<(RunReport, RunResult), RunError> {
        let launch = self.launch(step.role);
        let prompt = match resumed {
            Some(_) => format!("{GO_ON}{}", step.prompt),
            None => step.prompt.to_owned(),
        };
        let keep = self.context.state.pending_result(step.item);
        let program = self.context.program;
        let mut request =
            launch.request(self.config, step.role, prompt.as_bytes(), self.boundary, program);
        let mut variables = request.env.to_vec();
        let own =
            step.variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        variables.extend(own);
        let writable = [request.writable, step.writable].concat();
        request.env = &variables;
        request.writable = &writable;
        request.item = Some(step.item);
        request.attempt = step.attempt;
        request.resume = resumed.or(step.resume);
        request.outbox = step.outbox;
        request.directory = step.directory;
        request.given = step.given;
        request.context.limit = self.context_limit.or(request.context.limit);
        request.keep = Some(&keep);
        let mut watching = observer.begin(step, request.agent, request.resume.is_some());
        let report = run_agent(self.context, &request, watching.as_mut())?;
        drop(watching);
        observer.ended(&report);
        let at = self.context.clock.now();
        let result = RunResult::of(&report, &request, report.finished(), at);
        let event = report.journal_event();
        self.overview.apply(&JournalEntry { at, run: Some(report.id.clone()), event });
        Ok((report, result))
    }

    /// Notes that an agent is at its limit, and takes the result that says so.
    ///
    /// It is on disk before the wait begins: a restart in the middle of it goes on waiting.
    pub fn begin_wait(
        &mut self,
        agent: &str,
        resets_at: Option<Timestamp>,
        item: &str,
    ) -> Result<LimitWait, PathError> {
        let wait = self.next_wait(agent, resets_at);
        let LimitWait { until, known } = wait;
        let started = LimitWaitStarted { agent: agent.to_owned(), until, known };
        self.journal(JournalEvent::LimitWaitStarted(started))?;
        RunResult::taken(self.context.state, item)?;
        Ok(wait)
    }

    fn next_wait(&self, agent: &str, resets_at: Option<Timestamp>) -> LimitWait {
        let unknown = self.overview.unknown_limits_in_a_row(agent);
        self.limit.wait_until(UsageLimit { resets_at }, unknown, self.context.clock.now())
    }

    /// Waits for a limit to end. Returns an end if nobody is to wait, or the person interrupts.
    fn sit_out(
        &mut self,
        agent: &str,
        wait: LimitWait,
        step: &Step<'_>,
        observer: &mut dyn StepObserver,
    ) -> Result<Option<StepEnd>, PathError> {
        let left = wait.until.duration_since(self.context.clock.now());
        self.tell(
            WorkflowKind::UsageLimitWait,
            WorkflowFields {
                spec: Some(step.item.to_owned()),
                agent: Some(agent.to_owned()),
                wait_seconds: Some(u64::try_from(left.as_secs()).unwrap_or(0)),
                reason: Some(if wait.known { "reset_seconds" } else { "unknown_reset" }.to_owned()),
                ..WorkflowFields::default()
            },
            observer,
        )?;
        if !self.wait_for_limits {
            return Ok(Some(StepEnd::Limited { agent: agent.to_owned(), wait }));
        }
        let waited = self.waiter.wait_until(wait.until, &mut |left| observer.waiting(wait, left));
        let interrupted = waited == Waited::Interrupted;
        let ended = LimitWaitEnded { agent: agent.to_owned(), interrupted };
        self.journal(JournalEvent::LimitWaitEnded(ended))?;
        if interrupted {
            self.journal(JournalEvent::Interrupted)?;
        }
        Ok(interrupted.then_some(StepEnd::Interrupted))
    }

    /// Waits after so many failures in a row.
    pub fn pause(
        &mut self,
        failures: u32,
        fields: WorkflowFields,
        observer: &mut dyn StepObserver,
    ) -> Result<Waited, PathError> {
        let Some(wait) = backoff(failures, self.config.limits.backoff) else {
            return Ok(Waited::Reached);
        };
        let fields = WorkflowFields { wait_seconds: Some(wait.as_secs()), ..fields };
        self.tell(WorkflowKind::BackoffWait, fields, observer)?;
        let now = self.context.clock.now();
        let until = now.checked_add(wait).unwrap_or(now);
        let waited = self.waiter.wait_until(until, &mut |left| observer.pausing(left));
        if waited == Waited::Interrupted {
            self.journal(JournalEvent::Interrupted)?;
        }
        Ok(waited)
    }

    /// Tells the journal of the end of a run whose Ralph died after it had kept the result and before it could tell.
    pub fn remember_end(&mut self, result: &RunResult) -> Result<(), PathError> {
        let run = self.overview.runs().iter().find(|run| run.id == result.run);
        if run.is_some_and(|run| run.finished.is_some()) {
            return Ok(());
        }
        let event = JournalEvent::RunFinished(Box::new(result.finished.clone()));
        let entry = JournalEntry { at: result.at, run: Some(result.run.clone()), event };
        self.context.journal.record(&entry)?;
        self.overview.apply(&entry);
        Ok(())
    }

    /// Returns the gates of an item as they were pinned; a person's change since then is taken up and told with `fields`.
    pub fn pin(
        &mut self,
        item: &str,
        reload: &dyn Fn() -> Result<Config, ConfigError>,
        fields: WorkflowFields,
        observer: &mut dyn StepObserver,
    ) -> Result<PinnedGates, WorkflowError> {
        let config = reload().ok();
        let config = config.as_ref().unwrap_or(self.config);
        let (pinned, changes) = PinnedGates::keep(self.context.state, item, config)?;
        if !changes.is_empty() {
            let changes: Vec<String> = changes.iter().map(ToString::to_string).collect();
            let fields = WorkflowFields { reason: Some(changes.join(", ")), ..fields };
            self.tell(WorkflowKind::GatesChanged, fields, observer)?;
        }
        Ok(pinned)
    }

    /// The questions that wait for a person.
    pub fn questions(&mut self) -> Questions<'_> {
        Questions {
            journal: self.context.journal,
            overview: &mut self.overview,
            clock: self.context.clock,
        }
    }

    /// Tells the journal and whoever watches.
    pub fn tell(
        &mut self,
        kind: WorkflowKind,
        fields: WorkflowFields,
        observer: &mut dyn StepObserver,
    ) -> Result<(), PathError> {
        let event = WorkflowEvent { kind, fields };
        observer.told(&event);
        self.journal(JournalEvent::Workflow(Box::new(event)))
    }

    pub fn journal(&mut self, event: JournalEvent) -> Result<(), PathError> {
        let entry = JournalEntry { at: self.context.clock.now(), run: None, event };
        self.context.journal.record(&entry)?;
        self.overview.apply(&entry);
        Ok(())
    }
}
