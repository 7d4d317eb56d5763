//! The names of passed tests, if a runner prints them.
//!
//! | runner | a test that passed |
//! |---|---|
//! | cargo test, unittest -v, deno | `test NAME ... ok`, `NAME (CLASS) ... ok` |
//! | cargo nextest | `PASS [ 0.1s] CRATE NAME` |
//! | pytest -rp | `PASSED FILE::NAME` |
//! | go test -v, -json | `--- PASS: NAME (0.00s)`, an event with the action `pass` |
//! | TAP, node, bats | `ok 1 - NAME` |
//! | jest, vitest, mocha, node | `✓ NAME (3 ms)` |
//! | ctest, dotnet, bun | `Test #1: NAME … Passed`, `Passed NAME [1 ms]`, `(pass) NAME` |
//!
//! If a test itself prints something, unittest and cargo with `--nocapture` write their `ok` on a line of its own, below.
//!
//! Several tests may share a name (in two crates, files or suites), so names are counted. They are complete only if
//! there are at least as many as the runner's count of passed tests.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// More than any project has, and not enough to exhaust memory.
const MOST: usize = 200_000;
const LONGEST: usize = 500;

/// The tests that passed, with a count per name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassedTests {
    names: BTreeMap<String, u32>,
}

impl PassedTests {
    /// Returns the names that passed less often in another run.
    pub(crate) fn missing_in(&self, other: &PassedTests) -> Vec<String> {
        let count = |name: &String| other.names.get(name).copied().unwrap_or_default();
        let missing = self.names.iter().filter(|(name, passed)| count(name) < **passed);
        missing.map(|(name, _)| name.clone()).collect()
    }

    /// Returns all names.
    #[cfg(test)]
    pub(crate) fn all(&self) -> Vec<String> {
        self.names.keys().cloned().collect()
    }

    /// Whether a test of this name passed.
    pub fn contains(&self, name: &str) -> bool {
        self.names.contains_key(name)
    }

    #[cfg(test)]
    pub(crate) fn of<const N: usize>(names: [&str; N]) -> PassedTests {
        PassedTests { names: names.into_iter().map(|name| (name.to_owned(), 1)).collect() }
    }

    fn total(&self) -> u64 {
        self.names.values().map(|count| u64::from(*count)).sum()
    }
}

/// Extracts names from the lines of an output.
#[derive(Clone, Debug, Default)]
pub(super) struct NameReader {
    found: PassedTests,
    too_many: bool,
    /// The test whose output is being read: its result has not been printed yet.
    begun: Option<String>,
}

impl NameReader {
    /// Parses one line, as a terminal would show it.
    pub(super) fn read(&mut self, line: &str) {
        let text = line.trim();
        let name = match passed_name(text) {
            Some(name) => name,
            None if text == "ok" => match self.begun.take() {
                Some(name) => name,
                None => return,
            },
            None => {
                if is_result(text) {
                    self.begun = None;
                } else if let Some(name) = begun_name(text) {
                    self.begun = Some(name);
                }
                return;
            }
        };
        let name: String = name.chars().take(LONGEST).collect();
        if name.is_empty() {
            return;
        }
        if self.found.names.len() >= MOST && !self.found.names.contains_key(&name) {
            self.too_many = true;
            return;
        }
        *self.found.names.entry(name).or_default() += 1;
    }

    /// Returns the names, if there are as many as the runner's count of passed tests.
    pub(super) fn finish(self, passed: Option<u64>) -> Option<PassedTests> {
        let total = self.found.total();
        let are_all = !self.too_many && total > 0 && passed.is_none_or(|passed| total >= passed);
        are_all.then_some(self.found)
    }
}

/// Returns the test that a line reports as passed.
fn passed_name(text: &str) -> Option<String> {
    if let Some(name) = text.strip_prefix("--- PASS: ") {
        return Some(without_time(name).to_owned());
    }
    if let Some(rest) = text.strip_prefix("PASS [") {
        let name = rest.split_once(']')?.1.trim();
        let name = name
            .strip_prefix('(')
            .and_then(|rest| rest.split_once(") "))
            .map_or(name, |(_, name)| name);
        return Some(name.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    if let Some(name) = text.strip_prefix("PASSED ").filter(|name| name.contains("::")) {
        return Some(name.to_owned());
    }
    if let Some(name) = text.strip_prefix("(pass) ") {
        return Some(without_time(name).to_owned());
    }
    if let Some(name) =
        text.strip_prefix("Passed ").filter(|name| name.ends_with("ms]") || name.ends_with("s]"))
    {
        return Some(without_time(name).to_owned());
    }
    if let Some(name) = text.strip_prefix(['✓', '✔', '√']) {
        return Some(without_time(name.trim()).to_owned());
    }
    if text.starts_with('{') && text.contains("\"Action\":\"pass\"") {
        return go_event(text);
    }
    if let Some(rest) = text.strip_prefix("ok ") {
        return tap_name(rest);
    }
    if let Some((_, rest)) = text.split_once("Test ").filter(|(_, rest)| rest.starts_with('#')) {
        let (name, end) = rest.split_once(": ")?.1.split_once(' ')?;
        return end.contains(" Passed ").then(|| name.to_owned());
    }
    let (name, _) = text
        .rsplit_once(" ... ok")
        .filter(|(_, rest)| rest.is_empty() || rest.starts_with(" ("))?;
    Some(before_dots(name))
}

/// Returns the name of a test from what is printed before the dots.
fn before_dots(text: &str) -> String {
    let name = text.strip_prefix("test ").unwrap_or(text).trim();
    // The line number of a doctest changes with everything above it.
    match name.rsplit_once(" (line ") {
        Some((name, rest)) => match rest.split_once(')') {
            Some((_, mark)) => format!("{name}{mark}"),
            None => name.to_owned(),
        },
        None => name.to_owned(),
    }
}

/// Returns the test that begins on a line, which continues with output of the test instead of a result:
/// `NAME (MODULE.CLASS) ... output`, `test NAME ... output`.
fn begun_name(text: &str) -> Option<String> {
    let (name, rest) = text.split_once(" ...")?;
    let is_name = name.starts_with("test ")
        || name.strip_suffix(')').and_then(|name| name.rsplit_once(" (")).is_some_and(
            |(name, class)| !name.is_empty() && class.contains('.') && !class.contains(' '),
        );
    (is_name && !is_result(rest.trim())).then(|| before_dots(name))
}

/// Whether a line, or what follows the dots, is a result other than `ok`.
fn is_result(text: &str) -> bool {
    let results = ["FAIL", "ERROR", "skipped", "ignored", "expected failure", "unexpected success"];
    results.iter().any(|result| text.starts_with(result))
}

fn tap_name(rest: &str) -> Option<String> {
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    if end == 0 {
        return None;
    }
    let name = rest[end..].trim().trim_start_matches("- ");
    if let Some((_, directive)) = name.rsplit_once(" # ") {
        let directive = directive.to_ascii_lowercase();
        if directive.starts_with("skip") || directive.starts_with("todo") {
            return None;
        }
    }
    Some(without_time(name).to_owned())
}

fn go_event(text: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Event {
        #[serde(rename = "Package")]
        package: Option<String>,
        #[serde(rename = "Test")]
        test: Option<String>,
    }
    let event: Event = serde_json::from_str(text).ok()?;
    Some(format!("{} {}", event.package?, event.test?))
}

/// Removes the duration of a test, which varies: `(3 ms)`, `[0.2s]`, `12ms`.
fn without_time(name: &str) -> &str {
    let is_time = |text: &str| {
        let text = text.trim_matches(['(', ')', '[', ']', ' ']);
        let number = text.trim_end_matches(['m', 's', 'µ', ' ']);
        number.len() < text.len()
            && !number.is_empty()
            && number.chars().all(|c| c.is_ascii_digit() || c == '.')
    };
    let name = name.trim_end();
    for open in [" (", " ["] {
        if let Some((before, time)) = name.rsplit_once(open)
            && is_time(time)
        {
            return before.trim_end();
        }
    }
    match name.rsplit_once(' ') {
        Some((before, time)) if is_time(time) => before.trim_end(),
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(output: &str) -> Vec<String> {
        let mut reader = NameReader::default();
        output.lines().for_each(|line| reader.read(line));
        reader.finish(None).map(|found| found.all()).unwrap_or_default()
    }

    #[test]
    fn names_are_read_as_runners_write_them() {
        for (line, expected) in [
            ("test tests::is_one ... ok", "tests::is_one"),
            ("test tests::fails - should panic ... ok", "tests::fails - should panic"),
            ("test src/lib.rs - one (line 12) ... ok", "src/lib.rs - one"),
            ("test src/lib.rs - one (line 12) - compile ... ok", "src/lib.rs - one - compile"),
            ("test_a (tests.test_x.T.test_a) ... ok", "test_a (tests.test_x.T.test_a)"),
            ("adds two ... ok (3ms)", "adds two"),
            ("        PASS [   0.004s] one tests::is_one", "one tests::is_one"),
            ("        PASS [   0.004s] (2/9) one tests::is_one", "one tests::is_one"),
            ("PASSED tests/test_a.py::test_b[x - y]", "tests/test_a.py::test_b[x - y]"),
            ("--- PASS: TestA (0.00s)", "TestA"),
            ("    --- PASS: TestA/sub (0.00s)", "TestA/sub"),
            (r#"{"Action":"pass","Package":"a/b","Test":"TestA","Elapsed":0}"#, "a/b TestA"),
            ("ok 1 - adds", "adds"),
            ("    ok 2 adds more # time=3ms", "adds more # time=3ms"),
            ("  ✓ adds (3 ms)", "adds"),
            ("✔ adds (0.512ms)", "adds"),
            (" ✓ src/a.test.ts > adds 4ms", "src/a.test.ts > adds"),
            ("1/2 Test #1: one .....................   Passed    0.01 sec", "one"),
            ("  Passed Name.Space.Test [5 ms]", "Name.Space.Test"),
            ("(pass) adds > two [0.10ms]", "adds > two"),
        ] {
            assert_eq!(names(line), [expected], "{line}");
        }
        for line in [
            "test tests::a ... FAILED",
            "test tests::a ... ignored",
            "ok 3 - later # SKIP not now",
            "ok  \tgithub.com/a/b\t0.1s",
            "PASS",
            "PASSED",
            r#"{"Action":"pass","Package":"a/b"}"#,
            "--- FAIL: TestA (0.00s)",
            "everything is ok",
        ] {
            assert_eq!(names(line), [""; 0], "{line}");
        }
    }

    #[test]
    fn a_result_below_the_output_of_its_test_counts() {
        let output = "test_add (test_calc.T.test_add) ... ok\n\
            test_log (test_calc.T.test_log) ... WARNING:root:slow\n\
            ok\n\
            test_old (test_calc.T.test_old) ... /p/test_calc.py:3: DeprecationWarning: old\n  warnings.warn(\"old\")\n\
            ok\n\
            test_bad (test_calc.T.test_bad) ... seen\n\
            FAIL\n\
            ok\n\
            test_net (test_calc.T.test_net) ... skipped 'no network'\n\
            ok\n\
            loading (step 1) ... done\n\
            ok\n";
        assert_eq!(
            names(output),
            [
                "test_add (test_calc.T.test_add)",
                "test_log (test_calc.T.test_log)",
                "test_old (test_calc.T.test_old)"
            ]
        );
        assert_eq!(names("test tests::prints ... hello\nok\n"), ["tests::prints"]);
    }

    #[test]
    fn names_count_and_are_known_only_if_none_is_missing() {
        let read = |output: &str, passed| {
            let mut reader = NameReader::default();
            output.lines().for_each(|line| reader.read(line));
            reader.finish(passed)
        };
        let twice =
            read("test t::one ... ok\ntest t::one ... ok\ntest t::two ... ok", Some(3)).unwrap();
        let once =
            read("test t::one ... ok\ntest t::two ... ok\ntest t::more ... ok", Some(3)).unwrap();
        assert_eq!(twice.missing_in(&once), ["t::one"]);
        assert_eq!(twice.missing_in(&twice), [""; 0]);
        assert_eq!(read("test t::one ... ok", Some(2)), None);
        assert_eq!(read("", Some(0)), None);
    }
}
