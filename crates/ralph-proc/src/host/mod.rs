//! What Linux and macOS do differently for the supervision of processes, under the same names.
//!
//! Where macOS lacks something, the difference is a weaker promise that `ralph doctor` prints: orphans come to nobody's care
//! but are looked for, and nothing ends by itself with the process that started it.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "macos")]
mod macos;

use std::sync::OnceLock;

#[cfg(target_os = "linux")]
pub(crate) use linux::*;
#[cfg(target_os = "macos")]
pub(crate) use macos::*;

/// What matters here of a process.
#[derive(Debug)]
pub(crate) struct ProcessStat {
    pub(crate) parent: i32,
    /// When it started, in a unit of the system's.
    pub(crate) start: u64,
    pub(crate) zombie: bool,
    /// It is neither stopped nor dead.
    pub(crate) goes_on: bool,
}

/// Identifies this boot of the machine.
pub(crate) fn boot_id() -> String {
    static BOOT: OnceLock<String> = OnceLock::new();
    BOOT.get_or_init(read_boot_id).clone()
}

/// The variable that every process of a run has, unless it has cleared its environment.
pub(crate) const MARK: &str = "RALPH_RUN_ID";
