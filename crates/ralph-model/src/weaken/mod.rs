//! Detects whether a change weakens what it is judged by: tests, CI, gates and runner configuration.
//!
//! Only what exists at the base is protected; anything new is allowed, even a skipped new test. Names matter, not
//! locations: a test found in another changed file, or under another name with most of its body, still exists. The
//! person's globs (from the spec or the configuration, never from a plan) allow what they match.
//!
//! It works on text, line by line. It finds obvious changes; carefully hollowed-out tests are left to the gates' counts
//! and to the verifier.

mod config;
mod language;
mod protect;
mod scan;
mod signs;
mod source;

use std::collections::HashMap;
use std::fmt;

use crate::glob::Glob;
use language::Language;
use protect::Protection;
use protect::protection;
use scan::{Scan, Test};

/// One version of a file.
#[derive(Clone, Copy, Debug)]
pub struct FileVersion<'a> {
    pub path: &'a str,
    pub text: &'a str,
}

/// A file that differs between base and candidate. A rename has both versions, with different paths.
#[derive(Clone, Copy, Debug)]
pub struct ChangedFile<'a> {
    pub base: Option<FileVersion<'a>>,
    pub candidate: Option<FileVersion<'a>>,
}

/// One way in which a change weakens its checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Weakening {
    /// Its current path, or its former one if it is gone.
    path: String,
    /// The line in the candidate, if any.
    line: Option<usize>,
    what: Weakened,
}

/// What was weakened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Weakened {
    FileDeleted {
        protection: Protection,
    },
    /// Nothing is left in the file.
    FileEmptied {
        protection: Protection,
    },
    /// The file moved to where no runner looks for tests.
    TestsMovedAway {
        from: String,
    },
    TestDeleted {
        name: String,
    },
    TestSkipped {
        name: String,
        by: String,
    },
    /// Several tests at once: a module, a class, a suite or the file.
    TestsSkipped {
        by: String,
    },
    /// All other tests are left out.
    TestsFocused {
        by: String,
    },
    /// Most of the test is gone, its assertions with it.
    TestHollowed {
        name: String,
    },
    AssertionCommentedOut {
        assertion: String,
    },
    /// CI ignores a failing check, or does not run it.
    CiDefused {
        by: String,
    },
    CiChecksRemoved {
        before: usize,
        after: usize,
    },
    GatesChanged,
    /// A runner is configured to skip tests or to pass without any.
    RunnerDefused {
        by: String,
    },
}

impl fmt::Display for Weakened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Weakened::FileDeleted { protection } => write!(f, "a file of {protection} was deleted"),
            Weakened::FileEmptied { protection } => write!(f, "a file of {protection} was emptied"),
            Weakened::TestsMovedAway { from } => {
                write!(f, "the tests of `{from}` were moved where no runner finds them")
            }
            Weakened::TestDeleted { name } => write!(f, "the test `{name}` was deleted"),
            Weakened::TestSkipped { name, by } => {
                write!(f, "the test `{name}` no longer runs because of `{by}`")
            }
            Weakened::TestsSkipped { by } => {
                write!(f, "tests no longer run because of `{by}`")
            }
            Weakened::TestsFocused { by } => write!(f, "all other tests are left out by `{by}`"),
            Weakened::TestHollowed { name } => {
                write!(f, "the test `{name}` no longer asserts anything")
            }
            Weakened::AssertionCommentedOut { assertion } => {
                write!(f, "the assertion `{assertion}` was commented out")
            }
            Weakened::CiDefused { by } => write!(f, "CI no longer fails because of `{by}`"),
            Weakened::CiChecksRemoved { before, after } => {
                write!(f, "CI ran {before} checks in this file and now runs {after}")
            }
            Weakened::GatesChanged => f.write_str("the configuration of the gates was changed"),
            Weakened::RunnerDefused { by } => write!(f, "tests are left out because of `{by}`"),
        }
    }
}

impl fmt::Display for Weakening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.path, self.what),
            None => write!(f, "{}: {}", self.path, self.what),
        }
    }
}

/// Returns the signs that a change weakens its checks, one line each, for reviewers.
pub fn signs_of_weakening(changes: &[ChangedFile<'_>]) -> Vec<String> {
    weakenings(changes, &[]).iter().map(ToString::to_string).collect()
}

/// Returns all weakenings of a change that `allowed` does not match, in file order.
pub(crate) fn weakenings(changes: &[ChangedFile<'_>], allowed: &[Glob]) -> Vec<Weakening> {
    let mut found = Vec::new();
    let mut moves = Moves::of(changes);
    for change in changes {
        let Some(base) = change.base else { continue };
        if allowed.iter().any(|glob| glob.matches(base.path)) {
            continue;
        }
        if let Some(weakening) = lost_as_a_whole(base, change.candidate) {
            let tests = Scan::of(base);
            // A file whose tests all exist elsewhere was split, not lost.
            let all_found =
                !tests.tests.is_empty() && tests.tests.iter().all(|test| moves.take(base, test));
            if !all_found {
                found.push(weakening);
            }
            continue;
        }
        let Some(candidate) = change.candidate else { continue };
        match protection(base.path) {
            Some(Protection::Ci) => found.extend(config::ci(base, candidate)),
            Some(Protection::Gates) if base.text != candidate.text => {
                found.push(at(candidate, None, Weakened::GatesChanged));
            }
            Some(Protection::Runner) => found.extend(config::runner(base, candidate)),
            _ => {}
        }
        found.extend(in_tests(base, candidate, &mut moves));
    }
    found
}

fn at(version: FileVersion<'_>, line: Option<usize>, what: Weakened) -> Weakening {
    Weakening { path: version.path.to_owned(), line, what }
}

/// Returns what happened to a file that changed as a whole.
fn lost_as_a_whole(base: FileVersion<'_>, candidate: Option<FileVersion<'_>>) -> Option<Weakening> {
    let protection = protection(base.path).or_else(|| {
        let inline = Language::of(base.path).is_some_and(|language| language.tests_anywhere);
        (inline && !Scan::of(base).tests.is_empty()).then_some(Protection::Tests)
    })?;
    if base.text.trim().is_empty() {
        return None;
    }
    let Some(candidate) = candidate else {
        return Some(at(base, None, Weakened::FileDeleted { protection }));
    };
    if candidate.text.trim().is_empty() {
        return Some(at(candidate, None, Weakened::FileEmptied { protection }));
    }
    let still_found = self::protection(candidate.path).is_some()
        || Language::of(candidate.path).is_some_and(|language| language.tests_anywhere);
    if candidate.path != base.path && !still_found {
        return Some(match protection {
            Protection::Tests => {
                at(candidate, None, Weakened::TestsMovedAway { from: base.path.to_owned() })
            }
            protection => at(base, None, Weakened::FileDeleted { protection }),
        });
    }
    None
}

/// Compares the tests of two versions of a file.
fn in_tests(
    base: FileVersion<'_>,
    candidate: FileVersion<'_>,
    moves: &mut Moves,
) -> Vec<Weakening> {
    let (before, after) = (Scan::of(base), Scan::of(candidate));
    let mut found = Vec::new();
    let mut left: Vec<&Test> = after.tests.iter().collect();
    for test in &before.tests {
        // Match tests of the same name one to one.
        let Some(position) = left.iter().position(|now| now.name == test.name) else {
            let gone = test.skipped.is_none() && !moves.take(base, test);
            if gone {
                found.push(at(candidate, None, Weakened::TestDeleted { name: test.name.clone() }));
            }
            continue;
        };
        let now = left.remove(position);
        let name = || test.name.clone();
        if let (None, Some(mark)) = (&test.skipped, &now.skipped) {
            let what = Weakened::TestSkipped { name: name(), by: mark.text.clone() };
            found.push(at(candidate, Some(mark.line), what));
        } else if test.hollowed_to(now) {
            found.push(at(candidate, Some(now.line), Weakened::TestHollowed { name: name() }));
        }
    }
    if !before.tests.is_empty() || protection(base.path) == Some(Protection::Tests) {
        let added = |before: &[scan::Mark], after: &[scan::Mark]| -> Vec<scan::Mark> {
            let mut known = counted(before.iter().map(|mark| mark.text.as_str()));
            let known_again = |mark: &&scan::Mark| !take(&mut known, &mark.text);
            after.iter().filter(known_again).cloned().collect()
        };
        for mark in added(&before.skips, &after.skips) {
            found.push(at(candidate, Some(mark.line), Weakened::TestsSkipped { by: mark.text }));
        }
        for mark in added(&before.focuses, &after.focuses) {
            found.push(at(candidate, Some(mark.line), Weakened::TestsFocused { by: mark.text }));
        }
        found.extend(scan::commented_out(&before, candidate).into_iter().map(|mark| {
            let what = Weakened::AssertionCommentedOut { assertion: mark.text };
            at(candidate, Some(mark.line), what)
        }));
    }
    found
}

/// Counts equal texts.
fn counted<'a>(texts: impl Iterator<Item = &'a str>) -> HashMap<String, usize> {
    let mut counts = HashMap::new();
    for text in texts {
        *counts.entry(text.to_owned()).or_default() += 1;
    }
    counts
}

/// Takes one of the counted texts, if any is left.
fn take(counts: &mut HashMap<String, usize>, text: &str) -> bool {
    match counts.get_mut(text) {
        Some(left) if *left > 0 => {
            *left -= 1;
            true
        }
        _ => false,
    }
}

/// The new tests of each file: candidates for where a removed test moved.
struct Moves {
    arrived: Vec<(&'static str, Test)>,
}

impl Moves {
    fn of(changes: &[ChangedFile<'_>]) -> Moves {
        let mut arrived = Vec::new();
        for change in changes {
            let Some(candidate) = change.candidate else { continue };
            let Some(language) = Language::of(candidate.path) else { continue };
            let before = change.base.map(Scan::of).unwrap_or_default();
            let mut known = counted(before.tests.iter().map(|test| test.name.as_str()));
            let new = Scan::of(candidate).tests.into_iter();
            let new = new.filter(|test| !take(&mut known, &test.name) && test.skipped.is_none());
            arrived.extend(new.map(|test| (language.family, test)));
        }
        Moves { arrived }
    }

    /// Takes the test that `test` may have become, by name or by body.
    fn take(&mut self, version: FileVersion<'_>, test: &Test) -> bool {
        let Some(language) = Language::of(version.path) else { return false };
        let mut candidates =
            self.arrived.iter().enumerate().filter(|(_, (family, _))| *family == language.family);
        let same_name = candidates
            .clone()
            .find(|(_, (_, new))| new.name == test.name && !test.hollowed_to(new));
        let found = same_name.or_else(|| candidates.find(|(_, (_, new))| test.resembles(new)));
        match found.map(|(at, _)| at) {
            Some(at) => {
                self.arrived.swap_remove(at);
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
#[path = "weaken_tests.rs"]
mod tests;
