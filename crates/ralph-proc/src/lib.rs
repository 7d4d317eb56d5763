//! Supervised processes.

pub mod misbehave;
