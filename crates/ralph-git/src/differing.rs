//! Which files are not as an index has them, at a cost that grows with what may differ.
//!
//! Times and sizes come first: what they cannot clear is refreshed by name, which compares contents, and asked about
//! again. A refresh of the whole index would look at every file once more.

use std::path::PathBuf;

use super::commits::joined;
use super::parse::{ChangeKind, PathChange, parse_raw_diff};
use super::{GitError, unexpected};

/// More names than this cost more than a look at everything, as git compares each file of an index with each name.
const FEW: usize = 64;

/// Lists the files whose times and sizes are not as the index has them; submodules are not entered.
const DIFF_FILES: &[&str] =
    &["diff-files", "--raw", "-z", "--no-abbrev", "--no-ext-diff", "--ignore-submodules=dirty"];

/// A command about an index and a work tree, both chosen by who runs it.
pub(super) struct IndexCommand<'a> {
    pub(super) args: &'a [&'a str],
    /// Files that it is about; none for all.
    pub(super) paths: &'a [PathBuf],
    pub(super) input: &'a [u8],
    /// Exit codes beside 0 that are an answer.
    pub(super) accepted: &'a [i32],
}

type Runner<'r> = &'r dyn Fn(&IndexCommand<'_>) -> Result<Vec<u8>, GitError>;

/// Returns the files that are not as an index has them; where `among` names some, perhaps those alone.
pub(super) fn differing(
    run: Runner<'_>,
    among: Option<&[PathBuf]>,
) -> Result<Vec<PathChange>, GitError> {
    if among.is_some_and(<[PathBuf]>::is_empty) {
        return Ok(Vec::new());
    }
    let among = among.filter(|paths| paths.len() <= FEW).unwrap_or_default();
    let unsure = diff_files(run, among)?;
    // What is not there is not compared, and may lie beyond a link.
    let there = unsure.iter().filter(|change| change.kind != ChangeKind::Deleted);
    let there: Vec<PathBuf> = there.map(|change| change.path.clone()).collect();
    if there.is_empty() {
        return Ok(unsure);
    }
    refresh(run, &there)?;
    let paths: Vec<PathBuf> = unsure.into_iter().map(|change| change.path).collect();
    diff_files(run, if paths.len() <= FEW { &paths } else { among })
}

/// Brings times and sizes of files in line whose contents are as the index has them.
pub(super) fn refresh(run: Runner<'_>, paths: &[PathBuf]) -> Result<(), GitError> {
    if paths.is_empty() {
        return Ok(());
    }
    // A refresh that finds changed files says so by its exit code.
    let accepted = &[1];
    if paths.len() <= FEW {
        let args = &["add", "--refresh", "--pathspec-from-file=-", "--pathspec-file-nul"];
        let named = IndexCommand { args, paths: &[], input: &joined(paths), accepted };
        // Refused where a name leads through a link or into a submodule by now.
        if run(&named).is_ok() {
            return Ok(());
        }
    }
    let args = &["update-index", "-q", "--refresh"];
    run(&IndexCommand { args, paths: &[], input: b"", accepted }).map(|_| ())
}

fn diff_files(run: Runner<'_>, paths: &[PathBuf]) -> Result<Vec<PathChange>, GitError> {
    let named = [DIFF_FILES, &["--"]].concat();
    let output = run(&IndexCommand { args: &named, paths, input: b"", accepted: &[] })?;
    parse_raw_diff(&output).ok_or_else(|| unexpected(DIFF_FILES, &output))
}
