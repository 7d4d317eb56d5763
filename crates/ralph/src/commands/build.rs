//! `ralph build`: runs stages until the plan is complete; `ralph plan <spec>`: turns a spec into tasks.

mod preflight;
mod report;

use std::sync::Arc;

use camino::Utf8Path;
use ralph_engine::plan_file::PlanFile;
use ralph_engine::specs::{SPECS, discover, locate};
use ralph_engine::workflow::build::planning::{BeforeBuild, PlanningEnd};
use ralph_engine::workflow::build::{Build, BuildEnd};
use ralph_engine::workflow::driver::Ended;
use ralph_engine::workflow::project::WorkPlace;
use ralph_model::plan::{Plan, Stage, Unfinished};
use ralph_model::policy::budget::Budget;
use ralph_model::role::Role;
use ralph_model::spec::select::{SelectError, select};

use self::preflight::{Asked, existing, preflight};
use self::report::{declined, report, report_planning};
use super::agent_run::workflow_flags;
use super::pipeline::{note_home_elsewhere, settle_dirt};
use super::plan::{not_made, unwritable};
use super::start_gates::{FirstGates, gates_first};
use crate::args::GlobalArgs;
use crate::args::build::{BuildArgs, PlanArgs, RunOptions};
use crate::error::CliError;
use crate::exit::Exit;
use crate::render::Tone;
use crate::render::human::plural;
use crate::render::workflow::{Look, WorkflowScreen};
use crate::setup::{OpenProject, Setup, WorkflowRun};

const ROLES: [Role; 5] =
    [Role::Planner, Role::Builder, Role::Verifier, Role::Investigator, Role::Decomposer];

/// The default limit of runs.
const MOST_ITERATIONS: u32 = 200;

/// The default number of consecutive failures after which the loop stops.
const MOST_FAILURES: u32 = 3;

/// Applies the options over the configuration, and fills in default limits. Zero means no limit.
fn bounded(configured: Budget, iterations: Option<u32>, failures: Option<u32>) -> Budget {
    let bound = |typed: Option<u32>, configured: Option<u32>, usual: u32| {
        Some(typed.or(configured).unwrap_or(usual)).filter(|most| *most > 0)
    };
    Budget {
        iterations: bound(iterations, configured.iterations, MOST_ITERATIONS),
        consecutive_failures: bound(failures, configured.consecutive_failures, MOST_FAILURES),
        ..configured
    }
}

/// Runs the build loop.
pub(crate) fn build(global: &GlobalArgs, args: &BuildArgs) -> Result<Exit, CliError> {
    let flags = workflow_flags(&args.run.agent, args.run.in_place);
    let setup = Setup::load(global, &flags)?.trusted(&flags)?;
    setup.require_plan_in_tree()?;
    let (spec, iterations) = words(&setup, args)?;
    let configured = setup.budget(args.run.max_tokens, args.run.max_cost);
    let budget = bounded(configured, iterations, args.max_failures);
    let promise = args.completion_promise.as_deref();
    let start = Some(FirstGates { anyway: args.run.anyway, asks: !args.yes });
    let job = Job { options: &args.run, budget, promise, start };
    let end = with_build(&setup, "ralph build", &job, |build, plan, persons| {
        match plan_first(&setup, build, plan, spec.as_deref())? {
            Some(Ended::By(PlanningEnd::Planned { .. })) => {}
            Some(end) => return Ok(Outcome::Planning(end)),
            None => return Ok(Outcome::Declined),
        }
        build.forget_planning_runs();
        if args.retry {
            build.renew().map_err(failed)?;
        }
        if !preflight(&setup, persons, args.yes)? {
            return Ok(Outcome::Declined);
        }
        say_if_spec_is_gone(&setup, plan)?;
        build.run().map(Outcome::Building).map_err(failed)
    })?;
    match end {
        Outcome::Declined => declined(&setup),
        Outcome::Planning(end) => report_planning(&setup, &end),
        Outcome::Building(end) => report(&setup, &end),
    }
}

/// The outcome of `ralph build`.
enum Outcome {
    Declined,
    Planning(Ended<PlanningEnd>),
    Building(Ended<BuildEnd>),
}

/// Plans the named spec if it has no tasks, or the one whose planning was interrupted before it had any; `None` if the
/// person chooses to stop.
fn plan_first(
    setup: &Setup,
    build: &mut Build<'_, '_>,
    plan: &PlanFile,
    spec: Option<&str>,
) -> Result<Option<Ended<PlanningEnd>>, CliError> {
    let bytes = plan.read().map_err(CliError::failed)?;
    let found = Plan::parse(&bytes);
    let before = build.before_build(&found, spec).map_err(CliError::failed)?;
    match (before, spec) {
        (BeforeBuild::GoOnPlanning, _) => return go_on_planning(setup, build, &found).map(Some),
        (BeforeBuild::Plan, Some(spec)) => {
            return match existing(&found, spec, Asked::Person)? {
                None => Ok(None),
                Some(existing) => build.plan_spec(spec, existing).map(Some).map_err(failed),
            };
        }
        (BeforeBuild::SetSpec, Some(spec)) => {
            plan.change_and_commit(|plan| plan.set_spec(spec, Unfinished::Refuse))
                .map_err(|error| not_made(&error, plan.path()))?;
        }
        (_, Some(spec)) if found.stage() == Stage::Complete => {
            setup.ui.note(&format!("`ralph plan {spec}` plans it again"));
        }
        _ => {}
    }
    Ok(Some(Ended::By(PlanningEnd::Planned { tasks: tasks_of(&found) })))
}

/// Counts the tasks of the current spec that still have to be built or verified.
fn tasks_of(plan: &Plan<'_>) -> usize {
    plan.pending().len() + plan.done_tasks().count()
}

/// Resumes interrupted planning. Nothing is asked: that was settled when it began.
fn go_on_planning(
    setup: &Setup,
    build: &mut Build<'_, '_>,
    plan: &Plan<'_>,
) -> Result<Ended<PlanningEnd>, CliError> {
    let kept = match tasks_of(plan) {
        0 => String::new(),
        tasks => format!("; {} so far", plural(tasks as u64, "task")),
    };
    setup.ui.note(&format!("resuming interrupted planning{kept}"));
    build.go_on_planning().map_err(failed)
}

/// Plans a spec, or a goal.
pub(crate) fn plan(global: &GlobalArgs, args: &PlanArgs) -> Result<Exit, CliError> {
    let agent_flags = workflow_flags(&args.run.agent, args.run.in_place);
    let setup = Setup::load_for_goal(global, &agent_flags, None)?.trusted(&agent_flags)?;
    let is_goal = match &args.what {
        Some(what) => is_goal(&setup, args, what),
        None => args.interview.resume,
    };
    if is_goal {
        if args.yes {
            return Err(CliError::usage("`--yes` applies only to specs")
                .hint("use --approve-prd to approve the PRD of a goal"));
        }
        return super::goal::plan(setup, args);
    }
    let interview = &args.interview;
    if interview.resume || interview.approve_prd || interview.answers.is_some() {
        return Err(CliError::usage(
            "`--resume`, `--answers` and `--approve-prd` apply only to goals",
        )
        .hint("add `--goal` if this is a goal"));
    }
    let setup = Setup::load(global, &workflow_flags(&args.run.agent, args.run.in_place))?;
    setup.require_plan_in_tree()?;
    let Some(what) = &args.what else {
        return Err(listed(&setup, CliError::usage("which spec should be planned?")));
    };
    let spec = find_spec(&setup, what).map_err(|error| {
        let is_missing = args.spec || !what.contains(char::is_whitespace);
        error.hints((!is_missing).then_some("`--goal` treats it as a goal"))
    })?;
    setup.ui.labelled(Tone::Active, "plan", &format!("the spec {spec}"));
    let asked = if args.yes {
        Asked::Yes
    } else if args.interview.non_interactive {
        Asked::Nobody
    } else {
        Asked::Person
    };
    let budget = setup.budget(args.run.max_tokens, args.run.max_cost);
    let job = Job { options: &args.run, budget, promise: None, start: None };
    let end = with_build(&setup, "ralph plan", &job, |build, plan, _| {
        let bytes = plan.read().map_err(CliError::failed)?;
        let now = Plan::parse(&bytes);
        if build.planning_under_way().map_err(CliError::failed)?.as_ref() == Some(&spec) {
            return go_on_planning(&setup, build, &now).map(Some);
        }
        match existing(&now, &spec, asked)? {
            None => Ok(None),
            Some(existing) => build.plan_spec(&spec, existing).map(Some).map_err(failed),
        }
    })?;
    match end {
        None => declined(&setup),
        Some(end) => report_planning(&setup, &end),
    }
}

/// Distinguishes a goal from a spec: anything that is not a spec is a goal, except a number or the name of a missing
/// file.
fn is_goal(setup: &Setup, args: &PlanArgs, what: &str) -> bool {
    if args.spec || args.goal {
        return args.goal;
    }
    let names_file = Utf8Path::new(what.trim()).extension() == Some("md");
    let is_number = !what.is_empty() && what.bytes().all(|byte| byte.is_ascii_digit());
    !names_file && !is_number && find_spec(setup, what).is_err()
}

/// The requested work.
struct Job<'a> {
    options: &'a RunOptions,
    budget: Budget,
    promise: Option<&'a str>,
    /// How the gates are tried first; planning alone is not judged by any.
    start: Option<FirstGates>,
}

/// Opens everything and provides the loop, the plan it changes, and the plan in the person's checkout.
fn with_build<T>(
    setup: &Setup,
    command: &str,
    job: &Job<'_>,
    go: impl FnOnce(&mut Build<'_, '_>, &PlanFile, &PlanFile) -> Result<T, CliError>,
) -> Result<T, CliError> {
    let screen = WorkflowScreen::new(setup.ui, Look::of(setup, job.options.stream));
    let OpenProject { mut session, mut project } = setup.open_project(WorkflowRun {
        command,
        roles: &ROLES,
        flags: workflow_flags(&job.options.agent, job.options.in_place),
        place: WorkPlace::Configured { onto: job.options.onto.as_deref() },
        budget: job.budget,
        no_wait: job.options.no_wait,
        context_limit: job.options.context_limit,
        subscriber: Box::new(screen),
    })?;
    let plan = setup.open_plan_in(&session.context.state, project.home());
    let plan = Arc::new(plan.for_runs().map_err(CliError::failed)?);
    let persons = setup.open_plan(&session.context.state);
    let mut plans = vec![&*plan];
    // An unworkable plan in the checkout would not be taken over, so check it as well.
    plans.extend(project.is_checked_out().map_err(failed)?.then_some(&persons));
    for plan in plans {
        let bytes = plan.read().map_err(CliError::failed)?;
        if let Err(why) = Plan::parse(&bytes).workable() {
            return Err(CliError { exit: Exit::Unfinished, ..unwritable(&why, plan.path()) });
        }
    }
    settle_dirt(setup, &session.context, &project, job.options.allow_dirty)?;
    note_home_elsewhere(setup, &project)?;
    if let Some(start) = job.start {
        gates_first(setup, &mut session, &project, start)?;
    }
    let promise = job.promise.map(str::to_owned);
    let mut build = Build::new(&mut session, &mut project, Arc::clone(&plan), promise);
    go(&mut build, &plan, &persons)
}

fn failed(error: ralph_engine::workflow::WorkflowError) -> CliError {
    CliError::workflow(error).hint("nothing is lost: `ralph build` continues where it stopped")
}

/// Separates the spec from the number; 0 means no limit.
fn words(setup: &Setup, args: &BuildArgs) -> Result<(Option<String>, Option<u32>), CliError> {
    let (mut spec, mut number) = (None, None);
    for word in &args.words {
        match word.parse::<u32>() {
            Ok(count) if number.is_none() => number = Some(count),
            _ if spec.is_none() => spec = Some(find_spec(setup, word)?),
            _ => return Err(CliError::usage(format!("unexpected argument `{word}`"))),
        }
    }
    Ok((spec, args.max_iterations.or(number)))
}

/// Finds a spec by path or name; returns its path below `specs/`, or that of another file in the workspace.
pub(super) fn find_spec(setup: &Setup, what: &str) -> Result<String, CliError> {
    let specs = setup.home.path.join(SPECS);
    // A path refers to that file, and not to one of the same name in `specs/`.
    let is_path = [".", "..", "/"].iter().any(|start| Utf8Path::new(what).starts_with(start));
    let named = [specs.join(what), specs.join(format!("{what}.md"))];
    let named = named.into_iter().filter(|_| !is_path);
    let mut elsewhere = None;
    for place in [setup.cwd.join(what)].into_iter().chain(named) {
        if place.extension() != Some("md") || !place.is_file() {
            continue;
        }
        let place = place.canonicalize_utf8().unwrap_or(place);
        let root = specs.canonicalize_utf8().unwrap_or_else(|_| specs.clone());
        if let Ok(inside) = place.strip_prefix(&root) {
            return Ok(inside.to_string());
        }
        elsewhere.get_or_insert(place);
    }
    if let Some(place) = elsewhere {
        return in_workspace(setup, &place);
    }
    // A numbered spec can be in an area directory, and can be given by its number too.
    if !what.contains(|c: char| c == '/' || c.is_whitespace()) {
        match select(&discover(&specs).specs, what) {
            Ok(spec) => return Ok(spec.to_string()),
            Err(ambiguous @ SelectError::Ambiguous { .. }) => {
                return Err(CliError::usage(ambiguous).hint("use its path"));
            }
            Err(SelectError::Unknown { .. }) => {}
        }
    }
    Err(listed(setup, CliError::usage(format!("spec `{what}` not found in `{specs}`"))))
}

/// Adds the list of existing specs.
fn listed(setup: &Setup, error: CliError) -> CliError {
    let specs = setup.home.path.join(SPECS);
    let mut names: Vec<String> = specs
        .read_dir_utf8()
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.path().extension() == Some("md"))
        .map(|entry| entry.file_name().to_owned())
        .filter(|name| name != "README.md")
        .collect();
    // Numbered specs can be in area directories.
    names.extend(discover(&specs).specs.iter().map(ToString::to_string));
    names.sort();
    names.dedup();
    error.hint(match names.as_slice() {
        [] => "`ralph specs new \"Title\"` creates one".to_owned(),
        names => format!("specs: {}", names.join(", ")),
    })
}

/// Warns that agents will not see the spec; they build and verify only what the tasks say.
fn say_if_spec_is_gone(setup: &Setup, plan: &PlanFile) -> Result<(), CliError> {
    let bytes = plan.read().map_err(CliError::failed)?;
    let Some(spec) = Plan::parse(&bytes).spec().map(str::to_owned) else { return Ok(()) };
    let place = locate(&setup.home.path, &setup.workspace.root, &spec);
    if !place.is_file() {
        let told =
            format!("the plan's spec `{place}` is missing; agents get only its name and its tasks");
        setup.ui.note(&told);
    }
    Ok(())
}

/// Returns the name of a spec outside `specs/`, such that every reader of the plan finds it.
fn in_workspace(setup: &Setup, place: &Utf8Path) -> Result<String, CliError> {
    let (home, root) = (&setup.home.path, &setup.workspace.root);
    let specs = home.join(SPECS);
    let real_root = root.canonicalize_utf8().unwrap_or_else(|_| root.clone());
    let Ok(name) = place.strip_prefix(&real_root) else {
        return Err(CliError::usage(format!("`{place}` is not inside `{root}`"))
            .hint(format!("copy it to `{specs}`")));
    };
    if specs.join(name).is_file() {
        return Err(CliError::usage(format!("`{specs}` already has a different `{name}`"))
            .hint("rename one of them"));
    }
    Ok(name.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_that_nobody_bounds_is_bounded() {
        let table = [
            (None, None, Some(200)),
            (Some(7), None, Some(7)),
            (None, Some(8), Some(8)),
            (Some(7), Some(8), Some(7)),
            (Some(0), Some(8), None),
            (None, Some(0), None),
        ];
        for (typed, iterations, expected) in table {
            let configured = Budget { iterations, ..Budget::default() };
            let budget = bounded(configured, typed, None);
            assert_eq!(budget.iterations, expected, "{typed:?} over {iterations:?}");
            assert_eq!(budget.consecutive_failures, Some(3));
        }
    }
}
