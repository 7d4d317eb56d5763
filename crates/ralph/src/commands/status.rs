//! `ralph status`: one screen, folded from the journal and from home: the markers of the specs, the plan.

mod follow;
mod pipeline;
mod plan;

use std::fmt::Write as _;

use camino::Utf8PathBuf;
use ralph_engine::run::log_of;
use ralph_model::journal::{Overview, RunState, RunView};
use ralph_model::run::RunOutcome;
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

pub(crate) fn run(global: &GlobalArgs, args: &StatusArgs) -> Result<Exit, CliError> {
    let setup = Setup::load(global, &[])?;
    if args.follow {
        return follow::run(&setup, args.last);
    }
    let overview = setup.overview()?;
    if setup.json {
        print_json(&JsonStatus::new(&setup, &overview))?;
    } else {
        setup.ui.print(screen(&setup, &overview))?;
    }
    Ok(Exit::Done)
}

fn screen(setup: &Setup, overview: &Overview) -> Vec<StyledLine> {
    let ui = setup.ui;
    let mut lines =
        vec![styled!("{}  {}", ui.paint(Tone::Strong, "workspace"), setup.workspace.root)];
    let home = if setup.home.exists {
        setup.home.path.to_string()
    } else {
        "none yet (`ralph init` makes one)".to_owned()
    };
    lines.push(styled!("{}       {home}", ui.paint(Tone::Strong, "home")));
    for (agent, wait) in overview.limit_waits(now()) {
        let until = local_time(wait.until, now());
        let text = format!("{agent} is at its usage limit until about {until}");
        lines.push(ui.paint(Tone::Attention, &text).into());
    }
    for question in overview.open_questions() {
        let text = format!("waits for you: {}", how_to_answer(question));
        lines.push(ui.paint(Tone::Attention, &text).into());
    }
    let pipeline = PipelineStatus::of(setup, overview);
    lines.extend(pipeline.iter().flat_map(|pipeline| pipeline.lines(ui)));
    lines.extend(PlanSummary::of(setup).iter().flat_map(|plan| plan.lines(ui)));
    let runs = overview.runs();
    if runs.is_empty() {
        let how = if pipeline.is_some() { "ralph pipeline" } else { "ralph agent run \"…\"" };
        lines.push(styled!("no runs yet; try `{how}`"));
        return lines;
    }
    lines.push("".into());
    for run in &runs[runs.len().saturating_sub(SHOWN)..] {
        lines.push(run_line(ui, run));
        lines.extend(log_line(setup, run));
    }
    let totals = overview.totals();
    let mut sum = format!(
        "{}, {}, {} tokens, {}",
        plural(totals.finished_runs, "run"),
        duration(totals.duration),
        count(totals.usage.total()),
        dollars(totals.cost_usd)
    );
    if totals.cost_is_estimate {
        sum.push_str(" (in part estimated)");
    }
    if totals.runs_without_cost > 0 {
        let _ = write!(sum, ", {} of unknown cost", plural(totals.runs_without_cost, "run"));
    }
    lines.push("".into());
    lines.push(sum.into());
    lines
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
fn log(run: &RunView) -> Option<Utf8PathBuf> {
    let (_, started) = run.started.as_ref()?;
    Some(log_of(started)).filter(|log| log.exists())
}

fn log_line(setup: &Setup, run: &RunView) -> Option<StyledLine> {
    let log = log(run)?;
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
struct JsonStatus {
    workspace: String,
    home: Option<String>,
    waits: Vec<JsonWait>,
    questions: Vec<JsonQuestion>,
    /// `null` where there are no specs.
    pipeline: Option<PipelineStatus>,
    /// `null` where there is no plan.
    plan: Option<PlanSummary>,
    runs: Vec<JsonRun>,
    totals: JsonTotals,
}

#[derive(Serialize)]
struct JsonWait {
    agent: String,
    until: jiff::Timestamp,
    known: bool,
}

/// A question that waits for a person.
#[derive(Serialize)]
struct JsonQuestion {
    id: String,
    item: String,
    question: String,
    asked_at: jiff::Timestamp,
    run: Option<String>,
}

#[derive(Serialize)]
struct JsonRun {
    id: String,
    started: Option<jiff::Timestamp>,
    role: Option<String>,
    agent: Option<String>,
    state: &'static str,
    outcome: Option<RunOutcome>,
    cost_usd: Option<f64>,
    dir: Option<String>,
    /// `null` where it is not there any more.
    log: Option<Utf8PathBuf>,
}

#[derive(Serialize)]
struct JsonTotals {
    runs: u64,
    tokens: u64,
    cost_usd: f64,
    cost_is_estimate: bool,
    runs_without_cost: u64,
}

impl JsonStatus {
    fn new(setup: &Setup, overview: &Overview) -> JsonStatus {
        let totals = overview.totals();
        JsonStatus {
            workspace: setup.workspace.root.to_string(),
            home: setup.home.exists.then(|| setup.home.path.to_string()),
            waits: overview
                .limit_waits(now())
                .map(|(agent, wait)| JsonWait {
                    agent: agent.to_owned(),
                    until: wait.until,
                    known: wait.known,
                })
                .collect(),
            questions: overview
                .open_questions()
                .map(|question| JsonQuestion {
                    id: question.id.clone(),
                    item: question.item.clone(),
                    question: question.text.clone(),
                    asked_at: question.asked_at,
                    run: question.run.as_ref().map(ToString::to_string),
                })
                .collect(),
            pipeline: PipelineStatus::of(setup, overview),
            plan: PlanSummary::of(setup),
            runs: overview.runs().iter().map(JsonRun::new).collect(),
            totals: JsonTotals {
                runs: totals.finished_runs,
                tokens: totals.usage.total(),
                cost_usd: totals.cost_usd,
                cost_is_estimate: totals.cost_is_estimate,
                runs_without_cost: totals.runs_without_cost,
            },
        }
    }
}

impl JsonRun {
    fn new(run: &RunView) -> JsonRun {
        let started = run.started.as_ref();
        let (state, outcome, cost_usd) = match run.state() {
            RunState::Running => ("running", None, None),
            RunState::Abandoned => ("abandoned", None, None),
            RunState::Finished(finished) => {
                ("finished", Some(finished.outcome.clone()), finished.cost_usd)
            }
        };
        JsonRun {
            id: run.id.to_string(),
            started: started.map(|(at, _)| *at),
            role: started.map(|(_, started)| started.role.to_string()),
            agent: started.map(|(_, started)| started.agent.clone()),
            state,
            outcome,
            cost_usd,
            dir: started.map(|(_, started)| started.dir.clone()),
            log: log(run),
        }
    }
}
