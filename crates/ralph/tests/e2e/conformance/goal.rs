//! From a goal to all stories passing: the interviewer drafts, the implementers work in clones, and Ralph decides what
//! passes.

use ralph_model::role::Role;
use serde_json::{Value, json};

use super::stage::{Settings, Stage};
use crate::support::model_server::ModelServer;
use crate::support::model_server::script::Script;

const GATE: &str =
    "[[gate]]\nname = \"no-debt\"\nrun = [\"sh\", \"-c\", \"! grep -qs later one.txt\"]\n";

/// Implements a story incorrectly, and claims it in the copy of the PRD.
const BAD: &str = "echo later > one.txt && git add one.txt && git commit -qm 'feat: US-001' && \
                   sed -i 's/\"passes\": false/\"passes\": true/' $RALPH_OUT/prd.json";

/// Implements it correctly, and leaves it uncommitted.
const GOOD: &str = "echo now > one.txt && echo '- one.txt is where it is' >> $RALPH_OUT/progress.txt && \
                    sed -i 's/\"passes\": false/\"passes\": true/' $RALPH_OUT/prd.json";

/// Claims only by the promise.
const OTHER: &str = "echo two > two.txt && git add two.txt && git commit -qm 'feat: US-002'";

pub(super) fn brings_a_goal_to_stories_that_pass(stage: &Stage) {
    stage.env.isolate();
    let story = |id: &str, priority: u32| {
        json!({
            "id": id, "title": format!("Do {id}"), "acceptanceCriteria": ["`true` passes"],
            "priority": priority, "passes": false, "notes": "",
        })
    };
    let envelope = json!({
        "questions": [],
        "uncertainties": [],
        "prdDraft": {"branchName": "ralph/goal", "userStories": [story("US-001", 1), story("US-002", 2)]},
        "recommendUnderstand": {"shouldRun": false, "reasons": []},
    });
    let script = Script::new()
        .text(&envelope.to_string())
        .shell(BAD)
        .text("I claim it.")
        .shell(GOOD)
        .text("Now it is right.")
        .shell(OTHER)
        .text("All of it.\n<promise>COMPLETE</promise>");
    let server = ModelServer::start(script);
    let settings = Settings { gates: GATE, ..Settings::default() };
    let ran = stage.exec(settings, &server, &["do both", "--max-run-iterations", "auto+1"]);
    assert_eq!(ran.code(), Some(0), "{}", ran.finished);
    assert_eq!(ran.report["result"], "complete", "{}", ran.finished);
    assert_eq!((&ran.report["passing"], &ran.report["total"]), (&json!(2), &json!(2)));

    let roles: Vec<Role> = stage.runs().iter().map(|(started, _)| started.role).collect();
    assert_eq!(roles, [Role::Interviewer, Role::Implementer, Role::Implementer, Role::Implementer]);
    let git = |args: &[&str]| stage.env.git(args);
    assert_eq!(git(&["show", "ralph/goal:one.txt"]), "now");
    assert_eq!(git(&["show", "ralph/goal:two.txt"]), "two");
    let prd: Value = serde_json::from_str(&git(&["show", "ralph/goal:ralph/prd.json"])).unwrap();
    let passes = |index: usize| prd["userStories"][index]["passes"] == true;
    assert!(passes(0) && passes(1), "{prd}");
    let notes = git(&["show", "ralph/goal:ralph/progress.txt"]);
    assert!(notes.contains("- one.txt is where it is"), "{notes}");
    // The person's own checkout is unchanged.
    assert_eq!(git(&["branch", "--show-current"]), "main");
    assert!(!stage.env.repo().join("one.txt").exists());
    let receipt = git(&["notes", "--ref=ralph", "show", "ralph/goal~1"]);
    let receipt: Value = serde_json::from_str(&receipt).unwrap();
    assert_eq!(receipt["item"], "ralph/goal/US-002", "{receipt}");
    assert_eq!(receipt["worker"]["agent"], stage.agent.name(), "{receipt}");
    stage.assert_nothing_is_left();
}
