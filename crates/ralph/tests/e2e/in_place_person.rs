//! A person who works alongside agents, or between their attempts: their work is neither lost nor counted as the
//! agent's.

use std::fs;

use crate::harness::{PATIENCE, wait_until};
use crate::in_place::{agent, committed};
use crate::pipeline::Stage;

const ONCE: [&str; 3] = ["--max-attempts", "1", "--agent-cmd"];

fn person_commits(stage: &Stage, name: &str) {
    stage.write(name, "theirs\n");
    stage.git(&["add", name]);
    stage.git(&["commit", "--quiet", "--message=persons"]);
}

/// In the checkout, and in a clone.
fn both() -> [Stage; 2] {
    [committed(), Stage::with("", "", &["0001-greeting.md"])]
}

#[test]
fn what_a_person_commits_between_two_attempts_is_no_evidence() {
    for stage in both() {
        stage.pipeline(&[&ONCE[..], &[&agent(&stage, "echo no")]].concat()).exits(1);
        person_commits(&stage, "person.txt");
        let theirs = stage.git(&["rev-parse", "HEAD"]);
        let claims = format!("echo {}; echo \"$P\"", theirs.trim());
        let claims = agent(&stage, &claims);
        stage.pipeline(&[&["1"][..], &ONCE, &[&claims]].concat()).exits(1);
        assert_eq!(stage.row("0001-greeting.md")["state"], "rejected");
        // Its own additional work is.
        let works = agent(&stage, "ok; claim");
        stage.pipeline(&[&["1"][..], &ONCE, &[&works]].concat()).exits(0);
        assert_eq!(stage.read("person.txt"), "theirs\n");
    }
}

/// In a clone. In the checkout itself a person's commit cannot be distinguished from the agent's.
#[test]
fn what_a_person_commits_during_a_run_is_no_evidence() {
    let stage = Stage::with("", "", &["0001-greeting.md"]);
    let (go, theirs) = (stage.place.path("go"), stage.file("theirs.id"));
    let work = format!(
        "until [ -e {} ]; do sleep 0.02; done; cat {}; echo \"$P\"",
        go.display(),
        theirs.display()
    );
    let running = stage.place.start(&[&["pipeline"][..], &ONCE, &[&agent(&stage, &work)]].concat());
    wait_until(PATIENCE, "the implementer works", || {
        running.is_over() || stage.place.logged("run_started").len() == 2
    });
    person_commits(&stage, "person.txt");
    fs::write(theirs, stage.git(&["rev-parse", "HEAD"]) + "\n").unwrap();
    fs::write(go, "").unwrap();
    let (code, said) = running.finish();
    assert_eq!(code, Some(1), "{said}");
    assert_eq!(stage.row("0001-greeting.md")["state"], "rejected", "{said}");
}

#[test]
fn a_line_that_a_person_adds_to_the_notes_while_a_planner_works_stays() {
    // A checkout with uncommitted notes does not follow the branch: there only the person's line exists.
    let lines = [&["first", "person", "planner"][..], &["first", "person"]];
    for (stage, lines) in both().into_iter().zip(lines) {
        stage.write("ralph/SCRATCHPAD.md", "first\n");
        stage.git(&["add", "ralph"]);
        stage.git(&["commit", "--quiet", "--message=notes"]);
        let go = stage.place.path("go");
        let path = stage.place.path("planner.sh");
        let script = format!(
            "cat >/dev/null; P='I AM HYPER SURE I AM DONE!'\n\
             case $RALPH_ROLE in\n\
             planner) echo begun; until [ -e {} ]; do sleep 0.02; done; echo plan >$RALPH_OUT/plan.md\n\
               printf 'first\\nplanner\\n' >$RALPH_OUT/SCRATCHPAD.md; echo \"$P\";;\n\
             implementer) date +%N >>work.txt; git add work.txt; git commit -qm work; git rev-parse HEAD; echo \"$P\";;\n\
             *) git rev-parse HEAD; echo \"$P\";; esac\n",
            go.display()
        );
        fs::write(&path, script).unwrap();
        let command = format!("sh {}", path.display());
        let running = stage.place.start(&["pipeline", "--agent-cmd", &command]);
        wait_until(PATIENCE, "the planner works", || {
            running.is_over() || running.said().contains("[says] begun")
        });
        stage.write("ralph/SCRATCHPAD.md", "first\nperson\n");
        fs::write(go, "").unwrap();
        let (code, said) = running.finish();
        assert_eq!(code, Some(0), "{said}");
        let notes = stage.read("ralph/SCRATCHPAD.md");
        for line in lines {
            assert!(notes.lines().any(|found| found == *line), "{line} in {notes}");
        }
    }
}

#[test]
fn a_branch_of_accepted_work_that_a_later_run_makes_anew_keeps_its_commit() {
    let stage = committed();
    let first = agent(&stage, "git checkout -q -b feat; ok; claim");
    stage.pipeline(&["--agent-cmd", &first]).exits(0);
    let accepted = stage.row("0001-greeting.md")["commit"].as_str().unwrap().to_owned();
    stage.spec("0002-next.md");
    stage.git(&["add", "ralph"]);
    stage.git(&["commit", "--quiet", "--message=next"]);
    let second = agent(&stage, "git checkout -q -B feat main; ok; claim");
    stage.pipeline(&[&ONCE[..], &[&second]].concat());
    let on = stage.git(&["for-each-ref", "--format=%(refname)", "--contains", &accepted]);
    assert!(!on.is_empty(), "nothing leads to {accepted}");
}
