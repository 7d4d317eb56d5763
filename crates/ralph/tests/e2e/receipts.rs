//! Receipts: anyone with a clone can repeat the checks on which a commit was accepted.

use std::fs;
use std::time::Duration;

use ralph_model::gate::{Attribution, Check, GateSpec, GateStatus};
use ralph_model::receipt::{BoundaryInForce, Caches, GateReceipt, Point, Receipt, Version, Worker};
use ralph_model::testcount::TestCounts;
use serde_json::{Value, json};

use crate::gates::Gated;
use crate::harness::{PATIENCE, RALPH};
use crate::support::process::{Finished, run};
use crate::support::text;

/// Adds a receipt to `HEAD`, like Ralph: the gate ran `argv` and executed `tests`.
pub(crate) fn attest(gated: &Gated, argv: &[&str], finding: Attribution, tests: u64) {
    let git = |args: &[&str]| gated.place.env.git(args);
    let point = |name: &str| Point {
        commit: git(&["rev-parse", name]).parse().unwrap(),
        tree: git(&["rev-parse", &format!("{name}^{{tree}}")]).parse().unwrap(),
    };
    let passed = finding == Attribution::Passed;
    let receipt = Receipt {
        version: Version::default(),
        created_at: jiff::Timestamp::UNIX_EPOCH,
        ralph: "0.0.0".to_owned(),
        item: "0001-work".to_owned(),
        base: point("HEAD~1"),
        candidate: point("HEAD"),
        worker: Worker { agent: "rehearsal".to_owned(), model: None },
        boundary: BoundaryInForce::Kernel,
        setup: vec![],
        caches: Caches::Cold,
        level: None,
        checks: vec![],
        gates: vec![GateReceipt {
            gate: GateSpec {
                name: "tests".to_owned(),
                check: Check::Command {
                    argv: argv.iter().map(|word| (*word).to_owned()).collect(),
                },
                timeout: Duration::from_mins(1),
                repo: None,
                paths: vec![],
                fast: false,
                net: false,
                unix: false,
            },
            result: if passed {
                GateStatus::Passed
            } else {
                GateStatus::Failed { exit: ralph_model::run::ProcessExit::Code(1) }
            },
            duration: Duration::from_secs(1),
            output_sha256: "0".repeat(64),
            tests: (tests > 0).then_some(TestCounts { passed: tests, ..TestCounts::default() }),
            finding,
        }],
        verifier: None,
    };
    fs::write(gated.place.path("receipt"), receipt.render()).unwrap();
    let path = text(&gated.place.path("receipt"));
    git(&["notes", "--ref=ralph", "add", "--force", "--file", &path, "HEAD"]);
}

/// Runs `ralph verify` in a directory.
fn verify(gated: &Gated, directory: &str, args: &[&str]) -> Finished {
    let mut all = vec!["verify", "--yes", "--root", directory];
    all.extend_from_slice(args);
    let ralph = std::path::Path::new(RALPH);
    run(&gated.place.env, ralph, &all, &gated.place.variables(), "", PATIENCE)
}

const THREE_TESTS: &str = "echo 'test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s'";

#[test]
fn receipts_are_checked_on_a_fresh_clone_without_any_configuration() {
    let gated = Gated::new(THREE_TESTS, "");
    gated.write("work", "1");
    gated.commit("work");
    attest(&gated, &["./check"], Attribution::Passed, 3);
    gated.write("work", "2");
    gated.commit("more work, no receipt");
    let without_remote = verify(&gated, &text(&gated.place.env.repo()), &["HEAD"]);
    assert_eq!(without_remote.status.code(), Some(2), "{without_remote}");
    assert!(!without_remote.stderr.contains("git fetch"), "{without_remote}");
    let clone = text(&gated.place.path("clone"));
    gated.place.env.git(&["clone", "--quiet", ".", &clone]);
    let bare = verify(&gated, &clone, &["HEAD~1"]);
    assert_eq!(bare.status.code(), Some(2), "{bare}");
    assert!(bare.stderr.contains("git fetch origin refs/notes/ralph"), "{bare}");
    let notes = "refs/notes/ralph:refs/notes/ralph";
    gated.place.env.git(&["-C", &clone, "fetch", "--quiet", "origin", notes]);
    let one = verify(&gated, &clone, &["HEAD~1"]);
    assert_eq!(one.status.code(), Some(0), "{one}");
    assert!(one.stdout.contains("holds: gates passed, unsigned (0001-work)"), "{one}");
    assert!(one.stdout.contains("✓"), "{one}");
    let range = verify(&gated, &clone, &["--json", "HEAD~2..HEAD"]);
    assert_eq!(range.status.code(), Some(0), "{range}");
    let rows: Value = serde_json::from_str(&range.stdout).unwrap();
    assert_eq!((&rows[0]["holds"], &rows[1]["holds"]), (&json!(true), &Value::Null), "{rows}");
    assert_eq!(rows[0]["gates"][0]["now"]["run"]["tests"]["passed"], 3);
    assert_eq!((&rows[0]["signed"], &rows[0]["level"]), (&json!(false), &json!("gates_passed")));
}

#[test]
fn a_receipt_that_says_more_than_is_true_does_not_hold() {
    let gated = Gated::new(THREE_TESTS, "");
    gated.write("work", "1");
    gated.commit("work");
    let repo = text(&gated.place.env.repo());
    for (argv, finding, tests, expected) in [
        (&["./check"][..], Attribution::Passed, 4, "it executed 4 tests, and now 3"),
        (&["false"], Attribution::Passed, 0, "it fails now (exit 1)"),
        (&["./nothing"], Attribution::Passed, 0, "it cannot be run"),
    ] {
        attest(&gated, argv, finding, tests);
        let finished = verify(&gated, &repo, &["HEAD"]);
        assert_eq!(finished.status.code(), Some(1), "{finished}");
        assert!(finished.stdout.contains(expected), "{finished}");
    }
    attest(&gated, &["false"], Attribution::RedBeforeAndAfter, 0);
    let red = verify(&gated, &repo, &["HEAD"]);
    assert_eq!(red.status.code(), Some(0), "red then and red now, {red}");
    assert!(red.stdout.contains("holds: not proven, unsigned"), "{red}");
    assert!(red.stdout.contains("red before and after") && !red.stdout.contains("✓"), "{red}");
}

#[test]
fn a_receipt_without_a_gate_and_one_whose_gate_tests_nothing_have_no_tick() {
    let no_tests = "echo 'test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s'";
    let gated = Gated::new(no_tests, "");
    gated.write("work", "1");
    gated.commit("work");
    let repo = text(&gated.place.env.repo());
    attest(&gated, &["./check"], Attribution::ProvedNothing, 0);
    let nothing = verify(&gated, &repo, &["HEAD"]);
    assert_eq!(nothing.status.code(), Some(0), "{nothing}");
    assert!(nothing.stdout.contains("holds: not proven, unsigned"), "{nothing}");
    assert!(!nothing.stdout.contains("✓"), "{nothing}");

    let note = gated.place.env.git(&["notes", "--ref=ralph", "show", "HEAD"]);
    let mut receipt = Receipt::parse(&note).unwrap();
    receipt.gates.clear();
    let text_of = receipt.render();
    gated.place.env.git(&["notes", "--ref=ralph", "add", "--force", "--message", &text_of, "HEAD"]);
    let empty = verify(&gated, &repo, &["HEAD"]);
    assert_eq!(empty.status.code(), Some(1), "{empty}");
    assert!(empty.stdout.contains("proves nothing: no gate ran, unsigned"), "{empty}");
    assert!(!empty.stdout.contains("✓"), "{empty}");
}

#[test]
fn a_note_that_is_no_receipt_of_its_commit_does_not_hold() {
    let gated = Gated::new(THREE_TESTS, "");
    gated.write("work", "1");
    gated.commit("work");
    attest(&gated, &["./check"], Attribution::Passed, 3);
    let note = gated.place.env.git(&["notes", "--ref=ralph", "show", "HEAD"]);
    gated.commit("another");
    let repo = text(&gated.place.env.repo());
    for (text, expected) in [
        (note.as_str(), "is about"),
        ("looks good to me", "is not a receipt"),
        (&note.replace("\"version\": 2", "\"version\": 99"), "newer Ralph"),
    ] {
        gated.place.env.git(&["notes", "--ref=ralph", "add", "--force", "--message", text, "HEAD"]);
        let finished = verify(&gated, &repo, &["HEAD"]);
        assert_eq!(finished.status.code(), Some(1), "{finished}");
        assert!(finished.stdout.contains(expected), "{finished}");
    }
    assert_eq!(verify(&gated, &repo, &["nothing"]).status.code(), Some(2));
}
