//! Git's merges of the plan: record by record where both sides can be read, else line by line as git does it.
//!
//! The driver is named in a repository's own configuration, which no clone takes along, and asked for by an attributes file
//! in home, which every clone does. Where the one is there without the other git merges lines, and where the Ralph that
//! was named is no more the driver has git do it. Another program that is called `ralph` is never asked.

use std::fs;

use camino::Utf8Path;
use ralph_model::plan::merge::{Conflict, MergeError, merge};

use super::PLAN_FILE;
use crate::files::PathError;
use crate::git::merging::{LineMerge, merge_lines};
use crate::git::{Git, GitError, GitProgram};

/// The driver's name in attributes and settings.
const DRIVER: &str = "ralph-plan";

/// What the driver is asked: `%O` is the base, `%A` ours and the result, `%B` theirs, `%P` the plan's path.
const ARGUMENTS: &str = "merge-plan %O %A %B %P";

/// Returns what git has a shell run. Git expands `%` in it, and the shell reads quotes.
fn command(program: &Utf8Path) -> String {
    let program = program.as_str().replace('%', "%%").replace('\'', r"'\''");
    format!("test -x '{program}' && exec '{program}' {ARGUMENTS}; exec git merge-file %A %O %B")
}

/// What a merge came to; the result is in place of our side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MergedFile {
    Clean,
    /// A person has to decide; both versions are between markers.
    Conflicts(Vec<Conflict>),
    /// The plans could not be merged as plans, and their lines were; a person has to look if there are conflicts.
    ByLine {
        why: MergeError,
        result: LineMerge,
    },
}

/// A merge was not made; our side is as it was.
#[derive(Debug, thiserror::Error)]
pub enum MergeFileError {
    #[error(transparent)]
    Path(#[from] PathError),
    #[error(transparent)]
    Git(#[from] GitError),
}

/// Merges what `ours` and `theirs` made of `base`, into `ours`.
pub fn merge_files(
    program: &GitProgram,
    [base, ours, theirs]: [&Utf8Path; 3],
) -> Result<MergedFile, MergeFileError> {
    let read =
        |path: &Utf8Path| fs::read(path).map_err(|source| PathError::new("read", path, source));
    match merge(&read(base)?, &read(ours)?, &read(theirs)?) {
        Ok(merged) => {
            // A file of git's own making, which git reads next: it needs no more than to be written.
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

/// Tells whether an attributes file asks for the driver.
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
    /// By what is configured there instead.
    Another,
    /// Line by line.
    Absent,
}

/// The setting that names the driver.
pub(crate) const SETTING: &str = "merge.ralph-plan.driver";

/// Tells what the value of [`SETTING`] comes to.
pub(crate) fn state_of(configured: Option<&str>, program: &Utf8Path) -> DriverState {
    match configured {
        None => DriverState::Absent,
        Some(configured) if configured == command(program) => DriverState::This,
        Some(_) => DriverState::Another,
    }
}

/// Configures this `program` as the repository's merge driver for plans; `false` if it was configured before. The entry
/// of another Ralph is replaced, that of a person is not.
pub fn install(git: &Git, program: &Utf8Path) -> Result<bool, GitError> {
    let is_ours = |found: &str| found.contains(ARGUMENTS);
    let title = "Ralph's plan, record by record";
    git.name_merge_driver(DRIVER, title, &command(program), is_ours)
}
