use proptest::prelude::*;

use super::*;
use crate::journal::{any, samples};

fn read(journal: &[u8]) -> (Vec<JournalEntry>, Option<JournalError>) {
    let mut found = Vec::new();
    for entry in entries(journal) {
        match entry {
            Ok(entry) => found.push(entry),
            Err(error) => return (found, Some(error)),
        }
    }
    (found, None)
}

/// A line of each kind as this version writes it.
const GOLDEN: &str = include_str!("golden.jsonl");
/// Lines of each kind in the format of earlier versions, or without any optional field.
const OLDER: &str = include_str!("older.jsonl");

#[test]
fn every_kind_has_a_sample() {
    let samples = samples::one_of_each();
    let told: std::collections::BTreeSet<&str> =
        samples.iter().map(|entry| entry.event.name()).collect();
    let all: std::collections::BTreeSet<&str> = JournalEvent::NAMES.iter().copied().collect();
    assert_eq!(told, all);
    assert_eq!(samples.len(), all.len());
}

#[test]
fn the_lines_of_version_one_stay_as_they_are() {
    let lines: Vec<_> = samples::one_of_each().iter().map(render_line).collect();
    let expected: Vec<_> = GOLDEN.lines().map(|line| format!("{line}\n")).collect();
    assert_eq!(lines, expected);
}

#[test]
fn lines_of_older_ralphs_are_read() {
    let mut read = std::collections::BTreeSet::new();
    for line in OLDER.lines() {
        let entry = parse_line(line.as_bytes()).unwrap_or_else(|error| panic!("{line}: {error}"));
        let gone = ["backoff_started", "gates_start"].contains(&entry.event.name());
        assert_eq!(matches!(entry.event, JournalEvent::Unknown(_)), gone, "{line}");
        read.insert(entry.event.name().to_owned());
    }
    for name in JournalEvent::NAMES {
        assert!(read.contains(*name), "there is no older line of {name}");
    }
}

#[test]
fn fields_that_were_called_otherwise_are_read() {
    let line = r#"{"v":1,"at":"2026-11-15T20:30:00Z","event":"iteration_start","data":{"stage":"BUILD","task":"t-1","iteration":3,"spec":"s.md","reason":"Do it"}}"#;
    let JournalEvent::IterationStart(start) = parse_line(line.as_bytes()).unwrap().event else {
        panic!("{line}");
    };
    assert_eq!((start.name.as_deref(), start.iteration), (Some("Do it"), Some(3)));
}

/// Adds unknown fields, as a newer Ralph might, to every object.
fn newer(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::Object(fields) => {
            fields.values_mut().for_each(newer);
            fields.insert("zz_later".to_owned(), serde_json::json!({"x": [1, null]}));
        }
        serde_json::Value::Array(values) => values.iter_mut().for_each(newer),
        _ => {}
    }
}

#[test]
fn lines_of_newer_ralphs_are_read_as_far_as_they_are_known() {
    for (line, sample) in GOLDEN.lines().zip(samples::one_of_each()) {
        let mut value: serde_json::Value = serde_json::from_str(line).unwrap();
        newer(&mut value);
        // The tags of requests and roles are maps that must be known completely: the line's version covers them.
        if let Some(data) = value.get_mut("data") {
            for whole in ["request", "exit", "roles"] {
                let original: serde_json::Value = serde_json::from_str(line).unwrap();
                if let Some(known) = original["data"].get(whole) {
                    data[whole] = known.clone();
                }
            }
        }
        let entry = parse_line(value.to_string().as_bytes()).unwrap_or_else(|error| {
            panic!("{value}: {error}: {:?}", std::error::Error::source(&error))
        });
        assert_eq!(entry, sample);
    }
}

#[test]
fn an_unknown_event_is_kept_word_for_word() {
    let line =
        r#"{"v":1,"at":"2026-11-15T20:30:00Z","event":"moon_rose","data":{"z": 1e400,"a" :"é"}}"#;
    let entry = parse_line(line.as_bytes()).unwrap();
    assert_eq!(entry.event.name(), "moon_rose");
    assert_eq!(render_line(&entry), format!("{line}\n"));
}

#[test]
fn unknown_fields_are_passed_over() {
    let line = br#"{"new":[],"v":1,"event":"leftovers_ended","at":"2026-11-15T20:30:05Z","data":{"why":"x","processes":2}}"#;
    let expected =
        samples::entry(5, crate::journal::LeftoversEnded { processes: 2, session: None });
    assert_eq!(parse_line(line).unwrap(), expected);
}

#[test]
fn a_newer_version_is_named_whatever_it_looks_like() {
    for line in [
        r#"{"v":2,"at":"2026-11-15T20:30:00Z","event":"interrupted"}"#,
        r#"{"v":2,"what":"else"}"#,
        r#"{"at":17,"v":2,"event":{}}"#,
    ] {
        let error = parse_line(line.as_bytes()).unwrap_err();
        assert!(matches!(error, JournalLineError::Newer { found: 2 }), "{line}: {error}");
    }
    let error = parse_line(br#"{"v":7}"#).unwrap_err().to_string();
    assert_eq!(error, "it was written by a newer Ralph (version 7; this one reads 1)");
}

#[test]
fn what_is_no_entry_is_refused() {
    let malformed = [
        "",
        "null",
        "<<<<<<< HEAD",
        r#"{"v":1}"#,
        r#"{"v":0,"at":"2026-11-15T20:30:00Z","event":"interrupted"}"#,
        r#"{"at":"2026-11-15T20:30:00Z","event":"interrupted"}"#,
        r#"{"v":1,"at":"yesterday","event":"interrupted"}"#,
        r#"{"v":1,"at":"2026-11-15T20:30:00Z","run":"../x","event":"interrupted"}"#,
        r#"{"v":1,"at":"2026-11-15T20:30:00Z","event":"interrupted"} more"#,
    ];
    for line in malformed {
        let error = parse_line(line.as_bytes()).unwrap_err();
        assert!(matches!(error, JournalLineError::Malformed(_)), "{line}: {error}");
    }
    let bad_data = br#"{"v":1,"at":"2026-11-15T20:30:00Z","event":"leftovers_ended","data":{}}"#;
    let error = parse_line(bad_data).unwrap_err();
    assert_eq!(error.to_string(), "the data of `leftovers_ended` cannot be read");
    let two = b"{\"v\":1,\n\"at\":\"2026-11-15T20:30:00Z\",\"event\":\"interrupted\"}";
    assert!(matches!(parse_line(two), Err(JournalLineError::SeveralLines)));
}

#[test]
fn a_bad_line_in_the_middle_is_an_error_with_its_number() {
    let good = render_line(&samples::entry(0, JournalEvent::Interrupted));
    let journal = format!("{good}\n{{\"v\":1,\n{good}");
    let (found, error) = read(journal.as_bytes());
    assert_eq!(found.len(), 1);
    assert!(matches!(error, Some(JournalError::Line { line: 3, .. })), "{error:?}");
}

#[test]
fn a_last_line_of_zeros_is_a_torn_tail() {
    let good = render_line(&samples::entry(0, JournalEvent::Interrupted));
    let journal = [good.as_bytes(), &[0; 64]].concat();
    let (found, error) = read(&journal);
    assert_eq!(found.len(), 1);
    let offset = good.len();
    assert!(
        matches!(error, Some(JournalError::TornTail { line: 2, offset: at }) if at == offset),
        "{error:?}"
    );
}

#[test]
fn a_newer_last_line_is_not_taken_for_torn() {
    let (_, error) = read(br#"{"v":2}"#);
    assert!(matches!(error, Some(JournalError::Line { line: 1, .. })), "{error:?}");
}

proptest! {
    #[test]
    fn what_is_written_is_read(entry in any::any_entry()) {
        let line = render_line(&entry);
        prop_assert_eq!(line.matches('\n').count(), 1);
        prop_assert_eq!(parse_line(line.as_bytes()).unwrap(), entry.clone());
        let taken_apart = Envelope::as_written(line.trim_end()).expect("it is as it was written");
        prop_assert_eq!(taken_apart.into_entry().unwrap(), entry);
    }

    /// The fast path may leave a line to the slow one, but never gives a different result.
    #[test]
    fn a_damaged_line_is_not_taken_apart_into_something_else(
        entry in any::any_entry(),
        place: prop::sample::Index,
        put in "[\"\\\\{},:a1 ]{0,3}",
    ) {
        let line = render_line(&entry);
        let line = line.trim_end();
        let mut place = place.index(line.len());
        while !line.is_char_boundary(place) {
            place -= 1;
        }
        let after = line[place..].chars().next().map_or(place, |cut| place + cut.len_utf8());
        let damaged = format!("{}{put}{}", &line[..place], &line[after..]);
        if let Some(Ok(entry)) = Envelope::as_written(&damaged).map(Envelope::into_entry)
            && !matches!(entry.event, JournalEvent::Unknown(_) | JournalEvent::Interrupted)
        {
            prop_assert_eq!(parse_line(damaged.as_bytes()).unwrap(), entry);
        }
    }

    #[test]
    fn any_bytes_are_read_without_panic(bytes: Vec<u8>, text in "\\PC{0,80}") {
        let _ = parse_line(&bytes);
        let _ = parse_line(text.as_bytes());
        let _ = read(&bytes);
    }

    #[test]
    fn a_journal_cut_anywhere_gives_all_whole_lines_and_tells_of_the_rest(
        journal in any::any_journal(),
        cut: prop::sample::Index,
    ) {
        let lines: Vec<_> = journal.iter().map(render_line).collect();
        let bytes = lines.concat().into_bytes();
        let cut = cut.index(bytes.len() + 1);
        let (found, error) = read(&bytes[..cut]);

        let mut whole = 0;
        let mut offset = 0;
        // An entry counts as soon as everything except its line end is written.
        while whole < lines.len() && offset + lines[whole].len() - 1 <= cut {
            offset += lines[whole].len();
            whole += 1;
        }
        prop_assert_eq!(&found[..], &journal[..whole]);
        match error {
            None => prop_assert!(cut == offset || cut + 1 == offset),
            Some(JournalError::TornTail { line, offset: at }) => {
                prop_assert_eq!((line, at), (whole + 1, offset));
                prop_assert!(cut > offset);
            }
            Some(error) => prop_assert!(false, "{error}"),
        }
    }
}
