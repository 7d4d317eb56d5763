//! The differences between Linux and macOS in process supervision, behind the same names.
//!
//! Where macOS lacks a feature, the guarantee is weaker, which `ralph doctor` reports: orphans are not adopted but
//! searched for, and no process dies automatically with its parent.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "macos")]
mod macos;

use std::sync::OnceLock;

#[cfg(target_os = "linux")]
pub(crate) use linux::*;
#[cfg(target_os = "macos")]
pub(crate) use macos::*;

/// The relevant facts about a process.
#[derive(Debug)]
pub(crate) struct ProcessStat {
    pub(crate) parent: i32,
    /// Its start time, in a system-specific unit.
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
