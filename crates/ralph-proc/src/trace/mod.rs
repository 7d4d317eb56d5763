//! A program's file lookups: the files below a directory that it opens, and those that it does not find.
//!
//! A new file at a path that a check looked for in vain configures that check, whatever its name. Such paths cannot be
//! listed by name. Only Linux can trace them; elsewhere a program's lookups are unknown.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "macos")]
mod macos;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

#[cfg(target_os = "linux")]
pub use linux::probe;
#[cfg(target_os = "linux")]
pub(crate) use linux::{Tracer, serve_probe};
#[cfg(target_os = "macos")]
pub use macos::probe;
#[cfg(target_os = "macos")]
pub(crate) use macos::{Tracer, serve_probe};

/// The command line argument that makes the program run the probe.
pub(crate) const PROBE_WORD: &str = "trace";

/// A program's lookups below a directory; paths are relative to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Looked {
    /// Files that it opened for reading.
    pub opened: BTreeSet<String>,
    /// Paths that did not exist when it looked. A directory that it tried to list ends with a slash.
    pub missed: BTreeSet<String>,
    /// Whether this is complete.
    pub whole: bool,
}
