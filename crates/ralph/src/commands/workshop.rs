//! Everything a workflow needs before its first run: agents found, prompts read, state opened and locked.

use camino::{Utf8Path, Utf8PathBuf};
use ralph_engine::boundary::{InForce, in_force};
use ralph_engine::clock::SystemClock;
use ralph_engine::files::lock::{LockError, LockOwner, RunLock};
use ralph_engine::gates::GateContext;
use ralph_engine::git::GitProgram;
use ralph_engine::launch::Launch;
use ralph_engine::prompts::{self, Rules};
use ralph_engine::recover::end_leftovers;
use ralph_engine::run::RunPlace;
use ralph_engine::state::State;
use ralph_engine::workflow::repositories::Repositories;
use ralph_model::journal::Overview;
use ralph_model::policy::budget::Budget;
use ralph_model::policy::limit::LimitPolicy;
use ralph_model::prompt::Prompts;
use ralph_model::role::Role;
use ralph_proc::sandbox::Support;
use ralph_proc::signal::SignalPipe;

use super::agent_run::{not_launched, own_program, refuse_state_in_workspace, show_leftovers};
use crate::error::CliError;
use crate::render::Tone;
use crate::setup::{OpenState, Setup, now};

/// What a workflow works with.
pub(super) struct Workshop {
    pub(super) open: OpenState,
    pub(super) overview: Overview,
    pub(super) place: RunPlace,
    pub(super) signals: SignalPipe,
    pub(super) program: Utf8PathBuf,
    pub(super) git: GitProgram,
    pub(super) git_dirs: Vec<Utf8PathBuf>,
    pub(super) launches: Vec<(Role, Launch)>,
    pub(super) prompts: Prompts,
    pub(super) rules: Option<Rules>,
    pub(super) boundary: InForce,
    pub(super) repositories: Repositories,
    /// One workflow at a time in a home.
    pub(super) lock: RunLock,
}

impl Workshop {
    /// Opens it for the workflow that the person typed.
    pub(super) fn open(setup: &Setup, command: &str, cast: &[Role]) -> Result<Workshop, CliError> {
        let root = &setup.workspace.root;
        if let Err(error) = setup.workspace.require_repository() {
            let hint = error.hint();
            return Err(hint.into_iter().fold(CliError::usage(error), CliError::hint));
        }
        let home = setup.home.path.as_path();
        let launches = launches(setup, cast)?;
        let prompts = templates(home)?;
        let rules =
            prompts::read_rules(root).map_err(|problem| CliError::usage(problem.to_string()))?;
        let boundary = in_force(setup.config.boundary, Support::probe()).map_err(|error| {
            CliError::usage(error)
                .hint("`boundary = \"auto\"` runs with detection where the kernel cannot enforce")
        })?;
        let mut open = setup.open_state()?;
        refuse_state_in_workspace(setup, open.state.directory())?;
        let lock = lock(setup, &open.state, command)?;
        let left = end_leftovers(&open.state, &mut open.journal, &SystemClock, &setup.environment);
        show_leftovers(setup.ui, &left.map_err(CliError::failed)?);
        let overview = open.overview()?;
        let git = setup.git();
        let repositories =
            Repositories::open(&git, &open.state, root, home).map_err(CliError::failed)?;
        Ok(Workshop {
            overview,
            place: RunPlace::open(&open.state).map_err(CliError::failed)?,
            signals: SignalPipe::install().map_err(CliError::failed)?,
            program: own_program()?,
            git,
            git_dirs: setup.workspace.outer_git_dirs(),
            launches,
            prompts,
            rules,
            boundary,
            repositories,
            lock,
            open,
        })
    }
}

/// What gates are run with.
pub(super) fn gate_context<'a>(
    setup: &'a Setup,
    state: &'a State,
    place: &'a RunPlace,
    signals: &'a SignalPipe,
    boundary: InForce,
    command: &'a str,
) -> GateContext<'a> {
    GateContext {
        state,
        place,
        environment: &setup.environment,
        boundary,
        writable: &setup.config.writable,
        interrupt_grace: setup.config.limits.interrupt_grace,
        terminate_grace: setup.config.limits.terminate_grace,
        clock: &SystemClock,
        command,
        signals: Some(signals),
    }
}

/// How usage limits are waited for.
pub(super) fn limit_policy(setup: &Setup) -> LimitPolicy {
    let limits = &setup.config.limits;
    LimitPolicy { margin: limits.margin, cap: limits.max_wait, ..LimitPolicy::default() }
}

/// The budget of the configuration, with what was typed over it.
pub(super) fn budget(setup: &Setup, tokens: Option<u64>, cost_usd: Option<f64>) -> Budget {
    let config = &setup.config.budget;
    let narrow = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    Budget {
        iterations: config.iterations.map(narrow),
        attempts: None,
        tokens: tokens.or(config.tokens),
        cost_usd: cost_usd.or(config.cost),
        wall: config.wall,
        consecutive_failures: config.failures.map(narrow),
    }
}

/// Finds the agent of every role before the first of them runs.
fn launches(setup: &Setup, cast: &[Role]) -> Result<Vec<(Role, Launch)>, CliError> {
    let mut launches = Vec::new();
    for role in cast {
        let root = &setup.workspace.root;
        let launch = Launch::prepare(&setup.config, *role, &setup.environment, root)
            .map_err(|error| not_launched(&error))?;
        for warning in launch.warnings() {
            setup.ui.labelled(Tone::Attention, "note", &warning);
        }
        launches.push((*role, launch));
    }
    Ok(launches)
}

fn templates(home: &Utf8Path) -> Result<Prompts, CliError> {
    prompts::load(home).map_err(|problems| {
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        CliError::usage(problems.join("\n")).hint("move a template away to use the built-in one")
    })
}

fn lock(setup: &Setup, state: &State, command: &str) -> Result<RunLock, CliError> {
    let owner = LockOwner::current(command, now());
    RunLock::acquire(&state.run_lock(&setup.home), &owner).map_err(|error| match error {
        LockError::RunHeld { .. } => CliError::usage(error).hint("wait for it or stop it"),
        error => CliError::failed(error),
    })
}
