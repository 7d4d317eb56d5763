//! How the output of a command ended, in words that may go anywhere: into a plan that is committed, into a prompt. Of a
//! command that failed, what it printed about failing tests comes first: a summary may follow it that says nothing more.
//!
//! It is short, has no control characters, and names no path of this machine: paths in the checkout are named from its
//! root. All of the output is in the log, which stays private.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use camino::Utf8Path;
use ralph_model::shown::without_escapes;
use ralph_model::testcount::reports_failure;

/// How much of a log is looked at.
const WINDOW: u64 = 16 << 10;
const MOST_LINES: usize = 12;
/// How much of a log is searched for failing tests.
const SEARCHED: u64 = 1 << 20;
/// The most lines shown about failing tests, in total and for one test.
const MOST_FAILING: usize = 30;
const MOST_OF_ONE: usize = 15;
/// Stands for the lines left out between failing tests and the end of the output.
const GAP: &str = "…";
const MOST_CHARACTERS: usize = 160;

/// A directory, and what is written in its place. With nothing in its place, paths inside it become relative to it.
pub(super) type Alias<'a> = (&'a str, &'a str);

/// Returns the end of a log. `aliases` are tried in order: deeper directories first.
pub(super) fn of_file(path: &Utf8Path, aliases: &[Alias<'_>]) -> io::Result<String> {
    Ok(end_of(&read_end(path, WINDOW)?, aliases, MOST_LINES))
}

/// Returns what the log of a command that failed says about failing tests, and its end.
pub(super) fn of_failed(path: &Utf8Path, aliases: &[Alias<'_>]) -> io::Result<String> {
    let text = end_of(&read_end(path, SEARCHED)?, aliases, usize::MAX);
    let lines: Vec<&str> = text.lines().collect();
    let (earlier, end) = lines.split_at(lines.len().saturating_sub(MOST_LINES));
    let mut told = failing(earlier);
    told.extend(end);
    Ok(told.join("\n"))
}

/// Returns all lines of a log's last 16 KiB.
pub(super) fn window_of_file(path: &Utf8Path, aliases: &[Alias<'_>]) -> io::Result<String> {
    Ok(end_of(&read_end(path, WINDOW)?, aliases, usize::MAX))
}

/// Returns the lines that report failing tests, each with the lines below it as far as there is room, and `GAP` where
/// lines are left out.
fn failing<'a>(lines: &[&'a str]) -> Vec<&'a str> {
    let found: Vec<usize> = (0..lines.len()).filter(|at| reports_failure(lines[*at])).collect();
    let of_one = (MOST_FAILING / found.len().max(1)).clamp(1, MOST_OF_ONE);
    let mut told = Vec::new();
    let mut next = 0;
    for (nth, at) in found.iter().enumerate().take(MOST_FAILING) {
        let below = found.get(nth + 1).copied().unwrap_or(lines.len());
        let until = (at + of_one).min(below);
        told.extend_from_slice(&lines[*at..until]);
        next = until;
        if next < below {
            told.push(GAP);
        }
    }
    if next < lines.len() && told.last().is_some_and(|last| *last != GAP) {
        told.push(GAP);
    }
    told
}

fn read_end(path: &Utf8Path, window: u64) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let start = length.saturating_sub(window);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(window).read_to_end(&mut bytes)?;
    if start > 0 {
        // A line whose beginning is not there could begin in the middle of a path.
        let first = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| at + 1);
        bytes.drain(..first);
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn end_of(text: &str, aliases: &[Alias<'_>], most_lines: usize) -> String {
    let mut text = printable(text);
    for (directory, name) in aliases {
        if directory.len() < 2 {
            continue;
        }
        if name.is_empty() {
            text = text.replace(&format!("{directory}/"), "");
        }
        text = text.replace(directory, if name.is_empty() { "." } else { name });
    }
    let lines: Vec<&str> =
        text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(most_lines)..];
    let cut = |line: &&str| match line.char_indices().nth(MOST_CHARACTERS) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => (*line).to_owned(),
    };
    last.iter().map(cut).collect::<Vec<_>>().join("\n")
}

/// Leaves out what only a terminal understands: colours, and lines that were written over.
fn printable(text: &str) -> String {
    let as_line_or_space = |c: char| match c {
        '\r' | '\n' => Some('\n'),
        '\t' => Some(' '),
        c => Some(c).filter(|c| !c.is_control()),
    };
    without_escapes(text).chars().filter_map(as_line_or_space).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALIASES: &[Alias<'_>] = &[("/s/state/co", ""), ("/s/state", "…"), ("/home/me", "~")];

    #[test]
    fn paths_are_named_from_the_checkout_and_nothing_else_is_told() {
        let said = end_of(
            "--> /s/state/co/src/a.rs:3\nin /s/state/co\n/s/state/x\n/home/me/y",
            ALIASES,
            MOST_LINES,
        );
        assert_eq!(said, "--> src/a.rs:3\nin .\n…/x\n~/y");
        assert_eq!(end_of("a/b", &[("/", "~"), ("", "~")], MOST_LINES), "a/b");
    }

    #[test]
    fn colours_and_what_was_written_over_are_left_out() {
        assert_eq!(
            end_of("\u{1b}[31mred\u{1b}[0m\r50%\r\n\n\u{7}x \n", &[], MOST_LINES),
            "red\n50%\nx"
        );
        assert_eq!(end_of("end\u{1b}[", &[], MOST_LINES), "end");
    }

    #[test]
    fn of_a_long_log_the_end_is_told_in_whole_lines_of_bounded_length() {
        let dir = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(dir.path()).unwrap().join("log");
        let lines: Vec<String> = (0..5_000).map(|n| format!("line {n} /home/me")).collect();
        std::fs::write(&path, lines.join("\n")).unwrap();
        let said = of_file(&path, ALIASES).unwrap();
        assert_eq!(said.lines().count(), MOST_LINES);
        assert!(said.starts_with("line 4988 ~\n") && said.ends_with("line 4999 ~"), "{said}");
        std::fs::write(&path, "é".repeat(40_000)).unwrap();
        assert_eq!(of_file(&path, ALIASES).unwrap(), "");
        std::fs::write(&path, "é".repeat(1_000)).unwrap();
        assert_eq!(of_file(&path, ALIASES).unwrap().chars().count(), MOST_CHARACTERS + 1);
    }

    #[test]
    fn failing_tests_are_told_before_the_end_of_a_failed_command() {
        let dir = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(dir.path()).unwrap().join("log");
        let summary: Vec<String> = (0..40).map(|n| format!("# {n}")).collect();
        let tap = "TAP version 13\nnot ok 1 - adds\n  at: /s/state/co/a.js:3\n  expected: 3\n";
        std::fs::write(&path, format!("{tap}{}\n", summary.join("\n"))).unwrap();
        let said = of_failed(&path, ALIASES).unwrap();
        assert!(said.starts_with("not ok 1 - adds\n  at: a.js:3\n  expected: 3\n# 0\n"), "{said}");
        assert!(said.contains("\n# 11\n…\n# 28\n") && said.ends_with("\n# 39"), "{said}");
        // Of many, each is named; what is in the end anyway is not told twice.
        let many: Vec<String> = (0..50).map(|n| format!("not ok {n}\nnoise")).collect();
        std::fs::write(&path, many.join("\n")).unwrap();
        let said = of_failed(&path, ALIASES).unwrap();
        assert!(said.starts_with("not ok 0\n…\nnot ok 1\n…\n"), "{said}");
        assert_eq!(said.matches("not ok").count(), MOST_FAILING + MOST_LINES / 2, "{said}");
        std::fs::write(&path, "not ok 1 - adds\n1..1\n").unwrap();
        assert_eq!(of_failed(&path, ALIASES).unwrap(), "not ok 1 - adds\n1..1");
    }
}
