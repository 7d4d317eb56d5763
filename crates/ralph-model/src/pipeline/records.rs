//! The pipeline's file formats: plan metadata, candidate, sessions.
//!
//! All are JSON with two spaces of indentation and a final newline. Unknown fields are preserved by every rewrite (in
//! `rest`), so that an older Ralph does not lose what a newer one wrote.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Phase;
use crate::build::Work;
use crate::id::CommitId;

/// The base of a spec: a commit for each repository, by its directory in the workspace (`.` for the workspace).
pub type Base = BTreeMap<String, CommitId>;

/// Identifies the spec of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecIdentity {
    /// Its path below `specs/`.
    pub rel: String,
    /// The stem of its file.
    pub id: String,
}

/// The status of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanStatus {
    /// A planner is working, or was when its harness died.
    Planning,
    #[default]
    Active,
    Invalidated,
}

/// `plans/<rel>.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanRecord {
    pub spec_rel: String,
    pub spec_id: String,
    #[serde(default)]
    pub status: PlanStatus,
    pub created_at_utc: Timestamp,
    #[serde(default)]
    pub invalidated_at_utc: Option<Timestamp>,
    /// Why the last plan was discarded; kept while the next one is written.
    #[serde(default)]
    pub invalidation_reason: Option<String>,
    /// The number of this plan, from 1.
    #[serde(default = "first")]
    pub attempt: u32,
    #[serde(default)]
    pub base: Base,
    /// How many attempts were spent, by all phases together.
    #[serde(default)]
    pub attempts_used: u32,
    /// One entry for each attempt spent.
    #[serde(default)]
    pub tries: Vec<Try>,
    /// The [`super::text_mark`] of the text that the harness writes or wrote as this plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text_mark: Option<String>,
    /// The run whose result is in these files. Applying it again after a crash changes nothing.
    #[serde(default)]
    pub settled_run: Option<String>,
    /// How often accepted work could not land on the branch and was sent back.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub landings_refused: u32,
    #[serde(flatten)]
    pub rest: BTreeMap<String, Value>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

const fn first() -> u32 {
    1
}

/// A spent attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Try {
    pub phase: Phase,
    /// Its outcome, in one line.
    pub outcome: String,
    #[serde(default)]
    pub run_dir: Option<String>,
    /// The commit that was claimed or verified, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<CommitId>,
    pub at_utc: Timestamp,
}

/// The status of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CandidateStatus {
    /// It awaits verification.
    Candidate,
    Verified,
    /// It was rejected; its feedback is for the next attempt.
    Rejected,
    /// A person has to decide.
    Waiting,
}

/// `candidates/<rel>.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CandidateRecord {
    pub spec_rel: String,
    pub spec_id: String,
    /// `None` if a rejected attempt left no commit.
    #[serde(default)]
    pub candidate_commit: Option<CommitId>,
    pub created_at_utc: Timestamp,
    #[serde(default)]
    pub last_impl_run_dir: Option<String>,
    #[serde(default)]
    pub last_verify_run_dir: Option<String>,
    pub status: CandidateStatus,
    /// The repository that contains the commit, by its directory in the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// The work for the spec in other repositories.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<Work>,
    /// The refs that hold the commit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refs: Vec<String>,
    /// The agent claims, for this reason, that nothing needs to change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_change: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feedback: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
    #[serde(flatten)]
    pub rest: BTreeMap<String, Value>,
}

/// `sessions/<rel>.json`: disposable and not committed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRecord {
    pub spec_rel: String,
    pub spec_id: String,
    #[serde(default)]
    pub plan_session_id: Option<String>,
    #[serde(default)]
    pub impl_session_id: Option<String>,
    #[serde(default)]
    pub verify_session_id: Option<String>,
    /// The agents that own these sessions: an agent cannot resume another's.
    #[serde(default)]
    pub plan_agent: Option<String>,
    #[serde(default)]
    pub impl_agent: Option<String>,
    pub updated_at_utc: Timestamp,
    #[serde(flatten)]
    pub rest: BTreeMap<String, Value>,
}

impl SessionRecord {
    pub fn new(spec: &SpecIdentity, at: Timestamp) -> SessionRecord {
        SessionRecord {
            spec_rel: spec.rel.clone(),
            spec_id: spec.id.clone(),
            plan_session_id: None,
            impl_session_id: None,
            verify_session_id: None,
            plan_agent: None,
            impl_agent: None,
            updated_at_utc: at,
            rest: BTreeMap::new(),
        }
    }

    /// Returns the session that the next run of a phase may resume. A verifier's is never resumed.
    pub fn resumable(&self, phase: Phase, agent: &str) -> Option<&str> {
        let (session, owner) = match phase {
            Phase::Plan => (&self.plan_session_id, &self.plan_agent),
            Phase::Implement => (&self.impl_session_id, &self.impl_agent),
            Phase::Verify => return None,
        };
        session.as_deref().filter(|_| owner.as_deref().is_none_or(|owner| owner == agent))
    }

    /// Records the session of a phase, or that there is none to resume.
    pub fn note(&mut self, phase: Phase, agent: &str, session: Option<&str>, at: Timestamp) {
        let session = session.map(str::to_owned);
        let agent = session.as_ref().map(|_| agent.to_owned());
        match phase {
            Phase::Plan => (self.plan_session_id, self.plan_agent) = (session, agent),
            Phase::Implement => (self.impl_session_id, self.impl_agent) = (session, agent),
            Phase::Verify => self.verify_session_id = session,
        }
        self.updated_at_utc = at;
    }
}

/// A pipeline file that cannot be parsed.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct RecordError {
    pub line: usize,
    pub reason: String,
}

/// Parses a record.
pub fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, RecordError> {
    serde_json::from_slice(bytes).map_err(|error| {
        let text = error.to_string();
        // Report the position only once, at the start.
        let reason = text.rsplit_once(" at line ").map_or(text.as_str(), |(reason, _)| reason);
        RecordError { line: error.line(), reason: reason.to_owned() }
    })
}

/// Renders a record.
pub fn render<T: Serialize>(record: &T) -> Vec<u8> {
    let mut bytes = serde_json::to_vec_pretty(record).expect("records have string keys only");
    bytes.push(b'\n');
    bytes
}
