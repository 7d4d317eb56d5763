//! Silence of an agent that does not announce its tool calls. The table tests this with the real `OpenCode` only on
//! demand, so a few lines of shell replace it here.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::stage::{Ran, Settings, Stage};
use crate::support::agents::RealAgent;

/// Runs a program that prints `line` on stderr, like the CLI's own log, and then nothing more.
fn run_silent_agent(line: &str, limits: &[&str]) -> Ran {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("opencode");
    let script = format!("#!/bin/sh\ncat > /dev/null\nprintf '%s\\n' '{line}' >&2\nsleep 300\n");
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let stage = Stage::set(RealAgent::OpenCode, program);
    stage.configure("http://127.0.0.1:2", Settings::default());
    let ran = Ran::of(stage.start(limits, "work"));
    stage.assert_nothing_is_left();
    ran
}

#[test]
fn silence_may_be_a_tool_at_work() {
    let line = "timestamp=2026-11-15T18:30:00Z level=ERROR message=other";
    let ran = run_silent_agent(line, &["--idle-timeout=200ms", "--timeout=2s"]);
    assert_eq!(ran.outcome(), "timed_out", "{}", ran.finished);
    assert_eq!(ran.report["outcome"]["idle"], false, "{}", ran.finished);
}

#[test]
fn silence_after_a_failed_request_is_no_tool_at_work() {
    let line = "timestamp=2026-11-15T18:30:00Z level=ERROR message=\"stream error\" small=false \
                error.error=\"AI_APICallError: Rate limit reached\"";
    let ran = run_silent_agent(line, &["--idle-timeout=200ms", "--timeout=1m", "--no-wait"]);
    assert_eq!(ran.trouble(), Some("usage_limit"), "{}", ran.finished);
    assert_eq!(ran.report["end"]["kind"], "idle_timeout", "{}", ran.finished);
}
