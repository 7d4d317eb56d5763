//! Explains why a workflow stopped early, with the same wording for all of them.

use ralph_engine::workflow::driver::Stop;
use ralph_model::journal::QuestionKind;

use super::human::{local_time, one_line};
use crate::exit::Exit;
use crate::setup::now;

/// Returns the exit code, the message, and a second line. `again` is the command that continues; `retry` the one that
/// resets an item's attempts.
pub(crate) fn describe(stop: &Stop, again: &str, retry: &str) -> (Exit, String, Option<String>) {
    match stop {
        Stop::Interrupted => {
            (Exit::Interrupted, format!("interrupted; `{again}` continues where it stopped"), None)
        }
        Stop::Limited { agent, wait } => {
            let until = local_time(wait.until, now());
            (Exit::Unfinished, format!("{agent} is at its usage limit until about {until}"), None)
        }
        Stop::OutOfBudget(what) => {
            let text = format!("stopped: {what}; `{again}` continues with a new budget");
            (Exit::Unfinished, text, None)
        }
        Stop::Stuck { trouble } => {
            let trouble = one_line(&trouble.to_string(), 300);
            let text = format!("the same problem three times in a row: {trouble}");
            let then = format!("  it cost no attempt; `{again}` continues there");
            (Exit::Unfinished, text, Some(then))
        }
        Stop::TooMuchTrouble { trouble, times } => {
            let trouble = one_line(&trouble.to_string(), 300);
            let text = format!("it met problems {times} times, the last: {trouble}");
            let then = format!("  it cost no attempt; `{retry}` tries again");
            (Exit::Unfinished, text, Some(then))
        }
        Stop::Unexplained { item, question } => {
            let text = format!("{item} waits for you: {}", whole(question, 1500));
            (Exit::PersonNeeded, text, Some(format!("  then `{again}` continues")))
        }
        Stop::Waiting { item, question, asked } => {
            let question = whole(question, 600);
            let text = format!("{item} waits for you: {question}");
            let answer = |yes: &str| {
                format!("  `ralph answer {item} yes` {yes}; any other answer goes to the next run")
            };
            let then = match asked {
                QuestionKind::Accept => answer("accepts it"),
                QuestionKind::Retry => answer("tries it again, `no` does not"),
                QuestionKind::Other => format!("  then `{again}` continues"),
            };
            (Exit::PersonNeeded, text, Some(then))
        }
        Stop::Declined { item } => {
            let text = format!("{item} is not tried again, as you said; `{retry}` tries it again");
            (Exit::Unfinished, text, None)
        }
    }
}

/// Returns all lines of a question as one line: its options are often below its first line.
fn whole(question: &str, most: usize) -> String {
    let lines: Vec<&str> =
        question.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    one_line(&lines.join(" / "), most)
}

/// Returns only the reason, for programs.
pub(crate) fn reason(stop: &Stop) -> Option<String> {
    match stop {
        Stop::Stuck { trouble } | Stop::TooMuchTrouble { trouble, .. } => Some(trouble.to_string()),
        Stop::Waiting { question, .. } | Stop::Unexplained { question, .. } => {
            Some(question.clone())
        }
        Stop::OutOfBudget(what) => Some(what.to_string()),
        Stop::Interrupted | Stop::Limited { .. } | Stop::Declined { .. } => None,
    }
}
