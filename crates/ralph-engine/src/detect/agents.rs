//! The installed agent CLIs, with their versions.
//!
//! All programs found are asked for their version concurrently: some take seconds to start. One that hangs or fails is
//! reported as such and delays nothing. Whether a person is logged in is not determined.

use std::path::Path;
use std::thread;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use ralph_model::role::Role;
use ralph_proc::capture::{Answer, CaptureRequest, ask};

use crate::agent::ADAPTERS;
use crate::config::{AgentProgram, Config};

/// How long a program may take to print its version.
const PATIENCE: Duration = Duration::from_secs(10);

/// A version is one line; output after the first page is not read.
const LONGEST_ANSWER: usize = 4096;

/// An agent that may be installed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct AgentCandidate {
    /// The name in the configuration.
    name: String,
    /// A name to look up on PATH, or a path.
    program: String,
}

/// The result for one agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundAgent {
    pub name: String,
    pub(crate) program: String,
    /// `None`: it is not installed.
    pub path: Option<Utf8PathBuf>,
    pub version: Option<String>,
    /// Why it cannot be used although it is installed, and what to do.
    pub problem: Option<String>,
}

impl FoundAgent {
    /// Whether a run could use it.
    pub fn is_usable(&self) -> bool {
        self.path.is_some() && self.problem.is_none()
    }
}

/// Returns the known agents, each with its configured or default program.
fn known_agents(config: Option<&Config>) -> Vec<AgentCandidate> {
    let choices: Vec<_> = config
        .map(|config| Role::ALL.map(|role| config.agent_for(role).program).to_vec())
        .unwrap_or_default();
    let configured = |name: &str| {
        choices.iter().find_map(|choice| match choice {
            AgentProgram::Adapter { adapter, exe } if adapter == name => exe.clone(),
            AgentProgram::Adapter { .. }
            | AgentProgram::Command { .. }
            | AgentProgram::Untrusted => None,
        })
    };
    let known = ADAPTERS.iter().filter_map(|adapter| Some((adapter.name(), adapter.program()?)));
    let candidate = |(name, program): (&str, &str)| AgentCandidate {
        name: name.to_owned(),
        program: configured(name).unwrap_or_else(|| program.to_owned()),
    };
    known.map(candidate).collect()
}

/// Looks up each known agent, and asks the installed ones for their version.
pub fn find_agents(
    config: Option<&Config>,
    look_up: &dyn Fn(&str) -> Option<Utf8PathBuf>,
) -> Vec<FoundAgent> {
    find_candidates(&known_agents(config), look_up)
}

fn find_candidates(
    candidates: &[AgentCandidate],
    look_up: &dyn Fn(&str) -> Option<Utf8PathBuf>,
) -> Vec<FoundAgent> {
    let mut found: Vec<_> = candidates
        .iter()
        .map(|candidate| FoundAgent {
            name: candidate.name.clone(),
            program: candidate.program.clone(),
            path: look_up(&candidate.program),
            version: None,
            problem: None,
        })
        .collect();
    thread::scope(|scope| {
        for agent in &mut found {
            if let Some(path) = agent.path.clone() {
                scope.spawn(move || match ask_version(&path, PATIENCE) {
                    Ok(version) => agent.version = Some(version),
                    Err(problem) => agent.problem = Some(problem),
                });
            }
        }
    });
    found
}

fn ask_version(path: &Utf8Path, patience: Duration) -> Result<String, String> {
    let question = CaptureRequest {
        program: path.as_std_path(),
        args: &["--version"],
        names: &[],
        // A neutral directory: in a project some CLIs first load that project's plugins.
        cwd: Some(Path::new("/")),
        env: &[("NO_COLOR", Some("1"))],
        timeout: patience,
        cap: LONGEST_ANSWER,
    };
    let again = format!("run `{path} --version` to see why, or install it again");
    match ask(&question) {
        Err(error) => Err(format!("cannot be started: {error}; {again}")),
        Ok(Answer { timed_out: true, .. }) => {
            Err(format!("did not report its version within {} s; {again}", patience.as_secs()))
        }
        Ok(Answer { code: Some(0), stdout, .. }) => {
            let stdout = String::from_utf8_lossy(&stdout);
            parse_version(&stdout).ok_or_else(|| format!("reported no version; {again}"))
        }
        Ok(Answer { code, stderr, .. }) => {
            let stderr = String::from_utf8_lossy(&stderr);
            let end =
                code.map_or("was killed".to_owned(), |code| format!("failed with exit {code}"));
            let said = first_words(&stderr).map_or(String::new(), |said| format!(": {said}"));
            Err(format!("`--version` {end}{said}; {again}"))
        }
    }
}

/// Finds the version in the output of `--version`: the first word like `1.2`, `v1.2.3` or `1.2.3-rc.1`.
pub(crate) fn parse_version(output: &str) -> Option<String> {
    let mut words = output.split(|c: char| c.is_whitespace() || "(),;".contains(c));
    words.find_map(|word| {
        let version = word.strip_prefix('v').unwrap_or(word);
        let mut parts = version.split(['.', '-', '+']);
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        let is_word =
            |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric());
        let is_version = parts.next().is_some_and(is_number)
            && parts.next().is_some_and(is_number)
            && parts.all(is_word);
        is_version.then(|| version.to_owned())
    })
}

/// Returns the beginning of the first non-blank line.
fn first_words(text: &str) -> Option<String> {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(line.chars().filter(|c| !c.is_control()).take(200).collect())
}

#[cfg(test)]
#[path = "agents_tests.rs"]
mod tests;
