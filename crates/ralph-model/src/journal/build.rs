//! Events of the build loop and of the plan that it works on.

use crate::proof::LandedLevel;
use serde::{Deserialize, Serialize};

use super::event_data;
use crate::plan::{Change, Stage};

/// What came of a step of the build loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepResult {
    /// Older Ralphs told of failures only.
    #[default]
    Failed,
    Progress,
    /// Something got in the way; the same step is done again.
    Trouble,
    /// The loop ends with it, or waits for a person.
    Stopped,
}

event_data! {
    /// The build loop begins.
    BuildStart {
        spec: Option<String>,
        boundary: String,
    }

    /// The build loop is over.
    BuildResult {
        result: String,
        iteration: Option<u32>,
    }

    /// A step of the build loop begins.
    IterationStart {
        iteration: Option<u32>,
        stage: Option<Stage>,
        /// What its run is for.
        item: Option<String>,
        #[serde(rename = "try")]
        try_number: Option<u32>,
        task: Option<String>,
        /// The task's name.
        #[serde(alias = "reason")]
        name: Option<String>,
        spec: Option<String>,
    }

    /// A step of the build loop is over.
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

    /// A task's run was ended before it was done; the task is to be broken up.
    TaskKilled {
        task: String,
        reason: String,
    }

    /// The plan was changed.
    PlanChanged {
        /// `person`, or the role of the agent that asked for it.
        by: String,
        /// Such as `tasks_added`.
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
