//! Attribution is tested exhaustively: every combination of runs is looked up in an independent list of rules, of which
//! the first match decides, and every rule must decide some case.

use super::*;
use crate::glob::Glob;

const NO_EXIT: ProcessExit = ProcessExit::Code(1);

fn run(status: GateStatus, tests: Option<(u64, u64)>) -> GateRun {
    GateRun {
        status,
        tests: tests.map(|(executed, failed)| TestCounts {
            passed: executed - failed,
            failed,
            skipped: 2,
        }),
        names: None,
        rewrote: Vec::new(),
        duration: Duration::from_secs(1),
        output: GateOutput {
            sha256: "00".to_owned(),
            path: "gate.log".to_owned(),
            last: "1 failed".to_owned(),
        },
    }
}

fn machine() -> Obstacle {
    Obstacle::Machine { message: "disk full".to_owned() }
}

fn unfilled() -> Obstacle {
    Obstacle::Unfilled { message: "the submodule `sub` is empty".to_owned() }
}

fn missing() -> Obstacle {
    Obstacle::NoProgram { program: "just".to_owned() }
}

fn all_runs() -> Vec<GateRun> {
    let failed = || GateStatus::Failed { exit: NO_EXIT };
    vec![
        run(GateStatus::Passed, None),
        run(GateStatus::Passed, Some((10, 0))),
        run(GateStatus::Passed, Some((5, 0))),
        run(GateStatus::ProvedNothing, Some((0, 0))),
        run(failed(), None),
        run(failed(), Some((10, 1))),
        run(failed(), Some((10, 3))),
        run(failed(), Some((5, 1))),
        run(GateStatus::TimedOut, None),
        run(GateStatus::TimedOut, Some((5, 0))),
        run(GateStatus::CouldNotRun { obstacle: machine() }, None),
        run(GateStatus::CouldNotRun { obstacle: unfilled() }, None),
        run(GateStatus::CouldNotRun { obstacle: missing() }, None),
    ]
}

#[derive(Debug)]
struct Case {
    candidate: GateRun,
    again: Option<GateRun>,
    base: Option<GateRun>,
    checks_differ: bool,
}

fn green(run: &GateRun) -> bool {
    run.status == GateStatus::Passed || run.status == GateStatus::ProvedNothing
}

fn red(run: &GateRun) -> bool {
    run.status == GateStatus::TimedOut || matches!(run.status, GateStatus::Failed { .. })
}

fn stuck(run: &GateRun) -> bool {
    !green(run) && !red(run)
}

fn counted(run: &GateRun) -> Option<u64> {
    if run.status == GateStatus::TimedOut { None } else { run.tests.map(TestCounts::executed) }
}

impl Case {
    /// The run that represents the candidate.
    fn says(&self) -> &GateRun {
        match &self.again {
            Some(again) if !green(&self.candidate) && !stuck(again) => again,
            _ => &self.candidate,
        }
    }

    fn base_is(&self, what: fn(&GateRun) -> bool) -> bool {
        self.base.as_ref().is_some_and(what)
    }

    fn base_count(&self) -> Option<u64> {
        self.base.as_ref().and_then(counted)
    }

    fn counts_fewer(&self) -> bool {
        matches!((counted(self.says()), self.base_count()), (Some(now), Some(before)) if now < before)
    }

    /// No count although the base printed one after the same result.
    fn fell_silent(&self, alike: fn(&GateRun) -> bool) -> bool {
        counted(self.says()).is_none()
            && self.says().status != GateStatus::TimedOut
            && self.base_count().is_some_and(|count| count > 0)
            && self.base_is(alike)
    }

    fn fails_in_more(&self) -> bool {
        let failures = |run: &GateRun| {
            if red(run) && run.status != GateStatus::TimedOut {
                run.tests.map(|tests| tests.failed)
            } else {
                None
            }
        };
        let here = [Some(&self.candidate), self.again.as_ref()];
        let fewest = here.into_iter().flatten().filter_map(failures).min();
        matches!((fewest, self.base.as_ref().and_then(failures)), (Some(now), Some(before)) if now > before)
    }

    fn fewer(&self) -> Attribution {
        Attribution::FewerTests {
            base: self.base_count().unwrap(),
            candidate: counted(self.says()),
        }
    }
}

impl Case {
    fn gone(&self) -> Attribution {
        Attribution::TestsGone { base: self.base_count().unwrap(), candidate: counted(self.says()) }
    }
}

type Rule = (&'static str, fn(&Case) -> bool, fn(&Case) -> Attribution);

fn rules() -> Vec<Rule> {
    vec![
        (
            "the machine is nobody's fault, whatever the base did",
            |case| case.says().obstacle() == Some(&machine()),
            |_| Attribution::CouldNotRun { obstacle: machine() },
        ),
        (
            "a submodule that is not there is for a person to decide on, whatever the base did",
            |case| case.says().obstacle() == Some(&unfilled()),
            |_| Attribution::CouldNotRun { obstacle: unfilled() },
        ),
        (
            "what ran at the base and cannot be run any more is broken",
            |case| stuck(case.says()) && case.base.as_ref().is_some_and(|base| !stuck(base)),
            |_| Attribution::Broken { obstacle: missing() },
        ),
        (
            "what cannot be run anywhere is nobody's fault",
            |case| stuck(case.says()),
            |_| Attribution::CouldNotRun { obstacle: missing() },
        ),
        (
            "green with fewer tests where checks differ is a question",
            |case| {
                let fewer = case.counts_fewer() || case.fell_silent(green);
                case.checks_differ && green(case.says()) && fewer
            },
            Case::gone,
        ),
        (
            "green with fewer tests is not green",
            |case| green(case.says()) && (case.counts_fewer() || case.fell_silent(green)),
            Case::fewer,
        ),
        (
            "green without a count where a red base had one is a question",
            |case| green(case.says()) && case.fell_silent(red),
            Case::gone,
        ),
        (
            "red, then green",
            |case| green(case.says()) && red(&case.candidate),
            |_| Attribution::Flaky,
        ),
        (
            "green without a test",
            |case| case.says().status == GateStatus::ProvedNothing,
            |_| Attribution::ProvedNothing,
        ),
        ("green", |case| green(case.says()), |_| Attribution::Passed),
        ("red, and green at the base", |case| case.base_is(green), |_| Attribution::Regressed),
        ("red, and nothing known of the base", |case| !case.base_is(red), |_| Attribution::Failed),
        (
            "red with fewer tests than the red base",
            |case| case.counts_fewer() || case.fell_silent(red),
            Case::fewer,
        ),
        ("red in more tests than the red base", Case::fails_in_more, |_| Attribution::Regressed),
        ("red before and after", |_| true, |_| Attribution::RedBeforeAndAfter),
    ]
}

fn all_cases() -> Vec<Case> {
    let maybe = || std::iter::once(None).chain(all_runs().into_iter().map(Some));
    let mut cases = Vec::new();
    for candidate in all_runs() {
        for again in maybe() {
            for base in maybe() {
                for checks_differ in [false, true] {
                    let (candidate, again) = (candidate.clone(), again.clone());
                    cases.push(Case { candidate, again, base: base.clone(), checks_differ });
                }
            }
        }
    }
    cases
}

fn runs(case: &Case) -> GateRuns<'_> {
    GateRuns {
        candidate: &case.candidate,
        again: case.again.as_ref(),
        base: case.base.as_ref(),
        checks_differ: case.checks_differ,
    }
}

#[test]
fn every_combination_of_runs_is_attributed_as_the_first_matching_rule_says() {
    let rules = rules();
    let mut used = vec![false; rules.len()];
    for case in all_cases() {
        let at = rules.iter().position(|(_, applies, _)| applies(&case)).unwrap();
        let (name, _, expected) = rules[at];
        assert_eq!(attribute(runs(&case)), expected(&case), "{name}: {case:?}");
        used[at] = true;
    }
    for ((name, ..), used) in rules.iter().zip(used) {
        assert!(used, "nothing is decided by: {name}");
    }
}

#[test]
fn a_gate_is_never_proof_unless_a_run_at_the_candidate_passed() {
    for case in all_cases() {
        let passed = green(&case.candidate) || case.again.as_ref().is_some_and(green);
        if attribute(runs(&case)).effect() == Effect::Proof {
            assert!(passed, "{case:?}");
        }
    }
}

/// Whether the gate's program is missing: another run cannot change that.
fn is_missing(run: &GateRun) -> bool {
    matches!(run.obstacle(), Some(Obstacle::NoProgram { .. }))
}

#[test]
fn what_is_wanted_is_run_and_then_nothing_is_wanted() {
    for case in all_cases() {
        let expected = match (&case.again, &case.base) {
            (None, _) if !green(&case.candidate) && !is_missing(&case.candidate) => {
                Some(Wanted::Again)
            }
            (_, None) => Some(Wanted::Base),
            _ => None,
        };
        assert_eq!(runs(&case).wanted(), expected, "{case:?}");
    }
}

fn report(attribution: Attribution) -> GateReport {
    GateReport {
        gate: "tests".to_owned(),
        attribution,
        status: GateStatus::Failed { exit: NO_EXIT },
        output: "tests.log".to_owned(),
        last: String::new(),
    }
}

#[test]
fn the_lowest_gate_that_says_anything_is_the_level() {
    let level = |attributions: &[Attribution]| {
        GatesView::new(attributions.iter().cloned().map(report).collect()).level()
    };
    assert_eq!(level(&[]), ProofLevel::NotProven);
    assert_eq!(level(&[Attribution::Passed]), ProofLevel::GatesPassed);
    assert_eq!(level(&[Attribution::ProvedNothing]), ProofLevel::NotProven);
    assert_eq!(level(&[Attribution::ProvedNothing, Attribution::Passed]), ProofLevel::GatesPassed);
    assert_eq!(level(&[Attribution::Passed, Attribution::Flaky]), ProofLevel::ChecksChanged);
    let unsure = |attribution| GatesView::new(vec![report(attribution)]).with_unsure_caches();
    assert_eq!(unsure(Attribution::Passed).level(), ProofLevel::ChecksChanged);
    assert_eq!(unsure(Attribution::ProvedNothing).level(), ProofLevel::NotProven);
    for doubt in [
        Attribution::RedBeforeAndAfter,
        Attribution::Regressed,
        Attribution::Failed,
        Attribution::FewerTests { base: 2, candidate: Some(1) },
        Attribution::Broken { obstacle: missing() },
        Attribution::CouldNotRun { obstacle: missing() },
        Attribution::CouldNotRun { obstacle: machine() },
    ] {
        assert_eq!(
            level(&[Attribution::Passed, doubt.clone()]),
            ProofLevel::NotProven,
            "{doubt:?}"
        );
    }
}

#[test]
fn what_an_exit_means_depends_on_what_was_executed() {
    let tests = |passed| Some(TestCounts { passed, failed: 0, skipped: 4 });
    let ok = ProcessExit::Code(0);
    assert_eq!(GateStatus::of(ok, None), GateStatus::Passed);
    assert_eq!(GateStatus::of(ok, tests(1)), GateStatus::Passed);
    assert_eq!(GateStatus::of(ok, tests(0)), GateStatus::ProvedNothing);
    assert_eq!(
        GateStatus::of(ProcessExit::Signal(9), tests(0)),
        GateStatus::Failed { exit: ProcessExit::Signal(9) }
    );
    assert_eq!(GateStatus::of(NO_EXIT, tests(3)), GateStatus::Failed { exit: NO_EXIT });
}

fn gate(name: &str, fast: bool, paths: &[&str]) -> GateSpec {
    GateSpec {
        name: name.to_owned(),
        check: Check::Command { argv: vec!["make".to_owned(), name.to_owned()] },
        timeout: Duration::from_mins(30),
        repo: None,
        paths: paths.iter().map(|path| Glob::new(*path)).collect(),
        fast,
        net: false,
        unix: false,
    }
}

#[test]
fn fast_gates_come_first_and_keep_their_order() {
    let gates =
        [gate("a", false, &[]), gate("b", true, &[]), gate("c", false, &[]), gate("d", true, &[])];
    let names: Vec<_> = in_order(&gates).iter().map(|gate| gate.name.clone()).collect();
    assert_eq!(names, ["b", "d", "a", "c"]);
}

#[test]
fn a_gate_with_paths_concerns_changes_to_them_only() {
    assert!(gate("a", false, &[]).concerns([]));
    assert!(gate("a", false, &["web/**"]).concerns(["README.md", "web/a.ts"]));
    assert!(!gate("a", false, &["web/**"]).concerns(["README.md"]));
}
