use super::*;
use proptest::prelude::*;

fn count(output: &str) -> Option<TestCounts> {
    let mut counter = TestCounter::new();
    counter.feed(output.as_bytes());
    counter.finish().counts
}

#[expect(clippy::unnecessary_wraps, reason = "it is compared with what may be nothing")]
fn counts(passed: u64, failed: u64, skipped: u64) -> Option<TestCounts> {
    Some(TestCounts { passed, failed, skipped })
}

#[test]
fn cargo_test_is_added_up_over_its_binaries() {
    let output = "\
   Compiling demo v0.1.0
    Finished `test` profile [unoptimized + debuginfo] target(s) in 0.52s
     Running unittests src/lib.rs (target/debug/deps/demo-0b1)

running 3 tests
test a ... ok
test b ... ok
test c ... ignored

test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 4 filtered out; finished in 0.00s

     Running tests/it.rs (target/debug/deps/it-5f2)

running 1 test
test d ... FAILED

failures:
    d

test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.02s

   Doc-tests demo

running 0 tests

test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
error: test failed, to rerun pass `--test it`
";
    assert_eq!(count(output), counts(2, 1, 1));
}

#[test]
fn cargo_test_without_tests_executed_none() {
    assert_eq!(
        count(
            "running 0 tests\n\ntest result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n"
        ),
        counts(0, 0, 0)
    );
}

#[test]
fn nextest_has_one_summary() {
    for (output, expected) in [
        (
            "     Summary [   0.033s] 12 tests run: 11 passed (1 slow, 2 leaky), 1 failed, 2 skipped\n",
            counts(11, 1, 2),
        ),
        (
            "     Summary [   1.2s] 3/12 tests run: 1 passed, 1 failed, 1 timed out, 0 skipped\n",
            counts(1, 2, 0),
        ),
        ("     Summary [   0.000s] 0 tests run: 0 passed, 4 skipped\n", counts(0, 0, 4)),
        (
            "\u{1b}[32;1m     Summary\u{1b}[0m [   0.033s] \u{1b}[1m2\u{1b}[0m tests run: \u{1b}[1m2\u{1b}[0m \u{1b}[32;1mpassed\u{1b}[0m, \u{1b}[1m0\u{1b}[0m \u{1b}[33;1mskipped\u{1b}[0m\n",
            counts(2, 0, 0),
        ),
    ] {
        assert_eq!(count(output), expected, "{output}");
    }
}

#[test]
fn pytest_in_its_many_moods() {
    for (output, expected) in [
        (
            "============ 3 failed, 10 passed, 2 skipped, 1 xfailed, 1 warning in 0.12s ============\n",
            counts(10, 3, 3),
        ),
        ("============ no tests ran in 0.01s ============\n", counts(0, 0, 0)),
        ("no tests ran in 0.01s\n", counts(0, 0, 0)),
        ("10 passed in 0.12s\n", counts(10, 0, 0)),
        ("1 error in 0.30s\n", counts(0, 1, 0)),
        ("==== 5 passed, 4 deselected, 2 warnings in 61.02s (0:01:01) ====\n", counts(5, 0, 4)),
        (
            "\u{1b}[32m======= \u{1b}[32m\u{1b}[1m1 passed\u{1b}[0m\u{1b}[32m in 0.01s\u{1b}[0m\u{1b}[32m =======\u{1b}[0m\n",
            counts(1, 0, 0),
        ),
        ("collected 12 items\n\ntests/test_a.py ......                  [ 50%]\n", None),
    ] {
        assert_eq!(count(output), expected, "{output}");
    }
}

#[test]
fn unittest_says_it_in_two_lines() {
    for (output, expected) in [
        (
            "..s.\n----------------------------------------------------------------------\nRan 4 tests in 0.003s\n\nOK (skipped=1)\n",
            counts(3, 0, 1),
        ),
        ("Ran 1 test in 0.000s\n\nOK\n", counts(1, 0, 0)),
        (
            "Ran 9 tests in 0.1s\n\nFAILED (failures=1, errors=2, skipped=1, expected failures=1)\n",
            counts(4, 3, 2),
        ),
        ("Ran 0 tests in 0.000s\n\nNO TESTS RAN\n", counts(0, 0, 0)),
    ] {
        assert_eq!(count(output), expected, "{output}");
    }
}

#[test]
fn go_counts_only_where_it_names_every_test() {
    for (output, expected) in [
        (
            "=== RUN   TestA\n--- PASS: TestA (0.00s)\n=== RUN   TestB\n=== RUN   TestB/sub\n--- FAIL: TestB (0.00s)\n    --- FAIL: TestB/sub (0.00s)\n=== RUN   TestC\n    c_test.go:3: not now\n--- SKIP: TestC (0.00s)\nFAIL\nFAIL\texample.com/a\t0.002s\n",
            counts(1, 2, 1),
        ),
        ("ok  \texample.com/a\t0.003s\n?   \texample.com/b\t[no test files]\n", None),
        ("--- FAIL: TestA (0.00s)\n    a_test.go:5: no\nFAIL\nFAIL\texample.com/a\t0.003s\n", None),
        ("?   \texample.com/a\t[no test files]\n", counts(0, 0, 0)),
        (
            "testing: warning: no tests to run\nok  \texample.com/a\t0.003s [no tests to run]\n",
            counts(0, 0, 0),
        ),
        (
            "{\"Time\":\"2026-01-01T00:00:00Z\",\"Action\":\"start\",\"Package\":\"a\"}\n{\"Action\":\"run\",\"Package\":\"a\",\"Test\":\"TestA\"}\n{\"Action\":\"output\",\"Package\":\"a\",\"Test\":\"TestA\",\"Output\":\"--- PASS: TestA (0.00s)\\n\"}\n{\"Action\":\"pass\",\"Package\":\"a\",\"Test\":\"TestA\",\"Elapsed\":0}\n{\"Action\":\"skip\",\"Package\":\"a\",\"Test\":\"TestB\",\"Elapsed\":0}\n{\"Action\":\"pass\",\"Package\":\"a\",\"Elapsed\":0.002}\n",
            counts(1, 0, 1),
        ),
    ] {
        assert_eq!(count(output), expected, "{output}");
    }
}

#[test]
fn javascript_runners() {
    for (output, expected) in [
        (
            "Test Suites: 1 failed, 2 passed, 3 total\nTests:       1 failed, 2 skipped, 1 todo, 12 passed, 16 total\nSnapshots:   4 passed, 4 total\nTime:        1.2 s\n",
            counts(12, 1, 3),
        ),
        ("No tests found, exiting with code 0\n", counts(0, 0, 0)),
        (
            " Test Files  1 failed | 2 passed (3)\n      Tests  1 failed | 12 passed | 2 skipped (15)\n   Start at  10:00:00\n   Duration  300ms\n",
            counts(12, 1, 2),
        ),
        (" Test Files  no tests\n      Tests  no tests\n", counts(0, 0, 0)),
        ("No test files found, exiting with code 1\n", counts(0, 0, 0)),
        (
            "\n\n  12 passing (30ms)\n  2 pending\n  1 failing\n\n  1) suite\n       case:\n",
            counts(12, 1, 2),
        ),
        ("  0 passing (1ms)\n", counts(0, 0, 0)),
        (
            "  1 failed\n    [chromium] › a.spec.ts:3:1 › works ─────\n  2 skipped\n  1 flaky\n  12 passed (3.2s)\n",
            counts(13, 1, 2),
        ),
        (
            "bun test v1.2.0\n\na.test.ts:\n✓ adds [0.1ms]\n\n 12 pass\n 1 fail\n 2 skip\n 24 expect() calls\nRan 15 tests across 2 files. [30.00ms]\n",
            counts(12, 1, 2),
        ),
        ("ok | 12 passed | 0 failed | 1 ignored (30ms)\n", counts(12, 0, 1)),
        ("FAILED | 11 passed (2 steps) | 1 failed (35ms)\n", counts(11, 1, 0)),
    ] {
        assert_eq!(count(output), expected, "{output}");
    }
}

#[test]
fn node_and_other_tap_producers() {
    for (output, expected) in [
        (
            "TAP version 13\n# Subtest: a\nok 1 - a\n  ---\n  duration_ms: 1\n  ...\n1..1\n# tests 3\n# suites 0\n# pass 1\n# fail 1\n# cancelled 1\n# skipped 0\n# todo 0\n# duration_ms 40\n",
            counts(1, 2, 0),
        ),
        (
            "✔ a (0.5ms)\nℹ tests 2\nℹ suites 0\nℹ pass 1\nℹ fail 0\nℹ cancelled 0\nℹ skipped 1\nℹ todo 0\nℹ duration_ms 40\n",
            counts(1, 0, 1),
        ),
        (
            "1..4\nok 1 adds\nnot ok 2 subtracts\nok 3 divides # skip no division\nok 4 has # 3 parts\n",
            counts(2, 1, 1),
        ),
        ("ok 1 - without a plan it may be anything\n", None),
        ("# tests are described here\n# pass 3 of them\n# fail 3\n", None),
    ] {
        assert_eq!(count(output), expected, "{output}");
    }
}

#[test]
fn runners_of_the_jvm_and_dotnet() {
    for (output, expected) in [
        (
            "[INFO] Tests run: 3, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 0.05 s -- in com.x.ATest\n[ERROR] Tests run: 2, Failures: 1, Errors: 0, Skipped: 1, Time elapsed: 0.05 s <<< FAILURE! -- in com.x.BTest\n[INFO] \n[INFO] Results:\n[INFO] \n[ERROR] Tests run: 5, Failures: 1, Errors: 0, Skipped: 1\n",
            counts(3, 1, 1),
        ),
        ("[INFO] No tests to run.\n", counts(0, 0, 0)),
        ("Time: 0.01\n\nOK (12 tests)\n", counts(12, 0, 0)),
        ("12 tests completed, 1 failed, 2 skipped\n", counts(9, 1, 2)),
        ("BUILD SUCCESSFUL in 1s\n3 actionable tasks: 3 executed\n", None),
        (
            "Passed!  - Failed:     0, Passed:    12, Skipped:     1, Total:    13, Duration: 30 ms - A.Tests.dll (net8.0)\nFailed!  - Failed:     1, Passed:     2, Skipped:     0, Total:     3, Duration: 30 ms - B.Tests.dll (net8.0)\n",
            counts(14, 1, 1),
        ),
        (
            "Test summary: total: 13, failed: 1, succeeded: 11, skipped: 1, duration: 2.3s\n",
            counts(11, 1, 1),
        ),
    ] {
        assert_eq!(count(output), expected, "{output}");
    }
}

#[test]
fn runners_of_ruby_php_and_cmake() {
    for (output, expected) in [
        (
            "Finished in 0.01 seconds (files took 0.1 seconds to load)\n12 examples, 1 failure, 2 pending\n",
            counts(9, 1, 2),
        ),
        ("1 example, 0 failures\n", counts(1, 0, 0)),
        ("12 runs, 24 assertions, 1 failures, 1 errors, 2 skips\n", counts(8, 2, 2)),
        (
            "12 tests, 24 assertions, 1 failures, 0 errors, 1 pendings, 1 omissions, 0 notifications\n",
            counts(9, 1, 2),
        ),
        ("OK (12 tests, 24 assertions)\n", counts(12, 0, 0)),
        (
            "FAILURES!\nTests: 12, Assertions: 24, Failures: 1, Errors: 1, Skipped: 2.\n",
            counts(8, 2, 2),
        ),
        ("No tests executed!\n", counts(0, 0, 0)),
        ("  Tests:    1 failed, 12 passed (24 assertions)\n", counts(12, 1, 0)),
        (
            "92% tests passed, 1 tests failed out of 12\n\nTotal Test time (real) =   0.02 sec\n",
            counts(11, 1, 0),
        ),
        ("No tests were found!!!\n", counts(0, 0, 0)),
    ] {
        assert_eq!(count(output), expected, "{output}");
    }
}

#[test]
fn what_is_no_summary_counts_nothing() {
    for output in [
        "",
        "2 errors\n",
        "1 error\n",
        "1 error generated.\n",
        "Found 3 errors in 2 files.\n",
        "3 files changed, 10 insertions(+)\n",
        "✖ 3 problems (3 errors, 0 warnings)\n",
        "error: could not compile `demo` (lib test) due to 1 previous error\n",
        "12 passed the exam\n",
        "OK\n",
        "Ran out of memory\n",
        "99999999999999999999999 passed\n",
    ] {
        assert_eq!(count(output), None, "{output}");
    }
}

#[test]
fn two_runners_in_one_output_are_added_up() {
    let output = "test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n==== 3 passed in 0.1s ====\n";
    assert_eq!(count(output), counts(5, 0, 0));
}

#[test]
fn a_summary_survives_progress_bars_crlf_and_a_missing_line_end() {
    assert_eq!(count("[  1/12]\r[ 12/12]\r12 passed in 0.1s\r\n"), counts(12, 0, 0));
    assert_eq!(count("\u{1b}]0;title\u{7}12 passed in 0.1s"), counts(12, 0, 0));
    assert_eq!(
        count("\u{1b}]8;;http://x\u{1b}\\12 passed\u{1b}]8;;\u{1b}\\ in 0.1s"),
        counts(12, 0, 0)
    );
}

#[test]
fn endless_output_is_read_in_flat_memory() {
    let mut counter = TestCounter::new();
    let noise = vec![b'x'; 1 << 16];
    for _ in 0..64 {
        counter.feed(&noise);
    }
    assert!(counter.line.capacity() <= 2 * LONGEST_LINE);
    counter.feed(b" 3 passed\n4 passed\n");
    assert_eq!(counter.finish().counts, counts(4, 0, 0));
}

/// Lines made of the words of runners.
fn odd_line() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        (0..2000_u64).prop_map(|n| n.to_string()),
        prop::sample::select(vec![
            "passed",
            "failed",
            "skipped",
            "tests",
            "test",
            "Tests:",
            "Tests run:",
            "Ran",
            "in",
            "OK",
            "(",
            ")",
            ",",
            ";",
            "|",
            "=",
            "#",
            "pass",
            "ok",
            "not ok",
            "1..",
            "Failures:",
            "Passed!",
            "-",
            "--- PASS: Test",
            "=== RUN",
            "test result: ok.",
            "Summary [",
            "run:",
            "passing",
            "examples",
            "out of",
            "% tests passed,",
            "{\"Action\":\"pass\"}",
            "\t",
            "é",
            "\u{1b}[1m",
            "across",
            "total:",
            "flaky",
        ])
        .prop_map(str::to_owned),
    ];
    prop::collection::vec(word, 0..12).prop_map(|words| words.join(" "))
}

fn numbers(text: &str) -> u64 {
    text.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse::<u64>().ok()).sum()
}

proptest! {
    #[test]
    fn counts_never_exceed_what_the_lines_say(lines in prop::collection::vec(odd_line(), 0..20)) {
        let output = lines.join("\n");
        if let Some(counts) = count(&output) {
            // Each line of TAP or go represents one test without a number.
            let most = numbers(&output) + lines.len() as u64;
            prop_assert!(counts.executed() + counts.skipped <= most, "{counts:?} from {output}");
        }
    }

    #[test]
    fn any_bytes_cut_anywhere_read_the_same(
        output in prop::collection::vec(any::<u8>(), 0..300),
        lines in prop::collection::vec(odd_line(), 0..6),
        cut in 1_usize..40,
    ) {
        let mut bytes = lines.join("\n").into_bytes();
        bytes.extend(&output);
        let mut whole = TestCounter::new();
        whole.feed(&bytes);
        let mut pieces = TestCounter::new();
        bytes.chunks(cut).for_each(|piece| pieces.feed(piece));
        prop_assert_eq!(whole.finish().counts, pieces.finish().counts);
    }
}
