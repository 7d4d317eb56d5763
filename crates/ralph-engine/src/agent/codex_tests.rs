use jiff::tz::TimeZone;
use ralph_model::run::RunFacts;

use super::*;

fn facts(lines: &[String]) -> RunFacts {
    let now = "2026-11-15T18:30:00Z".parse().unwrap();
    let mut decoder = Codex.decoder(DecodeContext::new(now, TimeZone::UTC));
    let mut events = Vec::new();
    for line in lines {
        decoder.stdout_line(line.as_bytes(), &mut events);
    }
    decoder.finish(Some(ProcessExit::Code(1)), &mut events);
    let mut facts = RunFacts::default();
    for event in &events {
        facts.apply(event);
    }
    facts
}

fn failed(message: &str) -> RunFacts {
    facts(&[format!(r#"{{"type":"turn.failed","error":{{"message":"{message}"}}}}"#)])
}

#[test]
fn a_usage_limit_may_be_told_with_a_date_or_without_a_time() {
    let limit = failed("You\u{2019}ve hit your usage limit. Try again at Nov 18th, 2026 6:58 PM.");
    let at = limit.limit.unwrap().resets_at.map(|time| time.to_string());
    assert_eq!(at.as_deref(), Some("2026-11-18T18:58:00Z"));
    let limit = failed("You've hit your usage limit. Try again later.").limit;
    assert_eq!(limit, Some(UsageLimit { resets_at: None }));
}

#[test]
fn failures_are_told_apart() {
    let cases = [
        ("unexpected status 403 Forbidden", ErrorKind::Auth),
        (
            "Your access token could not be refreshed. Please log out and sign in again.",
            ErrorKind::Auth,
        ),
        ("unexpected status 503 Service Unavailable", ErrorKind::Server),
        ("stream disconnected before completion", ErrorKind::Network),
        ("Quota exceeded. Check your plan and billing details.", ErrorKind::Billing),
        ("something new", ErrorKind::Other),
    ];
    for (message, kind) in cases {
        assert_eq!(failed(message).error.unwrap().kind, kind, "{message}");
    }
}

#[test]
fn a_tool_that_is_told_of_only_at_its_end_was_called_too() {
    let item = |kind: &str, rest: &str| {
        format!(r#"{{"type":"item.completed","item":{{"id":"{kind}","type":"{kind}",{rest}}}}}"#)
    };
    let facts = facts(&[
        item("file_change", r#""changes":[{"path":"a.rs","kind":"add"}],"status":"completed""#),
        item("web_search", r#""query":"rust""#),
        item("mcp_tool_call", r#""server":"docs","tool":"find","arguments":{"query":"x"}"#),
        item("reasoning", r#""text":"hm""#),
        item("todo_list", r#""items":[]"#),
    ]);
    assert_eq!((facts.tool_calls, facts.open_tools.len()), (3, 0));
}
