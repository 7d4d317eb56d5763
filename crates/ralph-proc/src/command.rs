//! A command as a plain value: program, directory, environment and boundary.

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
    /// The complete environment; nothing is inherited.
    pub env: Vec<(OsString, OsString)>,
    /// A file read as standard input. `None` is an empty input.
    pub stdin: Option<PathBuf>,
    /// The kernel restrictions of the program. `None` means unrestricted.
    pub confinement: Option<Confinement>,
    /// The directory below which the program's file lookups are recorded ([`crate::trace`]).
    pub traced: Option<PathBuf>,
}
