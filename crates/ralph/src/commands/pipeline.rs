//! `ralph pipeline`: plans, implements and verifies specs until they are done.

use std::fmt::Write as _;
use std::io::IsTerminal;

use camino::Utf8Path;
use ralph_engine::session::SessionContext;
use ralph_engine::specs::{self, SPECS};
use ralph_engine::workflow::WorkflowError;
use ralph_engine::workflow::driver::Stop;
use ralph_engine::workflow::pipeline::dry_run::{Forecast, forecast};
use ralph_engine::workflow::pipeline::list::is_built;
use ralph_engine::workflow::pipeline::queue::{PipelineReport, Queue, Selection};
use ralph_engine::workflow::pipeline::store::SpecStore;
use ralph_engine::workflow::pipeline::{Pipeline, PipelineOptions, Skip, SpecEnd};
use ralph_engine::workflow::project::{Project, WorkPlace};
use ralph_model::plan::Plan;
use ralph_model::proof::LandedLevel;
use ralph_model::role::Role;
use ralph_model::spec::name::SpecPath;
use ralph_model::spec::select::{SelectError, select};
use serde::Serialize;

use super::agent_run::workflow_flags;
use super::start_gates::{FirstGates, gates_first};
use super::status::seen_plan;
use super::{print_either, print_json};
use crate::args::GlobalArgs;
use crate::args::pipeline::PipelineArgs;
use crate::error::CliError;
use crate::exit::Exit;
use crate::render::human::{padded, plural, widest};
use crate::render::text::StyledLine;
use crate::render::workflow::{Look, WorkflowScreen, conclude};
use crate::render::{self, Tone, Ui, stop, styled};
use crate::setup::{OpenProject, Setup, WorkflowRun};

const COMMAND: &str = "ralph pipeline";

const ROLES: [Role; 3] = [Role::Planner, Role::Implementer, Role::Verifier];

pub(crate) fn run(global: &GlobalArgs, args: &PipelineArgs) -> Result<Exit, CliError> {
    let flags = workflow_flags(&args.agent, args.in_place);
    let mut setup = Setup::load(global, &flags)?;
    if !args.dry_run {
        setup = setup.trusted(&flags)?;
    }
    let backlog = backlog(&setup)?;
    let chosen = Chosen::of(args, &backlog, setup.config.limits.repeats)?;
    if !args.skip_validation {
        let are_named = matches!(chosen.selection, Selection::Named(_));
        validate(&setup, &chosen.specs, are_named)?;
    }
    if args.dry_run {
        return dry_run(&setup, &chosen);
    }
    let look = Look::of(&setup, args.stream);
    let report = work(&setup, args, &chosen, WorkflowScreen::new(setup.ui, look))?;
    conclude(&setup, &report);
    if setup.json {
        print_json(&JsonReport::new(&report))?;
    }
    Ok(exit_of(&report))
}

/// Finds the specs of this home, and fails if there are problems with them.
pub(super) fn backlog(setup: &Setup) -> Result<Vec<SpecPath>, CliError> {
    setup.require_repository()?;
    setup.require_home()?;
    let directory = setup.home.path.join(SPECS);
    let found = specs::discover(&directory);
    let mut problems = found.problems;
    if !found.specs.is_empty() {
        // A file with such a name affects only itself.
        for problem in problems.extract_if(.., |problem| problem.is_of_a_name()) {
            render::important(&problem.to_string());
        }
    }
    if problems.is_empty() {
        return Ok(found.specs);
    }
    let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let hint = found.specs.is_empty().then_some("`ralph specs new \"Title\"` creates one");
    Err(CliError::usage(problems.join("\n")).hints(hint))
}

/// Looks at what is written in the specs that are to be worked on; one that is done is not read again.
fn validate(setup: &Setup, specs: &[SpecPath], are_named: bool) -> Result<(), CliError> {
    let directory = setup.home.path.join(SPECS);
    let is_open = |spec: &&SpecPath| !directory.join(spec.done()).exists();
    let open: Vec<SpecPath> = specs.iter().filter(is_open).cloned().collect();
    let mut problems = specs::validate(&directory, &open);
    // Drafts are passed over, unless they were asked for.
    if !are_named {
        problems.retain(|problem| !problem.is_draft());
    }
    if problems.is_empty() {
        return Ok(());
    }
    let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
    Err(CliError::usage(problems.join("\n")))
}

/// The person's selection, resolved to existing specs.
pub(super) struct Chosen {
    options: PipelineOptions,
    selection: Selection,
    specs: Vec<SpecPath>,
    validate: bool,
}

impl Chosen {
    pub(super) fn of(
        args: &PipelineArgs,
        backlog: &[SpecPath],
        repeats: u32,
    ) -> Result<Chosen, CliError> {
        let find =
            |typed: &String| select(backlog, typed).cloned().map_err(|error| not_selected(&error));
        let all = |typed: &[String]| typed.iter().map(find).collect::<Result<Vec<_>, _>>();
        let mut named = all(&args.specs)?;
        named.sort();
        named.dedup();
        let forced = all(&args.force)?;
        let to = args.to.as_ref().map(find).transpose()?;
        let selection =
            if named.is_empty() { Selection::All { to } } else { Selection::Named(named.clone()) };
        let specs = selection.among(|| backlog.to_vec());
        if let Some(spec) = forced.iter().find(|spec| !specs.contains(spec)) {
            return Err(CliError::usage(format!(
                "`{spec}` is forced, but not among the specs to work on"
            )));
        }
        let options = PipelineOptions {
            magic_phrase: args.magic_phrase.trim().to_owned(),
            max_attempts: args.max_attempts,
            repeats,
            keep_going: args.keep_going,
            forced,
            renewed: if args.retry { specs.clone() } else { named },
        };
        if options.magic_phrase.is_empty() {
            return Err(CliError::usage("the magic phrase is empty"));
        }
        Ok(Chosen { options, selection, specs, validate: !args.skip_validation })
    }
}

pub(super) fn not_selected(error: &SelectError) -> CliError {
    CliError::usage(error.to_string()).hint("`ralph specs` lists them")
}

fn dry_run(setup: &Setup, chosen: &Chosen) -> Result<Exit, CliError> {
    let store = SpecStore::seen_through(&setup.home.path, setup.overlay()?);
    let (mut rows, mut exit) = (Vec::new(), Exit::Done);
    let plan = seen_plan(setup).unwrap_or_default();
    let plan = Plan::parse(&plan);
    let board = setup.board()?;
    for spec in &chosen.specs {
        if let Some(reason) =
            skipped(setup, chosen, &store, spec, &plan)?.and_then(|skip| skip.reason())
        {
            rows.push(Forecast { spec: spec.to_string(), action: "skip", why: reason });
            continue;
        }
        rows.push(match forecast(&store, spec, &chosen.options, &board) {
            // An unreadable one does not hide the others.
            Err(problem @ WorkflowError::StateFile { .. }) => {
                exit = Exit::Unfinished;
                render::important(&problem.to_string());
                Forecast { spec: spec.to_string(), action: "fail", why: problem.to_string() }
            }
            row => row.map_err(CliError::usage)?,
        });
    }
    print_either(setup.ui, setup.json, &rows, || forecast_lines(setup.ui, &rows))?;
    if !setup.json {
        let specs = plural(rows.len() as u64, "spec");
        setup.ui.labelled(Tone::Attention, "dry-run", &format!("{specs}; nothing was written"));
    }
    Ok(exit)
}

/// Returns why a spec that is not done would be passed over.
fn skipped(
    setup: &Setup,
    chosen: &Chosen,
    store: &SpecStore,
    spec: &SpecPath,
    plan: &Plan,
) -> Result<Option<Skip>, CliError> {
    let problems = specs::validate(&setup.home.path.join(SPECS), std::slice::from_ref(spec));
    let mut drafts = problems.iter().filter(|problem| chosen.validate && problem.is_draft());
    if let Some(draft) = drafts.next() {
        return Ok(Some(Skip::Draft { problem: draft.to_string() }));
    }
    let is_wanted = chosen.selection.names(spec) || chosen.options.forced.contains(spec);
    let state = setup.find_state()?;
    let is_built = || {
        is_built(store, spec, plan, state.as_ref(), &setup.plan_place()).map_err(CliError::failed)
    };
    Ok(if !is_wanted && is_built()? { Some(Skip::Built) } else { None })
}

fn forecast_lines(ui: Ui, rows: &[Forecast]) -> Vec<StyledLine> {
    let width = widest(rows.iter().map(|row| row.spec.as_str()));
    let line = |row: &Forecast| {
        let action = ui.paint(Tone::Attention, row.action);
        styled!("{}  {action:9}  {}", padded(&row.spec, width), row.why)
    };
    rows.iter().map(line).collect()
}

/// Works on the selection.
pub(super) fn work(
    setup: &Setup,
    args: &PipelineArgs,
    chosen: &Chosen,
    screen: WorkflowScreen,
) -> Result<PipelineReport, CliError> {
    let OpenProject { mut session, mut project } = setup.open_project(WorkflowRun {
        command: COMMAND,
        roles: &ROLES,
        flags: workflow_flags(&args.agent, args.in_place),
        place: WorkPlace::Configured { onto: args.onto.as_deref() },
        budget: setup.budget(args.max_tokens, args.max_cost),
        no_wait: args.no_wait,
        context_limit: None,
        subscriber: Box::new(screen),
    })?;
    settle_dirt(setup, &session.context, &project, args.allow_dirty)?;
    note_home_elsewhere(setup, &project)?;
    gates_first(setup, &mut session, &project, FirstGates { anyway: args.anyway, asks: true })?;
    let queue = Queue {
        specs: project.home().join(SPECS),
        selection: chosen.selection.clone(),
        validate: chosen.validate,
    };
    let mut pipeline = Pipeline::new(&mut session, &mut project, &chosen.options);
    pipeline.run(&queue).map_err(|error| {
        CliError::workflow(error)
            .hint(format!("nothing is lost: `{}` continues where it stopped", setup.again(COMMAND)))
    })
}

/// Reports where work lands, and handles uncommitted changes: agents in a clone do not see them; in place the person is
/// asked.
pub(super) fn settle_dirt(
    setup: &Setup,
    context: &SessionContext,
    project: &Project,
    is_allowed: bool,
) -> Result<(), CliError> {
    let dirt = project.dirt(context).map_err(CliError::failed)?;
    if project.is_in_place() {
        setup.ui.note("agents work in place: in this checkout");
        return if is_allowed { Ok(()) } else { ask_about(&dirt) };
    }
    let branches: Vec<String> = project
        .branches()
        .iter()
        .map(|(repository, branch)| match *repository {
            "" => format!("`{branch}`"),
            repository => format!("`{branch}` of {repository}"),
        })
        .collect();
    let mut line = format!("accepted work lands on {}", branches.join(", "));
    // Specs are read from the checkout.
    let home = &setup.home.path;
    let specs = home.strip_prefix(&setup.workspace.root).unwrap_or(home).join(SPECS);
    let left: Vec<&String> =
        dirt.iter().filter(|path| !Utf8Path::new(path).starts_with(&specs)).collect();
    if !left.is_empty() {
        let files = plural(left.len() as u64, "changed file");
        let (are, them) = if left.len() == 1 { ("is", "it") } else { ("are", "them") };
        let names = some_of(&left, 3);
        let _ = write!(
            line,
            "; {files} {are} not part of this run: {names} (commit {them}, or use --in-place)"
        );
    }
    setup.ui.note(&line);
    Ok(())
}

/// Says that changes of the checkout's home have no effect: the branch that work lands on is not checked out.
pub(super) fn note_home_elsewhere(setup: &Setup, project: &Project) -> Result<(), CliError> {
    if project.is_home_elsewhere().map_err(CliError::failed)? {
        let home = &setup.home.path;
        let home = home.strip_prefix(&setup.workspace.root).unwrap_or(home);
        setup.ui.note(&format!("`{home}` is read from that branch, not from your checkout"));
    }
    Ok(())
}

/// Asks whether to continue with uncommitted changes in the tree.
fn ask_about(dirt: &[String]) -> Result<(), CliError> {
    if dirt.is_empty() {
        return Ok(());
    }
    let what = format!("uncommitted changes: {}", some_of(dirt, 10));
    if !std::io::stdin().is_terminal() {
        return Err(CliError::person_needed(what)
            .hint("commit or stash them, or pass --allow-dirty: they are kept and never count as an agent's work"));
    }
    render::important(&what);
    if render::confirm("Continue with uncommitted changes?") {
        return Ok(());
    }
    Err(CliError::declined())
}

/// Lists the first names, and how many more there are.
fn some_of(names: &[impl AsRef<str>], most: usize) -> String {
    let shown: Vec<&str> = names.iter().take(most).map(AsRef::as_ref).collect();
    let more = names.len().saturating_sub(shown.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", shown.join(", "))
}

fn exit_of(report: &PipelineReport) -> Exit {
    let any = |is: &dyn Fn(&SpecEnd) -> bool| report.ends.iter().any(|(_, end)| is(end));
    if any(&|end| *end == SpecEnd::Stopped(Stop::Interrupted)) {
        Exit::Interrupted
    } else if any(&|end| {
        let fine = matches!(end, SpecEnd::Done { .. } | SpecEnd::Skipped(_) | SpecEnd::Removed);
        !fine && !end.is_waiting()
    }) {
        Exit::Unfinished
    } else if any(&SpecEnd::is_waiting) {
        Exit::PersonNeeded
    } else {
        Exit::Done
    }
}

#[derive(Serialize)]
struct JsonReport {
    specs: Vec<JsonSpec>,
    not_reached: usize,
}

#[derive(Serialize)]
struct JsonSpec {
    spec: String,
    result: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    commit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    level: Option<LandedLevel>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl JsonReport {
    fn new(report: &PipelineReport) -> JsonReport {
        let specs = report.ends.iter().map(|(spec, end)| {
            let (commit, level) = match end {
                SpecEnd::Done { commit, level } => (commit.clone(), Some(*level)),
                _ => (None, None),
            };
            let reason = match end {
                SpecEnd::Failed { tries, .. } => tries.last().map(|tried| tried.outcome.clone()),
                SpecEnd::Unusable { problem } => Some(problem.clone()),
                SpecEnd::Stopped(stop) => stop::reason(stop),
                SpecEnd::Skipped(skip) => skip.reason(),
                _ => None,
            };
            JsonSpec { spec: spec.to_string(), result: end.name(), commit, level, reason }
        });
        JsonReport { specs: specs.collect(), not_reached: report.left }
    }
}
