//! `ralph loop`: one task, gated between PLAN and BUILD by the harness.

use camino::Utf8Path;
use ralph_engine::workflow::WorkflowError;
use ralph_engine::workflow::driver::{Ended, Stop};
use ralph_engine::workflow::phased::{Phased, PhasedEnd};
use ralph_model::board::{Board, RunView};
use ralph_model::journal::QuestionKind;
use ralph_model::phase::{LoopPlace, LoopRecord, LoopStanding};
use ralph_model::proof::LandedLevel;
use ralph_model::role::Role;
use serde::Serialize;

use super::agent_run::workflow_flags;
use super::answer::not_answered;
use super::pipeline::settle_dirt;
use super::start_gates::{FirstGates, gates_first};
use super::{print_json, read_argument};
use crate::args::GlobalArgs;
use crate::args::loop_task::LoopArgs;
use crate::error::CliError;
use crate::exit::Exit;
use crate::render::human::{one_line, plural};
use crate::render::workflow::{Look, WorkflowScreen};
use crate::render::{Tone, stop};
use crate::setup::{OpenProject, Setup, WorkflowRun};
use ralph_engine::workflow::project::WorkPlace;

const ROLES: [Role; 2] = [Role::Builder, Role::Verifier];

/// The largest task that is read from a file.
const LARGEST: u64 = 1 << 20;

#[derive(Serialize)]
struct JsonLoop<'a> {
    result: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    commit: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    level: Option<LandedLevel>,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

pub(crate) fn run(global: &GlobalArgs, args: &LoopArgs) -> Result<Exit, CliError> {
    let all_flags = workflow_flags(&args.run.agent, args.run.in_place);
    let setup = Setup::load(global, &all_flags)?.trusted(&all_flags)?;
    if !setup.home.exists {
        return Err(CliError::usage(format!("no Ralph home at `{}`", setup.home.path))
            .hint("run `ralph init`"));
    }
    let text = task_text(args)?;
    let place = place(&setup, args)?;
    let screen = WorkflowScreen::new(setup.ui, Look::of(&setup, args.run.stream));
    let OpenProject { mut session, mut project } = setup.open_project(WorkflowRun {
        command: "ralph loop",
        // A rollback runs no agent.
        roles: if args.rollback { &[] } else { &ROLES },
        flags: workflow_flags(&args.run.agent, args.run.in_place),
        place,
        budget: setup.budget(args.run.max_tokens, args.run.max_cost),
        no_wait: args.run.no_wait,
        context_limit: args.run.context_limit,
        subscriber: Box::new(screen),
    })?;
    if !args.rollback {
        settle_dirt(&setup, &session.context, &project, args.run.allow_dirty)?;
        let start = FirstGates { anyway: args.run.anyway, asks: true };
        gates_first(&setup, &mut session, &project, start)?;
    }
    let mut phased =
        Phased::open(&mut session, &mut project, args.max_iterations).map_err(failed)?;
    let is_untold = phased.completes_acceptance().map_err(failed)?;
    let known = phased.current().map_err(failed)?;
    if args.rollback {
        return roll_back(&setup, &mut phased);
    }
    let last = known.clone();
    let unfinished = known.filter(|record| is_untold || !record.is_over());
    match (text, unfinished) {
        (None, None) => return Err(nothing_to_do(last.as_ref())),
        (None, Some(_)) => {
            phased.resume(args.answer.as_deref()).map_err(failed)?;
        }
        // The same text again means the same task.
        (Some(text), Some(record)) if record.task.text == text && !args.new => {
            phased.resume(None).map_err(failed)?;
        }
        (Some(_), Some(record)) if !args.new => return Err(unfinished_task(&record)),
        (Some(text), _) => phased.start(&text).map_err(failed)?,
    }
    let ended = phased.run().map_err(failed)?;
    let record = phased.current().map_err(failed)?;
    let exit = report(&setup, &ended, record.as_ref())?;
    if let (Ended::By(PhasedEnd::Done { .. }), Some(record)) = (&ended, &record) {
        phased.note_told(record.task.number).map_err(failed)?;
    }
    Ok(exit)
}

/// Returns where the task is worked on: an unfinished task, or one to roll back, stays where it began.
fn place<'a>(setup: &Setup, args: &'a LoopArgs) -> Result<WorkPlace<'a>, CliError> {
    let onto = args.run.onto.as_deref();
    let state = setup.open_bare_state()?;
    let last = Phased::last(&state).map_err(failed)?;
    let Some(last) = last.filter(|last| !last.is_over() || args.rollback) else {
        return Ok(WorkPlace::Configured { onto });
    };
    match last.place {
        LoopPlace::Slot if args.run.in_place => {
            Err(CliError::usage("the last task was started in a clone, not in place").hints(vec![
                "`ralph loop --resume` continues it there".to_owned(),
                "`ralph loop --rollback` rolls it back".to_owned(),
            ]))
        }
        LoopPlace::Checkout if args.new && !args.run.in_place => {
            Err(CliError::usage("the unfinished task was started in place").hints(vec![
                "`ralph loop --rollback` rolls it back first".to_owned(),
                "`--in-place --new` starts the next one in place as well".to_owned(),
            ]))
        }
        LoopPlace::Slot => Ok(WorkPlace::Slot { onto }),
        LoopPlace::Checkout => Ok(WorkPlace::Checkout),
    }
}

/// Returns the task from the command line or a file; `None` to continue the existing one.
fn task_text(args: &LoopArgs) -> Result<Option<String>, CliError> {
    let text = match (&args.task, &args.file) {
        (Some(task), _) => task.clone(),
        (None, Some(file)) => read_task(file)?,
        (None, None) => return Ok(None),
    };
    if text.trim().is_empty() {
        return Err(CliError::usage("the task is empty").hint("describe the task"));
    }
    Ok(Some(text.trim().to_owned()))
}

fn read_task(file: &Utf8Path) -> Result<String, CliError> {
    let bytes = read_argument(file, "task", LARGEST)?;
    let text = String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'));
    text.ok_or_else(|| CliError::usage(format!("the task in `{file}` is not text")))
}

fn nothing_to_do(last: Option<&LoopRecord>) -> CliError {
    let mut text = "no unfinished task to resume".to_owned();
    if let Some(last) = last.filter(|last| matches!(last.standing, LoopStanding::Done { .. })) {
        let task = one_line(&last.task.text, 80);
        text = format!("{text}: task {} was accepted, and is done: {task}", last.task.number);
    }
    CliError::usage(text).hint("start one with `ralph loop \"<task>\"`")
}

fn unfinished_task(record: &LoopRecord) -> CliError {
    let task = one_line(&record.task.text, 80);
    CliError::usage(format!("task {} is unfinished: {task}", record.task.number)).hints(vec![
        "`ralph loop --resume` continues it".to_owned(),
        "`ralph loop --rollback` rolls it back".to_owned(),
        "`--new` abandons it and starts this one".to_owned(),
    ])
}

fn roll_back(setup: &Setup, phased: &mut Phased<'_, '_>) -> Result<Exit, CliError> {
    let task = phased.current().map_err(failed)?.map(|record| record.task.number);
    if !phased.roll_back().map_err(failed)? {
        return Err(nothing_to_roll_back(task, &setup.board()?));
    }
    let text = format!("task {} rolled back", task.unwrap_or(0));
    setup.ui.labelled(Tone::Good, "done", &text);
    if setup.json {
        print_json(&JsonLoop { reason: None, ..json("rolled_back", task) })?;
    }
    Ok(Exit::Done)
}

/// The error for a rollback that finds no task, or one that is rolled back already.
fn nothing_to_roll_back(last: Option<u32>, board: &Board) -> CliError {
    let Some(last) = last else {
        return CliError::usage("no task to roll back")
            .hint("`ralph status` shows the task of the loop, if there is one");
    };
    let landed = |task: u32| {
        let item = format!("loop-{task}");
        let is_of_item =
            |run: &&RunView| run.started.as_ref()?.1.item.as_ref().map(|found| *found == item);
        let mut runs = board.runs().rev().filter(|run| is_of_item(run) == Some(true));
        runs.find_map(|run| run.landed.as_deref())
    };
    let earlier = (1..last).rev().find_map(|task| Some((task, landed(task)?)));
    let hint = earlier.map(|(task, commit)| {
        let commit = commit.get(..10).unwrap_or(commit);
        format!("only the last task can be rolled back; task {task} landed with {commit}: `git revert` of its commits takes it back")
    });
    CliError::usage(format!("task {last} is rolled back already")).hints(hint)
}

const fn json(result: &str, task: Option<u32>) -> JsonLoop<'_> {
    JsonLoop { result, task, commit: None, level: None, summary: None, reason: None }
}

fn failed(error: WorkflowError) -> CliError {
    match error {
        WorkflowError::Answer(error) => not_answered(*error),
        WorkflowError::ForeignMailbox { .. } => CliError::usage(error)
            .hint("`mailbox = \"…\"` in ralph.toml moves Ralph's own elsewhere"),
        WorkflowError::Rollback(_) => CliError::failed(error),
        error => CliError::failed(error)
            .hint("nothing is lost: `ralph loop --resume` continues where it stopped"),
    }
}

/// Says how the loop ended.
fn report(
    setup: &Setup,
    ended: &Ended<PhasedEnd>,
    record: Option<&LoopRecord>,
) -> Result<Exit, CliError> {
    let task = record.map(|record| record.task.number);
    let end = match ended {
        Ended::By(end) => end,
        Ended::Stopped(stop) => return report_stop(setup, stop, task),
    };
    let again = "`ralph loop --resume` continues, `ralph loop --rollback` rolls the task back";
    let (exit, reason) = match end {
        PhasedEnd::Done { commit, level: proof, summary } => {
            let commit = commit.as_deref().map_or("no commit", |commit| &commit[..10]);
            setup.ui.labelled(Tone::Good, "done", &format!("task accepted at {commit}, {proof}"));
            for line in summary.iter().flat_map(|text| text.lines()).take(40) {
                setup.ui.line(format!("  {line}"));
            }
            (Exit::Done, None)
        }
        PhasedEnd::Aborted { gates, failures } => {
            let times = plural(u64::from(*failures), "time");
            let text = format!("gates failed {times} in a row: {}", gates.join(", "));
            (Exit::Unfinished, Some(text))
        }
        PhasedEnd::Idle { runs } => {
            let runs = plural(u64::from(*runs), "run");
            let text = format!("{runs} in a row changed nothing and did not claim completion");
            (Exit::Unfinished, Some(text))
        }
        PhasedEnd::OutOfIterations { iterations } => {
            let text =
                format!("not complete after {}", plural(u64::from(*iterations), "iteration"));
            (Exit::Unfinished, Some(text))
        }
        PhasedEnd::NoTask => return Err(nothing_to_do(None)),
    };
    if let Some(reason) = &reason {
        setup.ui.important(reason);
        let feedback = record.and_then(|record| record.feedback.as_deref()).unwrap_or_default();
        for line in failures(feedback) {
            setup.ui.important(format!("  {}", one_line(line, 300)));
        }
        setup.ui.important(again);
    }
    if setup.json {
        let mut told = JsonLoop { reason, ..json(end.name(), task) };
        if let PhasedEnd::Done { commit, level, summary } = end {
            told.commit = commit.as_deref();
            told.level = Some(*level);
            told.summary = summary.as_deref();
        }
        print_json(&told)?;
    }
    Ok(exit)
}

/// Returns what the last feedback names as failed: checks of the plan, and gates.
fn failures(feedback: &str) -> impl Iterator<Item = &str> {
    const MOST: usize = 10;
    feedback.lines().filter(|line| line.starts_with("FAIL [")).take(MOST)
}

fn report_stop(setup: &Setup, stop: &Stop, task: Option<u32>) -> Result<Exit, CliError> {
    let again = setup.again("ralph loop --resume");
    let (exit, reason, then) = stop::describe(stop, &again, &again);
    let then = match stop {
        Stop::Waiting { item, asked: QuestionKind::Other, .. } => Some(format!(
            "  `ralph answer {item} \"…\"` answers it; `ralph loop --resume --answer \"…\"` also continues"
        )),
        _ => then,
    };
    setup.ui.important(&reason);
    if let Some(then) = &then {
        setup.ui.important(then);
    }
    if setup.json {
        let reason = stop::reason(stop).or(Some(reason));
        print_json(&JsonLoop { reason, ..json(stop.name(), task) })?;
    }
    Ok(exit)
}
