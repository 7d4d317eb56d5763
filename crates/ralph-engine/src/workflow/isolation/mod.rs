//! Isolation: agents work in clones of Ralph's own, and only judged work reaches the person's branch.
//!
//! [`slots`] says which clone an item's runs work in, [`draft`] is home while a workflow is at work, and [`landing`] puts
//! accepted work on the run's branch. Invariant: nothing here writes to the person's checkout, index or branches but a
//! landing, and that only moves a branch forward.
//!
//! The run's branch is noted when the workflow starts; switching branches in the checkout meanwhile changes nothing.

mod branch;
pub(crate) mod draft;
pub(crate) mod landing;
pub(crate) mod slots;
pub mod upkeep;

use std::path::PathBuf;

use camino::{Utf8Path, Utf8PathBuf};
use ralph_model::pipeline::records::Base;

use self::draft::{HomeDraft, PersonsHome};
use self::slots::{ReadySlot, SLOTS, SlotPool};
use super::WorkflowError;
use super::repositories::{Repositories, commit_id, key};
use crate::boundary;
use crate::config::{Config, Follow};
use crate::gates::GateRepository;
use crate::git::commits::Signing;
use crate::git::{Git, GitProgram, Head, Oid};
use crate::home::CONFIG_FILE;
use crate::run::RunSlot;
use crate::session::SessionContext;
use crate::state::State;

/// A repository of the person's workspace, and the branch of it that work lands on.
pub(crate) struct PersonsRepository {
    /// Its directory in the workspace; empty for the workspace itself.
    pub(crate) name: String,
    pub(crate) gates: GateRepository,
    /// What is Ralph's own in it: home and `ralph.toml`, named from the root of its work tree.
    pub(crate) own: Vec<PathBuf>,
    /// The run's branch, in full.
    pub(crate) branch: String,
    /// Home is in it, and committed.
    pub(crate) has_home: bool,
    /// The path of the workspace in it; empty where it is the repository.
    prefix: Utf8PathBuf,
}

impl PersonsRepository {
    fn git(&self) -> &Git {
        &self.gates.git
    }

    /// Returns the person's checkout, while it is on the run's branch.
    fn checkout(&self) -> Result<Option<&Git>, WorkflowError> {
        let is_on_it = match self.git().head()? {
            Head::Branch { name, .. } | Head::Unborn { name } => name == self.branch,
            Head::Detached { .. } => false,
        };
        Ok(is_on_it.then_some(self.git()))
    }
}

/// What a workflow needs to work in clones.
pub(crate) struct Clones {
    repositories: Vec<PersonsRepository>,
    /// `None` where home is not committed: then it is read and written where it is.
    draft: Option<HomeDraft>,
    slots: SlotPool,
    follow: Follow,
    signing: Signing,
}

/// The repositories of a slot, and what its runs are given.
pub(crate) struct Entered {
    pub(crate) repositories: Repositories,
    pub(crate) slot: RunSlot,
    /// It was prepared just now.
    pub(crate) is_new: bool,
}

/// What is asked of the opening of clones.
pub(crate) struct ClonesRequest<'a> {
    pub(crate) program: &'a GitProgram,
    pub(crate) context: &'a SessionContext,
    /// The branch to land on, if not the one that is checked out.
    pub(crate) onto: Option<&'a str>,
}

impl Clones {
    /// Notes the run's branch of every repository, and opens the draft of home.
    pub(crate) fn open(request: &ClonesRequest<'_>) -> Result<Clones, WorkflowError> {
        let ClonesRequest { program, context, onto } = request;
        let (workspace, home) = (&context.workspace.root, context.home_path());
        let commits_home = context.config.git.commit_home;
        let mut repositories = Vec::new();
        for place in boundary::repositories(workspace) {
            let Some(worktree) = place.worktree.clone() else { continue };
            let name = worktree.strip_prefix(workspace).map_or("", Utf8Path::as_str).to_owned();
            let gates = GateRepository::open(program, &context.state, &worktree, workspace)?;
            let own: Vec<PathBuf> = [home, &workspace.join(CONFIG_FILE)]
                .iter()
                .filter_map(|path| path.strip_prefix(&worktree).ok())
                .map(|path| path.as_std_path().to_owned())
                .collect();
            let branch = branch::run_branch(&gates.git, *onto, context.clock.now())?;
            let prefix = workspace.strip_prefix(&worktree).unwrap_or("".into()).to_owned();
            let has_home = commits_home && home.starts_with(&worktree);
            repositories.push(PersonsRepository { name, gates, own, branch, has_home, prefix });
        }
        let draft = open_draft(&context.state, home, &repositories)?;
        let name = root_name(workspace, &repositories);
        let Config { slots, follow, .. } = &context.config;
        let slots = SlotPool::new(&context.state, slots.as_deref(), &name);
        let signing = Signing::allowed(context.config.git.sign);
        Ok(Clones { repositories, draft, slots, follow: *follow, signing })
    }

    /// Returns where home is read and written while the workflow is at work, if that is not the person's own.
    pub(crate) fn home(&self) -> Option<&Utf8Path> {
        self.draft.as_ref().map(HomeDraft::home)
    }

    /// Names the branch that work lands on, for people.
    pub(crate) fn branches(&self) -> Vec<(&str, &str)> {
        self.repositories
            .iter()
            .map(|one| {
                let branch = one.branch.strip_prefix("refs/heads/").unwrap_or(&one.branch);
                (one.name.as_str(), branch)
            })
            .collect()
    }

    /// Brings the draft in line with home on the person's side; returns files that the person and the workflow had both
    /// changed.
    pub(crate) fn sync(&self, state: &State) -> Result<Vec<PathBuf>, WorkflowError> {
        let (Some(draft), Some(repository)) = (&self.draft, self.with_home()) else {
            return Ok(Vec::new());
        };
        let tip = repository.tip()?.map(|tip| tip.commit);
        let checkout = repository.checkout()?;
        draft.sync(state, &PersonsHome { tip: tip.as_ref(), checkout })
    }

    fn with_home(&self) -> Option<&PersonsRepository> {
        self.repositories.iter().find(|repository| repository.has_home)
    }

    /// Returns where work lands now, in every repository.
    pub(crate) fn tips(&self) -> Result<Base, WorkflowError> {
        let mut tips = Base::new();
        for repository in &self.repositories {
            if let Some(tip) = repository.tip()? {
                tips.insert(key(&repository.name), commit_id(&tip.commit));
            }
        }
        Ok(tips)
    }

    /// Prepares the slot of an item, or opens it as the item's last run left it.
    pub(crate) fn enter(
        &self,
        context: &SessionContext,
        item: &str,
    ) -> Result<Entered, WorkflowError> {
        let (state, home) = (&context.state, context.home_path());
        let caches: Vec<Utf8PathBuf> =
            context.config.checkout.cache.iter().map(Utf8PathBuf::from).collect();
        let tips = self.tips()?;
        let ready = self.slots.enter(state, item, &self.repositories, &tips, &caches)?;
        let ReadySlot { record, root, clones, is_new } = ready;
        let places = clones.iter().map(|clone| clone.git().place().clone()).collect();
        let tracked = self.repositories.iter().zip(&clones).map(|(person, clone)| {
            (person.name.clone(), person.gates.at(clone.git().clone()), person.own.clone())
        });
        let repositories = Repositories::of_slot(tracked);
        let prefix = match self.repositories.as_slice() {
            [only] => only.prefix.clone(),
            _ => Utf8PathBuf::new(),
        };
        let home = self.home().unwrap_or(home).to_owned();
        let slot = RunSlot { root: root.join(prefix), home, number: record.number, places };
        Ok(Entered { repositories, slot, is_new })
    }
}

/// Opens the draft of home in the repository that has it.
fn open_draft(
    state: &State,
    home: &Utf8Path,
    repositories: &[PersonsRepository],
) -> Result<Option<HomeDraft>, WorkflowError> {
    let Some(repository) = repositories.iter().find(|repository| repository.has_home) else {
        return Ok(None);
    };
    let worktree = repository.git().place().worktree.clone().unwrap_or_default();
    let inside = home.strip_prefix(&worktree).expect("home is in this work tree");
    let directory = state.draft(home);
    let mirror = &repository.gates.mirror;
    let (draft, _) = HomeDraft::open(mirror, &directory, inside.as_std_path(), home)?;
    Ok(Some(draft))
}

/// Returns how a slot's directory is called: as the person's own, because programs show it.
fn root_name(workspace: &Utf8Path, repositories: &[PersonsRepository]) -> String {
    let root = match repositories {
        [only] => only.git().place().worktree.as_deref().unwrap_or(workspace),
        _ => workspace,
    };
    root.file_name().unwrap_or("workspace").to_owned()
}

/// Returns a commit's id as git has it.
fn object(id: &ralph_model::id::CommitId) -> Oid {
    super::repositories::oid(id)
}
