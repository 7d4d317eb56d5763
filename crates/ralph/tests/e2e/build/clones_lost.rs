//! A person's changes to their files and to clones, between starts and during a run, are never attributed to an agent.

use std::fs;

use rustix::process::Signal;

use super::{Site, task};

const DONE: &str =
    "write work.txt x\nrun git add -A; git commit -qm work\nrun ralph task done\nfinal done\n";

/// Starts a build, waits for its agent, kills it, and removes every clone.
fn stopped_and_pruned(site: &Site, signal: Signal) {
    let running = site.place.start(&["build"]);
    crate::clones::wait_for_slot(&site.place, "begun");
    running.signal(signal);
    running.finish();
    site.exits(0, &["slots", "prune", "--all"]);
}

#[test]
fn work_whose_clone_was_removed_begins_anew_in_a_clone() {
    for signal in [Signal::INT, Signal::KILL] {
        let site = Site::planned(
            &format!("[builder 1]\nrun touch begun; sleep 600\n[builder]\n{DONE}"),
            &[task("t-aaaa")],
        );
        fs::write(site.path("README.md"), "edited by the person\n").unwrap();
        fs::write(site.path("untracked.txt"), "theirs\n").unwrap();
        stopped_and_pruned(&site, signal);
        let again = site.exits(1, &["build", "1"]);
        assert!(!again.stderr.contains("in your checkout"), "{again}");
        assert_eq!(fs::read_to_string(site.path("README.md")).unwrap(), "edited by the person\n");
        let landed = site.git(&["log", "--all", "--format=%H"]);
        for commit in landed.lines() {
            let files = site.git(&["show", "--format=", "--name-only", commit]);
            assert!(!files.contains("untracked.txt"), "{commit}: {files}");
        }
        assert_eq!(site.git(&["show", "main:work.txt"]), "x");
        assert_eq!(
            site.git(&["status", "--porcelain", "--", "README.md", "untracked.txt"]),
            " M README.md\n?? untracked.txt"
        );
    }
}

#[test]
fn a_task_that_is_added_by_hand_and_not_committed_is_built_once() {
    let site = Site::planned("", &[task("t-aaaa")]);
    let go = site.place.path("go");
    let script = format!(
        "[builder 1]\nwrite one.txt x\nrun touch begun; until [ -e {} ]; do sleep 0.02; done; rm begun\nrun ralph task done\nfinal done\n\
         [builder 2]\nwrite two.txt x\nrun ralph task done\nfinal done\n[builder]\nfinal again\n\
         [verifier]\nrun ralph task accept\nfinal fine\n",
        go.display()
    );
    fs::write(site.place.path("script"), script).unwrap();
    let running = site.place.start(&["build"]);
    crate::clones::wait_for_slot(&site.place, "begun");
    let by_hand = format!("{}{}\n", site.plan_text(), task("t-hand"));
    fs::write(site.path("ralph/plan.jsonl"), by_hand).unwrap();
    fs::write(&go, "").unwrap();
    let (code, said) = running.finish();
    assert_eq!(code, Some(0), "{said}");
    let builders = site.roles().iter().filter(|role| *role == "builder").count();
    assert_eq!(builders, 2, "{said}");
}
