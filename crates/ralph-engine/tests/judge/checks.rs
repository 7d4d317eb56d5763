//! Changed checks: a project of shell scripts whose runner names its tests in TAP format.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use ralph_engine::judge::{AgreedChecks, Case};
use ralph_model::checks::{CheckClass, Measure};
use ralph_model::glob::Glob;
use ralph_model::proof::ProofLevel;
use ralph_model::receipt::CheckConsent;
use ralph_model::verdict::{
    AnswerTest, ChangedChecks, CheckAnswer, CheckOpinion, PersonQuestion, Reason, Tested, Verdict,
    VerifierQuestion, VerifierReport,
};

use crate::world::{World, write};

/// Runs every file of `tests/`, and prints the result of each.
const RUNNER: &str = r#"n=0; failed=0
for t in tests/*.sh; do
  n=$((n+1))
  if sh "$t"; then echo "ok $n - $t"; else echo "not ok $n - $t"; failed=1; fi
done
echo "1..$n"
exit $failed"#;

fn project() -> World {
    let mut world = World::new(RUNNER);
    write(&world.root.join("src/add.sh"), "echo $(($1 + $2))\n");
    write(&world.root.join("tests/adds.sh"), "test \"$(sh src/add.sh 1 2)\" = 3\n");
    write(&world.root.join("tests/zero.sh"), "test \"$(sh src/add.sh 0 0)\" = 0\n");
    world.work("README.md", "adds\n");
    world.begin(&[]);
    world
}

fn judged(case: &Case, verifier: &VerifierReport) -> Verdict {
    case.verdict(verifier).unwrap()
}

fn parrot(commit: &str) -> VerifierReport {
    VerifierReport::verified(&commit.parse().unwrap())
}

/// A verifier that quotes the spec for each of these paths, whatever they are.
fn quoting(commit: &str, paths: &[String]) -> VerifierReport {
    const SPEC: [&str; 3] = [
        "the first sentence of the spec",
        "the second sentence of the spec",
        "the third sentence of it",
    ];
    let spec = SPEC.join(". ");
    let lines = paths.iter().enumerate();
    let message: Vec<String> =
        lines.map(|(at, path)| format!("CHECK {path}: asked: {}", SPEC[at % 3])).collect();
    let test = AnswerTest { asked: paths, spec: &spec, ..AnswerTest::default() };
    let Tested::Agreed(agreed) = test.test(&message.join("\n")) else { panic!("{message:?}") };
    VerifierReport::Verified { commit: commit.parse().unwrap(), agreed }
}

/// The level at which a commit is accepted without any question.
fn level(case: &Case) -> ProofLevel {
    match judged(case, &VerifierReport::NotAsked) {
        Verdict::Accepted { level, .. } => level,
        other => panic!("{other:?}"),
    }
}

/// Asserts that approval is needed. A verifier's one-word verdict is not enough; one that quotes for everything raises
/// it to the second level.
fn assert_asked(world: &World, commit: &str, path: &str) -> Case {
    let case = world.examine_commit(commit);
    let verdict = judged(&case, &VerifierReport::NotAsked);
    let Verdict::NeedsHuman { question: PersonQuestion::ChecksChanged { checks, failing, .. } } =
        &verdict
    else {
        panic!("{verdict:?}")
    };
    assert!(checks.iter().any(|check| check.path == path), "{checks:?}");
    assert!(!failing.is_empty());
    let verdict = judged(&case, &parrot(commit));
    assert!(matches!(verdict, Verdict::NeedsHuman { .. }), "{verdict:?}");
    let verdict = judged(&case, &quoting(commit, &case.asked_checks()));
    assert!(
        matches!(verdict, Verdict::Accepted { level: ProofLevel::ChecksChanged, .. }),
        "{verdict:?}"
    );
    case
}

fn break_source(world: &World) {
    write(&world.root.join("src/add.sh"), "echo 3\n");
}

pub(crate) fn work_that_touches_no_check_costs_one_run() {
    let world = project();
    let commit = world.work("src/add.sh", "echo $(( $1 + $2 ))\n");
    let case = world.examine_commit(&commit);
    assert_eq!(level(&case), ProofLevel::GatesPassed);
    assert_eq!(case.assessment.checks.overlay, None);
    assert_eq!(case.questions(), []);
}

pub(crate) fn new_tests_alone_are_proven_and_nobody_is_asked() {
    let world = project();
    write(&world.root.join("tests/more.sh"), "test \"$(sh src/add.sh 2 2)\" = 4\n");
    let commit = world.work("src/add.sh", "echo $(( $1 + $2 ))\n");
    let case = world.examine_commit(&commit);
    assert_eq!(level(&case), ProofLevel::GatesPassed);
    let overlay = case.assessment.checks.overlay.clone().unwrap();
    assert!(overlay.gates[0].holds && overlay.gates[0].by == Measure::Names, "{overlay:?}");
    assert_eq!(case.questions(), []);
}

pub(crate) fn broken_work_is_asked_about_whatever_hides_it() {
    type Lie = (&'static str, fn(&World));
    let lies: [Lie; 9] = [
        ("tests/zero.sh", |world| write(&world.root.join("tests/zero.sh"), "true\n")),
        ("tests/zero.sh", |world| fs::remove_file(world.root.join("tests/zero.sh")).unwrap()),
        ("check", |world| {
            write(
                &world.root.join("check"),
                "#!/bin/sh\necho ok 1 - tests/zero.sh\necho ok 2 - tests/adds.sh\necho 1..2\n",
            );
        }),
        ("check", |world| {
            fs::remove_file(world.root.join("check")).unwrap();
            std::os::unix::fs::symlink("/bin/true", world.root.join("check")).unwrap();
        }),
        ("tests/zero.sh", |world| {
            // Moved out of sight, and padded.
            fs::rename(world.root.join("tests/zero.sh"), world.root.join("src/zero.sh")).unwrap();
            write(&world.root.join("tests/pad.sh"), "true\n");
        }),
        ("tests/zero.sh", |world| {
            fs::rename(world.root.join("tests"), world.root.join("elsewhere")).unwrap();
            write(&world.root.join("elsewhere/zero.sh"), "true\n");
            std::os::unix::fs::symlink("elsewhere", world.root.join("tests")).unwrap();
        }),
        ("tests/zero.sh", |world| {
            write(&world.root.join("tests/zero.sh"), "test \"$(sh src/add.sh 0 0)\" = 3\n");
        }),
        ("tests/zero.sh", |world| {
            write(&world.root.join("tests/zero.sh"), "exit 0\ntest \"$(sh src/add.sh 0 0)\" = 0\n");
        }),
        ("check", |world| {
            write(&world.root.join("check"), "#!/bin/sh\nexec ./real\n");
            write(&world.root.join("real"), "#!/bin/sh\nexit 0\n");
            fs::set_permissions(world.root.join("real"), fs::Permissions::from_mode(0o755))
                .unwrap();
        }),
    ];
    for (path, lie) in lies {
        let world = project();
        break_source(&world);
        lie(&world);
        let mode = fs::Permissions::from_mode(0o755);
        let _ = fs::set_permissions(world.root.join("check"), mode);
        let commit = world.work("src/other.sh", "x\n");
        assert_asked(&world, &commit, path);
    }
}

pub(crate) fn a_changed_check_with_which_nothing_breaks_is_told_and_moves_no_anchor() {
    let mut world = project();
    // Step one: the test is hollowed out while the source is correct.
    write(&world.root.join("tests/zero.sh"), "true\n");
    let commit = world.work("src/add.sh", "echo $(( $1 + $2 ))\n");
    let case = world.examine_commit(&commit);
    assert_eq!(level(&case), ProofLevel::GatesPassed);
    let questions = case.questions();
    let [VerifierQuestion::Checks { asked, told, .. }] = questions.as_slice() else {
        panic!("{questions:?}")
    };
    assert!(asked.is_empty() && told[0].path == "tests/zero.sh", "{questions:?}");
    world.attest(&case);
    // Step two: the next item exploits it.
    world.begin(&[]);
    break_source(&world);
    let commit = world.work("src/other.sh", "x\n");
    assert_asked(&world, &commit, "tests/zero.sh");
    // Honest work passes, although there is no answer yet.
    let honest = world.work("src/add.sh", "echo $(( $2 + $1 ))\n");
    assert_eq!(level(&world.examine_commit(&honest)), ProofLevel::GatesPassed);
}

pub(crate) fn what_somebody_agreed_with_is_the_anchor_from_then_on() {
    let mut world = project();
    write(&world.root.join("tests/zero.sh"), "test \"$(sh src/add.sh 0 0)\" = 00\n");
    let commit = world.work("src/add.sh", "echo $(( $1 + $2 ))0\n");
    write(&world.root.join("tests/adds.sh"), "test \"$(sh src/add.sh 1 2)\" = 30\n");
    let _ = commit;
    let commit = world.work("src/add.sh", "echo \"$(( $1 + $2 ))0\"\n");
    let case = assert_asked(&world, &commit, "tests/zero.sh");
    let quote = "what the spec asks for, word for word".to_owned();
    let answer =
        |path: String| CheckAnswer { path, opinion: CheckOpinion::Asked { quote: quote.clone() } };
    let answers = case.asked_checks().into_iter().map(answer).collect();
    let agreed = AgreedChecks::With { paths: case.asked_checks(), answers };
    let receipt = world.attest_agreed(&case, agreed);
    assert_eq!(receipt.level, Some(ProofLevel::ChecksChanged));
    let told = receipt.checks.iter().find(|told| told.check.path == "tests/zero.sh").unwrap();
    let said = CheckOpinion::Asked { quote: quote.clone() };
    assert_eq!(told.agreed, CheckConsent::Verifier { said });
    world.begin(&[]);
    let next = world.work("src/other.sh", "x\n");
    let case = world.examine_commit(&next);
    assert_eq!(level(&case), ProofLevel::GatesPassed);
    assert_eq!(case.assessment.checks.changed, []);
}

pub(crate) fn a_spec_and_the_person_decide_otherwise() {
    let mut world = project();
    fs::remove_file(world.root.join("tests/zero.sh")).unwrap();
    break_source(&world);
    let commit = world.work("src/other.sh", "x\n");
    assert_asked(&world, &commit, "tests/zero.sh");
    world.pinned.changed_checks = ChangedChecks::Reject;
    let verdict = judged(&world.examine_commit(&commit), &parrot(&commit));
    let Verdict::Rejected { reasons } = &verdict else { panic!("{verdict:?}") };
    assert!(matches!(reasons.as_slice(), [Reason::ChecksChanged { .. }]), "{reasons:?}");
    world.pinned.changed_checks = ChangedChecks::Person;
    let verdict = judged(&world.examine_commit(&commit), &parrot(&commit));
    assert!(matches!(verdict, Verdict::NeedsHuman { .. }), "{verdict:?}");
    world.pinned.allow = vec![Glob::new("tests/zero.sh")];
    assert_eq!(level(&world.examine_commit(&commit)), ProofLevel::ChecksChanged);
}

pub(crate) fn nothing_but_checks_needs_no_second_run_and_ci_is_told() {
    let world = project();
    write(&world.root.join("tests/zero.sh"), "test \"$(sh src/add.sh 0 0)\" = 0 # zero\n");
    let commit = world.work(".github/workflows/ci.yml", "on: push\n");
    let case = world.examine_commit(&commit);
    assert_eq!(level(&case), ProofLevel::GatesPassed);
    let checks = &case.assessment.checks;
    assert!(checks.holds());
    let classes: Vec<CheckClass> = checks.told().iter().map(|check| check.class).collect();
    assert_eq!(classes, [CheckClass::Ci, CheckClass::Test]);
}

pub(crate) fn a_red_base_is_not_mended_by_changing_its_checks_alone() {
    let mut world = project();
    write(&world.root.join("tests/zero.sh"), "test \"$(sh src/add.sh 0 0)\" = 1\n");
    world.work("src/other.sh", "x\n");
    world.begin(&[]);
    let commit = world.work("tests/zero.sh", "true\n");
    assert_asked(&world, &commit, "tests/zero.sh");
}

pub(crate) fn tests_that_vanish_without_a_changed_check_are_rejected() {
    // The runner takes its list of tests from source code.
    let mut world = World::new(
        ". ./src/list.sh; for t in $tests; do echo \"ok 1 - $t\"; done; echo 1..$(echo $tests | wc -w)",
    );
    world.work("src/list.sh", "tests='a b c'\n");
    world.begin(&[]);
    let commit = world.work("src/list.sh", "tests='a b'\n");
    let verdict = judged(&world.examine_commit(&commit), &VerifierReport::NotAsked);
    let Verdict::Rejected { reasons } = &verdict else { panic!("{verdict:?}") };
    assert_eq!(reasons[0].code(), "gate_fewer_tests");
}

pub(crate) fn tests_that_vanish_with_a_file_that_the_gate_reads_are_asked_about() {
    // The runner takes its list of tests from a source file, which is data of a check as well as of the program.
    let mut world = World::new(
        "for t in $(cat src/list); do echo \"ok 1 - $t\"; done; echo 1..$(wc -w <src/list)",
    );
    world.work("src/list", "a b c\n");
    world.begin(&[]);
    let commit = world.work("src/list", "a b\n");
    assert_asked(&world, &commit, "src/list");
}

/// What the old checks refuse is not taken out with them. The same with data and with tests, in every workflow, is played by
/// the agents `bug-in-old-data` and `forbidden-file-test-code` of `cargo xtask trust`.
pub(crate) fn what_an_old_check_refuses_is_not_hidden_by_laying_it_over() {
    let mut world = World::new("sh layout.sh && sh tests/one.sh");
    write(&world.root.join("layout.sh"), "test ! -e bad\n");
    world.work("tests/one.sh", "true\n");
    world.begin(&[]);
    write(&world.root.join("layout.sh"), "true\n");
    write(&world.root.join("bad"), "x\n");
    let commit = world.work("src/other.sh", "x\n");
    let case = world.examine_commit(&commit);
    let verdict = judged(&case, &VerifierReport::NotAsked);
    assert!(matches!(verdict, Verdict::NeedsHuman { .. }), "{verdict:?}");
}

/// The script of a gate may run the very source under test: reverted with the script, it would prove nothing.
pub(crate) fn source_that_a_script_mentions_does_not_hide_behind_it() {
    let mentions = || {
        let mut world = World::new("test \"$(sh calc.sh 1 2)\" = 3");
        world.work("calc.sh", "echo $(($1 + $2))\n");
        world.begin(&[]);
        world
    };
    let world = mentions();
    write(&world.root.join("check"), "#!/bin/sh\nsh calc.sh 1 2 >/dev/null\n");
    let commit = world.work("calc.sh", "echo 0\n");
    assert_asked(&world, &commit, "check");
    // Honest work on it is proven, without another run.
    let world = mentions();
    let commit = world.work("calc.sh", "echo $(( $1 + $2 ))\n");
    assert_eq!(level(&world.examine_commit(&commit)), ProofLevel::GatesPassed);
}
