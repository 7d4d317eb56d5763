//! The real CLIs in clones: a spec and a plan are completed, and a session interrupted by a kill is resumed in its
//! clone.

use std::fs;
use std::path::Path;

use ralph_model::contract::DEFAULT_MAGIC_PHRASE as PHRASE;
use ralph_model::journal::{JournalEvent, RunStarted};
use ralph_model::role::Role;
use rustix::process::Signal;
use serde_json::json;

use super::pipeline::told;
use super::stage::{Ran, Settings, Stage};
use crate::harness::{PATIENCE, wait_until};
use crate::support::model_server::ModelServer;
use crate::support::model_server::script::Script;

const GATE: &str =
    "[[gate]]\nname = \"greets\"\nrun = [\"grep\", \"-q\", \"^hello\", \"greeting.txt\"]\n";

fn gated() -> Settings {
    Settings { gates: GATE, ..Settings::default() }
}

/// The slot of the only item, once there is one.
fn in_slot(stage: &Stage, name: &str) -> bool {
    let states = fs::read_dir(stage.env.state().join("ralph")).into_iter().flatten().flatten();
    states.map(|state| state.path().join("slots/1/repo").join(name)).any(|path| path.exists())
}

/// Returns whether a file below `dir` contains `words`.
fn holds(dir: &Path, words: &[u8]) -> bool {
    fs::read_dir(dir).into_iter().flatten().flatten().any(|entry| {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => holds(&path, words),
            Ok(kind) if kind.is_file() => fs::read(&path)
                .is_ok_and(|bytes| bytes.windows(words.len()).any(|window| window == words)),
            _ => false,
        }
    })
}

/// The runs that worked on the item, in order.
fn workers(stage: &Stage) -> Vec<RunStarted> {
    let entries = stage.journal().into_iter();
    entries
        .filter_map(|entry| match entry.event {
            JournalEvent::RunStarted(started) => Some(*started),
            _ => None,
        })
        .filter(|started| matches!(started.role, Role::Implementer | Role::Builder))
        .collect()
}

pub(super) fn goes_on_with_its_session_in_a_clone_after_a_kill(stage: &Stage) {
    let specs = stage.env.repo().join("ralph/specs");
    fs::create_dir_all(specs.join("plans")).unwrap();
    fs::write(specs.join("0001-greeting.md"), "# A greeting\n\n`greeting.txt` says hello.\n")
        .unwrap();
    fs::write(specs.join("plans/0001-greeting.md"), "Write it down.\n").unwrap();
    // Codex refuses `rm -f` by itself.
    let rest = Script::new()
        .shell(
            "test -e half.txt && rm half.txt begun && echo hello > greeting.txt && git add -A && \
             git commit -qm greeting && git rev-parse HEAD",
        )
        .claim("the greeting is there", PHRASE)
        .shell("grep hello greeting.txt && git rev-parse HEAD")
        .claim("the verifier agrees", PHRASE);
    goes_on_after_a_kill(stage, "pipeline", rest);
}

pub(super) fn goes_on_with_its_session_on_a_task_after_a_kill(stage: &Stage) {
    let specs = stage.env.repo().join("ralph/specs");
    fs::create_dir_all(&specs).unwrap();
    fs::write(specs.join("greet.md"), "# Greet\n\n`greeting.txt` says hello.\n").unwrap();
    let spec = json!({"t": "spec", "spec": "greet.md"});
    let task =
        json!({"t": "task", "id": "t-hello", "spec": "greet.md", "name": "Say hello", "s": "p"});
    fs::write(stage.env.repo().join("ralph/plan.jsonl"), format!("{spec}\n{task}\n")).unwrap();
    stage.env.git(&["add", "ralph"]);
    stage.env.git(&["commit", "-qm", "plan"]);
    let rest = Script::new()
        .shell(
            "test -e half.txt && rm half.txt begun && echo hello > greeting.txt && ralph task done",
        )
        .text("built")
        .shell("grep hello greeting.txt && ralph task accept t-hello")
        .text("[RALPH] SPEC_COMPLETE");
    goes_on_after_a_kill(stage, "build", rest);
}

/// Kills Ralph while the agent is in a tool call; the next start has it finish by `rest`, in the same session.
fn goes_on_after_a_kill(stage: &Stage, workflow: &str, rest: Script) {
    stage.env.isolate();
    let script = Script::new()
        .shell("echo 'half of it' > half.txt && printf 'proof-%s' 42")
        .shell("touch begun && sleep 600")
        // Some agents move a long command to the background and continue asking.
        .shell("sleep 600")
        .times(20);
    let server = ModelServer::start(script);
    let running = stage.start_workflow(workflow, gated(), &server);
    wait_until(PATIENCE, "the second tool call", || in_slot(stage, "begun"));
    // CLIs write their session files asynchronously: a session truncated by a kill cannot be resumed.
    wait_until(PATIENCE, "the session on disk", || holds(&stage.env.home(), b"proof-42"));
    running.signal(Signal::KILL);
    running.finish(PATIENCE);
    stage.assert_nothing_is_left();
    assert!(!stage.env.repo().join("half.txt").exists(), "it works in a clone");
    drop(server);

    let server = ModelServer::start(rest);
    let ran = Ran::of(stage.start_workflow(workflow, gated(), &server));
    assert_eq!(ran.code(), Some(0), "{}", ran.finished);
    let runs = workers(stage);
    let [first, second] = &runs[..] else { panic!("{runs:?}") };
    assert_eq!((first.resumed_session.as_deref(), first.slot), (None, Some(1)));
    assert!(second.resumed_session.is_some() && second.slot == Some(1), "{second:?}");
    // The model sees the conversation before the kill, and the unfinished work.
    let history = told(&server.turns(), 0);
    assert!(history.contains("proof-42"), "{history}");
    assert!(history.contains("half.txt"), "{history}");
    assert_eq!(fs::read_to_string(stage.env.repo().join("greeting.txt")).unwrap(), "hello\n");
    stage.assert_nothing_is_left();
}

pub(super) fn builds_a_plan_in_clones(stage: &Stage) {
    stage.env.isolate();
    // For clones the person has to commit the spec themselves.
    let specs = stage.env.repo().join("ralph/specs");
    fs::create_dir_all(&specs).unwrap();
    fs::write(specs.join("greet.md"), "# Greet\n\n`greeting.txt` says hello.\n").unwrap();
    stage.env.git(&["add", "ralph"]);
    stage.env.git(&["commit", "-qm", "spec"]);
    super::build::builds(stage);
}
