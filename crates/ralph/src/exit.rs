//! The exit codes: a public interface, identical for every command.

/// The exit code of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Done, or the person declined.
    Done = 0,
    /// The work failed or is unfinished.
    Unfinished = 1,
    /// Wrong usage, configuration or set-up.
    Usage = 2,
    /// A person is needed and not present.
    PersonNeeded = 3,
    /// An internal error.
    Bug = 70,
    /// Interrupted.
    Interrupted = 130,
    /// The exit code with which a merge driver reports failure to git.
    MergeFailed = 129,
}

/// The table in every `--help`.
pub(crate) const HELP: &str = "Exit codes: 0 done or declined · 1 failed or unfinished · 2 usage or configuration · \
     3 needs a person · 70 internal error · 130 interrupted";
