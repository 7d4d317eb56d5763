//! A change to the plan commits only the plan, whatever is staged, dirty, hooked or locked.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use crate::harness::{PATIENCE, wait_until};
use crate::support::process::start;

use super::{Desk, PLAN, RALPH, text};

/// The paths that the last commit changed.
fn last_paths(desk: &Desk) -> String {
    desk.git(&["show", "--format=", "--name-only", "HEAD"])
}

/// B12.13: no unrelated edits are swept up, nothing is pushed, hooks do not run.
#[test]
fn b12_13_the_commit_holds_the_plan_alone_whatever_is_staged_or_dirty() {
    let desk = Desk::with_tasks(1);
    let hook = desk.repo().join(".git/hooks/pre-commit");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    fs::write(&hook, "#!/bin/sh\ntouch hooked\nexit 1\n").unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(desk.repo().join("staged"), "s").unwrap();
    desk.git(&["add", "staged"]);
    fs::write(desk.repo().join("README.md"), "dirty").unwrap();
    fs::write(desk.repo().join("new"), "n").unwrap();
    let before = desk.git(&["status", "--porcelain"]);
    for args in [&["task", "done"][..], &["issue", "add", "x"], &["task", "accept"]] {
        desk.done(args);
        assert_eq!(last_paths(&desk), PLAN);
        assert_eq!(desk.git(&["status", "--porcelain"]), before, "the index is in step");
    }
    assert!(!desk.repo().join("hooked").exists());
    assert_eq!(desk.git(&["fsck", "--strict"]), "");
}

#[test]
fn a_staged_version_of_the_plan_that_a_change_takes_the_place_of_is_named() {
    let desk = Desk::with_tasks(1);
    let plan = desk.repo().join(PLAN);
    let text = fs::read_to_string(&plan).unwrap();
    fs::write(&plan, format!("{text}{{\"t\":\"issue\",\"id\":\"i-mine\",\"desc\":\"x\"}}\n"))
        .unwrap();
    desk.git(&["add", PLAN]);
    let staged = desk.git(&["rev-parse", &format!(":{PLAN}")]);
    fs::write(&plan, text).unwrap();
    let told = desk.ralph(&["task", "add", "y"]).stderr;
    assert!(told.contains(&format!("git cat-file -p {}", staged.trim())), "{told}");
    let told = desk.ralph(&["task", "add", "z"]).stderr;
    assert!(!told.contains("staged"), "{told}");
}

/// The body names what the subject only counts.
#[test]
fn a_commit_names_everything_that_it_changes() {
    let desk = Desk::with_tasks(2);
    let body = || desk.git(&["log", "-1", "--format=%b"]);
    assert_eq!(desk.git(&["log", "-1", "--format=%s"]), "ralph: task add - 2 tasks");
    assert_eq!(body().trim(), "Task added: t-0001 - task 1\nTask added: t-0002 - task 2");
    desk.done(&["task", "done"]);
    assert_eq!(body().trim(), "", "one is named by the first line");
    desk.done(&["set-spec", "area/other", "--yes"]);
    for line in ["Task cancelled: t-0001 - task 1", "Task cancelled: t-0002 - task 2"] {
        assert!(body().contains(line), "{}", body());
    }
    assert_eq!(desk.outcomes(&[])[0].1, "cancelled");
}

/// A mutation's diff shows exactly what changed.
#[test]
fn lines_that_nobody_touched_stay_as_they_are() {
    let desk = Desk::new();
    let odd = "{ \"t\":\"task\" ,\"id\":\"t-odd1\",  \"name\":\"odd\",\"s\":\"p\", \"x\": {\"y\" : 1} }\n\
               {\"t\": \"note\", \"by\": \"a person\"}\n";
    desk.write_plan(&format!("{}{odd}", desk.plan()));
    desk.git(&["commit", "--quiet", "--message=odd", "--", PLAN]);
    desk.done(&["task", "add", "another"]);
    assert!(
        desk.plan().contains(odd.lines().next().unwrap())
            && desk.plan().contains(odd.lines().last().unwrap())
    );
    let diff = desk.git(&["diff", "--numstat", "HEAD~1", "HEAD"]);
    assert_eq!(diff, format!("1\t0\t{PLAN}"));
    desk.done(&["task", "done", "t-odd1"]);
    assert!(desk.plan().contains("\"name\":\"odd\",\"s\":\"d\""), "{}", desk.plan());
    assert!(desk.plan().contains("\"x\": {\"y\" : 1} }"), "{}", desk.plan());
}

#[test]
fn a_linked_worktree_has_its_own_plan_and_branch() {
    let desk = Desk::with_tasks(1);
    let linked = desk.place.path("linked");
    desk.git(&["worktree", "add", "--quiet", "-b", "side", linked.to_str().unwrap()]);
    let main = desk.head();
    let finished = desk.ralph_in(&linked, &["task", "add", "on the side"]);
    assert!(finished.status.success(), "{finished}");
    assert_eq!(desk.head(), main, "the other branch did not move");
    assert_eq!(desk.git(&["log", "-1", "--format=%s", "side"]), "ralph: task add - on the side");
    let status = desk.git(&["-C", linked.to_str().unwrap(), "status", "--porcelain"]);
    assert_eq!(status, "");
    let log = super::json(&desk.ralph_in(&linked, &["log", "--all"]));
    assert_eq!(text(&log["tasks"][1]["branch"]), "side");
}

#[test]
fn a_branch_without_a_commit_gets_its_first_one() {
    let desk = Desk::bare();
    let fresh = desk.place.path("fresh");
    fs::create_dir_all(fresh.join("ralph/specs")).unwrap();
    fs::write(fresh.join("ralph/specs/s.md"), "# S\n\ntext\n").unwrap();
    desk.git(&["init", "--quiet", "--initial-branch=main", fresh.to_str().unwrap()]);
    let state = super::json(&desk.ralph_in(&fresh, &["log", "--all"]));
    assert_eq!(state, serde_json::json!({"tasks": []}));
    for args in [&["set-spec", "s"][..], &["task", "add", "first"], &["task", "done"]] {
        let finished = desk.ralph_in(&fresh, args);
        assert!(finished.status.success(), "{finished}");
    }
    let git = |args: &[&str]| desk.git(&[&["-C", fresh.to_str().unwrap()], args].concat());
    assert_eq!(git(&["log", "--format=%s"]).lines().count(), 3);
    assert_eq!(git(&["show", "--format=", "--name-only", "HEAD"]), PLAN);
}

#[test]
fn a_locked_index_is_waited_for() {
    let desk = Desk::with_tasks(1);
    let lock = desk.repo().join(".git/index.lock");
    fs::write(&lock, "").unwrap();
    let args = ["task", "add", "later"];
    let env = &desk.place.env;
    let running = start(env, Path::new(RALPH), &args, &desk.place.variables(), "");
    // It holds the lock of home, which is taken before the index lock, and has changed nothing.
    let home = fs::metadata(desk.repo().join("ralph")).unwrap().ino();
    let is_held = || {
        let locks = fs::read_to_string("/proc/locks").unwrap();
        locks.lines().any(|line| line.contains("FLOCK") && line.contains(&format!(":{home} ")))
    };
    wait_until(PATIENCE, "home is held", is_held);
    assert_eq!(desk.ids().len(), 1);
    let head = desk.head();
    fs::remove_file(&lock).unwrap();
    let finished = running.finish(PATIENCE);
    assert!(finished.status.success(), "{finished}");
    assert_ne!(desk.head(), head);
    assert_eq!(desk.git(&["status", "--porcelain"]), "");
}

#[test]
fn a_home_that_a_person_keeps_out_of_git_is_not_committed() {
    let desk = Desk::bare();
    desk.place.configure("[git]\ncommit_home = false\n");
    let head = desk.head();
    desk.done(&["set-spec", "coverage"]);
    desk.done(&["task", "add", "x"]);
    assert_eq!(desk.head(), head);
    assert_eq!(desk.ids().len(), 1);
}

/// The file is absent, but the plan must not be started over.
#[test]
fn a_plan_that_a_sparse_checkout_leaves_out_is_not_begun_anew() {
    let desk = Desk::with_tasks(1);
    fs::create_dir(desk.repo().join("src")).unwrap();
    fs::write(desk.repo().join("src/lib.rs"), "").unwrap();
    desk.git(&["add", "src"]);
    desk.git(&["commit", "--quiet", "--message=code"]);
    desk.git(&["sparse-checkout", "set", "--cone", "src"]);
    let head = desk.head();
    for args in [
        &["issue", "add", "x"][..],
        &["task", "add", "x"],
        &["query"],
        &["log", "--all"],
        &["build"],
    ] {
        let said = desk.refused(args);
        assert!(said.contains("git sparse-checkout add ralph"), "{args:?}: {said}");
    }
    assert_eq!(desk.head(), head);
    desk.git(&["sparse-checkout", "add", "ralph"]);
    desk.done(&["issue", "add", "x"]);
    assert_eq!(desk.ids(), ["t-0001"]);
}

/// A home anywhere in the repository, and the person in any directory.
#[test]
fn it_works_from_a_subdirectory_and_with_an_older_home() {
    let desk = Desk::new();
    let below = desk.repo().join("src/deep");
    fs::create_dir_all(&below).unwrap();
    let finished = desk.ralph_in(&below, &["task", "add", "from below"]);
    assert!(finished.status.success(), "{finished}");
    assert_eq!(last_paths(&desk), PLAN);
    desk.git(&["mv", "ralph", "scripts-ralph"]);
    fs::create_dir(desk.repo().join("scripts")).unwrap();
    desk.git(&["mv", "scripts-ralph", "scripts/ralph"]);
    desk.git(&["commit", "--quiet", "--message=move home"]);
    desk.done(&["task", "done"]);
    assert_eq!(last_paths(&desk), "scripts/ralph/plan.jsonl");
    let told = desk.told(&[]);
    assert_eq!(
        told.iter().map(|line| line.split(' ').nth(1).unwrap()).collect::<Vec<_>>(),
        ["created", "done"]
    );
}

/// An acknowledged change must not be requested again.
#[test]
fn while_a_change_cannot_be_committed_the_next_one_is_not_made_and_that_is_said() {
    let desk = Desk::with_tasks(1);
    let lock = desk.repo().join(".git/HEAD.lock");
    fs::write(&lock, "").unwrap();
    let first = desk.ralph(&["task", "add", "first"]);
    assert_eq!(first.status.code(), Some(1), "{first}");
    assert!(first.stderr.contains("was changed, but not committed"), "{first}");
    let second = desk.ralph(&["task", "add", "second"]);
    assert_eq!(second.status.code(), Some(1), "{second}");
    assert!(second.stderr.contains("nothing was changed"), "{second}");
    assert!(second.stderr.contains("repeat this change"), "{second}");
    assert!(desk.plan().contains("first") && !desk.plan().contains("second"), "{}", desk.plan());
    fs::remove_file(&lock).unwrap();
    desk.done(&["task", "add", "second"]);
    assert_eq!(
        desk.git(&["log", "-2", "--format=%s"]),
        "ralph: task add - second\nralph: task add - first"
    );
}

/// Filters are third-party programs, and are not run; LFS for all of `*.jsonl` is not unusual.
#[test]
fn a_plan_that_a_filter_is_asked_for_is_said_how_to_exempt() {
    let desk = Desk::with_tasks(1);
    fs::write(desk.repo().join(".gitattributes"), "*.jsonl filter=lfs\n").unwrap();
    desk.git(&["config", "filter.lfs.clean", "false"]);
    let finished = desk.ralph(&["task", "done"]);
    assert_eq!(finished.status.code(), Some(1), "{finished}");
    assert!(finished.stderr.contains("`plan.jsonl -filter`"), "{finished}");
    fs::write(desk.repo().join("ralph/.gitattributes"), "plan.jsonl -filter\n").unwrap();
    desk.done(&["issue", "add", "x"]);
    assert_eq!(
        desk.git(&["log", "-2", "--format=%s"]),
        "ralph: issue add - x\nralph: task done - task 1"
    );
}
