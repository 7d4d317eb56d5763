//! A spec through the build loop: the agents change the plan through the run's channel, from inside their sandboxes.

use std::fs;

use ralph_model::role::Role;
use serde_json::{Value, json};

use super::pipeline::told;
use super::stage::{Settings, Stage};
use crate::support::model_server::ModelServer;
use crate::support::model_server::script::Script;

const SPEC: &str = "greet.md";

const GATE: &str =
    "[[gate]]\nname = \"greets\"\nrun = [\"grep\", \"-q\", \"^hello\", \"greeting.txt\"]\n";

const PLAN: &str =
    r#"ralph task add '{"id": "t-hello", "name": "Say hello", "accept": "greeting.txt says it"}'"#;

/// Claims too early, then does the work.
const BUILD: &str = "ralph task done; echo hello > greeting.txt && ralph task done";

const VERIFY: &str = "grep hello greeting.txt && ralph task accept t-hello";

pub(super) fn brings_a_spec_from_plan_to_complete(stage: &Stage) {
    stage.env.in_place();
    builds(stage);
}

/// Plans a spec and builds it, in a clone or in place.
pub(super) fn builds(stage: &Stage) {
    let specs = stage.env.repo().join("ralph/specs");
    fs::create_dir_all(&specs).unwrap();
    fs::write(specs.join(SPEC), "# Greet\n\n`greeting.txt` says hello.\n").unwrap();
    let script = Script::new()
        .shell(PLAN)
        .text("one task")
        .shell(BUILD)
        .text("built")
        .shell(VERIFY)
        .text("[RALPH] SPEC_COMPLETE");
    let server = ModelServer::start(script);
    let settings = Settings { gates: GATE, ..Settings::default() };
    let (planned, built) = stage.plan_and_build(settings, &server, SPEC);
    assert_eq!(planned.report["result"], "planned", "{}", planned.finished);
    assert_eq!(built.report["result"], "complete", "{}", built.finished);
    assert_eq!((planned.code(), built.code()), (Some(0), Some(0)), "{}", built.finished);

    let runs = stage.runs();
    let roles: Vec<Role> = runs.iter().map(|(started, _)| started.role).collect();
    assert_eq!(roles, [Role::Planner, Role::Builder, Role::Verifier]);
    let plan = fs::read_to_string(stage.env.repo().join("ralph/plan.jsonl")).unwrap();
    assert!(!plan.contains("t-hello"), "{plan}");

    // Each agent received its reply.
    let turns = server.turns();
    assert!(told(&turns, 1).contains("t-hello"), "{}", told(&turns, 1));
    let answers = told(&turns, 3);
    assert!(answers.contains("nothing has changed"), "{answers}");
    assert!(answers.contains("t-hello is noted as done"), "{answers}");

    let git = |args: &[&str]| stage.env.git(args);
    let commit = git(&["log", "-1", "--format=%H", "--", "greeting.txt"]);
    assert_eq!(git(&["show", "--name-only", "--format=%s", &commit]), "Say hello\n\ngreeting.txt");
    let receipt = git(&["notes", "--ref=ralph", "show", &commit]);
    let receipt: Value = serde_json::from_str(&receipt).unwrap();
    assert_eq!(
        (&receipt["item"], &receipt["worker"]["agent"], &receipt["gates"][0]["gate"]["name"]),
        (&json!("t-hello"), &json!(stage.agent.name()), &json!("greets")),
        "{receipt}"
    );
    assert_eq!(git(&["status", "--porcelain"]), "");
    stage.assert_nothing_is_left();
}
