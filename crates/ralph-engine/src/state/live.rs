//! Records of runs that are under way, so that the next start finds what a killed Ralph left behind.
//!
//! Each process has one file and overwrites it in place: creating and removing a file per run costs more than everything
//! else the harness does for a run. The record is the first line; bytes after it are left of a longer record and ignored.
//! It is worthless after a reboot, so it is never synced to disk.

use std::cell::{Cell, LazyCell};
use std::io;

use camino::{Utf8Path, Utf8PathBuf};
use jiff::Timestamp;
use ralph_proc::end_note::{EndNote, FileTime};
use ralph_proc::tree::ProcessIdentity;
use serde::{Deserialize, Serialize};

use super::{Entry, State};
use crate::boundary::Watch;
use crate::files::disk::{self, DiskFile};
use crate::files::{PathError, read_optional, remove_optional};

/// A run that is under way, or was when its Ralph died.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LiveRun {
    /// Also in the environment of every process of the run, as `RALPH_RUN_ID`.
    pub(crate) run_id: String,
    /// What an agent's run in the person's checkout is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) item: Option<String>,
    /// The Ralph that supervises the run.
    pub(crate) owner: ProcessIdentity,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) guard: Option<ProcessIdentity>,
    /// What to remove when the run is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) scratch: Option<Utf8PathBuf>,
    pub(crate) started: Timestamp,
    /// Where an agent's events are; a gate has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) events: Option<Utf8PathBuf>,
    /// Git's locks that were free when the run began.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) free_locks: Vec<Utf8PathBuf>,
    /// What the run was to leave as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) watch: Option<Watch>,
}

/// A run in the person's checkout whose Ralph was killed: what was changed after `gone` is not its doing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AfterKill {
    pub(crate) item: String,
    /// When nothing of the run was left.
    pub(crate) gone: FileTime,
}

/// The killed runs whose leftovers were not told from the person's later changes yet, by item.
pub(crate) const AFTER_KILL: Entry<AfterKill> =
    Entry::new("after-kill", "what you changed after a kill may count as the run's");

/// This process's record.
#[derive(Debug)]
pub(crate) struct LiveRecord {
    path: Utf8PathBuf,
    file: DiskFile,
    /// Whether it tells of a run whose end is not recorded.
    tells: Cell<bool>,
}

impl LiveRecord {
    /// Records a run, or what more is known of it.
    pub(crate) fn save(&self, run: &LiveRun) -> Result<(), PathError> {
        let mut line = serde_json::to_vec(run).expect("a record is plain data");
        line.push(b'\n');
        self.tells.set(true);
        self.write(&line)
    }

    /// Nothing of the recorded run is left.
    pub(crate) fn clear(&self) -> Result<(), PathError> {
        self.tells.set(false);
        self.write(b"\n")
    }

    fn write(&self, line: &[u8]) -> Result<(), PathError> {
        self.file
            .write_all_at(line, 0)
            .map_err(|source| PathError::new("write", &self.path, source))
    }
}

impl Drop for LiveRecord {
    fn drop(&mut self) {
        // One that tells of a run whose end could not be recorded stays: the next start records it.
        if !self.tells.get() {
            let _ = remove_optional(&self.path);
        }
    }
}

/// How the name of the guards' note ends.
const END: &str = "end";

/// A run whose Ralph is dead, and the file that tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Leftover {
    pub(crate) run: LiveRun,
    path: Utf8PathBuf,
}

impl Leftover {
    /// Forgets it: nothing of it is left.
    pub(crate) fn forget(&self) -> Result<(), PathError> {
        remove_optional(&self.path.with_extension("baseline"))?;
        remove_optional(&self.path.with_extension("outside"))?;
        remove_optional(&self.path.with_extension(END))?;
        remove_optional(&self.path)
    }

    /// Returns when nothing of it was left any more, where that is known: from its guard, or because the machine was
    /// started again since.
    pub(crate) fn gone(&self) -> Option<FileTime> {
        let path = self.path.with_extension(END).into_string();
        let noted = EndNote { path, run: self.run.run_id.clone() }.read();
        noted.or_else(|| FileTime::of_boot_after(&self.run.owner))
    }
}

impl State {
    /// Makes this process's record.
    pub(crate) fn live_record(&self) -> Result<LiveRecord, PathError> {
        let own = disk::own_process();
        let path = self.live_directory().join(format!("{}-{}.json", own.pid, own.start));
        // One of that name is of this very process and no longer used, or of an earlier boot.
        remove_optional(&path)?;
        let file = disk::create_new(&path);
        let file = file.map_err(|source| PathError::new("create", &path, source))?;
        Ok(LiveRecord { file, path, tells: Cell::new(false) })
    }

    /// Returns where the guards of this process note the end of a run.
    pub(crate) fn end_note(&self, run: &str) -> EndNote {
        let path = self.baseline().with_extension(END).into_string();
        EndNote { path, run: run.to_owned() }
    }

    /// Returns the ids of the runs whose Ralph is alive.
    pub(crate) fn under_way(&self) -> Result<Vec<String>, PathError> {
        let directory = self.live_directory();
        let error = |source| PathError::new("read", &directory, source);
        let names = match names_in(&directory) {
            Err(problem) if problem.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            names => names.map_err(error)?,
        };
        let mut ids = Vec::new();
        for name in names {
            let run = read_record(&directory.join(name))?.and_then(Result::ok);
            ids.extend(run.filter(|run| disk::is_alive(&run.owner)).map(|run| run.run_id));
        }
        Ok(ids)
    }

    /// Returns the run that one of these processes guards. A process can hide its variables, not whom it descends from.
    /// Whom this process descends from is only asked where there is a run that could be the one.
    pub fn run_guarded_by(
        &self,
        ancestors: impl FnOnce() -> Vec<i32>,
    ) -> Result<Option<String>, PathError> {
        let directory = self.live_directory();
        let names = match names_in(&directory) {
            Err(problem) if problem.kind() == io::ErrorKind::NotFound => return Ok(None),
            names => names.map_err(|source| PathError::new("read", &directory, source))?,
        };
        let paths = names.iter().map(|name| directory.join(name));
        let ancestors = LazyCell::new(ancestors);
        for path in paths.filter(|path| path.extension() == Some("json")) {
            let run = read_record(&path)?.and_then(Result::ok);
            let is_above =
                |guard: &ProcessIdentity| ancestors.contains(&guard.pid) && disk::is_alive(guard);
            if let Some(run) = run.filter(|run| run.guard.as_ref().is_some_and(is_above)) {
                return Ok(Some(run.run_id));
            }
        }
        Ok(None)
    }

    /// Returns the runs whose process is dead. Records of dead processes that had no run are removed.
    pub(crate) fn leftovers(&self) -> Result<Vec<Leftover>, PathError> {
        let directory = self.live_directory();
        let error = |source| PathError::new("read", &directory, source);
        let mut leftovers = Vec::new();
        for name in names_in(&directory).map_err(error)? {
            let path = directory.join(name);
            if matches!(path.extension(), Some("baseline" | "outside" | END)) {
                // Goes with the record that it belongs to; without one, it is useless.
                if !disk::exists(&path.with_extension("json")) && !names_living_process(&path) {
                    remove_optional(&path)?;
                }
                continue;
            }
            let Some(record) = read_record(&path)? else { continue };
            match record {
                Ok(run) if disk::is_alive(&run.owner) => {}
                Ok(run) => leftovers.push(Leftover { run, path }),
                Err(_) if names_living_process(&path) => {}
                Err(_) if is_blank(&path)? => remove_optional(&path)?,
                Err(_) => self.set_aside(
                    &path,
                    "nobody knows what the run was whose Ralph died: what it left running is not ended, and what it \
                     changed is not compared",
                )?,
            }
        }
        leftovers.sort_by(|a, b| a.run.run_id.cmp(&b.run.run_id));
        Ok(leftovers)
    }
}

/// Lists the files of a directory; ours have names that are text.
fn names_in(directory: &Utf8Path) -> io::Result<Vec<String>> {
    let listed = disk::list(directory)?.into_iter();
    Ok(listed.filter_map(|entry| entry.name.into_string().ok()).collect())
}

/// Reads a record: `None` where there is none, an error where it tells of no run.
fn read_record(path: &Utf8Path) -> Result<Option<serde_json::Result<LiveRun>>, PathError> {
    let text = read_optional(path)?;
    let line = text.as_deref().map(|text| text.split(|byte| *byte == b'\n').next().unwrap_or(text));
    Ok(line.map(serde_json::from_slice))
}

/// Whether a record tells that nothing runs.
fn is_blank(path: &Utf8Path) -> Result<bool, PathError> {
    let text = read_optional(path)?;
    Ok(text.is_none_or(|text| text.is_empty() || text.starts_with(b"\n")))
}

/// Whether the process that a record's name tells of has an empty record because it lives and runs nothing.
fn names_living_process(path: &Utf8Path) -> bool {
    let named = path.file_stem().and_then(|stem| stem.split_once('-'));
    let Some((pid, start)) = named else { return false };
    let found = pid.parse().ok().and_then(disk::living_process);
    found.is_some_and(|found| found.start.to_string() == start)
}
