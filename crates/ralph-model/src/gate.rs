//! Gates: checks the harness executes itself, and what their results say of a candidate.
//!
//! A gate that fails at the candidate is run once more there, and on the base, so that the work is blamed for what it
//! broke and for nothing else. The base's result is wanted even where the candidate passes: a gate that passes because
//! there is less left to check is no proof. The first line that applies decides; counts are of executed tests:
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
//! A run that timed out has failed; how many tests it got through is chance, so its count is compared with nothing.
//! How a gate is run, and where, is the engine's.

mod spec;

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::millis;
use crate::proof::ProofLevel;
use crate::run::ProcessExit;
use crate::testcount::{PassedTests, TestCounts};

pub use spec::{BuiltIn, Check, GateSpec};

/// Returns the gates in the order they are run in: fast ones first, else as configured.
pub fn in_order(gates: &[GateSpec]) -> Vec<&GateSpec> {
    let mut order: Vec<_> = gates.iter().collect();
    order.sort_by_key(|gate| !gate.fast);
    order
}

/// Why a gate could not be run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Obstacle {
    /// The program is not there.
    NoProgram { program: String },
    /// The checkout could not be set up.
    Setup { message: String },
    /// The machine got in the way. This says nothing of the work.
    Machine { message: String },
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Obstacle::NoProgram { program } => write!(f, "program `{program}` not found"),
            Obstacle::Setup { message } => write!(f, "the checkout could not be set up: {message}"),
            Obstacle::Machine { message } => f.write_str(message),
        }
    }
}

/// How one run of a gate went.
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
    /// Returns the name that is written.
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

/// What a gate printed, kept elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateOutput {
    /// The SHA-256 of all of it, in hex.
    pub sha256: String,
    /// The file that holds it.
    pub path: String,
    /// How it ended: a few lines that name no path of this machine.
    #[serde(default)]
    pub last: String,
}

/// One run of a gate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateRun {
    pub status: GateStatus,
    /// What the output said of tests, where it is a runner's that is known.
    pub tests: Option<TestCounts>,
    /// The tests that passed, where all of them are named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub names: Option<PassedTests>,
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

    const fn obstacle(&self) -> Option<&Obstacle> {
        match &self.status {
            GateStatus::CouldNotRun { obstacle } => Some(obstacle),
            _ => None,
        }
    }

    /// How many tests were executed, where that is known and not left to chance.
    fn executed(&self) -> Option<u64> {
        match self.status {
            GateStatus::TimedOut | GateStatus::CouldNotRun { .. } => None,
            _ => self.tests.map(TestCounts::executed),
        }
    }
}

/// The runs of one gate that are known so far.
#[derive(Clone, Copy, Debug)]
pub struct GateRuns<'a> {
    pub candidate: &'a GateRun,
    /// The second run at the candidate.
    pub again: Option<&'a GateRun>,
    pub base: Option<&'a GateRun>,
    /// Checks differ between base and candidate: tests that are gone are looked for with the anchor's checks.
    pub checks_differ: bool,
}

/// A run that is still wanted before a gate's result can be attributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    Again,
    Base,
}

impl GateRuns<'_> {
    /// Returns the run that is wanted next, if any.
    pub fn wanted(&self) -> Option<Wanted> {
        // A program that is not there will not be there a moment later.
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

/// What the results of a gate say of the candidate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "attribution", rename_all = "snake_case")]
pub enum Attribution {
    Passed,
    /// It succeeds, but no test is executed, nor was one at the base.
    ProvedNothing,
    /// It passes at the base, or fails there in fewer tests.
    Regressed,
    /// It fails, and nothing is known of the base.
    Failed,
    /// It fails and passes at the same commit.
    Flaky,
    RedBeforeAndAfter,
    /// Tests that were executed at the base are not executed any more; `None` where no count was printed.
    FewerTests {
        base: u64,
        candidate: Option<u64>,
    },
    /// The same, where checks were changed: whether that is right is asked.
    TestsGone {
        base: u64,
        candidate: Option<u64>,
    },
    /// It cannot be run any more, and could at the base.
    Broken {
        obstacle: Obstacle,
    },
    CouldNotRun {
        obstacle: Obstacle,
    },
}

/// Returns what the runs of a gate say of the candidate.
pub fn attribute(runs: GateRuns<'_>) -> Attribution {
    let base = runs.base;
    let again = runs.again.filter(|_| !runs.candidate.passed());
    // A second run that could not be run takes nothing from the first; a first that could not be run says nothing.
    let last = match again.filter(|again| again.obstacle().is_none()) {
        Some(again) => again,
        None => runs.candidate,
    };
    if let Some(obstacle) = last.obstacle().cloned() {
        let machine = matches!(obstacle, Obstacle::Machine { .. });
        let base_ran = base.is_some_and(|base| base.obstacle().is_none());
        return match obstacle {
            obstacle if base_ran && !machine => Attribution::Broken { obstacle },
            obstacle => Attribution::CouldNotRun { obstacle },
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

/// Compares how many tests are executed with how many were at the base.
fn fewer_tests(now: &GateRun, base: Option<&GateRun>, checks_differ: bool) -> Option<Attribution> {
    let base = base?;
    let before = base.executed()?;
    let fewer = match now.executed() {
        Some(executed) => executed < before,
        // A runner that counted must count; some do so only when something failed, and are silent where nothing did.
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

/// Whether more tests fail than did at the base, in each run at the candidate that counted.
fn more_failures(runs: &GateRuns<'_>, base: &GateRun) -> bool {
    let failures = |run: &GateRun| run.executed().and(run.tests).map(|tests| tests.failed);
    let now = [Some(runs.candidate), runs.again].into_iter().flatten().filter_map(failures).min();
    matches!((now, failures(base)), (Some(now), Some(before)) if now > before)
}

/// What an attribution leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// It speaks for the candidate.
    Proof,
    /// It is as if there were no gate.
    Nothing,
    /// It does not block; the verifier is asked about it.
    Question,
    /// The candidate is rejected.
    Block,
    /// The gate is of no use until a person has put it right.
    Person,
    /// The machine got in the way: the gate is to be run again.
    Trouble,
}

impl Attribution {
    /// Returns the name that is written.
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
    /// Returns what it says of accepted work; `None` if it is as if there were no gate.
    pub const fn level(&self) -> Option<ProofLevel> {
        match self {
            Attribution::ProvedNothing => None,
            // Whether tests that are gone still pass is known from the run with the anchor's checks.
            Attribution::Passed | Attribution::TestsGone { candidate: Some(_), .. } => {
                Some(ProofLevel::GatesPassed)
            }
            Attribution::Flaky | Attribution::TestsGone { candidate: None, .. } => {
                Some(ProofLevel::ChecksChanged)
            }
            _ => Some(ProofLevel::NotProven),
        }
    }
}

/// What one gate says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateReport {
    pub gate: String,
    pub attribution: Attribution,
    /// How the run went that the report is about.
    pub status: GateStatus,
    /// The file that holds its output; only for who is on this machine.
    pub output: String,
    /// How the output ended.
    pub last: String,
}

/// What all gates say together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GatesView {
    reports: Vec<GateReport>,
}

impl GatesView {
    pub fn new(reports: Vec<GateReport>) -> GatesView {
        GatesView { reports }
    }

    pub(crate) fn reports(&self) -> &[GateReport] {
        &self.reports
    }

    /// Returns the reports with this effect, in order.
    pub fn with(&self, effect: Effect) -> impl Iterator<Item = &GateReport> {
        self.reports.iter().filter(move |report| report.attribution.effect() == effect)
    }

    /// What gates say of the candidate: the lowest of all that say anything.
    pub fn level(&self) -> ProofLevel {
        let levels = self.reports.iter().filter_map(|report| report.attribution.level());
        levels.min().unwrap_or(ProofLevel::NotProven)
    }
}

#[cfg(test)]
#[path = "gate_tests.rs"]
mod tests;
