//! The `ralph` program: the user interface. Decisions are made in the engine.

mod args;
mod commands;
mod complete;
mod error;
mod exit;
mod notify;
mod render;
mod setup;

use std::process::ExitCode;

fn main() -> ExitCode {
    ralph_proc::guard::dispatch();
    render::print_panics();
    // Unwinding terminates the run's processes and restores the terminal; what remains is to report the bug.
    let exit = std::panic::catch_unwind(|| commands::run(std::env::args_os()));
    ralph_proc::launcher::end_idle();
    ExitCode::from(exit.unwrap_or_else(|_| render::bug()) as u8)
}
