//! The journal for people: one entry, one line of `key=value` pairs.

use std::fmt::Write;

use serde_json::Value;
use serde_json::value::RawValue;

use super::JournalEntry;
use crate::shown::{self, is_hidden};

/// Writes an entry as `=== <time> | <event> | key=value | … ===`, without a line end.
///
/// Whatever the values hold it stays one line, and a terminal takes nothing in it for a command.
pub fn render_text(entry: &JournalEntry) -> String {
    let mut line = format!("=== {} | ", entry.at);
    escape_into(&mut line, entry.event.name());
    if let Some(run) = &entry.run {
        write!(line, " | run={run}").expect("a string takes everything");
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
        // Valid JSON that is too deep or too big to hold, which only an unknown event can be.
        Some(Err(_)) => line.push_str(" | data=?"),
    }
    line.push_str(" ===");
    line
}

/// Writes a value as one pair, or an object as one pair for each of its fields.
///
/// The `kind` of an object stands for the object itself: `end=exited`, `end.after_ms=5`.
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

/// Returns the last line of a text that is not blank, cut to 160 characters.
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
    use crate::journal::samples;
    use crate::journal::{JournalEvent, StateRebuilt, parse_line};

    #[test]
    fn entries_read_as_pairs() {
        let lines: Vec<_> = samples::one_of_each().iter().map(render_text).collect();
        assert_eq!(
            lines,
            [
                "=== 2026-11-15T20:30:00Z | run_started | run=20261115-203000Z-00000001 | agent=codex | \
                 attempt=2 | boundary=kernel | dir=ralph/runs/0001-a/1 | item=0001-a | model=gpt-5.5 | \
                 resumed_session=s1 | role=implementer ===",
                "=== 2026-11-15T20:30:01Z | run_finished | run=20261115-203000Z-00000001 | cost_is_estimate=true | \
                 cost_usd=0.25 | duration_ms=1500 | end=idle_timeout | end.after_ms=900000 | exit.signal=9 | \
                 final_line=bye | outcome=trouble | outcome.trouble=usage_limit | \
                 outcome.trouble.resets_at=2026-11-15T21:00:00Z | session=s1 | tool_calls=3 | usage.cache_read=2 | \
                 usage.cache_write=3 | usage.input=1 | usage.output=4 ===",
                "=== 2026-11-15T20:30:02Z | limit_wait_started | agent=codex | known=true | until=2026-11-15T21:00:30Z ===",
                "=== 2026-11-15T20:30:03Z | limit_wait_ended | agent=codex | interrupted=true ===",
                "=== 2026-11-15T20:30:04Z | backoff_started | reason=gate failed | wait_ms=4000 ===",
                "=== 2026-11-15T20:30:05Z | leftovers_ended | processes=2 ===",
                "=== 2026-11-15T20:30:06Z | state_rebuilt | reason=new clone ===",
                "=== 2026-11-15T20:30:07Z | budget_exhausted | what=cost | what.limit_usd=5.0 | what.spent_usd=5.25 ===",
                "=== 2026-11-15T20:30:08Z | interrupted ===",
                "=== 2026-11-15T20:30:09Z | mutation_requested | run=20261115-203000Z-00000001 | accepted=true | \
                 request=task_done | request.id=t-1 | request.no_change=so | text=noted ===",
                "=== 2026-11-15T20:30:10Z | request_ignored | run=20261115-203000Z-00000001 | name=x.req | \
                 reason=it is not a file ===",
                "=== 2026-11-15T20:30:11Z | question_asked | run=20261115-203000Z-00000001 | id=q1 | item=0001-a | \
                 question=Is it so? ===",
                "=== 2026-11-15T20:30:12Z | question_answered | answer=yes | id=q1 ===",
                "=== 2026-11-15T20:30:13Z | answer_taken | id=q1 ===",
                "=== 2026-11-15T20:30:14Z | boundary_crossed | run=20261115-203000Z-00000001 | \
                 put_back=[\"ralph.toml\"] | saved_in=/state/displaced/1 | violations=[\"ralph.toml\"] ===",
                "=== 2026-11-15T20:30:15Z | verify_fail | attempt=2 | phase=verify | spec=0001-a.md ===",
            ]
        );
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
        let event = JournalEvent::StateRebuilt(StateRebuilt {
            reason: "a\nb\\c\r\t\u{1b}[31m\u{2028}é".to_owned(),
        });
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
        fn any_entry_stays_one_line(entry in samples::any_entry()) {
            let text = render_text(&entry);
            prop_assert!(!text.chars().any(is_hidden));
            prop_assert!(text.starts_with("=== ") && text.ends_with(" ==="));
        }
    }
}
