//! Git locks left by a killed run or a killed Ralph: removed, and recorded.

use std::fs;

use rustix::process::Signal;

use super::{GREETS, Stage, on, willing};
use crate::harness::{PATIENCE, wait_for_file, wait_until};

fn notes(stage: &Stage) -> Vec<String> {
    let notes = stage.told("note");
    notes.iter().map(|note| note["reason"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn a_lock_that_a_killed_run_left_is_removed_and_costs_one_attempt() {
    let stage = Stage::new(&willing(&[on("implementer", 1, "run touch .git/index.lock\nhang")]));
    let ended = stage.pipeline(&["--timeout", "1s"]);
    ended.exits(0).says(".git/index.lock`, which a process left that no longer exists");
    assert_eq!(stage.runs(), "piiv");
    assert!(!stage.has(".git/index.lock"));
    assert_eq!(notes(&stage).len(), 1, "{:?}", notes(&stage));
}

#[test]
fn a_lock_that_was_there_before_the_run_is_left_alone() {
    let stage = Stage::new(&willing(&[on("implementer", 1, "final not yet")]));
    stage.write(".git/HEAD.lock", "");
    stage.pipeline(&["--max-attempts", "1"]);
    assert!(stage.has(".git/HEAD.lock"));
}

#[test]
fn a_lock_that_a_run_of_a_killed_ralph_left_is_removed_at_the_next_start() {
    let stage = Stage::new(&willing(&[on(
        "implementer",
        1,
        "run touch .git/index.lock .git/locked\nhang",
    )]))
    .in_place();
    let running = stage.place.start(&["pipeline"]);
    // Not the lock itself, which Ralph takes as well.
    wait_for_file(&stage.file(".git/locked"));
    running.signal(Signal::KILL);
    running.finish();
    wait_until(PATIENCE, "the run is dead", || {
        crate::support::process::processes_marked(stage.place.env.mark()).is_empty()
    });
    stage.pipeline(&[]).exits(0).says(".git/index.lock`, which a process left");
    assert!(!stage.has(".git/index.lock"));
    assert_eq!(notes(&stage).len(), 1, "{:?}", notes(&stage));
}

#[test]
fn a_lock_of_the_notes_that_a_killed_ralph_left_does_not_end_the_next_run() {
    let stage = Stage::with(&willing(&[]), GREETS, &["0001-greeting.md"]);
    let lock = stage.file(".git/refs/notes/ralph.lock");
    fs::create_dir_all(lock.parent().unwrap()).unwrap();
    fs::write(&lock, "").unwrap();
    stage.pipeline(&[]).exits(0).says("refs/notes/ralph.lock`, which a process left");
    assert!(!lock.exists());
    assert_eq!(stage.row("0001-greeting.md")["proof"], "gates passed");
    assert_eq!(notes(&stage).len(), 1, "{:?}", notes(&stage));
}
