//! The gates of an accepted commit again, from its receipt alone.
//!
//! Nothing of this workspace's configuration takes part: gates and setup are the receipt's, and no cache is kept, so that
//! what earlier runs left here cannot make a gate pass. A receipt is as believable as whoever may write the
//! repository; what it names is shown, and run confined.

use ralph_model::gate::{Attribution, Effect, GateStatus, GatesView};
use ralph_model::proof::ProofLevel;
use ralph_model::receipt::{GateReceipt, Receipt};
use ralph_model::testcount::TestCounts;

use super::assess::{Assessor, Extent, GateFinding, Points};
use super::pin::PinnedGates;
use super::receipt::{ReceiptFault, read_receipt};
use super::{GateContext, GateError, GateRepository, Tell};
use crate::git::{GitError, Oid};

/// What became of checking one commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommitCheck {
    NoReceipt,
    /// There is something, but not a receipt of this commit that this Ralph can read.
    Unusable {
        reason: String,
    },
    Checked {
        receipt: Box<Receipt>,
        gates: Vec<GateCheck>,
    },
}

/// One gate of a receipt, run again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateCheck {
    pub recorded: GateReceipt,
    pub now: GateFinding,
    /// Why the receipt does not hold any more.
    pub against: Option<String>,
}

impl CommitCheck {
    /// Whether the receipt holds; `None` where there is none. One without a gate has nothing that could hold.
    pub fn holds(&self) -> Option<bool> {
        match self {
            CommitCheck::NoReceipt => None,
            CommitCheck::Unusable { .. } => Some(false),
            CommitCheck::Checked { gates, .. } => {
                Some(!gates.is_empty() && gates.iter().all(|gate| gate.against.is_none()))
            }
        }
    }

    /// What is known of the commit now: no more than the receipt says, and no more than its gates show.
    pub fn level(&self) -> ProofLevel {
        let CommitCheck::Checked { receipt, gates } = self else { return ProofLevel::NotProven };
        if self.holds() != Some(true) {
            return ProofLevel::NotProven;
        }
        let now = GatesView::new(gates.iter().map(|gate| gate.now.report()).collect()).level();
        receipt.level.map_or(now, |then| then.min(now))
    }
}

/// Runs the gates of a commit's receipt again. The mirror must have the commit.
pub fn verify(
    context: &GateContext<'_>,
    repository: &GateRepository,
    commit: &Oid,
    tell: Tell<'_>,
) -> Result<CommitCheck, GateError> {
    let receipt = match read_receipt(&repository.git, commit) {
        Ok(Some(receipt)) => receipt,
        Ok(None) => return Ok(CommitCheck::NoReceipt),
        Err(ReceiptFault::Git(error)) => return Err(error.into()),
        Err(fault) => {
            let cause = std::error::Error::source(&fault).map(|cause| format!(": {cause}"));
            return Ok(CommitCheck::Unusable {
                reason: format!("{fault}{}", cause.unwrap_or_default()),
            });
        }
    };
    let truth = repository.mirror.git();
    let Some(header) = truth.find_commit(commit.as_str())? else {
        return Err(GateError::NoSuchCommit { commit: commit.to_string() });
    };
    if header.tree.as_str() != receipt.candidate.tree.as_str() {
        let reason = format!("the receipt is about the tree {}", receipt.candidate.tree);
        return Ok(CommitCheck::Unusable { reason });
    }
    // What the loop's own gates looked at, a plan and a summary, is not part of the commit.
    let commands = || receipt.gates.iter().filter(|gate| gate.gate.built_in().is_none());
    if commands().any(|gate| gate.gate.argv().is_empty()) {
        return Ok(CommitCheck::Unusable { reason: "a gate in it has no command".to_owned() });
    }
    let base = known_base(repository, &receipt)?;
    let pinned = PinnedGates {
        gates: commands().map(|gate| gate.gate.clone()).collect(),
        setup: receipt.setup.iter().filter(|argv| !argv.is_empty()).cloned().collect(),
        ..PinnedGates::default()
    };
    let benches = ["verify", "verify-base", "verify-overlay"];
    let mut assessor = Assessor::open_named(context, repository, &pinned, benches)?;
    let mut gates = Vec::new();
    for recorded in commands() {
        // What passed must pass; only what did not is compared with the base again.
        let base = base.as_ref().filter(|_| needs_base(&recorded.finding));
        let points =
            Points { candidate: commit, base, changed: None, extent: Extent::All, checks: None };
        let now = assessor.find(&recorded.gate, &points, tell)?;
        let against = against(recorded, &now);
        gates.push(GateCheck { recorded: recorded.clone(), now, against });
    }
    Ok(CommitCheck::Checked { receipt: Box::new(receipt), gates })
}

fn known_base(repository: &GateRepository, receipt: &Receipt) -> Result<Option<Oid>, GitError> {
    let found = repository.mirror.git().find_commit(receipt.base.commit.as_str())?;
    Ok(found.map(|header| header.id))
}

const fn needs_base(finding: &Attribution) -> bool {
    matches!(finding, Attribution::RedBeforeAndAfter | Attribution::Flaky)
}

/// Returns what speaks against a receipt, given what its gate does now.
fn against(recorded: &GateReceipt, now: &GateFinding) -> Option<String> {
    match now.attribution.effect() {
        Effect::Block
            if recorded.finding == Attribution::RedBeforeAndAfter && now.base.is_none() =>
        {
            // Without the base it can only be said that it fails as it did.
            None
        }
        Effect::Block => Some(match &now.deciding().status {
            GateStatus::Failed { exit } => format!("it fails now ({exit})"),
            GateStatus::TimedOut => "it takes too long now".to_owned(),
            _ => "it executes fewer tests than at the base".to_owned(),
        }),
        Effect::Person | Effect::Trouble => match &now.deciding().status {
            GateStatus::CouldNotRun { obstacle } => Some(format!("it cannot be run: {obstacle}")),
            _ => Some("it cannot be run".to_owned()),
        },
        Effect::Proof | Effect::Nothing | Effect::Question => {
            let executed = |tests: Option<TestCounts>| tests.map(TestCounts::executed);
            let (then, now) = (executed(recorded.tests), executed(now.deciding().tests));
            match then {
                Some(then) if now.is_none_or(|now| now < then) => {
                    let now = now.map_or_else(|| "none".to_owned(), |now| now.to_string());
                    Some(format!("it executed {then} tests, and now {now}"))
                }
                _ => None,
            }
        }
    }
}
