//! What workflows tell while they work, under the names that people know from the log.

use serde::{Deserialize, Serialize};

use crate::pipeline::Phase;
use crate::plan::Stage;

/// Makes the enum of the events' names.
macro_rules! names {
    ($($variant:ident = $name:literal,)*) => {
        /// What happened in a workflow.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum WorkflowKind {
            $($variant,)*
        }

        impl WorkflowKind {
            pub(crate) const ALL: &[WorkflowKind] = &[$(WorkflowKind::$variant,)*];

            pub(crate) const fn name(self) -> &'static str {
                match self {
                    $(WorkflowKind::$variant => $name,)*
                }
            }
        }
    };
}

names! {
    RunStart = "run_start",
    SpecQueue = "spec_queue",
    SpecStart = "spec_start",
    SpecSkipped = "spec_skipped",
    PlanAdopted = "plan_adopted",
    PlanStart = "plan_start",
    PlanRunComplete = "plan_run_complete",
    PlanPass = "plan_pass",
    PlanFail = "plan_fail",
    PlanInvalidated = "plan_invalidated",
    CandidateLoaded = "candidate_loaded",
    ImplStart = "impl_start",
    ImplRunComplete = "impl_run_complete",
    ImplNoCompletion = "impl_no_completion",
    ImplRejected = "impl_rejected",
    GatesStart = "gates_start",
    CandidateWritten = "candidate_written",
    VerifyStart = "verify_start",
    VerifyRunComplete = "verify_run_complete",
    VerifyPass = "verify_pass",
    VerifyFail = "verify_fail",
    Trouble = "trouble",
    UsageLimitWait = "usage_limit_wait",
    BackoffWait = "backoff_wait",
    PersonNeeded = "person_needed",
    PersonAnswered = "person_answered",
    GatesChanged = "gates_changed",
    Note = "note",
    SpecFailed = "spec_failed",
    SpecResult = "spec_result",
    RunStopped = "run_stopped",
    RunComplete = "run_complete",
    BuildStart = "build_start",
    IterationStart = "iteration_start",
    IterationResult = "iteration_result",
    TaskDone = "task_done",
    TaskRejected = "task_rejected",
    TaskKilled = "task_killed",
    BuildResult = "build_result",
}

/// One event of a workflow. What an event has nothing to say about is left out of it.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkflowEvent {
    pub kind: WorkflowKind,
    pub fields: WorkflowFields,
}

/// What an event can tell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkflowFields {
    /// The spec, by its path below `specs/`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage: Option<Stage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iteration: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Which attempt, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// Which plan, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan_attempt: Option<u32>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub forced: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub replanning: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub resumed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_commit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proven_by_gates: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan_file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub done_file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_dir: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resumed_from_session: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_used: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_seconds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub magic_phrase: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boundary: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub force: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed_count: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped_count: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_count: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting_count: Option<usize>,
}

impl WorkflowEvent {
    pub(crate) fn kind_of(name: &str) -> Option<WorkflowKind> {
        WorkflowKind::ALL.iter().copied().find(|kind| kind.name() == name)
    }
}
