use super::*;
use crate::checks::{LookedFor, lay_over};

/// A differing path with the anchor's and the candidate's text.
type Differs = (&'static str, Option<&'static str>, Option<&'static str>);

fn compared(&(path, anchor, candidate): &Differs) -> ComparedPath {
    ComparedPath {
        path: path.to_owned(),
        in_anchor: anchor.is_some(),
        in_candidate: candidate.is_some(),
        anchor_text: anchor.map(str::to_owned),
        candidate_text: candidate.map(str::to_owned),
        is_test_module: false,
    }
}

/// Returns the paths that each trial keeps in the candidate's version.
fn tried(differing: &[Differs]) -> Trials {
    let set = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect();
    let looked =
        LookedFor { opened: set(&["check.sh", "data/a.txt"]), missed: set(&["bad", "skip.list"]) };
    let layout = ProjectLayout {
        tree: set(&["check.sh", "data/a.txt", "tests/a.sh", "tools/run.sh"]),
        named: set(&["check.sh"]),
        scripts: set(&["check.sh", "tools/run.sh"]),
        looked: Some(looked),
        ..ProjectLayout::default()
    };
    let paths: Vec<ComparedPath> = differing.iter().map(compared).collect();
    let (laid, changed) = lay_over(&layout, &paths);
    Trials::of(&layout, &paths, &laid, &changed)
}

/// Whether some trial keeps `left` and reverts `put_back`.
fn tells_apart(trials: &[LeftPaths], left: usize, put_back: usize) -> bool {
    trials.iter().any(|one| one.contains(&left) && !one.contains(&put_back))
}

const HOLLOW_CHECK: Differs = ("check.sh", Some("test ! -e bad"), Some("true"));
const HOLLOW_TEST: Differs = ("tests/a.sh", Some("test ! -e bad"), Some("true"));

#[test]
fn what_a_changed_check_may_have_refused_is_tried_with_the_old_one() {
    for hollow in [HOLLOW_CHECK, HOLLOW_TEST] {
        for refused in [
            ("bad", None, Some("x")),
            ("data/b.txt", None, Some("BUG")),
            ("data/a.txt", Some("fine"), Some("BUG")),
            ("data/a.txt", Some("fine"), None),
            ("tests/b.sh", None, Some("true")),
            ("tests/b.txt", None, Some("x")),
            ("tools/run.sh", Some("echo 1"), Some("echo 2")),
            (".env", None, Some("KEY=1")),
            ("node_modules/a/index.js", None, Some("x")),
        ] {
            let trials = tried(&[hollow, refused]);
            assert!(trials.green[0].is_empty(), "{trials:?}");
            assert!(tells_apart(&trials.green, 1, 0), "{hollow:?} {refused:?}: {trials:?}");
            assert!(!tells_apart(&trials.green, 0, 1), "{hollow:?} {refused:?}: {trials:?}");
        }
    }
}

#[test]
fn what_is_new_hides_nothing_else_that_is_new() {
    let hiders = [
        ("skip.list", None, Some("all")),
        ("GNUmakefile", None, Some("check:\n\t@true\n")),
        ("tools/extra.sh", None, Some("exit 0")),
    ];
    for hider in hiders {
        for refused in [("bad", None, Some("x")), ("data/b.txt", None, Some("BUG"))] {
            let trials = tried(&[hider, refused]);
            assert!(tells_apart(&trials.green, 1, 0), "{hider:?} {refused:?}: {trials:?}");
        }
    }
}

#[test]
fn a_gate_that_may_check_the_tests_themselves_sees_them_with_its_old_script() {
    let test = ("tests/a.sh", Some("true"), Some("true # FIXME"));
    let trials = tried(&[HOLLOW_CHECK, test]);
    assert!(!tells_apart(&trials.green, 1, 0), "{trials:?}");
    assert_eq!(trials.plain, [LeftPaths::from([1])]);
}

#[test]
fn a_helper_goes_along_with_the_new_test_that_uses_it() {
    let helper =
        ("tests/lib/equal.sh", Some("same() { :; }"), Some("same() { :; }\nmore() { :; }"));
    let user = ("tests/b.sh", None, Some(". tests/lib/equal.sh\nmore\n"));
    let trials = tried(&[helper, user]);
    assert!(trials.green.contains(&LeftPaths::from([0, 1])), "{trials:?}");
    assert!(!trials.green.contains(&LeftPaths::from([1])), "{trials:?}");
    // A test that does not use the helper is tried with the old helper.
    let trials = tried(&[helper, ("tests/b.sh", None, Some("true"))]);
    assert!(trials.green.contains(&LeftPaths::from([1])), "{trials:?}");
    let conftest = ("conftest.py", Some(""), Some("def database(): pass"));
    let trials = tried(&[conftest, ("tests/test_b.py", None, Some("def test(database): pass"))]);
    assert!(trials.green.contains(&LeftPaths::from([0, 1])), "{trials:?}");
    assert!(!trials.green.contains(&LeftPaths::from([1])), "{trials:?}");
}

#[test]
fn of_many_uncertain_things_any_two_are_told_apart() {
    let things: Vec<LeftPaths> = (0..13).map(|at| LeftPaths::from([at])).collect();
    let tries = told_apart(&things);
    assert!(tries.len() <= 8, "{tries:?}");
    for (one, other) in (0..13).flat_map(|one| (0..13).map(move |other| (one, other))) {
        assert!(one == other || tells_apart(&tries, one, other), "{one} {other}");
    }
}
