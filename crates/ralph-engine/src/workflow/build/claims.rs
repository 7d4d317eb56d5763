//! Claims of builders, kept in private state from when they are made until they are judged.

use ralph_model::id::{CommitId, RunId};
use serde::{Deserialize, Serialize};

use crate::files::{
    PathError, create_private_directory, read_optional, remove_optional, replace_atomically,
};
use crate::state::State;
use crate::workflow::repositories::Work;

/// A builder says that its task is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Claim {
    pub(super) run: RunId,
    /// Nothing had to change, for this reason.
    pub(super) no_change: Option<String>,
    /// What a verifier thinks of that.
    pub(super) opinion: Option<String>,
    /// The run ended as it should: the claim waits to be settled.
    #[serde(default)]
    pub(super) stands: bool,
    /// It was judged, and only a person can say whether this work is done.
    #[serde(default)]
    pub(super) asked: Option<Vec<Work>>,
    /// It was judged and turned down; kept until the plan says so.
    #[serde(default)]
    pub(super) rejection: Option<Rejection>,
}

/// Why a claim was turned down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Rejection {
    pub(super) commit: Option<CommitId>,
    pub(super) for_agent: String,
    pub(super) for_person: String,
}

impl Rejection {
    /// One without a commit, told to everybody in the same words.
    pub(super) fn plain(reason: String) -> Rejection {
        Rejection { commit: None, for_agent: reason.clone(), for_person: reason }
    }

    /// Adds what is wrong elsewhere.
    pub(super) fn and(self, more: &Rejection) -> Rejection {
        Rejection {
            commit: self.commit,
            for_agent: format!("{}\n\n{}", self.for_agent, more.for_agent),
            for_person: format!("{} {}", self.for_person, more.for_person),
        }
    }
}

pub(super) fn save(state: &State, task: &str, claim: &Claim) -> Result<(), PathError> {
    let path = state.claim(task);
    create_private_directory(path.parent().expect("it has a directory"))?;
    replace_atomically(&path, &serde_json::to_vec(claim).expect("it is plain data"))
}

/// Returns the claim on a task, if there is one that can be read.
pub(super) fn load(state: &State, task: &str) -> Result<Option<Claim>, PathError> {
    let bytes = read_optional(&state.claim(task))?;
    Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
}

/// Forgets the claim on a task.
pub(super) fn forget(state: &State, task: &str) -> Result<(), PathError> {
    remove_optional(&state.claim(task))
}
