//! What a slot gets in addition to the files of its commit: copied files of the workspace, and the results of
//! `[checkout] setup`.
//!
//! Neither is ever work: copied files are excluded in the slot and a candidate that has one is rejected by the judge; what
//! `setup` changes in tracked files is put back and said once, what it makes is excluded. `setup` runs confined, with the
//! network, when the slot is new, when a lock file or the commands changed, and whenever clearing the slot removed its
//! results. One that fails does not keep the agent away: it may be what the item is to mend.

use std::path::PathBuf;

use camino::{Utf8Path, Utf8PathBuf};
use rustix::fs::statvfs;
use serde::{Deserialize, Serialize};

use super::PersonsRepository;
use crate::config::{CheckoutConfig, Config};
use crate::digest;
use crate::files::{read_optional, remove_optional, replace_unsynced};
use crate::gates::{GateContext, GateRepository, SetupPlace, Tell, run_setup};
use crate::git::Oid;
use crate::git::copied::bring_copies;
use crate::git::shown;
use crate::git::slot::{Slot, SlotFiles, SlotRequest, setup_key};
use crate::workflow::WorkflowError;

/// A slot is refused where there is less than this many times its size.
const LEAST_FREE: u64 = 2;

/// What slots are equipped with and how.
pub(crate) struct Equipment<'a> {
    pub(super) gates: &'a GateContext<'a>,
    pub(super) checkout: &'a CheckoutConfig,
    pub(super) tell: Tell<'a>,
    /// What people are to know.
    pub(crate) notes: Vec<String>,
}

/// The last complete `setup` of a slot.
#[derive(Default, Serialize, Deserialize)]
struct SlotSetup {
    key: String,
    /// The caches that it left.
    caches: Vec<Utf8PathBuf>,
    /// It made nothing that clearing the slot would remove.
    lasts: bool,
    /// Tracked files that it had changed and that were put back, as people were told.
    put_back: Vec<String>,
}

impl<'a> Equipment<'a> {
    pub(crate) fn new(gates: &'a GateContext<'a>, config: &'a Config, tell: Tell<'a>) -> Self {
        Equipment::with(gates, &config.checkout, tell)
    }

    /// Returns what slots get that are made ready in this way.
    pub(super) fn with(
        gates: &'a GateContext<'a>,
        checkout: &'a CheckoutConfig,
        tell: Tell<'a>,
    ) -> Self {
        Equipment { gates, checkout, tell, notes: Vec::new() }
    }
}

impl Equipment<'_> {
    /// Returns the files of the workspace that come along into a clone of a repository.
    pub(super) fn copied(
        &mut self,
        repository: &GateRepository,
    ) -> Result<Vec<PathBuf>, WorkflowError> {
        let found = repository.copied(&self.checkout.copy)?;
        for path in &found.not_ignored {
            let path = shown(path);
            self.notes.push(format!(
                "`{path}` is not copied into clones: git does not ignore it; commit it, or add it to .gitignore"
            ));
        }
        let missing = found.missing.iter();
        self.notes.extend(missing.map(|name| {
            format!(
                "`{name}` of [checkout] copy is not an ignored file of your checkout; it is not copied"
            )
        }));
        Ok(found.files)
    }

    /// Equips a slot that was just prepared.
    pub(super) fn equip(
        &mut self,
        request: &SlotRequest<'_>,
        slot: Slot,
        number: u32,
        prefix: &Utf8Path,
    ) -> Result<Slot, WorkflowError> {
        if let Some(person) = &request.person.place().worktree {
            bring_copies(person, request.directory, request.exclude)
                .map_err(|error| WorkflowError::Slot(error.into()))?;
        }
        if self.checkout.setup.is_empty() {
            return Ok(slot);
        }
        let lock_files = setup_key(request.mirror, request.base)?;
        let key = digest::of_data(&(lock_files, &self.checkout.setup, request.caches));
        let record = request.private.join("setup.json");
        let last: Option<SlotSetup> =
            read_optional(&record)?.and_then(|text| serde_json::from_slice(&text).ok());
        let is_there = |cache: &&Utf8PathBuf| request.directory.join(cache).is_dir();
        if last.as_ref().is_some_and(|last| {
            last.key == key && last.lasts && last.caches.iter().all(|cache| is_there(&cache))
        }) {
            return Ok(slot);
        }
        remove_optional(&record)?;
        let before = SlotFiles::of(request)?;
        // The agent's own, as it is the agent who works with what is fetched here.
        let caches = self.gates.agents_caches()?;
        let place = SetupPlace {
            directory: &request.directory.join(prefix),
            tree: request.directory,
            commit: request.base,
            caches: &caches,
        };
        let gates = GateContext { slot: Some(number), ..*self.gates };
        let problem = run_setup(&gates, &self.checkout.setup, &place, self.tell)?;
        let (slot, after) = Slot::settle(request, &before)?;
        let put_back: Vec<String> = after.changed.iter().map(|path| shown(path)).collect();
        if !put_back.is_empty() && last.is_none_or(|last| last.put_back != put_back) {
            self.notes.push(format!(
                "`setup` changed tracked files, which were restored: {}",
                put_back.join(", ")
            ));
        }
        if let Some(problem) = problem {
            self.notes.push(format!("`setup` failed in the agent's clone: {problem}"));
            return Ok(slot);
        }
        let caches: Vec<Utf8PathBuf> = request.caches.iter().filter(is_there).cloned().collect();
        let lasts = !slot.has_additions(request)?;
        let done = SlotSetup { key, caches, lasts, put_back };
        let text = serde_json::to_vec(&done).expect("it is plain data");
        replace_unsynced(&record, &text)?;
        Ok(slot)
    }

    /// Says what a clone lacks because the person's own repository does not have it.
    pub(super) fn note_unfilled(&mut self, unfilled: &crate::git::slot::Unfilled) {
        let names =
            |paths: &[PathBuf]| paths.iter().map(|path| shown(path)).collect::<Vec<_>>().join(", ");
        if !unfilled.submodules.is_empty() {
            self.notes.push(format!(
                "submodules are empty in the agent's clone, because your repository lacks their commits: {} (`git submodule \
                 update --init --recursive` fetches them)",
                names(&unfilled.submodules)
            ));
        }
        if !unfilled.lfs.is_empty() {
            self.notes.push(format!(
                "LFS files are pointers in the agent's clone, because your repository lacks their contents: {} (`git lfs pull` \
                 fetches them)",
                names(&unfilled.lfs)
            ));
        }
    }
}

/// Refuses a new slot where the disk has not room for it twice.
pub(super) fn require_space(
    directory: &Utf8Path,
    repositories: &[(&PersonsRepository, Oid)],
) -> Result<(), WorkflowError> {
    let mut size = 0;
    for (repository, tip) in repositories {
        size += repository.gates.size_at(tip)?;
    }
    let existing = directory.ancestors().find(|place| place.exists()).unwrap_or(directory);
    // A file system that does not say is not a reason to refuse.
    let Ok(space) = statvfs(existing.as_std_path()) else { return Ok(()) };
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    let needed = size.saturating_mul(LEAST_FREE);
    if free >= needed {
        return Ok(());
    }
    Err(WorkflowError::NoSpace { directory: directory.to_owned(), size, needed, free })
}
