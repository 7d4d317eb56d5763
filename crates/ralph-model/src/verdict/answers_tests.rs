use super::*;
use crate::testcount::PassedTests;

const SPEC: &str = "# Rounding\n\nThe total is rounded to whole cents,\nhalf away from zero. The old names go away.\n";

fn tested(message: &str, asked: &[&str]) -> Tested {
    let asked: Vec<String> = asked.iter().map(|path| (*path).to_owned()).collect();
    let before = PassedTests::of(["tests/a.py::test_old"]);
    let passed = PassedTests::of(["tests/a.py::test_new"]);
    let test =
        AnswerTest { asked: &asked, spec: SPEC, before: vec![&before], passed: vec![&passed] };
    test.test(message)
}

#[test]
fn an_answer_with_a_passage_of_the_spec_is_agreement_and_markdown_around_it_does_no_harm() {
    for message in [
        "CHECK tests/a.py: asked: The total is rounded to whole cents",
        "- **CHECK `tests/a.py`**: asked: \"rounded to whole cents, half away from zero.\"",
        "> CHECK tests/a.py: asked: rounded   to whole\tcents, half away\n\nmore words",
        "`CHECK tests/a.py: asked \"The total is rounded to whole cents\"`",
        "CHECK tests/a.py: refactor: tests/a.py::test_old => tests/a.py::test_new",
        "CHECK tests/a.py: refactor: `tests/a.py::test_old` -> `tests/a.py::test_new`",
    ] {
        let Tested::Agreed(agreement) = tested(message, &["tests/a.py"]) else {
            panic!("{message}: {:?}", tested(message, &["tests/a.py"]))
        };
        assert!(agreement.covers("tests/a.py") && !agreement.covers("tests/b.py"));
    }
}

#[test]
fn what_cannot_be_tested_is_a_slip_and_never_agreement() {
    for (message, slip) in [
        ("yes", "no line begins with"),
        ("I AM HYPER SURE I AM DONE!", "no line begins with"),
        ("CHECK tests/ab.py: asked: The total is rounded to whole cents", "no line begins with"),
        ("CHECK tests/a.py: fine", "is none of"),
        ("CHECK tests/a.py: asked:", "is none of"),
        ("CHECK tests/a.py: refactor: it is the same", "is none of"),
        ("CHECK tests/a.py: asked: whole cents", "shorter than"),
        ("CHECK tests/a.py: asked: The total is rounded to whole euros", "word for word"),
        ("CHECK tests/a.py: asked: <a passage of the spec>", "word for word"),
        ("CHECK tests/a.py: refactor: tests/a.py::test_old => test_none", "passed in Ralph's own"),
        ("CHECK tests/a.py: refactor: test_none => tests/a.py::test_new", "before this work"),
    ] {
        let Tested::Slips(slips) = tested(message, &["tests/a.py"]) else { panic!("{message}") };
        assert!(slips[0].to_string().contains(slip), "{message}: {}", slips[0]);
    }
}

#[test]
fn every_path_needs_its_own_line_and_directories_their_own_passages() {
    let one = "CHECK tests/a.py: asked: The total is rounded to whole cents";
    let Tested::Slips(slips) = tested(one, &["tests/a.py", "conftest.py"]) else { panic!() };
    assert_eq!(slips, [AnswerSlip::LeftOut { path: "conftest.py".to_owned() }]);
    let same = format!("{one}\nCHECK conftest.py: asked: The total is rounded to whole cents");
    let Tested::Slips(slips) = tested(&same, &["tests/a.py", "conftest.py"]) else { panic!() };
    assert!(matches!(slips[..], [AnswerSlip::SharedQuote { .. }]), "{slips:?}");
    let beside = format!("{one}\nCHECK tests/b.py: asked: The total is rounded to whole cents");
    assert!(matches!(tested(&beside, &["tests/a.py", "tests/b.py"]), Tested::Agreed(_)));
    let other = format!("{one}\nCHECK conftest.py: asked: The old names go away.");
    assert!(matches!(tested(&other, &["tests/a.py", "conftest.py"]), Tested::Agreed(_)));
}

#[test]
fn one_weaker_check_is_an_objection_whatever_the_other_lines_say() {
    let message =
        "CHECK a: asked: The total is rounded to whole cents\nCHECK b: weaker: it asserts nothing";
    let Tested::Weaker(answers) = tested(message, &["a", "b"]) else { panic!() };
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].path, "b");
}
