//! Uncommitted leftovers of interrupted runs in the person's own tree: they belong to the run, and no later start
//! attributes them to the person.

use rustix::process::Signal;

use super::{Stage, on, willing};
use crate::harness::{PATIENCE, wait_until};

/// An implementer that leaves a file and never ends, in its nth run.
fn leaves(nth: u32) -> String {
    on("implementer", nth, "append left.txt half ${INVOCATION}\nhang")
}

/// Starts a pipeline and ends it as soon as its implementer has left a file.
fn cut_short(stage: &Stage, args: &[&str], nth: u32, signal: Signal) {
    let running = stage.place.start(&[&["pipeline"], args].concat());
    let half = format!("half {nth}\n");
    let has_left = || stage.has("left.txt") && stage.read("left.txt").ends_with(&half);
    wait_until(PATIENCE, "the implementer has left a file", has_left);
    running.signal(signal);
    let (code, said) = running.finish();
    assert_eq!(code, (signal == Signal::INT).then_some(130), "{said}");
}

#[test]
fn what_runs_left_that_were_cut_short_twice_is_not_asked_about() {
    for signal in [Signal::KILL, Signal::INT] {
        let stage = Stage::new(&willing(&[leaves(1), leaves(2)])).in_place();
        cut_short(&stage, &[], 1, signal);
        cut_short(&stage, &[], 2, signal);
        stage.pipeline(&[]).exits(0);
        assert_eq!(stage.runs(), "piiiv");
        assert_eq!(stage.read("left.txt"), "half 1\nhalf 2\n");
        // The person's own changes are asked about as usual.
        stage.spec("0002-next.md");
        stage.write("mine.txt", "mine\n");
        let asked = stage.pipeline(&[]);
        asked.exits(3).says("uncommitted changes").says("mine.txt");
        assert!(!asked.finished.stderr.contains("left.txt"), "{}", asked.finished);
    }
}

#[test]
fn what_a_rejected_attempt_left_is_not_asked_about_when_the_next_is_cut_short() {
    let stage = Stage::new(&willing(&[
        on("implementer", 1, "append left.txt half ${INVOCATION}\nfinal no"),
        leaves(2),
    ]))
    .in_place();
    cut_short(&stage, &[], 2, Signal::KILL);
    stage.pipeline(&[]).exits(0);
    assert_eq!(stage.runs(), "piiiv");
}

#[test]
fn what_the_run_of_another_spec_left_is_not_asked_about() {
    let specs = ["0001-first.md", "0002-second.md", "0003-third.md"];
    for signal in [Signal::KILL, Signal::INT] {
        let stage = Stage::with(&willing(&[leaves(1)]), "", &specs).in_place();
        cut_short(&stage, &[], 1, signal);
        stage.pipeline(&["3"]).exits(0);
        assert_eq!(stage.runs(), "pipiv");
        assert_eq!(stage.read("left.txt"), "half 1\n");
    }
}
