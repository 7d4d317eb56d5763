//! Events of the build loop and of its plan.

use crate::proof::LandedLevel;
use serde::{Deserialize, Serialize};

use super::event_data;
use crate::plan::{Change, Stage};

/// The result of a step of the build loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepResult {
    /// Earlier versions recorded failures only.
    #[default]
    Failed,
    Progress,
    /// Trouble; the same step is repeated.
    Trouble,
    /// The loop ends here, or waits for a person.
    Stopped,
}

event_data! {
    /// The build loop begins.
    BuildStart {
        spec: Option<String>,
        boundary: String,
    }

    /// The build loop ended.
    BuildResult {
        result: String,
        iteration: Option<u32>,
    }

    /// A step of the build loop begins.
    IterationStart {
        iteration: Option<u32>,
        stage: Option<Stage>,
        /// The item its run works on.
        item: Option<String>,
        #[serde(rename = "try")]
        try_number: Option<u32>,
        task: Option<String>,
        /// The task's name.
        #[serde(alias = "reason")]
        name: Option<String>,
        spec: Option<String>,
    }

    /// A step of the build loop ended.
    IterationResult {
        iteration: Option<u32>,
        stage: Option<Stage>,
        item: Option<String>,
        #[serde(rename = "try")]
        try_number: Option<u32>,
        result: StepResult,
        reason: Option<String>,
    }

    /// The work on a task is accepted.
    TaskDone {
        task: String,
        commit: Option<String>,
        level: Option<LandedLevel>,
    }

    /// The work on a task is sent back.
    TaskRejected {
        task: String,
        commit: Option<String>,
        reason: String,
    }

    /// A task's run was terminated before it was done; the task must be decomposed.
    TaskKilled {
        task: String,
        reason: String,
    }

    /// The plan was changed.
    PlanChanged {
        /// `person`, or the role of the agent that requested it.
        by: String,
        /// For example `tasks_added`.
        what: String,
        ids: Vec<String>,
    }
}

impl PlanChanged {
    /// Describes a change of the plan.
    pub fn of(by: &str, change: &Change) -> PlanChanged {
        let ids = change.ids().into_iter().map(str::to_owned).collect();
        PlanChanged { by: by.to_owned(), what: change.name().to_owned(), ids }
    }
}
