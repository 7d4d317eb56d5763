//! All gates of a candidate: fast ones first, each run as often and where it must be until its result can be attributed.
//!
//! What a gate said at a base is kept in private state by commit and by everything that could change it, and not asked
//! again; what could not be run there is. Gates that are not concerned by a change are left out and named.

use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use ralph_model::gate::{
    Attribution, BuiltIn, Effect, GateReport, GateRun, GateRuns, GateSpec, GateStatus, GatesView,
    Wanted, attribute, in_order,
};
use ralph_model::journal::{
    GateAttempt, GateFinished, GatePoint, GateStarted, JournalEvent, Place,
};
use ralph_model::receipt::{Caches, GateReceipt};

use super::built_in::{self, CandidateFiles};
use super::pin::PinnedGates;
use super::workbench::{Workbench, lock_file};
use super::{GateContext, GateError, GateRepository, Tell};
use crate::digest;
use crate::files::lock::{LockOwner, RunLock};
use crate::files::{create_private_directory, read_optional, replace_unsynced};
use crate::git::Oid;

/// What is to be looked at.
#[derive(Clone, Copy, Debug)]
pub struct Points<'a> {
    pub candidate: &'a Oid,
    /// Where work began; without it results are not compared with anything.
    pub base: Option<&'a Oid>,
    /// The paths that the candidate changes; `None` runs every gate.
    pub changed: Option<&'a [String]>,
    pub extent: Extent,
}

/// How many of the gates are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    All,
    /// None of the slow ones once a fast one rejects the candidate.
    UntilRejected,
}

/// What is known of one gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateFinding {
    pub gate: GateSpec,
    pub candidate: GateRun,
    pub again: Option<GateRun>,
    pub base: Option<GateRun>,
    pub attribution: Attribution,
}

impl GateFinding {
    /// Returns the run at the candidate that the attribution is about.
    pub fn deciding(&self) -> &GateRun {
        let ran = |run: &&GateRun| !matches!(run.status, GateStatus::CouldNotRun { .. });
        self.again.as_ref().filter(ran).unwrap_or(&self.candidate)
    }

    pub(crate) fn report(&self) -> GateReport {
        let GateRun { status, output, .. } = self.deciding();
        GateReport {
            gate: self.gate.name.clone(),
            attribution: self.attribution.clone(),
            status: status.clone(),
            output: output.path.clone(),
            last: output.last.clone(),
        }
    }
}

/// What all gates said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assessment {
    pub findings: Vec<GateFinding>,
    /// Gates that the change does not concern.
    pub unconcerned: Vec<String>,
    /// Gates that were not reached any more.
    pub unreached: Vec<String>,
    /// Caches that were filled by earlier runs.
    pub(crate) warm: Vec<Utf8PathBuf>,
}

impl Assessment {
    pub fn view(&self) -> GatesView {
        GatesView::new(self.findings.iter().map(GateFinding::report).collect())
    }

    pub fn caches(&self) -> Caches {
        if self.warm.is_empty() {
            return Caches::Cold;
        }
        Caches::Warm { paths: self.warm.iter().map(ToString::to_string).collect() }
    }

    /// Returns the gates as a receipt tells them.
    pub(crate) fn receipts(&self) -> Vec<GateReceipt> {
        let receipt = |finding: &GateFinding| {
            let run = finding.deciding();
            GateReceipt {
                gate: finding.gate.clone(),
                result: run.status.clone(),
                // As it will be read back.
                duration: Duration::from_millis(
                    u64::try_from(run.duration.as_millis()).unwrap_or(u64::MAX),
                ),
                output_sha256: run.output.sha256.clone(),
                tests: run.tests,
                finding: finding.attribution.clone(),
            }
        };
        self.findings.iter().map(receipt).collect()
    }
}

/// Runs gates in the checkouts of one repository, which are its own while it lives.
pub struct Assessor<'a> {
    context: &'a GateContext<'a>,
    repository: &'a GateRepository,
    pinned: &'a PinnedGates,
    candidate: Workbench<'a>,
    base: Workbench<'a>,
    /// The candidate's files, once a built-in gate has looked at them.
    files: Option<CandidateFiles>,
    /// The last run, not told yet: whether its gate is decided by it shows when no further run is wanted.
    untold: Option<(GateStarted, GateRun)>,
    _lock: RunLock,
}

impl<'a> Assessor<'a> {
    /// Takes the checkouts, or says who has them.
    pub fn open(
        context: &'a GateContext<'a>,
        repository: &'a GateRepository,
        pinned: &'a PinnedGates,
    ) -> Result<Assessor<'a>, GateError> {
        Self::open_named(context, repository, pinned, ["candidate", "base"])
    }

    pub(super) fn open_named(
        context: &'a GateContext<'a>,
        repository: &'a GateRepository,
        pinned: &'a PinnedGates,
        [candidate, base]: [&str; 2],
    ) -> Result<Assessor<'a>, GateError> {
        create_private_directory(&repository.directory)?;
        let owner = LockOwner::current(context.command, context.clock.now());
        let lock = RunLock::acquire(&lock_file(&repository.directory), &owner)?;
        let bench = |name| Workbench::new(context, repository, pinned, name);
        let (candidate, base) = (bench(candidate), bench(base));
        Ok(Assessor {
            context,
            repository,
            pinned,
            candidate,
            base,
            files: None,
            untold: None,
            _lock: lock,
        })
    }

    /// Runs the gates that the change concerns.
    pub fn assess(&mut self, points: &Points<'_>, tell: Tell<'_>) -> Result<Assessment, GateError> {
        let mut assessment = Assessment::default();
        for gate in in_order(&self.pinned.gates) {
            let name = || gate.name.clone();
            if !self.concerns(gate, points) {
                assessment.unconcerned.push(name());
                continue;
            }
            let blocked = |finding: &GateFinding| finding.attribution.effect() == Effect::Block;
            let rejected = assessment.findings.iter().any(blocked);
            if points.extent == Extent::UntilRejected && rejected && !gate.fast {
                assessment.unreached.push(name());
                continue;
            }
            assessment.findings.push(self.find(gate, points, tell)?);
        }
        assessment.warm = self.candidate.found_warm().to_vec();
        Ok(assessment)
    }

    fn concerns(&self, gate: &GateSpec, points: &Points<'_>) -> bool {
        let Some(changed) = points.changed else { return true };
        gate.concerns(changed.iter().map(|path| self.repository.seen_from_workspace(path)))
    }

    /// Runs one gate until its result can be attributed.
    pub(super) fn find(
        &mut self,
        gate: &GateSpec,
        points: &Points<'_>,
        tell: Tell<'_>,
    ) -> Result<GateFinding, GateError> {
        if let Some(check) = gate.built_in() {
            return self.find_built_in(gate, check, points, tell);
        }
        let candidate = self.at_candidate(gate, points, GateAttempt::First, tell)?;
        let (mut again, mut base) = (None, None);
        loop {
            let runs =
                GateRuns { candidate: &candidate, again: again.as_ref(), base: base.as_ref() };
            match (runs.wanted(), points.base) {
                (Some(Wanted::Again), _) => {
                    again = Some(self.again(gate, points, tell)?);
                }
                (Some(Wanted::Base), Some(commit)) => {
                    base = Some(self.at_base(gate, commit, tell)?);
                }
                (Some(Wanted::Base), None) | (None, _) => {
                    let attribution = attribute(runs);
                    self.tell_finished(Some(&attribution), tell)?;
                    let gate = gate.clone();
                    return Ok(GateFinding { gate, candidate, again, base, attribution });
                }
            }
        }
    }

    fn find_built_in(
        &mut self,
        gate: &GateSpec,
        check: BuiltIn,
        points: &Points<'_>,
        tell: Tell<'_>,
    ) -> Result<GateFinding, GateError> {
        let at = GatePoint::Candidate;
        let started = self.begin(gate, points.candidate, at, GateAttempt::First, tell)?;
        let (candidate, attribution) =
            built_in::run(self.context, self.repository, &mut self.files, check, points)?;
        self.untold = Some((started, candidate.clone()));
        self.tell_finished(Some(&attribution), tell)?;
        let gate = gate.clone();
        Ok(GateFinding { gate, candidate, again: None, base: None, attribution })
    }

    /// Runs a gate once more. One that failed could have left in a cache what makes it pass now, so a pass counts only
    /// if it is one without them as well.
    fn again(
        &mut self,
        gate: &GateSpec,
        points: &Points<'_>,
        tell: Tell<'_>,
    ) -> Result<GateRun, GateError> {
        let again = self.at_candidate(gate, points, GateAttempt::Again, tell)?;
        let passed = matches!(again.status, GateStatus::Passed | GateStatus::ProvedNothing);
        if !passed || !self.candidate.has_caches() {
            return Ok(again);
        }
        self.candidate.forget_caches(points.candidate)?;
        self.at_candidate(gate, points, GateAttempt::Fresh, tell)
    }

    fn at_candidate(
        &mut self,
        gate: &GateSpec,
        points: &Points<'_>,
        turn: GateAttempt,
        tell: Tell<'_>,
    ) -> Result<GateRun, GateError> {
        let started = self.begin(gate, points.candidate, GatePoint::Candidate, turn, tell)?;
        let run = self.candidate.run(gate, points.candidate, tell)?;
        self.untold = Some((started, run.clone()));
        Ok(run)
    }

    /// Tells that a gate begins to run, after what came of the run before it.
    fn begin(
        &mut self,
        gate: &GateSpec,
        commit: &Oid,
        at: GatePoint,
        attempt: GateAttempt,
        tell: Tell<'_>,
    ) -> Result<GateStarted, GateError> {
        self.tell_finished(None, tell)?;
        let started = GateStarted {
            item: self.context.item.map(str::to_owned),
            commit: commit.to_string(),
            at,
            gate: gate.name.clone(),
            attempt,
            argv: gate.argv().to_vec(),
        };
        tell(JournalEvent::from(started.clone()))?;
        Ok(started)
    }

    fn tell_finished(
        &mut self,
        attribution: Option<&Attribution>,
        tell: Tell<'_>,
    ) -> Result<(), GateError> {
        let Some((started, run)) = self.untold.take() else { return Ok(()) };
        let bench = match started.at {
            GatePoint::Candidate => &self.candidate,
            GatePoint::Base => &self.base,
        };
        let state = self.context.state.directory();
        let log = Utf8Path::new(&run.output.path).strip_prefix(state).ok();
        let finished = GateFinished {
            warm: Some(!bench.found_warm().is_empty()),
            log: log.map(|log| Place { home: None, state: Some(log.to_string()) }),
            ..GateFinished::of(&started, &run, attribution)
        };
        Ok(tell(JournalEvent::from(finished))?)
    }

    fn at_base(
        &mut self,
        gate: &GateSpec,
        commit: &Oid,
        tell: Tell<'_>,
    ) -> Result<GateRun, GateError> {
        let kept = self.kept_base(gate, commit);
        let text = read_optional(&kept)?;
        if let Some(run) = text.and_then(|text| serde_json::from_slice(&text).ok()) {
            return Ok(run);
        }
        let started = self.begin(gate, commit, GatePoint::Base, GateAttempt::First, tell)?;
        let run = self.base.run(gate, commit, tell)?;
        self.untold = Some((started, run.clone()));
        if !matches!(run.status, GateStatus::CouldNotRun { .. }) {
            let text = serde_json::to_vec(&run).expect("a run of a gate is plain data");
            replace_unsynced(&kept, &text)?;
        }
        Ok(run)
    }

    /// Returns the file that keeps what a gate said at a base.
    fn kept_base(&self, gate: &GateSpec, commit: &Oid) -> Utf8PathBuf {
        let GateSpec { timeout, net, unix, .. } = gate;
        let PinnedGates { setup, caches, .. } = self.pinned;
        let place = (&self.repository.prefix, self.context.boundary);
        let key = digest::of_data(&(gate.argv(), timeout, net, unix, setup, caches, place));
        self.context.state.gate_logs(commit.as_str()).join(format!("base-{}.json", &key[..24]))
    }
}
