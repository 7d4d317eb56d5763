//! Problems of a plan, with their lines and fixes.
//!
//! A flaw makes a line unparsable, and nothing is written until a person has fixed it: otherwise its content would be
//! lost. A [`Problem`] may also concern valid lines that contradict each other.

use std::fmt;

use serde::de::IgnoredAny;

/// Why a line is not a record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    #[error("it is not UTF-8")]
    NotUtf8,
    #[error("it begins with a byte order mark, which cannot be seen")]
    ByteOrderMark,
    #[error("unresolved git conflict")]
    ConflictMarker,
    #[error("it is not JSON: {0}")]
    NotJson(String),
    #[error("it is not a JSON object")]
    NotAnObject,
    #[error("it has no `{key}`")]
    Missing { key: &'static str },
    #[error("its `{key}` is not {wanted}")]
    WrongType { key: &'static str, wanted: &'static str },
    #[error("it has `{key}` twice")]
    Twice { key: &'static str },
    #[error("its status `s` is `{found}`, not `p` or `d`")]
    UnknownStatus { found: String },
}

impl Flaw {
    /// Returns why a line could not be parsed as an object.
    pub(super) fn of_no_object(line: &str) -> Flaw {
        if line.starts_with('\u{feff}') {
            return Flaw::ByteOrderMark;
        }
        match serde_json::from_str::<IgnoredAny>(line) {
            Ok(_) if line.trim_ascii_start().starts_with('{') => {
                Flaw::NotJson("it is nested too deep".to_owned())
            }
            Ok(_) => Flaw::NotAnObject,
            // The plan has its own line numbers.
            Err(error) => Flaw::NotJson(error.to_string().replace(" line 1 column", " column")),
        }
    }

    /// Whether the line is a conflict marker of git.
    pub(super) fn is_marker(line: &str) -> bool {
        ["<<<<<<<", "|||||||", "=======", ">>>>>>>"].iter().any(|marker| {
            line.strip_prefix(marker).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        })
    }

    /// Returns how to fix it.
    pub(crate) const fn mend(&self) -> &'static str {
        match self {
            Flaw::ConflictMarker => {
                "keep the line of one side for each task and remove the lines that begin with `<<<<<<<`, \
                 `|||||||`, `=======` or `>>>>>>>`"
            }
            Flaw::NotUtf8 => "write it again as UTF-8, or remove it",
            Flaw::ByteOrderMark => "save the file as UTF-8 without BOM",
            Flaw::NotJson(_) | Flaw::NotAnObject => {
                "make it one JSON object on one line, take it from an earlier commit, or remove it"
            }
            Flaw::Missing { .. } | Flaw::WrongType { .. } | Flaw::UnknownStatus { .. } => {
                "correct that field, or remove the line"
            }
            Flaw::Twice { .. } => "remove one of the two",
        }
    }
}

/// A problem of a plan, with its one-based line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub line: usize,
    pub kind: ProblemKind,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProblemKind {
    #[error("{0}")]
    Broken(Flaw),
    #[error("`{id}` is already on line {first}")]
    DuplicateId { id: String, first: usize },
    #[error("another current spec is on line {first}")]
    SecondSpec { first: usize },
    #[error("task `{id}` depends on itself: {}", cycle.join(" → "))]
    Cycle { id: String, cycle: Vec<String> },
    #[error("task `{id}` depends on `{dependency}`, which was never in this plan")]
    UnknownDependency { id: String, dependency: String },
    #[error("task `{id}` names `{issue}` in `{field}`, which is an issue and no task")]
    IssueForTask { id: String, field: &'static str, issue: String },
    #[error("task `{id}` names `{other}` as its `{field}`, which was never in this plan")]
    UnknownRelation { id: String, field: &'static str, other: String },
    #[error("its `{field}` is empty")]
    Empty { field: &'static str },
    #[error("task `{id}` is done and was killed; it counts as pending")]
    KilledAndDone { id: String },
    #[error("`{id}` has priority `{found}`, not `high`, `medium` or `low`; it counts as none")]
    UnknownPriority { id: String, found: String },
    #[error("task `{id}` was killed by `{found}`, not by `timeout` or `context`")]
    UnknownKill { id: String, found: String },
}

impl ProblemKind {
    /// Returns how to fix it.
    pub const fn mend(&self) -> &'static str {
        match self {
            ProblemKind::Broken(flaw) => flaw.mend(),
            ProblemKind::DuplicateId { .. } => "remove one of the lines, or give one another id",
            ProblemKind::SecondSpec { .. } => "remove one of the lines",
            ProblemKind::Cycle { .. } => "remove one of the dependencies from `deps`",
            ProblemKind::UnknownDependency { .. } => "correct it, or remove it from `deps`",
            ProblemKind::IssueForTask { .. } => {
                "remove it there; what an issue led to names it in `created_from`"
            }
            ProblemKind::UnknownRelation { .. } => "correct it, or remove the field",
            ProblemKind::Empty { .. } => "fill it in, or remove the line",
            ProblemKind::KilledAndDone { .. } => "set `s` to `p`, or remove `kill`",
            ProblemKind::UnknownPriority { .. } => "correct it, or remove `priority`",
            ProblemKind::UnknownKill { .. } => "correct it, or remove `kill`",
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {} ({})", self.line, self.kind, self.kind.mend())
    }
}
