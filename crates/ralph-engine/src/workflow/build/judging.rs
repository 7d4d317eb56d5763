//! A builder's claim before the judge: the work of an attempt is committed and judged in every repository that has some.
//!
//! A task is done when nothing of its work is rejected anywhere; what was committed stays either way.

use ralph_model::build::{Acceptance, Rejection, TaskFact, Work};
use ralph_model::evidence::EvidenceFault;
use ralph_model::id::RunId;
use ralph_model::journal::{QuestionKind, ReasonText, VerdictKind, VerdictReached};
use ralph_model::role::Role;
use ralph_model::run::Trouble;
use ralph_model::verdict::{Claim, PersonQuestion, Reason, Verdict, VerifierReport};

use super::task_store::Settled;
use super::{Build, BuildEnd};
use crate::gates::pin::PinnedGates;
use crate::judge::{Case, Said};
use crate::workflow::WorkflowError;
use crate::workflow::driver::Turn;
use crate::workflow::repositories::{BeforeAll, attestation};

/// Work, and what the judge measured of it.
pub(super) struct Examined {
    works: Vec<Work>,
    pinned: PinnedGates,
    cases: Vec<Case>,
}

/// Who settles what the judge cannot decide.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Person {
    NotAsked,
    Agrees,
}

impl Build<'_, '_> {
    /// Commits what a run left, and has the judge decide on the work.
    pub(super) fn judge_build(
        &mut self,
        task: &str,
        before: &BeforeAll,
        run: RunId,
    ) -> Result<Turn<BuildEnd>, WorkflowError> {
        let name = self.name_of(task)?;
        let message = format!("{name}\n\nTask: {task}\n");
        let repositories = &self.project.repositories;
        repositories.commit_leftovers(before, &message, self.signing)?;
        let works = repositories.work_of(before)?;
        let examined = self.examine(task, before, works)?;
        self.back_to_branches(task)?;
        self.conclude_claim(task, before, examined, Person::NotAsked, Some(run))
    }

    /// Has the judge measure work.
    pub(super) fn examine(
        &mut self,
        task: &str,
        before: &BeforeAll,
        works: Vec<Work>,
    ) -> Result<Examined, WorkflowError> {
        let pinned = self.pin(task)?;
        let mut cases = Vec::new();
        let repositories = &self.project.repositories;
        for work in &works {
            let said = Said::Commit { claimed: work.commit.clone() };
            cases.push(self.session.with_gates(task, |context, tell| {
                repositories.examine(context, before, &pinned, &said, tell)
            })?);
        }
        Ok(Examined { works, pinned, cases })
    }

    /// Draws the conclusions of what the judge measured. `run` made the claim; a person's decision has none.
    pub(super) fn conclude_claim(
        &mut self,
        task: &str,
        before: &BeforeAll,
        examined: Examined,
        person: Person,
        run: Option<RunId>,
    ) -> Result<Turn<BuildEnd>, WorkflowError> {
        let Examined { works, pinned, cases } = examined;
        let Some(first) = works.first() else {
            let reason = "there is no commit".to_owned();
            let reasons = vec![ReasonText::new("no_commit", &reason)];
            return self.reject(task, run, Rejection::plain(reason), reasons);
        };
        let found = match Findings::of(&works, &cases) {
            Ok(found) => found,
            Err(trouble) => return Ok(Turn::Trouble(trouble)),
        };
        if let Some(rejection) = found.rejected {
            return self.reject(task, run, rejection, found.reasons);
        }
        if let Some(question) = found.question.filter(|_| person == Person::NotAsked) {
            let verdict = Verdict::NeedsHuman { question: question.clone() };
            self.tell(VerdictReached {
                commit: Some(first.commit.to_string()),
                ..VerdictReached::of(task, "judge", &verdict)
            })?;
            let commit = question.commit().map(ToString::to_string);
            let question = question.to_string();
            let fact = TaskFact::Undecided { run, works, question: question.clone() };
            self.settle(task, &fact)?;
            return self.ask_person(task, question, QuestionKind::Accept, commit.as_deref());
        }
        let context = &self.session.context;
        let attested = attestation(context, task, Role::Builder, None);
        let repositories = &self.project.repositories;
        repositories.attest(&context.gates(task), before, &pinned, &cases, &attested)?;
        let acceptance = Acceptance {
            done_at: Some(first.commit.clone()),
            works,
            proven_by_gates: found.is_proven,
        };
        let by = if person == Person::Agrees { "person" } else { "judge" };
        self.tell(VerdictReached {
            item: task.to_owned(),
            commit: acceptance.done_at.as_ref().map(ToString::to_string),
            verdict: VerdictKind::Accepted,
            by: by.to_owned(),
            proven_by_gates: Some(acceptance.proven_by_gates),
            files: Some(changed_files(&cases)),
            ..VerdictReached::default()
        })?;
        match self.settle(task, &TaskFact::Accepted { run, acceptance })? {
            Settled::Whole => Ok(Turn::Progress),
            // Others' luck, which costs nothing: the next run is told.
            Settled::Refused { why } => {
                self.round.feedback = Some((task.to_owned(), why));
                Ok(Turn::Again)
            }
        }
    }

    /// Returns a task to the pending ones with the reason on it.
    pub(super) fn reject(
        &mut self,
        task: &str,
        run: Option<RunId>,
        rejection: Rejection,
        reasons: Vec<ReasonText>,
    ) -> Result<Turn<BuildEnd>, WorkflowError> {
        self.tell(VerdictReached {
            item: task.to_owned(),
            commit: rejection.commit.as_ref().map(ToString::to_string),
            verdict: VerdictKind::Rejected,
            by: "judge".to_owned(),
            reasons,
            ..VerdictReached::default()
        })?;
        // The rejection itself was told when it was written to the plan.
        self.round.feedback = Some((task.to_owned(), rejection.for_agent.clone()));
        self.settle(task, &TaskFact::Rejected { run, rejection })?;
        Ok(Turn::Failed)
    }
}

/// What the judge says of all work together.
struct Findings {
    rejected: Option<Rejection>,
    /// Why, each with its code.
    reasons: Vec<ReasonText>,
    question: Option<PersonQuestion>,
    is_proven: bool,
}

impl Findings {
    fn of(works: &[Work], cases: &[Case]) -> Result<Findings, Trouble> {
        let mut found =
            Findings { rejected: None, reasons: Vec::new(), question: None, is_proven: true };
        for (work, case) in works.iter().zip(cases) {
            match case.verdict(&VerifierReport::NotAsked)? {
                Verdict::Accepted { proven_by_gates, .. } => found.is_proven &= proven_by_gates,
                Verdict::Rejected { reasons } => {
                    found.reasons.extend(reasons.iter().map(ReasonText::from));
                    let place = (works.len() > 1).then_some(work.repository.as_str());
                    let more = rejection(work, place, &reasons);
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
                    found.is_proven = false;
                    found.question.get_or_insert(question);
                }
            }
        }
        Ok(found)
    }
}

/// How many files the work changes in all repositories.
fn changed_files(cases: &[Case]) -> u64 {
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

/// Formats the reason that nothing was changed for the build loop, where no commit is claimed and a command says that none
/// is needed.
fn nothing_there(reason: &Reason) -> Option<(String, String)> {
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
        "{nothing}, and it had said that the task is done: do the work and leave it there, or, if nothing needs to \
         change, say `ralph task done --no-change \"why\"`."
    );
    Some((agent, format!("{nothing}.")))
}

/// Formats the reasons against one commit. `place` is named where there are several repositories to look for it.
fn rejection(work: &Work, place: Option<&str>, reasons: &[Reason]) -> Rejection {
    let commit = &work.commit;
    let told =
        reasons.iter().map(|reason| nothing_there(reason).unwrap_or_else(|| format_reason(reason)));
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
