//! What a run changed that was to change nothing, written down as a diff beside the run's logs.
//!
//! With the kernel's boundary there is never anything to write down. Without it the harness has undone the change by now,
//! and saved what was there.

use std::fmt::Write as _;

use camino::{Utf8Path, Utf8PathBuf};

use crate::files::{PathError, replace_atomically};
use crate::git::GitProgram;
use crate::git::merging::difference;
use crate::run::RunReport;

const DIFF: &str = "boundary.diff";

/// Writes the diff of a run that crossed its boundary; returns where it is.
pub(super) fn write_down(
    git: &GitProgram,
    workspace: &Utf8Path,
    report: &RunReport,
) -> Result<Option<Utf8PathBuf>, PathError> {
    let boundary = &report.boundary;
    if boundary.violations.is_empty() {
        return Ok(None);
    }
    let mut text = String::new();
    for found in &boundary.violations {
        let now = workspace.join(&found.path);
        let saved =
            boundary.saved_in.as_ref().map(|saved| saved.join("workspace").join(&found.path));
        let none = Utf8PathBuf::from("/dev/null");
        let old = if now.is_file() { &now } else { &none };
        let new = saved.filter(|saved| saved.is_file()).unwrap_or_else(|| none.clone());
        match difference(git, [old.as_std_path(), new.as_std_path()]) {
            Ok(diff) if !diff.is_empty() => text.push_str(&diff),
            // A directory, a ref, a mode: what there is to say of it is its name.
            _ => writeln!(text, "changed: {}", found.path).expect("a string takes any text"),
        }
    }
    let path = report.logs.directory.join(DIFF);
    replace_atomically(&path, text.as_bytes())?;
    Ok(Some(path))
}
