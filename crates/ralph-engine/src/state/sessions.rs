//! The last known total usage of each agent session, for agents that count over a whole session.
//!
//! One file per session: concurrent runs write different files. Disposable: without it the next run of a resumed
//! session is charged again for the session's earlier runs. Unreadable files count as absent.

use camino::Utf8PathBuf;
use jiff::Timestamp;
use ralph_model::usage::Usage;
use serde::{Deserialize, Serialize};

use super::{Entry, State, render};
use crate::files::disk;
use crate::files::{
    PathError, create_private_directory, read_optional, remove_optional, replace_unsynced,
};

/// Beyond this many, the oldest sessions are removed.
const KEPT: usize = 1000;

const TOTALS: Entry<SessionTotal> =
    Entry::new("sessions", "what the session had used is charged again");

/// The totals of one session.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SessionTotal {
    pub(crate) usage: Usage,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cost_usd: Option<f64>,
    pub(crate) seen: Timestamp,
}

impl State {
    /// Returns the last known total of an agent's session.
    pub(crate) fn session_total(&self, agent: &str, session: &str) -> Option<SessionTotal> {
        TOTALS.load(self, &item(agent, session)).ok().flatten()
    }

    /// Records the total of an agent's session.
    pub(crate) fn save_session_total(
        &self,
        agent: &str,
        session: &str,
        total: &SessionTotal,
    ) -> Result<(), PathError> {
        let path = TOTALS.path(self, &item(agent, session));
        let is_new = !disk::exists(&path);
        if is_new {
            create_private_directory(&self.sessions())?;
        }
        replace_unsynced(&path, &render(total))?;
        if is_new { self.forget_old_sessions() } else { Ok(()) }
    }

    pub(crate) fn sessions(&self) -> Utf8PathBuf {
        self.directory.join("sessions")
    }

    /// Removes the oldest ones only when there are many too many, so that few sessions pay for it.
    fn forget_old_sessions(&self) -> Result<(), PathError> {
        let mut files: Vec<Utf8PathBuf> = TOTALS.files(self)?.collect();
        if files.len() <= KEPT + KEPT / 10 {
            return Ok(());
        }
        let seen = |file: &Utf8PathBuf| {
            let total =
                read_optional(file).ok().flatten().map(|text| serde_json::from_slice(&text));
            total.and_then(Result::ok).map(|total: SessionTotal| total.seen)
        };
        files.sort_by_cached_key(seen);
        files[..files.len() - KEPT].iter().try_for_each(|file| remove_optional(file))
    }
}

fn item(agent: &str, session: &str) -> String {
    format!("{agent} {session}")
}
