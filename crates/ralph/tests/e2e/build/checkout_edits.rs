//! A person's changes in their own checkout during a run are never lost, and never held against the agent.

use std::fs;

use super::{BUILDER, Site, VERIFIER, task};
use crate::harness::{Running, wait_for_file};

/// A build in place whose first builder waits, so that the person can act meanwhile.
fn waiting() -> Site {
    let site = Site::planned("", &[task("t-aaaa")]).in_place();
    let script = format!(
        "[builder 1]\nrun touch .git/begun; until [ -e {} ]; do sleep 0.02; done\nappend ${{RALPH_TASK}} done\n\
         run ralph task done\nfinal done\n{BUILDER}{VERIFIER}",
        site.place.path("go").display()
    );
    fs::write(site.place.path("script"), script).unwrap();
    site
}

fn begun(site: &Site) -> Running<'_> {
    let running = site.place.start(&["build"]);
    wait_for_file(&site.path(".git/begun"));
    running
}

fn go(site: &Site) {
    fs::write(site.place.path("go"), "").unwrap();
}

/// Both tasks are done, each by one builder, and nothing was rejected.
fn assert_built_once(site: &Site, second: &str) {
    site.assert_complete();
    assert_eq!(site.roles().iter().filter(|role| *role == "builder").count(), 2);
    assert!(site.logged("task_rejected").is_empty(), "{:?}", site.logged("task_rejected"));
    assert!(site.path("t-aaaa").exists() && site.path(second).exists());
}

#[test]
fn a_task_that_is_added_with_any_private_state_stays_and_is_built() {
    for state in ["state", "elsewhere"] {
        let site = waiting();
        let running = begun(&site);
        let state = site.place.path(state);
        let added = site.place.start_with(
            &["task", "add", "{\"id\": \"t-bbbb\", \"name\": \"by a person\"}"],
            &[("XDG_STATE_HOME", state.to_str().unwrap())],
        );
        let (code, said) = added.finish();
        assert_eq!(code, Some(0), "{said}");
        go(&site);
        let (code, said) = running.finish();
        assert_eq!(code, Some(0), "{}: {said}", state.display());
        assert_built_once(&site, "t-bbbb");
    }
}

#[test]
fn a_plan_that_is_edited_by_hand_is_kept_and_asked_about_and_costs_the_agent_nothing() {
    let site = waiting();
    let running = begun(&site);
    let edited = format!("{}{}\n", site.plan_text(), task("t-bbbb"));
    fs::write(site.path("ralph/plan.jsonl"), &edited).unwrap();
    go(&site);
    let (code, said) = running.finish();
    assert_eq!(code, Some(3), "{said}");
    assert!(
        said.contains("ralph/plan.jsonl. Ralph cannot tell whether you changed them"),
        "{said}"
    );
    let kept = site.git(&["for-each-ref", "--format=%(refname)", "refs/ralph/displaced"]);
    assert!(said.contains(&format!("git checkout {kept} -- ralph/plan.jsonl")), "{said}");
    assert_eq!(site.git(&["show", &format!("{kept}:ralph/plan.jsonl")]), edited.trim_end());
    assert!(!site.plan_text().contains("t-bbbb"));
    // The change was the person's.
    site.git(&["checkout", "--quiet", &kept, "--", "ralph/plan.jsonl"]);
    site.exits(0, &["build"]);
    assert_built_once(&site, "t-bbbb");
}

#[test]
fn what_nobody_claims_stays_undone_and_the_run_is_judged_by_its_work() {
    let script = format!(
        "[builder 1]\nappend t-aaaa done\nrun ralph task done\nrun echo forged >> ralph/plan.jsonl\nfinal done\n{VERIFIER}"
    );
    let site = Site::planned(&script, &[task("t-aaaa")]).in_place();
    site.exits(3, &["build"]);
    let before = site.plan_text();
    assert!(!before.contains("forged"), "{before}");
    site.exits(0, &["build"]);
    assert_eq!(site.roles(), ["builder", "verifier"]);
    site.assert_complete();
}

#[test]
fn what_an_agent_does_beside_is_still_held_against_it() {
    let script = format!(
        "[builder 1]\nappend t-aaaa done\nrun ralph task done\nrun git update-ref refs/ralph/mine HEAD\n\
         run echo forged >> ralph/plan.jsonl\nfinal done\n{BUILDER}{VERIFIER}"
    );
    let site = Site::planned(&script, &[task("t-aaaa")]).in_place();
    site.exits(0, &["build"]);
    assert_eq!(site.roles(), ["builder", "builder", "verifier"]);
    assert_eq!(site.logged("task_rejected").len(), 1);
    site.assert_complete();
}
