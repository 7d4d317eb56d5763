//! A person's decision on an item in progress: its run is stopped soon, nothing of it lands, and its work is kept.

use std::fs;

use crate::clones::ONE;
use crate::pipeline::{Stage, on, willing};

/// An implementer that commits something, and would never end.
const ENDLESS: &str = "write greeting.txt hello\ncommit \"half\" greeting.txt\nwrite left.txt left\nrun touch begun; sleep 600";

/// Plays a spec until its implementer is running, then an action of the person; it ends by itself.
fn withdrawn(person: impl FnOnce(&Stage)) -> (Stage, String) {
    withdrawn_on(Stage::with("", "", &[ONE[0], "0002-other.md"]), person)
}

fn withdrawn_on(stage: Stage, person: impl FnOnce(&Stage)) -> (Stage, String) {
    stage.script(&willing(&[on("implementer", 1, ENDLESS)]));
    let running = stage.place.start(&["pipeline"]);
    stage.wait_in_slot("begun");
    person(&stage);
    let (code, said) = running.finish();
    assert_eq!(code, Some(0), "{said}");
    stage.place.assert_nothing_left();
    (stage, said)
}

fn assert_kept(stage: &Stage, said: &str) {
    assert!(said.contains("kept in refs/ralph/left/0001-greeting"), "{said}");
    assert_eq!(stage.git(&["show", "refs/ralph/left/0001-greeting:greeting.txt"]), "hello");
    assert_eq!(stage.git(&["show", "refs/ralph/left/0001-greeting:left.txt"]), "left");
    let outcomes = stage.told("run_finished");
    assert_eq!(outcomes[1]["outcome"]["kind"], "withdrawn", "{outcomes:?}");
    // The next spec was processed, in a clone without any of it.
    assert_eq!(stage.row("0002-other.md")["state"], "done");
    assert_eq!(stage.read("greeting.txt"), "hello 2\n");
    assert!(!stage.has("left.txt"));
    assert!(!stage.git(&["log", "--format=%s", "main"]).contains("half"));
}

#[test]
fn a_spec_that_is_marked_as_done_stops_its_run() {
    let (stage, said) = withdrawn(|stage| {
        stage.ralph(&["specs", "mark-done", "1"]).exits(0);
    });
    assert_kept(&stage, &said);
    assert_eq!(stage.row("0001-greeting.md")["state"], "done");
}

/// The branch has a spec that was not committed before the start only once it is done.
#[test]
fn a_spec_that_was_never_committed_is_marked_as_done_and_stops_its_run() {
    let stage = Stage::with("", "", &["0002-other.md"]);
    stage.spec(ONE[0]);
    let (stage, said) = withdrawn_on(stage, |stage| {
        assert_eq!(stage.git(&["ls-tree", "main", "ralph/specs/0001-greeting.md"]), "");
        stage.ralph(&["specs", "mark-done", "1"]).exits(0);
    });
    assert_kept(&stage, &said);
    assert_eq!(stage.row("0001-greeting.md")["state"], "done");
}

#[test]
fn a_spec_that_is_removed_stops_its_run() {
    let (stage, said) = withdrawn(|stage| {
        stage.git(&["rm", "-q", "ralph/specs/0001-greeting.md"]);
        stage.git(&["commit", "-qm", "not wanted"]);
    });
    assert_kept(&stage, &said);
    assert!(said.contains("the spec was removed"), "{said}");
    assert!(!stage.has("ralph/specs/done/0001-greeting.md"));
}

/// Only a commit on the run's branch decides on the item: checking out another branch does not.
#[test]
fn a_person_who_switches_or_commits_something_else_stops_nothing() {
    let stage = Stage::with("", "", ONE);
    stage.git(&["branch", "bare", "HEAD~1"]);
    let go = stage.waiting();
    let works = format!(
        "write greeting.txt hello\ncommit \"work\" greeting.txt\nrun touch begun\n{go}\
         run rm begun\nfinal <<END\n${{COMMIT}}\nI AM HYPER SURE I AM DONE!\nEND"
    );
    stage.script(&willing(&[on("implementer", 1, &works)]));
    let running = stage.place.start(&["pipeline"]);
    stage.wait_in_slot("begun");
    stage.git(&["switch", "-q", "bare"]);
    assert!(!stage.has("ralph/specs/0001-greeting.md"));
    stage.git(&["switch", "-q", "main"]);
    fs::write(stage.file("mine.txt"), "mine\n").unwrap();
    stage.git(&["add", "mine.txt"]);
    stage.git(&["commit", "-qm", "mine"]);
    stage.go();
    let (code, said) = running.finish();
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(stage.runs(), "piv");
    assert_eq!(stage.read("greeting.txt"), "hello\n");
}
