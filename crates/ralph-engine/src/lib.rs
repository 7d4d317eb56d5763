//! Ralph's engine: the only place where the domain meets the world.
//!
//! It runs agents, keeps files and reads configuration. It never prints, never asks and knows no command line; what a
//! person sees is made by the binary from the events that come out of here.

pub mod agent;
pub mod git;
