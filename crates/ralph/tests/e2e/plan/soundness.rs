//! Corrupt files: mutations stop and name the line, `ralph validate` reports everything at once.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::Value;

use crate::harness::PATIENCE;
use crate::support::process::run;

use super::{Desk, PLAN, json};

/// B12.1: nothing after an unparsable line is lost.
#[test]
fn b12_1_a_bad_line_stops_every_change_and_loses_nothing() {
    let desk = Desk::with_tasks(2);
    let plan = desk.plan();
    for bad in [
        "<<<<<<< HEAD",
        "{\"t\": \"task\", ",
        "not json",
        "{\"t\": \"task\", \"id\": \"t-x\", \"s\": \"p\"}",
    ] {
        desk.write_plan(&plan.replacen('\n', &format!("\n{bad}\n"), 1));
        for args in [
            &["task", "add", "x"][..],
            &["task", "done", "t-0001"],
            &["task", "delete", "t-0001"],
            &["task", "prioritize"],
            &["issue", "add", "x"],
            &["set-spec", "area/other", "--yes"],
        ] {
            let said = desk.refused(args);
            assert!(said.contains("ralph/plan.jsonl`"), "the file is named: {bad}: {said}");
            assert!(said.contains("line 2") && said.contains("ralph validate"), "{bad}: {said}");
        }
        let state = desk.done(&["query", "tasks"]);
        assert_eq!(state["pending"].as_array().unwrap().len(), 2, "queries go on: {bad}");
        let validated = desk.ralph(&["validate"]);
        assert_eq!(validated.status.code(), Some(1));
        assert!(validated.stdout.contains("plan.jsonl:2:"), "{validated}");
    }
}

#[test]
fn a_conflict_is_told_once_with_all_its_lines() {
    let desk = Desk::with_tasks(1);
    desk.write_plan(&format!("<<<<<<< ours\n{}=======\n>>>>>>> theirs\n", desk.plan()));
    let said = desk.refused(&["task", "add", "x"]);
    assert!(said.contains("lines 1, 4, 5: "), "{said}");
    assert_eq!(said.matches("remove the lines").count(), 1, "{said}");
    // The same task on both sides of a conflict is not a separate problem.
    let plan = desk.plan().replace("<<<<<<< ours\n", "").replace("=======\n>>>>>>> theirs\n", "");
    desk.write_plan(&format!("<<<<<<< ours\n{plan}=======\n{plan}>>>>>>> theirs\n"));
    let finished = desk.ralph(&["validate"]);
    assert_eq!(finished.stdout.matches("error:").count(), 3, "{finished}");
}

#[test]
fn what_a_line_that_cannot_be_read_speaks_of_is_not_said_never_to_have_been() {
    let desk = Desk::new();
    let task = |id: &str, more: &str| {
        format!(
            "{{\"t\": \"task\", \"id\": \"{id}\", \"spec\": \"coverage.md\", \"name\": \"x\", {more}}}\n"
        )
    };
    let first = task("t-0001", r#""s": "p", "deps": ["t-0002", "t-none"]"#);
    desk.write_plan(&format!("{}{first}{}", desk.plan(), task("t-0002", r#""s": "q""#)));
    let finished = desk.ralph(&["validate"]);
    assert!(finished.stdout.contains("plan.jsonl:3: its status"), "{finished}");
    assert!(finished.stdout.contains("`t-none`, which was never"), "{finished}");
    assert!(!finished.stdout.contains("`t-0002`, which was never"), "{finished}");
}

#[test]
fn what_cannot_be_seen_is_named() {
    let desk = Desk::with_tasks(1);
    desk.write_plan(&format!("\u{feff}{}", desk.plan()));
    let said = desk.refused(&["task", "add", "x"]);
    assert!(said.contains("line 1") && said.contains("without BOM"), "{said}");
}

#[test]
fn everything_that_is_wrong_is_told_at_once_with_file_and_line() {
    let desk = Desk::with_tasks(1);
    assert!(desk.ralph(&["validate"]).status.success());
    let more = concat!(
        "{\"t\": \"task\", \"id\": \"t-0001\", \"name\": \"again\", \"s\": \"p\"}\n",
        "{\"t\": \"task\", \"id\": \"t-loop\", \"name\": \"x\", \"s\": \"p\", \"deps\": [\"t-loop\"]}\n",
        "{\"t\": \"task\", \"id\": \"t-lost\", \"name\": \"x\", \"s\": \"p\", \"deps\": [\"t-none\"]}\n",
        "{\"t\": \"task\", \"id\": \"t-mute\", \"name\": \"\", \"s\": \"p\"}\n",
    );
    desk.write_plan(&format!("{}{more}", desk.plan()));
    let specs = desk.repo().join("ralph/specs");
    fs::create_dir_all(specs.join("plans/area")).unwrap();
    fs::create_dir_all(specs.join("candidates")).unwrap();
    fs::write(specs.join("plans/area/0001-a.json"), "{\n  \"status\": 7\n}\n").unwrap();
    fs::write(specs.join("candidates/0002-b.json"), "nothing").unwrap();
    fs::write(specs.join("0003-c.md"), "").unwrap();
    fs::write(desk.repo().join("ralph/PROMPT_build.md"), "Do it.\n\n{{tsak}}\n").unwrap();
    desk.place.configure("agnet = \"codex\"\n");
    let finished = desk.ralph(&["validate", "--json"]);
    assert_eq!(finished.status.code(), Some(1), "{finished}");
    let report = json(&finished);
    let found: Vec<String> = report["problems"]
        .as_array()
        .unwrap()
        .iter()
        .map(|problem| {
            let path = super::text(&problem["path"]);
            format!("{}:{}", path.rsplit('/').next().unwrap(), problem["line"])
        })
        .collect();
    for wanted in [
        "plan.jsonl:3",
        "plan.jsonl:4",
        "plan.jsonl:5",
        "plan.jsonl:6",
        "0001-a.json:2",
        "0002-b.json:1",
        "0003-c.md:1",
        "PROMPT_build.md:3",
        "ralph.toml:5",
    ] {
        assert!(found.contains(&wanted.to_owned()), "{wanted}: {found:?}\n{finished}");
    }
    // B12.19's other half: a duplicate id cannot be changed.
    desk.place.configure("");
    let said = desk.refused(&["task", "done", "t-0001"]);
    assert!(said.contains("line 2") && said.contains("line 3"), "{said}");
    assert!(!desk.git(&["status", "--porcelain", PLAN]).is_empty(), "nothing was committed");
}

/// As large as with tens of thousands of tasks.
#[test]
fn a_plan_that_is_larger_than_any_text_is_looked_at_as_well() {
    let desk = Desk::with_tasks(1);
    let notes = "x".repeat(9 << 20);
    let large =
        desk.plan().replace("\"s\": \"p\"", &format!("\"s\": \"p\", \"notes\": \"{notes}\""));
    desk.write_plan(&format!("{large}{large}"));
    let finished = desk.ralph(&["validate"]);
    assert_eq!(finished.status.code(), Some(1), "{}", finished.stderr);
    assert!(finished.stdout.contains("`t-0001` is already on line 2"), "{}", finished.stdout);
    desk.write_plan(&large);
    assert!(desk.ralph(&["validate"]).status.success());
}

/// A script that waits for completion must not mistake damage for it.
#[test]
fn a_plan_with_a_line_that_cannot_be_read_is_never_complete() {
    let desk = Desk::new();
    assert_eq!(desk.ralph(&["query", "stage"]).stdout.trim(), "COMPLETE");
    let plan = desk.plan();
    for bad in ["{\"t\": \"task\", \"id\": \"t-1\", \"name\": \"x\", \"s\": \"x\"}", "{\"t\": \"ta"]
    {
        desk.write_plan(&format!("{plan}{bad}\n"));
        for args in [&["query", "stage"][..], &["query", "next"], &["query"], &["query", "--table"]]
        {
            let finished = desk.ralph(args);
            assert_eq!(finished.status.code(), Some(1), "{args:?}: {finished}");
            assert_eq!(finished.stdout, "", "{args:?}: {finished}");
            assert!(finished.stderr.contains("line 2"), "{args:?}: {finished}");
        }
        assert!(!desk.ralph(&["status"]).stdout.contains("COMPLETE"));
        assert_eq!(json(&desk.ralph(&["status", "--json"]))["plan"]["stage"], Value::Null);
        assert!(
            desk.ralph(&["query", "tasks"]).status.success(),
            "what can be read can be asked for"
        );
    }
}

/// As a concurrent `git add --all` would see them.
#[test]
fn unfinished_files_in_home_are_ignored_by_git() {
    let desk = Desk::bare();
    desk.ralph(&["init", "--no-commit"]);
    let ignored = desk.git(&["check-ignore", "ralph/.plan.jsonl.4711.0.ralph-tmp"]);
    assert_eq!(ignored, "ralph/.plan.jsonl.4711.0.ralph-tmp");
}

/// Home may be older than Ralph, and have no ignore file.
#[test]
fn a_report_leaves_no_file_in_home_and_needs_no_state() {
    let desk = Desk::with_tasks(1);
    fs::write(desk.repo().join("ralph/specs/0001-one.md"), "# One\n\ntext\n").unwrap();
    desk.git(&["add", "ralph/specs"]);
    desk.git(&["commit", "--quiet", "--message=spec"]);
    let state = desk.place.path("state");
    fs::remove_dir_all(&state).unwrap();
    for args in [&["status"][..], &["specs", "list"], &["query"]] {
        let finished = desk.ralph(args);
        assert!(finished.status.success(), "{args:?}: {finished}");
        assert_eq!(desk.git(&["status", "--porcelain"]), "", "{args:?}");
        assert!(!state.exists(), "{args:?}");
    }
}

/// `| head`, a closed pager, a full disk: the result does not depend on the reader.
#[test]
fn a_stderr_that_cannot_be_written_stops_nothing() {
    let desk = Desk::with_tasks(1);
    let script = format!("exec '{}' task add 'one more' >/dev/null 2>/dev/full", super::RALPH);
    let sh = Path::new("/bin/sh");
    let args = ["-c", script.as_str()];
    let finished = run(&desk.place.env, sh, &args, &desk.place.variables(), "", PATIENCE);
    assert!(finished.status.success(), "{finished}");
    assert_eq!(desk.ids().len(), 2);
}

#[test]
fn a_plan_that_is_a_link_is_not_sound_as_no_change_follows_it() {
    let desk = Desk::with_tasks(1);
    let path = desk.place.env.repo().join(PLAN);
    fs::rename(&path, path.with_file_name("elsewhere.jsonl")).unwrap();
    for target in ["elsewhere.jsonl", "nowhere"] {
        let _ = fs::remove_file(&path);
        std::os::unix::fs::symlink(target, &path).unwrap();
        let validated = desk.ralph(&["validate"]);
        assert_eq!(validated.status.code(), Some(1), "{target}: {validated}");
        assert!(validated.to_string().contains("it is a link"), "{target}: {validated}");
    }
}

#[test]
fn a_prd_is_looked_at_too() {
    let desk = Desk::with_tasks(1);
    let path = desk.place.env.repo().join("ralph/prd.json");
    fs::write(&path, "{\"project\": 1}").unwrap();
    let validated = desk.ralph(&["validate"]);
    assert_eq!(validated.status.code(), Some(1), "{validated}");
    assert!(validated.to_string().contains("ralph/prd.json"), "{validated}");
}

/// Root can write anywhere; `escapes` also runs this as an ordinary user.
#[test]
fn a_report_needs_no_state_that_can_be_written() {
    let desk = Desk::with_tasks(1);
    let state = desk.place.path("state/ralph");
    let directories = ["", "index", "locks"].map(|name| state.join(name));
    let permit = |mode| {
        for directory in directories.iter().filter(|directory| directory.exists()) {
            fs::set_permissions(directory, fs::Permissions::from_mode(mode)).unwrap();
        }
    };
    permit(0o500);
    let reports = [&["status"][..], &["query"], &["validate"], &["log", "--all"]];
    let ended = reports.map(|args| desk.ralph(args));
    permit(0o700);
    for (finished, args) in ended.iter().zip(reports) {
        assert!(finished.status.success(), "{args:?}: {finished}");
    }
}
