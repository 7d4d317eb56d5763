//! `ralph query`: prints the plan from its file; inside a run, including the run's changes.
//!
//! Agents and scripts call it often, so it starts no process and creates no file.

use ralph_engine::channel::changed_plan;
use ralph_engine::files::lock::is_owned;
use ralph_engine::files::read_optional;
use ralph_engine::journal::load_board;
use ralph_engine::plan_file::PLAN_FILE;
use ralph_model::plan::view::{IssueView, TaskView};
use ralph_model::plan::{Plan, Status};

use super::plan::channel;
use super::print_json;
use crate::args::GlobalArgs;
use crate::args::plan::{QueryArgs, QueryWhat};
use crate::error::CliError;
use crate::exit::Exit;
use crate::render::human::{one_line, padded, widest};
use crate::render::text::StyledLine;
use crate::render::{self, Tone, Ui, styled};
use crate::setup::Setup;

pub(crate) fn run(global: &GlobalArgs, args: &QueryArgs) -> Result<Exit, CliError> {
    let setup = Setup::load(global, &[])?;
    setup.require_repository()?;
    setup.require_plan_in_tree()?;
    if matches!(args.what, Some(QueryWhat::Iteration)) {
        render::data(&iteration(&setup)?.to_string())?;
        return Ok(Exit::Done);
    }
    let path = setup.home.path.join(PLAN_FILE);
    let bytes = match changed_in_run()? {
        Some(bytes) => bytes,
        None => match setup.overlay()?.file(PLAN_FILE) {
            Some(file) => file.unwrap_or_default().to_vec(),
            None => read_optional(&path).map_err(CliError::usage)?.unwrap_or_default(),
        },
    };
    let plan = Plan::parse(&bytes);
    for problem in plan.document().broken().take(5) {
        setup.ui.labelled(Tone::Attention, "plan", &format!("`{path}`, {problem}"));
    }
    let tells_stage = matches!(args.what, None | Some(QueryWhat::Stage | QueryWhat::Next));
    if tells_stage && plan.certain_stage().is_none() {
        let why = format!("`{path}` has unreadable lines, so the remaining work is unknown");
        return Err(CliError::failed(why).hint("`ralph validate` lists everything that is wrong"));
    }
    if args.table {
        setup.ui.print(table(setup.ui, &plan, args.what.as_ref()))?;
        return Ok(Exit::Done);
    }
    match &args.what {
        None => print_json(&plan.state_view()),
        Some(QueryWhat::Tasks { done: false }) => print_json(&plan.tasks_view()),
        Some(QueryWhat::Tasks { done: true }) => print_json(&plan.done_view()),
        Some(QueryWhat::Issues) => print_json(&plan.issues_view()),
        Some(QueryWhat::Next) => print_json(&plan.next_view()),
        Some(QueryWhat::Stage | QueryWhat::Iteration) => render::data(plan.stage().name()),
    }?;
    Ok(Exit::Done)
}

/// Returns the current iteration of the build loop in this home.
fn iteration(setup: &Setup) -> Result<u32, CliError> {
    // A caller inside a run is part of the loop and must not see private state.
    if setup.environment.text("RALPH_RUN_ID").is_some() {
        let told = setup.environment.text("RALPH_ITERATION");
        return Ok(told.and_then(|number| number.parse().ok()).unwrap_or(0));
    }
    let Some(state) = setup.find_state()? else { return Ok(0) };
    if !is_owned(&state.run_lock(&setup.home)) {
        return Ok(0);
    }
    Ok(load_board(&state.journal()).map_err(CliError::usage)?.iteration())
}

/// Returns the plan including the changes of the run that this process belongs to.
fn changed_in_run() -> Result<Option<Vec<u8>>, CliError> {
    // The channel of a finished run is gone, and the plan file contains its changes.
    match channel()?.filter(|channel| channel.exists()) {
        Some(channel) => changed_plan(&channel).map_err(CliError::failed),
        None => Ok(None),
    }
}

/// Formats the plan for people.
pub(super) fn table(ui: Ui, plan: &Plan<'_>, what: Option<&QueryWhat>) -> Vec<StyledLine> {
    let tasks = plan.tasks_view();
    let mut lines = Vec::new();
    match what {
        Some(QueryWhat::Stage | QueryWhat::Iteration) => lines.push(plan.stage().name().into()),
        Some(QueryWhat::Next) => lines.push(next_line(plan).into()),
        Some(QueryWhat::Issues) => issue_rows(ui, &mut lines, &plan.issues_view()),
        Some(QueryWhat::Tasks { done: true }) => task_rows(ui, &mut lines, &tasks.done),
        Some(QueryWhat::Tasks { done: false }) => {
            let all: Vec<TaskView<'_>> = tasks.pending.into_iter().chain(tasks.done).collect();
            task_rows(ui, &mut lines, &all);
        }
        None => {
            lines.push(styled!("spec   {}", plan.spec().unwrap_or("none")));
            lines.push(styled!("stage  {}", plan.stage()));
            lines.push(styled!("next   {}", next_line(plan)));
            lines.push("".into());
            let all: Vec<TaskView<'_>> = tasks.pending.into_iter().chain(tasks.done).collect();
            task_rows(ui, &mut lines, &all);
            let issues = plan.issues_view();
            if !issues.is_empty() {
                lines.push("".into());
                issue_rows(ui, &mut lines, &issues);
            }
        }
    }
    lines
}

fn next_line(plan: &Plan<'_>) -> String {
    use ralph_model::plan::Next;
    match plan.next() {
        Next::Plan => "PLAN: no spec is set".to_owned(),
        Next::Complete => "COMPLETE".to_owned(),
        Next::Build(task) => format!("BUILD {} {}", task.id, one_line(&task.name, 80)),
        Next::Decompose(task) => format!("DECOMPOSE {} {}", task.id, one_line(&task.name, 80)),
        Next::Verify(count) => format!("VERIFY {count} done"),
        Next::Investigate(issues) => format!("INVESTIGATE {}", issues.len()),
    }
}

fn task_rows(ui: Ui, lines: &mut Vec<StyledLine>, tasks: &[TaskView<'_>]) {
    let width = widest(tasks.iter().map(|task| &*task.id)).max(2);
    let head = format!("{:width$}  {:8}  {:8}  name", "id", "status", "priority");
    let room = render::room_after(head.len() - 4, usize::MAX);
    lines.push(ui.paint(Tone::Faint, &head).into());
    for task in tasks {
        let tone = if task.s == Status::Done { Tone::Good } else { Tone::Progress };
        let status = ui.paint(tone, &task.s.to_string());
        let priority = task.priority.map_or("-", ralph_model::plan::Priority::name);
        let mut notes = Vec::new();
        if !task.deps.is_empty() {
            notes.push(format!("after {}", task.deps.join(", ")));
        }
        notes.extend(task.kill.as_ref().map(|kill| format!("killed by {kill}")));
        notes.extend(task.reject.as_ref().map(|why| format!("rejected: {}", one_line(why, 60))));
        for (what, id) in [
            ("part of", &task.parent),
            ("from", &task.created_from),
            ("in place of", &task.supersedes),
        ] {
            notes.extend(id.as_ref().map(|id| format!("{what} {id}")));
        }
        let notes =
            if notes.is_empty() { String::new() } else { format!(" ({})", notes.join("; ")) };
        let name = one_line(&format!("{}{notes}", one_line(&task.name, 80)), room);
        lines.push(styled!("{}  {status:8}  {priority:8}  {name}", padded(&task.id, width)));
    }
}

fn issue_rows(ui: Ui, lines: &mut Vec<StyledLine>, issues: &[IssueView<'_>]) {
    let width = widest(issues.iter().map(|issue| &*issue.id)).max(2);
    lines.push(ui.paint(Tone::Faint, &format!("{:width$}  issue", "id")).into());
    let room = render::room_after(width + 2, 100);
    for issue in issues {
        lines.push(styled!("{}  {}", padded(&issue.id, width), one_line(&issue.desc, room)));
    }
}
