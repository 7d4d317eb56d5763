//! What a program looks for: the files below a directory that it opens, and those that it looks for in vain.
//!
//! A new file at a path that a check looked for in vain configures that check, whatever it is called. Such paths cannot be
//! listed by name. Only Linux can tell them; elsewhere it stays unknown what a program looks for.

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

/// The word on the command line that makes the program try this out.
pub(crate) const PROBE_WORD: &str = "trace";

/// What a program looked for below a directory; paths are named from there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Looked {
    /// Files that it opened for reading.
    pub opened: BTreeSet<String>,
    /// Paths at which nothing was when it looked. A directory that it would have listed ends with a slash.
    pub missed: BTreeSet<String>,
    /// Whether this is all of it.
    pub whole: bool,
}
