//! Slots: which clone an item's runs work in.
//!
//! A slot serves its item until that has landed or was given up, so that agents find their sessions and what they left
//! half done; then it is prepared anew for the next one. Its path stays the same for ever, because agents file sessions by
//! path. A slot that cannot be cleared is left alone, and another number is used.

use camino::{Utf8Path, Utf8PathBuf};
use ralph_model::pipeline::records::Base;
use serde::{Deserialize, Serialize};

use super::PersonsRepository;
use super::access::{ClonePlace, CloneRequest, ItemClone, LandingRepository};
use super::equipment::{Equipment, require_space};
use crate::files::PathError;
use crate::git::Oid;
use crate::git::item_refs::ItemKey;
use crate::git::landing::JudgedWork;
use crate::git::slot::SlotError;
use crate::state::{Entry, State};
use crate::workflow::WorkflowError;
use crate::workflow::repositories::{commit_id, key, oid};

/// Which slot an item has.
pub(super) const SLOTS: Entry<SlotRecord> =
    Entry::new("slots", "work on it starts over in another clone");

/// What the tip of the run's branch is called in a slot, for people and agents.
pub(super) const TIP_NAME: &str = "ralph/tip";
const TIP_REF: &str = "refs/remotes/ralph/tip";

/// A slot and the item that it serves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SlotRecord {
    pub(crate) item: String,
    pub(crate) number: u32,
    /// Where work on the item began.
    pub(crate) base: Base,
}

/// Where slots are made.
pub(crate) struct SlotPool {
    /// One directory per slot is below it.
    directory: Utf8PathBuf,
    /// What no agent can write, by slot.
    private: Utf8PathBuf,
    /// The name of the workspace's directory, which slots have too.
    name: String,
}

/// A slot that is ready for its item.
pub(super) struct ReadySlot {
    pub(super) record: SlotRecord,
    /// The directory used in place of the workspace, or of the one with its repositories.
    pub(super) root: Utf8PathBuf,
    pub(super) clones: Vec<Box<dyn ItemClone>>,
    /// It was prepared just now, and has nothing of an earlier run.
    pub(super) is_new: bool,
}

impl SlotPool {
    pub(super) fn new(state: &State, configured: Option<&Utf8Path>, name: &str) -> SlotPool {
        SlotPool {
            directory: directory(state, configured),
            private: state.directory().join("slot-state"),
            name: name.to_owned(),
        }
    }

    pub(super) fn root(&self, number: u32) -> Utf8PathBuf {
        self.directory.join(number.to_string()).join(&self.name)
    }

    fn private(&self, number: u32, repository: &str) -> Utf8PathBuf {
        let name = if repository.is_empty() { "workspace" } else { repository };
        self.private.join(number.to_string()).join(crate::state::file_name(name))
    }

    /// Returns the slot of an item as its last run left it, or prepares one at the tips.
    pub(super) fn enter(
        &self,
        state: &State,
        item: &str,
        repositories: &[PersonsRepository],
        tips: &Base,
        equipment: &mut Equipment<'_>,
    ) -> Result<ReadySlot, WorkflowError> {
        if let Some(record) = SLOTS.load(state, item)?
            && let Some(clones) = self.reopen(&record, repositories)?
        {
            let root = self.root(record.number);
            return Ok(ReadySlot { record, root, clones, is_new: false });
        }
        let taken: Vec<u32> =
            SLOTS.all(state)?.iter().filter(|one| one.item != item).map(|one| one.number).collect();
        let starts = starts(item, repositories, tips)?;
        for number in (1..).filter(|number| !taken.contains(number)) {
            if !self.root(number).exists() {
                let sizes: Vec<(&PersonsRepository, Oid)> = repositories
                    .iter()
                    .filter_map(|one| Some((one, tips.get(&key(&one.name)).map(oid)?)))
                    .collect();
                require_space(&self.directory, &sizes)?;
            }
            match self.prepare(number, item, repositories, &starts, equipment) {
                Ok(clones) => {
                    let (item, base) = (item.to_owned(), base_at(tips, &starts));
                    let record = SlotRecord { item, number, base };
                    SLOTS.save(state, &record.item, &record)?;
                    return Ok(ReadySlot { record, root: self.root(number), clones, is_new: true });
                }
                // Left alone, never waited for.
                Err(WorkflowError::Slot(SlotError::Uncleared { directory, .. })) => {
                    equipment.notes.push(format!(
                        "slot {number} cannot be cleared and is no longer used: remove `{directory}` by hand"
                    ));
                }
                Err(error) => return Err(error),
            }
        }
        unreachable!("there are more numbers than slots that cannot be cleared")
    }

    /// Returns where the clone of a repository is.
    fn place(&self, number: u32, repository: &str) -> ClonePlace {
        let directory = self.root(number).join(repository);
        ClonePlace { directory, private: self.private(number, repository), number }
    }

    /// Opens one clone of a slot as the item's last run left it; `None` if it no longer exists, or damaged.
    pub(super) fn open_clone(
        &self,
        number: u32,
        repository: &PersonsRepository,
    ) -> Result<Option<Box<dyn ItemClone>>, SlotError> {
        self.open_clone_of(number, &repository.name, &*repository.gates)
    }

    pub(super) fn open_clone_of(
        &self,
        number: u32,
        name: &str,
        repository: &dyn LandingRepository,
    ) -> Result<Option<Box<dyn ItemClone>>, SlotError> {
        repository.open_clone(&self.place(number, name))
    }

    /// Tells whether the clones of a slot are there, and can be worked in.
    pub(super) fn is_there(
        &self,
        record: &SlotRecord,
        repositories: &[PersonsRepository],
    ) -> Result<bool, WorkflowError> {
        Ok(self.reopen(record, repositories)?.is_some())
    }

    fn reopen(
        &self,
        record: &SlotRecord,
        repositories: &[PersonsRepository],
    ) -> Result<Option<Vec<Box<dyn ItemClone>>>, WorkflowError> {
        let mut clones = Vec::new();
        for repository in repositories {
            match self.open_clone(record.number, repository)? {
                Some(slot) => clones.push(slot),
                None => return Ok(None),
            }
        }
        Ok(Some(clones))
    }

    fn prepare(
        &self,
        number: u32,
        item: &str,
        repositories: &[PersonsRepository],
        starts: &[CloneStart],
        equipment: &mut Equipment<'_>,
    ) -> Result<Vec<Box<dyn ItemClone>>, WorkflowError> {
        let mut clones = Vec::new();
        for repository in repositories {
            let start = starts.iter().find(|start| start.repository == repository.name);
            let Some(CloneStart { tip, at, .. }) = start else { continue };
            let place = self.place(number, &repository.name);
            let (branch, prefix) = (&repository.branch, &repository.prefix);
            let request = CloneRequest { place: &place, item, branch, tip, at, prefix };
            clones.push(repository.gates.prepare_clone(&request, equipment)?);
        }
        Ok(clones)
    }

    /// Makes the tips known in an item's slot, for the agent to merge.
    pub(super) fn point_at_tips(
        &self,
        state: &State,
        item: &str,
        repositories: &[PersonsRepository],
        tips: &Base,
    ) -> Result<(), WorkflowError> {
        let Some(record) = SLOTS.load(state, item)? else { return Ok(()) };
        let Some(clones) = self.reopen(&record, repositories)? else { return Ok(()) };
        for (repository, clone) in repositories.iter().zip(&clones) {
            if let Some(tip) = tips.get(&key(&repository.name)) {
                clone.point(TIP_REF, &oid(tip))?;
            }
        }
        Ok(())
    }
}

/// The position of a new clone of one repository.
struct CloneStart {
    repository: String,
    /// The tip of the run's branch.
    tip: Oid,
    /// The checked-out commit: the tip, or judged work from which the item continues.
    at: Oid,
    /// Where that work began.
    base: Option<Oid>,
}

/// Returns where the clones of an item begin. Judged work that has not landed is gone on from: private state was lost.
fn starts(
    item: &str,
    repositories: &[PersonsRepository],
    tips: &Base,
) -> Result<Vec<CloneStart>, WorkflowError> {
    let mut starts = Vec::new();
    for one in repositories {
        let Some(tip) = tips.get(&key(&one.name)).map(oid) else { continue };
        let kept = one.landing().candidate(&one.branch, &ItemKey::new(item))?;
        let (at, base) = match kept {
            Some(JudgedWork { base, work }) => (work, Some(base)),
            None => (tip.clone(), None),
        };
        starts.push(CloneStart { repository: one.name.clone(), tip, at, base });
    }
    Ok(starts)
}

/// Returns the base of the work: the tips, unless it continues from earlier work.
fn base_at(tips: &Base, starts: &[CloneStart]) -> Base {
    let mut base = tips.clone();
    for start in starts {
        let began = start.base.as_ref().map(|base| (key(&start.repository), commit_id(base)));
        base.extend(began);
    }
    base
}

/// Gives an item's slot back: it has landed, or was given up.
pub(crate) fn release(state: &State, item: &str) -> Result<(), PathError> {
    SLOTS.forget(state, item)
}

/// Returns where the slots of a workspace are.
pub(super) fn directory(state: &State, configured: Option<&Utf8Path>) -> Utf8PathBuf {
    let own = state.directory().file_name().unwrap_or("workspace");
    configured.map_or_else(|| state.directory().join("slots"), |directory| directory.join(own))
}

/// Returns where work on an item began, if it has a slot.
pub(crate) fn base_of(state: &State, item: &str) -> Result<Option<Base>, PathError> {
    Ok(SLOTS.load(state, item)?.map(|record| record.base))
}

/// Returns the items that have a slot.
pub(crate) fn items(state: &State) -> Result<Vec<String>, PathError> {
    Ok(SLOTS.all(state)?.into_iter().map(|record| record.item).collect())
}

/// Whether it is no longer known which slot an item had.
pub(crate) fn was_damaged(state: &State, item: &str) -> bool {
    SLOTS.was_damaged(state, item)
}

/// Records that an item continues from other commits.
pub(crate) fn move_base(state: &State, item: &str, base: &Base) -> Result<(), PathError> {
    let Some(record) = SLOTS.load(state, item)? else { return Ok(()) };
    SLOTS.save(state, item, &SlotRecord { base: base.clone(), ..record })
}
