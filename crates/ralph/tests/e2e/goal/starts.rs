//! The start of an interview: fresh, resumed, or with an existing PRD.

use std::fs;

use serde_json::{Value, json};

use super::{Desk, GOAL, PLAN_UNASKED, block, draft, drafts_at_once, envelope, story};

fn asks_then_drafts() -> String {
    let asks = envelope(&["Which pages?", "Since when?"], &Value::Null);
    let drafts = envelope(&[], &draft(&["US-001"]));
    [block("interviewer 1", &[], &asks), block("interviewer", &[], &drafts)].concat()
}

#[test]
fn an_interview_about_the_same_goal_goes_on_unless_the_person_wants_another() {
    let desk = Desk::new(&asks_then_drafts());
    // Input ends at the second question.
    desk.typed(130, &["plan", GOAL], "\nall\n\u{4}");
    assert_eq!(desk.state()["qa"].as_array().unwrap().len(), 2);
    let said = desk.typed(0, &["plan", &format!("  {GOAL} ")], "\nnow\ny\n");
    assert!(said.contains("it has 2 of your answers"), "{said}");
    assert!(said.contains("? Continue it?") && said.contains("[Y/n]"), "{said}");
    assert!(!said.contains("Which pages?"), "it is not asked twice:\n{said}");
    assert_eq!(desk.roles().len(), 2);
    // Approved; the same goal again finds that, and nothing is planned again without asking.
    let said = desk.typed(0, &["plan", GOAL], "\n");
    assert!(said.contains("was approved at"), "{said}");
    assert_eq!(desk.roles().len(), 2);
    let said = desk.typed(0, &["plan", GOAL], "n\n2\n\ny\n");
    assert!(said.contains("A PRD already exists"), "{said}");
    assert_eq!(desk.roles().len(), 3);
    assert_eq!(archived(&desk), 1);
}

fn archived(desk: &Desk) -> usize {
    let files = fs::read_dir(desk.path("ralph")).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("plan_state.2")).count()
}

#[test]
fn another_goal_archives_the_state_and_the_transcript_goes_on() {
    let desk = Desk::new(&asks_then_drafts());
    desk.exits(3, &["plan", GOAL, "--non-interactive"]);
    let before = desk.transcript();
    let finished = desk.exits(2, &["plan", "another goal", "--resume", "--non-interactive"]);
    assert!(finished.stderr.contains(GOAL), "{finished}");
    assert_eq!(archived(&desk), 0);
    let finished = desk.exits(0, &["plan", "another goal", "--non-interactive", "--approve-prd"]);
    assert!(finished.stderr.contains("about another goal"), "{finished}");
    assert_eq!(archived(&desk), 1);
    assert_eq!(desk.state()["goal"], "another goal");
    assert!(desk.transcript().starts_with(&before), "it is only ever appended to");
}

#[test]
fn a_prd_that_is_there_is_shown_and_updated_with_the_passes_of_what_stays() {
    let script = block(
        "interviewer",
        &["Do old-1", "Keep the id", "Colours are in colours.css"],
        &envelope(&[], &draft(&["old-1", "US-009"])),
    );
    let desk = Desk::new(&script);
    desk.write_prd(&[("old-1", true), ("old-2", false)]);
    let map = "# Map\n\nColours are in colours.css.\n";
    desk.write("ralph/codebase_map.md", map);
    desk.commit_all("a PRD and a map");
    let said = desk.typed(0, &["plan", GOAL], "\n\ny\n");
    assert_eq!(desk.read("ralph/codebase_map.md"), map);
    assert!(said.contains("Stories: 2 (1 failing)"), "{said}");
    assert!(said.contains("1. update it (default)"), "{said}");
    let passes: Vec<(Value, Value)> = stories(&desk);
    assert_eq!(passes, [(json!("old-1"), json!(true)), (json!("US-009"), json!(false))]);

    let script = block("interviewer", &[], &envelope(&[], &draft(&["old-1"])));
    let desk = Desk::new(&script);
    desk.write_prd(&[("old-1", true)]);
    // Uncommitted: it is preserved even when overwritten.
    desk.typed(0, &["plan", GOAL], "overwrite\n\ny\n");
    assert_eq!(stories(&desk), [(json!("old-1"), json!(false))]);
    assert!(desk.git(&["show", "HEAD~1:ralph/prd.json"]).contains("ralph/old"));
}

fn stories(desk: &Desk) -> Vec<(Value, Value)> {
    let prd = desk.prd();
    let stories = prd["userStories"].as_array().unwrap();
    stories.iter().map(|story| (story["id"].clone(), story["passes"].clone())).collect()
}

#[test]
fn a_replaced_prd_is_kept_beside_the_new_one_where_home_is_not_committed() {
    let desk = Desk::new(&drafts_at_once());
    desk.configure("git.commit_home = false");
    desk.write_prd(&[("old-1", true)]);
    desk.exits(0, &PLAN_UNASKED);
    let files = fs::read_dir(desk.path("ralph")).unwrap();
    let names: Vec<String> =
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    let kept = names.iter().find(|name| name.starts_with("prd.2")).unwrap();
    assert!(desk.read(&format!("ralph/{kept}")).contains("old-1"));
}

#[test]
fn a_prd_of_another_loop_is_refused_with_its_errors_and_the_way_to_convert_it() {
    let desk = Desk::new(&drafts_at_once());
    desk.write("ralph/prd.json", r#"{"project": "P", "branchName": "x", "userStories": []}"#);
    let finished = desk.exits(2, &PLAN_UNASKED);
    assert!(finished.stderr.contains("Unexpected keys: project"), "{finished}");
    assert!(finished.stderr.contains("ralph prd import"), "{finished}");
    assert!(!desk.path("ralph/plan_state.json").exists());
}

#[test]
fn homes_of_other_loops_work_as_they_are() {
    let desk = Desk::new(&drafts_at_once());
    desk.write("scripts/ralph/prompt.md", "Do the next story.\n");
    let prd = json!({"branchName": "b", "userStories": [story("a", false)]});
    desk.write("scripts/ralph/prd.json", &prd.to_string());
    desk.commit_all("as other loops have it");
    desk.exits(0, &PLAN_UNASKED);
    assert!(desk.read("scripts/ralph/prd.json").contains("US-001"));
    assert_eq!(desk.read("scripts/ralph/prompt.md"), "Do the next story.\n");
    assert!(!desk.path("ralph").exists());
}

#[test]
fn a_damaged_state_stops_the_command_and_is_not_overwritten() {
    let desk = Desk::new(&drafts_at_once());
    for damaged in ["{", r#"{"schemaVersion": 7}"#] {
        desk.write("ralph/plan_state.json", damaged);
        let finished = desk.exits(2, &PLAN_UNASKED);
        assert!(finished.stderr.contains("plan_state.json"), "{finished}");
        assert_eq!(desk.read("ralph/plan_state.json"), damaged);
    }
    let finished = desk.exits(1, &["validate"]);
    assert!(finished.stdout.contains("schema version 7"), "{finished}");
}

#[test]
fn what_is_no_spec_is_a_goal_and_flags_settle_it() {
    let desk = Desk::new(&drafts_at_once());
    desk.write("ralph/specs/greet.md", "# Greet\n");
    desk.commit_all("a spec");
    let unasked = ["--non-interactive", "--approve-prd"];
    // A missing file is never a goal.
    for missing in ["missing.md", "docs/missing.md", "improve README.md too.md"] {
        let finished = desk.exits(2, &["plan", missing]);
        assert!(finished.stderr.contains("greet.md"), "{finished}");
    }
    let finished = desk.exits(2, &["plan", "dark", "--spec"]);
    assert!(finished.stderr.contains("spec `dark` not found"), "{finished}");
    assert!(!desk.path("ralph/plan_state.json").exists());
    for goal in ["dark", "greet", "improve README.md"] {
        let args = [&["plan", goal, "--goal"][..], &unasked].concat();
        let finished = desk.exits(0, &args);
        assert!(finished.stderr.contains(&format!("the goal: {goal}")), "{finished}");
        assert_eq!(desk.state()["goal"], goal);
    }
    let finished = desk.exits(2, &["plan", "greet", "--approve-prd"]);
    assert!(finished.stderr.contains("apply only to goals"), "{finished}");
    let finished = desk.exits(2, &["plan", "dark mode", "--yes"]);
    assert!(finished.stderr.contains("--approve-prd"), "{finished}");
}

/// A number means a spec in any directory, and is never a goal.
#[test]
fn a_number_is_a_spec() {
    let desk = Desk::new("");
    desk.write("ralph/specs/0007-greet.md", "# Greet\n\n## Goal\nGreet.\n");
    desk.write("ralph/specs/billing/0012-pay.md", "# Pay\n\n## Goal\nPay.\n");
    desk.commit_all("specs");
    for (typed, spec) in [
        ("7", "0007-greet.md"),
        ("0012", "billing/0012-pay.md"),
        ("0012-pay", "billing/0012-pay.md"),
    ] {
        let shown = desk.place.ralph(&["plan", typed, "--agent-cmd", "false"]);
        assert!(shown.stderr.contains(&format!("the spec {spec}")), "{shown}");
    }
    for typed in ["1", "0013", "99999999999999999999"] {
        let refused = desk.exits(2, &["plan", typed]);
        assert!(refused.stderr.contains(&format!("spec `{typed}` not found")), "{refused}");
        assert!(refused.stderr.contains("0007-greet.md, billing/0012-pay.md"), "{refused}");
    }
    desk.write("ralph/specs/other/0007-meet.md", "# Meet\n\n## Goal\nMeet.\n");
    let refused = desk.exits(2, &["plan", "7"]);
    assert!(
        refused.stderr.contains("0007-greet.md") && refused.stderr.contains("other/0007-meet.md"),
        "{refused}"
    );
    assert!(!desk.path("ralph/plan_state.json").exists());
}
