//! What agents of the build loop ask for while they run: applied at once, one after the other, by their role, to the plan
//! that the run sees. The plan's file has it after the run.
//!
//! A builder's claim that its task is done is only noted; the harness judges it after the run. A claim with nothing
//! changed is refused at once, so that the agent can act on it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ralph_model::build::{TaskFact, TaskWrite, settle};
use ralph_model::channel::MutationRequest;
use ralph_model::permission::{self, Asker, Target};
use ralph_model::plan::view::PrioritizedView;
use ralph_model::plan::{Change, DoneAt, Plan, PlanError};
use ralph_model::role::Role;
use serde_json::{Map, Value};

use super::made::note_made;
use super::task_store::{TASKS, markers};
use crate::channel::{Applied, Declined, MutationStore, PlanChange};
use crate::plan_file::{PlanFile, PlanFileError};
use crate::state::State;
use crate::workflow::repositories::ChangeProbe;

/// How many subtasks a task is broken into.
pub(super) const FEWEST_PARTS: usize = 2;
pub(super) const MOST_PARTS: usize = 5;

/// Tells whether the run under way has changed anything, as the workflow and the channel share it.
pub(super) type SharedProbe = Arc<Mutex<Option<ChangeProbe>>>;

pub(super) fn locked(probe: &SharedProbe) -> MutexGuard<'_, Option<ChangeProbe>> {
    probe.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The plan as agents change it.
pub(super) struct PlanChannel {
    pub(super) plan: Arc<PlanFile>,
    pub(super) state: State,
    pub(super) probe: SharedProbe,
    pub(super) most_rejections: u32,
}

impl MutationStore for PlanChannel {
    fn apply(&mut self, request: &MutationRequest, asker: Asker<'_>) -> Result<Applied, Declined> {
        let bytes = self.plan.read_in_run().map_err(told)?;
        let plan = Plan::parse(&bytes);
        if let MutationRequest::TaskShow { id } = request {
            return shown(&plan, id.as_deref()).map(unchanged);
        }
        let mutation = request.mutation().expect("only a question changes nothing");
        let request = within_given(request, asker);
        for id in plan.targets(&request).map_err(told)? {
            let target = Target { id: &id };
            permission::check(asker, mutation, Some(target))?;
        }
        if let MutationRequest::TaskDone { id, no_change } = &request {
            let noted = self.claim(&plan, asker, id.as_deref(), no_change.as_deref());
            return noted.map(unchanged);
        }
        let request = related(&plan, &request, asker)?;
        let change = self.change(&request, asker.role)?;
        let text = told_of(&change);
        if change == Change::Nothing {
            return Ok(unchanged(text));
        }
        let plan = self.plan.read_in_run().map_err(told)?;
        Ok(Applied { text, change: Some(PlanChange { change, plan }) })
    }
}

impl PlanChannel {
    fn change(&self, request: &MutationRequest, role: Role) -> Result<Change, Declined> {
        let change = self.plan.with_context(DoneAt::Unborn, |context| {
            self.plan.change_in_run(|plan| {
                let change = plan.apply(request, context)?;
                if role == Role::Investigator {
                    // Without the note there is no task: the agent gets an error, and asks again.
                    note_made(&self.state, plan, &change)?;
                }
                Ok::<Change, PlanFileError>(change)
            })
        })?;
        Ok(change)
    }

    /// Notes a builder's claim.
    fn claim(
        &self,
        plan: &Plan<'_>,
        asker: Asker<'_>,
        id: Option<&str>,
        no_change: Option<&str>,
    ) -> Result<String, Declined> {
        let given = asker.given.first().map_or("", String::as_str);
        let id = id.unwrap_or(given);
        if plan.task_view(id).is_none() {
            return Err(told(PlanError::UnknownTask { id: id.to_owned() }));
        }
        let unchanged = locked(&self.probe).as_ref().is_some_and(ChangeProbe::is_unchanged);
        if unchanged && no_change.is_none() {
            return Err(Declined::Plan(format!(
                "nothing has changed since this run began, so {id} cannot be done: do the work first, or say \
                 `ralph task done {id} --no-change \"why nothing has to change\"`."
            )));
        }
        let (run, no_change) = (asker.run.clone(), no_change.map(str::to_owned));
        let fact = TaskFact::Claimed { run, no_change };
        let markers = markers(&self.state, plan, id).map_err(told)?;
        for write in settle(&markers, &fact, self.most_rejections).map_err(told)? {
            if let TaskWrite::Record(record) = write {
                TASKS.save(&self.state, id, &record).map_err(told)?;
            }
        }
        Ok(format!("{id} is noted as done; Ralph checks it when you end."))
    }
}

/// Returns how many tasks of the plan were made from a task.
pub(super) fn parts_of(plan: &Plan<'_>, task: &str) -> usize {
    let all = plan.tasks_view();
    let tasks = all.pending.iter().chain(&all.done);
    tasks.filter(|part| part.parent.as_deref() == Some(task)).count()
}

/// Adds to new tasks where they come from, and keeps a decomposition within its bounds.
fn related(
    plan: &Plan<'_>,
    request: &MutationRequest,
    asker: Asker<'_>,
) -> Result<MutationRequest, Declined> {
    let given = asker.given.first().map_or("", String::as_str);
    let parts = parts_of(plan, given);
    match (asker.role, request) {
        (Role::Decomposer, MutationRequest::TaskAdd { task }) => {
            let (task, count) = with_relation(task, "parent", given);
            if parts + count > MOST_PARTS {
                return Err(Declined::Plan(format!(
                    "a task is split into at most {MOST_PARTS} subtasks, and there are {parts} already: combine some."
                )));
            }
            Ok(MutationRequest::TaskAdd { task })
        }
        (Role::Decomposer, MutationRequest::TaskDelete { id }) if parts < FEWEST_PARTS => {
            Err(Declined::Plan(format!(
                "{id} can be deleted once it is split into at least {FEWEST_PARTS} subtasks; {parts} were added."
            )))
        }
        (Role::Investigator, MutationRequest::TaskAdd { task }) if asker.given.len() == 1 => {
            let (task, _) = with_relation(task, "created_from", given);
            Ok(MutationRequest::TaskAdd { task })
        }
        _ => Ok(request.clone()),
    }
}

/// Makes a request for everything apply to everything the run was given.
fn within_given(request: &MutationRequest, asker: Asker<'_>) -> MutationRequest {
    match request {
        MutationRequest::IssueDoneAll => MutationRequest::IssueDone { ids: asker.given.to_vec() },
        other => other.clone(),
    }
}

/// Gives every task of a wish a relation that it does not have; returns how many tasks it has. A wish that is no JSON is a
/// name, and one that cannot be read is left for the plan to refuse.
fn with_relation(task: &str, field: &str, id: &str) -> (String, usize) {
    let relate = |wish: &mut Map<String, Value>| {
        wish.entry(field).or_insert_with(|| Value::String(id.to_owned()));
    };
    match serde_json::from_str::<Value>(task.trim()) {
        Ok(Value::Object(mut wish)) => {
            relate(&mut wish);
            (Value::Object(wish).to_string(), 1)
        }
        Ok(Value::Array(mut wishes)) => {
            for wish in &mut wishes {
                if let Value::Object(wish) = wish {
                    relate(wish);
                }
            }
            let count = wishes.len();
            (Value::Array(wishes).to_string(), count)
        }
        Err(_) if !task.trim_start().starts_with(['{', '[']) => {
            let mut wish = Map::from_iter([("name".to_owned(), Value::String(task.to_owned()))]);
            relate(&mut wish);
            (Value::Object(wish).to_string(), 1)
        }
        _ => (task.to_owned(), 1),
    }
}

/// The reply where the plan did not change.
const fn unchanged(text: String) -> Applied {
    Applied { text, change: None }
}

fn shown(plan: &Plan<'_>, id: Option<&str>) -> Result<String, Declined> {
    let json = match id {
        None => serde_json::to_string_pretty(&plan.state_view()),
        Some(id) => {
            let unknown = || told(PlanError::UnknownTask { id: id.to_owned() });
            serde_json::to_string_pretty(&plan.task_view(id).ok_or_else(unknown)?)
        }
    };
    Ok(json.expect("views have string keys only"))
}

fn told_of(change: &Change) -> String {
    match change {
        Change::Prioritized { .. } => {
            serde_json::to_string(&PrioritizedView::of(change)).expect("it is plain data")
        }
        change => change.to_string(),
    }
}

fn told(error: impl std::error::Error) -> Declined {
    Declined::Plan(format!("{error}."))
}

impl From<PlanFileError> for Declined {
    fn from(error: PlanFileError) -> Declined {
        told(error)
    }
}
