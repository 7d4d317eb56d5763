//! `ralph agent run`: one supervised run of a prompt, or the same prompt several times.

use std::io::Read;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use ralph_engine::boundary::{BoundaryReport, Found, InForce, in_force};
use ralph_engine::channel::{NoStore, Served};
use ralph_engine::clock::SystemClock;
use ralph_engine::config::FlagValue;
use ralph_engine::files::lock::{LockError, LockOwner, RunLock};
use ralph_engine::launch::{Launch, LaunchError};
use ralph_engine::outbox::Outbox;
use ralph_engine::recover::end_leftovers;
use ralph_engine::run::{RunContext, RunObserver, RunPlace, RunReport};
use ralph_engine::series::{Series, SeriesEnd, SeriesObserver, SeriesPolicy};
use ralph_engine::state::State;
use ralph_engine::wait::RealWaiter;
use ralph_model::policy::budget::Budget;
use ralph_model::policy::limit::{LimitPolicy, LimitWait};
use ralph_model::role::Role;
use ralph_model::run::{RunEnd, RunOutcome, Trouble};
use ralph_proc::sandbox::Support;
use ralph_proc::signal::SignalPipe;
use serde::Serialize;

use super::print_json;
use crate::args::{AgentOptions, AgentRunArgs, GlobalArgs};
use crate::error::CliError;
use crate::exit::Exit;
use crate::render::human::{bytes, count, dollars, duration, local_time, one_line, plural};
use crate::render::live::Live;
use crate::render::{self, Tone, Ui};
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
    for left in left.map_err(CliError::failed)? {
        if left.processes > 0 {
            let count = plural(left.processes as u64, "process");
            let text = format!("ended {count} of run {}", left.run_id);
            setup.ui.labelled(Tone::Attention, "leftovers", &text);
        }
        show_boundary(setup.ui, &left.boundary);
    }
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
    let mut shown = Shown {
        ui: setup.ui,
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

fn not_launched(error: &LaunchError) -> CliError {
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

fn own_program() -> Result<Utf8PathBuf, CliError> {
    let path = std::env::current_exe().map_err(CliError::failed)?;
    Utf8PathBuf::from_path_buf(path)
        .map_err(|_| CliError::usage("the path of `ralph` is not UTF-8"))
}

/// What a person sees of a series.
struct Shown {
    ui: Ui,
    title: String,
    boundary: InForce,
    repeat: u32,
    last: Option<RunReport>,
    /// The wait that was announced, and when its countdown was last told on a plain screen.
    waited: Option<(LimitWait, Duration)>,
}

impl Shown {
    fn announce(&self, launch: &Launch, args: &AgentRunArgs) {
        let model = launch.choice.model.as_deref().map(|model| format!(", {model}"));
        let text = format!(
            "{} as {}{}, boundary: {}",
            launch.choice.name,
            args.role,
            model.unwrap_or_default(),
            self.boundary.as_str()
        );
        self.ui.labelled(Tone::Active, "start", &text);
        for warning in launch.warnings() {
            self.ui.labelled(Tone::Attention, "note", &warning);
        }
    }

    /// What the agent asked for and left.
    fn show_channel_and_outbox(&self, report: &RunReport) {
        let served = report.served;
        if served != Served::default() {
            let text = format!(
                "{} requests accepted, {} refused, {} ignored",
                served.accepted, served.refused, served.ignored
            );
            self.ui.labelled(Tone::Attention, "channel", &text);
        }
        for path in &report.outbox.kept {
            self.ui.labelled(Tone::Faint, "left", path.as_str());
        }
        for left in &report.outbox.not_taken {
            let text = format!("not kept: `{}`: {}", left.name.escape_debug(), left.reason);
            self.ui.labelled(Tone::Attention, "left", &text);
        }
    }

    /// Prints the result and says how to go on.
    fn conclude(self, end: &SeriesEnd, json: bool, agent: &str) -> Result<Exit, CliError> {
        let exit = match end {
            SeriesEnd::Completed => Exit::Done,
            SeriesEnd::Interrupted => Exit::Interrupted,
            SeriesEnd::Failed
            | SeriesEnd::Stuck
            | SeriesEnd::Limited { .. }
            | SeriesEnd::OutOfBudget(_) => Exit::Unfinished,
        };
        match end {
            SeriesEnd::Stuck => {
                render::important("the same trouble three times in a row; giving up");
            }
            SeriesEnd::OutOfBudget(budget) => render::important(&format!("stopped: {budget}")),
            SeriesEnd::Limited { wait } => {
                let until = local_time(wait.until, now());
                render::important(&format!("{agent} is at its usage limit until about {until}"));
            }
            SeriesEnd::Interrupted => {
                let session = self.last.as_ref().and_then(|report| report.facts.session.clone());
                let how = session.map(|session| format!("; go on with --resume {session}"));
                render::important(&format!("interrupted{}", how.unwrap_or_default()));
            }
            SeriesEnd::Completed | SeriesEnd::Failed => {}
        }
        let Some(report) = &self.last else { return Ok(exit) };
        if json {
            print_json(&JsonReport::new(report, self.boundary))?;
        } else if let Some(text) = &report.facts.final_message {
            render::machine(text).map_err(CliError::failed)?;
        }
        Ok(exit)
    }
}

impl SeriesObserver for Shown {
    fn begin(&mut self, number: u32, resumed: bool) -> Box<dyn RunObserver> {
        self.waited = None;
        let mut title = self.title.clone();
        if self.repeat > 1 {
            title = format!("{title} {number}/{}", self.repeat);
        }
        if resumed {
            title.push_str(" (resumed)");
        }
        Box::new(Live::start(self.ui, title))
    }

    fn ended(&mut self, report: &RunReport) {
        let (tone, label, what) = describe(report);
        let mut parts = vec![what, duration(report.elapsed)];
        if report.usage.total() > 0 {
            parts.push(format!("{} tokens", count(report.usage.total())));
        }
        if let Some(cost) = report.cost_usd {
            let about = if report.cost_is_estimate { "about " } else { "" };
            parts.push(format!("{about}{}", dollars(cost)));
        }
        if report.facts.tool_calls > 0 {
            parts.push(plural(report.facts.tool_calls, "tool call"));
        }
        if report.leftovers > 0 {
            parts.push(format!(
                "{} left behind and ended",
                plural(report.leftovers as u64, "process")
            ));
        }
        self.ui.labelled(tone, label, &parts.join(", "));
        show_boundary(self.ui, &report.boundary);
        let log = format!("{} ({})", report.logs.stdout, bytes(report.stdout_bytes));
        self.ui.labelled(Tone::Faint, "log", &log);
        self.show_channel_and_outbox(report);
        self.last = Some(report.clone());
    }

    fn waiting(&mut self, wait: LimitWait, left: Duration) {
        let announced = self.waited.map(|(_, told)| told);
        let text = format!(
            "usage limit: waiting until {} ({} left); Ctrl-C stops, and the next start goes on waiting",
            local_time(wait.until, now()),
            duration(left)
        );
        if self.ui.rich {
            render::redraw(&text);
        } else if announced.is_none_or(|told| told.saturating_sub(left) >= Duration::from_mins(5)) {
            self.ui.labelled(Tone::Attention, "wait", &text);
            self.waited = Some((wait, left));
        }
    }

    fn pausing(&mut self, left: Duration) {
        if self.ui.rich {
            render::redraw(&format!("trying again in {}", duration(left)));
        }
    }
}

/// Says what a run changed that it was to leave alone, and what became of it.
fn show_boundary(ui: Ui, boundary: &BoundaryReport) {
    let list = |found: &[Found]| {
        let names: Vec<&str> = found.iter().take(5).map(|found| found.path.as_str()).collect();
        let more = found.len().saturating_sub(5);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{}{more}", names.join(", "))
    };
    for (tone, what, found) in [
        (Tone::Bad, "changed, and must not be:", &boundary.violations),
        (Tone::Attention, "put back:", &boundary.put_back),
        (Tone::Bad, "not put back:", &boundary.left),
        (Tone::Faint, "yours, and kept:", &boundary.kept),
    ] {
        if !found.is_empty() {
            ui.labelled(tone, "boundary", &format!("{what} {}", list(found)));
        }
    }
    if let Some(directory) = &boundary.saved_in {
        let commit = boundary.displaced.as_ref().map(|name| format!(" and {name}"));
        let text = format!("what was undone is in {directory}{}", commit.unwrap_or_default());
        ui.labelled(Tone::Faint, "boundary", &text);
    }
}

fn describe(report: &RunReport) -> (Tone, &'static str, String) {
    match &report.outcome {
        RunOutcome::Completed => (Tone::Good, "done", "completed".to_owned()),
        RunOutcome::TimedOut { idle: true, after } => {
            (Tone::Bad, "timeout", format!("no progress for {}", duration(*after)))
        }
        RunOutcome::TimedOut { idle: false, after } => {
            (Tone::Bad, "timeout", format!("longer than {}", duration(*after)))
        }
        RunOutcome::ContextFull => (Tone::Bad, "context", "the context was full".to_owned()),
        RunOutcome::Violation { .. } => {
            (Tone::Bad, "boundary", "it changed what its role must not change".to_owned())
        }
        RunOutcome::Interrupted => (Tone::Attention, "stopped", "interrupted".to_owned()),
        RunOutcome::Trouble { trouble: Trouble::UsageLimit { resets_at } } => {
            let until = resets_at.map(|at| format!(", which resets at {}", local_time(at, now())));
            let text = format!("the usage limit was hit{}", until.unwrap_or_default());
            (Tone::Attention, "limit", text)
        }
        RunOutcome::Trouble { trouble } => {
            (Tone::Bad, "trouble", one_line(&trouble.to_string(), 200))
        }
    }
}

/// The report for machines.
#[derive(Serialize)]
struct JsonReport<'a> {
    run: &'a str,
    boundary: InForce,
    outcome: &'a RunOutcome,
    end: &'a RunEnd,
    exit: Option<ralph_model::run::Exit>,
    session: Option<&'a str>,
    model: Option<&'a str>,
    usage: ralph_model::usage::Usage,
    cost_usd: Option<f64>,
    cost_is_estimate: bool,
    duration_ms: u128,
    cpu_ms: u128,
    tool_calls: u64,
    leftovers: usize,
    changes: &'a BoundaryReport,
    final_message: Option<&'a str>,
    log: &'a Utf8Path,
    stderr_log: &'a Utf8Path,
    events: &'a Utf8Path,
    requests: JsonRequests,
    outbox: &'a [Utf8PathBuf],
}

/// What the agent asked for.
#[derive(Serialize)]
struct JsonRequests {
    accepted: usize,
    refused: usize,
    ignored: usize,
}

impl<'a> JsonReport<'a> {
    fn new(report: &'a RunReport, boundary: InForce) -> JsonReport<'a> {
        JsonReport {
            run: report.id.as_str(),
            boundary,
            outcome: &report.outcome,
            end: &report.end,
            exit: report.exit,
            session: report.facts.session.as_deref(),
            model: report.facts.model.as_deref(),
            usage: report.usage,
            cost_usd: report.cost_usd,
            cost_is_estimate: report.cost_is_estimate,
            duration_ms: report.elapsed.as_millis(),
            cpu_ms: report.cpu.as_millis(),
            tool_calls: report.facts.tool_calls,
            leftovers: report.leftovers,
            changes: &report.boundary,
            final_message: report.facts.final_message.as_deref(),
            log: &report.logs.stdout,
            stderr_log: &report.logs.stderr,
            events: &report.logs.events,
            requests: JsonRequests {
                accepted: report.served.accepted,
                refused: report.served.refused,
                ignored: report.served.ignored,
            },
            outbox: &report.outbox.kept,
        }
    }
}
