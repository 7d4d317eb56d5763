//! How the output of a command ended, in words that may go anywhere: into a plan that is committed, into a prompt.
//!
//! It is short, has no control characters, and names no path of this machine: paths in the checkout are named from its
//! root. All of the output is in the log, which stays private.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use camino::Utf8Path;
use ralph_model::shown::without_escapes;

/// How much of a log is looked at.
const WINDOW: u64 = 16 << 10;
const MOST_LINES: usize = 12;
const MOST_CHARACTERS: usize = 160;

/// A directory, and what is written in its place. With nothing in its place, paths inside it become relative to it.
pub(super) type Alias<'a> = (&'a str, &'a str);

/// Returns the end of a log. `aliases` are tried in order: deeper directories first.
pub(super) fn of_file(path: &Utf8Path, aliases: &[Alias<'_>]) -> io::Result<String> {
    Ok(end_of(&read_window(path)?, aliases, MOST_LINES))
}

/// Returns all lines of a log's last 16 KiB.
pub(super) fn window_of_file(path: &Utf8Path, aliases: &[Alias<'_>]) -> io::Result<String> {
    Ok(end_of(&read_window(path)?, aliases, usize::MAX))
}

fn read_window(path: &Utf8Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let start = length.saturating_sub(WINDOW);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(WINDOW).read_to_end(&mut bytes)?;
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
}
