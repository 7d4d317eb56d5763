//! The files of the mailbox: their names, which of them the harness writes, and their content.
//!
//! Agents read and write all of them freely. The harness never reads its own files back; it reads `status.txt`,
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

/// The harness's own transient files. If one is missing in a slot, copying the mailbox out removes it.
pub const PASSING: [&str; 4] = [FEEDBACK, QUESTION, PLAN_DIFF, BUILD_ERRORS];

/// Leftovers of an earlier task that a new one must not see. Plans, the intent and the history stay.
pub const CLEARED: [&str; 5] = [SUMMARY, FEEDBACK, QUESTION, PLAN_DIFF, BUILD_ERRORS];

/// Returns the harness's own files as they must be before the next run; `None` means the file must not exist.
pub fn mirror(record: &LoopRecord) -> Vec<(&'static str, Option<String>)> {
    // While a question is open, the files contain it.
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

/// Returns the harness's relevant files that a run changed.
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

/// Returns `origin.md` including a task: the first task is the origin, later ones refine it.
///
/// Idempotent: a task that already has its line is not added again.
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

/// Returns `task-history.md` including a task's result: the first line of its summary. Idempotent: an existing line is
/// not added again.
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
