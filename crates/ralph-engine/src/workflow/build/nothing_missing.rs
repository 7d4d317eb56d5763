//! A planner's claim that the code has all that the spec asks for: `[RALPH] PLAN_COMPLETE: 0` and no task.
//!
//! It is never taken at its word: a verifier gives its opinion, and a person decides. A verifier that adds tasks has
//! decided it as well: then something is missing. The claim is kept with the note of the planning under way, and is void
//! once the spec has changed.

use ralph_model::answer::is_yes;
use ralph_model::contract::FinalMessage;
use ralph_model::journal::{PersonAnswered, PersonNeeded, QuestionKind};
use ralph_model::plan::Plan;
use ralph_model::verdict::PersonQuestion;
use serde::{Deserialize, Serialize};

use super::planning::{ITEM, Planning, PlanningEnd, WORKFLOW};
use super::questions::OPINION;
use crate::run::RunResult;
use crate::workflow::WorkflowError;
use crate::workflow::driver::{Stop, Turn, WorkflowStep};

/// How a planner says that nothing is missing.
const NOTHING_MISSING: &str = "[RALPH] PLAN_COMPLETE: 0";

/// What becomes of a planner's claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum PlanClaim {
    /// A planner said so, and why, about the spec with this digest.
    Made { reason: String, digest: String },
    /// So did a verifier, or not.
    Reviewed { reason: String, digest: String, opinion: String },
    /// A person does not agree, and said this.
    Refused { objection: String },
}

impl PlanClaim {
    /// Reads what a planner that added no task says.
    pub(super) fn of(result: &RunResult, digest: String) -> Option<PlanClaim> {
        let said = result.final_message.as_deref()?;
        FinalMessage::new(said).says(NOTHING_MISSING).then(|| {
            let lines = said.lines().filter(|line| !FinalMessage::new(line).says(NOTHING_MISSING));
            let reason = lines.collect::<Vec<_>>().join("\n").trim().to_owned();
            let reason = if reason.is_empty() { "it gives no reason".to_owned() } else { reason };
            PlanClaim::Made { reason, digest }
        })
    }
}

/// The item of the verifier's run.
pub(super) fn opinion_item() -> String {
    format!("{ITEM}{OPINION}")
}

impl Planning<'_, '_, '_> {
    /// Returns the next step about a claim; `None` if a planner is to run.
    pub(super) fn about_claim(
        &mut self,
    ) -> Result<Option<WorkflowStep<PlanningEnd>>, WorkflowError> {
        let Some(spec) = self.build.spec()? else { return Ok(None) };
        let now = self.build.spec_digest(&spec)?;
        match self.claim()? {
            Some(PlanClaim::Made { reason, digest }) if digest == now => {
                self.ask_verifier(&reason).map(Some)
            }
            Some(PlanClaim::Reviewed { reason, digest, opinion }) if digest == now => {
                self.ask_person(&spec, &reason, opinion).map(Some)
            }
            Some(PlanClaim::Refused { .. }) | None => Ok(None),
            // A person has changed the spec since.
            Some(PlanClaim::Made { .. } | PlanClaim::Reviewed { .. }) => {
                self.note_claim(None)?;
                self.build.session.questions().withdraw(ITEM)?;
                Ok(None)
            }
        }
    }

    fn ask_verifier(&mut self, reason: &str) -> Result<WorkflowStep<PlanningEnd>, WorkflowError> {
        let build = &mut *self.build;
        let bytes = build.plan.read()?;
        let plan = Plan::parse(&bytes);
        let feedback = format!(
            "The planner says that nothing of this spec is missing ({reason}). Look whether that is so. Add a task for what is \
             missing, and say in your last message what you think and why. If you add none, a person decides."
        );
        let item = opinion_item();
        Ok(match build.verifier(&plan, &item, Vec::new(), "[]", Some(&feedback))? {
            Ok(mut task) => {
                task.workflow = WORKFLOW;
                build.commit_plan()?;
                build.plan.begin_run()?;
                WorkflowStep::Run(Box::new(task))
            }
            Err(trouble) => WorkflowStep::Turn(Turn::Trouble(trouble)),
        })
    }

    /// Keeps what the verifier said.
    pub(super) fn conclude_opinion(
        &mut self,
        result: &RunResult,
    ) -> Result<Turn<PlanningEnd>, WorkflowError> {
        let build = &mut *self.build;
        build.plan.commit()?;
        build.project.sync(build.session)?;
        let bytes = build.plan.read()?;
        let tasks = Plan::parse(&bytes).pending().len();
        build.project.leave(build.session, &opinion_item())?;
        if tasks > 0 {
            return self.planned(tasks);
        }
        if let Some(PlanClaim::Made { reason, digest }) = self.claim()? {
            let said = result.final_message.as_deref().unwrap_or("it gave none");
            let opinion = said.trim().to_owned();
            self.note_claim(Some(PlanClaim::Reviewed { reason, digest, opinion }))?;
        }
        Ok(Turn::Progress)
    }

    fn ask_person(
        &mut self,
        spec: &str,
        reason: &str,
        opinion: String,
    ) -> Result<WorkflowStep<PlanningEnd>, WorkflowError> {
        let kind = QuestionKind::Accept;
        let session = &mut *self.build.session;
        let Some(answer) = session.questions().answer_to(ITEM, kind)? else {
            let claim =
                PersonQuestion::NoChange { reason: reason.to_owned(), opinion: Some(opinion) };
            let question = format!("The spec {spec} has no task. {claim}");
            session.questions().ask(ITEM, &question, kind, None)?;
            let text = question.clone();
            session.record(PersonNeeded {
                spec: Some(spec.to_owned()),
                task: None,
                question: text,
            })?;
            let item = ITEM.to_owned();
            let stop = Stop::Waiting { item, question, asked: kind };
            return Ok(WorkflowStep::Turn(Turn::Stop(stop)));
        };
        let (told, reason) = (Some(spec.to_owned()), answer.clone());
        session.record(PersonAnswered { spec: told, task: None, reason })?;
        let turn = if is_yes(&answer) {
            self.planned(0)?
        } else {
            let objection = format!("A person looked at it and says: {answer}");
            self.note_claim(Some(PlanClaim::Refused { objection }))?;
            Turn::Again
        };
        // After acting on it: an answer that was taken before a crash would be lost.
        self.build.session.questions().take_answer(ITEM)?;
        Ok(WorkflowStep::Turn(turn))
    }
}
