//! The loop's questions to a person, its behaviour without a terminal, and a person's changes during the loop.

use std::cell::RefCell;
use std::fs;
use std::io::Read;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::{BUILDER, Site, VERIFIER, task, task_with};
use crate::harness::{PATIENCE, wait_until};

/// A site whose plan was changed by hand and not committed.
fn with_uncommitted_plan() -> Site {
    let site = Site::planned(&format!("{BUILDER}{VERIFIER}"), &[task("t-aaaa")]);
    site.write_plan(&[task("t-aaaa"), task("t-bbbb")]);
    site
}

#[test]
fn without_a_terminal_an_uncommitted_plan_is_committed_and_that_is_said() {
    let site = with_uncommitted_plan();
    let finished = site.exits(0, &["build"]);
    assert!(finished.stderr.contains("plan.jsonl had uncommitted changes"), "{finished}");
    assert!(site.commits().contains(&"ralph: update plan".to_owned()));
    site.assert_complete();
}

#[test]
fn at_a_terminal_it_is_asked_and_yes_is_what_enter_means() {
    for typed in [&b"\n"[..], b"y\n", b"Y\n"] {
        let site = with_uncommitted_plan();
        let (code, said) = site.at_terminal(&["build"], typed);
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("Commit now?"), "{said}");
        site.assert_complete();
    }
}

#[test]
fn at_a_terminal_no_and_the_end_of_input_leave_everything_as_it_was() {
    for typed in [&b"n\n"[..], b"\x04"] {
        let site = with_uncommitted_plan();
        let (head, plan) = (site.git(&["rev-parse", "HEAD"]), site.plan_text());
        let (code, said) = site.at_terminal(&["build"], typed);
        // Declining is a success.
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("nothing was changed"), "{said}");
        assert_eq!((site.git(&["rev-parse", "HEAD"]), site.plan_text()), (head, plan));
        assert!(!site.path("t-aaaa").exists());
    }
}

#[test]
fn ctrl_c_at_a_question_is_a_no() {
    let site = with_uncommitted_plan();
    let head = site.git(&["rev-parse", "HEAD"]);
    let (mut child, _terminal) = site.start_at_terminal(&["build"]);
    let mut stderr = child.stderr.take().unwrap();
    let mut said = Vec::new();
    while !String::from_utf8_lossy(&said).contains("Commit now?") {
        let mut byte = [0];
        assert_eq!(stderr.read(&mut byte).unwrap(), 1, "{}", String::from_utf8_lossy(&said));
        said.push(byte[0]);
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let child = RefCell::new(child);
    wait_until(PATIENCE, "it ends", || child.borrow_mut().try_wait().unwrap().is_some());
    assert_eq!(child.into_inner().wait().unwrap().code(), Some(0));
    assert_eq!(site.git(&["rev-parse", "HEAD"]), head);
}

#[test]
fn with_yes_nothing_is_asked() {
    let site = with_uncommitted_plan();
    let (code, said) = site.at_terminal(&["build", "--yes"], b"");
    assert_eq!(code, Some(0), "{said}");
    assert!(!said.contains("Commit now?"), "{said}");
}

#[test]
fn without_a_plan_there_is_nothing_to_build() {
    let site = Site::new(BUILDER);
    let finished = site.exits(1, &["build"]);
    assert!(finished.stderr.contains("ralph plan"), "{finished}");
    assert!(!site.path("ralph/ralph.log").exists() || site.roles().is_empty());
}

#[test]
fn a_plan_that_cannot_be_read_is_named_with_its_line_and_left_alone() {
    let site = Site::planned(BUILDER, &[task("t-aaaa")]);
    let broken = format!("{}<<<<<<< HEAD\n", site.plan_text());
    fs::write(site.path("ralph/plan.jsonl"), &broken).unwrap();
    site.commit_all("a conflict");
    let finished = site.exits(1, &["build"]);
    assert!(finished.stderr.contains("plan.jsonl"), "{finished}");
    assert!(finished.stderr.contains('3'), "{finished}");
    assert_eq!(site.plan_text(), broken);
}

#[test]
fn a_conflict_in_the_plan_is_named_and_not_committed_for_the_person() {
    let site = Site::planned(BUILDER, &[task("t-aaaa")]);
    let broken = format!("{}<<<<<<< HEAD\n", site.plan_text());
    fs::write(site.path("ralph/plan.jsonl"), &broken).unwrap();
    let head = site.git(&["rev-parse", "HEAD"]);
    for args in [&["build"][..], &["build", "--yes"], &["plan", super::SPEC, "--yes"]] {
        let finished = site.exits(1, args);
        assert!(finished.stderr.contains("ralph/plan.jsonl`"), "{finished}");
        assert!(finished.stderr.contains("line 3"), "{finished}");
        assert!(finished.stderr.contains("ralph validate"), "{finished}");
        assert_eq!(
            (site.git(&["rev-parse", "HEAD"]), site.plan_text()),
            (head.clone(), broken.clone())
        );
    }
}

/// Problems that can be known before the first run are reported before it, with the person's own file.
#[test]
fn a_plan_that_no_agent_could_work_on_is_refused_before_any_runs() {
    let twice = [task("t-aaaa"), task("t-bbbb"), task("t-aaaa")];
    let knot = [
        task_with("t-aaaa", json!({"deps": ["t-bbbb"]})),
        task_with("t-bbbb", json!({"deps": ["t-aaaa"]})),
    ];
    let tables = [
        (&twice[..], "line 4", "`t-aaaa` is already on line 2"),
        (&knot[..], "line 2", "depends on itself"),
    ];
    for (tasks, line, why) in tables {
        let site = Site::planned(&format!("{BUILDER}{VERIFIER}"), tasks);
        for args in [&["build"][..], &["build", "--in-place"], &["plan", super::SPEC, "--yes"]] {
            let finished = site.exits(1, args);
            let plan = format!("`{}`", site.path("ralph/plan.jsonl").display());
            for told in [line, why, "ralph validate", &plan] {
                assert!(finished.stderr.contains(told), "{args:?}: {told} in {finished}");
            }
            assert!(site.roles().is_empty(), "{args:?}: {finished}");
        }
    }
}

#[test]
fn a_plan_that_became_unworkable_during_a_run_is_refused_before_the_next_one() {
    for in_place in [false, true] {
        let site = Site::planned("", &[task("t-aaaa"), task("t-bbbb")]);
        let site = if in_place { site.in_place() } else { site };
        // The edit exists before the first run and is not committed: it is taken over with the next step.
        let script = format!(
            "[builder 1]\nrun touch {0}/begun; until [ -e {0}/go ]; do sleep 0.02; done\nwrite t-aaaa x\n\
             run ralph task done\nfinal done\n{BUILDER}{VERIFIER}",
            site.place.path("").display()
        );
        fs::write(site.place.path("script"), script).unwrap();
        let running = site.place.start(&["build", "--boundary", "off"]);
        crate::harness::wait_for_file(&site.place.path("begun"));
        let doubled = format!("{}{}\n", site.plan_text(), task("t-bbbb"));
        fs::write(site.path("ralph/plan.jsonl"), doubled).unwrap();
        fs::write(site.place.path("go"), "").unwrap();
        let (code, said) = running.finish();
        assert_eq!(code, Some(1), "{said}");
        assert_eq!(site.roles(), ["builder"], "{said}");
        let plan = site.path("ralph/plan.jsonl");
        assert!(said.contains(&format!("{}", plan.display())), "{said}");
        assert!(
            said.contains("`t-bbbb` is already on line") || said.contains("`t-bbbb` twice"),
            "{said}"
        );
        // Once it is fixed the work continues, and finished work is not repeated.
        let text = site.plan_text();
        let mut lines: Vec<&str> = text.lines().collect();
        let second = lines.iter().rposition(|line| line.contains("t-bbbb")).unwrap();
        lines.remove(second);
        fs::write(&plan, lines.join("\n") + "\n").unwrap();
        site.exits(0, &["build", "--boundary", "off"]);
        assert_eq!(site.roles(), ["builder", "builder", "verifier"]);
        site.assert_complete();
    }
}

#[test]
fn a_plan_that_is_gone_is_not_committed_as_gone() {
    let site = Site::planned(BUILDER, &[task("t-aaaa")]);
    fs::remove_file(site.path("ralph/plan.jsonl")).unwrap();
    let head = site.git(&["rev-parse", "HEAD"]);
    for args in [&["build"][..], &["build", "--yes"]] {
        let finished = site.exits(1, args);
        assert!(finished.stderr.contains("git restore"), "{finished}");
        assert_eq!(site.git(&["rev-parse", "HEAD"]), head);
    }
}

#[test]
fn a_home_that_a_person_keeps_out_of_git_is_not_committed_by_the_loop() {
    let script = format!("{}{BUILDER}{VERIFIER}", super::PLANNER);
    let site = Site::new(&script);
    fs::write(site.path(".gitignore"), "/ralph/\n").unwrap();
    site.git(&["rm", "-r", "-q", "--cached", "ralph"]);
    let text = fs::read_to_string(site.path("ralph.toml")).unwrap();
    fs::write(site.path("ralph.toml"), format!("{text}\n[git]\ncommit_home = false\n")).unwrap();
    site.commit_all("home is mine");
    site.exits(0, &["plan", super::SPEC]);
    site.exits(0, &["build"]);
    assert_eq!(site.git(&["ls-tree", "-r", "--name-only", "HEAD", "ralph"]), "");
    assert_eq!(site.git(&["log", "--format=%s", "-2"]), "Say hello\nhome is mine");
}

#[test]
fn interrupted_it_stops_and_goes_on_where_it_was() {
    let script = "[builder 1]\nwrite left.txt x\nrun ralph issue add noticed\nrun touch begun\nhang\n\
                  [investigator]\nrun ralph issue done\nfinal nothing\n";
    let site = Site::planned(&format!("{script}{BUILDER}{VERIFIER}"), &[task("t-aaaa")]);
    let running = site.place.start(&["build", "--boundary", "off"]);
    crate::clones::wait_for_slot(&site.place, "begun");
    running.signal(Signal::INT);
    let (code, said) = running.finish();
    assert_eq!(code, Some(130), "{said}");
    assert!(said.contains("`ralph build` continues"), "{said}");
    site.place.assert_nothing_left();
    // The agent's requests meanwhile are kept and committed; its work waits for the next run.
    assert_eq!(site.records("issue").len(), 1);
    assert_eq!(site.git(&["status", "--porcelain"]), "");

    site.exits(0, &["build"]);
    assert_eq!(site.roles(), ["builder", "builder", "verifier", "investigator"]);
    assert!(site.git(&["ls-files"]).contains("left.txt"));
    site.assert_complete();
}

#[test]
fn a_task_that_a_person_takes_away_during_its_run_is_not_judged_and_the_loop_goes_on() {
    let words: [&[&str]; 2] = [&["task", "delete", "t-aaaa"], &["task", "done", "t-aaaa"]];
    for word in words {
        let tasks = [task("t-aaaa"), task("t-bbbb")];
        let site = Site::planned("", &tasks);
        let script = format!(
            "[builder 1]\nwrite made.txt x\nrun touch begun; until [ -e {} ]; do sleep 0.02; done; rm begun\n\
             run ralph task done\nfinal done\n{BUILDER}{VERIFIER}",
            site.place.path("go").display()
        );
        fs::write(site.place.path("script"), script).unwrap();
        let running = site.place.start(&["build", "--boundary", "off"]);
        crate::clones::wait_for_slot(&site.place, "begun");
        site.exits(0, word);
        fs::write(site.place.path("go"), "").unwrap();
        let (code, said) = running.finish();
        assert_eq!(code, Some(0), "{word:?}: {said}");
        assert!(said.contains("no longer pending"), "{word:?}: {said}");
        assert_eq!(site.git(&["log", "--format=%s", "--", "made.txt"]), "", "{word:?}");
        assert_eq!(site.git(&["status", "--porcelain"]), "", "{word:?}");
        site.assert_complete();
    }
}

/// Wherever it is stopped before its work has landed: the person's later decision wins.
#[test]
fn a_build_that_is_stopped_lands_nothing_that_was_cancelled_meanwhile() {
    let site = || Site::planned(&format!("{BUILDER}{VERIFIER}"), &[task("t-aaaa")]);
    let (_, total) = crate::clones::points_of(&site().place, &["build"]);
    let landed = |site: &Site| {
        let tips = ["--branches", "--glob=refs/ralph/landed/*"];
        site.git(&[&["log", "--format=%H"][..], &tips, &["--", "t-aaaa"]].concat()).lines().count()
    };
    let mut cancelled = 0;
    for at in (total / 4..=total).step_by((total / 5).max(1)) {
        let site = site();
        let at = at.to_string();
        let faults = [("RALPH_CRASH_AT", at.as_str()), ("RALPH_CRASH_SIGNAL", "STOP")];
        let running = site.place.start_with(&["build"], &faults);
        wait_until(PATIENCE, "it stands still", || {
            running.is_over() || crate::clones::is_stopped(running.pid())
        });
        let before = landed(&site);
        let deleted = site.ralph(&["task", "delete", "t-aaaa"]);
        running.signal(Signal::CONT);
        let (code, said) = running.finish();
        assert_eq!(code, Some(0), "{at}: {said}\n{deleted}");
        let after = landed(&site);
        assert!(after <= 1, "{at}: {said}");
        if before == 0 && deleted.status.code() == Some(0) {
            cancelled += 1;
            assert_eq!(after, 0, "{at}: {said}\n{deleted}");
        }
    }
    assert!(cancelled > 0, "{total} points");
}

/// A run that would never end: the person's decision stops it, and its work is kept.
#[test]
fn a_run_on_a_task_that_a_person_takes_away_is_stopped_soon() {
    let words: [&[&str]; 2] = [&["task", "delete", "t-aaaa"], &["task", "done", "t-aaaa"]];
    for word in words {
        let site = Site::planned("", &[task("t-aaaa"), task("t-bbbb")]);
        let script = format!(
            "[builder 1]\nwrite made.txt x\nrun touch begun; sleep 600\n{BUILDER}{VERIFIER}"
        );
        fs::write(site.place.path("script"), script).unwrap();
        let running = site.place.start(&["build"]);
        crate::clones::wait_for_slot(&site.place, "begun");
        site.exits(0, word);
        let (code, said) = running.finish();
        assert_eq!(code, Some(0), "{word:?}: {said}");
        assert!(said.contains("the run's work is kept in refs/ralph/left/t-aaaa"), "{said}");
        assert_eq!(site.git(&["show", "refs/ralph/left/t-aaaa:made.txt"]), "x", "{word:?}");
        assert_eq!(site.logged("run_finished")[0]["outcome"]["kind"], "withdrawn", "{word:?}");
        assert_eq!(site.git(&["log", "--format=%s", "main", "--", "made.txt"]), "", "{word:?}");
        assert!(site.path("t-bbbb").exists(), "{word:?}: the next task is built");
        site.assert_complete();
    }
}

/// A rejected task is built again in its own clone, with the person's reason, and lands again.
#[test]
fn a_task_that_a_person_rejects_is_built_again_and_lands_again() {
    let site = Site::planned("", &[task("t-aaaa"), task("t-bbbb")]);
    let script = format!(
        "[builder 1]\nwrite made.txt first\nrun ralph task done\nfinal done\n\
         [builder 2]\nwrite other.txt x\nrun touch begun; until [ -e {} ]; do sleep 0.02; done; rm begun\n\
         run ralph task done\nfinal done\n\
         [builder 3]\nexpect-prompt not like this\nexpect-run test \"$(cat made.txt)\" = first && test -e other.txt\n\
         write made.txt second\nrun ralph task done\nfinal done\n{VERIFIER}",
        site.place.path("go").display()
    );
    fs::write(site.place.path("script"), script).unwrap();
    let running = site.place.start(&["build"]);
    crate::clones::wait_for_slot(&site.place, "begun");
    assert_eq!(fs::read_to_string(site.path("made.txt")).unwrap(), "first\n", "it has landed");
    // While another task is in progress, which is not disturbed.
    site.exits(0, &["task", "reject", "t-aaaa", "not like this"]);
    fs::write(site.place.path("go"), "").unwrap();
    let (code, said) = running.finish();
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(site.roles(), ["builder", "builder", "builder", "verifier"]);
    assert_eq!(fs::read_to_string(site.path("made.txt")).unwrap(), "second\n");
    assert_eq!(fs::read_to_string(site.path("other.txt")).unwrap(), "x\n");
    let landed = site.logged("landed");
    let items: Vec<&str> = landed.iter().map(|landed| landed["item"].as_str().unwrap()).collect();
    assert_eq!(items, ["t-aaaa", "t-bbbb", "t-aaaa"]);
    site.assert_complete();
}

/// The person commits to the file that each builder is writing; asked about it after the third time, they say no.
#[test]
fn work_that_goes_back_after_a_question_about_landings_begins_where_the_branch_is() {
    let site = Site::planned("", &[task("t-aaaa")]);
    let turn = |number: u32| {
        let waits = format!(
            "run touch {0}/begun{number}; until [ -e {0}/go{number} ]; do sleep 0.02; done\n",
            site.place.path("").display()
        );
        let merges = "run git merge -q ralph/tip || true\n";
        let merges = if number == 1 { "" } else { merges };
        format!(
            "[builder {number}]\n{merges}{waits}write hello.txt of {number}\nrun git add -A; git commit -qm \"work {number}\"\n\
             run ralph task done\nfinal done\n"
        )
    };
    let script: String = (1..=3).map(turn).collect();
    let last = "[builder]\nrun git merge -q ralph/tip || true\nwrite hello.txt both\n\
                run git add -A; git commit -qm both\nrun ralph task done\nfinal done\n";
    fs::write(site.place.path("script"), format!("{script}{last}{VERIFIER}")).unwrap();
    let args = ["build", "--boundary", "off"];
    let running = site.place.start(&args);
    for number in 1..=3 {
        crate::harness::wait_for_file(&site.place.path(&format!("begun{number}")));
        fs::write(site.path("hello.txt"), format!("the person's {number}\n")).unwrap();
        site.git(&["add", "hello.txt"]);
        site.git(&["commit", "-qm", &format!("the person's {number}")]);
        // The plan changes too, which is not a change by the agent.
        site.exits(0, &["task", "add", &format!("later {number}")]);
        fs::write(site.place.path(&format!("go{number}")), "").unwrap();
    }
    let (code, said) = running.finish();
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("could not be put on the branch 3 times in a row"), "{said}");
    site.exits(0, &["answer", "t-aaaa", "no, take both"]);
    let (_, said) = site.place.start(&["build", "1", "--boundary", "off"]).finish();
    assert_eq!(site.git(&["show", "main:hello.txt"]), "both", "{said}");
    assert!(!said.contains("only Ralph may change"), "{said}");
    assert_eq!(site.task("t-aaaa")["s"], "d", "{said}");
}
