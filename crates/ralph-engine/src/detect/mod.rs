//! What a project and a machine bring along: the project's own checks and tools, and the agents that are installed.

pub mod agents;
pub(crate) mod checks;
pub mod needed;
pub(crate) mod tools;
