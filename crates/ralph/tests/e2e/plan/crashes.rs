//! Random changes, some of which die between two writes: every invariant holds, and the log matches what really
//! happened.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::harness::PATIENCE;
use crate::support::process::run;

use super::{Desk, Dice, PLAN, RALPH};

const CHANGES: usize = 24;

/// The actual changes, derived from the file before and after.
#[derive(Default)]
struct Witness {
    told: Vec<String>,
    /// Per task, whether the last attempt was rejected.
    rejected: BTreeMap<String, bool>,
    outcomes: BTreeMap<String, &'static str>,
}

impl Witness {
    fn note(&mut self, id: &str, what: &str) {
        self.told.push(format!("{id} {what}"));
    }

    /// Records what a command did, if the file shows it.
    fn saw(&mut self, command: &str, id: &str, before: &[String], after: &[String]) {
        // Changes of one commit to several tasks are logged in file order.
        let gone: Vec<&String> = before.iter().filter(|id| !after.contains(id)).collect();
        match command {
            "add" => {
                for id in after.iter().filter(|id| !before.contains(id)) {
                    self.note(id, "created");
                    self.outcomes.insert(id.clone(), "pending");
                }
            }
            "done" => {
                self.note(id, "done");
                self.rejected.insert(id.to_owned(), false);
                self.outcomes.insert(id.to_owned(), "done");
            }
            "reject" => {
                self.note(id, "rejected");
                self.rejected.insert(id.to_owned(), true);
                self.outcomes.insert(id.to_owned(), "pending");
            }
            "accept" => {
                for id in gone {
                    self.note(id, "accepted");
                    self.outcomes.insert(id.clone(), "accepted");
                }
            }
            _ => {
                for id in gone {
                    let was_rejected = self.rejected.get(id).copied().unwrap_or(false);
                    self.note(id, if was_rejected { "removed" } else { "cancelled" });
                    self.outcomes
                        .insert(id.clone(), if was_rejected { "rejected" } else { "cancelled" });
                }
            }
        }
    }
}

fn status_of(desk: &Desk, id: &str) -> String {
    let plan = desk.plan();
    let records = plan.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let found = records.into_iter().find(|record| record["t"] == "task" && record["id"] == id);
    found.map(|record| super::text(&record["s"])).unwrap_or_default()
}

fn random_history(seed: u64) {
    let desk = Desk::new();
    let mut dice = Dice::new(seed);
    let mut witness = Witness::default();
    let mut crashes = 0;
    for step in 0..CHANGES {
        let before = desk.ids();
        let id = dice.one_of(&before).cloned().unwrap_or_default();
        let done = status_of(&desk, &id) == "d";
        let name = format!("task {step}");
        let (command, args): (&str, Vec<&str>) = match dice.roll(8) {
            // Two of eight, and every impossible action, add a task.
            2 | 3 if !done => ("done", vec!["task", "done", &id]),
            4 if done => ("accept", vec!["task", "accept", &id]),
            5 if done => ("reject", vec!["task", "reject", &id, "not good"]),
            6 => ("delete", vec!["task", "delete", &id]),
            7 if dice.roll(4) == 0 => {
                let other =
                    if desk.plan().contains("area/other.md") { "coverage" } else { "area/other" };
                ("set-spec", vec!["set-spec", other, "--yes"])
            }
            _ => ("add", vec!["task", "add", &name]),
        };
        let bytes = desk.plan();
        let mut variables = desk.place.variables();
        if dice.roll(3) == 0 {
            let write = (dice.roll(8) + 1).to_string();
            variables.push(("RALPH_CRASH_AT".to_owned(), write));
        }
        let finished = run(&desk.place.env, Path::new(RALPH), &args, &variables, "", PATIENCE);
        if finished.status.code().is_none() {
            crashes += 1;
        }
        // Refused, or killed before writing: nothing happened.
        if desk.plan() == bytes {
            assert!(
                !finished.status.success() || command == "set-spec",
                "seed {seed}: {args:?} {finished}"
            );
        } else {
            witness.saw(command, &id, &before, &desk.ids());
        }
    }
    assert!(crashes > 0, "seed {seed} kills nobody");
    // The next change recovers what the last one may have left.
    desk.done(&["issue", "add", "the end"]);
    assert_eq!(desk.git(&["status", "--porcelain"]), "", "seed {seed}");
    assert_eq!(desk.git(&["show", &format!("HEAD:{PLAN}")]), desk.plan().trim_end_matches('\n'));
    let validated = desk.ralph(&["validate"]);
    assert!(validated.status.success(), "seed {seed}: {validated}");
    assert_eq!(desk.told(&[]), last(&witness.told, 50), "seed {seed}");
    let outcomes: BTreeMap<String, String> = desk.outcomes(&[]).into_iter().collect();
    let witnessed: BTreeMap<String, String> =
        witness.outcomes.iter().map(|(id, outcome)| (id.clone(), (*outcome).to_owned())).collect();
    assert_eq!(outcomes, witnessed, "seed {seed}");
    for lock in ["index.lock", "HEAD.lock", "refs/heads/main.lock"] {
        assert!(!desk.repo().join(".git").join(lock).exists(), "seed {seed}: {lock}");
    }
}

fn last(all: &[String], count: usize) -> &[String] {
    &all[all.len().saturating_sub(count)..]
}

#[test]
fn a_ralph_that_dies_with_a_branch_locked_is_in_nobodys_way() {
    let desk = Desk::with_tasks(1);
    let lock = desk.repo().join(".git/refs/heads/main.lock");
    let died_with_it = (1..20).any(|write| {
        let mut variables = desk.place.variables();
        variables.push(("RALPH_CRASH_AT".to_owned(), write.to_string()));
        let args = ["task", "add", "x"];
        let died = run(&desk.place.env, Path::new(RALPH), &args, &variables, "", PATIENCE);
        died.status.code().is_none() && lock.exists()
    });
    assert!(died_with_it);
    desk.done(&["task", "add", "later"]);
    assert!(!lock.exists());
    assert_eq!(desk.git(&["status", "--porcelain"]), "");
    desk.git(&["commit", "-q", "--allow-empty", "-m", "a person's"]);
    let left = fs::read_dir(desk.repo().join(".git")).unwrap();
    let names = left.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let ours: Vec<String> = names.filter(|name| name.starts_with("ralph-ref-")).collect();
    assert_eq!(ours, Vec::<String>::new());
}

#[test]
fn random_changes_with_random_deaths_are_told_as_they_happened() {
    for seed in 1..=6 {
        random_history(seed);
    }
}

/// The worst case: a deletion of done work, written but not committed, must not become an acceptance.
#[test]
fn a_change_that_died_before_its_commit_is_committed_as_what_it_was() {
    let mut seen_uncommitted = false;
    for write in 1..12 {
        let desk = Desk::with_tasks(2);
        desk.done(&["task", "done", "t-0001"]);
        let head = desk.head();
        let mut variables = desk.place.variables();
        variables.push(("RALPH_CRASH_AT".to_owned(), write.to_string()));
        let args = ["task", "delete", "t-0001"];
        let finished = run(&desk.place.env, Path::new(RALPH), &args, &variables, "", PATIENCE);
        let is_written = !desk.ids().contains(&"t-0001".to_owned());
        seen_uncommitted |= is_written && desk.head() == head;
        desk.done(&["task", "add", "next"]);
        let outcome = &desk.outcomes(&[])[0];
        let wanted = if is_written { "cancelled" } else { "done" };
        assert_eq!(outcome, &("t-0001".to_owned(), wanted.to_owned()), "after write {write}");
        assert_eq!(desk.git(&["status", "--porcelain"]), "", "after write {write}");
        if finished.status.success() {
            assert!(seen_uncommitted, "some death comes between the file and its commit");
            return;
        }
    }
    panic!("it never lives to its end");
}
