//! External programs: looked up on the PATH, installed if the machine's package manager is available.

use std::env;
use std::process::Command;

use crate::progress;

/// Returns whether `program` is on the PATH.
pub(crate) fn is_there(program: &str) -> bool {
    env::var_os("PATH")
        .is_some_and(|path| env::split_paths(&path).any(|dir| dir.join(program).is_file()))
}

/// Makes sure that `program` exists, installing `packages` on Debian and derivatives if run as root.
pub(crate) fn ensure(program: &str, packages: &[&str]) -> Result<(), String> {
    if is_there(program) {
        return Ok(());
    }
    let wanted = packages.join(" ");
    if !is_there("apt-get") || !is_root() {
        return Err(format!("`{program}` is needed: install {wanted} and try again"));
    }
    progress(&format!("installing {wanted}"));
    run(apt_get().arg("update").arg("--quiet=2"))?;
    let install = ["install", "--yes", "--quiet=2", "--no-install-recommends"];
    run(apt_get().args(install).args(packages))?;
    if is_there(program) { Ok(()) } else { Err(format!("{wanted} did not bring `{program}`")) }
}

/// Runs a command to its end; an error contains its name and status.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("cannot start {command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?}: {status}")) }
}

fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command
}

/// Whether we are root, judged by the owner of our entry in `/proc`.
#[cfg(target_os = "linux")]
fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

#[cfg(not(target_os = "linux"))]
fn is_root() -> bool {
    false
}
