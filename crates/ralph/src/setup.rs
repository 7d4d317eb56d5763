//! From the command line to the working context: workspace, configuration, state. Every command begins here.

use std::io::IsTerminal;

use camino::{Utf8Path, Utf8PathBuf};
use jiff::Timestamp;
use ralph_engine::agent::ADAPTERS;
use ralph_engine::clock::{Clock, SystemClock};
use ralph_engine::config::{ArmedKeys, Config, ConfigError, ConfigRequest, EnvNames, FlagValue};
use ralph_engine::git::commits::Signing;
use ralph_engine::git::{GitProgram, real_directory};
use ralph_engine::home::{Home, Workspace, find_workspace};
use ralph_engine::journal::MirrorReport;
use ralph_engine::plan_file::finished::PlanPlace;
use ralph_engine::plan_file::past::Past;
use ralph_engine::plan_file::{PLAN_FILE, PlanFile};
use ralph_engine::recover::Recovered;
use ralph_engine::run::Environment;
use ralph_engine::session::{
    Locking, OpenState, OpenStateError, Opening, Session, SessionError, SessionRequest,
};
use ralph_engine::state::{State, state_base};
use ralph_engine::subscriber::Subscriber;
use ralph_engine::trust::{Trust, TrustRequest, check_owner};
use ralph_engine::workflow::isolation::overlay::HomeOverlay;
use ralph_engine::workflow::isolation::upkeep::{LandedBranch, waiting};
use ralph_engine::workflow::project::{Opened, Project, WorkPlace};
use ralph_model::board::Board;
use ralph_model::policy::budget::Budget;
use ralph_model::role::Role;
use ralph_proc::tree::ancestors;

use crate::args::{GlobalArgs, LogFormatChoice};
use crate::commands::show_armed;
use crate::error::{CliError, TRUST_HINT};
use crate::notify::Notifying;
use crate::render::agent_run::show_boundary;
use crate::render::gates::argv_text;
use crate::render::human::plural;
use crate::render::{self, Tone, Ui, UiChoice};

/// A workspace as found, whether or not its configuration is valid.
pub(crate) struct Scout {
    pub(crate) ui: Ui,
    /// The current directory.
    cwd: Utf8PathBuf,
    pub(crate) environment: Environment,
    pub(crate) workspace: Workspace,
    pub(crate) config: Result<Config, ConfigError>,
    /// The workspace's settings that need trust; `None` if its configuration is invalid.
    pub(crate) trust: Option<Trust>,
    /// Private state, if judging trust found any.
    state: Option<State>,
    names: EnvNames,
    vouched: bool,
}

impl Scout {
    /// Examines the workspace at `root`, or at the current directory.
    pub(crate) fn look(global: &GlobalArgs, root: Option<&Utf8Path>) -> Result<Scout, CliError> {
        let environment = Environment::inherited(std::env::vars_os());
        Scout::look_with(global, environment, &current_directory()?, root, &[], EnvNames::Own)
    }

    fn look_with(
        global: &GlobalArgs,
        mut environment: Environment,
        cwd: &Utf8Path,
        root: Option<&Utf8Path>,
        flags: &[FlagValue<'_>],
        names: EnvNames,
    ) -> Result<Scout, CliError> {
        let workspace = find_workspace(root, cwd).map_err(|error| {
            let hint = error.hint();
            CliError::usage(error).hints(hint)
        })?;
        environment.find_git(&workspace.root);
        let sudo = environment.text("SUDO_UID");
        check_owner(&workspace, sudo.as_deref()).map_err(|error| {
            let hint = error.hint();
            CliError::usage(error).hints(hint)
        })?;
        let mut all: Vec<FlagValue<'_>> = flags.to_vec();
        if let Some(home) = &global.home {
            all.push(FlagValue { flag: "--home", key: "home", value: home.as_str() });
        }
        all.extend(global.ui.map(|ui| FlagValue {
            flag: "--ui",
            key: "ui.mode",
            value: ui.name(),
        }));
        if global.no_color {
            all.push(FlagValue { flag: "--no-color", key: "ui.color", value: "never" });
        }
        all.extend(global.log_format.map(|format| FlagValue {
            flag: "--log-format",
            key: "log_format",
            value: format.name(),
        }));
        if global.ascii {
            all.push(FlagValue { flag: "--ascii", key: "ui.ascii", value: "true" });
        }
        let looking = Looking { workspace: &workspace, environment: &environment, names, cwd };
        let (config, judged) = looking.load(&all, global.trust)?;
        let (trust, state) = judged.unzip();
        let state = state.flatten();
        let ui = match &config {
            Ok(config) => Ui::new(&config.ui, global.quiet),
            Err(_) => Ui::early(global),
        };
        let (cwd, vouched) = (cwd.to_owned(), global.trust);
        Ok(Scout { ui, cwd, environment, workspace, config, trust, state, names, vouched })
    }

    /// Looks up a program as a run would.
    pub(crate) fn look_up(&self, program: &str) -> Option<Utf8PathBuf> {
        look_up(&self.environment, &self.workspace, program)
    }

    /// Returns a git with the environment of this command.
    pub(crate) fn git(&self) -> GitProgram {
        self.environment.git()
    }

    /// Finds private state without creating any.
    pub(crate) fn find_state(&self) -> Result<Option<State>, CliError> {
        let base = state_base(&|name| self.environment.text(name)).map_err(CliError::usage)?;
        State::find(&base, &self.workspace).map_err(CliError::usage)
    }

    /// Opens private state, creating it if needed.
    pub(crate) fn open_state(&self) -> Result<State, CliError> {
        let named = self.config.as_ref().ok().and_then(|config| config.home.clone());
        let home = self.workspace.home(named.as_deref());
        let Scout { workspace, environment, .. } = self;
        Ok(OpenState::open_bare(workspace, &home, environment, &SystemClock)?.state)
    }
}

/// The trust decision, and private state, if any was found.
type JudgedTrust = (Trust, Option<State>);

/// The context for loading and judging a configuration.
struct Looking<'a> {
    workspace: &'a Workspace,
    environment: &'a Environment,
    names: EnvNames,
    cwd: &'a Utf8Path,
}

impl Looking<'_> {
    /// Loads the configuration. Untrusted settings are not in force in it.
    fn load(
        &self,
        flags: &[FlagValue<'_>],
        vouched: bool,
    ) -> Result<(Result<Config, ConfigError>, Option<JudgedTrust>), CliError> {
        let config = match self.load_with(flags, ArmedKeys::Counted) {
            Ok(config) => config,
            Err(error) => return Ok((Err(error), None)),
        };
        let (trust, state) = self.judge(&config, vouched)?;
        let config = match trust.by {
            Some(_) => Ok(config),
            None => self.load_with(flags, ArmedKeys::Ignored),
        };
        Ok((config, Some((trust, state))))
    }

    fn load_with(&self, flags: &[FlagValue<'_>], armed: ArmedKeys) -> Result<Config, ConfigError> {
        Config::load(&ConfigRequest {
            root: &self.workspace.root,
            cwd: self.cwd,
            env: &|name| variable(self.environment, self.names, name),
            env_names: self.names,
            flags,
            adapters: &adapter_names(),
            armed,
        })
    }

    /// Judges whether the person trusts the armed settings; also returns private state, if there is any.
    fn judge(&self, config: &Config, vouched: bool) -> Result<JudgedTrust, CliError> {
        // Without a location for private state nothing is remembered; commands that need one report that.
        let base = state_base(&|name| self.environment.text(name)).ok();
        let state = base.map(|base| State::find(&base, self.workspace)).transpose();
        let state = state.map_err(CliError::usage)?.flatten();
        let given = self.environment.text("RALPH_TRUST");
        let trust = Trust::judge(&TrustRequest {
            workspace: self.workspace,
            config,
            home: &self.workspace.home(config.home.as_deref()),
            state: state.as_ref(),
            given: given.as_deref(),
            flag: vouched,
        });
        Ok((trust.map_err(CliError::usage)?, state))
    }
}

/// Looks up a variable. Goal-driven commands also accept other loops' display variables.
fn variable(environment: &Environment, names: EnvNames, name: &str) -> Option<String> {
    let value = environment.text(name);
    if names != EnvNames::Goal || name != "RALPH_UI" {
        return value;
    }
    let is_forced = || environment.text("GUM_FORCE").is_some_and(|forced| forced == "1");
    match value.as_deref() {
        Some("gum" | "textual") => Some("rich".to_owned()),
        None | Some("") if is_forced() => Some("rich".to_owned()),
        _ => value,
    }
}

fn look_up(environment: &Environment, workspace: &Workspace, program: &str) -> Option<Utf8PathBuf> {
    let found = environment.find_program(program, workspace.root.as_std_path())?;
    Utf8PathBuf::from_path_buf(found).ok()
}

/// A workspace that is ready for work.
pub(crate) struct Setup {
    pub(crate) ui: Ui,
    pub(crate) json: bool,
    /// The current directory; paths are shown relative to it.
    pub(crate) cwd: Utf8PathBuf,
    pub(crate) environment: Environment,
    pub(crate) workspace: Workspace,
    pub(crate) config: Config,
    pub(crate) home: Home,
    pub(crate) trust: Trust,
    /// Private state, if there was any when this was loaded.
    state: Option<State>,
    names: EnvNames,
    /// The command line declares the workspace trusted.
    vouched: bool,
}

impl Setup {
    /// Returns the branches with accepted work that has to land; unreadable ones are omitted.
    pub(crate) fn waiting_to_land(&self) -> Vec<LandedBranch> {
        waiting(&self.git(), &self.workspace.root).unwrap_or_default()
    }

    /// Finds the workspace and loads its configuration. `flags` are the command's own settings, with the highest
    /// precedence.
    pub(crate) fn load(global: &GlobalArgs, flags: &[FlagValue<'_>]) -> Result<Setup, CliError> {
        let environment = Environment::inherited(std::env::vars_os());
        let (cwd, root) = (current_directory()?, global.root.as_deref());
        let names = EnvNames::Own;
        Setup::of(global.json, Scout::look_with(global, environment, &cwd, root, flags, names)?)
    }

    /// Loads the workspace for a goal-driven command, which accepts more variables. A `root` on the command line takes
    /// precedence over the given one.
    pub(crate) fn load_for_goal(
        global: &GlobalArgs,
        flags: &[FlagValue<'_>],
        root: Option<&Utf8Path>,
    ) -> Result<Setup, CliError> {
        let environment = Environment::inherited(std::env::vars_os());
        let (cwd, root) = (current_directory()?, global.root.as_deref().or(root));
        let names = EnvNames::Goal;
        Setup::of(global.json, Scout::look_with(global, environment, &cwd, root, flags, names)?)
    }

    /// Loads the workspace at `root` as if Ralph had been started there, with this environment.
    pub(crate) fn load_at(
        global: &GlobalArgs,
        environment: Environment,
        root: &Utf8Path,
    ) -> Result<Setup, CliError> {
        let names = EnvNames::Own;
        let scout = Scout::look_with(global, environment, root, Some(root), &[], names)?;
        Setup::of(global.json, scout)
    }

    fn of(json: bool, scout: Scout) -> Result<Setup, CliError> {
        let config = scout.config.map_err(CliError::usage)?;
        let trust = scout.trust.expect("a configuration that can be used was judged");
        let home = scout.workspace.home(config.home.as_deref());
        if let (None, Some(real)) = (trust.by, &trust.strayed_home) {
            let problem = format!("home `{}` is a symbolic link to `{real}`", home.path);
            return Err(CliError::person_needed(problem)
                .hint("`ralph trust --yes` accepts it; --home selects another directory"));
        }
        let Scout { ui, cwd, environment, workspace, state, names, vouched, .. } = scout;
        Ok(Setup {
            ui,
            json,
            cwd,
            environment,
            workspace,
            config,
            home,
            trust,
            state,
            names,
            vouched,
        })
    }

    /// Returns the setup with all of the workspace's settings in force. Untrusted ones are shown and asked about.
    pub(crate) fn trusted(mut self, flags: &[FlagValue<'_>]) -> Result<Setup, CliError> {
        if self.config.is_trusted() {
            return Ok(self);
        }
        if !std::io::stdin().is_terminal() {
            let problem = "this repository's `ralph.toml` and prompt templates are not trusted";
            return Err(CliError::person_needed(problem).hint(TRUST_HINT).hint(format!(
                "without a terminal: --trust, or RALPH_TRUST={}",
                self.trust.digest
            )));
        }
        show_armed(self.ui, &self.trust);
        if !render::confirm("Trust this?") {
            return Err(CliError::declined());
        }
        self.trust.agree(&self.open_bare_state()?).map_err(CliError::failed)?;
        let config = self.looking().load_with(flags, ArmedKeys::Counted);
        self.config = config.map_err(CliError::usage)?;
        Ok(self)
    }

    /// Returns the setup with none of the workspace's settings in force, for untrusted content.
    pub(crate) fn distrusting(mut self) -> Result<Setup, CliError> {
        let config = self.looking().load_with(&[], ArmedKeys::Ignored);
        self.config = config.map_err(CliError::usage)?;
        Ok(self)
    }

    fn looking(&self) -> Looking<'_> {
        let Setup { workspace, environment, names, cwd, .. } = self;
        Looking { workspace, environment, names: *names, cwd }
    }

    /// Returns private state, if it exists by now.
    pub(crate) fn find_state(&self) -> Result<Option<State>, CliError> {
        if self.state.is_some() {
            return Ok(self.state.clone());
        }
        State::find(&self.state_base()?, &self.workspace).map_err(CliError::usage)
    }

    /// Returns a command that continues with the agent that was given to this one.
    pub(crate) fn again(&self, command: &str) -> String {
        let flags = self.config.agent_flags();
        let gap = if flags.is_empty() { "" } else { " " };
        format!("{command}{gap}{}", argv_text(&flags))
    }

    /// Refuses a person-only command in a process that descends from a run, whatever its variables say.
    pub(crate) fn refuse_in_run(&self, what: &str) -> Result<(), CliError> {
        let Some(state) = self.find_state()? else { return Ok(()) };
        match state.run_guarded_by(ancestors).map_err(CliError::failed)? {
            None => Ok(()),
            Some(run) => Err(CliError::usage(format!(
                "{what} is for people and cannot be used inside a run ({run})"
            ))
            .hint("inside a run, use `ralph task` and `ralph issue`")),
        }
    }

    /// Returns a git with the environment of this command.
    pub(crate) fn git(&self) -> GitProgram {
        self.environment.git()
    }

    /// Finds changes to home that have landed or are in flight, and are not in its files yet.
    pub(crate) fn overlay(&self) -> Result<HomeOverlay, CliError> {
        HomeOverlay::look(&self.git(), &self.home.path).map_err(CliError::failed)
    }

    /// Fails outside a repository.
    pub(crate) fn require_repository(&self) -> Result<(), CliError> {
        self.workspace.require_repository().map_err(|error| {
            let hint = error.hint();
            CliError::usage(error).hints(hint)
        })
    }

    /// Fails without a home.
    pub(crate) fn require_home(&self) -> Result<(), CliError> {
        if self.home.exists {
            return Ok(());
        }
        Err(CliError::usage("Ralph is not set up here (no home directory)")
            .hint("run `ralph init`"))
    }

    /// Fails if the plan is excluded by a sparse checkout, instead of treating it as missing.
    pub(crate) fn require_plan_in_tree(&self) -> Result<(), CliError> {
        let path = self.home.path.join(PLAN_FILE);
        let left_out = !path.exists()
            && Past::of(&self.git(), &self.home.path, None).is_some_and(|past| past.is_left_out());
        if !left_out {
            return Ok(());
        }
        let home = self.home.path.strip_prefix(&self.workspace.root).unwrap_or(&self.home.path);
        Err(CliError::usage(format!("`{path}` is excluded by the sparse checkout"))
            .hint(format!("`git sparse-checkout add {home}` restores it")))
    }

    /// Notes that there is no history if home is outside a repository.
    pub(crate) fn say_if_outside_git(&self) {
        let home = &self.home.path;
        // In its usual place no further search is needed.
        let is_inside = self.workspace.git_dir().is_some()
            && real_directory(home).is_some_and(|home| home.starts_with(&self.workspace.root));
        if !is_inside && Past::of(&self.git(), home, None).is_none() {
            let message = format!("`{home}` is not in a git repository: the plan has no history");
            self.ui.note(&message);
        }
    }

    /// Looks up a program as a run would.
    pub(crate) fn look_up(&self, program: &str) -> Option<Utf8PathBuf> {
        look_up(&self.environment, &self.workspace, program)
    }

    /// Reloads the configuration, which a person may have changed since.
    pub(crate) fn reload(&self, flags: &[FlagValue<'_>]) -> Result<Config, ConfigError> {
        let Setup { workspace, environment, names, .. } = self;
        let looking = Looking { workspace, environment, names: *names, cwd: &workspace.root };
        match looking.load(flags, self.vouched) {
            Ok((config, _)) => config,
            // If trust cannot be judged, nothing is trusted.
            Err(_) => looking.load_with(flags, ArmedKeys::Ignored),
        }
    }

    /// Opens this workspace's private state; reports if it had to be recreated.
    pub(crate) fn open_state(&self) -> Result<OpenState, CliError> {
        let Setup { workspace, home, config, environment, .. } = self;
        let mut open = OpenState::open(workspace, home, config, environment, &SystemClock)?;
        open.journal.report_mirror_problem(self.mirror_report());
        self.show_rebuilt(&open);
        Ok(open)
    }

    /// Folds the journal for a report, without leaving anything behind.
    pub(crate) fn board(&self) -> Result<Board, CliError> {
        Ok(OpenState::find_board(&self.workspace, &self.environment)?)
    }

    /// Opens private state for a short command that writes nothing else to home.
    pub(crate) fn open_bare_state(&self) -> Result<State, CliError> {
        if let Some(state) = self.find_state()? {
            return Ok(state);
        }
        let Setup { workspace, home, environment, .. } = self;
        let open = OpenState::open_bare(workspace, home, environment, &SystemClock)?;
        self.show_rebuilt(&open);
        Ok(open.state)
    }

    /// Opens the plan that a workflow changes: in the person's home, or in Ralph's draft of it.
    pub(crate) fn open_plan_in(&self, state: &State, home: &Utf8Path) -> PlanFile {
        if *home == self.home.path {
            return self.open_plan(state);
        }
        let draft = Home { path: home.to_owned(), exists: true };
        PlanFile::open(&self.git(), state, &draft, Signing::Unsigned)
    }

    /// Returns where the plan of the checkout is.
    pub(crate) fn plan_place(&self) -> PlanPlace<'_> {
        PlanPlace {
            program: self.git(),
            home: &self.home.path,
            root: &self.workspace.root,
            branch: None,
        }
    }

    /// Opens the plan of this home, committed and signed as the person configured.
    pub(crate) fn open_plan(&self, state: &State) -> PlanFile {
        let git = &self.config.git;
        let plan = PlanFile::open(&self.git(), state, &self.home, Signing::allowed(git.sign));
        if git.commit_home { plan } else { plan.uncommitted() }
    }

    /// Returns a callback that reports that the mirror of the journal cannot be written.
    pub(crate) fn mirror_report(&self) -> MirrorReport {
        let ui = self.ui;
        Box::new(move |problem| {
            let message = format!("{problem}; continuing without it: {}", problem.source);
            ui.note(&message);
        })
    }

    fn show_rebuilt(&self, open: &OpenState) {
        if let Some(reason) = open.rebuilt {
            self.ui.labelled(Tone::Attention, "state", reason);
        }
    }

    /// Returns the directory of the private state of all workspaces.
    pub(crate) fn state_base(&self) -> Result<Utf8PathBuf, CliError> {
        state_base(&|name| self.environment.text(name))
            .map_err(|error| CliError::usage(error).hint("set HOME or XDG_STATE_HOME"))
    }

    /// Opens everything that a workflow needs, and shows notes about it.
    pub(crate) fn open_project<'a>(
        &'a self,
        run: WorkflowRun<'a>,
    ) -> Result<OpenProject<'a>, CliError> {
        let flags = run.flags;
        let opened = Project::open(
            SessionRequest {
                workspace: &self.workspace,
                home: &self.home,
                config: &self.config,
                environment: &self.environment,
                command: run.command,
                args: arguments(),
                roles: run.roles,
                locking: Locking::Exclusive,
                budget: run.budget,
                wait_for_limits: self.config.limits.wait && !run.no_wait,
                context_limit: run.context_limit,
                reload: Box::new(move || self.reload(&flags)),
                mirror_report: self.mirror_report(),
                subscriber: Notifying::around(
                    run.subscriber,
                    &self.config.notify,
                    self.workspace.root.as_str(),
                ),
            },
            run.place,
        );
        let Opened { session, project, opening } = opened?;
        self.show_opening(&opening);
        Ok(OpenProject { session, project })
    }

    /// Shows notes about the opening of a session.
    pub(crate) fn show_opening(&self, opening: &Opening) {
        if let Some(reason) = opening.rebuilt {
            self.ui.labelled(Tone::Attention, "state", reason);
        }
        for warning in opening.warnings.iter().chain(&opening.budget_notes) {
            self.ui.note(warning);
        }
        show_leftovers(self.ui, &opening.recovered);
    }

    /// The configured budget, overridden by the command line.
    pub(crate) fn budget(&self, tokens: Option<u64>, cost_usd: Option<f64>) -> Budget {
        let config = &self.config.budget;
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
}

/// The command line arguments.
pub(crate) fn arguments() -> Vec<String> {
    std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect()
}

/// The parameters of a workflow.
pub(crate) struct WorkflowRun<'a> {
    pub(crate) command: &'a str,
    pub(crate) roles: &'a [Role],
    pub(crate) flags: Vec<FlagValue<'a>>,
    pub(crate) place: WorkPlace<'a>,
    pub(crate) budget: Budget,
    pub(crate) no_wait: bool,
    pub(crate) context_limit: Option<u64>,
    pub(crate) subscriber: Box<dyn Subscriber>,
}

/// A session with its project.
pub(crate) struct OpenProject<'a> {
    pub(crate) session: Session<'a>,
    pub(crate) project: Project,
}

impl From<SessionError> for CliError {
    fn from(error: SessionError) -> CliError {
        let hint = error.hint();
        let stopped = match error {
            SessionError::Repositories(error) => CliError::failed(*error),
            SessionError::Untrusted => CliError::person_needed(error),
            error if error.is_usage() => CliError::usage(error),
            error => CliError::failed(error),
        };
        stopped.hints(hint)
    }
}

impl From<OpenStateError> for CliError {
    fn from(error: OpenStateError) -> CliError {
        let hint = error.hint();
        CliError::usage(error).hints(hint)
    }
}

/// Reports leftovers of a killed Ralph.
fn show_leftovers(ui: Ui, recovered: &[Recovered]) {
    for left in recovered {
        if left.processes > 0 {
            let count = plural(left.processes as u64, "process");
            let text = format!("ended {count} that run {} had left behind", left.run_id);
            ui.labelled(Tone::Attention, "leftovers", &text);
        }
        for removed in &left.removed_locks {
            ui.note(removed);
        }
        show_boundary(ui, &left.boundary);
    }
}

/// The agents that a configuration can use without defining them.
pub(crate) fn adapter_names() -> Vec<&'static str> {
    ADAPTERS.iter().map(|adapter| adapter.name()).filter(|name| *name != "command").collect()
}

pub(crate) fn current_directory() -> Result<Utf8PathBuf, CliError> {
    let path = std::env::current_dir()
        .map_err(|error| CliError::usage(error).hint("the current directory does not exist"))?;
    Utf8PathBuf::from_path_buf(path).map_err(|path| {
        CliError::usage(format!(
            "the path `{}` is not UTF-8, which Ralph cannot handle",
            path.display()
        ))
    })
}

impl UiChoice {
    const fn name(self) -> &'static str {
        match self {
            UiChoice::Auto => "auto",
            UiChoice::Rich => "rich",
            UiChoice::Plain => "plain",
        }
    }
}

impl LogFormatChoice {
    const fn name(self) -> &'static str {
        match self {
            LogFormatChoice::Json => "json",
            LogFormatChoice::Text => "text",
        }
    }
}

/// The current time, read in one place.
pub(crate) fn now() -> Timestamp {
    SystemClock.now()
}
