//! Kills Ralph at its fault points; after resuming, the loop reaches the same end state.

use std::fs;

use super::{Site, TASK};
use crate::crash::{Share, Sweep};

/// How many tests share the fault points, so that they run in parallel.
const SHARES: usize = 2;

const START: &[&str] = &["loop", TASK];

/// Plans and claims at once; builds incorrectly, and correctly after the gates' feedback. The behaviour of a run
/// depends on the files it finds, because after a crash a different run may do it.
const AGENT: &str = "[builder]\n\
    run test -f .ralph/plan.md || cp the-plan.md .ralph/plan.md\n\
    run grep -q build .ralph/phase.txt && echo A file that says hello. > .ralph/summary.md || true\n\
    run grep -q build .ralph/phase.txt && echo bad > hello.txt || true\n\
    run grep -q Quality .ralph/feedback.md && echo hello > hello.txt || true\n\
    write .ralph/status.txt complete\n\
    final done\n";

const PLAN: &str = "# Plan\n\n## Analysis\n- A file says hello.\n\n## Steps\n1. `hello.txt` (new): say hello.\n\n\
    ## Verification strategy\n- `test -f hello.txt`\n";

fn survives_every_crash(share: Share, site: Site) {
    fs::write(site.path("the-plan.md"), PLAN).unwrap();
    site.commit_all("a plan to copy");
    let site = Site { place: crate::crash::in_memory(site.place) };
    let sweep = Sweep::new(&site.place, START);
    let (undisturbed, points) = sweep.undisturbed(share);
    assert_eq!(undisturbed.status.code(), Some(0), "{undisturbed}");
    let expected = end_of(&site);
    sweep.visit(&points, |point, crashed| {
        let mut again = site.place.ralph(&["loop", "--resume"]);
        if again.status.code() == Some(2) && !site.mail("task-history.md").contains("Task 1") {
            again = site.place.ralph(START);
        }
        let context = || format!("{point}\n{crashed}\n{again}\n{}", site.mail("feedback.md"));
        let is_over = site.mail("task-history.md").contains("Task 1");
        assert!(again.status.code() == Some(0) || is_over, "{}", context());
        assert_eq!(end_of(&site), expected, "{}", context());
        site.assert_clean();
    });
}

/// The end state that must be equal.
fn end_of(site: &Site) -> Vec<String> {
    let tree = |name: &str| site.git(&["rev-parse", &format!("{name}^{{tree}}")]);
    let names = site.git(&["for-each-ref", "--format=%(refname)", "refs/ralph/loop", "refs/heads"]);
    vec![
        site.git(&["show", "HEAD:hello.txt"]),
        site.mail("task-history.md"),
        site.mail("phase.txt"),
        tree("refs/ralph/loop/1/before"),
        tree("refs/ralph/loop/1/after"),
        names,
    ]
}

#[test]
fn a_crash_at_any_point_changes_nothing_about_a_loop_1() {
    survives_every_crash(Share { number: 0, of: SHARES }, Site::new(AGENT));
}

#[test]
fn a_crash_at_any_point_changes_nothing_about_a_loop_2() {
    survives_every_crash(Share { number: 1, of: SHARES }, Site::new(AGENT));
}

#[test]
fn a_crash_at_any_point_changes_nothing_about_a_loop_in_place() {
    survives_every_crash(Share { number: 0, of: 1 }, Site::new(AGENT).in_place());
}
