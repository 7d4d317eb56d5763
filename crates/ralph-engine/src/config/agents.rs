//! The agent of a role: combines settings of the role, of the agent and global ones.
//!
//! Settings for a single command (flags, then environment) take precedence over everything in files; there, the role's
//! take precedence over the agent's, and the agent's over the global ones. A model is only ever passed to the agent it
//! was written for: the role's model to the role's agent, the global one to the global agent.

use std::collections::BTreeMap;
use std::time::Duration;

use camino::Utf8PathBuf;
use ralph_model::final_from::FinalFrom;
use ralph_model::role::Role;

use super::Config;
use super::layer::{Located, Rank};

/// The resolved agent of a role.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentChoice {
    /// The name in the configuration; `command` for a command given as text.
    pub name: String,
    pub(crate) program: AgentProgram,
    /// Passed through to the program.
    pub(crate) args: Vec<String>,
    pub(crate) env: BTreeMap<String, String>,
    pub model: Option<String>,
    pub(crate) reasoning: Option<String>,
    pub(crate) timeout: Duration,
    pub(crate) idle_timeout: Duration,
    /// The person's own configuration of the agent is not used.
    pub(crate) isolate: bool,
    pub(crate) context_window: Option<u64>,
    /// The script of the rehearsal agent.
    pub(crate) script: Option<Utf8PathBuf>,
    /// Paths the agent must be able to write, in addition to those its adapter knows.
    pub(crate) state: Vec<Utf8PathBuf>,
    /// Names of the person's variables that are passed to this agent.
    pub(crate) pass: Vec<String>,
    /// Phrases for a usage limit, in addition to the built-in ones.
    pub(crate) limit_patterns: Vec<String>,
    /// Where to find the final message of a plain command.
    pub(crate) final_from: FinalFrom,
    /// Arguments with which a plain command resumes a session; `{session}` in them is its id.
    pub(crate) resume: Vec<String>,
    /// Where a plain command prints its session id; `None` for a line `session id: ID`.
    pub(crate) session_from: Option<FinalFrom>,
}

/// The program behind an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AgentProgram {
    /// One of the adapters, with the program to run if it is not the default.
    Adapter { adapter: String, exe: Option<String> },
    /// Any program that reads a prompt from stdin.
    Command { argv: Vec<String> },
    /// A command of the workspace's file, which the person does not trust.
    Untrusted,
}

/// The placeholder for the session id in the arguments of `resume`.
pub(crate) const SESSION_MARK: &str = "{session}";

/// The name of an agent that is given as a command's text.
const COMMAND: &str = "command";

impl Config {
    /// Returns the agent of a role.
    pub fn agent_for(&self, role: Role) -> AgentChoice {
        let role = role.as_str();
        let general = self.settings.get(&["agent"]).expect("the agent has a default");
        let own = self.settings.get(&["roles", role, "agent"]);
        let agent = if is_for_this_command(general) { general } else { own.unwrap_or(general) };
        let command = self.settings.get(&["agent_cmd"]);
        if let Some(command) = command.filter(|command| command.rank >= agent.rank) {
            return self.command_choice(role, command);
        }
        let name = agent.text();
        let of_agent = |key| self.settings.get(&["agents", name, key]);
        let written_for = |own: &Located| own.text() == name;
        let companion = |key| {
            let general_value = self.settings.get(&[key]);
            let own_value = self.settings.get(&["roles", role, key]);
            general_value
                .filter(|value| is_for_this_command(value))
                .or_else(|| own_value.filter(|_| written_for(own.unwrap_or(general))))
                .or_else(|| of_agent(key))
                .or_else(|| general_value.filter(|_| written_for(general)))
                .map(|value| value.text().to_owned())
        };
        let program = match self.command_of(name) {
            Some(argv) => AgentProgram::Command { argv },
            None if !self.adapters.iter().any(|adapter| adapter == name) => AgentProgram::Untrusted,
            None => AgentProgram::Adapter {
                adapter: name.to_owned(),
                exe: of_agent("exe").map(|exe| self.places.resolve_program(exe, exe.text())),
            },
        };
        AgentChoice {
            program,
            args: of_agent("args").map(Located::list).unwrap_or_default().to_vec(),
            env: self.agent_env(name),
            model: companion("model"),
            reasoning: companion("reasoning"),
            timeout: self.time_limit(role, "timeout"),
            idle_timeout: self.time_limit(role, "idle_timeout"),
            isolate: self.isolate(of_agent("isolate")),
            context_window: of_agent("context_window").map(Located::count),
            script: of_agent("script").map(|script| self.places.resolve(script, script.text())),
            state: of_agent("state")
                .map(|state| self.places.resolve_all(state))
                .unwrap_or_default(),
            pass: of_agent("pass").map(Located::list).unwrap_or_default().to_vec(),
            limit_patterns: of_agent("limit_patterns")
                .map(Located::list)
                .unwrap_or_default()
                .to_vec(),
            final_from: of_agent("final")
                .and_then(|place| FinalFrom::parse(place.text()))
                .unwrap_or_default(),
            resume: of_agent("resume").map(Located::list).unwrap_or_default().to_vec(),
            session_from: of_agent("session").and_then(|place| FinalFrom::parse(place.text())),
            name: name.to_owned(),
        }
    }

    /// Returns the flags of this command that choose the agent: without them another command starts another agent.
    pub fn agent_flags(&self) -> Vec<String> {
        let chosen = [("--agent", "agent"), ("--agent-cmd", "agent_cmd")];
        let given = chosen.into_iter().filter_map(|(flag, key)| {
            let value = self.settings.get(&[key]).filter(|value| value.rank == Rank::Flags)?;
            Some([flag.to_owned(), value.text().to_owned()])
        });
        given.flatten().collect()
    }

    /// Returns the command of an agent of the configuration's own; `None` if it has none that is trusted.
    pub fn command_of(&self, name: &str) -> Option<Vec<String>> {
        let command = self.settings.get(&["agents", name, "command"])?;
        let mut argv = command.list().to_vec();
        argv[0] = self.places.resolve_program(command, &argv[0]);
        Some(argv)
    }

    /// Returns every agent that the configuration can use: the adapters, then its own.
    pub fn agent_names(&self) -> Vec<String> {
        let own = self.settings.agents.keys().filter(|name| !self.adapters.contains(name));
        self.adapters.iter().chain(own).cloned().collect()
    }

    fn command_choice(&self, role: &str, command: &Located) -> AgentChoice {
        let companion = |key| {
            let value = self.settings.get(&[key]).filter(|value| value.rank >= command.rank);
            value.map(|value| value.text().to_owned())
        };
        let text = self.places.resolve_script(command);
        let argv = ["sh".to_owned(), "-c".to_owned(), text].to_vec();
        AgentChoice {
            name: COMMAND.to_owned(),
            program: AgentProgram::Command { argv },
            args: Vec::new(),
            env: BTreeMap::new(),
            model: companion("model"),
            reasoning: companion("reasoning"),
            timeout: self.time_limit(role, "timeout"),
            idle_timeout: self.time_limit(role, "idle_timeout"),
            isolate: self.isolate(None),
            context_window: None,
            script: None,
            state: Vec::new(),
            pass: Vec::new(),
            limit_patterns: Vec::new(),
            final_from: FinalFrom::default(),
            resume: Vec::new(),
            session_from: None,
        }
    }

    fn agent_env(&self, name: &str) -> BTreeMap<String, String> {
        let mut env = BTreeMap::new();
        for (key, value) in &self.settings.values {
            if let [agents, agent, table, variable] = key.as_slice()
                && (agents.as_str(), agent.as_str(), table.as_str()) == ("agents", name, "env")
            {
                env.insert(variable.clone(), value.text().to_owned());
            }
        }
        env
    }

    fn time_limit(&self, role: &str, key: &str) -> Duration {
        let general = self.settings.get(&[key]).expect("time limits have defaults");
        let own = self.settings.get(&["roles", role, key]);
        let limit = if is_for_this_command(general) { general } else { own.unwrap_or(general) };
        limit.duration()
    }

    fn isolate(&self, own: Option<&Located>) -> bool {
        let general = self.settings.get(&["isolate"]).expect("isolation has a default");
        let isolate = if is_for_this_command(general) { general } else { own.unwrap_or(general) };
        isolate.flag()
    }
}

fn is_for_this_command(value: &Located) -> bool {
    value.rank >= Rank::Environment
}

#[cfg(test)]
#[path = "agents_tests.rs"]
mod tests;
