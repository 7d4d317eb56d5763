//! The pipeline in `ralph status`.

use std::fs;

use rustix::process::Signal;
use serde_json::Value;

use crate::harness::{Place, wait_for_file};

const SCRIPT: &str = r"
[planner]
outbox plan.md Look whether it is there already.
final I AM HYPER SURE I AM DONE!

[implementer]
final <<END
NO_CHANGE_NEEDED: it is there already
${HEAD}
I AM HYPER SURE I AM DONE!
END

[verifier]
final <<END
${HEAD}
I AM HYPER SURE I AM DONE!
END
";

fn spec(place: &Place, name: &str) {
    let specs = place.env.repo().join("ralph/specs");
    fs::create_dir_all(&specs).unwrap();
    fs::write(specs.join(name), "# Something\n\nIt is wanted.\n").unwrap();
}

fn status(place: &Place) -> Value {
    let finished = place.ralph(&["status", "--json"]);
    serde_json::from_str(&finished.stdout).unwrap_or_else(|error| panic!("{error}\n{finished}"))
}

#[test]
fn the_status_counts_specs_names_the_next_and_shows_what_waits() {
    let place = Place::rehearsing(SCRIPT);
    assert_eq!(status(&place)["pipeline"], Value::Null);
    spec(&place, "0001-first.md");
    spec(&place, "0002-second.md");
    let fresh = status(&place)["pipeline"].clone();
    assert_eq!(fresh["counts"], serde_json::json!({ "fresh": 2 }));
    assert_eq!(fresh["next"], "0001-first.md");
    let screen = place.ralph(&["status"]);
    assert!(screen.stdout.contains("specs      2: 2 fresh; next: 0001-first.md"), "{screen}");
    assert!(screen.stdout.contains("try `ralph pipeline`"), "{screen}");

    let worked = place.ralph(&["pipeline", "--allow-dirty"]);
    assert_eq!(worked.status.code(), Some(3), "{worked}");
    let waiting = status(&place)["pipeline"].clone();
    assert_eq!(waiting["counts"], serde_json::json!({ "fresh": 1, "waiting": 1 }));
    let question = waiting["under_way"][0]["question"].as_str().unwrap();
    assert!(question.contains("it is there already"), "{waiting}");
    let screen = place.ralph(&["status"]);
    assert!(screen.stdout.contains("specs      2: 1 waiting, 1 fresh"), "{screen}");
    assert!(screen.stdout.contains("asks you: The agent says"), "{screen}");

    assert_eq!(place.ralph(&["answer", "yes"]).status.code(), Some(0));
    let to_first = place.ralph(&["pipeline", "--to", "1", "--allow-dirty"]);
    assert_eq!(to_first.status.code(), Some(0), "{to_first}");
    let done = status(&place)["pipeline"].clone();
    assert_eq!(done["counts"], serde_json::json!({ "done": 1, "fresh": 1 }));
    assert_eq!(done["next"], "0002-second.md");
}

#[test]
fn a_state_file_that_cannot_be_read_is_told_and_the_status_is_there_all_the_same() {
    let place = Place::new();
    spec(&place, "0001-first.md");
    let plans = place.env.repo().join("ralph/specs/plans");
    fs::create_dir_all(&plans).unwrap();
    fs::write(plans.join("0001-first.json"), "{").unwrap();
    let screen = place.ralph(&["status"]);
    assert_eq!(screen.status.code(), Some(0), "{screen}");
    assert!(screen.stdout.contains("plans/0001-first.json`, line 1"), "{screen}");
    assert_eq!(status(&place)["pipeline"]["problems"].as_array().unwrap().len(), 1);
}

#[test]
fn the_status_tells_the_stage_of_the_plan_and_what_is_next() {
    let place = Place::rehearsing(SCRIPT);
    assert_eq!(status(&place)["plan"], Value::Null);
    spec(&place, "a.md");
    let plan = "{\"t\": \"spec\", \"spec\": \"a.md\"}\n\
        {\"t\": \"task\", \"id\": \"t-aaaa\", \"spec\": \"a.md\", \"name\": \"First\", \"s\": \"p\"}\n\
        {\"t\": \"issue\", \"id\": \"i-aaaa\", \"spec\": \"a.md\", \"desc\": \"odd\"}\n";
    let path = place.env.repo().join("ralph/plan.jsonl");
    fs::write(&path, plan).unwrap();
    let found = status(&place)["plan"].clone();
    assert_eq!((&found["stage"], &found["pending"]), (&"BUILD".into(), &1.into()));
    let screen = place.ralph(&["status"]);
    let line = "plan       a.md: BUILD, 1 pending, 0 done, 1 issue; next: t-aaaa First";
    assert!(screen.stdout.contains(line), "{screen}");
    fs::write(&path, format!("{plan}<<<<<<< ours\n")).unwrap();
    let screen = place.ralph(&["status"]);
    assert!(screen.stdout.contains("plan.jsonl: line 4"), "{screen}");
}

#[test]
fn a_run_whose_ralph_was_killed_is_not_shown_as_running() {
    let place = Place::rehearsing("[builder]\nrun touch begun\nhang\n");
    let running = place.start(&["agent", "run", "work"]);
    wait_for_file(&place.env.repo().join("begun"));
    assert_eq!(status(&place)["runs"][0]["state"], "running");
    running.signal(Signal::KILL);
    running.finish();
    assert_eq!(status(&place)["runs"][0]["state"], "abandoned");
    let screen = place.ralph(&["status"]);
    assert!(screen.stdout.contains("Ralph was killed"), "{screen}");
}
