//! Ralph's domain: what there is, what can happen, what follows from it.
//!
//! Everything here is pure. There is no file, clock, process, environment or randomness in this crate; times and ids

pub mod contract;
pub mod event;
pub mod id;
pub mod role;
pub mod run;
pub mod usage;
