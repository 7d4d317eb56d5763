//! Private state lost while judged work is pending: the item continues from what the person's repository keeps.

use std::fs;

use rustix::process::Signal;

use crate::clones::ONE;
use crate::harness::{PATIENCE, wait_until};
use crate::pipeline::{AGREES, GREETS, PHRASE, Stage, on, willing};

fn candidates(stage: &Stage) -> String {
    stage.git(&["for-each-ref", "--format=%(refname)", "refs/ralph/candidate/"])
}

/// A pipeline whose verifier was running when Ralph was killed; then private state is lost.
fn lost(person: impl FnOnce(&Stage)) -> Stage {
    let stage = Stage::with("", GREETS, ONE);
    let verifier = format!("run touch {}\nrun sleep 600", stage.place.path("verifying").display());
    stage.script(&willing(&[on("verifier", 1, &verifier)]));
    let running = stage.place.start(&["pipeline", "--boundary", "off"]);
    wait_until(PATIENCE, "the verifier begins", || stage.place.path("verifying").exists());
    running.signal(Signal::KILL);
    running.finish();
    assert!(candidates(&stage).contains("0001-greeting/work"), "{}", candidates(&stage));
    fs::remove_dir_all(stage.place.path("state")).unwrap();
    stage.git(&["gc", "--quiet", "--prune=now"]);
    person(&stage);
    stage
}

/// Asserts that only a verifier runs, whatever the person did meanwhile.
fn goes_on(stage: &Stage) {
    stage.script(&format!("{AGREES}[planner]\nexit 1\n[implementer]\nexit 1\n"));
    stage.pipeline(&[]).exits(0).says("the state of 0001-greeting was restored");
    assert_eq!(stage.runs(), "pivv");
    assert_eq!(stage.read("greeting.txt"), "hello 1\n");
    assert_eq!(stage.json("ralph/specs/plans/0001-greeting.json")["attempts_used"], 0);
    assert_eq!(candidates(stage), "");
    assert_eq!(stage.git(&["log", "--format=%s", "--grep=^work 1$"]).lines().count(), 1);
}

#[test]
fn a_candidate_is_verified_and_lands_although_private_state_was_lost() {
    goes_on(&lost(|_| {}));
}

#[test]
fn so_it_does_where_the_branch_has_moved_meanwhile() {
    let stage = lost(|stage| {
        stage.write("mine.txt", "mine\n");
        stage.git(&["add", "mine.txt"]);
        stage.git(&["commit", "-qm", "the person's"]);
    });
    goes_on(&stage);
    assert_eq!(stage.read("mine.txt"), "mine\n");
}

/// Rejected work is not a candidate, and discarded work is forgotten.
#[test]
fn only_work_that_holds_so_far_is_kept() {
    let rude = format!(
        "write greeting.txt adieu\ncommit \"rude\" greeting.txt\nfinal <<END\n${{COMMIT}}\n{PHRASE}\nEND"
    );
    let stage = Stage::with(&willing(&[on("implementer", 1, &rude)]), GREETS, ONE);
    stage.pipeline(&["--max-attempts", "1"]).exits(1);
    assert_eq!(candidates(&stage), "");
    stage.pipeline(&["1"]).exits(0);
    assert_eq!(candidates(&stage), "");
}
