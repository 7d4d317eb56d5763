//! Resolves a configured agent into a runnable request: adapter, program, limits.

use camino::{Utf8Path, Utf8PathBuf};
use ralph_model::policy::budget::Budget;
use ralph_model::policy::context::ContextPolicy;
use ralph_model::policy::limit::LimitHolder;
use ralph_model::role::Role;
use ralph_model::usage::PriceTable;
use ralph_proc::protocol::StopLimits;

use crate::agent::{ADAPTERS, Adapter, EnvLookup, adapter};
use crate::boundary::InForce;
use crate::config::{AgentChoice, AgentProgram, Config};
use crate::outbox::Outbox;
use crate::rehearsal;
use crate::run::{Contract, Environment, RunRequest};

/// An agent that is installed and can be started.
pub struct Launch {
    pub choice: AgentChoice,
    pub(crate) adapter: &'static dyn Adapter,
    /// The program; `None` for the built-in agent.
    pub(crate) executable: Option<Utf8PathBuf>,
    args: Vec<String>,
    env: Vec<(String, String)>,
    /// Names of the person's variables that are passed to it.
    pass: Vec<String>,
    prices: PriceTable,
    /// The owner of this agent's usage limit.
    pub(crate) limit_holder: LimitHolder,
}

/// The agent cannot be started as configured.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    #[error("program `{program}` of agent `{agent}` not found on PATH")]
    NotInstalled { agent: String, program: String },
    #[error("the command of agent `{agent}` is not trusted")]
    Untrusted { agent: String },
    #[error("the cost of agent `{agent}` cannot be measured, so a cost budget would have no effect{}", cause(.model.as_deref()))]
    CostUnknown { agent: String, model: Option<String> },
    #[error("the agent `rehearsal` has no script to play")]
    NoScript,
    #[error("the script `{script}` of the agent `rehearsal` does not exist")]
    MissingScript { script: Utf8PathBuf },
    /// Told before any run: each would fail in the same way.
    #[error("the agent `rehearsal` cannot play its script:\n{problems}")]
    WrongScript { problems: String },
}

/// Explains why a cost is unknown.
fn cause(model: Option<&str>) -> String {
    match model {
        Some(model) => format!(": it reports no cost, and `{model}` has no price"),
        None => ": it reports no cost, and its model is not configured".to_owned(),
    }
}

impl LaunchError {
    /// Returns advice for the person.
    pub(crate) fn hint(&self) -> String {
        match self {
            LaunchError::NotInstalled { agent, .. } => {
                let key = if adapter(agent).is_some() { "exe" } else { "command" };
                format!(
                    "install it, name its program with `{key}` in [agents.{agent}], or choose another agent with --agent (`ralph agent list` shows which are installed) or a command with --agent-cmd"
                )
            }
            LaunchError::CostUnknown { model, .. } => {
                let set = if model.is_some() { "" } else { "set `model`, and " };
                let name = model.as_deref().unwrap_or("MODEL");
                format!(
                    "{set}write its price in US dollars per million tokens to `ralph.toml`: [prices.\"{name}\"] input = …, output = …; or limit --max-tokens or `budget.wall` instead"
                )
            }
            LaunchError::Untrusted { .. } => "`ralph trust` shows it and asks".to_owned(),
            LaunchError::WrongScript { .. } => "correct these lines".to_owned(),
            LaunchError::NoScript | LaunchError::MissingScript { .. } => {
                "name one with `script = \"…\"` in [agents.rehearsal]".to_owned()
            }
        }
    }
}

impl Launch {
    /// Resolves the program of `role`'s agent.
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
            AgentProgram::Untrusted => {
                return Err(LaunchError::Untrusted { agent: choice.name.clone() });
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
        let lookup = |name: &str| environment.text(name);
        let mut pass = config.env_pass.clone();
        pass.extend_from_slice(&choice.pass);
        let own = own_variables(adapter, &choice, &args, &lookup);
        let account = account(&choice, &own, &lookup);
        let limit_holder = LimitHolder { agent: choice.name.clone(), account };
        pass.extend(own);
        let prices = config.prices.iter().map(|(model, price)| (model.clone(), *price)).collect();
        Ok(Launch { choice, adapter, executable, args, env, pass, prices, limit_holder })
    }

    /// Whether this agent can resume a session by id.
    pub fn resumes(&self) -> bool {
        self.adapter.traits().resumes || !self.choice.resume.is_empty()
    }

    /// Returns settings that have no effect with this agent.
    pub fn warnings(&self) -> Vec<String> {
        let name = &self.choice.name;
        let traits = self.adapter.traits();
        let mut warnings = Vec::new();
        if self.choice.reasoning.is_some() && !traits.reasoning {
            warnings.push(format!("`reasoning` has no effect: {name} takes no such option"));
        }
        // With a price, the model of a plain command is useful.
        let is_priced = |model: &String| self.prices.price(model).is_some();
        if self.choice.model.as_ref().is_some_and(|model| !is_priced(model)) && !traits.structured {
            warnings.push(format!("`model` has no effect: {name} is a plain command"));
        }
        warnings
    }

    /// Refuses a budget that cannot be measured with this agent, and reports which is measured only partly.
    pub(crate) fn check_budget(&self, budget: &Budget) -> Result<Vec<String>, LaunchError> {
        let traits = self.adapter.traits();
        let Launch { choice, prices, .. } = self;
        let mut notes = Vec::new();
        if budget.cost_usd.is_some() && !traits.reports_cost {
            let price = choice.model.as_deref().and_then(|model| prices.price(model));
            if price.is_none() {
                let (agent, model) = (choice.name.clone(), choice.model.clone());
                return Err(LaunchError::CostUnknown { agent, model });
            }
        }
        let counts_tokens = budget.tokens.is_some() || budget.cost_usd.is_some();
        if counts_tokens && !traits.structured {
            notes.push(format!(
                "the budget counts estimated tokens: `{}` is a plain command, and unless it prints a `tokens used` line only the sizes of prompt and output are known",
                choice.name
            ));
        }
        Ok(notes)
    }

    /// Builds a request for one run. `program` is Ralph's own.
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
            pass: &self.pass,
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
            sandbox: &config.sandbox,
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
            limit_patterns: &choice.limit_patterns,
            final_from: &choice.final_from,
            resume_args: &choice.resume,
            session_from: choice.session_from.as_ref(),
            given: &[],
            outbox: Outbox::Named(&[]),
            directory: None,
            workflow: "",
            contract: Contract::Unknown,
            wanted: None,
        }
    }
}

/// Returns the variables that an agent reads itself. A command that starts a known agent gets that agent's.
fn own_variables(
    adapter: &dyn Adapter,
    choice: &AgentChoice,
    args: &[String],
    env: EnvLookup<'_>,
) -> Vec<String> {
    let model = choice.model.as_deref();
    let mut names = adapter.variables(model, args, env);
    if let AgentProgram::Command { argv } = &choice.program {
        let words: Vec<&str> = argv.iter().flat_map(|word| word.split_whitespace()).collect();
        let is_started = |program: &str| {
            words.iter().any(|word| Utf8Path::new(word).file_name() == Some(program))
        };
        for known in ADAPTERS {
            if known.program().is_some_and(is_started) {
                names.extend(known.variables(model, args, env));
            }
        }
    }
    names
}

/// Distinguishes commands and logins of one agent, as far as the command line and keys differ. The agent's own login is
/// not visible.
fn account(choice: &AgentChoice, own: &[String], env: EnvLookup<'_>) -> Option<String> {
    let mut parts: Vec<(String, String)> = Vec::new();
    match &choice.program {
        AgentProgram::Command { argv } => parts.push(("command".to_owned(), argv.join("\0"))),
        AgentProgram::Adapter { exe: Some(exe), .. } => parts.push(("exe".to_owned(), exe.clone())),
        AgentProgram::Adapter { exe: None, .. } | AgentProgram::Untrusted => {}
    }
    let keys = own.iter().filter(|name| name.ends_with("_KEY") || name.ends_with("_TOKEN"));
    parts.extend(keys.filter_map(|name| Some((name.clone(), env(name)?))));
    parts.extend(choice.env.iter().map(|(name, value)| (name.clone(), value.clone())));
    let digest = crate::digest::of_data(&parts);
    (!parts.is_empty()).then(|| digest[..8].to_owned())
}

fn known(name: &str) -> &'static dyn Adapter {
    adapter(name).expect("the configuration only lets known adapters through")
}

fn script(choice: &AgentChoice) -> Result<&Utf8Path, LaunchError> {
    let script = choice.script.as_deref().ok_or(LaunchError::NoScript)?;
    if !script.is_file() {
        return Err(LaunchError::MissingScript { script: script.to_owned() });
    }
    match rehearsal::problems(script) {
        Some(problems) => Err(LaunchError::WrongScript { problems }),
        None => Ok(script),
    }
}
