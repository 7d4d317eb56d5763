//! Tests of the test support: nothing outlives a test, and a skip is visible.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use crate::support::TestEnv;
use crate::support::process::{processes_marked, run};

#[test]
fn what_a_test_left_running_ends_with_its_environment() {
    let env = TestEnv::new();
    let script = "trap '' TERM HUP; setsid sh -c 'sleep 1000; sleep 1000' & echo started";
    let finished = run(&env, Path::new("/bin/sh"), &["-c", script], &env.environment(), "", LIMIT);
    assert_eq!(finished.stdout, "started\n");
    let mark = env.mark().to_owned();
    assert!(!processes_marked(&mark).is_empty());
    drop(env);
    assert_eq!(processes_marked(&mark), []);
}

#[test]
fn a_program_that_hangs_is_killed_with_its_descendants_and_fails_the_test() {
    let env = TestEnv::new();
    let begun = Instant::now();
    let hung = catch_unwind(AssertUnwindSafe(|| {
        let script = "setsid sleep 1000 & sleep 1000";
        let limit = Duration::from_millis(100);
        run(&env, Path::new("/bin/sh"), &["-c", script], &env.environment(), "", limit)
    }));
    assert!(hung.is_err());
    assert_eq!(processes_marked(env.mark()), []);
    assert!(begun.elapsed() < LIMIT);
}

#[test]
fn input_arrives_whole_and_the_environment_is_the_one_given() {
    let env = TestEnv::new();
    let prompt = "x".repeat(300_000);
    let variables = [("ONLY".to_owned(), "this".to_owned())];
    let finished =
        run(&env, Path::new("/bin/sh"), &["-c", "cat; export -p"], &variables, &prompt, LIMIT);
    let exported = finished.stdout.strip_prefix(prompt.as_str()).unwrap();
    assert!(exported.contains("ONLY") && !exported.contains("HOME"), "{exported}");
}

#[test]
fn a_missing_agent_is_a_visible_skip_and_a_failure_where_agents_are_required() {
    let env = TestEnv::new();
    let log = env.tmp().join("skips");
    let line = "SKIPPED: codex is not installed (run cargo xtask test)\n";

    let skipped = run_one_scenario(&env, &[("RALPH_SKIP_LOG", log.to_str().unwrap())]);
    let stderr = String::from_utf8(skipped.stderr).unwrap();
    assert!(skipped.status.success() && stderr.contains(line), "{stderr}");
    assert_eq!(std::fs::read_to_string(&log).unwrap(), line);

    let required = run_one_scenario(&env, &[("RALPH_REQUIRE_AGENTS", "1")]);
    assert!(!required.status.success());
}

const LIMIT: Duration = Duration::from_mins(1);

/// Runs one of the tests with real agents again, in an environment without any installed.
fn run_one_scenario(env: &TestEnv, variables: &[(&str, &str)]) -> Output {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "conformance::codex::goes_on_with_its_session"])
        .env_clear()
        .envs(env.environment())
        .env("RALPH_TEST_AGENTS", env.tmp())
        .envs(variables.iter().copied())
        .output()
        .unwrap()
}
