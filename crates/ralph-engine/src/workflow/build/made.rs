//! Which tasks were made from an issue, for as long as it is open.
//!
//! Tasks go before issues: if an investigator is stopped between a task and the end of its issue, that task is built,
//! accepted and gone from the plan before the next investigator looks at the issue. So it is noted right before the plan
//! has it, and counts if the plan ever had it. A note that is lost costs a task that is made twice, never truth.

use ralph_model::plan::{Change, Plan};
use serde::{Deserialize, Serialize};

use super::Build;
use crate::files::PathError;
use crate::state::{Entry, State};

const MADE: Entry<Vec<Made>> =
    Entry::new("made", "an investigator is not told which tasks were made already");

/// A task that was made from an issue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Made {
    id: String,
    name: String,
    created_from: String,
}

/// Notes the tasks that a change makes from issues.
pub(super) fn note_made(state: &State, plan: &Plan<'_>, change: &Change) -> Result<(), PathError> {
    let Change::TasksAdded { tasks, .. } = change else { return Ok(()) };
    for added in tasks {
        let view = plan.task_view(&added.id);
        let Some(issue) = view.and_then(|task| task.created_from) else { continue };
        let mut made = MADE.load(state, &issue)?.unwrap_or_default();
        let (id, name) = (added.id.clone(), added.name.clone());
        made.push(Made { id, name, created_from: issue.to_string() });
        MADE.save(state, &issue, &made)?;
    }
    Ok(())
}

impl Build<'_, '_> {
    /// Returns the tasks that were made from these issues.
    pub(super) fn made_from(&self, issues: &[String]) -> Result<Vec<Made>, PathError> {
        let known = self.plan.known_ids();
        let mut all = Vec::new();
        for issue in issues {
            all.extend(MADE.load(&self.session.context.state, issue)?.unwrap_or_default());
        }
        all.retain(|made| known.has(&made.id));
        Ok(all)
    }
}

/// Forgets what was made from issues that are not in the plan any more.
pub(super) fn forget_closed(state: &State, plan: &Plan<'_>) -> Result<(), PathError> {
    let open: Vec<String> = plan.issues().map(|issue| issue.id.to_string()).collect();
    MADE.retain(state, open.iter().map(String::as_str))
}
