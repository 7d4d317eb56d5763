//! What each agent session had used in all when it was last seen, for agents that count over a whole session.
//!
//! Disposable: without it the next run of a resumed session is charged for the session's earlier runs again. What cannot
//! be read is dropped, and that is said.

use std::collections::BTreeMap;

use jiff::Timestamp;
use ralph_model::usage::Usage;
use serde::{Deserialize, Serialize};

use super::{State, render};
use crate::files::{PathError, read_optional, replace_unsynced};

const VERSION: u32 = 1;

/// Sessions beyond this many are forgotten, the oldest first.
const KEPT: usize = 1000;

/// The totals of one session.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SessionTotal {
    pub(crate) usage: Usage,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cost_usd: Option<f64>,
    pub(crate) seen: Timestamp,
}

/// The totals of all sessions, by agent and session.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SessionTotals {
    totals: BTreeMap<String, BTreeMap<String, SessionTotal>>,
}

#[derive(Serialize, Deserialize)]
struct SessionsFile {
    version: u32,
    agents: BTreeMap<String, BTreeMap<String, SessionTotal>>,
}

impl SessionTotals {
    pub(crate) fn get(&self, agent: &str, session: &str) -> Option<SessionTotal> {
        self.totals.get(agent)?.get(session).copied()
    }

    pub(crate) fn set(&mut self, agent: &str, session: &str, total: SessionTotal) {
        self.totals.entry(agent.to_owned()).or_default().insert(session.to_owned(), total);
    }

    fn forget_oldest(&mut self) {
        let mut seen: Vec<_> =
            self.totals.values().flat_map(BTreeMap::values).map(|total| total.seen).collect();
        if seen.len() <= KEPT {
            return;
        }
        seen.sort_unstable();
        let oldest_kept = seen[seen.len() - KEPT];
        for sessions in self.totals.values_mut() {
            sessions.retain(|_, total| total.seen >= oldest_kept);
        }
    }
}

impl State {
    /// Loads the totals, and the warning to show if they had to be dropped.
    pub(crate) fn load_sessions(&self) -> (SessionTotals, Option<String>) {
        let path = self.sessions();
        let dropped = |reason: String| {
            let warning = format!("dropped the session totals in `{path}`: {reason}");
            (SessionTotals::default(), Some(warning))
        };
        match read_optional(&path) {
            Ok(None) => (SessionTotals::default(), None),
            Err(error) => dropped(error.source.to_string()),
            Ok(Some(text)) => match serde_json::from_slice::<SessionsFile>(&text) {
                Ok(file) if file.version == VERSION => {
                    (SessionTotals { totals: file.agents }, None)
                }
                Ok(file) => dropped(format!("their version is {}", file.version)),
                Err(error) => dropped(error.to_string()),
            },
        }
    }

    /// Saves the totals.
    pub(crate) fn save_sessions(&self, totals: &mut SessionTotals) -> Result<(), PathError> {
        totals.forget_oldest();
        let file = SessionsFile { version: VERSION, agents: totals.totals.clone() };
        replace_unsynced(&self.sessions(), &render(&file))
    }
}
