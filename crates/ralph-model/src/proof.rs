//! Levels of proof of accepted work, shown with every result.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The level of proof by the gates; the lowest of several counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProofLevel {
    /// No gate, no test, a gate that was red before and after, or one that could not run.
    NotProven,
    /// The gates pass, and the changes to their checks were approved; or one of the gates is flaky.
    ChecksChanged,
    /// The gates pass, also with the anchor's checks.
    GatesPassed,
}

impl ProofLevel {
    /// Parses the displayed text.
    pub fn from_text(text: &str) -> Option<ProofLevel> {
        let all = [ProofLevel::NotProven, ProofLevel::ChecksChanged, ProofLevel::GatesPassed];
        all.into_iter().find(|level| level.to_string() == text)
    }
}

/// What is known of work as it landed: of the merge, where it was merged with what the branch had become.
///
/// What says that an item is done takes this and no other level. Only a landing makes one
/// ([`LandedLevel::of_landing`], which a test holds to its callers); anybody may say that nothing is proven.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LandedLevel(ProofLevel);

impl LandedLevel {
    pub const NOT_PROVEN: LandedLevel = LandedLevel(ProofLevel::NotProven);

    /// What a landing measured.
    pub const fn of_landing(level: ProofLevel) -> LandedLevel {
        LandedLevel(level)
    }

    /// Reads what a landing has written.
    pub fn from_text(text: &str) -> Option<LandedLevel> {
        ProofLevel::from_text(text).map(LandedLevel)
    }

    pub const fn get(self) -> ProofLevel {
        self.0
    }
}

impl fmt::Display for LandedLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for ProofLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ProofLevel::NotProven => "not proven",
            ProofLevel::ChecksChanged => "passed, checks changed",
            ProofLevel::GatesPassed => "gates passed",
        })
    }
}
