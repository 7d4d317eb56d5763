//! The results of the loop and of planning, as text and exit code.

use ralph_engine::workflow::build::BuildEnd;
use ralph_engine::workflow::build::planning::PlanningEnd;
use ralph_engine::workflow::driver::{Ended, Stop};
use ralph_model::plan::Stage;
use serde::Serialize;

use crate::commands::print_json;
use crate::error::CliError;
use crate::exit::Exit;
use crate::render::human::plural;
use crate::render::{Tone, stop};
use crate::setup::Setup;

/// The person declined.
pub(super) fn declined(setup: &Setup) -> Result<Exit, CliError> {
    setup.ui.line("nothing was changed");
    if setup.json {
        print_json(&JsonEnd { result: "declined", stage: None, reason: None })?;
    }
    Ok(Exit::Done)
}

#[derive(Serialize)]
struct JsonEnd<'a> {
    result: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    stage: Option<Stage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// Reports the result of the loop.
pub(super) fn report(setup: &Setup, ended: &Ended<BuildEnd>) -> Result<Exit, CliError> {
    let end = match ended {
        Ended::By(end) => end,
        Ended::Stopped(stop) => return report_stop(setup, stop),
    };
    let (exit, reason) = match end {
        BuildEnd::Complete => (Exit::Done, "the plan is complete".to_owned()),
        BuildEnd::Promised { stage: Stage::Complete } => (
            Exit::Done,
            "an agent gave the completion promise, and the plan is complete".to_owned(),
        ),
        // An agent's word alone does not make the plan done.
        BuildEnd::Promised { stage } => (
            Exit::Unfinished,
            format!("an agent gave the completion promise, but the plan is in {stage}"),
        ),
        BuildEnd::NoPlan => {
            (Exit::Unfinished, "no spec is planned; `ralph plan <spec.md>` plans one".to_owned())
        }
        BuildEnd::Looping { stage } => (
            Exit::Unfinished,
            format!(
                "several rounds in a row changed nothing in {stage}; see the last logs (`ralph runs`)"
            ),
        ),
        BuildEnd::NoGain { rounds, open } => (
            Exit::Unfinished,
            format!(
                "no net gain in {}: {} left; `ralph query` shows them; `ralph build --retry` continues",
                plural(u64::from(*rounds), "round"),
                open_items(*open)
            ),
        ),
    };
    if exit == Exit::Done {
        setup.ui.labelled(Tone::Good, "done", &reason);
    } else {
        setup.ui.important(&reason);
    }
    if setup.json {
        let stage = match end {
            BuildEnd::Looping { stage } | BuildEnd::Promised { stage } => Some(*stage),
            _ => None,
        };
        print_json(&JsonEnd { result: end.name(), stage, reason: Some(reason) })?;
    }
    Ok(exit)
}

fn open_items(count: usize) -> String {
    let verb = if count == 1 { "is" } else { "are" };
    format!(
        "{} {verb}",
        plural(count as u64, "open task or issue").replace("task or issues", "tasks or issues")
    )
}

fn report_stop(setup: &Setup, stop: &Stop) -> Result<Exit, CliError> {
    let (exit, reason, then) =
        stop::describe(stop, &setup.again("ralph build"), &setup.again("ralph build --retry"));
    setup.ui.important(&reason);
    if let Some(then) = &then {
        setup.ui.important(then);
    }
    if setup.json {
        let reason = [Some(reason), then].into_iter().flatten().collect::<Vec<_>>().join("\n");
        print_json(&JsonEnd { result: stop.name(), stage: None, reason: Some(reason) })?;
    }
    Ok(exit)
}

/// Reports the result of planning.
pub(super) fn report_planning(setup: &Setup, ended: &Ended<PlanningEnd>) -> Result<Exit, CliError> {
    let end = match ended {
        Ended::By(end) => end,
        Ended::Stopped(stop) => return report_stop(setup, stop),
    };
    match end {
        PlanningEnd::Planned { tasks } => {
            let (text, stage) = match tasks {
                0 => ("nothing is missing, as you said".to_owned(), Stage::Complete),
                tasks => {
                    let tasks = plural(*tasks as u64, "task");
                    (format!("{tasks}; `ralph build` builds them"), Stage::Build)
                }
            };
            setup.ui.labelled(Tone::Good, "planned", &text);
            if setup.json {
                print_json(&JsonEnd { result: "planned", stage: Some(stage), reason: None })?;
            }
            Ok(Exit::Done)
        }
        PlanningEnd::Failed { why, tasks } => {
            let error = CliError::failed(format!("planning failed: {why}"))
                .hint("see the planner's log (`ralph runs`)");
            Err(match tasks {
                0 => error,
                tasks => error.hint(format!(
                    "the plan has {} anyway; `ralph plan` again keeps or cancels them",
                    plural(*tasks as u64, "task")
                )),
            })
        }
    }
}
