//! Records of runs that are under way, so that the next start finds what a killed Ralph left behind.
//!
//! A record is written before the run's first process starts and removed after its last has ended. It means nothing after
//! a reboot, so it is never forced to disk.

use camino::Utf8PathBuf;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{State, file_name, render};
use crate::files::{PathError, read_optional, remove_abandoned, remove_optional, replace_unsynced};
use crate::identity::ProcessIdentity;

/// A run that is under way, or was when its Ralph died.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveRun {
    /// Also in the environment of every process of the run, as `RALPH_RUN_ID`.
    pub run_id: String,
    /// The Ralph that supervises the run.
    pub owner: ProcessIdentity,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard: Option<ProcessIdentity>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<ProcessIdentity>,
    pub started: Timestamp,
}

impl State {
    /// Records a run, or what more is known of it.
    pub fn save_live_run(&self, run: &LiveRun) -> Result<(), PathError> {
        replace_unsynced(&self.live_file(&run.run_id), &render(run))
    }

    /// Forgets a run of which nothing is left.
    pub fn remove_live_run(&self, run_id: &str) -> Result<(), PathError> {
        remove_optional(&self.live_file(run_id))
    }

    /// Returns the runs whose Ralph is dead. A record that cannot be read is of no use to anybody and is dropped.
    pub fn leftovers(&self) -> Result<Vec<LiveRun>, PathError> {
        let directory = self.live_directory();
        remove_abandoned(&directory)?;
        let error = |source| PathError::new("read", &directory, source);
        let mut leftovers = Vec::new();
        for entry in directory.read_dir_utf8().map_err(error)? {
            let path = entry.map_err(error)?.into_path();
            if path.extension() != Some("json") {
                continue;
            }
            let Some(text) = read_optional(&path)? else { continue };
            match serde_json::from_slice::<LiveRun>(&text) {
                Ok(run) if run.owner.is_alive() => {}
                Ok(run) => leftovers.push(run),
                Err(_) => remove_optional(&path)?,
            }
        }
        leftovers.sort_by(|a, b| a.run_id.cmp(&b.run_id));
        Ok(leftovers)
    }

    fn live_file(&self, run_id: &str) -> Utf8PathBuf {
        self.live_directory().join(format!("{}.json", file_name(run_id)))
    }
}
