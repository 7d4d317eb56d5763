//! Pipeline and build loop as a person sees them: one line per step, what the agents do below it.

use std::time::Duration;

use camino::Utf8PathBuf;
use ralph_engine::gates::{GateAttempt, GateObserver};
use ralph_engine::run::{RunObserver, RunReport};
use ralph_engine::session::{AgentTask, StepObserver};
use ralph_engine::workflow::driver::Stop;
use ralph_engine::workflow::pipeline::SpecEnd;
use ralph_engine::workflow::pipeline::queue::PipelineReport;
use ralph_model::gate::{GateRun, GateSpec};
use ralph_model::journal::{WorkflowEvent, WorkflowFields, WorkflowKind};
use ralph_model::pipeline::GiveUp;
use ralph_model::policy::limit::LimitWait;

use super::agent_run::show_end;
use super::gates::GateLines;
use super::human::{duration, local_time, one_line, plural, seen_from, wrap};
use super::live::Live;
use super::stop;
use super::text::LongWords;
use super::{Tone, Ui, important, redraw, styled};
use crate::setup::{Setup, now};

/// Says a word about an event, for those who see one for the first time.
pub(crate) type Narrator = fn(&WorkflowEvent) -> Option<(Tone, String)>;

/// How much is shown, and how.
#[derive(Clone, Debug, Default)]
pub(crate) struct Look {
    /// Whether to show all that agents say.
    pub(crate) stream: bool,
    /// Where the person stands; nobody is told where logs are who stands nowhere.
    pub(crate) cwd: Option<Utf8PathBuf>,
    /// Ralph's home: events name its files from there.
    pub(crate) home: Option<Utf8PathBuf>,
    /// How wide a line may be, where that is limited.
    pub(crate) width: Option<usize>,
    pub(crate) narrator: Option<Narrator>,
}

impl Look {
    /// As it is for whoever stands in the workspace.
    pub(crate) fn of(setup: &Setup, stream: bool) -> Look {
        let (cwd, home) = (Some(setup.cwd.clone()), Some(setup.home.path.clone()));
        Look { stream, cwd, home, ..Look::default() }
    }

    /// Names a file of home as the person finds it.
    fn file(&self, file: Option<&String>) -> String {
        let file = file.cloned().unwrap_or_default();
        match (&self.cwd, &self.home) {
            (Some(cwd), Some(home)) => seen_from(cwd, &home.join(&file)).to_string(),
            _ => file,
        }
    }
}

/// Shows a workflow.
pub(crate) struct WorkflowScreen {
    ui: Ui,
    look: Look,
    gates: GateLines,
    told_of_wait: Option<Duration>,
}

impl WorkflowScreen {
    pub(crate) fn new(ui: Ui, look: Look) -> WorkflowScreen {
        WorkflowScreen { ui, look, gates: GateLines { ui }, told_of_wait: None }
    }

    /// `[label] message`, with what does not fit into the line below its beginning.
    fn labelled(&self, tone: Tone, label: &str, message: &str) {
        match self.look.width {
            None => self.ui.labelled(tone, label, message),
            width => self.ui.labelled_within(width, LongWords::Broken, tone, label, message),
        }
    }

    fn narrate(&self, event: &WorkflowEvent) {
        let Some((tone, text)) = self.look.narrator.and_then(|narrator| narrator(event)) else {
            return;
        };
        let bar = self.ui.paint(tone, self.ui.symbol("▌", "|"));
        for line in wrap(&text, self.look.width.map_or(usize::MAX, |width| width - 2)) {
            self.ui.line(styled!("{bar} {}", self.ui.paint(Tone::Strong, &line)));
        }
    }
}

impl StepObserver for WorkflowScreen {
    fn run_begins(&mut self, task: &AgentTask, agent: &str, resumed: bool) -> Box<dyn RunObserver> {
        self.told_of_wait = None;
        let mut title = format!("{} {agent}, attempt {}", task.role, task.attempt);
        if resumed {
            title.push_str(" (resumed)");
        }
        Box::new(Live::start(self.ui, title).streaming(self.look.stream).within(self.look.width))
    }

    fn run_ended(&mut self, report: &RunReport) {
        show_end(self.ui, report, self.look.cwd.as_deref());
        for left in &report.outbox.not_taken {
            let text = format!("not taken: `{}`: {}", left.name.escape_debug(), left.reason);
            self.labelled(Tone::Attention, "outbox", &text);
        }
    }

    fn waiting(&mut self, wait: LimitWait, left: Duration) {
        let until = local_time(wait.until, now());
        let text = format!(
            "usage limit: until {until} ({} left); Ctrl-C stops, and the next start goes on waiting",
            duration(left)
        );
        if self.ui.rich {
            redraw(&text);
        } else if self
            .told_of_wait
            .is_none_or(|told| told.saturating_sub(left) >= Duration::from_mins(5))
        {
            self.ui.labelled(Tone::Attention, "wait", &text);
            self.told_of_wait = Some(left);
        }
    }

    fn pausing(&mut self, left: Duration) {
        if self.ui.rich {
            redraw(&format!("trying again in {}", duration(left)));
        }
    }

    fn recorded(&mut self, event: &WorkflowEvent) {
        if self.ui.rich {
            redraw("");
        }
        if let Some((tone, label, text)) = line(event, &self.look) {
            self.labelled(tone, label, &text);
        } else if event.kind == WorkflowKind::SpecQueue {
            let WorkflowFields { index, total, spec, .. } = &event.fields;
            let (index, total) = (index.unwrap_or(0), total.unwrap_or(0));
            let heading = format!("=== [{index}/{total}] {} ===", spec.as_deref().unwrap_or(""));
            if self.look.narrator.is_some() {
                self.ui.line("");
            }
            self.ui.line(self.ui.paint(Tone::Strong, &heading));
        }
        self.narrate(event);
    }
}

impl GateObserver for WorkflowScreen {
    fn setup(&mut self, argv: &[String]) {
        self.gates.setup(argv);
    }

    fn began(&mut self, gate: &GateSpec, turn: GateAttempt) {
        self.gates.began(gate, turn);
    }

    fn ended(&mut self, gate: &GateSpec, turn: GateAttempt, run: &GateRun) {
        self.gates.ended(gate, turn, run);
    }
}

/// Puts an event into a line; what needs none has none.
fn line(event: &WorkflowEvent, look: &Look) -> Option<(Tone, &'static str, String)> {
    let fields = &event.fields;
    let reason = || one_line(fields.reason.as_deref().unwrap_or(""), 300);
    let commit = || fields.commit.as_deref().map_or("", |commit| commit.get(..8).unwrap_or(commit));
    let attempt = || match (fields.attempt, fields.max_attempts) {
        (Some(attempt), Some(max)) => format!(", attempt {attempt} of {max}"),
        _ => String::new(),
    };
    let proof = || match fields.proven_by_gates {
        Some(true) => "proven by gates",
        _ => "not proven by gates",
    };
    Some(match event.kind {
        WorkflowKind::RunStart => {
            let specs = plural(fields.total.unwrap_or(0) as u64, "spec");
            let agents = fields.agent.as_deref().unwrap_or("");
            let boundary = fields.boundary.as_deref().unwrap_or("");
            (Tone::Active, "start", format!("{specs}; {agents}; boundary: {boundary}"))
        }
        WorkflowKind::SpecSkipped if fields.reason.is_some() => {
            (Tone::Attention, "skip", "done, and changed since: --force does it again".to_owned())
        }
        WorkflowKind::SpecSkipped => (Tone::Faint, "skip", "done".to_owned()),
        WorkflowKind::PlanAdopted => (
            Tone::Progress,
            "planned",
            format!("by hand: {}", look.file(fields.plan_file.as_ref())),
        ),
        WorkflowKind::PlanStart => {
            let again = if fields.replanning { " again" } else { "" };
            (Tone::Active, "plan", format!("planning{again}{}", attempt()))
        }
        WorkflowKind::PlanPass => (Tone::Progress, "planned", look.file(fields.plan_file.as_ref())),
        WorkflowKind::PlanFail => (Tone::Attention, "retry", format!("no plan: {}", reason())),
        WorkflowKind::PlanInvalidated => (Tone::Attention, "plan-invalid", reason()),
        WorkflowKind::CandidateLoaded => {
            (Tone::Progress, "pending", format!("{} waits for its verification", commit()))
        }
        WorkflowKind::ImplStart => (Tone::Active, "start", format!("implementing{}", attempt())),
        WorkflowKind::ImplRejected => {
            (Tone::Attention, "retry", format!("turned down: {}", reason()))
        }
        WorkflowKind::CandidateWritten if fields.commit.is_none() => {
            let text = format!("the agent says that nothing needs to change: {}", reason());
            (Tone::Progress, "candidate", text)
        }
        WorkflowKind::CandidateWritten => {
            (Tone::Progress, "candidate", format!("{}, {}", commit(), proof()))
        }
        WorkflowKind::VerifyStart => {
            (Tone::Active, "start", format!("verifying {}{}", commit(), attempt()))
        }
        WorkflowKind::VerifyPass if fields.commit.is_none() => {
            (Tone::Good, "done", "nothing had to change, a person decided".to_owned())
        }
        WorkflowKind::VerifyPass => (Tone::Good, "done", format!("{}, {}", commit(), proof())),
        WorkflowKind::VerifyFail => {
            (Tone::Attention, "retry", format!("not verified: {}", reason()))
        }
        WorkflowKind::Trouble => (Tone::Bad, "trouble", reason()),
        WorkflowKind::BackoffWait => {
            let wait = Duration::from_secs(fields.wait_seconds.unwrap_or(0));
            (Tone::Attention, "wait", format!("trying again in {}", duration(wait)))
        }
        WorkflowKind::PersonAnswered => (Tone::Progress, "answer", reason()),
        WorkflowKind::PersonNeeded => {
            let question = one_line(fields.question.as_deref().unwrap_or(""), 600);
            (Tone::Attention, "waiting", format!("for you: {question}"))
        }
        WorkflowKind::GatesChanged => (
            Tone::Attention,
            "note",
            format!("the gates were changed, and count from now: {}", reason()),
        ),
        WorkflowKind::Note => (Tone::Attention, "note", reason()),
        WorkflowKind::SpecFailed => (Tone::Bad, "failed", reason()),
        WorkflowKind::IterationStart
        | WorkflowKind::IterationResult
        | WorkflowKind::TaskDone
        | WorkflowKind::TaskRejected
        | WorkflowKind::TaskKilled
        | WorkflowKind::BuildStart => return build_line(event),
        WorkflowKind::BuildResult
        | WorkflowKind::SpecQueue
        | WorkflowKind::SpecStart
        | WorkflowKind::PlanRunComplete
        | WorkflowKind::ImplRunComplete
        | WorkflowKind::ImplNoCompletion
        | WorkflowKind::GatesStart
        | WorkflowKind::VerifyRunComplete
        | WorkflowKind::UsageLimitWait
        | WorkflowKind::SpecResult
        | WorkflowKind::RunStopped
        | WorkflowKind::RunComplete => return None,
    })
}

/// Puts an event of the build loop into a line.
fn build_line(event: &WorkflowEvent) -> Option<(Tone, &'static str, String)> {
    let fields = &event.fields;
    let reason = one_line(fields.reason.as_deref().unwrap_or(""), 300);
    let task = fields.task.as_deref().unwrap_or("");
    Some(match event.kind {
        WorkflowKind::IterationStart => {
            let stage = fields.stage.map_or("", ralph_model::plan::Stage::name);
            let number = fields.iteration.unwrap_or(0);
            let what = if task.is_empty() { String::new() } else { format!(" {task}: {reason}") };
            (Tone::Active, "start", format!("{number}. {stage}{what}"))
        }
        WorkflowKind::TaskDone => {
            let commit = fields.commit.as_deref().unwrap_or("");
            let proof = match fields.proven_by_gates {
                Some(true) => "proven by gates",
                _ => "not proven by gates",
            };
            let commit = commit.get(..8).unwrap_or(commit);
            (Tone::Good, "built", format!("{task} at {commit}, {proof}"))
        }
        WorkflowKind::TaskRejected => {
            (Tone::Attention, "retry", format!("{task} turned down: {reason}"))
        }
        WorkflowKind::TaskKilled => {
            (Tone::Attention, "killed", format!("{task} ({reason}): it will be broken up"))
        }
        WorkflowKind::BuildStart => {
            let spec = fields.spec.as_deref().unwrap_or("no spec");
            let boundary = fields.boundary.as_deref().unwrap_or("");
            (Tone::Active, "start", format!("building {spec}; boundary: {boundary}"))
        }
        WorkflowKind::IterationResult => (Tone::Attention, "retry", reason),
        _ => return None,
    })
}

/// Sums up: what was done, what was not and why, and how to go on.
pub(crate) fn conclude(ui: Ui, report: &PipelineReport) {
    for (spec, end) in &report.ends {
        match end {
            SpecEnd::Failed { why, tries } => {
                let why = match why {
                    GiveUp::AttemptsSpent => "all attempts are spent".to_owned(),
                    GiveUp::Repetition { times } => {
                        format!("the last {times} attempts ended in the same way")
                    }
                };
                ui.important(styled!("{} {spec}: {why}", ui.paint(Tone::Bad, "failed:")));
                for (number, tried) in tries.iter().enumerate() {
                    let text = one_line(&tried.outcome, 200);
                    important(&format!("  {}. {}: {text}", number + 1, tried.phase));
                }
                important(&format!("  `ralph pipeline {}` gives it new attempts", spec.id()));
            }
            SpecEnd::Unusable { problem } => {
                ui.important(styled!("{} {problem}", ui.paint(Tone::Bad, "failed:")));
            }
            SpecEnd::Stopped(stop) => {
                let retry = format!("ralph pipeline {}", spec.id());
                let (_, text, then) = stop::describe(stop, "ralph pipeline", &retry);
                match stop {
                    Stop::Stuck { .. } | Stop::TooMuchTrouble { .. } => {
                        ui.important(styled!("{} {spec}: {text}", ui.paint(Tone::Bad, "stopped:")));
                        if let Some(then) = then {
                            ui.important(then);
                        }
                    }
                    Stop::Waiting { question, .. } => {
                        let label = ui.paint(Tone::Attention, "waiting:");
                        ui.important(styled!("{label} {spec}: {}", one_line(question, 600)));
                        let id = spec.run_id();
                        important(&format!(
                            "  `ralph answer {id} yes` accepts it; any other answer goes to the next attempt"
                        ));
                    }
                    Stop::Interrupted | Stop::Limited { .. } | Stop::OutOfBudget(_) => {
                        important(&text);
                    }
                }
            }
            SpecEnd::Done { .. } | SpecEnd::Skipped { .. } | SpecEnd::Removed => {}
        }
    }
    let counted = |name: &str, is: &dyn Fn(&SpecEnd) -> bool| {
        let count = report.count(is);
        (count > 0).then(|| format!("{name}: {count}"))
    };
    let completed = report.count(|end| matches!(end, SpecEnd::Done { .. }));
    let skipped = report.count(|end| matches!(end, SpecEnd::Skipped { .. }));
    let failed = report.count(SpecEnd::is_failure);
    let mut parts = vec![
        format!("Completed: {completed}"),
        format!("Skipped: {skipped}"),
        format!("Failed: {failed}"),
    ];
    parts.extend(counted("Waiting", &SpecEnd::is_waiting));
    parts.extend(counted("Stopped", &|end| {
        matches!(end, SpecEnd::Stopped(_)) && !end.is_waiting() && !end.is_failure()
    }));
    if report.left > 0 {
        parts.push(format!("Not reached: {}", report.left));
    }
    ui.line(ui.paint(Tone::Strong, &parts.join("  ")));
}
