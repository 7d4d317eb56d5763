//! From a run's result to what is written: claims are read, evidence is gathered, and the judge decides.

use ralph_model::contract::{FinalMessage, PlannerClaim};
use ralph_model::id::CommitId;
use ralph_model::journal::{WorkflowFields, WorkflowKind};
use ralph_model::pipeline::done::{DoneMarker, Proof};
use ralph_model::pipeline::settle::{Feedback, RunRef};
use ralph_model::pipeline::{Candidate, Fact, Markers, Phase, is_yes};
use ralph_model::receipt::{Opinion, VerifierReceipt, Worker};
use ralph_model::role::Role;
use ralph_model::run::{RunOutcome, Trouble};
use ralph_model::verdict::{Claim, Reason, Verdict, VerifierReport};

use super::steps::{PLAN, SCRATCHPAD};
use super::{Pipeline, Turn, Work, list, none};
use crate::judge::{Attested, Case, Said};
use crate::run::RunResult;
use crate::workflow::repositories::BeforeAll;
use crate::workflow::{Hindrance, WorkflowError, hindrance};

/// How much of a verifier's report goes to the next implementer.
const FEEDBACK_LINES: usize = 200;

impl Pipeline<'_, '_, '_> {
    /// Draws the conclusions of a run.
    pub(super) fn take(
        &mut self,
        work: &mut Work<'_>,
        markers: &Markers,
        result: &RunResult,
    ) -> Result<Turn, WorkflowError> {
        let phase = match result.role {
            Role::Planner => Phase::Plan,
            Role::Verifier => Phase::Verify,
            _ => Phase::Implement,
        };
        let fields = WorkflowFields {
            completed: Some(result.outcome == RunOutcome::Completed),
            session_id: result.session.clone(),
            tokens_used: Some(result.finished.usage.total()),
            run_dir: Some(self.store.from_home(&result.dir)),
            attempt: Some(result.attempt),
            ..none()
        };
        let kind = match phase {
            Phase::Plan => WorkflowKind::PlanRunComplete,
            Phase::Implement => WorkflowKind::ImplRunComplete,
            Phase::Verify => WorkflowKind::VerifyRunComplete,
        };
        self.tell(work.spec, kind, fields)?;
        if let RunOutcome::Trouble { trouble } = &result.outcome {
            let keep = !matches!(trouble, Trouble::UnknownSession { .. });
            if result.session.is_some() || !keep {
                self.note_session(work, phase, result, keep)?;
            }
            if let Trouble::UsageLimit { resets_at } = trouble {
                // Ralph died before it could begin to wait; the next step waits.
                self.desk.begin_wait(&result.agent, *resets_at, &work.item)?;
                return Ok(Turn::Again);
            }
            RunResult::taken(self.desk.context.state, &work.item)?;
            if phase == Phase::Implement {
                self.return_to_branches(&work.item)?;
            }
            return Ok(Turn::Trouble(trouble.clone()));
        }
        self.note_session(work, phase, result, result.outcome != RunOutcome::ContextFull)?;
        let turn = match phase {
            Phase::Plan => self.take_plan(work, result)?,
            Phase::Implement => self.take_implementation(work, markers, result)?,
            Phase::Verify => self.take_verification(work, markers, result)?,
        };
        if !matches!(turn, Turn::Trouble(_)) {
            // Not before: what cannot be judged, again and again, is trouble in a row.
            work.streak.apply(&result.outcome);
        }
        Ok(turn)
    }

    fn take_plan(&mut self, work: &Work<'_>, result: &RunResult) -> Result<Turn, WorkflowError> {
        let message = FinalMessage::new(result.final_message.as_deref().unwrap_or(""))
            .in_answer_to(&result.prompt);
        let plan = result.file(PLAN);
        let claim = message.planner_claim(&self.options.magic_phrase, plan);
        let outcome = match (unfinished(&result.outcome), claim) {
            (Some(outcome), _) => outcome,
            (None, PlannerClaim::NoPlan) => format!("it left no plan in `{PLAN}` of its outbox"),
            (None, PlannerClaim::Unfinished) => {
                "its last line was not the phrase that it was to end with".to_owned()
            }
            (None, PlannerClaim::Planned) => {
                let text = plan.expect("a planner that planned left a plan").to_owned();
                let scratchpad = result.file(SCRATCHPAD).map(str::to_owned);
                let run = result.run.clone();
                let fact = Fact::PlanWritten { text, scratchpad, run };
                self.settle(work, &fact, "is planned")?;
                let path = self.store.path(work.spec.plan_md());
                let plan_file = Some(self.store.from_home(&path));
                let fields = WorkflowFields { plan_file, ..none() };
                self.tell(work.spec, WorkflowKind::PlanPass, fields)?;
                return Ok(Turn::Again);
            }
        };
        let fields = WorkflowFields { reason: Some(outcome.clone()), ..none() };
        self.tell(work.spec, WorkflowKind::PlanFail, fields)?;
        let run = Some(self.run_ref(result));
        let fact = Fact::AttemptFailed { phase: Phase::Plan, outcome, feedback: None, run };
        self.settle(work, &fact, "was not planned")?;
        Ok(Turn::Failed)
    }

    fn take_implementation(
        &mut self,
        work: &mut Work<'_>,
        markers: &Markers,
        result: &RunResult,
    ) -> Result<Turn, WorkflowError> {
        if let Some(outcome) = unfinished(&result.outcome) {
            self.return_to_branches(&work.item)?;
            return self.fail_implementation(work, result, &outcome, &outcome, None);
        }
        let message = FinalMessage::new(result.final_message.as_deref().unwrap_or(""))
            .in_answer_to(&result.prompt);
        let said = Said::from(message.completion(&self.options.magic_phrase));
        if said == Said::Nothing {
            self.tell(work.spec, WorkflowKind::ImplNoCompletion, none())?;
        } else if matches!(said, Said::Commit { .. }) && !work.pinned.gates.is_empty() {
            self.tell(work.spec, WorkflowKind::GatesStart, none())?;
        }
        let before = self.before(work, markers)?;
        let case = self.repositories.examine(
            &self.gate_context,
            &before,
            &work.pinned,
            &said,
            &mut *self.observer,
        )?;
        let verdict = Self::verdict_before_verification(&case);
        self.return_to_branches(&work.item)?;
        match verdict {
            Err(trouble) => Ok(Turn::Trouble(trouble)),
            Ok(Verdict::Accepted { .. } | Verdict::NeedsHuman { .. }) => {
                self.take_candidate(work, case, result)
            }
            Ok(verdict) => {
                let commit = commit_of(&case.claim);
                self.reject(work, Phase::Implement, &verdict, commit.as_ref(), Some(result))
            }
        }
    }

    fn take_candidate(
        &mut self,
        work: &mut Work<'_>,
        case: Case,
        result: &RunResult,
    ) -> Result<Turn, WorkflowError> {
        let run = self.run_ref(result);
        let fact = match &case.claim {
            Claim::NoChange { reason } => {
                let base = self.repositories.base()?;
                let Some(commit) = base.into_values().next() else {
                    let outcome = "there is no commit to look at";
                    return self.fail_implementation(work, result, outcome, outcome, None);
                };
                Fact::NoChangeClaimed { reason: reason.clone(), commit, run }
            }
            Claim::Commit(measured) => {
                let found = measured.evidence.commit().expect("an accepted commit was found");
                let candidate = Candidate {
                    commit: found.commit.clone(),
                    repository: found.repository.clone(),
                    refs: found.refs.clone(),
                };
                Fact::CandidateFound { candidate, run }
            }
            Claim::Nothing | Claim::PlanInvalid { .. } => {
                unreachable!("the judge accepts neither")
            }
        };
        self.settle(work, &fact, "has a candidate")?;
        let (commit, proven_by_gates, reason) = match &case.claim {
            Claim::Commit(measured) => {
                (commit_of(&case.claim), Some(measured.gates.proven()), None)
            }
            Claim::NoChange { reason } => (None, None, Some(reason.clone())),
            _ => (None, None, None),
        };
        let commit = commit.map(String::from);
        let fields = WorkflowFields { commit, proven_by_gates, reason, ..none() };
        self.tell(work.spec, WorkflowKind::CandidateWritten, fields)?;
        work.case = Some(case);
        Ok(Turn::Again)
    }

    /// What the judge says while no verifier has been asked. What only a person can settle is first put to a verifier.
    pub(super) fn verdict_before_verification(case: &Case) -> Result<Verdict, Trouble> {
        case.verdict(&VerifierReport::NotAsked)
    }

    /// Measures a candidate again, after a restart.
    pub(super) fn examine_candidate(
        &mut self,
        work: &mut Work<'_>,
        markers: &Markers,
        commit: &CommitId,
        no_change: Option<&str>,
    ) -> Result<(), WorkflowError> {
        let said = match no_change {
            Some(reason) => Said::NoChange { reason: reason.to_owned() },
            None => Said::Commit { claimed: commit.clone() },
        };
        let before = self.before(work, markers)?;
        let case = self.repositories.examine(
            &self.gate_context,
            &before,
            &work.pinned,
            &said,
            &mut *self.observer,
        )?;
        work.case = Some(case);
        Ok(())
    }

    fn take_verification(
        &mut self,
        work: &mut Work<'_>,
        markers: &Markers,
        result: &RunResult,
    ) -> Result<Turn, WorkflowError> {
        let record = markers.candidate.as_ref();
        let Some(commit) = record.and_then(|record| record.candidate_commit.clone()) else {
            // Nothing is there any more that it could be about.
            RunResult::taken(self.desk.context.state, &work.item)?;
            return Ok(Turn::Again);
        };
        let no_change = record.and_then(|record| record.no_change.clone());
        if work.case.is_none() {
            self.examine_candidate(work, markers, &commit, no_change.as_deref())?;
        }
        let said = result.final_message.as_deref().unwrap_or("");
        let report = if let Some(outcome) = unfinished(&result.outcome) {
            let report = format!("The verification was not finished: {outcome}.");
            VerifierReport::NotVerified { report }
        } else {
            let message = FinalMessage::new(said).in_answer_to(&result.prompt);
            let claim = message.verifier_claim(&self.options.magic_phrase);
            VerifierReport::read(&claim, &commit, last_lines(said, FEEDBACK_LINES))
        };
        let case = work.case.as_ref().expect("it was examined above");
        match case.verdict(&report) {
            Err(trouble) => {
                RunResult::taken(self.desk.context.state, &work.item)?;
                Ok(Turn::Trouble(trouble))
            }
            Ok(Verdict::Accepted { proven_by_gates, .. }) => {
                let proof = if proven_by_gates { Proof::Gates } else { Proof::VerifierOnly };
                let verifier = Some(VerifierReceipt {
                    agent: result.agent.clone(),
                    model: result.model.clone(),
                    opinion: Opinion::Verified,
                });
                self.attest(work, markers, verifier)?;
                self.finish(work, markers, Some(commit), proof, Some(result), said)
            }
            Ok(Verdict::PlanInvalid { reason }) => {
                let run = self.run_ref(result);
                let fields = WorkflowFields { reason: Some(reason.clone()), ..none() };
                self.settle(work, &Fact::PlanInvalidated { reason, run }, "needs another plan")?;
                self.tell(work.spec, WorkflowKind::PlanInvalidated, fields)?;
                work.case = None;
                Ok(Turn::Failed)
            }
            Ok(Verdict::NeedsHuman { question }) => {
                // An answer that a crash left behind was to another question, however alike the two are.
                self.desk.questions().take_answer(&work.item)?;
                let question = question.to_string();
                let run = Some(self.run_ref(result));
                self.settle(work, &Fact::PersonNeeded { question, run }, "waits for a person")?;
                Ok(Turn::Again)
            }
            Ok(verdict @ Verdict::Rejected { .. }) => {
                self.reject(work, Phase::Verify, &verdict, Some(&commit), Some(result))
            }
        }
    }

    /// Does what the person said.
    pub(super) fn take_answer(
        &mut self,
        work: &mut Work<'_>,
        markers: &Markers,
        answer: &str,
    ) -> Result<(), WorkflowError> {
        if !is_yes(answer) {
            let fact = Fact::PersonObjected { answer: answer.to_owned() };
            return self.settle(work, &fact, "goes on as a person said");
        }
        let record = markers.candidate.as_ref();
        let no_change = record.is_some_and(|record| record.no_change.is_some());
        let commit =
            record.and_then(|record| record.candidate_commit.clone()).filter(|_| !no_change);
        if let Some(commit) = &commit {
            self.examine_candidate(work, markers, commit, None)?;
            self.attest(work, markers, None)?;
        }
        let said = format!("A person decided: {answer}");
        self.finish(work, markers, commit, Proof::Person, None, &said)?;
        Ok(())
    }

    fn attest(
        &mut self,
        work: &Work<'_>,
        markers: &Markers,
        verifier: Option<VerifierReceipt>,
    ) -> Result<(), WorkflowError> {
        let case = work.case.as_ref().expect("what is accepted was examined");
        let worker = &self.desk.launch(Role::Implementer).choice;
        let attested = Attested {
            item: &work.item,
            worker: Worker { agent: worker.name.clone(), model: worker.model.clone() },
            boundary: self.desk.boundary,
            verifier,
            at: self.now(),
            ralph: env!("CARGO_PKG_VERSION"),
        };
        let before = self.before(work, markers)?;
        self.repositories.judge(&self.gate_context, &before, &work.pinned, |judge| {
            Ok(judge.attest(case, attested)?)
        })?;
        Ok(())
    }

    fn finish(
        &mut self,
        work: &Work<'_>,
        markers: &Markers,
        commit: Option<CommitId>,
        proof: Proof,
        result: Option<&RunResult>,
        said: &str,
    ) -> Result<Turn, WorkflowError> {
        let record = markers.candidate.as_ref();
        let done = DoneMarker {
            commit: commit.clone(),
            at: self.now(),
            verify_run_dir: result.map(|result| self.store.from_home(&result.dir)),
            impl_run_dir: record.and_then(|record| record.last_impl_run_dir.clone()),
            proof,
            spec_digest: match work.spec_digest.clone() {
                Some(digest) => digest,
                None => list::digest(&self.store, work.spec)?,
            },
            said: said.to_owned(),
        };
        self.settle(work, &Fact::Verified { done }, "is done")?;
        let fields = WorkflowFields {
            commit: commit.map(String::from),
            proven_by_gates: Some(proof == Proof::Gates),
            done_file: Some(self.store.from_home(&self.store.path(work.spec.done()))),
            ..none()
        };
        self.tell(work.spec, WorkflowKind::VerifyPass, fields)?;
        Ok(Turn::Again)
    }

    /// Sends work back with what is wrong with it.
    pub(super) fn reject(
        &mut self,
        work: &mut Work<'_>,
        phase: Phase,
        verdict: &Verdict,
        commit: Option<&CommitId>,
        result: Option<&RunResult>,
    ) -> Result<Turn, WorkflowError> {
        work.case = None;
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
        self.tell(work.spec, kind, fields)?;
        let feedback = Feedback { text: for_agent.join("\n\n"), commit: commit.cloned() };
        let run = result.map(|result| self.run_ref(result));
        let fact = Fact::AttemptFailed { phase, outcome, feedback: Some(feedback), run };
        self.settle(work, &fact, "was turned down")?;
        Ok(Turn::Failed)
    }

    fn fail_implementation(
        &mut self,
        work: &Work<'_>,
        result: &RunResult,
        outcome: &str,
        feedback: &str,
        commit: Option<CommitId>,
    ) -> Result<Turn, WorkflowError> {
        let fields = WorkflowFields { reason: Some(outcome.to_owned()), ..none() };
        self.tell(work.spec, WorkflowKind::ImplRejected, fields)?;
        let text = format!("The last run ended without a result that counts: {feedback}.");
        let fact = Fact::AttemptFailed {
            phase: Phase::Implement,
            outcome: outcome.to_owned(),
            feedback: Some(Feedback { text, commit }),
            run: Some(self.run_ref(result)),
        };
        self.settle(work, &fact, "was turned down")?;
        Ok(Turn::Failed)
    }

    /// A run ends on the branch that it began on.
    pub(super) fn return_to_branches(&mut self, item: &str) -> Result<(), WorkflowError> {
        let state = self.desk.context.state;
        let Some(mut before) = BeforeAll::load(state, item)? else { return Ok(()) };
        for problem in self.repositories.return_to_branches(&mut before)? {
            let fields = WorkflowFields { reason: Some(problem), ..none() };
            self.desk.tell(WorkflowKind::Note, fields, &mut *self.observer)?;
        }
        before.save(state, item)
    }

    fn run_ref(&self, result: &RunResult) -> RunRef {
        RunRef { id: result.run.clone(), dir: self.store.from_home(&result.dir) }
    }
}

/// Tells what got in the way of judging from what stops the command.
pub(super) fn trouble_or_error(error: WorkflowError) -> Result<Turn, WorkflowError> {
    match hindrance(&error) {
        Some(Hindrance::Interrupted) => Ok(Turn::End(super::SpecEnd::Interrupted)),
        Some(Hindrance::Trouble(trouble)) => Ok(Turn::Trouble(trouble)),
        None => Err(error),
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
    match claim {
        Claim::Commit(measured) => measured.evidence.commit().map(|found| found.commit.clone()),
        _ => None,
    }
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
