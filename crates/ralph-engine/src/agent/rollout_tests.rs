use std::fs;

use super::*;

const SESSION: &str = "01a1e0ed-a49c-79d3-bba4-cae163f286f2";

/// The end of a session file of Codex 0.166 whose last turn hit the limit.
const EXHAUSTED: &str = r#"{"timestamp":"2026-11-15T20:37:13.755Z","ordinal":34,"type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"input_tokens":400}},"rate_limits":{"limit_id":"codex","limit_name":null,"primary":null,"secondary":null,"credits":null}}}
{"timestamp":"2026-11-15T20:37:13.759Z","ordinal":35,"type":"event_msg","payload":{"type":"task_complete","turn_id":"01a1e0ed-a6f5-76d3-95e3-ffcfe174f4ea","last_agent_message":"Again.","duration_ms":155}}
{"timestamp":"2026-11-15T20:37:14.087Z","ordinal":42,"type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"input_tokens":400}},"rate_limits":{"limit_id":"codex","limit_name":null,"primary":{"used_percent":100.0,"window_minutes":300,"resets_at":1794900000},"secondary":{"used_percent":40.0,"window_minutes":10080,"resets_at":1795200000},"credits":null}}}
{"timestamp":"2026-11-15T20:37:14.092Z","ordinal":43,"type":"event_msg","payload":{"type":"task_complete","turn_id":"01a1e0ed-a894-7801-841f-13f952f91264","last_agent_message":null,"error":{"message":"You’ve hit your usage limit.","codex_error_info":"usage_limit_exceeded"},"duration_ms":79}}
"#;

fn limit_of(contents: &str) -> Option<UsageLimit> {
    let home = tempfile::tempdir().unwrap();
    let home = Utf8Path::from_path(home.path()).unwrap();
    for day in ["2026/11/14", "2026/11/15", "2026/11/16"] {
        fs::create_dir_all(home.join("sessions").join(day)).unwrap();
    }
    let other = "rollout-2026-11-16T00-00-00-11111111-2222-4333-8444-555555555555.jsonl";
    fs::write(home.join("sessions/2026/11/16").join(other), "").unwrap();
    let file = format!("rollout-2026-11-15T20-37-12-{SESSION}.jsonl");
    fs::write(home.join("sessions/2026/11/15").join(file), contents).unwrap();
    recorded_limit(home, SESSION)
}

fn until(epoch: i64) -> UsageLimit {
    UsageLimit { resets_at: Some(Timestamp::from_second(epoch).unwrap()) }
}

#[test]
fn the_window_that_is_used_up_tells_the_reset() {
    assert_eq!(limit_of(EXHAUSTED), Some(until(1_794_900_000)));
}

#[test]
fn of_two_windows_that_are_used_up_the_later_reset_counts() {
    let both = EXHAUSTED.replace("\"used_percent\":40.0", "\"used_percent\":100.0");
    assert_eq!(limit_of(&both), Some(until(1_795_200_000)));
}

#[test]
fn where_the_turn_failed_by_a_limit_the_fullest_window_is_taken_for_it() {
    let nearly = EXHAUSTED.replace("\"used_percent\":100.0", "\"used_percent\":99.0");
    assert_eq!(limit_of(&nearly), Some(until(1_794_900_000)));
}

#[test]
fn a_limit_whose_windows_are_not_told_has_no_known_reset() {
    let bare = EXHAUSTED.lines().last().unwrap();
    assert_eq!(limit_of(bare), Some(UsageLimit { resets_at: None }));
}

#[test]
fn a_wait_in_seconds_counts_from_its_line() {
    let waiting = EXHAUSTED.replace("\"resets_at\":1794900000", "\"resets_in_seconds\":60");
    let expected = "2026-11-15T20:38:14.087Z".parse().unwrap();
    assert_eq!(limit_of(&waiting), Some(UsageLimit { resets_at: Some(expected) }));
}

#[test]
fn a_turn_that_completed_ran_into_no_limit() {
    let completed: String = EXHAUSTED.lines().take(2).collect::<Vec<_>>().join("\n");
    assert_eq!(limit_of(&completed), None);
    assert_eq!(limit_of(""), None);
    assert_eq!(limit_of("not json \"token_count\"\n"), None);
}

#[test]
fn of_a_large_file_only_the_end_is_read() {
    let early = EXHAUSTED.replace("1794900000", "1");
    let filler = format!("{{\"filler\":\"{}\"}}\n", "x".repeat(3000)).repeat(700);
    assert_eq!(limit_of(&format!("{early}{filler}{EXHAUSTED}")), Some(until(1_794_900_000)));
    assert_eq!(limit_of(&format!("{early}{filler}")), None);
}

#[test]
fn a_session_without_a_file_has_no_limit() {
    let home = tempfile::tempdir().unwrap();
    assert_eq!(recorded_limit(Utf8Path::from_path(home.path()).unwrap(), SESSION), None);
}
