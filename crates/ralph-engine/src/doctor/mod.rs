//! Is this machine, and this workspace, ready for runs: one finding per fact, each with what to do about it.
//!
//! Looking changes nothing: no file is written and no setting touched. Programs that are asked (git) are asked for what
//! they tell without running anything of the repository's.

mod git;
mod machine;
mod workspace;

use std::fmt;

use camino::{Utf8Path, Utf8PathBuf};
use ralph_proc::sandbox::Support;
use serde::Serialize;

use crate::config::{Config, ConfigError};
use crate::detect::agents::FoundAgent;
use crate::home::Workspace;
use crate::state::StateError;

/// What is examined.
pub struct Checkup<'a> {
    /// This very program.
    pub program: &'a Utf8Path,
    pub workspace: &'a Workspace,
    pub config: Result<&'a Config, &'a ConfigError>,
    /// The agents that Ralph knows, as far as they were found.
    pub agents: &'a [FoundAgent],
    /// Finds a program as a run would.
    pub look_up: &'a dyn Fn(&str) -> Option<Utf8PathBuf>,
    pub support: Support,
    /// Where private state is kept.
    pub private_state: Result<&'a Utf8Path, &'a StateError>,
    pub temp: &'a Utf8Path,
}

/// One fact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub area: Area,
    pub status: FindingStatus,
    pub what: String,
    pub advice: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Area {
    Git,
    Workspace,
    Config,
    Agents,
    Boundary,
    Processes,
    Disk,
    State,
    Temp,
}

impl Area {
    pub const fn as_str(self) -> &'static str {
        match self {
            Area::Git => "git",
            Area::Workspace => "workspace",
            Area::Config => "config",
            Area::Agents => "agents",
            Area::Boundary => "boundary",
            Area::Processes => "processes",
            Area::Disk => "disk",
            Area::State => "state",
            Area::Temp => "temp",
        }
    }
}

impl fmt::Display for Area {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FindingStatus {
    Ok,
    /// Something does not work.
    Problem,
    /// Works, but the person may want to know.
    Note,
}

impl Finding {
    fn ok(area: Area, what: impl Into<String>) -> Self {
        Finding { area, status: FindingStatus::Ok, what: what.into(), advice: None }
    }

    fn problem(area: Area, what: impl Into<String>, advice: impl Into<String>) -> Self {
        Finding {
            area,
            status: FindingStatus::Problem,
            what: what.into(),
            advice: Some(advice.into()),
        }
    }

    fn note(area: Area, what: impl Into<String>, advice: impl Into<String>) -> Self {
        Finding {
            area,
            status: FindingStatus::Note,
            what: what.into(),
            advice: Some(advice.into()),
        }
    }
}

/// Examines everything, in the order in which a person would mend it.
pub fn examine(checkup: &Checkup<'_>) -> Vec<Finding> {
    let mut findings = git::examine(checkup);
    findings.extend(workspace::examine(checkup));
    findings.extend(machine::examine(checkup));
    findings
}

#[cfg(test)]
#[path = "doctor_tests.rs"]
mod tests;
