//! The `ralph` program: talks to people, decides nothing.

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
    // Unwinding ends the run's processes and gives the terminal back; what is left to do is to own up.
    let exit = std::panic::catch_unwind(|| commands::run(std::env::args_os()));
    ralph_proc::launcher::end_idle();
    ExitCode::from(exit.unwrap_or_else(|_| render::bug()) as u8)
}
