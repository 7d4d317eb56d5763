//! Turns the facts at the end of a run into its report: the outcome, and the run's own usage and cost.

use camino::Utf8PathBuf;
use ralph_model::outcome::RunClose;
use ralph_model::run::{ProcessExit, RunEnd, RunFacts, RunOutcome, Trouble};
use ralph_model::usage::Usage;
use ralph_proc::supervise::Finished;

use super::allowlist::advice;
use super::failed_command::FailedCommand;
use super::report::{HeldLogs, with_causes};
use super::{Environment, Run, RunReport};
use crate::boundary::BoundaryReport;
use crate::channel::Served;
use crate::files::PathError;
use crate::outbox::{self, OutboxReport};
use crate::state::SessionTotal;

/// The facts when all processes of a run have ended.
#[derive(Default)]
pub(crate) struct Closing {
    /// `None` if the agent was never started because of `fault`.
    pub(crate) end: Option<RunEnd>,
    pub(crate) exit: Option<ProcessExit>,
    pub(crate) tail: String,
    pub(crate) stderr: String,
    pub(crate) facts: RunFacts,
    pub(crate) finished: Option<Finished>,
    pub(crate) served: Served,
    pub(crate) removed_locks: Vec<Utf8PathBuf>,
    /// The collected outbox, if it is not in the scratch directory.
    pub(crate) outbox: Option<OutboxReport>,
    /// What the harness failed to do.
    pub(crate) fault: Option<String>,
}

impl Run<'_, '_> {
    pub(super) fn report(&self, closing: Closing, environment: &Environment) -> RunReport {
        let Closing { end, exit, tail, stderr, mut facts, finished, served, .. } = closing;
        let lookup = |name: &str| environment.text(name);
        if let Some(limit) = facts.limit.as_mut()
            && let Some(session) = &facts.session
            && let Some(recorded) = self.request.adapter.recorded_limit(session, &lookup)
        {
            // The agent's stored time is exact; the printed one is truncated to the minute.
            limit.resets_at = recorded.resets_at.or(limit.resets_at);
        }
        let (own, saved) = self.own_share(&facts);
        let fault = closing.fault.or_else(|| saved.err().map(|error| with_causes(&error)));
        let end = match (fault, end) {
            (Some(reason), _) => RunEnd::MachineFault { reason },
            (None, end) => end.expect("a run without an end has a fault"),
        };
        let now = self.context.clock.now();
        let claim = self.request.contract.judge(&facts, &served, self.request.adapter.traits());
        let close = RunClose {
            end: &end,
            exit,
            tail: &tail,
            stderr: &stderr,
            claim,
            limit_patterns: self.request.limit_patterns,
            now,
        };
        let outcome = facts.outcome(&close);
        let advice = match &outcome {
            RunOutcome::Trouble {
                trouble: Trouble::UsageLimit { .. } | Trouble::Network { .. },
            } => Vec::new(),
            RunOutcome::Trouble { trouble: Trouble::Auth { .. } } => {
                let login = self.request.adapter.traits().login;
                login.map(ToString::to_string).into_iter().collect()
            }
            RunOutcome::Trouble { .. } => {
                let withheld = self.context.environment.withheld_from(environment);
                let output = format!("{tail}\n{stderr}");
                let home = lookup("HOME");
                let failed = FailedCommand {
                    agent: self.request.agent,
                    is_text: !self.request.adapter.traits().structured,
                    is_confined: self.request.boundary.is_kernel(),
                    exit,
                    output: &output,
                    home: home.as_deref(),
                };
                let mut found = failed.advice();
                found.extend(advice(&withheld, &output));
                found
            }
            _ => Vec::new(),
        };
        let model = facts.model.as_deref().or(self.request.model);
        let price = model.and_then(|model| self.request.prices.price(model));
        let usage_is_estimate =
            own.usage == Usage::default() && !self.request.adapter.traits().structured;
        let usage = if usage_is_estimate {
            let output = finished.as_ref().map_or(0, |finished| finished.kept.stdout_bytes);
            Usage::estimate(self.request.prompt.len() as u64, output)
        } else {
            own.usage
        };
        let estimate = price.filter(|_| usage != Usage::default()).map(|price| price.cost(usage));
        let cost_is_estimate = own.cost_usd.is_none() && estimate.is_some();
        let cost_usd = own.cost_usd.or(estimate);
        let finished = finished.as_ref();
        RunReport {
            id: self.id.clone(),
            logs: self.logs.clone(),
            end,
            exit,
            outcome,
            usage,
            usage_is_estimate,
            cost_usd,
            cost_is_estimate,
            elapsed: finished.map(|finished| finished.elapsed).unwrap_or_default(),
            cpu: finished.map(|finished| finished.cpu).unwrap_or_default(),
            stdout_bytes: finished.map_or(0, |finished| finished.kept.stdout_bytes),
            stderr_bytes: finished.map_or(0, |finished| finished.kept.stderr_bytes),
            leftovers: finished.map_or(0, |finished| finished.leftovers),
            boundary: BoundaryReport::default(),
            changed: None,
            removed_locks: closing.removed_locks,
            advice,
            facts,
            served,
            outbox: closing.outbox.unwrap_or_else(|| {
                let scratch = &self.context.place.scratch;
                let held = self.held.as_ref().map(HeldLogs::directory);
                outbox::take(&scratch.outbox(), self.request.outbox, &self.logs.directory, held)
            }),
        }
    }

    /// This run's own usage, if the agent counts over its whole session; and whether the session's total was saved.
    fn own_share(&self, facts: &RunFacts) -> (SessionTotal, Result<(), PathError>) {
        let seen = self.context.clock.now();
        let told = SessionTotal { usage: facts.usage, cost_usd: facts.cost_usd, seen };
        let Some(session) = &facts.session else { return (told, Ok(())) };
        if !facts.usage_is_cumulative && !facts.cost_is_cumulative {
            return (told, Ok(()));
        }
        let (state, agent) = (self.context.state, self.request.agent);
        let before = state.session_total(agent, session);
        let saved = state.save_session_total(agent, session, &told);
        let Some(before) = before else { return (told, saved) };
        let usage =
            if facts.usage_is_cumulative { told.usage.since(before.usage) } else { told.usage };
        let cost_usd = match (told.cost_usd, before.cost_usd) {
            (Some(now), Some(before)) if facts.cost_is_cumulative && now >= before => {
                Some(now - before)
            }
            (cost, _) => cost,
        };
        (SessionTotal { usage, cost_usd, seen }, saved)
    }
}
