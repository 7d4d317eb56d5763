//! The texts that the loop's machine writes into `feedback.md`, and their escalation in prompts.

use super::decide::Swallowed;

/// How much of an agent's text is shown to a person and repeated in a prompt.
const LONGEST: usize = 16 << 10;

/// Returns an agent's text, truncated to a length worth reading and paying for again.
pub(super) fn bounded(said: &str) -> String {
    let said = said.trim();
    if said.len() <= LONGEST {
        return said.to_owned();
    }
    format!(
        "{}\n(cut here; it has {} bytes)",
        &said[..said.floor_char_boundary(LONGEST)],
        said.len()
    )
}

/// Returns the prompt's text about consecutive gate failures: more urgent the more there are.
pub fn escalation(failures: u32, most: u32) -> Option<String> {
    match failures {
        0 => None,
        1 => Some(
            "ACTION REQUIRED: the last completion failed the quality gates. Read feedback.md first, and fix what it \
             lists."
                .to_owned(),
        ),
        times => Some(format!(
            "CRITICAL: {times} completions in a row failed the quality gates; this is attempt {} of {most}, and the task \
             is aborted after that. Your first action must be to read feedback.md. A reply of text alone ends the \
             iteration and fixes nothing.",
            times + 1
        )),
    }
}

pub(super) fn plan_invalid(file: &str, report: &str) -> String {
    format!(
        "# Plan Validation\n\n{file} does not pass:\n\n{report}\n\nFix these and write the plan again.\n"
    )
}

pub(super) fn plan_validated(file: &str, report: &str) -> String {
    let report = if report.is_empty() { String::new() } else { format!("\n{report}\n") };
    format!(
        "# Plan Validated\n\n{file} is valid, and the phase is BUILD now: implement it, one part of the plan after the \
         other.\n{report}\nWhen everything in the plan is there, write summary.md (what was built, at least a sentence) \
         and then `complete` to status.txt. The gates run on what is in the tree, not on what the summary says.\n"
    )
}

pub(super) fn plan_changed(file: &str) -> String {
    format!("# Plan Validated\n\n{file} was changed during BUILD and is valid as it is now.\n")
}

pub(super) fn plan_gone(file: &str) -> String {
    format!(
        "# Plan Validation\n\n{file} was validated for this task and is gone or empty. The phase is PLAN again: write the \
         plan before anything else.\n"
    )
}

pub(super) fn swallowed(why: Swallowed) -> String {
    let what = match why {
        Swallowed::NotValidated => {
            "A plan has to be validated before work on it can be complete. The harness does that between iterations."
        }
        Swallowed::Changed => {
            "The plan was changed since it was validated. The harness validates it again between iterations."
        }
        Swallowed::Gone => "The plan that was validated for this task is gone: write it again.",
    };
    format!("# Completion Ignored\n\n{what}\n")
}

pub(super) const USE_TOOLS: &str = "# Use Your Tools\n\nThe last reply showed commands as text and called no tool, so \
    nothing was run and nothing was written. Call your tools to run commands and to write files.\n";

pub(super) const IDLE: &str = "# No Progress\n\nThe last run left the tree and the mailbox as they were and claimed nothing, so \
    there was nothing to judge. What you say in your last message is not a claim: write `complete` to status.txt when the \
    task is done, or `waiting` and a question to question.md if you need a person. After a few such runs in a row the task \
    stops.\n";

pub(super) const NOTHING_CHANGED: &str = "# Nothing Changed\n\nThe task was marked complete, and nothing differs from \
    when it began: do the work. If you are sure that nothing has to change, end your last message with a line that \
    begins with NO_CHANGE_NEEDED and a colon, followed by the reason; a person decides then.\n";

pub(super) fn landing_refused(why: &str) -> String {
    format!("# Merge Needed\n\n{why}\n")
}

pub(super) fn cut_short(reason: &str) -> String {
    format!(
        "# Iteration Cut Short\n\nNothing was judged after the last run: {reason}. Look at what is in the tree before you go \
         on.\n"
    )
}

pub(super) fn answer(question: &str, answer: &str) -> String {
    format!("# Answer\n\nYou asked: {question}\n\nA person answers: {answer}\n")
}

pub(super) fn objection(answer: &str) -> String {
    format!("# Not Accepted\n\nA person looked at it and says: {answer}\n")
}

pub(super) fn touched(files: &[String]) -> String {
    format!(
        "{} is owned by the harness and was restored; editing it has no effect.\n",
        files.join(", ")
    )
}
