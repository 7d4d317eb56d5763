//! `ralph plan <spec>`: a planner turns a spec into tasks.
//!
//! From before its run until it is concluded, a note in private state says which spec is being planned. A start that
//! finds one resumes: the fate of existing tasks was already decided, and a finished run is not repeated. It also has a
//! planner's claim that nothing is missing ([`super::nothing_missing`]).

use ralph_model::plan::{Plan, Stage, Unfinished};
use ralph_model::prompt::PlanPrompt;
use ralph_model::role::Role;
use ralph_model::run::RunOutcome;
use serde::{Deserialize, Serialize};

use super::nothing_missing::{PlanClaim, opinion_item};
use super::stages::json;
use super::{Build, channel};
use crate::digest;
use crate::files::{self, PathError};
use crate::plan_file::finished::PlanPlace;
use crate::run::{RESULTS, RunResult};
use crate::session::{AgentTask, Session};
use crate::specs;
use crate::state::{Entry, State};
use crate::workflow::driver::{
    Ended, Subject, Turn, Void, Workflow, WorkflowStep, drive, forget_troubles,
};
use crate::workflow::{WorkflowError, unfinished};

/// The name of the workflow in the results of its runs.
pub(super) const WORKFLOW: &str = "plan";

/// What planning runs are for.
pub(super) const ITEM: &str = "plan";

/// The spec that is being planned, by the path of its plan.
const UNDER_WAY: Entry<UnderWay> = Entry::new("planning", "its planning starts over");

/// What becomes of the tasks that are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// They go; git keeps them.
    Cancel,
    /// They stay, for it is the same spec.
    Keep,
}

/// A spec that is being planned.
#[derive(Serialize, Deserialize)]
struct UnderWay {
    spec: String,
    /// What a planner claimed that found nothing missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    claim: Option<PlanClaim>,
}

/// The last spec that was planned, by the path of its plan.
const PLANNED: Entry<Planned> = Entry::new("planned", "it may be planned again");

/// The spec whose last planning produced no task, by the path of its plan. Its plan looks like a complete one.
const NOT_PLANNED: Entry<UnderWay> =
    Entry::new("not-planned", "its plan without a task counts as complete");

/// A spec, as it was when a planner had made tasks of it.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct Planned {
    spec: String,
    digest: String,
}

/// Whether a planner made tasks of this spec. Without that, a plan without tasks is not known to be a finished one.
///
/// Where private state does not know the spec, it may have been lost: the history of the plan decides.
pub fn made_tasks_of(
    state: Option<&State>,
    spec: &str,
    place: &PlanPlace<'_>,
) -> Result<bool, PathError> {
    if let Some(state) = state {
        if NOT_PLANNED.all(state)?.iter().any(|failed| failed.spec == spec) {
            return Ok(false);
        }
        if PLANNED.all(state)?.iter().any(|planned| planned.spec == spec) {
            return Ok(true);
        }
    }
    Ok(place.has_finished(spec))
}

/// What comes before a spec is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BeforeBuild {
    /// Planning was interrupted, and is resumed.
    GoOnPlanning,
    /// There is something to build or to look into, or all of it is done.
    Nothing,
    /// The spec becomes the current one, with the tasks that it has already.
    SetSpec,
    Plan,
}

/// How planning ended by itself.
#[derive(Clone, Debug, PartialEq)]
pub enum PlanningEnd {
    Planned {
        tasks: usize,
    },
    /// The planner did not do what it was asked, and what it did instead. Tasks that it added all the same are kept.
    Failed {
        why: String,
        tasks: usize,
    },
}

/// The planning of one spec.
pub(super) struct Planning<'b, 'r, 's> {
    pub(super) build: &'b mut Build<'r, 's>,
    /// How many planners have run into trouble.
    troubles: u32,
}

impl Build<'_, '_> {
    /// Returns the spec whose planning was cut short, if it is still the current one.
    pub fn planning_under_way(&self) -> Result<Option<String>, WorkflowError> {
        let note = UNDER_WAY.load(&self.session.context.state, self.plan.path().as_str())?;
        let spec = self.spec()?;
        Ok(note.map(|note| note.spec).filter(|planned| spec.as_ref() == Some(planned)))
    }

    /// Returns what comes before this spec is built, or before the current one is, with this plan.
    pub fn before_build(
        &self,
        plan: &Plan<'_>,
        spec: Option<&str>,
    ) -> Result<BeforeBuild, WorkflowError> {
        let cut_short = self.planning_under_way()?;
        let is_complete = plan.stage() == Stage::Complete;
        if cut_short.is_some_and(|cut_short| spec.map_or(is_complete, |spec| spec == cut_short)) {
            return Ok(BeforeBuild::GoOnPlanning);
        }
        let Some(spec) = spec else { return Ok(BeforeBuild::Nothing) };
        let is_current = plan.spec() == Some(spec);
        let has_tasks = !plan.pending().is_empty() || plan.done_tasks().next().is_some();
        // Issues may be all that is left of a plan.
        if is_current && (has_tasks || self.is_planned(spec)?) {
            return Ok(BeforeBuild::Nothing);
        }
        let has_own = plan.unfinished().iter().any(|task| task.spec == spec);
        Ok(if has_own && plan.can_keep_all_for(spec) {
            BeforeBuild::SetSpec
        } else {
            BeforeBuild::Plan
        })
    }

    /// Makes a spec the current one and has a planner add its tasks.
    pub fn plan_spec(
        &mut self,
        spec: &str,
        existing: Existing,
    ) -> Result<Ended<PlanningEnd>, WorkflowError> {
        self.project.committer.prepare()?;
        if existing == Existing::Cancel {
            // Under its own message, whatever happens: history would take what was done for accepted otherwise.
            self.plan.change_and_commit(|plan: &mut Plan<'_>| plan.cancel_unfinished())?;
        }
        self.change_plan(|plan| plan.set_spec(spec, Unfinished::Refuse))?;
        self.change_plan(|plan: &mut Plan<'_>| plan.clear_tombstones())?;
        let state = &self.session.context.state;
        RESULTS.forget(state, ITEM)?;
        forget_troubles(state, ITEM)?;
        let note = UnderWay { spec: spec.to_owned(), claim: None };
        UNDER_WAY.save(state, self.plan.path().as_str(), &note)?;
        self.session.questions().withdraw(ITEM)?;
        self.go_on_planning()
    }

    /// Brings the planning of the current spec to its end.
    pub fn go_on_planning(&mut self) -> Result<Ended<PlanningEnd>, WorkflowError> {
        self.project.committer.prepare()?;
        let ended = drive(&mut Planning { build: self, troubles: 0 })?;
        // Also what a planner added that was interrupted.
        self.commit_plan()?;
        self.commit_spec()?;
        Ok(ended)
    }

    /// Tells whether a spec was planned as it reads now. A plan without tasks is then a complete one.
    fn is_planned(&self, spec: &str) -> Result<bool, WorkflowError> {
        let context = &self.session.context;
        let planned = PLANNED.load(&context.state, self.plan.path().as_str())?;
        match planned.filter(|planned| planned.spec == spec) {
            Some(planned) => Ok(planned == self.planned(spec)?),
            None if self.is_unplanned(false)? => Ok(false),
            None => {
                let branch = self.project.run_branch()?;
                Ok(context.plan_place(Some(&branch)).has_finished(spec))
            }
        }
    }

    fn planned(&self, spec: &str) -> Result<Planned, WorkflowError> {
        Ok(Planned { spec: spec.to_owned(), digest: self.spec_digest(spec)? })
    }

    pub(super) fn spec_digest(&self, spec: &str) -> Result<String, WorkflowError> {
        let context = &self.session.context;
        let path = specs::locate(self.project.home(), &context.workspace.root, spec);
        let text = files::read_optional(&path)?.unwrap_or_default();
        Ok(digest::of_bytes(&text))
    }

    /// Tells whether a plan without tasks is one that a planner failed to make, and not a complete one. Tasks that are there
    /// since then, a person's own, decide.
    pub(super) fn is_unplanned(&self, has_tasks: bool) -> Result<bool, WorkflowError> {
        let (state, path) = (&self.session.context.state, self.plan.path().as_str());
        let Some(failed) = NOT_PLANNED.load(state, path)? else { return Ok(false) };
        let is_same = self.spec()?.as_ref() == Some(&failed.spec);
        if has_tasks || !is_same {
            NOT_PLANNED.forget(state, path)?;
        }
        Ok(is_same && !has_tasks)
    }

    /// Forgets that a spec was being planned.
    pub(super) fn forget_planning(&mut self) -> Result<(), WorkflowError> {
        let state = &self.session.context.state;
        UNDER_WAY.forget(state, self.plan.path().as_str())?;
        RESULTS.forget(state, ITEM)?;
        RESULTS.forget(state, &opinion_item())?;
        Ok(self.session.questions().withdraw(ITEM)?)
    }
}

impl Planning<'_, '_, '_> {
    /// Returns what became of a planner's claim that nothing is missing.
    pub(super) fn claim(&self) -> Result<Option<PlanClaim>, WorkflowError> {
        let (state, path) = (&self.build.session.context.state, self.build.plan.path());
        Ok(UNDER_WAY.load(state, path.as_str())?.and_then(|note| note.claim))
    }

    pub(super) fn note_claim(&self, claim: Option<PlanClaim>) -> Result<(), WorkflowError> {
        let Some(spec) = self.build.spec()? else { return Ok(()) };
        let (state, path) = (&self.build.session.context.state, self.build.plan.path());
        Ok(UNDER_WAY.save(state, path.as_str(), &UnderWay { spec, claim })?)
    }

    /// Ends planning with these tasks; without any, a person agreed that none is missing.
    pub(super) fn planned(&mut self, tasks: usize) -> Result<Turn<PlanningEnd>, WorkflowError> {
        let build = &mut *self.build;
        build.change_plan(|plan: &mut Plan<'_>| plan.prioritize())?;
        if let Some(spec) = build.spec()? {
            let (state, planned) = (&build.session.context.state, build.planned(&spec)?);
            NOT_PLANNED.forget(state, build.plan.path().as_str())?;
            PLANNED.save(state, build.plan.path().as_str(), &planned)?;
        }
        self.end(PlanningEnd::Planned { tasks })
    }

    fn end(&mut self, end: PlanningEnd) -> Result<Turn<PlanningEnd>, WorkflowError> {
        let build = &mut *self.build;
        build.commit_plan()?;
        build.project.leave(build.session, ITEM)?;
        build.forget_planning()?;
        Ok(Turn::End(end))
    }
}

impl<'s> Workflow<'s> for Planning<'_, '_, 's> {
    type End = PlanningEnd;

    fn session(&mut self) -> &mut Session<'s> {
        self.build.session
    }

    fn item(&self) -> Option<String> {
        Some(ITEM.to_owned())
    }

    fn subject(&self) -> Subject {
        Subject { item: Some(ITEM.to_owned()), ..Subject::default() }
    }

    fn pending(&mut self) -> Result<Option<RunResult>, WorkflowError> {
        let state = &self.build.session.context.state;
        for item in [ITEM, &opinion_item()] {
            let found = RESULTS.load(state, item)?.filter(|result| result.workflow == WORKFLOW);
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    fn next(&mut self) -> Result<WorkflowStep<PlanningEnd>, WorkflowError> {
        self.build.project.sync(self.build.session)?;
        if let Some(step) = self.about_claim()? {
            return Ok(step);
        }
        // An answer that was acted on just before Ralph died must not decide the next question.
        self.build.session.questions().take_answer(ITEM)?;
        let objection = match self.claim()? {
            Some(PlanClaim::Refused { objection }) => Some(objection),
            _ => None,
        };
        self.build.enter_anew(ITEM)?;
        let build = &*self.build;
        let bytes = build.plan.read()?;
        let plan = Plan::parse(&bytes);
        *channel::locked(&build.probe) = None;
        build.project.repositories.note(&build.project.repositories.base()?)?;
        let source = build.source(&plan)?;
        let tasks = plan.tasks_view();
        let known = (!tasks.pending.is_empty() || !tasks.done.is_empty()).then(|| json(&tasks));
        let context = PlanPrompt {
            surroundings: build.project.surroundings(build.session, &source, objection.as_deref()),
            tasks: known.as_deref(),
        };
        let (resume, before) = build.session.continuation(ITEM, Role::Planner, &[]);
        let prompt = build.project.prompts.render_continued(&context, before);
        build.plan.begin_run()?;
        let task = AgentTask::new(WORKFLOW, Role::Planner, ITEM, prompt);
        let attempt = self.troubles + 1;
        Ok(WorkflowStep::Run(Box::new(AgentTask { attempt, resume, ..task })))
    }

    fn conclude(&mut self, result: &RunResult) -> Result<Turn<PlanningEnd>, WorkflowError> {
        if result.role == Role::Verifier {
            return self.conclude_opinion(result);
        }
        let build = &mut *self.build;
        build.plan.commit()?;
        build.project.sync(build.session)?;
        let bytes = build.plan.read()?;
        let tasks = Plan::parse(&bytes).pending().len();
        let why = unfinished(&result.outcome);
        if why.is_none() && tasks > 0 {
            return self.planned(tasks);
        }
        if let Some(spec) = build.spec()?.filter(|_| tasks == 0) {
            let digest = build.spec_digest(&spec)?;
            let (state, path) = (&build.session.context.state, build.plan.path().as_str());
            NOT_PLANNED.save(state, path, &UnderWay { spec, claim: None })?;
            let claim = PlanClaim::of(result, digest).filter(|_| why.is_none());
            if claim.is_some() {
                build.project.leave(build.session, ITEM)?;
                self.note_claim(claim)?;
                return Ok(Turn::Progress);
            }
        }
        let why = why.unwrap_or_else(|| "it added no task".to_owned());
        self.end(PlanningEnd::Failed { why, tasks })
    }

    fn discard(&mut self, result: &RunResult, _: Void) -> Result<(), WorkflowError> {
        if matches!(result.outcome, RunOutcome::Trouble { .. }) {
            self.troubles += 1;
        }
        Ok(())
    }
}
