//! The agent CLIs of the tests: installed from the lock file in `tests/agents`, and only when that has changed.
//!
//! A stamp inside `node_modules` holds the lock file it was made from. npm removes the directory before it installs, so
//! an installation that was interrupted has no stamp and is made anew.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::{programs, progress};

const STAMP: &str = "node_modules/.installed-from";

/// Returns whether the pinned CLIs, which are native programs, run on this machine.
pub(crate) const fn run_here() -> bool {
    cfg!(all(target_os = "linux", target_arch = "x86_64"))
}

/// Installs the CLIs in `dir` unless they are there.
pub(crate) fn install(dir: &Path) -> Result<(), String> {
    let lock = dir.join("package-lock.json");
    let wanted = fs::read(&lock).map_err(|error| format!("{}: {error}", lock.display()))?;
    if is_current(dir, &wanted) {
        progress("the agent CLIs are installed");
        return Ok(());
    }
    programs::ensure("npm", &["nodejs", "npm"])?;
    progress("installing the agent CLIs (about 1 GB; once)");
    if let Err(first) = npm_ci(dir) {
        progress(&format!("{first}; trying once more"));
        npm_ci(dir)?;
    }
    let stamp = dir.join(STAMP);
    fs::write(&stamp, wanted).map_err(|error| format!("{}: {error}", stamp.display()))
}

fn is_current(dir: &Path, lock: &[u8]) -> bool {
    fs::read(dir.join(STAMP)).is_ok_and(|stamp| stamp == lock)
}

fn npm_ci(dir: &Path) -> Result<(), String> {
    let args = ["ci", "--ignore-scripts", "--omit=optional", "--no-audit", "--no-fund"];
    programs::run(Command::new("npm").args(args).current_dir(dir))
}
