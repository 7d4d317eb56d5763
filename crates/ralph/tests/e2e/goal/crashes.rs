//! Kills Ralph at its fault points during an interview and during mapping; after a restart nothing is lost and nothing
//! is asked twice.

use std::fs;

use serde_json::{Value, json};

use super::{Desk, GOAL, NON_INTERACTIVE, draft, envelope, run};
use crate::crash::{Share, Sweep};

/// How many tests share the fault points of a story.
const SHARES: usize = 2;

/// Uses a shell script next to the repository as the agent of every role.
fn play(desk: &Desk, script: impl AsRef<[u8]>) {
    let agent = desk.place.path("agent.sh");
    fs::write(&agent, script).unwrap();
    desk.configure(&format!("agent_cmd = \"sh {}\"", agent.display()));
}

/// A desk whose interviewer asks until it knows the answers: a run's output depends on its prompt alone.
fn interview() -> Desk {
    let desk = Desk::new("").in_memory();
    let script = format!(
        "case $(cat) in *'A: all'*'A: now'*) echo '{}';; *) echo '{}';; esac\n",
        envelope(&[], &draft(&["US-001"])),
        envelope(&["Which pages?", "Since when?"], &Value::Null),
    );
    play(&desk, &script);
    desk.answers(&json!({"pages": "all", "since": "now"}));
    desk
}

/// The relevant end state, without times.
fn end_of(desk: &Desk) -> Value {
    let state = desk.state();
    let qa: Vec<Value> = state["qa"]
        .as_array()
        .unwrap()
        .iter()
        .map(|qa| json!([qa["id"], qa["question"], qa["answer"]]))
        .collect();
    let titles: Vec<String> = desk
        .transcript()
        .lines()
        .filter_map(|line| line.strip_prefix("## ")?.split_once(" - "))
        .map(|(_, title)| title.to_owned())
        .collect();
    json!({"qa": qa, "prd": desk.prd(), "state": state["state"], "entries": titles})
}

fn survives_every_crash(number: usize) {
    let desk = interview();
    let answers = desk.place.path("answers.json").to_str().unwrap().to_owned();
    let args = [&["plan", GOAL, "--answers", &answers][..], &NON_INTERACTIVE].concat();
    let sweep = Sweep::new(&desk.place, &args);
    let (undisturbed, points) = sweep.undisturbed(Share { number, of: SHARES });
    assert_eq!(undisturbed.status.code(), Some(0), "{undisturbed}");
    let (expected, runs) = (end_of(&desk), desk.roles().len());
    assert_eq!(expected["entries"].as_array().unwrap().len(), 7, "{expected}");
    sweep.visit(&points, |point, crashed| {
        let again = desk.place.ralph(&args);
        let context = || format!("{point}\n{crashed}\n{again}\n{}", desk.transcript());
        assert_eq!(again.status.code(), Some(0), "{}", context());
        assert_eq!(end_of(&desk), expected, "{}", context());
        assert_eq!(desk.git(&["status", "--porcelain"]), "", "{}", context());
        // Only the interrupted run is repeated.
        assert!(desk.roles().len() <= runs + 1, "{}", context());
        desk.place.assert_nothing_left();
    });
}

#[test]
fn a_crash_at_any_point_changes_nothing_about_an_interview_0() {
    survives_every_crash(0);
}

#[test]
fn a_crash_at_any_point_changes_nothing_about_an_interview_1() {
    survives_every_crash(1);
}

#[test]
fn a_crash_at_any_point_changes_nothing_about_mapping() {
    let desk = Desk::new("").in_memory();
    let script = "P=$(cat); case $P in *one*) T=one;; *) T=two;; esac\n\
                  printf '\\n## 2026-11-18 - %s\\n' \"$RALPH_RUN_ID\" >> $RALPH_OUT/codebase_map.md; echo done\n";
    desk.write("ralph/codebase_map.md", "# Map\n\n## Next Topics\n- [ ] one\n- [ ] two\n");
    desk.write("ralph/prompt.md", "x\n");
    play(&desk, script);
    let args = ["understand"];
    let sweep = Sweep::new(&desk.place, &args);
    let (undisturbed, points) = sweep.undisturbed(Share { number: 0, of: 1 });
    assert_eq!(undisturbed.status.code(), Some(0), "{undisturbed}");
    sweep.visit(&points, |point, crashed| {
        let again = desk.place.ralph(&args);
        let map = desk.read("ralph/codebase_map.md");
        let context = || format!("{point}\n{crashed}\n{again}\n{map}");
        assert_eq!(again.status.code(), Some(0), "{}", context());
        assert_eq!(map.matches("- [x] ").count(), 2, "{}", context());
        // A run with a stored result is not repeated, and none counts twice.
        assert_eq!(map.matches("## 2026-11-18").count(), 2, "{}", context());
        desk.place.assert_nothing_left();
    });
}

/// A desk whose implementer does a story incorrectly, and correctly after feedback: the behaviour of a run depends on
/// its prompt and on the files it finds. Its PRD has two stories, and its agents work in clones, or in the checkout.
fn stories(isolated: bool) -> Desk {
    let stories = [("US-001", 1), ("US-002", 2)];
    let desk = if isolated { run::desk("", &stories) } else { run::in_place("", &stories) };
    let desk = desk.in_memory();
    desk.gate();
    let script = "P=$(cat); W=bad; case $P in *'not accepted'*) W=good;; esac\n\
                  [ $RALPH_TASK = US-002 ] && W=good\n\
                  echo $W > $RALPH_TASK.txt; git add $RALPH_TASK.txt; git commit -qm \"feat: $RALPH_TASK\"\n\
                  grep -qs \"$RALPH_TASK $W\" $RALPH_OUT/progress.txt || echo \"- $RALPH_TASK $W\" >> $RALPH_OUT/progress.txt\n\
                  echo '<promise>COMPLETE</promise>'\n";
    play(&desk, script);
    desk
}

fn stories_survive_every_crash(isolated: bool, number: usize) {
    let desk = stories(isolated);
    let args = ["run"];
    let sweep = Sweep::new(&desk.place, &args);
    let (undisturbed, points) = sweep.undisturbed(Share { number, of: SHARES });
    assert_eq!(undisturbed.status.code(), Some(0), "{undisturbed}");
    let runs = desk.roles().len();
    let end_of = |desk: &Desk| {
        let tree = desk.git(&["ls-tree", "-r", run::BRANCH]);
        (desk.passing(), tree)
    };
    let expected = end_of(&desk);
    assert_eq!(expected.0, ["US-001", "US-002"]);
    sweep.visit(&points, |point, crashed| {
        let again = desk.place.ralph(&args);
        let context = || format!("{point}\n{crashed}\n{again}\n{:?}", desk.subjects());
        assert_eq!(again.status.code(), Some(0), "{}", context());
        assert_eq!(end_of(&desk), expected, "{}", context());
        assert_eq!(desk.git(&["status", "--porcelain"]), "", "{}", context());
        // Each story lands once, and only the interrupted run is repeated.
        for story in ["US-001", "US-002"] {
            let landed = desk.subjects();
            let landed = landed.iter().filter(|one| **one == format!("ralph: {story} passes"));
            assert!(landed.count() == 1 || !isolated, "{}", context());
        }
        assert!(desk.roles().len() <= runs + 1, "{}", context());
        desk.place.assert_nothing_left();
    });
}

#[test]
fn a_crash_at_any_point_changes_nothing_about_a_run_in_clones_0() {
    stories_survive_every_crash(true, 0);
}

#[test]
fn a_crash_at_any_point_changes_nothing_about_a_run_in_clones_1() {
    stories_survive_every_crash(true, 1);
}

#[test]
fn a_crash_at_any_point_changes_nothing_about_a_run_in_place_0() {
    stories_survive_every_crash(false, 0);
}

#[test]
fn a_crash_at_any_point_changes_nothing_about_a_run_in_place_1() {
    stories_survive_every_crash(false, 1);
}
