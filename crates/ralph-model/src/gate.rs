//! Gates: checks the harness executes itself, and what their results say about a candidate.
//!
//! A gate that fails at the candidate is run once more there and on the base, so that the work is blamed only for what
//! it broke. The base's result is needed even if the candidate passes: a gate that passes because fewer checks are left
//! proves nothing. The first line that applies decides; counts are of executed tests:
//!
//! | at the candidate | again | at the base | attribution |
//! |---|---|---|---|
//! | could not run | could not either, or not tried | ran, and the machine is not to blame | broken |
//! | could not run | could not either, or not tried | | could not run |
//! | passed, once at least, and checks differ | | counted more tests | tests gone |
//! | passed, once at least | | counted more tests | fewer tests |
//! | passed, once at least, without a count | | passed and counted some | fewer tests |
//! | passed, once at least, without a count | | failed and counted some | tests gone |
//! | failed | passed | | flaky |
//! | passed | | | passed, or proved nothing where no test ran |
//! | failed | | passed | regressed |
//! | failed | | failed and counted more tests, or some where now there is no count | fewer tests |
//! | failed | | failed, and fewer of its tests did | regressed |
//! | failed | | failed | red before and after |
//! | failed | | could not run, or is not known | failed |
//!
//! A run that timed out has failed; how many tests it completed is random, so its count is not compared. The engine
//! decides how and where a gate runs.

mod spec;

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::millis;
use crate::proof::ProofLevel;
use crate::run::ProcessExit;
use crate::testcount::{PassedTests, TestCounts};

pub use spec::{BuiltIn, Check, GateSpec};

/// Returns the gates in execution order: fast ones first, otherwise as configured.
pub fn in_order(gates: &[GateSpec]) -> Vec<&GateSpec> {
    let mut order: Vec<_> = gates.iter().collect();
    order.sort_by_key(|gate| !gate.fast);
    order
}

/// Which caches a gate may use at a candidate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheMode {
    /// A copy of what accepted commits left.
    #[default]
    Accepted,
    /// None.
    Cold,
    /// Whatever earlier runs left, also of candidates that were rejected.
    Warm,
}

/// Why a gate could not be run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Obstacle {
    /// The program does not exist.
    NoProgram { program: String },
    /// The checkout could not be set up.
    Setup { message: String },
    /// The commit has a submodule whose content this machine does not have.
    Unfilled { message: String },
    /// A fault of the machine. It says nothing about the work.
    Machine { message: String },
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Obstacle::NoProgram { program } => write!(f, "program `{program}` not found"),
            Obstacle::Setup { message } | Obstacle::Unfilled { message } => {
                write!(f, "the checkout could not be set up: {message}")
            }
            Obstacle::Machine { message } => f.write_str(message),
        }
    }
}

/// The result of one run of a gate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum GateStatus {
    Passed,
    Failed {
        exit: ProcessExit,
    },
    TimedOut,
    CouldNotRun {
        obstacle: Obstacle,
    },
    /// It succeeded without executing any test.
    ProvedNothing,
}

impl GateStatus {
    /// Returns the serialised name.
    pub const fn name(&self) -> &'static str {
        match self {
            GateStatus::Passed => "passed",
            GateStatus::Failed { .. } => "failed",
            GateStatus::TimedOut => "timed_out",
            GateStatus::CouldNotRun { .. } => "could_not_run",
            GateStatus::ProvedNothing => "proved_nothing",
        }
    }

    /// Returns the status of a gate that ended by itself.
    pub fn of(exit: ProcessExit, tests: Option<TestCounts>) -> GateStatus {
        if !exit.is_success() {
            GateStatus::Failed { exit }
        } else if tests.is_some_and(|tests| tests.executed() == 0) {
            GateStatus::ProvedNothing
        } else {
            GateStatus::Passed
        }
    }
}

/// The output of a gate, stored elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateOutput {
    /// The SHA-256 of the whole output, in hex.
    pub sha256: String,
    /// The file that contains it.
    pub path: String,
    /// Its end: a few lines without paths of this machine.
    #[serde(default)]
    pub last: String,
}

/// One run of a gate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateRun {
    pub status: GateStatus,
    /// The test counts in the output, if the runner is known.
    pub tests: Option<TestCounts>,
    /// The tests that passed, if all of them are named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub names: Option<PassedTests>,
    /// Files of the commit that were changed in the checkout while it ran, if it passed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rewrote: Vec<String>,
    #[serde(with = "millis", rename = "duration_ms")]
    pub duration: Duration,
    pub output: GateOutput,
}

impl GateRun {
    const fn passed(&self) -> bool {
        matches!(self.status, GateStatus::Passed | GateStatus::ProvedNothing)
    }

    const fn failed(&self) -> bool {
        matches!(self.status, GateStatus::Failed { .. } | GateStatus::TimedOut)
    }

    pub const fn could_not_run(&self) -> bool {
        matches!(self.status, GateStatus::CouldNotRun { .. })
    }

    const fn obstacle(&self) -> Option<&Obstacle> {
        match &self.status {
            GateStatus::CouldNotRun { obstacle } => Some(obstacle),
            _ => None,
        }
    }

    /// How many tests were executed, if known and not random.
    fn executed(&self) -> Option<u64> {
        match self.status {
            GateStatus::TimedOut | GateStatus::CouldNotRun { .. } => None,
            _ => self.tests.map(TestCounts::executed),
        }
    }
}

/// The runs of one gate so far.
#[derive(Clone, Copy, Debug)]
pub struct GateRuns<'a> {
    pub candidate: &'a GateRun,
    /// The second run at the candidate.
    pub again: Option<&'a GateRun>,
    pub base: Option<&'a GateRun>,
    /// Checks differ between base and candidate: missing tests are looked for with the anchor's checks.
    pub checks_differ: bool,
}

/// A run that is still needed to attribute a gate's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    Again,
    Base,
}

impl GateRuns<'_> {
    /// Returns the next run needed, if any.
    pub fn wanted(&self) -> Option<Wanted> {
        // A missing program will still be missing a moment later.
        let is_missing = matches!(self.candidate.obstacle(), Some(Obstacle::NoProgram { .. }));
        if !self.candidate.passed() && !is_missing && self.again.is_none() {
            Some(Wanted::Again)
        } else if self.base.is_none() {
            Some(Wanted::Base)
        } else {
            None
        }
    }
}

/// What the results of a gate say about the candidate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "attribution", rename_all = "snake_case")]
pub enum Attribution {
    Passed,
    /// It succeeds, but no test is executed, neither here nor at the base.
    ProvedNothing,
    /// It passes at the base, or fails there in fewer tests.
    Regressed,
    /// It fails, and the base's result is unknown.
    Failed,
    /// It both fails and passes at the same commit.
    Flaky,
    RedBeforeAndAfter,
    /// Tests that were executed at the base are no longer executed; `None` if no count was printed.
    FewerTests {
        base: u64,
        candidate: Option<u64>,
    },
    /// The same, with changed checks: the person or verifier is asked whether that is right.
    TestsGone {
        base: u64,
        candidate: Option<u64>,
    },
    /// It can no longer run, but could at the base.
    Broken {
        obstacle: Obstacle,
    },
    CouldNotRun {
        obstacle: Obstacle,
    },
}

/// Returns what the runs of a gate say about the candidate.
pub fn attribute(runs: GateRuns<'_>) -> Attribution {
    let base = runs.base;
    let again = runs.again.filter(|_| !runs.candidate.passed());
    // A second run that could not start does not affect the first; a first run that could not start says nothing.
    let last = match again.filter(|again| again.obstacle().is_none()) {
        Some(again) => again,
        None => runs.candidate,
    };
    if let Some(obstacle) = last.obstacle().cloned() {
        // Whether a submodule belongs into the work is for a person to say, who may also be able to fetch it.
        let is_not_the_works =
            matches!(obstacle, Obstacle::Machine { .. } | Obstacle::Unfilled { .. });
        let base_ran = base.is_some_and(|base| base.obstacle().is_none());
        return if base_ran && !is_not_the_works {
            Attribution::Broken { obstacle }
        } else {
            Attribution::CouldNotRun { obstacle }
        };
    }
    if last.passed() {
        return fewer_tests(last, base, runs.checks_differ).unwrap_or_else(|| {
            if runs.candidate.failed() {
                Attribution::Flaky
            } else if last.status == GateStatus::ProvedNothing {
                Attribution::ProvedNothing
            } else {
                Attribution::Passed
            }
        });
    }
    match base {
        Some(base) if base.passed() => Attribution::Regressed,
        Some(base) if base.failed() => fewer_tests(last, Some(base), false).unwrap_or_else(|| {
            if more_failures(&runs, base) {
                Attribution::Regressed
            } else {
                Attribution::RedBeforeAndAfter
            }
        }),
        _ => Attribution::Failed,
    }
}

/// Compares the number of executed tests with the base's.
fn fewer_tests(now: &GateRun, base: Option<&GateRun>, checks_differ: bool) -> Option<Attribution> {
    let base = base?;
    let before = base.executed()?;
    let fewer = match now.executed() {
        Some(executed) => executed < before,
        // A runner that counted before must count now. Some runners print counts only on failure, and nothing on
        // success.
        None => {
            before > 0 && (now.passed() || !base.passed()) && now.status != GateStatus::TimedOut
        }
    };
    let candidate = now.executed();
    let is_silent_success = candidate.is_none() && now.passed() && !base.passed();
    fewer.then_some(if checks_differ || is_silent_success {
        Attribution::TestsGone { base: before, candidate }
    } else {
        Attribution::FewerTests { base: before, candidate }
    })
}

/// Whether more tests fail than at the base, in each run at the candidate that has a count.
fn more_failures(runs: &GateRuns<'_>, base: &GateRun) -> bool {
    let failures = |run: &GateRun| run.executed().and(run.tests).map(|tests| tests.failed);
    let now = [Some(runs.candidate), runs.again].into_iter().flatten().filter_map(failures).min();
    matches!((now, failures(base)), (Some(now), Some(before)) if now > before)
}

/// The consequence of an attribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// It is evidence for the candidate.
    Proof,
    /// It has no effect, as if there were no gate.
    Nothing,
    /// It does not block; the verifier is asked about it.
    Question,
    /// The candidate is rejected.
    Block,
    /// The gate is useless until a person has fixed it.
    Person,
    /// A fault of the machine: the gate must run again.
    Trouble,
}

impl Attribution {
    /// Returns the serialised name.
    pub const fn name(&self) -> &'static str {
        match self {
            Attribution::Passed => "passed",
            Attribution::ProvedNothing => "proved_nothing",
            Attribution::Regressed => "regressed",
            Attribution::Failed => "failed",
            Attribution::Flaky => "flaky",
            Attribution::RedBeforeAndAfter => "red_before_and_after",
            Attribution::FewerTests { .. } => "fewer_tests",
            Attribution::TestsGone { .. } => "tests_gone",
            Attribution::Broken { .. } => "broken",
            Attribution::CouldNotRun { .. } => "could_not_run",
        }
    }

    pub const fn effect(&self) -> Effect {
        match self {
            Attribution::Passed => Effect::Proof,
            Attribution::ProvedNothing => Effect::Nothing,
            Attribution::Flaky | Attribution::RedBeforeAndAfter | Attribution::TestsGone { .. } => {
                Effect::Question
            }
            Attribution::Regressed
            | Attribution::Failed
            | Attribution::FewerTests { .. }
            | Attribution::Broken { .. } => Effect::Block,
            Attribution::CouldNotRun { obstacle: Obstacle::Machine { .. } } => Effect::Trouble,
            Attribution::CouldNotRun { .. } => Effect::Person,
        }
    }
}

impl Attribution {
    /// Whether a verifier has to approve it before the work lands: no test may be left, or the result is not certain.
    pub const fn needs_verifier(&self) -> bool {
        matches!(
            self,
            Attribution::RedBeforeAndAfter
                | Attribution::Flaky
                | Attribution::TestsGone { candidate: None | Some(0), .. }
        )
    }

    /// Returns the level of proof for accepted work; `None` if it is as if there were no gate.
    pub const fn level(&self) -> Option<ProofLevel> {
        match self {
            Attribution::ProvedNothing => None,
            Attribution::Flaky | Attribution::TestsGone { candidate: None | Some(0), .. } => {
                Some(ProofLevel::ChecksChanged)
            }
            // Whether missing tests still pass is known from the run with the anchor's checks.
            Attribution::Passed | Attribution::TestsGone { .. } => Some(ProofLevel::GatesPassed),
            _ => Some(ProofLevel::NotProven),
        }
    }
}

/// The result of one gate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateReport {
    pub gate: String,
    pub attribution: Attribution,
    /// The status of the run that the report is about.
    pub status: GateStatus,
    /// The file that contains its output; useful only on this machine.
    pub output: String,
    /// The end of the output.
    pub last: String,
}

/// The combined result of all gates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GatesView {
    reports: Vec<GateReport>,
    /// Unaccepted code may have written to the caches that the gates used.
    has_unsure_caches: bool,
}

impl GatesView {
    pub fn new(reports: Vec<GateReport>) -> GatesView {
        GatesView { reports, has_unsure_caches: false }
    }

    /// Records that unaccepted code may have written to the caches that the gates used.
    #[must_use]
    pub fn with_unsure_caches(self) -> GatesView {
        GatesView { has_unsure_caches: true, ..self }
    }

    pub(crate) fn reports(&self) -> &[GateReport] {
        &self.reports
    }

    /// Returns the reports with this effect, in order.
    pub fn with(&self, effect: Effect) -> impl Iterator<Item = &GateReport> {
        self.reports.iter().filter(move |report| report.attribution.effect() == effect)
    }

    /// The level of proof by the gates: the lowest of all that have one.
    pub fn level(&self) -> ProofLevel {
        let levels = self.reports.iter().filter_map(|report| report.attribution.level());
        let most = if self.has_unsure_caches {
            ProofLevel::ChecksChanged
        } else {
            ProofLevel::GatesPassed
        };
        levels.min().unwrap_or(ProofLevel::NotProven).min(most)
    }
}

#[cfg(test)]
#[path = "gate_tests.rs"]
mod tests;
