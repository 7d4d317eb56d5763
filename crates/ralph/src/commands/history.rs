//! `ralph log`: the history of the plan's tasks, from git.

use std::collections::{BTreeSet, HashSet};

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};
use ralph_engine::files::read_optional;
use ralph_engine::plan_file::PLAN_FILE;
use ralph_engine::plan_file::past::{Past, PastError, SHALLOW, Tip};
use ralph_model::history::{Filter, History, LogView, RecentView, Since, TaskOutcome};
use ralph_model::plan::Plan;
use ralph_model::shown::shown_json;

use super::print_json;
use crate::args::GlobalArgs;
use crate::args::plan::LogArgs;
use crate::error::CliError;
use crate::exit::Exit;
use crate::render::human::{local_time, one_line, padded, widest};
use crate::render::text::StyledLine;
use crate::render::{self, Tone, Ui, output, styled};
use crate::setup::{Setup, now};

/// How many changes are shown by default.
const RECENT: usize = 50;

/// The start of the shown period.
enum Start {
    Date(Timestamp),
    /// The commits that are new since then.
    New(HashSet<String>),
}

pub(crate) fn run(global: &GlobalArgs, args: &LogArgs) -> Result<Exit, CliError> {
    let setup = Setup::load(global, &[])?;
    setup.require_repository()?;
    setup.require_plan_in_tree()?;
    // Inside a run private state is inaccessible, so nothing is cached.
    let state = setup.open_bare_state().ok();
    let past = Past::of(&setup.git(), &setup.home.path, state.as_ref());
    if past.is_none() {
        setup.say_if_outside_git();
    } else if !setup.config.git.commit_home {
        let told = "`git.commit_home` is off: what is not committed is not in the history";
        setup.ui.note(told);
    }
    let Some(past) = past else {
        return show(&setup, args, &History::default(), &Plan::default(), &Filter::default());
    };
    if past.git().is_shallow() {
        setup.ui.note(SHALLOW);
    }
    let mut filter = Filter { spec: args.spec.as_deref(), ..Filter::default() };
    let tip = match &args.branch {
        None => past.here().map_err(refused)?,
        Some(name) => match past.named(name) {
            // A merged and deleted branch is still known by its merge commit.
            Err(PastError::UnknownRevision { .. }) => {
                filter.branch = Some(name);
                past.here().map_err(refused)?
            }
            tip => Some(tip.map_err(refused)?),
        },
    };
    let Some(tip) = tip else {
        return show(&setup, args, &History::default(), &Plan::default(), &filter);
    };
    let is_whole = args.all
        && !args.table
        && args.spec.is_none()
        && args.branch.is_none()
        && args.since.is_none();
    let key = if is_whole { past.report_key(&tip, now()) } else { None };
    if let Some(mut report) = key.as_ref().and_then(|key| past.report(key)) {
        output::copy(&mut report).map_err(CliError::failed)?;
        return Ok(Exit::Done);
    }
    let history = past.history(&tip).map_err(refused)?;
    if let Some(branch) = filter.branch
        && !history.tasks().any(|(_, task)| task.branch.as_deref() == Some(branch))
    {
        return Err(refused(PastError::UnknownRevision { name: branch.to_owned() }));
    }
    let bytes = plan_bytes(&setup, &past, args, &tip)?;
    let plan = Plan::parse(&bytes);
    if let Some(key) = key {
        let view = history.log_view(&plan, &filter);
        let mut report = shown_json(serde_json::to_string_pretty(&view).map_err(CliError::failed)?);
        report.push('\n');
        past.keep_report(&key, &report);
        render::json(report)?;
        return Ok(Exit::Done);
    }
    let spec = args.spec.as_deref().map(|typed| spec_name(&history, typed));
    filter.spec = spec.as_deref();
    if let Some(spec) = filter.spec {
        say_if_unknown(&setup, &history, spec);
    }
    let start = args.since.as_deref().map(|since| start(&past, &tip, since)).transpose()?;
    let was_there = |commit: &ralph_model::id::CommitId| match &start {
        Some(Start::New(new)) => !new.contains(commit.as_str()),
        _ => false,
    };
    filter.since = start.as_ref().map(|start| match start {
        Start::Date(date) => Since::Date(*date),
        Start::New(_) => Since::Commit(&was_there),
    });
    show(&setup, args, &history, &plan, &filter)
}

/// The plan at the given commit, or the current one.
fn plan_bytes(setup: &Setup, past: &Past, args: &LogArgs, tip: &Tip) -> Result<Vec<u8>, CliError> {
    let bytes = if args.branch.is_some() {
        past.git().file_at(&tip.commit, past.path()).map_err(CliError::failed)?
    } else {
        read_optional(&setup.home.path.join(PLAN_FILE)).map_err(CliError::usage)?
    };
    Ok(bytes.unwrap_or_default())
}

fn refused(error: PastError) -> CliError {
    let hint = error.hint();
    CliError::usage(error).hints(hint)
}

/// Returns the tasks' name for the given spec.
fn spec_name(history: &History, typed: &str) -> String {
    let below = typed.rsplit_once("specs/").map_or(typed, |(_, below)| below);
    let candidates = [typed.to_owned(), below.to_owned(), format!("{below}.md")];
    let has = |name: &String| history.tasks().any(|(_, task)| task.spec == *name);
    candidates.into_iter().find(has).unwrap_or_else(|| typed.to_owned())
}

/// Notes that the spec never had a task, and which specs had: it may be misspelt.
fn say_if_unknown(setup: &Setup, history: &History, spec: &str) {
    let specs: BTreeSet<&str> = history.tasks().map(|(_, task)| task.spec.as_str()).collect();
    if !specs.contains(spec) {
        let known: Vec<&str> = specs.into_iter().collect();
        let others = if known.is_empty() { "none" } else { &known.join(", ") };
        let message = format!("no task of `{spec}` in the history; specs with tasks: {others}");
        setup.ui.note(&message);
    }
}

/// Parses a date, a time or a commit name.
fn start(past: &Past, tip: &Tip, since: &str) -> Result<Start, CliError> {
    if let Some(date) = date(since.trim(), now()) {
        return Ok(Start::Date(date));
    }
    let commit = past.named(since.trim()).map_err(|error| match error {
        PastError::UnknownRevision { name } => CliError::usage(format!(
            "`{name}` is neither a date nor a commit"
        ))
        .hint("write dates as 2026-01-31, 2026-01-31T12:00, today, yesterday, or 3 days ago"),
        error => CliError::usage(error),
    })?;
    let new = past.git().new_commits(std::slice::from_ref(&tip.commit), &[commit.commit]);
    let new = new.map_err(CliError::failed)?;
    Ok(Start::New(new.into_iter().map(Into::into).collect()))
}

/// Parses a date or time; without a zone it is local time.
fn date(text: &str, now: Timestamp) -> Option<Timestamp> {
    if text.eq_ignore_ascii_case("today") {
        return now.to_zoned(TimeZone::system()).start_of_day().ok().map(|at| at.timestamp());
    }
    if let Some(span) = ago(text) {
        return now.to_zoned(TimeZone::system()).checked_sub(span).ok().map(|at| at.timestamp());
    }
    // Digits alone are a commit name.
    if !text.contains('-') {
        return None;
    }
    // Git prints a space before the zone.
    if let Ok(at) = text.replace(" +", "+").replace(" -", "-").parse::<Timestamp>() {
        return Some(at);
    }
    let local: DateTime = text.replace(' ', "T").parse().ok()?;
    local.to_zoned(TimeZone::system()).ok().map(|at| at.timestamp())
}

/// Parses `yesterday`, `last week` and `3 days ago`.
fn ago(text: &str) -> Option<Span> {
    let normal = text.to_lowercase().replace('.', " ");
    let words: Vec<&str> = normal.split_whitespace().collect();
    let span = Span::new();
    let (count, unit) = match words.as_slice() {
        ["yesterday"] => (1, "day"),
        ["last", unit @ ("week" | "month" | "year")] => (1, *unit),
        [count, unit, "ago"] => (count.parse::<i32>().ok()?, *unit),
        _ => return None,
    };
    match unit.trim_end_matches('s') {
        "second" => span.try_seconds(count),
        "minute" => span.try_minutes(count),
        "hour" => span.try_hours(count),
        "day" => span.try_days(count),
        "week" => span.try_weeks(count),
        "month" => span.try_months(count),
        "year" => span.try_years(count),
        _ => return None,
    }
    .ok()
}

fn show(
    setup: &Setup,
    args: &LogArgs,
    history: &History,
    plan: &Plan<'_>,
    filter: &Filter<'_>,
) -> Result<Exit, CliError> {
    match (args.all, args.table) {
        (true, false) => print_json(&history.log_view(plan, filter))?,
        (false, false) => print_json(&history.recent_view(filter, RECENT))?,
        (true, true) => setup.ui.print(tasks_table(setup.ui, &history.log_view(plan, filter)))?,
        (false, true) => {
            setup.ui.print(changes_table(setup.ui, &history.recent_view(filter, RECENT)))?;
        }
    }
    Ok(Exit::Done)
}

fn tasks_table(ui: Ui, view: &LogView<'_>) -> Vec<StyledLine> {
    let width = widest(view.tasks.iter().map(|task| task.id)).max(2);
    let head = format!("{:width$}  {:9}  {:17}  {:20}  task", "id", "outcome", "created", "spec");
    let room = render::room_after(head.len() - 4, 80);
    let mut lines = vec![ui.paint(Tone::Faint, &head).into()];
    for task in &view.tasks {
        let (tone, outcome) = match task.outcome {
            TaskOutcome::Pending => (Tone::Progress, "pending"),
            TaskOutcome::Done => (Tone::Progress, "done"),
            TaskOutcome::Accepted => (Tone::Good, "accepted"),
            TaskOutcome::Rejected => (Tone::Bad, "rejected"),
            TaskOutcome::Cancelled => (Tone::Faint, "cancelled"),
        };
        let outcome = ui.paint(tone, outcome);
        let created = task.created.as_ref().map(|at| local_time(at.date, now()));
        let created = created.unwrap_or_default();
        let (id, spec) = (padded(task.id, width), padded(&one_line(task.spec, 20), 20));
        let name = one_line(task.desc, room);
        lines.push(styled!("{id}  {outcome:9}  {created:17}  {spec}  {name}"));
    }
    lines
}

fn changes_table(ui: Ui, view: &RecentView<'_>) -> Vec<StyledLine> {
    let head = format!("{:17}  {:8}  {:9}  {:8}  task", "when", "commit", "change", "id");
    let room = render::room_after(head.len() - 4, 140);
    let mut lines = vec![ui.paint(Tone::Faint, &head).into()];
    for change in &view.changes {
        let when = local_time(change.date, now());
        let commit = change.commit.as_str().get(..8).unwrap_or_default();
        let why = change.reason.filter(|why| !why.is_empty());
        let why = why.map(|why| format!(" ({})", one_line(why, 60))).unwrap_or_default();
        let task = one_line(&format!("{}{why}", one_line(change.desc, 80)), room);
        let id = padded(change.id, 8);
        lines.push(styled!("{when:17}  {commit:8}  {:9}  {id}  {task}", change.change));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_told_from_commits() {
        let now: Timestamp = "2026-03-10T12:00:00Z".parse().unwrap();
        for text in [
            "2026-01-31",
            "2026-01-31T12:00",
            "2026-01-31 12:00:00",
            "2026-01-31T12:00:00Z",
            "2026-01-31 12:00:00 +0200",
            "2026-01-31 12:00:00 -0500",
        ] {
            assert!(date(text, now).is_some_and(|at| at < now), "{text}");
        }
        for text in ["today", "yesterday", "last week", "3 days ago", "2.weeks.ago", "1 month ago"]
        {
            assert!(date(text, now).is_some_and(|at| at < now), "{text}");
        }
        for text in ["abc1234", "20260131", "main", "v1-2", "3 days", "HEAD~2", ""] {
            assert_eq!(date(text, now), None, "{text}");
        }
    }
}
