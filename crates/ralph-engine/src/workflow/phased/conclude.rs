//! From a run's result to the machine: what the run claims, and what follows from it.

use ralph_model::id::RunId;
use ralph_model::journal::{ReasonText, StepResult};
use ralph_model::phase::mailbox::{PASSING, QUESTION, STATUS, mirror, touched};
use ralph_model::phase::{
    IterationReport, LoopDecision, LoopFact, LoopPhase, LoopRecord, LoopSignal, LoopStanding,
    RunEnding, decide, signal,
};
use ralph_model::role::Role;

use super::planning::present_plans;
use super::{Phased, PhasedEnd, REFLECTION};
use crate::digest;
use crate::run::RunResult;
use crate::workflow::driver::Turn;
use crate::workflow::repositories::{BEFORE, BeforeAll};
use crate::workflow::review::{self, REVIEW};
use crate::workflow::{CLONE_LOST, WorkflowError, unfinished};

impl Phased<'_, '_> {
    /// Draws the conclusions of a run.
    pub(super) fn conclude_run(
        &mut self,
        result: &RunResult,
    ) -> Result<Turn<PhasedEnd>, WorkflowError> {
        self.heal()?;
        let Some(record) = self.record()? else { return Ok(Turn::Again) };
        if result.item.ends_with(REFLECTION) {
            self.conclude_reflection(&record, result)?;
            return Ok(Turn::Progress);
        }
        if let Some(item) = result.item.strip_suffix(REVIEW) {
            review::keep(&self.session.context.state, item, result)?;
            return Ok(Turn::Progress);
        }
        if result.role == Role::Verifier {
            return self.conclude_opinion(&record, result);
        }
        if record.standing != LoopStanding::Working {
            return Ok(Turn::Again);
        }
        self.mailbox.unlock();
        let run = result.run.clone();
        let Some(before) = BEFORE.load(&self.session.context.state, &result.item)? else {
            return self.cut_short(run, CLONE_LOST.to_owned());
        };
        let refused = self.commit_iteration(&record, &before)?;
        if let Some(reason) = unfinished(&result.outcome).or(refused) {
            self.back_to_branches(&result.item)?;
            return self.cut_short(run, reason);
        }
        let report = self.report(&record, &before, result)?;
        let decision = decide(&record, &report);
        if decision == LoopDecision::Judge {
            return self.judge(&record, &before, result);
        }
        self.back_to_branches(&result.item)?;
        // A plan that is there during PLAN is validated next, without a claim.
        let is_planned = record.phase == LoopPhase::Plan && report.plan.is_some();
        self.settle(&LoopFact::Ended { run, report })?;
        let told = match &decision {
            LoopDecision::GoOn if !is_planned => "no claim: status.txt does not say `complete`",
            LoopDecision::Swallowed(_) => "the completion is ignored until the plan is validated",
            LoopDecision::UseTools => "the reply showed commands and called no tool",
            LoopDecision::NothingChanged => {
                let reasons = vec![ReasonText::new("changes_nothing", "nothing was changed")];
                self.tell_rejected(&result.item, None, reasons)?;
                return Ok(Turn::Failed);
            }
            _ => return Ok(Turn::Progress),
        };
        self.note(told)?;
        Ok(Turn::Progress)
    }

    /// Goes on after a run from which nothing follows but that it took place.
    fn cut_short(&mut self, run: RunId, reason: String) -> Result<Turn<PhasedEnd>, WorkflowError> {
        self.settle(&LoopFact::CutShort { run, reason: reason.clone() })?;
        self.end_iteration(StepResult::Failed, Some(reason))?;
        Ok(Turn::Failed)
    }

    /// Collects what a run that ended as it should claims, and what is true of it.
    fn report(
        &self,
        record: &LoopRecord,
        before: &BeforeAll,
        result: &RunResult,
    ) -> Result<IterationReport, WorkflowError> {
        let read = |name: &str| self.mailbox.read(name);
        let reports_tools =
            self.session.context.launch(Role::Builder).adapter.traits().announces_tools;
        let (status, question) = (read(STATUS), read(QUESTION));
        let ending = RunEnding {
            status: status.as_deref().unwrap_or(""),
            question: question.as_deref(),
            final_message: result.final_message.as_deref().unwrap_or(""),
            tool_calls: reports_tools.then_some(result.finished.tool_calls),
        };
        let signal: LoopSignal = signal(ending);
        Ok(IterationReport {
            signal,
            plan: self.plan().map(|plan| plan.mark),
            documents: present_plans(&self.mailbox),
            changed: self.is_changed(before),
            no_change: result.answer().no_change_needed(),
            touched: touched(record, read),
            trace: self.trace(record)?,
        })
    }

    /// Returns a digest of the repositories' positions and of the mailbox without the harness's own files.
    fn trace(&self, record: &LoopRecord) -> Result<String, WorkflowError> {
        let own: Vec<&str> = mirror(record).into_iter().map(|(name, _)| name).collect();
        let files = self.mailbox.digest_but_for(&[&own[..], &PASSING].concat());
        Ok(digest::of_data(&(self.heads()?, files)))
    }

    fn conclude_opinion(
        &mut self,
        record: &LoopRecord,
        result: &RunResult,
    ) -> Result<Turn<PhasedEnd>, WorkflowError> {
        if matches!(record.standing, LoopStanding::NoChange { .. }) {
            let said = result.final_message.as_deref().unwrap_or("it gave none");
            self.settle(&LoopFact::OpinionGiven { opinion: said.trim().to_owned() })?;
        }
        Ok(Turn::Progress)
    }
}
