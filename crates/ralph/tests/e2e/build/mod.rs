//! The build loop with the rehearsal agent: a spec from `ralph plan` to COMPLETE, and everything in between.

mod bounds;
mod checkout_edits;
mod claims;
mod clones_lost;
mod commits;
mod crashes;
mod damage;
mod drafts;
mod endings;
mod homes;
mod kills;
mod names;
mod people;
mod planning;
mod siblings;
mod story;

use std::fs;
use std::os::fd::OwnedFd;
use std::process::Child;

use serde_json::{Value, json};

use crate::crash;
use crate::harness::Place;
use crate::support::process::Finished;

const SPEC: &str = "greet.md";

/// A planner that adds the one task `t-hello`.
const PLANNER: &str = "[planner]\nrun ralph task add '{\"id\": \"t-hello\", \"name\": \"Say hello\"}'\nfinal planned\n";

/// A builder that does its task and leaves the commit to Ralph.
const BUILDER: &str = "[builder]\nappend ${RALPH_TASK} done\nrun ralph task done\nfinal done\n";

/// A verifier that accepts everything.
const VERIFIER: &str = "[verifier]\nrun ralph task accept\nfinal fine\n";

/// A workspace with a spec, and an agent that plays a script.
struct Site {
    place: Place,
}

impl Site {
    fn new(script: &str) -> Site {
        let site = Site { place: Place::rehearsing(script) };
        fs::create_dir_all(site.path("ralph/specs")).unwrap();
        fs::write(site.path("ralph/specs").join(SPEC), "# Greet\n\nSay hello.\n").unwrap();
        // No backoff after failures in these tests.
        let settings = fs::read_to_string(site.path("ralph.toml")).unwrap();
        fs::write(site.path("ralph.toml"), format!("limits.backoff = \"0s\"\n{settings}")).unwrap();
        site.commit_all("a spec");
        site
    }

    /// A workspace whose plan already has tasks.
    fn planned(script: &str, tasks: &[Value]) -> Site {
        let site = Site::new(script);
        site.write_plan(tasks);
        site.commit_all("a plan");
        site
    }

    /// Makes agents work in the person's own working tree.
    fn in_place(self) -> Site {
        self.place.env.in_place();
        self
    }

    /// Moves it to an in-memory file system.
    fn in_memory(self) -> Site {
        Site { place: crash::in_memory(self.place) }
    }

    /// Adds to the configuration.
    fn configure(&self, more: &str) {
        let path = self.path("ralph.toml");
        let text = fs::read_to_string(&path).unwrap();
        // Top-level keys must precede tables.
        fs::write(&path, format!("{more}\n{text}")).unwrap();
        self.commit_all("settings");
    }

    fn gate(&self, argv: &[&str]) {
        let path = self.path("ralph.toml");
        let text = fs::read_to_string(&path).unwrap();
        let argv = json!(argv);
        fs::write(&path, format!("{text}\n[[gate]]\nname = \"check\"\nrun = {argv}\n")).unwrap();
        self.commit_all("a gate");
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.place.env.repo().join(name)
    }

    fn git(&self, args: &[&str]) -> String {
        self.place.env.git(args)
    }

    fn commit_all(&self, message: &str) {
        self.place.commit_all(message);
    }

    /// Writes a plan for the spec, uncommitted.
    fn write_plan(&self, records: &[Value]) {
        let spec = json!({"t": "spec", "spec": SPEC});
        let lines = [&spec].into_iter().chain(records).map(|record| format!("{record}\n"));
        let text: String = lines.collect();
        fs::write(self.path("ralph/plan.jsonl"), text).unwrap();
    }

    fn ralph(&self, args: &[&str]) -> Finished {
        self.place.ralph(args)
    }

    /// Runs `ralph` and asserts its exit code.
    fn exits(&self, code: i32, args: &[&str]) -> Finished {
        let finished = self.ralph(args);
        assert_eq!(finished.status.code(), Some(code), "{finished}\n{}", self.plan_text());
        finished
    }

    fn plan_text(&self) -> String {
        fs::read_to_string(self.path("ralph/plan.jsonl")).unwrap_or_default()
    }

    fn records(&self, kind: &str) -> Vec<Value> {
        let text = self.plan_text();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(|record| record["t"] == kind).collect()
    }

    fn task(&self, id: &str) -> Value {
        let found = self.records("task").into_iter().find(|task| task["id"] == id);
        found.unwrap_or_else(|| panic!("no {id} in\n{}", self.plan_text()))
    }

    /// The log entries of a name.
    fn logged(&self, name: &str) -> Vec<Value> {
        self.place.logged(name)
    }

    /// The roles of all runs, in order.
    fn roles(&self) -> Vec<String> {
        self.place.roles()
    }

    /// The replies to agents through their channels.
    fn answers(&self) -> Vec<(bool, String)> {
        let asked = self.logged("mutation_requested");
        asked
            .iter()
            .map(|asked| {
                (asked["accepted"].as_bool().unwrap(), asked["text"].as_str().unwrap().to_owned())
            })
            .collect()
    }

    /// Whether an agent's request was answered, even while the log does not exist yet.
    fn is_answered(&self) -> bool {
        let log = fs::read_to_string(self.path("ralph/ralph.log"));
        log.is_ok_and(|log| log.contains("\"mutation_requested\""))
    }

    /// The subjects of all commits, newest first.
    fn commits(&self) -> Vec<String> {
        self.place.env.commits()
    }

    /// Asserts that there is nothing to commit.
    fn assert_clean(&self) {
        assert_eq!(self.git(&["status", "--porcelain"]), "");
    }

    /// Asserts that the plan is complete: the spec without any task.
    fn assert_complete(&self) {
        let left: Vec<Value> = [self.records("task"), self.records("issue")].concat();
        assert!(left.is_empty(), "{left:?}");
        self.assert_clean();
        self.place.assert_nothing_left();
    }

    /// Runs `ralph` with a terminal as stdin, on which `typed` was typed.
    fn at_terminal(&self, args: &[&str], typed: &[u8]) -> (Option<i32>, String) {
        self.place.at_terminal(args, typed)
    }

    /// Starts `ralph` with a terminal as stdin, and returns it with the other end.
    fn start_at_terminal(&self, args: &[&str]) -> (Child, OwnedFd) {
        self.place.start_at_terminal(args)
    }
}

fn task(id: &str) -> Value {
    json!({"t": "task", "id": id, "spec": SPEC, "name": format!("Do {id}"), "s": "p"})
}

/// A task with more fields.
fn task_with(id: &str, more: Value) -> Value {
    let mut task = task(id);
    let Value::Object(more) = more else { panic!("fields are an object") };
    task.as_object_mut().unwrap().extend(more);
    task
}

fn issue(id: &str) -> Value {
    json!({"t": "issue", "id": id, "spec": SPEC, "desc": format!("{id} is odd")})
}
