//! Restart: Ralph is killed at each of its fault points and restarted, and reaches the same end state.
//!
//! Each story is played once undisturbed and then once for every point, with a `SIGKILL` there. Together the stories
//! visit every state and every transition; they are short, because they are played often.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use super::{GREETS, Stage, files_in, on, willing};
use crate::crash::{Share, Sweep, in_memory};
use crate::harness::{PATIENCE, wait_until};
use crate::support::process::processes_marked;

/// How many tests share the fault points of a story, so that they run in parallel.
const SHARES: usize = 2;

struct Story {
    settings: &'static str,
    script: String,
    /// Prepares the initial state.
    begin: fn(&Stage),
    /// The exit code, and the expected runs.
    exit: i32,
    runs: &'static str,
}

const LIMIT: &str = "limit in 1h\nexit 1";
const HOME_APART: &str = "git.commit_home = false\n";

/// A failing plan, a valid one, rejected work; then the account is at its limit.
fn planning() -> Story {
    Story {
        settings: HOME_APART,
        script: willing(&[
            on("planner", 1, "session plan-1\noutbox plan.md # Half\nfinal no"),
            on("implementer", 1, "session impl-1\nwrite half.txt half\nfinal I am stuck."),
            on("implementer", 2, LIMIT),
        ]),
        begin: |_| {},
        exit: 1,
        runs: "ppii",
    }
}

/// A candidate, a verifier that finds the plan invalid, another plan.
fn invalidation() -> Story {
    Story {
        settings: HOME_APART,
        script: willing(&[
            on("verifier", 1, "final <<END\nNo.\nPLAN_INVALIDATION: another way\nEND"),
            on("implementer", 2, LIMIT),
        ]),
        begin: planned,
        exit: 1,
        runs: "ivpi",
    }
}

/// A rejected candidate; then the account is at its limit.
fn rejection() -> Story {
    Story {
        settings: HOME_APART,
        script: willing(&[on("verifier", 1, "final Rude."), on("implementer", 2, LIMIT)]),
        begin: planned,
        exit: 1,
        runs: "ivi",
    }
}

/// With a gate, and home committed after every transition.
fn commits() -> Story {
    Story { settings: GREETS, script: willing(&[]), begin: planned, exit: 0, runs: "iv" }
}

const IDLE: &str =
    "final <<END\nNO_CHANGE_NEEDED: it greets\n${HEAD}\nI AM HYPER SURE I AM DONE!\nEND";

/// Nothing needs to change, and a person is asked.
fn question() -> Story {
    Story {
        settings: HOME_APART,
        script: willing(&[on("implementer", 1, IDLE)]),
        begin: planned,
        exit: 3,
        runs: "iv",
    }
}

/// The person was asked and says what to do; the agent claims again that nothing needs to change.
fn answer() -> Story {
    Story {
        settings: HOME_APART,
        script: willing(&[on("implementer", 1, IDLE), on("implementer", 2, IDLE)]),
        begin: |stage| {
            planned(stage);
            stage.pipeline(ARGS).exits(3);
            stage.ralph(&["answer", "0001-greeting", "Greet in Welsh."]).exits(0);
        },
        exit: 3,
        runs: "iviv",
    }
}

/// Writes a plan by hand.
fn planned(stage: &Stage) {
    stage.write("ralph/specs/plans/0001-greeting.md", "# By hand\n");
}

impl Story {
    fn stage(&self) -> Stage {
        let stage = Stage::with(&self.script, self.settings, &["0001-greeting.md"]);
        let stage = Stage { place: in_memory(stage.place) };
        if self.settings == HOME_APART {
            stage.git(&["rm", "-r", "-q", "--cached", "ralph"]);
            stage.git(&["commit", "-q", "-m", "specs"]);
        }
        (self.begin)(&stage);
        stage
    }

    /// Plays the story with a crash at every point of this share, and compares the end states.
    fn survives_every_crash(&self, number: usize) {
        let stage = self.stage();
        let sweep = Sweep::new(&stage.place, PIPELINE);
        let (undisturbed, points) = sweep.undisturbed(Share { number, of: SHARES });
        assert_eq!(undisturbed.status.code(), Some(self.exit), "{undisturbed}");
        assert_eq!(stage.runs(), self.runs);
        let expected = end_of(&stage);
        sweep.visit(&points, |point, crashed| {
            if point.is_start_of("ralph") {
                play_again(&stage);
            }
            let again = stage.place.ralph(PIPELINE);
            let context = || format!("{point}\n{crashed}\n{again}");
            // Work finished before the crash is skipped now, which is not a failure.
            assert_eq!(again.status.code(), Some(self.exit), "{}", context());
            let end = end_of(&stage);
            for (name, expected) in &expected {
                assert_eq!(end.get(name), Some(expected), "{name} {}", context());
            }
            assert_eq!(
                end.keys().collect::<Vec<_>>(),
                expected.keys().collect::<Vec<_>>(),
                "{}",
                context()
            );
            stage.place.assert_nothing_left();
        });
    }
}

const ARGS: &[&str] = &["--no-wait", "--allow-dirty"];
const PIPELINE: &[&str] = &["pipeline", "--no-wait", "--allow-dirty"];

/// Makes the script continue with the interrupted run, whether or not the agent had counted it.
fn play_again(stage: &Stage) {
    wait_until(PATIENCE, "the guard ends the run", || {
        processes_marked(stage.place.env.mark()).is_empty()
    });
    let Some(path) = counts(stage) else { return };
    let mut counts: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let journal = fs::read_to_string(stage.private().join("journal.jsonl")).unwrap();
    let mut roles = BTreeMap::new();
    let mut finished: BTreeMap<String, u32> = BTreeMap::new();
    for line in journal.lines() {
        let entry: Value = serde_json::from_str(line).unwrap();
        let run = entry["run"].to_string();
        if entry["event"] == "run_started" {
            roles.insert(run, entry["data"]["role"].as_str().unwrap().to_owned());
        } else if entry["event"] == "run_finished" {
            *finished.entry(roles[&run].clone()).or_default() += 1;
        }
    }
    let runs = counts["runs"].as_object_mut().unwrap();
    runs.retain(|role, _| finished.contains_key(role));
    for (role, count) in runs {
        *count = finished[role].into();
    }
    fs::write(path, counts.to_string()).unwrap();
}

/// The directory in which the rehearsal counts the runs of each role.
fn counts(stage: &Stage) -> Option<PathBuf> {
    let directory = stage.place.path("state/ralph/rehearsal");
    let files = if directory.exists() { files_in(&directory) } else { Vec::new() };
    files.into_iter().find(|path| path.extension().is_some_and(|kind| kind == "json"))
}

/// The end state without parts that vary: Ralph's files, the tree, git's status, the receipts, and how often each role
/// ran.
fn end_of(stage: &Stage) -> BTreeMap<String, String> {
    let log = stage.git(&["log", "--all", "--format=%H %s"]);
    let subjects: BTreeMap<&str, &str> =
        log.lines().filter_map(|line| line.split_once(' ')).collect();
    let mut end = BTreeMap::new();
    for (path, content) in super::files_below(stage.place.env.repo().as_path()) {
        let name = path.strip_prefix(stage.place.env.repo()).unwrap().to_str().unwrap().to_owned();
        let apart = ["ralph/runs", "ralph/ralph.log", ".git"];
        if !apart.iter().any(|apart| name.starts_with(apart)) {
            let text = String::from_utf8(content).unwrap();
            end.insert(name, normal(&text, &subjects));
        }
    }
    let status = stage.git(&["status", "--porcelain"]);
    end.insert("status".to_owned(), status);
    let branch = stage.git(&["log", "--format=%s", "--invert-grep", "--grep=^ralph: "]);
    end.insert("commits".to_owned(), branch);
    let receipts = stage.git(&["for-each-ref", "--format=%(refname)"]);
    end.insert("refs".to_owned(), receipts);
    let left = files_in(&stage.file(".git")).into_iter().filter(|path| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.contains(".lock") || name.starts_with("ralph-index")
    });
    end.insert("left".to_owned(), format!("{:?}", left.collect::<Vec<_>>()));
    end.insert("asked".to_owned(), asked(stage));
    end.insert("results".to_owned(), format!("{:?}", pending(stage)));
    end
}

/// How often each role was started, as counted by the rehearsal.
fn asked(stage: &Stage) -> String {
    let counts = fs::read(counts(stage).unwrap()).unwrap();
    let counts: Value = serde_json::from_slice(&counts).unwrap();
    counts["runs"].to_string()
}

/// Results that were not consumed.
fn pending(stage: &Stage) -> Vec<String> {
    let results = stage.private().join("results");
    let found = if results.exists() { files_in(&results) } else { Vec::new() };
    found.iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect()
}

/// Replaces times, runs and commits by placeholders.
fn normal(text: &str, subjects: &BTreeMap<&str, &str>) -> String {
    let mut normal = String::new();
    let is_word = |c: char| c.is_ascii_alphanumeric() || ":.-".contains(c);
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c| is_word(c) != is_word(first)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        let is_time = word.len() > 18 && word.as_bytes()[10] == b'T' && word.ends_with('Z');
        let is_run = word.len() == 33 && word.as_bytes()[15] == b'Z';
        normal.push_str(match subjects.get(word) {
            // The base of an item: changes in flight of a killed Ralph may be committed before it.
            Some(&"specs") => "RALPH'S",
            Some(subject) if subject.starts_with("ralph: ") => "RALPH'S",
            Some(subject) => subject,
            // Rejected work never reaches the person's repository.
            None if word.len() == 40 && word.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
                "A COMMIT"
            }
            None if is_time => "TIME",
            None if is_run => "RUN",
            None => word,
        });
        rest = after;
    }
    normal
}

/// The implementer's run was complete before setup and gate began: after the restart it is judged, not repeated.
#[test]
fn killed_while_setup_or_a_gate_runs_it_judges_the_finished_run_and_does_not_repeat_it() {
    let settings = format!("[checkout]\nsetup = [[\"true\"]]\n{GREETS}");
    let stage = Stage::with(&willing(&[]), &settings, &["0001-greeting.md"]);
    let stage = Stage { place: in_memory(stage.place) };
    planned(&stage);
    let sweep = Sweep::new(&stage.place, PIPELINE);
    let (_, points) = sweep.undisturbed(Share { number: 0, of: 1 });
    for program in ["true", "sh"] {
        let starts: Vec<_> = points.iter().filter(|point| point.is_start_of(program)).collect();
        assert!(!starts.is_empty(), "{program}");
        for start in starts {
            let (reached, crashed) = sweep.killed_at(start).unwrap();
            assert!(reached.is_start_of(program), "{reached} instead of {start}");
            let again = stage.place.ralph(PIPELINE);
            assert_eq!(again.status.code(), Some(0), "{start}\n{crashed}\n{again}");
            assert_eq!(stage.runs(), "iv", "{start}\n{crashed}\n{again}");
            stage.place.assert_nothing_left();
        }
    }
}

macro_rules! shares {
    ($($story:ident: $($share:ident = $number:literal),+;)+) => {$(
        mod $story {
            $(
                #[test]
                fn $share() {
                    super::$story().survives_every_crash($number);
                }
            )+
        }
    )+};
}

shares! {
    planning: a_crash_at_any_point_changes_nothing_1 = 0, a_crash_at_any_point_changes_nothing_2 = 1;
    invalidation: a_crash_at_any_point_changes_nothing_1 = 0, a_crash_at_any_point_changes_nothing_2 = 1;
    rejection: a_crash_at_any_point_changes_nothing_1 = 0, a_crash_at_any_point_changes_nothing_2 = 1;
    commits: a_crash_at_any_point_changes_nothing_1 = 0, a_crash_at_any_point_changes_nothing_2 = 1;
    answer: a_crash_at_any_point_changes_nothing_1 = 0, a_crash_at_any_point_changes_nothing_2 = 1;
    question: a_crash_at_any_point_changes_nothing_1 = 0, a_crash_at_any_point_changes_nothing_2 = 1;
}
