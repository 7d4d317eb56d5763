//! `ralph status`: one screen, folded from the journal and from home: the markers of the specs, the plan.

mod follow;
mod pipeline;
mod plan;

use std::fmt::Write as _;

use camino::Utf8PathBuf;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use ralph_engine::run::log_of;
use ralph_model::board::{
    Activity, Board, GateTimes, RunState, RunView, SumRow, Totals, WorkflowView,
};
use ralph_model::id::RunId;
use ralph_model::journal::QuestionKind;
use ralph_model::policy::budget::BudgetExhausted;
use ralph_model::role::Role;
use ralph_model::run::RunOutcome;
use ralph_proc::tree::ProcessIdentity;
use serde::Serialize;

use self::pipeline::PipelineStatus;
use self::plan::PlanSummary;
use super::answer::how_to_answer;
use super::print_json;
use crate::args::{GlobalArgs, StatusArgs};
use crate::error::CliError;
use crate::exit::Exit;
use crate::render::human::{
    count, dollars, duration, local_time, one_line, padded, plural, seen_from,
};
use crate::render::text::StyledLine;
use crate::render::{Tone, Ui, styled};
use crate::setup::{Setup, now};

/// How many of the last runs are shown.
const SHOWN: usize = 8;

/// The sums of so many days are listed.
const DAYS: i32 = 31;

pub(crate) fn run(global: &GlobalArgs, args: &StatusArgs) -> Result<Exit, CliError> {
    let setup = Setup::load(global, &[])?;
    if args.follow {
        return follow::run(&setup, args.last);
    }
    let board = setup.board()?;
    if setup.json {
        print_json(&JsonStatus::new(&setup, &board, args.last))?;
    } else {
        setup.ui.print(screen(&setup, &board))?;
    }
    Ok(Exit::Done)
}

fn screen(setup: &Setup, board: &Board) -> Vec<StyledLine> {
    let ui = setup.ui;
    let mut lines =
        vec![styled!("{}  {}", ui.paint(Tone::Strong, "workspace"), setup.workspace.root)];
    let home = if setup.home.exists {
        setup.home.path.to_string()
    } else {
        "none yet (`ralph init` makes one)".to_owned()
    };
    lines.push(styled!("{}       {home}", ui.paint(Tone::Strong, "home")));
    for (agent, wait) in board.limit_waits(now()) {
        let until = local_time(wait.until, now());
        let text = format!("{agent} is at its usage limit until about {until}");
        lines.push(ui.paint(Tone::Attention, &text).into());
    }
    for question in board.open_questions() {
        let text = format!("waits for you: {}", how_to_answer(question));
        lines.push(ui.paint(Tone::Attention, &text).into());
    }
    let pipeline = PipelineStatus::of(setup, board);
    lines.extend(pipeline.iter().flat_map(|pipeline| pipeline.lines(ui)));
    lines.extend(PlanSummary::of(setup).iter().flat_map(|plan| plan.lines(ui)));
    lines.extend(board.workflows().next_back().and_then(|workflow| workflow_line(ui, workflow)));
    let runs = board.runs();
    if runs.len() == 0 {
        let how = if pipeline.is_some() { "ralph pipeline" } else { "ralph agent run \"…\"" };
        lines.push(styled!("no runs yet; try `{how}`"));
        return lines;
    }
    lines.push("".into());
    let older = runs.len().saturating_sub(SHOWN);
    for run in runs.skip(older) {
        lines.push(run_line(ui, run));
        lines.extend(log_line(setup, run));
    }
    let totals = board.totals();
    lines.push("".into());
    lines.push(styled!(
        "{}, {}, {} tokens, {}",
        plural(totals.finished_runs, "run"),
        duration(totals.duration),
        count(totals.usage.total()),
        cost(totals)
    ));
    lines
}

/// What runs cost as far as that is known.
fn cost(totals: &Totals) -> String {
    let unknown = || format!("{} of unknown cost", plural(totals.runs_without_cost, "run"));
    let Some(usd) = totals.cost_usd else { return unknown() };
    let mut text = dollars(usd);
    if totals.cost_is_estimate {
        text.push_str(" (in part estimated)");
    }
    if totals.runs_without_cost > 0 {
        let _ = write!(text, ", {}", unknown());
    }
    text
}

/// What the last workflow is at, if it is still at work.
fn workflow_line(ui: Ui, workflow: &WorkflowView) -> Option<StyledLine> {
    if state_of_workflow(workflow) != "running" {
        return None;
    }
    let doing = match &workflow.activity {
        None => String::new(),
        Some((since, activity)) => {
            let (what, item) = match activity {
                Activity::Run { item, .. } => ("a run".to_owned(), item.as_ref()),
                Activity::Gate { gate, item } => (format!("gate {gate}"), item.as_ref()),
                Activity::Limit { agent, .. } => (format!("waits for {agent}'s limit"), None),
                Activity::Backoff { .. } => ("waits to try again".to_owned(), None),
            };
            let item = item.map(|item| format!(" of {item}")).unwrap_or_default();
            format!(", {what}{item} since {}", local_time(*since, now()))
        }
    };
    let since = local_time(workflow.at, now());
    let label = ui.paint(Tone::Strong, "now");
    Some(styled!("{label}        {} since {since}{doing}", workflow.started.kind))
}

fn state_of_workflow(workflow: &WorkflowView) -> &'static str {
    let started = &workflow.started;
    let is_alive =
        || ProcessIdentity::of(started.pid).is_some_and(|process| process.start == started.started);
    match &workflow.ended {
        Some(_) => "ended",
        None if is_alive() => "running",
        None => "killed",
    }
}

fn run_line(ui: Ui, run: &RunView) -> StyledLine {
    let (when, who) = match &run.started {
        Some((at, started)) => {
            (local_time(*at, now()), format!("{} {}", started.role, started.agent))
        }
        None => (String::new(), String::new()),
    };
    let (tone, state) = state_of(run);
    styled!("{when:>16}  {} {}", padded(&who, 24), ui.paint(tone, &state))
}

/// Where a run's output is, if it is still there.
fn log(setup: &Setup, run: &RunView) -> Option<Utf8PathBuf> {
    let (_, started) = run.started.as_ref()?;
    Some(log_of(started, Some(&setup.home.path))).filter(|log| log.exists())
}

fn log_line(setup: &Setup, run: &RunView) -> Option<StyledLine> {
    let log = log(setup, run)?;
    let shown = seen_from(&setup.cwd, &log);
    Some(styled!("{:>18}{}", "", setup.ui.paint(Tone::Faint, shown.as_str())))
}

fn state_of(run: &RunView) -> (Tone, String) {
    match run.state() {
        RunState::Running => (Tone::Active, "running".to_owned()),
        RunState::Abandoned => (Tone::Attention, "its ralph was killed".to_owned()),
        RunState::Finished(finished) => match &finished.outcome {
            RunOutcome::Completed => {
                (Tone::Good, format!("completed in {}", duration(finished.duration)))
            }
            RunOutcome::TimedOut { .. } => (Tone::Bad, "timed out".to_owned()),
            RunOutcome::ContextFull => (Tone::Bad, "context full".to_owned()),
            RunOutcome::Violation { paths } => {
                (Tone::Bad, format!("changed what it must not: {}", paths.join(", ")))
            }
            RunOutcome::Interrupted => (Tone::Attention, "interrupted".to_owned()),
            RunOutcome::Trouble { trouble } => (Tone::Bad, one_line(&trouble.to_string(), 100)),
        },
    }
}

#[derive(Serialize)]
struct JsonStatus<'b> {
    workspace: String,
    home: Option<String>,
    /// The last workflow; `null` where there was none.
    workflow: Option<JsonWorkflow<'b>>,
    waits: Vec<JsonWait<'b>>,
    questions: Vec<JsonQuestion<'b>>,
    /// `null` where there are no specs.
    pipeline: Option<PipelineStatus>,
    /// `null` where there is no plan.
    plan: Option<PlanSummary>,
    runs: Vec<JsonRun<'b>>,
    totals: JsonTotals,
    /// By day, agent, model and role; the last days only.
    sums: Vec<JsonSum<'b>>,
    gates: Vec<JsonGate<'b>>,
}

#[derive(Serialize)]
struct JsonWorkflow<'b> {
    id: &'b str,
    kind: &'b str,
    args: &'b [String],
    pid: i32,
    started: Timestamp,
    /// `running`, `ended` or `killed`.
    state: &'static str,
    ended: Option<Timestamp>,
    how: Option<&'b str>,
    activity: Option<&'b Activity>,
    since: Option<Timestamp>,
    spent: JsonTotals,
    /// What of the budget is nearly used up, or used up.
    budget: &'b [BudgetExhausted],
}

#[derive(Serialize)]
struct JsonWait<'b> {
    agent: &'b str,
    until: Timestamp,
    known: bool,
}

/// A question that waits for a person.
#[derive(Serialize)]
struct JsonQuestion<'b> {
    id: &'b str,
    item: &'b str,
    question: &'b str,
    kind: Option<QuestionKind>,
    choices: &'b [String],
    commit: Option<&'b str>,
    asked_at: Timestamp,
    run: Option<&'b str>,
}

#[derive(Serialize)]
struct JsonRun<'b> {
    id: &'b str,
    item: Option<&'b str>,
    started: Option<Timestamp>,
    role: Option<Role>,
    agent: Option<&'b str>,
    model: Option<&'b str>,
    attempt: Option<u32>,
    state: &'static str,
    outcome: Option<&'b RunOutcome>,
    cost_usd: Option<f64>,
    dir: Option<&'b str>,
    /// `null` where it is not there any more.
    log: Option<Utf8PathBuf>,
}

#[derive(Serialize)]
struct JsonTotals {
    runs: u64,
    tokens: u64,
    /// Of the runs whose cost is known; `null` where there is none.
    cost_usd: Option<f64>,
    cost_is_estimate: bool,
    runs_without_cost: u64,
}

#[derive(Serialize)]
struct JsonSum<'b> {
    day: Option<jiff::civil::Date>,
    agent: Option<&'b str>,
    model: Option<&'b str>,
    role: Option<Role>,
    #[serde(flatten)]
    totals: JsonTotals,
}

#[derive(Serialize)]
struct JsonGate<'b> {
    gate: &'b str,
    last: Timestamp,
    runs: u64,
    passed: u64,
    flaky: u64,
    median_ms: u64,
    p90_ms: u64,
}

impl<'b> JsonStatus<'b> {
    fn new(setup: &Setup, board: &'b Board, last: usize) -> JsonStatus<'b> {
        let older = board.runs().len().saturating_sub(last);
        let first_day = now().to_zoned(TimeZone::UTC).date().saturating_sub(DAYS.days());
        JsonStatus {
            workspace: setup.workspace.root.to_string(),
            home: setup.home.exists.then(|| setup.home.path.to_string()),
            workflow: board.workflows().next_back().map(JsonWorkflow::new),
            waits: board
                .limit_waits(now())
                .map(|(agent, wait)| JsonWait { agent, until: wait.until, known: wait.known })
                .collect(),
            questions: board
                .open_questions()
                .map(|question| JsonQuestion {
                    id: &question.id,
                    item: &question.item,
                    question: &question.text,
                    kind: question.kind,
                    choices: &question.choices,
                    commit: question.commit.as_deref(),
                    asked_at: question.asked_at,
                    run: question.run.as_ref().map(RunId::as_str),
                })
                .collect(),
            pipeline: PipelineStatus::of(setup, board),
            plan: PlanSummary::of(setup),
            runs: board.runs().skip(older).map(|run| JsonRun::new(setup, run)).collect(),
            totals: JsonTotals::new(board.totals()),
            sums: board
                .sums()
                .iter()
                .filter(|row| row.day.is_some_and(|day| day > first_day))
                .map(JsonSum::new)
                .collect(),
            gates: board.gates().iter().map(JsonGate::new).collect(),
        }
    }
}

impl<'b> JsonWorkflow<'b> {
    fn new(workflow: &'b WorkflowView) -> JsonWorkflow<'b> {
        let started = &workflow.started;
        JsonWorkflow {
            id: started.id.as_str(),
            kind: &started.kind,
            args: &started.args,
            pid: started.pid,
            started: workflow.at,
            state: state_of_workflow(workflow),
            ended: workflow.ended.as_ref().map(|(at, _)| *at),
            how: workflow.ended.as_ref().map(|(_, how)| how.as_str()),
            activity: workflow.activity.as_ref().map(|(_, activity)| activity),
            since: workflow.activity.as_ref().map(|(since, _)| *since),
            spent: JsonTotals::new(&workflow.spent),
            budget: &workflow.budget,
        }
    }
}

impl JsonTotals {
    fn new(totals: &Totals) -> JsonTotals {
        JsonTotals {
            runs: totals.finished_runs,
            tokens: totals.usage.total(),
            cost_usd: totals.cost_usd,
            cost_is_estimate: totals.cost_is_estimate,
            runs_without_cost: totals.runs_without_cost,
        }
    }
}

impl<'b> JsonSum<'b> {
    fn new(row: &'b SumRow) -> JsonSum<'b> {
        JsonSum {
            day: row.day,
            agent: row.agent.as_deref(),
            model: row.model.as_deref(),
            role: row.role,
            totals: JsonTotals::new(&row.totals),
        }
    }
}

impl<'b> JsonGate<'b> {
    fn new((gate, times): (&'b String, &GateTimes)) -> JsonGate<'b> {
        JsonGate {
            gate,
            last: times.last,
            runs: times.runs,
            passed: times.passed,
            flaky: times.flaky,
            median_ms: times.percentile(50),
            p90_ms: times.percentile(90),
        }
    }
}

impl<'b> JsonRun<'b> {
    fn new(setup: &Setup, run: &'b RunView) -> JsonRun<'b> {
        let (state, finished) = match run.state() {
            RunState::Running => ("running", None),
            RunState::Abandoned => ("abandoned", None),
            RunState::Finished(finished) => ("finished", Some(finished)),
        };
        let started = run.started.as_ref();
        let told = finished.and_then(|finished| finished.model.as_deref());
        JsonRun {
            id: run.id.as_str(),
            item: started.and_then(|(_, started)| started.item.as_deref()),
            started: started.map(|(at, _)| *at),
            role: started.map(|(_, started)| started.role),
            agent: started.map(|(_, started)| started.agent.as_str()),
            model: told.or_else(|| started.and_then(|(_, started)| started.model.as_deref())),
            attempt: started.map(|(_, started)| started.attempt),
            state,
            outcome: finished.map(|finished| &finished.outcome),
            cost_usd: finished.and_then(|finished| finished.cost_usd),
            dir: started.map(|(_, started)| started.dir.as_str()),
            log: log(setup, run),
        }
    }
}
