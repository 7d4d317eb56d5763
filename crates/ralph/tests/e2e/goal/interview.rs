//! `ralph plan "<goal>"`: questions, drafts, the review; what is written when, and the interviewer's permissions.

use std::fs;

use serde_json::{Value, json};

use super::{Desk, GOAL, PLAN_UNASKED, block, draft, drafts_at_once, envelope};

/// Asks two questions, replies with prose, drafts with an extra key, drafts correctly, and drafts again after a change
/// request.
fn every_turn() -> String {
    let mut wrong = draft(&["US-001"]);
    wrong["project"] = json!("p");
    [
        block(
            "interviewer 1",
            &["make test", GOAL],
            &envelope(&["Which pages?", "Since when?"], &Value::Null),
        ),
        block("interviewer 2", &["all of them", "A: now"], "Sure, here it is."),
        block("interviewer 3", &["not valid JSON", "valid JSON only"], &envelope(&[], &wrong)),
        block(
            "interviewer 4",
            &["Unexpected keys: project"],
            &envelope(&[], &draft(&["US-001", "US-002"])),
        ),
        block(
            "interviewer 5",
            &["What should change?", "only one story", "US-002"],
            &envelope(&[], &draft(&["US-001"])),
        ),
    ]
    .concat()
}

#[test]
fn a_goal_becomes_a_prd_through_every_state_of_the_interview() {
    let desk = Desk::new(&every_turn());
    let said = desk.typed(0, &["plan", GOAL], "\nall of them\nnow\nn\nonly one story\ny\n");
    for shown in [
        "the goal: add dark mode",
        "? Which commands verify the work",
        "    make test",
        "? Which pages?",
        "? Since when?",
        "not valid: the answer is not valid JSON",
        "not valid: Unexpected keys: project",
        "Stories: 2 (2 failing)",
        "? Write this PRD to `ralph/prd.json`? [y/N]",
        "? What should change?",
        "Stories: 1 (1 failing)",
        "1 acceptance criterion, 1 with a verification command",
    ] {
        assert!(said.contains(shown), "no `{shown}` in\n{said}");
    }
    // The agent's `passes: true` does not count.
    let mut expected = draft(&["US-001"]);
    expected["userStories"][0]["passes"] = json!(false);
    assert_eq!(desk.prd(), expected);
    let state = desk.state();
    assert_eq!((&state["state"], &state["goal"]), (&json!("done"), &json!(GOAL)));
    assert!(state["approvedPrdAt"].is_string());
    let answers: Vec<&str> =
        state["qa"].as_array().unwrap().iter().map(|qa| qa["answer"].as_str().unwrap()).collect();
    assert_eq!(answers, ["make test", "all of them", "now", "only one story"]);
    let transcript = desk.transcript();
    for kept in [
        "Goal",
        "Which pages?",
        "Sure, here it is.",
        "- Unexpected keys: project",
        "Not approved.",
        "Approved.",
    ] {
        assert!(transcript.contains(kept), "no `{kept}` in\n{transcript}");
    }
    // One commit, of home only.
    assert_eq!(desk.git(&["status", "--porcelain"]), "");
    let changed = desk.git(&["show", "--name-only", "--format="]);
    assert!(changed.lines().all(|path| path.starts_with("ralph/")), "{changed}");
    assert_eq!(desk.place.env.commits().len(), 3, "{:?}", desk.place.env.commits());
    desk.exits(0, &["validate"]);
    desk.place.assert_nothing_left();
}

/// Compared by content: the tree, the index, refs and commits.
#[test]
fn before_the_approval_nothing_outside_home_changes() {
    let desk = Desk::new(&every_turn());
    desk.write("dirty.txt", "mine");
    desk.write("staged.txt", "mine too");
    desk.git(&["add", "staged.txt"]);
    let before = desk.outside();
    // Every turn up to the review; then the person declines.
    let said = desk.typed(0, &["plan", GOAL], "\nall of them\nnow\nn\n\n");
    assert!(said.contains("no PRD was written"), "{said}");
    assert!(said.contains("agents will not see 2 changed files of yours"), "{said}");
    assert_eq!(desk.outside(), before);
    assert_eq!(desk.prd()["userStories"], json!([]));
    assert_eq!(desk.state()["state"], "review_prd");
}

#[test]
fn without_a_terminal_it_says_what_to_do() {
    let desk = Desk::new(&drafts_at_once());
    let before = desk.outside();
    for command in ["plan", "exec"] {
        let finished = desk.exits(3, &[command, GOAL]);
        assert!(finished.stderr.contains("needs a terminal"), "{finished}");
        assert!(finished.stderr.contains("--non-interactive"), "{finished}");
    }
    assert_eq!(desk.outside(), before);
    assert!(!desk.path("ralph").exists(), "nothing is scaffolded");
}

/// C10.8: consent has its own flags, and a missing answer has its own exit code.
#[test]
fn without_anybody_to_ask_what_is_missing_is_named_and_the_interview_goes_on_with_it() {
    let script = [
        block("interviewer 1", &[], &envelope(&["Which pages?", "Since when?"], &Value::Null)),
        block("interviewer 2", &["A: all", "A: today"], &envelope(&[], &draft(&["US-001"]))),
    ]
    .concat();
    let desk = Desk::new(&script);
    let answers = desk.answers(&json!({"pages": "all"}));
    let args = ["plan", GOAL, "--non-interactive", "--answers", &answers];
    let finished = desk.exits(3, &args);
    assert!(finished.stderr.contains("question q2: Since when?"), "{finished}");
    assert_eq!(desk.state()["state"], "collect_context");
    // Existing answers are kept, and no run is repeated for them.
    desk.answers(&json!({"since when?": "today"}));
    let finished = desk.exits(3, &args);
    assert!(finished.stderr.contains("--approve-prd"), "{finished}");
    assert_eq!(desk.state()["state"], "review_prd");
    assert_eq!(desk.prd()["userStories"], json!([]));
    let approved = desk.exits(0, &["plan", "--resume", "--non-interactive", "--approve-prd"]);
    // What is approved, or waits for it, is shown all the same.
    for said in [&finished.stderr, &approved.stderr] {
        assert!(said.contains("US-001") && said.contains("Write this PRD to"), "{said}");
    }
    assert!(approved.stderr.contains("? yes (--approve-prd)"), "{approved}");
    assert_eq!(desk.prd()["userStories"][0]["id"], "US-001");
    assert_eq!(desk.roles(), ["interviewer", "interviewer"]);
}

/// C10.9: five retries, then the command fails with the reason; a person may try again.
#[test]
fn an_interviewer_that_never_answers_in_form_is_asked_six_times() {
    let desk = Desk::new(&block("interviewer", &[], "{\"questions\": []}"));
    let finished = desk.exits(1, &PLAN_UNASKED);
    assert_eq!(desk.roles().len(), 6);
    let told = "missing required keys: prdDraft, recommendUnderstand, uncertainties";
    assert!(finished.stderr.contains(told), "{finished}");
    assert!(finished.stderr.contains("ralph plan --resume"), "{finished}");
    desk.exits(1, &["plan", "--resume", "--non-interactive"]);
    assert_eq!(desk.roles().len(), 12);
}

/// C10.14: a run that fails is no answer. It is tried again, and three failures of a kind end the command with the way to
/// go on.
#[test]
fn an_interviewer_that_fails_or_takes_too_long_has_not_answered() {
    let drafts = drafts_at_once();
    let answers = drafts.split_once('\n').unwrap().1;
    for (failing, told) in [
        (format!("{answers}exit 3\n"), "ended with exit 3"),
        (format!("{answers}crash\n"), "ended with signal 9"),
        (format!("{answers}hang\n"), "the run took too long"),
    ] {
        let desk = Desk::new(&format!("[interviewer 1]\n{failing}{drafts}"));
        desk.configure("roles.interviewer.timeout = \"1s\"");
        let finished = desk.exits(0, &PLAN_UNASKED);
        assert!(finished.stderr.contains(told), "{told}: {finished}");
        assert_eq!(desk.roles().len(), 2, "{told}: {finished}");
    }
    let desk = Desk::new("[interviewer]\nexit 3\n");
    let finished = desk.exits(1, &PLAN_UNASKED);
    assert!(finished.stderr.contains("the same problem three times in a row"), "{finished}");
    assert!(finished.stderr.contains("--resume"), "{finished}");
    assert_eq!(desk.prd()["userStories"], json!([]));
}

/// C10.15: whatever the interviewer tries, it writes nothing; without the kernel boundary, writing aborts.
#[test]
fn the_interviewer_writes_nothing() {
    let writes =
        "run echo x > new.txt\nrun echo y >> README.md\nrun git commit -q --allow-empty -m mine\n";
    let script = drafts_at_once().replace("[interviewer]\n", &format!("[interviewer]\n{writes}"));
    // The kernel prevents everything: the interview continues.
    let desk = Desk::new(&script);
    desk.exits(0, &PLAN_UNASKED);
    assert!(!desk.path("new.txt").exists());
    assert_eq!(desk.read("README.md"), "A repository.\n");
    assert!(!desk.place.env.commits().contains(&"mine".to_owned()));

    // In its clone it is detected too, and the person's side is unchanged.
    let desk = Desk::new(&script);
    desk.configure("boundary = \"detect\"");
    let before = desk.outside();
    let finished = desk.exits(1, &PLAN_UNASKED);
    assert!(finished.stderr.contains("the interviewer made forbidden changes"), "{finished}");
    assert_eq!(desk.outside(), before);

    let desk = Desk::new(&script);
    desk.place.env.in_place();
    desk.configure("boundary = \"detect\"");
    let before = desk.outside();
    let finished = desk.exits(1, &PLAN_UNASKED);
    assert!(finished.stderr.contains("the interviewer made forbidden changes"), "{finished}");
    for path in ["new.txt", "README.md"] {
        assert!(finished.stderr.contains(path), "{finished}");
    }
    assert_eq!(desk.prd()["userStories"], json!([]));
    let mut after = desk.outside();
    // The reverted changes are kept on a ref of Ralph's own.
    let refs = String::from_utf8(after.remove("for-each-ref").unwrap()).unwrap();
    let own = |line: &&str| !line.contains("refs/ralph/");
    let refs: Vec<&str> = refs.lines().filter(own).collect();
    assert_eq!(refs.join("\n").into_bytes(), before["for-each-ref"]);
    for name in ["README.md", "HEAD", "ls-files --stage"] {
        assert_eq!(after.get(name), before.get(name), "{name}");
    }
    assert!(!after.contains_key("new.txt"));
    let hint = finished.stderr.lines().find(|line| line.contains("boundary.diff")).unwrap();
    let diff = fs::read_to_string(hint.split('`').nth(1).unwrap()).unwrap();
    assert!(diff.contains("+y"), "{diff}");
    assert!(diff.contains("+x"), "{diff}");
}

#[test]
fn a_template_of_a_person_is_used_and_the_contract_comes_with_it() {
    let own =
        block("interviewer", &["Be brief.", "prdDraft", GOAL], &envelope(&[], &draft(&["US-001"])));
    let desk = Desk::new(&own);
    desk.write("ralph/PROMPT_interview.md", "Be brief.\n");
    desk.exits(0, &PLAN_UNASKED);
}

#[test]
fn a_question_cannot_look_like_ralphs_own_words() {
    let hostile = "Really?\n\u{1b}[2J[done] all is well\r? Start `ralph run` now? [Y/n]";
    let desk = Desk::new(
        &[
            block("interviewer 1", &[], &envelope(&[hostile], &Value::Null)),
            block("interviewer 2", &[], &envelope(&[], &draft(&["US-001"]))),
        ]
        .concat(),
    );
    let said = desk.typed(0, &["plan", GOAL], "\nyes\ny\n");
    assert!(!said.contains('\u{1b}'), "{said:?}");
    for line in said.lines() {
        assert!(!line.starts_with("[done] all is well"), "{said}");
        assert!(!line.starts_with("? Start"), "{said}");
    }
}
