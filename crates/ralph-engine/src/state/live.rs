//! Records of current runs, so that the next start finds the leftovers of a killed Ralph.
//!
//! Each process has one file and overwrites it in place: creating and removing a file per run would cost more than
//! everything else the harness does for a run. The record is the first line; bytes after it are leftovers of a longer
//! record and ignored. It is worthless after a reboot, so it is never synced to disk.

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

/// A current run, or one whose Ralph died.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LiveRun {
    /// Also in the environment of every process of the run, as `RALPH_RUN_ID`.
    pub(crate) run_id: String,
    /// The item of an agent's run in the person's checkout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) item: Option<String>,
    /// The Ralph that supervises the run.
    pub(crate) owner: ProcessIdentity,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) guard: Option<ProcessIdentity>,
    /// Removed when the run has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) scratch: Option<Utf8PathBuf>,
    pub(crate) started: Timestamp,
    /// The file of an agent's events; a gate has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) events: Option<Utf8PathBuf>,
    /// Git's locks that were free when the run began.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) free_locks: Vec<Utf8PathBuf>,
    /// What the run must not change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) watch: Option<Watch>,
}

/// A run in the person's checkout whose Ralph was killed: changes after `gone` are not its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AfterKill {
    pub(crate) item: String,
    /// When the last process of the run had ended.
    pub(crate) gone: FileTime,
}

/// The killed runs whose leftovers were not separated from the person's later changes yet, by item.
pub(crate) const AFTER_KILL: Entry<AfterKill> =
    Entry::new("after-kill", "what you changed after a kill may count as the run's");

/// This process's record.
#[derive(Debug)]
pub(crate) struct LiveRecord {
    path: Utf8PathBuf,
    file: DiskFile,
    /// Whether it describes a run without a recorded end.
    tells: Cell<bool>,
}

impl LiveRecord {
    /// Records a run, or new details of it.
    pub(crate) fn save(&self, run: &LiveRun) -> Result<(), PathError> {
        let mut line = serde_json::to_vec(run).expect("a record is plain data");
        line.push(b'\n');
        self.tells.set(true);
        self.write(&line)
    }

    /// Clears the record after the run's last process has ended.
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
        // A record of a run whose end could not be recorded is kept: the next start records it.
        if !self.tells.get() {
            let _ = remove_optional(&self.path);
        }
    }
}

/// The suffix of the guards' note.
const END: &str = "end";

/// A run whose Ralph is dead, and its record file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Leftover {
    pub(crate) run: LiveRun,
    path: Utf8PathBuf,
}

impl Leftover {
    /// Removes the record: nothing of the run is left.
    pub(crate) fn forget(&self) -> Result<(), PathError> {
        remove_optional(&self.path.with_extension("baseline"))?;
        remove_optional(&self.path.with_extension("outside"))?;
        remove_optional(&self.path.with_extension(END))?;
        remove_optional(&self.path)
    }

    /// Returns when the last process of the run ended, if known: from its guard, or because the machine was rebooted
    /// since.
    pub(crate) fn gone(&self) -> Option<FileTime> {
        let path = self.path.with_extension(END).into_string();
        let noted = EndNote { path, run: self.run.run_id.clone() }.read();
        noted.or_else(|| FileTime::of_boot_after(&self.run.owner))
    }
}

impl State {
    /// Creates this process's record.
    pub(crate) fn live_record(&self) -> Result<LiveRecord, PathError> {
        let own = disk::own_process();
        let path = self.live_directory().join(format!("{}-{}.json", own.pid, own.start));
        // A file of that name belongs to this very process and is no longer used, or is from an earlier boot.
        remove_optional(&path)?;
        let file = disk::create_new(&path);
        let file = file.map_err(|source| PathError::new("create", &path, source))?;
        Ok(LiveRecord { file, path, tells: Cell::new(false) })
    }

    /// Returns where the guards of this process record the end of a run.
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

    /// Returns the run that one of these processes guards. A process can hide its variables, but not its ancestors. The
    /// ancestors are looked up only if there is a run to match.
    ///
    /// Without the kernel boundary a run can kill its guard. Its processes are then reparented to its Ralph, which starts
    /// nothing else on behalf of a person meanwhile.
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
            let is_above = |process: &ProcessIdentity| {
                ancestors.contains(&process.pid) && disk::is_alive(process)
            };
            let holds = |run: &LiveRun| {
                run.guard.as_ref().is_some_and(|guard| {
                    is_above(guard) || !disk::is_alive(guard) && is_above(&run.owner)
                })
            };
            if let Some(run) = run.filter(holds) {
                return Ok(Some(run.run_id));
            }
        }
        Ok(None)
    }

    /// Returns the runs whose process is dead. Records of dead processes without a run are removed.
    pub(crate) fn leftovers(&self) -> Result<Vec<Leftover>, PathError> {
        let directory = self.live_directory();
        let error = |source| PathError::new("read", &directory, source);
        let mut leftovers = Vec::new();
        for name in names_in(&directory).map_err(error)? {
            let path = directory.join(name);
            if matches!(path.extension(), Some("baseline" | "outside" | END)) {
                // Removed with its record; without one it is useless.
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
                    "the run of a killed Ralph is not known: processes it left are not ended, and its changes are not compared",
                )?,
            }
        }
        leftovers.sort_by(|a, b| a.run.run_id.cmp(&b.run.run_id));
        Ok(leftovers)
    }
}

/// Lists the files of a directory with UTF-8 names; ours always are.
fn names_in(directory: &Utf8Path) -> io::Result<Vec<String>> {
    let listed = disk::list(directory)?.into_iter();
    Ok(listed.filter_map(|entry| entry.name.into_string().ok()).collect())
}

/// Reads a record: `None` if there is none, an error if it does not describe a run.
fn read_record(path: &Utf8Path) -> Result<Option<serde_json::Result<LiveRun>>, PathError> {
    let text = read_optional(path)?;
    let line = text.as_deref().map(|text| text.split(|byte| *byte == b'\n').next().unwrap_or(text));
    Ok(line.map(serde_json::from_slice))
}

/// Whether a record says that nothing is running.
fn is_blank(path: &Utf8Path) -> Result<bool, PathError> {
    let text = read_optional(path)?;
    Ok(text.is_none_or(|text| text.is_empty() || text.starts_with(b"\n")))
}

/// Whether the process in a record's name is alive, so that an empty record means it runs nothing.
fn names_living_process(path: &Utf8Path) -> bool {
    let named = path.file_stem().and_then(|stem| stem.split_once('-'));
    let Some((pid, start)) = named else { return false };
    let found = pid.parse().ok().and_then(disk::living_process);
    found.is_some_and(|found| found.start.to_string() == start)
}
