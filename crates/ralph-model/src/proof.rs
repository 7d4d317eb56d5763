//! Levels of proof: what is known of accepted work, shown wherever a result is.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What gates say of accepted work; the lowest of several counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProofLevel {
    /// No gate, no test, a gate that was red before and after, or one that could not be run.
    NotProven,
    /// The gates pass, and the changes of their checks were approved; or one of the gates is flaky.
    ChecksChanged,
    /// The gates pass, with the anchor's checks too.
    GatesPassed,
}

impl ProofLevel {
    /// Reads what is shown.
    pub fn from_text(text: &str) -> Option<ProofLevel> {
        let all = [ProofLevel::NotProven, ProofLevel::ChecksChanged, ProofLevel::GatesPassed];
        all.into_iter().find(|level| level.to_string() == text)
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
