//! A lander of stories that stands still: what a person says on the branch meanwhile wins, or comes after the landing.

use std::fs;

use rustix::process::Signal;

use super::Desk;
use super::run::{WILLING, desk, prd_of};
use crate::clones::{is_stopped, points_of};
use crate::harness::{PATIENCE, wait_until};

const RUN: [&str; 3] = ["run", "--branch", ""];

#[test]
fn a_lander_of_stories_that_is_stopped_lands_nothing_that_was_cancelled_meanwhile() {
    let (built, total) = points_of(&desk(WILLING, &[("US-001", 1)]).place, &RUN);
    let mut cancelled = 0;
    for at in ((built + 2)..=total).step_by(((total - built) / 8).max(1)) {
        let desk = desk(WILLING, &[("US-001", 1)]);
        let at = at.to_string();
        let faults = [("RALPH_CRASH_AT", at.as_str()), ("RALPH_CRASH_SIGNAL", "STOP")];
        let running = desk.place.start_with(&RUN, &faults);
        wait_until(PATIENCE, "it stands still", || running.is_over() || is_stopped(running.pid()));
        let landed = |desk: &Desk| {
            let tips = ["--branches", "--glob=refs/ralph/landed/*"];
            let log = desk.git(&[&["log", "--format=%s"][..], &tips].concat());
            log.lines().filter(|subject| *subject == "feat: US-001").count()
        };
        let before = landed(&desk);
        // The person drops the story, if the lander does not hold the index just then.
        let prd = prd_of(&[("US-002", 1, true)]);
        let is_dropped = !desk.path(".git/index.lock").exists() && {
            desk.write("ralph/prd.json", &format!("{prd:#}\n"));
            desk.place.env.try_git(&["commit", "-q", "-m", "dropped", "--", "ralph/prd.json"])
        };
        running.signal(Signal::CONT);
        let (code, said) = running.finish();
        assert!(matches!(code, Some(0 | 1 | 3)), "{at}: {code:?} {said}");
        let after = landed(&desk);
        assert!(after <= 1, "{at}: {said}");
        if before == 0 && is_dropped {
            cancelled += 1;
            assert_eq!(after, 0, "{at}: {said}");
            assert!(!fs::exists(desk.path("US-001.txt")).unwrap(), "{at}");
        }
    }
    assert!(cancelled > 0, "{built} of {total}");
}
