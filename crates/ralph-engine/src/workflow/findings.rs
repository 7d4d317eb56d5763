//! What the judge says of all work on an item together: a task and a story may have work in several repositories.

use ralph_model::build::{Rejection, Work};
use ralph_model::evidence::EvidenceFault;
use ralph_model::journal::ReasonText;
use ralph_model::proof::ProofLevel;
use ralph_model::run::Trouble;
use ralph_model::verdict::{Claim, PersonQuestion, Reason, Verdict};

use super::review::ReviewStanding;
use crate::judge::{Case, lowest};

/// What the judge says of all work together.
pub(super) struct Findings {
    pub(super) rejected: Option<Rejection>,
    /// Why, each with its code.
    pub(super) reasons: Vec<ReasonText>,
    pub(super) question: Option<PersonQuestion>,
    pub(super) level: ProofLevel,
}

impl Findings {
    /// Puts together what was measured of each work and what a verifier says of it. `no_change` tells the agent how to say
    /// that nothing has to change.
    pub(super) fn of(
        works: &[Work],
        cases: &[Case],
        review: &ReviewStanding,
        no_change: &str,
    ) -> Result<Findings, Trouble> {
        let mut found =
            Findings { rejected: None, reasons: Vec::new(), question: None, level: lowest(cases) };
        let reports = review.reports(works);
        for ((work, case), report) in works.iter().zip(cases).zip(&reports) {
            match case.verdict(report)? {
                Verdict::Accepted { .. } => {}
                Verdict::Rejected { reasons } => {
                    found.reasons.extend(reasons.iter().map(ReasonText::from));
                    let place = (works.len() > 1).then_some(work.repository.as_str());
                    let more = rejection(work, place, &reasons, no_change);
                    found.rejected = Some(match found.rejected {
                        None => more,
                        Some(first) => first.and(&more),
                    });
                }
                Verdict::PlanInvalid { reason } => {
                    found.reasons.push(ReasonText::new("plan_invalid", &reason));
                    let commit = Some(work.commit.clone());
                    found.rejected.get_or_insert(Rejection { commit, ..Rejection::plain(reason) });
                }
                Verdict::NeedsHuman { question } => {
                    found.question.get_or_insert(question);
                }
            }
        }
        if let (ReviewStanding::Unclear { why }, Some(work)) = (review, works.first()) {
            let (commit, said) = (work.commit.clone(), why.clone());
            found.question.get_or_insert(PersonQuestion::VerifierUnclear { commit, said });
        }
        Ok(found)
    }
}

/// How many files the work changes in all repositories.
pub(super) fn changed_files(cases: &[Case]) -> u64 {
    let found = cases.iter().filter_map(|case| match &case.claim {
        Claim::Commit(measured) => measured.evidence.commit(),
        _ => None,
    });
    found.map(|found| found.changed.len() as u64).sum()
}

/// Formats a reason for the agent and for the person.
fn format_reason(reason: &Reason) -> (String, String) {
    (reason.for_agent(), reason.for_person())
}

/// Formats the reason that nothing was changed, where no commit is claimed.
fn nothing_there(reason: &Reason, no_change: &str) -> Option<(String, String)> {
    let Reason::Evidence { fault } = reason else { return None };
    let nothing = match fault {
        EvidenceFault::NotNew { .. } | EvidenceFault::ChangesNothing { .. } => {
            "Nothing had changed when the run ended"
        }
        EvidenceFault::ChangesOnlyHome { .. } => {
            "Nothing but Ralph's own files had changed when the run ended"
        }
        _ => return None,
    };
    let agent = format!(
        "{nothing}, and it had said that the work is done: do the work and leave it there, or, if nothing needs to \
         change, {no_change}."
    );
    Some((agent, format!("{nothing}.")))
}

/// Formats the reasons against one commit. `place` is named where there are several repositories to look for it.
fn rejection(work: &Work, place: Option<&str>, reasons: &[Reason], no_change: &str) -> Rejection {
    let commit = &work.commit;
    let told = reasons
        .iter()
        .map(|reason| nothing_there(reason, no_change).unwrap_or_else(|| format_reason(reason)));
    let (agent, person): (Vec<String>, Vec<String>) = told.unzip();
    let (mut for_agent, mut for_person) = (agent.join("\n\n"), person.join(" "));
    if let Some(place) = place {
        for_agent = format!("In `{place}`: {for_agent}");
        for_person = format!("In `{place}`: {for_person}");
    }
    if reasons.iter().any(|reason| matches!(reason, Reason::Gate { .. })) {
        let again = format!("(`ralph gates run --commit {commit}` runs the gates again.)");
        for_agent = format!("{for_agent}\n{again}");
    }
    Rejection { commit: Some(commit.clone()), for_agent, for_person }
}
