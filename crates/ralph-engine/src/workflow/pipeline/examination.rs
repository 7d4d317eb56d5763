//! What the judge measures of a candidate: one case for each repository that has work, judged together.

use ralph_model::evidence::CommitEvidence;
use ralph_model::pipeline::Markers;
use ralph_model::proof::ProofLevel;
use ralph_model::run::Trouble;
use ralph_model::verdict::{Claim, Reason, Verdict, VerifierQuestion, VerifierReport};

use super::phases::works_of;
use super::spec_work::SpecWork;
use crate::judge::{Case, Said};
use crate::workflow::WorkflowError;
use crate::workflow::repositories::BeforeAll;

impl SpecWork<'_, '_, '_> {
    /// Measures a claim, and what was done in other repositories than the one that has its commit.
    pub(super) fn examine(
        &mut self,
        before: &BeforeAll,
        said: &Said,
    ) -> Result<Vec<Case>, WorkflowError> {
        let mut cases = vec![self.examine_one(before, said)?];
        let Some(found) = commit_evidence(&cases[0].claim) else { return Ok(cases) };
        let repository = found.repository.clone();
        for work in self.pipeline.project.repositories.work_elsewhere(before, &repository)? {
            let said = Said::Work(work);
            cases.push(self.examine_one(before, &said)?);
        }
        Ok(cases)
    }

    fn examine_one(&mut self, before: &BeforeAll, said: &Said) -> Result<Case, WorkflowError> {
        let repositories = &self.pipeline.project.repositories;
        self.pipeline.session.with_gates(&self.item, |context, tell| {
            repositories.examine(context, before, &self.pinned, said, tell)
        })
    }

    /// The level of proof of the candidate, once all required approvals are given.
    pub(super) fn level(&self) -> ProofLevel {
        let levels = self.cases.iter().flatten().map(Case::level);
        levels.min().unwrap_or(ProofLevel::NotProven)
    }

    /// What the judge says while no verifier has been asked. What only a person can settle is first put to a verifier.
    pub(super) fn verdict_so_far(&self) -> Option<Result<Verdict, Trouble>> {
        self.cases.as_deref().map(|cases| verdict_of(cases, &VerifierReport::NotAsked))
    }

    /// The questions for a verifier in addition to the work itself.
    pub(super) fn questions(&self) -> Vec<VerifierQuestion> {
        self.cases.iter().flatten().flat_map(Case::questions).collect()
    }

    /// Measures the candidate again, after a restart.
    pub(super) fn examine_candidate(&mut self, markers: &Markers) -> Result<(), WorkflowError> {
        let record = markers.candidate.as_ref();
        let no_change = record.and_then(|record| record.no_change.clone());
        let before = self.before()?;
        let commit = record.and_then(|record| record.candidate_commit.clone());
        let cases = match (no_change, commit) {
            (Some(reason), _) => vec![self.examine_one(&before, &Said::NoChange { reason })?],
            (None, None) => vec![self.examine_one(&before, &Said::Nothing)?],
            (None, Some(commit)) => {
                let mut cases = Vec::new();
                for work in works_of(markers, &commit) {
                    let said = Said::Work(work);
                    cases.push(self.examine_one(&before, &said)?);
                }
                cases
            }
        };
        self.cases = Some(cases);
        Ok(())
    }
}

/// Judges all work together: the verifier speaks of the first case, and the others must hold by themselves.
pub(super) fn verdict_of(cases: &[Case], report: &VerifierReport) -> Result<Verdict, Trouble> {
    let (first, others) = cases.split_first().expect("a claim has a case");
    let mut rejected = Vec::new();
    let mut question = None;
    for case in others {
        // The verifier of the first case has seen the others, too.
        let report = match (report, commit_evidence(&case.claim)) {
            (VerifierReport::Verified { agreed, .. }, Some(found)) => {
                VerifierReport::Verified { commit: found.commit.clone(), agreed: agreed.clone() }
            }
            _ => VerifierReport::NotAsked,
        };
        match case.verdict(&report)? {
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

pub(super) fn commit_evidence(claim: &Claim) -> Option<&CommitEvidence> {
    match claim {
        Claim::Commit(measured) => measured.evidence.commit(),
        _ => None,
    }
}
