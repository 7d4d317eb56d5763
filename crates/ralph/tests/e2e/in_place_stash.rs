//! Agents in the person's checkout that drop stashes, or what only reflogs lead to: every stash is on the list again, with
//! its message and its content.

use std::fs;

use crate::harness::Place;
use crate::in_place::{agent, committed};

fn list(place: &Place) -> String {
    place.env.git(&["stash", "list", "--format=%gd %H %gs"])
}

/// Makes three stashes, the newest one last.
fn stashed(place: &Place) -> String {
    for number in 1..=3 {
        fs::write(place.env.repo().join("README.md"), format!("work {number}\n")).unwrap();
        place.env.git(&["stash", "push", "--quiet", "--message", &format!("my work {number}")]);
    }
    list(place)
}

#[test]
fn every_stash_that_a_run_drops_is_on_the_list_again() {
    let prune = "git reflog expire --expire=now --all; git gc -q --prune=now";
    for drops in [
        "git stash clear".to_owned(),
        "git stash drop -q".to_owned(),
        "git stash drop -q stash@{2}".to_owned(),
        "git stash pop -q; git checkout -q .".to_owned(),
        "echo mine >README.md; git stash -q".to_owned(),
        "rm .git/logs/refs/stash".to_owned(),
        "rm -r .git/logs".to_owned(),
        format!("git stash clear; {prune}"),
        prune.to_owned(),
    ] {
        let place = Place::new();
        let before = stashed(&place);
        let report = place.agent_run(&["--agent-cmd", &format!("{drops}; echo done")]);
        let told = format!("{drops}\n{}", report.json);
        assert_eq!(report.outcome(), "completed", "an honest mistake: {told}");
        assert_eq!(list(&place), before, "{told}");
        let back = report.json["changes"]["put_back"].as_array().unwrap();
        assert!(back.iter().any(|found| found["path"] == "refs/stash"), "{told}");
        for (index, number) in [(0, 3), (1, 2), (2, 1)] {
            let name = format!("stash@{{{index}}}:README.md");
            assert_eq!(place.env.git(&["show", &name]).trim(), format!("work {number}"), "{told}");
        }
        // Nothing is left to be told of.
        let report = place.agent_run(&["--agent-cmd", "echo done"]);
        assert_eq!(report.json["changes"]["put_back"].as_array().map(Vec::len), Some(0), "{told}");
    }
}

#[test]
fn the_only_stash_that_a_run_drops_can_be_applied() {
    let place = Place::new();
    fs::write(place.env.repo().join("README.md"), "work\n").unwrap();
    place.env.git(&["stash", "--quiet"]);
    place.agent_run(&["--agent-cmd", "git stash drop -q; git gc -q --prune=now; echo done"]);
    place.env.git(&["stash", "apply"]);
    assert_eq!(fs::read_to_string(place.env.repo().join("README.md")).unwrap(), "work\n");
}

#[test]
fn stashes_come_back_from_the_mirror_where_a_run_removed_what_ralph_saved_too() {
    let stage = committed();
    let before = stashed(&stage.place);
    let work = "git stash clear; git for-each-ref --format='delete %(refname)' refs/ralph | git update-ref --stdin; \
        git reflog expire --expire=now --all; git gc -q --prune=now; ok; claim";
    stage.pipeline(&["--agent-cmd", &agent(&stage, work), "--max-attempts", "1"]);
    assert_eq!(list(&stage.place), before);
    assert_eq!(stage.git(&["show", "stash@{2}:README.md"]).trim(), "work 1");
}

#[test]
fn what_a_run_stashed_itself_is_kept() {
    let place = Place::new();
    let before = stashed(&place);
    let command = "for n in 1 2; do echo theirs $n >README.md; git stash push -q -m theirs$n; done; echo done";
    let report = place.agent_run(&["--agent-cmd", command]);
    assert_eq!(list(&place), before);
    let kept = report.json["changes"]["displaced"].as_str().unwrap();
    let kept = place.env.git(&["log", "--format=%s", kept]);
    assert!(kept.contains("theirs1") && kept.contains("theirs2"), "{kept}");
}

#[test]
fn a_run_that_expires_reflogs_is_told() {
    let place = Place::new();
    place.env.git(&["commit", "--quiet", "--allow-empty", "--message=mine"]);
    place.env.git(&["reset", "--quiet", "--hard", "HEAD~1"]);
    let expire = "git reflog expire --expire=now --all; git gc -q --prune=now; echo done";
    let report = place.agent_run(&["--agent-cmd", expire]);
    let left = report.json["changes"]["left"].as_array().unwrap();
    let left: Vec<&str> = left.iter().map(|found| found["path"].as_str().unwrap()).collect();
    assert_eq!(left, [".git/logs/HEAD", ".git/logs/refs/heads/main"], "{}", report.json);
    assert_eq!(report.outcome(), "completed");
    // Whatever adds to them, or deletes one with its branch, is not told of.
    let work = "git checkout -q -b x; git commit -q --allow-empty -m x; git checkout -q main; git branch -q -D x; git gc -q; echo done";
    let report = place.agent_run(&["--agent-cmd", work]);
    assert_eq!(report.json["changes"]["left"].as_array().map(Vec::len), Some(0), "{}", report.json);
}

#[test]
fn a_git_directory_that_a_run_removes_is_made_again_from_the_mirror() {
    let stage = committed();
    stage.git(&["branch", "mine"]);
    let before = stashed(&stage.place);
    let refs = stage.git(&[
        "for-each-ref",
        "--format=%(objectname) %(refname)",
        "refs/heads/mine",
        "refs/stash",
    ]);
    for removes in
        ["rm -rf .git", "rm -rf .git; git init -q", "rm -rf .git; echo gitdir: /nowhere >.git"]
    {
        let main = stage.git(&["rev-parse", "main"]);
        let agent = agent(&stage, &format!("echo x >work.txt; {removes}; claim"));
        let args = ["--allow-dirty", "1", "--max-attempts", "1", "--agent-cmd", &agent];
        let told = format!("{removes}\n{}", stage.pipeline(&args).finished);
        stage.git(&["merge-base", "--is-ancestor", main.trim(), "main"]);
        let now = stage.git(&[
            "for-each-ref",
            "--format=%(objectname) %(refname)",
            "refs/heads/mine",
            "refs/stash",
        ]);
        assert_eq!(now, refs, "{told}");
        assert_eq!(list(&stage.place), before, "{told}");
        let dirty = stage.git(&["status", "--porcelain"]);
        assert!(["", "?? work.txt\n", "?? work.txt"].contains(&&*dirty), "{told}\n{dirty}");
    }
    // Work goes on in it.
    stage.git(&["clean", "-fdq"]);
    stage.pipeline(&["1", "--agent-cmd", &agent(&stage, "ok; claim")]).exits(0);
}
