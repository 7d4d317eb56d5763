//! The exit codes: a public interface, the same for every command.

/// How the program ends, as scripts see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Done, or the person declined.
    Done = 0,
    /// The work failed or is unfinished.
    Unfinished = 1,
    /// Wrong usage, configuration or set-up.
    Usage = 2,
    /// A person is needed and none is there.
    PersonNeeded = 3,
    /// A bug of ours.
    Bug = 70,
    /// Interrupted.
    Interrupted = 130,
    /// What git takes from a merge driver that could not do its work.
    MergeFailed = 129,
}

/// The table in every `--help`.
pub(crate) const HELP: &str = "Exit codes: 0 done or declined · 1 failed or unfinished · 2 usage or configuration · \
     3 needs a person · 70 internal error · 130 interrupted";
