//! What follows from a verifier's run, or from a person's answer: the spec is done, planned again, or sent back.

use ralph_model::answer::is_yes;
use ralph_model::build::Acceptance;
use ralph_model::id::CommitId;
use ralph_model::journal::{PlanInvalidated, VerdictKind, VerifyFail, VerifyPass};
use ralph_model::pipeline::done::DoneMarker;
use ralph_model::pipeline::records::Base;
use ralph_model::pipeline::settle::Feedback;
use ralph_model::pipeline::{Fact, Markers, Phase, settle};
use ralph_model::proof::{LandedLevel, ProofLevel};
use ralph_model::receipt::{Opinion, VerifierReceipt};
use ralph_model::role::Role;
use ralph_model::verdict::{Tested, Verdict, VerifierReport};

use crate::judge::{AgreedChecks, Case};
use crate::run::RunResult;
use crate::workflow::driver::Turn;
use crate::workflow::isolation::landing::{
    LandingEnd, LandingRequest, MOST_REFUSED, landed_before, stuck_question,
};
use crate::workflow::pipeline::examination::verdict_of;
use crate::workflow::pipeline::phases::works_of;
use crate::workflow::pipeline::spec_work::{SpecWork, judged_files};
use crate::workflow::pipeline::{SpecEnd, list};
use crate::workflow::repositories::attestation;
use crate::workflow::{WorkflowError, merge_review, review, unfinished};

/// How much of a verifier's report goes to the next implementer.
const FEEDBACK_LINES: usize = 200;

impl SpecWork<'_, '_, '_> {
    pub(super) fn conclude_verification(
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
            let outcome = format!("the verification was not finished: {outcome}");
            let (reason, commit) = (outcome.clone(), Some(commit.to_string()));
            self.failure = Some("verify_failed");
            self.tell(|spec| VerifyFail { spec, commit, observed_commit: None, reason })?;
            let fact = Fact::VerificationFailed { outcome, run: self.run_ref(result) };
            self.settle(&fact, "is verified again")?;
            return Ok(Turn::Failed);
        }
        if self.cases.is_none() {
            self.examine_candidate(markers)?;
        }
        let said = result.final_message.as_deref().unwrap_or("");
        let claim = result.answer().verifier_claim(&self.pipeline.options.magic_phrase);
        let report = VerifierReport::read(&claim, &commit, last_lines(said, FEEDBACK_LINES));
        let (report, slip) = self.test_answers(report, result)?;
        if let Some(why) = slip {
            let works = works_of(markers, &commit);
            let state = &self.pipeline.session.context.state;
            if review::note_slip(state, &self.item, works, &why, result)? {
                let told = "the verifier's answer could not be used; asking it once more";
                self.note(told.to_owned())?;
                return Ok(Turn::Again);
            }
        }
        let cases = self.cases.as_deref().expect("the candidate was measured above");
        match verdict_of(cases, &report) {
            Err(trouble) => {
                // What could not be measured is measured again.
                self.cases = None;
                Ok(Turn::Trouble(trouble))
            }
            Ok(verdict @ Verdict::Accepted { .. }) => {
                self.tell_verdict("verifier", &verdict, Some(&commit))?;
                let level = self.level();
                let verifier = VerifierReceipt {
                    agent: result.agent.clone(),
                    model: result.model.clone(),
                    opinion: Opinion::Verified,
                };
                let agreed = match &report {
                    VerifierReport::Verified { agreed, .. } => {
                        review::agreed_by(self.cases.as_deref().unwrap_or_default(), agreed)
                    }
                    _ => AgreedChecks::Nobody,
                };
                self.attest(Some(verifier), agreed)?;
                let state = &self.pipeline.session.context.state;
                merge_review::verified(state, &self.item, &works_of(markers, &commit), result)?;
                self.finish(markers, Some(commit), level, Some(result), said)
            }
            Ok(Verdict::PlanInvalid { reason }) => {
                let verdict = Verdict::PlanInvalid { reason: reason.clone() };
                self.tell_verdict("verifier", &verdict, Some(&commit))?;
                let (run, why) = (self.run_ref(result), reason.clone());
                self.settle(&Fact::PlanInvalidated { reason, run }, "needs another plan")?;
                let attempt = Some(result.attempt);
                self.failure = Some("plan_invalidated");
                self.tell(|spec| PlanInvalidated { spec, attempt, reason: why })?;
                self.cases = None;
                Ok(Turn::Failed)
            }
            Ok(Verdict::NeedsHuman { question }) => {
                let verdict = Verdict::NeedsHuman { question: question.clone() };
                self.tell_verdict("judge", &verdict, Some(&commit))?;
                // An answer that a crash left behind was to another question, however alike the two are.
                self.pipeline.session.questions().take_answer(&self.item)?;
                let question = question.to_string();
                let run = Some(self.run_ref(result));
                self.settle(&Fact::PersonNeeded { question, run }, "waits for a person")?;
                Ok(Turn::Again)
            }
            Ok(verdict @ Verdict::Rejected { .. }) => {
                self.reject(Phase::Verify, &verdict, Some(commit), Some(result))
            }
        }
    }

    /// Tests what a verifier says of changed checks; returns what is wrong with the form of its answer, if anything is.
    fn test_answers(
        &self,
        report: VerifierReport,
        result: &RunResult,
    ) -> Result<(VerifierReport, Option<String>), WorkflowError> {
        let phrase = &self.pipeline.options.magic_phrase;
        let said = result.final_message.as_deref().unwrap_or("");
        let cases = self.cases.as_deref().unwrap_or_default();
        let tested = review::tested(cases, &self.source()?.text, said);
        Ok(match (report, tested) {
            (_, Tested::Weaker(answers)) => {
                (VerifierReport::NotVerified { report: review::weaker(&answers) }, None)
            }
            (VerifierReport::Verified { commit, .. }, Tested::Agreed(agreed)) => {
                (VerifierReport::Verified { commit, agreed }, None)
            }
            (report @ VerifierReport::Verified { .. }, Tested::Slips(slips)) => {
                (report, Some(review::slips_of(&slips)))
            }
            // It means to verify something, and what cannot be read.
            (report @ VerifierReport::NotVerified { .. }, _)
                if result.answer().has_phrase(phrase) =>
            {
                let ending = result.answer().ending();
                let why = format!(
                    "- the last two lines are not the commit's name and the phrase; they are: {ending}"
                );
                (report, Some(why))
            }
            (report, _) => (report, None),
        })
    }

    /// Does what the person said.
    pub(in super::super) fn take_answer(
        &mut self,
        markers: &Markers,
        answer: &str,
    ) -> Result<(), WorkflowError> {
        if !is_yes(answer) {
            self.tell_persons_verdict(VerdictKind::Rejected, None, answer)?;
            let refused = markers.plan.as_ref().map_or(0, |plan| plan.landings_refused);
            let fact = Fact::PersonObjected { answer: answer.to_owned() };
            self.settle(&fact, "continues as a person decided")?;
            if refused + 1 >= MOST_REFUSED {
                // The branch has Ralph's own files by now, which are no change of the agent's.
                let pipeline = &mut *self.pipeline;
                pipeline.project.go_on_from_tips(pipeline.session, &self.item)?;
            }
            return Ok(());
        }
        let record = markers.candidate.as_ref();
        let no_change = record.is_some_and(|record| record.no_change.is_some());
        let commit =
            record.and_then(|record| record.candidate_commit.clone()).filter(|_| !no_change);
        if commit.is_some() {
            self.examine_candidate(markers)?;
            self.attest(None, AgreedChecks::Person)?;
        }
        let level = if commit.is_some() { self.level() } else { ProofLevel::NotProven };
        self.tell_persons_verdict(VerdictKind::Accepted, commit.as_ref(), answer)?;
        let said = format!("A person decided: {answer}");
        self.finish(markers, commit, level, None, &said)?;
        Ok(())
    }

    /// Judges a verified candidate again whose gates could not run, in case the person has fixed the cause. Returns
    /// `None` if the question is still open.
    pub(in super::super) fn judge_again(
        &mut self,
        markers: &Markers,
        commit: CommitId,
    ) -> Result<Option<Turn<SpecEnd>>, WorkflowError> {
        self.examine_candidate(markers)?;
        let Some(Ok(verdict @ (Verdict::Accepted { .. } | Verdict::Rejected { .. }))) =
            self.verdict_so_far()
        else {
            self.cases = None;
            return Ok(None);
        };
        // Before acting on it: a crash in between only asks again.
        self.pipeline.session.questions().withdraw(&self.item)?;
        if let Verdict::Rejected { .. } = verdict {
            return self.reject(Phase::Verify, &verdict, Some(commit), None).map(Some);
        }
        self.tell_verdict("judge", &verdict, Some(&commit))?;
        self.attest(None, AgreedChecks::Nobody)?;
        let (level, said) = (self.level(), "The gates could run at last.");
        self.finish(markers, Some(commit), level, None, said).map(Some)
    }

    /// Puts receipts on the commits of accepted work.
    fn attest(
        &mut self,
        verifier: Option<VerifierReceipt>,
        agreed: AgreedChecks,
    ) -> Result<(), WorkflowError> {
        let before = self.before()?;
        let cases = self.cases.as_deref().expect("what is accepted was measured");
        let context = &self.pipeline.session.context;
        let attested = attestation(context, &self.item, Role::Implementer, verifier, agreed);
        let repositories = &self.pipeline.project.repositories;
        repositories.attest(&context.gates(&self.item), &before, &self.pinned, cases, &attested)
    }

    /// Puts the candidate on the run's branch, in one commit with the marker that says so.
    fn land(
        &mut self,
        markers: &Markers,
        acceptance: &Acceptance,
        done: &dyn Fn(LandedLevel) -> DoneMarker,
        result: Option<&RunResult>,
    ) -> Result<LandingEnd, WorkflowError> {
        let (store, spec) = (&self.pipeline.store, self.spec);
        let files = |level| {
            let writes = settle(markers, &Fact::Verified { done: done(level) }, done(level).at)?;
            Ok(writes.iter().filter_map(|write| store.replacement(spec, write)).collect())
        };
        let asked: Vec<String> = self.cases.iter().flatten().flat_map(Case::open_gates).collect();
        let judged = judged_files(self.spec);
        let message = format!("ralph: {} is done", self.spec.id());
        let (before, base) = (self.before()?, self.base()?);
        let request = LandingRequest {
            item: &self.item,
            works: &acceptance.works,
            base: &base,
            before: &before,
            pinned: &self.pinned,
            level: acceptance.level,
            asked: &asked,
            after: result.map(|result| &result.run),
            is_persons_word: result.is_none(),
            files: &files,
            with: &judged.each_ref().map(|path| &**path),
            given: &[],
            marks: None,
            message: &message,
            worker: Role::Implementer,
        };
        self.pipeline.project.land(self.pipeline.session, &request)
    }

    /// Sends accepted work back that the branch has moved away from. It costs no attempt; after the third time in a row a
    /// person is asked.
    fn landing_refused(
        &mut self,
        markers: &Markers,
        commit: &CommitId,
        why: String,
        tips: &Base,
        result: Option<&RunResult>,
    ) -> Result<Turn<SpecEnd>, WorkflowError> {
        self.cases = None;
        let run = result.map(|result| self.run_ref(result));
        let refused = markers.plan.as_ref().map_or(0, |plan| plan.landings_refused);
        self.note(format!("the work could not land: {}", first_line(&why)))?;
        if refused + 1 >= MOST_REFUSED {
            self.pipeline.session.questions().take_answer(&self.item)?;
            let question = stuck_question(Some(commit.as_str()), &why);
            let question = format!("{question} (no: the agent gets this as feedback)");
            self.settle(&Fact::PersonNeeded { question, run }, "waits for a person")?;
            return Ok(Turn::Again);
        }
        // The work itself was not rejected: the same commit, claimed again, is judged again.
        let feedback = Feedback { text: why, commit: None, claimed: None };
        self.settle(
            &Fact::LandingRefused { feedback, base: tips.clone(), run },
            "goes back: the branch has moved",
        )?;
        let pipeline = &mut *self.pipeline;
        pipeline.project.go_on_from(pipeline.session, &self.item, tips)?;
        Ok(Turn::Again)
    }

    /// Lands accepted work. Returns what is known of it as it landed, or what follows where it did not.
    fn land_at_its_level(
        &mut self,
        markers: &Markers,
        judged: Acceptance,
        done: &dyn Fn(LandedLevel) -> DoneMarker,
        result: Option<&RunResult>,
    ) -> Result<Result<LandedLevel, Turn<SpecEnd>>, WorkflowError> {
        if self.pipeline.project.is_in_place() {
            return Ok(Ok(landed_before(&judged)));
        }
        loop {
            let state = &self.pipeline.session.context.state;
            let level = merge_review::level(state, &self.item, &judged.works, judged.level)?;
            let acceptance = Acceptance { level, ..judged.clone() };
            match self.land(markers, &acceptance, done, result)? {
                LandingEnd::Landed { level } => return Ok(Ok(level)),
                LandingEnd::Nothing => return Ok(Ok(LandedLevel::NOT_PROVEN)),
                // The marker is written with what is known of the merge.
                LandingEnd::Unsettled { is_asked: false } => {}
                LandingEnd::Unsettled { is_asked: true } => {
                    let told = "a gate is red on the branch, before and after: a verifier is asked about it";
                    self.note(told.to_owned())?;
                    return Ok(Err(Turn::Again));
                }
                LandingEnd::Refused { why, tips } => {
                    let commit = judged.done_at.expect("what lands has a commit");
                    return self.landing_refused(markers, &commit, why, &tips, result).map(Err);
                }
            }
        }
    }

    fn finish(
        &mut self,
        markers: &Markers,
        commit: Option<CommitId>,
        level: ProofLevel,
        result: Option<&RunResult>,
        said: &str,
    ) -> Result<Turn<SpecEnd>, WorkflowError> {
        let record = markers.candidate.as_ref();
        let store = &self.pipeline.store;
        let marker = DoneMarker {
            commit: commit.clone(),
            at: self.pipeline.now(),
            verify_run_dir: result.map(|result| store.relative_to_home(&result.dir)),
            impl_run_dir: record.and_then(|record| record.last_impl_run_dir.clone()),
            level: LandedLevel::NOT_PROVEN,
            spec_digest: match self.spec_digest.clone() {
                Some(digest) => digest,
                None => list::digest(store, self.spec)?,
            },
            said: said.to_owned(),
        };
        let done = |level| DoneMarker { level, ..marker.clone() };
        let done_file = Some(store.relative_to_home(&store.path(self.spec.done())));
        let mut landed = LandedLevel::NOT_PROVEN;
        if let Some(commit) = commit.clone() {
            let works = works_of(markers, &commit);
            let judged = Acceptance { works: works.clone(), done_at: Some(commit), level };
            landed = match self.land_at_its_level(markers, judged, &done, result)? {
                Ok(level) => level,
                Err(turn) => return Ok(turn),
            };
            // Before it is done, so that a lookup of an accepted commit finds it.
            for work in works {
                let kept = self.pipeline.project.repositories.keep_accepted(&self.item, &work)?;
                if let Some(reason) = kept {
                    self.note(reason)?;
                }
            }
        }
        if self.pipeline.store.load(self.spec)?.done.is_none() {
            self.settle(&Fact::Verified { done: done(landed) }, "is done")?;
        }
        let (commit, level) = (commit.map(String::from), Some(landed));
        self.tell(|spec| VerifyPass { spec, commit, level, done_file })?;
        Ok(Turn::Again)
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

fn last_lines(text: &str, count: usize) -> &str {
    let start = text.trim_end().rmatch_indices('\n').nth(count - 1).map_or(0, |(at, _)| at + 1);
    &text[start..]
}
