//! State files in unusual conditions: written by hand, incomplete, corrupt, in area directories.

use std::fs;

use rustix::process::Signal;
use serde_json::json;

use crate::harness::{PATIENCE, wait_until};

use super::{PLANS, Stage, files_below, on, willing};

#[test]
fn a_plan_that_a_person_wrote_is_used_as_it_is() {
    let stage = Stage::new(&willing(&[]));
    let plan = "# My plan\n\nSay hello.\n";
    stage.write("ralph/specs/plans/0001-greeting.md", plan);
    stage.pipeline(&[]).exits(0).says("by hand");
    assert_eq!(stage.runs(), "iv");
    assert_eq!(stage.read("ralph/specs/plans/0001-greeting.md"), plan);
    assert_eq!(stage.json("ralph/specs/plans/0001-greeting.json")["status"], "active");
    assert!(stage.prompt("implementer", 1).contains("Say hello."));
}

#[test]
fn an_active_plan_without_its_text_is_made_again() {
    // A12.5: nothing is implemented without a plan.
    let stage = Stage::new(&willing(&[]));
    let meta = json!({
        "spec_rel": "0001-greeting.md", "spec_id": "0001-greeting", "status": "active",
        "created_at_utc": "2026-11-15T20:30:00Z", "invalidated_at_utc": null,
        "invalidation_reason": null, "attempt": 1, "kept": "by an older Ralph",
    });
    stage.write("ralph/specs/plans/0001-greeting.json", &meta.to_string());
    stage.place.commit_all("by an older Ralph");
    stage.pipeline(&[]).exits(0);
    assert_eq!(stage.runs(), "piv");
    assert!(stage.prompt("planner", 1).contains("plan file missing"));
    let plan = stage.json("ralph/specs/plans/0001-greeting.json");
    assert_eq!((&plan["attempt"], &plan["kept"]), (&json!(2), &json!("by an older Ralph")));
}

#[test]
fn a_plan_by_hand_counts_also_when_a_planner_was_killed() {
    // Planners write into their outbox, so a text at the plan's path is a person's. A12.2, a text that Ralph itself
    // wrote before it died, is recognised by its mark.
    let stage = Stage::new(&willing(&[on("planner", 1, "session plan-1\nhang")]));
    let running = stage.place.start(&["pipeline"]);
    wait_until(PATIENCE, "the planner is at work", || running.said().contains("[session]"));
    running.signal(Signal::KILL);
    running.finish();
    assert_eq!(stage.row("0001-greeting.md")["state"], "planning");
    stage.write("ralph/specs/plans/0001-greeting.md", "# Mine\n");
    stage.pipeline(&[]).exits(0);
    assert_eq!(stage.runs(), "piv");
    assert_eq!(stage.read("ralph/specs/plans/0001-greeting.md"), "# Mine\n");
}

#[test]
fn a_done_marker_without_its_candidate_marked_is_done_and_healed() {
    // A12.6: the done marker is written first, and it alone counts.
    let stage = Stage::new(&willing(&[]));
    stage.pipeline(&[]).exits(0);
    let path = "ralph/specs/candidates/0001-greeting.json";
    stage.write(path, &stage.read(path).replace("\"verified\"", "\"candidate\""));
    stage.place.commit_all("torn");
    stage.pipeline(&[]).exits(0).says("Skipped: 1");
    assert_eq!(stage.json(path)["status"], "verified");
    assert_eq!(stage.runs(), "piv");
}

#[test]
fn a_state_file_that_cannot_be_read_stops_the_command_and_is_left_alone() {
    for path in ["plans/0001-greeting.json", "candidates/0001-greeting.json"] {
        let stage = Stage::new(&willing(&[]));
        let path = format!("ralph/specs/{path}");
        let broken = "{\n  \"spec_rel\": \"0001-greeting.md\",\n  oops\n";
        stage.write(&path, broken);
        for args in [&["pipeline"][..], &["specs"], &["pipeline", "--dry-run"]] {
            let ended = stage.ralph(args);
            let code = ended.finished.status.code();
            assert!(matches!(code, Some(1 | 2)), "{args:?}: {}", ended.finished);
            ended.says(&path).says("line 3");
        }
        assert_eq!(stage.read(&path), broken);
        assert!(!stage.file("ralph/runs").exists());
    }
}

#[test]
fn a_session_file_that_cannot_be_read_is_dropped_and_said() {
    let stage = Stage::new(&willing(&[on("verifier", 1, "final Rude.\n")]));
    stage.write("ralph/specs/sessions/0001-greeting.json", "{ oops");
    stage.pipeline(&[]).exits(0).says("sessions/0001-greeting.json");
    assert_eq!(stage.runs(), "piviv");
    let sessions = stage.json("ralph/specs/sessions/0001-greeting.json");
    assert_eq!(sessions["impl_session_id"], "impl-2");
}

#[test]
fn the_same_name_in_two_areas_is_two_specs() {
    // A12.9 and A12.13: every path is derived from the whole name of the spec.
    let stage = Stage::with(
        &willing(&[on("verifier", 1, "final <<END\nNo.\nPLAN_INVALIDATION: another one\nEND")]),
        "",
        &["api/0001-greeting.md", "web/0001-greeting.md"],
    );
    stage.pipeline(&[]).exits(0).says("Completed: 2");
    assert_eq!(stage.runs(), "pivpivpiv");
    for area in ["api", "web"] {
        for (kind, end) in
            [("plans", "md"), ("plans", "json"), ("candidates", "json"), ("done", "md")]
        {
            let path = format!("ralph/specs/{kind}/{area}/0001-greeting.{end}");
            assert!(stage.has(&path), "{path}");
        }
    }
    assert!(stage.has("ralph/specs/plans/api/0001-greeting.attempt-1.md"));
    let commits =
        ["api", "web"].map(|area| stage.row(&format!("{area}/0001-greeting.md"))["commit"].clone());
    assert_ne!(commits[0], commits[1]);
    // A12.8: one directory per run, with logs named after role and attempt, never overwritten.
    let dirs: Vec<String> = stage
        .told("run_started")
        .iter()
        .map(|run| run["dir"].as_str().unwrap().to_owned())
        .collect();
    let distinct: std::collections::BTreeSet<&String> = dirs.iter().collect();
    assert_eq!(distinct.len(), 9);
    let of_area = |area: &str| dirs.iter().filter(|dir| dir.contains(&format!("/{area}"))).count();
    assert_eq!((of_area("api"), of_area("web")), (6, 3), "{dirs:?}");
    let log = fs::read_to_string(format!("{}/verify-attempt-2.log", dirs[5]));
    assert!(log.unwrap().contains("It holds."), "{dirs:?}");
    // Naming one of them without its area is an error that lists both.
    stage
        .pipeline(&["0001-greeting"])
        .exits(2)
        .says("api/0001-greeting.md")
        .says("web/0001-greeting.md");
}

#[test]
fn everything_that_is_wrong_with_the_specs_is_said_at_once() {
    let stage = Stage::with(
        &willing(&[]),
        "",
        &["0001-good.md", "README.md", "plans/0001-good.attempt-1.md"],
    );
    stage.write("ralph/specs/0002-blank.md", "\n \n");
    stage.write("ralph/specs/0003-flat.md", "Do it.\n\nNow.\n");
    stage.write("ralph/specs/area/0004-hollow.md", "text\n\n##   \n");
    let ended = stage.pipeline(&["--allow-dirty"]);
    ended.exits(2).says("0002-blank.md").says("0003-flat.md").says("area/0004-hollow.md:3");
    assert!(!stage.has("ralph/runs"));
    stage.pipeline(&["--skip-validation", "1"]).exits(0);
    stage.ralph(&["specs"]).exits(0);
}

#[test]
fn a_dry_run_says_what_would_happen_and_writes_nothing() {
    let stage = Stage::with(
        &willing(&[]),
        "",
        &["0001-done.md", "0002-rejected.md", "0003-planned.md", "0004-fresh.md"],
    );
    stage.pipeline(&["1"]).exits(0);
    stage.script(&format!(
        "{}{}",
        willing(&[]).replace("[verifier]", "[verifier 9]"),
        "[verifier]\nfinal Rude.\n"
    ));
    stage.pipeline(&["--to", "2", "--max-attempts", "1"]).exits(1);
    stage.write("ralph/specs/plans/0003-planned.md", "# By hand\n");
    let place = stage.place.path("");
    let before = files_below(&place);
    let ended = stage.pipeline(&["--dry-run"]);
    ended.exits(0).says("nothing was written");
    let forecast: Vec<String> = ended
        .finished
        .stdout
        .lines()
        .map(|line| line.split_whitespace().take(2).collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(
        forecast,
        [
            "0001-done.md skip",
            "0002-rejected.md implement",
            "0003-planned.md implement",
            "0004-fresh.md plan"
        ]
    );
    assert!(ended.finished.stdout.contains("written by hand"), "{}", ended.finished);
    assert!(
        stage
            .pipeline(&["--dry-run", "--force", "1", "--max-attempts", "1"])
            .finished
            .stdout
            .contains("no attempts left")
    );
    assert_eq!(files_below(&place), before);
}

#[test]
fn a_second_pipeline_in_the_same_home_is_refused() {
    // A12.7: one at a time. Atomic writes are tested where they are implemented.
    let stage = Stage::new(&willing(&[on("planner", 1, "session plan-1\nhang")]));
    let running = stage.place.start(&["pipeline"]);
    wait_until(PATIENCE, "the planner is at work", || running.said().contains("[session]"));
    stage.pipeline(&[]).exits(2).says("wait for it to finish, or stop it");
    running.signal(Signal::INT);
    let (code, said) = running.finish();
    assert_eq!(code, Some(130), "{said}");
    stage.pipeline(&[]).exits(0);
    assert_eq!(stage.runs(), "ppiv");
}

#[test]
fn every_event_is_one_line_of_the_text_log() {
    // A12.12: whatever a value contains.
    let stage =
        Stage::new(&willing(&[on("verifier", 1, "final <<END\nOne.\n=== two ===\nThree.\nEND")]));
    stage.settings("log_format = \"text\"\n");
    stage.pipeline(&[]).exits(0);
    let log = stage.read("ralph/ralph.log");
    assert!(log.lines().all(|line| line.starts_with("=== 20") && line.ends_with(" ===")), "{log}");
    assert!(log.contains("| verify_fail |") && log.contains("| spec_result |"), "{log}");
}

#[test]
fn a_plan_by_hand_counts_also_when_it_is_written_while_the_planner_is_at_work() {
    let plans = PLANS.split_once('\n').unwrap().1;
    let stage = Stage::new("");
    let waits = stage.waiting();
    stage.script(&willing(&[on("planner", 1, &format!("{waits}{plans}"))]));
    let running = stage.place.start(&["pipeline"]);
    wait_until(PATIENCE, "it plans", || stage.has("ralph/ralph.log") && stage.runs() == "p");
    stage.write("ralph/specs/plans/0001-greeting.md", "# Mine\n\nWave.\n");
    stage.go();
    let (code, said) = running.finish();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("written by hand during planning"), "{said}");
    assert_eq!(stage.runs(), "piv");
    assert_eq!(stage.read("ralph/specs/plans/0001-greeting.md"), "# Mine\n\nWave.\n");
    assert!(stage.prompt("implementer", 1).contains("Wave."));
    let row = stage.row("0001-greeting.md");
    assert_eq!((&row["state"], &row["attempts_used"]), (&json!("done"), &json!(0)));
}

#[test]
fn a_state_file_that_cannot_be_read_stops_no_other_spec_with_keep_going() {
    let specs = ["0001-first.md", "0002-broken.md", "0003-last.md"];
    for path in ["plans/0002-broken.json", "candidates/0002-broken.json"] {
        let path = format!("ralph/specs/{path}");
        for (args, runs, said) in
            [(&[][..], "piv", "Not reached: 1"), (&["--keep-going"], "pivpiv", "Completed: 2")]
        {
            let stage = Stage::with(&willing(&[]), "", &specs);
            let broken = "{\n  \"spec_rel\": \"0002-broken.md\",\n  oops\n";
            stage.write(&path, broken);
            stage.pipeline(args).exits(1).says(&path).says("line 3").says(said);
            assert_eq!(stage.runs(), runs, "{path} {args:?}");
            assert_eq!(stage.read(&path), broken);
        }
    }
}
