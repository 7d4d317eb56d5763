//! One repository as the judge and workflows see it: git for its present state, the mirror and checkouts for proof.
//!
//! The simulation implements both traits in memory. What the methods say is measured here; what follows from it is the
//! judge's and the workflow's to decide.

use std::path::PathBuf;

use ralph_model::gate::GateSpec;
use ralph_model::glob::Glob;
use ralph_model::receipt::Receipt;
use ralph_model::weaken::Weakening;

use super::assess::{Assessment, Assessor, Points};
use super::pin::PinnedGates;
use super::receipt::{ReceiptFault, write_receipt};
use super::weakened::weakened;
use super::workbench::{VerifierCheckout, checkout_for_verifier};
use super::{GateContext, GateError, GateRepository, Tell};
use crate::git::evidence::{self, Before, EvidenceError, EvidenceRepository, GitEvidence};
use crate::git::mirror::MirrorError;
use crate::git::{GitError, Oid, RefsSnapshot};
use crate::repository::GitAccess;

/// What the judge measures in a repository.
pub trait JudgedRepository {
    /// Measures a claim in this repository alone. See [`evidence::measure`].
    fn measure(
        &self,
        claimed: &str,
        before: &Before,
        own: &[PathBuf],
    ) -> Result<GitEvidence, EvidenceError>;

    /// Returns how a change weakens what it is judged by. See [`weakened`].
    fn weakened(
        &self,
        base: &Oid,
        candidate: &Oid,
        gates: &[GateSpec],
        allowed: &[Glob],
    ) -> Result<Vec<Weakening>, GitError>;

    /// Runs the gates that a change concerns.
    fn assess(
        &self,
        context: &GateContext<'_>,
        pinned: &PinnedGates,
        points: &Points<'_>,
        tell: Tell<'_>,
    ) -> Result<Assessment, GateError>;

    /// Returns the tree of a commit, the empty one where there is no such commit.
    fn tree_of(&self, commit: &str) -> Result<Oid, GitError>;

    /// Puts a receipt on the commit that it is about, in the person's repository, which gets the commit if it lacks it.
    fn write_receipt(&self, commit: &Oid, receipt: &Receipt) -> Result<(), ReceiptFault>;
}

/// What workflows use of a repository.
pub(crate) trait WorkRepository: JudgedRepository + Send + Sync {
    fn git(&self) -> &dyn GitAccess;

    /// Returns the repository on this machine; a simulated one has none.
    fn real(&self) -> Option<&GateRepository> {
        None
    }

    /// Takes everything that refs lead to into the mirror, and these objects. Returns the refs.
    fn fill_mirror(&self, also: &[Oid]) -> Result<RefsSnapshot, MirrorError>;

    /// Makes the verifier's checkout ready at a commit. See [`checkout_for_verifier`].
    fn checkout_for_verifier(
        &self,
        context: &GateContext<'_>,
        pinned: &PinnedGates,
        commit: &Oid,
        tell: Tell<'_>,
    ) -> Result<VerifierCheckout, GateError>;
}

impl JudgedRepository for GateRepository {
    fn measure(
        &self,
        claimed: &str,
        before: &Before,
        own: &[PathBuf],
    ) -> Result<GitEvidence, EvidenceError> {
        let repository = EvidenceRepository { git: &self.git, mirror: &self.mirror, before, own };
        evidence::measure(&[repository], claimed)
    }

    fn weakened(
        &self,
        base: &Oid,
        candidate: &Oid,
        gates: &[GateSpec],
        allowed: &[Glob],
    ) -> Result<Vec<Weakening>, GitError> {
        weakened(self, base, candidate, gates, allowed)
    }

    fn assess(
        &self,
        context: &GateContext<'_>,
        pinned: &PinnedGates,
        points: &Points<'_>,
        tell: Tell<'_>,
    ) -> Result<Assessment, GateError> {
        Assessor::open(context, self, pinned)?.assess(points, tell)
    }

    fn tree_of(&self, commit: &str) -> Result<Oid, GitError> {
        let header = self.mirror.git().find_commit(commit)?;
        Ok(header.map_or_else(|| self.mirror.empty_tree(), |found| found.tree))
    }

    fn write_receipt(&self, commit: &Oid, receipt: &Receipt) -> Result<(), ReceiptFault> {
        self.bring(commit)?;
        write_receipt(&self.person, commit, receipt)
    }
}

impl WorkRepository for GateRepository {
    fn git(&self) -> &dyn GitAccess {
        &self.git
    }

    fn real(&self) -> Option<&GateRepository> {
        Some(self)
    }

    fn fill_mirror(&self, also: &[Oid]) -> Result<RefsSnapshot, MirrorError> {
        self.mirror.fill(&self.git, also)
    }

    fn checkout_for_verifier(
        &self,
        context: &GateContext<'_>,
        pinned: &PinnedGates,
        commit: &Oid,
        tell: Tell<'_>,
    ) -> Result<VerifierCheckout, GateError> {
        checkout_for_verifier(context, self, pinned, commit, tell)
    }
}
