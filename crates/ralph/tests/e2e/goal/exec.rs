//! `ralph exec "<goal>"`: the questions and their order, and that nothing starts without consent.

use serde_json::{Value, json};

use super::run::WILLING;
use super::{Desk, GOAL, MAPPER, PLAN_UNASKED, block, draft, drafts_at_once, envelope};

const TODAY_MAP: &str =
    "# Map\n\n## 2999-01-01 - Fresh\n\n## Next Topics\n- [ ] one\n- [ ] two\n- [x] three\n";
const STALE_MAP: &str = "# Map\n\n## 2020-01-01 - Old\n\n## Next Topics\n- [ ] one\n- [ ] two\n";

fn uncertain() -> String {
    let envelope = json!({
        "questions": [],
        "uncertainties": [{"topic": "themes", "reason": "r", "evidenceMissing": "e"}],
        "prdDraft": draft(&["US-001", "US-002"]),
        "recommendUnderstand": {"shouldRun": true, "reasons": ["colours are everywhere"]},
    });
    block("interviewer", &[], &envelope.to_string())
}

/// A desk with an optional map.
fn desk(interviewer: &str, map: Option<&str>) -> Desk {
    let desk = Desk::new(&format!("{interviewer}{MAPPER}{WILLING}"));
    desk.place.env.isolate();
    if let Some(map) = map {
        desk.write("ralph/codebase_map.md", map);
        desk.write("ralph/prompt.md", "x\n");
        desk.commit_all("a map");
    }
    desk
}

fn consents(desk: &Desk) -> Vec<(String, String)> {
    let asked = desk.logged("consent_asked");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    asked.iter().map(|asked| (text(&asked["step"]), text(&asked["answer"]))).collect()
}

/// C10.6: it is known that there was no map, although the interview has created one meanwhile.
#[test]
fn each_step_is_asked_about_and_no_prints_what_to_do_next() {
    let desk = desk(&uncertain(), None);
    let said = desk.typed(0, &["exec", GOAL], "\ny\nn\nn\n");
    for shown in [
        "the codebase map was missing",
        "the planner is uncertain about: themes",
        "the planner says: colours are everywhere",
        "at most 11 iterations (11 unchecked under Next Topics)",
        "? Run `ralph understand` now? [y/N]",
        "at most 2 iterations (2 failing stories), on the branch ralph/dark",
        "? Start `ralph run` now? [y/N]",
        "[next] ralph understand",
        "[next] ralph run",
    ] {
        assert!(said.contains(shown), "no `{shown}` in\n{said}");
    }
    assert_eq!(desk.roles(), ["interviewer"]);
    let transcript = desk.transcript();
    for kept in [
        "the codebase map was missing",
        "the planner is uncertain about: themes",
        "colours are everywhere",
        "Run `ralph understand` now?",
        "2 failing stories",
        "Start `ralph run` now?",
        "Answer: no",
    ] {
        assert!(transcript.contains(kept), "{transcript}");
    }
    let expected = [("prd", "yes"), ("understand", "no"), ("run", "no")];
    let expected = expected.map(|(step, answer)| (step.to_owned(), answer.to_owned()));
    assert_eq!(consents(&desk), expected);
}

/// Started again after the PRD was approved, it goes on with the questions, and leaves a clean tree each time.
#[test]
fn the_prd_is_committed_once_and_each_decision_with_the_command_that_asked() {
    let desk = desk(&uncertain(), None);
    desk.typed(0, &["exec", GOAL], "\ny\nn\nn\n");
    for _ in 0..2 {
        assert_eq!(desk.git(&["status", "--porcelain"]), "");
        desk.typed(0, &["exec", "--resume"], "n\nn\n");
    }
    assert_eq!(desk.git(&["status", "--porcelain"]), "");
    let subjects = desk.git(&["log", "--format=%s"]);
    let count = |beginning: &str| subjects.lines().filter(|one| one.starts_with(beginning)).count();
    assert_eq!(count("ralph: a PRD for the goal"), 1, "{subjects}");
    assert_eq!(count("ralph: what you decided"), 3, "{subjects}");
    assert_eq!(desk.roles(), ["interviewer"]);
}

#[test]
fn a_prd_that_is_not_approved_stops_it() {
    let desk = desk(&uncertain(), None);
    let before = desk.outside();
    let said = desk.typed(0, &["exec", GOAL], "\nn\n\n");
    assert_eq!(desk.outside(), before);
    assert!(
        !said.contains("ralph understand` now?") && !said.contains("ralph run` now?"),
        "{said}"
    );
    assert_eq!(desk.prd()["userStories"], json!([]));
}

#[test]
fn understand_is_asked_about_when_something_recommends_it() {
    for (mode, interviewer, map, asked) in [
        ("auto", drafts_at_once(), None, true),
        ("auto", drafts_at_once(), Some(STALE_MAP), true),
        ("auto", drafts_at_once(), Some(TODAY_MAP), false),
        ("auto", uncertain(), Some(TODAY_MAP), true),
        ("always", drafts_at_once(), Some(TODAY_MAP), true),
        ("never", uncertain(), None, false),
    ] {
        let desk = desk(&interviewer, map);
        let said = desk.typed(0, &["exec", GOAL, "--understand", mode], "\ny\n\n\n");
        assert_eq!(said.contains("Run `ralph understand` now?"), asked, "{mode} {map:?}\n{said}");
        assert!(said.contains("Start `ralph run` now?"), "{said}");
        assert_eq!(desk.roles(), ["interviewer"]);
    }
    let desk = desk(&drafts_at_once(), Some(STALE_MAP));
    let said = desk.typed(0, &["exec", GOAL], "\ny\n\n\n");
    assert!(said.contains("stale: last entry 2020-01-01, "), "{said}");
}

#[test]
fn caps_are_shown_and_bound_what_follows() {
    let desk = desk(&drafts_at_once(), Some(STALE_MAP));
    let args = ["exec", GOAL, "--max-understand-iterations", "1", "--max-run-iterations", "auto+2"];
    let said = desk.typed(0, &args, "\ny\ny\nn\n");
    assert!(said.contains("at most 1 iteration (as configured; 2 unchecked"), "{said}");
    assert!(said.contains("at most 3 iterations (1 failing story, and 2 more)"), "{said}");
    assert_eq!(desk.roles(), ["interviewer", "mapper"]);
    assert!(desk.read("ralph/codebase_map.md").contains("- [x] one"));
    let finished = desk.exits(2, &["exec", GOAL, "--max-run-iterations", "0"]);
    assert!(finished.stderr.contains("auto+K"), "{finished}");
}

#[test]
fn with_no_topic_left_or_all_stories_passing_there_is_nothing_to_ask() {
    let done = "# Map\n\n## 2020-01-01 - Old\n\n## Next Topics\n- [x] one\n";
    let desk = desk(&drafts_at_once(), Some(done));
    desk.write_prd(&[("US-001", true)]);
    let said = desk.typed(0, &["exec", GOAL], "\n\ny\n");
    assert!(said.contains("no topics are left to map"), "{said}");
    assert!(said.contains("all stories pass already"), "{said}");
    assert!(!said.contains("now? [y/N]"), "{said}");
}

/// C10.1, C10.5: the files of the interview interfere with nothing, and the branch does not move.
#[test]
fn understanding_right_after_planning_changes_the_map_alone() {
    let desk = desk(&drafts_at_once(), None);
    desk.write("dirty.txt", "mine");
    desk.typed(0, &["exec", GOAL, "--max-understand-iterations", "2"], "\ny\ny\nn\n");
    assert_eq!(desk.roles(), ["interviewer", "mapper", "mapper"]);
    assert_eq!(desk.git(&["symbolic-ref", "HEAD"]), "refs/heads/main");
    assert_eq!(desk.git(&["branch", "--list"]), "* main");
    let changed = desk.git(&["status", "--porcelain"]);
    let mut changed: Vec<&str> = changed.lines().map(|line| line[2..].trim()).collect();
    changed.sort_unstable();
    assert_eq!(changed, ["dirty.txt", "ralph/codebase_map.md"]);
    // Mapping is over: only the run is asked about again, although topics are left.
    let said = desk.typed(0, &["exec", "--resume"], "n\n");
    assert!(said.contains("Start `ralph run` now?"), "{said}");
    assert!(!said.contains("Run `ralph understand` now?"), "{said}");
    assert_eq!(desk.roles(), ["interviewer", "mapper", "mapper"]);
    // A PRD that was emptied afterwards is no reason to call everything done.
    desk.write("ralph/prd.json", "{\"branchName\": \"x\", \"userStories\": []}\n");
    let finished = desk.exits(1, &["exec", "--resume", "--non-interactive"]);
    assert!(finished.stderr.contains("it has no stories any more"), "{finished}");
}

/// Whatever was agreed to: after a mapper that changed what it must not, no run starts.
#[test]
fn a_mapper_that_changes_the_code_ends_it() {
    let mapper = MAPPER.replace("[mapper]\n", "[mapper]\nrun echo x > new.txt\n");
    let desk = Desk::new(&format!("{}{mapper}{WILLING}", drafts_at_once()));
    desk.configure("boundary = \"detect\"");
    let consents = ["--approve-prd", "--approve-understand", "--approve-run"];
    let finished = desk.exits(1, &[&["exec", GOAL, "--non-interactive"][..], &consents].concat());
    assert!(finished.stderr.contains("the mapper made forbidden changes"), "{finished}");
    assert!(finished.stderr.contains("new.txt"), "{finished}");
    assert_eq!(desk.roles(), ["interviewer", "mapper"]);
    assert_eq!(desk.git(&["branch", "--list"]), "* main");
}

/// Every combination of flags and typed answers: a run starts if and only if there was consent.
#[test]
fn no_combination_starts_a_run_without_a_yes() {
    let flags = ["--approve-prd", "--approve-understand", "--approve-run"];
    for chosen in 0..8_u32 {
        let chosen: Vec<&str> = flags
            .iter()
            .enumerate()
            .filter(|(bit, _)| chosen & (1 << bit) != 0)
            .map(|(_, flag)| *flag)
            .collect();
        let has = |flag: &str| chosen.contains(&flag);
        for mode in ["auto", "never"] {
            let desk = desk(&uncertain(), None);
            // A file of answers is not consent.
            let answers =
                desk.answers(&json!({"run": "yes", "prd": "yes", "now": "yes", "Write": "yes"}));
            let mut args = vec![
                "exec",
                GOAL,
                "--non-interactive",
                "--answers",
                &answers,
                "--understand",
                mode,
            ];
            args.extend(["--max-understand-iterations", "1"]);
            args.extend(&chosen);
            let finished = desk.place.ralph(&args);
            let started = desk.roles().contains(&"implementer".to_owned());
            let asks = mode == "auto";
            let missing =
                flags.iter().find(|flag| !has(flag) && (asks || **flag != "--approve-understand"));
            assert_eq!(started, missing.is_none(), "{args:?}\n{finished}");
            match missing {
                Some(flag) => {
                    assert_eq!(finished.status.code(), Some(3), "{args:?}\n{finished}");
                    assert!(finished.stderr.contains(flag), "{args:?}\n{finished}");
                }
                None => assert_eq!(finished.status.code(), Some(0), "{finished}"),
            }
            assert_eq!(
                desk.roles().contains(&"mapper".to_owned()),
                asks && has(flags[0]) && has(flags[1])
            );
        }
    }
    // At a terminal: whatever is typed, only a yes to that very question counts.
    for typed in ["", "\n", "n\n", "maybe\nso\nwhat\n", "run\nrun\nrun\n", "y y\n\n", "\u{4}"] {
        let desk = desk(&drafts_at_once(), Some(TODAY_MAP));
        desk.exits(0, &PLAN_UNASKED);
        let said = desk.typed(0, &["exec", GOAL, "--resume"], &format!("{typed}\u{4}"));
        assert!(said.contains("nothing was started"), "{typed:?}\n{said}");
        assert_eq!(desk.roles(), ["interviewer"], "{typed:?}");
    }
    let desk = desk(&drafts_at_once(), Some(TODAY_MAP));
    desk.exits(0, &PLAN_UNASKED);
    let said = desk.typed(0, &["exec", GOAL, "--resume"], "YES\n");
    assert!(said.contains("all stories pass"), "{said}");
    assert_eq!(desk.roles(), ["interviewer", "implementer"]);
}

/// Root, agent and model reach the interview, the mapper and the run.
#[test]
fn options_are_forwarded_to_every_step() {
    let desk = desk("", None);
    desk.write("part/ralph.toml", "limits.backoff = \"0s\"\n");
    desk.commit_all("a part");
    let said = desk.place.path("envelope.json");
    std::fs::write(&said, envelope(&[], &draft(&["US-001"]))).unwrap();
    let agent = format!(
        "cat > /dev/null\ncase $RALPH_ROLE in\n\
         interviewer) cat {} ;;\n\
         mapper) printf '\\n## 2026-11-18 - topic\\n' >> $RALPH_OUT/codebase_map.md; echo done ;;\n\
         implementer) echo x > made.txt; echo '<promise>COMPLETE</promise>' ;;\nesac",
        said.display()
    );
    let args = ["--root", "part", "exec", GOAL, "--agent-cmd", &agent, "--model", "m-1"];
    let caps = ["--max-understand-iterations", "2", "--max-run-iterations", "3"];
    let consents = ["--approve-prd", "--approve-understand", "--approve-run", "--non-interactive"];
    let finished = desk.exits(0, &[&args[..], &caps, &consents].concat());
    let log = desk.read("part/ralph/ralph.log");
    let events = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let runs: Vec<Value> = events
        .filter(|event| event["event"] == "run_started")
        .map(|mut run| run["data"].take())
        .collect();
    let roles: Vec<&str> = runs.iter().map(|run| run["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["interviewer", "mapper", "mapper", "implementer"], "{finished}");
    for run in &runs {
        assert_eq!(run["model"], "m-1", "{run}");
    }
    assert_eq!(desk.git(&["show", "ralph/dark:part/made.txt"]), "x");
    assert!(!desk.path("ralph").exists(), "{finished}");
}

#[test]
fn a_sentence_offers_exec_and_a_typo_stays_one() {
    let desk = desk(&drafts_at_once(), Some(TODAY_MAP));
    let finished = desk.exits(2, &[GOAL]);
    assert!(finished.stderr.contains("`ralph exec \"add dark mode\"`"), "{finished}");
    let said = desk.typed(0, &[GOAL], "n\n");
    assert!(said.contains("Run `ralph exec \"add dark mode\"`?"), "{said}");
    assert!(!desk.path("ralph/plan_state.json").exists());
    let said = desk.typed(0, &["--no-color", GOAL], "y\n\ny\nn\n");
    assert!(said.contains("Start `ralph run` now?"), "{said}");
    assert_eq!(desk.state()["goal"], GOAL);
    let finished = desk.exits(2, &["pipline"]);
    assert!(finished.stderr.contains("pipeline"), "{finished}");
    let finished = desk.exits(2, &["exec"]);
    assert!(finished.stderr.contains("what is the goal?"), "{finished}");
}

#[test]
fn machines_are_told_how_it_ended() {
    let desk = desk(&drafts_at_once(), Some(TODAY_MAP));
    let finished = desk.exits(0, &[&["--json"][..], &PLAN_UNASKED].concat());
    let report: Value = serde_json::from_str(&finished.stdout).unwrap();
    assert_eq!(report, json!({"result": "approved", "goal": GOAL}));
}
