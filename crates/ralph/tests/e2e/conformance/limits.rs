//! A usage limit: recognised with its reset, waited for, and no cost to the attempt.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use serde_json::json;

use super::expected;
use super::expected::patience;
use super::stage::{Ran, Settings, Stage};
use crate::support::agents::{Access, Account, RealAgent, Retries};
use crate::support::model_server::ModelServer;
use crate::support::model_server::script::Script;

/// Only a subscription has limits that reset.
pub(super) const SUBSCRIBED: Settings = Settings {
    access: Access { account: Account::Subscription, retries: Retries::Few },
    agent: "",
    gates: "",
};

/// A time in whole seconds, as vendors report it.
pub(super) fn from_now(after: Duration) -> Timestamp {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() + after;
    Timestamp::from_second(i64::try_from(seconds.as_secs()).unwrap()).unwrap()
}

/// Returns how often the agent asks before it reports a limit.
pub(super) fn asks(agent: RealAgent) -> usize {
    if agent == RealAgent::OpenCode { 6 } else { 1 }
}

pub(super) fn ends_with_a_known_wait_where_nobody_waits(stage: &Stage) {
    // Not a whole minute, because some agents truncate to minutes.
    let reset = from_now(Duration::from_secs(2 * 3600 + 17));
    let server = ModelServer::start(stage.agent.usage_limit(Script::new(), reset.as_second()));
    let ran = stage.run_with(SUBSCRIBED, &server, &["--no-wait"], "work");
    assert_eq!((ran.code(), ran.trouble()), (Some(1), Some("usage_limit")), "{}", ran.finished);
    assert_eq!(server.turns().len(), asks(stage.agent));
    let status = stage.status();
    let wait = &status["waits"][0];
    assert_eq!(wait["agent"], stage.agent.name(), "{status}");
    if expected::tells_the_reset(stage.agent) {
        let told = json!({ "kind": "usage_limit", "resets_at": reset });
        assert_eq!(ran.report["outcome"]["trouble"], told);
        assert_eq!((&wait["until"], &wait["known"]), (&json!(reset), &json!(true)), "{status}");
    } else {
        assert_eq!(wait["known"], false, "{status}");
    }
    stage.assert_nothing_is_left();
}

pub(super) fn does_not_sit_through_a_retry_that_is_an_hour_away(stage: &Stage) {
    let later = [("retry-after", "3600")];
    let error = json!({
        "type": "rate_limit_error", "message": "Rate limit reached", "code": 429,
        "status": "RESOURCE_EXHAUSTED",
    });
    let script = Script::new().http(429, &later, json!({ "type": "error", "error": error }));
    let server = ModelServer::start(script);
    let ran = stage.run(&server, &["--no-wait", patience(stage.agent)], "work");
    assert_eq!((ran.code(), ran.trouble()), (Some(1), Some("usage_limit")), "{}", ran.finished);
    assert_eq!(stage.status()["waits"][0]["agent"], stage.agent.name());
    stage.assert_nothing_is_left();
}

pub(super) fn waits_for_the_reset_and_goes_on_in_the_same_attempt(stage: &Stage) {
    let far = if stage.agent == RealAgent::Codex { 3 } else { 5 };
    let reset = from_now(Duration::from_secs(far));
    let script = Script::new().shell("printf 'proof-%s' 42");
    let script = stage.agent.usage_limit(script, reset.as_second()).times(asks(stage.agent));
    let server = ModelServer::start(script.text("done after all"));
    let ran = stage.run_with(SUBSCRIBED, &server, &[], "the one prompt");
    ran.assert_completed("done after all");

    // Work done before the limit is not repeated: the session was resumed.
    let turns = server.turns();
    let again = turns.last().unwrap();
    assert_eq!(again.step, Some(2), "{}", ran.finished);
    let said = again.body.to_string();
    assert!(said.contains("proof-42") && said.contains("the one prompt"), "{said}");
    if expected::tells_the_reset(stage.agent) {
        assert!(again.at >= SystemTime::from(reset), "asked again before the reset");
    }
    assert_same_attempt(stage, &ran);
    stage.assert_nothing_is_left();
}

fn assert_same_attempt(stage: &Stage, ran: &Ran) {
    assert!(ran.report["log"].as_str().unwrap().ends_with("-attempt-1.log"), "{}", ran.finished);
    let status = stage.status();
    assert_eq!(status["waits"], json!([]), "{status}");
    let runs = status["runs"].as_array().unwrap();
    let kinds: Vec<_> = runs.iter().map(|run| &run["outcome"]["kind"]).collect();
    assert_eq!(kinds, ["trouble", "completed"], "{status}");
    assert_eq!(runs[0]["outcome"]["trouble"]["kind"], "usage_limit", "{status}");
}
