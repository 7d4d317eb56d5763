//! Finds the files that differ from an index, at a cost proportional to what may differ.
//!
//! Times and sizes are checked first: files they cannot clear are refreshed by name, which compares contents, and
//! checked again. A refresh of the whole index would scan every file again.

use std::path::PathBuf;

use super::commits::joined;
use super::parse::{ChangeKind, PathChange, parse_raw_diff};
use super::{GitError, unexpected};

/// With more names than this a full scan is cheaper, because git compares each file of an index with each name.
const FEW: usize = 64;

/// Lists the files whose times and sizes differ from the index; submodules are not entered.
const DIFF_FILES: &[&str] =
    &["diff-files", "--raw", "-z", "--no-abbrev", "--no-ext-diff", "--ignore-submodules=dirty"];

/// A command on an index and a working tree, both chosen by the runner.
pub(super) struct IndexCommand<'a> {
    pub(super) args: &'a [&'a str],
    /// The files; empty for all.
    pub(super) paths: &'a [PathBuf],
    pub(super) input: &'a [u8],
    /// Exit codes in addition to 0 that are an answer.
    pub(super) accepted: &'a [i32],
}

type Runner<'r> = &'r dyn Fn(&IndexCommand<'_>) -> Result<Vec<u8>, GitError>;

/// Returns the files that differ from an index; if `among` is not empty, possibly only those.
pub(super) fn differing(
    run: Runner<'_>,
    among: Option<&[PathBuf]>,
) -> Result<Vec<PathChange>, GitError> {
    if among.is_some_and(<[PathBuf]>::is_empty) {
        return Ok(Vec::new());
    }
    let among = among.filter(|paths| paths.len() <= FEW).unwrap_or_default();
    let unsure = diff_files(run, among)?;
    // Missing files are not compared, and may be behind a symlink.
    let there = unsure.iter().filter(|change| change.kind != ChangeKind::Deleted);
    let there: Vec<PathBuf> = there.map(|change| change.path.clone()).collect();
    if there.is_empty() {
        return Ok(unsure);
    }
    refresh(run, &there)?;
    let paths: Vec<PathBuf> = unsure.into_iter().map(|change| change.path).collect();
    diff_files(run, if paths.len() <= FEW { &paths } else { among })
}

/// Updates the index's times and sizes of files whose contents are unchanged.
pub(super) fn refresh(run: Runner<'_>, paths: &[PathBuf]) -> Result<(), GitError> {
    if paths.is_empty() {
        return Ok(());
    }
    // A refresh that finds changed files reports that by its exit code.
    let accepted = &[1];
    if paths.len() <= FEW {
        let args = &["add", "--refresh", "--pathspec-from-file=-", "--pathspec-file-nul"];
        let named = IndexCommand { args, paths: &[], input: &joined(paths), accepted };
        // Refused if a name now leads through a symlink or into a submodule.
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
