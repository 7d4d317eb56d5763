//! Lines with which a test runner reports that a test failed.
//!
//! | runner | the line |
//! |---|---|
//! | cargo test, deno | `test NAME ... FAILED`, `---- NAME stdout ----` above its output |
//! | unittest | `FAIL: NAME (CLASS)`, `ERROR: NAME (CLASS)` above its traceback |
//! | cargo nextest | `FAIL [ 0.1s] CRATE NAME` |
//! | pytest | `FAILED FILE::NAME - …`, `E   assert …` |
//! | go test | `--- FAIL: NAME (0.00s)`, an event with the action `fail` |
//! | TAP, node, bats | `not ok 1 - NAME` |
//! | jest, vitest, mocha, node | `✕ NAME`, `● NAME` above its output |
//! | ctest, dotnet, bun | `Test #1: NAME …***Failed`, `Failed NAME [1 ms]`, `(fail) NAME` |
//!
//! They only decide what is shown; what passed or failed is decided by exit codes and counts.

/// Whether a line reports that a test failed, as a terminal would show it.
pub fn reports_failure(line: &str) -> bool {
    let text = line.trim();
    if let Some(rest) = text.strip_prefix("not ok ") {
        let rest = rest.to_ascii_lowercase();
        return !rest.contains("# todo") && !rest.contains("# skip");
    }
    let begins = ["--- FAIL: ", "FAIL [", "(fail) ", "✕ ", "✖ ", "✗ ", "× ", "● ", "E   "];
    if begins.iter().any(|begin| text.starts_with(begin)) {
        // Node ends its list with a heading.
        return text != "✖ failing tests:";
    }
    if let Some(rest) = text.strip_prefix("FAILED ") {
        return rest.contains("::");
    }
    if let Some(rest) = text.strip_prefix("FAIL: ").or_else(|| text.strip_prefix("ERROR: ")) {
        return rest.ends_with(')') && rest.contains(" (");
    }
    if let Some(rest) = text.strip_prefix("Failed ") {
        return rest.ends_with("ms]") || rest.ends_with("s]");
    }
    (text.starts_with("test ") && text.ends_with(" ... FAILED"))
        || (text.starts_with("---- ") && text.ends_with(" stdout ----"))
        || (text.contains("Test ") && text.contains("***Failed"))
        || (text.starts_with('{')
            && text.contains("\"Action\":\"fail\"")
            && text.contains("\"Test\":"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failing_tests_are_recognised_as_runners_print_them() {
        for line in [
            "test tests::adds ... FAILED",
            "---- tests::adds stdout ----",
            "FAIL: test_add (test_calc.T.test_add)",
            "ERROR: test_add (test_calc.T.test_add)",
            "        FAIL [   0.004s] one tests::is_one",
            "FAILED tests/test_a.py::test_b - assert 1 == 2",
            "E       assert 1 == 2",
            "    --- FAIL: TestA/sub (0.00s)",
            r#"{"Action":"fail","Package":"a/b","Test":"TestA","Elapsed":0}"#,
            "not ok 1 - adds",
            "    not ok 2 adds more",
            "  ✕ adds (3 ms)",
            "✖ adds (0.512ms)",
            " × src/a.test.ts > adds 4ms",
            "1/2 Test #1: one .....................***Failed    0.01 sec",
            "  Failed Name.Space.Test [5 ms]",
            "(fail) adds > two [0.10ms]",
        ] {
            assert!(reports_failure(line), "{line}");
        }
        for line in [
            "test tests::adds ... ok",
            "not ok 3 - later # TODO not now",
            "ok 1 - adds",
            "ERROR: the server could not be reached",
            "FAILED (failures=1)",
            "Failed to connect",
            "✖ failing tests:",
            "test result: FAILED. 0 passed; 1 failed",
            r#"{"Action":"fail","Package":"a/b"}"#,
        ] {
            assert!(!reports_failure(line), "{line}");
        }
    }
}
