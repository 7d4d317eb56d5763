//! The second layer: namespaces in which a run sees, signals and reaches nothing but what is its own.
//!
//! Inside, everything is read-only but for the paths that are granted; `/tmp`, `/dev/shm` and the terminals are the run's own;
//! of some directories only what is named is there. The run has process ids of its own, and all of its processes end
//! with the first of them, which is its guard. Landlock comes on top of it, inside.
//!
//! Whether a machine allows this can only be told by doing it to the end: some let a process make namespaces and refuse
//! what is to be done in them. So [`probe`] does it all in a trial, and says at which step it was refused. Only Linux has
//! them; elsewhere every step is refused.

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

/// The word after that of the guard that makes the program try the second layer out.
pub(crate) const PROBE_WORD: &str = "probe";

/// What a run sees of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    /// The directory that is the run's `/tmp`.
    pub tmp: String,
    /// Directories in which nothing is but what is granted or shown.
    pub emptied: Vec<String>,
    /// What is there all the same, read-only. Paths that do not exist show nothing.
    pub shown: Vec<String>,
    /// Files and directories below what is shown that cannot be opened.
    pub hidden: Vec<String>,
    /// Directories that may be written without a trace in the directory itself.
    #[serde(default)]
    pub layered: Vec<Layered>,
    /// Whether it has process ids of its own.
    pub pid: bool,
    /// Whether it has a network of its own, which leads nowhere.
    pub net: bool,
}

/// A directory with a layer over it that takes every change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layered {
    /// The lower, read-only directory. It must not change while mounted.
    pub lower: String,
    /// An empty directory of Ralph's own for the changes. It can be removed afterwards.
    pub upper: String,
    /// Where both are seen as one.
    pub target: String,
}

/// What of the second layer a machine allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamespaceSupport {
    /// A view of its own of the file system.
    pub mount: bool,
    /// Process ids of its own.
    pub pid: bool,
    /// A network of its own.
    pub net: bool,
    /// What was refused first, if not everything is allowed.
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

/// What is done for the second layer, one after the other.
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

/// A step that failed, and on what.
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
