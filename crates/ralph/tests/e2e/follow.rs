//! `ralph status --follow` during a workflow, and events that are visible while a tool is silent.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{PATIENCE, Place, RALPH, wait_for_file, wait_until};
use crate::pipeline::{AGREES, BUILDS, PLANS, Stage};

/// A follower, and its output.
struct Following {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Following {
    fn start(place: &Place, args: &[&str]) -> Following {
        let mut child = Command::new(RALPH)
            .args(["status", "--follow"])
            .args(args)
            .current_dir(place.env.repo())
            .env_clear()
            .envs(place.variables())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Following { child, lines }
    }

    fn read(&mut self, count: usize) -> Vec<String> {
        (0..count).map(|_| self.line()).collect()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert_ne!(self.lines.read_line(&mut line).unwrap(), 0, "it has ended");
        line.trim_end_matches('\n').to_owned()
    }

    /// Reads up to the first line that contains this text.
    fn read_until(&mut self, text: &str) -> Vec<String> {
        let mut seen: Vec<String> = Vec::new();
        while !seen.last().is_some_and(|line| line.contains(text)) {
            seen.push(self.line());
        }
        seen
    }

    /// Sends SIGINT.
    fn interrupt(mut self) -> std::process::ExitStatus {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, Signal::INT).unwrap();
        self.child.wait().unwrap()
    }
}

fn journal(stage: &Stage) -> Vec<String> {
    let journal = fs::read_to_string(stage.private().join("journal.jsonl")).unwrap();
    journal.lines().map(str::to_owned).collect()
}

#[test]
fn a_follower_sees_every_line_of_the_journal_once() {
    let stage = Stage::new(&[PLANS, BUILDS, AGREES].concat());
    // Before there is a journal, or even a directory for it.
    let mut following = Following::start(&stage.place, &["--json"]);
    stage.pipeline(&[]).exits(0);
    let all = journal(&stage);
    assert_eq!(following.read(all.len()), all);
    // A second one begins with the last lines, and both see new ones.
    let mut second = Following::start(&stage.place, &["--json", "--last", "3"]);
    assert_eq!(second.read(3), all[all.len() - 3..]);
    stage.pipeline(&["--force", "1"]).exits(0);
    let new = &journal(&stage)[all.len()..];
    assert!(!new.is_empty());
    assert_eq!(following.read(new.len()), new);
    assert_eq!(second.read(new.len()), new);
    // It ends like `tail -f`.
    assert_eq!(following.interrupt().signal(), Some(Signal::INT.as_raw()));
    // A follower whose reader goes away ends by itself, successfully.
    drop(second.lines);
    assert!(second.child.wait().unwrap().success());
}

#[test]
fn what_an_agent_does_is_seen_while_it_does_it() {
    let script = "say hello\u{1b}[2J there\ntool-open Build\nrun touch begun; cat go\nsay goodbye\nfinal done\n";
    let place = Place::rehearsing(&script.replace("\\u{1b}", "\u{1b}"));
    let (begun, go) = (place.env.repo().join("begun"), place.env.repo().join("go"));
    assert!(Command::new("mkfifo").arg(&go).status().unwrap().success());
    let mut early = Following::start(&place, &[]);
    let running = place.start(&["agent", "run", "x"]);
    wait_for_file(&begun);
    // The tool is silent: all earlier events are completely in the file, without buffering.
    let events = || {
        let below = crate::pipeline::files_below(&place.path("state"));
        let mut logs =
            below.iter().filter(|(path, _)| path.to_string_lossy().ends_with(".events.jsonl"));
        logs.next().map(|(_, bytes)| String::from_utf8(bytes.clone()).unwrap()).unwrap_or_default()
    };
    wait_until(PATIENCE, "the call is in the event log", || {
        events().contains("touch begun; cat go")
    });
    assert!(events().ends_with('\n') && !events().contains("goodbye"));
    let seen = early.read_until("touch begun; cat go");
    // With the time of day, as people read it.
    assert_eq!(seen[0][8..], *" [begin] ralph agent run x", "{seen:#?}");
    assert!(seen[1].contains(" [run] builder rehearsal"), "{seen:#?}");
    assert!(seen.contains(&"    [says] hello\\u{1b}[2J there".to_owned()), "{seen:#?}");
    // A later follower sees the start of the run, and its events from then on.
    let mut late = Following::start(&place, &["--last", "1"]);
    assert!(late.read_until(" [run] ").len() == 1);
    fs::write(&go, "go\n").unwrap();
    assert_eq!(running.finish().0, Some(0));
    for following in [&mut early, &mut late] {
        let seen = following.read_until(" [ended] completed in ");
        assert!(seen.contains(&"    [says] goodbye".to_owned()), "{seen:#?}");
        assert!(!seen.iter().any(|line| line.contains("hello")), "{seen:#?}");
    }
    early.interrupt();
    late.interrupt();
}
