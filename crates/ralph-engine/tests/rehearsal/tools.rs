//! Files, commands and commits.

use std::fs;

use ralph_model::event::AgentEvent;

use crate::stage::{Played, Stage};

fn call(id: &str, name: &str, summary: &str) -> AgentEvent {
    AgentEvent::ToolCall { id: id.into(), name: name.into(), summary: summary.into() }
}

fn result(id: &str, ok: bool, summary: &str) -> AgentEvent {
    AgentEvent::ToolResult { id: id.into(), ok, summary: summary.into() }
}

#[test]
fn files_are_written_appended_and_deleted() {
    let stage = Stage::new(
        "write deep/a.txt <<END\none ${ROLE}\nEND\nappend deep/a.txt two\n\
         write gone x\ndelete gone\nwrite tree/leaf x\ndelete tree\ndelete nothing",
    );
    let played = stage.play();
    assert_eq!(played.code, Some(0));
    assert_eq!(stage.read("deep/a.txt"), "one builder\ntwo\n");
    let left: Vec<_> = fs::read_dir(stage.path("work")).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
    let events = played.events();
    assert_eq!(
        events[..4],
        [
            call("tool-1", "write", "deep/a.txt"),
            result("tool-1", true, "wrote deep/a.txt"),
            call("tool-2", "append", "deep/a.txt"),
            result("tool-2", true, "appended to deep/a.txt"),
        ]
    );
    let missing = result("tool-7", false, "nothing: No such file or directory (os error 2)");
    assert_eq!(events.last(), Some(&missing));
}

#[test]
fn the_outbox_is_where_the_run_says() {
    let stage = Stage::new("outbox plan.md <<END\n# Plan\nEND");
    let outbox = stage.path("out");
    let played = Played::from(stage.agent().env("RALPH_OUT", &outbox).output().unwrap());
    assert_eq!(played.code, Some(0));
    assert_eq!(fs::read_to_string(outbox.join("plan.md")).unwrap(), "# Plan\n");
    assert_eq!(stage.play().code, Some(64), "without an outbox the script is wrong");
}

#[test]
fn an_expected_command_that_fails_ends_the_rehearsal() {
    let stage = Stage::new("expect-run test $ROLE = builder\nsay on\nexpect-run exit 3\nsay no");
    let played = stage.play();
    assert_eq!(played.code, Some(64));
    let line = format!("{}:3: `exit 3` failed\n", stage.path("script").display());
    assert_eq!(played.stderr, line);
    let said: Vec<AgentEvent> = played.events();
    let is_text = |event: &&AgentEvent| matches!(event, AgentEvent::Text { .. });
    assert_eq!(said.iter().filter(is_text).count(), 1, "{said:?}");
}

#[test]
fn commands_are_tool_calls_with_their_output() {
    let played = Stage::new(
        "run echo $ROLE; echo oops >&2\nrun exit 3\nrun <<END\nfor i in 1 2\ndo echo $i\ndone\nEND",
    )
    .play();
    assert_eq!(
        played.events(),
        [
            call("tool-1", "run", "echo $ROLE; echo oops >&2"),
            result("tool-1", true, "builder\noops"),
            call("tool-2", "run", "exit 3"),
            result("tool-2", false, "exit status: 3"),
            call("tool-3", "run", "for i in 1 2\ndo echo $i\ndone"),
            result("tool-3", true, "1\n2"),
        ]
    );
}

#[test]
fn much_output_of_a_command_is_cut() {
    let played = Stage::new("run head -c 10000000 /dev/zero | tr '\\0' x").play();
    assert_eq!(played.events()[1], result("tool-1", true, &"x".repeat(4096)));
}

#[test]
fn commits_are_real_and_their_hash_is_known() {
    let stage = Stage::new(
        "write a 1\nwrite b 2\ncommit \"only a\" a\nrun echo $COMMIT\ncommit \"the rest\"\n\
         final <<END\n${COMMIT}\nDONE\nEND\ncommit \"nothing left\"\n",
    );
    stage.git(&["init", "--quiet"]);
    let played = stage.play();
    assert_eq!((played.code, played.stderr.as_str()), (Some(0), ""), "{}", played.stdout);
    assert_eq!(stage.git(&["log", "--format=%s %an"]), "the rest Rehearsal\nonly a Rehearsal");
    assert_eq!(stage.git(&["show", "--name-only", "--format=", "HEAD~1"]), "a");
    assert_eq!(stage.git(&["status", "--porcelain"]), "");
    let events = played.events();
    let first = stage.git(&["rev-parse", "HEAD~1"]);
    let head = stage.git(&["rev-parse", "HEAD"]);
    assert_eq!(events[4], call("tool-3", "commit", "only a"));
    assert_eq!(events[5], result("tool-3", true, &first));
    assert_eq!(events[7], result("tool-4", true, &first));
    assert_eq!(events[10], AgentEvent::Final { text: format!("{head}\nDONE") });
    let [.., AgentEvent::ToolResult { ok: false, summary, .. }] = events.as_slice() else {
        panic!("{events:?}")
    };
    assert!(summary.contains("nothing to commit"), "{summary}");
}

#[test]
fn a_commit_bears_the_name_that_git_knows() {
    let stage = Stage::new("write a 1\ncommit \"mine\"");
    stage.git(&["init", "--quiet"]);
    stage.git(&["config", "user.name", "Ada"]);
    stage.git(&["config", "user.email", "ada@example.org"]);
    stage.play();
    assert_eq!(stage.git(&["log", "--format=%s %an %ce"]), "mine Ada ada@example.org");
}

#[test]
fn the_first_example_of_the_document_plays_as_told() {
    let document = include_str!("../../../../docs/rehearsal.md");
    let example = document.split("```rehearsal\n").nth(1).unwrap().split("```").next().unwrap();
    let stage = Stage::new(example);
    stage.git(&["init", "--quiet"]);
    assert_eq!(stage.play().code, Some(1));
    let played = stage.play();
    assert_eq!(played.code, Some(0), "{}", played.stderr);
    assert_eq!(stage.read("src/greeting.txt"), "Hello from run 2.\n");
    let head = stage.git(&["rev-parse", "HEAD"]);
    let text = format!("{head}\n<promise>COMPLETE</promise>");
    assert_eq!(played.events().last(), Some(&AgentEvent::Final { text }));
    let verifier = stage.agent().env("RALPH_ROLE", "verifier").output().map(Played::from).unwrap();
    assert_eq!(verifier.events()[1], result("tool-1", true, "src/greeting.txt:Hello from run 2."));
}
