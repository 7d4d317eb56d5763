use camino::Utf8Path;
use jiff::tz::TimeZone;
use ralph_model::run::RunFacts;

use super::*;

fn facts(lines: &[&str], exit: ProcessExit) -> (RunFacts, Vec<AgentEvent>) {
    let now = "2026-11-15T18:30:00Z".parse().unwrap();
    let mut decoder = Claude.decoder(DecodeContext::new(now, TimeZone::UTC));
    let mut events = Vec::new();
    for line in lines {
        decoder.stdout_line(line.as_bytes(), &mut events);
    }
    decoder.finish(Some(exit), &mut events);
    let mut facts = RunFacts::default();
    for event in &events {
        facts.apply(event);
    }
    (facts, events)
}

#[test]
fn only_root_is_told_that_it_is_confined() {
    let request = AgentRequest {
        model: None,
        reasoning: None,
        resume: None,
        extra_args: &[],
        workspace: Utf8Path::new("/w"),
        isolated_state: None,
    };
    assert_eq!(invocation(&request, true).env, [("IS_SANDBOX".to_owned(), "1".to_owned())]);
    assert_eq!(invocation(&request, false).env, []);
    assert_eq!(invocation(&request, true).args, invocation(&request, false).args);
}

#[test]
fn the_results_of_several_turns_add_up_and_the_last_one_speaks() {
    let turn = |text: &str, tokens: u64| {
        format!(
            r#"{{"result":"{text}","is_error":false,"type":"result","total_cost_usd":9.0,"model_usage_since_last_result":{{"m":{{"inputTokens":{tokens},"costUSD":0.5}}}}}}"#
        )
    };
    let (facts, events) = facts(&[&turn("first", 10), &turn("second", 5)], ProcessExit::Code(0));
    assert_eq!(facts.usage, Usage { input: 15, ..Usage::default() });
    assert_eq!(facts.cost_usd, Some(1.0));
    let last_words: Vec<&AgentEvent> =
        events.iter().filter(|event| matches!(event, AgentEvent::Final { .. })).collect();
    assert_eq!(last_words, [&AgentEvent::Final { text: "second".to_owned() }]);
}

#[test]
fn a_login_is_refused_for_good_at_the_second_refusal() {
    let retry = |attempt: u32| {
        format!(
            r#"{{"type":"system","subtype":"api_retry","attempt":{attempt},"error_status":401,"error":"authentication_failed"}}"#
        )
    };
    let fatal = |lines: &[&str]| {
        let (_, events) = facts(lines, ProcessExit::Signal(15));
        events.iter().filter(|event| matches!(event, AgentEvent::Error { fatal: true, .. })).count()
    };
    let login = r#"{"type":"system","subtype":"init","session_id":"s","apiKeySource":"none"}"#;
    let key = r#"{"type":"system","subtype":"init","session_id":"s","apiKeySource":"env"}"#;
    assert_eq!(fatal(&[login, &retry(1)]), 0);
    assert_eq!(fatal(&[login, &retry(1), &retry(2), &retry(3)]), 1);
    assert_eq!(fatal(&[key, &retry(1), &retry(2)]), 1);
}

#[test]
fn a_subagent_speaks_neither_for_the_agent_nor_about_its_context() {
    let line = r#"{"type":"assistant","message":{"id":"a","model":"m","content":[{"type":"text","text":"aside"},{"type":"tool_use","id":"t","name":"Read","input":{"file_path":"x"}}],"usage":{"input_tokens":7}},"parent_tool_use_id":"task"}"#;
    let (facts, _) = facts(&[line], ProcessExit::Signal(9));
    assert_eq!((facts.last_text, facts.context, facts.tool_calls), (None, None, 1));
    assert_eq!(facts.usage, Usage { input: 7, ..Usage::default() });
}

#[test]
fn a_stream_without_a_result_is_no_success() {
    let (facts, _) =
        facts(&[r#"{"type":"system","subtype":"init","session_id":"s"}"#], ProcessExit::Code(0));
    assert_eq!(facts.error.unwrap().kind, ErrorKind::Other);
    assert_eq!(facts.final_message, None);
}

#[test]
fn a_rejected_account_that_pays_for_more_goes_on() {
    let line = r#"{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":1794771283,"isUsingOverage":true}}"#;
    assert_eq!(facts(&[line], ProcessExit::Signal(9)).0.limit, None);
}
