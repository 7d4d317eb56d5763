//! Recovery at the start of a command: terminates leftover processes of a killed Ralph first, then reverts forbidden
//! changes of their run. A run that had ended by then keeps its result.
//!
//! With the kernel boundary there is nothing to find: the guard terminates everything when Ralph dies. Without it an
//! agent can kill its guard, and then only the mark in each process's environment identifies it.

use std::time::{Duration, Instant};

use camino::Utf8Path;
use ralph_model::event::AgentEvent;
use ralph_model::id::RunId;
use ralph_model::journal::{BoundaryCrossed, LeftoversEnded};
use ralph_proc::tree;

use crate::boundary::BoundaryReport;
use crate::clock::Clock;
use crate::files::{PathError, read_optional};
use crate::journal::Journal;
use crate::run::{
    Environment, RESULTS, RunResult, UNCOMPARED, is_scratch, locks, parse_event_line, remove,
};
use crate::state::{AFTER_KILL, AfterKill, LiveRun, State};

/// Killed processes disappear instantly, unless they are stuck in the kernel.
const PATIENCE: Duration = Duration::from_secs(5);

/// The leftovers of one dead run.
#[derive(Clone, Debug, PartialEq)]
pub struct Recovered {
    pub run_id: String,
    /// How many of its processes were still alive and were terminated.
    pub processes: usize,
    /// Its forbidden changes.
    pub boundary: BoundaryCrossed,
    /// Descriptions of its leftover git locks that were removed.
    pub removed_locks: Vec<String>,
}

/// Terminates leftover processes of killed Ralphs' runs, and records that in the journal.
pub fn end_leftovers(
    state: &State,
    journal: &mut Journal,
    clock: &dyn Clock,
    environment: &Environment,
) -> Result<Vec<Recovered>, PathError> {
    let mut recovered = Vec::new();
    for leftover in state.leftovers()? {
        let run = &leftover.run;
        let processes = end_processes(run);
        if let Some(scratch) = run.scratch.as_deref().filter(|path| is_scratch(path)) {
            remove(scratch);
        }
        let id: Option<RunId> = run.run_id.parse().ok();
        let removed_locks = locks::remove_left(&run.free_locks);
        for lock in &removed_locks {
            journal.record(clock.now(), id.as_ref(), locks::removed_note(lock))?;
        }
        // Only now, when no process of the run is left to make further changes.
        let git = || environment.git();
        let ended = result_of(state, &run.run_id)?;
        let forget = || {
            if let Some(ended) = &ended {
                let _ = UNCOMPARED.forget(state, &ended.item);
            }
        };
        // Processes terminated just now could make changes until now.
        let gone = if processes == 0 { leftover.gone() } else { None };
        if let (Some(item), Some(gone)) = (&run.item, gone) {
            // Before anything is removed: the next run of the item must distinguish the person's changes from this
            // run's.
            AFTER_KILL.save(state, item, &AfterKill { item: item.clone(), gone })?;
        }
        let settled = match &run.watch {
            Some(watch) => watch.settle_abandoned(gone, state, &git, &forget)?,
            None => Some(BoundaryReport::default()),
        };
        // A result that can no longer be compared does not count.
        let ended = ended.filter(|_| settled.is_some());
        let boundary = settled.unwrap_or_default();
        if let Some(mut ended) = ended {
            ended.hold_to(&boundary);
            RESULTS.save(state, &ended.item, &ended)?;
            UNCOMPARED.forget(state, &ended.item)?;
        }
        let is_crossed = !boundary.is_empty();
        let boundary = boundary.journal();
        if is_crossed {
            journal.record(clock.now(), id.as_ref(), boundary.clone())?;
        }
        let ended = LeftoversEnded {
            processes: u32::try_from(processes).unwrap_or(u32::MAX),
            session: run.events.as_deref().and_then(session_in),
        };
        journal.record(clock.now(), id.as_ref(), ended)?;
        leftover.forget()?;
        recovered.push(Recovered {
            run_id: run.run_id.clone(),
            processes,
            boundary,
            removed_locks: removed_locks.iter().map(locks::removed).collect(),
        });
    }
    Ok(recovered)
}

/// Returns the result of a run that had ended when its Ralph died, and was not compared with the earlier state.
fn result_of(state: &State, run: &str) -> Result<Option<RunResult>, PathError> {
    let ended = UNCOMPARED.all(state)?.into_iter().find(|result| result.run.as_str() == run);
    let Some(ended) = ended else { return Ok(None) };
    let kept = RESULTS.load(state, &ended.item)?;
    Ok(kept.is_none_or(|kept| kept.run != ended.run).then_some(ended))
}

/// Sets aside results that can no longer be compared, because the record of their run is lost.
pub(crate) fn forget_uncompared(state: &State) -> Result<(), PathError> {
    let under_way = state.under_way()?;
    for result in UNCOMPARED.all(state)? {
        let is_kept = RESULTS.load(state, &result.item)?.is_some_and(|kept| kept.run == result.run);
        if is_kept {
            UNCOMPARED.forget(state, &result.item)?;
        } else if !under_way.iter().any(|run| run == result.run.as_str()) {
            let loss = "what its run changed cannot be compared with what was before: the work is done again";
            UNCOMPARED.set_aside(state, &result.item, loss)?;
        }
    }
    Ok(())
}

/// Returns the agent's session from the run's events, so that the next run can resume it.
fn session_in(events: &Utf8Path) -> Option<String> {
    // Agents report it first; a later one replaces it (an agent may fork its session).
    let events = read_optional(events).ok()??;
    let mut told = events.rsplit(|byte| *byte == b'\n').filter_map(parse_event_line);
    told.find_map(|event| match event {
        AgentEvent::Session { id, .. } => Some(id),
        _ => None,
    })
}

fn end_processes(run: &LiveRun) -> usize {
    #[cfg(test)]
    if crate::files::simulated::is_installed() {
        return 0;
    }
    let deadline = Instant::now() + PATIENCE;
    let mut ended = 0;
    loop {
        let mut roots = tree::marked("RALPH_RUN_ID", &run.run_id);
        roots.extend(run.guard.iter().filter(|guard| guard.is_alive()).map(|guard| guard.pid));
        roots.sort_unstable();
        roots.dedup();
        if roots.is_empty() || Instant::now() > deadline {
            return ended;
        }
        ended += tree::kill_with_descendants(&roots);
        std::thread::sleep(Duration::from_millis(5));
    }
}
