//! A verifier's answers about changed checks, path by path, in a testable form.
//!
//! A one-word verdict says nothing about a changed check. So each path whose old version the work fails with gets its
//! own line:
//!
//! ```text
//! CHECK tests/a.py: asked: a passage of the spec
//! CHECK tests/b.py: refactor: the test before => the test now
//! CHECK tests/c.py: weaker: why
//! ```
//!
//! An [`Agreement`] can be created only here, from tested answers. It remains an opinion; requiring a passage from the
//! spec makes a bad one easy to spot.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::testcount::PassedTests;

/// The prefix of a line that answers about a check.
pub(crate) const CHECK: &str = "CHECK ";
/// A shorter passage occurs in many texts by chance.
const SHORTEST_QUOTE: usize = 20;

/// A verifier's opinion on one changed check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum CheckOpinion {
    /// The spec asks for the change.
    Asked { quote: String },
    /// Another test checks the same.
    Refactor { was: String, now: String },
    /// It checks less than before.
    Weaker { why: String },
}

/// An answer about one path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckAnswer {
    pub path: String,
    #[serde(flatten)]
    pub opinion: CheckOpinion,
}

/// Tested answers: each of these paths was approved, with a reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Agreement {
    answers: Vec<CheckAnswer>,
}

impl Agreement {
    /// Whether a path was approved.
    pub fn covers(&self, path: &str) -> bool {
        self.answers.iter().any(|answer| answer.path == path)
    }

    #[cfg(test)]
    pub(crate) fn with(path: &str) -> Agreement {
        let opinion = CheckOpinion::Asked { quote: "what the spec asks for".to_owned() };
        Agreement { answers: vec![CheckAnswer { path: path.to_owned(), opinion }] }
    }

    pub fn answers(&self) -> &[CheckAnswer] {
        &self.answers
    }
}

/// A formal error of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerSlip {
    LeftOut { path: String },
    Unreadable { path: String },
    ShortQuote { path: String },
    NotInSpec { path: String, quote: String },
    SharedQuote { path: String, other: String },
    NotBefore { path: String, was: String },
    NotPassed { path: String, now: String },
}

impl fmt::Display for AnswerSlip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AnswerSlip::LeftOut { path } => {
                write!(f, "no line begins with `{CHECK}{path}:`")
            }
            AnswerSlip::Unreadable { path } => write!(
                f,
                "the line about `{path}` is none of `asked: <passage>`, `refactor: <before> => <now>`, `weaker: <why>`"
            ),
            AnswerSlip::ShortQuote { path } => {
                write!(f, "the passage for `{path}` is shorter than {SHORTEST_QUOTE} characters")
            }
            AnswerSlip::NotInSpec { path, quote } => {
                write!(f, "the passage for `{path}` is not in the spec word for word: {quote:?}")
            }
            AnswerSlip::SharedQuote { path, other } => write!(
                f,
                "`{path}` and `{other}` are in different directories and have the same passage; each needs its own"
            ),
            AnswerSlip::NotBefore { path, was } => {
                write!(f, "for `{path}`: no test `{was}` passed before this work")
            }
            AnswerSlip::NotPassed { path, now } => {
                write!(f, "for `{path}`: no test `{now}` passed in Ralph's own run of the gates")
            }
        }
    }
}

/// The data that answers are tested against.
#[derive(Clone, Debug, Default)]
pub struct AnswerTest<'a> {
    /// The paths in question.
    pub asked: &'a [String],
    /// The authoritative text, as the person wrote it.
    pub spec: &'a str,
    /// The tests that passed at the base; empty if the runner names none.
    pub before: Vec<&'a PassedTests>,
    /// The tests that passed at the candidate.
    pub passed: Vec<&'a PassedTests>,
}

/// The result of testing answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tested {
    Agreed(Agreement),
    /// The verifier itself says that a check became weaker.
    Weaker(Vec<CheckAnswer>),
    Slips(Vec<AnswerSlip>),
}

impl AnswerTest<'_> {
    /// Parses the answers in a message and tests each of them.
    pub fn test(&self, message: &str) -> Tested {
        let (mut answers, mut slips): (Vec<CheckAnswer>, Vec<AnswerSlip>) =
            (Vec::new(), Vec::new());
        for path in self.asked {
            match answer_about(message, path) {
                Err(slip) => slips.push(slip),
                Ok(opinion) => {
                    slips.extend(self.slip(path, &opinion));
                    answers.push(CheckAnswer { path: path.clone(), opinion });
                }
            }
        }
        let is_weaker =
            |answer: &CheckAnswer| matches!(answer.opinion, CheckOpinion::Weaker { .. });
        if answers.iter().any(is_weaker) {
            answers.retain(is_weaker);
            return Tested::Weaker(answers);
        }
        slips.extend(shared_quotes(&answers));
        if slips.is_empty() { Tested::Agreed(Agreement { answers }) } else { Tested::Slips(slips) }
    }

    fn slip(&self, path: &str, opinion: &CheckOpinion) -> Option<AnswerSlip> {
        let path = path.to_owned();
        match opinion {
            CheckOpinion::Asked { quote } => {
                let words = squeezed(quote);
                if words.chars().count() < SHORTEST_QUOTE {
                    return Some(AnswerSlip::ShortQuote { path });
                }
                (!squeezed(self.spec).contains(&words))
                    .then(|| AnswerSlip::NotInSpec { path, quote: quote.clone() })
            }
            CheckOpinion::Refactor { was, now } => {
                let has = |tests: &[&PassedTests], name: &str| {
                    tests.iter().any(|tests| tests.contains(name))
                };
                if !self.before.is_empty() && !has(&self.before, was) {
                    return Some(AnswerSlip::NotBefore { path, was: was.clone() });
                }
                (!has(&self.passed, now)).then(|| AnswerSlip::NotPassed { path, now: now.clone() })
            }
            CheckOpinion::Weaker { .. } => None,
        }
    }
}

/// Finds passages quoted for paths in different directories.
fn shared_quotes(answers: &[CheckAnswer]) -> Vec<AnswerSlip> {
    let quoted: Vec<(&str, String)> = answers
        .iter()
        .filter_map(|answer| match &answer.opinion {
            CheckOpinion::Asked { quote } => Some((answer.path.as_str(), squeezed(quote))),
            _ => None,
        })
        .collect();
    let mut slips = Vec::new();
    for (at, (path, quote)) in quoted.iter().enumerate() {
        let same = quoted[..at].iter().find(|(other, said)| {
            (said.contains(quote.as_str()) || quote.contains(said.as_str()))
                && !share_directory(path, other)
        });
        if let Some((other, _)) = same {
            slips.push(AnswerSlip::SharedQuote {
                path: (*path).to_owned(),
                other: (*other).to_owned(),
            });
        }
    }
    slips
}

fn share_directory(one: &str, other: &str) -> bool {
    let directory =
        |path: &str| path.rsplit_once('/').map_or("", |(directory, _)| directory).to_owned();
    let (one, other) = (directory(one), directory(other));
    let is_below = |inner: &str, outer: &str| {
        !outer.is_empty() && inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/'))
    };
    one == other || is_below(&one, &other) || is_below(&other, &one)
}

/// Returns the opinion in the last line about a path.
fn answer_about(message: &str, path: &str) -> Result<CheckOpinion, AnswerSlip> {
    let mut lines = message.lines().rev().filter_map(|line| rest_about(line, path));
    let line = lines.next().ok_or_else(|| AnswerSlip::LeftOut { path: path.to_owned() })?;
    opinion(line).ok_or_else(|| AnswerSlip::Unreadable { path: path.to_owned() })
}

/// Returns the text after the path in a line about it, ignoring Markdown around either.
fn rest_about<'l>(line: &'l str, path: &str) -> Option<&'l str> {
    let line = line.trim().trim_start_matches(['-', '*', '>', ' ', '`', '_']);
    let rest = line.strip_prefix(CHECK.trim())?.trim_start_matches([' ', '*', '`', '"', '_', ':']);
    let rest = rest.strip_prefix(path)?;
    rest.trim_start_matches(['`', '*', '"', ' ']).strip_prefix(':').map(str::trim)
}

fn opinion(text: &str) -> Option<CheckOpinion> {
    let text = text.trim_start_matches(['*', '`', ' ']);
    let (word, rest) = text.split_once([':', ' '])?;
    let rest = unquoted(rest.trim_start_matches([':', ' ', '*', '`']));
    if rest.is_empty() {
        return None;
    }
    match word.trim_matches(['*', '`']).to_ascii_lowercase().as_str() {
        "asked" => Some(CheckOpinion::Asked { quote: rest.to_owned() }),
        "weaker" => Some(CheckOpinion::Weaker { why: rest.to_owned() }),
        "refactor" => {
            let (was, now) = rest.split_once("=>").or_else(|| rest.split_once("->"))?;
            let (was, now) = (unquoted(was), unquoted(now));
            let is_whole = !was.is_empty() && !now.is_empty();
            is_whole.then(|| CheckOpinion::Refactor { was: was.to_owned(), now: now.to_owned() })
        }
        _ => None,
    }
}

fn unquoted(text: &str) -> &str {
    text.trim().trim_matches(['"', '`', '“', '”', '*', ' '])
}

/// Collapses every run of white space into one space.
fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
#[path = "answers_tests.rs"]
mod tests;
