//! The display of `ralph agent run`, and its report for programs.

use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use jiff::Timestamp;
use ralph_engine::boundary::{BoundaryReport, InForce};
use ralph_engine::channel::Served;
use ralph_engine::launch::Launch;
use ralph_engine::run::{RunReport, log_of};
use ralph_engine::subscriber::{RunObserver, Subscriber};
use ralph_engine::workflow::driver::Stop;
use ralph_model::board::{Board, RunView};
use ralph_model::id::RunId;
use ralph_model::journal::{BoundaryCrossed, JournalEntry, JournalEvent};
use ralph_model::role::Role;
use ralph_model::run::{RunEnd, RunOutcome, Trouble};
use serde::Serialize;

use super::human::{bytes, dollars, duration, local_time, one_line, plural, seen_from, tokens};
use super::live::Live;
use super::{Tone, Ui};
use crate::commands::print_json;
use crate::error::CliError;
use crate::exit::Exit;
use crate::render;
use crate::setup::now;

/// The screen of `ralph agent run`.
pub(crate) struct AgentRunScreen {
    ui: Ui,
    /// The current directory.
    cwd: Utf8PathBuf,
    repeat: u32,
    completed: u32,
    wait: WaitLine,
}

/// Announces the agent, and settings that have no effect on it.
pub(crate) fn announce(ui: Ui, launch: &Launch, role: Role, boundary: InForce) {
    let model = launch.choice.model.as_deref().map(|model| format!(", {model}"));
    let text = format!(
        "{} as {role}{}, boundary: {}",
        launch.choice.name,
        model.unwrap_or_default(),
        boundary.told()
    );
    ui.labelled(Tone::Active, "start", &text);
    for warning in launch.warnings() {
        ui.labelled(Tone::Attention, "note", &warning);
    }
}

impl AgentRunScreen {
    pub(crate) fn new(ui: Ui, cwd: Utf8PathBuf, repeat: u32) -> AgentRunScreen {
        AgentRunScreen { ui, cwd, repeat, completed: 0, wait: WaitLine::new(ui) }
    }
}

impl Subscriber for AgentRunScreen {
    fn recorded(&mut self, entry: &JournalEntry, board: &Board) {
        self.wait.recorded(&entry.event);
        match &entry.event {
            JournalEvent::BoundaryCrossed(crossed) => show_boundary(self.ui, crossed),
            JournalEvent::RunFinished(finished) => {
                self.completed += u32::from(finished.outcome == RunOutcome::Completed);
                if let Some(run) = entry.run.as_ref().and_then(|run| board.run(run)) {
                    show_end(self.ui, run, Some(&self.cwd));
                }
            }
            _ => {}
        }
    }

    fn follow(&mut self, run: &RunId, board: &Board) -> Box<dyn RunObserver> {
        let mut title = title(board.run(run));
        if self.repeat > 1 {
            title = format!("{title} {}/{}", self.completed + 1, self.repeat);
            if !self.ui.rich {
                let text = format!("run {} of {}", self.completed + 1, self.repeat);
                self.ui.labelled(Tone::Active, "run", &text);
            }
        }
        Box::new(Live::start(self.ui, title))
    }

    fn waiting(&mut self, left: Duration) {
        self.wait.show(left);
    }
}

/// Returns the title of a running run: role and agent.
pub(super) fn title(run: Option<&RunView>) -> String {
    let Some((_, started)) = run.and_then(|run| run.started.as_ref()) else { return String::new() };
    let resumed = if started.resumed_session.is_some() { " (resumed)" } else { "" };
    format!("{} {}{resumed}", started.role, started.agent)
}

/// A wait on the screen: a redrawn line, or a line every few minutes.
pub(super) struct WaitLine {
    ui: Ui,
    /// The end of the usage limit; `None` for a wait after a failure.
    until: Option<Timestamp>,
    told: Option<Duration>,
}

impl WaitLine {
    pub(super) fn new(ui: Ui) -> WaitLine {
        WaitLine { ui, until: None, told: None }
    }

    /// Records the kind of a wait that begins.
    pub(super) fn recorded(&mut self, event: &JournalEvent) {
        match event {
            JournalEvent::UsageLimitWait(wait) => self.until = wait.until,
            JournalEvent::BackoffWait(_) => self.until = None,
            JournalEvent::RunStarted(_) => self.told = None,
            _ => {}
        }
    }

    pub(super) fn show(&mut self, left: Duration) {
        let Some(until) = self.until else {
            if self.ui.rich {
                render::redraw(&format!("retrying in {}", duration(left)));
            }
            return;
        };
        let text = format!(
            "usage limit: waiting until {} ({} left); Ctrl-C stops; the next start keeps waiting",
            local_time(until, now()),
            duration(left)
        );
        if self.ui.rich {
            render::redraw(&text);
        } else if self.told.is_none_or(|told| told.saturating_sub(left) >= Duration::from_mins(5)) {
            self.ui.labelled(Tone::Attention, "wait", &text);
            self.told = Some(left);
        }
    }
}

/// Explains why no further run was started. There is no item to continue with the next start.
pub(crate) fn show_stop(stop: &Stop, agent: &str, last: Option<&RunReport>) -> Exit {
    match stop {
        Stop::Interrupted => {
            let session = last.and_then(|report| report.facts.session.clone());
            let how = session.map(|session| {
                format!("; `ralph agent run --resume {session} \"…\"` continues its session")
            });
            render::important(&format!("interrupted{}", how.unwrap_or_default()));
            return Exit::Interrupted;
        }
        Stop::OutOfBudget(budget) => render::important(&format!("stopped: {budget}")),
        Stop::Limited { wait, .. } => {
            let until = local_time(wait.until, now());
            render::important(&format!("{agent} is at its usage limit until about {until}"));
        }
        Stop::Stuck { .. } => {
            render::important("the same problem three times in a row; giving up");
        }
        Stop::TooMuchTrouble { times, .. } => {
            render::important(&format!("problems {times} times in a row; giving up"));
        }
        Stop::Waiting { question, .. } | Stop::Unexplained { question, .. } => {
            render::important(question);
        }
        // Only workflows of items ask whether to try again.
        Stop::Declined { .. } => {}
    }
    Exit::Unfinished
}

/// Shows the agent's requests and leftovers, and prints its final message; for programs, all details of the run.
pub(crate) fn show_report(
    ui: Ui,
    cwd: &Utf8Path,
    report: &RunReport,
    json: Option<InForce>,
) -> Result<(), CliError> {
    let served = &report.served;
    if *served != Served::default() {
        let text = format!(
            "{} requests accepted, {} refused, {} ignored",
            served.accepted, served.refused, served.ignored
        );
        ui.labelled(Tone::Attention, "channel", &text);
    }
    for path in &report.outbox.kept {
        ui.labelled(Tone::Faint, "left", seen_from(cwd, path).as_str());
    }
    for left in &report.outbox.not_taken {
        let text = format!("not kept: `{}`: {}", left.name.escape_debug(), left.reason);
        ui.labelled(Tone::Attention, "left", &text);
    }
    if let Some(boundary) = json {
        print_json(&JsonReport::new(report, boundary))
    } else if let Some(text) = &report.facts.final_message {
        render::data(text)
    } else {
        Ok(())
    }
}

/// Reports how a run ended, its usage, and its log relative to the current directory.
pub(crate) fn show_end(ui: Ui, run: &RunView, cwd: Option<&Utf8Path>) {
    let Some((_, finished)) = &run.finished else { return };
    let (tone, label, what) = describe(&finished.outcome);
    let mut parts = vec![what, duration(finished.duration)];
    if finished.usage.total() > 0 {
        let about = if finished.usage_is_estimate { "about " } else { "" };
        parts.push(format!("{about}{}", tokens(finished.usage.total())));
    }
    if let Some(cost) = finished.cost_usd {
        let about = if finished.cost_is_estimate { "about " } else { "" };
        parts.push(format!("{about}{}", dollars(cost)));
    }
    if finished.tool_calls > 0 {
        parts.push(plural(finished.tool_calls, "tool call"));
    }
    if let Some(leftovers) = finished.leftovers {
        parts.push(format!("ended {}", plural(leftovers, "leftover process")));
    }
    ui.labelled(tone, label, &parts.join(", "));
    for advice in &finished.advice {
        ui.labelled(Tone::Attention, "hint", advice);
    }
    if let (Some(cwd), Some((_, started))) = (cwd, &run.started) {
        let log = log_of(started, None);
        let size = finished.stdout_bytes.map(|size| format!(" ({})", bytes(size)));
        let size = size.unwrap_or_default();
        let path = format!("{}{size}", seen_from(cwd, &log));
        // A wrapped path cannot be copied.
        let command = format!("ralph runs tail {}{size}", run.id);
        ui.labelled_or(Tone::Faint, "log", &path, &command);
    }
}

/// Reports forbidden changes of a run, and how they were handled.
pub(crate) fn show_boundary(ui: Ui, crossed: &BoundaryCrossed) {
    let list = |found: &[String]| {
        let names: Vec<&str> = found.iter().take(5).map(String::as_str).collect();
        let more = found.len().saturating_sub(5);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{}{more}", names.join(", "))
    };
    for (tone, what, found) in [
        (Tone::Bad, "forbidden change:", &crossed.violations),
        (Tone::Attention, "reverted:", &crossed.put_back),
        (Tone::Bad, "not reverted:", &crossed.left),
        (Tone::Faint, "left alone, as it is yours:", &crossed.kept),
    ] {
        if !found.is_empty() {
            ui.labelled(tone, "boundary", &format!("{what} {}", list(found)));
        }
    }
    if let Some(directory) = &crossed.saved_in {
        let commit = crossed.displaced.as_ref().map(|name| format!(" and {name}"));
        let text =
            format!("reverted changes are saved in {directory}{}", commit.unwrap_or_default());
        ui.labelled(Tone::Faint, "boundary", &text);
    }
}

fn describe(outcome: &RunOutcome) -> (Tone, &'static str, String) {
    match outcome {
        RunOutcome::Completed => (Tone::Good, "done", "completed".to_owned()),
        RunOutcome::TimedOut { idle: true, after } => {
            (Tone::Bad, "timeout", format!("no progress for {}", duration(*after)))
        }
        RunOutcome::TimedOut { idle: false, after } => {
            (Tone::Bad, "timeout", format!("longer than {}", duration(*after)))
        }
        RunOutcome::ContextFull => (Tone::Bad, "context", "the context was full".to_owned()),
        RunOutcome::Violation { .. } => {
            (Tone::Bad, "boundary", "it changed what its role may not change".to_owned())
        }
        RunOutcome::Interrupted => (Tone::Attention, "stopped", "interrupted".to_owned()),
        RunOutcome::Withdrawn => {
            (Tone::Attention, "stopped", "you decided about its item during the run".to_owned())
        }
        RunOutcome::Trouble { trouble: Trouble::UsageLimit { resets_at } } => {
            let until = resets_at.map(|at| format!("; it resets at {}", local_time(at, now())));
            let text = format!("the usage limit was hit{}", until.unwrap_or_default());
            (Tone::Attention, "limit", text)
        }
        RunOutcome::Trouble { trouble } => {
            (Tone::Bad, "trouble", one_line(&trouble.to_string(), 200))
        }
    }
}

/// The report for programs.
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
    usage_is_estimate: bool,
    duration_ms: u128,
    cpu_ms: u128,
    tool_calls: u64,
    leftovers: usize,
    changes: &'a BoundaryReport,
    final_message: Option<&'a str>,
    log: &'a Utf8Path,
    /// `null` if stderr was empty.
    stderr_log: Option<&'a Utf8Path>,
    events: &'a Utf8Path,
    requests: JsonRequests,
    outbox: &'a [Utf8PathBuf],
    /// Advice for the person on a failed run.
    advice: &'a [String],
}

/// The agent's requests.
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
            usage_is_estimate: report.usage_is_estimate,
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
            advice: &report.advice,
        }
    }
}
