//! Plans of diverging branches, merged by git with the driver that `ralph init` configures.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::harness::PATIENCE;
use crate::support::process::run;

use super::{Desk, Dice, PLAN, RALPH, text};

/// Configures the driver, with `ralph` on git's path.
fn with_driver(desk: &Desk) -> String {
    desk.ralph(&["init", "--no-commit"]);
    desk.git(&["add", "--all"]);
    desk.git(&["commit", "--quiet", "--message=init"]);
    let bin = Path::new(RALPH).parent().unwrap();
    format!("{}:{}", bin.display(), std::env::var("PATH").unwrap())
}

/// Merges a branch; returns whether it was free of conflicts, and the output.
fn merge(desk: &Desk, path: &str, branch: &str) -> (bool, String) {
    let output = Command::new("git")
        .args(["merge", "--no-edit", "--quiet", branch])
        .current_dir(desk.repo())
        .env_clear()
        .envs(desk.place.variables())
        .env("PATH", path)
        .output()
        .unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn on_branch(desk: &Desk, branch: &str, work: impl FnOnce()) {
    desk.git(&["switch", "--quiet", branch]);
    work();
}

#[test]
fn init_names_the_driver_once_and_never_replaces_one() {
    let desk = Desk::bare();
    with_driver(&desk);
    let driver = desk.git(&["config", "merge.ralph-plan.driver"]);
    assert!(driver.contains("' merge-plan %O %A %B %P"), "{driver}");
    let attributes = desk.git(&["check-attr", "merge", PLAN]);
    assert_eq!(attributes, format!("{PLAN}: merge: ralph-plan"));
    // The driver of an earlier Ralph is updated; a person's own is kept.
    let old = "command -v ralph && exec ralph merge-plan %O %A %B %P; exec git merge-file %A %O %B";
    desk.git(&["config", "merge.ralph-plan.driver", old]);
    desk.ralph(&["init", "--no-commit"]);
    assert_eq!(desk.git(&["config", "merge.ralph-plan.driver"]), driver);
    desk.git(&["config", "merge.ralph-plan.driver", "mine"]);
    desk.ralph(&["init", "--no-commit"]);
    assert_eq!(desk.git(&["config", "merge.ralph-plan.driver"]), "mine");
}

#[test]
fn what_both_sides_did_is_there_and_what_cannot_be_both_is_a_readable_conflict() {
    let desk = Desk::with_tasks(3);
    let path = with_driver(&desk);
    desk.git(&["branch", "other"]);
    desk.done(&["task", "add", r#"{"name": "ours", "id": "t-ours"}"#]);
    desk.done(&["task", "done", "t-0001"]);
    on_branch(&desk, "other", || {
        desk.done(&["task", "add", r#"{"name": "theirs", "id": "t-theirs"}"#]);
        desk.done(&["task", "done", "t-0002"]);
        desk.done(&["task", "done", "t-0003"]);
        desk.done(&["task", "reject", "t-0003", "no"]);
    });
    desk.git(&["switch", "--quiet", "main"]);
    let (clean, said) = merge(&desk, &path, "other");
    assert!(clean, "{said}");
    assert_eq!(desk.ids(), ["t-0001", "t-0002", "t-0003", "t-ours", "t-theirs"]);
    let state = desk.done(&["query"]);
    let done: Vec<String> =
        state["tasks"]["done"].as_array().unwrap().iter().map(|task| text(&task["id"])).collect();
    assert_eq!(done, ["t-0001", "t-0002"]);
    assert!(desk.ralph(&["validate"]).status.success());

    desk.git(&["branch", "--force", "other"]);
    desk.done(&["set-spec", "area/other", "--yes"]);
    on_branch(&desk, "other", || {
        desk.done(&["task", "done", "t-0003"]);
        let plan = desk.plan().replace("coverage.md", "third.md");
        desk.write_plan(&plan);
        desk.git(&["commit", "--quiet", "--message=third", "--", PLAN]);
    });
    desk.git(&["switch", "--quiet", "main"]);
    let (clean, said) = merge(&desk, &path, "other");
    assert!(!clean, "{said}");
    assert!(said.contains("the current spec"), "{said}");
    assert!(desk.plan().contains("<<<<<<<") && desk.plan().contains(">>>>>>>"));
    let said = desk.refused(&["task", "add", "x"]);
    assert!(said.contains("lines 1, ") && said.contains("unresolved git conflict"), "{said}");
}

/// Earlier tools use the same name.
#[test]
fn another_program_called_ralph_merges_nothing() {
    let desk = Desk::with_tasks(1);
    let path = with_driver(&desk);
    desk.git(&["branch", "other"]);
    desk.done(&["task", "add", r#"{"name": "ours", "id": "t-ours"}"#]);
    on_branch(&desk, "other", || {
        desk.done(&["task", "add", r#"{"name": "theirs", "id": "t-theirs"}"#]);
    });
    desk.git(&["switch", "--quiet", "main"]);
    let fake = desk.place.path("fake");
    std::fs::create_dir(&fake).unwrap();
    std::fs::write(fake.join("ralph"), "#!/bin/sh\nexit 0\n").unwrap();
    std::fs::set_permissions(fake.join("ralph"), Permissions::from_mode(0o755)).unwrap();
    let (clean, said) = merge(&desk, &format!("{}:{path}", fake.display()), "other");
    assert!(clean, "{said}");
    assert_eq!(desk.ids(), ["t-0001", "t-ours", "t-theirs"]);
}

/// The path of this program may contain anything; git expands `%` and a shell parses it.
#[test]
fn the_driver_is_found_under_an_odd_path() {
    let desk = Desk::with_tasks(1);
    let odd = desk.place.path("it's 100%O odd \"$HOME\"");
    std::fs::create_dir(&odd).unwrap();
    let program = odd.join("my ralph");
    std::fs::copy(RALPH, &program).unwrap();
    let variables = desk.place.variables();
    let init = run(&desk.place.env, &program, &["init", "--no-commit"], &variables, "", PATIENCE);
    assert!(init.status.success(), "{init}");
    desk.git(&["add", "--all"]);
    desk.git(&["commit", "--quiet", "--message=init"]);
    desk.git(&["branch", "other"]);
    desk.done(&["task", "add", r#"{"name": "ours", "id": "t-ours"}"#]);
    on_branch(&desk, "other", || {
        desk.done(&["task", "add", r#"{"name": "theirs", "id": "t-theirs"}"#]);
    });
    desk.git(&["switch", "--quiet", "main"]);
    let (clean, said) = merge(&desk, &std::env::var("PATH").unwrap(), "other");
    assert!(clean, "lines at one place are a conflict to git: {said}");
    assert_eq!(desk.ids(), ["t-0001", "t-ours", "t-theirs"]);
}

/// Two branches that merged each other's earlier tip have two merge bases, which git merges first.
#[test]
fn what_left_the_plan_since_a_criss_cross_merge_stays_away() {
    let desk = Desk::with_tasks(3);
    let path = with_driver(&desk);
    let rename = |name: &str| {
        let plan = desk.plan().replace("\"task 3\"", &format!("\"{name}\""));
        desk.write_plan(&plan);
        desk.git(&["commit", "--quiet", "--message=rename", "--", PLAN]);
    };
    let resolve = |name: &str, other: &str, branch: &str| {
        let before = desk.plan();
        let (clean, said) = merge(&desk, &path, branch);
        assert!(!clean && said.contains("`t-0003`"), "{said}");
        desk.write_plan(&before.replace(other, name));
        desk.git(&["commit", "--quiet", "--all", "--message=cross"]);
    };
    desk.git(&["branch", "other"]);
    desk.done(&["task", "done", "t-0001"]);
    rename("A");
    desk.git(&["tag", "ours"]);
    on_branch(&desk, "other", || {
        rename("B");
        desk.git(&["tag", "theirs"]);
        // Theirs takes over our change to the first task.
        desk.write_plan(&desk.plan());
        let (clean, _) = merge(&desk, &path, "ours");
        assert!(!clean);
        let ours = desk.git(&["show", &format!("ours:{PLAN}")]) + "\n";
        desk.write_plan(&ours.replace("\"A\"", "\"B\""));
        desk.git(&["commit", "--quiet", "--all", "--message=cross"]);
    });
    desk.git(&["switch", "--quiet", "main"]);
    resolve("A", "B", "theirs");
    rename_to_same(&desk, "B", "A");
    desk.done(&["task", "accept", "t-0001"]);
    desk.done(&["task", "delete", "t-0002"]);
    on_branch(&desk, "other", || {
        rename_to_same(&desk, "B", "A");
        desk.done(&["task", "add", r#"{"name": "theirs", "id": "t-theirs"}"#]);
    });
    desk.git(&["switch", "--quiet", "main"]);
    assert_eq!(desk.git(&["merge-base", "--all", "main", "other"]).lines().count(), 2);
    let (clean, said) = merge(&desk, &path, "other");
    assert!(clean, "{said}");
    assert_eq!(desk.ids(), ["t-0003", "t-theirs"]);
}

/// Gives the third task the name that both sides finally agree on.
fn rename_to_same(desk: &Desk, from: &str, to: &str) {
    let plan = desk.plan().replace(&format!("\"{from}\""), &format!("\"{to}\""));
    desk.write_plan(&plan);
    desk.git(&["commit", "--quiet", "--allow-empty", "--message=agree", "--", PLAN]);
}

#[test]
fn a_merge_that_cannot_be_made_says_why_and_git_takes_it_for_a_failed_driver() {
    let desk = Desk::new();
    let finished = desk.ralph(&["merge-plan", "nowhere", PLAN, PLAN]);
    assert!(finished.status.code().is_some_and(|code| code > 128), "{finished}");
    assert!(finished.stderr.contains("No such file"), "{finished}");
}

/// If the plans cannot be parsed, git's line-based merge is the fallback.
#[test]
fn a_side_that_cannot_be_read_is_merged_line_by_line() {
    let desk = Desk::with_tasks(5);
    let path = with_driver(&desk);
    desk.git(&["branch", "other"]);
    let plan = desk.plan().replace("{\"t\": \"spec\"", "{broken\n{\"t\": \"spec\"");
    desk.write_plan(&plan);
    desk.git(&["commit", "--quiet", "--message=broken", "--", PLAN]);
    on_branch(&desk, "other", || {
        desk.done(&["task", "add", r#"{"name": "theirs", "id": "t-theirs"}"#]);
    });
    desk.git(&["switch", "--quiet", "main"]);
    let (clean, said) = merge(&desk, &path, "other");
    assert!(clean && said.contains("line by line"), "{said}");
    assert!(desk.plan().starts_with("{broken\n") && desk.plan().contains("t-theirs"));
}

/// The status of every task in the file.
fn statuses(plan: &str) -> BTreeMap<String, String> {
    let records = plan.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let tasks = records.filter(|record| record["t"] == "task");
    tasks.map(|task| (text(&task["id"]), text(&task["s"]))).collect()
}

/// Changes tasks at random; half of them are changed by this side only.
fn wander(desk: &Desk, dice: &mut Dice, side: &str) {
    for step in 0..4 {
        let all = statuses(&desk.plan());
        let ids: Vec<&String> = all.keys().collect();
        let id = dice.one_of(&ids).map(|id| (*id).clone()).unwrap_or_default();
        let is_done = all.get(&id).is_some_and(|status| status == "d");
        let add = format!(r#"{{"name": "{side} {step}", "id": "t-{side}{step}"}}"#);
        let args: Vec<&str> = match (dice.roll(4), is_done) {
            (0, _) => vec!["task", "add", &add],
            (1, true) => vec!["task", "accept", &id],
            (2, true) => vec!["task", "reject", &id, side],
            (_, false) => vec!["task", "done", &id],
            _ => continue,
        };
        desk.ralph(&args);
    }
}

/// The expected result of merging a task.
enum Wanted {
    Status(Option<String>),
    /// Rejected on one side and done or removed on the other: the rules depend on more than the status.
    Anything,
}

/// The expected merge of one task, given each side's version.
fn oracle(base: Option<&str>, ours: Option<&str>, theirs: Option<&str>, rejected: bool) -> Wanted {
    let owned = |status: Option<&str>| Wanted::Status(status.map(str::to_owned));
    match (ours, theirs) {
        (ours, theirs) if ours == theirs => owned(ours),
        (ours, theirs) if ours == base && !rejected => owned(theirs),
        (ours, theirs) if theirs == base && !rejected => owned(ours),
        // One side finished it, the other removed it: it is verified once more.
        (Some("d"), None) | (None, Some("d")) => owned(Some("d")),
        _ => Wanted::Anything,
    }
}

#[test]
fn random_branches_merge_as_the_rules_say() {
    for seed in 1..=6 {
        let desk = Desk::with_tasks(4);
        let path = with_driver(&desk);
        let mut dice = Dice::new(seed);
        wander(&desk, &mut dice, "base");
        let base = statuses(&desk.plan());
        desk.git(&["branch", "other"]);
        wander(&desk, &mut dice, "ours");
        let ours = (desk.plan(), statuses(&desk.plan()));
        desk.git(&["switch", "--quiet", "other"]);
        wander(&desk, &mut dice, "theirs");
        let theirs = (desk.plan(), statuses(&desk.plan()));
        desk.git(&["switch", "--quiet", "main"]);
        let (clean, said) = merge(&desk, &path, "other");
        if !clean {
            assert!(desk.plan().contains("<<<<<<<") && said.contains("`t-"), "seed {seed}: {said}");
            desk.git(&["merge", "--abort"]);
            assert_eq!(desk.plan(), ours.0);
            continue;
        }
        let merged = statuses(&desk.plan());
        let all: std::collections::BTreeSet<&String> =
            base.keys().chain(ours.1.keys()).chain(theirs.1.keys()).collect();
        for id in all {
            let of = |plan: &BTreeMap<String, String>| plan.get(id).cloned();
            let rejection = format!("{{\"t\": \"reject\", \"id\": \"{id}\"");
            let rejected = ours.0.contains(&rejection) || theirs.0.contains(&rejection);
            let (base, ours, theirs) = (of(&base), of(&ours.1), of(&theirs.1));
            let wanted = oracle(base.as_deref(), ours.as_deref(), theirs.as_deref(), rejected);
            if let Wanted::Status(wanted) = wanted {
                assert_eq!(of(&merged), wanted, "seed {seed}, {id}: {base:?} {ours:?} {theirs:?}");
            }
        }
        // No rejection of either side is lost.
        for line in
            ours.0.lines().chain(theirs.0.lines()).filter(|line| line.contains("\"t\": \"reject\""))
        {
            assert!(desk.plan().contains(line), "seed {seed}: {line}");
        }
        assert!(desk.ralph(&["validate"]).status.success(), "seed {seed}");
        assert!(desk.done(&["log", "--all"])["tasks"].as_array().unwrap().len() >= merged.len());
    }
}
