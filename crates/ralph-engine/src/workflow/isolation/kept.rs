//! Work that is not on the branch: rejected, waiting for a person, or half done. It is in the private mirror, where its
//! objects were hashed when they came in, and a person can look at it or make a branch of it.

use camino::Utf8Path;
use ralph_model::pipeline::records::Base;

use super::slots::{SLOTS, SlotPool};
use super::{object, root_name};
use crate::boundary;
use crate::config::Config;
use crate::gates::GateRepository;
use crate::gates::receipt::read_receipt;
use crate::git::patch::PatchForm;
use crate::git::undo::RefReturn;
use crate::git::{GitProgram, Oid};
use crate::state::State;
use crate::workflow::WorkflowError;
use crate::workflow::repositories::{key, oid};

/// Which work is looked for.
#[derive(Clone, Copy, Debug)]
pub struct KeptQuery<'a> {
    /// The item that it was done for; its clone is looked at where no commit is named.
    pub item: Option<&'a str>,
    /// The commit that was claimed or judged.
    pub commit: Option<&'a str>,
}

/// Work in the private mirror of a repository.
#[derive(Debug)]
pub struct KeptWork {
    /// The directory of the repository in the workspace; empty for the workspace itself.
    pub repository: String,
    pub commit: String,
    /// Where the work on it began; `None` if it has no history in common with what is checked out.
    pub base: Option<String>,
    /// Whether the checked-out branch has it.
    pub is_on_branch: bool,
    /// Whether a receipt says that it was accepted.
    pub has_receipt: bool,
    gates: GateRepository,
    id: Oid,
    base_id: Option<Oid>,
}

/// What became of a branch that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakenBranch {
    Made,
    /// It was there already, at this work.
    AlreadyThere,
    /// It exists at another commit; nothing was changed.
    InTheWay,
}

/// Finds work in the mirrors of a workspace.
pub fn find_kept(
    program: &GitProgram,
    state: &State,
    config: &Config,
    workspace: &Utf8Path,
    query: KeptQuery<'_>,
) -> Result<Option<KeptWork>, WorkflowError> {
    let record = match query.item {
        Some(item) => SLOTS.load(state, item)?,
        None => None,
    };
    let bases = record.as_ref().map(|record| record.base.clone()).unwrap_or_default();
    let mut repositories = Vec::new();
    for place in boundary::repositories(workspace) {
        let Some(worktree) = place.worktree.clone() else { continue };
        let name = worktree.strip_prefix(workspace).map_or("", Utf8Path::as_str).to_owned();
        repositories.push((name, GateRepository::open(program, state, &worktree, workspace)?));
    }
    if let Some(commit) = query.commit.and_then(|commit| Oid::parse(commit.as_bytes())) {
        for (name, gates) in &repositories {
            if gates.mirror.git().have(std::slice::from_ref(&commit))?[0] {
                return KeptWork::new(name, gates, commit, &bases).map(Some);
            }
        }
        return Ok(None);
    }
    let Some(record) = record else { return Ok(None) };
    // Nothing was claimed: what the agent has committed so far in its clone.
    let worktrees: Vec<&Utf8Path> = repositories
        .iter()
        .filter_map(|(_, gates)| gates.git.place().worktree.as_deref())
        .collect();
    let pool = SlotPool::new(state, config.slots.as_deref(), &root_name(workspace, &worktrees));
    for (name, gates) in &repositories {
        let Some(clone) = pool.open_clone_of(record.number, name, gates)? else { continue };
        clone.transfer()?;
        let Some(head) = clone.git().head()?.id().cloned() else { continue };
        if bases.get(&key(name)).map(oid).as_ref() != Some(&head) {
            return KeptWork::new(name, gates, head, &bases).map(Some);
        }
    }
    Ok(None)
}

impl KeptWork {
    fn new(
        name: &str,
        gates: &GateRepository,
        id: Oid,
        bases: &Base,
    ) -> Result<KeptWork, WorkflowError> {
        let head = gates.git.head()?.id().cloned();
        let truth = gates.mirror.git();
        gates.mirror.fill(&gates.git, &[])?;
        let is_on_branch = match &head {
            Some(head) => truth.is_ancestor(&id, head)?,
            None => false,
        };
        // The clone of an accepted item is another's by now. Anyone can write a note, but this one only chooses a diff.
        let receipt = read_receipt(&gates.git, &id).ok().flatten();
        let recorded = receipt.as_ref().and_then(|receipt| {
            let base = Oid::parse(receipt.base.commit.as_str().as_bytes())?;
            truth.is_ancestor(&base, &id).is_ok_and(|is_below| is_below).then_some(base)
        });
        let base_id = match (recorded, bases.get(&key(name)), &head) {
            (Some(base), ..) => Some(base),
            (None, Some(base), _) => Some(object(base)),
            (None, None, Some(_)) if is_on_branch => None,
            (None, None, Some(head)) => truth.merge_base(&id, head)?,
            (None, None, None) => None,
        };
        Ok(KeptWork {
            repository: name.to_owned(),
            commit: id.to_string(),
            base: base_id.as_ref().map(ToString::to_string),
            is_on_branch,
            has_receipt: receipt.is_some(),
            gates: gates.clone(),
            id,
            base_id,
        })
    }

    /// Returns what the work changes since its base; since the commit before it where no base is known.
    pub fn patch(&self, form: PatchForm) -> Result<Vec<u8>, WorkflowError> {
        let truth = self.gates.mirror.git();
        let base = match self.base_id.clone() {
            None => truth.resolve(&format!("{}^", self.id))?,
            base => base,
        };
        let old = base.unwrap_or_else(|| self.gates.mirror.empty_tree());
        Ok(truth.patch(&old, &self.id, form)?)
    }

    /// Makes a branch of the work in the person's repository; one that is there is left as it is.
    pub fn take(&self, branch: &str) -> Result<TakenBranch, WorkflowError> {
        let git = &self.gates.git;
        let name = format!("refs/heads/{branch}");
        match git.resolve(&name)? {
            Some(now) if now == self.id => return Ok(TakenBranch::AlreadyThere),
            Some(_) => return Ok(TakenBranch::InTheWay),
            None => {}
        }
        if !git.have(std::slice::from_ref(&self.id))?[0] {
            git.take_from(&self.gates.mirror.git().place().git_dir, &self.id)?;
        }
        // Made only if it is still not there.
        git.return_refs(&[RefReturn { name, before: Some(self.id.clone()), now: None }])?;
        Ok(TakenBranch::Made)
    }
}
