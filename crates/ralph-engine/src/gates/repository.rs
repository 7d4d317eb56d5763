//! One repository as the judge and workflows see it: git for its present state, the mirror and checkouts for proof.
//!
//! The simulation implements both traits in memory. What the methods say is measured here; what follows from it is the
//! judge's and the workflow's to decide.

use std::path::PathBuf;

use ralph_model::receipt::Receipt;

use super::assess::{Assessment, Assessor, Points};
use super::pin::PinnedGates;
use super::receipt::{ReceiptFault, write_receipt};
use super::workbench::{VerifierCheckout, checkout_for_verifier};
use super::{GateContext, GateError, GateRepository, Tell};
use crate::git::evidence::{self, Before, EvidenceError, EvidenceRepository, GitEvidence};
use crate::git::mirror::MirrorError;
use crate::git::{GitError, Oid, RefsSnapshot, shown};
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

    /// Runs the gates that a change concerns.
    fn assess(
        &self,
        context: &GateContext<'_>,
        pinned: &PinnedGates,
        points: &Points<'_>,
        tell: Tell<'_>,
    ) -> Result<Assessment, GateError>;

    /// Returns the ignored files of the person's that come along into checkouts, and must not be committed.
    fn copied(&self, _context: &GateContext<'_>) -> Result<Vec<PathBuf>, GitError> {
        Ok(Vec::new())
    }

    /// Moves the anchor of a branch to an accepted commit, but for changed checks at these paths.
    fn move_anchor(
        &self,
        branch: &str,
        base: &Oid,
        candidate: &Oid,
        unanswered: &[String],
    ) -> Result<(), GitError>;

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

    /// Returns the person's repository, if this is a clone of it.
    fn person(&self) -> Option<&dyn GitAccess>;

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
        let mut found = evidence::measure(&[repository], claimed)?;
        if self.is_slot() {
            // Nothing of the person's is in a clone: an agent may amend and rebase its own rejected work there.
            found.repositories.iter_mut().for_each(|repository| repository.dropped.clear());
        }
        Ok(found)
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

    fn copied(&self, context: &GateContext<'_>) -> Result<Vec<PathBuf>, GitError> {
        Ok(GateRepository::copied(self, context.copy)?.files)
    }

    fn move_anchor(
        &self,
        branch: &str,
        base: &Oid,
        candidate: &Oid,
        unanswered: &[String],
    ) -> Result<(), GitError> {
        let anchor = self.mirror.anchor_tree(branch, base)?;
        let mut changes = self.mirror.git().tree_changes(candidate, &anchor)?;
        changes.retain(|change| unanswered.contains(&shown(&change.path)));
        self.mirror.move_anchor(branch, candidate, changes)
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

    fn person(&self) -> Option<&dyn GitAccess> {
        self.is_slot().then_some(&self.person)
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
