//! The surroundings of a run: its environment and limits, waiting for usage limits, budgets, the journal.

use std::fs;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::{Place, wait_for_file, wait_until};

fn status(place: &Place) -> Value {
    let finished = place.ralph(&["status", "--json"]);
    serde_json::from_str(&finished.stdout).unwrap_or_else(|_| panic!("{finished}"))
}

#[test]
fn a_run_is_told_who_it_is_and_finds_ralph_on_its_path() {
    let place = Place::new();
    fs::create_dir_all(place.env.repo().join("ralph/specs")).unwrap();
    let command = "echo $RALPH_ROLE $RALPH_HOME; echo note > $RALPH_OUT/note && test -d $RALPH_CHANNEL && \
                   test -n \"$RALPH_RUN_ID\" && echo tmp > $TMPDIR/x && ralph --version";
    let report = place.agent_run(&["--agent-cmd", command, "--role", "planner"]);
    let said = report.json["final_message"].as_str().unwrap().to_owned();
    let home = place.env.repo().canonicalize().unwrap().join("ralph");
    let mut lines = said.lines();
    assert_eq!(lines.next().unwrap(), format!("planner {}", home.display()));
    assert!(lines.next().unwrap().starts_with("ralph "), "{said}");
    let directory = report.json["log"].as_str().unwrap();
    assert!(directory.starts_with(home.join("runs/agent").to_str().unwrap()), "{directory}");
    let log = fs::read_to_string(home.join("ralph.log")).unwrap();
    let events: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<&str> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(names, ["workflow_started", "run_started", "run_finished", "workflow_ended"]);
    assert!(events.iter().skip(1).all(|event| event["wf"] == events[0]["data"]["id"]), "{log}");
    place.assert_nothing_left();
}

#[test]
fn commits_in_a_run_are_unsigned_whatever_the_repository_says() {
    let place = Place::new();
    place.env.git(&["config", "commit.gpgsign", "true"]);
    place.env.git(&["config", "gpg.program", "/bin/false"]);
    let report =
        place.agent_run(&["--agent-cmd", "git commit -q --allow-empty -m made && echo ok"]);
    assert_eq!(report.json["final_message"], "ok", "{}", report.finished);
    assert_eq!(place.env.commits()[0], "made");
}

#[test]
fn what_a_run_committed_is_counted() {
    let place = Place::new();
    let commit = "git add new.txt y && git commit -q -m";
    let writes = format!(
        "touch y && printf 'a\\nb\\n' > new.txt && {commit} one && printf 'a\\nc\\nd\\n' > new.txt && printf x > y && {commit} two"
    );
    place.agent_run(&["--agent-cmd", &writes]);
    place.agent_run(&["--agent-cmd", "echo uncommitted > z"]);
    let runs = status(&place)["runs"].as_array().unwrap().clone();
    let changed: Vec<&Value> = runs.iter().map(|run| &run["changed"]).collect();
    let counted = json!({"commits": 2, "files": 2, "added": 4, "removed": 0});
    assert_eq!(changed, [&counted, &Value::Null]);
}

#[test]
fn a_flood_is_kept_up_to_the_limit_with_both_its_ends() {
    let place = Place::new();
    let floods = "echo first; yes | head -c 3000000; echo last";
    let settings = format!(
        "limits.log = \"128KiB\"\n[[gate]]\nname = \"floods\"\nrun = [\"sh\", \"-c\", \"{floods}\"]\n"
    );
    place.configure(&settings);
    place.env.git(&["add", "--all"]);
    place.env.git(&["commit", "--quiet", "--message=a gate"]);
    let agent = format!("cat > /dev/null; {floods}");
    let report = place.agent_run(&["--agent-cmd", &agent]);
    let gates = place.ralph(&["gates", "run", "--json"]);
    let gates: Value = serde_json::from_str(&gates.stdout).unwrap_or_else(|_| panic!("{gates}"));
    let gate_log = gates["gates"][0]["log"].as_str().unwrap_or_else(|| panic!("{gates}"));
    for (log, most) in [(report.json["log"].as_str().unwrap(), 128 << 10), (gate_log, 128 << 10)] {
        let log = fs::read_to_string(log).unwrap();
        assert!(log.starts_with("first\ny\n") && log.ends_with("y\nlast\n"), "{}", log.len());
        assert!(log.contains("bytes are left out here, by limits.log]\n"), "{}", log.len());
        assert!(log.len() < most + 100, "{}", log.len());
    }
    let screen = place.ralph(&["agent", "run", "do it", "--agent-cmd", &agent]);
    assert!(screen.stderr.contains("(128 KiB)"), "{screen}");
}

#[test]
fn the_kernel_keeps_each_role_to_its_paths() {
    let place = Place::new();
    let command = "touch inside ../outside $HOME/outside .git/inside $TMPDIR/scratch $RALPH_OUT/out; \
                   for f in inside ../outside $HOME/outside .git/inside $TMPDIR/scratch $RALPH_OUT/out; \
                   do test -e $f && echo yes || echo no; done";
    for (role, expected) in [
        ("builder", "yes no no yes yes yes"),
        ("verifier", "no no no no yes yes"),
        ("planner", "no no no no yes yes"),
    ] {
        let report =
            place.agent_run(&["--boundary", "kernel", "--role", role, "--agent-cmd", command]);
        let said = report.json["final_message"].as_str().unwrap().replace('\n', " ");
        assert_eq!(said, expected, "{role}");
        for left in ["inside", ".git/inside"] {
            let _ = fs::remove_file(place.env.repo().join(left));
        }
    }
}

#[test]
fn a_usage_limit_is_waited_for_and_the_same_attempt_goes_on_in_the_same_session() {
    let script = "[builder 1]\nsession s-1\nsay half way\nlimit in 1s\nhang\n\
                  [builder 2]\nexpect-prompt do it\nsession ${RESUME}\nfinal done\n";
    let place = Place::rehearsing(script);
    let report = place.agent_run(&[]);
    assert_eq!(
        (report.outcome(), report.exit_code()),
        ("completed", Some(0)),
        "{}",
        report.finished
    );
    assert_eq!(report.json["session"], "s-1");
    let runs = status(&place)["runs"].as_array().unwrap().clone();
    assert_eq!(runs.len(), 2);
    assert_eq!(runs[0]["outcome"]["trouble"]["kind"], "usage_limit");
    for run in &runs {
        let files = fs::read_dir(run["dir"].as_str().unwrap()).unwrap();
        let names: Vec<String> =
            files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        assert!(names.iter().all(|name| name.starts_with("builder-attempt-1.")), "{names:?}");
    }
    assert_eq!(status(&place)["waits"], json!([]));
    place.assert_nothing_left();
}

#[test]
fn a_restart_in_the_middle_of_a_wait_goes_on_waiting_and_starts_no_agent() {
    let place = Place::rehearsing("[builder 1]\nlimit in 1h\nhang\n[builder 2]\nfinal too early\n");
    let waiting = |running: &crate::harness::Running<'_>| {
        wait_until(Duration::from_mins(1), "it waits", || running.said().contains("[wait]"));
    };
    for start in ["kill", "interrupt"] {
        let running = place.start(&["agent", "run", "work"]);
        waiting(&running);
        place.assert_only(&running);
        running.signal(if start == "kill" { Signal::KILL } else { Signal::INT });
        let (code, said) = running.finish();
        assert_eq!(code, (start == "interrupt").then_some(130), "{said}");
    }
    let status = status(&place);
    assert_eq!(status["runs"].as_array().unwrap().len(), 1, "{status}");
    assert_eq!(status["waits"][0]["agent"], "rehearsal");
    let finished = place.ralph(&["agent", "run", "--no-wait", "work"]);
    assert_eq!(finished.status.code(), Some(1));
    assert!(finished.to_string().contains("usage limit until"), "{finished}");
}

#[test]
fn repeated_runs_stay_within_their_budget() {
    let place = Place::rehearsing("usage input=60 output=10\ncost 0.25\nfinal once more\n");
    let finished = place.ralph(&["agent", "run", "--repeat", "9", "--max-tokens", "150", "work"]);
    assert_eq!(finished.status.code(), Some(1), "{finished}");
    assert!(
        finished.to_string().contains("210 tokens were used, and the budget is 150"),
        "{finished}"
    );
    let totals = status(&place)["totals"].clone();
    assert_eq!(
        (&totals["runs"], &totals["tokens"], &totals["cost_usd"]),
        (&json!(3), &json!(210), &json!(0.75))
    );
}

#[test]
fn the_same_trouble_three_times_in_a_row_stops_a_series() {
    let place = Place::rehearsing("exit 3\n");
    let finished = place.ralph(&["agent", "run", "--repeat", "9", "work"]);
    assert_eq!(finished.status.code(), Some(1), "{finished}");
    assert!(finished.to_string().contains("three times in a row"), "{finished}");
    assert_eq!(status(&place)["runs"].as_array().unwrap().len(), 3);
}

#[test]
fn usage_that_an_agent_counts_over_its_session_is_reported_per_run_and_priced() {
    let script = "[builder 1]\nmodel m-1\nsession s\nusage input=1000 output=100 cumulative\nfinal a\n\
                  [builder 2]\nmodel m-1\nsession s\nusage input=1500 output=300 cumulative\nfinal b\n";
    let place = Place::rehearsing(script);
    let config = fs::read_to_string(place.env.repo().join("ralph.toml")).unwrap();
    let prices = "[prices.m]\ninput = 10\noutput = 100\n";
    fs::write(place.env.repo().join("ralph.toml"), format!("{config}{prices}")).unwrap();
    let first = place.agent_run(&[]);
    assert_eq!(first.json["usage"]["input"], 1000);
    let second = place.agent_run(&["--resume", "s"]);
    assert_eq!(
        (&second.json["usage"]["input"], &second.json["usage"]["output"]),
        (&json!(500), &json!(200))
    );
    assert_eq!(second.json["cost_usd"], json!(0.025));
    assert_eq!(second.json["cost_is_estimate"], true);
}

#[test]
fn a_full_context_ends_an_agent_that_does_not_make_room_by_itself() {
    let place =
        Place::rehearsing("context used=75 window=100\nsay on\ncontext used=96 window=100\nhang\n");
    let report = place.agent_run(&[]);
    assert_eq!((report.outcome(), report.exit_code()), ("context_full", Some(1)));
    assert!(report.finished.to_string().contains("[context] 75 %"), "{}", report.finished);
    place.assert_nothing_left();
}

#[test]
fn unix_sockets_are_refused_to_agents_unless_the_person_allows_them() {
    let place = Place::new();
    // A client needs to create a unix socket first; perl reports why it cannot.
    let command = "perl -MSocket -e 'print socket(S, AF_UNIX, SOCK_STREAM, 0) ? \"made\" : $!'";
    let said = |place: &Place| {
        let report = place.agent_run(&["--boundary", "kernel", "--agent-cmd", command]);
        report.json["final_message"].as_str().unwrap().to_owned()
    };
    assert_eq!(said(&place), "Operation not permitted");
    place.configure("unix_sockets = true\n");
    assert_eq!(said(&place), "made");
}

#[test]
fn one_writing_agent_at_a_time_and_a_dead_one_blocks_nobody() {
    let place = Place::rehearsing(
        "[builder 1]\nwrite ready yes\nhang\n[builder *]\nfinal fine\n[planner *]\nfinal a plan\n",
    );
    let running = place.start(&["agent", "run", "work"]);
    wait_for_file(&place.env.repo().join("ready"));
    let refused = place.ralph(&["agent", "run", "work"]);
    assert_eq!(refused.status.code(), Some(2), "{refused}");
    let owner = format!("`ralph agent run` (pid {}, since ", running.pid());
    assert!(refused.to_string().contains(&owner), "{refused}");
    let beside = place.agent_run(&["--role", "planner"]);
    assert_eq!(beside.outcome(), "completed");
    running.signal(Signal::KILL);
    running.finish();
    assert_eq!(place.agent_run(&[]).outcome(), "completed");
    place.assert_nothing_left();
}

#[test]
fn lost_private_state_is_made_anew_with_a_word() {
    let place = Place::rehearsing("final fine\n");
    fs::create_dir_all(place.env.repo().join("ralph/specs")).unwrap();
    assert_eq!(place.agent_run(&[]).outcome(), "completed");
    fs::remove_dir_all(place.path("state")).unwrap();
    let again = place.agent_run(&[]);
    assert_eq!(again.outcome(), "completed");
    assert!(
        again.finished.to_string().contains("[state] private state was missing"),
        "{}",
        again.finished
    );
    assert_eq!(status(&place)["runs"].as_array().unwrap().len(), 1);
}

#[test]
fn state_inside_the_workspace_is_refused() {
    let place = Place::rehearsing("final fine\n");
    let variables: Vec<(String, String)> = place
        .variables()
        .into_iter()
        .map(|(name, value)| {
            let inside = name == "XDG_STATE_HOME";
            (name, if inside { crate::support::text(&place.env.repo()) } else { value })
        })
        .collect();
    let args = ["agent", "run", "work"];
    let ralph = std::path::Path::new(crate::harness::RALPH);
    let finished = crate::support::process::run(
        &place.env,
        ralph,
        &args,
        &variables,
        "",
        crate::harness::PATIENCE,
    );
    assert_eq!(finished.status.code(), Some(2), "{finished}");
    assert!(finished.to_string().contains("lies inside the workspace"), "{finished}");
}

#[test]
fn what_is_granted_may_not_hold_private_state() {
    let place = Place::new();
    for granted in [place.path(""), place.path("state"), place.path("state/ralph/elsewhere")] {
        fs::create_dir_all(&granted).unwrap();
        let gate = "[[gate]]\nname = \"tests\"\nrun = [\"true\"]\n";
        let agent = format!("[agents.mine]\ncommand = [\"true\"]\nstate = [{granted:?}]\n");
        place.configure(&format!("agent = \"mine\"\n{agent}"));
        let finished = place.ralph(&["agent", "run", "work"]);
        assert_eq!(finished.status.code(), Some(2), "{finished}");
        assert!(finished.stderr.contains("agents may write"), "{finished}");
        place.configure(&format!("writable = [{granted:?}]\n{gate}"));
        for args in [&["agent", "run", "--agent-cmd", "true", "work"][..], &["gates", "run"]] {
            let finished = place.ralph(args);
            assert_eq!(finished.status.code(), Some(2), "{args:?}: {finished}");
            assert!(finished.stderr.contains("agents may write"), "{finished}");
        }
    }
}
