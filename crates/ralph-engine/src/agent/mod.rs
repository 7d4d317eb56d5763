//! Agents: one adapter per CLI turns a request into a command and the CLI's stream into events.
//!
//! An adapter is one file and one row in [`ADAPTERS`]. It knows its CLI's flags, traps and state directories; nothing
//! outside this module knows any of them.

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

/// Every agent CLI that Ralph knows.
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

/// What an agent is asked to do, as far as its command line is concerned. The prompt goes in by stdin.
#[derive(Clone, Debug)]
pub struct AgentRequest<'a> {
    pub(crate) model: Option<&'a str>,
    pub(crate) reasoning: Option<&'a str>,
    /// A session to go on with.
    pub(crate) resume: Option<&'a str>,
    /// Arguments from the configuration, passed on as they are.
    pub(crate) extra_args: &'a [String],
    /// Where the agent works.
    pub(crate) workspace: &'a Utf8Path,
    /// Set where the person's own configuration of the agent must not be used: a directory for the agent's state.
    pub(crate) isolated_state: Option<&'a Utf8Path>,
}

/// A command line, without the environment it inherits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Invocation {
    pub(crate) args: Vec<String>,
    /// Set in the agent's environment, over what is inherited.
    pub(crate) env: Vec<(String, String)>,
}

impl Invocation {
    fn set(&mut self, variable: &str, value: &str) {
        self.env.push((variable.to_owned(), value.to_owned()));
    }

    fn option(&mut self, name: &str, value: &str) {
        self.args.extend([name.to_owned(), value.to_owned()]);
    }

    /// Adds a flag unless the configuration gives it too: some CLIs refuse to be told twice.
    fn flag(&mut self, request: &AgentRequest<'_>, flag: &str) {
        if !request.extra_args.iter().any(|arg| arg == flag) {
            self.args.push(flag.to_owned());
        }
    }
}

/// What the harness must know of an agent beyond its stream.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own about a CLI")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traits {
    /// Its stdout is a stream of structured events, so silence means something.
    pub(crate) structured: bool,
    /// It says when a tool call begins. Else a long command looks like silence, and silence proves nothing.
    pub(crate) announces_tools: bool,
    /// It makes room in its context by itself.
    pub(crate) compacts: bool,
    /// A session can be resumed by id.
    pub(crate) resumes: bool,
    /// It reports what a run cost. Else the cost is known only with a price for its model.
    pub(crate) reports_cost: bool,
    /// It takes a reasoning effort. Else one that is asked for has no effect, which the person should be told.
    pub(crate) reasoning: bool,
}

/// The environment the agent will have, for adapters that look for state directories.
pub(crate) type EnvLookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Returns the directory that a variable names.
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

/// When and where a stream is read: some CLIs tell times of day without a date or zone.
#[derive(Clone, Debug)]
pub struct DecodeContext {
    pub now: Timestamp,
    pub zone: TimeZone,
    /// Phrases of the person's that tell of a usage limit.
    pub(crate) limit_patterns: Vec<String>,
    /// Where the last message of a plain command is.
    pub(crate) final_from: FinalFrom,
    /// Where a plain command tells the id of its session, if not in a line of its own.
    pub(crate) session_from: Option<FinalFrom>,
}

impl DecodeContext {
    /// Returns a context without anything that is configured for an agent.
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

/// Turns one run's stream into events. Told of every line and of the end.
pub trait Decoder: Send {
    /// Reads a line of stdout, without its line end. A line that means nothing to the decoder yields nothing.
    fn stdout_line(&mut self, line: &[u8], events: &mut Vec<AgentEvent>);

    /// Reads a line of stderr. Most CLIs say nothing there that counts.
    fn stderr_line(&mut self, line: &[u8], events: &mut Vec<AgentEvent>) {
        let _ = (line, events);
    }

    /// Yields what only the end tells: a last message that is known to be the last, a stream that was cut short.
    fn finish(&mut self, exit: Option<ProcessExit>, events: &mut Vec<AgentEvent>);
}

/// One agent CLI.
pub trait Adapter: Sync {
    /// The name in the configuration.
    fn name(&self) -> &'static str;

    /// The program looked for on PATH unless the configuration names another.
    ///
    /// `None`: Ralph itself plays `rehearsal`, and for `command` the invocation's arguments begin with the program.
    fn program(&self) -> Option<&'static str>;

    fn traits(&self) -> Traits;

    fn invocation(&self, request: &AgentRequest<'_>) -> Invocation;

    fn decoder(&self, context: DecodeContext) -> Box<dyn Decoder>;

    /// The directories (and single files) the agent must be able to write to do its work at all.
    fn state_paths(&self, env: EnvLookup<'_>) -> Vec<Utf8PathBuf>;

    /// What of its state counts after a run: everything but data. Settings, plugins, programs run later, as the person.
    fn guarded_files(&self, env: EnvLookup<'_>) -> Vec<Guarded> {
        let _ = env;
        Vec::new()
    }

    /// The person's variables that the agent reads, by name or as a pattern that ends in `*`: its keys and settings. Nobody
    /// else gets them.
    fn variables(&self, model: Option<&str>, args: &[String], env: EnvLookup<'_>) -> Vec<String> {
        let _ = (model, args, env);
        Vec::new()
    }

    /// Looks for a usage limit where the CLI keeps more than it prints.
    fn recorded_limit(&self, session: &str, env: EnvLookup<'_>) -> Option<UsageLimit> {
        let _ = (session, env);
        None
    }
}

#[cfg(test)]
#[path = "mod_tests.rs"]
mod tests;
