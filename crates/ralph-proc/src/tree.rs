//! Process trees as the system shows them: who descends from whom, who carries a run's mark.
//!
//! A process id alone proves nothing, ids are used again; together with its start time and the boot it is an identity.

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
    /// When it started, in a unit of the system's.
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

    /// The identity of a living process.
    pub fn of(pid: i32) -> Option<ProcessIdentity> {
        Some(ProcessIdentity { pid, start: start_time(pid)?, boot: boot_id() })
    }

    /// Whether that very process still exists (a zombie does not count).
    pub fn is_alive(&self) -> bool {
        self.boot == boot_id() && start_time(self.pid) == Some(self.start)
    }
}

/// Returns the processes that this one descends from, as far as can be seen: the parent first.
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

/// Whether a living process of that id is the one that started at that time.
pub(crate) fn started_at(pid: i32, start: u64) -> bool {
    start_time(pid) == Some(start)
}

/// Whether a process, dead or alive, started at that time or later.
pub(crate) fn started_since(pid: i32, start: u64) -> bool {
    stat(pid).is_some_and(|stat| stat.start >= start)
}

/// Everything that descends from `root`, nearest first, without `root` itself.
pub(crate) fn descendants(root: i32) -> Vec<i32> {
    let mut found = Vec::new();
    let mut scanned: Option<HashMap<i32, Vec<i32>>> = None;
    let mut open = vec![root];
    while let Some(pid) = open.pop() {
        let children = match listed_children(pid) {
            Some(children) => children,
            // Kernels without CONFIG_PROC_CHILDREN: ask every process for its parent, once.
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

/// Every living process whose environment holds `NAME=value` exactly.
pub fn marked(name: &str, value: &str) -> Vec<i32> {
    let wanted = format!("{name}={value}");
    witness::look(move || holding(wanted.as_bytes()))
}

/// Every living process but this one whose environment has an entry.
fn holding(wanted: &[u8]) -> Vec<i32> {
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    all().into_iter().filter(|pid| *pid != own && environment_holds(*pid, wanted)).collect()
}

fn environment_holds(pid: i32, wanted: &[u8]) -> bool {
    host::environment_holds(pid, wanted) && start_time(pid).is_some()
}

/// Sends a signal to each; those that are gone are no matter.
pub(crate) fn signal_all(pids: &[i32], signal: Signal) {
    for pid in pids.iter().filter_map(|pid| Pid::from_raw(*pid)) {
        let _ = kill_process(pid, signal);
    }
}

/// Kills processes and all that descends from them. Each is stopped first, so that it cannot fork away in between.
///
/// Whatever is found is killed at once, in every pass: processes that start others and have each other continued would
/// otherwise never all be stopped. Returns how many were killed. The caller repeats until nothing is left.
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

/// Kills what descends from a process that adopts orphans, each as soon as it is seen. Returns how many there were.
///
/// What such a process started a moment before comes to that process, and is seen in the next pass.
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

/// Stops all processes but the caller's and those that never stop, in a namespace whose first process calls this.
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

/// Signals all processes of a namespace but its first, which calls this. Returns whether there was none.
pub(crate) fn signal_everybody(signal: Signal) -> bool {
    sys::signal_everybody(signal).is_err()
}

/// How many processes live in a namespace beside its first, which calls this.
pub(crate) fn everybody() -> usize {
    let own = own_pid();
    all().into_iter().filter(|pid| *pid != own && start_time(*pid).is_some()).count()
}

fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// Stops what `list` finds.
///
/// What was forked between the look and the stop is found at the next look, and cannot fork then: so it is looked again
/// until nothing new turns up.
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
