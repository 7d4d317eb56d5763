//! The tests in one version of a file.

use super::language::{Language, Sign, SourceLine};
use super::protect::{Protection, protection};
use super::source::code_lines;
use super::{FileVersion, counted, take};

/// A relevant line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) line: usize,
    pub(super) text: String,
}

/// One test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Test {
    pub(super) name: String,
    pub(super) line: usize,
    /// The line that keeps it from running.
    pub(super) skipped: Option<Mark>,
    /// The significant lines of code.
    body: Vec<String>,
}

impl Test {
    /// Whether most of this test is contained in another.
    pub(super) fn resembles(&self, other: &Test) -> bool {
        let mut lines = counted(other.body.iter().map(String::as_str));
        let shared = self.body.iter().filter(|line| take(&mut lines, line)).count();
        shared * 2 > self.body.len()
    }

    /// Whether this test had assertions, and `now` is a stub of it without any.
    pub(super) fn hollowed_to(&self, now: &Test) -> bool {
        let asserts = |test: &Test| test.body.iter().any(|line| is_assertion(line));
        asserts(self) && !asserts(now) && now.body.len() * 2 <= self.body.len()
    }
}

/// Whether a line asserts something, judging by its words.
fn is_assertion(code: &str) -> bool {
    const WORDS: [&str; 12] = [
        "assert", "expect", "should", "require", "check", "verify", "must", "fail", "error",
        "fatal", "throws", "raises",
    ];
    const TRIVIAL: [&str; 7] = [
        "assert!(true)",
        "asserttrue",
        "expect(true).tobe(true)",
        "asserttrue(true)",
        "assert.true(true)",
        "assert.ok(true)",
        "self.asserttrue(true)",
    ];
    let compact: String =
        code.chars().filter(|c| !c.is_whitespace() && *c != ';').collect::<String>().to_lowercase();
    WORDS.iter().any(|word| compact.contains(word)) && !TRIVIAL.contains(&compact.as_str())
}

/// Whether a line is certainly an assertion.
fn is_plain_assertion(code: &str) -> bool {
    let code = code.to_lowercase();
    ["assert", "expect", "should", "require.", "t.error", "t.fatal"]
        .iter()
        .any(|word| code.contains(word))
}

/// The tests found in a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Scan {
    pub(super) tests: Vec<Test>,
    /// Lines that keep several tests from running.
    pub(super) skips: Vec<Mark>,
    pub(super) focuses: Vec<Mark>,
}

/// The state of a scan between two lines.
#[derive(Default)]
struct Pending {
    test: bool,
    skip: Option<Mark>,
    /// Whether the last test continues.
    inside: bool,
    indent: usize,
}

impl Scan {
    pub(super) fn of(version: FileVersion<'_>) -> Scan {
        let mut scan = Scan::default();
        let Some(language) = Language::of(version.path) else { return scan };
        if !language.tests_anywhere && protection(version.path) != Some(Protection::Tests) {
            return scan;
        }
        let code = code_lines(version.text, &language.syntax);
        let mut pending = Pending::default();
        for (at, raw) in version.text.lines().enumerate() {
            let line = SourceLine { code: code[at].trim(), raw, below: &code[at + 1..] };
            let indent = raw.len() - raw.trim_start().len();
            scan.read(line, at + 1, indent, &(language.signs)(line), &mut pending);
        }
        scan
    }

    fn read(
        &mut self,
        line: SourceLine<'_>,
        number: usize,
        indent: usize,
        signs: &[Sign],
        pending: &mut Pending,
    ) {
        let mark = || Mark { line: number, text: line.code.to_owned() };
        let mut declared = false;
        for sign in signs {
            match sign {
                Sign::TestFollows => pending.test = true,
                Sign::SkipFollows => pending.skip = Some(mark()),
                Sign::SkipAll => {
                    self.skips.push(Mark { text: line.raw.trim().to_owned(), ..mark() });
                }
                Sign::Focus => self.focuses.push(mark()),
                Sign::SkipHere => match self.tests.last_mut().filter(|_| pending.inside) {
                    Some(test) if test.skipped.is_none() => test.skipped = Some(mark()),
                    Some(_) => {}
                    None => self.skips.push(mark()),
                },
                Sign::Test { name, skipped } => {
                    let skip = pending.skip.take().or_else(|| skipped.then(mark));
                    self.begin(name, number, skip, line.code);
                    (pending.test, pending.inside, pending.indent, declared) =
                        (false, true, indent, true);
                }
                Sign::Function { name } if pending.test => {
                    let skip = pending.skip.take();
                    self.begin(name, number, skip, line.code);
                    (pending.test, pending.inside, pending.indent, declared) =
                        (false, true, indent, true);
                }
                Sign::Function { .. } => {
                    pending.skip = None;
                    pending.inside &= indent > pending.indent;
                }
                Sign::Container => {
                    self.skips.extend(pending.skip.take());
                    pending.test = false;
                    pending.inside &= indent > pending.indent;
                }
            }
        }
        let says_something = line.code.contains(|c: char| c.is_alphanumeric());
        if let Some(test) = self.tests.last_mut().filter(|_| pending.inside && !declared)
            && says_something
            && !pending.test
        {
            test.body.push(line.code.to_owned());
        }
    }

    fn begin(&mut self, name: &str, line: usize, skipped: Option<Mark>, code: &str) {
        // The declaration line is part of the body only if the whole test is on it.
        let rest = if name.is_empty() { code.to_owned() } else { code.replace(name, "") };
        let body = if is_assertion(&rest) { vec![rest] } else { vec![] };
        self.tests.push(Test { name: name.to_owned(), line, skipped, body });
    }
}

/// Returns the assertions of the base's tests that are commented out in the candidate.
pub(super) fn commented_out(base: &Scan, candidate: FileVersion<'_>) -> Vec<Mark> {
    let Some(language) = Language::of(candidate.path) else { return vec![] };
    let after = code_lines(candidate.text, &language.syntax);
    let in_tests = base.tests.iter().flat_map(|test| &test.body).map(String::as_str);
    let mut gone = counted(in_tests.filter(|line| is_plain_assertion(line)));
    for line in &after {
        take(&mut gone, line.trim());
    }
    let mut marks = Vec::new();
    for (at, raw) in candidate.text.lines().enumerate() {
        if !after[at].trim().is_empty() {
            continue;
        }
        let mut text = raw.trim();
        for comment in language.syntax.line_comments.iter().chain(&["/*", "*"]) {
            text = text.strip_prefix(comment.trim()).unwrap_or(text);
        }
        let text = text.trim().trim_end_matches("*/").trim();
        if !text.is_empty() && take(&mut gone, text) {
            marks.push(Mark { line: at + 1, text: text.to_owned() });
        }
    }
    marks
}
