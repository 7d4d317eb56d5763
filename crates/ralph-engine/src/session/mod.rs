//! Opening everything that a command needs to run agents: agents found, boundary chosen, state opened and locked.
//!
//! A terminal, a web page and a worker process call the same [`Session::open`]. Nothing here prints: what a person
//! should know about the opening comes back as [`Opening`].

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

/// How a workflow ended that an error ended.
const FAILED: &str = "failed";
pub use open_state::{OpenState, OpenStateError};

/// Reads the configuration again: a person may change gates between two runs.
pub(crate) type Reload<'a> = Box<dyn Fn() -> Result<Config, ConfigError> + 'a>;

/// Whether other workflows of this home are kept out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locking {
    Exclusive,
    /// Agents that only read can run beside others.
    Shared,
}

/// What a session is opened with.
pub struct SessionRequest<'a> {
    pub workspace: &'a Workspace,
    pub home: &'a Home,
    pub config: &'a Config,
    pub environment: &'a Environment,
    /// The command line, shown to other processes that find the lock taken.
    pub command: &'a str,
    /// All that was typed after the program's name.
    pub args: Vec<String>,
    /// The roles whose agents must be there.
    pub roles: &'a [Role],
    pub locking: Locking,
    pub budget: Budget,
    /// Whether to wait for a usage limit to end.
    pub wait_for_limits: bool,
    /// The size of the agents' context, if the person says so.
    pub context_limit: Option<u64>,
    pub reload: Reload<'a>,
    /// Told once if the journal's mirror in home cannot be written.
    pub mirror_report: MirrorReport,
    /// Told all that happens.
    pub subscriber: Box<dyn Subscriber>,
}

/// What stays as it was when the session was opened.
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

/// A command at work: what it was opened with, its journal, and what it has spent.
pub struct Session<'a> {
    pub context: SessionContext,
    pub(crate) budget: Budget,
    pub(crate) spent: Spent,
    /// The parts of the budget of which it was told that they are nearly used up.
    told_near: Vec<Discriminant<BudgetExhausted>>,
    pub(crate) journal: Journal,
    /// How the workflow ended, once it has.
    pub(crate) ending: Option<&'static str>,
    /// What agents may change while they run.
    pub(crate) store: Box<dyn MutationStore>,
    /// The clone that runs work in, if not in the workspace itself.
    pub(crate) slot: Option<RunSlot>,
    /// The gates that are tried before the first run, until that was done.
    pub(crate) start_gates: Option<StartGates>,
    /// Performs runs and waits: this machine, or a simulated one.
    performer: Box<dyn Performer>,
    waiter: Box<dyn Waiter>,
    reload: Reload<'a>,
}

/// What a person should know about the opening of a session.
#[derive(Debug, Default)]
pub struct Opening {
    /// Private state was lost and made anew.
    pub rebuilt: Option<&'static str>,
    /// Settings that have no effect with the chosen agents.
    pub warnings: Vec<String>,
    /// What the budget does not measure.
    pub budget_notes: Vec<String>,
    /// What a killed Ralph left behind.
    pub recovered: Vec<Recovered>,
}

impl<'a> Session<'a> {
    /// Opens a session. What a killed Ralph left running is ended first.
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
        open.refuse_in_workspace(workspace)?;
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

/// Puts private state in order: what a killed Ralph left is ended and compared, what cannot be read is kept aside, and the
/// journal is folded. Returns what was left, and which locks were removed, in words.
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
        // Before a line is appended, which would cut what breaks off.
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

/// Makes durable what an earlier Ralph put into home and did not live to sync: what follows from it is recorded elsewhere,
/// and it must not be gone when the power fails later.
fn sync_home(home: &Utf8Path) -> Result<(), PathError> {
    if !disk::exists(home) {
        return Ok(());
    }
    for directory in STATE_DIRECTORIES {
        sync_directories(&home.join("specs").join(directory))?;
    }
    sync_directory(home)
}

/// Holds this process to what a session works with.
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
    /// Lends what the gates of an item are run with, and a way to record what happens.
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
    /// Records the end of the workflow, also of one that an error ended, and names what was found damaged.
    fn drop(&mut self) {
        let _ = self.tell_damaged();
        if self.journal.has_begun() {
            let how = self.ending.unwrap_or(FAILED).to_owned();
            let _ = self.record(WorkflowEnded { how });
        }
    }
}

impl SessionContext {
    /// Returns the agent that plays a role.
    pub fn launch(&self, role: Role) -> &Launch {
        let found = self.launches.iter().find(|(known, _)| *known == role);
        &found.expect("a session is opened with all roles of its workflow").1
    }

    /// Returns who plays which role, or the one agent that plays them all.
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

    /// Returns the git that sees what this command was started with.
    pub(crate) fn git(&self) -> GitProgram {
        self.environment.git()
    }

    /// What the gates of an item are run with.
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

    /// How usage limits are waited for.
    fn limit_policy(&self) -> LimitPolicy {
        let limits = &self.config.limits;
        LimitPolicy { margin: limits.margin, cap: limits.max_wait, ..LimitPolicy::default() }
    }
}

fn own_program() -> Result<Utf8PathBuf, SessionError> {
    let path = std::env::current_exe().map_err(SessionError::Program)?;
    Utf8PathBuf::from_path_buf(path).map_err(|_| SessionError::ProgramName)
}
