//! From a run's result to what is written: claims are read, evidence is gathered, and the judge decides.
//!
//! Each phase has a file: [`plan`], [`implementation`], [`verification`]. This one has what they share: what a run that
//! is over leaves in any case, and how a failed attempt is recorded.

mod implementation;
mod plan;
mod verification;

use ralph_model::id::CommitId;
use ralph_model::journal::{WorkflowFields, WorkflowKind};
use ralph_model::pipeline::settle::{Feedback, RunRef};
use ralph_model::pipeline::{Fact, Phase};
use ralph_model::role::Role;
use ralph_model::run::{RunOutcome, Trouble};
use ralph_model::verdict::{Reason, Verdict};

use super::spec_work::SpecWork;
use super::{SpecEnd, none};
use crate::judge::Said;
use crate::run::RunResult;
use crate::workflow::WorkflowError;
use crate::workflow::driver::{Turn, Void};

impl SpecWork<'_, '_, '_> {
    /// Notes what an implementer left, so that a person's later changes can be told from it.
    pub(super) fn note_left(&mut self, result: &RunResult) -> Result<(), WorkflowError> {
        if result.role != Role::Implementer {
            return Ok(());
        }
        let state = &self.pipeline.session.context.state;
        self.pipeline.project.repositories.note_left(state, &self.item)
    }

    /// Nothing follows from a run but what its agent knows.
    pub(super) fn discard_run(
        &mut self,
        result: &RunResult,
        void: Void,
    ) -> Result<(), WorkflowError> {
        let phase = phase_of(result);
        if let RunOutcome::Trouble { trouble } = &result.outcome {
            if !matches!(trouble, Trouble::UsageLimit { .. }) {
                self.tell_run_complete(phase, result)?;
            }
            let keep = !matches!(trouble, Trouble::UnknownSession { .. });
            if result.session.is_some() || !keep {
                self.note_session(phase, result, keep)?;
            }
        }
        if phase == Phase::Implement && void == Void::Ended {
            self.return_to_branches()?;
        }
        Ok(())
    }

    /// Draws the conclusions of a run.
    pub(super) fn conclude_run(
        &mut self,
        result: &RunResult,
    ) -> Result<Turn<SpecEnd>, WorkflowError> {
        let markers = self.pipeline.heal(self.spec)?;
        let phase = phase_of(result);
        self.tell_run_complete(phase, result)?;
        self.note_session(phase, result, result.outcome != RunOutcome::ContextFull)?;
        match phase {
            Phase::Plan => self.conclude_plan(&markers, result),
            Phase::Implement => self.conclude_implementation(&markers, result),
            Phase::Verify => self.conclude_verification(&markers, result),
        }
    }

    fn tell_run_complete(&mut self, phase: Phase, result: &RunResult) -> Result<(), WorkflowError> {
        let fields = WorkflowFields {
            completed: Some(result.outcome == RunOutcome::Completed),
            session_id: result.session.clone(),
            tokens_used: Some(result.finished.usage.total()),
            run_dir: Some(self.pipeline.store.relative_to_home(&result.dir)),
            attempt: Some(result.attempt),
            ..none()
        };
        let kind = match phase {
            Phase::Plan => WorkflowKind::PlanRunComplete,
            Phase::Implement => WorkflowKind::ImplRunComplete,
            Phase::Verify => WorkflowKind::VerifyRunComplete,
        };
        self.tell(kind, fields)
    }

    /// Notes the session that the next run of a phase may go on with.
    fn note_session(
        &mut self,
        phase: Phase,
        result: &RunResult,
        keep: bool,
    ) -> Result<(), WorkflowError> {
        let at = self.pipeline.now();
        let mut sessions = self.pipeline.store.sessions(self.spec, at);
        let session = result.session.as_deref().filter(|_| keep);
        sessions.note(phase, &result.agent, session, at);
        Ok(self.pipeline.store.save_sessions(self.spec, &sessions)?)
    }

    /// Sends work back with what is wrong with it.
    pub(super) fn reject(
        &mut self,
        phase: Phase,
        verdict: &Verdict,
        commit: Option<CommitId>,
        result: Option<&RunResult>,
    ) -> Result<Turn<SpecEnd>, WorkflowError> {
        self.cases = None;
        let reasons = match verdict {
            Verdict::Rejected { reasons } => reasons.as_slice(),
            _ => &[],
        };
        let for_agent: Vec<String> = reasons.iter().map(Reason::for_agent).collect();
        let for_person: Vec<String> = reasons.iter().map(Reason::for_person).collect();
        let observed = reasons.iter().find_map(|reason| match reason {
            Reason::AnotherVerified { verified, .. } => Some(verified.to_string()),
            _ => None,
        });
        let claimed = self.claimed(result);
        let feedback = Feedback { text: for_agent.join("\n\n"), commit, claimed };
        self.fail_attempt(phase, one_line(&for_person.join(" ")), Some(feedback), observed, result)
    }

    /// Returns the commit that an implementer claimed.
    fn claimed(&self, result: Option<&RunResult>) -> Option<CommitId> {
        let result = result.filter(|result| phase_of(result) == Phase::Implement)?;
        match Said::from(result.answer().completion(&self.pipeline.options.magic_phrase)) {
            Said::Commit { claimed } => Some(claimed),
            Said::NoChange { .. } | Said::PlanInvalid { .. } | Said::Nothing => None,
        }
    }

    /// Records an attempt that failed, with what the next one is told.
    fn fail_attempt(
        &mut self,
        phase: Phase,
        outcome: String,
        feedback: Option<Feedback>,
        observed_commit: Option<String>,
        result: Option<&RunResult>,
    ) -> Result<Turn<SpecEnd>, WorkflowError> {
        let (kind, message) = match phase {
            Phase::Plan => (WorkflowKind::PlanFail, "was not planned"),
            Phase::Implement => (WorkflowKind::ImplRejected, "was rejected"),
            Phase::Verify => (WorkflowKind::VerifyFail, "was rejected"),
        };
        let commit = feedback.as_ref().and_then(|feedback| feedback.commit.as_ref());
        let fields = WorkflowFields {
            reason: Some(outcome.clone()),
            commit: commit.map(ToString::to_string),
            observed_commit,
            ..none()
        };
        self.tell(kind, fields)?;
        let run = result.map(|result| self.run_ref(result));
        self.settle(&Fact::AttemptFailed { phase, outcome, feedback, run }, message)?;
        Ok(Turn::Failed)
    }

    /// Returns to the branches that the run began on.
    fn return_to_branches(&mut self) -> Result<(), WorkflowError> {
        let pipeline = &mut *self.pipeline;
        pipeline.project.return_to_branches(pipeline.session, &self.item)
    }

    fn run_ref(&self, result: &RunResult) -> RunRef {
        RunRef { id: result.run.clone(), dir: self.pipeline.store.relative_to_home(&result.dir) }
    }
}

fn phase_of(result: &RunResult) -> Phase {
    match result.role {
        Role::Planner => Phase::Plan,
        Role::Verifier => Phase::Verify,
        _ => Phase::Implement,
    }
}

fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut line = words.join(" ");
    if let Some((end, _)) = line.char_indices().nth(400) {
        line.truncate(end);
        line.push('…');
    }
    line
}
