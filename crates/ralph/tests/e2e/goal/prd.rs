//! `ralph prd import`, and `ralph init` for goal-driven work.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Desk, PLAN_UNASKED, drafts_at_once};

const FOREIGN: &str = r#"{"project": "P", "branchName": "ralph/x", "description": "D", "userStories": [
    {"id": "US-001", "title": "T", "description": "As a user", "acceptanceCriteria": ["a"], "priority": 1, "passes": true, "notes": ""}]}"#;

#[test]
fn a_list_of_another_loop_is_converted_if_the_person_agrees() {
    let desk = Desk::new("");
    desk.write("ralph/prd.json", FOREIGN);
    desk.commit_all("theirs");
    let finished = desk.exits(3, &["prd", "import"]);
    assert!(finished.stderr.contains("left out: project"), "{finished}");
    assert!(finished.stderr.contains("US-001: description is moved to the notes"), "{finished}");
    for typed in ["\n", "n\n", "\u{4}"] {
        desk.typed(0, &["prd", "import"], typed);
        assert_eq!(desk.read("ralph/prd.json"), FOREIGN);
    }
    desk.typed(0, &["prd", "import"], "y\n");
    let prd = desk.prd();
    let keys: Vec<&String> = prd.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["branchName", "userStories"]);
    assert_eq!(prd["userStories"][0]["notes"], "description: As a user");
    assert_eq!(desk.git(&["status", "--porcelain"]), "");
    let finished = desk.exits(0, &["prd", "import"]);
    assert!(finished.stderr.contains("valid PRD already"), "{finished}");
}

#[test]
fn any_file_can_be_imported_and_what_is_no_list_is_refused() {
    let desk = Desk::new("");
    desk.write("features.json", r#"[{"description": "Dark", "steps": ["a"], "passes": false}]"#);
    let finished = desk.exits(0, &["prd", "import", "features.json", "--yes", "--json"]);
    let report: Value = serde_json::from_str(&finished.stdout).unwrap();
    assert_eq!(report["prd"], desk.prd());
    assert_eq!(desk.prd()["branchName"], "ralph/feature");
    for (name, text) in [("a.json", "7"), ("b.json", "{")] {
        desk.write(name, text);
        let finished = desk.exits(2, &["prd", "import", name, "--yes"]);
        assert!(finished.stderr.contains(name), "{finished}");
    }
    desk.exits(2, &["prd", "import", "missing.json", "--yes"]);
    // What it replaces is kept, also where home is not committed.
    desk.configure("git.commit_home = false");
    desk.git(&["rm", "-rq", "--cached", "ralph"]);
    desk.git(&["commit", "-qm", "home is mine"]);
    let mine = desk.read("ralph/prd.json").replace("ralph/feature", "ralph/mine");
    desk.write("ralph/prd.json", &mine);
    desk.exits(0, &["prd", "import", "features.json", "--yes"]);
    let names = std::fs::read_dir(desk.path("ralph")).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let copy = names.into_iter().find(|name| name.starts_with("prd.2")).unwrap();
    assert_eq!(desk.read(&format!("ralph/{copy}")), mine);
}

/// The preflight creates the same files as `init`, with the same contents.
#[test]
fn an_interview_scaffolds_what_init_does() {
    let files = |desk: &Desk| {
        let found =
            std::fs::read_dir(desk.path("ralph")).unwrap().map(|entry| entry.unwrap().path());
        let names = found.filter(|path| path.is_file());
        let names = names.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned());
        let made = ["plan_state.json", "plan_transcript.md", "ralph.log"];
        let names = names.filter(|name| !made.contains(&name.as_str()));
        names.map(|name| (desk.read(&format!("ralph/{name}")), name)).collect::<BTreeSet<_>>()
    };
    let [init, plan] = [Desk::new(""), Desk::new(&drafts_at_once())];
    init.exits(0, &["init"]);
    plan.exits(3, &["plan", "add dark mode", "--non-interactive"]);
    assert!(files(&init).len() > 5, "{:?}", files(&init));
    assert_eq!(files(&plan), files(&init));
}

#[test]
fn init_scaffolds_what_goal_driven_work_needs_once() {
    let desk = Desk::new(&drafts_at_once());
    desk.exits(0, &["init"]);
    assert_eq!(desk.prd(), json!({"branchName": "ralph/feature", "userStories": []}));
    for name in ["prompt.md", "understand_prompt.md", "codebase_map.md", "progress.txt"] {
        assert!(!desk.read(&format!("ralph/{name}")).is_empty(), "{name}");
    }
    desk.exits(0, &["validate"]);
    desk.write("ralph/progress.txt", "mine");
    desk.exits(0, &["init"]);
    assert_eq!(desk.read("ralph/progress.txt"), "mine");
    // A scaffolded PRD does not count: there is no question about it.
    desk.exits(0, &PLAN_UNASKED);
    assert_eq!(desk.state()["existingPrd"], Value::Null);
    desk.write("ralph/prd.json", FOREIGN);
    let finished = desk.exits(0, &["init"]);
    assert!(finished.stderr.contains("Unexpected keys: description, project"), "{finished}");
    assert!(finished.stderr.contains("ralph prd import"), "{finished}");
    assert_eq!(desk.read("ralph/prd.json"), FOREIGN);
}
