//! Ralph's engine: the only place where the domain meets the world.
//!
//! It runs agents, keeps files and reads configuration. It never prints and knows no command line; what a person
//! sees is made by the binary from the events that come out of here, and what they are asked goes through [`ask`].

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
