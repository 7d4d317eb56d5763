//! `ralph loop` with the rehearsal agent: every traced scenario, and every attempt to bypass its phases.

mod crashes;
mod defects;
mod degenerate;
mod moved;
mod people;
mod reflection;
mod scenarios;
mod siblings;
mod slots;
mod trees;
mod web;

use std::fs;

use serde_json::Value;

use crate::harness::Place;
use crate::support::process::Finished;

const TASK: &str = "Say hello";

/// A plan that is valid in the workspace of these tests.
const PLAN: &str = "write .ralph/plan.md <<END
# Plan: hello

## Analysis
- A file says hello.

## Steps
1. `hello.txt` (new): say hello.

## Verification strategy
- `test -f hello.txt`
END
";

/// Does what the plan says, and claims it.
const BUILD: &str = "write hello.txt hello\nwrite .ralph/summary.md A file that says hello.\nwrite .ralph/status.txt complete\nfinal built\n";

/// Asserts that a worked example in the guide matches the output: its lines, in order.
fn assert_as_in_guide(heading: &str, stderr: &str) {
    let guide = include_str!("../../../../../docs/loop.md");
    let (_, example) = guide.split_once(&format!("\n{heading}\n")).unwrap();
    let example = example.split_once("\n## ").map_or(example, |(section, _)| section);
    let output = example.lines().skip_while(|line| !line.starts_with("$ ralph loop"));
    let shown: Vec<String> =
        output.filter(|line| line.starts_with('[')).map(without_chance).collect();
    assert!(shown.len() > 5, "{shown:?}");
    let mut told = stderr.lines().map(without_chance);
    for line in &shown {
        assert!(told.any(|one| one == *line), "not there, or not in this order: {line}\n{stderr}");
    }
}

/// A line without variable parts: commits and durations.
fn without_chance(line: &str) -> String {
    let word = |word: &str| {
        let bare = word.trim_end_matches(',');
        let is_commit = bare.len() >= 8 && bare.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = bare.trim_end_matches("ms").trim_end_matches('s');
        let is_time = bare.len() > number.len() && number.parse::<f64>().is_ok();
        if is_commit || is_time { "…".to_owned() } else { word.to_owned() }
    };
    line.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// A workspace with an agent that plays a script, and one gate: no file says `bad`.
struct Site {
    place: Place,
}

impl Site {
    fn new(script: &str) -> Site {
        Site::configured(script, "[loop]\npreset = \"minimal\"\n")
    }

    fn configured(script: &str, more: &str) -> Site {
        let gate =
            "[[gate]]\nname = \"check\"\nrun = [\"sh\", \"-c\", \"! grep -rs bad hello.txt\"]\n";
        Site::without_gates(script, &format!("{more}{gate}"))
    }

    fn without_gates(script: &str, more: &str) -> Site {
        let site = Site { place: Place::rehearsing(script) };
        site.place.env.isolate();
        let settings = fs::read_to_string(site.path("ralph.toml")).unwrap();
        let settings = format!("limits.backoff = \"0s\"\n{settings}{more}");
        fs::write(site.path("ralph.toml"), settings).unwrap();
        fs::create_dir_all(site.path("ralph/specs")).unwrap();
        fs::write(site.path("ralph/specs/README.md"), "none\n").unwrap();
        // As `ralph init` creates it, so that nothing of home has to land with the first task.
        let ignored = "runs/\nralph.log\nspecs/sessions/\n.*.ralph-tmp\n";
        fs::write(site.path("ralph/.gitignore"), ignored).unwrap();
        site.commit_all("begin");
        site
    }

    /// The same with agents that work in the checkout.
    fn in_place(self) -> Site {
        self.place.env.in_place();
        self
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.place.env.repo().join(name)
    }

    fn git(&self, args: &[&str]) -> String {
        self.place.env.git(args)
    }

    fn commit_all(&self, message: &str) {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", message]);
    }

    /// A file of the mailbox.
    fn mail(&self, name: &str) -> String {
        fs::read_to_string(self.path(".ralph").join(name)).unwrap_or_default()
    }

    /// Runs `ralph loop` and asserts its exit code.
    fn exits(&self, code: i32, args: &[&str]) -> Finished {
        let finished = self.place.ralph(&[&["loop"], args].concat());
        let feedback = self.mail("feedback.md");
        assert_eq!(finished.status.code(), Some(code), "{finished}\n{feedback}");
        self.assert_script_held();
        finished
    }

    /// Asserts that every expectation in the script held: a run that ends by one looks like any other trouble.
    fn assert_script_held(&self) {
        let ended = self.place.logged("run_finished");
        let unmet = ended.iter().find(|run| run["exit"]["code"] == 64);
        assert_eq!(unmet.map(|run| &run["outcome"]), None);
    }

    /// The log entries of a name.
    fn logged(&self, name: &str) -> Vec<Value> {
        let log = fs::read_to_string(self.path("ralph/ralph.log")).unwrap();
        let entries = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        entries
            .filter(|entry| entry["event"] == name)
            .map(|mut entry| entry["data"].take())
            .collect()
    }

    /// How many runs there were.
    fn runs(&self) -> usize {
        self.logged("run_started").len()
    }

    /// How often gates judged something: at the base they run before any work.
    fn gate_runs(&self) -> usize {
        self.logged("gate_started").iter().filter(|gate| gate["at"] != "base").count()
    }

    fn verdicts(&self) -> Vec<String> {
        let reached = self.logged("verdict");
        reached.iter().map(|verdict| verdict["verdict"].as_str().unwrap().to_owned()).collect()
    }

    /// The commits of the branch, newest first.
    fn commits(&self) -> Vec<String> {
        self.place.env.commits()
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    fn refs(&self, below: &str) -> Vec<String> {
        let refs = self.git(&["for-each-ref", "--format=%(refname)", below]);
        refs.lines().map(str::to_owned).collect()
    }

    fn assert_clean(&self) {
        assert_eq!(self.git(&["status", "--porcelain"]), "");
        self.place.assert_nothing_left();
    }
}
