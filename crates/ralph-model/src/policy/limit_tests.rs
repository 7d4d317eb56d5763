use proptest::prelude::*;

use super::*;

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

fn in_seconds(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

fn found(text: &str) -> Option<UsageLimit> {
    usage_limit_in_text(text, &[], now())
}

const UNKNOWN: Option<UsageLimit> = Some(UsageLimit { resets_at: None });

#[test]
fn each_phrase_is_recognised_in_any_case() {
    for phrase in [
        "usage_limit_reached",
        "You've hit your usage limit",
        "You\u{2019}ve hit your usage limit. Try again later.",
        "You have hit your usage limit",
        "Too Many Requests",
        "rate_limit_exceeded",
        "RateLimitError",
        "error: TOO MANY REQUESTS (429)",
        "Claude usage limit reached. Your limit will reset at 11pm (UTC).",
        "rate limit exceeded, try again in 20 minutes",
        "[API Error: 429 You exceeded your current quota]",
        "Quota exceeded",
        "Rate limit reached for requests",
        "Weekly limit reached",
        "Usage limit reached, resets at 11:30 PM",
    ] {
        assert_eq!(found(&format!("one\nbefore {phrase} after\nlast\n")), UNKNOWN, "{phrase}");
    }
}

#[test]
fn phrases_of_the_person_count_as_well() {
    let own = ["Kein Guthaben".to_owned()];
    assert_eq!(usage_limit_in_text("error: kein guthaben mehr", &own, now()), UNKNOWN);
    assert_eq!(usage_limit_in_text("all went well", &own, now()), None);
    assert_eq!(usage_limit_at_the_end("kein Guthaben\n", &own, now()), UNKNOWN);
}

#[test]
fn other_text_is_no_limit() {
    for text in ["", "\n", "all went well", "resets_in_seconds: 5", "too many\nrequests"] {
        assert_eq!(found(text), None, "{text:?}");
    }
}

#[test]
fn only_the_last_two_hundred_lines_count() {
    let after = |lines: usize| format!("Too Many Requests\n{}", "line\n".repeat(lines));
    assert_eq!(found(&after(199)), UNKNOWN);
    assert_eq!(found(&after(200)), None);
    assert_eq!(found(after(199).trim_end()), UNKNOWN);
    assert_eq!(found(after(200).trim_end()), None);
}

#[test]
fn only_ten_lines_count_at_the_end_and_blank_ones_are_skipped() {
    let found = |text: &str| usage_limit_at_the_end(text, &[], now());
    let after = |lines: usize| format!("Too Many Requests\n{}", "line\n\n".repeat(lines));
    assert_eq!(found(&after(9)), UNKNOWN);
    assert_eq!(found(&after(10)), None);
    let told = "rate_limit_exceeded\n{\"resets_in_seconds\": 10}\n\n{\"resets_in_seconds\": 90}\n";
    assert_eq!(found(told), Some(UsageLimit { resets_at: Some(in_seconds(90)) }));
}

#[test]
fn the_reset_is_read_from_json_and_from_json_within_json() {
    let table = [
        (r#"{"resets_in_seconds":90}"#, Some(90)),
        (r#"{"resets_in_seconds" : 90 }"#, Some(90)),
        (r#""{\"resets_in_seconds\":90}""#, Some(90)),
        (r#""{\\\"resets_in_seconds\\\": 90}""#, Some(90)),
        ("resets_in_seconds: 90", Some(90)),
        (r#"{"resets_at":1800000120}"#, Some(120)),
        (r#"{\"resets_at\":1800000120}"#, Some(120)),
        (r#"{"resets_at":1800000120000}"#, Some(120)),
        (r#"{"resets_at":1799999990}"#, Some(-10)),
        (r#"{"resets_at":1800000120,"resets_in_seconds":90}"#, Some(90)),
        (r#"{"resets_in_seconds":10} {"resets_in_seconds":90}"#, Some(90)),
        (r#"{"resets_in_seconds":null,"resets_at":1800000120}"#, Some(120)),
        (r#"{"resets_in_seconds":99999999999999999999}"#, None),
        (r#"{"resets_at":9223372036854775807}"#, None),
        (r#"{"resets_at":"soon"}"#, None),
        ("resets_at", None),
    ];
    for (json, seconds) in table {
        let text = format!("usage_limit_reached {json}");
        assert_eq!(found(&text), Some(UsageLimit { resets_at: seconds.map(in_seconds) }), "{json}");
    }
}

fn wait(resets_in: Option<i64>, unknown_in_a_row: u32) -> (i64, bool) {
    let limit = UsageLimit { resets_at: resets_in.map(in_seconds) };
    let wait = LimitPolicy::default().wait_until(limit, unknown_in_a_row, now());
    (wait.until.as_second() - now().as_second(), wait.known)
}

#[test]
fn a_known_reset_is_waited_for_with_a_margin() {
    assert_eq!(wait(Some(3600), 0), (3630, true));
    assert_eq!(wait(Some(3600), 7), (3630, true));
    assert_eq!(wait(Some(31), 7), (61, true));
    assert_eq!(wait(Some(1), 0), (31, true));
    assert_eq!(wait(Some(20), 7), (50, true));
}

#[test]
fn a_reset_that_is_past_is_not_known() {
    for resets_in in [-86_400, -1, 0] {
        assert_eq!(wait(Some(resets_in), 0), (60, false), "{resets_in}");
        assert_eq!(wait(Some(resets_in), 3), (480, false), "{resets_in}");
    }
}

#[test]
fn waits_for_an_unknown_reset_grow_up_to_an_hour() {
    let waits: Vec<_> = (0..8).map(|before| wait(None, before)).collect();
    let seconds = [60, 120, 240, 480, 960, 1920, 3600, 3600];
    assert_eq!(waits, seconds.map(|seconds| (seconds, false)));
    assert_eq!(wait(None, u32::MAX), (3600, false));
}

#[test]
fn a_reset_more_than_eight_days_ahead_is_not_believed() {
    let days = 86_400;
    assert_eq!(wait(Some(8 * days), 0), (8 * days + 30, true));
    assert_eq!(wait(Some(8 * days + 1), 0), (60, false));
    assert_eq!(wait(Some(8 * days + 1), 3), (480, false));
}

#[test]
fn a_wait_at_the_end_of_time_does_not_overflow() {
    let limit = UsageLimit { resets_at: Some(Timestamp::MAX) };
    let wait = LimitPolicy::default().wait_until(limit, 0, Timestamp::MAX);
    assert_eq!(wait, LimitWait { until: Timestamp::MAX, known: false });
}

proptest! {
    #[test]
    fn any_text_is_read_without_panic(text in "(?s).{0,300}") {
        found(&text);
        found(&format!("rate_limit_exceeded resets_at{text}"));
        found(&format!("rate_limit_exceeded resets_in_seconds\":{text}"));
    }

    #[test]
    fn a_wait_ends_in_the_future_and_within_bounds(
        resets_in in proptest::option::of(-1_000_000_i64..10_000_000),
        before: u32,
    ) {
        let (seconds, known) = wait(resets_in, before);
        let shortest = if known { 31 } else { 60 };
        prop_assert!(seconds >= shortest);
        let longest = if known { 8 * 86_400 + 30 } else { 3600 };
        prop_assert!(seconds <= longest);
    }
}

#[test]
fn a_limit_that_comes_back_after_its_reset_is_waited_for_longer_each_time() {
    let policy = LimitPolicy { margin: Duration::ZERO, ..LimitPolicy::default() };
    let now: Timestamp = "2027-01-15T08:00:00Z".parse().unwrap();
    let limit = UsageLimit { resets_at: Some(after(now, Duration::from_secs(1))) };
    let told = policy.wait_until(limit, 0, now);
    let waits = [(0, 1, true), (1, 60, false), (2, 120, false), (3, 240, false), (40, 3600, false)];
    for (in_a_row, seconds, known) in waits {
        let until = after(now, Duration::from_secs(seconds));
        assert_eq!(
            policy.no_shorter(told, in_a_row, now),
            LimitWait { until, known },
            "{in_a_row}"
        );
    }
    let far = UsageLimit { resets_at: Some(after(now, Duration::from_hours(5))) };
    let told = policy.wait_until(far, 0, now);
    assert_eq!(policy.no_shorter(told, 4, now), told);
}
