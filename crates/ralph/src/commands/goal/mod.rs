//! `ralph plan "<goal>"`: the interview; and the shared parts of the goal-driven commands.

mod exec;
mod prd;
mod report;
mod rounds;
mod run;
mod understand;

use std::io::IsTerminal;

use camino::Utf8Path;
use ralph_engine::ask::{Answers, AnswersError, AskPerson, Consents, Inquiry, NoReply, Scripted};
use ralph_engine::files::read_optional;
use ralph_engine::init::scaffold_home;
use ralph_engine::workflow::WorkflowError;
use ralph_engine::workflow::goal::interview::{Interview, Start};
use ralph_engine::workflow::goal::store::{GoalStore, PrdOnDisk};
use ralph_model::goal::{GoalStage, GoalState};
use ralph_model::role::Role;

pub(crate) use self::exec::exec;
pub(crate) use self::prd::prd;
use self::report::report_interview;
pub(crate) use self::run::run;
pub(crate) use self::understand::understand;
use super::agent_run::workflow_flags;
use crate::args::build::{PlanArgs, RunOptions};
use crate::args::goal::InterviewOptions;
use crate::error::CliError;
use crate::exit::Exit;
use crate::render::Tone;
use crate::render::ask::TerminalPerson;
use crate::render::human::plural;
use crate::render::workflow::{Look, WorkflowScreen};
use crate::setup::{OpenProject, Setup, WorkflowRun};
use ralph_engine::workflow::project::WorkPlace;

/// The commands that resume an interview.
const PLAN_AGAIN: &str = "ralph plan --resume";
const EXEC_AGAIN: &str = "ralph exec --resume";

/// Plans a goal.
pub(crate) fn plan(mut setup: Setup, args: &PlanArgs) -> Result<Exit, CliError> {
    let goal = args.what.as_deref();
    if let Some(goal) = goal {
        setup.ui.labelled(Tone::Active, "plan", &format!("the goal: {goal}"));
    }
    let consents = Consents { prd: args.interview.approve_prd, ..Consents::default() };
    let mut terminal = TerminalPerson::new(setup.ui);
    let mut person = person(&args.interview, consents, &mut terminal)?;
    let Some(start) = prepare(&mut setup, &args.interview, goal, &mut person)? else {
        return Ok(stopped_before(&setup, PLAN_AGAIN));
    };
    let roles = [Role::Interviewer];
    let OpenProject { mut session, project } = open(&setup, "ralph plan", &roles, &args.run)?;
    let mut interview =
        Interview::open(&mut session, &project, &mut person, start).map_err(failed)?;
    let ended = interview.hold().map_err(failed)?;
    let state = interview.into_state();
    drop(session);
    report_interview(&setup, &ended, &state, PLAN_AGAIN)
}

/// Prints how to continue if the person stopped before the interview continued.
fn stopped_before(setup: &Setup, again: &str) -> Exit {
    setup.ui.important(format!("interrupted; `{again}` continues the interview"));
    Exit::Interrupted
}

fn failed(error: WorkflowError) -> CliError {
    CliError::failed(error).hint("nothing is lost: the same command with --resume continues")
}

/// Decides who answers: a file, the person at the terminal, or no one.
fn person<'t>(
    options: &InterviewOptions,
    consents: Consents,
    terminal: &'t mut TerminalPerson,
) -> Result<Scripted<'t>, CliError> {
    let answers = match &options.answers {
        None => Answers::default(),
        Some(path) => read_answers(path)?,
    };
    let show = terminal.shows();
    if options.non_interactive {
        return Ok(Scripted { answers, consents, otherwise: None, show });
    }
    if !std::io::stdin().is_terminal() {
        return Err(CliError::person_needed(
            "an interview needs a terminal for its questions",
        )
        .hint("`--non-interactive` takes answers from `--answers FILE` and consent from the `--approve-…` flags"));
    }
    Ok(Scripted { answers, consents, otherwise: Some(terminal), show })
}

fn read_answers(path: &Utf8Path) -> Result<Answers, CliError> {
    let bytes = read_optional(path).map_err(CliError::usage)?;
    let bytes = bytes.ok_or_else(|| CliError::usage(format!("answers file `{path}` not found")))?;
    let text = String::from_utf8_lossy(&bytes);
    let refused = |error: AnswersError| CliError::usage(format!("`{path}`: {error}"));
    Answers::parse(&text).map_err(refused)
}

/// Selects the interview and prepares home for it; `None` if the person chooses to stop.
fn prepare(
    setup: &mut Setup,
    options: &InterviewOptions,
    goal: Option<&str>,
    person: &mut dyn AskPerson,
) -> Result<Option<Start>, CliError> {
    setup.require_repository()?;
    let store = GoalStore::new(&setup.home.path);
    if let PrdOnDisk::Invalid(error) = store.prd().map_err(CliError::failed)? {
        let path = store.prd_path();
        return Err(CliError::usage(format!("`{path}` is not a valid PRD\n{error}"))
            .hint("`ralph prd import` converts it, after showing what changes"));
    }
    let found = store.interview().map_err(|error| {
        CliError::usage(error).hint("correct the file, or move it away to start over")
    })?;
    let map_was_missing = !store.map_path().exists();
    let start = match choose_start(options, goal, found, person)? {
        None => return Ok(None),
        Some(Start::Begin { goal, instead_of, .. }) => {
            if instead_of.as_ref().is_some_and(|old| !old.is_for(&goal)) {
                setup
                    .ui
                    .note("an interview about another goal was in progress; its state is archived");
            }
            Start::Begin { goal, map_was_missing, instead_of }
        }
        Some(start) => start,
    };
    let made = scaffold_home(&setup.home.path).map_err(|error| {
        let hint = error.hint();
        CliError::usage(error).hints(hint)
    })?;
    if !setup.home.exists {
        setup.ui.labelled(Tone::Good, "created", setup.home.path.as_str());
        setup.home.exists = true;
    } else if !made.is_empty() {
        let names: Vec<&str> = made.iter().filter_map(|path| path.file_name()).collect();
        setup.ui.labelled(Tone::Good, "created", &format!("in home: {}", names.join(", ")));
    }
    Ok(Some(start))
}

/// Decides whether to resume the existing interview or to begin another.
fn choose_start(
    options: &InterviewOptions,
    goal: Option<&str>,
    found: Option<GoalState>,
    person: &mut dyn AskPerson,
) -> Result<Option<Start>, CliError> {
    let begin = |goal: &str, instead_of: Option<GoalState>| {
        let (goal, instead_of) = (goal.trim().to_owned(), instead_of.map(Box::new));
        Some(Start::Begin { goal, map_was_missing: false, instead_of })
    };
    match (goal, found) {
        (None, None) => {
            Err(CliError::usage("no interview in progress")
                .hint("`ralph plan \"<goal>\"` starts one"))
        }
        (None, Some(state)) => Ok(Some(Start::Resume(Box::new(state)))),
        (Some(goal), None) => Ok(begin(goal, None)),
        (Some(goal), Some(state)) if !state.is_for(goal) => {
            if options.resume {
                let message = format!("the interview in progress is about: {}", state.goal);
                return Err(CliError::usage(message).hint(
                    "leave out the goal to continue it, or leave out --resume to start another",
                ));
            }
            Ok(begin(goal, Some(state)))
        }
        (Some(_), Some(state)) if options.resume => Ok(Some(Start::Resume(Box::new(state)))),
        (Some(goal), Some(state)) => {
            let context = [where_it_stands(&state)];
            let inquiry = Inquiry {
                id: "resume",
                context: &context,
                question: "Continue it? (No starts a new one and archives this one.)",
                consent: None,
            };
            match person.confirm(&inquiry, true) {
                Ok(true) => Ok(Some(Start::Resume(Box::new(state)))),
                Ok(false) => Ok(begin(goal, Some(state))),
                Err(NoReply::Interrupted | NoReply::Missing(_)) => Ok(None),
            }
        }
    }
}

fn where_it_stands(state: &GoalState) -> String {
    let answers = state.qa.len();
    match (state.state, state.approved_prd_at) {
        (GoalStage::Done, Some(at)) => {
            format!("The PRD for this goal was approved at {at}.")
        }
        (GoalStage::ReviewPrd, _) => {
            "An interview about this goal is in progress; its draft waits for your review."
                .to_owned()
        }
        _ => format!(
            "An interview about this goal is in progress; it has {answers} of your answers."
        ),
    }
}

/// Opens the session of a command.
fn open<'a>(
    setup: &'a Setup,
    command: &'a str,
    roles: &'a [Role],
    options: &'a RunOptions,
) -> Result<OpenProject<'a>, CliError> {
    let screen = WorkflowScreen::new(setup.ui, Look::of(setup, options.stream));
    let opened = setup.open_project(WorkflowRun {
        command,
        roles,
        flags: workflow_flags(&options.agent, options.in_place),
        place: WorkPlace::Reading,
        budget: setup.budget(options.max_tokens, options.max_cost),
        no_wait: options.no_wait,
        context_limit: options.context_limit,
        subscriber: Box::new(screen),
    })?;
    let context = &opened.session.context;
    let agent = &context.launch(roles[0]).choice.name;
    let text = format!("{}: {agent}; boundary: {}", roles[0], context.boundary.told());
    setup.ui.labelled(Tone::Active, "start", &text);
    let dirt = opened.project.dirt(context).map_err(CliError::failed)?;
    if opened.project.reads_in_clone() && !dirt.is_empty() {
        let files = plural(dirt.len() as u64, "changed file");
        setup.ui.note(&format!("agents will not see {files} of yours (commit, or use --in-place)"));
    }
    Ok(opened)
}
