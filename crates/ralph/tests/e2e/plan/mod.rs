//! The plan through the binary: commands, commits, history, merges, concurrent writers and crashes.

mod clones;
mod commands;
mod commits;
mod crashes;
mod crowd;
mod guide;
mod log;
mod merges;
mod soundness;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::harness::{PATIENCE, Place, RALPH};
use crate::support::process::{Finished, run};

pub(super) const PLAN: &str = "ralph/plan.jsonl";

/// A repository with two specs; the plan is for `coverage.md`.
pub(super) struct Desk {
    pub(super) place: Place,
}

impl Desk {
    /// A home with specs and no plan yet.
    pub(super) fn bare() -> Desk {
        let place = Place::new();
        let specs = place.env.repo().join("ralph/specs");
        fs::create_dir_all(specs.join("area")).unwrap();
        for (name, title) in [("coverage.md", "Coverage"), ("area/other.md", "Other")] {
            fs::write(specs.join(name), format!("# {title}\n\nWhat is to be done.\n")).unwrap();
        }
        place.env.git(&["add", "--all"]);
        place.env.git(&["commit", "--quiet", "--message=specs"]);
        Desk { place }
    }

    pub(super) fn new() -> Desk {
        let desk = Desk::bare();
        desk.done(&["set-spec", "coverage.md"]);
        desk
    }

    /// With independent tasks `t-0001`, `t-0002` and so on.
    pub(super) fn with_tasks(count: usize) -> Desk {
        let desk = Desk::new();
        let tasks: Vec<Value> = (1..=count)
            .map(|n| serde_json::json!({"id": format!("t-{n:04}"), "name": format!("task {n}")}))
            .collect();
        desk.done(&["task", "add", &Value::Array(tasks).to_string()]);
        desk
    }

    pub(super) fn repo(&self) -> PathBuf {
        self.place.env.repo()
    }

    pub(super) fn git(&self, args: &[&str]) -> String {
        self.place.env.git(args)
    }

    pub(super) fn ralph(&self, args: &[&str]) -> Finished {
        self.place.ralph(args)
    }

    /// Runs `ralph` in a directory.
    pub(super) fn ralph_in(&self, directory: &Path, args: &[&str]) -> Finished {
        let script = "cd \"$1\" && shift && exec \"$@\"";
        let mut all = vec!["-c", script, "sh", directory.to_str().unwrap(), RALPH];
        all.extend_from_slice(args);
        run(&self.place.env, Path::new("/bin/sh"), &all, &self.place.variables(), "", PATIENCE)
    }

    /// Runs `ralph`, which must succeed and print JSON.
    pub(super) fn done(&self, args: &[&str]) -> Value {
        let finished = self.ralph(args);
        assert!(finished.status.success(), "{args:?}: {finished}");
        json(&finished)
    }

    /// Runs `ralph`, which must refuse; returns its message.
    pub(super) fn refused(&self, args: &[&str]) -> String {
        let before = self.plan();
        let finished = self.ralph(args);
        assert_eq!(finished.status.code(), Some(2), "{args:?}: {finished}");
        assert_eq!(finished.stdout, "", "{finished}");
        assert_eq!(self.plan(), before, "what is refused changes nothing");
        finished.stderr
    }

    pub(super) fn plan(&self) -> String {
        fs::read_to_string(self.repo().join(PLAN)).unwrap_or_default()
    }

    pub(super) fn write_plan(&self, text: &str) {
        fs::write(self.repo().join(PLAN), text).unwrap();
    }

    /// The ids of the tasks in the file, in its order.
    pub(super) fn ids(&self) -> Vec<String> {
        let plan = self.plan();
        let records = plan.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let tasks = records.filter(|record| record["t"] == "task");
        tasks.map(|task| task["id"].as_str().unwrap().to_owned()).collect()
    }

    pub(super) fn head(&self) -> String {
        self.git(&["rev-parse", "HEAD"])
    }

    /// The events of `ralph log`, oldest first: `t-0001 created`.
    pub(super) fn told(&self, args: &[&str]) -> Vec<String> {
        let mut all = vec!["log"];
        all.extend_from_slice(args);
        let log = self.done(&all);
        let changes = log["changes"].as_array().unwrap().iter().rev();
        changes
            .map(|change| format!("{} {}", text(&change["id"]), text(&change["change"])))
            .collect()
    }

    /// The outcome of each task in `ralph log --all`.
    pub(super) fn outcomes(&self, args: &[&str]) -> Vec<(String, String)> {
        let mut all = vec!["log", "--all"];
        all.extend_from_slice(args);
        let log = self.done(&all);
        let tasks = log["tasks"].as_array().unwrap().iter();
        tasks.map(|task| (text(&task["id"]), text(&task["outcome"]))).collect()
    }
}

pub(super) fn json(finished: &Finished) -> Value {
    serde_json::from_str(&finished.stdout).unwrap_or_else(|error| panic!("{error}: {finished}"))
}

pub(super) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Pseudo-random numbers, reproducible by seed.
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Returns a number below `sides`.
    pub(super) fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0 >> 16) % (sides.max(1) as u64)).unwrap()
    }

    pub(super) fn one_of<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        let at = self.roll(all.len());
        all.get(at)
    }
}
