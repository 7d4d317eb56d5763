//! The problems of a configuration, with their positions.

use std::fmt;

use camino::Utf8PathBuf;

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    Default,
    /// Lines and columns are one-based.
    File {
        path: Utf8PathBuf,
        line: usize,
        column: usize,
    },
    Env(&'static str),
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File { path, line, .. } => write!(f, "{path}:{line}"),
            Origin::Env(name) => write!(f, "${name}"),
            Origin::Flag(name) => f.write_str(name),
        }
    }
}

/// One problem of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigProblem {
    pub origin: Origin,
    pub kind: ConfigProblemKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigProblemKind {
    Unreadable {
        reason: String,
    },
    Syntax {
        message: String,
    },
    UnknownKey {
        key: String,
        nearest: Option<String>,
    },
    /// A top-level setting after the header of a table.
    InTable {
        key: String,
        setting: String,
    },
    WrongType {
        key: String,
        expected: &'static str,
        found: &'static str,
    },
    BadValue {
        key: String,
        reason: String,
    },
    UnknownAgent {
        key: String,
        name: String,
        known: Vec<String>,
    },
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.origin {
            Origin::File { path, line, column } => write!(f, "{path}:{line}:{column}: ")?,
            other => write!(f, "{other}: ")?,
        }
        self.kind.fmt(f)
    }
}

impl fmt::Display for ConfigProblemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigProblemKind::Unreadable { reason } => write!(f, "cannot be read: {reason}"),
            ConfigProblemKind::Syntax { message } => f.write_str(message),
            ConfigProblemKind::UnknownKey { key, nearest: None } => {
                write!(f, "unknown key `{key}`")
            }
            ConfigProblemKind::UnknownKey { key, nearest: Some(nearest) } => {
                write!(f, "unknown key `{key}`; did you mean `{nearest}`?")
            }
            ConfigProblemKind::InTable { key, setting } => {
                write!(
                    f,
                    "unknown key `{key}`; `{setting}` is a top-level key: move it above the first `[table]`"
                )
            }
            ConfigProblemKind::WrongType { key, expected, found } => {
                write!(f, "`{key}`: expected {expected}, found {found}")
            }
            ConfigProblemKind::BadValue { key, reason } => write!(f, "`{key}`: {reason}"),
            ConfigProblemKind::UnknownAgent { key, name, known } => {
                write!(
                    f,
                    "`{key}`: unknown agent `{name}`; known: `{}`; any other program needs a `command` in [agents.{name}]",
                    known.join("`, `")
                )
            }
        }
    }
}

/// The configuration is invalid. All its problems are reported at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    pub problems: Vec<ConfigProblem>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}
