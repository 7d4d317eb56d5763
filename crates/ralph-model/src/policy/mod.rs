//! The rules by which runs are repeated, delayed and stopped: pure functions of what happened.
//!
//! No rule here waits, reads a clock or remembers anything by itself; what came before is an argument.

pub mod backoff;
pub mod budget;
pub mod context;
pub mod limit;
pub mod trouble;
