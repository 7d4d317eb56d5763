//! The findings of a plan check, one per line: `FAIL [id]: line N: …` and `WARN [id]: line N: …`.

use std::fmt;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PlanLevel {
    /// The plan is not valid.
    Fail,
    Warn,
    /// The check is disabled because the list it compares against is not configured.
    Off,
}

/// One finding of a plan check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanFinding {
    pub level: PlanLevel,
    /// The name of the check.
    pub id: &'static str,
    /// One-based.
    pub line: usize,
    pub message: String,
}

impl PlanFinding {
    pub(crate) fn fail(id: &'static str, line: usize, message: impl Into<String>) -> PlanFinding {
        PlanFinding { level: PlanLevel::Fail, id, line, message: message.into() }
    }

    pub(crate) fn warn(id: &'static str, line: usize, message: impl Into<String>) -> PlanFinding {
        PlanFinding { level: PlanLevel::Warn, id, line, message: message.into() }
    }

    pub(crate) fn off(id: &'static str, setting: &str) -> PlanFinding {
        let message = format!("this check is off: `{setting}` is not configured");
        PlanFinding { level: PlanLevel::Off, id, line: 1, message }
    }
}

impl fmt::Display for PlanFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PlanFinding { level, id, line, message } = self;
        match level {
            PlanLevel::Fail => write!(f, "FAIL [{id}]: line {line}: {message}"),
            PlanLevel::Warn => write!(f, "WARN [{id}]: line {line}: {message}"),
            PlanLevel::Off => write!(f, "OFF [{id}]: {message}"),
        }
    }
}

/// Formats findings: failures first, a blank line, then the rest, each group sorted by line.
pub fn report(findings: &[PlanFinding]) -> String {
    let mut sorted: Vec<&PlanFinding> = findings.iter().collect();
    sorted.sort_by_key(|finding| (finding.level, finding.line));
    let (fails, rest): (Vec<_>, Vec<_>) =
        sorted.into_iter().partition(|finding| finding.level == PlanLevel::Fail);
    let lines = |group: Vec<&PlanFinding>| -> String {
        group.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    let (fails, rest) = (lines(fails), lines(rest));
    if fails.is_empty() || rest.is_empty() { fails + &rest } else { format!("{fails}\n\n{rest}") }
}
