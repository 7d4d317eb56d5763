//! From a run's result to what is written: claims are read, evidence is gathered, and the judge decides.

use ralph_model::build::Work;
use ralph_model::contract::{FinalMessage, PlannerClaim};
use ralph_model::id::CommitId;
use ralph_model::journal::{WorkflowFields, WorkflowKind};
use ralph_model::pipeline::done::{DoneMarker, Proof};
use ralph_model::pipeline::records::CandidateStatus;
use ralph_model::pipeline::settle::{Feedback, RunRef};
use ralph_model::pipeline::{Candidate, Fact, Markers, Phase, SpecState, is_yes};
use ralph_model::receipt::{Opinion, VerifierReceipt, Worker};
use ralph_model::role::Role;
use ralph_model::run::{RunOutcome, Trouble};
use ralph_model::verdict::{Claim, Reason, Verdict, VerifierQuestion, VerifierReport};

use super::phases::{PLAN, SCRATCHPAD, works_of};
use super::spec_work::SpecWork;
use super::{SpecEnd, list, none};
use crate::judge::{Attested, Case, Said};
use crate::run::RunResult;
use crate::workflow::WorkflowError;
use crate::workflow::driver::{Turn, Void};
use crate::workflow::repositories::BeforeAll;

/// How much of a verifier's report goes to the next implementer.
const FEEDBACK_LINES: usize = 200;

impl SpecWork<'_, '_, '_> {
    /// Notes what an implementer left, so that a person's later changes can be told from it.
    pub(super) fn note_left(&mut self, result: &RunResult) -> Result<(), WorkflowError> {
        if result.role != Role::Implementer {
            return Ok(());
        }
        let state = &self.pipeline.session.context.state;
        let Some(mut before) = BeforeAll::load(state, &self.item)? else { return Ok(()) };
        self.pipeline.project.repositories.note_left(&mut before)?;
        before.save(state, &self.item)
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

    fn conclude_plan(
        &mut self,
        markers: &Markers,
        result: &RunResult,
    ) -> Result<Turn<SpecEnd>, WorkflowError> {
        if matches!(SpecState::of(markers), SpecState::HandWritten { .. }) {
            let path = self.pipeline.store.path(self.spec.plan_md());
            let reason = format!(
                "{path} was written by hand while the planner was at work, and is used; the planner's plan is in {}",
                result.dir
            );
            self.tell(WorkflowKind::Note, WorkflowFields { reason: Some(reason), ..none() })?;
            return Ok(Turn::Again);
        }
        let message = FinalMessage::new(result.final_message.as_deref().unwrap_or(""))
            .in_answer_to(&result.prompt);
        let plan = result.file(PLAN);
        let claim = message.planner_claim(&self.pipeline.options.magic_phrase, plan);
        let outcome = match (unfinished(&result.outcome), claim) {
            (Some(outcome), _) => outcome,
            (None, PlannerClaim::Planned) if self.is_old_plan(markers, plan)? => {
                "it left the plan that did not hold as it was".to_owned()
            }
            (None, PlannerClaim::NoPlan) => format!("it left no plan in `{PLAN}` of its outbox"),
            (None, PlannerClaim::Unfinished) => {
                "its last line was not the phrase that it was to end with".to_owned()
            }
            (None, PlannerClaim::Planned) => {
                let text = plan.expect("a planner that planned left a plan").to_owned();
                let scratchpad = result.file(SCRATCHPAD).map(str::to_owned);
                let run = result.run.clone();
                self.settle(&Fact::PlanWritten { text, scratchpad, run }, "is planned")?;
                let store = &self.pipeline.store;
                let plan_file = Some(store.relative_to_home(&store.path(self.spec.plan_md())));
                self.tell(WorkflowKind::PlanPass, WorkflowFields { plan_file, ..none() })?;
                return Ok(Turn::Again);
            }
        };
        let fields = WorkflowFields { reason: Some(outcome.clone()), ..none() };
        self.tell(WorkflowKind::PlanFail, fields)?;
        let run = Some(self.run_ref(result));
        let fact = Fact::AttemptFailed { phase: Phase::Plan, outcome, feedback: None, run };
        self.settle(&fact, "was not planned")?;
        Ok(Turn::Failed)
    }

    /// Tells whether a planner that was to plan again left the plan that it found.
    fn is_old_plan(&self, markers: &Markers, plan: Option<&str>) -> Result<bool, WorkflowError> {
        let SpecState::Unplanned { replan: Some(replan), .. } = SpecState::of(markers) else {
            return Ok(false);
        };
        let old = self.pipeline.store.text(&self.spec.archive(replan.archive))?;
        Ok(old.is_some() && old.as_deref() == plan)
    }

    fn conclude_implementation(
        &mut self,
        markers: &Markers,
        result: &RunResult,
    ) -> Result<Turn<SpecEnd>, WorkflowError> {
        if let Some(outcome) = unfinished(&result.outcome) {
            self.return_to_branches()?;
            return self.fail_implementation(result, &outcome);
        }
        let message = FinalMessage::new(result.final_message.as_deref().unwrap_or(""))
            .in_answer_to(&result.prompt);
        let said = Said::from(message.completion(&self.pipeline.options.magic_phrase));
        if let Said::Commit { claimed } = &said
            && let Some(feedback) = rejected_before(markers, claimed)
        {
            self.return_to_branches()?;
            return self.reject_repeated(claimed, &feedback, result);
        }
        if said == Said::Nothing {
            self.tell(WorkflowKind::ImplNoCompletion, none())?;
        } else if matches!(said, Said::Commit { .. }) && !self.pinned.gates.is_empty() {
            self.tell(WorkflowKind::GatesStart, none())?;
        }
        let before = self.before(markers)?;
        let cases = self.examine(&before, &said)?;
        self.return_to_branches()?;
        self.cases = Some(cases);
        match self.verdict_so_far().expect("the cases were just measured") {
            Err(trouble) => {
                self.cases = None;
                Ok(Turn::Trouble(trouble))
            }
            Ok(Verdict::Accepted { .. } | Verdict::NeedsHuman { .. }) => {
                self.take_candidate(result)
            }
            Ok(verdict) => {
                let commit = self.cases.as_ref().and_then(|cases| commit_of(&cases[0].claim));
                self.reject(Phase::Implement, &verdict, commit.as_ref(), Some(result))
            }
        }
    }

    /// Measures a claim, and what was done in other repositories than the one that has its commit.
    fn examine(&mut self, before: &BeforeAll, said: &Said) -> Result<Vec<Case>, WorkflowError> {
        let mut cases = vec![self.examine_one(before, said)?];
        let Some(found) = commit_evidence(&cases[0].claim) else { return Ok(cases) };
        let repository = found.repository.clone();
        for work in self.pipeline.project.repositories.work_elsewhere(before, &repository)? {
            let said = Said::Commit { claimed: work.commit };
            cases.push(self.examine_one(before, &said)?);
        }
        Ok(cases)
    }

    fn examine_one(&mut self, before: &BeforeAll, said: &Said) -> Result<Case, WorkflowError> {
        let pipeline = &mut *self.pipeline;
        pipeline.project.repositories.examine(
            &pipeline.session.context.gates(),
            before,
            &self.pinned,
            said,
            pipeline.session.observer,
        )
    }

    fn take_candidate(&mut self, result: &RunResult) -> Result<Turn<SpecEnd>, WorkflowError> {
        let run = self.run_ref(result);
        let cases = self.cases.as_ref().expect("the cases were just measured");
        let (fact, fields) = match &cases[0].claim {
            Claim::NoChange { reason } => {
                let base = self.pipeline.project.repositories.base()?;
                let Some(commit) = base.into_values().next() else {
                    return self.fail_implementation(result, "there is no commit to look at");
                };
                let reason = reason.clone();
                let fields = WorkflowFields { reason: Some(reason.clone()), ..none() };
                (Fact::NoChangeClaimed { reason, commit, run }, fields)
            }
            Claim::Commit(measured) => {
                let found = measured.evidence.commit().expect("an accepted commit was found");
                let also = cases[1..].iter().filter_map(|case| {
                    let found = commit_evidence(&case.claim)?;
                    let repository = found.repository.clone();
                    Some(Work { commit: found.commit.clone(), repository })
                });
                let candidate = Candidate {
                    commit: found.commit.clone(),
                    repository: found.repository.clone(),
                    refs: found.refs.clone(),
                    also: also.collect(),
                };
                let fields = WorkflowFields {
                    commit: Some(found.commit.to_string()),
                    proven_by_gates: Some(self.are_proven()),
                    ..none()
                };
                (Fact::CandidateFound { candidate, run }, fields)
            }
            Claim::Nothing | Claim::PlanInvalid { .. } => {
                unreachable!("the judge accepts neither")
            }
        };
        self.settle(&fact, "has a candidate")?;
        self.tell(WorkflowKind::CandidateWritten, fields)?;
        Ok(Turn::Again)
    }

    fn are_proven(&self) -> bool {
        self.cases.iter().flatten().all(|case| match &case.claim {
            Claim::Commit(measured) => measured.gates.proven(),
            _ => false,
        })
    }

    /// What the judge says while no verifier has been asked. What only a person can settle is first put to a verifier.
    pub(super) fn verdict_so_far(&self) -> Option<Result<Verdict, Trouble>> {
        self.cases.as_deref().map(|cases| verdict_of(cases, &VerifierReport::NotAsked))
    }

    /// What a verifier should be asked beside the work itself.
    pub(super) fn questions(&self) -> Vec<VerifierQuestion> {
        self.cases.iter().flatten().flat_map(Case::questions).collect()
    }

    /// Measures the candidate again, after a restart.
    pub(super) fn examine_candidate(&mut self, markers: &Markers) -> Result<(), WorkflowError> {
        let record = markers.candidate.as_ref();
        let no_change = record.and_then(|record| record.no_change.clone());
        let before = self.before(markers)?;
        let commit = record.and_then(|record| record.candidate_commit.clone());
        let cases = match (no_change, commit) {
            (Some(reason), _) => vec![self.examine_one(&before, &Said::NoChange { reason })?],
            (None, None) => vec![self.examine_one(&before, &Said::Nothing)?],
            (None, Some(commit)) => {
                let mut cases = Vec::new();
                for work in works_of(markers, &commit) {
                    let said = Said::Commit { claimed: work.commit };
                    cases.push(self.examine_one(&before, &said)?);
                }
                cases
            }
        };
        self.cases = Some(cases);
        Ok(())
    }

    fn conclude_verification(
        &mut self,
        markers: &Markers,
        result: &RunResult,
    ) -> Result<Turn<SpecEnd>, WorkflowError> {
        let record = markers.candidate.as_ref();
        let Some(commit) = record.and_then(|record| record.candidate_commit.clone()) else {
            // Nothing is left that it could be about.
            return Ok(Turn::Again);
        };
        if let Some(outcome) = unfinished(&result.outcome) {
            let fields = WorkflowFields {
                reason: Some(format!("the verification was not finished: {outcome}")),
                commit: Some(commit.to_string()),
                ..none()
            };
            self.tell(WorkflowKind::VerifyFail, fields)?;
            let outcome = format!("the verification was not finished: {outcome}");
            let fact = Fact::VerificationFailed { outcome, run: self.run_ref(result) };
            self.settle(&fact, "is verified again")?;
            return Ok(Turn::Failed);
        }
        if self.cases.is_none() {
            self.examine_candidate(markers)?;
        }
        let said = result.final_message.as_deref().unwrap_or("");
        let message = FinalMessage::new(said).in_answer_to(&result.prompt);
        let claim = message.verifier_claim(&self.pipeline.options.magic_phrase);
        let report = VerifierReport::read(&claim, &commit, last_lines(said, FEEDBACK_LINES));
        let cases = self.cases.as_deref().expect("the candidate was measured above");
        match verdict_of(cases, &report) {
            Err(trouble) => {
                // What could not be measured is measured again.
                self.cases = None;
                Ok(Turn::Trouble(trouble))
            }
            Ok(Verdict::Accepted { .. }) => {
                let proof = if self.are_proven() { Proof::Gates } else { Proof::VerifierOnly };
                let verifier = VerifierReceipt {
                    agent: result.agent.clone(),
                    model: result.model.clone(),
                    opinion: Opinion::Verified,
                };
                self.attest(markers, Some(&verifier))?;
                self.finish(markers, Some(commit), proof, Some(result), said)
            }
            Ok(Verdict::PlanInvalid { reason }) => {
                let run = self.run_ref(result);
                let fields = WorkflowFields { reason: Some(reason.clone()), ..none() };
                self.settle(&Fact::PlanInvalidated { reason, run }, "needs another plan")?;
                self.tell(WorkflowKind::PlanInvalidated, fields)?;
                self.cases = None;
                Ok(Turn::Failed)
            }
            Ok(Verdict::NeedsHuman { question }) => {
                // An answer that a crash left behind was to another question, however alike the two are.
                self.pipeline.session.questions().take_answer(&self.item)?;
                let question = question.to_string();
                let run = Some(self.run_ref(result));
                self.settle(&Fact::PersonNeeded { question, run }, "waits for a person")?;
                Ok(Turn::Again)
            }
            Ok(verdict @ Verdict::Rejected { .. }) => {
                self.reject(Phase::Verify, &verdict, Some(&commit), Some(result))
            }
        }
    }

    /// Does what the person said.
    pub(super) fn take_answer(
        &mut self,
        markers: &Markers,
        answer: &str,
    ) -> Result<(), WorkflowError> {
        if !is_yes(answer) {
            let fact = Fact::PersonObjected { answer: answer.to_owned() };
            return self.settle(&fact, "goes on as a person said");
        }
        let record = markers.candidate.as_ref();
        let no_change = record.is_some_and(|record| record.no_change.is_some());
        let commit =
            record.and_then(|record| record.candidate_commit.clone()).filter(|_| !no_change);
        if commit.is_some() {
            self.examine_candidate(markers)?;
            self.attest(markers, None)?;
        }
        let said = format!("A person decided: {answer}");
        self.finish(markers, commit, Proof::Person, None, &said)?;
        Ok(())
    }

    /// Puts receipts on the commits of accepted work.
    fn attest(
        &mut self,
        markers: &Markers,
        verifier: Option<&VerifierReceipt>,
    ) -> Result<(), WorkflowError> {
        let context = &self.pipeline.session.context;
        let worker = &context.launch(Role::Implementer).choice;
        let before = self.before(markers)?;
        let cases = self.cases.as_deref().expect("what is accepted was measured");
        let repositories = &self.pipeline.project.repositories;
        repositories.judge(&context.gates(), &before, &self.pinned, |judge| {
            for case in cases {
                let attested = Attested {
                    item: &self.item,
                    worker: Worker { agent: worker.name.clone(), model: worker.model.clone() },
                    boundary: context.boundary,
                    verifier: verifier.cloned(),
                    at: self.pipeline.now(),
                    ralph: env!("CARGO_PKG_VERSION"),
                };
                judge.attest(case, attested)?;
            }
            Ok(())
        })
    }

    fn finish(
        &mut self,
        markers: &Markers,
        commit: Option<CommitId>,
        proof: Proof,
        result: Option<&RunResult>,
        said: &str,
    ) -> Result<Turn<SpecEnd>, WorkflowError> {
        let record = markers.candidate.as_ref();
        let store = &self.pipeline.store;
        let done = DoneMarker {
            commit: commit.clone(),
            at: self.pipeline.now(),
            verify_run_dir: result.map(|result| store.relative_to_home(&result.dir)),
            impl_run_dir: record.and_then(|record| record.last_impl_run_dir.clone()),
            proof,
            spec_digest: match self.spec_digest.clone() {
                Some(digest) => digest,
                None => list::digest(store, self.spec)?,
            },
            said: said.to_owned(),
        };
        let done_file = Some(store.relative_to_home(&store.path(self.spec.done())));
        self.settle(&Fact::Verified { done }, "is done")?;
        let fields = WorkflowFields {
            commit: commit.map(String::from),
            proven_by_gates: Some(proof == Proof::Gates),
            done_file,
            ..none()
        };
        self.tell(WorkflowKind::VerifyPass, fields)?;
        Ok(Turn::Again)
    }

    /// Sends work back with what is wrong with it.
    pub(super) fn reject(
        &mut self,
        phase: Phase,
        verdict: &Verdict,
        commit: Option<&CommitId>,
        result: Option<&RunResult>,
    ) -> Result<Turn<SpecEnd>, WorkflowError> {
        self.cases = None;
        let reasons = match verdict {
            Verdict::Rejected { reasons } => reasons.as_slice(),
            _ => &[],
        };
        let for_agent: Vec<String> = reasons.iter().map(Reason::for_agent).collect();
        let for_person: Vec<String> = reasons.iter().map(Reason::for_person).collect();
        let outcome = one_line(&for_person.join(" "));
        let kind = match phase {
            Phase::Verify => WorkflowKind::VerifyFail,
            Phase::Plan | Phase::Implement => WorkflowKind::ImplRejected,
        };
        let observed = reasons.iter().find_map(|reason| match reason {
            Reason::AnotherVerified { verified, .. } => Some(verified.to_string()),
            _ => None,
        });
        let fields = WorkflowFields {
            reason: Some(outcome.clone()),
            commit: commit.map(ToString::to_string),
            observed_commit: observed,
            ..none()
        };
        self.tell(kind, fields)?;
        let feedback = Feedback { text: for_agent.join("\n\n"), commit: commit.cloned() };
        let run = result.map(|result| self.run_ref(result));
        let fact = Fact::AttemptFailed { phase, outcome, feedback: Some(feedback), run };
        self.settle(&fact, "was turned down")?;
        Ok(Turn::Failed)
    }

    /// Answers the claim of a commit that was rejected before: nothing about it has changed, so nothing is run again.
    fn reject_repeated(
        &mut self,
        commit: &CommitId,
        feedback: &str,
        result: &RunResult,
    ) -> Result<Turn<SpecEnd>, WorkflowError> {
        let outcome = format!("{commit} was rejected before and is claimed again unchanged");
        let fields = WorkflowFields {
            reason: Some(outcome.clone()),
            commit: Some(commit.to_string()),
            ..none()
        };
        self.tell(WorkflowKind::ImplRejected, fields)?;
        let told = "You claimed the same commit again, and it is rejected as before";
        // Said once, however often it is claimed again.
        let text = if feedback.starts_with(told) {
            feedback.to_owned()
        } else {
            format!("{told}. Mend what is wrong with it:\n\n{feedback}")
        };
        let fact = Fact::AttemptFailed {
            phase: Phase::Implement,
            outcome,
            feedback: Some(Feedback { text, commit: Some(commit.clone()) }),
            run: Some(self.run_ref(result)),
        };
        self.settle(&fact, "was turned down")?;
        Ok(Turn::Failed)
    }

    fn fail_implementation(
        &mut self,
        result: &RunResult,
        outcome: &str,
    ) -> Result<Turn<SpecEnd>, WorkflowError> {
        let fields = WorkflowFields { reason: Some(outcome.to_owned()), ..none() };
        self.tell(WorkflowKind::ImplRejected, fields)?;
        let text = format!("The last run ended without a result that counts: {outcome}.");
        let fact = Fact::AttemptFailed {
            phase: Phase::Implement,
            outcome: outcome.to_owned(),
            feedback: Some(Feedback { text, commit: None }),
            run: Some(self.run_ref(result)),
        };
        self.settle(&fact, "was turned down")?;
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

/// Returns what was wrong with a commit that was rejected in the last attempt.
fn rejected_before(markers: &Markers, claimed: &CommitId) -> Option<String> {
    let record = markers.candidate.as_ref()?;
    let same = record.candidate_commit.as_ref() == Some(claimed);
    record.feedback.clone().filter(|_| same && record.status == CandidateStatus::Rejected)
}

/// Judges all work together: the verifier speaks of the first case, and the others must hold by themselves.
fn verdict_of(cases: &[Case], report: &VerifierReport) -> Result<Verdict, Trouble> {
    let (first, others) = cases.split_first().expect("a claim has a case");
    let mut rejected = Vec::new();
    let mut question = None;
    for case in others {
        match case.verdict(&VerifierReport::NotAsked)? {
            Verdict::Rejected { reasons } => {
                let repository = commit_evidence(&case.claim).map(|found| found.repository.clone());
                let repository = repository.unwrap_or_default();
                rejected.extend(reasons.into_iter().map(|reason| Reason::Elsewhere {
                    repository: repository.clone(),
                    reason: Box::new(reason),
                }));
            }
            verdict @ Verdict::NeedsHuman { .. } => question = question.or(Some(verdict)),
            Verdict::Accepted { .. } | Verdict::PlanInvalid { .. } => {}
        }
    }
    let verdict = first.verdict(report)?;
    Ok(match (verdict, question) {
        (Verdict::Rejected { mut reasons }, _) => {
            reasons.append(&mut rejected);
            Verdict::Rejected { reasons }
        }
        _ if !rejected.is_empty() => Verdict::Rejected { reasons: rejected },
        (Verdict::Accepted { .. }, Some(question)) => question,
        (verdict, _) => verdict,
    })
}

fn commit_evidence(claim: &Claim) -> Option<&ralph_model::evidence::CommitEvidence> {
    match claim {
        Claim::Commit(measured) => measured.evidence.commit(),
        _ => None,
    }
}

/// Says why a run has no result that counts.
fn unfinished(outcome: &RunOutcome) -> Option<String> {
    match outcome {
        RunOutcome::TimedOut { idle: true, .. } => {
            Some("it made no progress and was ended".to_owned())
        }
        RunOutcome::TimedOut { idle: false, .. } => {
            Some("it took too long and was ended".to_owned())
        }
        RunOutcome::ContextFull => Some("its context was full".to_owned()),
        RunOutcome::Violation { paths } => {
            Some(format!("it changed what its role must not change: {}", paths.join(", ")))
        }
        RunOutcome::Completed | RunOutcome::Interrupted | RunOutcome::Trouble { .. } => None,
    }
}

fn commit_of(claim: &Claim) -> Option<CommitId> {
    commit_evidence(claim).map(|found| found.commit.clone())
}

fn last_lines(text: &str, count: usize) -> &str {
    let start = text.trim_end().rmatch_indices('\n').nth(count - 1).map_or(0, |(at, _)| at + 1);
    &text[start..]
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
