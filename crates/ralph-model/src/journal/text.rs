//! The journal as text for people: one line of `key=value` pairs per entry.

use std::fmt::Write;

use serde_json::Value;
use serde_json::value::RawValue;

use super::JournalEntry;
use crate::shown::{self, is_hidden};

/// Writes an entry as `=== <time> | <event> | key=value | … ===`, without a line end.
///
/// Whatever the values contain, it stays one line and has no terminal control sequences.
pub fn render_text(entry: &JournalEntry) -> String {
    let mut line = format!("=== {} | ", entry.at);
    escape_into(&mut line, entry.event.name());
    if let Some(run) = &entry.run {
        write!(line, " | run={run}").expect("a string takes everything");
    }
    if let Some(wf) = &entry.wf {
        write!(line, " | wf={wf}").expect("a string takes everything");
    }
    let data = entry.event.data();
    let data = data.as_deref().map(RawValue::get).map(serde_json::from_str::<Value>);
    match data {
        None => {}
        Some(Ok(Value::Object(fields))) => {
            for (key, value) in &fields {
                pairs_into(&mut line, key, value);
            }
        }
        Some(Ok(value)) => pairs_into(&mut line, "data", &value),
        // Valid JSON that is too deep or too large to hold; only an unknown event can have it.
        Some(Err(_)) => line.push_str(" | data=?"),
    }
    line.push_str(" ===");
    line
}

/// Writes a value as one pair, or an object as one pair for each of its fields.
///
/// The `kind` of an object represents the object itself: `end=exited`, `end.after_ms=5`.
fn pairs_into(line: &mut String, key: &str, value: &Value) {
    match value {
        Value::Null => {}
        Value::Object(fields) => {
            if let Some(kind) = fields.get("kind") {
                pairs_into(line, key, kind);
            }
            for (inner, value) in fields.iter().filter(|(inner, _)| *inner != "kind") {
                pairs_into(line, &format!("{key}.{inner}"), value);
            }
        }
        Value::String(text) => pair_into(line, key, text),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
            pair_into(line, key, &value.to_string());
        }
    }
}

fn pair_into(line: &mut String, key: &str, value: &str) {
    line.push_str(" | ");
    escape_into(line, key);
    line.push('=');
    escape_into(line, value);
}

fn escape_into(line: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '\\' => line.push_str("\\\\"),
            c if is_hidden(c) => shown::escape_into(line, c),
            c => line.push(c),
        }
    }
}

const LONGEST_SUMMARY: usize = 160;

/// Returns the last non-blank line of a text, truncated to 160 characters.
pub fn summary_line(text: &str) -> Option<String> {
    let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
    Some(match line.char_indices().nth(LONGEST_SUMMARY) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::journal::{StateRebuilt, parse_line};
    use crate::journal::{any, samples};

    #[test]
    fn entries_read_as_pairs() {
        let lines: Vec<_> = samples::one_of_each().iter().map(render_text).collect();
        let expected: Vec<_> = include_str!("golden.txt").lines().collect();
        assert_eq!(lines, expected);
    }

    #[test]
    fn unknown_events_are_shown_as_far_as_they_can_be() {
        let line = |data: &str| {
            let line =
                format!(r#"{{"v":1,"at":"2026-11-15T20:30:00Z","event":"x\n","data":{data}}}"#);
            render_text(&parse_line(line.as_bytes()).unwrap())
        };
        let start = "=== 2026-11-15T20:30:00Z | x\\n";
        assert_eq!(line(r#"{"b":[1,2],"a":null}"#), format!("{start} | b=[1,2] ==="));
        assert_eq!(line("7"), format!("{start} | data=7 ==="));
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        assert_eq!(line(&deep), format!("{start} | data=? ==="));
    }

    #[test]
    fn what_would_break_the_line_is_escaped() {
        let event = StateRebuilt { reason: "a\nb\\c\r\t\u{1b}[31m\u{2028}é".to_owned() };
        let text = render_text(&samples::entry(0, event));
        assert_eq!(
            text,
            "=== 2026-11-15T20:30:00Z | state_rebuilt | reason=a\\nb\\\\c\\r\\t\\u{1b}[31m\\u{2028}é ==="
        );
    }

    #[test]
    fn the_summary_is_the_last_line_cut_short() {
        let long = "é".repeat(161);
        let table = [
            ("", None),
            (" \n\t\n", None),
            ("one\ntwo  \n\n", Some("two".to_owned())),
            (&long[2..], Some("é".repeat(160))),
            (&long, Some(format!("{}...", "é".repeat(160)))),
        ];
        for (text, summary) in table {
            assert_eq!(summary_line(text), summary, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_entry_stays_one_line(entry in any::any_entry()) {
            let text = render_text(&entry);
            prop_assert!(!text.chars().any(is_hidden));
            prop_assert!(text.starts_with("=== ") && text.ends_with(" ==="));
        }
    }
}
