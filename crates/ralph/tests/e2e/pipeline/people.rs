//! Decisions that only a person can make, and a person's actions meanwhile.

use std::fs;

use serde_json::{Value, json};

use super::{AGREES, BUILDS, Stage, on, willing};

const NOTHING_TO_DO: &str =
    "final <<END\nNO_CHANGE_NEEDED: it greets already\n${HEAD}\nI AM HYPER SURE I AM DONE!\nEND\n";

fn idle(specs: &[&str]) -> Stage {
    Stage::with(&willing(&[on("implementer", 1, NOTHING_TO_DO)]), "", specs)
}

#[test]
fn that_nothing_needs_to_change_is_a_persons_to_decide() {
    let stage = idle(&["0001-greeting.md"]);
    let ended = stage.pipeline(&[]);
    ended.exits(3).says("it greets already").says("ralph answer 0001-greeting yes");
    assert_eq!(stage.runs(), "piv");
    assert!(stage.prompt("verifier", 1).contains("it greets already"));
    let row = stage.row("0001-greeting.md");
    assert_eq!(row["state"], "waiting");
    let question = row["question"].as_str().unwrap();
    assert!(question.contains("it greets already") && question.contains("verifier"), "{question}");
    let status: Value = stage.ralph(&["status", "--json"]).json();
    assert!(status.to_string().contains("it greets already"), "{status}");
    assert!(stage.ralph(&["status"]).finished.stdout.contains("0001-greeting"));
    // Starting again changes nothing and starts no run.
    stage.pipeline(&[]).exits(3);
    stage.ralph(&["answer", "0001-greeting", "yes"]).exits(0);
    stage.pipeline(&[]).exits(0);
    assert_eq!(stage.runs(), "piv");
    let done = stage.read("ralph/specs/done/0001-greeting.md");
    assert!(done.contains("Candidate commit: n/a") && done.contains("Proof: not proven"), "{done}");
    assert_eq!(stage.row("0001-greeting.md")["state"], "done");
}

#[test]
fn any_other_answer_goes_to_the_next_implementer() {
    let stage = idle(&["0001-greeting.md"]);
    stage.pipeline(&[]).exits(3);
    stage.ralph(&["answer", "0001-greeting", "It has to greet in Welsh."]).exits(0);
    let answered = "`ralph pipeline` acts on it";
    assert!(stage.ralph(&["specs"]).finished.stdout.contains(answered));
    assert!(stage.ralph(&["status"]).finished.stdout.contains(answered));
    let shown = stage.ralph(&["specs", "show", "1"]).finished.stdout;
    assert!(shown.contains("answered: It has to greet in Welsh."), "{shown}");
    assert!(!shown.contains("ralph answer"), "{shown}");
    assert_eq!(stage.row("0001-greeting.md")["state"], "answered");
    let forecast = stage.ralph(&["pipeline", "--dry-run"]).finished.stdout;
    assert!(forecast.contains("acts on your answer: It has to greet in Welsh."), "{forecast}");
    assert!(!forecast.contains("needs your decision"), "{forecast}");
    stage.pipeline(&[]).exits(0);
    assert_eq!(stage.runs(), "piviv");
    assert!(stage.prompt("implementer", 2).contains("It has to greet in Welsh."));
    assert_eq!(stage.row("0001-greeting.md")["state"], "done");
}

#[test]
fn a_question_outlives_private_state() {
    let stage = idle(&["0001-greeting.md"]);
    stage.pipeline(&[]).exits(3);
    fs::remove_dir_all(stage.place.path("state/ralph")).unwrap();
    stage.ralph(&["answer", "0001-greeting", "It has to greet in Welsh."]).exits(0);
    // The answer waits for the pipeline, and can be corrected until then.
    stage.ralph(&["answer", "0001-greeting", "yes"]).exits(0).says("instead of: It has to greet");
    stage.pipeline(&[]).exits(0);
    assert_eq!(stage.runs(), "piv");
    assert_eq!(stage.row("0001-greeting.md")["state"], "done");
}

/// A spec without attempts is failed, not planned by someone; one that trouble stopped says which.
#[test]
fn a_spec_that_cannot_go_on_says_so() {
    let stage = Stage::with("[planner]\nfinal No.\n", "", &["0001-greeting.md"]);
    stage.pipeline(&[]).exits(1).says("Failed: 1");
    assert_eq!(stage.row("0001-greeting.md")["state"], "failed");
    let status = stage.ralph(&["status"]).finished.stdout;
    assert!(status.contains("1: 1 failed") && !status.contains("next:"), "{status}");
    stage.ralph(&["specs", "show", "greeting"]).exits(0).prints("resets its attempt count");
    let stage = Stage::with("[planner]\nexit 7\n", "", &["0001-greeting.md"]);
    stage.pipeline(&[]).exits(1).says("Failed: 0").says("Stopped: 1");
    let row = stage.row("0001-greeting.md");
    assert!(row["trouble"].is_string() && row["state"] != "failed", "{row}");
    stage.ralph(&["specs", "show", "1"]).exits(0).prints("which cost no attempt: ");
}

#[test]
fn with_keep_going_the_next_spec_does_not_wait_for_the_person() {
    let stage = idle(&["0001-greeting.md", "0002-next.md"]);
    stage.pipeline(&["--keep-going"]).exits(3).says("Completed: 1").says("Waiting: 1");
    assert_eq!(stage.row("0002-next.md")["state"], "done");
    let other = idle(&["0001-greeting.md", "0002-next.md"]);
    other.pipeline(&[]).exits(3).says("Not reached: 1");
    assert_eq!(other.row("0002-next.md")["state"], "fresh");
}

#[test]
fn a_verifier_that_disagrees_is_heard_too() {
    let stage = Stage::new(&willing(&[
        on("implementer", 1, NOTHING_TO_DO),
        on("verifier", 1, "final It does not greet at all."),
    ]));
    stage.pipeline(&[]).exits(3);
    let question = stage.row("0001-greeting.md")["question"].clone();
    assert!(question.as_str().unwrap().contains("does not greet"), "{question}");
    assert_eq!(stage.row("0001-greeting.md")["attempts_used"], 0);
}

#[test]
fn a_person_commits_edits_and_adds_specs_while_agents_work() {
    let builds = BUILDS.split_once('\n').unwrap().1;
    let stage = Stage::new("");
    let wait = format!("write ready.txt x\n{}run rm ready.txt\n", stage.waiting());
    stage.script(&willing(&[on("implementer", 1, &format!("{wait}{builds}"))]));
    let running = stage.place.start(&["pipeline"]);
    stage.wait_in_slot("ready.txt");
    stage.write("person.txt", "mine\n");
    stage.git(&["add", "person.txt"]);
    stage.git(&["commit", "--quiet", "--message=a person's"]);
    stage.write("draft.txt", "not committed\n");
    stage.write("ralph/specs/0001-greeting.md", "# Greeting\n\nAlso wave.\n");
    stage.spec("0002-added.md");
    stage.go();
    let (code, said) = running.finish();
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(stage.runs(), "pivpiv", "{said}");
    assert_eq!(stage.row("0001-greeting.md")["state"], "done");
    assert_eq!(stage.row("0002-added.md")["state"], "done");
    assert!(stage.git(&["log", "--format=%s"]).contains("a person's"));
    assert_eq!(stage.read("draft.txt"), "not committed\n");
    assert!(stage.read("ralph/specs/0001-greeting.md").contains("Also wave."));
    assert!(stage.prompt("verifier", 1).contains("Also wave."));
    let committed = stage.git(&["show", "HEAD:ralph/specs/0001-greeting.md"]);
    assert!(committed.contains("Also wave."), "{committed}");
}

/// `ralph specs new` writes a template. The person has not filled it in when its turn comes; named, it is an error.
#[test]
fn a_template_that_a_person_adds_while_agents_work_is_passed_over() {
    let builds = BUILDS.split_once('\n').unwrap().1;
    let stage = Stage::with("", "", &["0001-greeting.md", "0003-later.md"]);
    let wait = format!("write ready.txt x\n{}run rm ready.txt\n", stage.waiting());
    stage.script(&willing(&[on("implementer", 1, &format!("{wait}{builds}"))]));
    let running = stage.place.start(&["pipeline"]);
    stage.wait_in_slot("ready.txt");
    let template = stage.ralph(&["specs", "new", "Wave"]).finished.stdout.trim().to_owned();
    let spec = "0002-wave.md";
    fs::rename(template, stage.file(format!("ralph/specs/{spec}"))).unwrap();
    stage.go();
    let (code, said) = running.finish();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("a draft: ") && said.contains("still the template's text"), "{said}");
    assert_eq!(stage.runs(), "pivpiv", "{said}");
    assert_eq!(stage.row("0003-later.md")["state"], "done");
    assert_eq!(stage.row(spec)["state"], "draft");
    stage.pipeline(&[spec]).exits(2).says("still the template's text");
    stage.spec(spec);
    stage.pipeline(&[]).exits(0);
    assert_eq!(stage.row(spec)["state"], "done");
}

#[test]
fn a_backlog_of_drafts_alone_has_nothing_to_do_yet() {
    let stage = Stage::with(&willing(&[]), "", &[]);
    stage.write("ralph/specs/.gitkeep", "");
    stage.ralph(&["specs", "new", "Wave"]).exits(0);
    stage.pipeline(&["--dry-run"]).exits(0).prints("skip").prints("still the template's text");
    stage.pipeline(&[]).exits(0).says("a draft: ").says("Skipped: 1");
    assert_eq!(stage.runs(), "");
    stage.ralph(&["validate"]).exits(0).says("a draft").says("0001-wave.md");
    stage.pipeline(&["1"]).exits(2).says("still the template's text");
}

#[test]
fn a_spec_that_is_edited_while_it_is_verified_has_changed_since_it_was_done() {
    let agrees = AGREES.split_once('\n').unwrap().1;
    let stage = Stage::new("");
    let wait = stage.waiting();
    stage.script(&willing(&[on("verifier", 1, &format!("{wait}{agrees}"))]));
    let running = stage.place.start(&["pipeline"]);
    crate::harness::wait_until(crate::harness::PATIENCE, "it verifies", || {
        stage.has("ralph/ralph.log") && stage.runs() == "piv"
    });
    stage.write("ralph/specs/0001-greeting.md", "# Greeting\n\nAlso wave.\n");
    stage.go();
    let (code, said) = running.finish();
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(stage.row("0001-greeting.md")["changed_since_done"], json!(true));
}

#[test]
fn a_spec_that_a_person_makes_and_marks_done_needs_no_agent() {
    let stage = Stage::new(&willing(&[]));
    stage.ralph(&["specs", "new", "Say goodbye"]).exits(0);
    assert_eq!(stage.row("0002-say-goodbye.md")["state"], "draft");
    stage.ralph(&["specs", "mark-done", "2", "--reason", "by hand"]).exits(0);
    stage.pipeline(&[]).exits(0).says("Completed: 1").says("Skipped: 1");
    assert_eq!(stage.runs(), "piv");
    assert!(stage.read("ralph/specs/done/0002-say-goodbye.md").contains("by hand"));
}

/// A question that no longer needs an answer is withdrawn.
#[test]
fn forcing_a_spec_that_waits_or_marking_it_done_withdraws_its_question() {
    for (args, code) in [
        (&["pipeline", "--force", "0001-greeting"][..], 0),
        (&["specs", "mark-done", "0001-greeting"], 0),
    ] {
        let stage = idle(&["0001-greeting.md"]);
        stage.pipeline(&[]).exits(3);
        let questions = || stage.ralph(&["status", "--json"]).json()["questions"].clone();
        assert_eq!(questions().as_array().unwrap().len(), 1);
        stage.ralph(args).exits(code);
        assert_eq!(questions(), json!([]), "{args:?}");
        let status = stage.ralph(&["status"]).finished.stdout;
        assert!(!status.contains("waits for you"), "{args:?}: {status}");
        stage.ralph(&["answer", "0001-greeting", "yes"]).exits(2);
        assert_eq!(stage.row("0001-greeting.md")["state"], "done");
    }
}

#[test]
fn a_person_who_changes_the_gates_meanwhile_is_not_held_against_the_agent() {
    // The agent adds everything, including the person's edit of the configuration.
    for committed in [true, false] {
        let stage = Stage::new(&willing(&[on("verifier", 1, "final Rude.\n")]));
        let gate = |command: &str| {
            stage.settings(&format!("[[gate]]\nname = \"g\"\nrun = [\"{command}\"]\n"));
        };
        gate("true");
        let commit = || {
            stage.git(&["add", "-A"]);
            stage.git(&["commit", "-q", "-m", "a gate"]);
        };
        commit();
        stage.pipeline(&["--max-attempts", "1"]).exits(1);
        gate("ls");
        if committed {
            commit();
        }
        stage.pipeline(&["1"]).exits(0).says("the gates changed");
        assert_eq!(stage.row("0001-greeting.md")["state"], "done");
    }
}

#[test]
fn a_spec_that_a_person_marks_as_done_or_removes_while_it_is_worked_on_stops_no_other() {
    for removed in [false, true] {
        let stage = Stage::with("", "", &["0001-greeting.md", "0002-next.md"]);
        let wait = format!("write ready.txt x\n{}run rm ready.txt\n", stage.waiting());
        let works = format!("{wait}{}", BUILDS.split_once('\n').unwrap().1);
        stage.script(&willing(&[on("implementer", 1, &works)]));
        let running = stage.place.start(&["pipeline"]);
        stage.wait_in_slot("ready.txt");
        if removed {
            fs::remove_file(stage.file("ralph/specs/0001-greeting.md")).unwrap();
        } else {
            stage.ralph(&["specs", "mark-done", "1", "--reason", "by hand"]).exits(0);
        }
        stage.go();
        let (code, said) = running.finish();
        assert_eq!(code, Some(0), "{said}");
        assert_eq!(stage.row("0002-next.md")["state"], "done", "{said}");
    }
}
