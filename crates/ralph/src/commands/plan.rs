//! `ralph task`, `ralph issue`, `ralph set-spec`: changes to the plan.
//!
//! Inside a run they are requests to its harness. Outside a run they are a person's decision: no evidence, no gates.

use camino::{Utf8Path, Utf8PathBuf};
use ralph_engine::boundary::repositories;
use ralph_engine::channel::{CHANNEL_TIMEOUT, ChannelError, ask};
use ralph_engine::clock::SystemClock;
use ralph_engine::files::read_optional;
use ralph_engine::journal::record_persons_change;
use ralph_engine::plan_file::past::Past;
use ralph_engine::plan_file::{PLAN_FILE, PlanFileError};
use ralph_engine::workflow::home_committer::HomeCommitter;
use ralph_model::channel::MutationRequest;
use ralph_model::plan::view::{PrioritizedView, TaskView};
use ralph_model::plan::{DoneAt, Plan, PlanError, WishError};
use serde::Serialize;

use super::build::find_spec;
use super::{as_json, print_json, query};
use crate::args::GlobalArgs;
use crate::args::plan::{IssueCommand, QueryArgs, QueryWhat, SetSpecArgs, TaskCommand};
use crate::error::{CliError, chain};
use crate::exit::Exit;
use crate::render;
use crate::setup::{Setup, now};

#[derive(Serialize)]
struct JsonReply<'a> {
    accepted: bool,
    message: &'a str,
}

pub(crate) fn task(global: &GlobalArgs, command: &TaskCommand) -> Result<Exit, CliError> {
    run(
        global,
        match command.clone() {
            TaskCommand::Add { task } => MutationRequest::TaskAdd { task: spoken(task)? },
            TaskCommand::Done { id, no_change } => MutationRequest::TaskDone { id, no_change },
            TaskCommand::Accept { ids } => MutationRequest::TaskAccept { ids },
            TaskCommand::Reject { id_or_reason, reason } => match reason {
                Some(reason) => MutationRequest::TaskReject { id: Some(id_or_reason), reason },
                None => MutationRequest::TaskReject { id: None, reason: id_or_reason },
            },
            TaskCommand::Delete { id } => MutationRequest::TaskDelete { id },
            TaskCommand::Prioritize => MutationRequest::TaskPrioritize,
            TaskCommand::Show { id } => MutationRequest::TaskShow { id },
        },
    )
}

pub(crate) fn issue(global: &GlobalArgs, command: &IssueCommand) -> Result<Exit, CliError> {
    run(
        global,
        match command.clone() {
            IssueCommand::List => {
                let args = QueryArgs { what: Some(QueryWhat::Issues), table: !global.json };
                return query::run(global, &args);
            }
            IssueCommand::Add { description } => {
                MutationRequest::IssueAdd { description: spoken(description)? }
            }
            IssueCommand::Done { ids } | IssueCommand::DoneIds { ids } => {
                MutationRequest::IssueDone { ids }
            }
            IssueCommand::DoneAll => MutationRequest::IssueDoneAll,
        },
    )
}

pub(crate) fn set_spec(global: &GlobalArgs, args: &SetSpecArgs) -> Result<Exit, CliError> {
    let (spec, cancel_unfinished) = (args.file.clone(), args.yes);
    run(global, MutationRequest::SetSpec { spec, cancel_unfinished })
}

/// Returns the text, or reads it from stdin if it is a dash.
fn spoken(words: String) -> Result<String, CliError> {
    if words != "-" {
        return Ok(words);
    }
    let words = std::io::read_to_string(std::io::stdin().lock())
        .map_err(|error| CliError::usage(format!("stdin cannot be read: {error}")))?;
    match words.trim() {
        "" => Err(CliError::usage("stdin is empty")),
        words => Ok(words.to_owned()),
    }
}

fn run(global: &GlobalArgs, request: MutationRequest) -> Result<Exit, CliError> {
    match channel()? {
        Some(channel) => asked(global, &channel, request),
        None => own_word(global, request),
    }
}

/// Whether new tasks specify their ids.
fn names_ids(request: &MutationRequest) -> bool {
    let MutationRequest::TaskAdd { task } = request else { return false };
    task.trim_start().starts_with(['{', '[']) && task.contains("\"id\"")
}

/// Sends the request to the run's harness.
fn asked(
    global: &GlobalArgs,
    channel: &Utf8Path,
    request: MutationRequest,
) -> Result<Exit, CliError> {
    let reply = ask(channel, request, CHANNEL_TIMEOUT, &SystemClock).map_err(|error| {
        let over = matches!(error, ChannelError::Path(_)) && !channel.exists();
        let error = CliError::failed(error);
        if !over {
            return error;
        }
        error.hint("the run it belonged to has ended; `unset RALPH_CHANNEL` to act as yourself")
    })?;
    if global.json {
        print_json(&JsonReply { accepted: reply.accepted, message: &reply.text })?;
        return Ok(if reply.accepted { Exit::Done } else { Exit::Unfinished });
    }
    if !reply.accepted {
        return Err(CliError::failed(reply.text));
    }
    render::data(&reply.text)?;
    Ok(Exit::Done)
}

/// Makes a person's change: writes it, commits it, and prints the resulting plan, at a terminal as a table.
fn own_word(global: &GlobalArgs, request: MutationRequest) -> Result<Exit, CliError> {
    let setup = Setup::load(global, &[])?;
    setup.require_repository()?;
    setup.require_plan_in_tree()?;
    if let MutationRequest::TaskDone { no_change: Some(_), .. } = &request {
        return Err(CliError::usage("`--no-change` is for agents inside a run")
            .hint("outside a run, `ralph task done` needs no reason"));
    }
    if let MutationRequest::TaskShow { id } = &request {
        return show(&setup, id.as_deref());
    }
    let request = match request {
        MutationRequest::SetSpec { spec, cancel_unfinished } => {
            MutationRequest::SetSpec { spec: find_spec(&setup, &spec)?, cancel_unfinished }
        }
        request => request,
    };
    setup.refuse_in_run("a change of the plan outside the channel")?;
    let state = setup.open_bare_state()?;
    let git = &setup.config.git;
    if !git.commit_home {
        HomeCommitter::open(&setup.git(), &setup.home.path, git)
            .prepare()
            .map_err(CliError::failed)?;
    }
    let file = setup.open_plan(&state);
    let done_at = match &request {
        MutationRequest::TaskDone { .. } => {
            file.done_at().map_err(|error| not_made(&error, file.path()))?
        }
        _ => DoneAt::Unborn,
    };
    let as_table = !global.json && render::stdout_is_terminal();
    let mut table = Vec::new();
    let mut state_then = Ok(String::new());
    let made = file.with_context(done_at, |context| {
        file.change_and_commit(|plan| {
            let change = plan.apply(&request, context)?;
            if as_table {
                table = query::table(setup.ui, plan, None);
                return Ok(change);
            }
            state_then = match &request {
                MutationRequest::TaskPrioritize => as_json(&PrioritizedView::of(&change)),
                _ => as_json(&plan.state_view()),
            };
            Ok(change)
        })
    });
    let change = made.map_err(|error| {
        let gap = if is_about_the_past(&error) { file.gap() } else { None };
        not_made(&error, file.path()).hints(gap)
    })?;
    if let Err(problem) = record_persons_change(&state.journal(), now(), &change) {
        setup.ui.note(&format!("not recorded in the journal: {problem}"));
    }
    change.to_string().lines().for_each(|line| setup.ui.line(line));
    if names_ids(&request)
        && let Some(gap) = file.gap()
    {
        setup.ui.note(&format!("an id that you gave may have been used before: {gap}"));
    }
    if let Some(staged) = file.displaced() {
        let name = file.path().strip_prefix(&setup.workspace.root).unwrap_or(file.path());
        setup.ui.note(&format!(
            "the staged version of `{name}` is not in the commit; `git cat-file -p {staged}` prints it"
        ));
    }
    if git.commit_home {
        setup.say_if_outside_git();
    }
    if as_table {
        setup.ui.print(table)?;
    } else {
        render::json(state_then?)?;
    }
    Ok(Exit::Done)
}

/// Whether more of the plan's history could have changed the result.
fn is_about_the_past(error: &PlanFileError) -> bool {
    let PlanFileError::Plan(PlanError::Wish { why, .. }) = error else { return false };
    matches!(why, WishError::UnknownDependency { .. } | WishError::UnknownRelation { .. })
}

/// Explains why the plan at `path` was not changed, and what to do about it.
pub(super) fn not_made(error: &PlanFileError, path: &Utf8Path) -> CliError {
    let stopped = match error {
        PlanFileError::Plan(why @ PlanError::Unreadable { .. }) => return unwritable(why, path),
        // The requested change is impossible for this plan.
        PlanFileError::Plan(why) => CliError::usage(error.to_string()).hints(where_to_look(why)),
        error => CliError::failed(chain(error)),
    };
    stopped.hints(error.hint())
}

/// Returns the command that lists existing items, for an error about a missing one.
fn where_to_look(why: &PlanError) -> Option<&'static str> {
    match why {
        PlanError::UnknownTask { .. } => {
            Some("`ralph query tasks` lists current tasks; `ralph log --all` lists all")
        }
        PlanError::UnknownIssue { .. } => Some("`ralph query issues` lists them"),
        _ => None,
    }
}

/// Explains why the plan at `path` cannot be changed at all.
pub(super) fn unwritable(why: &PlanError, path: &Utf8Path) -> CliError {
    CliError::usage(format!("`{path}`: {why}"))
        .hint("`ralph validate` lists everything that is wrong")
}

/// Shows one task with all its fields, or all tasks.
fn show(setup: &Setup, id: Option<&str>) -> Result<Exit, CliError> {
    #[derive(Serialize)]
    struct Shown<'p> {
        #[serde(flatten)]
        task: TaskView<'p>,
        /// The commit of its work is not an ancestor of the branch.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        orphaned: bool,
    }
    let path = setup.home.path.join(PLAN_FILE);
    let bytes = read_optional(&path).map_err(CliError::usage)?.unwrap_or_default();
    let plan = Plan::parse(&bytes);
    let Some(id) = id else {
        print_json(&plan.state_view())?;
        return Ok(Exit::Done);
    };
    let unknown = || {
        let why = PlanError::UnknownTask { id: id.to_owned() };
        let look = where_to_look(&why);
        CliError::usage(why).hints(look)
    };
    let task = plan.task_view(id).ok_or_else(unknown)?;
    // Work may be in any repository of the workspace.
    let places = repositories(&setup.workspace.root);
    let mut places: Vec<_> = places.into_iter().filter_map(|place| place.worktree).collect();
    places.push(setup.home.path.clone());
    let pasts = places.iter().filter_map(|place| Past::of(&setup.git(), place, None));
    let pasts: Vec<Past> = if task.done_at.is_some() { pasts.collect() } else { Vec::new() };
    let orphaned = match &task.done_at {
        Some(done_at) => !pasts.is_empty() && pasts.iter().all(|past| past.is_orphaned(done_at)),
        None => false,
    };
    print_json(&Shown { task, orphaned })?;
    Ok(Exit::Done)
}

/// Returns the channel of the run that this process belongs to.
pub(super) fn channel() -> Result<Option<Utf8PathBuf>, CliError> {
    let named = std::env::var_os("RALPH_CHANNEL").filter(|path| !path.is_empty());
    let Some(path) = named else { return Ok(None) };
    let path = Utf8PathBuf::try_from(std::path::PathBuf::from(path));
    path.map(Some).map_err(|_| CliError::usage("`RALPH_CHANNEL` is not UTF-8"))
}
