//! `ralph agent run` as a person sees it, and its report for machines.

use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use ralph_engine::boundary::{BoundaryFinding, BoundaryReport, InForce};
use ralph_engine::channel::Served;
use ralph_engine::gates::GateObserver;
use ralph_engine::launch::Launch;
use ralph_engine::run::{RunObserver, RunReport};
use ralph_engine::session::{AgentTask, StepObserver};
use ralph_engine::workflow::driver::{Ended, Stop};
use ralph_engine::workflow::repeat::RepeatEnd;
use ralph_model::journal::WorkflowEvent;
use ralph_model::policy::limit::LimitWait;
use ralph_model::role::Role;
use ralph_model::run::{RunEnd, RunOutcome, Trouble};
use serde::Serialize;

use super::human::{bytes, count, dollars, duration, local_time, one_line, plural, seen_from};
use super::live::Live;
use super::{Tone, Ui};
use crate::commands::print_json;
use crate::error::CliError;
use crate::exit::Exit;
use crate::render;
use crate::setup::now;

/// What a person sees of `ralph agent run`.
pub(crate) struct AgentRunScreen {
    ui: Ui,
    /// Where the person stands.
    cwd: Utf8PathBuf,
    repeat: u32,
    completed: u32,
    last: Option<RunReport>,
    /// The wait that was announced, and when its countdown was last shown on a plain screen.
    waited: Option<(LimitWait, Duration)>,
}

/// Says which agent is about to run, and what of its settings has no effect.
pub(crate) fn announce(ui: Ui, launch: &Launch, role: Role, boundary: InForce) {
    let model = launch.choice.model.as_deref().map(|model| format!(", {model}"));
    let text = format!(
        "{} as {role}{}, boundary: {}",
        launch.choice.name,
        model.unwrap_or_default(),
        boundary.as_str()
    );
    ui.labelled(Tone::Active, "start", &text);
    for warning in launch.warnings() {
        ui.labelled(Tone::Attention, "note", &warning);
    }
}

impl AgentRunScreen {
    pub(crate) fn new(ui: Ui, cwd: Utf8PathBuf, repeat: u32) -> AgentRunScreen {
        AgentRunScreen { ui, cwd, repeat, completed: 0, last: None, waited: None }
    }

    /// What the agent asked for and left.
    fn show_channel_and_outbox(&self, report: &RunReport) {
        let served = &report.served;
        if *served != Served::default() {
            let text = format!(
                "{} requests accepted, {} refused, {} ignored",
                served.accepted, served.refused, served.ignored
            );
            self.ui.labelled(Tone::Attention, "channel", &text);
        }
        for path in &report.outbox.kept {
            self.ui.labelled(Tone::Faint, "left", seen_from(&self.cwd, path).as_str());
        }
        for left in &report.outbox.not_taken {
            let text = format!("not kept: `{}`: {}", left.name.escape_debug(), left.reason);
            self.ui.labelled(Tone::Attention, "left", &text);
        }
    }

    /// Prints the result and says how to go on.
    pub(crate) fn conclude(
        self,
        ended: &Ended<RepeatEnd>,
        json: bool,
        agent: &str,
        boundary: InForce,
    ) -> Result<Exit, CliError> {
        let exit = match ended {
            Ended::By(RepeatEnd::Completed) => Exit::Done,
            Ended::By(RepeatEnd::Failed) => Exit::Unfinished,
            Ended::Stopped(stop) => self.show_stop(stop, agent),
        };
        let Some(report) = &self.last else { return Ok(exit) };
        if json {
            print_json(&JsonReport::new(report, boundary))?;
        } else if let Some(text) = &report.facts.final_message {
            render::data(text)?;
        }
        Ok(exit)
    }

    /// Says why no further run was started. There is no item that a next start would go on with.
    fn show_stop(&self, stop: &Stop, agent: &str) -> Exit {
        match stop {
            Stop::Interrupted => {
                let session = self.last.as_ref().and_then(|report| report.facts.session.clone());
                let how = session.map(|session| format!("; go on with --resume {session}"));
                render::important(&format!("interrupted{}", how.unwrap_or_default()));
                return Exit::Interrupted;
            }
            Stop::OutOfBudget(budget) => render::important(&format!("stopped: {budget}")),
            Stop::Limited { wait, .. } => {
                let until = local_time(wait.until, now());
                render::important(&format!("{agent} is at its usage limit until about {until}"));
            }
            Stop::Stuck { .. } => {
                render::important("the same trouble three times in a row; giving up");
            }
            Stop::TooMuchTrouble { times, .. } => {
                render::important(&format!("trouble {times} times in a row; giving up"));
            }
            Stop::Waiting { question, .. } => render::important(question),
        }
        Exit::Unfinished
    }
}

impl GateObserver for AgentRunScreen {}

impl StepObserver for AgentRunScreen {
    fn run_begins(&mut self, task: &AgentTask, agent: &str, resumed: bool) -> Box<dyn RunObserver> {
        self.waited = None;
        let mut title = format!("{} {agent}", task.role);
        if self.repeat > 1 {
            title = format!("{title} {}/{}", self.completed + 1, self.repeat);
        }
        if resumed {
            title.push_str(" (resumed)");
        }
        Box::new(Live::start(self.ui, title))
    }

    fn run_ended(&mut self, report: &RunReport) {
        self.completed += u32::from(report.outcome == RunOutcome::Completed);
        show_end(self.ui, report, Some(&self.cwd));
        self.show_channel_and_outbox(report);
        self.last = Some(report.clone());
    }

    fn recorded(&mut self, _: &WorkflowEvent) {}

    fn waiting(&mut self, wait: LimitWait, left: Duration) {
        let announced = self.waited.map(|(_, told)| told);
        let text = format!(
            "usage limit: waiting until {} ({} left); Ctrl-C stops, and the next start goes on waiting",
            local_time(wait.until, now()),
            duration(left)
        );
        if self.ui.rich {
            render::redraw(&text);
        } else if announced.is_none_or(|told| told.saturating_sub(left) >= Duration::from_mins(5)) {
            self.ui.labelled(Tone::Attention, "wait", &text);
            self.waited = Some((wait, left));
        }
    }

    fn pausing(&mut self, left: Duration) {
        if self.ui.rich {
            render::redraw(&format!("trying again in {}", duration(left)));
        }
    }
}

/// Says how a run ended, what it used and, to somebody who stands somewhere, where its log is.
pub(crate) fn show_end(ui: Ui, report: &RunReport, cwd: Option<&Utf8Path>) {
    let (tone, label, what) = describe(report);
    let mut parts = vec![what, duration(report.elapsed)];
    if report.usage.total() > 0 {
        parts.push(format!("{} tokens", count(report.usage.total())));
    }
    if let Some(cost) = report.cost_usd {
        let about = if report.cost_is_estimate { "about " } else { "" };
        parts.push(format!("{about}{}", dollars(cost)));
    }
    if report.facts.tool_calls > 0 {
        parts.push(plural(report.facts.tool_calls, "tool call"));
    }
    if report.leftovers > 0 {
        parts.push(format!("{} left behind and ended", plural(report.leftovers as u64, "process")));
    }
    ui.labelled(tone, label, &parts.join(", "));
    show_boundary(ui, &report.boundary);
    if let Some(cwd) = cwd {
        let log = &report.logs.stdout;
        let text = format!("{} ({})", seen_from(cwd, log), bytes(report.stdout_bytes));
        ui.labelled(Tone::Faint, "log", &text);
    }
}

/// Says what a run changed that it was to leave alone, and what became of it.
pub(crate) fn show_boundary(ui: Ui, boundary: &BoundaryReport) {
    let list = |found: &[BoundaryFinding]| {
        let names: Vec<&str> = found.iter().take(5).map(|found| found.path.as_str()).collect();
        let more = found.len().saturating_sub(5);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{}{more}", names.join(", "))
    };
    for (tone, what, found) in [
        (Tone::Bad, "changed, and must not be:", &boundary.violations),
        (Tone::Attention, "put back:", &boundary.put_back),
        (Tone::Bad, "not put back:", &boundary.left),
        (Tone::Faint, "yours, and kept:", &boundary.kept),
    ] {
        if !found.is_empty() {
            ui.labelled(tone, "boundary", &format!("{what} {}", list(found)));
        }
    }
    if let Some(directory) = &boundary.saved_in {
        let commit = boundary.displaced.as_ref().map(|name| format!(" and {name}"));
        let text = format!("what was undone is in {directory}{}", commit.unwrap_or_default());
        ui.labelled(Tone::Faint, "boundary", &text);
    }
}

fn describe(report: &RunReport) -> (Tone, &'static str, String) {
    match &report.outcome {
        RunOutcome::Completed => (Tone::Good, "done", "completed".to_owned()),
        RunOutcome::TimedOut { idle: true, after } => {
            (Tone::Bad, "timeout", format!("no progress for {}", duration(*after)))
        }
        RunOutcome::TimedOut { idle: false, after } => {
            (Tone::Bad, "timeout", format!("longer than {}", duration(*after)))
        }
        RunOutcome::ContextFull => (Tone::Bad, "context", "the context was full".to_owned()),
        RunOutcome::Violation { .. } => {
            (Tone::Bad, "boundary", "it changed what its role must not change".to_owned())
        }
        RunOutcome::Interrupted => (Tone::Attention, "stopped", "interrupted".to_owned()),
        RunOutcome::Trouble { trouble: Trouble::UsageLimit { resets_at } } => {
            let until = resets_at.map(|at| format!(", which resets at {}", local_time(at, now())));
            let text = format!("the usage limit was hit{}", until.unwrap_or_default());
            (Tone::Attention, "limit", text)
        }
        RunOutcome::Trouble { trouble } => {
            (Tone::Bad, "trouble", one_line(&trouble.to_string(), 200))
        }
    }
}

/// The report for machines.
#[derive(Serialize)]
struct JsonReport<'a> {
    run: &'a str,
    boundary: InForce,
    outcome: &'a RunOutcome,
    end: &'a RunEnd,
    exit: Option<ralph_model::run::ProcessExit>,
    session: Option<&'a str>,
    model: Option<&'a str>,
    usage: ralph_model::usage::Usage,
    cost_usd: Option<f64>,
    cost_is_estimate: bool,
    duration_ms: u128,
    cpu_ms: u128,
    tool_calls: u64,
    leftovers: usize,
    changes: &'a BoundaryReport,
    final_message: Option<&'a str>,
    log: &'a Utf8Path,
    /// `null` where nothing was printed there.
    stderr_log: Option<&'a Utf8Path>,
    events: &'a Utf8Path,
    requests: JsonRequests,
    outbox: &'a [Utf8PathBuf],
}

/// What the agent asked for.
#[derive(Serialize)]
struct JsonRequests {
    accepted: usize,
    refused: usize,
    ignored: usize,
}

impl<'a> JsonReport<'a> {
    fn new(report: &'a RunReport, boundary: InForce) -> JsonReport<'a> {
        JsonReport {
            run: report.id.as_str(),
            boundary,
            outcome: &report.outcome,
            end: &report.end,
            exit: report.exit,
            session: report.facts.session.as_deref(),
            model: report.facts.model.as_deref(),
            usage: report.usage,
            cost_usd: report.cost_usd,
            cost_is_estimate: report.cost_is_estimate,
            duration_ms: report.elapsed.as_millis(),
            cpu_ms: report.cpu.as_millis(),
            tool_calls: report.facts.tool_calls,
            leftovers: report.leftovers,
            changes: &report.boundary,
            final_message: report.facts.final_message.as_deref(),
            log: &report.logs.stdout,
            stderr_log: (report.stderr_bytes > 0).then_some(&*report.logs.stderr),
            events: &report.logs.events,
            requests: JsonRequests {
                accepted: report.served.accepted,
                refused: report.served.refused,
                ignored: report.served.ignored,
            },
            outbox: &report.outbox.kept,
        }
    }
}
