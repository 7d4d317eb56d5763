//! Supervised processes: started behind a guard, confined by the kernel, streamed byte for byte, terminated with all
//! their descendants.
//!
//! This crate knows nothing of plans, agents or Ralph's files. It is the only one that starts processes and the only
//! one with `unsafe` code, in `sys` and in [`misbehave`], which implements the rehearsal agent's bad behaviour.

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
compile_error!("Ralph runs on Linux and macOS; on Windows, build it inside WSL");

mod caller;
pub mod capture;
pub mod command;
mod control;
pub mod disk;
pub mod end_note;
pub mod fault;
pub mod guard;
mod host;
pub mod launcher;
pub mod listing;
pub mod misbehave;
pub mod namespace;
pub mod output;
mod parser;
pub mod protocol;
pub mod pulse;
pub mod removal;
pub mod sandbox;
pub mod signal;
pub mod supervise;
mod sys;
pub mod trace;
pub mod tree;
pub mod witness;
