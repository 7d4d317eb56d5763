//! The summaries of known test runners, line by line.
//!
//! | runner | what is read |
//! |---|---|
//! | cargo test | `test result: ok. 3 passed; 0 failed; …` of each binary |
//! | cargo nextest | `Summary [ 0.03s] 3 tests run: 3 passed, 1 skipped` |
//! | pytest, Playwright, others | a line of `3 passed`, `1 failed`, … and nothing else |
//! | unittest | `Ran 3 tests in 0.1s` and the line with the result |
//! | go test | `--- PASS:` lines of `-v`, events of `-json`; plain output has no counts |
//! | jest, vitest, Pest | the line that starts with `Tests` |
//! | mocha | `3 passing`, `1 failing`, `2 pending` |
//! | node --test, TAP | `# pass 3` …, else the `ok` lines where there is a plan |
//! | Maven Surefire, JUnit | `Tests run: 3, Failures: 0, …` of the whole module |
//! | Gradle, `RSpec`, minitest, test-unit, bats | `3 tests, 1 failed, …` in their words |
//! | `PHPUnit` | `OK (3 tests, …)`, `Tests: 3, Assertions: …` |
//! | dotnet test | `Passed! - Failed: 0, Passed: 3, …`, `Test summary: total: 3, …` |
//! | ctest | `100% tests passed, 0 tests failed out of 3` |
//! | deno test | `ok \| 3 passed \| 0 failed` |
//! | bun test | `3 pass`, `0 fail`, then `Ran 3 tests across 1 file` |

use super::TestCounts;
use super::listed::{GoTests, TapTests};

/// The results so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    counts: TestCounts,
    any: bool,
    /// unittest has printed its number of tests, but not yet their result.
    ran: Option<u64>,
    bun: TestCounts,
    go: GoTests,
    tap: TapTests,
}

impl Tally {
    pub(super) fn finish(mut self) -> Option<TestCounts> {
        if let Some(ran) = self.ran.take() {
            self.found(TestCounts { passed: ran, ..TestCounts::default() });
        }
        if self.go.names_all {
            self.found(self.go.counts);
        } else if self.go.found_none && !self.go.ran_some {
            self.found(TestCounts::default());
        }
        if self.tap.planned && !self.tap.summarised {
            self.found(self.tap.counts);
        }
        self.any.then_some(self.counts)
    }

    fn found(&mut self, counts: TestCounts) {
        self.any = true;
        self.counts.add(counts);
    }

    /// Parses one line.
    pub(super) fn read(&mut self, line: &str) {
        let text = line.trim();
        let Some(first) = text.chars().next() else { return };
        match first {
            '{' => self.go.read_event(text),
            '0'..='9' => self.read_number_first(text),
            '=' if text.starts_with("=== RUN") => self.go.names_all = true,
            '=' => self.read_list(text.trim_matches(|c| c == '=' || c == ' ')),
            '#' | 'ℹ' => self.read_tap_summary(text[first.len_utf8()..].trim_start()),
            '-' => self.go.read_result(text),
            '?' if text.ends_with("[no test files]") => self.go.found_none = true,
            _ => self.read_words(line, text),
        }
    }

    fn read_words(&mut self, line: &str, text: &str) {
        let after = |prefix| text.strip_prefix(prefix).map(str::trim_start);
        if let Some(rest) = after("test result: ") {
            if let Some((_, counts)) = rest.split_once(". ") {
                self.read_list(counts);
            }
        } else if let Some(rest) = after("Summary [") {
            // The total repeats what the individual counts say.
            if let Some((_, counts)) = rest.split_once("run:") {
                self.read_list(counts);
            }
        } else if let Some(rest) = after("Tests:") {
            self.read_tests_line(rest);
        } else if let Some(rest) = after("Tests ") {
            if rest == "no tests" {
                self.found(TestCounts::default());
            } else {
                self.read_list(rest);
            }
        } else if let Some(rest) = after("ok | ").or_else(|| after("FAILED | ")) {
            self.read_list(rest);
        } else if let Some(rest) = after("Passed!").or_else(|| after("Failed!")) {
            self.read_keyed(rest.trim_start_matches(['-', ' ']));
        } else if let Some(rest) = after("Test summary:") {
            self.read_keyed(rest);
        } else if let Some(rest) = after("Ran ") {
            self.read_ran(rest);
        } else if text.starts_with("OK") || text.starts_with("FAILED") || text == "NO TESTS RAN" {
            self.read_result(text);
        } else if text.starts_with(['[', 'T']) && text.contains("Tests run:") {
            self.read_surefire(text);
        } else if line.starts_with("ok") || line.starts_with("not ok") {
            self.tap.read(line);
            self.go.read_package(line);
        } else if line.starts_with("FAIL\t") {
            self.go.ran_some = true;
        } else if NO_TESTS.iter().any(|none| text.starts_with(none)) {
            self.found(TestCounts::default());
        }
    }

    /// Parses a line that begins with a number.
    fn read_number_first(&mut self, text: &str) {
        let Some((count, rest)) = number(text) else { return };
        if rest.starts_with("% tests passed,") {
            self.read_ctest(rest);
        } else if let Some(more) = rest.strip_prefix("..") {
            self.tap.planned |= count == 1 && number(more).is_some();
        } else if let Some(what) = ["passing", "failing", "pending"]
            .iter()
            .find(|what| rest.trim_start().strip_prefix(**what).is_some_and(only_a_remark))
        {
            let mut counts = TestCounts::default();
            match *what {
                "passing" => counts.passed = count,
                "failing" => counts.failed = count,
                _ => counts.skipped = count,
            }
            self.found(counts);
        } else if let Some(kind) =
            ["pass", "fail", "skip", "todo"].iter().find(|kind| rest.trim() == **kind)
        {
            match *kind {
                "pass" => self.bun.passed = count,
                "fail" => self.bun.failed = count,
                _ => self.bun.skipped = self.bun.skipped.saturating_add(count),
            }
        } else if !self.read_total_first(count, rest) {
            self.read_list(text);
        }
    }

    /// Parses `12 tests, 1 failure, 2 pending` in the vocabulary of several runners.
    fn read_total_first(&mut self, total: u64, rest: &str) -> bool {
        let Some((unit, parts)) = rest.trim_start().split_once(',') else { return false };
        let units = ["tests", "test", "runs", "run", "examples", "example", "tests completed"];
        if !units.contains(&unit.trim()) && unit.trim() != "test completed" {
            return false;
        }
        let (mut failed, mut skipped) = (0_u64, 0_u64);
        for part in parts.split(',') {
            let Some((count, what)) = number(part.trim()) else { return false };
            match what.trim() {
                "failure" | "failures" | "failed" | "error" | "errors" => {
                    failed = failed.saturating_add(count);
                }
                "skip" | "skips" | "skipped" | "pending" | "pendings" | "omission"
                | "omissions" => skipped = skipped.saturating_add(count),
                _ => {}
            }
        }
        self.found(TestCounts::of_total(total, failed, skipped));
        true
    }

    /// Parses a line that is only a list of `N word`.
    fn read_list(&mut self, text: &str) {
        if text.starts_with("no tests ran") {
            self.found(TestCounts::default());
        } else if let Some(counts) = list(text) {
            self.found(counts);
        }
    }

    /// Parses the text after `Tests:`, which two families of runners write differently.
    fn read_tests_line(&mut self, rest: &str) {
        if rest.contains("Assertions:") {
            let with_key = format!("Tests: {rest}");
            self.read_keyed(with_key.trim_end_matches('.'));
        } else {
            self.read_list(rest);
        }
    }

    /// Parses a list of `Word: N`.
    fn read_keyed(&mut self, text: &str) {
        let (mut total, mut passed, mut failed, mut skipped) = (None, None, 0_u64, 0_u64);
        for part in text.split(',') {
            let Some((key, value)) = part.split_once(':') else { continue };
            let Some((count, _)) = number(value.trim()) else { continue };
            match key.trim().to_ascii_lowercase().as_str() {
                "tests" | "tests run" | "total" => total = Some(count),
                "passed" | "succeeded" => passed = Some(count),
                "failed" | "failures" | "errors" => failed = failed.saturating_add(count),
                "skipped" | "incomplete" | "risky" => skipped = skipped.saturating_add(count),
                _ => {}
            }
        }
        match (total, passed) {
            (_, Some(passed)) => self.found(TestCounts { passed, failed, skipped }),
            (Some(total), None) => self.found(TestCounts::of_total(total, failed, skipped)),
            (None, None) => {}
        }
    }

    fn read_surefire(&mut self, text: &str) {
        let whole_module = !text.contains("Time elapsed") || text.starts_with("[junit]");
        if let (true, Some(at)) = (whole_module, text.find("Tests run:")) {
            self.read_keyed(&text[at..]);
        }
    }

    fn read_ctest(&mut self, rest: &str) {
        let numbers = rest.strip_prefix("% tests passed,").and_then(|rest| number(rest.trim()));
        let Some((failed, rest)) = numbers else { return };
        let total = rest.rsplit_once("out of").and_then(|(_, total)| number(total.trim()));
        if let Some((total, _)) = total {
            self.found(TestCounts::of_total(total, failed, 0));
        }
    }

    /// Parses the text after `Ran`: unittest's count, or the end of bun's summary.
    fn read_ran(&mut self, rest: &str) {
        let Some((count, rest)) = number(rest) else { return };
        let rest = rest.trim_start().trim_start_matches("tests").trim_start_matches("test");
        if rest.starts_with(" in ") {
            self.ran = Some(count);
        } else if rest.starts_with(" across ") {
            let bun = std::mem::take(&mut self.bun);
            self.found(bun);
        }
    }

    /// Parses the result line of unittest, `PHPUnit` or `JUnit`.
    fn read_result(&mut self, text: &str) {
        let details =
            text.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')).unwrap_or_default();
        if let Some(ran) = self.ran.take() {
            let (mut failed, mut skipped) = (0_u64, 0_u64);
            for detail in details.split(',') {
                let Some((what, count)) = detail.split_once('=') else { continue };
                let count = number(count).map_or(0, |(count, _)| count);
                match what.trim() {
                    "failures" | "errors" | "unexpected successes" => {
                        failed = failed.saturating_add(count);
                    }
                    "skipped" | "expected failures" => skipped = skipped.saturating_add(count),
                    _ => {}
                }
            }
            self.found(TestCounts::of_total(ran, failed, skipped));
        } else if let Some((passed, rest)) = number(details)
            && text.starts_with("OK (")
            && rest.starts_with(" test")
        {
            self.found(TestCounts { passed, ..TestCounts::default() });
        }
    }

    fn read_tap_summary(&mut self, text: &str) {
        let Some((what, count)) = text.split_once(' ') else { return };
        let Some((count, "")) = number(count.trim()) else { return };
        let mut counts = TestCounts::default();
        match what {
            "tests" => self.tap.summarised = true,
            "pass" => counts.passed = count,
            "fail" | "cancelled" => counts.failed = count,
            "skipped" | "todo" => counts.skipped = count,
            _ => return,
        }
        // Before the line that begins the summary, such lines are arbitrary comments.
        if self.tap.summarised {
            self.found(counts);
        }
    }
}

/// Messages of runners that found no tests.
const NO_TESTS: [&str; 7] = [
    "no tests ran in",
    "No tests found",
    "No test files found",
    "No tests were found!!!",
    "No tests executed!",
    "[INFO] No tests to run",
    "No test is available in",
];

/// Splits off a leading number.
pub(super) fn number(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok().map(|number| (number, &text[end..]))
}

/// Whether only a remark in parentheses is left.
fn only_a_remark(rest: &str) -> bool {
    let rest = rest.trim();
    rest.is_empty() || (rest.starts_with('(') && rest.ends_with(')'))
}

/// Parses a list of `N word`, separated by `,`, `;` or `|`; `None` if there is anything else.
fn list(text: &str) -> Option<TestCounts> {
    let (text, timed) = match text.rsplit_once(" in ") {
        Some((list, time)) if time.starts_with(|c: char| c.is_ascii_digit()) => (list, true),
        _ => (text, false),
    };
    let mut counts = TestCounts::default();
    let mut of_tests = timed;
    let mut depth = 0_u32;
    let items = text.split(|c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && matches!(c, ',' | ';' | '|')
    });
    let mut any = false;
    for item in items {
        let item = item.split_once('(').map_or(item, |(item, _)| item).trim();
        if item.is_empty() || item.starts_with("finished") {
            continue;
        }
        let (count, word) = number(item)?;
        let word = word.strip_prefix(' ')?.trim_start();
        let counted = match word {
            // A flaky test passed in the end, and is not counted among those that passed at once.
            "passed" | "succeeded" | "xpassed" | "flaky" => &mut counts.passed,
            "failed" | "error" | "errors" | "timed out" | "exec failed" => &mut counts.failed,
            "skipped" | "ignored" | "pending" | "todo" | "disabled" | "xfailed" | "deselected"
            | "did not run" | "interrupted" => &mut counts.skipped,
            "warning" | "warnings" | "total" | "measured" | "filtered out" | "rerun"
            | "subtests passed" => continue,
            _ => return None,
        };
        *counted = counted.saturating_add(count);
        any = true;
        // Compilers count errors as well; a test runner prints more than that.
        of_tests |= !matches!(word, "error" | "errors");
    }
    (any && of_tests).then_some(counts)
}
