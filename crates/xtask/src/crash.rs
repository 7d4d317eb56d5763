//! `cargo xtask crash`: the crash sweeps with every fault point; a normal test run visits a sample.

use std::process::{Command, ExitCode};

use crate::{progress, root, test};

/// The parsed arguments.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct CrashRequest {
    /// A part of the story's name, for example `rejected` or `pipeline`.
    story: Option<String>,
    runner_args: Vec<String>,
}

impl CrashRequest {
    /// Parses the arguments after `crash`.
    pub(crate) fn parse(mut args: impl Iterator<Item = String>) -> Result<CrashRequest, String> {
        let mut request = CrashRequest::default();
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--story" => {
                    let story = args.next().filter(|story| is_name(story));
                    let missing = || format!("`--story` takes a part of a name\n{}", crate::USAGE);
                    request.story = Some(story.ok_or_else(missing)?);
                }
                "--" => request.runner_args.extend(args.by_ref()),
                other => return Err(format!("`crash` takes no `{other}`\n{}", crate::USAGE)),
            }
        }
        Ok(request)
    }

    /// Returns the tests to run, as a nextest filter expression.
    fn filter(&self) -> String {
        let sweeps = "test(a_crash_at_any_point)";
        self.story.as_ref().map_or(sweeps.to_owned(), |story| format!("{sweeps} & test({story})"))
    }
}

fn is_name(story: &str) -> bool {
    !story.is_empty() && story.chars().all(|c| c.is_ascii_alphanumeric() || "_:".contains(c))
}

/// Runs the sweeps and returns the exit code.
pub(crate) fn run(request: &CrashRequest) -> Result<ExitCode, String> {
    if !test::has_nextest() {
        return Err("`cargo-nextest` is needed: install it and try again".to_owned());
    }
    let filter = request.filter();
    progress(&format!("visiting every fault point of {filter}"));
    let status = Command::new(test::cargo())
        .args(["nextest", "run", "--package", "ralph", "--profile", "crash", "-E", &filter])
        .args(&request.runner_args)
        .current_dir(root())
        .env("RALPH_CRASH_SWEEP", "all")
        .status()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(test)]
mod tests {
    use super::CrashRequest;

    fn parse(args: &[&str]) -> Result<CrashRequest, String> {
        CrashRequest::parse(args.iter().map(|arg| (*arg).to_owned()))
    }

    #[test]
    fn a_story_narrows_the_sweeps_and_must_be_a_name() {
        assert_eq!(parse(&[]).unwrap().filter(), "test(a_crash_at_any_point)");
        let pipeline = parse(&["--story", "pipeline", "--", "--no-capture"]).unwrap();
        assert_eq!(pipeline.filter(), "test(a_crash_at_any_point) & test(pipeline)");
        assert_eq!(pipeline.runner_args, ["--no-capture"]);
        for wrong in [&["--story"][..], &["--story", "a) | all("], &["--all"]] {
            assert!(parse(wrong).unwrap_err().contains("usage"), "{wrong:?}");
        }
    }
}
