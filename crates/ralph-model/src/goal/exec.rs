//! `exec`: the steps after an interview, their order, and whose consent each needs.
//!
//! Invariant: a step that starts agents is reached only through an explicit consent to it.

use std::fmt;
use std::str::FromStr;

use jiff::civil::Date;

use super::{GoalState, map};
use crate::prd::Prd;

/// When to ask the person whether to map the code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnderstandMode {
    /// If there is a reason to.
    #[default]
    Auto,
    Always,
    Never,
}

/// Reasons to map the code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Triggers {
    pub map_was_missing: bool,
    /// The date of the last entry; `None` without a dated one.
    pub last_entry: Option<Date>,
    pub today: Date,
    /// What the interviewer is uncertain about.
    pub topics: Vec<String>,
    pub recommended: bool,
    pub reasons: Vec<String>,
}

impl Triggers {
    pub fn of(state: &GoalState, map: &str, today: Date) -> Triggers {
        Triggers {
            map_was_missing: state.map_was_missing,
            last_entry: map::last_entry(map),
            today,
            topics: state.uncertainties.iter().map(|open| open.topic.clone()).collect(),
            recommended: state.recommend_understand.should_run,
            reasons: state.recommend_understand.reasons.clone(),
        }
    }

    fn is_stale(&self) -> bool {
        self.last_entry.is_none_or(|last| last < self.today)
    }

    fn is_uncertain(&self) -> bool {
        self.recommended || !self.topics.is_empty()
    }

    fn any(&self) -> bool {
        self.map_was_missing || self.is_stale() || self.is_uncertain()
    }

    /// Explains why the code should be mapped, one reason per line.
    pub fn explain(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if self.map_was_missing {
            lines.push("the codebase map was missing".to_owned());
        } else if self.is_stale() {
            lines.push(match self.last_entry {
                None => "the codebase map has no dated entry".to_owned(),
                Some(last) => {
                    let days = self.today.since(last).map_or(0, |age| age.get_days());
                    let unit = if days == 1 { "day" } else { "days" };
                    format!("the codebase map is stale: last entry {last}, {days} {unit} ago")
                }
            });
        }
        if self.is_uncertain() {
            lines.push(match self.topics.as_slice() {
                [] => "the planner recommends it".to_owned(),
                topics => format!("the planner is uncertain about: {}", topics.join(", ")),
            });
        }
        lines.extend(self.reasons.iter().map(|reason| format!("the planner says: {reason}")));
        lines
    }
}

impl UnderstandMode {
    /// Whether to ask the person.
    pub fn asks(self, triggers: &Triggers) -> bool {
        match self {
            UnderstandMode::Auto => triggers.any(),
            UnderstandMode::Always => true,
            UnderstandMode::Never => false,
        }
    }
}

/// How many iterations are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IterationCap {
    /// One per unit of work, plus some for those that fail.
    Auto {
        more: u32,
    },
    Exactly(u32),
}

const INVALID_CAP: &str = "expected `auto`, `auto+K` or a number above 0";

impl FromStr for IterationCap {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<IterationCap, &'static str> {
        if let Some(more) = text.strip_prefix("auto") {
            let more = if more.is_empty() { Some("0") } else { more.strip_prefix('+') };
            let more = more.and_then(|more| more.parse().ok()).ok_or(INVALID_CAP)?;
            return Ok(IterationCap::Auto { more });
        }
        match text.parse() {
            Ok(count) if count > 0 => Ok(IterationCap::Exactly(count)),
            _ => Err(INVALID_CAP),
        }
    }
}

/// The maximum number of iterations, and how it was computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComputedCap {
    pub iterations: u32,
    how: String,
    /// Whether there is anything to do.
    has_work: bool,
}

impl fmt::Display for ComputedCap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = if self.iterations == 1 { "iteration" } else { "iterations" };
        write!(f, "at most {} {unit} ({})", self.iterations, self.how)
    }
}

impl IterationCap {
    fn compute(self, units: usize, what: &str) -> ComputedCap {
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        let (iterations, how) = match self {
            IterationCap::Exactly(count) => (count, format!("as configured; {units} {what}")),
            IterationCap::Auto { more: 0 } => (units, format!("{units} {what}")),
            IterationCap::Auto { more } => {
                (units.saturating_add(more), format!("{units} {what}, and {more} more"))
            }
        };
        ComputedCap { iterations, how, has_work: units > 0 }
    }

    /// The cap of `run`: one iteration for each story that fails.
    pub fn for_run(self, prd: &Prd) -> ComputedCap {
        let failing = prd.failing().len();
        self.compute(failing, if failing == 1 { "failing story" } else { "failing stories" })
    }

    /// The cap of `understand`: one iteration for each remaining topic in the map, or each topic listed in the prompt.
    pub fn for_understand(self, map: &str, prompt: &str) -> ComputedCap {
        match map::open_topics(map) {
            Some(open) => self.compute(open.len(), "unchecked under Next Topics"),
            None => self.compute(
                map::listed_topics(prompt).len(),
                "in the prompt's list; the map has no checklist",
            ),
        }
    }
}

/// A person's decision on a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consent {
    Given,
    Refused,
}

/// The steps so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecProgress {
    /// How the interview ended: whether its PRD is approved.
    pub approved: Option<bool>,
    pub understand: Option<Consent>,
    /// Whether the mapping that was consented to has ended.
    pub understood: bool,
    pub run: Option<Consent>,
}

/// The next step of `exec`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExecStep {
    Plan,
    AskUnderstand { cap: ComputedCap },
    Understand { cap: ComputedCap },
    AskRun { cap: ComputedCap },
    Run { cap: ComputedCap },
    End(ExecEnd),
}

/// Ways in which `exec` ends without a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecEnd {
    NotApproved,
    Declined,
    AllPassing,
}

impl ExecProgress {
    /// Returns the next step.
    pub fn next(&self, asks: bool, understand: &ComputedCap, run: &ComputedCap) -> ExecStep {
        match self.approved {
            None => return ExecStep::Plan,
            Some(false) => return ExecStep::End(ExecEnd::NotApproved),
            Some(true) => {}
        }
        if asks && understand.has_work && !self.understood {
            match self.understand {
                None => return ExecStep::AskUnderstand { cap: understand.clone() },
                Some(Consent::Given) => return ExecStep::Understand { cap: understand.clone() },
                Some(Consent::Refused) => {}
            }
        }
        if !run.has_work {
            return ExecStep::End(ExecEnd::AllPassing);
        }
        match self.run {
            None => ExecStep::AskRun { cap: run.clone() },
            Some(Consent::Given) => ExecStep::Run { cap: run.clone() },
            Some(Consent::Refused) => ExecStep::End(ExecEnd::Declined),
        }
    }
}

impl ComputedCap {
    pub const fn has_work(&self) -> bool {
        self.has_work
    }
}

#[cfg(test)]
#[path = "exec_tests.rs"]
mod tests;
