//! `ralph runs`: each run's claim and decision, and work that was not accepted.

use std::fs;

use serde_json::Value;

use crate::clones::{ONE, isolated};
use crate::pipeline::{GREETS, Stage, on, willing};

const RUDE: &str = "session s-rude\nwrite greeting.txt adieu\nwrite bytes.bin \\u{1b}[31mred\n\
    run git add -A; git commit -qm rude\nfinal <<END\n${HEAD}\nI AM HYPER SURE I AM DONE!\nEND";

/// A stage whose only implementer was rejected by the gate.
fn rejected() -> Stage {
    let stage = isolated(&willing(&[on("implementer", 1, RUDE)]), GREETS, ONE);
    stage.pipeline(&["--max-attempts", "1"]).exits(1);
    stage
}

fn json(stage: &Stage, args: &[&str]) -> Value {
    stage.ralph(args).exits(0).json()
}

#[test]
fn runs_are_listed_with_what_was_decided_and_shown_with_the_reason() {
    let stage = rejected();
    let runs = json(&stage, &["runs", "--json"]);
    let roles: Vec<&str> =
        runs.as_array().unwrap().iter().map(|run| run["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["planner", "implementer"]);
    let run = &runs[1];
    assert_eq!(run["verdict"]["verdict"], "rejected", "{run}");
    assert_eq!(
        (&run["session"], &run["slot"], &run["item"]),
        (&"s-rude".into(), &1.into(), &"0001-greeting".into())
    );
    let log = fs::read_to_string(run["log"].as_str().unwrap()).unwrap();
    assert!(log.contains("s-rude"), "{log}");
    let last = json(&stage, &["runs", "list", "--last", "1", "--item", "0001", "--json"]);
    assert_eq!(last.as_array().unwrap().len(), 1);
    let id = run["id"].as_str().unwrap();
    assert_eq!(json(&stage, &["runs", "show", id, "--json"])["id"], id);
    stage
        .ralph(&["runs", "show", "0001-greeting"])
        .exits(0)
        .prints("rejected (judge)")
        .prints("greets")
        .prints("s-rude")
        .prints("greeting.txt")
        .prints("ralph runs take 0001-greeting");
    stage.ralph(&["runs", "show", "nobody"]).exits(2).says("run or item `nobody` not found");
}

#[test]
fn rejected_work_is_shown_as_a_diff_that_can_be_applied() {
    let stage = rejected();
    let told = stage.ralph(&["runs", "diff", "0001-greeting"]);
    told.exits(0).prints("+adieu");
    let patch = stage.place.path("patch");
    fs::write(&patch, &told.finished.stdout).unwrap();
    stage.git(&["apply", patch.to_str().unwrap()]);
    assert_eq!(stage.read("greeting.txt"), "adieu\n");
    stage.ralph(&["runs", "diff", "0001-greeting", "--stat"]).exits(0).prints("greeting.txt");
}

#[test]
fn rejected_work_becomes_a_branch_and_no_branch_is_ever_moved() {
    let stage = rejected();
    let main = stage.git(&["rev-parse", "main"]);
    stage.ralph(&["runs", "take", "0001-greeting"]).exits(0).prints("ralph/0001-greeting");
    assert_eq!(stage.git(&["show", "ralph/0001-greeting:greeting.txt"]), "adieu");
    assert_eq!(stage.git(&["log", "-1", "--format=%s", "ralph/0001-greeting"]), "rude");
    stage.ralph(&["runs", "take", "0001-greeting"]).exits(0).prints("is there already");
    stage.ralph(&["runs", "take", "0001-greeting", "main"]).exits(2).says("was not moved");
    assert_eq!(stage.git(&["rev-parse", "main"]), main);
    stage.ralph(&["runs", "take", "0001-greeting", "a..b"]).exits(1);
    stage.git(&["fsck", "--strict"]);
    assert_eq!(stage.git(&["status", "--porcelain"]), "");
}

#[test]
fn the_events_of_the_last_run_are_told_and_harmless() {
    let stage = rejected();
    stage.ralph(&["runs", "tail"]).exits(0).prints("[session] s-rude");
    let told = stage.ralph(&["runs", "tail", "-f", "0001-greeting", "--json"]);
    told.exits(0);
    let first: Value = serde_json::from_str(told.finished.stdout.lines().next().unwrap()).unwrap();
    assert_eq!(first["event"]["id"], "s-rude", "{first}");
}

/// An accepted attempt builds on a rejected one: its diff is all of the work, and it is not called rejected.
#[test]
fn accepted_work_is_shown_from_where_its_item_began_and_is_called_accepted() {
    let better = "write more.txt more\nwrite greeting.txt hello\nrun git add -A; git commit -qm better\n\
                  final <<END\n${HEAD}\nI AM HYPER SURE I AM DONE!\nEND";
    let script = willing(&[on("implementer", 1, RUDE), on("implementer", 2, better)]);
    let stage = isolated(&script, GREETS, ONE);
    stage.pipeline(&[]).exits(0);
    let told = stage.ralph(&["runs", "diff", "0001-greeting"]);
    told.exits(0).prints("+more").prints("bytes.bin");
    let taken = stage.ralph(&["runs", "take", "0001-greeting"]);
    taken.exits(0).prints("it was accepted, and your branch has it");
    let runs = json(&stage, &["runs", "--json"]);
    let rejected = runs[1]["id"].as_str().unwrap();
    stage
        .ralph(&["runs", "take", rejected, "rude"])
        .exits(0)
        .prints("it was not accepted; your branch");
}
