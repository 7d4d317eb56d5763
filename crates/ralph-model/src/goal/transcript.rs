//! `plan_transcript.md`: questions, answers, drafts and decisions, for people. It is append-only.
//!
//! Every entry begins with its time, so entries are unique and a truncated one can be detected after a crash. Text of
//! agents and people is quoted in fences that it cannot close.

use std::fmt::Write as _;

use jiff::Timestamp;

use super::state::GoalBeginning;

/// The first entry of an interview.
pub(super) fn beginning(beginning: &GoalBeginning<'_>) -> String {
    entry(beginning.at, "Goal", &[&fenced("text", beginning.goal)])
}

/// A person's decision on a step after the interview: the question, the reasons, and the answer.
pub fn decision(at: Timestamp, question: &str, reasons: &[String], answer: &str) -> String {
    let reasons: Vec<String> = reasons.iter().map(|reason| format!("- {reason}")).collect();
    let reasons = reasons.join("\n");
    entry(at, "Decision", &[question, &reasons, &format!("Answer: {answer}")])
}

pub(super) fn answer(at: Timestamp, question: &str, answer: &str) -> String {
    entry(at, "Question", &[&fenced("text", question), "Answer:", &fenced("text", answer)])
}

/// A turn of the interviewer, and its problems.
pub(super) fn turn(at: Timestamp, said: &str, problems: &[String]) -> String {
    let problems: Vec<String> = problems.iter().map(|problem| format!("- {problem}")).collect();
    let problems = problems.join("\n");
    if problems.is_empty() {
        return entry(at, "Envelope", &[&fenced("json", said)]);
    }
    entry(at, "Invalid answer", &[&fenced("text", said), "Problems:", &problems])
}

/// The review of a draft that the person approved.
pub(super) fn approval(at: Timestamp, summary: &[String]) -> String {
    entry(at, "Review", &[&fenced("text", &summary.join("\n")), "Approved."])
}

/// The review of a draft that the person wants changed.
pub(super) fn refusal(at: Timestamp, summary: &[String], question: &str, answer: &str) -> String {
    let summary = fenced("text", &summary.join("\n"));
    entry(at, "Review", &[&summary, "Not approved.", question, &fenced("text", answer)])
}

fn entry(at: Timestamp, title: &str, parts: &[&str]) -> String {
    let mut text = format!("## {at} - {title}\n");
    for part in parts.iter().filter(|part| !part.trim().is_empty()) {
        write!(text, "\n{part}\n").expect("a string takes any text");
    }
    text.push('\n');
    text
}

/// Quotes a text in a fence that is longer than any in the text.
fn fenced(language: &str, text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}{language}\n{}\n{fence}", text.trim_end())
}
