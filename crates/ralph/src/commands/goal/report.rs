//! The results of an interview and of mapping, as text and exit code.

use camino::{Utf8Path, Utf8PathBuf};
use ralph_engine::ask::{ConsentStep, MissingReply};
use ralph_engine::workflow::driver::{Ended, Stop};
use ralph_engine::workflow::goal::interview::InterviewEnd;
use ralph_engine::workflow::goal::understand::UnderstandEnd;
use ralph_engine::workflow::overview::StoriesOverview;
use ralph_engine::workflow::stories::StoriesEnd;
use ralph_model::goal::GoalState;
use serde::Serialize;

use crate::commands::print_json;
use crate::error::CliError;
use crate::exit::Exit;
use crate::render::human::plural;
use crate::render::{Tone, stop};
use crate::setup::Setup;

#[derive(Serialize)]
pub(super) struct JsonOutcome<'a> {
    pub(super) result: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) goal: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
}

/// Reports the result of an interview; `again` is the command that resumes it.
pub(super) fn report_interview(
    setup: &Setup,
    ended: &Ended<InterviewEnd>,
    state: &GoalState,
    again: &str,
) -> Result<Exit, CliError> {
    let print = |result: &str, reason: Option<String>| {
        let goal = Some(state.goal.as_str());
        if setup.json { print_json(&JsonOutcome { result, goal, reason }) } else { Ok(()) }
    };
    let end = match ended {
        Ended::By(end) => end,
        Ended::Stopped(stop) => {
            return report_stop(setup, stop, again, Some(&state.goal));
        }
    };
    match end {
        InterviewEnd::Approved => {
            let path = setup.home.path.join("prd.json");
            setup.ui.labelled(Tone::Good, "written", path.as_str());
            say_next(setup, &["ralph run"]);
            print("approved", None)?;
            Ok(Exit::Done)
        }
        InterviewEnd::NotApproved => {
            setup.ui.line("no PRD was written; the interview is kept");
            say_next(setup, &[again]);
            print("not_approved", None)?;
            Ok(Exit::Done)
        }
        InterviewEnd::NotValid { problems } => {
            print("not_valid", Some(problems.join("; ")))?;
            Err(CliError::failed(format!(
                "the interviewer's answers were not valid\n{}",
                problems.join("\n")
            ))
            .hint(format!("`plan_transcript.md` in home has them; `{again}` tries again")))
        }
        InterviewEnd::NoDraft { turns } => {
            print("no_draft", None)?;
            Err(CliError::failed(format!(
                "the interviewer used all of {} without a draft to review",
                plural(u64::from(*turns), "turn")
            ))
            .hint(format!("`{again}` continues; another model may do better (--model)")))
        }
        InterviewEnd::Missing(missing) => {
            let (result, reason) = match missing {
                MissingReply::Answer { id, .. } => ("needs_answer", id.clone()),
                MissingReply::Consent(step) => ("needs_consent", step.flag().to_owned()),
            };
            print(result, Some(reason))?;
            Err(missing_reply(missing))
        }
        InterviewEnd::Violation { paths, diff } => {
            print("violation", Some(paths.join(", ")))?;
            Err(violation("the interviewer", paths, diff.as_ref()))
        }
    }
}

/// Explains what a script has to supply.
fn missing_reply(missing: &MissingReply) -> CliError {
    match missing {
        MissingReply::Answer { id, question } => {
            CliError::person_needed(format!("no answer for question {id}: {question}"))
                .hint("add it to the file of `--answers`, then run the command again with --resume")
        }
        MissingReply::Consent(step) => missing_consent(*step),
    }
}

fn missing_consent(step: ConsentStep) -> CliError {
    let flag = step.flag();
    let missing = CliError::person_needed(format!("this needs your consent: `{flag}`"))
        .hint(format!("review the result, then run the command again with --resume {flag}"));
    let without =
        (step == ConsentStep::Understand).then_some("`--understand never` continues without it");
    missing.hints(without)
}

pub(super) fn violation(who: &str, paths: &[String], diff: Option<&Utf8PathBuf>) -> CliError {
    let paths = paths.join(", ");
    let error =
        CliError::failed(format!("{who} made forbidden changes, which were reverted: {paths}"));
    error.hints(diff.map(|diff| format!("the changes are in `{diff}`")))
}

pub(super) fn report_stop(
    setup: &Setup,
    stop: &Stop,
    again: &str,
    goal: Option<&str>,
) -> Result<Exit, CliError> {
    let (exit, reason, then) = stop::describe(stop, again, again);
    setup.ui.important(&reason);
    if let Some(then) = &then {
        setup.ui.important(then);
    }
    if setup.json {
        print_json(&JsonOutcome { result: stop.name(), goal, reason: Some(reason) })?;
    }
    Ok(exit)
}

/// Prints the commands that continue from here.
pub(super) fn say_next(setup: &Setup, commands: &[&str]) {
    for command in commands {
        setup.ui.labelled(Tone::Active, "next", command);
    }
}

/// Reports the result of mapping; `again` is the command that resumes it.
pub(super) fn report_understanding(
    setup: &Setup,
    ended: &Ended<UnderstandEnd>,
    again: &str,
    asked_for: Option<u32>,
) -> Result<Exit, CliError> {
    let end = match ended {
        Ended::By(end) => end,
        Ended::Stopped(stop) => return report_stop(setup, stop, again, None),
    };
    let (exit, result, reason) = match end {
        UnderstandEnd::Complete => (Exit::Done, "complete", "no topics are left to map".to_owned()),
        UnderstandEnd::Quit => (Exit::Done, "quit", "stopped".to_owned()),
        UnderstandEnd::OutOfIterations { mapped, left } => {
            let left = left.map_or_else(
                || "topics are left".to_owned(),
                |left| format!("{} left", plural(left as u64, "topic")),
            );
            // Mapping as many topics as the person asked for is what they wanted.
            let (exit, how) = if asked_for.is_some_and(|asked| *mapped >= asked) {
                (Exit::Done, format!("mapped {}", plural(u64::from(*mapped), "topic")))
            } else {
                (Exit::Unfinished, "all iterations are used".to_owned())
            };
            let reason = format!("{how}: {left}; `ralph understand` continues");
            (exit, "out_of_iterations", reason)
        }
        UnderstandEnd::Repeated { reason, times } => {
            let reason = format!("the same failure {times} times in a row: {reason}");
            (Exit::Unfinished, "repeated", reason)
        }
        UnderstandEnd::Violation { paths, diff } => {
            return Err(violation("the mapper", paths, diff.as_ref()));
        }
    };
    let tone = if exit == Exit::Done { Tone::Good } else { Tone::Attention };
    setup.ui.labelled(tone, "understand", &reason);
    if setup.json {
        print_json(&JsonOutcome { result, goal: None, reason: Some(reason) })?;
    }
    Ok(exit)
}

#[derive(Serialize)]
struct JsonStories<'a> {
    result: &'a str,
    #[serde(flatten)]
    stories: Option<StoriesOverview>,
    reason: String,
}

/// Reports the result of implementing stories, and how to get to the branch that contains them: in the workspace's
/// repository, or in each of the `siblings` that have another branch checked out.
pub(super) fn report_stories(
    setup: &Setup,
    prd: &Utf8Path,
    branch: &str,
    siblings: &[String],
    ended: &Ended<StoriesEnd>,
) -> Result<Exit, CliError> {
    let commits = setup.config.git.commit_home;
    let overview = StoriesOverview::on_branch(&setup.git(), prd, branch, commits);
    let (exit, result, reason, then) = match ended {
        Ended::Stopped(stop) => {
            let (exit, reason, then) =
                stop::describe(stop, &setup.again("ralph run"), &setup.again("ralph run --retry"));
            (exit, stop.name(), reason, then)
        }
        Ended::By(end) => {
            let (exit, reason) = match end {
                StoriesEnd::Complete => (Exit::Done, "all stories pass".to_owned()),
                StoriesEnd::Quit => (Exit::Done, "stopped".to_owned()),
                StoriesEnd::OutOfIterations { failing } => {
                    let failing = plural(*failing as u64, "story");
                    let fails = if failing.starts_with("1 ") { "fails" } else { "fail" };
                    let reason = format!(
                        "all iterations are used, and {failing} {fails}; `ralph run` continues"
                    );
                    (Exit::Unfinished, reason)
                }
            };
            (exit, end.name(), reason, None)
        }
    };
    match exit {
        Exit::Done => setup.ui.labelled(Tone::Good, "done", &reason),
        _ => setup.ui.important(&reason),
    }
    if let Some(then) = &then {
        setup.ui.important(then);
    }
    if let Some(found) = overview.as_ref().filter(|found| found.branch_exists && !found.checked_out)
    {
        let text = format!("{branch} has what landed: {} of {} pass", found.passing, found.total);
        setup.ui.labelled(Tone::Active, "branch", &text);
        if siblings.is_empty() {
            say_next(setup, &[&format!("git switch {branch}")]);
        }
    }
    for sibling in siblings {
        say_next(setup, &[&format!("git -C {sibling} switch {branch}")]);
    }
    if setup.json {
        print_json(&JsonStories { result, stories: overview, reason })?;
    }
    Ok(exit)
}
