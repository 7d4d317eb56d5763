//! Detects a project's own checks and tools, and the installed agents.

pub mod agents;
pub(crate) mod checks;
pub mod needed;
pub(crate) mod tools;
