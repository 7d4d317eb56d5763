//! The rehearsal agent as a real process: what it says, does, and does wrong.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "what fails in the set-up of a test fails the test")]

mod processes;
mod stage;
mod streams;
mod talk;
mod tools;
