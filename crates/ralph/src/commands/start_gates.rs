//! Gates before the first agent of a command runs: what the person sees and is asked.

use std::io::IsTerminal;

use ralph_engine::gates::start::{StartFinding, StartWatcher};
use ralph_engine::session::Session;
use ralph_engine::workflow::project::Project;

use crate::error::CliError;
use crate::render::gates::show_end;
use crate::render::{self, Ui};
use crate::setup::Setup;

/// The person's options for these gates.
#[derive(Clone, Copy)]
pub(super) struct FirstGates {
    /// Agents run regardless of the gates.
    pub(super) anyway: bool,
    /// A person at the terminal is asked about red ones.
    pub(super) asks: bool,
}

/// Runs the gates at the base before the first agent runs.
pub(super) fn gates_first(
    setup: &Setup,
    session: &mut Session<'_>,
    project: &Project,
    start: FirstGates,
) -> Result<(), CliError> {
    let watcher = Box::new(Watcher { ui: setup.ui, asks: start.asks });
    project.gates_first(session, start.anyway, watcher).map_err(CliError::failed)
}

struct Watcher {
    ui: Ui,
    asks: bool,
}

impl StartWatcher for Watcher {
    fn show(&mut self, finding: &StartFinding) {
        if !finding.run.output.last.is_empty() {
            show_end(self.ui, &finding.gate, &finding.run);
        }
    }

    fn goes_on(&mut self) -> bool {
        let is_there = self.asks && std::io::stdin().is_terminal();
        !is_there || render::agree("A gate fails before any work. Continue anyway?")
    }
}
