//! The gates of a session, tried before its first agent runs; see `gates::start`.

use ralph_model::journal::Note;

use super::WorkflowError;
use crate::gates::assess::Assessor;
use crate::gates::pin::PinnedGates;
use crate::gates::start::{StartFinding, StartGates, StartPoint};
use crate::gates::{GateContext, GateError};
use crate::session::Session;

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
