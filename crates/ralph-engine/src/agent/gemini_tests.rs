use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::*;

fn decode(stdout: &[&str], stderr: &[&str], exit: i32) -> Vec<AgentEvent> {
    let context = DecodeContext::new(Timestamp::UNIX_EPOCH, TimeZone::UTC);
    let mut decoder = Gemini.decoder(context);
    let mut events = Vec::new();
    for line in stdout {
        decoder.stdout_line(line.as_bytes(), &mut events);
    }
    for line in stderr {
        decoder.stderr_line(line.as_bytes(), &mut events);
    }
    decoder.finish(Some(ProcessExit::Code(exit)), &mut events);
    events
}

fn error(kind: ErrorKind, message: &str, fatal: bool) -> AgentEvent {
    AgentEvent::Error { kind, message: message.to_owned(), fatal }
}

const PIECES: [&str; 4] = [
    r#"{"type":"message","role":"assistant","content":"Before.","delta":true}"#,
    r#"{"type":"tool_result","tool_id":"t","status":"success","output":"ok"}"#,
    r#"{"type":"message","role":"assistant","content":"All ","delta":true}"#,
    r#"{"type":"message","role":"assistant","content":"done.","delta":true}"#,
];

#[test]
fn the_last_word_is_joined_from_the_pieces_after_the_last_tool() {
    let result = r#"{"type":"result","status":"success"}"#;
    let lines: Vec<&str> = PIECES.into_iter().chain([result]).collect();
    let text = |text: &str| AgentEvent::Text { text: text.to_owned() };
    let ended = AgentEvent::ToolResult { id: "t".to_owned(), ok: true, summary: "ok".to_owned() };
    let last = AgentEvent::Final { text: "All done.".to_owned() };
    assert_eq!(decode(&lines, &[], 0), [text("Before."), ended, text("All done."), last]);
}

#[test]
fn a_stream_that_lost_its_end_is_no_success() {
    let events = decode(&PIECES, &[], 0);
    let expected = error(ErrorKind::Other, "the stream ended before its result", false);
    assert_eq!(events.last(), Some(&expected));
}

#[test]
fn a_stream_that_was_cut_is_a_matter_of_the_network() {
    let result = r#"{"type":"result","status":"error","error":{"type":"Error","message":"[API Error: terminated]"}}"#;
    let events = decode(&[result], &[], 1);
    assert_eq!(events, [error(ErrorKind::Network, "[API Error: terminated]", false)]);
}

#[test]
fn without_a_way_to_log_in_it_is_a_matter_of_authorisation() {
    let events = decode(&[], &["Invalid auth method selected."], EXIT_AUTH);
    assert_eq!(events, [error(ErrorKind::Auth, "Invalid auth method selected.", false)]);
}

#[test]
fn a_refused_key_is_fatal_though_it_is_tried_again() {
    let line = "Attempt 1 failed with status 403. Retrying with backoff...";
    let retry = AgentEvent::Retry { status: Some(403), message: line.to_owned() };
    let events = decode(&[], &[line], 1);
    assert_eq!(events[..2], [retry, error(ErrorKind::Auth, line, true)]);
}
