//! The second layer: namespaces in which a run sees, signals and reaches only what is its own.
//!
//! Inside, everything is read-only except for granted paths; `/tmp`, `/dev/shm` and the terminals are the run's own;
//! some directories contain only what is named. The run has its own pid namespace, and all of its processes die with
//! the first of them, which is its guard. Landlock is applied inside as well.
//!
//! Whether a machine allows this can only be determined by a full attempt: some let a process create namespaces and
//! refuse the operations in them. So [`probe`] does everything in a trial, and reports at which step it was refused.
//! Only Linux has them; elsewhere every step is refused.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "macos")]
mod macos;

use std::fmt;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

#[cfg(target_os = "linux")]
pub(crate) use linux::{Ids, enter, fork_into, probe, serve_probe};
#[cfg(target_os = "macos")]
pub(crate) use macos::{Ids, enter, fork_into, probe, serve_probe};

/// The argument after the guard's that makes the program probe the second layer.
pub(crate) const PROBE_WORD: &str = "probe";

/// A run's view of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    /// The directory that is the run's `/tmp`.
    pub tmp: String,
    /// Directories that contain only what is granted or shown.
    pub emptied: Vec<String>,
    /// Exceptions that are visible, read-only. Missing paths are ignored.
    pub shown: Vec<String>,
    /// Files and directories below shown ones that cannot be opened.
    pub hidden: Vec<String>,
    /// Directories that may be written without changing the directory itself.
    #[serde(default)]
    pub layered: Vec<Layered>,
    /// Whether it has its own pid namespace.
    pub pid: bool,
    /// Whether it has its own network namespace, without connections.
    pub net: bool,
}

/// A directory with an overlay that takes every change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layered {
    /// The lower, read-only directory. It must not change while mounted.
    pub lower: String,
    /// An empty directory of Ralph's own for the changes. It can be removed afterwards.
    pub upper: String,
    /// The path of the merged view.
    pub target: String,
}

/// The parts of the second layer that a machine allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamespaceSupport {
    /// A mount namespace.
    pub mount: bool,
    /// A pid namespace.
    pub pid: bool,
    /// A network namespace.
    pub net: bool,
    /// The first refusal, if not everything is allowed.
    pub refusal: Option<NamespaceRefusal>,
}

impl NamespaceSupport {
    /// A machine that allows everything.
    pub const ALL: NamespaceSupport =
        NamespaceSupport { mount: true, pid: true, net: true, refusal: None };
}

/// Where the second layer was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamespaceRefusal {
    pub(crate) step: SetupStep,
    pub(crate) errno: i32,
}

impl fmt::Display for NamespaceRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let error = io::Error::from_raw_os_error(self.errno);
        write!(f, "refused when {} ({error})", self.step.words())
    }
}

/// The steps of the second layer, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SetupStep {
    Probe,
    Namespaces,
    Ids,
    Mounts,
    ReadOnly,
    Layers,
    Devices,
    Processes,
    View,
    Network,
}

impl SetupStep {
    const fn words(self) -> &'static str {
        match self {
            SetupStep::Probe => "trying it out",
            SetupStep::Namespaces => "making namespaces",
            SetupStep::Ids => "mapping the user",
            SetupStep::Mounts => "taking over the mounts",
            SetupStep::ReadOnly => "making the mounts read-only",
            SetupStep::Layers => "layering a directory",
            SetupStep::Devices => "mounting /dev/shm and /dev/pts",
            SetupStep::Processes => "mounting /proc",
            SetupStep::View => "mounting what the run may see",
            SetupStep::Network => "starting the loopback device",
        }
    }
}

/// A failed step, and the affected path.
#[derive(Debug)]
pub(crate) struct SetupError {
    pub(crate) step: SetupStep,
    pub(crate) path: Option<PathBuf>,
    pub(crate) source: io::Error,
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the second layer failed when {}", self.step.words())?;
        if let Some(path) = &self.path {
            write!(f, ", at `{}`", path.display())?;
        }
        write!(f, ": {}", self.source)
    }
}

impl From<SetupError> for io::Error {
    fn from(error: SetupError) -> io::Error {
        io::Error::other(error.to_string())
    }
}
