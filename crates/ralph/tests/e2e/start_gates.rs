//! Gates run at the base, before the first agent: one that cannot run stops the workflow, a red one is reported.

use std::fs;

use serde_json::json;

use crate::harness::Place;
use crate::pipeline::{GREETS, Stage, willing};

const MISSING: &str = "[[gate]]\nname = \"tests\"\nrun = [\"no-such-runner\", \"--all\"]\n";

/// A gate that is red until there is a greeting.
const RED: &str = "[[gate]]\nname = \"greets\"\nrun = [\"sh\", \"-c\", \"echo looked for it; test -e greeting.txt\"]\n";

fn stage(settings: &str) -> Stage {
    Stage::with(&willing(&[]), settings, &["0001-greeting.md"])
}

fn at(stage: &Stage, point: &str) -> usize {
    stage.told("gate_started").iter().filter(|gate| gate["at"] == point).count()
}

#[test]
fn a_gate_whose_program_is_missing_stops_every_workflow_before_the_first_run() {
    let story = json!({"id": "US-001", "title": "x", "acceptanceCriteria": ["x"], "priority": 1, "passes": false, "notes": ""});
    let prd = json!({"branchName": "main", "userStories": [story]});
    let plan = [
        json!({"t": "spec", "spec": "greet.md"}),
        json!({"t": "task", "id": "t-a", "name": "a", "spec": "greet.md", "s": "p"}),
    ];
    let lines = plan.map(|record| record.to_string() + "\n").concat();
    for command in [&["pipeline"][..], &["build", "--yes"], &["run"], &["loop", "say hello"]] {
        let place = Place::rehearsing("[*]\nfinal nothing\n");
        let path = |name: &str| place.env.repo().join(name);
        let settings = fs::read_to_string(path("ralph.toml")).unwrap();
        fs::write(path("ralph.toml"), format!("limits.backoff = \"0s\"\n{settings}\n{MISSING}"))
            .unwrap();
        fs::create_dir_all(path("ralph/specs")).unwrap();
        let spec = if command == ["pipeline"] { "0001-greet.md" } else { "greet.md" };
        fs::write(path("ralph/specs").join(spec), "# Greet\n\nSay hello.\n").unwrap();
        fs::write(path("ralph/plan.jsonl"), &lines).unwrap();
        fs::write(path("ralph/prd.json"), format!("{prd:#}\n")).unwrap();
        place.commit_all("begin");
        let ended = place.ralph(command);
        assert_eq!(ended.status.code(), Some(2), "{command:?}: {ended}");
        for said in ["program `no-such-runner` not found", "[[gate]] `tests`", "--anyway"] {
            assert!(ended.stderr.contains(said), "{command:?}: not said: {said}\n{ended}");
        }
        assert_eq!(place.roles(), [""; 0], "{command:?}: {ended}");
        place.assert_nothing_left();
    }
}

#[test]
fn setup_that_fails_and_a_gate_that_takes_too_long_cannot_run_either() {
    let stage = stage(&format!(
        "[checkout]\nsetup = [[\"sh\", \"-c\", \"echo no registry >&2; exit 7\"]]\n{GREETS}"
    ));
    stage.pipeline(&[]).exits(2).says("no registry").says("`setup` of [checkout]");
    assert_eq!(stage.told("run_started").len(), 0);

    let slow = "[[gate]]\nname = \"slow\"\ntimeout = \"1s\"\nrun = [\"sh\", \"-c\", \"echo waiting; sleep 600\"]\n";
    let stage = self::stage(slow);
    stage.pipeline(&[]).exits(2).says("`timeout` of the [[gate]] `slow`").says("waiting");
    assert_eq!(stage.told("run_started").len(), 0);
    // It may have been the machine: without a change it is tried again.
    stage.pipeline(&[]).exits(2);
    assert_eq!((at(&stage, "base"), stage.told("run_started").len()), (2, 0));
}

#[test]
fn anyway_goes_on_with_a_gate_that_cannot_run() {
    let stage = stage(MISSING);
    let ended = stage.pipeline(&["--anyway"]);
    assert_ne!(ended.finished.status.code(), Some(2), "{}", ended.finished);
    ended.says("program `no-such-runner` not found");
    assert_eq!(stage.runs(), "piv", "{}", ended.finished);
    ended.exits(3).says("or will you fix it first?");
    // Nothing is fixed: the question stays.
    stage.pipeline(&[]).exits(3).says("program `no-such-runner` not found");
    // The person fixed it: the verified work is judged again, and no agent runs.
    stage.settings(&MISSING.replace("\"no-such-runner\", \"--all\"", "\"true\""));
    stage.pipeline(&[]).exits(0).says("[landed]");
    assert_eq!(stage.runs(), "piv");
    assert!(!stage.ralph(&["status"]).exits(0).finished.stdout.contains("waits for you"));
}

#[test]
fn a_red_gate_is_said_with_the_end_of_its_output_and_is_not_run_at_the_base_again() {
    for in_place in [false, true] {
        let stage = stage(RED);
        let stage = if in_place { stage.in_place() } else { stage };
        stage
            .pipeline(&[])
            .exits(0)
            .says("the gate `greets` already fails before any work (exit 1)")
            .says("looked for it");
        assert_eq!(stage.runs(), "piv");
        // The judge does not repeat it either: it compares with this result.
        assert_eq!((at(&stage, "base"), at(&stage, "candidate")), (1, 1), "in place: {in_place}");
    }
}

#[test]
fn a_second_start_at_the_same_tree_runs_no_gate_and_nothing_to_do_tries_none() {
    let stage = Stage::with(
        &willing(&[crate::pipeline::on("planner", 1, "exit 1")]),
        &format!("budget.iterations = 1\n{RED}"),
        &["0001-greeting.md"],
    );
    stage.pipeline(&[]).exits(1);
    assert_eq!((at(&stage, "base"), stage.runs().len()), (1, 1));
    stage.pipeline(&[]).exits(1).says("already fails before any work");
    assert_eq!((at(&stage, "base"), stage.runs().len()), (1, 2));

    let done = self::stage(GREETS);
    done.pipeline(&[]).exits(0);
    done.settings(MISSING);
    done.git(&["commit", "-qam", "another gate"]);
    done.pipeline(&[]).exits(0);
    assert_eq!(done.runs(), "piv");
}

#[test]
fn at_a_terminal_a_red_gate_is_a_question_whose_default_is_to_go_on() {
    let stage = stage(RED);
    let (code, said) = stage.place.at_terminal(&["pipeline"], b"n\n");
    assert!(said.contains("Continue anyway? [Y/n]"), "{said}");
    assert_eq!((code, stage.told("run_started").len()), (Some(0), 0), "{said}");
    let (code, said) = stage.place.at_terminal(&["pipeline"], b"\n");
    assert_eq!((code, stage.runs().as_str()), (Some(0), "piv"), "{said}");
}
