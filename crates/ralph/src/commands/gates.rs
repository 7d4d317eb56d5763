//! `ralph gates`: lists the gates, or runs them as the harness does.

use std::path::PathBuf;

use camino::{Utf8Path, Utf8PathBuf};
use ralph_engine::boundary::{self, InForce, enforce};
use ralph_engine::clock::SystemClock;
use ralph_engine::gates::assess::{Assessor, Extent, GateFinding, Points};
use ralph_engine::gates::pin::PinnedGates;
use ralph_engine::gates::{ChecksRequest, GateContext, GateError, GateRepository};
use ralph_engine::git::Oid;
use ralph_engine::home::{WorkspaceKind, settings_files};
use ralph_engine::recover::end_leftovers;
use ralph_engine::run::RunResources;
use ralph_engine::session::OpenState;
use ralph_model::checks::{ChangedCheck, OverlayFinding};
use ralph_model::gate::{Attribution, GateRun};
use ralph_model::proof::ProofLevel;
use ralph_model::receipt::Caches;
use ralph_proc::signal::SignalPipe;
use serde::Serialize;

use super::print_either;
use crate::args::{GatesCommand, GatesRunArgs, GlobalArgs};
use crate::error::{CliError, TRUST_HINT};
use crate::exit::Exit;
use crate::render::gates::{GateScreen, argv_text, conclusion};
use crate::render::human::{duration, padded, widest};
use crate::render::text::StyledLine;
use crate::render::{self, Tone, styled};
use crate::setup::Setup;

pub(crate) fn run(global: &GlobalArgs, command: Option<&GatesCommand>) -> Result<Exit, CliError> {
    let setup = Setup::load(global, &[])?.trusted(&[])?;
    if setup.config.gates.is_empty() {
        return Err(CliError::usage("no gates are configured").hint(
            "`ralph init` detects the checks of common projects, or write a [[gate]] in ralph.toml",
        ));
    }
    match command {
        None | Some(GatesCommand::List) => list(&setup),
        Some(GatesCommand::Run(args)) => run_gates(&setup, args),
    }
}

#[derive(Serialize)]
struct ListedGate {
    name: String,
    argv: Vec<String>,
    timeout_ms: u128,
    fast: bool,
    net: bool,
    unix: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    repo: Option<String>,
    paths: Vec<String>,
    /// Where it is configured.
    origin: String,
}

fn list(setup: &Setup) -> Result<Exit, CliError> {
    let entries = setup.config.entries();
    let rows: Vec<ListedGate> = setup
        .config
        .gates
        .iter()
        .map(|gate| {
            let ours = |key: &str| {
                key.strip_prefix("gate.")
                    .and_then(|rest| rest.strip_suffix(".run"))
                    .is_some_and(|name| name == gate.name || name.trim_matches('"') == gate.name)
            };
            let entry = entries.iter().find(|entry| ours(&entry.key));
            ListedGate {
                name: gate.name.clone(),
                argv: gate.run.clone(),
                timeout_ms: gate.timeout.as_millis(),
                fast: gate.fast,
                net: gate.net,
                unix: gate.unix,
                repo: gate.repo.clone(),
                paths: gate.paths.clone(),
                origin: entry.map(|entry| entry.origin.to_string()).unwrap_or_default(),
            }
        })
        .collect();
    print_either(setup.ui, setup.json, &rows, || gate_lines(setup, &rows))?;
    Ok(Exit::Done)
}

fn gate_lines(setup: &Setup, rows: &[ListedGate]) -> Vec<StyledLine> {
    let width = widest(rows.iter().map(|row| row.name.as_str()));
    let rows = rows.iter().zip(&setup.config.gates);
    rows.flat_map(|(row, gate)| {
        let mut notes = vec![format!("at most {}", duration(gate.timeout))];
        for (is, what) in [(row.fast, "fast"), (row.net, "network"), (row.unix, "unix sockets")] {
            notes.extend(is.then(|| what.to_owned()));
        }
        notes.extend(row.repo.as_ref().map(|repo| format!("in {repo}")));
        if !row.paths.is_empty() {
            notes.push(format!("for {}", row.paths.join(" ")));
        }
        let notes = format!("{}; {}", notes.join(", "), row.origin);
        let command = setup.ui.paint(Tone::Strong, &argv_text(&row.argv));
        [
            styled!("{}  {command}", padded(&row.name, width)),
            styled!("{:width$}  {}", "", setup.ui.paint(Tone::Faint, &notes)),
        ]
    })
    .collect()
}

/// The opened resources of a command that runs gates.
pub(super) struct GateRoom {
    open: OpenState,
    place: RunResources,
    signals: SignalPipe,
    pub(super) repository: GateRepository,
    pub(super) boundary: InForce,
}

impl GateRoom {
    /// Opens the repository of the current directory, or the workspace's own, for the configured gates.
    pub(super) fn open(setup: &Setup) -> Result<GateRoom, CliError> {
        GateRoom::open_trusted(setup, &only_repository(setup)?)
    }

    /// Opens it for commands from receipts.
    pub(super) fn open_for_receipts(setup: &Setup) -> Result<GateRoom, CliError> {
        GateRoom::open_at(setup, &only_repository(setup)?)
    }

    /// Opens a repository for the configured gates.
    pub(super) fn open_trusted(setup: &Setup, at: &Utf8Path) -> Result<GateRoom, CliError> {
        if !setup.config.is_trusted() {
            return Err(CliError::person_needed("the gates here are not trusted").hint(TRUST_HINT));
        }
        GateRoom::open_at(setup, at)
    }

    fn open_at(setup: &Setup, at: &Utf8Path) -> Result<GateRoom, CliError> {
        let boundary = enforce(&setup.config).map_err(|error| {
            CliError::usage(error)
                .hint("`boundary = \"auto\"` runs gates unconfined where the kernel cannot enforce")
        })?;
        let mut open = setup.open_state()?;
        open.refuse_in_reach(&setup.workspace, &setup.config)?;
        end_leftovers(&open.state, &mut open.journal, &SystemClock, &setup.environment)
            .map_err(CliError::failed)?;
        let place = RunResources::open(&open.state).map_err(CliError::failed)?;
        let signals = SignalPipe::install().map_err(CliError::failed)?;
        let repository = GateRepository::open(&setup.git(), &open.state, at, &setup.workspace.root)
            .map_err(not_run)?;
        Ok(GateRoom { open, place, signals, repository, boundary })
    }

    pub(super) fn context<'a>(&'a self, setup: &'a Setup, command: &'a str) -> GateContext<'a> {
        GateContext {
            item: None,
            state: &self.open.state,
            place: &self.place,
            environment: &setup.environment,
            pass: &setup.config.env_pass,
            workspace: &setup.workspace.root,
            boundary: self.boundary,
            sandbox: &setup.config.sandbox,
            writable: &setup.config.writable,
            interrupt_grace: setup.config.limits.interrupt_grace,
            terminate_grace: setup.config.limits.terminate_grace,
            log: setup.config.limits.log,
            clock: &SystemClock,
            command,
            signals: Some(&self.signals),
            extent: Extent::All,
            copy: setup.config.copied(),
            slot: None,
            built_in: None,
        }
    }

    /// Resolves a commit name.
    pub(super) fn commit(&self, name: &str) -> Result<Oid, CliError> {
        let found = self.repository.git.resolve(name).map_err(CliError::failed)?;
        // Rejected work of a clone exists only in the mirror.
        let rejected = || self.repository.mirror.git().resolve(name).ok().flatten();
        found
            .or_else(rejected)
            .ok_or_else(|| CliError::usage(format!("`{name}` is not a commit in this repository")))
    }

    /// Updates the mirror from the repository.
    pub(super) fn fill(&self, also: &[Oid]) -> Result<(), CliError> {
        let git = &self.repository.git;
        let there = git.have(also).map_err(CliError::failed)?;
        let also: Vec<Oid> =
            also.iter().zip(there).filter(|(_, there)| *there).map(|(id, _)| id.clone()).collect();
        let filled = self.repository.mirror.fill(git, &also);
        filled.map(|_| ()).map_err(CliError::failed)
    }
}

/// Returns the repositories that the gates apply to: the one of the current directory if that is below the workspace, or
/// all of it, sorted by name.
fn repositories_at(setup: &Setup) -> Result<Vec<Utf8PathBuf>, CliError> {
    setup.require_repository()?;
    if let WorkspaceKind::Repository(repository) = &setup.workspace.kind {
        return Ok(vec![repository.toplevel.clone()]);
    }
    let root = &setup.workspace.root;
    if setup.cwd.canonicalize_utf8().is_ok_and(|path| path.starts_with(root) && path != *root) {
        return Ok(vec![setup.cwd.clone()]);
    }
    let found = boundary::repositories(&setup.workspace.root).into_iter();
    let mut places: Vec<Utf8PathBuf> = found.filter_map(|place| place.worktree).collect();
    places.sort();
    Ok(places)
}

/// Returns the repository of the current directory, or the workspace's own.
fn only_repository(setup: &Setup) -> Result<Utf8PathBuf, CliError> {
    let mut places = repositories_at(setup)?;
    match (places.pop(), places.is_empty()) {
        (Some(at), true) => Ok(at),
        _ => Err(CliError::usage("this workspace is a directory of repositories")
            .hint("run the command inside one of them")),
    }
}

/// Explains why gates could not run.
pub(super) fn not_run(error: GateError) -> CliError {
    match error {
        GateError::Lock(_) => CliError::failed(error).hint("wait for it to finish, or stop it"),
        GateError::Checkout(_) | GateError::NoSuchCommit { .. } => CliError::usage(error),
        error => CliError::failed(error),
    }
}

/// A repository with the gates to run in it.
struct RepositoryGates {
    at: Utf8PathBuf,
    pinned: PinnedGates,
    /// Its name, if there are several.
    name: Option<String>,
}

/// Returns the repositories that have gates, with theirs.
fn gates_at(setup: &Setup, chosen: &PinnedGates) -> Result<Vec<RepositoryGates>, CliError> {
    let places = repositories_at(setup)?;
    let has_several = places.len() > 1;
    let gates = |at: Utf8PathBuf| {
        let mut pinned = chosen.clone();
        let name = at.strip_prefix(&setup.workspace.root).unwrap_or(&at).to_string();
        if has_several {
            pinned.gates.retain(|gate| gate.is_for(&name));
        }
        let name = has_several.then_some(name);
        (!pinned.gates.is_empty() || !has_several).then_some(RepositoryGates { at, pinned, name })
    };
    Ok(places.into_iter().filter_map(gates).collect())
}

fn show_repository(setup: &Setup, gates: &RepositoryGates) {
    if let Some(name) = &gates.name {
        setup.ui.labelled(Tone::Strong, "repository", name);
    }
}

fn run_gates(setup: &Setup, args: &GatesRunArgs) -> Result<Exit, CliError> {
    let mut exit = Exit::Done;
    for gates in &gates_at(setup, &chosen(setup, &args.gates)?)? {
        show_repository(setup, gates);
        match run_in(setup, args, &gates.at, &gates.pinned)? {
            Exit::Done => {}
            Exit::Interrupted => return Ok(Exit::Interrupted),
            other => exit = other,
        }
    }
    Ok(exit)
}

/// Runs gates in one repository; one JSON document for each.
fn run_in(
    setup: &Setup,
    args: &GatesRunArgs,
    at: &Utf8Path,
    pinned: &PinnedGates,
) -> Result<Exit, CliError> {
    let room = GateRoom::open_trusted(setup, at)?;
    let candidate = room.commit(&args.commit)?;
    let base = args.base.as_deref().map(|base| room.commit(base)).transpose()?;
    let ids: Vec<Oid> = [&candidate].into_iter().chain(&base).cloned().collect();
    room.fill(&ids)?;
    let changed = match &base {
        Some(base) if args.gates.is_empty() => Some(changed(&room, base, &candidate)?),
        _ => None,
    };
    let own = own_paths(setup);
    let context = room.context(setup, "ralph gates run");
    let screen = GateScreen::start(setup.ui, candidate.as_str(), room.boundary);
    let points = Points {
        candidate: &candidate,
        base: base.as_ref(),
        changed: changed.as_deref(),
        extent: Extent::All,
        checks: Some(ChecksRequest { branch: None, own: &own, allow: &pinned.allow }),
    };
    let assessed = Assessor::open(&context, &room.repository, pinned)
        .and_then(|mut assessor| assessor.assess(&points, &mut screen.tell()));
    let assessment = match assessed {
        Ok(assessment) => assessment,
        Err(GateError::Interrupted) => {
            render::important("interrupted; all gate processes have ended");
            return Ok(Exit::Interrupted);
        }
        Err(error) => return Err(not_run(error)),
    };
    screen.conclude(&assessment, base.is_some());
    let value = JsonRun {
        commit: candidate.as_str(),
        base: base.as_ref().map(Oid::as_str),
        boundary: room.boundary,
        gates: assessment.findings.iter().map(JsonGate::new).collect(),
        unconcerned: &assessment.unconcerned,
        checks: JsonChecks {
            changed: &assessment.checks.changed,
            hints: &assessment.checks.hints,
            overlay: assessment.checks.overlay.as_ref(),
            holds: assessment.checks.holds(),
        },
        caches: assessment.caches(),
        level: assessment.level(),
    };
    print_either(setup.ui, setup.json, &value, || {
        assessment.findings.iter().map(|finding| conclusion(setup.ui, finding)).collect()
    })?;
    let passed = |finding: &GateFinding| finding.attribution == Attribution::Passed;
    let all_passed = assessment.findings.iter().all(passed) && assessment.checks.asked().is_empty();
    Ok(if all_passed { Exit::Done } else { Exit::Unfinished })
}

/// Runs every gate once at `HEAD`, in every repository, and shows the results; returns whether all passed.
pub(super) fn try_at_head(setup: &Setup, command: &str) -> Result<bool, CliError> {
    let mut all_passed = true;
    for gates in &gates_at(setup, &PinnedGates::of(&setup.config))? {
        show_repository(setup, gates);
        let room = GateRoom::open_trusted(setup, &gates.at)?;
        let candidate = room.commit("HEAD")?;
        room.fill(std::slice::from_ref(&candidate))?;
        let context = room.context(setup, command);
        let screen = GateScreen::start(setup.ui, candidate.as_str(), room.boundary);
        let (base, changed, checks) = (None, None, None);
        let points = Points { candidate: &candidate, base, changed, extent: Extent::All, checks };
        let assessed = Assessor::open(&context, &room.repository, &gates.pinned)
            .and_then(|mut assessor| assessor.assess(&points, &mut screen.tell()));
        let assessment = assessed.map_err(not_run)?;
        screen.conclude(&assessment, false);
        for finding in &assessment.findings {
            setup.ui.important(conclusion(setup.ui, finding));
            all_passed &= finding.attribution == Attribution::Passed;
        }
    }
    Ok(all_passed)
}

/// Returns the selected gates.
fn chosen(setup: &Setup, names: &[String]) -> Result<PinnedGates, CliError> {
    let mut pinned = PinnedGates::of(&setup.config);
    for name in names {
        if !pinned.gates.iter().any(|gate| gate.name == *name) {
            let known: Vec<&str> = pinned.gates.iter().map(|gate| gate.name.as_str()).collect();
            return Err(CliError::usage(format!("gate `{name}` not found"))
                .hint(format!("gates: {}", known.join(", "))));
        }
    }
    if !names.is_empty() {
        pinned.gates.retain(|gate| names.contains(&gate.name));
    }
    Ok(pinned)
}

fn changed(room: &GateRoom, base: &Oid, candidate: &Oid) -> Result<Vec<String>, CliError> {
    let changes =
        room.repository.mirror.git().changes(base, candidate).map_err(CliError::failed)?;
    Ok(changes.iter().map(|change| change.path.to_string_lossy().into_owned()).collect())
}

#[derive(Serialize)]
struct JsonRun<'a> {
    commit: &'a str,
    base: Option<&'a str>,
    boundary: InForce,
    gates: Vec<JsonGate<'a>>,
    unconcerned: &'a [String],
    checks: JsonChecks<'a>,
    caches: Caches,
    level: ProofLevel,
}

#[derive(Serialize)]
pub(super) struct JsonGate<'a> {
    name: &'a str,
    argv: &'a [String],
    #[serde(flatten)]
    attribution: &'a Attribution,
    run: &'a GateRun,
    first: Option<&'a GateRun>,
    at_base: Option<&'a GateRun>,
    log: &'a Utf8Path,
}

impl<'a> JsonGate<'a> {
    pub(super) fn new(finding: &'a GateFinding) -> JsonGate<'a> {
        let run = finding.deciding();
        JsonGate {
            name: &finding.gate.name,
            argv: finding.gate.argv(),
            attribution: &finding.attribution,
            run,
            first: finding.again.as_ref().map(|_| &finding.candidate),
            at_base: finding.base.as_ref(),
            log: Utf8Path::new(&run.output.path),
        }
    }
}

/// The changed checks, and whether the commit passes with those of the base.
#[derive(Serialize)]
struct JsonChecks<'a> {
    changed: &'a [ChangedCheck],
    hints: &'a [String],
    overlay: Option<&'a OverlayFinding>,
    holds: bool,
}

/// Returns Ralph's own paths in the repository: changes to them are neither work nor checks.
pub(super) fn own_paths(setup: &Setup) -> Vec<PathBuf> {
    let root = match &setup.workspace.kind {
        WorkspaceKind::Repository(repository) => &repository.toplevel,
        _ => &setup.workspace.root,
    };
    let home = setup.workspace.home(setup.config.home.as_deref());
    let settings = settings_files(&setup.workspace.root, root);
    let own = settings.iter().chain([&home.path]);
    let inside = own.filter_map(|path| path.strip_prefix(root).ok());
    inside.map(|path| path.as_std_path().to_owned()).collect()
}
