//! How the loop and planning ended, in words and as an exit code.

use ralph_engine::workflow::build::BuildEnd;
use ralph_engine::workflow::build::planning::PlanningEnd;
use ralph_model::plan::Stage;
use serde::Serialize;

use crate::commands::print_json;
use crate::error::CliError;
use crate::exit::Exit;
use crate::render::human::{local_time, one_line, plural};
use crate::render::{self, Tone};
use crate::setup::{Setup, now};

/// The person would rather not.
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

pub(super) fn told(setup: &Setup, end: &BuildEnd) -> Result<Exit, CliError> {
    let (exit, reason) = match end {
        BuildEnd::Complete => (Exit::Done, "the plan is complete".to_owned()),
        BuildEnd::Promised { stage: Stage::Complete } => (
            Exit::Done,
            "an agent gave the completion promise, and the plan is complete".to_owned(),
        ),
        // That it is done is not for an agent to say.
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
                "round after round nothing changes in {stage}; the last logs say more (`ralph status`)"
            ),
        ),
        BuildEnd::Stuck { trouble } => (
            Exit::Unfinished,
            format!(
                "the same trouble three times in a row: {}",
                one_line(&trouble.to_string(), 300)
            ),
        ),
        BuildEnd::Waiting { task, question } => (
            Exit::PersonNeeded,
            format!(
                "{task} waits for you: {}\n  `ralph answer {task} yes` accepts it; any other answer goes to the next run",
                one_line(question, 600)
            ),
        ),
        BuildEnd::Limited { agent, wait } => {
            let until = local_time(wait.until, now());
            (Exit::Unfinished, format!("{agent} is at its usage limit until about {until}"))
        }
        BuildEnd::OutOfBudget(what) => (
            Exit::Unfinished,
            format!("stopped: {what}; `ralph build` goes on from here with a budget of its own"),
        ),
        BuildEnd::Interrupted => {
            (Exit::Interrupted, "interrupted; `ralph build` goes on where it stopped".to_owned())
        }
    };
    if exit == Exit::Done {
        setup.ui.labelled(Tone::Good, "done", &reason);
    } else {
        render::important(&reason);
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

pub(super) fn told_planning(setup: &Setup, end: &PlanningEnd) -> Result<Exit, CliError> {
    match end {
        PlanningEnd::Planned { tasks } => {
            let text = format!("{}; `ralph build` builds them", plural(*tasks as u64, "task"));
            setup.ui.labelled(Tone::Good, "planned", &text);
            if setup.json {
                print_json(&JsonEnd {
                    result: "planned",
                    stage: Some(Stage::Build),
                    reason: None,
                })?;
            }
            Ok(Exit::Done)
        }
        PlanningEnd::Failed { why, tasks } => {
            let error = CliError::failed(format!("the spec is not planned: {why}"))
                .hint("the planner's log says more (`ralph status`)");
            Err(match tasks {
                0 => error,
                tasks => error.hint(format!(
                    "the plan has {} all the same; `ralph plan` again keeps or cancels them",
                    plural(*tasks as u64, "task")
                )),
            })
        }
        PlanningEnd::Stopped(end) => told(setup, end),
    }
}
