//! Signals, background processes, and ends other than exits.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use ralph_model::event::AgentEvent;
use rustix::process::Signal;

use crate::stage::{Played, Stage, kin, send};

#[test]
fn exit_codes_and_deaths_are_what_the_script_says() {
    for (script, code, signal) in [
        ("exit 0", Some(0), None),
        ("exit 42\nsay never", Some(42), None),
        ("crash", None, Some(9)),
        ("abort", None, Some(6)),
        ("signal self SIGTERM\nhang", None, Some(15)),
        ("on SIGTERM exit 143\nsignal self SIGTERM\nhang", Some(143), None),
        ("ignore SIGTERM SIGINT SIGHUP\nsignal self TERM\nsignal self INT\nexit 5", Some(5), None),
        ("sleep 1ms\nexit 6", Some(6), None),
    ] {
        let stage = Stage::new(script);
        let played = stage.play();
        assert_eq!((played.code, played.signal), (code, signal), "{script:?}");
        assert!(!played.stdout.contains("never"));
        stage.end(&[]);
    }
}

#[test]
fn ignored_signals_do_not_end_it_and_others_do() {
    let stage = Stage::new("ignore SIGTERM SIGINT\nsay ready\nhang");
    let mut agent = stage.agent().spawn().unwrap();
    let mut line = String::new();
    BufReader::new(agent.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    send(&agent, Signal::TERM);
    send(&agent, Signal::INT);
    let status = fs::read_to_string(format!("/proc/{}/status", agent.id())).unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap().trim();
    let ignored = u64::from_str_radix(ignored, 16).unwrap();
    let bit = |signal: Signal| 1 << (signal.as_raw() - 1);
    assert_eq!(ignored & bit(Signal::TERM), bit(Signal::TERM));
    assert_eq!(ignored & bit(Signal::INT), bit(Signal::INT));
    assert_eq!(ignored & bit(Signal::HUP), 0);
    // Signals sent later arrive later, so this one shows that the earlier ones had no effect.
    send(&agent, Signal::HUP);
    let status = agent.wait().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(1));
    stage.end(&[]);
}

/// A process that a script left waiting forever.
struct Left {
    id: u32,
    /// Its parent while the agent was still alive.
    parent: u32,
    agent: u32,
    stage: Stage,
}

/// Plays a step that starts a background process.
fn leave(step: &str) -> Left {
    // The shell itself waits, so that there is one process, without an exec in between.
    let stage = Stage::new(&format!(
        "{step} echo $$ > told; read line < never\n\
         run read id < told; echo $id $(cut -d ' ' -f 4 /proc/$id/stat)\n"
    ));
    stage.fifo("told");
    stage.fifo("never");
    // One additional open file, which a daemon must close.
    let agent = stage
        .command("sh".as_ref())
        .args(["-c", "exec 5< /dev/zero; exec \"$0\" \"$1\""])
        .arg(stage.agent().get_program())
        .arg(stage.path("script"))
        .spawn()
        .unwrap();
    let agent_id = agent.id();
    let played = Played::from(agent.wait_with_output().unwrap());
    let events = played.events();
    let [_, AgentEvent::ToolResult { summary, ok: true, .. }] = events.as_slice() else {
        panic!("{events:?} {}", played.stderr)
    };
    let (id, parent) = summary.split_once(' ').unwrap();
    let id = id.parse().unwrap();
    stage.take_over(id);
    Left { id, parent: parent.parse().unwrap(), agent: agent_id, stage }
}

/// This process and all its ancestors.
fn ancestors() -> Vec<u32> {
    let parent_of = |id: &u32| Some(kin(*id).parent).filter(|parent| *parent != 0);
    std::iter::successors(Some(std::process::id()), parent_of).collect()
}

#[test]
fn a_child_outlives_the_agent_in_its_group() {
    let left = leave("child");
    let own = kin(std::process::id());
    assert_eq!(left.parent, left.agent);
    assert_eq!((kin(left.id).session, kin(left.id).group), (own.session, own.group));
    assert_eq!(left.stage.survivors(), [left.id]);
    left.stage.end(&[left.id]);
}

#[test]
fn a_setsid_child_leads_its_own_session() {
    let left = leave("setsid");
    assert_eq!(left.parent, left.agent);
    assert_eq!((kin(left.id).session, kin(left.id).group), (left.id, left.id));
    left.stage.end(&[left.id]);
}

#[test]
fn a_daemon_has_no_parent_of_its_own_no_session_leader_and_no_open_files() {
    let left = leave("daemonise");
    // Orphans are reparented to init, or to a nearer subreaper.
    assert!(ancestors().contains(&left.parent), "{} of {:?}", left.parent, ancestors());
    let session = kin(left.id).session;
    assert_ne!(session, kin(std::process::id()).session);
    assert!(fs::metadata(format!("/proc/{session}")).is_err(), "{session} is alive");
    for entry in fs::read_dir(format!("/proc/{}/fd", left.id)).unwrap() {
        let target = fs::read_link(entry.unwrap().path()).unwrap();
        assert_eq!(target.to_str(), Some("/dev/null"));
    }
    left.stage.end(&[left.id]);
}

#[test]
fn a_daemon_can_lose_its_environment() {
    let left = leave("daemonise-env");
    assert!(left.stage.survivors().is_empty(), "the mark is not in its environment");
    let environment = fs::read(format!("/proc/{}/environ", left.id)).unwrap();
    assert_eq!(String::from_utf8(environment).unwrap(), "");
    assert!(ancestors().contains(&left.parent), "{} of {:?}", left.parent, ancestors());
}

#[test]
fn a_held_pipe_stays_open_after_the_agent_is_gone() {
    let stage = Stage::new("hold-pipe 600s\nsay done");
    let mut agent = stage.agent().stderr(Stdio::null()).spawn().unwrap();
    assert!(agent.wait().unwrap().success());
    let holder = stage.survivor();
    let pipe = fs::read_link(format!("/proc/{holder}/fd/1")).unwrap();
    assert!(pipe.to_str().unwrap().starts_with("pipe:"), "{pipe:?}");
    assert_ne!(kin(holder).session, kin(std::process::id()).session);
    stage.end(&[holder]);
    let mut stdout = String::new();
    agent.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
    assert_eq!(stdout, "{\"type\":\"text\",\"text\":\"done\"}\n");
}

#[test]
fn it_can_kill_its_parent() {
    let stage = Stage::new("kill-parent\nwrite after x\nsay told");
    let script = stage.path("script");
    let mut shell = stage.command("sh".as_ref());
    // The shell waits for the agent, so it is the agent's parent and does not exec it.
    let output = shell
        .args(["-c", "\"$0\" \"$1\"; echo never"])
        .arg(stage.agent().get_program())
        .arg(script)
        .output()
        .unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&output.status), Some(9));
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(stdout.contains("told") && !stdout.contains("never"), "{stdout}");
    assert_eq!(stage.read("after"), "x\n");
}
