//! A spec through the whole pipeline: planned, built, verified, and done only when Ralph has checked it.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use ralph_model::board::Board;
use ralph_model::contract::DEFAULT_MAGIC_PHRASE as PHRASE;
use ralph_model::journal::{JournalEntry, JournalEvent, RunFinished, RunStarted};
use ralph_model::journal::{LimitWaitStarted, parse_line};
use ralph_model::role::Role;
use ralph_proc::sandbox::Support;
use serde_json::{Value, json};

use super::expected::tells_the_reset;
use super::limits::{SUBSCRIBED, asks, from_now};
use super::stage::{Ran, Settings, Stage};
use crate::support::agents::RealAgent;
use crate::support::model_server::script::Script;
use crate::support::model_server::{ModelServer, Recorded};

const SPEC: &str = "0001-greeting.md";

const GATE: &str =
    "[[gate]]\nname = \"greets\"\nrun = [\"grep\", \"-q\", \"^hello\", \"greeting.txt\"]\n";

/// Checks where it is, and leaves a file behind as a build would.
const VERIFY: &str = "grep hello greeting.txt && touch looked && git rev-parse HEAD";

fn gated() -> Settings {
    Settings { gates: GATE, ..Settings::default() }
}

/// Returns the command with which a planner leaves a plan and a note.
fn plan(approach: &str) -> String {
    format!(
        "printf '# Plan: 0001-greeting\\n\\n{approach}\\n' > $RALPH_OUT/plan.md && \
         echo 'noted while planning' >> $RALPH_OUT/SCRATCHPAD.md"
    )
}

/// Returns the command with which an implementer adds to the greeting, commits, and prints the commit.
fn build(greeting: &str) -> String {
    format!(
        "echo '{greeting}' >> greeting.txt && echo 'noted while building' >> $RALPH_HOME/SCRATCHPAD.md && \
         git add greeting.txt && git commit -qm '0001-greeting: {greeting}' && git rev-parse HEAD"
    )
}

/// Says `report` and that all is done.
fn and_done(report: &str) -> String {
    format!("{report}\n{PHRASE}")
}

impl Stage {
    /// Returns a path below `specs/` of Ralph's home.
    fn spec_file(&self, name: &str) -> PathBuf {
        self.env.repo().join("ralph/specs").join(name)
    }

    fn read(&self, name: &str) -> String {
        let path = self.spec_file(name);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    fn record(&self, name: &str) -> Value {
        serde_json::from_str(&self.read(name)).unwrap()
    }

    fn write_spec(&self) {
        fs::create_dir_all(self.spec_file("plans")).unwrap();
        fs::write(self.spec_file(SPEC), "# A greeting\n\n`greeting.txt` says hello.\n").unwrap();
    }

    pub(super) fn journal(&self) -> Vec<JournalEntry> {
        let places = fs::read_dir(self.env.state().join("ralph")).unwrap();
        let mut journals = places.map(|place| place.unwrap().path().join("journal.jsonl"));
        let journal = journals.find(|path| path.exists()).expect("Ralph kept a journal");
        let text = fs::read_to_string(journal).unwrap();
        text.lines().map(|line| parse_line(line.as_bytes()).unwrap()).collect()
    }

    /// Returns all runs, in order, from beginning to end.
    pub(super) fn runs(&self) -> Vec<(RunStarted, RunFinished)> {
        let mut board = Board::default();
        for entry in self.journal() {
            board.apply(&entry);
        }
        let runs = board.runs();
        runs.map(|run| {
            let (_, started) = run.started.clone().expect("it began");
            let (_, finished) = run.finished.clone().expect("it ended");
            (*started, *finished)
        })
        .collect()
    }

    /// Asserts that the spec is done with the agent's last commit, with gates and a verifier's verdict, and that
    /// everything else is unchanged. Returns the commit.
    fn assert_done(&self, ran: &Ran) -> String {
        assert_eq!(ran.code(), Some(0), "{}", ran.finished);
        let git = |args: &[&str]| self.env.git(args);
        let commit = git(&["log", "-1", "--format=%H", "--", "greeting.txt"]);
        let done = json!({
            "spec": SPEC, "result": "completed", "commit": commit, "level": "gates_passed",
        });
        assert_eq!(ran.report, json!({ "specs": [done], "not_reached": 0 }), "{}", ran.finished);

        let marker = self.read("done/0001-greeting.md");
        for line in ["DONE", &format!("Candidate commit: {commit}"), "Proof: gates passed"] {
            assert!(marker.lines().any(|found| found == line), "no `{line}` in {marker}");
        }
        assert!(marker.contains("the verifier agrees"), "{marker}");
        let candidate = self.record("candidates/0001-greeting.json");
        assert_eq!(candidate["status"], "verified", "{candidate}");
        assert_eq!(candidate["candidate_commit"], commit, "{candidate}");

        let receipt = git(&["notes", "--ref=ralph", "show", &commit]);
        let receipt: Value = serde_json::from_str(&receipt).unwrap();
        let name = self.agent.name();
        let boundary = if Support::of_landlock().confines_files() { "kernel" } else { "detect" };
        assert_eq!(receipt["candidate"]["commit"], commit, "{receipt}");
        assert_eq!(receipt["worker"]["agent"], name, "{receipt}");
        assert_eq!(receipt["boundary"], boundary, "{receipt}");
        assert_eq!(receipt["gates"][0]["gate"]["name"], "greets", "{receipt}");
        assert_eq!(
            (&receipt["verifier"]["agent"], &receipt["verifier"]["opinion"]),
            (&json!(name), &json!("verified")),
            "{receipt}"
        );

        let refs = git(&["for-each-ref", "--format=%(refname)"]);
        assert_eq!(refs.lines().collect::<Vec<_>>(), ["refs/heads/main", "refs/notes/ralph"]);
        assert_eq!(git(&["symbolic-ref", "HEAD"]), "refs/heads/main");
        assert_eq!(git(&["worktree", "list"]).lines().count(), 1);
        assert_eq!(git(&["status", "--porcelain"]), "");
        let start = git(&["rev-list", "--max-parents=0", "HEAD"]);
        let changed = git(&["diff", "--name-only", &start, "HEAD", "--", ".", ":!ralph"]);
        assert_eq!(changed, "greeting.txt");
        self.assert_nothing_is_left();
        commit
    }

    /// Asserts the roles of the runs, and that each except the resumed one has its own session.
    fn assert_runs(&self, roles: &[Role]) {
        let runs = self.runs();
        let played: Vec<Role> = runs.iter().map(|(started, _)| started.role).collect();
        assert_eq!(played, roles);
        let fresh = runs.iter().filter(|(started, _)| started.resumed_session.is_none());
        let sessions: Vec<_> = fresh.map(|(_, finished)| finished.session.clone()).collect();
        let distinct: BTreeSet<_> = sessions.iter().flatten().collect();
        assert_eq!(distinct.len(), sessions.len(), "{sessions:?}");
    }
}

/// Returns the request to the model at a step of the script.
pub(super) fn told(turns: &[Recorded], step: usize) -> String {
    let turn = turns.iter().rfind(|turn| turn.step == Some(step));
    turn.unwrap_or_else(|| panic!("step {step} was not reached")).body.to_string()
}

pub(super) fn brings_a_spec_from_fresh_to_done(stage: &Stage) {
    // The agent writes notes in the home of its working tree.
    stage.env.in_place();
    stage.write_spec();
    let script = Script::new()
        .shell(&plan("Write it down."))
        .text(&and_done("the plan is there"))
        .shell(&build("hello"))
        .claim("the greeting is there", PHRASE)
        .shell(VERIFY)
        .claim("the verifier agrees", PHRASE);
    let server = ModelServer::start(script);
    let ran = stage.pipeline(gated(), &server);
    let commit = stage.assert_done(&ran);
    stage.assert_runs(&[Role::Planner, Role::Implementer, Role::Verifier]);
    assert!(stage.runs().iter().all(|(started, _)| started.attempt == 1));

    let plan = stage.record("plans/0001-greeting.json");
    assert_eq!((&plan["status"], &plan["attempt"]), (&json!("active"), &json!(1)), "{plan}");
    assert_eq!((&plan["attempts_used"], &plan["tries"]), (&json!(0), &json!([])), "{plan}");
    assert!(stage.read("plans/0001-greeting.md").contains("Write it down."));
    let notes = stage.read("../SCRATCHPAD.md");
    assert!(notes.contains("noted while planning\nnoted while building\n"), "{notes}");

    let turns = server.turns();
    assert_eq!(turns.len(), 6, "{}", ran.finished);
    for (step, words) in [(0, "says hello"), (2, "Write it down."), (4, &commit)] {
        assert!(told(&turns, step).contains(words), "{words} is not in prompt {step}");
    }
    // It examined the commit, in a directory other than the workspace.
    assert!(told(&turns, 5).contains(&commit));
    assert!(!stage.env.repo().join("looked").exists());
}

pub(super) fn plans_anew_when_the_verifier_finds_the_plan_wrong(stage: &Stage) {
    // The agent writes notes in the home of its working tree.
    stage.env.in_place();
    stage.write_spec();
    let script = Script::new()
        .shell(&plan("Greet by a bare word."))
        .text(&and_done("said by the first planner"))
        .shell(&build("hello"))
        .claim("said by the first implementer", PHRASE)
        .shell(VERIFY)
        .text("said by the first verifier\nPLAN_INVALIDATION: a bare word greets nobody")
        .shell(&plan("Greet by name."))
        .text(&and_done("the second plan is there"))
        .shell(&build("hello, Ralph"))
        .claim("now it greets somebody", PHRASE)
        .shell(VERIFY)
        .claim("the verifier agrees", PHRASE);
    let server = ModelServer::start(script);
    let ran = stage.pipeline(gated(), &server);
    stage.assert_done(&ran);
    let one_plan = [Role::Planner, Role::Implementer, Role::Verifier];
    stage.assert_runs(&one_plan.repeat(2));
    assert!(stage.runs().iter().all(|(started, _)| started.resumed_session.is_none()));

    let plan = stage.record("plans/0001-greeting.json");
    assert_eq!((&plan["status"], &plan["attempt"]), (&json!("active"), &json!(2)), "{plan}");
    assert!(stage.read("plans/0001-greeting.md").contains("Greet by name."));
    assert!(stage.read("plans/0001-greeting.attempt-1.md").contains("Greet by a bare word."));
    let fresh: Vec<u32> = stage.runs().iter().map(|(started, _)| started.attempt).collect();
    assert_eq!(fresh, [1, 1, 1, 2, 2, 2]);
    assert_eq!(plan["attempts_used"], 1, "{plan}");

    let turns = server.turns();
    let replanning = told(&turns, 6);
    for words in ["Greet by a bare word.", "a bare word greets nobody"] {
        assert!(replanning.contains(words), "{words} is not in {replanning}");
    }
    for step in 6..12 {
        let told = told(&turns, step);
        assert!(!told.contains("said by the first"), "step {step} knows an old session: {told}");
    }
    // A new plan starts clean: nothing of the old one is left to fix.
    assert!(!told(&turns, 8).contains("bare word"), "{}", told(&turns, 8));
}

pub(super) fn waits_out_a_limit_in_mid_implementation_in_the_same_attempt(stage: &Stage) {
    // The agent writes notes in the home of its working tree.
    stage.env.in_place();
    stage.write_spec();
    // Written by hand, so that the limit is still near when it is hit.
    fs::write(stage.spec_file("plans/0001-greeting.md"), "Write it down.\n").unwrap();
    let far = if stage.agent == RealAgent::Codex { 4 } else { 6 };
    let reset = from_now(Duration::from_secs(far));
    let script = Script::new().shell("echo 'half of it' > half && printf 'proof-%s' 42");
    let script = stage.agent.usage_limit(script, reset.as_second()).times(asks(stage.agent));
    let script = script
        .shell(&format!("rm half && {}", build("hello")))
        .claim("the greeting is there", PHRASE)
        .shell(VERIFY)
        .claim("the verifier agrees", PHRASE);
    let server = ModelServer::start(script);
    let ran = stage.pipeline(Settings { gates: GATE, ..SUBSCRIBED }, &server);
    stage.assert_done(&ran);
    stage.assert_runs(&[Role::Implementer, Role::Implementer, Role::Verifier]);

    let runs = stage.runs();
    let [(_, limited), (resumed, _), _] = &runs[..] else { unreachable!("they were counted") };
    assert!(limited.session.is_some());
    assert_eq!(resumed.resumed_session, limited.session);
    assert!(runs.iter().all(|(started, _)| started.attempt == 1), "{runs:?}");
    let plan = stage.record("plans/0001-greeting.json");
    assert_eq!((&plan["attempts_used"], &plan["tries"]), (&json!(0), &json!([])), "{plan}");

    let waits: Vec<LimitWaitStarted> = stage
        .journal()
        .into_iter()
        .filter_map(|entry| match entry.event {
            JournalEvent::LimitWaitStarted(wait) => Some(*wait),
            _ => None,
        })
        .collect();
    assert_eq!(waits.len(), 1, "{waits:?}");
    let turns = server.turns();
    let again = turns.iter().find(|turn| turn.step == Some(2)).expect("it went on");
    if tells_the_reset(stage.agent) {
        // Later only if the agent was so slow that the reset had passed when it reported it.
        assert!(waits[0].known && waits[0].until >= reset, "{waits:?}");
        assert!(again.at >= SystemTime::from(reset), "asked again before the reset");
    }
    let said = again.body.to_string();
    assert!(said.contains("proof-42") && said.contains("Write it down."), "{said}");
}
