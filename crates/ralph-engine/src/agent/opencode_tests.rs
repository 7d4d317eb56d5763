use jiff::tz::TimeZone;

use super::*;

fn decode(line: &str) -> Vec<AgentEvent> {
    let now = "2026-11-15T18:30:00Z".parse().unwrap();
    let mut decoder = OpenCode.decoder(DecodeContext::new(now, TimeZone::UTC));
    let mut events = Vec::new();
    decoder.stdout_line(line.as_bytes(), &mut events);
    decoder.finish(Some(ProcessExit::Code(1)), &mut events);
    events
}

/// Decodes an error with the given name and data.
fn kind_and_reset(name: &str, data: &str) -> (ErrorKind, Option<String>) {
    let line = format!(r#"{{"type":"error","error":{{"name":"{name}","data":{data}}}}}"#);
    let events = decode(&line);
    let reset = events.iter().find_map(|event| match event {
        AgentEvent::RateLimit { resets_at, .. } => resets_at.map(|time| time.to_string()),
        _ => None,
    });
    let Some(AgentEvent::Error { kind, .. }) = events.last() else { panic!("{events:?}") };
    (*kind, reset)
}

#[test]
fn the_header_tells_when_to_try_again() {
    let limit = |value: &str| {
        let data = format!(r#"{{"statusCode":429,"responseHeaders":{{"retry-after":"{value}"}}}}"#);
        kind_and_reset("APIError", &data)
    };
    let at = |time: &str| (ErrorKind::UsageLimit, Some(time.to_owned()));
    assert_eq!(limit("3600"), at("2026-11-15T19:30:00Z"));
    assert_eq!(limit("Sun, 15 Nov 2026 19:00:00 GMT"), at("2026-11-15T19:00:00Z"));
    assert_eq!(limit("soon"), (ErrorKind::UsageLimit, None));
}

#[test]
fn the_body_tells_when_to_try_again_where_no_header_does() {
    let data = r#"{"statusCode":429,"responseBody":"{\"error\":{\"resets_at\":1794771283}}"}"#;
    let at = Some("2026-11-15T19:34:43Z".to_owned());
    assert_eq!(kind_and_reset("APIError", data), (ErrorKind::UsageLimit, at));
}

#[test]
fn errors_are_told_apart() {
    let cases = [
        ("ProviderAuthError", r#"{"message":"no key"}"#, ErrorKind::Auth),
        ("MessageAbortedError", "{}", ErrorKind::Interrupted),
        (
            "APIError",
            r#"{"statusCode":429,"responseBody":"insufficient_quota"}"#,
            ErrorKind::Billing,
        ),
        ("APIError", r#"{"statusCode":400,"message":"prompt is too long"}"#, ErrorKind::Context),
        ("APIError", r#"{"message":"Cannot connect to API"}"#, ErrorKind::Network),
        ("UnknownError", r#"{"message":"what?"}"#, ErrorKind::Other),
    ];
    for (name, data, kind) in cases {
        assert_eq!(kind_and_reset(name, data), (kind, None), "{name} {data}");
    }
}

#[test]
fn a_step_after_an_error_is_a_recovery() {
    let now = "2026-11-15T18:30:00Z".parse().unwrap();
    let mut decoder = OpenCode.decoder(DecodeContext::new(now, TimeZone::UTC));
    let mut events = Vec::new();
    for line in [
        r#"{"type":"error","error":{"name":"APIError","data":{"statusCode":500}}}"#,
        r#"{"type":"step_start","part":{}}"#,
        r#"{"type":"text","part":{"text":"Done"}}"#,
        r#"{"type":"text","part":{"text":"indeed."}}"#,
        r#"{"type":"step_finish","part":{"reason":"stop"}}"#,
    ] {
        decoder.stdout_line(line.as_bytes(), &mut events);
    }
    decoder.finish(Some(ProcessExit::Code(0)), &mut events);
    assert_eq!(events.last(), Some(&AgentEvent::Final { text: "Done\nindeed.".to_owned() }));
}

#[test]
fn the_log_tells_of_requests_that_are_repeated_until_a_step_begins() {
    let now = "2026-11-15T18:30:00Z".parse().unwrap();
    let mut decoder = OpenCode.decoder(DecodeContext::new(now, TimeZone::UTC));
    let mut events = Vec::new();
    let failed = |small: bool, error: &str| {
        format!(
            "timestamp=2026-11-15T18:30:00.884Z level=ERROR run=7f1a message=\"stream error\" modelID=m \
             small={small} agent=build mode=primary error.error=\"AI_APICallError: {error}\""
        )
    };
    for line in [
        failed(false, "The usage limit has been reached"),
        failed(true, "The usage limit has been reached"),
        failed(false, "Internal Server Error"),
        "timestamp=2026-11-15T18:30:00.884Z level=ERROR message=other".to_owned(),
    ] {
        decoder.stderr_line(line.as_bytes(), &mut events);
    }
    let step = r#"{"type":"step_start","part":{}}"#;
    decoder.stdout_line(step.as_bytes(), &mut events);
    decoder.stdout_line(step.as_bytes(), &mut events);
    let retry = |status, message: &str| {
        let message = format!("AI_APICallError: {message}");
        AgentEvent::Retry { status, message }
    };
    let expected = [
        retry(Some(429), "The usage limit has been reached"),
        retry(None, "Internal Server Error"),
        AgentEvent::RateLimit { status: LimitStatus::Allowed, resets_at: None },
    ];
    assert_eq!(events, expected);
}

/// B12.4: each step reports its own cost, and the last may be the cheapest.
#[test]
fn b12_4_what_the_steps_cost_adds_up() {
    let now = "2026-11-15T18:30:00Z".parse().unwrap();
    let mut decoder = OpenCode.decoder(DecodeContext::new(now, TimeZone::UTC));
    let mut events = Vec::new();
    for (cost, tokens) in [(0.5, 150), (0.25, 50)] {
        let line = format!(
            r#"{{"type":"step_finish","part":{{"reason":"tool-calls","cost":{cost},"tokens":{{"input":{tokens},"output":0}}}}}}"#
        );
        decoder.stdout_line(line.as_bytes(), &mut events);
    }
    let mut facts = ralph_model::run::RunFacts::default();
    for event in &events {
        facts.apply(event);
    }
    assert_eq!(facts.cost_usd, Some(0.75));
    assert_eq!(facts.usage.input, 200);
}
