use jiff::Timestamp;
use jiff::tz::TimeZone;
use proptest::prelude::*;

use super::*;

fn decode(stdout: &[u8], stderr: &[u8], exit: Option<ProcessExit>) -> Vec<AgentEvent> {
    let context = DecodeContext::new("2026-11-15T18:30:00Z".parse().unwrap(), TimeZone::UTC);
    let mut decoder = CommandAdapter.decoder(context);
    let mut events = Vec::new();
    for line in stdout.split(|byte| *byte == b'\n') {
        decoder.stdout_line(line, &mut events);
    }
    for line in stderr.split(|byte| *byte == b'\n') {
        decoder.stderr_line(line, &mut events);
    }
    decoder.finish(exit, &mut events);
    events
}

fn last_word(events: &[AgentEvent]) -> Option<&str> {
    events.iter().find_map(|event| match event {
        AgentEvent::Final { text } => Some(text.as_str()),
        _ => None,
    })
}

const DONE: Option<ProcessExit> = Some(ProcessExit::Code(0));

#[test]
fn the_last_word_is_the_end_of_stdout_without_colours() {
    let events = decode(b"\x1b[1mworking\x1b[0m\r\n\nDONE\r", b"noise", DONE);
    assert_eq!(last_word(&events), Some("working\n\nDONE"));
    let shown: Vec<&AgentEvent> =
        events.iter().filter(|event| matches!(event, AgentEvent::Text { .. })).collect();
    let text = |text: &str| AgentEvent::Text { text: text.to_owned() };
    assert_eq!(shown, [&text("working"), &text("DONE")]);
}

#[test]
fn only_the_last_two_hundred_lines_count() {
    let lines: Vec<String> = (1..=1000).map(|number| number.to_string()).collect();
    let events = decode(lines.join("\n").as_bytes(), b"", DONE);
    assert_eq!(last_word(&events).unwrap(), lines[800..].join("\n"));
}

#[test]
fn long_lines_are_shown_in_part_and_kept_within_bounds() {
    let mut output = "é".repeat(2_000_000).into_bytes();
    output.extend(b"\nDONE");
    let events = decode(&output, b"", DONE);
    let word = last_word(&events).unwrap();
    assert!(word.len() <= TAIL_BYTES && word.ends_with("DONE"));
    let AgentEvent::Text { text } = &events[0] else { panic!("{:?}", events[0]) };
    assert_eq!(text.chars().count(), TEXT_CHARS);
}

#[test]
fn a_program_that_was_killed_has_no_last_word() {
    assert_eq!(last_word(&decode(b"DONE", b"", Some(ProcessExit::Signal(9)))), None);
    assert_eq!(last_word(&decode(b"DONE", b"", None)), None);
}

#[test]
fn notes_of_codex_are_recognised_on_both_streams() {
    let notes = b"Session ID: 01a1e07b-7b72-7561-b493-5278db47a22e\r\ntokens used\n\n3,234\nbye";
    for events in [decode(notes, b"", DONE), decode(b"x", notes, DONE)] {
        let id = "01a1e07b-7b72-7561-b493-5278db47a22e".to_owned();
        assert!(events.contains(&AgentEvent::Session { id, model: None }), "{events:?}");
        let usage = Usage { input: 3234, ..Usage::default() };
        assert!(events.contains(&AgentEvent::Usage { usage, cumulative: false }), "{events:?}");
    }
    let inline = decode(b"[info] Tokens used: 1_024", b"", DONE);
    let usage = Usage { input: 1024, ..Usage::default() };
    assert!(inline.contains(&AgentEvent::Usage { usage, cumulative: false }));
}

#[test]
fn a_limit_counts_only_where_the_program_failed() {
    let words = "You've hit your usage limit, try again at 7:32 PM.".as_bytes();
    let resets_at = Some("2026-11-15T19:32:00Z".parse::<Timestamp>().unwrap());
    let expected = AgentEvent::RateLimit { status: LimitStatus::Rejected, resets_at };
    assert!(decode(b"x", words, Some(ProcessExit::Code(1))).contains(&expected));
    assert!(decode(words, b"", Some(ProcessExit::Code(1))).contains(&expected));
    assert!(!decode(words, b"", DONE).contains(&expected));
}

#[test]
fn the_wordings_of_other_agents_are_limits_with_their_resets() {
    let table = [
        (
            "Claude usage limit reached. Your limit will reset at 11pm (UTC).",
            Some("2026-11-15T23:00:00Z"),
        ),
        ("rate limit exceeded, try again in 20 minutes", Some("2026-11-15T18:50:00Z")),
        ("[API Error: 429 You exceeded your current quota]", None),
        ("Quota exceeded", None),
        ("Rate limit reached for requests", None),
        ("Weekly limit reached", None),
        ("Usage limit reached, resets at 11:30 PM", Some("2026-11-15T23:30:00Z")),
    ];
    for (words, reset) in table {
        let resets_at = reset.map(|time| time.parse::<Timestamp>().unwrap());
        let expected = AgentEvent::RateLimit { status: LimitStatus::Rejected, resets_at };
        let events = decode(b"", words.as_bytes(), Some(ProcessExit::Code(1)));
        assert!(events.contains(&expected), "{words}: {events:?}");
    }
}

proptest! {
    #[test]
    fn a_session_id_is_read_only_from_a_line_of_its_own(line in "(session id:)? ?[0-9a-f-]{34,38}|(?s).{0,60}") {
        if let Some(id) = session_id(&line) {
            prop_assert_eq!(id.len(), 36);
            prop_assert!(line.trim().to_ascii_lowercase().starts_with("session id:"));
        }
    }
}
