use proptest::prelude::*;

use super::*;

fn context(now: &str, zone: &str) -> DecodeContext {
    DecodeContext::new(now.parse().unwrap(), TimeZone::get(zone).unwrap())
}

fn at(text: &str) -> Option<String> {
    reset_time(text, &context("2026-11-15T18:30:00Z", "UTC")).map(|time| time.to_string())
}

#[test]
fn a_time_of_day_is_the_next_one() {
    assert_eq!(at("or try again at 7:32 PM.").as_deref(), Some("2026-11-15T19:32:00Z"));
    assert_eq!(at("try again at 7:32 AM.").as_deref(), Some("2026-11-16T07:32:00Z"));
    assert_eq!(at("try again at 12:05 AM.").as_deref(), Some("2026-11-16T00:05:00Z"));
    assert_eq!(at("resets 7pm").as_deref(), Some("2026-11-15T19:00:00Z"));
    assert_eq!(at("resets at 19:45").as_deref(), Some("2026-11-15T19:45:00Z"));
}

#[test]
fn a_time_of_day_is_read_in_the_zone_of_the_run_or_in_its_own() {
    let berlin = context("2026-11-15T18:30:00Z", "Europe/Berlin");
    let time = |text| reset_time(text, &berlin).unwrap().to_string();
    assert_eq!(
        time("try again at 7:15 PM."),
        "2026-11-16T18:15:00Z",
        "it is half past seven there"
    );
    assert_eq!(time("try again at 8:32 PM."), "2026-11-15T19:32:00Z");
    assert_eq!(time("You've hit your limit · resets 7:34pm (UTC)"), "2026-11-15T19:34:00Z");
    assert_eq!(time("resets 3pm (America/New_York)"), "2026-11-15T20:00:00Z");
}

#[test]
fn a_time_cut_to_the_present_minute_is_not_tomorrow() {
    let late = context("2026-11-15T19:32:40Z", "UTC");
    let time = reset_time("try again at 7:32 PM.", &late).unwrap();
    assert_eq!(time.to_string(), "2026-11-15T19:32:00Z");
}

#[test]
fn a_date_may_be_told() {
    let expected = Some("2026-11-18T18:58:00Z");
    assert_eq!(at("try again at Nov 18th, 2026 6:58 PM.").as_deref(), expected);
    assert_eq!(at("resets Nov 18 at 6:58pm (UTC)").as_deref(), expected);
    assert_eq!(at("resets Jan 2, 7am").as_deref(), Some("2027-01-02T07:00:00Z"));
}

#[test]
fn a_wait_may_be_told() {
    assert_eq!(at("Please try again in 3.5s.").as_deref(), Some("2026-11-15T18:30:03.5Z"));
    let long = "Try again in 3 days 4 hours 12 minutes.";
    assert_eq!(at(long).as_deref(), Some("2026-11-18T22:42:00Z"));
}

#[test]
fn a_key_in_quoted_json_may_tell() {
    assert_eq!(at(r#"{"resets_in_seconds": 90}"#).as_deref(), Some("2026-11-15T18:31:30Z"));
    let quoted = r#"body: {\"error\":{\"resets_at\":1794771283}}"#;
    assert_eq!(at(quoted).as_deref(), Some("2026-11-15T19:34:43Z"));
}

#[test]
fn what_tells_no_time_yields_none() {
    for text in ["Try again later.", "try again at", "try again at noon", "resets_at: soon", ""] {
        assert_eq!(at(text), None, "{text}");
    }
}

#[test]
fn a_limit_in_plain_text_is_known_by_its_phrases() {
    let context = context("2026-11-15T18:30:00Z", "UTC");
    let limit = |text| limit_in_text(text, &context);
    let unknown = Some(UsageLimit { resets_at: None });
    assert_eq!(limit("ERROR: You\u{2019}ve hit your usage limit. Try again later."), unknown);
    assert_eq!(limit("HTTP 429 Too Many Requests"), unknown);
    assert_eq!(limit("openai.RateLimitError: slow down"), unknown);
    assert_eq!(limit("all tests pass"), None);
    let timed = limit(r#"{"type":"usage_limit_reached","resets_in_seconds":60}"#).unwrap();
    assert_eq!(timed.resets_at.unwrap().to_string(), "2026-11-15T18:31:00Z");
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "(try again at|try again in|resets|resets_at:)? ?[0-9a-zA-Z:., ()]{0,40}|(?s).{0,60}") {
        let _ = reset_time(&text, &context("2026-11-15T18:30:00Z", "UTC"));
    }

    #[test]
    fn every_time_of_day_is_found_within_a_day(hour in 1i8..=12, minute in 0i8..60, afternoon: bool) {
        let context = context("2026-11-15T18:30:00Z", "Europe/Berlin");
        let text = format!("try again at {hour}:{minute:02} {}.", if afternoon { "PM" } else { "AM" });
        let time = reset_time(&text, &context).unwrap();
        let wait = time.duration_since(context.now);
        prop_assert!(wait >= SignedDuration::from_mins(-1) && wait < SignedDuration::from_hours(24));
        let zoned = time.to_zoned(context.zone);
        prop_assert_eq!(zoned.minute(), minute);
        prop_assert_eq!(zoned.hour(), hour % 12 + if afternoon { 12 } else { 0 });
    }
}
