//! What follows from an implementer's run: a candidate, if what it claims holds so far; else feedback for the next attempt.

use ralph_model::build::Work;
use ralph_model::id::CommitId;
use ralph_model::journal::{WorkflowFields, WorkflowKind};
use ralph_model::pipeline::records::CandidateStatus;
use ralph_model::pipeline::settle::Feedback;
use ralph_model::pipeline::{Candidate, Fact, Markers, Phase};
use ralph_model::verdict::{Claim, Verdict};

use crate::judge::Said;
use crate::run::RunResult;
use crate::workflow::driver::Turn;
use crate::workflow::pipeline::examination::commit_evidence;
use crate::workflow::pipeline::spec_work::SpecWork;
use crate::workflow::pipeline::{SpecEnd, none};
use crate::workflow::{WorkflowError, unfinished};

impl SpecWork<'_, '_, '_> {
    pub(super) fn conclude_implementation(
        &mut self,
        markers: &Markers,
        result: &RunResult,
    ) -> Result<Turn<SpecEnd>, WorkflowError> {
        if let Some(outcome) = unfinished(&result.outcome) {
            self.return_to_branches()?;
            return self.fail_implementation(result, outcome);
        }
        let said = Said::from(result.answer().completion(&self.pipeline.options.magic_phrase));
        if let Said::Commit { claimed } = &said
            && let Some(feedback) = rejected_before(markers, claimed)
        {
            self.return_to_branches()?;
            return self.reject_repeated(claimed.clone(), feedback, result);
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
                let found = self.cases.as_ref().and_then(|cases| commit_evidence(&cases[0].claim));
                let commit = found.map(|found| found.commit.clone());
                self.reject(Phase::Implement, &verdict, commit, Some(result))
            }
        }
    }

    fn take_candidate(&mut self, result: &RunResult) -> Result<Turn<SpecEnd>, WorkflowError> {
        let run = self.run_ref(result);
        let cases = self.cases.as_ref().expect("the cases were just measured");
        let (fact, fields) = match &cases[0].claim {
            Claim::NoChange { reason } => {
                let base = self.pipeline.project.repositories.base()?;
                let Some(commit) = base.into_values().next() else {
                    return self
                        .fail_implementation(result, "there is no commit to look at".to_owned());
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

    /// Answers the claim of a commit that was rejected before: nothing about it has changed, so nothing is run again.
    fn reject_repeated(
        &mut self,
        commit: CommitId,
        feedback: String,
        result: &RunResult,
    ) -> Result<Turn<SpecEnd>, WorkflowError> {
        let outcome = format!("{commit} was rejected before and is claimed again unchanged");
        let told = "You claimed the same commit again, and it is rejected as before";
        // Said once, however often it is claimed again.
        let text = if feedback.starts_with(told) {
            feedback
        } else {
            format!("{told}. Mend what is wrong with it:\n\n{feedback}")
        };
        let feedback = Some(Feedback { text, commit: Some(commit), claimed: None });
        self.fail_attempt(Phase::Implement, outcome, feedback, None, Some(result))
    }

    fn fail_implementation(
        &mut self,
        result: &RunResult,
        outcome: String,
    ) -> Result<Turn<SpecEnd>, WorkflowError> {
        let text = format!("The last run ended without a result that counts: {outcome}.");
        let feedback = Some(Feedback { text, commit: None, claimed: None });
        self.fail_attempt(Phase::Implement, outcome, feedback, None, Some(result))
    }
}

/// Returns what was wrong with a commit that was rejected in the last attempt.
fn rejected_before(markers: &Markers, claimed: &CommitId) -> Option<String> {
    let record = markers.candidate.as_ref()?;
    let same = record.candidate_commit.as_ref() == Some(claimed);
    record.feedback.clone().filter(|_| same && record.status == CandidateStatus::Rejected)
}
