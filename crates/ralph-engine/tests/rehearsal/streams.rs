//! Raw output: floods, bytes, ends.

use std::io::{Read, copy, sink};
use std::process::Stdio;

use ralph_model::event::AgentEvent;

use crate::stage::Stage;

#[test]
fn raw_lines_and_bytes_come_out_as_they_are() {
    let stage = Stage::new("stdout plain {\nstdout-bytes ff fe 00\nstderr oh ${ROLE}");
    let output = stage.agent().output().unwrap();
    assert_eq!(output.stdout, b"plain {\n\xff\xfe\x00");
    assert_eq!(output.stderr, b"oh builder\n");
}

#[test]
fn floods_are_exact_to_the_byte_and_end_with_a_line() {
    for (kind, size) in [
        ("text", 1),
        ("text", 262_144),
        ("text", 1_000_001),
        ("line", 3 << 20),
        ("binary", 777_777),
    ] {
        let stage = Stage::new(&format!("flood {kind} {size}\nsay after"));
        let output = stage.agent().output().unwrap();
        let (flood, after) = output.stdout.split_at(size);
        assert_eq!(flood.last(), Some(&b'\n'), "{kind} {size}");
        assert_eq!(after, b"{\"type\":\"text\",\"text\":\"after\"}\n", "{kind} {size}");
        let lines = flood.split(|byte| *byte == b'\n').count() - 1;
        match kind {
            "text" => assert_eq!(lines, size.div_ceil(100)),
            "line" => assert_eq!(lines, 1),
            _ => assert!(std::str::from_utf8(flood).is_err()),
        }
    }
    let stage = Stage::new("flood text 0\nflood stderr 2MB");
    let output = stage.agent().output().unwrap();
    assert_eq!((output.stdout.len(), output.stderr.len()), (0, 2_000_000));
}

#[test]
fn a_flood_of_events_is_made_of_events() {
    let played = Stage::new("flood json 4000").play();
    assert_eq!(played.stdout.len(), 4000 * 170);
    let events = played.events();
    assert_eq!(events.len(), 4000);
    assert!(
        events.iter().all(|event| matches!(event, AgentEvent::Text { text } if !text.is_empty()))
    );
}

#[test]
fn big_floods_do_not_live_in_memory() {
    let stage = Stage::new("flood line 200MB\nrun grep VmHWM /proc/$PPID/status");
    let mut agent = stage.agent().stderr(Stdio::inherit()).spawn().unwrap();
    let mut stdout = agent.stdout.take().unwrap();
    let poured = copy(&mut stdout.by_ref().take(200_000_000), &mut sink()).unwrap();
    let mut events = String::new();
    stdout.read_to_string(&mut events).unwrap();
    assert!(agent.wait().unwrap().success());
    assert_eq!(poured, 200_000_000);
    let peak = events.split("VmHWM:").nth(1).unwrap().trim_start_matches(['\\', 't', ' ']);
    let kilobytes: u64 = peak.split(' ').next().unwrap().parse().unwrap();
    assert!(kilobytes < 32 * 1024, "{kilobytes} kB");
}

#[test]
fn a_closed_stdout_ends_for_the_reader_while_the_agent_goes_on() {
    let stage = Stage::new("say a\nclose-stdout\nsay b\nstderr still here\nhang");
    let mut agent = stage.agent().spawn().unwrap();
    let mut stdout = String::new();
    agent.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
    assert_eq!(stdout, "{\"type\":\"text\",\"text\":\"a\"}\n");
    let mut line = [0; 11];
    agent.stderr.as_mut().unwrap().read_exact(&mut line).unwrap();
    assert_eq!(&line, b"still here\n");
    assert_eq!(agent.try_wait().unwrap(), None);
    agent.kill().unwrap();
    agent.wait().unwrap();
    stage.end(&[]);
}

#[test]
fn an_agent_nobody_listens_to_gives_up() {
    let stage = Stage::new("flood text 10MB\nhang");
    let mut agent = stage.agent().spawn().unwrap();
    drop(agent.stdout.take());
    assert_eq!(agent.wait().unwrap().code(), Some(74));
}
