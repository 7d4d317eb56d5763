//! `ralph status`: one screen, from the journal and from home: the markers of the specs, the plan.

mod follow;
mod pipeline;
mod plan;
mod stories;
mod unfinished;

use std::fmt::Write as _;

use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use ralph_engine::workflow::isolation::upkeep::LandedBranch;
use ralph_engine::workflow::overview::StoriesOverview;
use ralph_engine::workflow::phased::Phased;
use ralph_model::board::{Activity, Board, GateTimes, RunView, SumRow, Totals, WorkflowView};
use ralph_model::id::RunId;
use ralph_model::journal::QuestionKind;
use ralph_model::policy::budget::BudgetExhausted;
use ralph_model::role::Role;
use ralph_proc::tree::ProcessIdentity;
use serde::Serialize;

use self::pipeline::PipelineStatus;
use self::plan::PlanSummary;
pub(super) use self::plan::seen_plan;
use self::unfinished::{UnfinishedInterview, UnfinishedLoop};
use super::answer::how_to_answer;
use super::runs::{JsonRun, RunIds, RunTable, log_file};
use super::{land, print_json};
use crate::args::{GlobalArgs, StatusArgs};
use crate::error::CliError;
use crate::exit::Exit;
use crate::render::human::{count, dollars, duration, local_time, plural, seen_from};
use crate::render::text::{StyledLine, columns};
use crate::render::{Tone, Ui, room_after, styled};
use crate::setup::{Setup, now};

/// How many recent runs are shown.
const SHOWN: usize = 8;

/// What is said of accepted work that is not on its branch yet.
const ACCEPTED: &str = "accepted, waiting to land:";

/// The number of days whose sums are listed.
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
    for (holder, wait) in board.limit_waits(now()) {
        let until = local_time(wait.until, now());
        let agent = &holder.agent;
        let text = format!(
            "{agent} is at its usage limit until about {until}; `ralph limits clear` forgets it"
        );
        lines.push(ui.paint(Tone::Attention, &text).into());
    }
    for question in board.open_questions() {
        let text = format!("waits for you: {}", how_to_answer(question));
        lines.push(ui.paint(Tone::Attention, &text).into());
    }
    if let Some((place, count)) =
        setup.find_state().ok().flatten().and_then(|state| state.damaged_records())
    {
        let what = plural(count as u64, "record");
        let text = format!("{what} of private state could not be read, and are kept in `{place}`");
        lines.push(ui.paint(Tone::Attention, &text).into());
    }
    let waiting = setup.waiting_to_land();
    for branch in &waiting {
        let text = format!("{} {}", ACCEPTED, land::described(branch));
        lines.push(ui.paint(Tone::Attention, &text).into());
    }
    let pipeline = PipelineStatus::of(setup, board);
    lines.extend(pipeline.iter().flat_map(|pipeline| pipeline.lines(ui)));
    let plan = PlanSummary::of(setup);
    lines.extend(plan.iter().flat_map(|plan| plan.lines(ui)));
    lines.extend(stories::overview(setup).map(|found| stories::line(ui, &found)));
    lines.extend(UnfinishedLoop::of(setup, board).map(|found| found.line(ui)));
    lines.extend(UnfinishedInterview::of(setup, board).map(|found| found.line(ui)));
    let last = board.workflows().next_back().filter(|workflow| !is_taken_back(setup, workflow));
    lines.extend(last.and_then(|workflow| workflow_line(ui, workflow)));
    let runs = board.runs();
    if runs.len() == 0 {
        let how = match pipeline {
            _ if plan.is_some_and(|plan| plan.has_work()) => "ralph build",
            Some(_) => "ralph pipeline",
            None if setup.home.exists => "ralph specs new \"Title\"",
            None => "ralph agent run \"…\"",
        };
        lines.push(styled!("no runs yet; try `{how}`"));
        return lines;
    }
    lines.push("".into());
    let older = runs.len().saturating_sub(SHOWN);
    let runs: Vec<&RunView> = runs.skip(older).collect();
    let table = RunTable::new(ui, &waiting, &runs, RunIds::Hidden);
    for run in &runs {
        lines.extend(table.lines(run));
        lines.extend(log_line(setup, run, table.indent()));
    }
    let totals = board.totals();
    lines.push("".into());
    lines.push(styled!(
        "{}, {}, {}{} tokens, {}",
        plural(totals.finished_runs, "run"),
        duration(totals.duration),
        if totals.usage_is_estimate { "about " } else { "" },
        count(totals.usage.total()),
        cost(totals)
    ));
    lines
}

/// The known cost of runs.
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

/// Whether the last workflow was a loop whose task is over by now, accepted or rolled back: nothing is left to resume.
fn is_taken_back(setup: &Setup, workflow: &WorkflowView) -> bool {
    let task = || Phased::last(&setup.find_state().ok()??).ok()?;
    let is_over = || task().is_none_or(|task| task.is_over());
    workflow.started.kind == "loop" && state_of_workflow(workflow) != "running" && is_over()
}

/// What the last workflow is at, if it is still at work.
fn workflow_line(ui: Ui, workflow: &WorkflowView) -> Option<StyledLine> {
    if state_of_workflow(workflow) != "running" {
        return cut_short(workflow)
            .map(|text| styled!("{}       {text}", ui.paint(Tone::Strong, "last")));
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

/// Names the last workflow if it stopped early, and the command that continues it. A question is shown separately.
fn cut_short(workflow: &WorkflowView) -> Option<String> {
    let kind = workflow.started.kind.as_str();
    let how = match &workflow.ended {
        None => "was killed",
        Some((_, how)) => match how.as_str() {
            "interrupted" => "was interrupted",
            "limited" => "stopped at a usage limit",
            "out_of_budget" => "stopped at its budget",
            "stuck" => "stopped after repeated trouble",
            "declined" => "stopped: you said no to another try",
            _ => return None,
        },
    };
    let next = match kind {
        "pipeline" | "build" | "run" | "understand" => format!("ralph {kind}"),
        "loop" | "exec" => format!("ralph {kind} --resume"),
        // An interview about a goal; planning a spec starts over.
        "plan"
            if workflow.started.args.iter().any(|arg| arg.contains(' ') || arg == "--resume") =>
        {
            "ralph plan --resume".to_owned()
        }
        _ => return None,
    };
    let at = workflow.ended.as_ref().map_or(workflow.at, |(at, _)| *at);
    Some(format!("`{kind}` {how}, {}; `{next}` continues", local_time(at, now())))
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

fn log_line(setup: &Setup, run: &RunView, indent: usize) -> Option<StyledLine> {
    let log = log_file(setup, run)?;
    let path = seen_from(&setup.cwd, &log).to_string();
    let fits = columns(&path) <= room_after(indent, usize::MAX);
    let shown = if fits { path } else { format!("ralph runs tail {}", run.id) };
    Some(styled!("{:indent$}{}", "", setup.ui.paint(Tone::Faint, &shown)))
}

#[derive(Serialize)]
struct JsonStatus<'b> {
    workspace: String,
    home: Option<String>,
    /// The last workflow; `null` if there was none.
    workflow: Option<JsonWorkflow<'b>>,
    waits: Vec<JsonWait<'b>>,
    questions: Vec<JsonQuestion<'b>>,
    /// Branches with accepted work that has to land, and what to do.
    landing: Vec<LandedBranch>,
    /// `null` without specs.
    pipeline: Option<PipelineStatus>,
    /// `null` without a plan.
    plan: Option<PlanSummary>,
    /// `null` without a PRD with stories.
    stories: Option<StoriesOverview>,
    /// `null` without an unfinished task of the loop.
    #[serde(rename = "loop")]
    phased: Option<UnfinishedLoop>,
    /// `null` without an unfinished interview.
    interview: Option<UnfinishedInterview>,
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
    /// The parts of the budget that are nearly or fully used up.
    budget: &'b [BudgetExhausted],
}

#[derive(Serialize)]
struct JsonWait<'b> {
    agent: &'b str,
    /// Distinguishes commands and logins of one agent.
    account: Option<&'b str>,
    until: Timestamp,
    known: bool,
}

/// An unanswered question.
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
struct JsonTotals {
    runs: u64,
    tokens: u64,
    tokens_are_estimate: bool,
    /// Over the runs whose cost is known; `null` if there is none.
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
                .map(|(holder, wait)| JsonWait {
                    agent: &holder.agent,
                    account: holder.account.as_deref(),
                    until: wait.until,
                    known: wait.known,
                })
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
            landing: setup.waiting_to_land(),
            pipeline: PipelineStatus::of(setup, board),
            plan: PlanSummary::of(setup),
            stories: stories::overview(setup),
            phased: UnfinishedLoop::of(setup, board),
            interview: UnfinishedInterview::of(setup, board),
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
            tokens_are_estimate: totals.usage_is_estimate,
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
