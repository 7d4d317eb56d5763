//! Git's merges of the plan: record by record if both sides can be parsed, otherwise line by line by git.
//!
//! The driver is configured in a repository's own configuration, which clones do not copy, and requested by an
//! attributes file in home, which every clone has. If only one of them exists git merges lines, and if the configured
//! Ralph no longer exists the driver falls back to git. Another program called `ralph` is never run.

use std::fs;

use camino::Utf8Path;
use ralph_model::plan::merge::{Conflict, MergeError, merge};

use super::PLAN_FILE;
use crate::files::PathError;
use crate::git::merging::{LineMerge, merge_lines};
use crate::git::{Git, GitError, GitProgram};

/// The driver's name in attributes and settings.
const DRIVER: &str = "ralph-plan";

/// The driver's arguments: `%O` is the base, `%A` ours and the result, `%B` theirs, `%P` the plan's path.
const ARGUMENTS: &str = "merge-plan %O %A %B %P";

/// Returns the shell command for git. Git expands `%` in it, and the shell interprets quotes.
fn command(program: &Utf8Path) -> String {
    let program = program.as_str().replace('%', "%%").replace('\'', r"'\''");
    format!("test -x '{program}' && exec '{program}' {ARGUMENTS}; exec git merge-file %A %O %B")
}

/// The result of a merge, written to our side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MergedFile {
    Clean,
    /// A person has to decide; both versions are between conflict markers.
    Conflicts(Vec<Conflict>),
    /// The plans could not be merged as plans, so their lines were; a person has to resolve conflicts, if any.
    ByLine {
        why: MergeError,
        result: LineMerge,
    },
}

/// A merge failed; our side is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum MergeFileError {
    #[error(transparent)]
    Path(#[from] PathError),
    #[error(transparent)]
    Git(#[from] GitError),
}

/// Merges `ours` and `theirs`, which derive from `base`, into `ours`.
pub fn merge_files(
    program: &GitProgram,
    [base, ours, theirs]: [&Utf8Path; 3],
) -> Result<MergedFile, MergeFileError> {
    let read =
        |path: &Utf8Path| fs::read(path).map_err(|source| PathError::new("read", path, source));
    match merge(&read(base)?, &read(ours)?, &read(theirs)?) {
        Ok(merged) => {
            // A temporary file of git, which reads it next: durability does not matter.
            fs::write(ours, &merged.bytes)
                .map_err(|source| PathError::new("write", ours, source))?;
            Ok(match merged.conflicts {
                none if none.is_empty() => MergedFile::Clean,
                conflicts => MergedFile::Conflicts(conflicts),
            })
        }
        Err(why) => {
            let paths = [base, ours, theirs].map(Utf8Path::as_std_path);
            Ok(MergedFile::ByLine { why, result: merge_lines(program, paths)? })
        }
    }
}

/// The attributes file of a home.
pub(crate) fn attributes() -> String {
    format!("# Plans are merged by record: `ralph merge-plan`.\n{PLAN_FILE} merge={DRIVER}\n")
}

/// Whether an attributes file requests the driver.
pub(crate) fn asks_for_driver(attributes: &str) -> bool {
    attributes.lines().any(|line| {
        !line.trim_start().starts_with('#') && line.contains(&format!("merge={DRIVER}"))
    })
}

/// How a repository merges the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DriverState {
    /// By this very program.
    This,
    /// By something else that is configured there.
    Another,
    /// Line by line.
    Absent,
}

/// The setting of the driver.
pub(crate) const SETTING: &str = "merge.ralph-plan.driver";

/// Interprets the value of [`SETTING`].
pub(crate) fn state_of(configured: Option<&str>, program: &Utf8Path) -> DriverState {
    match configured {
        None => DriverState::Absent,
        Some(configured) if configured == command(program) => DriverState::This,
        Some(_) => DriverState::Another,
    }
}

/// Configures this `program` as the repository's merge driver for plans; `false` if it already was. The entry of
/// another Ralph is replaced, a person's own is not.
pub fn install(git: &Git, program: &Utf8Path) -> Result<bool, GitError> {
    let is_ours = |found: &str| found.contains(ARGUMENTS);
    let title = "Ralph's plan, record by record";
    git.name_merge_driver(DRIVER, title, &command(program), is_ours)
}
