//! A command as a plain value: what is to be started, where, with which environment, behind which boundary.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::sandbox::Confinement;

/// A program to be run under supervision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandSpec {
    /// The program, already looked up: an absolute path.
    pub program: PathBuf,
    pub args: Vec<OsString>,
    pub cwd: PathBuf,
    /// The whole environment; nothing is inherited.
    pub env: Vec<(OsString, OsString)>,
    /// A file read as standard input. `None` is an empty input.
    pub stdin: Option<PathBuf>,
    /// What the kernel holds the program to. `None` leaves it free.
    pub confinement: Option<Confinement>,
    /// The directory below which it is noted what the program looks for ([`crate::trace`]).
    pub traced: Option<PathBuf>,
}
