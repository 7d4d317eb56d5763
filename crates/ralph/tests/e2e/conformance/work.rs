//! A successful run: commits, resumes, and stays inside its boundary.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use ralph_proc::sandbox::Support;
use serde_json::{Value, json};

use super::expected;
use super::stage::{Ran, Settings, Stage};
use crate::support::agents::{RealAgent, skip};
use crate::support::model_server::ModelServer;
use crate::support::model_server::script::{Script, Tokens};
use crate::support::text;

const FIRST: Tokens = Tokens { input: 1000, cached: 200, output: 30, reasoning: 0 };
const SECOND: Tokens = Tokens { input: 2000, cached: 1000, output: 4, reasoning: 0 };
const THIRD: Tokens = Tokens { input: 2500, cached: 2000, output: 9, reasoning: 0 };

/// Gemini refuses commands with a substitution in them.
///
/// Edits, builds and commits. Where Rust builds, there is a `cc`; its output goes to the run's own `TMPDIR`.
const COMMIT: &str = "echo 'int main(void) { return 0; }' >> work.c && cc -o $TMPDIR/work work.c && $TMPDIR/work \
                      && git add work.c && git commit -qm 'scripted work' && printf 'proof-%s' 42";

pub(super) fn commits_inside_the_boundary(stage: &Stage) {
    let script = Script::new().shell(COMMIT).usage(FIRST).text("the work is done").usage(SECOND);
    let server = ModelServer::start(script);
    let ran = stage.run(&server, &[], "do the work");
    ran.assert_completed("the work is done");
    assert_eq!(stage.env.commits(), ["scripted work", "start"]);
    assert_eq!(stage.env.git(&["status", "--porcelain"]), "");
    let turns = server.turns();
    assert_eq!(turns.iter().map(|turn| turn.step).collect::<Vec<_>>(), [Some(0), Some(1)]);
    assert!(turns[0].body.to_string().contains("do the work"));
    assert!(turns[1].body.to_string().contains("proof-42"));
    assert_spent(stage, &ran, &[FIRST, SECOND]);
    assert_eq!(
        (&ran.report["tool_calls"], &ran.report["exit"]),
        (&json!(1), &json!({ "code": 0 }))
    );
    let boundary = if Support::of_landlock().confines_files() { "kernel" } else { "detect" };
    assert_eq!(ran.report["boundary"], boundary, "{}", ran.finished);
    assert_logs_are_whole(stage, &ran, "the work is done");
    stage.assert_nothing_is_left();
}

fn assert_spent(stage: &Stage, ran: &Ran, turns: &[Tokens]) {
    let sum = |of: fn(&Tokens) -> u64| turns.iter().map(of).sum::<u64>();
    let usage = json!({
        "input": sum(|tokens| tokens.input - tokens.cached),
        "cache_read": sum(|tokens| tokens.cached),
        "cache_write": 0,
        "output": sum(|tokens| tokens.output),
    });
    assert_eq!(ran.report["usage"], usage, "{}", ran.finished);
    let expected = expected::cost(stage.agent, turns);
    let reported = ran.report["cost_usd"].as_f64().expect("the cost is known");
    assert!((reported - expected.usd).abs() < 1e-9, "{expected:?}\n{}", ran.finished);
    assert_eq!(ran.report["cost_is_estimate"], !expected.told, "{}", ran.finished);
}

fn assert_logs_are_whole(stage: &Stage, ran: &Ran, last_word: &str) {
    let log = ran.file("log");
    let last: Value = serde_json::from_str(log.lines().last().unwrap()).unwrap();
    assert!(log.ends_with('\n') && expected::is_last_event(stage.agent, &last), "{log}");
    let events: Vec<Value> =
        ran.file("events").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let said = json!({ "type": "final", "text": last_word });
    assert_eq!(events.last().map(|line| &line["event"]), Some(&said), "{events:?}");
}

pub(super) fn goes_on_with_its_session(stage: &Stage) {
    let script =
        Script::new().shell("printf 'proof-%s' 42").usage(FIRST).text("so far").usage(SECOND);
    let server = ModelServer::start(script);
    let first = stage.run(&server, &[], "the first prompt");
    first.assert_completed("so far");
    drop(server);

    // The model has a different address now: a session must not depend on the old one.
    let file = stage.env.repo().join("note.txt");
    let script = Script::new()
        .write(file.to_str().unwrap(), "it's noted")
        .usage(FIRST)
        .text("that was all")
        .usage(THIRD);
    let server = ModelServer::start(script);
    let second = stage.run(&server, &["--resume", first.session()], "the second prompt");
    second.assert_completed("that was all");
    assert_eq!(second.session(), first.session());
    assert_eq!(fs::read_to_string(file).unwrap().trim_end(), "it's noted");
    let history = server.turns()[0].body.to_string();
    for said in ["the first prompt", "proof-42", "so far", "the second prompt"] {
        assert!(history.contains(said), "{said} is not in {history}");
    }
    assert_spent(stage, &second, &[FIRST, THIRD]);
    stage.assert_nothing_is_left();
}

pub(super) fn cannot_write_outside_the_workspace(stage: &Stage) {
    if !Support::of_landlock().confines_files() {
        skip("this kernel cannot confine files");
        return;
    }
    let outside = stage.env.home().join("outside.txt");
    let command = format!("echo escaped > {} || echo denied-42", text(&outside));
    let server = ModelServer::start(Script::new().shell(&command).text("I tried"));
    let ran = stage.run(&server, &[], "try it");
    ran.assert_completed("I tried");
    let seen = server.turns()[1].body.to_string();
    let refusals = ["Permission denied", "Read-only file system"];
    let is_refused = refusals.iter().any(|refusal| seen.contains(refusal));
    assert!(seen.contains("denied-42") && is_refused, "{seen}");
    assert!(!outside.exists());
    stage.assert_nothing_is_left();
}

pub(super) fn cannot_write_the_workspace_in_a_reading_role(stage: &Stage) {
    if !Support::of_landlock().confines_files() {
        skip("this kernel cannot confine files");
        return;
    }
    let script = Script::new().shell("echo edited >> README.md || echo denied-42").text("I read");
    let server = ModelServer::start(script);
    let ran = stage.run(&server, &["--role", "planner"], "plan");
    ran.assert_completed("I read");
    let seen = server.turns()[1].body.to_string();
    let refusals = ["Permission denied", "Read-only file system"];
    let is_refused = refusals.iter().any(|refusal| seen.contains(refusal));
    assert!(seen.contains("denied-42") && is_refused, "{seen}");
    assert_eq!(stage.env.git(&["status", "--porcelain"]), "");
    stage.assert_nothing_is_left();
}

pub(super) fn respects_the_persons_own_settings(stage: &Stage) {
    let server = ModelServer::start(Script::new().shell("echo x > x.txt").text("as you like it"));
    stage.run_as_set_up(&server, "work").assert_completed("as you like it");
    if stage.agent == RealAgent::Claude {
        // The agent rewrites this file all the time; the person's settings are kept.
        let memory = fs::read(stage.env.home().join(".claude.json")).unwrap();
        let memory: Value = serde_json::from_slice(&memory).unwrap();
        assert_eq!(memory["editorMode"], "vim", "{memory}");
    }
    stage.assert_nothing_is_left();
}

pub(super) fn leaves_the_persons_own_settings_alone_when_isolated(stage: &Stage) {
    let home = stage.env.home();
    // Settings with which the agent would fail if it read them.
    let own: &[(&str, &str)] = match stage.agent {
        RealAgent::Codex => &[(".codex/config.toml", "model_provider = \"nobody\"\n")],
        RealAgent::Claude => &[
            (
                ".claude/settings.json",
                r#"{ "env": { "ANTHROPIC_BASE_URL": "http://127.0.0.1:2" } }"#,
            ),
            (".claude.json", r#"{ "numStartups": 7 }"#),
        ],
        RealAgent::OpenCode => &[(".config/opencode/opencode.json", "{ no settings")],
        RealAgent::Gemini => {
            return skip("gemini does not start without settings of the person's");
        }
    };
    for (name, content) in own {
        fs::create_dir_all(home.join(name).parent().unwrap()).unwrap();
        fs::write(home.join(name), content).unwrap();
    }
    let before = files_below(&home);
    let server = ModelServer::start(Script::new().shell("echo x > x.txt").text("alone"));
    let settings = Settings { agent: "isolate = true", ..Settings::default() };
    stage.run_with(settings, &server, &[], "work").assert_completed("alone");
    assert_eq!(files_below(&home), before);
    stage.assert_nothing_is_left();
}

/// Returns all paths with the content of files; directories have none.
fn files_below(directory: &Path) -> BTreeMap<String, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let is_directory = path.is_dir();
        found.insert(text(&path), (!is_directory).then(|| fs::read(&path).unwrap()));
        if is_directory {
            found.append(&mut files_below(&path));
        }
    }
    found
}
