//! `ralph` without a command: shows the status, and offers to continue with the plan.

use std::ffi::OsString;
use std::io::IsTerminal;

use ralph_engine::plan_file::PLAN_FILE;
use ralph_model::plan::{Plan, Stage};

use super::status;
use crate::args::{Cli, Command};
use crate::error::CliError;
use crate::exit::Exit;
use crate::render::{self, Ui};
use crate::setup::Setup;

/// The result of `ralph` without a command.
pub(super) enum Unnamed {
    /// Nothing more to do.
    Ended(Exit),
    /// Build the plan.
    Build,
}

/// Shows the status. At a terminal, offers to build a plan with work left; without a terminal it builds it, so that
/// scripts can call `ralph`.
pub(super) fn run(program: &OsString) -> Unnamed {
    let typed = [program.clone(), "status".into()];
    let Ok(Cli { global, command: Command::Status(args) }) = Cli::understand(&typed) else {
        return Unnamed::Ended(Exit::Bug);
    };
    let at_terminal = std::io::stdin().is_terminal();
    let setup = match Setup::load(&global, &[]) {
        Ok(setup) => setup,
        Err(error) => return failed(Ui::early(&global), &error),
    };
    if !setup.home.exists {
        not_set_up(&setup);
        return Unnamed::Ended(if at_terminal { Exit::Done } else { Exit::Usage });
    }
    let has_work = has_work(&setup);
    if !at_terminal && has_work {
        return Unnamed::Build;
    }
    match status::run(&global, &args) {
        Ok(_) if at_terminal && has_work && render::agree("Continue with `ralph build`?") => {
            Unnamed::Build
        }
        Ok(exit) => Unnamed::Ended(exit),
        Err(error) => failed(setup.ui, &error),
    }
}

/// Whether the plan has work left, or cannot be parsed, which `ralph build` explains.
fn has_work(setup: &Setup) -> bool {
    let Ok(bytes) = std::fs::read(setup.home.path.join(PLAN_FILE)) else { return false };
    Plan::parse(&bytes).certain_stage() != Some(Stage::Complete)
}

fn not_set_up(setup: &Setup) {
    render::important(&format!("Ralph is not set up in {}", setup.workspace.root));
    for line in [
        "  ralph init      set it up here",
        "  ralph demo      watch it work on a throw-away repository; no agent or key needed",
        "  ralph --help    all commands",
    ] {
        render::important(line);
    }
}

fn failed(ui: Ui, error: &CliError) -> Unnamed {
    render::error(ui, error);
    Unnamed::Ended(error.exit)
}
