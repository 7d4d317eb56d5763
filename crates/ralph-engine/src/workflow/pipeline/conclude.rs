//! From a run's result to what is written: claims are read, evidence is gathered, and the judge decides.
//!
//! Each phase has a file: [`plan`], [`implementation`], [`verification`]. This one has what they share: what a run that
//! is over leaves in any case, and how a failed attempt is recorded.

mod implementation;
mod plan;
mod verification;

use ralph_model::contract::PlannerClaim;
use ralph_model::id::CommitId;
use ralph_model::journal::{
    ImplException, ImplNonzeroExit, ImplRejected, ImplRunComplete, JournalEvent, PlanException,
    PlanFail, PlanRunComplete, ReasonText, VerdictKind, VerdictReached, VerifyException,
    VerifyFail, VerifyNonzeroExit, VerifyRunComplete,
};
use ralph_model::pipeline::settle::{Feedback, RunRef};
use ralph_model::pipeline::{Fact, Phase};
use ralph_model::role::Role;
use ralph_model::run::{ProcessExit, RunOutcome, Trouble};
use ralph_model::verdict::{Reason, Verdict};

use super::SpecEnd;
use super::examination::commit_evidence;
use super::phases::PLAN;
use super::spec_work::SpecWork;
use crate::defect::{Defect, is_put_back};
use crate::judge::Said;
use crate::run::RunResult;
use crate::workflow::driver::{Turn, Void};
use crate::workflow::{WorkflowError, merge_review};

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
                self.tell_exception(phase, result, trouble)?;
            }
            let keep = !matches!(trouble, Trouble::UnknownSession { .. });
            if result.session.is_some() || !keep {
                self.note_session(phase, result, keep)?;
            }
        }
        match (phase, void) {
            (Phase::Implement, Void::Ended) => self.return_to_branches(),
            (Phase::Implement, Void::Resumed) => {
                let state = &self.pipeline.session.context.state;
                let notes = self.pipeline.project.repositories.note_resumed(state, &self.item)?;
                notes.into_iter().try_for_each(|reason| self.note(reason))
            }
            (Phase::Plan | Phase::Verify, _) => Ok(()),
        }
    }

    /// Draws the conclusions of a run.
    pub(super) fn conclude_run(
        &mut self,
        result: &RunResult,
    ) -> Result<Turn<SpecEnd>, WorkflowError> {
        let markers = self.pipeline.heal(self.spec)?;
        let phase = phase_of(result);
        // In place, an implementer may have left a branch checked out that does not have the spec.
        let has_own_tree = phase != Phase::Implement || !self.pipeline.project.is_in_place();
        let is_removed = has_own_tree
            && self.is_removed(&markers)?
            && !is_put_back(Defect::LandsWhatWasWithdrawn);
        if result.outcome == RunOutcome::Withdrawn || is_removed {
            // What is next is decided by what the person said.
            self.keep_given_up(phase)?;
            self.discard_run(result, Void::Ended)?;
            return Ok(Turn::Again);
        }
        self.tell_run_complete(phase, result)?;
        self.note_session(phase, result, result.outcome != RunOutcome::ContextFull)?;
        match phase {
            Phase::Plan => self.conclude_plan(&markers, result),
            Phase::Implement => self.conclude_implementation(&markers, result),
            Phase::Verify => self.conclude_verification(&markers, result),
        }
    }

    /// Keeps what an implementer committed for a spec that is given up.
    fn keep_given_up(&mut self, phase: Phase) -> Result<(), WorkflowError> {
        if phase != Phase::Implement {
            return Ok(());
        }
        let (before, base) = (self.before()?, self.base()?);
        let project = &self.pipeline.project;
        let works = project.repositories.work_of(&before)?;
        match project.keep_given_up(&self.item, &works, &base)? {
            Some(name) => self.note(format!("the work of its run is kept in {name}")),
            None => Ok(()),
        }
    }

    fn tell_run_complete(&mut self, phase: Phase, result: &RunResult) -> Result<(), WorkflowError> {
        self.phase = Some(phase);
        let (spec, attempt, finished) = (self.spec.to_string(), result.attempt, &result.finished);
        let exit_code = exit_code(result);
        let completed = result.outcome == RunOutcome::Completed;
        let session_id = result.session.clone();
        let run = self.pipeline.session.journal.board().run(&result.run);
        let started = run.and_then(|run| run.started.as_ref());
        let resumed_from_session = started.and_then(|(_, started)| started.resumed_session.clone());
        let tokens_used = Some(finished.usage.total());
        let run_dir = Some(self.pipeline.store.relative_to_home(&result.dir));
        let summary = finished.final_line.clone();
        let (ending, answer) = (&self.pipeline.options.magic_phrase, result.answer());
        let event: JournalEvent = match phase {
            Phase::Plan => {
                let plan = result.file(PLAN);
                let planned = answer.planner_claim(ending, plan) == PlannerClaim::Planned;
                let plan_file_exists = plan.is_some_and(|plan| !plan.trim().is_empty());
                PlanRunComplete {
                    spec,
                    attempt,
                    exit_code,
                    completed: Some(completed && planned),
                    plan_file_exists: Some(plan_file_exists),
                    session_id,
                    resumed_from_session,
                    tokens_used,
                    run_dir,
                    summary,
                }
                .into()
            }
            Phase::Implement => {
                let claim = answer.completion(ending);
                ImplRunComplete {
                    spec,
                    attempt,
                    exit_code,
                    completed: Some(completed),
                    completion_ok: Some(claim.is_some()),
                    completion_commit: claim.map(|claim| claim.commit.to_string()),
                    session_id,
                    resumed_from_session,
                    tokens_used,
                    run_dir,
                    summary,
                }
                .into()
            }
            Phase::Verify => {
                let candidate = self.pipeline.store.load(self.spec)?.candidate;
                let candidate = candidate.and_then(|record| record.candidate_commit);
                let claim = answer.verifier_claim(ending);
                VerifyRunComplete {
                    spec,
                    attempt,
                    exit_code,
                    completed: Some(completed),
                    commit_match: Some(claim.commit.is_some() && claim.commit == candidate),
                    session_id,
                    resumed_from_session,
                    tokens_used,
                    run_dir,
                    summary,
                }
                .into()
            }
        };
        Ok(self.pipeline.session.record(event)?)
    }

    /// Tells how a run failed through no fault of the work.
    fn tell_exception(
        &mut self,
        phase: Phase,
        result: &RunResult,
        trouble: &Trouble,
    ) -> Result<(), WorkflowError> {
        let (spec, attempt, error) = (self.spec.to_string(), result.attempt, trouble.to_string());
        let code = exit_code(result).filter(|code| *code != 0);
        let event: JournalEvent = match (phase, code) {
            (Phase::Plan, _) => PlanException { spec, attempt, error }.into(),
            (Phase::Implement, None) => ImplException { spec, attempt, error }.into(),
            (Phase::Implement, Some(exit_code)) => {
                ImplNonzeroExit { spec, attempt, exit_code }.into()
            }
            (Phase::Verify, None) => VerifyException { spec, attempt, error }.into(),
            (Phase::Verify, Some(exit_code)) => {
                VerifyNonzeroExit { spec, attempt, exit_code }.into()
            }
        };
        Ok(self.pipeline.session.record(event)?)
    }

    /// Records a verdict on the spec.
    pub(super) fn tell_verdict(
        &mut self,
        by: &str,
        verdict: &Verdict,
        commit: Option<&CommitId>,
    ) -> Result<(), WorkflowError> {
        let claim = self.cases.as_ref().map(|cases| &cases[0].claim);
        let files = claim.and_then(commit_evidence).map(|found| found.changed.len() as u64);
        Ok(self.pipeline.session.record(VerdictReached {
            commit: commit.map(ToString::to_string),
            files,
            ..VerdictReached::of(&self.item, by, verdict)
        })?)
    }

    /// Records what a person decided on the spec.
    pub(super) fn tell_persons_verdict(
        &mut self,
        verdict: VerdictKind,
        commit: Option<&CommitId>,
        answer: &str,
    ) -> Result<(), WorkflowError> {
        Ok(self.pipeline.session.record(VerdictReached {
            item: self.item.clone(),
            commit: commit.map(ToString::to_string),
            verdict,
            by: "person".to_owned(),
            reasons: vec![ReasonText::new("person", answer)],
            ..VerdictReached::default()
        })?)
    }

    /// Records the session that the next run of a phase may resume.
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
        let by = if phase == Phase::Verify && result.is_some() { "verifier" } else { "judge" };
        self.tell_verdict(by, verdict, commit.as_ref())?;
        merge_review::forget(&self.pipeline.session.context.state, &self.item)?;
        self.cases = None;
        let reasons = match verdict {
            Verdict::Rejected { reasons } => reasons.as_slice(),
            _ => &[],
        };
        let mut for_agent: Vec<String> = reasons.iter().map(Reason::for_agent).collect();
        let mut for_person: Vec<String> = reasons.iter().map(Reason::for_person).collect();
        if let Some(result) = result.filter(|_| reasons.contains(&Reason::NoClaim)) {
            let ending = result.answer().ending();
            let wanted = &self.pipeline.options.magic_phrase;
            for_agent.push(format!(
                "Your last lines were {ending:?}. The last two lines must be the commit's hash, then `{wanted}`."
            ));
            for_person
                .push(format!("Its last lines were {ending:?}; the last must be `{wanted}`."));
        }
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
            Said::Work(work) => Some(work.commit),
            Said::NoChange { .. } | Said::PlanInvalid { .. } | Said::Nothing => None,
        }
    }

    /// Records an attempt that failed, with the feedback for the next.
    fn fail_attempt(
        &mut self,
        phase: Phase,
        outcome: String,
        feedback: Option<Feedback>,
        observed_commit: Option<String>,
        result: Option<&RunResult>,
    ) -> Result<Turn<SpecEnd>, WorkflowError> {
        let commit = feedback.as_ref().and_then(|feedback| feedback.commit.as_ref());
        let (commit, reason) = (commit.map(ToString::to_string), outcome.clone());
        let spec = self.spec.to_string();
        let (event, failure): (JournalEvent, _) = match phase {
            Phase::Plan => (PlanFail { spec, reason }.into(), "plan_failed"),
            Phase::Implement => (ImplRejected { spec, commit, reason }.into(), "no_completion"),
            Phase::Verify => {
                let event = VerifyFail { spec, commit, observed_commit, reason };
                (event.into(), "verify_failed")
            }
        };
        self.failure = Some(failure);
        self.pipeline.session.record(event)?;
        let message = if phase == Phase::Plan { "planning failed" } else { "was rejected" };
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

fn exit_code(result: &RunResult) -> Option<i32> {
    match result.finished.exit {
        Some(ProcessExit::Code(code)) => Some(code),
        _ => None,
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
