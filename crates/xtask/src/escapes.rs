//! `cargo xtask escapes`: every escape attempt, with both layers, with Landlock alone and with detection, in place and
//! in slots; if run as root, also as an ordinary user.

use std::process::{Command, ExitCode};

use crate::{progress, root};

/// The tests with escape attempts.
const TESTS: [&str; 5] =
    ["escapes::", "slot_attacks::", "gate_bounds::", "forgery::", "agent_files::"];

/// Runs them and returns the exit code.
pub(crate) fn run(mut args: impl Iterator<Item = String>) -> Result<ExitCode, String> {
    let is_sample = match (args.next().as_deref(), args.next()) {
        (None, None) => false,
        (Some("--sample"), None) => true,
        _ => return Err(format!("`escapes` takes `--sample` alone\n{}", crate::USAGE)),
    };
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(root()).args(["test", "--package", "ralph", "--test", "e2e", "--"]);
    if is_sample {
        cargo.arg(TESTS[0]);
    } else {
        progress("all escapes: some minutes");
        cargo.args(TESTS).env("RALPH_ESCAPES", "all");
    }
    let status = cargo.status().map_err(|error| format!("cannot run cargo: {error}"))?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
