//! Large volumes: a long prompt, and a tool that prints endlessly.

use std::fmt::Write;

use serde_json::Value;

use super::stage::Stage;
use crate::support::agents::RealAgent;
use crate::support::model_server::ModelServer;
use crate::support::model_server::script::Script;

pub(super) fn reads_a_prompt_of_200_kb_unchanged(stage: &Stage) {
    let mut prompt = String::new();
    for line in 0.. {
        if prompt.len() > 200_000 {
            break;
        }
        writeln!(
            prompt,
            "{line}: \"quoted\" 'so' \\ and \t so, {{\"a\": [1]}} $HOME `x` äöü 漢字 🦀"
        )
        .unwrap();
    }
    prompt.push_str("the end");
    let server = ModelServer::start(Script::new().text("read"));
    let ran = stage.run(&server, &[], &prompt);
    ran.assert_completed("read");
    let body = &server.turns()[0].body;
    assert!(any_text(body, &|text| text.contains(&prompt)), "the prompt came otherwise");
    stage.assert_nothing_is_left();
}

fn any_text(value: &Value, is_wanted: &dyn Fn(&str) -> bool) -> bool {
    match value {
        Value::String(text) => is_wanted(text),
        Value::Array(values) => values.iter().any(|value| any_text(value, is_wanted)),
        Value::Object(fields) => fields.values().any(|value| any_text(value, is_wanted)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

pub(super) fn survives_two_megabytes_from_a_tool(stage: &Stage) {
    let server = ModelServer::start(Script::new().shell("seq 1 300000").text("that was much"));
    let ran = stage.run(&server, &[], "print");
    // Gemini loses the end of its own output. That fails the run, but never counts as a success.
    if stage.agent == RealAgent::Gemini && ran.outcome() != "completed" {
        assert_eq!(ran.trouble(), Some("agent"), "{}", ran.finished);
        assert_eq!(ran.code(), Some(1));
    } else {
        ran.assert_completed("that was much");
    }
    stage.assert_nothing_is_left();
}
