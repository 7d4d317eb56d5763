//! A task whose branch moves while it lands: rewritten, or advanced while the landing process is stopped.

use std::fs;

use rustix::process::Signal;

use super::slots::{meanwhile, waiting};
use super::{BUILD, Site, TASK};
use crate::clones::{is_stopped, points_of};
use crate::harness::{PATIENCE, wait_until};

/// Makes any further agent run fail.
fn without_agent(site: &Site) {
    let settings = site.read("ralph.toml").replace("agent = \"rehearsal\"", "agent = \"none\"");
    site.write("ralph.toml", &format!("{settings}[agents.none]\ncommand = [\"/nowhere/agent\"]\n"));
    let refused = site.exits(2, &["Another"]);
    assert!(refused.stderr.contains("/nowhere/agent"), "{refused}");
}

#[test]
fn a_task_that_was_carried_over_is_taken_back_as_it_landed_and_without_an_agent() {
    for with_home in [false, true] {
        let site = waiting("");
        let (code, said) = meanwhile(&site, &[TASK], |site| {
            site.write("mine.txt", "mine\n");
            if with_home {
                // Changes to home land on top of what was carried over.
                fs::remove_file(site.path("ralph/.gitignore")).unwrap();
            }
            site.git(&["add", "-A"]);
            site.git(&["commit", "-q", "--amend", "-m", "amended"]);
        });
        assert_eq!(code, Some(0), "{said}");
        assert_eq!(
            (site.read("hello.txt"), site.read("mine.txt")),
            ("hello\n".into(), "mine\n".into())
        );
        let mark = |point: &str| site.git(&["rev-parse", &format!("refs/ralph/loop/1/{point}")]);
        let subject = |commit: &str| site.git(&["log", "-1", "--format=%s", commit]);
        assert_eq!(
            (subject(&mark("before")), subject(&mark("after"))),
            ("amended".into(), TASK.into())
        );
        assert_eq!(site.git(&["rev-parse", &format!("{}~1", mark("after"))]), mark("before"));
        without_agent(&site);
        site.exits(0, &["--rollback"]);
        assert!(!site.path("hello.txt").exists());
        assert_eq!(site.read("mine.txt"), "mine\n");
        assert_eq!(site.commits()[0], "ralph: roll back task 1 of the loop");
    }
}

/// Wherever it is stopped between its last run and the end: the person's commit is kept, and the task lands once.
#[test]
fn a_lander_that_is_stopped_lands_its_task_once_beside_what_came_meanwhile() {
    let site = || Site::new(&format!("[builder]\n{BUILD}"));
    let (built, total) = points_of(&site().place, &["loop", TASK]);
    let mut before_landing = 0;
    for at in ((built + 2)..=total).step_by(((total - built) / 8).max(1)) {
        let site = site();
        let at = at.to_string();
        let faults = [("RALPH_CRASH_AT", at.as_str()), ("RALPH_CRASH_SIGNAL", "STOP")];
        let running = site.place.start_with(&["loop", TASK], &faults);
        wait_until(PATIENCE, "it stands still", || running.is_over() || is_stopped(running.pid()));
        let landed = |site: &Site| {
            let log = site.git(&["log", "--format=%s", "--branches", "--glob=refs/ralph/landed/*"]);
            log.lines().filter(|subject| *subject == TASK).count()
        };
        before_landing += usize::from(landed(&site) == 0);
        // The landing process may hold the index lock: commit without the index. It cannot hold the branch.
        let mine = site.git(&["commit-tree", "-p", "main", "-m", "mine", "main^{tree}"]);
        let is_moved = site.place.env.try_git(&["update-ref", "refs/heads/main", &mine]);
        running.signal(Signal::CONT);
        let (code, said) = running.finish();
        assert_eq!(code, Some(0), "{at}: {said}");
        site.place.ralph(&["land"]);
        assert_eq!(landed(&site), 1, "{at}: {said}");
        assert_eq!(site.commits().contains(&"mine".to_owned()), is_moved, "{at}: {said}");
        assert_eq!(site.read("hello.txt"), "hello\n", "{at}: {said}");
    }
    assert!(before_landing > 0, "{built} of {total}");
}

/// Whatever was written when it was killed: the task is done, and the next start says so.
#[test]
fn a_task_that_was_killed_behind_its_landing_is_done_when_it_is_resumed() {
    let site = || Site::new(&format!("[builder]\n{BUILD}"));
    let (built, total) = points_of(&site().place, &["loop", TASK]);
    let last = total.saturating_sub(5).max(built + 1);
    for at in last..=total {
        let site = site();
        let at = at.to_string();
        let killed = site.place.start_with(&["loop", TASK], &[("RALPH_CRASH_AT", at.as_str())]);
        if killed.finish().1.contains("task accepted at") {
            continue;
        }
        let resumed = site.exits(0, &["--resume"]);
        assert!(resumed.stderr.contains("task accepted at"), "{at}: {resumed}");
        let landed = site.commits().iter().filter(|subject| *subject == TASK).count();
        assert_eq!((landed, site.runs()), (1, 1), "{at}: {resumed}");
    }
}
