//! `cargo xtask test`: all tests of the workspace, with real agent CLIs, and a count of skipped ones.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use crate::agents::Package;
use crate::{agents, programs, progress, root};

/// Whether the tests run real agent CLIs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Agents {
    /// The slow ones run only the most important scenarios.
    Installed,
    /// All of them run all scenarios.
    All,
    LeftOut,
}

/// The parsed arguments.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TestRequest {
    agents: Agents,
    runner_args: Vec<String>,
}

impl TestRequest {
    /// Parses the arguments after `test`.
    pub(crate) fn parse(mut args: impl Iterator<Item = String>) -> Result<TestRequest, String> {
        let mut request = TestRequest { agents: Agents::Installed, runner_args: Vec::new() };
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--all-agents" | "--no-agents" if request.agents != Agents::Installed => {
                    return Err(format!("`test` takes one choice of agents\n{}", crate::USAGE));
                }
                "--all-agents" => request.agents = Agents::All,
                "--no-agents" => request.agents = Agents::LeftOut,
                "--" => request.runner_args.extend(args.by_ref()),
                other => return Err(format!("`test` takes no `{other}`\n{}", crate::USAGE)),
            }
        }
        Ok(request)
    }
}

/// Runs the tests and returns the exit code.
pub(crate) fn run(request: &TestRequest) -> Result<ExitCode, String> {
    programs::ensure("git", &["git", "ca-certificates"])?;
    let mut required = false;
    if request.agents == Agents::LeftOut {
        progress("running without agent CLIs");
    } else if let Some(dir) = env::var_os("RALPH_TEST_AGENTS") {
        progress(&format!("using the agent CLIs in {}", Path::new(&dir).display()));
        required = true;
    } else if agents::run_here() {
        agents::install(&root().join("tests/agents"), Package::Agents)?;
        required = true;
    } else {
        progress("the pinned agent CLIs are for Linux on x86-64; running without them");
    }

    let has_web = request.agents != Agents::LeftOut && agents::run_here();
    if has_web {
        agents::install(&root().join("tests/web"), Package::Web)?;
    }

    let skips = env::temp_dir().join(format!("ralph-skips-{}", std::process::id()));
    let mut command = runner(request);
    command.current_dir(root()).env("RALPH_SKIP_LOG", &skips);
    if request.agents == Agents::LeftOut {
        // An existing directory without agents, so that an earlier installation is not used either.
        command.env("RALPH_TEST_AGENTS", root().join("crates/xtask"));
    }
    if request.agents == Agents::All {
        command.env("RALPH_TEST_TIER", "2");
    }
    if required {
        command.env("RALPH_REQUIRE_AGENTS", "1");
    }
    if has_web {
        command.env("RALPH_REQUIRE_WEB", "1");
    }
    let args: Vec<_> = command.get_args().map(OsStr::to_string_lossy).collect();
    progress(&format!("running cargo {}", args.join(" ")));
    let status = command.status().map_err(|error| format!("cannot start cargo: {error}"))?;
    report_skips(&skips);
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the test runner: nextest if installed, otherwise cargo's own harness.
fn runner(request: &TestRequest) -> Command {
    let args: &[&str] =
        if has_nextest() { &["nextest", "run", "--workspace"] } else { &["test", "--workspace"] };
    let mut all = Command::new(cargo());
    all.args(args).args(&request.runner_args);
    all
}

/// Returns the cargo that started us, or the one on the PATH.
pub(crate) fn cargo() -> OsString {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Returns whether nextest is installed.
pub(crate) fn has_nextest() -> bool {
    let mut version = Command::new(cargo());
    version.args(["nextest", "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
    version.status().is_ok_and(|status| status.success())
}

/// Prints how many tests were skipped and why, and removes the log.
fn report_skips(log: &Path) {
    let lines = fs::read_to_string(log).unwrap_or_default();
    let mut reasons: Vec<&str> = lines.lines().collect();
    reasons.sort_unstable();
    for run in reasons.chunk_by(|left, right| left == right) {
        println!("xtask: {} x {}", run.len(), run[0]);
    }
    progress(&format!("{} tests skipped", reasons.len()));
    // It is in the temporary directory, so a leftover is harmless.
    let _ = fs::remove_file(log);
}

#[cfg(test)]
mod tests {
    use super::{Agents, TestRequest};

    fn parse(args: &[&str]) -> Result<TestRequest, String> {
        TestRequest::parse(args.iter().map(|arg| (*arg).to_owned()))
    }

    #[test]
    fn arguments_after_two_dashes_go_to_the_runner() {
        let request = parse(&["--no-agents", "--", "--no-agents", "-E", "all()"]).unwrap();
        let runner_args = ["--no-agents", "-E", "all()"].map(str::to_owned).into();
        assert_eq!(request, TestRequest { agents: Agents::LeftOut, runner_args });
        assert_eq!(parse(&[]).unwrap().agents, Agents::Installed);
    }

    #[test]
    fn all_agents_or_none_but_not_both() {
        assert_eq!(parse(&["--all-agents"]).unwrap().agents, Agents::All);
        assert!(parse(&["--all-agents", "--no-agents"]).unwrap_err().contains("one choice"));
    }

    #[test]
    fn an_unknown_flag_is_named() {
        assert!(parse(&["--agents"]).unwrap_err().contains("`--agents`"));
    }
}
