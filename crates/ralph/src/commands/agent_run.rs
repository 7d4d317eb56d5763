//! `ralph agent run`: one supervised run of a prompt, or the same prompt several times.

use std::io::Read;

use camino::{Utf8Path, Utf8PathBuf};
use ralph_engine::boundary::in_force;
use ralph_engine::channel::NoStore;
use ralph_engine::clock::SystemClock;
use ralph_engine::config::FlagValue;
use ralph_engine::files::lock::{LockError, LockOwner, RunLock};
use ralph_engine::launch::{Launch, LaunchError};
use ralph_engine::outbox::Outbox;
use ralph_engine::recover::{Recovered, end_leftovers};
use ralph_engine::run::{Contract, RunContext, RunPlace};
use ralph_engine::series::{Series, SeriesPolicy};
use ralph_engine::state::State;
use ralph_engine::wait::RealWaiter;
use ralph_model::policy::budget::Budget;
use ralph_model::policy::limit::LimitPolicy;
use ralph_model::role::Role;
use ralph_proc::sandbox::Support;
use ralph_proc::signal::SignalPipe;

use crate::args::{AgentOptions, AgentRunArgs, GlobalArgs};
use crate::error::CliError;
use crate::exit::Exit;
use crate::render::human::plural;
use crate::render::series::{Shown, show_boundary};
use crate::render::{Tone, Ui};
use crate::setup::{Setup, now};

pub(crate) fn run(global: &GlobalArgs, args: &AgentRunArgs) -> Result<Exit, CliError> {
    let setup = Setup::load(global, &flags(&args.agent))?;
    let prompt = read_prompt(args)?;
    let launch =
        Launch::prepare(&setup.config, args.role, &setup.environment, &setup.workspace.root)
            .map_err(|error| not_launched(&error))?;
    let boundary = in_force(setup.config.boundary, Support::probe()).map_err(|error| {
        CliError::usage(error)
            .hint("`boundary = \"auto\"` runs with detection where the kernel cannot enforce")
    })?;
    let mut open = setup.open_state()?;
    refuse_state_in_workspace(&setup, open.state.directory())?;
    let clock = SystemClock;
    let _lock = lock_workspace(&setup, &open.state, args.role)?;
    let left = end_leftovers(&open.state, &mut open.journal, &clock, &setup.environment);
    show_leftovers(setup.ui, &left.map_err(CliError::failed)?);
    let overview = open.overview()?;
    let signals = SignalPipe::install().map_err(CliError::failed)?;
    let program = own_program()?;
    let place = RunPlace::open(&open.state).map_err(CliError::failed)?;
    let git_dirs = setup.workspace.outer_git_dirs();
    let mut store = NoStore;
    let mut context = RunContext {
        workspace: &setup.workspace.root,
        git_dirs: &git_dirs,
        home: setup.home.exists.then_some(setup.home.path.as_path()),
        state: &open.state,
        place: &place,
        journal: &mut open.journal,
        clock: &clock,
        signals: Some(&signals),
        environment: &setup.environment,
        program: &program,
        store: Some(&mut store),
    };
    let mut request = launch.request(&setup.config, args.role, &prompt, boundary, &program);
    request.resume = args.resume.as_deref();
    request.outbox = Outbox::Kept;
    request.contract = Contract::Any;
    let mut shown = Shown {
        ui: setup.ui,
        cwd: setup.cwd.clone(),
        title: format!("{} {}", args.role, launch.choice.name),
        boundary,
        repeat: args.repeat,
        last: None,
        waited: None,
    };
    shown.announce(&launch, args);
    let end = Series {
        context: &mut context,
        policy: policy(&setup, args),
        waiter: &mut RealWaiter { clock: &clock, signals: Some(&signals) },
        observer: &mut shown,
        overview,
    }
    .run(&request)
    .map_err(CliError::failed)?;
    shown.conclude(&end, setup.json, &launch.choice.name)
}

/// The options of a command that runs agents, as settings over all others.
pub(crate) fn flags(options: &AgentOptions) -> Vec<FlagValue<'_>> {
    [
        ("--agent", "agent", &options.agent),
        ("--agent-cmd", "agent_cmd", &options.agent_cmd),
        ("--model", "model", &options.model),
        ("--reasoning", "reasoning", &options.reasoning),
        ("--timeout", "timeout", &options.timeout),
        ("--idle-timeout", "idle_timeout", &options.idle_timeout),
        ("--boundary", "boundary", &options.boundary),
    ]
    .into_iter()
    .filter_map(|(flag, key, value)| Some(FlagValue { flag, key, value: value.as_deref()? }))
    .collect()
}

fn policy(setup: &Setup, args: &AgentRunArgs) -> SeriesPolicy {
    let config = &setup.config;
    let narrow = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    let default_failures = (args.repeat > 1).then_some(3);
    SeriesPolicy {
        repeat: args.repeat,
        budget: Budget {
            iterations: config.budget.iterations.map(narrow),
            attempts: None,
            tokens: args.max_tokens.or(config.budget.tokens),
            cost_usd: args.max_cost.or(config.budget.cost),
            wall: config.budget.wall,
            consecutive_failures: args
                .max_failures
                .or(config.budget.failures.map(narrow))
                .or(default_failures),
        },
        limit: LimitPolicy {
            margin: config.limits.margin,
            cap: config.limits.max_wait,
            ..LimitPolicy::default()
        },
        wait_for_limits: config.limits.wait && !args.no_wait,
        longest_pause: config.limits.backoff,
    }
}

fn read_prompt(args: &AgentRunArgs) -> Result<Vec<u8>, CliError> {
    let prompt = match (&args.prompt, &args.file) {
        (Some(text), _) => text.clone().into_bytes(),
        (None, Some(file)) if file != "-" => std::fs::read(file).map_err(|error| {
            CliError::usage(format!("cannot read the prompt `{file}`: {error}"))
        })?,
        (None, _) => {
            if std::io::IsTerminal::is_terminal(&std::io::stdin()) {
                return Err(CliError::usage("there is no prompt")
                    .hint("give it as an argument, with --file, or through a pipe"));
            }
            let mut text = Vec::new();
            std::io::stdin().read_to_end(&mut text).map_err(CliError::failed)?;
            text
        }
    };
    if prompt.iter().all(u8::is_ascii_whitespace) {
        return Err(CliError::usage("the prompt is empty"));
    }
    Ok(prompt)
}

/// Says what a Ralph that was killed had left behind.
pub(super) fn show_leftovers(ui: Ui, recovered: &[Recovered]) {
    for left in recovered {
        if left.processes > 0 {
            let count = plural(left.processes as u64, "process");
            let text = format!("ended {count} of run {}", left.run_id);
            ui.labelled(Tone::Attention, "leftovers", &text);
        }
        show_boundary(ui, &left.boundary);
    }
}

pub(super) fn not_launched(error: &LaunchError) -> CliError {
    let hint = error.hint();
    CliError::usage(error.to_string()).hint(hint)
}

/// Two agents that change one workspace would spoil each other's work; those that only read it do not.
fn lock_workspace(setup: &Setup, state: &State, role: Role) -> Result<Option<RunLock>, CliError> {
    if !role.writes_workspace() {
        return Ok(None);
    }
    let owner = LockOwner::current("ralph agent run", now());
    match RunLock::acquire(&state.run_lock(&setup.home), &owner) {
        Ok(lock) => Ok(Some(lock)),
        Err(error @ LockError::RunHeld { .. }) => Err(CliError::usage(error)
            .hint("wait for it or stop it; a run with a read-only --role can go beside it")),
        Err(error) => Err(CliError::failed(error)),
    }
}

/// An agent that may write the workspace could rewrite its own judge's notes.
pub(super) fn refuse_state_in_workspace(setup: &Setup, state: &Utf8Path) -> Result<(), CliError> {
    if !state.starts_with(&setup.workspace.root) {
        return Ok(());
    }
    let root = &setup.workspace.root;
    Err(CliError::usage(format!(
        "private state `{state}` lies inside the workspace `{root}`, where agents can write"
    ))
    .hint("name a narrower workspace with --root, or set XDG_STATE_HOME to a place outside it"))
}

pub(super) fn own_program() -> Result<Utf8PathBuf, CliError> {
    let path = std::env::current_exe().map_err(CliError::failed)?;
    Utf8PathBuf::from_path_buf(path)
        .map_err(|_| CliError::usage("the path of `ralph` is not UTF-8"))
}
