//! The display of the pipeline and the build loop: one line per step, with the agents' events below it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use camino::Utf8PathBuf;
use ralph_engine::home::Workspace;
use ralph_engine::state::State;
use ralph_engine::subscriber::{RunObserver, Subscriber};
use ralph_engine::workflow::driver::Stop;
use ralph_engine::workflow::pipeline::queue::PipelineReport;
use ralph_engine::workflow::pipeline::{CHANGED_SINCE_DONE, SpecEnd};
use ralph_model::board::{Board, RunState, RunView};
use ralph_model::id::RunId;
use ralph_model::journal::{JournalEntry, JournalEvent, TroubleMet, VerdictKind};
use ralph_model::pipeline::GiveUp;
use ralph_model::proof::{LandedLevel, ProofLevel};
use ralph_model::run::RunOutcome;

use super::agent_run::{WaitLine, show_boundary, show_end, title};
use super::human::{duration, one_line, plural, seen_from, wrap};
use super::live::Live;
use super::text::LongWords;
use super::{Tone, Ui, gates, goal, important, redraw, stop, styled};
use crate::setup::Setup;

/// Adds comments to events, for first-time users.
#[derive(Clone)]
pub(crate) struct Narrator(Arc<Telling>);

type Telling = dyn Fn(&JournalEvent) -> Option<(Tone, String)> + Send + Sync;

impl Narrator {
    pub(crate) fn new(
        tell: impl Fn(&JournalEvent) -> Option<(Tone, String)> + Send + Sync + 'static,
    ) -> Narrator {
        Narrator(Arc::new(tell))
    }
}

impl fmt::Debug for Narrator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Narrator")
    }
}

/// Display options.
#[derive(Clone, Debug, Default)]
pub(crate) struct Look {
    /// Whether to show all agent output.
    pub(crate) stream: bool,
    /// The current directory, relative to which log paths are shown; without it they are not shown.
    pub(crate) cwd: Option<Utf8PathBuf>,
    /// Ralph's home: file names in events are relative to it.
    pub(crate) home: Option<Utf8PathBuf>,
    /// Where private state is, with the logs of gates: its base, and whose it is. It may not exist yet.
    pub(crate) state: Option<(Utf8PathBuf, Workspace)>,
    /// The maximum line width, if limited.
    pub(crate) width: Option<usize>,
    pub(crate) narrator: Option<Narrator>,
}

impl Look {
    /// The options for a person in the workspace.
    pub(crate) fn of(setup: &Setup, stream: bool) -> Look {
        let (cwd, home) = (Some(setup.cwd.clone()), Some(setup.home.path.clone()));
        let state = setup.state_base().ok().map(|base| (base, setup.workspace.clone()));
        Look { stream, cwd, home, state, ..Look::default() }
    }

    /// Returns the path of a file of private state.
    fn private_file(&self, file: &str) -> Option<Utf8PathBuf> {
        let (base, workspace) = self.state.as_ref()?;
        let state = State::find(base, workspace).ok().flatten()?;
        Some(state.directory().join(file))
    }

    /// Returns the path of a file of home as the person can open it.
    fn file(&self, file: &str) -> String {
        match (&self.cwd, &self.home) {
            (Some(cwd), Some(home)) => seen_from(cwd, &home.join(file)).to_string(),
            _ => file.to_owned(),
        }
    }
}

/// Shows a workflow.
pub(crate) struct WorkflowScreen {
    ui: Ui,
    look: Look,
    wait: WaitLine,
}

impl WorkflowScreen {
    pub(crate) fn new(ui: Ui, look: Look) -> WorkflowScreen {
        WorkflowScreen { ui, look, wait: WaitLine::new(ui) }
    }

    /// Prints `[label] message`, wrapped and aligned below the message.
    fn labelled(&self, tone: Tone, label: &str, message: &str) {
        match self.look.width {
            None => self.ui.labelled(tone, label, message),
            width => self.ui.labelled_within(width, LongWords::Broken, tone, label, message),
        }
    }

    fn narrate(&self, event: &JournalEvent) {
        let Some((tone, text)) =
            self.look.narrator.as_ref().and_then(|narrator| (narrator.0)(event))
        else {
            return;
        };
        let bar = self.ui.paint(tone, self.ui.symbol("▌", "|"));
        for line in wrap(&text, self.look.width.map_or(usize::MAX, |width| width - 2)) {
            self.ui.line(styled!("{bar} {}", self.ui.paint(Tone::Strong, &line)));
        }
    }
}

impl Subscriber for WorkflowScreen {
    fn recorded(&mut self, entry: &JournalEntry, board: &Board) {
        let event = &entry.event;
        self.wait.recorded(event);
        if self.ui.rich && !matches!(event, JournalEvent::GateStarted(_)) {
            redraw("");
        }
        match event {
            JournalEvent::RunFinished(finished) => {
                if let Some(run) = entry.run.as_ref().and_then(|run| board.run(run)) {
                    show_end(self.ui, run, self.look.cwd.as_deref());
                }
                for left in &finished.not_taken {
                    let name = left.name.escape_debug();
                    let text = format!("not kept: `{name}`: {}", left.reason);
                    self.labelled(Tone::Attention, "outbox", &text);
                }
            }
            JournalEvent::BoundaryCrossed(crossed) => show_boundary(self.ui, crossed),
            JournalEvent::SpecQueue(queue) => {
                let heading = format!("=== [{}/{}] {} ===", queue.index, queue.total, queue.spec);
                if self.look.narrator.is_some() {
                    self.ui.line("");
                }
                self.ui.line(self.ui.paint(Tone::Strong, &heading));
            }
            // The end of the run, shown just before, has said it.
            JournalEvent::Trouble(met) if is_the_end_of(board.runs().next_back(), met) => {}
            event if gates::show(self.ui, event) => {
                let log = gates::log_of_failed(event);
                if let Some(log) = log.and_then(|log| self.look.private_file(log)) {
                    self.labelled(Tone::Faint, "log", log.as_str());
                }
            }
            // The person has to act, so print it even if quiet.
            JournalEvent::Landed(landed) if self.ui.quiet && landed.waits.is_some() => {
                let why = landed.waits.as_deref().unwrap_or_default();
                self.ui.important(format!("accepted, waiting to land: {why}"));
            }
            _ => {
                if let Some((tone, label, text)) = line(entry, &self.look) {
                    self.labelled(tone, label, &text);
                }
            }
        }
        self.narrate(event);
    }

    fn follow(&mut self, run: &RunId, board: &Board) -> Box<dyn RunObserver> {
        let run = board.run(run);
        let started = run.and_then(|run| run.started.as_ref());
        let attempt = started.map_or(1, |(_, started)| started.attempt);
        let title = format!("{}, attempt {attempt}", title(run));
        Box::new(Live::start(self.ui, title).streaming(self.look.stream).within(self.look.width))
    }

    fn waiting(&mut self, left: Duration) {
        self.wait.show(left);
    }
}

/// Whether a trouble is how a run ended.
fn is_the_end_of(run: Option<&RunView>, met: &TroubleMet) -> bool {
    let Some(RunState::Finished(finished)) = run.map(RunView::state) else { return false };
    matches!(&finished.outcome, RunOutcome::Trouble { trouble } if trouble.to_string() == met.reason)
}

/// Puts an entry into a line; what needs none has none.
pub(crate) fn line(entry: &JournalEntry, look: &Look) -> Option<(Tone, &'static str, String)> {
    use JournalEvent as E;
    let short = |reason: &str| one_line(reason, 300);
    let of = |attempt: u32, max: u32| format!(", attempt {attempt} of {max}");
    Some(match &entry.event {
        E::RunStart(start) => {
            let specs = plural(start.total, "spec");
            let text = format!("{specs}; {}; boundary: {}", start.agent, start.boundary);
            (Tone::Active, "start", text)
        }
        E::SpecSkipped(skipped) => match skipped.reason.as_deref() {
            None => (Tone::Faint, "skip", "done".to_owned()),
            Some(CHANGED_SINCE_DONE) => (
                Tone::Attention,
                "skip",
                "done, but the spec changed since; --force redoes it".to_owned(),
            ),
            Some(reason) => (Tone::Attention, "skip", reason.to_owned()),
        },
        E::PlanAdopted(plan) => {
            (Tone::Progress, "planned", format!("by hand: {}", look.file(&plan.plan_file)))
        }
        E::PlanStart(start) => {
            let again = if start.replanning == Some(true) { " again" } else { "" };
            let of = of(start.attempt, start.max_attempts);
            (Tone::Active, "plan", format!("planning{again}{of}"))
        }
        E::PlanPass(plan) => (Tone::Progress, "planned", look.file(&plan.plan_file)),
        E::PlanFail(fail) => {
            (Tone::Attention, "retry", format!("no plan: {}", short(&fail.reason)))
        }
        E::PlanInvalidated(plan) => (Tone::Attention, "plan-invalid", short(&plan.reason)),
        E::CandidateLoaded(candidate) => {
            let commit = short_id(&candidate.commit);
            (Tone::Progress, "pending", format!("{commit} awaits verification"))
        }
        E::ImplStart(start) => {
            let of = of(start.attempt, start.max_attempts);
            (Tone::Active, "start", format!("implementing{of}"))
        }
        E::ImplRejected(rejected) => {
            (Tone::Attention, "retry", format!("rejected: {}", short(&rejected.reason)))
        }
        E::CandidateWritten(written) => {
            let text = if let Some(commit) = &written.commit {
                // Of the candidate by itself: it has not landed.
                let level = written.level.unwrap_or(ProofLevel::NotProven);
                format!("{}, {level}", short_id(commit))
            } else {
                let reason = short(written.reason.as_deref().unwrap_or(""));
                format!("the agent says that nothing needs to change: {reason}")
            };
            (Tone::Progress, "candidate", text)
        }
        E::VerifyStart(start) => {
            let of = of(start.attempt, start.max_attempts);
            (Tone::Active, "start", format!("verifying {}{of}", short_id(&start.commit)))
        }
        E::VerifyPass(pass) => {
            let text = match &pass.commit {
                Some(commit) => format!("{}, {}", short_id(commit), proof(pass.level)),
                None => "nothing had to change, a person decided".to_owned(),
            };
            (Tone::Good, "done", text)
        }
        E::VerifyFail(fail) => {
            (Tone::Attention, "retry", format!("not verified: {}", short(&fail.reason)))
        }
        E::Trouble(trouble) => (Tone::Bad, "trouble", short(&trouble.reason)),
        E::BackoffWait(wait) => {
            let wait = Duration::from_secs(wait.wait_seconds.unwrap_or(0));
            (Tone::Attention, "wait", format!("retrying in {}", duration(wait)))
        }
        E::BudgetNear(near) => {
            (Tone::Attention, "budget", format!("nearly used up: {}", near.what))
        }
        E::PersonAnswered(answered) => (Tone::Progress, "answer", short(&answered.reason)),
        // The end of the workflow shows the question, and how to answer it.
        E::PersonNeeded(_) => (Tone::Attention, "waiting", "for your answer".to_owned()),
        E::GatesChanged(changed) => {
            let what = short(&changed.reason);
            let text = format!("the gates changed; in force from now on: {what}");
            (Tone::Attention, "note", text)
        }
        E::Note(note) => (Tone::Attention, "note", short(&note.reason)),
        E::SpecFailed(failed) => (Tone::Bad, "failed", short(&failed.reason)),
        _ => return build_line(entry),
    })
}

/// Formats an entry of the build loop as a line.
fn build_line(entry: &JournalEntry) -> Option<(Tone, &'static str, String)> {
    use JournalEvent as E;
    let short = |reason: &str| one_line(reason, 300);
    Some(match &entry.event {
        E::BuildStart(start) => {
            let spec = start.spec.as_deref().unwrap_or("no spec");
            (Tone::Active, "start", format!("building {spec}; boundary: {}", start.boundary))
        }
        E::IterationStart(start) => {
            let stage = start.stage.map_or("", ralph_model::plan::Stage::name);
            let number = start.iteration.unwrap_or(0);
            let name = short(start.name.as_deref().unwrap_or(""));
            let what = start.task.as_ref().map(|task| format!(" {task}: {name}"));
            let again = start.try_number.filter(|number| *number > 1);
            let again = again.map(|number| format!(", try {number}")).unwrap_or_default();
            let what = format!("{stage}{}", what.unwrap_or_default());
            (Tone::Active, "start", format!("{number}. {}{again}", what.trim_start()))
        }
        E::IterationResult(result) => (Tone::Attention, "retry", short(result.reason.as_deref()?)),
        E::Landed(landed) => {
            let commit = short_id(&landed.commit);
            let merged =
                if landed.merge == Some(true) { ", merged with newer commits" } else { "" };
            let place = landed.repository.as_ref().map(|name| format!(" of {name}"));
            let place = place.unwrap_or_default();
            let waits = landed.waits.as_ref().map(|why| format!("; {why}")).unwrap_or_default();
            let (tone, label, on) = match landed.waits {
                Some(_) => (Tone::Attention, "accepted", "not yet on"),
                None => (Tone::Good, "landed", "on"),
            };
            (tone, label, format!("{commit} {on} {}{place}{merged}{waits}", landed.branch))
        }
        E::TaskDone(done) => {
            let commit = short_id(done.commit.as_deref().unwrap_or(""));
            let text = format!("{} at {commit}, {}", done.task, proof(done.level));
            (Tone::Good, "built", text)
        }
        E::TaskRejected(rejected) => {
            let text = format!("{} rejected: {}", rejected.task, short(&rejected.reason));
            (Tone::Attention, "retry", text)
        }
        E::MutationRequested(asked) if !asked.accepted => {
            (Tone::Attention, "refused", format!("a request of the agent: {}", short(&asked.text)))
        }
        E::TaskKilled(killed) => {
            let text = format!("{} ({}): it will be split", killed.task, short(&killed.reason));
            (Tone::Attention, "killed", text)
        }
        // A verifier's decision during its run; any other verdict has an event of its workflow.
        E::Verdict(verdict) if entry.run.is_some() => {
            let reasons: Vec<&str> = verdict.reasons.iter().map(|why| why.text.as_str()).collect();
            if verdict.verdict == VerdictKind::Accepted {
                (Tone::Good, "accepted", verdict.item.clone())
            } else {
                let text = format!("{}: {}", verdict.item, short(&reasons.join(" ")));
                (Tone::Attention, "rejected", text)
            }
        }
        _ => return goal::line(&entry.event),
    })
}

pub(super) fn short_id(commit: &str) -> &str {
    commit.get(..8).unwrap_or(commit)
}

/// Says what is known of what landed.
pub(super) fn proof(level: Option<LandedLevel>) -> String {
    level.unwrap_or(LandedLevel::NOT_PROVEN).to_string()
}

/// Summarises what was done, what was not and why, and how to continue.
pub(crate) fn conclude(setup: &Setup, report: &PipelineReport) {
    let ui = setup.ui;
    for (spec, end) in &report.ends {
        match end {
            SpecEnd::Failed { why, tries } => {
                let why = match why {
                    GiveUp::AttemptsSpent => "no attempts left".to_owned(),
                    GiveUp::Repetition { times } => {
                        format!("the last {times} attempts ended the same way")
                    }
                };
                ui.important(styled!("{} {spec}: {why}", ui.paint(Tone::Bad, "[failed]")));
                for (number, tried) in tries.iter().enumerate() {
                    let text = one_line(&tried.outcome, 200);
                    important(&format!("  {}. {}: {text}", number + 1, tried.phase));
                }
                let again = setup.again(&format!("ralph pipeline {}", spec.id()));
                important(&format!("  `{again}` resets its attempt count"));
            }
            SpecEnd::Unusable { problem } => {
                ui.important(styled!("{} {problem}", ui.paint(Tone::Bad, "[failed]")));
            }
            SpecEnd::Stopped(stop) => {
                let retry = setup.again(&format!("ralph pipeline {}", spec.id()));
                let again = setup.again("ralph pipeline");
                let (_, text, then) = stop::describe(stop, &again, &retry);
                match stop {
                    Stop::Stuck { .. } | Stop::TooMuchTrouble { .. } => {
                        ui.important(styled!(
                            "{} {spec}: {text}",
                            ui.paint(Tone::Bad, "[stopped]")
                        ));
                        if let Some(then) = then {
                            ui.important(then);
                        }
                    }
                    Stop::Unexplained { question, .. } => {
                        let label = ui.paint(Tone::Attention, "[waiting]");
                        ui.important(styled!("{label} {spec}: {}", one_line(question, 1500)));
                        if let Some(then) = then {
                            ui.important(then);
                        }
                    }
                    Stop::Waiting { question, .. } => {
                        let label = ui.paint(Tone::Attention, "[waiting]");
                        ui.important(styled!("{label} {spec}: {}", one_line(question, 600)));
                        let id = spec.run_id();
                        important(&format!(
                            "  `ralph answer {id} yes` accepts it; any other answer goes to the next attempt"
                        ));
                    }
                    Stop::Interrupted
                    | Stop::Limited { .. }
                    | Stop::OutOfBudget(_)
                    | Stop::Declined { .. } => {
                        important(&text);
                    }
                }
            }
            SpecEnd::Done { .. } | SpecEnd::Skipped(_) | SpecEnd::Removed => {}
        }
    }
    let counted = |name: &str, is: &dyn Fn(&SpecEnd) -> bool| {
        let count = report.count(is);
        (count > 0).then(|| format!("{name}: {count}"))
    };
    let completed = report.count(|end| matches!(end, SpecEnd::Done { .. }));
    let skipped = report.count(|end| matches!(end, SpecEnd::Skipped(_)));
    let failed = report.count(SpecEnd::is_failure);
    let mut parts = vec![
        format!("Completed: {completed}"),
        format!("Skipped: {skipped}"),
        format!("Failed: {failed}"),
    ];
    parts.extend(counted("Waiting", &SpecEnd::is_waiting));
    parts
        .extend(counted("Stopped", &|end| matches!(end, SpecEnd::Stopped(_)) && !end.is_waiting()));
    if report.left > 0 {
        parts.push(format!("Not reached: {}", report.left));
    }
    ui.line(ui.paint(Tone::Strong, &parts.join("  ")));
}
