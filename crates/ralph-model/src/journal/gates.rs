//! Events of judgement: gates as they run, and verdicts with their reasons.

use serde::{Deserialize, Serialize};

use super::{Place, event_data};
use crate::gate::{Attribution, GateRun, GateStatus};
use crate::proof::ProofLevel;
use crate::testcount::TestCounts;
use crate::verdict::{Reason, Verdict};

/// The commit at which a gate runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GatePoint {
    /// The commit under judgement.
    #[default]
    Candidate,
    /// Where work began.
    Base,
    /// The commit under judgement, with the anchor's checks.
    Overlay,
}

/// The number of a gate's run at one commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateAttempt {
    #[default]
    First,
    /// A repetition.
    Again,
    /// A repetition without the caches' content.
    Fresh,
}

/// The result of a judgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerdictKind {
    Accepted,
    Rejected,
    PlanInvalid,
    NeedsHuman,
    /// One that only a newer Ralph knows.
    #[default]
    #[serde(other)]
    Other,
}

event_data! {
    /// A checkout for gates is set up.
    SetupStarted {
        item: Option<String>,
        commit: String,
        argv: Vec<String>,
    }

    /// A gate begins to run.
    GateStarted {
        item: Option<String>,
        commit: String,
        at: GatePoint,
        gate: String,
        attempt: GateAttempt,
        argv: Vec<String>,
        /// With the anchor's checks: files that may be checks, and are the candidate's all the same.
        kept: Vec<String>,
    }

    /// A gate has run.
    GateFinished {
        item: Option<String>,
        commit: String,
        at: GatePoint,
        gate: String,
        attempt: GateAttempt,
        kept: Vec<String>,
        /// `passed`, `proved_nothing`, `failed`, `timed_out` or `could_not_run`.
        status: String,
        /// How it failed, or why it could not run.
        reason: Option<String>,
        /// The attribution from all runs of the gate; recorded with the last of them.
        attribution: Option<String>,
        duration_ms: u64,
        tests: Option<GateTests>,
        /// Whether caches were filled by earlier runs.
        warm: Option<bool>,
        log: Option<Place>,
    }

    /// How many tests a gate ran.
    GateTests {
        passed: u64,
        failed: u64,
        skipped: u64,
    }

    /// A person changed the gates of an item in progress.
    GatesChanged {
        spec: Option<String>,
        task: Option<String>,
        /// What changed.
        reason: String,
    }

    /// The judge, a verifier or a person decided on an item.
    VerdictReached {
        item: String,
        commit: Option<String>,
        verdict: VerdictKind,
        /// `judge`, `verifier` or `person`.
        by: String,
        reasons: Vec<ReasonText>,
        level: Option<ProofLevel>,
        /// How many files the work changes, if measured.
        files: Option<u64>,
    }

    /// Accepted work is on the run's branch.
    WorkLanded {
        item: String,
        /// The directory of the repository in the workspace; `None` for the workspace itself.
        repository: Option<String>,
        branch: String,
        /// The commit that the branch points to.
        commit: String,
        /// The commit that was judged.
        candidate: Option<String>,
        /// Whether both sides had advanced and were merged.
        merge: Option<bool>,
        /// Why the person's checkout does not follow yet.
        waits: Option<String>,
        subject: String,
    }

    /// A reason.
    ReasonText {
        /// One of a fixed set; see [`Reason::code`].
        code: String,
        text: String,
    }
}

impl From<TestCounts> for GateTests {
    fn from(tests: TestCounts) -> GateTests {
        GateTests { passed: tests.passed, failed: tests.failed, skipped: tests.skipped }
    }
}

impl GateFinished {
    /// Returns the event for the end of a gate's run, given the one for its start.
    pub fn of(
        started: &GateStarted,
        run: &GateRun,
        attribution: Option<&Attribution>,
    ) -> GateFinished {
        let GateStarted { item, commit, at, gate, attempt, kept, .. } = started.clone();
        GateFinished {
            item,
            commit,
            at,
            gate,
            attempt,
            kept,
            status: run.status.name().to_owned(),
            reason: match &run.status {
                GateStatus::Failed { exit } => Some(exit.to_string()),
                GateStatus::CouldNotRun { obstacle } => Some(obstacle.to_string()),
                _ => None,
            },
            attribution: attribution.map(|attribution| attribution.name().to_owned()),
            duration_ms: u64::try_from(run.duration.as_millis()).unwrap_or(u64::MAX),
            tests: run.tests.map(GateTests::from),
            warm: None,
            log: None,
        }
    }
}

impl VerdictReached {
    /// Returns the event for a verdict on an item.
    pub fn of(item: &str, by: &str, verdict: &Verdict) -> VerdictReached {
        let (kind, reasons) = match verdict {
            Verdict::Accepted { .. } => (VerdictKind::Accepted, Vec::new()),
            Verdict::Rejected { reasons } => {
                (VerdictKind::Rejected, reasons.iter().map(ReasonText::from).collect())
            }
            Verdict::PlanInvalid { reason } => {
                (VerdictKind::PlanInvalid, vec![ReasonText::new("plan_invalid", reason)])
            }
            Verdict::NeedsHuman { question } => {
                (VerdictKind::NeedsHuman, vec![ReasonText::new(question.code(), question)])
            }
        };
        let level = match verdict {
            Verdict::Accepted { level, .. } => Some(*level),
            _ => None,
        };
        let (item, by) = (item.to_owned(), by.to_owned());
        VerdictReached { item, by, verdict: kind, reasons, level, ..Self::default() }
    }
}

impl ReasonText {
    pub fn new(code: &str, text: &(impl ToString + ?Sized)) -> ReasonText {
        ReasonText { code: code.to_owned(), text: text.to_string() }
    }
}

impl From<&Reason> for ReasonText {
    fn from(reason: &Reason) -> ReasonText {
        ReasonText::new(reason.code(), &reason.for_person())
    }
}
