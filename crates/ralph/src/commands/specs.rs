//! `ralph specs`: the backlog, and the state of each spec.

use camino::{Utf8Path, Utf8PathBuf};
use ralph_engine::boundary;
use ralph_engine::files::lock::WriteLock;
use ralph_engine::git::Git;
use ralph_engine::specs::{self, NewSpec, SPECS, SpecProblem};
use ralph_engine::workflow::WorkflowError;
use ralph_engine::workflow::home_committer::HomeCommitter;
use ralph_engine::workflow::pipeline::list::{self, SpecRow};
use ralph_engine::workflow::pipeline::store::{SpecStore, identity, whole_second};
use ralph_model::pipeline::done::DoneMarker;
use ralph_model::pipeline::records::Try;
use ralph_model::pipeline::{AttemptLimits, DEFAULT_ATTEMPTS, Fact, Markers, settle};
use ralph_model::plan::Plan;
use ralph_model::proof::LandedLevel;
use ralph_model::shown::shown_lines;
use ralph_model::spec::name::SpecPath;
use ralph_model::spec::select::select;
use serde::Serialize;

use super::pipeline::{backlog, not_selected};
use super::status::seen_plan;
use super::{print_either, print_json};
use crate::args::GlobalArgs;
use crate::args::pipeline::SpecsCommand;
use crate::error::CliError;
use crate::exit::Exit;
use crate::render::human::{dollars, one_line, padded, seen_from, widest};
use crate::render::text::{StyledLine, columns};
use crate::render::{self, Tone, Ui, styled};
use crate::setup::{Setup, now};

pub(crate) fn run(global: &GlobalArgs, command: Option<&SpecsCommand>) -> Result<Exit, CliError> {
    let setup = Setup::load(global, &[])?;
    match command {
        None | Some(SpecsCommand::List) => list(&setup),
        Some(SpecsCommand::Show { spec }) => show(&setup, spec),
        Some(SpecsCommand::New { title, area }) => new(&setup, title, area.as_deref()),
        Some(SpecsCommand::MarkDone { spec, reason }) => mark_done(&setup, spec, reason.as_deref()),
    }
}

fn list(setup: &Setup) -> Result<Exit, CliError> {
    setup.require_repository()?;
    setup.require_home()?;
    let found = specs::discover(&setup.home.path.join(SPECS));
    if found.specs.is_empty() && found.problems.iter().all(SpecProblem::is_empty_backlog) {
        let none: [SpecRow; 0] = [];
        print_either(setup.ui, setup.json, &none, || {
            vec![styled!("no specs yet; `ralph specs new \"Title\"` creates one")]
        })?;
        return Ok(Exit::Done);
    }
    let specs = backlog(setup)?;
    let rows = rows(setup, &specs)?;
    print_either(setup.ui, setup.json, &rows, || table(setup.ui, &rows))?;
    let problems: Vec<&String> = rows.iter().filter_map(|row| row.problem.as_ref()).collect();
    for problem in &problems {
        render::important(problem);
    }
    Ok(if problems.is_empty() { Exit::Done } else { Exit::Unfinished })
}

/// The attempts that `ralph pipeline` allows by default.
pub(super) fn next_limits(setup: &Setup) -> AttemptLimits {
    AttemptLimits { attempts: DEFAULT_ATTEMPTS, repeats: setup.config.limits.repeats }
}

/// Returns a row for every spec.
pub(super) fn rows(setup: &Setup, specs: &[SpecPath]) -> Result<Vec<SpecRow>, CliError> {
    let board = setup.board()?;
    let store = SpecStore::seen_through(&setup.home.path, setup.overlay()?);
    let row = |spec: &SpecPath| match list::row(&store, spec, &board, next_limits(setup)) {
        // An unreadable one does not hide the others.
        Err(problem @ WorkflowError::StateFile { .. }) => {
            Ok(SpecRow::unreadable(spec, &problem.to_string()))
        }
        row => row.map_err(CliError::usage),
    };
    let mut rows = specs.iter().map(row).collect::<Result<Vec<_>, _>>()?;
    if let Some(bytes) = seen_plan(setup) {
        let plan = Plan::parse(&bytes);
        let state = setup.find_state()?;
        for row in &mut rows {
            row.regard_tasks(&plan, state.as_ref(), &setup.plan_place())
                .map_err(CliError::failed)?;
        }
    }
    Ok(rows)
}

/// The width of the columns next to a spec's name, with the minimum of the last one.
const BESIDE_NAME: usize = 50;

/// The minimum width at which names are still distinguishable.
const SHORTEST_NAME: usize = 20;

/// One line per spec, or two on a terminal that is too narrow for the columns.
pub(super) fn table(ui: Ui, rows: &[SpecRow]) -> Vec<StyledLine> {
    let longest = widest(rows.iter().map(|row| row.spec.as_str())).max(4);
    let room = render::room_after(BESIDE_NAME, longest);
    let is_narrow = room < longest.min(SHORTEST_NAME);
    let width = longest.min(room);
    let head =
        format!("{:width$}  {:9}  failed  {:8}  {:>7}  last", "spec", "state", "commit", "cost");
    let room = render::room_after(head.len() - 4, 100);
    let mut lines: Vec<StyledLine> = vec![ui.paint(Tone::Faint, &head).into()];
    lines.retain(|_| !is_narrow);
    for row in rows {
        let tone = match row.state {
            "done" | "built" => Tone::Good,
            "waiting" | "rejected" | "replan" => Tone::Attention,
            "fresh" | "draft" => Tone::Faint,
            "broken" | "failed" => Tone::Bad,
            _ => Tone::Progress,
        };
        let state = ui.paint(tone, row.state);
        let commit = row.commit.as_deref().map_or("-", |commit| commit.get(..8).unwrap_or(commit));
        let mut cost = row.cost_usd.map_or_else(|| "-".to_owned(), dollars);
        if row.cost_usd.is_some() && row.runs_without_cost > 0 {
            // The cost of some of its runs is unknown.
            cost.push('+');
        }
        let mut last = match (&row.question, row.problem.as_ref().or(row.proof.as_ref()), &row.last)
        {
            (Some(_), ..) if row.answer.is_some() => {
                "answered; `ralph pipeline` acts on it".to_owned()
            }
            (Some(question), ..) => format!("asks you: {question}"),
            (None, Some(proof), _) => proof.clone(),
            (None, None, _) if row.trouble.is_some() => {
                let trouble = row.trouble.as_deref().unwrap_or_default();
                format!("cut short: {trouble}")
            }
            (None, None, Some(tried)) => format!("{}: {}", tried.phase, tried.outcome),
            (None, None, None) => row.title.clone().unwrap_or_default(),
        };
        if row.changed_since_done {
            last = format!("changed since done; {last}");
        }
        if is_narrow {
            lines.push(styled!("{}", one_line(&row.spec, render::room_after(0, longest))));
            let used = columns(row.state) + 4;
            lines.push(styled!("  {state}  {}", one_line(&last, render::room_after(used, 100))));
            continue;
        }
        let last = one_line(&last, room);
        let line = styled!(
            "{}  {state:9}  {:>6}  {commit:8}  {cost:>7}  {last}",
            padded(&one_line(&row.spec, width), width),
            row.attempts_used
        );
        lines.push(line.trim_end());
    }
    lines
}

#[derive(Serialize)]
struct JsonSpec<'a> {
    #[serde(flatten)]
    row: &'a SpecRow,
    tries: &'a [Try],
    files: Vec<String>,
}

fn show(setup: &Setup, typed: &str) -> Result<Exit, CliError> {
    let specs = backlog(setup)?;
    let spec = select(&specs, typed).map_err(|error| not_selected(&error))?;
    let row = rows(setup, std::slice::from_ref(spec))?.remove(0);
    let store = SpecStore::seen_through(&setup.home.path, setup.overlay()?);
    let markers = store.load(spec).map_err(CliError::usage)?;
    let tries = markers.plan.as_ref().map(|plan| plan.tries.clone()).unwrap_or_default();
    let mut names = vec![spec.plan_md(), spec.plan_json()];
    names.extend(markers.archived.iter().map(|number| spec.archive(*number)));
    names.extend([spec.candidate(), spec.done(), spec.session()]);
    let files: Vec<String> = names
        .iter()
        .filter(|name| store.has(name))
        .map(|name| store.path(name))
        .map(|path| path.strip_prefix(&setup.workspace.root).unwrap_or(&path).to_string())
        .collect();
    if setup.json {
        print_json(&JsonSpec { row: &row, tries: &tries, files })?;
        return Ok(Exit::Done);
    }
    let mut lines = table(setup.ui, std::slice::from_ref(&row));
    if let Some(question) = &row.question {
        lines.push("".into());
        lines.push(styled!("waits for you: {question}"));
        lines.push(match &row.answer {
            Some(answer) => styled!("  answered: {answer}; `ralph pipeline` acts on it"),
            None => styled!(
                "  ralph answer {} yes    accepts it; any other answer goes to the next attempt",
                spec.run_id()
            ),
        });
    }
    let refs = row.commit.as_deref().map(|commit| refs_with(setup, commit)).unwrap_or_default();
    if !refs.is_empty() {
        lines.push("".into());
        lines.push(styled!("the commit is on: {}", refs.join(", ")));
    }
    if let Some(feedback) = markers.candidate.as_ref().and_then(|record| record.feedback.clone()) {
        lines.push("".into());
        lines.push("feedback for the next attempt:".into());
        lines.extend(shown_lines(feedback.trim_end()).map(|line| styled!("  {line}")));
        if let Some(logs) = gate_logs(setup, &markers)? {
            lines.push(styled!("  the logs of its gates: {logs}"));
        }
    }
    if !tries.is_empty() {
        lines.push("".into());
        lines.push("attempts:".into());
        for (number, tried) in tries.iter().enumerate() {
            let seen = |dir: &str| seen_from(&setup.cwd, &setup.home.path.join(dir)).to_string();
            let log = tried.run_dir.as_deref().map(|dir| format!("  ({})", seen(dir)));
            let log = log.unwrap_or_default();
            lines.push(styled!(
                "  {}. {}: {}{log}",
                number + 1,
                tried.phase,
                one_line(&tried.outcome, 300)
            ));
        }
    }
    if let Some(trouble) = &row.trouble {
        lines.push("".into());
        let trouble = one_line(trouble, 300);
        lines.push(styled!("the last run was cut short, which cost no attempt: {trouble}"));
    }
    if row.state == "failed" {
        let id = spec.id();
        lines.push("".into());
        lines.push(styled!("no attempts left; `ralph pipeline {id}` resets its attempt count"));
    }
    if !files.is_empty() {
        lines.push("".into());
        lines.push("files:".into());
        lines.extend(files.iter().map(|file| styled!("  {file}")));
    }
    setup.ui.print(lines)?;
    Ok(Exit::Done)
}

/// Returns the directory with the outputs of the gates at the candidate, if they are on this machine.
fn gate_logs(setup: &Setup, markers: &Markers) -> Result<Option<Utf8PathBuf>, CliError> {
    let commit = markers.candidate.as_ref().and_then(|record| record.candidate_commit.as_ref());
    let (Some(commit), Some(state)) = (commit, setup.find_state()?) else { return Ok(None) };
    let logs = state.gate_logs(commit.as_str());
    Ok(logs.is_dir().then_some(logs))
}

/// Returns the refs of the person's repository that contain a commit. Work that has not landed is on none; a workspace
/// of several repositories has no single one to ask.
fn refs_with(setup: &Setup, commit: &str) -> Vec<String> {
    let repository = Git::discover(setup.git(), &setup.workspace.root).ok();
    repository.and_then(|git| git.refs_with(commit).ok()).unwrap_or_default()
}

#[derive(Serialize)]
struct JsonNew<'a> {
    spec: &'a str,
    path: &'a Utf8Path,
}

fn new(setup: &Setup, title: &str, area: Option<&str>) -> Result<Exit, CliError> {
    setup.require_home()?;
    let directory = setup.home.path.join(SPECS);
    let spec = specs::create(&directory, NewSpec { title, area }).map_err(CliError::usage)?;
    let path = directory.join(spec.as_str());
    if setup.json {
        print_json(&JsonNew { spec: spec.as_str(), path: &path })?;
    } else {
        render::data(path.as_str())?;
        setup.ui.labelled(
            Tone::Good,
            "new",
            "describe what you want in it, then run `ralph pipeline`",
        );
    }
    Ok(Exit::Done)
}

fn mark_done(setup: &Setup, typed: &str, reason: Option<&str>) -> Result<Exit, CliError> {
    if std::env::var_os("RALPH_RUN_ID").is_some() {
        return Err(CliError::usage("`ralph specs mark-done` is for people, and this is a run"));
    }
    setup.refuse_in_run("`ralph specs mark-done`")?;
    let specs = backlog(setup)?;
    let spec = select(&specs, typed).map_err(|error| not_selected(&error))?;
    let mut open = setup.open_state()?;
    let lock = open.state.write_lock(&setup.home);
    let _lock = WriteLock::acquire(&lock, &setup.home.path, PATIENCE).map_err(CliError::failed)?;
    let store = SpecStore::new(&setup.home.path);
    let markers = store.load(spec).map_err(CliError::usage)?;
    if markers.done.is_some() {
        setup.ui.labelled(Tone::Faint, "skip", &format!("{spec} is done already"));
        return Ok(Exit::Done);
    }
    let at = whole_second(now());
    let done = DoneMarker {
        commit: None,
        at,
        verify_run_dir: None,
        impl_run_dir: None,
        level: LandedLevel::NOT_PROVEN,
        spec_digest: list::digest(&store, spec).map_err(CliError::failed)?,
        said: reason.unwrap_or("Marked as done by hand.").to_owned(),
    };
    // A concurrent run must not attribute this write to its agent.
    let text = done.render(&identity(spec));
    boundary::vouch(&open.state, &setup.home.path, &store.path(spec.done()), text.as_bytes())
        .map_err(CliError::failed)?;
    let writes = settle(&markers, &Fact::Verified { done }, at).map_err(CliError::failed)?;
    let committer = HomeCommitter::open(&setup.git(), &setup.home.path, &setup.config.git);
    let message = format!("ralph: {} is done, by hand", spec.id());
    // A write that cannot be committed is undone: left in the checkout, it would only block landed work.
    let made = store.perform_with(spec, &writes, || committer.commit(&message));
    made.map_err(CliError::failed)?.map_err(CliError::failed)?;
    // Its question needs no answer any more.
    open.questions()?.withdraw(&spec.run_id()).map_err(CliError::failed)?;
    setup.ui.labelled(Tone::Good, "done", &format!("{spec}, by hand"));
    Ok(Exit::Done)
}

/// How long to wait for another writer.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);
