//! A builder's claim before the judge: the work of an attempt is committed and judged in every repository that has some.
//!
//! A task is done when nothing of its work is rejected anywhere; what was committed stays either way.

use ralph_model::evidence::EvidenceFault;
use ralph_model::journal::{WorkflowFields, WorkflowKind};
use ralph_model::plan::DoneAt;
use ralph_model::receipt::Worker;
use ralph_model::role::Role;
use ralph_model::run::Trouble;
use ralph_model::verdict::{PersonQuestion, Reason, Verdict, VerifierReport};

use super::claims::{self, Claim, Rejection};
use super::{Build, Turn, none};
use crate::gates::pin::PinnedGates;
use crate::judge::{Attested, Case, Said};
use crate::workflow::WorkflowError;
use crate::workflow::repositories::{BeforeAll, Work};

/// Work, and what the judge saw of it.
pub(super) struct Examined {
    works: Vec<Work>,
    pinned: PinnedGates,
    cases: Vec<Case>,
}

/// What a person says of work that the judge cannot decide on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Person {
    NotAsked,
    Agrees,
}

impl Build<'_, '_, '_> {
    /// Commits what a run left, and has the judge decide on the work.
    pub(super) fn judge_build(
        &mut self,
        task: &str,
        before: &BeforeAll,
    ) -> Result<Turn, WorkflowError> {
        let name = self.name_of(task)?;
        let message = format!("{name}\n\nTask: {task}\n");
        self.repositories.commit_leftovers(before, &message, self.signing)?;
        let works = self.repositories.work_of(before)?;
        let examined = self.examine(task, before, works)?;
        self.back_to_branches(before)?;
        self.conclude(task, before, &examined, Person::NotAsked)
    }

    /// Has the judge look at work.
    pub(super) fn examine(
        &mut self,
        task: &str,
        before: &BeforeAll,
        works: Vec<Work>,
    ) -> Result<Examined, WorkflowError> {
        let pinned = self.pin(task)?;
        let mut cases = Vec::new();
        for work in &works {
            let said = Said::Commit { claimed: work.commit.clone() };
            cases.push(self.repositories.examine(
                &self.gate_context,
                before,
                &pinned,
                &said,
                &mut *self.observer,
            )?);
        }
        Ok(Examined { works, pinned, cases })
    }

    /// Draws the conclusions of what the judge saw.
    pub(super) fn conclude(
        &mut self,
        task: &str,
        before: &BeforeAll,
        examined: &Examined,
        person: Person,
    ) -> Result<Turn, WorkflowError> {
        let Examined { works, pinned, cases } = examined;
        let Some(first) = works.first() else {
            return self.turn_down(task, Rejection::plain("there is no commit".to_owned()));
        };
        let found = match Findings::of(works, cases) {
            Ok(found) => found,
            Err(trouble) => return Ok(Turn::Trouble(trouble)),
        };
        if let Some(rejection) = found.rejected {
            return self.turn_down(task, rejection);
        }
        if let Some(question) = found.question.filter(|_| person == Person::NotAsked) {
            let state = self.desk.context.state;
            if let Some(claim) = claims::load(state, task)? {
                claims::save(state, task, &Claim { asked: Some(works.clone()), ..claim })?;
            }
            return self.ask_person(task, &question);
        }
        self.attest(task, before, pinned, cases)?;
        self.take_in(works, Some(task))?;
        self.mark_done(task, &DoneAt::Commit(first.commit.clone()))?;
        let fields = WorkflowFields {
            task: Some(task.to_owned()),
            commit: Some(first.commit.to_string()),
            proven_by_gates: Some(found.is_proven),
            ..none()
        };
        self.tell(WorkflowKind::TaskDone, fields)?;
        Ok(Turn::Again)
    }

    /// Puts receipts on the commits of accepted work.
    fn attest(
        &self,
        task: &str,
        before: &BeforeAll,
        pinned: &PinnedGates,
        cases: &[Case],
    ) -> Result<(), WorkflowError> {
        let worker = &self.desk.launch(Role::Builder).choice;
        self.repositories.judge(&self.gate_context, before, pinned, |judge| {
            for case in cases {
                let attested = Attested {
                    item: task,
                    worker: Worker { agent: worker.name.clone(), model: worker.model.clone() },
                    boundary: self.desk.boundary,
                    verifier: None,
                    at: self.desk.context.clock.now(),
                    ralph: env!("CARGO_PKG_VERSION"),
                };
                judge.attest(case, attested)?;
            }
            Ok(())
        })
    }
}

/// What the judge says of all work together.
struct Findings {
    rejected: Option<Rejection>,
    question: Option<PersonQuestion>,
    is_proven: bool,
}

impl Findings {
    fn of(works: &[Work], cases: &[Case]) -> Result<Findings, Trouble> {
        let mut found = Findings { rejected: None, question: None, is_proven: true };
        for (work, case) in works.iter().zip(cases) {
            match case.verdict(&VerifierReport::NotAsked)? {
                Verdict::Accepted { proven_by_gates, .. } => found.is_proven &= proven_by_gates,
                Verdict::Rejected { reasons } => {
                    let place = (works.len() > 1).then_some(work.repository.as_str());
                    let more = rejection(work, place, &reasons);
                    found.rejected = Some(match found.rejected {
                        None => more,
                        Some(first) => first.and(&more),
                    });
                }
                Verdict::PlanInvalid { reason } => {
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

/// Puts a reason into words, for the agent and for the person.
fn told(reason: &Reason) -> (String, String) {
    (reason.for_agent(), reason.for_person())
}

/// Says that nothing came of a run in the words of the loop: here no commit is claimed, and a command says that none is due.
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

/// Puts the reasons against one commit into words. `place` is named where there are several repositories to look for it.
fn rejection(work: &Work, place: Option<&str>, reasons: &[Reason]) -> Rejection {
    let commit = &work.commit;
    let told = reasons.iter().map(|reason| nothing_there(reason).unwrap_or_else(|| told(reason)));
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
