//! Gates before the first agent of a workflow runs: one that cannot be run would judge nothing, so it stops the workflow
//! before anything is paid for; one that is red is said, as it may be what the work is to mend.
//!
//! What is found is kept as every result at a base is, so that neither the judge nor the next start runs it again.

use std::fmt;
use std::path::PathBuf;

use ralph_model::gate::{GateRun, GateSpec, GateStatus, Obstacle};

use super::GateRepository;
use crate::git::Oid;

/// What a gate said where work begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartFinding {
    pub gate: GateSpec,
    pub commit: Oid,
    pub run: GateRun,
}

impl StartFinding {
    /// Whether it could judge nothing: it does not run, or not to its end.
    pub(crate) const fn cannot_run(&self) -> bool {
        matches!(self.run.status, GateStatus::CouldNotRun { .. } | GateStatus::TimedOut)
    }

    pub(crate) const fn is_red(&self) -> bool {
        matches!(self.run.status, GateStatus::Failed { .. })
    }

    /// Returns what a person has to change.
    pub fn advice(&self) -> String {
        let name = &self.gate.name;
        match &self.run.status {
            GateStatus::CouldNotRun { obstacle: Obstacle::NoProgram { program } } => format!(
                "install `{program}`, or correct {} in ralph.toml",
                match self.gate.argv().first() {
                    Some(first) if first == program => format!("`run` of the [[gate]] `{name}`"),
                    _ => "`setup` of [checkout]".to_owned(),
                }
            ),
            GateStatus::CouldNotRun { obstacle: Obstacle::Setup { .. } } => format!(
                "correct `setup` of [checkout], or `run` of the [[gate]] `{name}`, in ralph.toml: it has to work in a fresh \
                 checkout"
            ),
            GateStatus::CouldNotRun { obstacle: Obstacle::Unfilled { .. } } => {
                "fetch it, or have `setup` of [checkout] in ralph.toml fill it".to_owned()
            }
            GateStatus::TimedOut => {
                format!("raise `timeout` of the [[gate]] `{name}` in ralph.toml, or make it faster")
            }
            _ => "fix the problem on this machine".to_owned(),
        }
    }
}

impl fmt::Display for StartFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.gate.name;
        match &self.run.status {
            GateStatus::CouldNotRun { obstacle } => {
                write!(f, "the gate `{name}` cannot run: {obstacle}")
            }
            GateStatus::TimedOut => {
                let limit = self.gate.timeout.as_secs();
                write!(f, "the gate `{name}` did not finish in {limit} s")
            }
            GateStatus::Failed { exit } => {
                write!(f, "the gate `{name}` already fails before any work ({exit})")
            }
            GateStatus::Passed | GateStatus::ProvedNothing => write!(f, "the gate `{name}` passes"),
        }
    }
}

/// Receives the results and answers questions.
pub trait StartWatcher {
    /// Shows how a gate ended that does not pass.
    fn show(&mut self, finding: &StartFinding);

    /// Decides whether to continue although gates are red.
    fn goes_on(&mut self) -> bool;
}

/// A repository, where work in it begins, and what is Ralph's own in it.
pub(crate) struct StartPoint {
    pub(crate) repository: GateRepository,
    pub(crate) base: Oid,
    pub(crate) own: Vec<PathBuf>,
}

/// The gates that are to be tried before the first run of a session.
pub(crate) struct StartGates {
    pub(crate) points: Vec<StartPoint>,
    /// The person continues regardless of the gates.
    pub(crate) anyway: bool,
    pub(crate) watcher: Box<dyn StartWatcher>,
}
