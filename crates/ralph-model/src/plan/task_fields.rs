//! The enumerated values of a task's fields.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The status of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Status {
    #[serde(rename = "p")]
    Pending,
    #[serde(rename = "d")]
    Done,
    /// Written only by other tools: here an accepted task is removed from the file.
    #[serde(rename = "a")]
    Accepted,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Status::Pending => "pending",
            Status::Done => "done",
            Status::Accepted => "accepted",
        })
    }
}

/// The priority of a task; one without a priority comes last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    High,
    Medium,
    Low,
}

impl Priority {
    pub const fn name(self) -> &'static str {
        match self {
            Priority::High => "high",
            Priority::Medium => "medium",
            Priority::Low => "low",
        }
    }

    pub(crate) fn of_name(name: &str) -> Option<Priority> {
        [Priority::High, Priority::Medium, Priority::Low].into_iter().find(|one| one.name() == name)
    }
}

/// Why a run of a task was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kill {
    Timeout,
    Context,
}

impl Kill {
    pub const fn name(self) -> &'static str {
        match self {
            Kill::Timeout => "timeout",
            Kill::Context => "context",
        }
    }

    /// Parses the name, including legacy ones.
    pub(crate) fn of_name(name: &str) -> Option<Kill> {
        match name {
            "timeout" => Some(Kill::Timeout),
            "context" | "context_limit" | "compaction_failed" => Some(Kill::Context),
            _ => None,
        }
    }
}
