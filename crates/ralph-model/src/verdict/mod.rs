//! The judge: from what the agent claims and what the harness measured to what follows.
//!
//! A run that did not complete is not judged: it is trouble, or a fact about the work, before anyone looks at its claim.
//! The first line that applies decides:
//!
//! | claim | what else is known | verdict |
//! |---|---|---|
//! | none, or a claim that is not the agent's to make | | rejected |
//! | no change | the verifier met trouble | trouble |
//! | no change | the verifier says the plan is no good | plan invalid |
//! | no change | | a person decides, with the verifier's opinion |
//! | commit | faults in the evidence, a gate that blocks, changed checks where the person wants none | rejected, with all of these |
//! | commit | other than the tree at it was checked, or the machine got in a gate's way | trouble |
//! | commit | the verifier met trouble | trouble |
//! | commit | the verifier says the plan is no good | plan invalid |
//! | commit | the verifier rejects it, or names another commit | rejected |
//! | commit | it fails with the anchor's checks, and no verifier agreed with each of them, or the person wants to be asked | a person decides |
//! | commit | a gate can be run nowhere | a person decides |
//! | commit | | accepted |
//!
//! The verifier's word counts only about a candidate with which the harness itself finds no fault, and its trouble
//! rejects nothing. Where no verifier was asked the rest decides: a workflow that has one asks it about what would be
//! accepted (or needs a person for want of a change), and judges again.

mod answers;
mod reason;

use serde::{Deserialize, Serialize};

use crate::checks::{ChangedCheck, ChecksFinding};
use crate::contract::{Verification, VerifierClaim};
use crate::evidence::{CommitEvidence, Evidence};
use crate::gate::{Effect, GateReport, GatesView};
use crate::id::CommitId;
use crate::proof::ProofLevel;
use crate::run::Trouble;

pub use answers::{Agreement, AnswerSlip, AnswerTest, CheckAnswer, CheckOpinion, Tested};
pub use reason::{PersonQuestion, Reason, VerifierQuestion, questions_for_verifier};

/// What an agent that was to do the work says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The work is in this commit. What was measured of it comes with it.
    Commit(Measured),
    /// Nothing needs to change.
    NoChange { reason: String },
    /// The plan is no good, which is the verifier's to say.
    PlanInvalid { reason: String },
    /// It did not say what it was to say.
    Nothing,
}

/// What the harness measured of a claimed commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    pub evidence: Evidence,
    pub gates: GatesView,
    pub checks: ChecksFinding,
    /// Who decides on changed checks with which the candidate does not pass.
    pub changed_checks: ChangedChecks,
}

impl Measured {
    /// What is known of the work, once whoever had to agree has agreed.
    pub fn level(&self) -> ProofLevel {
        let gates = self.gates.level();
        if self.checks.holds() { gates } else { gates.min(ProofLevel::ChecksChanged) }
    }
}

/// Who decides on a candidate that does not pass with the checks as they were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangedChecks {
    Reject,
    #[default]
    Verifier,
    Person,
}

/// What came of asking a verifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VerifierReport {
    NotAsked,
    /// It repeats this commit as verified; for a claim that nothing needs to change, the commit it looked at.
    Verified {
        commit: CommitId,
        /// The changed checks that it agreed with, each for a reason that was tested.
        agreed: Agreement,
    },
    NotVerified {
        report: String,
    },
    PlanInvalid {
        reason: String,
    },
    Trouble {
        trouble: Trouble,
    },
}

impl VerifierReport {
    /// Returns the report on a commit that says nothing about changed checks.
    pub fn verified(commit: &CommitId) -> VerifierReport {
        VerifierReport::Verified { commit: commit.clone(), agreed: Agreement::default() }
    }

    /// Reads what a verifier claims of `candidate`; `message` is its last word, for feedback.
    pub fn read(claim: &VerifierClaim, candidate: &CommitId, message: &str) -> VerifierReport {
        match (claim.against(candidate), &claim.commit) {
            (Verification::Verified, _) => VerifierReport::verified(candidate),
            (Verification::PlanInvalid { reason }, _) => VerifierReport::PlanInvalid { reason },
            (Verification::NotVerified, Some(other)) => VerifierReport::verified(other),
            (Verification::NotVerified, None) => {
                VerifierReport::NotVerified { report: message.trim().to_owned() }
            }
        }
    }
}

/// What the harness concludes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    Accepted { commit: CommitId, level: ProofLevel },
    Rejected { reasons: Vec<Reason> },
    PlanInvalid { reason: String },
    NeedsHuman { question: PersonQuestion },
}

/// Reaches a verdict, or says what got in the way of one.
pub fn judge(claim: &Claim, verifier: &VerifierReport) -> Result<Verdict, Trouble> {
    match claim {
        Claim::Nothing => Ok(rejected(Reason::NoClaim)),
        Claim::PlanInvalid { reason } => {
            Ok(rejected(Reason::PlanIsTheVerifiersToJudge { reason: reason.clone() }))
        }
        Claim::NoChange { reason } => judge_no_change(reason, verifier),
        Claim::Commit(measured) => judge_commit(measured, verifier),
    }
}

fn rejected(reason: Reason) -> Verdict {
    Verdict::Rejected { reasons: vec![reason] }
}

fn judge_no_change(reason: &str, verifier: &VerifierReport) -> Result<Verdict, Trouble> {
    let opinion = match verifier {
        VerifierReport::Trouble { trouble } => return Err(trouble.clone()),
        VerifierReport::PlanInvalid { reason } => {
            return Ok(Verdict::PlanInvalid { reason: reason.clone() });
        }
        VerifierReport::NotAsked => None,
        VerifierReport::Verified { .. } => Some("it agrees".to_owned()),
        VerifierReport::NotVerified { report } => Some(report.clone()),
    };
    let question = PersonQuestion::NoChange { reason: reason.to_owned(), opinion };
    Ok(Verdict::NeedsHuman { question })
}

fn judge_commit(measured: &Measured, verifier: &VerifierReport) -> Result<Verdict, Trouble> {
    let Measured { evidence, gates, checks, changed_checks } = measured;
    let mut reasons: Vec<Reason> =
        evidence.faults().into_iter().map(|fault| Reason::Evidence { fault }).collect();
    reasons.extend(gates.with(Effect::Block).cloned().map(|report| Reason::Gate { report }));
    let asked: Vec<ChangedCheck> = checks.asked().into_iter().cloned().collect();
    if *changed_checks == ChangedChecks::Reject && !asked.is_empty() {
        let failing = checks.failing().cloned().collect();
        reasons.push(Reason::ChecksChanged { checks: asked.clone(), failing });
    }
    let Evidence::Commit(found) = evidence else { return Ok(Verdict::Rejected { reasons }) };
    if !reasons.is_empty() {
        return Ok(Verdict::Rejected { reasons });
    }
    if let Some(trouble) = machine_trouble(found, gates) {
        return Err(trouble);
    }
    let commit = found.commit.clone();
    match verifier {
        VerifierReport::Trouble { trouble } => return Err(trouble.clone()),
        VerifierReport::PlanInvalid { reason } => {
            return Ok(Verdict::PlanInvalid { reason: reason.clone() });
        }
        VerifierReport::NotVerified { report } => {
            return Ok(rejected(Reason::NotVerified { report: report.clone() }));
        }
        VerifierReport::Verified { commit: other, .. } if *other != commit => {
            let reason = Reason::AnotherVerified { candidate: commit, verified: other.clone() };
            return Ok(rejected(reason));
        }
        VerifierReport::Verified { .. } | VerifierReport::NotAsked => {}
    }
    let covers = |check: &ChangedCheck| match verifier {
        VerifierReport::Verified { agreed, .. } => agreed.covers(&found.named(&check.path)),
        _ => false,
    };
    let is_agreed = *changed_checks == ChangedChecks::Verifier && asked.iter().all(covers);
    if !asked.is_empty() && !is_agreed {
        let failing = checks.failing().cloned().collect();
        let question = PersonQuestion::ChecksChanged { commit, checks: asked, failing };
        return Ok(Verdict::NeedsHuman { question });
    }
    let stuck: Vec<GateReport> = gates.with(Effect::Person).cloned().collect();
    if !stuck.is_empty() {
        let question = PersonQuestion::GatesCannotRun { commit, gates: stuck };
        return Ok(Verdict::NeedsHuman { question });
    }
    Ok(Verdict::Accepted { commit, level: measured.level() })
}

/// Returns what keeps the results from being about this commit.
fn machine_trouble(found: &CommitEvidence, gates: &GatesView) -> Option<Trouble> {
    let message = if found.checked_another_tree() {
        format!("what was checked is not the tree of {}", found.commit)
    } else {
        let report = gates.with(Effect::Trouble).next()?;
        format!("the gate `{}` could not be run", report.gate)
    };
    Some(Trouble::Machine { message })
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
