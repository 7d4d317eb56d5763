//! The display of gates: one line per result, the end of a failed gate's output, and the meaning.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::time::Duration;

use ralph_engine::boundary::InForce;
use ralph_engine::files::PathError;
use ralph_engine::gates::assess::{Assessment, GateFinding};
use ralph_model::checks::ChecksFinding;
use ralph_model::gate::{Attribution, GateRun, GateSpec, GateStatus};
use ralph_model::journal::{GateAttempt, GateFinished, GatePoint, JournalEvent};
use ralph_model::shown::{shown_lines, without_escapes};

use super::human::{duration, padded, plural};
use super::text::{StyledLine, cut};
use super::{Tone, Ui, redraw, styled};

/// How many lines of a failed gate's output are shown.
const SHOWN_LINES: usize = 20;
/// How many bytes at the end of the output are searched for them.
const SHOWN_BYTES: u64 = 16 << 10;

/// Shows gates as they run.
pub(crate) struct GateScreen {
    ui: Ui,
}

impl GateScreen {
    pub(crate) fn start(ui: Ui, commit: &str, boundary: InForce) -> GateScreen {
        let commit = commit.get(..12).unwrap_or(commit);
        let text = format!("gates at {commit}, boundary: {}", boundary.told());
        ui.labelled(Tone::Active, "start", &text);
        GateScreen { ui }
    }

    /// Shows gates that run outside a workflow and are not journalled.
    pub(crate) fn tell(&self) -> impl FnMut(JournalEvent) -> Result<(), PathError> + use<> {
        let ui = self.ui;
        move |event| {
            show(ui, &event);
            Ok(())
        }
    }

    /// Shows failures, skipped gates and changed checks.
    pub(crate) fn conclude(&self, assessment: &Assessment, compared: bool) {
        for finding in &assessment.findings {
            let run = finding.deciding();
            if matches!(run.status, GateStatus::Failed { .. } | GateStatus::TimedOut) {
                show_end(self.ui, &finding.gate, run);
            }
        }
        for name in &assessment.unconcerned {
            self.ui.labelled(Tone::Faint, "skipped", &format!("{name}: no change concerns it"));
        }
        self.show_checks(&assessment.checks);
        let red = |finding: &GateFinding| finding.attribution == Attribution::Failed;
        if !compared && assessment.findings.iter().any(red) {
            let hint = "`ralph gates run --base COMMIT` shows whether it failed before";
            self.ui.labelled(Tone::Attention, "hint", hint);
        }
    }

    fn show_checks(&self, checks: &ChecksFinding) {
        let asked = checks.asked();
        for check in checks.told().into_iter().chain(asked.iter().copied()) {
            let text = format!("{} ({})", check.path, check.class);
            self.ui.labelled(Tone::Attention, "changed", &text);
        }
        for hint in &checks.hints {
            self.ui.labelled(Tone::Faint, "sign", hint);
        }
        for gate in checks.failing() {
            let lost = if gate.lost.is_empty() {
                String::new()
            } else {
                format!(": {}", gate.lost.join(", "))
            };
            let text = format!("{} with the checks as they were at the base{lost}", gate.gate);
            self.ui.labelled(Tone::Bad, "fails", &text);
        }
        if !asked.is_empty() {
            let hint = "a line `Allow: PATTERN` in a spec, or `protect.allow` in ralph.toml, allows checks to be changed";
            self.ui.labelled(Tone::Attention, "hint", hint);
        }
    }
}

/// Shows the end of a gate's output.
pub(crate) fn show_end(ui: Ui, gate: &GateSpec, run: &GateRun) {
    let path = &run.output.path;
    let text = end_of(path).unwrap_or_default();
    let plain = without_escapes(&text);
    let lines: Vec<_> = shown_lines(&plain).collect();
    ui.labelled(Tone::Bad, &gate.name, &format!("the end of {path}:"));
    for line in &lines[lines.len().saturating_sub(SHOWN_LINES)..] {
        ui.line(format!("    {}", cut(line, 400)));
    }
    let refused = ["Permission denied", "EACCES", "Operation not permitted", "os error 13"];
    let cut_off = !gate.net || !gate.unix;
    if cut_off && refused.iter().any(|sign| text.contains(sign)) {
        let hint = "gates can only write in their checkout; `net = true` allows network connections (also to this machine), `unix = true` allows Unix sockets";
        ui.labelled(Tone::Attention, "hint", hint);
    }
}

/// Shows a gate event, wherever the gate runs; returns `false` for any other event.
pub(crate) fn show(ui: Ui, event: &JournalEvent) -> bool {
    match event {
        JournalEvent::SetupStarted(setup) => {
            ui.labelled(Tone::Active, "setup", &argv_text(&setup.argv));
        }
        JournalEvent::GateStarted(started) => {
            let which = which(started.at, started.attempt, &started.kept);
            // A built-in check has no command.
            let command = match started.argv.as_slice() {
                [] => String::new(),
                argv => format!(": {}", argv_text(argv)),
            };
            let text = format!("{}{which}{command}", started.gate);
            if ui.rich {
                redraw(&text);
            } else {
                ui.labelled(Tone::Active, "gate", &text);
            }
        }
        JournalEvent::GateFinished(finished) => {
            if ui.rich {
                redraw("");
            }
            let (tone, label) = label_of(&finished.status);
            let which = which(finished.at, finished.attempt, &finished.kept);
            ui.labelled(tone, label, &format!("{}{which}: {}", finished.gate, facts(finished)));
        }
        _ => return false,
    }
    true
}

/// Returns the log of a gate that failed with the work, from private state; not where the gate is tried again.
pub(crate) fn log_of_failed(event: &JournalEvent) -> Option<&str> {
    let JournalEvent::GateFinished(finished) = event else { return None };
    let is_last = match finished.at {
        GatePoint::Base => false,
        GatePoint::Candidate => finished.attempt != GateAttempt::First,
        GatePoint::Overlay => true,
    };
    let has_failed = is_last && label_of(&finished.status).0 == Tone::Bad;
    finished.log.as_ref().filter(|_| has_failed)?.state.as_deref()
}

/// Says at what a gate runs. With the original checks it can run several times: they differ in the files that are the
/// work's all the same.
fn which(at: GatePoint, attempt: GateAttempt, kept: &[String]) -> String {
    const NAMED: usize = 2;
    let retry = match (at, attempt) {
        (GatePoint::Base, _) => return " (on base)".to_owned(),
        (GatePoint::Candidate, GateAttempt::First) => return String::new(),
        (GatePoint::Candidate, GateAttempt::Again) => return " (retry)".to_owned(),
        (GatePoint::Candidate, GateAttempt::Fresh) => return " (retry without caches)".to_owned(),
        (GatePoint::Overlay, GateAttempt::First) => "",
        (GatePoint::Overlay, _) => ", retry",
    };
    let names: Vec<&str> = kept.iter().take(NAMED).map(String::as_str).collect();
    let new = match kept.len().saturating_sub(NAMED) {
        _ if kept.is_empty() => return format!(" (with the original checks{retry})"),
        0 => format!(", new {}", names.join(", ")),
        more => format!(", new {} and {more} more", names.join(", ")),
    };
    format!(" (original checks{new}{retry})")
}

fn label_of(status: &str) -> (Tone, &'static str) {
    match status {
        "passed" => (Tone::Good, "passed"),
        "proved_nothing" => (Tone::Attention, "nothing"),
        "failed" => (Tone::Bad, "failed"),
        "timed_out" => (Tone::Bad, "timeout"),
        _ => (Tone::Bad, "not run"),
    }
}

fn facts(finished: &GateFinished) -> String {
    let mut parts = vec![duration(Duration::from_millis(finished.duration_ms))];
    parts.extend(finished.reason.clone());
    if let Some(tests) = &finished.tests {
        let failed =
            if tests.failed > 0 { format!(", {} failed", tests.failed) } else { String::new() };
        parts.push(format!("{}{failed}", plural(tests.passed + tests.failed, "test")));
    }
    parts.join(", ")
}

/// Returns the line with the result of a gate.
pub(crate) fn conclusion(ui: Ui, finding: &GateFinding) -> StyledLine {
    let (tone, mark, what) = match &finding.attribution {
        Attribution::Passed => (Tone::Good, ui.symbol("✓", "ok"), "passed".to_owned()),
        Attribution::ProvedNothing => (
            Tone::Attention,
            ui.symbol("·", "--"),
            "proved nothing: no test was executed".to_owned(),
        ),
        Attribution::Flaky => {
            (Tone::Attention, ui.symbol("~", "~~"), "flaky: failed, and passed again".to_owned())
        }
        Attribution::RedBeforeAndAfter => {
            (Tone::Attention, ui.symbol("~", "~~"), "red before and after".to_owned())
        }
        Attribution::TestsGone { base, candidate } => {
            let now = candidate.map_or_else(|| "none counted".to_owned(), |now| now.to_string());
            let what = format!("passed, with fewer tests: {base} at the base, now {now}");
            (Tone::Attention, ui.symbol("~", "~~"), what)
        }
        Attribution::Regressed => (Tone::Bad, ui.symbol("✗", "!!"), "regressed".to_owned()),
        Attribution::Failed => (Tone::Bad, ui.symbol("✗", "!!"), "failed".to_owned()),
        Attribution::FewerTests { base, candidate } => {
            let now = candidate.map_or_else(|| "none counted".to_owned(), |now| now.to_string());
            (Tone::Bad, ui.symbol("✗", "!!"), format!("fewer tests: {base} at the base, now {now}"))
        }
        Attribution::Broken { obstacle } => {
            (Tone::Bad, ui.symbol("✗", "!!"), format!("broken: {obstacle}"))
        }
        Attribution::CouldNotRun { obstacle } => {
            (Tone::Bad, ui.symbol("✗", "!!"), format!("could not run: {obstacle}"))
        }
    };
    let run = finding.deciding();
    let log = ui.paint(Tone::Faint, &run.output.path);
    styled!(
        "{} {} {what}, {}  {log}",
        ui.paint(tone, mark),
        padded(&finding.gate.name, 12),
        duration(run.duration)
    )
}

/// Returns a command as a person would type it.
pub(crate) fn argv_text(argv: &[String]) -> String {
    let plain = |word: &str| {
        !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || "/._-+=@%:,".contains(c))
    };
    let words = argv.iter().map(|word| {
        if plain(word) { word.clone() } else { format!("'{}'", word.replace('\'', r"'\''")) }
    });
    words.collect::<Vec<_>>().join(" ")
}

fn end_of(path: &str) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(SHOWN_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(SHOWN_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
