//! The files of the mailbox: their names, which of them the harness writes, and what it writes into them.
//!
//! Agents read and write all of them freely. The harness takes nothing from its own files; it takes `status.txt`,
//! `question.md`, `summary.md` and the plans as claims.

use super::{LoopRecord, LoopStanding, LoopTask};

pub const TASK: &str = "task.md";
pub const ORIGIN: &str = "origin.md";
pub const SUMMARY: &str = "summary.md";
const FEEDBACK: &str = "feedback.md";
pub const QUESTION: &str = "question.md";
pub const STATUS: &str = "status.txt";
const PHASE: &str = "phase.txt";
const ITERATION: &str = "iteration.txt";
pub const COUNTER: &str = "task-counter.txt";
pub const HISTORY: &str = "task-history.md";
pub const PLAN_DIFF: &str = "plan-diff.md";
pub const BUILD_ERRORS: &str = "build-errors.md";
pub const REFLECTIONS: &str = "reflections.jsonl";

/// The harness's own files that come and go. Copied out of a slot, one that is gone there is removed.
pub const PASSING: [&str; 4] = [FEEDBACK, QUESTION, PLAN_DIFF, BUILD_ERRORS];

/// What an earlier task left and a new one must not find. Plans, the intent and the history stay.
pub const CLEARED: [&str; 5] = [SUMMARY, FEEDBACK, QUESTION, PLAN_DIFF, BUILD_ERRORS];

/// Returns the harness's own files as they are to be before the next run; `None` where there is to be none.
pub fn mirror(record: &LoopRecord) -> Vec<(&'static str, Option<String>)> {
    // While a person is asked, the files say so.
    let question = match &record.standing {
        LoopStanding::Waiting { question } => Some(format!("{question}\n")),
        _ => None,
    };
    let status = if question.is_some() { "waiting" } else { "running" };
    vec![
        (TASK, Some(task(&record.task))),
        (COUNTER, Some(format!("{}\n", record.task.number))),
        (PHASE, Some(record.phase.name().to_owned())),
        (ITERATION, Some((record.iterations + 1).to_string())),
        (FEEDBACK, record.told()),
        (STATUS, Some(status.to_owned())),
        (QUESTION, question),
    ]
}

/// Returns which of the harness's files a run changed that mean something to it.
pub fn touched(record: &LoopRecord, read: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let own =
        mirror(record).into_iter().filter(|(name, _)| [PHASE, ITERATION, TASK].contains(name));
    let changed = own.filter(|(name, text)| {
        let now = read(name);
        now.as_deref().map(str::trim) != text.as_deref().map(str::trim)
    });
    changed.map(|(name, _)| name.to_owned()).collect()
}

fn task(task: &LoopTask) -> String {
    format!("# Task\n\n{}\n", task.text.trim_end())
}

/// Returns `origin.md` with a task in it: the first one is the origin, later ones refine it.
///
/// A task that has its line already is not added again, so that the write can be repeated.
pub fn origin(earlier: Option<&str>, task: &LoopTask) -> String {
    let heading = format!("# Origin (task {})", task.number);
    let line = task.text.split_whitespace().collect::<Vec<_>>().join(" ");
    let bullet = format!("- Task {}: {line}\n", task.number);
    match earlier.filter(|text| !text.trim().is_empty()) {
        None => format!("{heading}\n\n{}\n\n# Refinements\n\n", task.text.trim()),
        Some(text) if text.starts_with(&heading) || text.ends_with(&bullet) => text.to_owned(),
        Some(text) => {
            let gap = if text.ends_with('\n') { "" } else { "\n" };
            format!("{text}{gap}{bullet}")
        }
    }
}

/// Returns `task-history.md` with what became of a task: the first line of its summary. A line that is there is not added
/// again, so that the write can be repeated.
pub fn history(earlier: &str, number: u32, what: &str) -> String {
    let mut lines = what.lines().map(|line| line.trim_start_matches('#').trim());
    let first = lines.find(|line| !line.is_empty()).unwrap_or("(no summary)");
    let short: String = first.chars().take(100).collect();
    let line = format!("- **Task {number}**: {short}");
    if earlier.lines().any(|known| known == line) {
        return earlier.to_owned();
    }
    let gap = if earlier.is_empty() || earlier.ends_with('\n') { "" } else { "\n" };
    format!("{earlier}{gap}{line}\n")
}
