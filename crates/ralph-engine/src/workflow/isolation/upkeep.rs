//! What a person asks of clones and landings outside a workflow: bring the checkout along, see the slots, remove some.

use std::fs;

use camino::{Utf8Path, Utf8PathBuf};
use jiff::Timestamp;
use serde::Serialize;

use super::branch::{THEN_LAND, why_it_waits};
use super::newer::{CheckedMerge, NewerMerge, TakenUp};
use super::slots::SlotRecord;
use super::{LANDED, PersonsRepository, SLOTS};
use crate::boundary;
use crate::config::Config;
use crate::files::PathError;
use crate::files::lock::{LockError, LockOwner, RunLock};
use crate::gates::GateRepository;
use crate::gates::assess::Assessment;
use crate::git::{Git, GitProgram};
use crate::home::Home;
use crate::run::{RESULTS, UNCOMPARED, remove};
use crate::state::State;
use crate::workflow::WorkflowError;
use crate::workflow::repositories::own_paths;

/// What a person does where `ralph land` found something in the way.
const THEN_AGAIN: &str = "then run `ralph land` again";

impl PersonsRepository {
    /// Lets the branch follow what has landed; returns why it waits, and the merge with newer commits, if one was made.
    pub(crate) fn bring_along<E: From<WorkflowError>>(
        &self,
        assess: impl FnMut(&NewerMerge<'_>) -> Result<Assessment, E>,
    ) -> Result<(Option<String>, Option<CheckedMerge>), E> {
        // The person's newer commits come first.
        Ok(match self.take_up_newer(assess)? {
            TakenUp::Refused(why) => (Some(why), None),
            TakenUp::Nothing => (self.follow(THEN_AGAIN)?, None),
            TakenUp::Merged(merge) => (self.follow(THEN_AGAIN)?, Some(merge)),
        })
    }
}

/// A branch that landed work was ahead of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LandedBranch {
    /// The directory of the repository in the workspace; empty for the workspace itself.
    pub repository: String,
    pub branch: String,
    /// Why it does not follow, and what to do; `None` if it has.
    pub waits: Option<String>,
    /// The merge of landed work with the person's newer commits that it followed to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merge: Option<CheckedMerge>,
    /// The landed commits that it does not have.
    #[serde(skip)]
    pub commits: Vec<String>,
}

/// Returns every branch that landed work is ahead of, with what to do about it. Nothing is moved.
pub fn waiting(
    program: &GitProgram,
    workspace: &Utf8Path,
) -> Result<Vec<LandedBranch>, WorkflowError> {
    let mut branches = Vec::new();
    for place in boundary::repositories(workspace) {
        let Some(worktree) = place.worktree.clone() else { continue };
        let git = Git::at(program.clone(), place);
        if !git.may_have_refs(LANDED) {
            continue;
        }
        let name = worktree.strip_prefix(workspace).map_or("", Utf8Path::as_str).to_owned();
        for landed in git.refs()?.refs {
            let Some(short) = landed.name.strip_prefix(LANDED) else { continue };
            let outcome = git.look_at_following(&format!("refs/heads/{short}"))?;
            let waits = why_it_waits(short, &outcome, THEN_LAND)
                .unwrap_or_else(|| "`ralph land` updates your checkout".to_owned());
            let range = format!("refs/heads/{short}..{}", landed.id);
            let commits = git.range(&range)?.unwrap_or_default();
            branches.push(LandedBranch {
                repository: name.clone(),
                branch: short.to_owned(),
                waits: Some(waits),
                merge: None,
                commits: commits.iter().map(ToString::to_string).collect(),
            });
        }
    }
    Ok(branches)
}

/// Brings every branch along that landed work is ahead of, where that disturbs nothing. `assess` runs the gates where the
/// person has newer commits.
pub fn bring_along<E: From<WorkflowError>>(
    program: &GitProgram,
    state: &State,
    workspace: &Utf8Path,
    home: &Home,
    config: &Config,
    mut assess: impl FnMut(&NewerMerge<'_>) -> Result<Assessment, E>,
) -> Result<Vec<LandedBranch>, E> {
    let mut branches = Vec::new();
    for place in boundary::repositories(workspace) {
        let Some(worktree) = place.worktree.clone() else { continue };
        let gates = GateRepository::open(program, state, &worktree, workspace);
        let gates = gates.map_err(WorkflowError::from)?;
        let name = worktree.strip_prefix(workspace).map_or("", Utf8Path::as_str).to_owned();
        for landed in gates.git.refs().map_err(WorkflowError::from)?.refs {
            let Some(short) = landed.name.strip_prefix(LANDED) else { continue };
            let repository = PersonsRepository {
                had_commits: std::cell::Cell::new(false),
                name: name.clone(),
                gates: std::sync::Arc::new(gates.clone()),
                own: own_paths(workspace, &home.path, &config.mailbox, &worktree),
                branch: format!("refs/heads/{short}"),
                has_home: false,
                prefix: Utf8PathBuf::new(),
            };
            let (waits, merge) = repository.bring_along(&mut assess)?;
            branches.push(LandedBranch {
                repository: name.clone(),
                branch: short.to_owned(),
                waits,
                merge,
                commits: Vec::new(),
            });
        }
    }
    Ok(branches)
}

/// A clone of Ralph's own, and the item that it serves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SlotView {
    pub number: u32,
    /// `None` if it is free.
    pub item: Option<String>,
    pub path: Utf8PathBuf,
    /// Bytes on disk.
    pub size: u64,
}

/// Lists the slots of a workspace.
pub fn list_slots(state: &State, config: &Config) -> Result<Vec<SlotView>, PathError> {
    let directory = super::slots::directory(state, config.slots.as_deref());
    let records: Vec<SlotRecord> = SLOTS.all(state)?;
    let entries = directory.read_dir_utf8().into_iter().flatten().flatten();
    let mut found: Vec<SlotView> = entries
        .filter_map(|entry| {
            let number: u32 = entry.file_name().parse().ok()?;
            let record = records.iter().find(|record| record.number == number);
            let path = entry.path().to_owned();
            let size = size_of(path.as_std_path());
            Some(SlotView { number, item: record.map(|record| record.item.clone()), path, size })
        })
        .collect();
    found.sort_by_key(|slot| slot.number);
    Ok(found)
}

/// Removes the slots that serve no item, or all of them but those whose finished run is not judged yet; returns those that
/// were removed.
pub fn prune_slots(
    state: &State,
    home: &Home,
    config: &Config,
    all: bool,
    now: Timestamp,
) -> Result<Vec<SlotView>, LockError> {
    // No workflow may be at work in one of them.
    let owner = LockOwner::current("ralph slots prune", now);
    let _lock = RunLock::acquire(&state.run_lock(home), &owner)?;
    let mut removed = Vec::new();
    for slot in list_slots(state, config)? {
        if slot.item.is_some() && !all {
            continue;
        }
        if let Some(item) = &slot.item {
            // What a finished run made is only there until it is judged.
            if RESULTS.load(state, item)?.is_some() || UNCOMPARED.load(state, item)?.is_some() {
                continue;
            }
            SLOTS.forget(state, item)?;
        }
        remove(&slot.path);
        removed.push(slot);
    }
    Ok(removed)
}

/// Adds up what is in a directory, without following links.
fn size_of(path: &std::path::Path) -> u64 {
    let Ok(found) = fs::symlink_metadata(path) else { return 0 };
    if !found.is_dir() {
        return found.len();
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| size_of(&entry.path())).sum()
}
