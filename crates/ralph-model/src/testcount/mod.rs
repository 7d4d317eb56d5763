//! Counts the tests that a gate executed, from the output of its test runner.
//!
//! The output is read once, as a stream: lines longer than any summary are skipped, and only counts and the names of
//! passed tests are kept. Counts of several runners in one output are added. An unknown runner, or one without counts,
//! gives `None`, which differs from zero. The counts are what the output says: they detect missing tests, not a program
//! that prints lies; the gate's exit code and the pinned command cover those.

mod failures;
mod listed;
mod names;
mod runners;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

pub use failures::reports_failure;
use names::NameReader;
pub use names::PassedTests;
use runners::Tally;

/// No line of a summary is longer than this.
const LONGEST_LINE: usize = 4096;

/// The test results of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TestCounts {
    pub passed: u64,
    pub failed: u64,
    /// Not executed, or executed without counting: ignored, pending, expected to fail.
    pub skipped: u64,
}

impl TestCounts {
    /// How many tests were executed.
    pub const fn executed(self) -> u64 {
        self.passed.saturating_add(self.failed)
    }

    fn add(&mut self, more: TestCounts) {
        self.passed = self.passed.saturating_add(more.passed);
        self.failed = self.failed.saturating_add(more.failed);
        self.skipped = self.skipped.saturating_add(more.skipped);
    }

    /// Splits a total into parts; tests that neither failed nor were skipped have passed.
    fn of_total(total: u64, failed: u64, skipped: u64) -> TestCounts {
        TestCounts { passed: total.saturating_sub(failed.saturating_add(skipped)), failed, skipped }
    }
}

/// Parses the output of a gate incrementally.
#[derive(Clone, Debug, Default)]
pub struct TestCounter {
    line: Vec<u8>,
    too_long: bool,
    tally: Tally,
    names: NameReader,
}

/// The test results in an output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TestReport {
    pub counts: Option<TestCounts>,
    /// The tests that passed, if all of them are named.
    pub names: Option<PassedTests>,
}

impl TestCounter {
    pub fn new() -> TestCounter {
        TestCounter::default()
    }

    /// Parses the next chunk of output, split anywhere.
    pub fn feed(&mut self, mut output: &[u8]) {
        while let Some(end) = output.iter().position(|byte| *byte == b'\n') {
            self.extend(&output[..end]);
            self.end_line();
            output = &output[end + 1..];
        }
        self.extend(output);
    }

    /// Returns the result for the whole output.
    pub fn finish(mut self) -> TestReport {
        self.end_line();
        let counts = self.tally.finish();
        let names = self.names.finish(counts.map(|counts| counts.passed));
        TestReport { counts, names }
    }

    fn extend(&mut self, piece: &[u8]) {
        if self.too_long || self.line.len() + piece.len() > LONGEST_LINE {
            self.too_long = true;
            self.line.clear();
        } else {
            self.line.extend_from_slice(piece);
        }
    }

    fn end_line(&mut self) {
        if !self.too_long && may_count(&self.line) {
            let line = plain(&self.line);
            self.tally.read(&line);
            self.names.read(&line);
        }
        self.line.clear();
        self.too_long = false;
    }
}

/// Whether a line starts like a relevant one; makes floods of other lines cheap.
fn may_count(line: &[u8]) -> bool {
    let first = line.iter().find(|byte| !byte.is_ascii_whitespace());
    let hidden = || line.contains(&b'\r');
    first.is_some_and(|first| {
        first.is_ascii_digit()
            || !first.is_ascii()
            || b"\x1b{=#-?[(tnoTNOFPRS".contains(first)
            // unittest prints a test's description in the place of its name.
            || line.trim_ascii_end().ends_with(b" ... ok")
            || hidden()
    })
}

/// Returns the text a terminal would show for a line: without escape sequences and overwritten text.
fn plain(line: &[u8]) -> Cow<'_, str> {
    if !line.contains(&0x1b) && !line.contains(&b'\r') {
        return String::from_utf8_lossy(line);
    }
    let mut text = Vec::with_capacity(line.len());
    let mut bytes = line.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            0x1b => match bytes.next() {
                // A control sequence ends at its first byte from `@` on.
                Some(b'[') => {
                    while bytes.next().is_some_and(|byte| !(0x40..=0x7e).contains(&byte)) {}
                }
                // An operating system command ends with BEL or with ESC and a backslash.
                Some(b']') => {
                    while let Some(byte) = bytes.next() {
                        if byte == 0x07 || byte == 0x1b {
                            bytes.next_if_eq(&b'\\');
                            break;
                        }
                    }
                }
                _ => {}
            },
            b'\r' if bytes.peek().is_some() => text.clear(),
            b'\r' => {}
            byte => text.push(byte),
        }
    }
    Cow::Owned(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
#[path = "testcount_tests.rs"]
mod tests;
