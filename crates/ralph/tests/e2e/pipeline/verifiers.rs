//! A failed verifier says nothing about the work: the same candidate is verified again, by another one.

use serde_json::json;

use super::{Stage, on, willing};

/// Plays a verifier that fails once, and asserts that only a verifier runs after it.
fn verified_again(verifier: &str, settings: &str, attempts: u32) -> Stage {
    let script = willing(&[on("verifier", 1, verifier)]);
    let mut stage = Stage::with(&script, settings, &["0001-greeting.md"]);
    // With detection only, the compared tree is the person's own.
    if settings.contains("detect") {
        stage = stage.in_place();
    }
    stage.pipeline(&[]).exits(0);
    assert_eq!(stage.runs(), "pivv", "{verifier}");
    assert_eq!(stage.told("candidate_written").len(), 1, "{verifier}");
    let row = stage.row("0001-greeting.md");
    assert_eq!(
        (&row["state"], &row["attempts_used"], &row["commit"]),
        (&json!("done"), &json!(attempts), &stage.told("candidate_written")[0]["commit"]),
        "{verifier}"
    );
    assert_eq!(stage.read("greeting.txt"), "hello 1\n");
    stage.place.assert_nothing_left();
    stage
}

#[test]
fn one_that_takes_too_long_costs_an_attempt_and_not_the_candidate() {
    let stage = verified_again("hang", "[roles.verifier]\ntimeout = \"300ms\"\n", 1);
    let why = stage.told("verify_fail")[0]["reason"].clone();
    assert!(why.as_str().unwrap().contains("took too long"), "{why}");
}

#[test]
fn one_that_breaks_its_boundary_costs_an_attempt_and_not_the_candidate() {
    let meddles = "run echo mine > $RALPH_HOME/../README.md\nfinal fine\n";
    let stage = verified_again(meddles, "boundary = \"detect\"\n", 1);
    assert_eq!(stage.read("README.md"), "A repository.\n");
    let why = stage.told("verify_fail")[0]["reason"].clone();
    assert!(why.as_str().unwrap().contains("README.md"), "{why}");
}

#[test]
fn one_that_crashes_costs_nothing() {
    for crash in ["crash", "final It is all wrong.\nexit 1"] {
        verified_again(crash, "", 0);
    }
}

#[test]
fn verifiers_that_never_come_to_an_end_use_up_the_attempts() {
    let stage = Stage::with(
        &willing(&[]).replace("[verifier]\n", "[verifier]\nhang\n"),
        "[roles.verifier]\ntimeout = \"300ms\"\n",
        &["0001-greeting.md"],
    );
    stage.pipeline(&["--max-attempts", "2"]).exits(1).says("no attempts left");
    assert_eq!(stage.runs(), "pivv");
    // The work still exists, and is verified once there is enough time.
    stage.settings("");
    stage.script(&willing(&[]));
    stage.pipeline(&["1"]).exits(0);
    assert_eq!(stage.runs(), "pivvv");
}
