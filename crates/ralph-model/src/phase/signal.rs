//! The signal at the end of a run: continue, complete, waiting for a person, or commands written instead of run.

use super::words::bounded;
use crate::contract::plain;

/// The data of a run that ended properly.
#[derive(Clone, Copy, Debug)]
pub struct RunEnding<'a> {
    /// `status.txt` as the run left it.
    pub status: &'a str,
    /// `question.md`, if the run left one.
    pub question: Option<&'a str>,
    pub final_message: &'a str,
    /// How many tools the run called; `None` if its adapter does not report them.
    pub tool_calls: Option<u64>,
}

/// The signal given by the end of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoopSignal {
    GoOn,
    Complete,
    Waiting {
        question: String,
    },
    /// The final message only shows commands, and the run called no tool.
    CommandsAsText,
}

/// Returns the signal of a run.
///
/// A written status decides. Without one, a run that called no tool and said something claims completion; an empty
/// reply claims nothing.
pub fn signal(ending: RunEnding<'_>) -> LoopSignal {
    let RunEnding { status, question, final_message, tool_calls } = ending;
    match word_of(status).as_str() {
        "waiting" => {
            let asked = question.map(str::trim).filter(|question| !question.is_empty());
            let asked = asked.unwrap_or_else(|| final_message.trim());
            let asked = if asked.is_empty() { "The agent waits for you." } else { asked };
            LoopSignal::Waiting { question: bounded(asked) }
        }
        "complete" | "completed" | "done" => LoopSignal::Complete,
        _ if tool_calls != Some(0) || final_message.trim().is_empty() => LoopSignal::GoOn,
        _ if shows_commands(final_message) => LoopSignal::CommandsAsText,
        _ => LoopSignal::Complete,
    }
}

/// Returns the keyword of a status: its first line, without Markdown, a label or a full stop.
fn word_of(status: &str) -> String {
    let line = status.lines().map(plain).find(|line| !line.is_empty()).unwrap_or_default();
    let line = line.to_ascii_lowercase();
    let word = line.strip_prefix("status:").unwrap_or(&line);
    plain(word).trim_end_matches(['.', '!']).to_owned()
}

/// Whether a message contains commands that were meant to be run: a tool call as JSON, a heredoc, a redirection into
/// `src/`, or three commands in one shell fence.
fn shows_commands(message: &str) -> bool {
    let compact: String = message.chars().filter(|c| !c.is_whitespace()).collect();
    compact.contains("{\"command\":")
        || has_heredoc(message)
        || message.lines().any(redirects_into_source)
        || most_fenced_commands(message) >= 3
}

fn has_heredoc(message: &str) -> bool {
    let opens = |line: &str| {
        let Some((_, word)) = line.split_once("<<") else { return false };
        let word = word.trim_start_matches('-').trim_start().trim_start_matches(['\'', '"']);
        word.starts_with("EOF")
    };
    message.lines().any(opens)
}

fn redirects_into_source(line: &str) -> bool {
    let line = line.trim_start().trim_start_matches("$ ");
    let target = line.strip_prefix("echo ").and_then(|rest| rest.rsplit_once('>'));
    target.is_some_and(|(_, target)| target.trim_start().starts_with("src/"))
}

/// Counts the lines of the longest shell fence, without comments and blank lines.
fn most_fenced_commands(message: &str) -> usize {
    let (mut most, mut open) = (0, None);
    for line in message.lines().map(str::trim) {
        if let Some(language) = line.strip_prefix("```") {
            let is_shell = ["bash", "sh", "shell", "zsh", "console"].contains(&language.trim());
            open = if open.is_some() { None } else { Some((is_shell, 0)) };
        } else if let Some((true, lines)) = &mut open
            && !line.is_empty()
            && !line.starts_with('#')
        {
            *lines += 1;
            most = most.max(*lines);
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(status: &str, message: &str, tool_calls: Option<u64>) -> LoopSignal {
        signal(RunEnding { status, question: None, final_message: message, tool_calls })
    }

    #[test]
    fn a_status_decides_and_a_run_without_tools_claims_by_what_it_says() {
        use LoopSignal::{CommandsAsText, Complete, GoOn};
        let fence = "```bash\nmkdir src\ncd src\ntouch a\n```";
        let short_fence = "```sh\n# only a look\nls\n\nls src\n```";
        for (status, message, tools, expected) in [
            ("complete", "", Some(9), Complete),
            (" COMPLETE\n", "ls", None, Complete),
            ("complete.", "", None, Complete),
            ("Status: **complete**\r\n", "", None, Complete),
            ("```\ncompleted\n```\nall done\n", "", None, Complete),
            ("not complete", "", None, GoOn),
            ("incomplete", "", None, GoOn),
            ("running", "All done.", Some(3), GoOn),
            ("running", "All done.", None, GoOn),
            ("running", "All done.", Some(0), Complete),
            ("", "All done.", Some(0), Complete),
            ("nonsense", "All done.", Some(0), Complete),
            ("running", " \n", Some(0), GoOn),
            ("running", "{ \"command\": \"ls\" }", Some(0), CommandsAsText),
            ("running", "cat > a <<'EOF'\nx\nEOF", Some(0), CommandsAsText),
            ("running", "cat <<-EOF\nEOF", Some(0), CommandsAsText),
            ("running", "$ echo 'x' > src/App.tsx", Some(0), CommandsAsText),
            ("running", "echo x > notes", Some(0), Complete),
            ("running", fence, Some(0), CommandsAsText),
            ("running", short_fence, Some(0), Complete),
            ("running", "```tsx\na\nb\nc\n```", Some(0), Complete),
            ("running", fence, Some(1), GoOn),
            ("complete", fence, Some(0), Complete),
        ] {
            assert_eq!(of(status, message, tools), expected, "{status:?} {message:?} {tools:?}");
        }
    }

    #[test]
    fn the_question_is_the_file_or_else_the_final_message() {
        let ask = |question: Option<&'static str>, final_message: &'static str| {
            let ending =
                RunEnding { status: "waiting", question, final_message, tool_calls: Some(0) };
            match signal(ending) {
                LoopSignal::Waiting { question } => question,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(ask(Some("Which colour?\n"), "I ask."), "Which colour?");
        assert_eq!(ask(Some(" \n"), "Which colour?"), "Which colour?");
        assert_eq!(ask(None, ""), "The agent waits for you.");
        // The question is truncated: it is shown to a person, and goes into the next prompt with the answer.
        let long: &'static str = Box::leak("é".repeat(1 << 19).into_boxed_str());
        for asked in [ask(Some(long), ""), ask(None, long)] {
            assert!(asked.len() < 17 << 10 && asked.ends_with("(cut here; it has 1048576 bytes)"));
        }
    }

    proptest! {
        #[test]
        fn any_ending_is_read(status in "\\PC{0,12}", message in "(\\PC|\n|```|<<|> src/){0,60}") {
            for tools in [None, Some(0), Some(1)] {
                of(&status, &message, tools);
            }
        }
    }
}
