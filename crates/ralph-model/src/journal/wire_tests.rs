use proptest::prelude::*;

use super::*;
use crate::journal::samples;

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

#[test]
fn the_lines_of_version_one_stay_as_they_are() {
    let lines: Vec<_> = samples::one_of_each().iter().map(render_line).collect();
    let expected = [
        r#"{"v":1,"at":"2026-11-15T20:30:00Z","run":"20261115-203000Z-00000001","event":"run_started","data":{"item":"0001-a","role":"implementer","agent":"codex","model":"gpt-5.5","attempt":2,"boundary":"kernel","dir":"ralph/runs/0001-a/1","resumed_session":"s1"}}"#,
        r#"{"v":1,"at":"2026-11-15T20:30:01Z","run":"20261115-203000Z-00000001","event":"run_finished","data":{"end":{"kind":"idle_timeout","after_ms":900000},"exit":{"signal":9},"outcome":{"kind":"trouble","trouble":{"kind":"usage_limit","resets_at":"2026-11-15T21:00:00Z"}},"session":"s1","usage":{"input":1,"cache_read":2,"cache_write":3,"output":4},"cost_usd":0.25,"cost_is_estimate":true,"duration_ms":1500,"tool_calls":3,"final_line":"bye"}}"#,
        r#"{"v":1,"at":"2026-11-15T20:30:02Z","event":"limit_wait_started","data":{"agent":"codex","until":"2026-11-15T21:00:30Z","known":true}}"#,
        r#"{"v":1,"at":"2026-11-15T20:30:03Z","event":"limit_wait_ended","data":{"agent":"codex","interrupted":true}}"#,
        r#"{"v":1,"at":"2026-11-15T20:30:04Z","event":"backoff_started","data":{"wait_ms":4000,"reason":"gate failed"}}"#,
        r#"{"v":1,"at":"2026-11-15T20:30:05Z","event":"leftovers_ended","data":{"processes":2}}"#,
        r#"{"v":1,"at":"2026-11-15T20:30:06Z","event":"state_rebuilt","data":{"reason":"new clone"}}"#,
        r#"{"v":1,"at":"2026-11-15T20:30:07Z","event":"budget_exhausted","data":{"what":{"kind":"cost","limit_usd":5.0,"spent_usd":5.25}}}"#,
        r#"{"v":1,"at":"2026-11-15T20:30:08Z","event":"interrupted"}"#,
        r#"{"v":1,"at":"2026-11-15T20:30:09Z","run":"20261115-203000Z-00000001","event":"mutation_requested","data":{"request":{"kind":"task_done","id":"t-1","no_change":"so"},"accepted":true,"text":"noted"}}"#,
        r#"{"v":1,"at":"2026-11-15T20:30:10Z","run":"20261115-203000Z-00000001","event":"request_ignored","data":{"name":"x.req","reason":"it is not a file"}}"#,
        r#"{"v":1,"at":"2026-11-15T20:30:11Z","run":"20261115-203000Z-00000001","event":"question_asked","data":{"id":"q1","item":"0001-a","question":"Is it so?"}}"#,
        r#"{"v":1,"at":"2026-11-15T20:30:12Z","event":"question_answered","data":{"id":"q1","answer":"yes"}}"#,
        r#"{"v":1,"at":"2026-11-15T20:30:13Z","event":"answer_taken","data":{"id":"q1"}}"#,
        r#"{"v":1,"at":"2026-11-15T20:30:14Z","run":"20261115-203000Z-00000001","event":"boundary_crossed","data":{"violations":["ralph.toml"],"put_back":["ralph.toml"],"saved_in":"/state/displaced/1"}}"#,
        r#"{"v":1,"at":"2026-11-15T20:30:15Z","event":"verify_fail","data":{"spec":"0001-a.md","phase":"verify","attempt":2}}"#,
    ];
    assert_eq!(lines, expected.map(|line| format!("{line}\n")));
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
    assert_eq!(parse_line(line).unwrap(), samples::one_of_each()[5]);
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
    assert_eq!(error, "it was written by a newer ralph (version 7, this one reads 1)");
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
    let good = render_line(&samples::one_of_each()[8]);
    let journal = format!("{good}\n{{\"v\":1,\n{good}");
    let (found, error) = read(journal.as_bytes());
    assert_eq!(found.len(), 1);
    assert!(matches!(error, Some(JournalError::Line { line: 3, .. })), "{error:?}");
}

#[test]
fn a_last_line_of_zeros_is_a_torn_tail() {
    let good = render_line(&samples::one_of_each()[8]);
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
    fn what_is_written_is_read(entry in samples::any_entry()) {
        let line = render_line(&entry);
        prop_assert_eq!(line.matches('\n').count(), 1);
        prop_assert_eq!(parse_line(line.as_bytes()).unwrap(), entry);
    }

    #[test]
    fn any_bytes_are_read_without_panic(bytes: Vec<u8>, text in "\\PC{0,80}") {
        let _ = parse_line(&bytes);
        let _ = parse_line(text.as_bytes());
        let _ = read(&bytes);
    }

    #[test]
    fn a_journal_cut_anywhere_gives_all_whole_lines_and_tells_of_the_rest(
        journal in samples::any_journal(),
        cut: prop::sample::Index,
    ) {
        let lines: Vec<_> = journal.iter().map(render_line).collect();
        let bytes = lines.concat().into_bytes();
        let cut = cut.index(bytes.len() + 1);
        let (found, error) = read(&bytes[..cut]);

        let mut whole = 0;
        let mut offset = 0;
        // An entry counts as soon as all but its line end is there.
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
