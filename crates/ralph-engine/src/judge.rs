//! The one judge of all workflows: from what an agent said to a verdict, by what the harness measures itself.
//!
//! This is glue. What was claimed is measured in the mirrors, gates run in Ralph's own checkouts, and
//! [`ralph_model::verdict`] decides; it has no rules of its own. A workflow takes the case, asks its verifier about
//! [`Case::questions`] if it has one, and reads [`Case::verdict`]; an accepted commit gets a receipt by
//! [`Judge::attest`].

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use ralph_model::build::Work;
use ralph_model::checks::{ChangedCheck, CheckClass, ChecksFinding};
use ralph_model::contract::Completion;
use ralph_model::evidence::{CommitEvidence, Evidence, RewrittenRef, UnsoundClone, is_state_file};
use ralph_model::gate::{Effect, GateReport};
use ralph_model::id::{CommitId, TreeId};
use ralph_model::proof::ProofLevel;
use ralph_model::receipt::{
    BoundaryInForce, CheckConsent, CheckReceipt, Point, Receipt, VerifierReceipt, Version, Worker,
};
use ralph_model::run::Trouble;
use ralph_model::testcount::PassedTests;
use ralph_model::verdict::{
    self, ChangedChecks, CheckAnswer, Claim, Measured, Verdict, VerifierQuestion, VerifierReport,
    questions_for_verifier,
};

use crate::boundary::InForce;
use crate::gates::assess::{Assessment, Points};
use crate::gates::pin::PinnedGates;
use crate::gates::receipt::ReceiptFault;
use crate::gates::{ChecksRequest, GateContext, GateError, JudgedRepository, Tell};
use crate::git::evidence::{Before, EvidenceError, GitCommitEvidence, RepositoryEvidence};
use crate::git::{ChangeKind, GitError, Head, Oid, PathChange, shown};

/// Where commits are kept that a run made on a detached head, when Ralph leaves it.
pub(crate) const DETACHED: &str = "refs/ralph/detached/";

/// What an agent that was to do the work said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// The work is in this commit, named by its id or a beginning of it, in whichever repository has it.
    Commit {
        claimed: CommitId,
    },
    /// The work is in this commit of one repository: others may have a commit of the same id.
    Work(Work),
    NoChange {
        reason: String,
    },
    PlanInvalid {
        reason: String,
    },
    Nothing,
}

impl From<Option<Completion>> for Said {
    fn from(completion: Option<Completion>) -> Said {
        match completion {
            None => Said::Nothing,
            Some(Completion { no_change: Some(reason), .. }) => Said::NoChange { reason },
            Some(Completion { commit, no_change: None }) => Said::Commit { claimed: commit },
        }
    }
}

/// One repository of the workspace and what was noted of it before work on the item began.
#[derive(Clone, Copy)]
pub struct Judged<'a> {
    pub repository: &'a dyn JudgedRepository,
    /// Its directory in the workspace; empty for the workspace itself.
    pub name: &'a str,
    pub before: &'a Before,
    /// Ralph's home, relative to the root of this working tree, if it is inside it.
    pub own: &'a [PathBuf],
    /// The branch that the work is for.
    pub branch: Option<&'a str>,
}

/// What a case is judged with.
pub struct Judge<'a> {
    pub context: &'a GateContext<'a>,
    pub repositories: &'a [Judged<'a>],
    /// The gates as they were pinned for the item.
    pub pinned: &'a PinnedGates,
    /// The commits that are judged are merges of the harness's own, which no ref of an agent has.
    pub merges: bool,
    /// Whether only the agent can have written the repositories since the base: they are clones owned by Ralph.
    pub in_slot: bool,
}

/// A claim with all that was measured of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    pub(crate) claim: Claim,
    /// What the gates said, where they were run.
    pub assessment: Assessment,
    found: Option<Found>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Found {
    /// Which of the repositories has the commit.
    repository: usize,
    base: Point,
    candidate: Point,
}

/// Something could not be measured. This says nothing of the work, but for a forged repository.
#[derive(Debug, thiserror::Error)]
pub enum JudgeError {
    #[error(transparent)]
    Evidence(#[from] EvidenceError),
    #[error(transparent)]
    Gate(#[from] GateError),
    #[error(transparent)]
    Git(#[from] GitError),
}

/// The content of a receipt in addition to the measurements.
#[derive(Clone)]
pub struct Attested<'a> {
    pub item: &'a str,
    pub worker: Worker,
    pub boundary: InForce,
    pub verifier: Option<VerifierReceipt>,
    pub at: Timestamp,
    /// Who agreed with changed checks.
    pub agreed: AgreedChecks,
    /// The version of Ralph.
    pub ralph: &'a str,
}

/// Which changed checks somebody agreed with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgreedChecks {
    /// Those that the spec or the configuration allows.
    Nobody,
    /// These, too, for what the verifier said of them.
    With { paths: Vec<String>, answers: Vec<CheckAnswer> },
    /// A person, with all of them.
    Person,
}

impl Judge<'_> {
    /// Measures what an agent said.
    pub fn examine(&self, said: &Said, tell: Tell<'_>) -> Result<Case, JudgeError> {
        let without = |claim| Case { claim, assessment: Assessment::default(), found: None };
        match said {
            Said::Nothing => Ok(without(Claim::Nothing)),
            Said::NoChange { reason } => Ok(without(Claim::NoChange { reason: reason.clone() })),
            Said::PlanInvalid { reason } => {
                Ok(without(Claim::PlanInvalid { reason: reason.clone() }))
            }
            Said::Commit { claimed } => self.examine_commit(claimed, None, tell),
            Said::Work(Work { commit, repository }) => {
                self.examine_commit(commit, Some(repository), tell)
            }
        }
    }

    /// Measures a commit. `within` is the repository that it is in, where that is known.
    fn examine_commit(
        &self,
        claimed: &CommitId,
        within: Option<&str>,
        tell: Tell<'_>,
    ) -> Result<Case, JudgeError> {
        let (mut commits, mut measured) = (Vec::new(), Vec::new());
        for (index, judged) in self.repositories.iter().enumerate() {
            let found = match judged.repository.measure(claimed.as_str(), judged.before, judged.own)
            {
                // Only the agent wrote there: its leftovers are a fact about its work.
                Err(EvidenceError::Mirror(unsound)) if self.in_slot && unsound.is_of_source() => {
                    let (claimed, problem) = (claimed.clone(), unsound.problem());
                    let repository = judged.name.to_owned();
                    let clone = UnsoundClone { claimed, repository, problem };
                    return Ok(self.without_commit(Evidence::Unsound(Box::new(clone))));
                }
                found => found?,
            };
            let is_here = within.is_none_or(|within| within == judged.name);
            let here = found.commits.into_iter().filter(|_| is_here);
            commits.extend(here.map(|commit| GitCommitEvidence { repository: index, ..commit }));
            measured.extend(found.repositories);
        }
        let mut candidates = Vec::new();
        for commit in &commits {
            candidates.push((commit, self.told(commit, &measured)));
        }
        // Of copies of one repository, the one in which the claim holds best is meant.
        let best = candidates
            .into_iter()
            .min_by_key(|(_, told)| Evidence::Commit(Box::new(told.clone())).faults().len());
        let Some((commit, mut told)) = best else {
            return Ok(self.without_commit(Evidence::Nothing { claimed: claimed.clone() }));
        };
        let judged = &self.repositories[commit.repository];
        let base = judged.before.base.as_ref();
        let id = &commit.commit.id;
        let copied = judged.repository.copied(self.context)?;
        told.copied = copied.iter().map(|path| shown(path)).collect();
        told.copied.retain(|path| told.changed.contains(path));
        let faultless = Evidence::Commit(Box::new(told.clone())).faults().is_empty();
        let assessment = if faultless && !self.pinned.gates.is_empty() {
            let points = Points {
                candidate: id,
                base,
                changed: Some(&told.changed),
                extent: self.context.extent,
                checks: Some(ChecksRequest {
                    branch: judged.branch,
                    own: judged.own,
                    allow: &self.pinned.allow,
                }),
            };
            let assessment = judged.repository.assess(self.context, self.pinned, &points, tell)?;
            told.checked = Some(told.tree.clone());
            assessment
        } else {
            Assessment::default()
        };
        let found = Found {
            repository: commit.repository,
            base: base_point(judged, &told.base)?,
            candidate: Point { commit: told.commit.clone(), tree: told.tree.clone() },
        };
        let evidence = Evidence::Commit(Box::new(told));
        let claim = Claim::Commit(self.measured(evidence, &assessment));
        Ok(Case { claim, assessment, found: Some(found) })
    }

    /// Returns the case of a claim under which no commit to look at.
    fn without_commit(&self, evidence: Evidence) -> Case {
        let claim = Claim::Commit(self.measured(evidence, &Assessment::default()));
        Case { claim, assessment: Assessment::default(), found: None }
    }

    fn measured(&self, evidence: Evidence, assessment: &Assessment) -> Measured {
        Measured {
            evidence,
            gates: assessment.view(),
            checks: assessment.checks.clone(),
            changed_checks: self.pinned.changed_checks,
        }
    }

    /// Converts what was measured of a commit to the evidence that the verdict is decided on.
    fn told(
        &self,
        found: &GitCommitEvidence,
        repositories: &[RepositoryEvidence],
    ) -> CommitEvidence {
        let judged = &self.repositories[found.repository];
        let base = judged.before.base.as_ref();
        let mut rewritten = Vec::new();
        let mut leftovers = Vec::new();
        for (judged, measured) in self.repositories.iter().zip(repositories) {
            for dropped in &measured.dropped {
                rewritten.push(RewrittenRef {
                    name: in_workspace(judged.name, &dropped.name),
                    old_tip: commit_id(&dropped.old_tip),
                    dropped: dropped.commits.iter().map(commit_id).collect(),
                });
            }
            let left = measured.leftovers.new.iter();
            leftovers.extend(left.map(|path| in_workspace(judged.name, &shown(path))));
        }
        let paths = |changes: &[PathChange]| -> Vec<String> {
            changes.iter().flat_map(differing).map(shown).collect()
        };
        CommitEvidence {
            commit: commit_id(&found.commit.id),
            tree: tree_id(&found.commit.tree),
            repository: judged.name.to_owned(),
            refs: if self.merges {
                vec!["a merge to land".to_owned()]
            } else {
                refs_of(found, &repositories[found.repository])
            },
            base: base.map_or_else(|| no_commit(&found.commit.id), commit_id),
            new_since_base: found.is_new_since_base,
            descends_from_base: found.descends_from_base,
            changed: paths(&found.outside_home),
            changed_in_home: paths(&found.inside_home),
            state_files: if self.in_slot && !self.merges {
                let changes = found.inside_home.iter().chain(&found.outside_home);
                state_files(judged.own, changes)
            } else {
                Vec::new()
            },
            rewritten,
            leftovers,
            copied: Vec::new(),
            checked: None,
        }
    }

    /// Puts the receipt of an accepted commit on it; returns it, or `None` for a case without a commit.
    pub fn attest(
        &self,
        case: &Case,
        attested: Attested<'_>,
    ) -> Result<Option<Receipt>, ReceiptFault> {
        let Some(found) = &case.found else { return Ok(None) };
        let receipt = Receipt {
            version: Version::default(),
            created_at: attested.at,
            ralph: attested.ralph.to_owned(),
            item: attested.item.to_owned(),
            base: found.base.clone(),
            candidate: found.candidate.clone(),
            worker: attested.worker,
            boundary: match attested.boundary {
                InForce::Kernel(_) => BoundaryInForce::Kernel,
                InForce::Detect => BoundaryInForce::Detect,
                InForce::Off => BoundaryInForce::Off,
            },
            setup: self.pinned.setup.clone(),
            caches: case.assessment.caches(),
            level: Some(case.level()),
            checks: check_receipts(case, &attested.agreed),
            gates: case.assessment.receipts(),
            verifier: attested.verifier,
        };
        let commit = Oid::parse(found.candidate.commit.as_str().as_bytes())
            .expect("it was made from an object's id");
        let judged = &self.repositories[found.repository];
        judged.repository.write_receipt(&commit, &receipt)?;
        if let (Some(branch), Some(base)) = (judged.branch, &judged.before.base) {
            let unanswered = unanswered(&case.assessment.checks, &attested.agreed);
            judged.repository.move_anchor(branch, base, &commit, &unanswered)?;
        }
        Ok(Some(receipt))
    }
}

impl Case {
    /// Returns the verdict, given the result of asking a verifier.
    pub fn verdict(&self, verifier: &VerifierReport) -> Result<Verdict, Trouble> {
        verdict::judge(&self.claim, verifier)
    }

    /// The level of proof, once all required approvals are given.
    pub fn level(&self) -> ProofLevel {
        match &self.claim {
            Claim::Commit(measured) => measured.level(),
            _ => ProofLevel::NotProven,
        }
    }

    /// Tells whether this commit was measured.
    pub(crate) fn is_about(&self, commit: &Oid) -> bool {
        self.found.as_ref().is_some_and(|found| found.candidate.commit.as_str() == commit.as_str())
    }

    /// Returns the paths of changed checks that somebody has to agree with.
    pub fn asked_checks(&self) -> Vec<String> {
        self.assessment.checks.asked().into_iter().map(|check| check.path.clone()).collect()
    }

    /// Returns the same as answers name them, where a verifier may agree with them.
    pub(crate) fn questioned_checks(&self) -> Vec<String> {
        let Claim::Commit(measured) = &self.claim else { return Vec::new() };
        let Some(found) = measured.evidence.commit() else { return Vec::new() };
        if measured.changed_checks != ChangedChecks::Verifier {
            return Vec::new();
        }
        self.asked_checks().iter().map(|path| found.named(path)).collect()
    }

    /// Whether there is something that a verifier has to be asked before the work can land, whatever the workflow.
    pub(crate) fn needs_verifier(&self) -> bool {
        !self.questioned_checks().is_empty() || self.open_reports().next().is_some()
    }

    /// Names the gates that neither prove the work nor block it: each is put to a verifier.
    pub(crate) fn open_gates(&self) -> Vec<String> {
        self.open_reports().map(|report| report.gate.clone()).collect()
    }

    fn open_reports(&self) -> impl Iterator<Item = &GateReport> {
        let gates = match &self.claim {
            Claim::Commit(measured) => Some(&measured.gates),
            _ => None,
        };
        let asked = gates.into_iter().flat_map(|gates| gates.with(Effect::Question));
        asked.filter(|report| report.attribution.needs_verifier())
    }

    /// Returns these gates of a merge by name, each with what a verifier is asked about it.
    pub(crate) fn open_questions(&self) -> Vec<(String, VerifierQuestion)> {
        let Some(found) = &self.found else { return Vec::new() };
        let ask = |report: &GateReport| {
            let asked = Box::new(VerifierQuestion::Gate { report: report.clone() });
            let commit = found.candidate.commit.clone();
            (report.gate.clone(), VerifierQuestion::Merged { commit, asked })
        };
        self.open_reports().map(ask).collect()
    }

    /// Returns the tests that passed at the base and at the candidate, by gate.
    pub(crate) fn passed_tests(&self) -> (Vec<&PassedTests>, Vec<&PassedTests>) {
        let findings = &self.assessment.findings;
        let before = findings.iter().filter_map(|one| one.base.as_ref()?.names.as_ref());
        let now = findings.iter().filter_map(|one| one.deciding().names.as_ref());
        (before.collect(), now.collect())
    }

    /// Returns the questions for a verifier in addition to the work itself.
    pub fn questions(&self) -> Vec<VerifierQuestion> {
        match &self.claim {
            Claim::Commit(measured) => questions_for_verifier(measured),
            _ => Vec::new(),
        }
    }
}

/// Returns the unapproved changed checks. New tests and files that no gate runs need no approval.
fn unanswered(checks: &ChecksFinding, agreed: &AgreedChecks) -> Vec<String> {
    let is_agreed = |check: &ChangedCheck| match agreed {
        AgreedChecks::Person => true,
        AgreedChecks::With { paths, .. } => paths.contains(&check.path),
        AgreedChecks::Nobody => false,
    };
    let is_allowed = |check: &ChangedCheck| {
        check.is_new_test()
            || check.class == CheckClass::Ci
            || checks.allowed.iter().any(|(path, _)| *path == check.path)
    };
    let open = checks.changed.iter().filter(|check| !is_allowed(check) && !is_agreed(check));
    open.map(|check| check.path.clone()).collect()
}

/// Says of each changed check who agreed with it.
fn check_receipts(case: &Case, agreed: &AgreedChecks) -> Vec<CheckReceipt> {
    let checks = &case.assessment.checks;
    let asked = case.asked_checks();
    let name = |path: &str| match &case.claim {
        Claim::Commit(measured) => {
            measured.evidence.commit().map_or_else(|| path.to_owned(), |found| found.named(path))
        }
        _ => path.to_owned(),
    };
    let consent = |path: &String| {
        if let Some((_, pattern)) = checks.allowed.iter().find(|(allowed, _)| allowed == path) {
            return CheckConsent::Allowed { pattern: pattern.clone() };
        }
        match agreed {
            _ if !asked.contains(path) => CheckConsent::Nobody,
            AgreedChecks::Person => CheckConsent::Person,
            AgreedChecks::Nobody => CheckConsent::Nobody,
            AgreedChecks::With { answers, .. } => {
                let answer = answers.iter().find(|answer| answer.path == name(path));
                answer.map_or(CheckConsent::Nobody, |answer| CheckConsent::Verifier {
                    said: answer.opinion.clone(),
                })
            }
        }
    };
    let receipt =
        |check: &ChangedCheck| CheckReceipt { check: check.clone(), agreed: consent(&check.path) };
    checks.changed.iter().map(receipt).collect()
}

/// What is known of all work together.
pub(crate) fn lowest(cases: &[Case]) -> ProofLevel {
    cases.iter().map(Case::level).min().unwrap_or(ProofLevel::NotProven)
}

/// Returns the paths at which a change makes a difference: a file that was moved is gone from where it was.
pub(crate) fn differing(change: &PathChange) -> impl Iterator<Item = &Path> {
    let from = match &change.kind {
        ChangeKind::Renamed { from } => Some(from.as_path()),
        _ => None,
    };
    from.into_iter().chain([change.path.as_path()])
}

/// Returns which changes are to files that only Ralph may change.
pub(crate) fn state_files<'c>(
    own: &[PathBuf],
    changes: impl Iterator<Item = &'c PathChange>,
) -> Vec<String> {
    let is_state = |path: &&Path| {
        let below = own.iter().find_map(|home| path.strip_prefix(home).ok());
        below.and_then(|below| below.to_str()).is_some_and(is_state_file)
    };
    changes.flat_map(differing).filter(is_state).map(shown).collect()
}

fn base_point(judged: &Judged<'_>, base: &CommitId) -> Result<Point, JudgeError> {
    let tree = judged.repository.tree_of(base.as_str())?;
    Ok(Point { commit: base.clone(), tree: tree_id(&tree) })
}

/// Returns the local refs that count: those the run moved, or for a commit of an earlier attempt those that have it.
fn refs_of(found: &GitCommitEvidence, repository: &RepositoryEvidence) -> Vec<String> {
    let local = |name: &&String| {
        let foreign = ["refs/remotes/", "refs/ralph/", "refs/notes/", "refs/stash"];
        name.starts_with(DETACHED) || !foreign.iter().any(|prefix| name.starts_with(prefix))
    };
    // Not by Ralph's own, which it makes of what it accepts.
    let of = |names: &[String]| -> Vec<String> { names.iter().filter(local).cloned().collect() };
    let moved = of(&found.on_moved_refs);
    let mut refs =
        if moved.is_empty() && !found.is_new_in_run { of(&found.on_refs) } else { moved };
    if found.is_on_head && matches!(repository.head_now, Head::Detached { .. }) {
        refs.push("HEAD".to_owned());
    }
    refs
}

fn in_workspace(repository: &str, name: &str) -> String {
    if repository.is_empty() { name.to_owned() } else { format!("{repository}/{name}") }
}

fn commit_id(id: &Oid) -> CommitId {
    id.as_str().parse().expect("an object's id is 40 or 64 hexadecimal digits")
}

fn tree_id(id: &Oid) -> TreeId {
    id.as_str().parse().expect("an object's id is 40 or 64 hexadecimal digits")
}

/// Stands for the base where there was no commit yet, as git writes it.
fn no_commit(like: &Oid) -> CommitId {
    "0".repeat(like.as_str().len()).parse().expect("zeros are hexadecimal digits")
}
