//! A spec from fresh to done, and the ways in which it is sent back.

use crate::replay::assert_status;
use serde_json::{Value, json};

use super::{GREETS, PHRASE, Stage, claims, on, willing};

#[test]
fn a_spec_goes_from_fresh_to_done() {
    let stage = Stage::with(&willing(&[]), GREETS, &["0001-greeting.md"]);
    stage.pipeline(&[]).exits(0).says("Completed: 1");
    assert_eq!(stage.runs(), "piv");
    let plan = stage.json("ralph/specs/plans/0001-greeting.json");
    assert_eq!(
        (&plan["status"], &plan["attempt"], &plan["attempts_used"], &plan["spec_rel"]),
        (&json!("active"), &json!(1), &json!(0), &json!("0001-greeting.md"))
    );
    assert!(stage.read("ralph/specs/plans/0001-greeting.md").contains("Plan 1"));
    let candidate = stage.json("ralph/specs/candidates/0001-greeting.json");
    assert_eq!(candidate["status"], "verified");
    assert_eq!(candidate["refs"], json!(["refs/heads/ralph/0001-greeting"]));
    let commit = candidate["candidate_commit"].as_str().unwrap();
    assert_eq!(
        stage.git(&["show", "--format=%s", "--name-only", commit]),
        "work 1\n\ngreeting.txt"
    );
    let done = stage.read("ralph/specs/done/0001-greeting.md");
    assert!(done.starts_with(&format!("DONE\nCandidate commit: {commit}\n")), "{done}");
    assert!(done.contains("\nProof: gates passed\n") && done.contains("It holds."), "{done}");
    let receipt: Value =
        serde_json::from_str(&stage.git(&["notes", "--ref=ralph", "show", commit])).unwrap();
    assert_eq!(receipt["gates"][0]["gate"]["name"], "greets");
    let row = stage.row("0001-greeting.md");
    assert_eq!((&row["state"], &row["commit"]), (&json!("done"), &json!(commit)));
    assert_eq!(stage.git(&["status", "--porcelain"]), "");
    assert_eq!(
        stage
            .git(&["log", "--format=%s"])
            .lines()
            .filter(|s| !s.starts_with("ralph: "))
            .collect::<Vec<_>>(),
        ["work 1", "specs", "start"]
    );
    // Done, it is skipped; changed since, it is skipped with a note.
    stage.pipeline(&[]).exits(0).says("Skipped: 1");
    stage.spec("0001-greeting.md");
    stage.write("ralph/specs/0001-greeting.md", "# Another\n");
    stage.pipeline(&["--json"]).exits(0).says("changed since");
    assert_eq!(stage.runs(), "piv");
    stage.place.assert_nothing_left();
}

#[test]
fn logs_and_sessions_of_a_home_without_an_ignore_file_stay_out_of_git() {
    let stage = Stage::new(&willing(&[]));
    stage.pipeline(&[]).exits(0);
    let tracked = stage.git(&["ls-files", "ralph"]);
    for ignored in ["ralph.log", "runs/", "sessions/"] {
        assert!(!tracked.contains(ignored), "{tracked}");
    }
    assert!(tracked.contains("ralph/.gitignore"), "{tracked}");
}

#[test]
fn a_planner_that_keeps_no_contract_is_told_and_asked_again() {
    // A12.2: the text that the third one leaves without the phrase is not treated as a plan by hand.
    let stage = Stage::new(&willing(&[
        on("planner", 1, &format!("final {PHRASE}")),
        on("planner", 2, &format!("outbox plan.md <<END\n  \n\nEND\nfinal {PHRASE}")),
        on("planner", 3, "outbox plan.md # Half a plan\nfinal I was not finished."),
    ]));
    stage.pipeline(&[]).exits(0);
    assert_eq!(stage.runs(), "ppppiv");
    let plan = stage.json("ralph/specs/plans/0001-greeting.json");
    assert_eq!((&plan["attempts_used"], &plan["attempt"]), (&json!(3), &json!(1)));
    let tries = plan["tries"].as_array().unwrap();
    assert!(tries.iter().all(|tried| tried["phase"] == "plan"), "{tries:?}");
    assert!(tries[0]["outcome"].as_str().unwrap().contains("left no plan"), "{tries:?}");
    assert!(tries[1]["outcome"].as_str().unwrap().contains("left no plan"), "{tries:?}");
    assert!(
        tries[2]["outcome"].as_str().unwrap().contains("was not `I AM HYPER SURE I AM DONE!`"),
        "{tries:?}"
    );
    assert!(stage.prompt("planner", 2).contains("left no plan"));
    assert!(stage.prompt("implementer", 1).contains("# Plan 4"));
    // The prompt for a valid plan does not mention earlier failures.
    assert!(!stage.prompt("implementer", 1).contains("left no plan"));
}

#[test]
fn what_a_verifier_finds_goes_to_the_next_implementer() {
    let stage = Stage::new(&willing(&[on("verifier", 1, "final The greeting is rude.")]));
    stage.pipeline(&[]).exits(0);
    assert_status(&stage.place);
    assert_eq!(stage.runs(), "piviv");
    assert!(!stage.prompt("implementer", 1).contains("# Fix these first"));
    let again = stage.prompt("implementer", 2);
    assert!(
        again.contains("# Fix these first") && again.contains("The greeting is rude."),
        "{again}"
    );
    let plan = stage.json("ralph/specs/plans/0001-greeting.json");
    assert_eq!(plan["attempts_used"], 1);
    assert_eq!(plan["tries"][0]["phase"], "verify");
    let done = stage.read("ralph/specs/done/0001-greeting.md");
    assert!(done.contains(&stage.git(&["log", "-1", "--format=%H", "--grep=work 2"])), "{done}");
}

#[test]
fn an_invalid_plan_is_archived_and_another_one_is_made() {
    let invalid =
        "final <<END\nIt cannot work.\nPLAN_INVALIDATION: greetings need a language\nEND\n";
    let look = "run ls $RALPH_HOME/specs/candidates $RALPH_HOME/specs/sessions\n\
                outbox plan.md # Plan ${INVOCATION}\nfinal I AM HYPER SURE I AM DONE!";
    let stage = Stage::new(&willing(&[
        on("verifier", 1, invalid),
        on("verifier", 2, &invalid.replace("a language", "a tone")),
        on("planner", 2, look),
    ]));
    stage.pipeline(&[]).exits(0).says("greetings need a language");
    assert_eq!(stage.runs(), "pivpivpiv");
    let again = stage.prompt("planner", 2);
    assert!(again.contains("greetings need a language") && again.contains("# Plan 1"), "{again}");
    // A12.4: nothing of the candidate, its feedback or the sessions is left when the next planner begins.
    let seen = stage.log("planner", 2);
    assert!(!seen.contains("0001-greeting.json"), "{seen}");
    assert!(!stage.prompt("implementer", 2).contains("Fix these first"));
    // A12.14: neither planner nor implementer resumes the session that led there.
    assert_eq!(stage.resumed(), vec![Value::Null; 9]);
    for (number, plan) in [(1, "# Plan 1"), (2, "# Plan 2")] {
        let archived = stage.read(&format!("ralph/specs/plans/0001-greeting.attempt-{number}.md"));
        assert!(archived.contains(plan), "{archived}");
    }
    let plan = stage.json("ralph/specs/plans/0001-greeting.json");
    assert_eq!((&plan["status"], &plan["attempt"]), (&json!("active"), &json!(3)));
    assert_eq!((&plan["attempts_used"], &plan["invalidation_reason"]), (&json!(2), &Value::Null));
    let invalidated = stage.told("plan_invalidated");
    assert_eq!(invalidated[1]["reason"], "greetings need a tone");
}

#[test]
fn a_rejected_implementer_goes_on_with_its_session_and_a_verifier_never_does() {
    let stage = Stage::new(&willing(&[
        on("planner", 1, "session plan-1\nfinal not yet"),
        on("verifier", 1, "session verify-1\nfinal The greeting is rude."),
    ]));
    stage.pipeline(&[]).exits(0);
    assert_eq!(stage.runs(), "ppiviv");
    // A12.14: a verifier always has a fresh session.
    let none = Value::Null;
    assert_eq!(
        stage.resumed(),
        [none.clone(), json!("plan-1"), none.clone(), none.clone(), json!("impl-1"), none]
    );
}

#[test]
fn a_verifier_that_names_another_commit_has_not_verified_this_one() {
    let other = "a".repeat(40);
    let stage = Stage::new(&willing(&[on("verifier", 1, &claims(&other))]));
    stage.pipeline(&[]).exits(0);
    assert_eq!(stage.runs(), "piviv");
    assert_eq!(stage.told("verify_fail")[0]["observed_commit"], other);
    assert!(stage.prompt("implementer", 2).contains("Fix these first"));
}

#[test]
fn markers_in_an_echoed_prompt_claim_nothing() {
    // A12.1: the prompts contain all markers; printing them is not a claim.
    let stage = Stage::new(&willing(&[
        on("planner", 1, "outbox plan.md # Plan\necho-prompt"),
        on(
            "implementer",
            1,
            "write greeting.txt hello\ncommit \"work\" greeting.txt\necho-prompt\nfinal I stopped.",
        ),
        on("verifier", 1, "echo-prompt\nfinal The greeting is rude."),
        on("verifier", 2, "final <<END\nBad.\nPLAN_INVALIDATION: <reason>\nEND"),
    ]));
    stage.pipeline(&[]).exits(0);
    assert_eq!(stage.runs(), "ppiiviviv");
    assert_eq!(stage.told("plan_invalidated"), Vec::<Value>::new());
    assert_eq!(stage.json("ralph/specs/plans/0001-greeting.json")["attempt"], 1);
}

#[test]
fn a_claim_that_is_followed_by_something_else_is_none() {
    let stage = Stage::new(&willing(&[
        on(
            "implementer",
            1,
            "write greeting.txt hello\ncommit \"work\" greeting.txt\n\
            final <<END\n${COMMIT}\nI AM HYPER SURE I AM DONE!\nAlmost.\nEND",
        ),
        on("implementer", 2, "final <<END\n${HEAD}\nI AM HYPER SURE I AM DONE!\nEND"),
    ]));
    // The second claims the first one's commit: it is new since the base, whoever made it.
    stage.pipeline(&[]).exits(0);
    assert_eq!(stage.runs(), "piiv");
    assert_eq!(stage.told("impl_no_completion").len(), 1);
}

#[test]
fn a_commit_that_was_there_before_is_no_work() {
    let stage = Stage::new(&willing(&[on("implementer", 1, &claims("${HEAD}"))]));
    stage.pipeline(&[]).exits(0);
    assert_eq!(stage.runs(), "piiv");
    assert_eq!(stage.told("impl_rejected").len(), 1);
}

#[test]
fn a_failed_gate_goes_back_to_the_implementer_and_costs_no_verifier() {
    let stage = Stage::with(
        &willing(&[on(
            "implementer",
            1,
            "write greeting.txt adieu\ncommit \"work\" greeting.txt\n\
            final <<END\n${COMMIT}\nI AM HYPER SURE I AM DONE!\nEND",
        )]),
        GREETS,
        &["0001-greeting.md"],
    );
    stage.pipeline(&[]).exits(0);
    assert_eq!(stage.runs(), "piiv");
    let again = stage.prompt("implementer", 2);
    assert!(again.contains("Fix these first") && again.contains("greets"), "{again}");
    assert_eq!(
        stage.json("ralph/specs/plans/0001-greeting.json")["tries"][0]["phase"],
        "implement"
    );
}

#[test]
fn another_phrase_is_asked_for_and_counts() {
    let script = willing(&[]).replace(PHRASE, "Ready.");
    let stage = Stage::new(&script);
    stage.pipeline(&["--magic-phrase", "Ready."]).exits(0);
    assert!(stage.prompt("implementer", 1).contains("\"Ready.\""));
}
