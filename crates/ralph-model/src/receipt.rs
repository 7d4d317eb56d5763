//! Receipts: the evidence on which a commit was accepted, so that anyone can check it again.
//!
//! A receipt is written once, as a git note, and never rewritten. Everything in it matters, so unknown content is
//! refused: an unknown field as an error, a higher version as such. A new field means a new version; older versions
//! stay readable forever. Version 2 adds the level and the changed checks. Gates are included completely (command,
//! limits, setup), so that they can be run again in a clone without any configuration.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::checks::ChangedCheck;
use crate::gate::{Attribution, GateSpec, GateStatus};
use crate::id::{CommitId, TreeId};
use crate::millis;
use crate::proof::ProofLevel;
use crate::testcount::TestCounts;
use crate::verdict::CheckOpinion;

/// The version this Ralph writes, and the highest it reads.
pub(crate) const RECEIPT_VERSION: u32 = 2;

/// The evidence on which a commit was accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receipt {
    pub version: Version,
    pub created_at: Timestamp,
    /// The version of Ralph that wrote it.
    pub ralph: String,
    /// The spec, task or story the work was for.
    pub item: String,
    pub base: Point,
    pub candidate: Point,
    pub worker: Worker,
    pub boundary: BoundaryInForce,
    /// How the checkout was set up before the gates ran.
    pub setup: Vec<Vec<String>>,
    pub caches: Caches,
    /// The level of proof when the work was accepted; absent in version 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<ProofLevel>,
    /// The checks that the work changed, and who agreed; absent in version 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckReceipt>,
    /// Empty: not proven by gates.
    pub gates: Vec<GateReceipt>,
    /// Absent where the workflow has no verifier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verifier: Option<VerifierReceipt>,
}

/// The version of the format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub enum Version {
    One,
    #[default]
    Two,
}

impl TryFrom<u32> for Version {
    type Error = String;

    fn try_from(version: u32) -> Result<Version, String> {
        match version {
            1 => Ok(Version::One),
            RECEIPT_VERSION => Ok(Version::Two),
            version => Err(format!("unknown receipt version {version}")),
        }
    }
}

impl From<Version> for u32 {
    fn from(version: Version) -> u32 {
        match version {
            Version::One => 1,
            Version::Two => RECEIPT_VERSION,
        }
    }
}

/// A commit and the tree at it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    pub commit: CommitId,
    pub tree: TreeId,
}

/// The agent that did the work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Worker {
    pub agent: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// The boundary that was in force for the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BoundaryInForce {
    Kernel,
    Detect,
    Off,
}

/// Whether the gates used caches of earlier runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case", deny_unknown_fields)]
pub enum Caches {
    Cold,
    Warm { paths: Vec<String> },
}

/// One gate, its run at the candidate, and the result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GateReceipt {
    pub gate: GateSpec,
    pub result: GateStatus,
    #[serde(with = "millis", rename = "duration_ms")]
    pub duration: Duration,
    /// The SHA-256 of its whole output, in hex.
    pub output_sha256: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tests: Option<TestCounts>,
    pub finding: Attribution,
}

/// A check that differs from the anchor's, and who agreed to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckReceipt {
    pub check: ChangedCheck,
    pub agreed: CheckConsent,
}

/// The verifier or person that agreed to a changed check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum CheckConsent {
    /// No approval was needed: the work passes with the anchor's checks.
    Nobody,
    /// This pattern in the spec or the configuration allows it.
    Allowed {
        pattern: String,
    },
    /// The verifier, for this reason.
    Verifier {
        said: CheckOpinion,
    },
    Person,
}

/// The verifier of the commit, and its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerifierReceipt {
    pub agent: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    pub opinion: Opinion,
}

/// The verifier's opinion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Opinion {
    Verified,
    /// It did not verify the work, and a person overruled it.
    Overruled,
}

/// A text that is not a receipt this Ralph can read.
#[derive(Debug, thiserror::Error)]
pub enum ReceiptError {
    #[error("it was written by a newer Ralph (version {found}; this one reads {RECEIPT_VERSION})")]
    Newer { found: u64 },
    #[error("it is not a receipt")]
    Malformed(#[source] serde_json::Error),
    #[error("`{field}` is unknown to this version of Ralph")]
    Unknown { field: String },
}

impl Receipt {
    /// Parses a receipt, completely or not at all.
    pub fn parse(text: &str) -> Result<Receipt, ReceiptError> {
        let value: Value = serde_json::from_str(text).map_err(ReceiptError::Malformed)?;
        match value.get("version").and_then(Value::as_u64) {
            Some(found) if found > u64::from(RECEIPT_VERSION) => {
                return Err(ReceiptError::Newer { found });
            }
            _ => {}
        }
        let receipt: Receipt = serde_json::from_str(text).map_err(ReceiptError::Malformed)?;
        // Serde ignores unknown fields inside tagged variants, so compare the parsed receipt with the text.
        let read = serde_json::to_value(&receipt).expect("a receipt has string keys only");
        let later = match receipt.version {
            Version::One if receipt.level.is_some() => Some("level".to_owned()),
            Version::One if !receipt.checks.is_empty() => Some("checks".to_owned()),
            _ => None,
        };
        match later.or_else(|| first_unknown(&value, &read, "")) {
            Some(field) => Err(ReceiptError::Unknown { field }),
            None => Ok(receipt),
        }
    }

    /// Renders a receipt for people and programs, with a final newline.
    pub fn render(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("a receipt has string keys only");
        text.push('\n');
        text
    }
}

/// Returns the first value in `text` that is missing in `read`.
fn first_unknown(text: &Value, read: &Value, path: &str) -> Option<String> {
    match (text, read) {
        (Value::Object(text), Value::Object(read)) => text.iter().find_map(|(key, value)| {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            match read.get(key) {
                Some(read) => first_unknown(value, read, &path),
                // A field that is omitted when empty may also be written out.
                None if matches!(value, Value::Null | Value::Bool(false)) => None,
                None if value.as_array().is_some_and(Vec::is_empty) => None,
                None => Some(path),
            }
        }),
        (Value::Array(text), Value::Array(read)) => text
            .iter()
            .zip(read)
            .enumerate()
            .find_map(|(at, (text, read))| first_unknown(text, read, &format!("{path}[{at}]"))),
        _ => None,
    }
}

#[cfg(test)]
#[path = "receipt_tests.rs"]
mod tests;
