//! Ralph's engine: the only crate in which the domain meets the outside world.
//!
//! It runs agents, manages files and reads configuration. It never prints and knows no command line; the binary renders
//! the events it emits, and questions go through [`ask`].

pub mod agent;
pub mod ask;
pub mod boundary;
pub mod channel;
pub mod clock;
pub mod config;
mod defect;
pub mod detect;
mod digest;
pub mod doctor;
pub mod files;
pub mod follow;
pub mod gates;
pub mod home;
pub mod init;
pub mod journal;
pub mod judge;
pub mod launch;
pub(crate) mod mailbox;
pub(crate) mod outbox;
pub mod plan_file;
pub(crate) mod prompts;
pub mod questions;
pub mod recover;
pub mod rehearsal;
pub(crate) mod repository;
pub mod run;
pub mod session;
#[cfg(test)]
mod simulation;
pub mod specs;
pub mod state;
pub mod subscriber;
#[cfg(test)]
mod test_place;
pub mod trust;
pub mod validate;
pub(crate) mod wait;
pub mod workflow;

pub use ralph_git as git;
