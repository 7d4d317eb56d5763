//! Agents: one adapter per CLI turns a request into a command and the CLI's stream into events.
//!
//! An adapter is one file and one row in [`ADAPTERS`]. It encapsulates its CLI's flags, quirks and state directories;
//! nothing outside this module knows any of them.

mod claude;
mod codex;
mod command;
mod gemini;
mod guarded;
mod opencode;
mod rehearsal;
mod reset;
mod rollout;
mod wire;

pub use guarded::Guarded;
pub(crate) use guarded::covers;

use camino::{Utf8Path, Utf8PathBuf};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use ralph_model::event::AgentEvent;
use ralph_model::final_from::FinalFrom;
use ralph_model::run::{ProcessExit, UsageLimit};

/// All supported agent CLIs.
pub const ADAPTERS: &[&dyn Adapter] = &[
    &codex::Codex,
    &claude::Claude,
    &opencode::OpenCode,
    &gemini::Gemini,
    &command::CommandAdapter,
    &rehearsal::Rehearsal,
];

/// Returns the adapter of that name.
pub fn adapter(name: &str) -> Option<&'static dyn Adapter> {
    ADAPTERS.iter().copied().find(|adapter| adapter.name() == name)
}

/// The part of a request to an agent that affects its command line. The prompt is passed on stdin.
#[derive(Clone, Debug)]
pub struct AgentRequest<'a> {
    pub(crate) model: Option<&'a str>,
    pub(crate) reasoning: Option<&'a str>,
    /// A session to resume.
    pub(crate) resume: Option<&'a str>,
    /// Arguments from the configuration, passed through.
    pub(crate) extra_args: &'a [String],
    /// The agent's working directory.
    pub(crate) workspace: &'a Utf8Path,
    /// A directory for the agent's state, set if the person's own configuration of the agent must not be used.
    pub(crate) isolated_state: Option<&'a Utf8Path>,
}

/// A command line, without the inherited environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Invocation {
    pub(crate) args: Vec<String>,
    /// Set in the agent's environment, overriding inherited variables.
    pub(crate) env: Vec<(String, String)>,
}

impl Invocation {
    fn set(&mut self, variable: &str, value: &str) {
        self.env.push((variable.to_owned(), value.to_owned()));
    }

    fn option(&mut self, name: &str, value: &str) {
        self.args.extend([name.to_owned(), value.to_owned()]);
    }

    /// Adds a flag unless the configuration gives it too: some CLIs refuse duplicates.
    fn flag(&mut self, request: &AgentRequest<'_>, flag: &str) {
        if !request.extra_args.iter().any(|arg| arg == flag) {
            self.args.push(flag.to_owned());
        }
    }
}

/// Properties of an agent that the harness must know beyond its stream.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own about a CLI")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traits {
    /// Its stdout is a stream of structured events, so silence is meaningful.
    pub(crate) structured: bool,
    /// It reports the start of a tool call. Otherwise a long command looks like silence, and silence proves nothing.
    pub(crate) announces_tools: bool,
    /// It compacts its context by itself.
    pub(crate) compacts: bool,
    /// A session can be resumed by id.
    pub(crate) resumes: bool,
    /// It reports the cost of a run. Otherwise the cost is known only with a price for its model.
    pub(crate) reports_cost: bool,
    /// It accepts a reasoning effort. Otherwise a requested one has no effect, which the person should be told.
    pub(crate) reasoning: bool,
    /// What to do when its login is rejected.
    pub(crate) login: Option<&'static str>,
}

/// The agent's future environment, for adapters that look up state directories.
pub(crate) type EnvLookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Returns the directory in a variable.
fn directory_in(env: EnvLookup<'_>, variable: &str) -> Option<Utf8PathBuf> {
    env(variable).filter(|value| !value.is_empty()).map(Utf8PathBuf::from)
}

/// Makes a list of names.
fn names(list: &[&str]) -> Vec<String> {
    list.iter().map(|name| (*name).to_owned()).collect()
}

/// Returns a path in the home directory.
fn in_home(env: EnvLookup<'_>, name: &str) -> Option<Utf8PathBuf> {
    directory_in(env, "HOME").map(|home| home.join(name))
}

/// The time and zone of decoding a stream: some CLIs print times of day without a date or zone.
#[derive(Clone, Debug)]
pub struct DecodeContext {
    pub now: Timestamp,
    pub zone: TimeZone,
    /// The person's own phrases for a usage limit.
    pub(crate) limit_patterns: Vec<String>,
    /// Where to find the final message of a plain command.
    pub(crate) final_from: FinalFrom,
    /// Where to find the session id of a plain command, if not on its own line.
    pub(crate) session_from: Option<FinalFrom>,
}

impl DecodeContext {
    /// Returns a context without any agent-specific configuration.
    pub fn new(now: Timestamp, zone: TimeZone) -> DecodeContext {
        DecodeContext {
            now,
            zone,
            limit_patterns: Vec::new(),
            final_from: FinalFrom::default(),
            session_from: None,
        }
    }
}

/// Turns one run's stream into events. Called for every line and for the end.
pub trait Decoder: Send {
    /// Decodes a line of stdout, without its line end. An irrelevant line yields nothing.
    fn stdout_line(&mut self, line: &[u8], events: &mut Vec<AgentEvent>);

    /// Decodes a line of stderr. Most CLIs print nothing relevant there.
    fn stderr_line(&mut self, line: &[u8], events: &mut Vec<AgentEvent>) {
        let _ = (line, events);
    }

    /// Yields events that only the end reveals: a final message known to be the last, a truncated stream.
    fn finish(&mut self, exit: Option<ProcessExit>, events: &mut Vec<AgentEvent>);
}

/// One agent CLI.
pub trait Adapter: Sync {
    /// The name in the configuration.
    fn name(&self) -> &'static str;

    /// The program to look up on PATH unless the configuration names another.
    ///
    /// `None` for `rehearsal`, which is built in, and for `command`, whose arguments begin with the program.
    fn program(&self) -> Option<&'static str>;

    fn traits(&self) -> Traits;

    fn invocation(&self, request: &AgentRequest<'_>) -> Invocation;

    fn decoder(&self, context: DecodeContext) -> Box<dyn Decoder>;

    /// The directories and single files that the agent must be able to write in order to work at all.
    fn state_paths(&self, env: EnvLookup<'_>) -> Vec<Utf8PathBuf>;

    /// The parts of its state that are compared after a run: everything except data. Settings, plugins and programs may
    /// later run as the person.
    fn guarded_files(&self, env: EnvLookup<'_>) -> Vec<Guarded> {
        let _ = env;
        Vec::new()
    }

    /// The person's variables that the agent reads, by name or as a pattern that ends in `*`: its keys and settings. No
    /// other process gets them.
    fn variables(&self, model: Option<&str>, args: &[String], env: EnvLookup<'_>) -> Vec<String> {
        let _ = (model, args, env);
        Vec::new()
    }

    /// Looks for a usage limit in files where the CLI stores more than it prints.
    fn recorded_limit(&self, session: &str, env: EnvLookup<'_>) -> Option<UsageLimit> {
        let _ = (session, env);
        None
    }
}

#[cfg(test)]
#[path = "mod_tests.rs"]
mod tests;
