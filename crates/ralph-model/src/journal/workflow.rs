//! Events of a whole invocation: start and end, budget, waits, and notes for the person.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::event_data;
use crate::id::RunId;
use crate::pipeline::Phase;
use crate::policy::budget::{Budget, BudgetExhausted};

/// A workflow began. All its lines have its id as `wf`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkflowStarted {
    pub id: RunId,
    /// `pipeline`, `build`, `plan`, `loop` or `agent run`.
    pub kind: String,
    /// The command line arguments.
    #[serde(default)]
    pub args: Vec<String>,
    pub pid: i32,
    /// The start time of the process, in clock ticks since boot: together with the pid it identifies the process.
    pub started: u64,
    /// The version of Ralph.
    pub ralph: String,
    #[serde(default)]
    pub budget: BudgetLimits,
    /// The agent of each role.
    #[serde(default)]
    pub roles: BTreeMap<String, RoleAgent>,
}

/// A workflow ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkflowEnded {
    /// `completed`, or why it stopped early.
    pub how: String,
}

/// Four fifths of the budget are used up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BudgetNear {
    pub what: BudgetExhausted,
}

/// No further run may start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BudgetStop {
    pub what: BudgetExhausted,
}

event_data! {
    /// The budget of a workflow; an absent field means no limit.
    BudgetLimits {
        iterations: Option<u32>,
        tokens: Option<u64>,
        cost_usd: Option<f64>,
        wall_ms: Option<u64>,
        failures: Option<u32>,
    }

    /// The agent of a role.
    RoleAgent {
        agent: String,
        model: Option<String>,
    }

    /// Trouble in an item's run; it costs no attempt.
    TroubleMet {
        spec: Option<String>,
        item: Option<String>,
        phase: Option<Phase>,
        reason: String,
    }

    /// A wait for an agent's usage limit.
    UsageLimitWait {
        spec: Option<String>,
        item: Option<String>,
        phase: Option<Phase>,
        agent: String,
        wait_seconds: Option<u64>,
        /// The provider's own figure.
        reset_seconds: Option<u64>,
        /// `reset_seconds` or `unknown_reset`.
        reason: String,
        until: Option<Timestamp>,
    }

    /// A wait after a failure began.
    BackoffWait {
        spec: Option<String>,
        item: Option<String>,
        phase: Option<Phase>,
        wait_seconds: Option<u64>,
        reason: Option<String>,
    }

    /// A note for the person.
    Note {
        spec: Option<String>,
        task: Option<String>,
        reason: String,
    }

    /// A workflow stopped with an error.
    RunError {
        error: String,
    }
}

impl From<&Budget> for BudgetLimits {
    fn from(budget: &Budget) -> BudgetLimits {
        BudgetLimits {
            iterations: budget.iterations,
            tokens: budget.tokens,
            cost_usd: budget.cost_usd,
            wall_ms: budget.wall.map(|wall| u64::try_from(wall.as_millis()).unwrap_or(u64::MAX)),
            failures: budget.consecutive_failures,
        }
    }
}
