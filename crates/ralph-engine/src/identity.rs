//! Which process a record means: a pid alone is reused, sooner than one thinks.
//!
//! A process is the same one if pid, start time and boot agree. Where the system does not tell start times, a process
//! that has the pid is taken for the same one. Nothing is signalled from here.

use std::fs;

use rustix::process::{Pid, test_kill_process};
use serde::{Deserialize, Serialize};

/// A process, told from a later one with the same pid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIdentity {
    pub pid: u32,
    /// Ticks from boot to the process's start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
}

impl ProcessIdentity {
    /// Returns the identity of this process.
    pub fn current() -> Self {
        Self::of(std::process::id())
    }

    /// Returns the identity of the process that has this pid now.
    pub fn of(pid: u32) -> Self {
        ProcessIdentity { pid, start: start_time(pid), boot_id: boot_id() }
    }

    /// Whether the process still exists. A zombie does, until somebody waits for it.
    pub fn is_alive(&self) -> bool {
        match (&self.boot_id, self.start) {
            (Some(boot), _) if boot_id().as_ref() != Some(boot) => false,
            (_, Some(start)) => start_time(self.pid) == Some(start),
            (_, None) => process_exists(self.pid),
        }
    }
}

/// Whether some process has this pid.
pub(crate) fn process_exists(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

fn start_time(pid: u32) -> Option<u64> {
    parse_start_time(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Finds the start time in a `stat` line. The program's name comes second, in brackets, and may hold anything.
fn parse_start_time(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_ascii_whitespace().nth(19)?.parse().ok()
}

fn boot_id() -> Option<String> {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_alive_and_one_that_ended_is_not() {
        let me = ProcessIdentity::current();
        assert!(me.is_alive());
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let identity = ProcessIdentity::of(child.id());
        assert!(identity.is_alive());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!identity.is_alive());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_recycled_pid_and_an_earlier_boot_are_somebody_else() {
        let me = ProcessIdentity::current();
        let recycled = ProcessIdentity { start: me.start.map(|start| start + 1), ..me.clone() };
        assert!(!recycled.is_alive());
        let earlier = ProcessIdentity { boot_id: Some("another".to_owned()), ..me };
        assert!(!earlier.is_alive());
    }

    #[test]
    fn a_program_name_cannot_forge_its_start_time() {
        let tail = "S 1 2 3 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4242 99";
        assert_eq!(parse_start_time(&format!("7 (a) R 1 1 (b)) {tail}")), Some(4242));
        assert_eq!(parse_start_time("7 (cut"), None);
    }
}
