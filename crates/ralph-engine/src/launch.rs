//! From the configuration's choice of an agent to a request that can be run: which adapter, which program, which limits.

use camino::{Utf8Path, Utf8PathBuf};
use ralph_model::policy::context::ContextPolicy;
use ralph_model::role::Role;
use ralph_model::usage::PriceTable;
use ralph_proc::protocol::StopLimits;

use crate::agent::{Adapter, adapter};
use crate::boundary::InForce;
use crate::config::{AgentChoice, AgentProgram, Config};
use crate::outbox::Outbox;
use crate::run::{Contract, Environment, RunRequest};

/// An agent that is there and can be started.
pub struct Launch {
    pub choice: AgentChoice,
    pub(crate) adapter: &'static dyn Adapter,
    /// The program; `None` where Ralph plays the agent itself.
    pub(crate) executable: Option<Utf8PathBuf>,
    args: Vec<String>,
    env: Vec<(String, String)>,
    prices: PriceTable,
}

/// The agent cannot be started as configured.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    #[error("the program `{program}` of agent `{agent}` was not found on the path")]
    NotInstalled { agent: String, program: String },
    #[error("the agent `rehearsal` has no script to play")]
    NoScript,
    #[error("the script `{script}` of the agent `rehearsal` does not exist")]
    MissingScript { script: Utf8PathBuf },
}

impl LaunchError {
    /// What the person can do about it.
    pub(crate) fn hint(&self) -> String {
        match self {
            LaunchError::NotInstalled { agent, .. } => format!(
                "install it, name its program with `exe` in [agents.{agent}], or choose another agent with --agent (`ralph agent list` shows those that are here)"
            ),
            LaunchError::NoScript | LaunchError::MissingScript { .. } => {
                "name one with `script = \"…\"` in [agents.rehearsal]".to_owned()
            }
        }
    }
}

impl Launch {
    /// Finds the program of the agent that plays `role`.
    pub(crate) fn prepare(
        config: &Config,
        role: Role,
        environment: &Environment,
        workspace: &Utf8Path,
    ) -> Result<Launch, LaunchError> {
        let choice = config.agent_for(role);
        let find = |program: &str| {
            environment
                .find_program(program, workspace.as_std_path())
                .and_then(|path| Utf8PathBuf::from_path_buf(path).ok())
                .ok_or_else(|| LaunchError::NotInstalled {
                    agent: choice.name.clone(),
                    program: program.to_owned(),
                })
        };
        let (adapter, executable, args) = match &choice.program {
            AgentProgram::Command { argv } => {
                let program = find(argv.first().map_or("", String::as_str))?;
                let mut args = argv[1..].to_vec();
                args.extend_from_slice(&choice.args);
                (known("command"), Some(program), args)
            }
            AgentProgram::Adapter { adapter, exe } => {
                let adapter = known(adapter);
                match exe.as_deref().or(adapter.program()) {
                    Some(program) => (adapter, Some(find(program)?), choice.args.clone()),
                    None => (adapter, None, vec![script(&choice)?.to_string()]),
                }
            }
        };
        let env = choice.env.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        let prices = config.prices.iter().map(|(model, price)| (model.clone(), *price)).collect();
        Ok(Launch { choice, adapter, executable, args, env, prices })
    }

    /// What was asked for and has no effect with this agent.
    pub fn warnings(&self) -> Vec<String> {
        let name = &self.choice.name;
        let traits = self.adapter.traits();
        let mut warnings = Vec::new();
        if self.choice.reasoning.is_some() && !traits.reasoning {
            warnings.push(format!("`reasoning` has no effect: {name} takes no such option"));
        }
        if self.choice.model.is_some() && !traits.structured {
            warnings.push(format!("`model` has no effect: {name} is a plain command"));
        }
        warnings
    }

    /// Puts a request for one run together. `program` is Ralph's own.
    pub(crate) fn request<'a>(
        &'a self,
        config: &'a Config,
        role: Role,
        prompt: &'a [u8],
        boundary: InForce,
        program: &'a Utf8Path,
    ) -> RunRequest<'a> {
        let choice = &self.choice;
        let percent = |value: u64| u8::try_from(value).unwrap_or(100);
        RunRequest {
            adapter: self.adapter,
            agent: &choice.name,
            executable: self.executable.as_deref().unwrap_or(program),
            args: &self.args,
            env: &self.env,
            role,
            model: choice.model.as_deref(),
            reasoning: choice.reasoning.as_deref(),
            resume: None,
            item: None,
            attempt: 1,
            try_number: None,
            prompt,
            boundary,
            writable: &config.writable,
            unix_sockets: config.unix_sockets,
            agent_state: &choice.state,
            isolate: choice.isolate,
            limits: StopLimits {
                wall: Some(choice.timeout),
                idle: Some(choice.idle_timeout),
                interrupt_grace: config.limits.interrupt_grace,
                terminate_grace: config.limits.terminate_grace,
                log: config.limits.log,
            },
            context: ContextPolicy {
                limit: choice.context_window,
                warn_pct: percent(config.limits.context_warn),
                kill_pct: percent(config.limits.context_kill),
            },
            prices: &self.prices,
            given: &[],
            outbox: Outbox::Named(&[]),
            directory: None,
            workflow: "",
            contract: Contract::Unknown,
        }
    }
}

fn known(name: &str) -> &'static dyn Adapter {
    adapter(name).expect("the configuration only lets known adapters through")
}

fn script(choice: &AgentChoice) -> Result<&Utf8Path, LaunchError> {
    let script = choice.script.as_deref().ok_or(LaunchError::NoScript)?;
    if script.is_file() {
        Ok(script)
    } else {
        Err(LaunchError::MissingScript { script: script.to_owned() })
    }
}
