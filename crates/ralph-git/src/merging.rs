//! Line-based merges by git, and configuring a merge driver.

use std::path::Path;

use super::call::Call;
use super::{Git, GitError, GitProgram};

/// The result of a line-based merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineMerge {
    Clean,
    /// The file has both versions between markers.
    Conflicts,
}

/// Merges `ours` and `theirs`, which derive from `base`, line by line into `ours`.
pub fn merge_lines(
    program: &GitProgram,
    [base, ours, theirs]: [&Path; 3],
) -> Result<LineMerge, GitError> {
    // On conflicts git exits with their number.
    let counts: Vec<i32> = (1..=127).collect();
    let name = |path: &Path| path.to_string_lossy().into_owned();
    let (base, ours, theirs) = (name(base), name(ours), name(theirs));
    let args =
        ["merge-file", "-L", "ours", "-L", "base", "-L", "theirs", "--", &ours, &base, &theirs];
    let answer = Call::new(&args).accept(&counts).run(program)?;
    Ok(if answer.code == Some(0) { LineMerge::Clean } else { LineMerge::Conflicts })
}

/// Returns the diff of two files as git shows it; empty if they are equal.
pub fn difference(program: &GitProgram, [old, new]: [&Path; 2]) -> Result<String, GitError> {
    let (old, new) = (old.to_string_lossy(), new.to_string_lossy());
    let args =
        ["diff", "--no-index", "--no-color", "--no-ext-diff", "--no-textconv", "--", &old, &new];
    // Different files give exit code 1.
    let answer = Call::new(&args).accept(&[1]).run(program)?;
    Ok(String::from_utf8_lossy(&answer.stdout).into_owned())
}

impl Git {
    /// Sets the merge driver of an attribute in this repository's own configuration; `false` if it is already set, or
    /// another one must not be replaced.
    pub fn name_merge_driver(
        &self,
        driver: &str,
        title: &str,
        command: &str,
        may_replace: impl Fn(&str) -> bool,
    ) -> Result<bool, GitError> {
        let key = |what: &str| format!("merge.{driver}.{what}");
        let (name, run) = (key("name"), key("driver"));
        if let Some(found) = self.ask_whether(&["config", "--local", "--get", &run])? {
            let found = String::from_utf8_lossy(&found);
            let found = found.trim_end_matches('\n');
            if found == command || !may_replace(found) {
                return Ok(false);
            }
        }
        self.ask(&["config", "--local", &name, title])?;
        self.ask(&["config", "--local", &run, command])?;
        Ok(true)
    }
}
