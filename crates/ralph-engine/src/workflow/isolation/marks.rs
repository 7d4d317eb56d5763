//! Commits of the run's branches under refs of their own, and landed work that is taken back.

use ralph_model::build::Work;
use ralph_model::journal::{Note, WorkLanded};
use ralph_model::pipeline::records::Base;

use super::branch::LandableCommit;
use super::slots::SLOTS;
use super::{Clones, PersonsRepository, RACES, object};
use crate::git::evidence::is_own;
use crate::git::item_refs::ItemKey;
use crate::git::landing::{JudgedWork, LandOutcome, LandingCommit, TipState, TreeMerge};
use crate::git::undo::RefReturn;
use crate::git::{Oid, shown};
use crate::session::Session;
use crate::state::State;
use crate::workflow::WorkflowError;
use crate::workflow::repositories::{Repositories, commit_id, key};

/// Landed work that is to be taken back: all that is between two commits of each repository.
pub(crate) struct RevertRequest<'a> {
    pub(crate) item: &'a str,
    pub(crate) before: &'a Base,
    pub(crate) after: &'a Base,
    pub(crate) message: &'a str,
}

/// What taking work back came to.
#[derive(Debug)]
pub(crate) enum RevertEnd {
    /// The tips have nothing of it any more.
    Reverted,
    /// The branch does not have this work.
    NotThere { branch: String },
    /// Later commits changed the same lines.
    Conflict { paths: Vec<String> },
}

/// What reverting would do to one tip.
enum Reverted {
    Nothing,
    Commit(Oid),
    Conflict(Vec<String>),
}

impl Clones {
    /// Keeps a commit of each repository under a ref. All of them are in the person's repositories.
    pub(crate) fn mark(&self, name: &str, commits: &Base) -> Result<(), WorkflowError> {
        for repository in &self.repositories {
            let Some(commit) = commits.get(&key(&repository.name)).map(object) else { continue };
            let now = repository.git().resolve(name)?;
            if now.as_ref() != Some(&commit) {
                let (name, before) = (name.to_owned(), Some(commit));
                repository.git().return_refs(&[RefReturn { name, before, now }])?;
            }
        }
        Ok(())
    }

    /// Returns what is kept under a ref, in every repository that has it.
    pub(crate) fn marked(&self, name: &str) -> Result<Base, WorkflowError> {
        let mut found = Base::new();
        for repository in &self.repositories {
            if let Some(commit) = repository.git().resolve(name)? {
                found.insert(key(&repository.name), commit_id(&commit));
            }
        }
        Ok(found)
    }

    /// Keeps judged work of an item that has not landed, for the case that private state is lost.
    pub(crate) fn keep_candidate(
        &self,
        item: &str,
        works: &[Work],
        base: &Base,
    ) -> Result<(), WorkflowError> {
        let item = ItemKey::new(item);
        for repository in &self.repositories {
            let work = works.iter().find(|work| work.repository == repository.name);
            let base = base.get(&key(&repository.name));
            let (Some(work), Some(base)) = (work, base) else { continue };
            let candidate = JudgedWork { base: object(base), work: object(&work.commit) };
            repository.landing().keep_candidate(&repository.branch, &item, &candidate)?;
        }
        Ok(())
    }

    /// Tells whether judged work of an item is kept that has not landed.
    pub(crate) fn has_candidate(&self, item: &str) -> Result<bool, WorkflowError> {
        let item = ItemKey::new(item);
        for repository in &self.repositories {
            if repository.landing().candidate(&repository.branch, &item)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Tells whether the clone of an item is there, or at least what was judged of its work.
    pub(crate) fn has_work_of(&self, state: &State, item: &str) -> Result<bool, WorkflowError> {
        let record = SLOTS.load(state, item)?;
        let has_clone = match &record {
            Some(record) => self.slots.is_there(record, &self.repositories)?,
            None => false,
        };
        Ok(has_clone || self.has_candidate(item)?)
    }

    /// Tells whether the branches lead to some work.
    pub(crate) fn has_landed(&self, works: &[Work]) -> Result<bool, WorkflowError> {
        for repository in &self.repositories {
            let Some(work) = works.iter().find(|work| work.repository == repository.name) else {
                continue;
            };
            let Some(tip) = repository.tip()? else { return Ok(false) };
            let (truth, commit) = (repository.gates.truth(), object(&work.commit));
            if truth.have(std::slice::from_ref(&commit))? != [true]
                || !truth.is_ancestor(&commit, &tip.commit)?
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Forgets the judged work of an item: it has landed, or was given up.
    pub(crate) fn drop_candidate(&self, item: &str) -> Result<(), WorkflowError> {
        let item = ItemKey::new(item);
        for repository in &self.repositories {
            repository.landing().drop_candidate(&repository.branch, &item)?;
        }
        Ok(())
    }

    /// Keeps the commits of an item that will not land; returns the ref that has them, if there are any.
    pub(crate) fn keep_given_up(
        &self,
        slot: &Repositories,
        item: &str,
        works: &[Work],
        base: &Base,
    ) -> Result<Option<String>, WorkflowError> {
        let item = ItemKey::new(item);
        let mut kept = None;
        for repository in &self.repositories {
            let Some(work) = works.iter().find(|work| work.repository == repository.name) else {
                continue;
            };
            if base.get(&key(&repository.name)) == Some(&work.commit) {
                continue;
            }
            let commit = object(&work.commit);
            if let Some(clone) = slot.gates(&repository.name) {
                clone.fill_mirror(std::slice::from_ref(&commit))?;
            }
            repository.landing().keep_left(&item, &commit)?;
            kept = Some(item.left_ref());
        }
        Ok(kept)
    }

    /// Takes landed work back by one commit on each branch, which lands as any other. It is the person's word: no gate is
    /// asked.
    pub(crate) fn revert(
        &self,
        session: &mut Session<'_>,
        request: &RevertRequest<'_>,
    ) -> Result<RevertEnd, WorkflowError> {
        for repository in &self.repositories {
            let name = key(&repository.name);
            let sides = (request.before.get(&name), request.after.get(&name));
            let (Some(before), Some(after)) = sides else { continue };
            let (before, after) = (object(before), object(after));
            if let Some(end) = self.revert_one(session, request, repository, &before, &after)? {
                return Ok(end);
            }
        }
        self.sync(&session.context.state)?;
        Ok(RevertEnd::Reverted)
    }

    /// Takes work back in one repository; returns why not, where it cannot be.
    fn revert_one(
        &self,
        session: &mut Session<'_>,
        request: &RevertRequest<'_>,
        repository: &PersonsRepository,
        before: &Oid,
        after: &Oid,
    ) -> Result<Option<RevertEnd>, WorkflowError> {
        let branch = repository.short_branch().to_owned();
        for _ in 0..RACES {
            self.take_up_newer(session)?;
            let tip = repository.tip()?;
            let truth = repository.gates.truth();
            let Some(tip) =
                tip.filter(|tip| truth.is_ancestor(after, &tip.commit).unwrap_or(false))
            else {
                return Ok(Some(RevertEnd::NotThere { branch }));
            };
            let commit = match self.reverted(repository, &tip, before, after, request.message)? {
                Reverted::Nothing => return Ok(None),
                Reverted::Conflict(paths) => return Ok(Some(RevertEnd::Conflict { paths })),
                Reverted::Commit(commit) => commit,
            };
            let landable = LandableCommit::reverted(&commit);
            if repository.advance(&tip, &landable, &[])? == LandOutcome::Lost {
                continue;
            }
            if !repository.changed_outside_home(before, &commit)?.is_empty() {
                let reason = "no gate has checked what is left without the work that was taken back: `ralph gates run` does";
                session.record(Note { reason: reason.to_owned(), ..Note::default() })?;
            }
            let waits = self.follow_one(repository)?;
            session.record(WorkLanded {
                item: request.item.to_owned(),
                repository: Some(repository.name.clone()).filter(|name| !name.is_empty()),
                branch,
                commit: commit.to_string(),
                candidate: None,
                merge: Some(false),
                waits,
                subject: request.message.lines().next().unwrap_or_default().to_owned(),
            })?;
            return Ok(None);
        }
        Err(repository.contended())
    }

    fn reverted(
        &self,
        repository: &PersonsRepository,
        tip: &TipState,
        before: &Oid,
        after: &Oid,
        message: &str,
    ) -> Result<Reverted, WorkflowError> {
        let (landing, tip) = (repository.landing(), &tip.commit);
        let tree = match landing.merge(tip, before, Some(after))? {
            TreeMerge::Clean { tree } => tree,
            TreeMerge::Conflict { mut paths, tree } => {
                paths.retain(|path| !is_own(&repository.own, path));
                if !paths.is_empty() {
                    let paths = paths.iter().map(|path| shown(path)).collect();
                    return Ok(Reverted::Conflict(paths));
                }
                tree
            }
        };
        let commit = landing.commit(&LandingCommit {
            tree: &tree,
            tip,
            as_in_tip: &repository.own,
            edits: &[],
            parents: &[tip],
            message,
            signing: self.signing,
        })?;
        let is_nothing = landing.tree_of(&commit)? == landing.tree_of(tip)?;
        Ok(if is_nothing { Reverted::Nothing } else { Reverted::Commit(commit) })
    }
}
