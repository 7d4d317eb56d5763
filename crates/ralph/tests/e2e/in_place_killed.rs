//! Ralph is killed while an agent works in the person's checkout. The person's changes before the next start are kept
//! and do not count as work; the run's leftovers are still the run's.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::process::Signal;

use crate::harness::{PATIENCE, wait_for_file, wait_until};
use crate::in_place::{agent, committed, gate_runs_at_candidate};
use crate::pipeline::Stage;
use crate::support::process::processes_marked;

/// Lets an agent do this, then kills Ralph. Returns when all processes of the run are gone, and long enough ago that a
/// file written now has a later time.
fn killed_after(stage: &Stage, command: &str, work: &str) {
    let work = format!("{work}; echo >.git/there; while :; do sleep 0.01; done");
    let running = stage.place.start(&[command, "--agent-cmd", &agent(stage, &work)]);
    wait_for_file(&stage.file(".git/there"));
    let live = stage.private().join("live");
    running.signal(Signal::KILL);
    running.finish();
    let record = only(&live, "json");
    let first_line = |path: &Path| {
        let text = fs::read_to_string(path).unwrap_or_default();
        text.lines().next().unwrap_or_default().to_owned()
    };
    let told: serde_json::Value = serde_json::from_str(&first_line(&record)).unwrap();
    let note = record.with_extension("end");
    wait_until(PATIENCE, "the guard notes the end", || told["run_id"] == *first_line(&note));
    let time = |path: &Path| {
        let found = fs::metadata(path).unwrap();
        (found.ctime(), found.ctime_nsec())
    };
    let probe = stage.place.path("probe");
    wait_until(PATIENCE, "time goes on", || {
        fs::write(&probe, "").unwrap();
        time(&probe) > time(&note)
    });
}

fn only(directory: &Path, extension: &str) -> PathBuf {
    let found = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut found = found.filter(|path| path.extension().is_some_and(|end| end == extension));
    found.next().unwrap()
}

const ONCE: [&str; 4] = ["--allow-dirty", "--max-attempts", "1", "--agent-cmd"];

#[test]
fn what_a_person_writes_after_a_kill_is_theirs_and_what_the_run_left_is_the_runs() {
    let stage = committed();
    killed_after(&stage, "pipeline", "echo half >work.txt; echo half >shared.txt");
    stage.write("README.md", "edited\n");
    stage.write("notes.txt", "thought\n");
    stage.write("shared.txt", "rewritten\n");
    // The question about uncommitted changes lists only the person's.
    let asked = stage.pipeline(&["--agent-cmd", &agent(&stage, "ok; claim")]);
    asked.exits(3).says("README.md").says("notes.txt").says("shared.txt");
    assert!(!asked.finished.stderr.contains("work.txt"), "{}", asked.finished);
    // Committed together with the run's own work, they are not evidence; the run's part is.
    let all = agent(&stage, "git add -A; git commit -qm all; claim");
    stage.pipeline(&[&ONCE[..], &[&all]].concat()).exits(0);
    assert_eq!(stage.read("README.md"), "edited\n");
    assert_eq!(stage.read("notes.txt"), "thought\n");
    assert_eq!(stage.read("shared.txt"), "rewritten\n");
}

#[test]
fn what_a_person_writes_after_a_kill_is_no_evidence() {
    let stage = committed();
    killed_after(&stage, "pipeline", ":");
    stage.write("README.md", "edited\n");
    stage.write("notes.txt", "thought\n");
    let all = agent(&stage, "git add -A; git commit -qm all; claim");
    stage.pipeline(&[&ONCE[..], &[&all]].concat()).exits(1);
    assert_eq!(stage.row("0001-greeting.md")["state"], "rejected");
    assert_eq!(stage.read("notes.txt"), "thought\n");
}

#[test]
fn what_a_person_commits_after_a_kill_is_no_evidence() {
    let stage = committed();
    killed_after(&stage, "pipeline", ":");
    stage.write("mine.txt", "mine\n");
    stage.git(&["add", "mine.txt"]);
    stage.git(&["commit", "--quiet", "--message=mine"]);
    let mine = stage.git(&["rev-parse", "HEAD"]);
    for claim in ["claim", "git commit -q --allow-empty -m nothing; claim"] {
        let agent = agent(&stage, claim);
        stage.pipeline(&[&ONCE[..], &[&agent, "1"]].concat()).exits(1);
        assert_eq!(stage.row("0001-greeting.md")["state"], "rejected", "{claim}");
    }
    stage.git(&["merge-base", "--is-ancestor", mine.trim(), "HEAD"]);
    // With additional work of its own, it passes.
    stage.pipeline(&[&ONCE[..], &[&agent(&stage, "ok; claim"), "1"]].concat()).exits(0);
}

#[test]
fn what_the_run_committed_is_evidence_also_below_a_persons_commit() {
    let stage = committed();
    killed_after(&stage, "pipeline", "ok");
    stage.write("mine.txt", "mine\n");
    stage.git(&["add", "mine.txt"]);
    stage.git(&["commit", "--quiet", "--message=mine"]);
    stage.pipeline(&[&ONCE[..], &[&agent(&stage, "claim")]].concat()).exits(0);
    assert_eq!(stage.read("mine.txt"), "mine\n");
}

#[test]
fn a_plan_and_settings_that_a_person_writes_after_a_kill_stay() {
    let stage = committed();
    killed_after(&stage, "pipeline", "echo evil >.git/hooks/pre-commit; echo '# x' >>ralph.toml");
    let plan = "ralph/specs/plans/0001-greeting.md";
    stage.write(plan, "# By hand\n");
    stage.write(".git/hooks/pre-push", "#!/bin/sh\n");
    let ended = stage.pipeline(&["--agent-cmd", &agent(&stage, "ok; claim")]);
    ended.exits(0);
    assert_eq!(stage.read(plan), "# By hand\n");
    assert!(stage.has(".git/hooks/pre-push"));
    // The run's changes before the kill are reverted as well.
    assert!(!stage.has(".git/hooks/pre-commit"));
    assert!(!stage.read("ralph.toml").ends_with("# x\n"));
    assert!(stage.prompt("implementer", 2).contains("# By hand"));
}

#[test]
fn refs_that_a_person_moves_after_a_kill_stay_and_those_that_the_run_moved_come_back() {
    let stage = committed();
    for name in ["one", "two"] {
        stage.git(&["tag", name]);
        stage.git(&["branch", &format!("branch-{name}")]);
    }
    stage.git(&["commit", "--quiet", "--allow-empty", "--message=more"]);
    let before = stage.git(&["rev-parse", "one"]);
    killed_after(&stage, "pipeline", "git tag -f one HEAD");
    stage.git(&["tag", "--force", "two", "HEAD"]);
    stage.git(&["branch", "--quiet", "-D", "branch-two"]);
    stage.git(&["commit", "--quiet", "--amend", "--allow-empty", "--message=amended"]);
    let head = stage.git(&["rev-parse", "HEAD"]);
    stage.pipeline(&["--agent-cmd", &agent(&stage, "ok; claim")]).exits(0);
    assert_eq!(stage.git(&["rev-parse", "one"]), before);
    assert_ne!(stage.git(&["rev-parse", "two"]), before);
    assert_eq!(stage.git(&["branch", "--list", "branch-two"]), "");
    stage.git(&["merge-base", "--is-ancestor", head.trim(), "main"]);
}

#[test]
fn a_task_that_was_killed_keeps_its_own_half_and_not_the_persons() {
    let stage = committed();
    stage.ralph(&["set-spec", "0001-greeting.md"]).exits(0);
    stage.ralph(&["task", "add", "one"]).exits(0);
    killed_after(&stage, "build", "echo half >half.txt");
    stage.write("notes.txt", "thought\n");
    let work = agent(&stage, "ok; ralph task done; echo yes");
    stage.ralph(&["build", "1", "--allow-dirty", "--agent-cmd", &work]).says("[built]");
    let tracked = stage.git(&["ls-files"]);
    assert!(tracked.contains("half.txt"), "{tracked}");
    assert!(!tracked.contains("notes.txt"), "{tracked}");
    assert_eq!(stage.read("notes.txt"), "thought\n");
}

/// The result of a run belongs to the branch whose home has the plan that it followed.
#[test]
fn a_finished_run_whose_spec_is_not_planned_on_this_branch_says_how_to_continue() {
    let stage = committed();
    let go = stage.place.path("go");
    let gate = format!(
        "[[gate]]\nname = \"slow\"\nrun = [\"sh\", \"-c\", \"test ! -e work.txt || test -e '{go}' || sleep 1000\"]\n",
        go = go.display()
    );
    stage.write("ralph.toml", &(stage.read("ralph.toml") + &gate));
    stage.git(&["commit", "-qm", "gate", "ralph.toml"]);
    stage.git(&["switch", "--quiet", "--create", "topic"]);
    let work = agent(&stage, "ok; claim");
    let running = stage.place.start(&["pipeline", "--agent-cmd", &work]);
    wait_until(PATIENCE, "the gate runs at the candidate", || gate_runs_at_candidate(&stage));
    running.signal(Signal::KILL);
    running.finish();
    fs::write(&go, "").unwrap();
    stage.git(&["switch", "--quiet", "--force", "main"]);
    let elsewhere = stage.pipeline(&["--agent-cmd", &work]);
    elsewhere.exits(1).says("continue on the branch on which it began");
    assert_eq!(stage.runs(), "pi");
    stage.git(&["switch", "--quiet", "--force", "topic"]);
    stage.pipeline(&["--agent-cmd", &work]).exits(0);
    assert_eq!(stage.runs(), "piv");
    assert_eq!(stage.row("0001-greeting.md")["state"], "done");
}

/// An agent can leave something that keeps git busy for hours, such as a sparse file of terabytes.
#[test]
fn a_git_command_that_does_not_end_is_ended_when_ralph_is_killed() {
    let stage = committed();
    let programs = stage.place.path("programs");
    fs::create_dir(&programs).unwrap();
    let path = std::env::var("PATH").unwrap();
    // Ralph confines itself, and with it git: it can write in the workspace.
    let (hang, waits) = (stage.file("hang"), stage.file(".git/waits"));
    let git = format!(
        "#!/bin/sh\nPATH='{path}'\ntest -e '{}' || exec git \"$@\"\ntouch '{}'\nexec sleep 1000\n",
        hang.display(),
        waits.display()
    );
    fs::write(programs.join("git"), git).unwrap();
    fs::set_permissions(programs.join("git"), fs::Permissions::from_mode(0o755)).unwrap();
    let work = agent(&stage, "touch hang");
    let path = format!("{}:{path}", programs.display());
    let running =
        stage.place.start_with(&["pipeline", "--agent-cmd", &work], &[("PATH", path.as_str())]);
    wait_for_file(&waits);
    running.signal(Signal::KILL);
    running.finish();
    let mark = stage.place.env.mark();
    wait_until(PATIENCE, "git is ended", || processes_marked(mark).is_empty());
}
