//! Gates before the first agent of a workflow runs: one that cannot be run would judge nothing, so it stops the workflow
//! before anything is paid for; one that is red is said, as it may be what the work is to mend.
//!
//! What is found is kept as every result at a base is, so that neither the judge nor the next start runs it again.

use std::fmt;
use std::path::PathBuf;

use ralph_model::gate::{GateRun, GateSpec, GateStatus, Obstacle};
use ralph_model::journal::Note;

use super::assess::Assessor;
use super::pin::PinnedGates;
use super::{GateContext, GateError, GateRepository};
use crate::git::Oid;
use crate::session::Session;
use crate::workflow::WorkflowError;

/// What a gate said where work begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartFinding {
    pub gate: GateSpec,
    pub commit: Oid,
    pub run: GateRun,
}

impl StartFinding {
    /// Whether it could judge nothing: it does not run, or not to its end.
    pub(super) const fn cannot_run(&self) -> bool {
        matches!(self.run.status, GateStatus::CouldNotRun { .. } | GateStatus::TimedOut)
    }

    const fn is_red(&self) -> bool {
        matches!(self.run.status, GateStatus::Failed { .. })
    }

    /// Returns what a person has to change.
    pub fn advice(&self) -> String {
        let name = &self.gate.name;
        match &self.run.status {
            GateStatus::CouldNotRun { obstacle: Obstacle::NoProgram { program } } => format!(
                "install `{program}`, or correct `run` of the [[gate]] `{name}` in ralph.toml"
            ),
            GateStatus::CouldNotRun { obstacle: Obstacle::Setup { .. } } => format!(
                "correct `setup` of [checkout], or `run` of the [[gate]] `{name}`, in ralph.toml: it has to work in a fresh \
                 checkout"
            ),
            GateStatus::TimedOut => {
                format!("raise `timeout` of the [[gate]] `{name}` in ralph.toml, or make it faster")
            }
            _ => "put right what is in the way on this machine".to_owned(),
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
                write!(f, "the gate `{name}` cannot run to its end in {limit} s")
            }
            GateStatus::Failed { exit } => {
                write!(f, "the gate `{name}` fails already, before any work ({exit})")
            }
            GateStatus::Passed | GateStatus::ProvedNothing => write!(f, "the gate `{name}` passes"),
        }
    }
}

/// Who is told, and asked.
pub trait StartWatcher {
    /// Shows how a gate ended that does not pass.
    fn show(&mut self, finding: &StartFinding);

    /// Tells whether to go on although gates are red.
    fn goes_on(&mut self) -> bool;
}

/// A repository, where work in it begins, and what is Ralph's own in it.
pub(crate) struct StartPoint {
    pub(crate) repository: GateRepository,
    pub(crate) base: Oid,
    pub(crate) own: Vec<PathBuf>,
}

/// The gates that are to be tried before the first run of a session.
pub struct StartGates {
    pub(crate) points: Vec<StartPoint>,
    /// The person goes on whatever they say.
    pub(crate) anyway: bool,
    pub(crate) watcher: Box<dyn StartWatcher>,
}

/// Tries the gates, unless this session has done so.
pub(crate) fn before_first_run(session: &mut Session<'_>) -> Result<(), WorkflowError> {
    let Some(mut start) = session.start_gates.take() else { return Ok(()) };
    match try_all(session, &mut start) {
        Ok(()) => Ok(()),
        Err(error) => {
            // What got in the way may be gone the next time.
            session.start_gates = Some(start);
            Err(error)
        }
    }
}

fn try_all(session: &mut Session<'_>, start: &mut StartGates) -> Result<(), WorkflowError> {
    let pinned = PinnedGates::of(&session.context.config);
    let mut is_any_red = false;
    for point in &start.points {
        for finding in find(session, &pinned, point, start.anyway)? {
            if !finding.cannot_run() && !finding.is_red() {
                continue;
            }
            start.watcher.show(&finding);
            if finding.cannot_run() && !start.anyway {
                return Err(WorkflowError::GateCannotRun(Box::new(finding)));
            }
            is_any_red |= finding.is_red();
            session.record(Note { reason: finding.to_string(), ..Note::default() })?;
        }
    }
    if is_any_red && !start.anyway && !start.watcher.goes_on() {
        return Err(WorkflowError::Declined);
    }
    Ok(())
}

fn find(
    session: &mut Session<'_>,
    pinned: &PinnedGates,
    point: &StartPoint,
    anyway: bool,
) -> Result<Vec<StartFinding>, WorkflowError> {
    let StartPoint { repository, base, own } = point;
    repository.mirror.fill(&repository.git, std::slice::from_ref(base))?;
    let found: Result<_, GateError> = session.with_gates("", |context, tell| {
        let context = GateContext { item: None, ..*context };
        Assessor::open(&context, repository, pinned)?.at_start((base, own), anyway, tell)
    });
    Ok(found?)
}
