//! What follows from an implementer's run: a candidate, if what it claims holds so far; else feedback for the next attempt.

use ralph_model::build::Work;
use ralph_model::id::CommitId;
use ralph_model::journal::{CandidateWritten, ImplNoCompletion};
use ralph_model::pipeline::records::CandidateStatus;
use ralph_model::pipeline::settle::Feedback;
use ralph_model::pipeline::{Candidate, Fact, Markers, Phase};
use ralph_model::verdict::{Claim, Verdict};

use crate::git::commits::Signing;
use crate::judge::Said;
use crate::run::RunResult;
use crate::workflow::driver::Turn;
use crate::workflow::pipeline::SpecEnd;
use crate::workflow::pipeline::examination::commit_evidence;
use crate::workflow::pipeline::spec_work::SpecWork;
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
        if let Some(why) = self.commit_unnamed_work(result)? {
            self.return_to_branches()?;
            return self.fail_implementation(result, why);
        }
        let said = self.meant(result)?;
        if let Said::Commit { claimed } = &said
            && let Some((commit, feedback)) = rejected_before(markers, &self.run_ref(result).dir)
            && self.is_claimed_again(&commit, claimed)?
        {
            self.return_to_branches()?;
            return self.reject_repeated(commit, feedback, result);
        }
        if said == Said::Nothing {
            let attempt = Some(result.attempt);
            self.tell(|spec| ImplNoCompletion { spec, attempt })?;
        }
        let before = self.before()?;
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

    /// Commits what a run left uncommitted, if its claim names no commit: then all of its work is meant. Returns why that
    /// is impossible.
    fn commit_unnamed_work(&self, result: &RunResult) -> Result<Option<String>, WorkflowError> {
        let (answer, phrase) = (result.answer(), &self.pipeline.options.magic_phrase);
        if !answer.claims_the_tip(phrase) || answer.no_change_needed().is_some() {
            return Ok(None);
        }
        let message = format!("feat: {}\n", self.spec.id());
        let signing = Signing::allowed(self.pipeline.session.context.config.git.sign);
        let repositories = &self.pipeline.project.repositories;
        repositories.commit_leftovers(&self.before()?, &message, signing)
    }

    /// Returns what an implementer claims: of a commit its whole name, and what is above it.
    fn meant(&self, result: &RunResult) -> Result<Said, WorkflowError> {
        let (answer, phrase) = (result.answer(), &self.pipeline.options.magic_phrase);
        let repositories = &self.pipeline.project.repositories;
        let mut said = Said::from(answer.completion(phrase));
        if said == Said::Nothing
            && let Some(beginning) = answer.verifier_claim(phrase).beginning
            && let Some(claimed) = repositories.named_like(&beginning)?
        {
            said = match answer.no_change_needed() {
                Some(reason) => Said::NoChange { reason },
                None => Said::Commit { claimed },
            };
        }
        if said == Said::Nothing && answer.claims_the_tip(phrase) {
            // Without a commit's name the tip of the work is meant.
            let work = repositories.work_of(&self.before()?)?.into_iter().next();
            said = match (answer.no_change_needed(), work) {
                (Some(reason), _) => Said::NoChange { reason },
                (None, Some(work)) => Said::Commit { claimed: work.commit },
                (None, None) => Said::Nothing,
            };
        }
        Ok(match said {
            Said::Commit { claimed } if !self.pipeline.project.is_in_place() => {
                Said::Commit { claimed: repositories.tip_above(&claimed)? }
            }
            said => said,
        })
    }

    fn take_candidate(&mut self, result: &RunResult) -> Result<Turn<SpecEnd>, WorkflowError> {
        let run = self.run_ref(result);
        let cases = self.cases.as_ref().expect("the cases were just measured");
        let store = &self.pipeline.store;
        let candidate_file = Some(store.relative_to_home(&store.path(self.spec.candidate())));
        let spec = self.spec.to_string();
        let written = CandidateWritten { spec, candidate_file, ..CandidateWritten::default() };
        let (fact, written) = match &cases[0].claim {
            Claim::NoChange { reason } => {
                let base = self.pipeline.project.repositories.base()?;
                let Some(commit) = base.into_values().next() else {
                    return self.fail_implementation(result, "no commit to examine".to_owned());
                };
                let reason = reason.clone();
                let written = CandidateWritten { reason: Some(reason.clone()), ..written };
                (Fact::NoChangeClaimed { reason, commit, run }, written)
            }
            Claim::Commit(measured) => {
                let found = measured.evidence.commit().expect("an accepted commit was found");
                let also = cases[1..].iter().filter_map(|case| {
                    let found = commit_evidence(&case.claim)?;
                    let repository = found.repository.clone();
                    Some(Work { commit: found.commit.clone(), repository })
                });
                let also: Vec<Work> = also.collect();
                let (commit, repository) = (found.commit.clone(), found.repository.clone());
                let mut works = vec![Work { commit, repository }];
                works.extend(also.iter().cloned());
                let pipeline = &*self.pipeline;
                pipeline.project.keep_candidate(pipeline.session, &self.item, &works)?;
                let candidate = Candidate {
                    commit: found.commit.clone(),
                    repository: found.repository.clone(),
                    refs: found.refs.clone(),
                    also,
                };
                let written = CandidateWritten {
                    commit: Some(found.commit.to_string()),
                    level: Some(self.level()),
                    ..written
                };
                (Fact::CandidateFound { candidate, run }, written)
            }
            Claim::Nothing | Claim::PlanInvalid { .. } => {
                unreachable!("the judge accepts neither")
            }
        };
        self.settle(&fact, "has a candidate")?;
        self.pipeline.session.record(written)?;
        Ok(Turn::Again)
    }

    /// Whether a claim is that of a rejected commit. In place, commits of Ralph's own may be on top of it by now.
    fn is_claimed_again(
        &self,
        rejected: &CommitId,
        claimed: &CommitId,
    ) -> Result<bool, WorkflowError> {
        let project = &self.pipeline.project;
        if project.is_in_place() {
            return project.repositories.is_same_work(rejected, claimed);
        }
        Ok(rejected == claimed)
    }

    /// Answers the claim of a commit that was rejected before: nothing about it has changed, so nothing is run again.
    fn reject_repeated(
        &mut self,
        commit: CommitId,
        feedback: String,
        result: &RunResult,
    ) -> Result<Turn<SpecEnd>, WorkflowError> {
        let outcome = format!("{commit} was rejected before and is claimed again unchanged");
        // Said once, however often it is claimed again.
        let text = if feedback.starts_with(CLAIMED_AGAIN) {
            feedback
        } else {
            format!("{CLAIMED_AGAIN}. Fix what is wrong with it:\n\n{feedback}")
        };
        let feedback = Some(Feedback { text, commit: Some(commit), claimed: None });
        self.fail_attempt(Phase::Implement, outcome, feedback, None, Some(result))
    }

    fn fail_implementation(
        &mut self,
        result: &RunResult,
        outcome: String,
    ) -> Result<Turn<SpecEnd>, WorkflowError> {
        let text = format!("The last run ended without a usable result: {outcome}.");
        let feedback = Some(Feedback { text, commit: None, claimed: None });
        self.fail_attempt(Phase::Implement, outcome, feedback, None, Some(result))
    }
}

/// How feedback begins on a commit that is claimed although it was rejected.
const CLAIMED_AGAIN: &str = "You claimed the same commit again, and it is rejected as before";

/// Returns the commit that was rejected in the last attempt, and what was wrong with it. That attempt was not the run in
/// this directory: a crash may have cut short the rejection of this very run, and then it is judged again.
fn rejected_before(markers: &Markers, run_dir: &str) -> Option<(CommitId, String)> {
    let record = markers.candidate.as_ref()?;
    let is_rejected = record.status == CandidateStatus::Rejected;
    let feedback = record.feedback.clone().filter(|_| is_rejected)?;
    let is_of_this_run = record.last_impl_run_dir.as_deref() == Some(run_dir);
    let is_earlier = !is_of_this_run || feedback.starts_with(CLAIMED_AGAIN);
    record.candidate_commit.clone().filter(|_| is_earlier).map(|commit| (commit, feedback))
}

#[cfg(test)]
mod tests {
    use ralph_model::pipeline::records::SpecIdentity;

    use super::*;

    #[test]
    fn a_rejection_that_a_crash_cut_short_is_not_taken_for_an_earlier_one() {
        let commit: CommitId = "c".repeat(40).parse().unwrap();
        let repeated = format!("{CLAIMED_AGAIN}. Mend it.");
        let table = [
            ("runs/1", "rejected", "it fails", Some("it fails")),
            ("runs/2", "rejected", "it fails", None),
            ("runs/2", "rejected", repeated.as_str(), Some(repeated.as_str())),
            ("runs/1", "candidate", "it fails", None),
        ];
        for (dir, status, feedback, expected) in table {
            let record = serde_json::json!({
                "spec_rel": "0001-a.md",
                "spec_id": "0001-a",
                "candidate_commit": commit.as_str(),
                "created_at_utc": "2027-01-15T08:00:00Z",
                "last_impl_run_dir": dir,
                "status": status,
                "feedback": feedback,
            });
            let candidate = Some(serde_json::from_value(record).unwrap());
            let spec = SpecIdentity { rel: "0001-a.md".to_owned(), id: "0001-a".to_owned() };
            let markers = Markers {
                spec,
                done: None,
                plan: None,
                plan_text: None,
                archived: Vec::new(),
                candidate,
            };
            let found = rejected_before(&markers, "runs/2");
            let expected = expected.map(|text| (commit.clone(), text.to_owned()));
            assert_eq!(found, expected, "{dir} {status} {feedback}");
        }
    }
}
