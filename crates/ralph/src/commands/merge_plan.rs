//! `ralph merge-plan`: the merge driver that git calls for plans.

use ralph_engine::git::GitProgram;
use ralph_engine::git::merging::LineMerge;
use ralph_engine::plan_file::merge_driver::{MergedFile, merge_files};

use crate::args::plan::MergePlanArgs;
use crate::error::chain;
use crate::exit::Exit;
use crate::render::important;

/// Git treats exit code 1 as a conflict and anything above 128 as a failed driver.
pub(crate) fn run(args: &MergePlanArgs) -> Exit {
    let program = GitProgram::new("git", std::env::vars_os());
    let name = args.path.as_deref().unwrap_or(args.ours.as_str());
    match merge_files(&program, [&args.base, &args.ours, &args.theirs]) {
        Ok(MergedFile::Clean) => Exit::Done,
        Ok(MergedFile::Conflicts(conflicts)) => {
            for conflict in conflicts {
                important(&format!("{name}: {conflict}"));
            }
            important(&format!(
                "{name}: keep one version of each and remove the markers; check with `ralph validate`"
            ));
            Exit::Unfinished
        }
        Ok(MergedFile::ByLine { why, result }) => {
            important(&format!("{name}: merged line by line, as {why}"));
            if result == LineMerge::Clean { Exit::Done } else { Exit::Unfinished }
        }
        Err(error) => {
            important(&format!("{name}: cannot be merged: {}", chain(&error)));
            Exit::MergeFailed
        }
    }
}
