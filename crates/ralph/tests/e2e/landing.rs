//! What lands and what does not: branches that people reset, rename or rewrite, claims below a tip, notes.

use std::fs;

use crate::clones::{ONE, waits};
use crate::pipeline::{GREETS, Stage, on, willing};

/// A stage with a commit that the person is going to drop.
fn with_secret(settings: &str, also: &[String]) -> Stage {
    let stage = Stage::with("", settings, ONE);
    stage.write("secret.txt", "SECRET\n");
    stage.write("greeting.txt", "dropped\n");
    stage.place.commit_all("oops");
    let mut blocks = vec![on("implementer", 1, &waits(&stage, "made.txt", "work"))];
    blocks.extend_from_slice(also);
    stage.script(&willing(&blocks));
    stage
}

/// Plays the pipeline, with an action of the person while the implementer is working.
fn meanwhile(stage: &Stage, person: impl FnOnce(&Stage)) -> (Option<i32>, String) {
    let running = stage.place.start(&["pipeline"]);
    stage.wait_in_slot("begun");
    person(stage);
    fs::write(stage.place.path("go"), "").unwrap();
    running.finish()
}

#[track_caller]
fn assert_dropped(stage: &Stage) {
    let history = stage.git(&["log", "--format=%s", "main"]);
    assert!(!history.contains("oops"), "{history}");
    assert_eq!(stage.git(&["log", "--format=%h", "main", "--", "secret.txt"]), "");
}

#[test]
fn what_a_person_drops_by_moving_the_branch_back_does_not_come_back() {
    for reset in ["--hard", "--mixed", "--soft"] {
        let stage = with_secret(GREETS, &[]);
        let (code, said) = meanwhile(&stage, |stage| {
            stage.git(&["reset", "-q", reset, "HEAD~1"]);
        });
        assert_eq!(code, Some(0), "{reset}: {said}");
        assert_dropped(&stage);
        assert_eq!(stage.git(&["show", "main:made.txt"]), "work", "{reset}");
        // The agent's change keeps its commit message, once.
        let subjects = stage.git(&["log", "--format=%s", "main"]);
        let subjects: Vec<&str> = subjects.lines().collect();
        assert_eq!(subjects, ["ralph: 0001-greeting is done", "work", "specs", "start"], "{reset}");
        let landed = stage.told("landed").remove(0);
        let gated = stage.told("gate_finished");
        assert!(gated.iter().any(|gate| gate["commit"] == landed["commit"]), "{reset} {gated:?}");
    }
}

#[test]
fn work_in_conflict_with_a_branch_that_was_moved_back_begins_anew_at_its_tip() {
    let first = "write greeting.txt hello\ncommit \"work\" greeting.txt\n";
    let again = "expect-run test ! -e secret.txt && test ! -e greeting.txt\n\
                 expect-prompt git cherry-pick\nwrite greeting.txt hello again\n\
                 run git add -A; git commit -qm again\nfinal <<END\n${HEAD}\nI AM HYPER SURE I AM DONE!\nEND";
    let stage = with_secret("", &[]);
    let waits = waits(&stage, "made.txt", "work");
    let blocks = [on("implementer", 1, &format!("{first}{waits}")), on("implementer", 2, again)];
    stage.script(&willing(&blocks));
    let (code, said) = meanwhile(&stage, |stage| {
        stage.git(&["reset", "-q", "--hard", "HEAD~1"]);
    });
    assert_eq!(code, Some(0), "{said}");
    assert_dropped(&stage);
    assert_eq!(stage.read("greeting.txt"), "hello again\n");
    assert_eq!(stage.runs(), "piviv");
    assert_eq!(stage.json("ralph/specs/plans/0001-greeting.json")["attempts_used"], 0);
}

#[test]
fn a_claim_below_the_tip_does_not_hide_what_is_above() {
    let steps = "write one.txt one\ncommit \"one\" one.txt\nwrite two.txt two\nrun git add -A; git commit -qm two\n\
                 final <<END\n${COMMIT}\nI AM HYPER SURE I AM DONE!\nEND";
    let stage = Stage::with(&willing(&[on("implementer", 1, steps)]), "", ONE);
    stage.pipeline(&[]).exits(0);
    assert_eq!((stage.read("one.txt"), stage.read("two.txt")), ("one\n".into(), "two\n".into()));
}

#[test]
fn a_branch_that_is_renamed_or_deleted_meanwhile_is_named() {
    let persons: [(&[&[&str]], &str); 2] = [
        (&[&["branch", "-m", "main", "trunk"]], "was renamed to `trunk`"),
        (
            &[&["switch", "-q", "-c", "other"], &["branch", "-D", "main"]],
            "`main`, which work lands on, is gone",
        ),
    ];
    for (commands, expected) in persons {
        let stage = with_secret("", &[]);
        let (code, said) = meanwhile(&stage, |stage| {
            for command in commands {
                stage.git(command);
            }
        });
        assert!(matches!(code, Some(1 | 3)), "{code:?} {said}");
        assert!(said.contains(expected), "{said}");
        assert!(!said.contains("the spec was removed"), "{said}");
        // Restarted on the branch that now has the commits, it continues.
        stage.pipeline(&[]).exits(0);
        assert_eq!(stage.read("made.txt"), "work\n");
    }
}

#[test]
fn no_line_of_the_persons_notes_is_lost_whatever_the_agent_makes_of_the_file() {
    for (command, added) in [
        ("echo only > ralph/SCRATCHPAD.md", true),
        ("rm ralph/SCRATCHPAD.md; ln -s ../README.md ralph/SCRATCHPAD.md", false),
        ("rm ralph/SCRATCHPAD.md", false),
    ] {
        let stage = Stage::with("", "", ONE);
        stage.write("ralph/SCRATCHPAD.md", "mine\nand mine\n");
        stage.place.commit_all("notes");
        let steps = format!(
            "run {command}\nwrite greeting.txt hello\nrun git add -A; git commit -qm work\n\
             final <<END\n${{HEAD}}\nI AM HYPER SURE I AM DONE!\nEND"
        );
        stage.script(&willing(&[on("implementer", 1, &steps)]));
        stage.pipeline(&[]).exits(0);
        let kept = stage.read("ralph/SCRATCHPAD.md");
        assert!(kept.contains("mine\nand mine\n"), "{command}: {kept}");
        assert_eq!(kept.contains("only"), added, "{command}: {kept}");
        assert!(!kept.contains("README"), "{command}: {kept}");
    }
}

#[test]
fn what_landed_on_a_branch_is_not_said_to_be_elsewhere() {
    let stage = Stage::with(&willing(&[]), "", ONE);
    stage.git(&["checkout", "-q", "--detach"]);
    let ended = stage.pipeline(&[]);
    ended.exits(0);
    let notes = stage.told("note");
    let is_false = |note: &serde_json::Value| note["reason"].to_string().contains("keeps it");
    assert!(!notes.iter().any(is_false), "{notes:?}");
}

#[test]
fn a_spec_that_the_person_edits_meanwhile_is_taken_up_and_that_is_said() {
    let stage = with_secret("", &[]);
    let (code, said) = meanwhile(&stage, |stage| {
        stage.write("ralph/specs/0001-greeting.md", "# Greeting\n\nAnother text.\n");
        stage.place.commit_all("edited");
    });
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("you changed the spec during the run"), "{said}");
    assert!(stage.prompt("verifier", 1).contains("Another text."));
}

#[test]
fn work_that_waits_for_a_changed_checkout_is_said_to_wait_with_what_to_do() {
    let stage = Stage::with("", "", ONE);
    stage.script(&willing(&[on("implementer", 1, &waits(&stage, "greeting.txt", "hello"))]));
    let running = stage.place.start(&["--quiet", "pipeline"]);
    stage.wait_in_slot("begun");
    stage.write("greeting.txt", "half written\n");
    stage.go();
    let (code, said) = running.finish();
    assert_eq!(code, Some(0), "{said}");
    let why = "accepted, waiting to land: your checkout of `main` waits: it has uncommitted changes in greeting.txt; \
               commit, stash or remove them, then run `ralph land`";
    assert!(said.contains(why), "also those see it who asked for quiet: {said}");
    let status = stage.ralph(&["status"]);
    status.prints(why).prints("accepted, waits to land");
    assert!(!status.finished.stdout.contains("; landed"), "{}", status.finished);
    let told = stage.ralph(&["status", "--json"]).json();
    assert_eq!(told["landing"][0]["branch"], "main", "{told}");
    let refused = stage.ralph(&["land"]);
    refused.exits(1).prints("commit, stash or remove them, then run `ralph land` again");
    assert_eq!(stage.read("greeting.txt"), "half written\n");
    fs::remove_file(stage.file("greeting.txt")).unwrap();
    stage.ralph(&["status"]).prints("waiting to land: `ralph land` updates your checkout");
    stage.ralph(&["land"]).exits(0);
    let status = stage.ralph(&["status"]);
    status.prints("; landed");
    assert!(!status.finished.stdout.contains("waiting to land"), "{}", status.finished);
    assert_eq!(stage.ralph(&["status", "--json"]).json()["landing"], serde_json::json!([]));
}
