//! The findings of a plan check, one per line: `FAIL [id]: line N: …` and `WARN [id]: line N: …`.

use std::fmt;

use ralph_model::shown::shown;

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
    /// On one line, whatever the plan contains.
    pub message: String,
}

impl PlanFinding {
    pub(crate) fn fail(id: &'static str, line: usize, message: impl AsRef<str>) -> PlanFinding {
        PlanFinding::new(PlanLevel::Fail, id, line, message.as_ref())
    }

    pub(crate) fn warn(id: &'static str, line: usize, message: impl AsRef<str>) -> PlanFinding {
        PlanFinding::new(PlanLevel::Warn, id, line, message.as_ref())
    }

    /// Messages quote the plan and the parser, and both can contain line ends: a second line would look like another
    /// finding, or have no line number.
    fn new(level: PlanLevel, id: &'static str, line: usize, message: &str) -> PlanFinding {
        PlanFinding { level, id, line, message: shown(message).into_owned() }
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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    #[test]
    fn failures_come_first_in_a_report_and_each_group_is_sorted_by_line() {
        let (warn, fail) = (PlanFinding::warn, PlanFinding::fail);
        let found = [warn("w", 1, "one"), fail("f", 9, "nine"), fail("g", 2, "two")];
        let expected = "FAIL [g]: line 2: two\nFAIL [f]: line 9: nine\n\nWARN [w]: line 1: one";
        assert_eq!(report(&found), expected);
    }

    /// Whether a report has one line per finding, each with its check and its line in the plan.
    pub(crate) fn has_a_line_each(findings: &[PlanFinding]) -> bool {
        let report = report(findings);
        let told: Vec<&str> = report.lines().filter(|line| !line.is_empty()).collect();
        let names = |line: &str, found: &PlanFinding| {
            line.contains(&format!(" [{}]: line {}: ", found.id, found.line))
        };
        told.len() == findings.len()
            && findings.iter().all(|found| told.iter().any(|line| names(line, found)))
    }
}
