//! Checks that the session in the guide is real.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::{Desk, block, envelope};

/// The blocks of a language in the guide.
fn blocks(language: &str) -> Vec<String> {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/goal.md");
    let guide = fs::read_to_string(guide).unwrap();
    let opening = format!("```{language}\n");
    let blocks = guide.split(&opening).skip(1);
    blocks.map(|block| block.split("```\n").next().unwrap().to_owned()).collect()
}

#[test]
fn the_session_of_the_guide_is_what_ralph_says() {
    let session = &blocks("text")[0];
    let questions = [
        "Which pages should be dark: all of them, or only the settings?",
        "Should the choice be kept when the browser is closed?",
    ];
    let story = |id: &str, title: &str, criteria: &[&str], priority: u32| json!({"id": id, "title": title, "acceptanceCriteria": criteria, "priority": priority, "passes": false, "notes": ""});
    let criteria = ["No colour is named outside of colours.css", "`make test` passes"];
    let colours = story("US-001", "Colours come from one file", &criteria, 1);
    let criteria = [
        "The switch is in the settings",
        "The choice is kept when the browser is closed",
        "`make test` passes",
    ];
    let switch = story("US-002", "A switch in the settings", &criteria, 2);
    let drafted = json!({
        "questions": [],
        "uncertainties": [{"topic": "colours", "reason": "r", "evidenceMissing": "e"}],
        "prdDraft": {"branchName": "ralph/dark-mode", "userStories": [colours, switch]},
        "recommendUnderstand": {"shouldRun": true, "reasons": ["colours are spread over the templates"]},
    });
    let script = [
        block("interviewer 1", &[], &envelope(&questions, &Value::Null)),
        block("interviewer 2", &[], &drafted.to_string()),
    ];
    let desk = Desk::new(&script.concat());
    let said = desk.typed(0, &["exec", "add dark mode"], "\nall of them\nyes\ny\n\n\n");
    let mut rest = said.as_str();
    let typed = |line: &&str| line.starts_with("$ ") || line.starts_with('>');
    let varies = |line: &&str| line.starts_with("[created]") || line.starts_with("[done]");
    for line in session.lines().filter(|line| !typed(line) && !varies(line)) {
        let Some((_, after)) = rest.split_once(line) else {
            panic!("no `{line}` there in\n{said}")
        };
        rest = after;
    }
}

#[test]
fn the_run_of_the_guide_is_what_ralph_says() {
    let session = &blocks("text")[1];
    let desk = super::run::desk(super::run::WILLING, &[("US-001", 1), ("US-002", 2)]);
    let prd = desk.read("ralph/prd.json").replace("ralph/dark", "ralph/dark-mode");
    let prd = prd.replace("Do US-001", "Colours come from one file");
    desk.write("ralph/prd.json", &prd.replace("Do US-002", "A switch in the settings"));
    desk.commit_all("the PRD of the guide");
    let said = desk.exits(0, &["run"]).stderr;
    // Commits and times vary.
    let told = |line: &str| {
        let words = line.split([' ', '(', ')']).map(|word| word.trim_matches([',', ';']));
        let is_id = |word: &str| word.len() == 8 && word.chars().all(|c| c.is_ascii_hexdigit());
        let words = words.filter(|word| !is_id(word) && !word.ends_with("ms"));
        words.collect::<Vec<_>>().join(" ")
    };
    let shown: Vec<String> = said.lines().map(told).collect();
    let mut rest = shown.iter();
    for line in session.lines().filter(|line| !line.starts_with('$')).map(told) {
        let is_done = line.starts_with("[done] completed");
        let found =
            rest.by_ref().any(|shown| *shown == line || (is_done && shown.starts_with("[done]")));
        assert!(found, "no `{line}` there in\n{said}");
    }
}

/// The scripted interview, and the envelope that the guide shows alone.
#[test]
fn the_interviewer_of_the_guide_can_be_played() {
    let script = &blocks("rehearsal")[0];
    let desk = Desk::new(script);
    let said = desk.typed(0, &["plan", "add dark mode"], "\nall of them\ny\n");
    assert!(said.contains("? Which pages?"), "{said}");
    let drafted = script.split("\"prdDraft\": {").nth(1).unwrap().split("}\nEND").next().unwrap();
    let drafted: Value = serde_json::from_str(&format!("{{{drafted}")).unwrap();
    assert_eq!(desk.prd(), drafted);

    let drafts = block("interviewer", &[], &envelope(&[], &drafted));
    let desk = Desk::new(&[block("interviewer 1", &[], &blocks("json")[0]), drafts].concat());
    let said = desk.typed(0, &["plan", "add dark mode"], "\nall of them\ny\n");
    assert!(said.contains("? Which pages should be dark?"), "{said}");
    assert_eq!(desk.state()["qa"][1]["answer"], "all of them");
}
