//! The handling of reverted changes, of a person's concurrent changes, and of runs that were never compared.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::harness::{Place, Report, wait_for_file};

fn boundary<'a>(report: &'a Report, list: &str) -> Vec<&'a str> {
    let list = report.json["changes"][list].as_array().unwrap();
    list.iter().map(|found| found["path"].as_str().unwrap()).collect()
}

#[test]
fn what_is_undone_is_saved_first_in_a_commit_and_in_private_state() {
    let place = Place::new();
    fs::write(place.env.repo().join("mine"), "not committed\n").unwrap();
    let command = "echo agent > mine; echo agent > README.md; echo agent > new; echo done";
    let report =
        place.agent_run(&["--boundary", "detect", "--role", "planner", "--agent-cmd", command]);
    assert_eq!(boundary(&report, "violations"), ["README.md", "mine", "new"]);
    let commit = report.json["changes"]["displaced"].as_str().unwrap();
    for name in ["README.md", "mine", "new"] {
        assert_eq!(place.env.git(&["show", &format!("{commit}:{name}")]).trim(), "agent");
    }
    let saved = Path::new(report.json["changes"]["saved_in"].as_str().unwrap());
    assert_eq!(fs::read_to_string(saved.join("workspace/mine")).unwrap(), "agent\n");
    assert_eq!(fs::read_to_string(place.env.repo().join("mine")).unwrap(), "not committed\n");
    let status = place.ralph(&["status"]);
    assert!(
        status.to_string().contains("changed what it must not: README.md, mine, new"),
        "{status}"
    );
}

#[test]
fn a_branch_of_a_planner_is_kept_as_a_displaced_commit() {
    let place = Place::new();
    let main = place.env.git(&["rev-parse", "main"]);
    let command = "echo x > made; git add made; git commit -q -m sneaky; echo done";
    let report =
        place.agent_run(&["--boundary", "detect", "--role", "planner", "--agent-cmd", command]);
    assert_eq!(boundary(&report, "violations"), ["made", "refs/heads/main"]);
    assert_eq!(place.env.git(&["rev-parse", "main"]), main);
    assert_eq!(place.env.git(&["status", "--porcelain"]).trim(), "?? ralph.toml");
    let commit = report.json["changes"]["displaced"].as_str().unwrap();
    let kept = place.env.git(&["log", "--format=%s", commit]);
    assert!(kept.contains("sneaky"), "{kept}");
}

#[test]
fn what_a_person_does_while_a_confined_planner_runs_is_kept() {
    let place = Place::new();
    place.configure(&format!("writable = [{:?}]\n", place.path("ready-")));
    fs::create_dir(place.path("ready-")).unwrap();
    let command =
        "echo > ../ready-/yes; while [ ! -e ../ready-/go ]; do sleep 0.01; done; echo done";
    let args = ["agent", "run", "--json", "--boundary", "kernel", "--role", "planner"];
    let running = place.start(&[&args[..], &["--agent-cmd", command, "plan"]].concat());
    wait_for_file(&place.path("ready-/yes"));
    fs::write(place.env.repo().join("README.md"), "edited\n").unwrap();
    place.env.git(&["commit", "-q", "-am", "by hand"]);
    fs::write(place.env.repo().join("notes"), "mine\n").unwrap();
    fs::write(place.path("ready-/go"), "").unwrap();
    let (code, said) = running.finish();
    assert_eq!(code, Some(0), "{said}");
    let report: Value =
        serde_json::from_str(&fs::read_to_string(place.path("out")).unwrap()).unwrap();
    let kept: Vec<&str> = report["changes"]["kept"]
        .as_array()
        .unwrap()
        .iter()
        .map(|found| found["path"].as_str().unwrap())
        .collect();
    assert_eq!(kept, ["README.md", "notes", "refs/heads/main"]);
    assert_eq!(report["changes"]["violations"].as_array().unwrap().len(), 0);
    assert_eq!(place.env.commits()[0], "by hand");
}

#[test]
fn what_a_killed_ralph_could_not_compare_is_compared_at_the_next_start() {
    let place = Place::new();
    let toml = fs::read_to_string(place.env.repo().join("ralph.toml")).unwrap();
    let command = "echo '# evil' >> ralph.toml; echo x > .git/hooks/evil; echo > ready; sleep 600";
    let running = place.start(&["agent", "run", "--agent-cmd", command, "go"]);
    wait_for_file(&place.env.repo().join("ready"));
    running.signal(rustix::process::Signal::KILL);
    running.finish();
    let report = place.agent_run(&["--agent-cmd", "echo fine"]);
    assert_eq!(report.outcome(), "completed");
    assert_eq!(fs::read_to_string(place.env.repo().join("ralph.toml")).unwrap(), toml);
    assert!(!place.env.repo().join(".git/hooks/evil").exists());
    let told = report.finished.to_string();
    assert!(told.contains("reverted: .git/hooks/evil, ralph.toml"), "{told}");
}

#[test]
fn with_the_boundary_off_nothing_is_compared() {
    let place = Place::new();
    let command = "echo x >> README.md; echo 'boundary = \"off\"' >> ralph.toml; echo done";
    let report =
        place.agent_run(&["--boundary", "off", "--role", "planner", "--agent-cmd", command]);
    assert_eq!(report.outcome(), "completed");
    assert_eq!(boundary(&report, "put_back"), Vec::<&str>::new());
}

#[test]
fn branch_settings_of_a_builder_stay() {
    let place = Place::new();
    place.env.git(&["remote", "add", "origin", "https://example.invalid/x"]);
    let command = "git config branch.main.remote origin; git config branch.main.merge refs/heads/main; echo ok";
    let report = place.agent_run(&["--agent-cmd", command]);
    assert_eq!(boundary(&report, "put_back"), Vec::<&str>::new(), "{}", report.finished);
    assert_eq!(place.env.git(&["config", "branch.main.remote"]).trim(), "origin");
}

#[test]
fn any_command_can_be_run_under_a_roles_boundary() {
    let place = Place::new();
    let command = "touch inside ../outside 2>/dev/null; test -e inside && echo in; test -e ../outside && echo out; \
                   echo x > $TMPDIR/x && cat; exit 7";
    for (role, expected) in [("builder", "in\n"), ("planner", "")] {
        let args = ["sandbox", "--boundary", "kernel", "--role", role, "--", "sh", "-c", command];
        let finished = place.ralph(&args);
        assert_eq!(finished.status.code(), Some(7), "{finished}");
        assert_eq!(finished.stdout, expected, "{finished}");
        let _ = fs::remove_file(place.env.repo().join("inside"));
    }
    let finished = place.ralph(&["sandbox", "--verbose", "--", "sh", "-c", "kill -TERM $$"]);
    assert_eq!(finished.status.code(), Some(143), "{finished}");
    assert!(finished.to_string().contains("boundary: kernel"), "{finished}");
    let scratches = fs::read_dir(place.env.tmp()).unwrap().count();
    assert_eq!(scratches, 0, "the scratch directories are gone");
    let finished = place.ralph(&["sandbox", "--", "no-such-program"]);
    assert_eq!(finished.status.code(), Some(2), "{finished}");
}
