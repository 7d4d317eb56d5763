//! `cargo xtask check-macos`: the workspace compiles for macOS, where there is no kernel boundary.
//!
//! It needs the standard library of that platform. Where that cannot be had it says so, and passes.

use std::path::Path;
use std::process::{Command, ExitCode};

use crate::{progress, root};

const TARGET: &str = "aarch64-apple-darwin";

/// Checks, and returns how that ended.
pub(crate) fn run() -> Result<ExitCode, String> {
    if !is_installed() {
        let _ = Command::new("rustup").args(["target", "add", TARGET]).status();
    }
    if !is_installed() {
        progress(&format!("NOT CHECKED: the standard library for {TARGET} cannot be had here"));
        return Ok(ExitCode::SUCCESS);
    }
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(root()).args(["check", "--workspace", "--locked", "--target", TARGET]);
    let status = cargo.status().map_err(|error| format!("cannot run cargo: {error}"))?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn is_installed() -> bool {
    let asked =
        Command::new("rustc").args(["--print", "target-libdir", "--target", TARGET]).output();
    asked.is_ok_and(|answer| Path::new(String::from_utf8_lossy(&answer.stdout).trim()).is_dir())
}
