//! `ralph run`: implements the stories of the PRD, one per run.

use camino::{Utf8Path, Utf8PathBuf};
use ralph_engine::ask::{Answers, AskPerson, Consents, Scripted};
use ralph_engine::files::read_optional;
use ralph_engine::workflow::WorkflowError;
use ralph_engine::workflow::overview::passing_on_branch;
use ralph_engine::workflow::pause::RoundPause;
use ralph_engine::workflow::project::WorkPlace;
use ralph_engine::workflow::stories::{Stories, StoriesOptions};
use ralph_model::goal::exec::IterationCap;
use ralph_model::prd::{PRD_FILE, Prd};
use ralph_model::prompt::PromptKind;
use ralph_model::role::Role;

use super::report::report_stories;
use super::rounds;
use crate::args::GlobalArgs;
use crate::args::build::RunOptions;
use crate::args::goal::RunArgs;
use crate::commands::agent_run::workflow_flags;
use crate::commands::pipeline::settle_dirt;
use crate::commands::start_gates::{FirstGates, gates_first};
use crate::error::CliError;
use crate::exit::Exit;
use crate::render::Tone;
use crate::render::ask::TerminalPerson;
use crate::render::human::plural;
use crate::render::workflow::{Look, WorkflowScreen};
use crate::setup::{OpenProject, Setup, WorkflowRun, current_directory};

const ROLES: [Role; 2] = [Role::Implementer, Role::Verifier];

/// What to implement, and how.
pub(super) struct StoriesJob<'a> {
    /// The maximum number of iterations, and its description.
    pub(super) cap: JobCap,
    pub(super) pause: RoundPause,
    /// The PRD, relative to home.
    pub(super) prd: Utf8PathBuf,
    pub(super) template: Option<Utf8PathBuf>,
    /// The branch given instead of the PRD's; empty for the checked-out one.
    pub(super) branch: Option<String>,
    pub(super) allowed: Vec<String>,
    pub(super) retry: bool,
    pub(super) options: &'a RunOptions,
}

/// The allowed number of iterations.
#[derive(Clone, Copy)]
pub(super) enum JobCap {
    Exactly(u32),
    /// As many as there are failing stories at the start.
    Computed(IterationCap),
}

/// Implements the PRD.
pub(crate) fn run(global: &GlobalArgs, args: &RunArgs) -> Result<Exit, CliError> {
    let lookup = |name: &str| std::env::var(name).ok();
    let template = rounds::prompt(&args.rounds, &lookup);
    let prd = rounds::prd(args.prd.as_deref(), &lookup);
    let cwd = current_directory()?;
    let root = rounds::root_of(template.as_deref(), &cwd)
        .or_else(|| rounds::root_of(prd.as_deref(), &cwd));
    let flags = workflow_flags(&args.run.agent, args.run.in_place);
    let setup = Setup::load_for_goal(global, &flags, root.as_deref())?.trusted(&flags)?;
    setup.require_repository()?;
    setup.require_home()?;
    let mut options = args.run.clone();
    options.stream |= rounds::is_raw(&args.rounds, &lookup);
    let job = StoriesJob {
        cap: match args.max_run_iterations {
            Some(cap) => JobCap::Computed(cap),
            None => JobCap::Exactly(rounds::iterations(args.iterations, &lookup)?),
        },
        pause: rounds::pause(&args.rounds, &lookup)?,
        prd: prd_in_home(&setup, prd.as_deref())?,
        template,
        branch: rounds::branch(args.branch.as_deref(), &lookup)
            .filter(|_| args.run.onto.is_none())
            .or_else(|| args.run.onto.clone()),
        allowed: rounds::allowed_paths(args.allowed_paths.as_deref(), &lookup),
        retry: args.retry,
        options: &options,
    };
    let mut terminal = TerminalPerson::new(setup.ui);
    let otherwise: Option<&mut dyn AskPerson> = Some(&mut terminal);
    let (answers, consents) = (Answers::default(), Consents::default());
    let mut person = Scripted { answers, consents, otherwise, show: Box::new(|_, _| {}) };
    implement(&setup, &job, &mut person)
}

/// Returns the path of the PRD relative to home.
fn prd_in_home(setup: &Setup, named: Option<&Utf8Path>) -> Result<Utf8PathBuf, CliError> {
    let Some(named) = named else { return Ok(PRD_FILE.into()) };
    let places = [setup.workspace.root.join(named), setup.cwd.join(named)];
    let place = places.iter().find(|place| place.is_file()).unwrap_or(&places[0]);
    let real = place.canonicalize_utf8().unwrap_or_else(|_| place.clone());
    let home = setup.home.path.canonicalize_utf8().unwrap_or_else(|_| setup.home.path.clone());
    real.strip_prefix(&home).map(Utf8Path::to_owned).map_err(|_| {
        CliError::usage(format!("the PRD `{named}` is not in Ralph's home, `{}`", setup.home.path))
            .hint("`--home` names the directory that has it")
    })
}

/// Reads the PRD, or explains its errors.
fn read_prd(path: &Utf8Path) -> Result<Prd, CliError> {
    let none = || {
        CliError::usage(format!("`{path}` has no stories"))
            .hint("`ralph exec \"<goal>\"` writes a PRD after an interview")
    };
    let bytes = read_optional(path).map_err(CliError::usage)?.ok_or_else(none)?;
    let prd = Prd::parse(&bytes).map_err(|error| {
        CliError::usage(format!("`{path}` is not a valid PRD\n{error}"))
            .hint("`ralph prd import` converts it, after showing what changes")
    })?;
    if prd.user_stories.is_empty() {
        return Err(none());
    }
    Ok(prd)
}

/// Implements stories until all pass, or until the workflow stops.
pub(super) fn implement(
    setup: &Setup,
    job: &StoriesJob<'_>,
    person: &mut dyn AskPerson,
) -> Result<Exit, CliError> {
    let path = setup.home.path.join(&job.prd);
    let prd = read_prd(&path)?;
    let named = match &job.branch {
        None if !prd.has_valid_branch() => {
            let name = &prd.branch_name;
            return Err(CliError::usage(format!("`{path}`: `{name}` is not a valid branch name"))
                .hint("correct `branchName`, or name another one with --branch"));
        }
        None => Some(prd.branch_name.as_str()),
        Some(name) => Some(name.as_str()).filter(|name| !name.is_empty()),
    };
    let repeated = prd.repeated_ids();
    if !repeated.is_empty() {
        setup.ui.note(&format!("several stories have the id {}", repeated.join(", ")));
    }
    let onto = named.filter(|_| !job.options.in_place);
    let screen = WorkflowScreen::new(setup.ui, Look::of(setup, job.options.stream));
    let OpenProject { mut session, mut project } = setup.open_project(WorkflowRun {
        command: "ralph run",
        roles: &ROLES,
        flags: workflow_flags(&job.options.agent, job.options.in_place),
        place: WorkPlace::Configured { onto },
        budget: setup.budget(job.options.max_tokens, job.options.max_cost),
        no_wait: job.options.no_wait,
        context_limit: job.options.context_limit,
        subscriber: Box::new(screen),
    })?;
    if let Some(template) = &job.template {
        let place = rounds::find_template(setup, template);
        project.use_template(PromptKind::Story, &place).map_err(CliError::usage)?;
    }
    settle_dirt(setup, &session.context, &project, job.options.allow_dirty)?;
    if let Some(branch) = named.filter(|_| project.is_in_place()) {
        let switched = project.check_out(&session.context, &job.prd, branch).map_err(failed)?;
        if switched {
            setup.ui.note(&format!("`{branch}` is checked out"));
        }
    }
    let start = FirstGates { anyway: job.options.anyway, asks: true };
    gates_first(setup, &mut session, &project, start)?;
    let branch = project.run_branch().map_err(failed)?;
    let commits = setup.config.git.commit_home;
    let found = passing_on_branch(&setup.git(), &path, read_prd(&path)?, &branch, commits);
    let (laid, _) = found.map_err(failed)?;
    let (iterations, told) = match job.cap {
        JobCap::Exactly(count) => (count, plural(u64::from(count), "iteration")),
        JobCap::Computed(cap) => {
            let cap = cap.for_run(&laid);
            (cap.iterations, cap.to_string())
        }
    };
    let (failing, total) = (laid.failing().len(), laid.user_stories.len());
    let agent = &session.context.launch(Role::Implementer).choice.name;
    let boundary = session.context.boundary.as_str();
    let text = format!(
        "{}, {failing} failing; {told}; implementer: {agent}; boundary: {boundary}",
        plural(total as u64, "story"),
    );
    setup.ui.labelled(Tone::Active, "start", &text);
    let (allowed, prd) = (job.allowed.clone(), job.prd.clone());
    let options = StoriesOptions { iterations, pause: job.pause, prd, branch, allowed };
    let branch = options.branch.clone();
    let mut stories = Stories::new(&mut session, &mut project, person, options);
    if job.retry {
        stories.renew().map_err(failed)?;
    }
    let ended = stories.run().map_err(failed)?;
    drop(session);
    let siblings = project.siblings_elsewhere().map_err(failed)?;
    report_stories(setup, &path, &branch, &siblings, &ended)
}

fn failed(error: WorkflowError) -> CliError {
    CliError::failed(error).hint("nothing is lost: `ralph run` continues where it stopped")
}
