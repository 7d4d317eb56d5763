//! Merging files line by line, as git does it, and telling git who merges otherwise.

use std::path::Path;

use super::call::Call;
use super::{Git, GitError, GitProgram};

/// What a merge of lines came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineMerge {
    Clean,
    /// The file has both versions between markers.
    Conflicts,
}

/// Merges line by line what `ours` and `theirs` made of `base`, into `ours`.
pub fn merge_lines(
    program: &GitProgram,
    [base, ours, theirs]: [&Path; 3],
) -> Result<LineMerge, GitError> {
    // With conflicts git exits with their number.
    let counts: Vec<i32> = (1..=127).collect();
    let name = |path: &Path| path.to_string_lossy().into_owned();
    let (base, ours, theirs) = (name(base), name(ours), name(theirs));
    let args =
        ["merge-file", "-L", "ours", "-L", "base", "-L", "theirs", "--", &ours, &base, &theirs];
    let answer = Call::new(&args).accept(&counts).run(program)?;
    Ok(if answer.code == Some(0) { LineMerge::Clean } else { LineMerge::Conflicts })
}

/// Returns how two files differ, as git shows it; nothing if they do not.
pub fn difference(program: &GitProgram, [old, new]: [&Path; 2]) -> Result<String, GitError> {
    let (old, new) = (old.to_string_lossy(), new.to_string_lossy());
    let args =
        ["diff", "--no-index", "--no-color", "--no-ext-diff", "--no-textconv", "--", &old, &new];
    // Files that differ are exit code 1.
    let answer = Call::new(&args).accept(&[1]).run(program)?;
    Ok(String::from_utf8_lossy(&answer.stdout).into_owned())
}

impl Git {
    /// Names the program that merges files of an attribute, in this repository's own configuration; `false` if that one
    /// is named already, or another that is not to be replaced.
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
