//! Isolation: agents work in clones of Ralph's own, and only judged work reaches the person's branch.
//!
//! [`slots`] says which clone an item's runs work in, [`draft`] is home while a workflow is at work, [`in_flight`] puts
//! what differs from home on refs, where [`overlay`] finds it for who only looks, and [`landing`] puts accepted work on
//! the run's branch, beside newer commits of the person's ([`newer`]); [`marks`] keeps commits under refs, and takes landed work back; [`reading`] has the clones of roles
//! that only read. Invariant: nothing here writes to the person's checkout, index or branches but a landing, and that only
//! moves a branch forward.
//!
//! The run's branch is noted when the workflow starts; switching branches in the checkout meanwhile changes nothing.

pub(crate) mod access;
mod branch;
pub(crate) mod draft;
mod draft_check;
pub(crate) mod equipment;
mod in_flight;
pub mod kept;
pub(crate) mod landing;
pub(crate) mod marks;
pub mod newer;
pub mod overlay;
pub(crate) mod reading;
pub(crate) mod slots;
pub mod upkeep;

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use ralph_model::pipeline::records::Base;

use self::access::{ItemAccess, LandingAccess, LandingRepository};
use self::draft::{HomeDraft, PersonsCheckout, PersonsHome};
use self::equipment::Equipment;
use self::in_flight::Flight;
use self::slots::{ReadySlot, SLOTS, SlotPool};
use super::WorkflowError;
use super::home_committer::CommittedFile;
use super::repositories::{Repositories, commit_id, key, own_paths};
use super::written::WrittenFile;
use crate::boundary;
use crate::config::{Config, Follow};
use crate::files::create_directory;
use crate::gates::GateRepository;
use crate::gates::start::StartPoint;
use crate::git::commits::Signing;
use crate::git::item_refs::ItemKey;
use crate::git::{Git, GitProgram, Head, Oid, shown};
use crate::run::{ReadWish, RunSlot, WantedItem};
use crate::session::SessionContext;
use crate::state::State;

/// How often another writer of a branch may be first.
const RACES: u32 = 32;

/// Where landed work is that a branch has not followed.
const LANDED: &str = "refs/ralph/landed/";

/// A repository of the person's workspace, and the branch of it that work lands on.
pub(crate) struct PersonsRepository {
    /// Its directory in the workspace; empty for the workspace itself.
    pub(crate) name: String,
    pub(crate) gates: Arc<dyn LandingRepository>,
    /// What is Ralph's own in it; see [`own_paths`].
    pub(crate) own: Vec<PathBuf>,
    /// The run's branch, in full.
    pub(crate) branch: String,
    /// Home is in it, and committed.
    pub(crate) has_home: bool,
    /// The path of the workspace in it; empty where it is the repository.
    prefix: Utf8PathBuf,
    /// The branch was there: if it is not any more, somebody removed it.
    had_commits: Cell<bool>,
}

impl PersonsRepository {
    /// Takes a repository for the only one of the workspace, with home in it.
    #[cfg(test)]
    pub(crate) fn only(
        gates: Arc<dyn LandingRepository>,
        own: Vec<PathBuf>,
        branch: &str,
    ) -> PersonsRepository {
        PersonsRepository {
            name: String::new(),
            gates,
            own,
            branch: branch.to_owned(),
            has_home: true,
            prefix: Utf8PathBuf::new(),
            had_commits: Cell::new(false),
        }
    }

    fn git(&self) -> &dyn ItemAccess {
        self.gates.items()
    }

    fn landing(&self) -> Box<dyn LandingAccess + '_> {
        self.gates.landing()
    }

    fn worktree(&self) -> &Utf8Path {
        self.gates.place().worktree.as_deref().expect("a workspace has a work tree")
    }

    /// Returns the person's checkout, while it is on the run's branch.
    fn checkout(&self) -> Result<Option<PersonsCheckout<'_>>, WorkflowError> {
        let is_on_it = match self.git().head()? {
            Head::Branch { name, .. } | Head::Unborn { name } => name == self.branch,
            Head::Detached { .. } => false,
        };
        let checkout = PersonsCheckout { git: self.git(), place: self.gates.place() };
        Ok(is_on_it.then_some(checkout))
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
    /// The item whose ref has what is in flight.
    noted: RefCell<Option<String>>,
}

/// What a workflow that did not end left in flight.
#[derive(Default)]
pub(crate) struct LeftInFlight {
    pub(crate) items: Vec<String>,
    /// Private state did not have it: it was found on refs.
    pub(crate) is_rebuilt: bool,
}

/// The repositories of a slot, and what its runs are given.
pub(crate) struct Entered {
    pub(crate) repositories: Repositories,
    pub(crate) slot: RunSlot,
}

/// What is kept of an item that leaves its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeftWork {
    /// Commits that have not landed, too.
    All,
    /// The item goes on elsewhere with what it committed.
    Uncommitted,
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
        let now = context.clock.now();
        let repositories =
            open_repositories(program, context, |git| branch::run_branch(git, *onto, now))?;
        Self::over(context, repositories)
    }

    /// Takes these repositories as those of the workspace, and opens the draft of home.
    pub(crate) fn over(
        context: &SessionContext,
        repositories: Vec<PersonsRepository>,
    ) -> Result<Clones, WorkflowError> {
        let (workspace, home) = (&context.workspace.root, &real_home(context));
        let draft = open_draft(&context.state, home, &repositories)?;
        let slots = open_pool(context, workspace, &repositories);
        let Config { follow, git, .. } = &context.config;
        let (follow, signing) = (*follow, Signing::allowed(git.sign));
        Ok(Clones { repositories, draft, slots, follow, signing, noted: RefCell::default() })
    }

    /// Returns where home is read and written while the workflow is at work, if that is not the person's own.
    pub(crate) fn home(&self) -> Option<&Utf8Path> {
        self.draft.as_ref().map(HomeDraft::home)
    }

    /// Makes the files of the draft what its commits say, but for those that Ralph is known to have written since; returns
    /// these.
    pub(crate) fn restore_draft(
        &self,
        state: &State,
        written: &[WrittenFile],
    ) -> Result<Vec<Utf8PathBuf>, WorkflowError> {
        self.draft.as_ref().map_or_else(|| Ok(Vec::new()), |draft| draft.restore(state, written))
    }

    /// Rebuilds damaged mirrors, and the draft of home, which shares their objects. Returns whether anything was
    /// damaged.
    ///
    /// State in flight is restored from its refs, so that no completed transition is lost. One that the damage
    /// interrupted is repeated by its caller.
    pub(crate) fn mend(&mut self, state: &State) -> Result<bool, WorkflowError> {
        let was_damaged = mend_mirrors(&self.repositories)?;
        let Some(draft) = &self.draft else { return Ok(was_damaged) };
        if draft.is_sound() && draft.is_as_seen(state)? {
            return Ok(was_damaged);
        }
        let written = draft.uncommitted_plan(state)?;
        draft.give_up()?;
        let home = Utf8PathBuf::from(&draft.key);
        self.draft = open_draft(state, &home, &self.repositories)?;
        self.begin(state)?;
        if let Some(draft) = &self.draft {
            create_directory(draft.home())?;
            draft.take_up_plan(written)?;
        }
        Ok(true)
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

    /// Names the repositories that are not on the branch that work lands on, for people, where there are several.
    pub(crate) fn siblings_elsewhere(&self) -> Result<Vec<String>, WorkflowError> {
        let mut elsewhere = Vec::new();
        for one in self.repositories.iter().filter(|one| !one.name.is_empty()) {
            if one.checkout()?.is_none() {
                elsewhere.push(one.name.clone());
            }
        }
        Ok(elsewhere)
    }

    /// Commits the state in flight to the ref of an item, for readers of home and in case private state is lost.
    pub(crate) fn note_in_flight(
        &self,
        state: &State,
        item: &str,
        message: &str,
    ) -> Result<(), WorkflowError> {
        let (Some(draft), Some(repository)) = (&self.draft, self.with_home()) else {
            return Ok(());
        };
        let checkout = repository.worktree();
        let Some(flight) = draft.flight(state, item, checkout)? else { return Ok(()) };
        if flight.files.is_empty() {
            return self.clear_in_flight();
        }
        // Refs of other items, from workflows that did not get to remove them: what is left of it is in this one.
        if self.noted.replace(Some(item.to_owned())).as_deref() != Some(item) {
            self.clear_in_flight()?;
        }
        Ok(in_flight::write(repository.git(), &flight, message)?)
    }

    /// Removes the refs of items: what was in flight is on the branch.
    fn clear_in_flight(&self) -> Result<(), WorkflowError> {
        match (&self.draft, self.with_home()) {
            (Some(draft), Some(repository)) => {
                Ok(in_flight::clear(repository.git(), repository.worktree(), draft.inside())?)
            }
            _ => Ok(()),
        }
    }

    /// Brings the draft in line with the person's side for the first time, and takes up what was in flight where the draft
    /// was lost.
    pub(crate) fn begin(&self, state: &State) -> Result<LeftInFlight, WorkflowError> {
        for repository in &self.repositories {
            if repository.git().may_have_refs("refs/ralph/candidate/")
                && let Some(tip) = repository.tip()?
            {
                repository.landing().drop_landed_candidates(&repository.branch, &tip.commit)?;
            }
        }
        let (Some(draft), Some(repository)) = (&self.draft, self.with_home()) else {
            return Ok(LeftInFlight::default());
        };
        let flights: Vec<Flight> = in_flight::read_all(repository.git())?
            .into_iter()
            .map(|(_, flight)| flight)
            .filter(|flight| flight.is_of(repository.worktree(), draft.inside()))
            .collect();
        let is_rebuilt = draft.is_lost(state)? && !flights.is_empty();
        self.sync_with(state, &flights)?;
        let items = flights.into_iter().map(|flight| flight.item).collect();
        Ok(LeftInFlight { items, is_rebuilt })
    }

    /// Brings the draft in line with home on the person's side; returns files that the person and the workflow had both
    /// changed.
    pub(crate) fn sync(&self, state: &State) -> Result<Vec<PathBuf>, WorkflowError> {
        self.sync_with(state, &[])
    }

    fn sync_with(&self, state: &State, flights: &[Flight]) -> Result<Vec<PathBuf>, WorkflowError> {
        let (Some(draft), Some(repository)) = (&self.draft, self.with_home()) else {
            return Ok(Vec::new());
        };
        let tip = repository.tip()?.map(|tip| tip.commit);
        let checkout = repository.checkout()?;
        draft.sync(state, &PersonsHome { tip: tip.as_ref(), checkout }, flights)
    }

    fn with_home(&self) -> Option<&PersonsRepository> {
        self.repositories.iter().find(|repository| repository.has_home)
    }

    /// Tells whether the branch that home lands on is the one that is checked out.
    pub(crate) fn is_home_checked_out(&self) -> Result<bool, WorkflowError> {
        match self.with_home() {
            Some(repository) => Ok(repository.checkout()?.is_some()),
            None => Ok(false),
        }
    }

    /// Tells whether home is read at the tip of another branch than the one that is checked out.
    pub(crate) fn is_home_elsewhere(&self) -> Result<bool, WorkflowError> {
        let is_read_there = self.draft.is_some() && self.with_home().is_some();
        Ok(is_read_there && !self.is_home_checked_out()?)
    }

    /// Returns where the person says whether an item is still wanted.
    pub(crate) fn wanted(&self, id: &str, files: &[&str], read: ReadWish) -> Option<WantedItem> {
        let (draft, repository) = (self.draft.as_ref()?, self.with_home()?);
        let named = |file: &&str| draft.in_commit(&draft.home().join(file));
        Some(WantedItem {
            git: repository.gates.real()?.git.clone(),
            branch: repository.branch.clone(),
            files: files.iter().map(named).collect(),
            id: id.to_owned(),
            read,
        })
    }

    /// Returns a file of home, named from there, as it is where work lands.
    pub(crate) fn home_file_at_tip(&self, path: &Utf8Path) -> Result<CommittedFile, WorkflowError> {
        let (Some(draft), Some(repository)) = (&self.draft, self.with_home()) else {
            return Ok(CommittedFile::NoCommits);
        };
        let Some(tip) = repository.tip()? else { return Ok(CommittedFile::Committed(None)) };
        let path = draft.in_commit(&draft.home().join(path));
        let found = repository.gates.truth().file_at(&tip.commit, &path)?;
        Ok(CommittedFile::Committed(found))
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

    /// Returns where work begins now, in every repository.
    pub(crate) fn start_points(&self) -> Result<Vec<StartPoint>, WorkflowError> {
        let mut points = Vec::new();
        for repository in &self.repositories {
            if let Some(tip) = repository.tip()? {
                let Some(real) = repository.gates.real() else { continue };
                let (repository, own) = (real.clone(), repository.own.clone());
                points.push(StartPoint { repository, base: tip.commit, own });
            }
        }
        Ok(points)
    }

    /// Prepares the slot of an item, or opens it as the item's last run left it.
    pub(crate) fn enter(
        &self,
        state: &State,
        home: &Utf8Path,
        item: &str,
        equipment: &mut Equipment<'_>,
    ) -> Result<Entered, WorkflowError> {
        let tips = self.tips()?;
        let ready = self.slots.enter(state, item, &self.repositories, &tips, equipment)?;
        let home = self.home().unwrap_or(home).to_owned();
        let slot = run_slot(&self.repositories, &ready, home);
        let tracked = self.repositories.iter().zip(&ready.clones).map(|(person, clone)| {
            let branch = person.short_branch().to_owned();
            (person.name.clone(), clone.work(), person.own.clone(), branch)
        });
        let repositories = Repositories::of_slot(tracked);
        Ok(Entered { repositories, slot })
    }
}

impl Clones {
    /// Keeps what an item left in its slot that has not landed, be it committed or not, on a ref of its own in the person's
    /// repository; returns what is to be said of it.
    pub(crate) fn keep_left(
        &self,
        state: &State,
        item: &str,
        what: LeftWork,
    ) -> Result<Option<String>, WorkflowError> {
        let Some(record) = SLOTS.load(state, item)? else { return Ok(None) };
        let item_key = ItemKey::new(item);
        let message = format!("ralph: what {item} left uncommitted");
        let mut left: Vec<String> = Vec::new();
        let mut is_any_committed = false;
        for repository in &self.repositories {
            let clone = self.slots.open_clone(record.number, repository)?;
            let Some(clone) = clone else { continue };
            clone.transfer()?;
            let landing = repository.landing();
            let uncommitted = clone.leftovers(&message)?;
            if let Some(commit) = uncommitted.as_ref().and_then(|kept| kept.commit.as_ref()) {
                landing.keep_left(&item_key, commit)?;
                left.extend(
                    uncommitted.iter().flat_map(|kept| &kept.paths).map(|path| shown(path)),
                );
            } else if what == LeftWork::All
                && let Some(commit) = clone.git().head()?.id()
                // Whatever keeps that from being known, the work is kept.
                && repository
                    .is_nowhere(record.base.get(&key(&repository.name)), commit)
                    .unwrap_or(true)
                && repository.git().resolve(&item_key.left_ref())?.as_ref() != Some(commit)
            {
                landing.keep_left(&item_key, commit)?;
                is_any_committed = true;
            }
        }
        let place = format!("is kept on refs/ralph/left/{item_key}");
        Ok(if left.is_empty() {
            is_any_committed.then(|| format!("what {item} made and did not land {place}"))
        } else {
            Some(format!("what {item} left uncommitted {place}: {}", left.join(", ")))
        })
    }
}

/// Opens every repository of the workspace; `branch_of` tells which branch of one work is about.
///
/// One of several that has no commit yet cannot be cloned, and takes no part; see [`unborn_siblings`].
fn open_repositories(
    program: &GitProgram,
    context: &SessionContext,
    branch_of: impl Fn(&Git) -> Result<String, WorkflowError>,
) -> Result<Vec<PersonsRepository>, WorkflowError> {
    let (workspace, home) = (&context.workspace.root, &real_home(context));
    let commits_home = context.config.git.commit_home;
    let mut repositories = Vec::new();
    for place in boundary::repositories(workspace) {
        let Some(worktree) = place.worktree.clone() else { continue };
        let name = worktree.strip_prefix(workspace).map_or("", Utf8Path::as_str).to_owned();
        let gates = GateRepository::open(program, &context.state, &worktree, workspace)?;
        if !name.is_empty() && gates.git.head()?.id().is_none() {
            continue;
        }
        let own = own_paths(workspace, home, &context.config.mailbox, &worktree);
        let branch = branch_of(&gates.git)?;
        let prefix = workspace.strip_prefix(&worktree).unwrap_or("".into()).to_owned();
        let has_home = commits_home && home.starts_with(&worktree);
        repositories.push(PersonsRepository {
            name,
            gates: Arc::new(gates),
            own,
            branch,
            has_home,
            prefix,
            had_commits: Cell::new(false),
        });
    }
    Ok(repositories)
}

/// Rebuilds damaged parts of the mirrors and of the draft of home. Returns whether anything was damaged.
pub(crate) fn mend(program: &GitProgram, context: &SessionContext) -> Result<bool, WorkflowError> {
    let (state, home) = (&context.state, &real_home(context));
    let repositories = open_repositories(program, context, |_| Ok(String::new()))?;
    let mut was_damaged = mend_mirrors(&repositories)?;
    if let Some(draft) = open_draft(state, home, &repositories)?
        && !draft.is_sound()
    {
        draft.give_up()?;
        was_damaged = true;
    }
    Ok(was_damaged)
}

fn mend_mirrors(repositories: &[PersonsRepository]) -> Result<bool, WorkflowError> {
    let mut was_damaged = false;
    for repository in repositories {
        was_damaged |= repository.gates.mend_mirror()?;
    }
    Ok(was_damaged)
}

/// Names the repositories of several that have no commit yet.
pub(crate) fn unborn_siblings(
    program: &GitProgram,
    workspace: &Utf8Path,
) -> Result<Vec<String>, WorkflowError> {
    let mut unborn = Vec::new();
    for place in boundary::repositories(workspace) {
        let below = place.worktree.as_deref().and_then(|tree| tree.strip_prefix(workspace).ok());
        let Some(name) = below.filter(|name| !name.as_str().is_empty()) else { continue };
        let name = name.to_string();
        if Git::at(program.clone(), place).head()?.id().is_none() {
            unborn.push(name);
        }
    }
    Ok(unborn)
}

/// Returns where home really is: one that is named by `..` only seems to be in the workspace.
fn real_home(context: &SessionContext) -> Utf8PathBuf {
    let home = context.home_path();
    home.canonicalize_utf8().unwrap_or_else(|_| home.to_owned())
}

fn open_pool(
    context: &SessionContext,
    workspace: &Utf8Path,
    repositories: &[PersonsRepository],
) -> SlotPool {
    let worktrees: Vec<&Utf8Path> =
        repositories.iter().filter_map(|one| one.gates.place().worktree.as_deref()).collect();
    let name = root_name(workspace, &worktrees);
    SlotPool::new(&context.state, context.config.slots.as_deref(), &name)
}

/// Returns what runs in a slot are given.
fn run_slot(repositories: &[PersonsRepository], ready: &ReadySlot, home: Utf8PathBuf) -> RunSlot {
    let places = ready.clones.iter().filter_map(|clone| clone.place()).collect();
    let root = match repositories {
        [only] if !only.prefix.as_str().is_empty() => ready.root.join(&only.prefix),
        _ => ready.root.clone(),
    };
    RunSlot { root, home, number: ready.record.number, places, is_new: ready.is_new }
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
    let worktree = repository.worktree();
    let inside = home.strip_prefix(worktree).expect("home is in this work tree");
    let directory = state.draft(home);
    let gates = &*repository.gates;
    let open = || HomeDraft::open(gates, &directory, inside.as_std_path(), home);
    let (mut draft, mut is_new) = open()?;
    if !is_new && !draft.is_as_seen(state)? {
        draft.give_up()?;
        (draft, is_new) = open()?;
    }
    if is_new {
        // What was known of an earlier one is not true of this one: what was in flight is taken up from its refs.
        draft.forget(state)?;
    }
    Ok(Some(draft))
}

/// Returns how a slot's directory is called: as the person's own, because programs show it.
fn root_name(workspace: &Utf8Path, worktrees: &[&Utf8Path]) -> String {
    let root = match worktrees {
        [only] => only,
        _ => workspace,
    };
    root.file_name().unwrap_or("workspace").to_owned()
}

/// Returns a commit's id as git has it.
fn object(id: &ralph_model::id::CommitId) -> Oid {
    super::repositories::oid(id)
}
