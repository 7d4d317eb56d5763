//! Process trees: descendants, and processes with a run's mark.
//!
//! A process id alone proves nothing, because ids are reused; together with its start time and the boot it is an
//! identity.

use std::collections::{BTreeSet, HashMap};
use std::sync::OnceLock;

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use crate::host::{self, all, boot_id, listed_children, stat};
use crate::{sys, witness};

/// A process that cannot be mistaken for a later one with the same id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIdentity {
    pub pid: i32,
    /// Its start time, in a system-specific unit.
    pub start: u64,
    pub boot: String,
}

impl ProcessIdentity {
    /// The identity of this process.
    pub fn own() -> ProcessIdentity {
        static OWN: OnceLock<ProcessIdentity> = OnceLock::new();
        let own = OWN.get_or_init(|| {
            let pid = rustix::process::getpid().as_raw_nonzero().get();
            ProcessIdentity::of(pid).unwrap_or_else(|| ProcessIdentity {
                pid,
                start: 0,
                boot: boot_id(),
            })
        });
        own.clone()
    }

    /// The identity of a live process.
    pub fn of(pid: i32) -> Option<ProcessIdentity> {
        Some(ProcessIdentity { pid, start: start_time(pid)?, boot: boot_id() })
    }

    /// Whether that very process still exists (a zombie does not count).
    pub fn is_alive(&self) -> bool {
        self.boot == boot_id() && start_time(self.pid) == Some(self.start)
    }
}

/// Returns the ancestors of this process, as far as visible: the parent first.
pub fn ancestors() -> Vec<i32> {
    let mut found = Vec::new();
    let mut next = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get());
    while let Some(pid) = next.filter(|pid| *pid > 0 && !found.contains(pid)) {
        found.push(pid);
        next = stat(pid).map(|stat| stat.parent);
    }
    found
}

fn start_time(pid: i32) -> Option<u64> {
    stat(pid).filter(|stat| !stat.zombie).map(|stat| stat.start)
}

/// Whether a live process of that id is the one that started at that time.
pub(crate) fn started_at(pid: i32, start: u64) -> bool {
    start_time(pid) == Some(start)
}

/// Whether a process, dead or alive, started at that time or later.
pub(crate) fn started_since(pid: i32, start: u64) -> bool {
    stat(pid).is_some_and(|stat| stat.start >= start)
}

/// All descendants of `root`, nearest first, without `root` itself.
pub(crate) fn descendants(root: i32) -> Vec<i32> {
    let mut found = Vec::new();
    let mut scanned: Option<HashMap<i32, Vec<i32>>> = None;
    let mut open = vec![root];
    while let Some(pid) = open.pop() {
        let children = match listed_children(pid) {
            Some(children) => children,
            // Kernels without CONFIG_PROC_CHILDREN: query the parent of every process, once.
            None => scanned.get_or_insert_with(by_parent).get(&pid).cloned().unwrap_or_default(),
        };
        for child in children {
            if !found.contains(&child) {
                found.push(child);
                open.push(child);
            }
        }
    }
    found
}

fn by_parent() -> HashMap<i32, Vec<i32>> {
    let mut map: HashMap<i32, Vec<i32>> = HashMap::new();
    for pid in all() {
        if let Some(stat) = stat(pid) {
            map.entry(stat.parent).or_default().push(pid);
        }
    }
    map
}

/// Every live process whose environment contains `NAME=value` exactly.
pub fn marked(name: &str, value: &str) -> Vec<i32> {
    let wanted = format!("{name}={value}");
    witness::look(move || holding(wanted.as_bytes()))
}

/// Every live process except this one whose environment has an entry.
pub(crate) fn holding(wanted: &[u8]) -> Vec<i32> {
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    all().into_iter().filter(|pid| *pid != own && environment_holds(*pid, wanted)).collect()
}

fn environment_holds(pid: i32, wanted: &[u8]) -> bool {
    host::environment_holds(pid, wanted) && start_time(pid).is_some()
}

/// Sends a signal to each; missing ones are ignored.
pub(crate) fn signal_all(pids: &[i32], signal: Signal) {
    for pid in pids.iter().filter_map(|pid| Pid::from_raw(*pid)) {
        let _ = kill_process(pid, signal);
    }
}

/// Kills processes and all their descendants. Each is stopped first, so that it cannot fork in between.
///
/// Processes found are killed at once, in every pass: otherwise processes that fork and continue each other could never
/// all be stopped. Returns how many were killed. The caller repeats until nothing is left.
pub fn kill_with_descendants(roots: &[i32]) -> usize {
    let mut killed = BTreeSet::new();
    loop {
        let below = roots.iter().flat_map(|root| descendants(*root));
        let found: BTreeSet<i32> = roots.iter().copied().chain(below).collect();
        let found: Vec<i32> = found.into_iter().collect();
        signal_all(&found, Signal::STOP);
        signal_all(&found, Signal::KILL);
        let known = killed.len();
        killed.extend(found);
        if killed.len() == known {
            return known;
        }
    }
}

/// Kills the descendants of a process that adopts orphans, each as soon as it is found. Returns their number.
///
/// Children that such a process started a moment before are reparented to the adopter, and found in the next pass.
pub(crate) fn kill_descendants(adopter: i32) -> usize {
    let mut killed = 0;
    let mut open = vec![adopter];
    while let Some(pid) = open.pop() {
        let Some(children) = listed_children(pid) else {
            if pid == adopter {
                return killed + kill_with_descendants(&descendants(adopter));
            }
            continue;
        };
        if pid != adopter {
            signal_all(&children, Signal::STOP);
        }
        signal_all(&children, Signal::KILL);
        killed += children.len();
        open.extend(children);
    }
    killed
}

/// Stops all processes of a namespace except the caller, its first process, and those that never stop.
pub(crate) fn stop_everybody() {
    const PASSES: usize = 100;
    let own = own_pid();
    for _ in 0..PASSES {
        if signal_everybody(Signal::STOP) {
            return;
        }
        let goes_on = |pid: &i32| *pid != own && stat(*pid).is_some_and(|stat| stat.goes_on);
        if !all().iter().any(goes_on) {
            return;
        }
    }
}

/// Signals all processes of a namespace except its first, the caller. Returns whether there was none.
pub(crate) fn signal_everybody(signal: Signal) -> bool {
    sys::signal_everybody(signal).is_err()
}

/// The number of live processes in a namespace except its first, the caller.
pub(crate) fn everybody() -> usize {
    let own = own_pid();
    all().into_iter().filter(|pid| *pid != own && start_time(*pid).is_some()).count()
}

fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// Stops the processes that `list` finds.
///
/// Processes forked between the listing and the stop are found at the next listing, and cannot fork then: so this
/// repeats until nothing new is found.
pub(crate) fn stop_all(list: impl Fn() -> Vec<i32>) {
    let mut stopped: Vec<i32> = Vec::new();
    loop {
        let mut found = list();
        found.retain(|pid| !stopped.contains(pid));
        found.sort_unstable();
        found.dedup();
        if found.is_empty() {
            return;
        }
        signal_all(&found, Signal::STOP);
        stopped.extend(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_alive_and_one_that_ended_is_not() {
        assert!(ProcessIdentity::own().is_alive());
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let identity = ProcessIdentity::of(i32::try_from(child.id()).unwrap()).unwrap();
        assert!(identity.is_alive());
        assert!(descendants(ProcessIdentity::own().pid).contains(&identity.pid));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!identity.is_alive());
    }

    #[test]
    fn a_recycled_id_and_an_earlier_boot_are_somebody_else() {
        let own = ProcessIdentity::own();
        assert!(!ProcessIdentity { start: own.start + 1, ..own.clone() }.is_alive());
        assert!(!ProcessIdentity { boot: "another".to_owned(), ..own }.is_alive());
    }
}
