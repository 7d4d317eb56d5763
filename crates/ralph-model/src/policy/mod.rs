//! The rules for repeating, delaying and stopping runs: pure functions of past events.
//!
//! No rule here waits, reads a clock or keeps state; the history is an argument.

pub mod backoff;
pub mod budget;
pub mod context;
pub mod limit;
pub mod trouble;
