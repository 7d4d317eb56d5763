//! Installs what tests need from npm, the agent CLIs and the tools of a web project, from the lock file in the
//! respective directory below `tests/`, and only when that file has changed.
//!
//! A stamp inside `node_modules` contains the lock file it was made from. It is written last, so an interrupted
//! installation has none and is repeated.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::{programs, progress};

const STAMP: &str = "node_modules/.installed-from";

/// Whether the pinned CLIs, which are native programs, run on this machine.
pub(crate) const fn run_here() -> bool {
    cfg!(all(target_os = "linux", target_arch = "x86_64"))
}

/// An npm package set to install.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Package {
    /// The agent CLIs, which bring their own native parts for this machine.
    Agents,
    /// Vite, for the web project that `ralph loop` is tested with.
    Web,
}

impl Package {
    const fn name(self) -> &'static str {
        match self {
            Package::Agents => "the agent CLIs (about 1 GB; once)",
            Package::Web => "Vite (about 30 MB; once)",
        }
    }
}

/// Installs a package set in `dir` unless it is already installed.
pub(crate) fn install(dir: &Path, package: Package) -> Result<(), String> {
    let lock = dir.join("package-lock.json");
    let wanted = fs::read(&lock).map_err(|error| format!("{}: {error}", lock.display()))?;
    if is_current(dir, &wanted) {
        return Ok(());
    }
    programs::ensure("npm", &["nodejs", "npm"])?;
    progress(&format!("installing {}", package.name()));
    if let Err(first) = run_npm(dir, package) {
        progress(&format!("{first}; trying once more"));
        run_npm(dir, package)?;
    }
    let stamp = dir.join(STAMP);
    fs::write(&stamp, wanted).map_err(|error| format!("{}: {error}", stamp.display()))
}

fn is_current(dir: &Path, lock: &[u8]) -> bool {
    fs::read(dir.join(STAMP)).is_ok_and(|stamp| stamp == lock)
}

fn run_npm(dir: &Path, package: Package) -> Result<(), String> {
    let install: &[&str] = match package {
        Package::Agents => &["ci", "--omit=optional"],
        // A registry may lack Rollup's packages for other platforms, which makes `ci` fail.
        Package::Web => &["install", "--no-save"],
    };
    let quiet = ["--ignore-scripts", "--no-audit", "--no-fund"];
    programs::run(Command::new("npm").args(install).args(quiet).current_dir(dir))
}
