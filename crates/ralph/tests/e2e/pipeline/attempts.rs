//! Attempts and the order of specs: what is spent, what stops a run, what starts over.

use serde_json::json;

use super::{BUILDS, PLANS, Stage, willing};

/// Two specs whose verifier always rejects the first one.
fn hopeless() -> Stage {
    let verifier =
        "[verifier]\nrun case $RALPH_SPEC in *0001*) exit 1;; esac\nfinal Bad ${INVOCATION}.\n";
    Stage::with(&format!("{PLANS}{BUILDS}{verifier}"), "", &["0001-first.md", "0002-second.md"])
}

#[test]
fn a_spec_without_attempts_left_stops_the_run_and_says_what_was_tried() {
    let stage = hopeless();
    let ended = stage.pipeline(&["--max-attempts", "2"]);
    ended.exits(1).says("0001-first.md: no attempts left").says("Not reached: 1");
    ended.says("1. verify: ").says("Bad 1.").says("2. verify: ").says("Bad 2.");
    assert_eq!(stage.runs(), "piviv");
    let plan = stage.json("ralph/specs/plans/0001-first.json");
    assert_eq!((&plan["attempts_used"], plan["tries"].as_array().unwrap().len()), (&json!(2), 2));
    assert!(!stage.has("ralph/specs/plans/0002-second.json"));
    // It stays spent; no run is wasted on it.
    stage.pipeline(&["--max-attempts", "2"]).exits(1).says("Bad 2.");
    assert_eq!(stage.runs(), "piviv");
    let rows: serde_json::Value = stage.pipeline(&["--max-attempts", "2", "--json"]).json();
    assert_eq!(rows["specs"][0]["result"], "failed");
    assert_eq!(rows["not_reached"], 1);
}

#[test]
fn keep_going_goes_on_with_the_next_spec() {
    let stage = hopeless();
    stage.pipeline(&["--max-attempts", "1", "--keep-going"]).exits(1).says("Failed: 2");
    assert_eq!(stage.runs(), "pivpiv");
}

#[test]
fn naming_a_spec_or_retry_gives_it_a_fresh_budget() {
    let stage = hopeless();
    let one = ["--max-attempts", "1"];
    stage.pipeline(&one).exits(1);
    stage.pipeline(&[&one[..], &["0001"]].concat()).exits(1);
    assert_eq!(stage.runs(), "piviv");
    // The feedback is kept when the count is reset.
    assert!(stage.prompt("implementer", 2).contains("Bad 1."));
    stage.pipeline(&[&one[..], &["--retry"]].concat()).exits(1);
    assert_eq!(stage.runs(), "piviviv");
    assert_eq!(stage.row("0001-first.md")["attempts_used"], 1);
}

#[test]
fn a_forced_spec_is_done_again_with_its_plan() {
    let stage = Stage::new(&willing(&[]));
    stage.pipeline(&[]).exits(0);
    let first = stage.row("0001-greeting.md")["commit"].clone();
    stage.pipeline(&["--force", "1"]).exits(0);
    assert_eq!(stage.runs(), "piviv");
    let archived = stage.read("ralph/specs/done/0001-greeting.attempt-1.md");
    assert!(archived.contains(first.as_str().unwrap()), "{archived}");
    let second = stage.row("0001-greeting.md")["commit"].clone();
    assert_ne!(first, second);
    assert!(stage.prompt("implementer", 2).contains("# Plan 1"));
    stage.pipeline(&["--force", "1"]).exits(0);
    assert!(
        stage
            .read("ralph/specs/done/0001-greeting.attempt-2.md")
            .contains(second.as_str().unwrap())
    );
    stage.pipeline(&["--force", "9"]).exits(2);
}

#[test]
fn specs_are_taken_in_order_up_to_the_one_that_is_named() {
    let stage = Stage::with(&willing(&[]), "", &["0002-b.md", "0001-a.md", "0003-c.md"]);
    stage.pipeline(&["--to", "2"]).exits(0).says("Completed: 2");
    assert_eq!(stage.runs(), "pivpiv");
    let order: Vec<_> = stage.told("spec_start").iter().map(|e| e["spec"].clone()).collect();
    assert_eq!(order, ["0001-a.md", "0002-b.md"]);
    assert_eq!(stage.row("0003-c.md")["state"], "fresh");
    stage.pipeline(&["--to", "7"]).exits(2);
}

/// A summary that says nothing more may follow what failed; the log has all of it.
#[test]
fn failing_tests_are_told_before_the_end_of_the_output_and_the_log_is_named() {
    let summary = "i=0; while [ $i -lt 20 ]; do echo \"# $i\"; i=$((i+1)); done";
    let gate = format!(
        "test ! -e greeting.txt || {{ echo 'not ok 1 - greets'; echo '  expected: 3'; {summary}; exit 1; }}"
    );
    let settings = format!("[[gate]]\nname = \"tests\"\nrun = [\"sh\", \"-c\", {gate:?}]\n");
    let stage = Stage::with(&willing(&[]), &settings, &["0001-greeting.md"]);
    let ended = stage.pipeline(&["--max-attempts", "2"]);
    let private = stage.private().display().to_string();
    ended.exits(1).says(&format!("[log] {private}/gates/"));
    let prompt = stage.prompt("implementer", 2);
    let at = |text: &str| prompt.find(text).unwrap_or_else(|| panic!("no `{text}`: {prompt}"));
    assert!(at("not ok 1 - greets") < at("  expected: 3") && at("  expected: 3") < at("# 19"));
    let shown = stage.ralph(&["specs", "show", "1"]).finished.stdout;
    assert!(shown.contains("not ok 1 - greets"), "{shown}");
    assert!(shown.contains(&format!("the logs of its gates: {private}/gates/")), "{shown}");
}
