//! Trouble that is not the work's fault: it is waited for or retried, and costs no attempt.

use std::fs;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{BUILDS, PHRASE, PLANS, Stage, claims, on, willing};
use crate::harness::{PATIENCE, wait_until};

#[test]
fn a_usage_limit_in_any_phase_is_waited_for_and_the_same_attempt_goes_on() {
    // A12.10 and A12.16: a limit costs nothing, whatever was printed before it was hit.
    let limit = "limit in 100ms\nexit 1";
    let stage = Stage::new(&willing(&[
        on("planner", 1, &format!("session plan-1\noutbox plan.md # Half a plan\n{limit}")),
        on("implementer", 1, &format!("session impl-1\nwrite half.txt half\n{limit}")),
        on(
            "implementer",
            2,
            &format!(
                "expect-run cat half.txt\nwrite greeting.txt hello\ncommit \"work\"\n{}",
                claims("${COMMIT}")
            ),
        ),
        on(
            "verifier",
            1,
            &format!("session verify-1\nfinal PLAN_INVALIDATION: it is late\n{limit}"),
        ),
    ]));
    stage.pipeline(&["--allow-dirty"]).exits(0);
    assert_eq!(stage.runs(), "ppiivv");
    let attempts: Vec<Value> =
        stage.told("run_started").iter().map(|run| run["attempt"].clone()).collect();
    assert_eq!(attempts, vec![json!(1); 6]);
    let plan = stage.json("ralph/specs/plans/0001-greeting.json");
    assert_eq!((&plan["attempts_used"], &plan["attempt"]), (&json!(0), &json!(1)));
    assert_eq!(stage.told("usage_limit_wait").len(), 3);
    assert_eq!(stage.told("backoff_wait").len(), 0);
    // An interrupted session is resumed if the agent can; files written meanwhile still exist.
    assert_eq!(stage.resumed()[1], "plan-1");
    assert_eq!(stage.resumed()[3], "impl-1");
    assert_eq!(stage.read("half.txt"), "half\n");
}

#[test]
fn a_restart_in_the_middle_of_a_wait_goes_on_waiting() {
    let stage = Stage::new(&willing(&[on("implementer", 1, "session impl-1\nlimit in 1h\nhang")]));
    let running = stage.place.start(&["pipeline"]);
    wait_until(PATIENCE, "it waits", || running.said().contains("[wait]"));
    running.signal(Signal::KILL);
    running.finish();
    stage.pipeline(&["--no-wait"]).exits(1).says("usage limit until");
    assert_eq!(stage.runs(), "pi");
    assert_eq!(stage.row("0001-greeting.md")["attempts_used"], 0);
    let status: Value = stage.ralph(&["status", "--json"]).json();
    assert_eq!(status["waits"][0]["agent"], "rehearsal", "{status}");
    stage.place.assert_nothing_left();
}

#[test]
fn a_restart_in_the_middle_of_a_wait_goes_on_with_the_same_session() {
    let stage =
        Stage::new(&willing(&[on("implementer", 1, "session impl-1\nlimit in 1s\nexit 1")]));
    stage.pipeline(&["--no-wait"]).exits(1);
    stage.pipeline(&[]).exits(0);
    assert_eq!(stage.runs(), "piiv");
    assert_eq!(stage.resumed()[2], "impl-1");
    assert_eq!(stage.row("0001-greeting.md")["attempts_used"], 0);
}

#[test]
fn an_agent_that_exits_with_a_failure_claims_nothing_and_costs_nothing() {
    // A12.3: a broken verifier says nothing about the candidate. A12.16: nor about the plan.
    let stage = Stage::new(&willing(&[
        on("planner", 1, &format!("outbox plan.md # Half a plan\nfinal {PHRASE}\nexit 3")),
        on(
            "implementer",
            1,
            &format!(
                "write greeting.txt half\ncommit \"half\" greeting.txt\n{}exit 3",
                claims("${COMMIT}")
            ),
        ),
        on("verifier", 1, &format!("{}exit 3", claims("${HEAD}"))),
        on("verifier", 2, "final PLAN_INVALIDATION: it is late\nexit 4"),
    ]));
    stage.pipeline(&[]).exits(0);
    assert_eq!(stage.runs(), "ppiivvv");
    let plan = stage.json("ralph/specs/plans/0001-greeting.json");
    assert_eq!((&plan["attempts_used"], &plan["attempt"]), (&json!(0), &json!(1)));
    assert_eq!(stage.told("candidate_written").len(), 1);
}

#[test]
fn the_same_trouble_three_times_in_a_row_stops_the_spec_and_costs_no_attempt() {
    let script = willing(&[]).replace("[implementer]\n", "[implementer 4]\n");
    let stage = Stage::with(
        &format!("{script}[implementer]\nexit 3\n"),
        "",
        &["0001-greeting.md", "0002-next.md"],
    );
    let stopped = stage.pipeline(&[]);
    stopped.exits(1).says("three times in a row").says("Not reached: 1");
    // Once per run, and not again as the workflow's trouble.
    assert_eq!(stopped.finished.stderr.matches("[trouble]").count(), 3, "{}", stopped.finished);
    assert_eq!(stage.runs(), "piii");
    assert_eq!(stage.row("0001-greeting.md")["attempts_used"], 0);
    assert_eq!(stage.row("0002-next.md")["state"], "fresh");
    // The next start begins with a clean count, in the same state.
    stage.pipeline(&["--to", "1"]).exits(0);
    assert_eq!(stage.runs(), "piiiiv");
}

/// A stage whose first implementer waits at its end until the file `go` is there.
fn waiting() -> Stage {
    let stage = Stage::new("");
    let works = format!(
        "write greeting.txt hello\ncommit \"work\" greeting.txt\n\
         run touch begun; until [ -e {} ]; do sleep 0.02; done; rm begun\n{}",
        stage.place.path("go").display(),
        claims("${COMMIT}")
    );
    stage.script(&willing(&[on("implementer", 1, &works)]));
    stage
}

/// What a run did is over and is not done again because it cannot be judged; nor is that tried for ever.
#[test]
fn work_that_cannot_be_judged_three_times_in_a_row_stops_the_spec_and_is_not_done_again() {
    let stage = waiting();
    let running = stage.place.start(&["pipeline"]);
    crate::clones::wait_for_slot(&stage.place, "begun");
    // The machine is at fault: the objects of the person's own repository cannot be read for a while.
    let objects = stage.file(".git/objects");
    let away = stage.file(".git/objects.away");
    fs::rename(&objects, &away).unwrap();
    fs::write(stage.place.path("go"), "").unwrap();
    let (code, said) = running.finish();
    assert_eq!(code, Some(1), "{said}");
    assert_eq!(said.matches("[trouble]").count(), 3, "{said}");
    assert_eq!(stage.runs(), "pi", "{said}");
    if objects.exists() {
        fs::remove_dir_all(&objects).unwrap();
    }
    fs::rename(&away, &objects).unwrap();
    stage.pipeline(&[]).exits(0);
    assert_eq!(stage.runs(), "piv");
    assert_eq!(stage.row("0001-greeting.md")["attempts_used"], 0);
}

/// Whatever becomes of Ralph's own copy of the repository meanwhile: it is made anew with home's draft, which shares its
/// objects, and nothing that was finished is repeated.
#[test]
fn a_mirror_that_is_lost_while_a_run_works_is_made_anew_with_the_draft() {
    for phase in ["implementer", "verifier"] {
        let stage = waiting();
        if phase == "verifier" {
            let go = stage.place.path("go");
            let slow = format!(
                "run until [ -e {} ]; do sleep 0.02; done\n{}",
                go.display(),
                claims("${HEAD}")
            );
            stage.script(&willing(&[on("verifier", 1, &slow)]));
        }
        let running = stage.place.start(&["pipeline"]);
        if phase == "verifier" {
            wait_until(PATIENCE, "it verifies", || running.said().contains("[tool] run until"));
        } else {
            crate::clones::wait_for_slot(&stage.place, "begun");
        }
        for place in fs::read_dir(stage.private().join("repositories")).unwrap().flatten() {
            let mirror = place.path().join("mirror");
            fs::rename(&mirror, mirror.with_extension("away")).unwrap();
            fs::write(&mirror, "").unwrap();
        }
        fs::write(stage.place.path("go"), "").unwrap();
        let (code, said) = running.finish();
        assert_eq!(code, Some(0), "{phase}: {said}");
        assert!(said.contains("recreated"), "{phase}: {said}");
        assert_eq!(stage.runs(), "piv", "{phase}: {said}");
        assert_eq!(stage.row("0001-greeting.md")["state"], "done");
        assert!(stage.git(&["show", "main:greeting.txt"]).starts_with("hello"), "{phase}: {said}");
        assert_eq!(stage.git(&["status", "--porcelain"]), "");
    }
}

#[test]
fn a_run_that_takes_too_long_costs_an_attempt_and_is_told_to_the_next() {
    let stage = Stage::with(
        &willing(&[on("implementer", 1, "hang")]),
        "[roles.implementer]\ntimeout = \"300ms\"\n",
        &["0001-greeting.md"],
    );
    stage.pipeline(&[]).exits(0);
    assert_eq!(stage.runs(), "piiv");
    assert_eq!(stage.row("0001-greeting.md")["attempts_used"], 1);
    assert!(stage.prompt("implementer", 2).contains("took too long"));
    stage.place.assert_nothing_left();
}

#[test]
fn pauses_grow_with_failures_in_a_row() {
    // A12.10: a limit adds no pause, and every pause is bounded.
    let stage = Stage::new(&willing(&[
        on("planner", 1, "final no"),
        on("planner", 2, "final I AM HYPER SURE I AM DONE!"),
        on("planner", 3, "final no"),
    ]));
    stage.settings("limits.backoff = \"3s\"\n");
    let running = stage.place.start(&["pipeline"]);
    wait_until(PATIENCE, "it pauses", || {
        stage.place.path("err").exists() && running.said().contains("retrying in 2s")
    });
    running.signal(Signal::INT);
    let (code, said) = running.finish();
    assert_eq!(code, Some(130), "{said}");
    // Interrupted in a pause, it continues there.
    stage.settings("");
    stage.pipeline(&[]).exits(0);
    assert_eq!(stage.runs(), "ppppiv");
}

#[test]
fn an_interrupted_pipeline_stops_its_agent_and_goes_on_in_the_same_attempt() {
    let stage = Stage::new(&willing(&[on("implementer", 1, "session impl-1\nhang")]));
    let running = stage.place.start(&["pipeline"]);
    wait_until(PATIENCE, "the implementer is at work", || running.said().contains("impl-1"));
    running.signal(Signal::INT);
    let (code, said) = running.finish();
    assert_eq!(code, Some(130), "{said}");
    assert!(said.contains("continues where it stopped"), "{said}");
    stage.place.assert_nothing_left();
    stage.pipeline(&[]).exits(0);
    assert_eq!(stage.runs(), "piiv");
    assert_eq!(stage.row("0001-greeting.md")["attempts_used"], 0);
}

/// Wherever it happens: in a run, in a pause, in a wait, in a gate.
#[test]
fn an_interruption_is_told_once() {
    let gate = "[[gate]]\nname = \"slow\"\nrun = [\"sleep\", \"600\"]\n";
    for (implementer, settings, sign) in [
        ("session impl-1\nhang", "", "impl-1"),
        ("final no", "limits.backoff = \"1h\"\n", "retrying in"),
        ("limit in 1h\nexit 1", "", "[wait]"),
        (
            "write a.txt a\ncommit \"work\" a.txt\nfinal <<END\n${COMMIT}\nI AM HYPER SURE I AM DONE!\nEND",
            gate,
            "slow",
        ),
    ] {
        let script = willing(&[on("implementer", 1, implementer)]);
        let stage = Stage::with(&script, settings, &["0001-greeting.md"]);
        let running = stage.place.start(&["pipeline"]);
        wait_until(PATIENCE, sign, || running.said().contains(sign));
        running.signal(Signal::INT);
        let (code, said) = running.finish();
        assert_eq!(code, Some(130), "{said}");
        assert_eq!(stage.told("interrupted").len(), 1, "{said}");
        assert_eq!(stage.row("0001-greeting.md")["attempts_used"], u8::from(sign == "retrying in"));
        stage.place.assert_nothing_left();
    }
}

#[test]
fn pauses_grow_over_rejected_attempts_though_each_had_a_candidate() {
    let stage = Stage::with(
        &format!("{PLANS}{BUILDS}[verifier]\nfinal Rude.\n"),
        "limits.backoff = \"1h\"\n",
        &["0001-greeting.md"],
    );
    let running = stage.place.start(&["pipeline"]);
    let pauses = || {
        let log = if stage.has("ralph/ralph.log") { stage.told("backoff_wait") } else { vec![] };
        log.iter().map(|pause| pause["wait_seconds"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    wait_until(PATIENCE, "it pauses twice", || pauses().len() == 2);
    running.signal(Signal::INT);
    running.finish();
    assert_eq!(pauses(), [2, 4]);
    assert_eq!(stage.runs(), "piviv");
}

/// A wrapper (`agent | tee log`) exits with 0 whatever the agent does.
#[test]
fn a_usage_limit_that_is_only_said_is_waited_for_though_the_agent_exits_with_0() {
    let limit = "session s-${INVOCATION}\nfinal You have hit your usage limit.\n";
    let stage = Stage::new(&willing(&[on("planner", 1, limit), on("implementer", 1, limit)]));
    stage.pipeline(&[]).exits(0);
    assert_eq!(stage.runs(), "ppiiv");
    assert_eq!(stage.told("usage_limit_wait").len(), 2);
    let attempts = stage.told("run_started").iter().all(|run| run["attempt"] == 1);
    assert!(attempts, "{:?}", stage.told("run_started"));
    assert_eq!(stage.row("0001-greeting.md")["attempts_used"], 0);
}

/// Without them the next command would start another agent, or none.
#[test]
fn the_command_that_continues_has_the_flags_that_chose_the_agent() {
    let stage = Stage::new("");
    let ended = stage.pipeline(&["--agent-cmd", "cat >/dev/null; exit 7"]);
    ended.exits(1).says("`ralph pipeline --agent-cmd 'cat >/dev/null; exit 7'` continues there");
}
