//! Faults of the machine and of agents around a run: each ends the run, is reported, and leaves nothing open.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::harness::{PATIENCE, Place, RALPH};
use crate::support::process::run;
use crate::support::text;

fn status(place: &Place) -> Value {
    let finished = place.ralph(&["status", "--json"]);
    serde_json::from_str(&finished.stdout).unwrap_or_else(|_| panic!("{finished}"))
}

/// The home of a workspace, with a spec in it.
fn home_of(place: &Place) -> PathBuf {
    let home = place.env.repo().join("ralph");
    fs::create_dir_all(home.join("specs")).unwrap();
    fs::write(home.join("specs/0001-a.md"), "# A\n\nIt is wanted.\n").unwrap();
    home
}

#[test]
fn a_run_that_cannot_be_prepared_is_over_and_is_trouble_of_the_machine() {
    for what in ["agent state", "logs"] {
        let place = Place::new();
        let home = home_of(&place);
        let file_in_the_way = match what {
            "agent state" => place.path("in-the-way"),
            _ => home.join("runs"),
        };
        fs::write(&file_in_the_way, "").unwrap();
        let state = text(&file_in_the_way);
        place.configure(&format!(
            "[agents.codex]\nexe = \"/bin/true\"\nenv = {{ CODEX_HOME = \"{state}\" }}\n"
        ));
        let report = place.agent_run(&["--agent", "codex"]);
        assert_eq!(report.trouble(), "machine", "{what}: {}", report.finished);
        assert_eq!(report.exit_code(), Some(1), "{what}: {}", report.finished);
        let reason = report.json["outcome"]["trouble"]["message"].as_str().unwrap();
        assert!(reason.contains(&state), "{what}: {reason}");
        let status = status(&place);
        let runs = status["runs"].as_array().unwrap();
        assert_eq!(runs.len(), 1, "{what}: {status}");
        assert_eq!(runs[0]["state"], "finished", "{what}: {status}");
        place.assert_nothing_left();
    }
}

#[test]
fn a_run_whose_ralph_dies_at_any_point_is_not_running_after_the_next_start() {
    let place = Place::new();
    let args = ["agent", "run", "do it", "--agent-cmd", "echo done"];
    // With existing private state, the start of the run is among the first writes.
    place.agent_run(&["--agent-cmd", "echo done"]);
    for point in 1..=6 {
        let mut variables = place.variables();
        variables.push(("RALPH_CRASH_AT".to_owned(), point.to_string()));
        run(&place.env, Path::new(RALPH), &args, &variables, "", PATIENCE);
        let report = place.agent_run(&["--agent-cmd", "echo done"]);
        assert_eq!(report.outcome(), "completed", "{point}: {}", report.finished);
        let status = status(&place);
        let runs = status["runs"].as_array().unwrap();
        assert!(runs.iter().all(|run| run["state"] != "running"), "{point}: {status}");
        let abandoned = runs.iter().filter(|run| run["state"] == "abandoned").count();
        assert!(point < 6 || abandoned >= 2, "{status}");
    }
    place.assert_nothing_left();
}

#[test]
fn a_mirror_that_cannot_be_written_is_reported_once_by_every_command_that_writes() {
    let place = Place::new();
    let home = home_of(&place);
    fs::create_dir(home.join("ralph.log")).unwrap();
    let report = place.agent_run(&["--agent-cmd", "echo done"]);
    assert_eq!(report.outcome(), "completed", "{}", report.finished);
    let agent = ["--agent-cmd", "echo done", "--allow-dirty", "--max-attempts", "1"];
    let worked = place.ralph(&[&["pipeline"][..], &agent].concat());
    for finished in [&report.finished, &worked] {
        let notes: Vec<&str> =
            finished.stderr.lines().filter(|line| line.contains("ralph/ralph.log`")).collect();
        assert_eq!(notes.len(), 1, "{finished}");
        assert!(notes[0].starts_with("[note] ") && notes[0].contains("directory"), "{finished}");
    }
}

#[test]
fn a_text_agent_at_its_limit_that_exits_with_0_spends_no_attempt() {
    let place = Place::new();
    home_of(&place);
    place.configure("limits.wait = false\n");
    let limited = "cat > /dev/null; echo You have hit your usage limit.";
    let worked =
        place.ralph(&["pipeline", "--agent-cmd", limited, "--allow-dirty", "--max-attempts", "1"]);
    let status = status(&place);
    let runs = status["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 1, "{worked}");
    assert_eq!(runs[0]["outcome"]["trouble"]["kind"], "usage_limit", "{worked}");
    assert_eq!(status["waits"][0]["known"], false, "{status}");
    // `ralph agent run` accepts any answer.
    let place = Place::new();
    let answered = place.agent_run(&["--agent-cmd", "echo 429 means Too Many Requests"]);
    assert_eq!(answered.outcome(), "completed", "{}", answered.finished);
}

#[test]
fn what_a_crashed_agent_said_last_and_where_its_log_is_are_shown() {
    let place = Place::new();
    let finished =
        place.ralph(&["agent", "run", "do it", "--agent-cmd", "cat > /dev/null; no-such-agent"]);
    assert!(finished.stderr.contains("exit 127: "), "{finished}");
    assert!(finished.stderr.contains("no-such-agent: not found"), "{finished}");
    let screen = place.ralph(&["status"]);
    assert!(screen.stdout.contains("not found"), "{screen}");
    let runs = status(&place)["runs"].clone();
    let log = runs[0]["log"].as_str().unwrap().to_owned();
    assert!(log.ends_with("/builder-attempt-1.log"), "{log}");
    assert!(fs::exists(&log).unwrap(), "{log}");
    assert!(screen.stdout.contains("builder-attempt-1.log"), "{screen}");
}

#[test]
fn logs_are_named_after_the_phase() {
    let place = Place::new();
    for (role, name) in [
        ("planner", "/plan-attempt-1.log"),
        ("implementer", "/impl-attempt-1.log"),
        ("verifier", "/verify-attempt-1.log"),
        ("builder", "/builder-attempt-1.log"),
    ] {
        let report = place.agent_run(&["--role", role, "--agent-cmd", "echo done"]);
        let log = report.json["log"].as_str().unwrap();
        assert!(log.ends_with(name), "{log}");
    }
}

#[test]
fn the_format_of_the_mirror_is_a_flag_too() {
    let place = Place::new();
    let home = home_of(&place);
    for (flag, begins) in [("text", "=== 20"), ("json", "{")] {
        let report = place.agent_run(&["--log-format", flag, "--agent-cmd", "echo done"]);
        assert_eq!(report.outcome(), "completed", "{}", report.finished);
        let log = fs::read_to_string(home.join("ralph.log")).unwrap();
        assert!(log.lines().last().unwrap().starts_with(begins), "{flag}: {log}");
    }
    let refused = place.ralph(&["status", "--log-format", "xml"]);
    assert_eq!(refused.status.code(), Some(2), "{refused}");
}

#[test]
fn a_spec_marked_by_hand_is_done_at_a_whole_second() {
    let place = Place::new();
    let home = home_of(&place);
    let marked = place.ralph(&["specs", "mark-done", "1"]);
    assert_eq!(marked.status.code(), Some(0), "{marked}");
    let done = fs::read_to_string(home.join("specs/done/0001-a.md")).unwrap();
    let times: Vec<&str> = done
        .split_whitespace()
        .filter(|word| word.starts_with("20") && word.ends_with('Z'))
        .collect();
    assert!(!times.is_empty() && times.iter().all(|time| !time.contains('.')), "{done}");
}
