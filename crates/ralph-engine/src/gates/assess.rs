//! All gates of a candidate: fast ones first, each run as often and where it must be until its result can be attributed.
//!
//! What a gate said at a base is kept in private state by tree, but for what is Ralph's own in it, and by everything else that
//! could change it, and not asked again; what could not be run there is. Gates that are not concerned by a change are left out and named.

use std::path::PathBuf;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use ralph_model::checks::{
    AnchoredGate, AnchoredRuns, CheckClass, ChecksFinding, LookedFor, OverlayFinding,
    can_be_looked_up, depends_on_trace, is_check_by_name, is_product, scripts_of,
};
use ralph_model::gate::{
    Attribution, BuiltIn, CacheMode, Effect, GateReport, GateRun, GateRuns, GateSpec, GateStatus,
    GatesView, Wanted, attribute, in_order,
};
use ralph_model::journal::{
    GateAttempt, GateFinished, GatePoint, GateStarted, JournalEvent, Place,
};
use ralph_model::proof::ProofLevel;
use ralph_model::receipt::{Caches, GateReceipt};

use super::built_in;
use super::checks::{CheckSurvey, ChecksRequest, Overlay, Trial};
use super::pin::PinnedGates;
use super::start::StartFinding;
use super::workbench::{Workbench, lock_file};
use super::{GateContext, GateError, GateRepository, Tell};
use crate::digest;
use crate::files::lock::{LockOwner, RunLock};
use crate::files::{create_private_directory, read_optional, replace_unsynced};
use crate::git::evidence::is_own;
use crate::git::home_copy::HomeChange;
use crate::git::{Oid, shown};

/// What is to be looked at.
#[derive(Clone, Copy, Debug)]
pub struct Points<'a> {
    pub candidate: &'a Oid,
    /// Where work began; without it results are not compared with anything.
    pub base: Option<&'a Oid>,
    /// The paths that the candidate changes; `None` runs every gate.
    pub changed: Option<&'a [String]>,
    pub extent: Extent,
    /// What the checks are compared with; `None` compares none. It takes a base.
    pub checks: Option<ChecksRequest<'a>>,
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
        let ran = |run: &&GateRun| !run.could_not_run();
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
    /// Unaccepted code may have written to these caches.
    is_unsure: bool,
    /// What the candidate does to its checks.
    pub checks: ChecksFinding,
}

impl Assessment {
    pub fn view(&self) -> GatesView {
        let view = GatesView::new(self.findings.iter().map(GateFinding::report).collect());
        if self.is_unsure { view.with_unsure_caches() } else { view }
    }

    /// The level of proof of the candidate, once all required approvals are given.
    pub fn level(&self) -> ProofLevel {
        let gates = self.view().level();
        if self.checks.holds() { gates } else { gates.min(ProofLevel::ChecksChanged) }
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

/// What is to be run with the anchor's checks.
struct Survey {
    candidate: Overlay,
    /// The commit that tells what passed before: the base, with the anchor's checks where its own differ.
    base: Oid,
    /// Nothing but checks differs, so that there is nothing to run: it is the base.
    is_base: bool,
}

impl Survey {
    fn touches_tests(&self) -> bool {
        self.candidate.changed.iter().any(|check| check.class != CheckClass::Ci)
    }
}

/// Runs gates in the checkouts of one repository, which are its own while it lives.
pub struct Assessor<'a> {
    context: &'a GateContext<'a>,
    repository: &'a GateRepository,
    pinned: &'a PinnedGates,
    candidate: Workbench<'a>,
    base: Workbench<'a>,
    /// For the candidate with the anchor's checks: it shares nothing with the others.
    overlay: Workbench<'a>,
    /// Checks differ between anchor and candidate.
    checks_differ: bool,
    /// The last run, not told yet: whether its gate is decided by it shows when no further run is wanted.
    untold: Option<(GateStarted, GateRun)>,
    _lock: RunLock,
}

impl<'a> Assessor<'a> {
    /// Takes the checkouts, or returns their holder.
    pub fn open(
        context: &'a GateContext<'a>,
        repository: &'a GateRepository,
        pinned: &'a PinnedGates,
    ) -> Result<Assessor<'a>, GateError> {
        Self::open_named(context, repository, pinned, ["candidate", "base", "overlay"])
    }

    pub(super) fn open_named(
        context: &'a GateContext<'a>,
        repository: &'a GateRepository,
        pinned: &'a PinnedGates,
        [candidate, base, overlay]: [&str; 3],
    ) -> Result<Assessor<'a>, GateError> {
        create_private_directory(&repository.directory)?;
        let owner = LockOwner::current(context.command, context.clock.now());
        let lock = RunLock::acquire(&lock_file(&repository.directory), &owner)?;
        let (candidate, is_own_base) =
            (Workbench::for_candidate(context, repository, pinned, candidate), base == "base");
        // Only code of the person's and of accepted work runs there.
        let base = match pinned.cache {
            CacheMode::Cold => Workbench::cold(context, repository, pinned, base),
            CacheMode::Warm | CacheMode::Accepted => {
                Workbench::new(context, repository, pinned, base)
            }
        };
        // Of a stranger's commit nothing is kept.
        let base = if is_own_base { base.keeping_fetched() } else { base };
        let overlay = Workbench::cold(context, repository, pinned, overlay);
        Ok(Assessor {
            context,
            repository,
            pinned,
            candidate,
            base,
            overlay,
            checks_differ: false,
            untold: None,
            _lock: lock,
        })
    }

    /// Runs the gates that the change concerns.
    pub fn assess(&mut self, points: &Points<'_>, tell: Tell<'_>) -> Result<Assessment, GateError> {
        let mut assessment = Assessment::default();
        self.settle_caches(points)?;
        let survey = self.survey(points, tell)?;
        self.checks_differ = survey.as_ref().is_some_and(Survey::touches_tests);
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
        assessment.is_unsure = self.candidate.shares_caches() && !assessment.warm.is_empty();
        if let Some(survey) = survey {
            assessment.checks = self.with_anchor(survey, points, &assessment.findings, tell)?;
            for finding in &assessment.findings {
                let rewritten = self.checks_rewritten(finding);
                assessment.checks.add_rewritten(&finding.gate.name, rewritten);
            }
        }
        Ok(assessment)
    }

    /// Returns the checks that a gate changes while it runs, and did not change at the base: with them its result proves nothing.
    fn checks_rewritten(&self, finding: &GateFinding) -> Vec<String> {
        let scripts = scripts_of(self.pinned.gates.iter().map(GateSpec::argv));
        let is_check = |path: &str| {
            let inside = Utf8Path::new(path).strip_prefix(&self.repository.prefix);
            is_check_by_name(path) || inside.is_ok_and(|inside| scripts.contains(inside.as_str()))
        };
        let before = finding.base.as_ref().map_or(&[][..], |base| &base.rewrote);
        let now = finding.deciding().rewrote.iter();
        now.filter(|path| is_check(path) && !before.contains(path)).cloned().collect()
    }

    /// Takes over what the last candidate left in its caches if it is in the history that the work began from: code of
    /// work that was not accepted could have left anything in them.
    fn settle_caches(&self, points: &Points<'_>) -> Result<(), GateError> {
        let (git, base) = (self.repository.mirror.git(), points.base.unwrap_or(points.candidate));
        self.candidate.settle_caches(&|filler| git.is_ancestor(filler, base).unwrap_or(false))
    }

    /// Says what the candidate does to its checks.
    fn survey(&mut self, points: &Points<'_>, tell: Tell<'_>) -> Result<Option<Survey>, GateError> {
        let (Some(request), Some(base)) = (&points.checks, points.base) else { return Ok(None) };
        let mirror = &self.repository.mirror;
        let anchor = match request.branch {
            Some(branch) => mirror.anchor_tree(branch, base)?,
            None => mirror.tree_of(base)?,
        };
        let looked = self.looked_for(points, (base, request.own), tell)?;
        let survey = CheckSurvey {
            repository: self.repository,
            pinned: self.pinned,
            request,
            anchor: &anchor,
            looked,
        };
        let mirror = &self.repository.mirror;
        let candidate = survey.lay_over(points.candidate)?;
        // If the base itself has unapproved changes, it is run with the anchor's checks as well.
        let base_tree = mirror.tree_of(base)?;
        let (base, base_tree) = if anchor == base_tree || candidate.commit.is_none() {
            (base.clone(), base_tree)
        } else {
            let laid = survey.lay_over(base)?;
            (laid.commit.unwrap_or_else(|| base.clone()), laid.tree)
        };
        let is_base = {
            // What no gate runs makes no difference to one.
            let is_ci = |path: &std::path::Path| {
                let mut ci = candidate.changed.iter().filter(|one| one.class == CheckClass::Ci);
                ci.any(|check| check.path == shown(path))
            };
            let changes = mirror.git().tree_changes(&base_tree, &candidate.tree)?;
            changes.iter().all(|one| is_own(request.own, &one.path) || is_ci(&one.path))
        };
        Ok(Some(Survey { candidate, base, is_base }))
    }

    /// Returns what the gates look for at the base; `None` where that cannot be told. It hardly changes from one commit to
    /// the next, so what is known of the base before counts as well, and a gate is run for it only where nothing is known.
    fn looked_for(
        &mut self,
        points: &Points<'_>,
        base: (&Oid, &[PathBuf]),
        tell: Tell<'_>,
    ) -> Result<Option<LookedFor>, GateError> {
        let mirror = &self.repository.mirror;
        let changes = mirror
            .git()
            .tree_changes(&mirror.tree_of(base.0)?, &mirror.tree_of(points.candidate)?)?;
        let is_wanted = |change: &HomeChange| {
            !is_own(base.1, &change.path) && depends_on_trace(&shown(&change.path))
        };
        // A new source file that a gate looked for is only reported, where the trace shows it; no gate runs for it.
        let can_be_found = |change: &HomeChange| {
            let is_theirs = change.after.is_some() && !is_own(base.1, &change.path);
            is_theirs && can_be_looked_up(&shown(&change.path))
        };
        let is_needed = changes.iter().any(is_wanted);
        if !is_needed && !changes.iter().any(can_be_found) {
            return Ok(Some(LookedFor::default()));
        }
        let mut all = LookedFor::default();
        for gate in in_order(&self.pinned.gates) {
            if gate.built_in().is_some() || !self.concerns(gate, points) {
                continue;
            }
            let kept = self.kept_base(gate, base)?;
            let mut looked = read_looked(&looked_beside(&kept))?;
            if looked.is_none() {
                looked = read_looked(&self.looked_last(gate)?)?;
            }
            if looked.is_none() && is_needed {
                self.run_at_base(gate, base.0, &kept, tell)?;
                looked = read_looked(&looked_beside(&kept))?;
            }
            let Some(looked) = looked else {
                if is_needed {
                    return Ok(None);
                }
                continue;
            };
            all.opened.extend(looked.opened);
            all.missed.extend(looked.missed);
        }
        self.tell_finished(None, tell)?;
        Ok(Some(all))
    }

    /// Returns the file that keeps what a gate looked for when that was seen last, at whatever commit.
    fn looked_last(&self, gate: &GateSpec) -> Result<Utf8PathBuf, GateError> {
        let key = digest::of_data(&(gate.argv(), &self.repository.prefix));
        let directory = self.repository.directory.join("looked");
        create_private_directory(&directory)?;
        Ok(directory.join(format!("{}.json", &key[..24])))
    }

    /// Runs the gates that pass at the candidate once more with the anchor's checks.
    fn with_anchor(
        &mut self,
        survey: Survey,
        points: &Points<'_>,
        findings: &[GateFinding],
        tell: Tell<'_>,
    ) -> Result<ChecksFinding, GateError> {
        let Survey { candidate, base, is_base } = survey;
        let Overlay {
            tree,
            commit,
            for_green,
            for_red,
            for_plain,
            changed,
            allowed,
            hints,
            entries,
        } = candidate;
        let mut finding = ChecksFinding { changed, hints, overlay: None, allowed, entries };
        let is_rejected = findings.iter().any(|one| one.attribution.effect() == Effect::Block);
        // Tests that are gone with the source that they stood in leave nothing to lay over: their names are missed all the same.
        let is_nothing_lost = !findings.iter().any(has_lost_tests);
        if (commit.is_none() && is_nothing_lost) || is_rejected {
            return Ok(finding);
        }
        let mut gates = Vec::new();
        for one in findings.iter().filter(|one| one.gate.built_in().is_none()) {
            // A gate that executes no test any more succeeds, too.
            if one.deciding().status != GateStatus::Passed && !has_lost_tests(one) {
                continue;
            }
            let reference = if points.base == Some(&base) {
                one.base.clone()
            } else {
                Some(self.at_base(&one.gate, (&base, own_of(points)), tell)?)
            };
            let name = &one.gate.name;
            let was_red = reference.as_ref().is_some_and(|base| base.status != GateStatus::Passed);
            let tells_tests = |run: &GateRun| run.names.is_some() || run.tests.is_some();
            let is_plain = !was_red && !reference.as_ref().is_some_and(tells_tests);
            let further = if is_plain { for_plain.as_slice() } else { &[] };
            let trees = if was_red { &for_red } else { &for_green };
            let mut compared = None;
            for (at, trial) in trees.iter().chain(further).enumerate() {
                let result = match &reference {
                    // Nothing but checks differs: with the anchor's, it is the base.
                    Some(base) if is_base && at == 0 && !was_red => {
                        AnchoredRuns { gate: name, base: Some(base), over: base }.compare()
                    }
                    // What differs may be no check: then the gate's own run has said it.
                    reference if trial.commit == *points.candidate => {
                        let (base, over) = (reference.as_ref(), one.deciding());
                        AnchoredRuns { gate: name, base, over }.compare()
                    }
                    reference => self.compared_at(&one.gate, trial, reference.as_ref(), tell)?,
                };
                let holds = result.holds;
                compared = Some(result);
                if !holds {
                    break;
                }
            }
            // Where nothing was put back for it, the gate's own run has said it.
            let own = one.deciding();
            let compared = compared.unwrap_or_else(|| {
                AnchoredRuns { gate: name, base: reference.as_ref(), over: own }.compare()
            });
            gates.push(compared);
        }
        self.tell_finished(None, tell)?;
        let tree = tree.as_str().parse().expect("an object's id is 40 or 64 hexadecimal digits");
        finding.overlay = Some(OverlayFinding { tree, gates });
        Ok(finding)
    }

    /// Runs a gate on a tree with the anchor's checks, once more if it does not hold.
    fn compared_at(
        &mut self,
        gate: &GateSpec,
        trial: &Trial,
        base: Option<&GateRun>,
        tell: Tell<'_>,
    ) -> Result<AnchoredGate, GateError> {
        let mut compare = |attempt, tell: Tell<'_>| -> Result<AnchoredGate, GateError> {
            let over = self.at_overlay(gate, trial, attempt, tell)?;
            Ok(AnchoredRuns { gate: &gate.name, base, over: &over }.compare())
        };
        let first = compare(GateAttempt::First, tell)?;
        if first.holds { Ok(first) } else { compare(GateAttempt::Again, tell) }
    }

    fn at_overlay(
        &mut self,
        gate: &GateSpec,
        trial: &Trial,
        attempt: GateAttempt,
        tell: Tell<'_>,
    ) -> Result<GateRun, GateError> {
        let commit = &trial.commit;
        let kept = trial.kept.clone();
        let started =
            GateStarted { kept, ..self.start_of(gate, commit, GatePoint::Overlay, attempt) };
        self.tell_started(&started, tell)?;
        let run = self.overlay.run(gate, commit, tell)?;
        self.untold = Some((started, run.clone()));
        Ok(run)
    }

    fn concerns(&self, gate: &GateSpec, points: &Points<'_>) -> bool {
        if !gate.is_for(self.repository.below.as_str()) {
            return false;
        }
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
            let runs = GateRuns {
                candidate: &candidate,
                again: again.as_ref(),
                base: base.as_ref(),
                checks_differ: self.checks_differ,
            };
            match (runs.wanted(), points.base) {
                (Some(Wanted::Again), _) => {
                    again = Some(self.again(gate, points, tell)?);
                }
                (Some(Wanted::Base), Some(commit)) => {
                    let at = (commit, own_of(points));
                    // What is missing may be missing from the machine by now: a kept result is from before that.
                    let could_not = |run: &GateRun| run.could_not_run();
                    let is_missing = again.as_ref().map_or(could_not(&candidate), could_not);
                    base = Some(if is_missing {
                        let kept = self.kept_base(gate, at)?;
                        self.run_at_base(gate, commit, &kept, tell)?
                    } else {
                        self.at_base(gate, at, tell)?
                    });
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
        let (candidate, attribution) = built_in::run(self.context, self.repository, check, points)?;
        self.untold = Some((started, candidate.clone()));
        self.tell_finished(Some(&attribution), tell)?;
        let gate = gate.clone();
        Ok(GateFinding { gate, candidate, again: None, base: None, attribution })
    }

    /// Runs a gate once more. Where it finds the caches of its first run, that could have left in them what makes it pass
    /// now, so a pass counts only if it is one without them as well.
    fn again(
        &mut self,
        gate: &GateSpec,
        points: &Points<'_>,
        tell: Tell<'_>,
    ) -> Result<GateRun, GateError> {
        let again = self.at_candidate(gate, points, GateAttempt::Again, tell)?;
        let passed = matches!(again.status, GateStatus::Passed | GateStatus::ProvedNothing);
        if !passed || !self.candidate.shares_caches() {
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
        let seen = seen_beside(&self.kept_base(gate, (points.candidate, own_of(points)))?);
        keep(&seen, &run)?;
        Ok(run)
    }

    /// Records that a gate begins to run, after the result of the previous run.
    fn begin(
        &mut self,
        gate: &GateSpec,
        commit: &Oid,
        at: GatePoint,
        attempt: GateAttempt,
        tell: Tell<'_>,
    ) -> Result<GateStarted, GateError> {
        let started = self.start_of(gate, commit, at, attempt);
        self.tell_started(&started, tell)?;
        Ok(started)
    }

    fn start_of(
        &self,
        gate: &GateSpec,
        commit: &Oid,
        at: GatePoint,
        attempt: GateAttempt,
    ) -> GateStarted {
        GateStarted {
            item: self.context.item.map(str::to_owned),
            commit: commit.to_string(),
            at,
            gate: gate.name.clone(),
            attempt,
            argv: gate.argv().to_vec(),
            kept: Vec::new(),
        }
    }

    fn tell_started(&mut self, started: &GateStarted, tell: Tell<'_>) -> Result<(), GateError> {
        self.tell_finished(None, tell)?;
        tell(JournalEvent::from(started.clone()))?;
        Ok(())
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
            GatePoint::Overlay => &self.overlay,
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

    /// Runs every gate that is for the repository at a commit where work begins, or returns what it said there before, be it
    /// when the commit was a candidate: that tells whether it runs, though nothing is compared with it. What
    /// took too long before is run again, and the first one that cannot be run ends it, unless the person goes on anyway.
    pub(crate) fn at_start(
        &mut self,
        base: (&Oid, &[PathBuf]),
        anyway: bool,
        tell: Tell<'_>,
    ) -> Result<Vec<StartFinding>, GateError> {
        let mut findings = Vec::new();
        for gate in in_order(&self.pinned.gates) {
            if !gate.is_for(self.repository.below.as_str()) {
                continue;
            }
            let kept = self.kept_base(gate, base)?;
            let known = match read_kept(&kept)? {
                None => read_kept(&seen_beside(&kept))?,
                known => known,
            };
            let run = match known {
                Some(run) if anyway || run.status != GateStatus::TimedOut => run,
                _ => self.run_at_base(gate, base.0, &kept, tell)?,
            };
            let finding = StartFinding { gate: gate.clone(), commit: base.0.clone(), run };
            let ends = !anyway && finding.cannot_run();
            findings.push(finding);
            if ends {
                break;
            }
        }
        self.tell_finished(None, tell)?;
        Ok(findings)
    }

    fn at_base(
        &mut self,
        gate: &GateSpec,
        base: (&Oid, &[PathBuf]),
        tell: Tell<'_>,
    ) -> Result<GateRun, GateError> {
        let kept = self.kept_base(gate, base)?;
        match read_kept(&kept)? {
            Some(run) => Ok(run),
            None => self.run_at_base(gate, base.0, &kept, tell),
        }
    }

    fn run_at_base(
        &mut self,
        gate: &GateSpec,
        commit: &Oid,
        kept: &Utf8Path,
        tell: Tell<'_>,
    ) -> Result<GateRun, GateError> {
        let started = self.begin(gate, commit, GatePoint::Base, GateAttempt::First, tell)?;
        let (run, looked) = self.base.run_traced(gate, commit, tell)?;
        self.untold = Some((started, run.clone()));
        keep(kept, &run)?;
        if let Some(looked) = looked.filter(|looked| looked.whole) {
            let is_written = |path: &String| !is_product(path);
            let looked = LookedFor {
                opened: looked.opened.into_iter().filter(is_written).collect(),
                missed: looked.missed.into_iter().filter(is_written).collect(),
            };
            let text = serde_json::to_vec(&looked).expect("paths are plain data");
            for path in [looked_beside(kept), self.looked_last(gate)?] {
                path.parent().map_or(Ok(()), create_private_directory)?;
                replace_unsynced(&path, &text)?;
            }
        }
        Ok(run)
    }

    /// Returns the file that keeps what a gate said at a base, of which what is Ralph's own makes no difference.
    fn kept_base(
        &self,
        gate: &GateSpec,
        (commit, own): (&Oid, &[PathBuf]),
    ) -> Result<Utf8PathBuf, GateError> {
        let GateSpec { timeout, net, unix, .. } = gate;
        let PinnedGates { setup, caches, .. } = self.pinned;
        let place = (&self.repository.prefix, self.context.boundary);
        let key = digest::of_data(&(gate.argv(), timeout, net, unix, setup, caches, place));
        let mirror = &self.repository.mirror;
        let own = own.iter().filter(|path| !path.as_os_str().is_empty());
        let without: Vec<_> =
            own.map(|path| HomeChange { path: path.clone(), after: None }).collect();
        let tree = mirror.git().tree_with(&mirror.tree_of(commit)?, &without)?;
        let directory = self.context.state.gate_logs(tree.as_str());
        Ok(directory.join(format!("base-{}.json", &key[..24])))
    }
}

fn has_lost_tests(finding: &GateFinding) -> bool {
    matches!(finding.attribution, Attribution::TestsGone { .. })
}

/// Returns what is Ralph's own where gates are run.
fn own_of<'p>(points: &Points<'p>) -> &'p [PathBuf] {
    points.checks.as_ref().map_or(&[], |request| request.own)
}

/// Returns the file that keeps what a gate said at the same tree when it was a candidate's.
fn seen_beside(kept: &Utf8Path) -> Utf8PathBuf {
    kept.with_extension("candidate.json")
}

/// Returns the file that keeps what a gate looked for at the same tree.
fn looked_beside(kept: &Utf8Path) -> Utf8PathBuf {
    kept.with_extension("looked.json")
}

fn read_looked(path: &Utf8Path) -> Result<Option<LookedFor>, GateError> {
    let text = read_optional(path)?;
    Ok(text.and_then(|text| serde_json::from_slice(&text).ok()))
}

/// Keeps what a gate said, if it could be run.
fn keep(path: &Utf8Path, run: &GateRun) -> Result<(), GateError> {
    if matches!(run.status, GateStatus::CouldNotRun { .. }) {
        return Ok(());
    }
    let text = serde_json::to_vec(run).expect("a run of a gate is plain data");
    path.parent().map_or(Ok(()), create_private_directory)?;
    Ok(replace_unsynced(path, &text)?)
}

/// Returns what was kept of a gate's run; what cannot be read is run again.
fn read_kept(path: &Utf8Path) -> Result<Option<GateRun>, GateError> {
    let text = read_optional(path)?;
    Ok(text.and_then(|text| serde_json::from_slice(&text).ok()))
}
