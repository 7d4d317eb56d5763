//! Checks whether this machine and this workspace are ready for runs: one finding per fact, each with advice.
//!
//! Read-only: no file is written and no setting changed. External programs (git) are only queried, without running
//! anything of the repository's.

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
use crate::trust::Trust;

/// The input of the checks.
pub struct Checkup<'a> {
    /// This very program.
    pub program: &'a Utf8Path,
    pub workspace: &'a Workspace,
    pub config: Result<&'a Config, &'a ConfigError>,
    /// The names of the person's variables that every run gets, and of those that are withheld.
    pub variables: (&'a [String], &'a [String]),
    /// The workspace's settings that need trust; `None` if its configuration is invalid.
    pub trust: Option<&'a Trust>,
    /// The known agents, as far as found.
    pub agents: &'a [FoundAgent],
    /// Looks up a program as a run would.
    pub look_up: &'a dyn Fn(&str) -> Option<Utf8PathBuf>,
    pub support: Support,
    /// Whether a gate's file accesses can be traced.
    pub traces: bool,
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
    Environment,
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
            Area::Environment => "variables",
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
    pub fn ok(area: Area, what: impl Into<String>) -> Self {
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

    pub fn note(area: Area, what: impl Into<String>, advice: impl Into<String>) -> Self {
        Finding {
            area,
            status: FindingStatus::Note,
            what: what.into(),
            advice: Some(advice.into()),
        }
    }
}

/// Runs all checks, in the order in which a person would fix problems.
pub fn examine(checkup: &Checkup<'_>) -> Vec<Finding> {
    let mut findings = git::examine(checkup);
    findings.extend(workspace::examine(checkup));
    findings.extend(examine_variables(checkup));
    findings.extend(machine::examine(checkup));
    findings
}

fn examine_variables(checkup: &Checkup<'_>) -> Vec<Finding> {
    let (passed, withheld) = checkup.variables;
    let list = |names: &[String]| names.join(", ");
    let mut findings =
        vec![Finding::ok(Area::Environment, format!("agents and gates get {}", list(passed)))];
    if !withheld.is_empty() {
        let what = format!("withheld from them: {}", list(withheld));
        let advice =
            "an agent gets its own keys as well; `[env] pass = [\"NAME\"]` lets more through";
        findings.push(Finding {
            advice: Some(advice.to_owned()),
            ..Finding::ok(Area::Environment, what)
        });
    }
    findings
}

#[cfg(test)]
#[path = "doctor_tests.rs"]
mod tests;
