//! A run that ends in the middle of a tool call: whoever ends it, none of its processes survives.

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use rustix::process::Signal;

use super::stage::{Ran, Settings, Stage};
use crate::support::agents::RealAgent;
use crate::support::model_server::ModelServer;
use crate::support::model_server::script::Script;
use crate::support::process::{Running, poll, processes_marked};

/// Every agent runs it in a separate session, out of reach of a signal to the agent's group. Claude refuses a bare
/// `sleep`.
const TOOL: &str = "env sleep 300 & env sleep 300";

/// The maximum time until the tool starts on a busy machine.
const START: Duration = Duration::from_mins(1);

fn server() -> ModelServer {
    ModelServer::start(Script::new().shell(TOOL).text("it ended by itself"))
}

/// Starts a run and returns it once its tool is running.
fn run_into_the_tool(stage: &Stage, server: &ModelServer) -> Running {
    stage.configure(&server.url(), Settings::default());
    let running = stage.start(&[], "the long prompt");
    let started = poll(START, || {
        let marked = processes_marked(stage.env.mark());
        let sleeping = marked.iter().filter(|(_, command)| command == "sleep 300").count();
        (sleeping == 2).then_some(())
    });
    assert!(started.is_some(), "{:?}", processes_marked(stage.env.mark()));
    running
}

pub(super) fn times_out_in_a_tool_call_and_leaves_nothing_running(stage: &Stage) {
    // The shortest limit within which the agent reaches its tool; how fast it starts depends on the machine.
    let limits = match stage.agent {
        RealAgent::Codex | RealAgent::Claude => [4, 16, 64],
        RealAgent::OpenCode | RealAgent::Gemini => [16, 32, 64],
    };
    for seconds in limits {
        let server = server();
        let ran = stage.run(&server, &["--timeout", &format!("{seconds}s")], "work");
        stage.assert_nothing_is_left();
        if server.turns().is_empty() {
            continue;
        }
        assert_eq!((ran.code(), ran.outcome()), (Some(1), "timed_out"), "{}", ran.finished);
        assert_eq!(ran.report["outcome"]["idle"], false, "{}", ran.finished);
        return;
    }
    panic!("{} did not get as far as its tool", stage.agent.name());
}

pub(super) fn stops_for_ctrl_c_in_a_tool_call_and_leaves_nothing_running(stage: &Stage) {
    let server = server();
    let running = run_into_the_tool(stage, &server);
    running.signal(Signal::INT);
    let ran = Ran::of(running);
    stage.assert_nothing_is_left();
    assert_eq!((ran.code(), ran.outcome()), (Some(130), "interrupted"), "{}", ran.finished);
    assert!(ran.finished.stderr.contains(&format!("--resume {}", ran.session())));
    drop(server);

    let server = ModelServer::start(Script::new().text("where was I"));
    let resumed = stage.run(&server, &["--resume", ran.session()], "go on");
    resumed.assert_completed("where was I");
    let history = server.turns()[0].body.to_string();
    assert!(history.contains("the long prompt"), "{history}");
}

pub(super) fn leaves_nothing_running_when_ralph_is_killed_in_a_tool_call(stage: &Stage) {
    let server = server();
    let running = run_into_the_tool(stage, &server);
    running.signal(Signal::KILL);
    let finished = running.finish(START);
    stage.assert_nothing_is_left();
    assert_eq!(finished.status.signal(), Some(9), "{finished}");
    drop(server);

    let server = ModelServer::start(Script::new().text("nothing in the way"));
    stage.run(&server, &[], "work").assert_completed("nothing in the way");
    let status = stage.status();
    let runs = status["runs"].as_array().unwrap();
    let ends: Vec<_> = runs.iter().map(|run| &run["state"]).collect();
    assert_eq!(ends, ["abandoned", "finished"], "{status}");
}
