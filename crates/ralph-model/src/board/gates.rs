//! Durations and results of gates.

use std::collections::{BTreeMap, VecDeque};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::journal::GateFinished;

/// The maximum number of gates kept, and of recent durations kept per gate.
const MOST_GATES: usize = 200;
const MOST_DURATIONS: usize = 50;

/// The runs of one gate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GateTimes {
    pub last: Timestamp,
    pub runs: u64,
    pub passed: u64,
    /// Runs at a candidate that failed and passed when repeated.
    pub flaky: u64,
    /// The durations of its last runs, in milliseconds.
    recent: VecDeque<u64>,
}

impl GateTimes {
    /// Returns a percentile of its recent durations, in milliseconds: half of them, nine in ten.
    pub fn percentile(&self, percent: usize) -> u64 {
        let mut sorted: Vec<u64> = self.recent.iter().copied().collect();
        sorted.sort_unstable();
        let place = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
        sorted.get(place).copied().unwrap_or(0)
    }
}

pub(super) fn apply(
    gates: &mut BTreeMap<String, GateTimes>,
    finished: &GateFinished,
    at: Timestamp,
) {
    if !gates.contains_key(&finished.gate) && gates.len() == MOST_GATES {
        let oldest = gates.iter().min_by_key(|(_, times)| times.last);
        if let Some(name) = oldest.map(|(name, _)| name.clone()) {
            gates.remove(&name);
        }
    }
    let times = gates.entry(finished.gate.clone()).or_insert_with(|| GateTimes {
        last: at,
        runs: 0,
        passed: 0,
        flaky: 0,
        recent: VecDeque::new(),
    });
    times.last = at;
    times.runs += 1;
    times.passed += u64::from(finished.status == "passed");
    times.flaky += u64::from(finished.attribution.as_deref() == Some("flaky"));
    if times.recent.len() == MOST_DURATIONS {
        times.recent.pop_front();
    }
    times.recent.push_back(finished.duration_ms);
}
