//! The real agent CLIs against the scripted model, without Ralph between them.
//!
//! What these tests pin is the ground the adapters stand on: the CLIs talk to the scripted model as they would to a
//! vendor's, commit for real, resume for real and fail the way the adapters expect. A new version of a CLI that behaves
//! otherwise shows up here first.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::TestEnv;
use crate::support::agents::{Account, RealAgent, require};
use crate::support::model_server::ModelServer;
use crate::support::model_server::script::{Script, Tokens};
use crate::support::process::{self, Finished, processes_marked};

/// Far above what any run takes on a loaded machine: a CLI that hangs must not hang the tests.
const LIMIT: Duration = Duration::from_mins(3);

const RESET: i64 = 2_000_000_000;

/// A CLI in a place of its own.
struct Stage {
    agent: RealAgent,
    program: std::path::PathBuf,
    env: TestEnv,
    account: Account,
}

impl Stage {
    /// Sets the stage, or returns `None` where the CLI is not installed.
    fn set(agent: RealAgent, account: Account) -> Option<Stage> {
        let program = require(agent)?;
        let env = TestEnv::new();
        agent.prepare_home(&env.home());
        Some(Stage { agent, program, env, account })
    }

    fn run(&self, server: &ModelServer, session: Option<&str>, prompt: &str) -> Finished {
        let mut variables = self.env.environment();
        variables.extend(self.agent.environment(&server.url(), self.account, &self.env));
        let args = arguments(self.agent, &self.agent.config_args(&server.url()), session);
        process::run(&self.env, &self.program, &args, &variables, prompt, LIMIT)
    }

    fn assert_nothing_is_left(&self) {
        assert_eq!(processes_marked(self.env.mark()), []);
    }
}

fn arguments(agent: RealAgent, config: &[String], session: Option<&str>) -> Vec<String> {
    let (fixed, resume): (&[&str], Vec<&str>) = match agent {
        RealAgent::Codex => (
            &["exec", "--json", "--dangerously-bypass-approvals-and-sandbox"],
            session.map_or(vec!["-"], |session| vec!["resume", session, "-"]),
        ),
        RealAgent::Claude => (
            &[
                "-p",
                "--output-format",
                "stream-json",
                "--verbose",
                "--dangerously-skip-permissions",
            ],
            session.map_or(vec![], |session| vec!["--resume", session]),
        ),
        RealAgent::OpenCode => (
            &["run", "--format", "json"],
            session.map_or(vec![], |session| vec!["--session", session]),
        ),
        RealAgent::Gemini => (
            &["--output-format", "stream-json", "--approval-mode", "yolo", "--skip-trust"],
            session.map_or(vec![], |session| vec!["--resume", session]),
        ),
    };
    let fixed = fixed.iter().map(|arg| (*arg).to_owned());
    let resume = resume.into_iter().map(str::to_owned);
    fixed.chain(config.iter().cloned()).chain(resume).collect()
}

fn events(finished: &Finished) -> Vec<Value> {
    finished.stdout.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn event(events: &[Value], kind: &str) -> Value {
    events.iter().rfind(|event| event["type"] == kind).cloned().unwrap_or_default()
}

fn session(agent: RealAgent, events: &[Value]) -> String {
    let key = match agent {
        RealAgent::Codex => "thread_id",
        RealAgent::Claude | RealAgent::Gemini => "session_id",
        RealAgent::OpenCode => "sessionID",
    };
    let id = events.iter().find_map(|event| event[key].as_str());
    id.unwrap_or_else(|| panic!("no {key} in {events:?}")).to_owned()
}

/// Returns what the run says it used: input with what was cached, and output.
fn tokens(agent: RealAgent, events: &[Value]) -> (u64, u64) {
    let sum =
        |usage: &Value, keys: &[&str]| keys.iter().filter_map(|key| usage[key].as_u64()).sum();
    match agent {
        RealAgent::Codex => {
            let usage = &event(events, "turn.completed")["usage"];
            (sum(usage, &["input_tokens"]), sum(usage, &["output_tokens"]))
        }
        RealAgent::Claude => {
            let usage = &event(events, "result")["usage"];
            (
                sum(usage, &["input_tokens", "cache_read_input_tokens"]),
                sum(usage, &["output_tokens"]),
            )
        }
        RealAgent::OpenCode => {
            let steps = events.iter().filter(|event| event["type"] == "step_finish");
            steps.map(|event| &event["part"]["tokens"]).fold((0, 0), |(input, output), tokens| {
                let cached = tokens["cache"]["read"].as_u64().unwrap_or(0);
                (input + sum(tokens, &["input"]) + cached, output + sum(tokens, &["output"]))
            })
        }
        RealAgent::Gemini => {
            let stats = &event(events, "result")["stats"];
            (sum(stats, &["input_tokens"]), sum(stats, &["output_tokens"]))
        }
    }
}

fn commits_and_resumes(agent: RealAgent) {
    let Some(stage) = Stage::set(agent, Account::Key) else { return };
    // Its output is not part of it; gemini refuses commands with a substitution in them.
    let commit = "echo work >> work.txt && git add work.txt && git commit -qm 'scripted work' \
                  && printf 'proof-%s' 42";
    let script = Script::new()
        .shell(commit)
        .usage(Tokens { input: 1000, cached: 200, output: 30, reasoning: 0 })
        .text("first run over")
        .usage(Tokens { input: 2000, cached: 1000, output: 4, reasoning: 0 });
    let server = ModelServer::start(script);
    let first = stage.run(&server, None, "the first prompt");
    let first_events = events(&first);
    assert_eq!(first.status.code(), Some(0), "{first}");
    assert!(first.stdout.contains("first run over"), "{first}");
    assert_eq!(tokens(agent, &first_events), (3000, 34), "{first}");
    assert_eq!(stage.env.commits(), ["scripted work", "start"]);
    assert_eq!(stage.env.git(&["status", "--porcelain"]), "");
    let turns = server.turns();
    assert_eq!(turns.iter().map(|turn| turn.step).collect::<Vec<_>>(), [Some(0), Some(1)]);
    assert!(turns[0].body.to_string().contains("the first prompt"));
    assert!(turns[1].body.to_string().contains("proof-42"));
    stage.assert_nothing_is_left();
    drop(server);

    // The model has another address now: a session must not depend on the old one.
    let file = stage.env.repo().join("note.txt");
    let script = Script::new().write(file.to_str().unwrap(), "it's noted").text("second run over");
    let server = ModelServer::start(script);
    let id = session(agent, &first_events);
    let second = stage.run(&server, Some(&id), "the second prompt");
    assert_eq!(second.status.code(), Some(0), "{second}");
    assert!(second.stdout.contains("second run over"), "{second}");
    assert_eq!(session(agent, &events(&second)), id);
    assert_eq!(std::fs::read_to_string(file).unwrap().trim_end(), "it's noted");
    let history = server.turns()[0].body.to_string();
    for said in ["the first prompt", "proof-42", "first run over", "the second prompt"] {
        assert!(history.contains(said), "{said} is not in {history}");
    }
    stage.assert_nothing_is_left();
}

fn reports_a_usage_limit(agent: RealAgent) {
    let Some(stage) = Stage::set(agent, Account::Subscription) else { return };
    let server = ModelServer::start(agent.usage_limit(Script::new(), RESET));
    let run = stage.run(&server, None, "anything");
    let events = events(&run);
    match agent {
        RealAgent::Codex => {
            let failed = event(&events, "turn.failed")["error"]["message"].to_string();
            assert!(failed.contains("usage limit"), "{run}");
            assert!(failed.contains("try again at May 18th, 2033 3:33 AM"), "{run}");
            assert_eq!((run.status.code(), server.turns().len()), (Some(1), 1));
        }
        RealAgent::Claude => {
            let info = &event(&events, "rate_limit_event")["rate_limit_info"];
            assert_eq!(
                (&info["status"], &info["resetsAt"]),
                (&json!("rejected"), &json!(RESET)),
                "{run}"
            );
            assert_eq!(event(&events, "result")["is_error"], true, "{run}");
            assert_eq!((run.status.code(), server.turns().len()), (Some(1), 1));
        }
        RealAgent::OpenCode => {
            let data = &event(&events, "error")["error"]["data"];
            assert_eq!(data["statusCode"], 429, "{run}");
            assert!(data["responseBody"].to_string().contains(&RESET.to_string()), "{run}");
            assert_eq!(run.status.code(), Some(1));
        }
        RealAgent::Gemini => {
            let error = &event(&events, "result")["error"];
            assert!(error["message"].to_string().contains("quota"), "{run}");
            assert_eq!((run.status.code(), server.turns().len()), (Some(429 % 256), 1));
        }
    }
    stage.assert_nothing_is_left();
}

fn reports_a_refused_key(agent: RealAgent) {
    let Some(stage) = Stage::set(agent, Account::Key) else { return };
    let error = json!({ "type": "authentication_error", "message": "invalid key", "code": 401 });
    let body = json!({ "type": "error", "error": error });
    let server = ModelServer::start(Script::new().http(401, &[], body));
    let run = stage.run(&server, None, "anything");
    let events = events(&run);
    let said = match agent {
        RealAgent::Codex => event(&events, "turn.failed")["error"]["message"].to_string(),
        RealAgent::Claude => event(&events, "result")["api_error_status"].to_string(),
        RealAgent::OpenCode => event(&events, "error")["error"]["data"]["statusCode"].to_string(),
        RealAgent::Gemini => event(&events, "result")["error"].to_string(),
    };
    assert!(said.contains(if agent == RealAgent::Gemini { "invalid key" } else { "401" }), "{run}");
    let code = if agent == RealAgent::Gemini { 401 % 256 } else { 1 };
    assert_eq!(run.status.code(), Some(code), "{run}");
    stage.assert_nothing_is_left();
}

#[test]
fn codex_commits_and_resumes() {
    commits_and_resumes(RealAgent::Codex);
}

#[test]
fn claude_commits_and_resumes() {
    commits_and_resumes(RealAgent::Claude);
}

#[test]
fn opencode_commits_and_resumes() {
    commits_and_resumes(RealAgent::OpenCode);
}

#[test]
fn gemini_commits_and_resumes() {
    commits_and_resumes(RealAgent::Gemini);
}

#[test]
fn codex_reports_a_usage_limit_with_its_reset_time() {
    reports_a_usage_limit(RealAgent::Codex);
}

#[test]
fn claude_reports_a_usage_limit_with_its_reset_time() {
    reports_a_usage_limit(RealAgent::Claude);
}

#[test]
fn opencode_passes_a_usage_limit_on_with_its_reset_time() {
    reports_a_usage_limit(RealAgent::OpenCode);
}

#[test]
fn gemini_reports_a_usage_limit_without_its_reset_time() {
    reports_a_usage_limit(RealAgent::Gemini);
}

#[test]
fn codex_reports_a_refused_key() {
    reports_a_refused_key(RealAgent::Codex);
}

#[test]
fn claude_reports_a_refused_key() {
    reports_a_refused_key(RealAgent::Claude);
}

#[test]
fn opencode_reports_a_refused_key() {
    reports_a_refused_key(RealAgent::OpenCode);
}

#[test]
fn gemini_reports_a_refused_key() {
    reports_a_refused_key(RealAgent::Gemini);
}
