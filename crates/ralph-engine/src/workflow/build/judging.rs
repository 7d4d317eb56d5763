//! A builder's claim before the judge: the work of an attempt is committed and judged in every repository that has some.
//!
//! A task is done when nothing of its work is rejected anywhere; what was committed stays either way.

use ralph_model::journal::{WorkflowFields, WorkflowKind};
use ralph_model::plan::DoneAt;
use ralph_model::receipt::Worker;
use ralph_model::role::Role;
use ralph_model::verdict::{Reason, Verdict, VerifierReport};

use super::claims::Rejection;
use super::{Build, Turn, none};
use crate::gates::pin::PinnedGates;
use crate::judge::{Attested, Case, Said};
use crate::workflow::WorkflowError;
use crate::workflow::repositories::{BeforeAll, Work};

impl Build<'_, '_, '_> {
    pub(super) fn judge_build(
        &mut self,
        task: &str,
        before: &BeforeAll,
    ) -> Result<Turn, WorkflowError> {
        let name = self.name_of(task)?;
        let message = format!("{name}\n\nTask: {task}\n");
        self.repositories.commit_leftovers(before, &message, self.signing)?;
        let works = self.repositories.work_of(before)?;
        let Some(first) = works.first().cloned() else {
            self.back_to_branches(before)?;
            return self.turn_down(task, Rejection::plain("there is no commit".to_owned()));
        };
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
        self.back_to_branches(before)?;
        let mut rejected: Option<Rejection> = None;
        let mut question = None;
        let mut all_proven = true;
        for (work, case) in works.iter().zip(&cases) {
            match case.verdict(&VerifierReport::NotAsked) {
                Err(trouble) => return Ok(Turn::Trouble(trouble)),
                Ok(Verdict::Accepted { proven_by_gates, .. }) => all_proven &= proven_by_gates,
                Ok(Verdict::Rejected { reasons }) => {
                    let place = (works.len() > 1).then_some(work.repository.as_str());
                    let more = rejection(work, place, &reasons);
                    rejected = Some(match rejected {
                        None => more,
                        Some(first) => first.and(&more),
                    });
                }
                Ok(Verdict::PlanInvalid { reason }) => {
                    let commit = Some(work.commit.clone());
                    rejected.get_or_insert(Rejection { commit, ..Rejection::plain(reason) });
                }
                Ok(Verdict::NeedsHuman { question: asked }) => {
                    question.get_or_insert(asked);
                }
            }
        }
        if let Some(rejection) = rejected {
            return self.turn_down(task, rejection);
        }
        if let Some(question) = question {
            return self.ask_person(task, &question);
        }
        self.attest(task, before, &pinned, &cases)?;
        self.take_in(&works, Some(task))?;
        self.mark_done(task, &DoneAt::Commit(first.commit.clone()))?;
        let fields = WorkflowFields {
            task: Some(task.to_owned()),
            commit: Some(first.commit.to_string()),
            proven_by_gates: Some(all_proven),
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

/// Puts the reasons against one commit into words. `place` is named where there are several repositories to look for it.
fn rejection(work: &Work, place: Option<&str>, reasons: &[Reason]) -> Rejection {
    let commit = &work.commit;
    let agent: Vec<String> = reasons.iter().map(Reason::for_agent).collect();
    let person: Vec<String> = reasons.iter().map(Reason::for_person).collect();
    let (mut for_agent, mut for_person) = (agent.join("\n\n"), person.join(" "));
    if let Some(place) = place {
        for_agent = format!("In `{place}`: {for_agent}");
        for_person = format!("In `{place}`: {for_person}");
    }
    if reasons.iter().any(|reason| matches!(reason, Reason::Gate { .. })) {
        for_agent += &format!("\n(`ralph gates run --commit {commit}` runs the gates again.)");
    }
    Rejection { commit: Some(commit.clone()), for_agent, for_person }
}
