//! Opens everything that a command needs to run agents: resolves agents, chooses the boundary, opens and locks state.
//!
//! A terminal, a web page and a worker process call the same [`Session::open`]. Nothing here prints: notes for the
//! person are returned as [`Opening`].

mod agent_task;
mod error;
mod journaling;
pub(crate) mod machine;
mod open_state;

use std::mem::Discriminant;

use camino::{Utf8Path, Utf8PathBuf};
use ralph_model::board::WorkflowView;
use ralph_model::id::RunId;
use ralph_model::journal::{BudgetLimits, RoleAgent, WorkflowEnded, WorkflowStarted};
use ralph_model::policy::budget::{Budget, BudgetExhausted, Spent};
use ralph_model::policy::limit::LimitPolicy;
use ralph_model::role::Role;
use ralph_model::spec::name::STATE_DIRECTORIES;
use ralph_proc::signal::SignalPipe;

use crate::boundary::{InForce, OwnPlaces, enforce, repositories};
use crate::channel::{MutationStore, NoStore};
use crate::clock::Clock;
use crate::config::{Config, ConfigError};
use crate::files::lock::{LockOwner, RunLock, locked_directory};
use crate::files::{PathError, disk, sync_directories, sync_directory};
use crate::gates::assess::Extent;
use crate::gates::start::StartGates;
use crate::gates::{GateContext, Tell};
use crate::git::GitProgram;
use crate::home::{Home, Workspace};
use crate::journal::{Journal, MirrorReport, ReadJournalError};
use crate::launch::Launch;
use crate::plan_file::finished::PlanPlace;
use crate::recover::{Recovered, end_leftovers, forget_uncompared};
use crate::run::{Environment, Performer, RunResources, RunSlot, fresh_nonce, locks};
use crate::state::State;
use crate::subscriber::Subscriber;
use crate::wait::Waiter;
use machine::Machine;

pub use agent_task::AgentTask;
pub(crate) use agent_task::{TaskContract, TaskFile, TaskOutbox};
pub use error::SessionError;
use open_state::clear_limit;

/// The end of a workflow that failed with an error.
const FAILED: &str = "failed";
pub use open_state::{OpenState, OpenStateError};

/// Reloads the configuration: a person may change gates between two runs.
pub(crate) type Reload<'a> = Box<dyn Fn() -> Result<Config, ConfigError> + 'a>;

/// Whether other workflows of this home are locked out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locking {
    Exclusive,
    /// Read-only agents can run concurrently with others.
    Shared,
}

/// The parameters of a session.
pub struct SessionRequest<'a> {
    pub workspace: &'a Workspace,
    pub home: &'a Home,
    pub config: &'a Config,
    pub environment: &'a Environment,
    /// The command line, shown to other processes that find the lock taken.
    pub command: &'a str,
    /// The command line arguments.
    pub args: Vec<String>,
    /// The roles whose agents must be available.
    pub roles: &'a [Role],
    pub locking: Locking,
    pub budget: Budget,
    /// Whether to wait for a usage limit to end.
    pub wait_for_limits: bool,
    /// The size of the agents' context, if the person sets it.
    pub context_limit: Option<u64>,
    pub reload: Reload<'a>,
    /// Called once if the journal's mirror in home cannot be written.
    pub mirror_report: MirrorReport,
    /// Receives everything that happens.
    pub subscriber: Box<dyn Subscriber>,
}

/// What stays fixed while the session is open.
pub struct SessionContext {
    pub(crate) workspace: Workspace,
    pub(crate) home: Home,
    pub(crate) config: Config,
    pub(crate) environment: Environment,
    pub(crate) command: String,
    pub state: State,
    pub boundary: InForce,
    pub(crate) clock: &'static dyn Clock,
    pub(crate) place: RunResources,
    signals: Option<SignalPipe>,
    program: Utf8PathBuf,
    git_dirs: Vec<Utf8PathBuf>,
    launches: Vec<(Role, Launch)>,
    wait_for_limits: bool,
    context_limit: Option<u64>,
    /// Held until the session ends.
    _lock: Option<RunLock>,
}

/// A running command: its context, its journal, and what it has spent.
pub struct Session<'a> {
    pub context: SessionContext,
    pub(crate) budget: Budget,
    pub(crate) spent: Spent,
    /// The parts of the budget already reported as nearly exhausted.
    told_near: Vec<Discriminant<BudgetExhausted>>,
    pub(crate) journal: Journal,
    /// How the workflow ended, once it has.
    pub(crate) ending: Option<&'static str>,
    /// The target of agents' requests during runs.
    pub(crate) store: Box<dyn MutationStore>,
    /// The clone in which runs work, if not the workspace itself.
    pub(crate) slot: Option<RunSlot>,
    /// The gates to try before the first run, until that is done.
    pub(crate) start_gates: Option<StartGates>,
    /// Performs runs and waits: on this machine, or on a simulated one.
    performer: Box<dyn Performer>,
    waiter: Box<dyn Waiter>,
    reload: Reload<'a>,
}

/// Notes for the person about the opening of a session.
#[derive(Debug, Default)]
pub struct Opening {
    /// Private state was lost and recreated.
    pub rebuilt: Option<&'static str>,
    /// Settings that have no effect with the chosen agents.
    pub warnings: Vec<String>,
    /// What the budget does not measure.
    pub budget_notes: Vec<String>,
    /// Leftovers of a killed Ralph.
    pub recovered: Vec<Recovered>,
}

impl<'a> Session<'a> {
    /// Opens a session. Leftover processes of a killed Ralph are terminated first.
    pub fn open(request: SessionRequest<'a>) -> Result<(Session<'a>, Opening), SessionError> {
        Session::open_on(Machine::this(), request)
    }

    /// Opens a session on a machine.
    pub(crate) fn open_on(
        machine: Machine,
        request: SessionRequest<'a>,
    ) -> Result<(Session<'a>, Opening), SessionError> {
        let Machine { clock, waiter, performer, resources, signals, confine } = machine;
        let SessionRequest { workspace, home, config, environment, .. } = request;
        if !config.is_trusted() {
            return Err(SessionError::Untrusted);
        }
        let mut launches = Vec::new();
        let mut warnings = Vec::new();
        let mut notes = Vec::new();
        for role in request.roles {
            let launch = Launch::prepare(config, *role, environment, &workspace.root)?;
            warnings.extend(launch.warnings());
            for note in launch.check_budget(&request.budget)? {
                if !notes.contains(&note) {
                    notes.push(note);
                }
            }
            launches.push((*role, launch));
        }
        let boundary = enforce(config)?;
        let open = OpenState::open(workspace, home, config, environment, clock)?;
        open.refuse_in_reach(workspace, config)?;
        let OpenState { state, mut journal, rebuilt } = open;
        journal.report_mirror_problem(request.mirror_report);
        let lock = match request.locking {
            Locking::Shared => None,
            Locking::Exclusive => {
                let owner = LockOwner::current(request.command, clock.now())
                    .at(&home.path, state.directory());
                let shared = locked_directory(&home.path);
                Some(RunLock::acquire_with(&state.run_lock(home), Some(&shared), &owner)?)
            }
        };
        let state = if lock.is_some() { state.with_run_lock() } else { state };
        let (recovered, removed) =
            put_in_order(&state, &mut journal, clock, environment, (workspace, home))?;
        warnings.extend(removed);
        if !config.limits.remember {
            let holders = launches.iter().map(|(_, launch): &(Role, Launch)| &launch.limit_holder);
            for holder in holders {
                clear_limit(&mut journal, holder, clock.now())?;
            }
        }
        let id = RunId::new(clock.now(), fresh_nonce().map_err(SessionError::NoId)?);
        let own = disk::own_process();
        let roles = launches.iter().map(|(role, launch): &(Role, Launch)| {
            let (agent, model) = (launch.choice.name.clone(), launch.choice.model.clone());
            (role.to_string(), RoleAgent { agent, model })
        });
        let started = WorkflowStarted {
            id,
            kind: request.command.trim_start_matches("ralph ").to_owned(),
            args: request.args,
            pid: own.pid,
            started: own.start,
            ralph: env!("CARGO_PKG_VERSION").to_owned(),
            budget: BudgetLimits::from(&request.budget),
            roles: roles.collect(),
        };
        journal.attach(clock.now(), started, request.subscriber);
        let place = resources(&state)?;
        if boundary.is_kernel() {
            let on = (workspace, home, config, environment);
            confine_to(confine, &place, on, &state)?;
        }
        let context = SessionContext {
            place,
            signals: signals().map_err(SessionError::Signals)?,
            program: own_program()?,
            git_dirs: workspace.outer_git_dirs(),
            workspace: workspace.clone(),
            home: home.clone(),
            config: config.clone(),
            environment: environment.clone(),
            command: request.command.to_owned(),
            wait_for_limits: request.wait_for_limits,
            context_limit: request.context_limit,
            state,
            boundary,
            clock,
            launches,
            _lock: lock,
        };
        let mut session = Session {
            context,
            budget: request.budget,
            spent: Spent::default(),
            told_near: Vec::new(),
            journal,
            ending: None,
            store: Box::new(NoStore),
            slot: None,
            start_gates: None,
            performer,
            waiter,
            reload: request.reload,
        };
        session.tell_damaged()?;
        Ok((session, Opening { rebuilt, warnings, budget_notes: notes, recovered }))
    }
}

/// Brings private state into order: leftovers of a killed Ralph are terminated and compared, unreadable records are
/// kept aside, and the journal is folded. Returns the leftovers, and descriptions of removed locks.
fn put_in_order(
    state: &State,
    journal: &mut Journal,
    clock: &dyn Clock,
    environment: &Environment,
    (workspace, home): (&Workspace, &Home),
) -> Result<(Vec<Recovered>, Vec<String>), SessionError> {
    let keep_aside =
        |path: &Utf8Path, bytes: &[u8], loss: &str| state.keep_aside(path, bytes, loss);
    if state.holds_run_lock() && !journal.is_whole()? {
        // Before a line is appended, which would truncate a torn tail.
        journal.repair(keep_aside)?;
    }
    let recovered = end_leftovers(state, journal, clock, environment)?;
    let mut removed = Vec::new();
    if state.holds_run_lock() {
        forget_uncompared(state)?;
        for lock in locks::remove_left_of_notes(&repositories(&workspace.root)) {
            removed.push(locks::removed(&lock));
            journal.record(clock.now(), None, locks::removed_note(&lock))?;
        }
    }
    // Only now, with the lock held and everything of earlier workflows recorded.
    let folded = journal.fold();
    if state.holds_run_lock() && folded.as_ref().is_err_and(ReadJournalError::is_damage) {
        journal.repair(keep_aside)?;
        journal.fold().map_err(OpenStateError::Journal)?;
    } else {
        folded.map_err(OpenStateError::Journal)?;
    }
    let was_cut_short =
        |last: &WorkflowView| last.ended.as_ref().is_none_or(|(_, how)| how == FAILED);
    if state.holds_run_lock() && journal.board().workflows().next_back().is_some_and(was_cut_short)
    {
        state.sync_records()?;
        sync_home(&home.path)?;
    }
    Ok((recovered, removed))
}

/// Syncs what an earlier Ralph wrote to home without syncing: other records depend on it, so it must survive a later
/// power failure.
fn sync_home(home: &Utf8Path) -> Result<(), PathError> {
    if !disk::exists(home) {
        return Ok(());
    }
    for directory in STATE_DIRECTORIES {
        sync_directories(&home.join("specs").join(directory))?;
    }
    sync_directory(home)
}

/// Restricts this process to a session's own resources.
fn confine_to(
    confine: machine::Confine,
    place: &RunResources,
    (workspace, home, config, environment): (&Workspace, &Home, &Config, &Environment),
    state: &State,
) -> Result<(), SessionError> {
    let own = OwnPlaces {
        workspace: &workspace.root,
        home: &home.path,
        repositories: place.repositories(&workspace.root),
        state_base: state.base(),
        config,
        env: &|name| environment.text(name),
    };
    confine(place, &own).map_err(SessionError::OwnBounds)
}

impl Session<'_> {
    /// Provides the context for running an item's gates, and a way to record events.
    pub(crate) fn with_gates<T>(
        &mut self,
        item: &str,
        run: impl FnOnce(&GateContext<'_>, Tell<'_>) -> T,
    ) -> T {
        let Session { context, journal, slot, .. } = self;
        let clock = context.clock;
        let slot = slot.as_ref().map(|slot| slot.number);
        run(&GateContext { slot, ..context.gates(item) }, &mut |event| {
            journal.record(clock.now(), None, event)
        })
    }
}

impl Drop for Session<'_> {
    /// Records the end of the workflow, even of a failed one, and reports damaged records.
    fn drop(&mut self) {
        let _ = self.tell_damaged();
        if self.journal.has_begun() {
            let how = self.ending.unwrap_or(FAILED).to_owned();
            let _ = self.record(WorkflowEnded { how });
        }
    }
}

impl SessionContext {
    /// Returns the agent of a role.
    pub fn launch(&self, role: Role) -> &Launch {
        let found = self.launches.iter().find(|(known, _)| *known == role);
        &found.expect("a session is opened with all roles of its workflow").1
    }

    /// Returns the agent of each role, or the single agent of all roles.
    pub(crate) fn agents(&self) -> String {
        let mut names: Vec<&str> =
            self.launches.iter().map(|(_, launch)| launch.choice.name.as_str()).collect();
        names.dedup();
        if let [only] = names.as_slice() {
            return (*only).to_owned();
        }
        let each =
            self.launches.iter().map(|(role, launch)| format!("{role}: {}", launch.choice.name));
        each.collect::<Vec<_>>().join(", ")
    }

    pub(crate) fn home_path(&self) -> &Utf8Path {
        &self.home.path
    }

    /// Returns where the person's plan is.
    pub(crate) fn plan_place<'a>(&'a self, branch: Option<&'a str>) -> PlanPlace<'a> {
        PlanPlace { program: self.git(), home: &self.home.path, root: &self.workspace.root, branch }
    }

    /// Returns a git with the environment of this command.
    pub(crate) fn git(&self) -> GitProgram {
        self.environment.git()
    }

    /// The context for running an item's gates.
    pub(crate) fn gates<'c>(&'c self, item: &'c str) -> GateContext<'c> {
        GateContext {
            item: Some(item),
            state: &self.state,
            place: &self.place,
            environment: &self.environment,
            pass: &self.config.env_pass,
            workspace: &self.workspace.root,
            boundary: self.boundary,
            sandbox: &self.config.sandbox,
            writable: &self.config.writable,
            interrupt_grace: self.config.limits.interrupt_grace,
            terminate_grace: self.config.limits.terminate_grace,
            log: self.config.limits.log,
            clock: self.clock,
            command: &self.command,
            signals: self.signals.as_ref(),
            extent: Extent::UntilRejected,
            copy: &self.config.checkout.copy,
            slot: None,
            built_in: None,
        }
    }

    /// The policy for waiting for usage limits.
    fn limit_policy(&self) -> LimitPolicy {
        let limits = &self.config.limits;
        LimitPolicy { margin: limits.margin, cap: limits.max_wait, ..LimitPolicy::default() }
    }
}

fn own_program() -> Result<Utf8PathBuf, SessionError> {
    let path = std::env::current_exe().map_err(SessionError::Program)?;
    Utf8PathBuf::from_path_buf(path).map_err(|_| SessionError::ProgramName)
}
