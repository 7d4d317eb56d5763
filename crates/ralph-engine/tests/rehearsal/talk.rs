//! Events, variables, blocks and exit codes.

use jiff::{SignedDuration, Timestamp};
use ralph_model::event::{AgentEvent, ErrorKind, LimitStatus};
use ralph_model::usage::Usage;

use crate::stage::Stage;

fn text(text: &str) -> AgentEvent {
    AgentEvent::Text { text: text.to_owned() }
}

fn last_word(text: &str) -> AgentEvent {
    AgentEvent::Final { text: text.to_owned() }
}

#[test]
fn what_it_says_comes_out_as_events() {
    let played = Stage::new(
        "model big\n\
         session s-${RESUME:-1}\n\
         say hello ${ROLE} ${INVOCATION}\n\
         usage input=10 output=2 cumulative\n\
         cost 0.5\n\
         context used=5 window=10\n\
         warn-limit at 2030-01-31T12:00:00Z\n\
         retry 2 529\n\
         error server it broke\n\
         tool-open Bash\n\
         tool-close\n\
         final <<END\n\
         abc\n\
         <promise>COMPLETE</promise>\n\
         END\n",
    )
    .play();
    let retry =
        |n| AgentEvent::Retry { status: Some(529), message: format!("retrying ({n} of 2)") };
    let id = || "tool-1".to_owned();
    assert_eq!(
        played.events(),
        [
            AgentEvent::Session { id: "s-1".to_owned(), model: Some("big".to_owned()) },
            text("hello builder 1"),
            AgentEvent::Usage {
                usage: Usage { input: 10, output: 2, ..Usage::default() },
                cumulative: true
            },
            AgentEvent::Cost { usd: 0.5, cumulative: false },
            AgentEvent::Context { used: 5, window: Some(10) },
            AgentEvent::RateLimit {
                status: LimitStatus::Warning,
                resets_at: Some("2030-01-31T12:00:00Z".parse().unwrap())
            },
            retry(1),
            retry(2),
            AgentEvent::Error {
                kind: ErrorKind::Server,
                message: "it broke".to_owned(),
                fatal: false
            },
            AgentEvent::ToolCall { id: id(), name: "Bash".to_owned(), summary: String::new() },
            AgentEvent::ToolResult { id: id(), ok: true, summary: String::new() },
            last_word("abc\n<promise>COMPLETE</promise>"),
        ]
    );
    assert_eq!((played.code, played.stderr.as_str()), (Some(0), ""));
}

#[test]
fn a_usage_limit_is_told_with_the_time_of_its_end() {
    let before = Timestamp::now();
    let played = Stage::new("limit in 1h\nexit 1").play();
    assert_eq!(played.code, Some(1));
    let events = played.events();
    let [AgentEvent::RateLimit { status: LimitStatus::Rejected, resets_at: Some(at) }, error] =
        events.as_slice()
    else {
        panic!("{events:?}")
    };
    let hour = SignedDuration::from_hours(1);
    assert!((before + hour..=Timestamp::now() + hour).contains(at), "{at}");
    assert!(matches!(error, AgentEvent::Error { kind: ErrorKind::UsageLimit, fatal: true, .. }));
}

#[test]
fn each_invocation_of_each_role_plays_its_own_block() {
    let stage = Stage::new(
        "[builder 1]\nsay first\n[builder *]\nsay again\n[verifier 2]\nsay second\n[* 3]\nexit 9",
    );
    let play = |role: &str| {
        let played = stage.agent().env("RALPH_ROLE", role).output().unwrap();
        (played.status.code().unwrap(), String::from_utf8(played.stdout).unwrap())
    };
    assert!(play("builder").1.contains("first"));
    assert!(play("builder").1.contains("again"));
    let (code, out) = play("verifier");
    assert_eq!(code, 65);
    assert!(out.contains("no block for invocation 1 of role `verifier`"), "{out}");
    assert!(play("verifier").1.contains("second"));
    assert_eq!(play("verifier").0, 9);
    assert!(play("builder").1.contains("again"), "a role's block wins over a number's");
    assert_eq!(play("nobody").0, 64);
}

#[test]
fn agents_that_start_at_once_get_numbers_of_their_own() {
    let stage = Stage::new("stdout ${INVOCATION}");
    let started: Vec<_> = (0..8).map(|_| stage.agent().spawn().unwrap()).collect();
    let mut numbers: Vec<String> = started
        .into_iter()
        .map(|agent| String::from_utf8(agent.wait_with_output().unwrap().stdout).unwrap())
        .collect();
    numbers.sort();
    assert_eq!(numbers.concat(), "1\n2\n3\n4\n5\n6\n7\n8\n");
}

#[test]
fn the_counts_live_where_the_environment_says() {
    let stage = Stage::new("stdout ${INVOCATION}");
    let play = |variable: &str, value: &str| {
        let mut agent = stage.agent();
        agent.env_remove("RALPH_REHEARSAL_STATE").env(variable, stage.path(value));
        agent.output().unwrap()
    };
    assert_eq!(play("XDG_STATE_HOME", "xdg").stdout, b"1\n");
    assert!(stage.path("xdg/ralph/rehearsal").is_dir());
    assert_eq!(play("HOME", "home").stdout, b"1\n");
    assert_eq!(play("HOME", "home").stdout, b"2\n");
    assert!(stage.path("home/.local/state/ralph/rehearsal").is_dir());
    let without = stage.agent().env_remove("RALPH_REHEARSAL_STATE").env_remove("HOME").output();
    assert_eq!(without.unwrap().status.code(), Some(74));
}

#[test]
fn a_wrong_script_is_told_whole_and_counts_nothing() {
    let stage = Stage::new("say fine\nsya hello\nexit now\n");
    let played = stage.play();
    assert_eq!(played.code, Some(64));
    let script = stage.path("script");
    let script = script.display();
    let problems = format!(
        "{script}:2: unknown step `sya`; did you mean `say`?\n\
         {script}:3: `now` is not a valid number here"
    );
    assert_eq!(played.stderr, format!("{problems}\n"));
    let error = AgentEvent::Error { kind: ErrorKind::Other, message: problems, fatal: true };
    assert_eq!(played.events(), [error]);
    assert!(!stage.path("state").exists());
}

#[test]
fn a_script_that_is_not_there_is_an_error() {
    let stage = Stage::new("");
    std::fs::remove_file(stage.path("script")).unwrap();
    let played = stage.play();
    assert_eq!(played.code, Some(64));
    assert!(played.stderr.contains("cannot read script"), "{}", played.stderr);
    assert!(played.stderr.contains("No such file"), "{}", played.stderr);
}

#[test]
fn the_prompt_is_read_counted_echoed_and_expected() {
    let script = "stdout ${PROMPT_LINES}\necho-prompt\nexpect-prompt two\nexpect-prompt four";
    let stage = Stage::new(script);
    let played = stage.play_with_prompt("one\ntwo\nthree\n");
    assert_eq!(played.code, Some(64));
    let (raw, event) = played.stdout.split_at("3\none\ntwo\nthree\n".len());
    assert_eq!(raw, "3\none\ntwo\nthree\n");
    assert!(event.starts_with("{\"type\":\"error\""), "{event}");
    let line =
        format!("{}:4: the prompt does not contain `four`\n", stage.path("script").display());
    assert_eq!(played.stderr, line);
}

#[test]
fn a_script_can_leave_the_prompt_unread() {
    let stage = Stage::new("read-prompt off\nsay no");
    // The writing end stays open: reading to the end would never return.
    let (reader, writer) = std::io::pipe().unwrap();
    let output = stage.agent().stdin(reader).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    drop(writer);
}

#[test]
fn a_resumed_session_is_known_to_the_script() {
    let stage = Stage::new("model m\nsession ${RESUME:-new}-2\nsay ${RUN_ID}");
    let output =
        stage.agent().arg("old").env("RALPH_RUN_ID", "r7").output().map(crate::stage::Played::from);
    let session = |id: &str| AgentEvent::Session { id: id.into(), model: Some("m".into()) };
    assert_eq!(output.unwrap().events(), [session("old"), session("old-2"), text("r7")]);
}

#[test]
fn a_variable_without_a_value_ends_the_rehearsal() {
    let stage = Stage::new("say a\nfinal ${COMMIT}");
    let played = stage.play();
    assert_eq!(played.code, Some(64));
    let script = stage.path("script");
    assert_eq!(played.stderr, format!("{}:2: `${{COMMIT}}` has no value here\n", script.display()));
    assert_eq!(played.events()[0], text("a"));
}
