//! Supervised processes: started behind a guard, confined by the kernel, streamed byte for byte, ended with all that
//! ever descended from them.
//!
//! This crate knows nothing of plans, agents or Ralph's files. It is the only one that starts processes and the only
//! one with `unsafe` code, in `sys` and in [`misbehave`], where the rehearsal agent learns its bad manners.

pub mod capture;
pub mod command;
mod control;
pub mod disk;
pub mod end_note;
pub mod fault;
pub mod guard;
pub mod launcher;
pub mod misbehave;
pub mod namespace;
pub mod output;
mod parser;
pub mod protocol;
pub mod pulse;
pub mod removal;
pub mod sandbox;
mod seccomp;
pub mod signal;
pub mod supervise;
mod sys;
pub mod trace;
pub mod tree;
pub mod witness;
