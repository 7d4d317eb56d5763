//! Trouble that is not the work's fault: distinguished from it, classified, and bounded.

use serde_json::{Value, json};

use super::expected::patience;
use super::stage::{Ran, Settings, Stage};
use crate::support::agents::{Access, Account, Retries};
use crate::support::model_server::ModelServer;
use crate::support::model_server::script::Script;

/// No server listens there, and no test's server can: the port is too low to be assigned.
const NOBODY: &str = "http://127.0.0.1:2";

fn error(kind: &str, code: u16) -> Value {
    let error = json!({ "type": kind, "message": "scripted", "code": code });
    json!({ "type": "error", "error": error })
}

pub(super) fn gives_up_early_on_a_refused_key(stage: &Stage) {
    let server =
        ModelServer::start(Script::new().http(401, &[], error("authentication_error", 401)));
    // By default some agents repeat the request for minutes.
    let access = Access { account: Account::Key, retries: Retries::AsShipped };
    let settings = Settings { access, ..Settings::default() };
    let ran = stage.run_with(settings, &server, &[], "work");
    assert_eq!((ran.code(), ran.trouble()), (Some(1), Some("auth")), "{}", ran.finished);
    let asked = server.turns().len();
    assert!((1..=3).contains(&asked), "{asked} requests\n{}", ran.finished);
    stage.assert_nothing_is_left();
}

pub(super) fn tells_a_failing_server_from_failing_work(stage: &Stage) {
    let soon = [("retry-after-ms", "10")];
    let server = ModelServer::start(Script::new().http(500, &soon, error("server_error", 500)));
    let ran = stage.run(&server, &[patience(stage.agent)], "work");
    assert_not_the_works_fault(&ran);
    stage.assert_nothing_is_left();
}

pub(super) fn tells_an_unreachable_server_from_failing_work(stage: &Stage) {
    stage.configure(NOBODY, Settings::default());
    let ran = Ran::of(stage.start(&[patience(stage.agent)], "work"));
    assert_not_the_works_fault(&ran);
    stage.assert_nothing_is_left();
}

fn assert_not_the_works_fault(ran: &Ran) {
    assert_eq!(ran.code(), Some(1), "{}", ran.finished);
    assert!(matches!(ran.trouble(), Some("server" | "network")), "{}", ran.finished);
    assert_eq!(ran.report["final_message"], Value::Null, "{}", ran.finished);
}

pub(super) fn recovers_from_a_cut_stream_or_says_so(stage: &Stage) {
    let server = ModelServer::start(Script::new().drop_mid().text("whole again"));
    let ran = stage.run(&server, &[patience(stage.agent)], "work");
    if ran.outcome() == "completed" {
        ran.assert_completed("whole again");
    } else {
        assert_not_the_works_fault(&ran);
    }
    stage.assert_nothing_is_left();
}

pub(super) fn never_takes_a_stream_that_is_always_cut_for_an_answer(stage: &Stage) {
    let server = ModelServer::start(Script::new().drop_mid());
    let ran = stage.run(&server, &[patience(stage.agent)], "work");
    assert_not_the_works_fault(&ran);
    stage.assert_nothing_is_left();
}
