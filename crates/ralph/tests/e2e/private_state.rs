//! Private state damaged between two starts, in every workflow: work continues, and content that Ralph did not write is
//! never trusted.
//!
//! Ralph is killed while an agent works, started again and killed once more: while an agent or a gate runs, or on the way
//! to the branch. Then one file or directory of private state is damaged, and Ralph is started. Whatever it was, the work
//! comes to its end; no agent is blamed and nothing is charged; the person's uncommitted files stay uncommitted and as
//! they are; and no damaged content is on any branch. A normal test run tries a sample at one moment, both of the day;
//! `RALPH_CRASH_SWEEP=all` tries every file. A failure prints what repeats it: `RALPH_DAMAGE="MOMENT WAY PATH"`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::crash::{Point, Sweep, copy, in_memory, seed};
use crate::harness::Place;
use crate::pipeline::{AGREES, BUILDS, PLANS};

/// How many damages a normal test run tries in each story.
const SAMPLE: usize = 4;

/// Bytes that are invalid in every file of Ralph's.
const GARBAGE: &[u8] = b"{\xffgarbage\n\"";

const GATE: &str = "[[gate]]\nname = \"check\"\nrun = [\"sh\", \"-c\", \"true\"]\n";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Removed,
    Emptied,
    Cut,
    Zeros,
    Garbage,
    Directory,
    Link,
    Older,
}

const WAYS: [Way; 8] = [
    Way::Removed,
    Way::Emptied,
    Way::Cut,
    Way::Zeros,
    Way::Garbage,
    Way::Directory,
    Way::Link,
    Way::Older,
];

impl Way {
    /// Damages a file or a directory. `older` is an earlier version. Returns whether anything changed.
    fn damage(self, path: &Path, older: &Path, elsewhere: &Path) -> bool {
        let kind = fs::symlink_metadata(path).unwrap();
        if kind.is_dir() {
            return match self {
                Way::Removed => fs::remove_dir_all(path).is_ok(),
                Way::Emptied => {
                    fs::remove_dir_all(path).unwrap();
                    fs::create_dir(path).is_ok()
                }
                Way::Garbage => {
                    fs::remove_dir_all(path).unwrap();
                    fs::write(path, GARBAGE).is_ok()
                }
                Way::Link => {
                    fs::remove_dir_all(path).unwrap();
                    symlink(elsewhere, path).is_ok()
                }
                Way::Older => {
                    fs::remove_dir_all(path).unwrap();
                    if older.is_dir() {
                        fs::create_dir(path).unwrap();
                        copy(older, path);
                    }
                    true
                }
                Way::Cut | Way::Zeros | Way::Directory => false,
            };
        }
        let before = if kind.is_file() { fs::read(path).unwrap() } else { Vec::new() };
        let after = match self {
            Way::Emptied => Vec::new(),
            Way::Cut => before[..before.len() / 2].to_vec(),
            Way::Zeros => vec![0; before.len()],
            Way::Garbage => GARBAGE.to_vec(),
            Way::Older => match fs::read(older) {
                Ok(bytes) => bytes,
                Err(_) => return false,
            },
            Way::Removed | Way::Directory | Way::Link => {
                fs::remove_file(path).unwrap();
                return match self {
                    Way::Directory => fs::create_dir(path).is_ok(),
                    Way::Link => symlink(elsewhere.join("gone"), path).is_ok(),
                    _ => true,
                };
            }
        };
        if kind.is_file() && after == before {
            return false;
        }
        // Git's objects are read-only.
        fs::remove_file(path).unwrap();
        fs::write(path, after).is_ok()
    }
}

/// A workflow with something to do, and its end state.
struct Story {
    place: Place,
    start: &'static [&'static str],
    /// The command after a kill, if it differs.
    again: &'static [&'static str],
    branch: &'static str,
    /// Files of the work, as they are on the branch in the end.
    landed: &'static [(&'static str, &'static str)],
    /// How often each role runs at most if nothing of private state is lost, one run having been killed.
    is_in_place: bool,
}

impl Story {
    fn new(script: &str, files: &[(&str, &str)], more: &str) -> Story {
        let place = Place::rehearsing(script);
        place.env.isolate();
        let settings = fs::read_to_string(place.env.repo().join("ralph.toml")).unwrap();
        let settings = format!("limits.backoff = \"0s\"\n{settings}{more}{GATE}");
        fs::write(place.env.repo().join("ralph.toml"), settings).unwrap();
        let ignored = "runs/\nralph.log\nspecs/sessions/\n.*.ralph-tmp\n";
        let common = [
            ("ralph/.gitignore", ignored),
            ("ralph/specs/README.md", "none\n"),
            ("mine.txt", "theirs\n"),
        ];
        for (name, text) in common.iter().chain(files) {
            let path = place.env.repo().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        place.commit_all("begin");
        let place = in_memory(place);
        Story { place, start: &[], again: &[], branch: "main", landed: &[], is_in_place: false }
    }

    fn pipeline() -> Story {
        let script = format!("{PLANS}{BUILDS}{AGREES}");
        let script = script.replace("hello ${INVOCATION}", "hello");
        let files = [("ralph/specs/0001-greeting.md", "# Greeting\n\nWrite it.\n")];
        Story {
            start: &["pipeline"],
            landed: &[("greeting.txt", "hello")],
            ..Story::new(&script, &files, "")
        }
    }

    fn build() -> Story {
        let script = "[builder]\nwrite ${RALPH_TASK} done\nrun ralph task done\nfinal done\n\
                      [verifier]\nrun ralph task accept\nfinal fine\n";
        let task =
            |id: &str| json!({"t": "task", "id": id, "spec": "greet.md", "name": id, "s": "p"});
        let plan = format!(
            "{}\n{}\n{}\n",
            json!({"t": "spec", "spec": "greet.md"}),
            task("t-aaaa"),
            task("t-bbbb")
        );
        let files = [
            ("ralph/specs/greet.md", "# Greet\n\nSay hello.\n"),
            ("ralph/plan.jsonl", plan.as_str()),
        ];
        Story {
            start: &["build", "--no-wait"],
            landed: &[("t-aaaa", "done"), ("t-bbbb", "done")],
            ..Story::new(script, &files, "")
        }
    }

    fn run() -> Story {
        let script = "[implementer]\nrun echo done > $RALPH_TASK.txt\n\
            run git add -A; git commit -qm \"feat: $RALPH_TASK\"\n\
            run sed -i 's/\"passes\": false/\"passes\": true/' $RALPH_OUT/prd.json\n\
            run echo \"- $RALPH_TASK: learned\" >> $RALPH_OUT/progress.txt\nfinal done\n";
        let story = |id: &str, priority: u32| {
            json!({"id": id, "title": id, "acceptanceCriteria": ["It is."], "priority": priority,
                   "passes": false, "notes": ""})
        };
        let prd = json!({"branchName": "ralph/dark",
                         "userStories": [story("US-001", 1), story("US-002", 2)]});
        let prd = format!("{prd:#}\n");
        let files = [("ralph/prd.json", prd.as_str()), ("ralph/progress.txt", "# Progress\n")];
        Story {
            start: &["run"],
            branch: "ralph/dark",
            landed: &[("US-001.txt", "done"), ("US-002.txt", "done")],
            ..Story::new(script, &files, "")
        }
    }

    fn looping() -> Story {
        let plan = "# Plan\n\n## Analysis\n- A file says hello.\n\n## Steps\n1. `hello.txt` (new): say hello.\n\n\
                    ## Verification strategy\n- `test -f hello.txt`\n";
        let script = "[builder]\n\
            run test -f .ralph/plan.md || cp the-plan.md .ralph/plan.md\n\
            run grep -q build .ralph/phase.txt && echo A file that says hello. > .ralph/summary.md || true\n\
            run grep -q build .ralph/phase.txt && echo hello > hello.txt || true\n\
            write .ralph/status.txt complete\nfinal done\n";
        Story {
            start: &["loop", "Say hello"],
            again: &["loop", "--resume"],
            landed: &[("hello.txt", "hello")],
            ..Story::new(script, &[("the-plan.md", plan)], "[loop]\npreset = \"minimal\"\n")
        }
    }

    fn in_place(self) -> Story {
        self.place.env.in_place();
        Story { is_in_place: true, ..self }
    }

    /// Adds uncommitted changes of the person: one changed file and one new one.
    fn dirty(self) -> Story {
        if !self.is_in_place {
            fs::write(self.place.env.repo().join("mine.txt"), "edited\n").unwrap();
            fs::write(self.place.env.repo().join("notes.txt"), "notes\n").unwrap();
        }
        self
    }

    fn git(&self, args: &[&str]) -> String {
        self.place.env.git(args)
    }

    fn state(&self) -> PathBuf {
        self.place.path("state/ralph")
    }

    /// The content of the branch, except for records of runs.
    fn on_branch(&self) -> Vec<String> {
        let listed = self.git(&["ls-tree", "-r", "--name-only", self.branch]);
        listed.lines().map(str::to_owned).collect()
    }

    /// Restarts it until it completes, and returns the output.
    fn go_on(&self) -> (Option<i32>, String) {
        let mut all = String::new();
        let again = if self.again.is_empty() { self.start } else { self.again };
        let (mut code, mut said) = self.place.start(again).finish();
        all += &said;
        // If the loop's task was lost completely, it is given again.
        if code == Some(2) && !self.again.is_empty() {
            (code, said) = self.place.start(self.start).finish();
            all += &said;
        }
        (code, all)
    }

    /// Returns all violations of the expectations.
    fn problems(&self, code: Option<i32>, said: &str, expected: &[String]) -> Vec<String> {
        let mut problems = Vec::new();
        let mut wrong = |is_wrong: bool, what: String| problems.extend(is_wrong.then_some(what));
        wrong(code != Some(0), format!("it ends with {code:?}"));
        wrong(said.contains("panicked"), "it panics".to_owned());
        for blame in ["forged", "tampered", "[rejected]", "attempt 2"] {
            wrong(said.contains(blame), format!("it says `{blame}`"));
        }
        let verdicts = self.place.logged("verdict");
        let rejected = verdicts.iter().filter(|one| one["verdict"] == "rejected").count();
        wrong(rejected > 0, format!("{rejected} rejected"));
        if !self.is_in_place {
            let read = |name: &str| fs::read_to_string(self.place.env.repo().join(name));
            let is_kept = read("mine.txt").ok().as_deref() == Some("edited\n")
                && read("notes.txt").ok().as_deref() == Some("notes\n");
            wrong(!is_kept, "the person's files are changed".to_owned());
            let taken = self.git(&["log", "--branches", "--format=%h %s", "--", "notes.txt"]);
            wrong(!taken.is_empty(), format!("the person's file was committed: {taken}"));
            let mine = self.git(&["show", &format!("{}:mine.txt", self.branch)]);
            wrong(mine != "theirs", "the person's change was committed".to_owned());
        }
        if code == Some(0) {
            for (name, text) in self.landed {
                let found = self.git(&["log", "-1", "--format=%h", self.branch, "--", name]);
                if found.is_empty() {
                    wrong(true, format!("{name} has not landed"));
                } else {
                    let now = self.git(&["show", &format!("{}:{name}", self.branch)]);
                    wrong(now != *text, format!("{name} is {now:?}"));
                }
            }
            let there = self.on_branch();
            wrong(there != expected, format!("the branch has {there:?}"));
        }
        // In any commit of any branch.
        let commits = self.git(&["log", "--branches", "--format=%H", "--", "ralph"]);
        for commit in commits.lines() {
            for path in self.git(&["ls-tree", "-r", "--name-only", commit, "ralph/"]).lines() {
                let text = self.git_bytes(&["show", &format!("{commit}:{path}")]);
                let is_damaged = text.contains(&0) || text.contains(&0xff) || text.is_empty();
                wrong(is_damaged, format!("{commit} has {path} damaged"));
            }
        }
        let validated = self.place.start(&["validate"]).finish();
        wrong(validated.0 != Some(0), format!("home is not sound: {}", validated.1));
        problems
    }

    fn git_bytes(&self, args: &[&str]) -> Vec<u8> {
        let mut command = std::process::Command::new("git");
        command.args(args).current_dir(self.place.env.repo()).env_clear();
        command.envs(self.place.env.environment()).output().unwrap().stdout
    }
}

/// Whether a path of private state is excluded: files that agents write, and most objects of a repository, which are
/// too many.
fn is_left_out(below: &Path, object: &mut u64) -> bool {
    let text = below.to_str().unwrap();
    let parts: Vec<&str> = text.split('/').collect();
    let in_clone = text.contains("/slots/") && !text.ends_with("/slots") && parts.len() > 4;
    if text.contains("/objects/") {
        *object += 1;
        return !(*object + seed()).is_multiple_of(7);
    }
    in_clone || text.contains("/caches/") || text.starts_with("rehearsal")
}

fn walk(directory: &Path, base: &Path, object: &mut u64, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        let below = path.strip_prefix(base).unwrap().to_owned();
        if is_left_out(&below, object) {
            continue;
        }
        found.push(below);
        let kind = fs::symlink_metadata(&path).unwrap();
        if kind.is_dir() {
            walk(&path, base, object, found);
        }
    }
}

/// The points at which Ralph is killed: when a run or a gate has just begun, and between the last of these and the end.
fn moments(points: &[Point]) -> Vec<&Point> {
    let mut chosen: Vec<&Point> = points.iter().filter(|point| point.is_start_of_run()).collect();
    let last = points.iter().rposition(Point::is_start_of_run).unwrap_or(0);
    let rest = &points[last + 1..];
    chosen.extend(rest.iter().step_by((rest.len() / 6).max(1)));
    chosen
}

fn survives_damage(story: Story) {
    let story = story.dirty();
    let first = Sweep::new(&story.place, story.start);
    let points = first.all_points();
    let expected = story.on_branch();
    let agent = points.iter().find(|point| point.is_start_of("ralph")).expect("an agent runs");
    first.killed_at(agent).expect("it is killed in a run");
    let again = if story.again.is_empty() { story.start } else { story.again };
    let second = Sweep::new(&story.place, again);
    let points = second.all_points();
    let older = story.place.path("older");
    let only = std::env::var("RALPH_DAMAGE").ok();
    let is_whole = std::env::var_os("RALPH_CRASH_SWEEP").is_some();
    let (mut failed, mut tried) = (Vec::new(), 0);
    let chosen = moments(&points);
    for (turn, moment) in chosen.iter().enumerate() {
        let number = moment.to_string();
        let name =
            number.split(' ').next().unwrap().trim_start_matches("RALPH_CRASH_AT=").to_owned();
        if only.as_ref().is_some_and(|only| only.split(' ').next() != Some(&name)) {
            continue;
        }
        // A whole sweep has two of them a day.
        let every = chosen.len() / if is_whole { 2 } else { 1 };
        let is_todays = (turn as u64 + seed()).is_multiple_of(every as u64);
        if only.is_none() && !is_todays {
            continue;
        }
        let Some(_) = second.killed_at(moment) else { continue };
        let killed = Sweep::new(&story.place, again);
        let mut files = Vec::new();
        walk(&story.state(), &story.state(), &mut 0, &mut files);
        let day = usize::try_from(seed()).expect("a day's number is small");
        for (index, file) in files.iter().enumerate() {
            for (way_index, way) in WAYS.into_iter().enumerate() {
                let repeat = format!("{name} {way:?} {}", file.display());
                let is_chosen = match &only {
                    Some(only) => only == &repeat,
                    None if is_whole => (index + way_index) % 3 == day % 3,
                    None => {
                        let place = index * WAYS.len() + way_index + turn;
                        let step = (files.len() * WAYS.len() / SAMPLE).max(1);
                        place % step == (day * 37) % step
                    }
                };
                if !is_chosen {
                    continue;
                }
                killed.begin_again();
                let _ = fs::remove_dir_all(&older);
                second.copy_of("state/ralph", &older);
                if !way.damage(&story.state().join(file), &older.join(file), &older) {
                    continue;
                }
                let (code, said) = story.go_on();
                let problems = story.problems(code, &said, &expected);
                tried += 1;
                if !problems.is_empty() {
                    eprintln!("RALPH_DAMAGE={repeat:?}: {problems:?}");
                    failed
                        .push(format!("RALPH_DAMAGE={repeat:?} ({moment}): {problems:#?}\n{said}"));
                }
            }
        }
    }
    eprintln!("{tried} damages");
    assert!(failed.is_empty(), "{} of {tried} fail:\n{}", failed.len(), failed.join("\n"));
    assert!(tried > 0 || only.is_some());
}

#[test]
fn a_crash_at_any_point_and_damaged_private_state_cost_a_pipeline_nothing() {
    survives_damage(Story::pipeline());
}

#[test]
fn a_crash_at_any_point_and_damaged_private_state_cost_a_build_nothing() {
    survives_damage(Story::build());
}

#[test]
fn a_crash_at_any_point_and_damaged_private_state_cost_a_run_nothing() {
    survives_damage(Story::run());
}

#[test]
fn a_crash_at_any_point_and_damaged_private_state_cost_a_loop_nothing() {
    survives_damage(Story::looping());
}

#[test]
fn a_crash_at_any_point_and_damaged_private_state_cost_a_build_in_place_nothing() {
    survives_damage(Story::build().in_place());
}
