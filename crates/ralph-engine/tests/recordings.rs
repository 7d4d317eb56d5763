//! Conformance of the adapters: recorded streams of real agent CLIs, and the expected results.

use std::collections::BTreeSet;
use std::fs;

use camino::{Utf8Path, Utf8PathBuf};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use proptest::prelude::*;
use ralph_engine::agent::{ADAPTERS, Adapter, DecodeContext, adapter};
use ralph_model::event::{AgentEvent, ErrorKind};
use ralph_model::run::{AgentError, ContextFill, ProcessExit, RunFacts, UsageLimit};
use ralph_model::usage::Usage;
use serde::Deserialize;

#[path = "recordings/table.rs"]
mod table;

/// The expected result of one recording.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    name: &'static str,
    session: Option<&'static str>,
    last_word: Option<&'static str>,
    usage: Usage,
    usage_is_cumulative: bool,
    micro_dollars: Option<u32>,
    /// The tokens in the context and its size.
    context: Option<(u64, Option<u64>)>,
    limit: Limit,
    error: Option<(ErrorKind, &'static str)>,
    tool_calls: u64,
    open_tools: &'static [&'static str],
    retries: u64,
    fatal: Option<ErrorKind>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Limit {
    No,
    UntilUnknown,
    Until(&'static str),
}

/// A run without output.
const SILENT: Row = Row {
    name: "",
    session: None,
    last_word: None,
    usage: Usage { input: 0, cache_read: 0, cache_write: 0, output: 0 },
    usage_is_cumulative: false,
    micro_dollars: None,
    context: None,
    limit: Limit::No,
    error: None,
    tool_calls: 0,
    open_tools: &[],
    retries: 0,
    fatal: None,
};

const fn used(input: u64, cache_read: u64, output: u64) -> Usage {
    Usage { input, cache_read, cache_write: 0, output }
}

/// The recorder's notes for a stream.
#[derive(Deserialize)]
struct Meta {
    exit: i32,
    stderr: Vec<String>,
}

fn directory() -> Utf8PathBuf {
    Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/agents/recordings")
}

fn names() -> BTreeSet<String> {
    directory()
        .read_dir_utf8()
        .expect("the recordings are there")
        .filter_map(|entry| {
            entry
                .expect("the directory can be read")
                .file_name()
                .strip_suffix(".jsonl")
                .map(str::to_owned)
        })
        .collect()
}

fn adapter_of(name: &str) -> &'static dyn Adapter {
    let agent = name.split('-').next().expect("a split has a first part");
    adapter(agent.strip_suffix("latest").unwrap_or(agent))
        .expect("a recording's name begins with its agent")
}

fn time(text: &str) -> Timestamp {
    text.parse().expect("the time is written well")
}

fn file(name: &str, ending: &str) -> Vec<u8> {
    fs::read(directory().join(format!("{name}.{ending}"))).expect("the recording can be read")
}

/// The recordings were made on the evening of that day, on a machine in UTC.
fn context() -> DecodeContext {
    DecodeContext::new(time("2026-11-15T18:30:00Z"), TimeZone::UTC)
}

fn events_of(name: &str) -> Vec<AgentEvent> {
    let stream = file(name, "jsonl");
    let meta: Meta =
        serde_json::from_slice(&file(name, "meta.json")).expect("the notes are written well");
    let mut decoder = adapter_of(name).decoder(context());
    let mut events = Vec::new();
    for line in stream.split(|byte| *byte == b'\n') {
        decoder.stdout_line(line, &mut events);
    }
    for line in &meta.stderr {
        decoder.stderr_line(line.as_bytes(), &mut events);
    }
    let exit =
        if meta.exit < 0 { ProcessExit::Signal(-meta.exit) } else { ProcessExit::Code(meta.exit) };
    decoder.finish(Some(exit), &mut events);
    events
}

fn facts_of(name: &str) -> RunFacts {
    let mut facts = RunFacts::default();
    for event in events_of(name) {
        facts.apply(&event);
    }
    facts
}

fn micro_dollars(usd: Option<f64>) -> Option<String> {
    usd.map(|usd| format!("{:.0}", usd * 1e6))
}

/// Compares all results of the stream except the model, the fullest context and the text before the final message.
fn assert_row(row: &Row) {
    let mut facts = facts_of(row.name);
    let micro_dollars = micro_dollars(facts.cost_usd.take());
    let fatal = events_of(row.name).into_iter().find_map(|event| match event {
        AgentEvent::Error { kind, fatal: true, .. } => Some(kind),
        _ => None,
    });
    let limit = match row.limit {
        Limit::No => None,
        Limit::UntilUnknown => Some(UsageLimit { resets_at: None }),
        Limit::Until(at) => Some(UsageLimit { resets_at: Some(time(at)) }),
    };
    let expected = RunFacts {
        session: row.session.map(str::to_owned),
        model: facts.model.clone(),
        usage: row.usage,
        usage_is_cumulative: row.usage_is_cumulative,
        cost_usd: None,
        context: row.context.map(|(used, window)| ContextFill { used, window }),
        context_max: facts.context_max,
        tool_calls: row.tool_calls,
        open_tools: row.open_tools.iter().map(|id| (*id).to_owned()).collect(),
        last_text: facts.last_text.clone(),
        final_message: row.last_word.map(str::to_owned),
        error: row.error.map(|(kind, message)| AgentError {
            kind,
            message: message.to_owned(),
            fatal: row.fatal.is_some(),
        }),
        retrying: facts.retrying.clone(),
        limit,
        last_reset: limit.map_or(facts.last_reset, |limit| limit.resets_at),
        retries: row.retries,
        cost_is_cumulative: false,
    };
    let expected = (expected, row.micro_dollars.map(|micro| micro.to_string()), row.fatal);
    assert_eq!((facts, micro_dollars, fatal), expected, "{}", row.name);
}

#[test]
fn every_recording_comes_to_what_the_table_says() {
    let rows: BTreeSet<String> = table::ROWS.iter().map(|row| row.name.to_owned()).collect();
    assert_eq!(rows, names(), "every recording has a row");
    for row in table::ROWS {
        assert_row(row);
    }
}

/// A run scripted to use 200 tokens, 20 of them cached for agents that include them, resumed another.
#[test]
fn a_resumed_run_counts_only_what_it_used_itself() {
    let pairs = [
        ("codex-success", "codex-resume", used(180, 20, 14), None),
        ("claude-success", "claude-resume", used(200, 20, 14), Some(816)),
        ("claudelatest-success", "claudelatest-resume", used(200, 20, 14), Some(816)),
        ("opencode-success", "opencode-resume", used(180, 20, 14), Some(208)),
        ("gemini-success", "gemini-resume", used(180, 20, 14), None),
    ];
    for (first, second, expected, cost) in pairs {
        let (first, resumed) = (facts_of(first), facts_of(second));
        assert_eq!(resumed.session, first.session, "{second}");
        let own = if resumed.usage_is_cumulative {
            resumed.usage.since(first.usage)
        } else {
            resumed.usage
        };
        assert_eq!(own, expected, "{second}");
        let expected_cost = cost.map(|micro: u32| micro.to_string());
        assert_eq!(micro_dollars(resumed.cost_usd), expected_cost, "{second}");
    }
}

#[test]
fn the_last_word_and_an_error_exclude_each_other_and_come_once() {
    for name in names() {
        let endings = events_of(&name)
            .into_iter()
            .filter(|event| {
                matches!(event, AgentEvent::Final { .. } | AgentEvent::Error { fatal: false, .. })
            })
            .count();
        assert!(endings <= 1, "{name}: {endings}");
    }
}

#[test]
fn every_result_has_its_call_and_is_one_short_line() {
    for name in names() {
        let mut called = BTreeSet::new();
        for event in events_of(&name) {
            let (is_known, summary) = match event {
                AgentEvent::ToolCall { id, summary, .. } => (called.insert(id), summary),
                AgentEvent::ToolResult { id, summary, .. } => (called.contains(&id), summary),
                _ => continue,
            };
            assert!(is_known, "{name}");
            assert!(summary.chars().count() <= 200 && !summary.contains('\n'), "{name}: {summary}");
        }
    }
}

#[test]
fn synthetic_messages_and_echoed_prompts_are_no_text() {
    for name in names() {
        let echoes = ["API Error", "Do the task.", "Create made.txt", "Credit balance", "hit your"];
        for event in events_of(&name) {
            if let AgentEvent::Text { text } = event {
                assert!(!echoes.iter().any(|echo| text.contains(echo)), "{name}: {text}");
            }
        }
    }
}

#[test]
fn a_line_of_four_mebibytes_is_read() {
    let output = "line of output\\n".repeat(280_000);
    let line = format!(
        r#"{{"type":"item.completed","item":{{"id":"item_1","type":"command_execution","command":"seq","aggregated_output":"{output}","exit_code":0,"status":"completed"}}}}"#
    );
    assert!(line.len() > 4 * 1024 * 1024);
    let mut events = Vec::new();
    adapter("codex").unwrap().decoder(context()).stdout_line(line.as_bytes(), &mut events);
    let AgentEvent::ToolResult { ok: true, summary, .. } = &events[1] else {
        panic!("{events:?}");
    };
    assert_eq!(summary.chars().count(), 200);
}

/// All lines of all recordings.
fn recorded_lines() -> Vec<Vec<u8>> {
    let mut lines = Vec::new();
    for name in names() {
        let stream = file(&name, "jsonl");
        lines.extend(stream.split(|byte| *byte == b'\n').map(<[u8]>::to_vec));
    }
    lines
}

/// Feeds the lines on both streams to a decoder of every agent, and its events to the fold.
fn decode_everywhere(lines: &[Vec<u8>], exit: Option<ProcessExit>) {
    for adapter in ADAPTERS {
        let mut decoder = adapter.decoder(context());
        let mut events = Vec::new();
        for line in lines {
            decoder.stdout_line(line, &mut events);
            decoder.stderr_line(line, &mut events);
        }
        decoder.finish(exit, &mut events);
        let mut facts = RunFacts::default();
        for event in &events {
            facts.apply(event);
        }
        let last_words = events.iter().filter(|event| matches!(event, AgentEvent::Final { .. }));
        assert!(last_words.count() <= 1, "{}", adapter.name());
    }
}

fn exits() -> impl Strategy<Value = Option<ProcessExit>> {
    let code = (0..256).prop_map(|code| Some(ProcessExit::Code(code)));
    prop_oneof![Just(None), code, (1..32).prop_map(|signal| Some(ProcessExit::Signal(signal)))]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_make_a_decoder_panic(
        lines in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..20),
        exit in exits(),
    ) {
        decode_everywhere(&lines, exit);
    }

    #[test]
    fn no_damage_to_a_recording_makes_a_decoder_panic(
        damages in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>(), any::<bool>()), 1..30),
        exit in exits(),
    ) {
        let recorded = recorded_lines();
        let lines: Vec<Vec<u8>> = damages
            .iter()
            .map(|(line, at, byte, cuts)| {
                let mut line = recorded[line.index(recorded.len())].clone();
                if !line.is_empty() {
                    let at = at.index(line.len());
                    if *cuts { line.truncate(at) } else { line[at] = *byte }
                }
                line
            })
            .collect();
        decode_everywhere(&lines, exit);
    }

    #[test]
    fn no_value_in_the_place_of_another_makes_a_decoder_panic(
        key in prop::sample::select(vec!["usage", "message", "item", "part", "error", "result", "stats", "rate_limit_info", "content"]),
        kind in prop::sample::select(vec!["assistant", "user", "result", "item.completed", "turn.completed", "turn.failed", "step_finish", "tool_use", "error", "message", "rate_limit_event"]),
        value in prop::sample::select(vec!["null", "1e300", "-5", "18446744073709551615", "\"text\"", "[]", "[[{}]]", "{}", "{\"input_tokens\":18446744073709551615}", "{\"tokens\":{\"input\":1e30}}", "true"]),
    ) {
        let line = format!(r#"{{"type":"{kind}","{key}":{value}}}"#).into_bytes();
        decode_everywhere(&[line.clone(), line], Some(ProcessExit::Code(0)));
    }
}
