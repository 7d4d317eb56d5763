//! Ralph's domain: its states, events and rules.
//!
//! Everything here is pure. This crate uses no files, clock, processes, environment or randomness; times and ids are
//! arguments, so that a test can decide a whole night of runs in a millisecond.

pub mod answer;
pub mod board;
pub mod build;
pub mod channel;
pub mod checks;
pub mod contract;
pub mod event;
pub mod evidence;
pub mod final_from;
pub mod gate;
pub mod glob;
pub mod goal;
pub mod history;
pub mod id;
pub mod item_name;
pub mod journal;
pub mod memory;
mod millis;
pub mod nearest;
pub mod outcome;
pub mod permission;
pub mod phase;
pub mod pipeline;
pub mod plan;
pub mod policy;
pub mod prd;
pub mod prompt;
pub mod proof;
pub mod receipt;
pub mod rehearsal;
pub mod role;
pub mod run;
pub mod shown;
pub mod spec;
pub mod story;
pub mod testcount;
pub mod usage;
pub mod verdict;
pub mod weaken;
