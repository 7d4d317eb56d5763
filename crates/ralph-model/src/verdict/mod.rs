//! The judge: from the agent's claim and the harness's measurements to a verdict.
//!
//! A run that did not complete is not judged: it is trouble, or a fact about the work, before its claim is considered.
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
//! The verifier's statement counts only for a candidate without faults found by the harness, and its trouble rejects
//! nothing. If no verifier was asked, the rest decides: a workflow with a verifier asks it about work that would be
//! accepted (or that needs a person because nothing changed), and judges again.

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

/// The claim of an agent that did the work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The work is in this commit, given with its measurements.
    Commit(Measured),
    /// Nothing needs to change.
    NoChange { reason: String },
    /// The plan is invalid, which only the verifier may claim.
    PlanInvalid { reason: String },
    /// It did not make the required claim.
    Nothing,
}

/// The measurements of a claimed commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    pub evidence: Evidence,
    pub gates: GatesView,
    pub checks: ChecksFinding,
    /// Who decides on changed checks with which the candidate does not pass.
    pub changed_checks: ChangedChecks,
}

impl Measured {
    /// The level of proof, once all required approvals are given.
    pub fn level(&self) -> ProofLevel {
        let gates = self.gates.level();
        if self.checks.holds() { gates } else { gates.min(ProofLevel::ChecksChanged) }
    }
}

/// Who decides on a candidate that does not pass with the anchor's checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangedChecks {
    Reject,
    #[default]
    Verifier,
    Person,
}

/// The result of asking a verifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VerifierReport {
    NotAsked,
    /// It repeats this commit as verified; for a claim that nothing needs to change, the commit it looked at.
    Verified {
        commit: CommitId,
        /// The changed checks it agreed to, each with a tested reason.
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
    /// Returns the report on a commit without any statement about changed checks.
    pub fn verified(commit: &CommitId) -> VerifierReport {
        VerifierReport::Verified { commit: commit.clone(), agreed: Agreement::default() }
    }

    /// Interprets a verifier's claim about `candidate`; `message` is its final message, for feedback.
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

/// The harness's conclusion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    Accepted { commit: CommitId, level: ProofLevel },
    Rejected { reasons: Vec<Reason> },
    PlanInvalid { reason: String },
    NeedsHuman { question: PersonQuestion },
}

/// Reaches a verdict, or returns the trouble that prevented one.
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

/// Returns why the results are not about this commit.
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
