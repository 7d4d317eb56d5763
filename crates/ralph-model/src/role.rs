//! The roles of an agent in a run, and whether each may change the workspace.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The role of an agent in one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    Planner,
    Interviewer,
    Mapper,
    Investigator,
    Decomposer,
    Verifier,
    Implementer,
    Builder,
}

impl Role {
    /// All roles, read-only ones first.
    pub const ALL: [Role; 8] = [
        Role::Planner,
        Role::Interviewer,
        Role::Mapper,
        Role::Investigator,
        Role::Decomposer,
        Role::Verifier,
        Role::Implementer,
        Role::Builder,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Role::Planner => "planner",
            Role::Interviewer => "interviewer",
            Role::Mapper => "mapper",
            Role::Investigator => "investigator",
            Role::Decomposer => "decomposer",
            Role::Verifier => "verifier",
            Role::Implementer => "implementer",
            Role::Builder => "builder",
        }
    }

    /// The prefix of a run's logs: the phase for the pipeline's roles, otherwise the role.
    pub const fn log_name(self) -> &'static str {
        match self {
            Role::Planner => "plan",
            Role::Implementer => "impl",
            Role::Verifier => "verify",
            other => other.as_str(),
        }
    }

    /// Whether this role may change the workspace. The verifier builds, but in its own checkout.
    pub const fn writes_workspace(self) -> bool {
        matches!(self, Role::Implementer | Role::Builder)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The name is not a role's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown role `{0}`; roles: {roles}", roles = Role::ALL.map(Role::as_str).join(", "))]
pub struct UnknownRole(pub String);

impl FromStr for Role {
    type Err = UnknownRole;

    fn from_str(name: &str) -> Result<Self, UnknownRole> {
        Role::ALL
            .into_iter()
            .find(|role| role.as_str() == name)
            .ok_or_else(|| UnknownRole(name.to_owned()))
    }
}
