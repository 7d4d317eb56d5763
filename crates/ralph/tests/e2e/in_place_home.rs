//! Agents that commit or stage files of home in the person's checkout: at the tip, in the index and in the work tree
//! home is as Ralph has it when the command is over, and after a kill when the next one is.

use std::fs;

use rustix::process::Signal;

use crate::harness::{Place, wait_for_file};
use crate::in_place::{agent, committed};
use crate::pipeline::Stage;

const DONE: &str = "ralph/specs/done/area/0002-more.md";

/// Marks a spec as done that nobody worked on.
const FORGE: &str = "mkdir -p ralph/specs/done/area; echo done >ralph/specs/done/area/0002-more.md";

/// Home is the same in the work tree, in the index and at the tip of `main`, without the forged marker.
fn assert_home_is_ralphs(stage: &Stage, told: &str) {
    assert_eq!(stage.git(&["branch", "--show-current"]).trim(), "main", "{told}");
    let home = stage.git(&["status", "--porcelain", "--", "ralph", "ralph.toml"]);
    assert_eq!(home, "", "{told}");
    let tip = stage.git(&["ls-tree", "-r", "--name-only", "main"]);
    assert!(!tip.contains("0002-more"), "{told}: {tip}");
    assert!(!stage.has(DONE), "{told}");
}

#[test]
fn a_done_marker_that_an_agent_commits_is_not_at_the_tip() {
    for work in [
        format!("{FORGE}; ok; git add -A; git commit -qm all; claim"),
        format!("{FORGE}; ok; git add -f ralph/specs/done; claim"),
        format!(
            "{FORGE}; git add -f ralph/specs/done; git commit -qm all; rm -r ralph/specs/done/area; ok; claim"
        ),
        format!(
            "{FORGE}; ok; git add -A; git commit -qm all; git update-index --skip-worktree {DONE}; claim"
        ),
        // The branch that the run began on has it, and is not checked out when the run ends.
        format!("{FORGE}; ok; git add -A; git commit -qm all; git checkout -q -b feat; claim"),
        format!(
            "{FORGE}; ok; git add -A; git commit -qm all; git checkout -q -b feat HEAD~1; ok; claim"
        ),
        format!("{FORGE}; ok; git add -A; git commit -qm all; git checkout -q --detach; claim"),
        format!("git checkout -q -b feat; {FORGE}; ok; git add -A; git commit -qm all; claim"),
        format!("git checkout -q --detach; {FORGE}; ok; git add -A; git commit -qm all; claim"),
    ] {
        let stage = committed();
        let agent = agent(&stage, &work);
        let ended = stage.pipeline(&["--agent-cmd", &agent, "--max-attempts", "1"]);
        assert_home_is_ralphs(&stage, &format!("{work}\n{}", ended.finished));
    }
}

#[test]
fn every_file_of_home_that_an_agent_commits_is_as_it_was_at_the_tip() {
    let forge = "echo '{\"t\": \"task\", \"id\": \"t-ffff\", \"spec\": \"0001-greeting.md\", \"name\": \"x\", \"s\": \"d\"}' >>ralph/plan.jsonl; \
        mkdir -p ralph/specs/plans ralph/specs/candidates; echo '{}' >ralph/specs/plans/0002-more.json; \
        echo '{}' >ralph/specs/candidates/0002-more.json; echo x >>ralph.toml; echo '# x' >>ralph/.gitignore; \
        rm ralph/specs/0001-greeting.md; git add -A; git commit -qm all";
    for command in ["build", "agent", "loop"] {
        let stage = committed();
        stage.ralph(&["set-spec", "0001-greeting.md"]).exits(0);
        stage.ralph(&["task", "add", "one"]).exits(0);
        let before = stage.git(&["ls-tree", "-r", "main", "ralph", "ralph.toml"]);
        let agent = agent(&stage, &format!("{forge}; ok; ralph task done; echo yes"));
        let args = match command {
            "build" => vec!["build", "1"],
            "agent" => vec!["agent", "run", "do it"],
            _ => vec!["loop", "--max-iterations", "1", "do it"],
        };
        let ended = stage.ralph(&[&args[..], &["--agent-cmd", &agent]].concat());
        let told = format!("{command}\n{}", ended.finished);
        assert_home_is_ralphs(&stage, &told);
        let now = stage.git(&["ls-tree", "-r", "main", "ralph", "ralph.toml"]);
        // But for the plan, which Ralph has changed meanwhile.
        for line in before.lines().filter(|line| !line.ends_with("ralph/plan.jsonl")) {
            assert!(now.contains(line), "{told}: {line} is not in {now}");
        }
        assert!(!stage.git(&["show", "main:ralph/plan.jsonl"]).contains("t-ffff"), "{told}");
    }
}

#[test]
fn what_an_interrupted_run_committed_of_home_is_not_at_the_tip() {
    for signal in [Signal::INT, Signal::KILL] {
        let stage = committed();
        let there = stage.file(".git/there");
        let work = format!(
            "{FORGE}; ok; git add -A; git commit -qm all; echo >.git/there; while :; do sleep 0.01; done"
        );
        let running = stage.place.start(&["pipeline", "--agent-cmd", &agent(&stage, &work)]);
        wait_for_file(&there);
        running.signal(signal);
        let (_, told) = running.finish();
        if signal == Signal::KILL {
            // The next start has it put back, before anything else.
            let agent = agent(&stage, "exit 1");
            stage.pipeline(&["--allow-dirty", "--max-attempts", "1", "--agent-cmd", &agent]);
        }
        assert_home_is_ralphs(&stage, &told);
    }
}

#[test]
fn what_a_person_had_not_committed_of_home_stays_so() {
    let place = Place::new();
    let file = |name: &str| place.env.repo().join(name);
    fs::create_dir_all(file("ralph/specs/done")).unwrap();
    fs::write(file("ralph/specs/0001-a.md"), "a\n").unwrap();
    fs::write(file("ralph/plan.jsonl"), "").unwrap();
    place.env.git(&["add", "ralph/specs/0001-a.md"]);
    place.env.git(&["commit", "--quiet", "--message=home"]);
    fs::write(file("ralph/specs/done/0001-a.md"), "mine\n").unwrap();
    place.env.git(&["add", "ralph/specs/done"]);
    let before = place.env.git(&["status", "--porcelain", "-uall"]);
    let report = place.agent_run(&[
        "--agent-cmd",
        "echo x >new; git add new; git commit -qm new -- new; echo done",
    ]);
    assert_eq!(report.outcome(), "completed", "{}", report.json);
    assert_eq!(place.env.git(&["status", "--porcelain", "-uall"]), before);
}

#[test]
fn work_on_another_branch_that_changes_home_does_not_come_onto_the_runs_branch() {
    let stage = committed();
    stage.ralph(&["set-spec", "0001-greeting.md"]).exits(0);
    stage.ralph(&["task", "add", "one"]).exits(0);
    let forges = format!(
        "git checkout -q -b feat; {FORGE}; date +%N >work.txt; git add -A; git commit -qm all; ralph task done; echo yes"
    );
    let ended = stage.ralph(&["build", "1", "--agent-cmd", &agent(&stage, &forges)]);
    ended.says(
        "its commits change files that only Ralph writes: ralph/specs/done/area/0002-more.md",
    );
    assert_home_is_ralphs(&stage, &ended.finished.to_string());
    // Without these changes the same branch comes onto it.
    let mends = "git checkout -q feat; git rm -rq ralph/specs/done; git commit -qm less; ok; ralph task done; echo yes";
    stage.ralph(&["build", "1", "--agent-cmd", &agent(&stage, mends)]);
    assert!(stage.git(&["show", "--name-only", "main:"]).contains("work.txt"));
    assert_home_is_ralphs(&stage, "mended");
}
