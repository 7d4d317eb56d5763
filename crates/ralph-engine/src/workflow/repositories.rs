//! The repositories of a workspace as a workflow sees them: what there was before a run, and what a claim is worth.

mod after_kill;
mod work;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use camino::Utf8Path;
use ralph_model::build::Work;
use ralph_model::id::CommitId;
use ralph_model::pipeline::records::Base;
use ralph_model::receipt::{VerifierReceipt, Worker};
use ralph_model::role::Role;
use serde::{Deserialize, Serialize};

use super::WorkflowError;
use crate::boundary;
use crate::gates::pin::PinnedGates;
use crate::gates::start::StartPoint;
use crate::gates::{GateContext, GateRepository, Tell, VerifierCheckout, WorkRepository};
use crate::git::commits::{CommitError, CommitRequest, Signing};
use crate::git::evidence::{Before, Dirt, DirtyPath, is_own};
use crate::git::saved::SavedDirt;
use crate::git::slot::{SlotError, check_files};
use crate::git::undo::RefReturn;
use crate::git::{GitError, GitProgram, Head, Oid, RefsSnapshot, shown};
use crate::home::settings_files;
use crate::judge::{AgreedChecks, Attested, Case, DETACHED, Judge, Judged, Said};
use crate::mailbox;
use crate::session::SessionContext;
use crate::state::{Entry, State, file_name};

pub(crate) use self::work::ChangeProbe;

/// What there was before the last run of each item that could write.
pub(crate) const BEFORE: Entry<BeforeAll> = Entry::new(
    "before",
    "it is not known where work on it began: the changes of its last run are not judged",
);

/// How long another program that holds the index is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// How the base names the repository that is the workspace.
const WORKSPACE: &str = ".";

/// All repositories of the workspace.
pub(crate) struct Repositories {
    found: Vec<TrackedRepository>,
    /// They are clones of Ralph's own, in which only agents work.
    in_slot: bool,
}

struct TrackedRepository {
    /// Its directory in the workspace; empty for the workspace itself.
    name: String,
    gates: Arc<dyn WorkRepository>,
    /// What is Ralph's own in it; see [`own_paths`].
    own: Vec<PathBuf>,
    /// The branch that work in it is for, if that is not the one that is checked out.
    branch: Option<String>,
}

impl TrackedRepository {
    /// What is changed and uncommitted, but for what is Ralph's own.
    fn dirt(&self) -> Result<Dirt, GitError> {
        self.gates.git().dirt(&self.own)
    }

    /// Checks that git can be asked about a clone in which a run has ended: some files would block it, or fill its memory.
    fn check_clone(&self) -> Result<(), SlotError> {
        let Some(real) = self.gates.real() else { return Ok(()) };
        check_files(&real.git.place().git_dir)
    }

    /// Keeps what a run committed on a detached head under a ref, before that head is left: nothing else would lead to it,
    /// and a Ralph that is killed meanwhile judges it again.
    fn keep_detached(&self, item: &str, now: &Head, branch: &str) -> Result<(), WorkflowError> {
        let Head::Detached { id } = now else { return Ok(()) };
        let git = self.gates.git();
        if let Some(tip) = git.resolve(branch)?
            && git.is_ancestor(id, &tip)?
        {
            return Ok(());
        }
        let name = format!("{DETACHED}{}", file_name(item));
        let now = git.resolve(&name)?;
        if now.as_ref() != Some(id) {
            git.return_refs(&[RefReturn { name, before: Some(id.clone()), now }])?;
        }
        Ok(())
    }

    /// Returns to a branch although something uncommitted is in the way, which is saved; says what was done.
    fn force_return(&self, branch: &str, problem: &CommitError) -> Result<String, WorkflowError> {
        let git = self.gates.git();
        let short = branch.strip_prefix("refs/heads/").unwrap_or(branch);
        let saved = git.save_dirt(&self.dirt()?)?;
        Ok(match (saved, git.switch_discarding(branch)) {
            (_, Err(_)) => format!("cannot return to the branch `{short}`: {problem}"),
            (None, Ok(())) => format!("returned to the branch `{short}`"),
            (Some(saved), Ok(())) => format!(
                "files that the run left uncommitted blocked the return to `{short}`; they are saved in {}",
                saved.name
            ),
        })
    }

    /// Names files that the run changed, and told git not to look at.
    fn newly_hidden(&self, before: &Before) -> Result<Option<String>, WorkflowError> {
        let mut now = self.gates.git().hidden(&self.own)?;
        now.retain(|hidden| !before.hidden.contains(hidden));
        let names: Vec<String> = now.iter().map(|(path, _)| shown(path)).collect();
        Ok((!names.is_empty()).then(|| {
            format!("the run configured git to ignore its changes in {}", names.join(", "))
        }))
    }

    /// Puts back what a run destroyed of the person's uncommitted work, and says so.
    ///
    /// What the run committed along with its own, or changed by a commit, is in its commits, and not put back.
    fn return_dirt(&self, before: &Before) -> Result<Vec<String>, WorkflowError> {
        match &before.saved {
            Some(saved) => self.return_saved(before, saved),
            None => Ok(Vec::new()),
        }
    }

    fn return_saved(
        &self,
        before: &Before,
        saved: &SavedDirt,
    ) -> Result<Vec<String>, WorkflowError> {
        let vanished = before.dirt.leftovers(&self.dirt()?).vanished;
        if vanished.is_empty() {
            return Ok(Vec::new());
        }
        let git = self.gates.git();
        let then = before.refs.head.id();
        let changes = match (then, git.head()?.id()) {
            (Some(then), Some(now)) if then != now => git.changes(then, now)?,
            _ => Vec::new(),
        };
        let (mut back, mut notes) = (Vec::new(), Vec::new());
        for path in &vanished {
            let known = saved.files.iter().find(|(saved, _)| saved == path);
            let is_committed = changes.iter().any(|change| change.path == *path);
            match known {
                // What the person had removed is there again; that destroys nothing.
                Some((_, None)) => {}
                Some((path, Some(_))) if !is_committed => back.push(path.as_path()),
                Some(_) => notes.push(format!(
                    "your uncommitted `{}` is in the run's commits; your version is saved as {}",
                    shown(path),
                    saved.name
                )),
                None => notes.push(format!(
                    "`{}`, which you had not committed, is gone, and was too large to be saved",
                    shown(path)
                )),
            }
        }
        if !back.is_empty() {
            git.return_saved(saved, &back)?;
            let names: Vec<String> = back.iter().map(|path| shown(path)).collect();
            notes.push(format!(
                "the run reverted your uncommitted changes; restored: {} (saved in {})",
                names.join(", "),
                saved.name
            ));
        }
        Ok(notes)
    }

    /// Returns what differs between two commits, but for what is Ralph's own: nothing where one of them is not there any
    /// more.
    fn changed_between(
        &self,
        from: &Oid,
        to: &Oid,
    ) -> Result<Vec<(PathBuf, Option<Oid>)>, WorkflowError> {
        let git = self.gates.git();
        if from == to || !git.have(std::slice::from_ref(from))?[0] {
            return Ok(Vec::new());
        }
        let changes = git.changes(from, to)?.into_iter();
        let others = changes.filter(|change| !is_own(&self.own, &change.path));
        Ok(others.map(|change| (change.path, change.id)).collect())
    }

    /// Returns its name in bases and notes.
    fn key(&self) -> String {
        key(&self.name)
    }

    fn work(&self, commit: &Oid) -> Work {
        Work { commit: commit_id(commit), repository: self.name.clone() }
    }
}

/// What there was before a run, in every repository.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BeforeAll {
    repositories: BTreeMap<String, Before>,
    /// Recorded in a clone. Work begun there never continues in the person's checkout.
    #[serde(default)]
    in_slot: bool,
    /// The run is over, and the branches that it began on were returned to. Where the person goes later is their own.
    #[serde(default)]
    returned: bool,
    /// Where a `HEAD` stood when the run ended, if that was not on the branch it began on. Noted before that is returned
    /// to: a Ralph that is killed in between judges the same work again, and not what is on the branch.
    #[serde(default)]
    stood: Base,
    /// Where every `HEAD` stood when the present attempt began, which may be after the base.
    #[serde(default)]
    since: Base,
    /// What was dirty when the last run ended.
    #[serde(default)]
    left: BTreeMap<String, Dirt>,
    /// Where every `HEAD` stood once the run was over and its branches were returned to. What comes after it, before the
    /// item's next run, is of another item or of the person.
    #[serde(default)]
    ended: Base,
    /// It is for measuring a merge of the harness's own, and is not kept.
    #[serde(skip)]
    is_merge: bool,
}

/// A verifier's checkout of the work in one repository.
pub(crate) struct WorkCheckout {
    pub(crate) work: Work,
    pub(crate) checkout: VerifierCheckout,
}

impl WorkCheckout {
    /// Says where the work is, for a prompt.
    pub(crate) fn describe(&self, base: &Base) -> String {
        let Work { commit, repository } = &self.work;
        let directory = &self.checkout.directory;
        let since = base.get(&key(repository)).map(|base| format!("; `git diff {base} {commit}`"));
        format!(
            "- `{repository}`: commit {commit}, checked out in {directory}{}",
            since.unwrap_or_default()
        )
    }
}

impl Repositories {
    /// Opens all repositories of the workspace, each with its mirror.
    pub(crate) fn open(
        program: &GitProgram,
        state: &State,
        workspace: &Utf8Path,
        home: &Utf8Path,
        mailbox: &Utf8Path,
    ) -> Result<Repositories, WorkflowError> {
        let mut found = Vec::new();
        for place in boundary::repositories(workspace) {
            let Some(worktree) = place.worktree.clone() else { continue };
            let name = worktree.strip_prefix(workspace).map_or("", Utf8Path::as_str).to_owned();
            let gates = GateRepository::open(program, state, &worktree, workspace)?;
            let own = own_paths(workspace, home, mailbox, &worktree);
            found.push(TrackedRepository { name, gates: Arc::new(gates), own, branch: None });
        }
        Ok(Repositories { found, in_slot: false })
    }

    /// Takes the clones of a slot, each with its name and what is Ralph's own in it.
    pub(crate) fn of_slot(
        clones: impl Iterator<Item = (String, Arc<dyn WorkRepository>, Vec<PathBuf>, String)>,
    ) -> Repositories {
        let found = clones.map(|(name, gates, own, branch)| TrackedRepository {
            name,
            gates,
            own,
            branch: Some(branch),
        });
        Repositories { found: found.collect(), in_slot: true }
    }

    /// Takes a repository for the only one of the workspace, and its root for the workspace.
    #[cfg(test)]
    pub(crate) fn only(gates: Arc<dyn WorkRepository>, own: Vec<PathBuf>) -> Repositories {
        let found = vec![TrackedRepository { name: String::new(), gates, own, branch: None }];
        Repositories { found, in_slot: false }
    }

    /// Returns where work begins, in every repository of this machine.
    pub(crate) fn start_points(&self) -> Result<Vec<StartPoint>, WorkflowError> {
        let mut points = Vec::new();
        for TrackedRepository { gates, own, .. } in &self.found {
            if let (Some(repository), Some(base)) = (gates.real(), gates.git().head()?.id()) {
                let (repository, base) = (repository.clone(), base.clone());
                points.push(StartPoint { repository, base, own: own.clone() });
            }
        }
        Ok(points)
    }

    /// Returns the branch that the first repository has checked out, in full.
    pub(crate) fn branch(&self) -> Result<Option<String>, WorkflowError> {
        let Some(repository) = self.found.first() else { return Ok(None) };
        Ok(match repository.gates.git().head()? {
            Head::Branch { name, .. } | Head::Unborn { name } => Some(name),
            Head::Detached { .. } => None,
        })
    }

    /// Checks a branch out in every repository; it is made where they stand if it is not there. Returns whether that was
    /// another one anywhere.
    pub(crate) fn check_out(&self, branch: &str) -> Result<bool, WorkflowError> {
        let mut switched = false;
        for repository in &self.found {
            let git = repository.gates.git();
            let head = git.head()?;
            if matches!(&head, Head::Branch { name, .. } | Head::Unborn { name } if name == branch)
            {
                continue;
            }
            if git.resolve(branch)?.is_none() {
                let before = head.id().cloned();
                git.return_refs(&[RefReturn { name: branch.to_owned(), before, now: None }])?;
            }
            git.switch_to(branch)?;
            switched = true;
        }
        Ok(switched)
    }

    /// Returns the current `HEAD` of every repository.
    pub(crate) fn base(&self) -> Result<Base, WorkflowError> {
        let mut base = Base::new();
        for repository in &self.found {
            if let Some(id) = repository.gates.git().head()?.id() {
                base.insert(repository.key(), commit_id(id));
            }
        }
        Ok(base)
    }

    /// Returns a new base if the history with the old one was rewritten.
    pub(crate) fn moved_base(&self, base: &Base) -> Result<Option<Base>, WorkflowError> {
        // In a slot only the agent can have rewritten it, which moves no base.
        if self.in_slot {
            return Ok(None);
        }
        let mut moved = base.clone();
        for repository in &self.found {
            let git = repository.gates.git();
            let Some(head) = git.head()?.id().cloned() else { continue };
            let Some(old) = base.get(&repository.key()) else { continue };
            let old = oid(old);
            let is_there = git.have(std::slice::from_ref(&old))?[0];
            if is_there && git.is_ancestor(&old, &head)? {
                continue;
            }
            let joint = if is_there { git.merge_base(&old, &head)? } else { None };
            moved.insert(repository.key(), commit_id(&joint.unwrap_or(head)));
        }
        Ok((moved != *base).then_some(moved))
    }

    /// Notes what there is before a run: refs, dirt, and the objects in the mirrors.
    pub(crate) fn note(&self, base: &Base) -> Result<BeforeAll, WorkflowError> {
        self.note_again(None, base)
    }

    /// Records the state before a run, and saves the person's uncommitted changes. Uncommitted leftovers of the item's
    /// earlier runs are not attributed to the person.
    pub(crate) fn note_again(
        &self,
        earlier: Option<&BeforeAll>,
        base: &Base,
    ) -> Result<BeforeAll, WorkflowError> {
        let since = earlier.map(|earlier| earlier.ended.clone()).unwrap_or_default();
        self.note_since(earlier, base, &since)
    }

    /// Notes the same for a spec, which waits between its runs while others are worked on: what they did since its base,
    /// before its first run, is no evidence either.
    pub(crate) fn note_spec(
        &self,
        earlier: Option<&BeforeAll>,
        base: &Base,
    ) -> Result<BeforeAll, WorkflowError> {
        self.note_since(earlier, base, earlier.map_or(base, |earlier| &earlier.ended))
    }

    /// Notes what there is. What was committed since is no doing of the item's runs.
    fn note_since(
        &self,
        earlier: Option<&BeforeAll>,
        base: &Base,
        since: &Base,
    ) -> Result<BeforeAll, WorkflowError> {
        let mut repositories = BTreeMap::new();
        for repository in &self.found {
            let git = repository.gates.git();
            let name = repository.key();
            let mut dirt = self.persons_dirt(repository)?;
            if let Some(earlier) = earlier {
                let left = earlier.left_by_runs(&name, &dirt);
                dirt.paths.retain(|dirty| !left.contains(&dirty.entry.path));
            }
            let saved = git.save_dirt(&dirt)?;
            let base = base.get(&name).map(oid);
            let also: Vec<Oid> = base.iter().cloned().collect();
            let refs = repository.gates.fill_mirror(&also)?;
            let base = base.or_else(|| refs.head.id().cloned());
            let hidden = git.hidden(&repository.own)?;
            let earlier = earlier.and_then(|all| all.repositories.get(&name));
            let begun = earlier.map(|before| before.begun.clone()).filter(|tips| !tips.is_empty());
            let begun = match begun {
                Some(begun) => begun,
                None => begun_with(repository, &refs)?,
            };
            let mut theirs = earlier.map(|before| before.theirs.clone()).unwrap_or_default();
            // An earlier run may have committed what the person had not.
            let saved_then = earlier.and_then(|before| before.saved.as_ref());
            theirs.extend(saved_then.into_iter().flat_map(|saved| saved.files.iter().cloned()));
            // In a slot only the agent commits.
            if let (Some(since), Some(now)) = (since.get(&name).map(oid), refs.head.id())
                && !self.in_slot
            {
                theirs.extend(repository.changed_between(&since, now)?);
            }
            repositories.insert(name, Before { base, refs, begun, theirs, dirt, saved, hidden });
        }
        Ok(BeforeAll { repositories, in_slot: self.in_slot, ..BeforeAll::default() })
    }

    /// What is dirty and can be the person's: whatever is dirty in a slot, the item's own runs have left.
    fn persons_dirt(&self, repository: &TrackedRepository) -> Result<Dirt, GitError> {
        if self.in_slot { Ok(Dirt::default()) } else { repository.dirt() }
    }

    /// Returns what is wrong with clones of which nothing can be asked any more, because of what an agent left in them.
    pub(crate) fn unsound(&self) -> Option<String> {
        let problem = |one: &TrackedRepository| {
            if let Err(error) = one.check_clone() {
                return Some(error.to_string());
            }
            match (one.gates.fill_mirror(&[]), one.dirt()) {
                (Err(error), _) if error.is_of_source() => Some(error.problem()),
                (_, Err(error @ GitError::Failed { .. })) => Some(error.to_string()),
                _ => None,
            }
        };
        self.found.iter().filter(|_| self.in_slot).find_map(problem)
    }

    /// Measures a claim.
    pub(crate) fn examine(
        &self,
        context: &GateContext<'_>,
        before: &BeforeAll,
        pinned: &PinnedGates,
        said: &Said,
        tell: Tell<'_>,
    ) -> Result<Case, WorkflowError> {
        self.judge(context, before, pinned, |judge| Ok(judge.examine(said, tell)?))
    }

    /// Puts receipts on the commits of accepted work.
    pub(crate) fn attest(
        &self,
        context: &GateContext<'_>,
        before: &BeforeAll,
        pinned: &PinnedGates,
        cases: &[Case],
        attested: &Attested<'_>,
    ) -> Result<(), WorkflowError> {
        self.judge(context, before, pinned, |judge| {
            for case in cases {
                judge.attest(case, attested.clone())?;
            }
            Ok(())
        })
    }

    /// Lends a judge of these repositories.
    pub(crate) fn judge<T>(
        &self,
        context: &GateContext<'_>,
        before: &BeforeAll,
        pinned: &PinnedGates,
        ask: impl FnOnce(&Judge<'_>) -> Result<T, WorkflowError>,
    ) -> Result<T, WorkflowError> {
        let judged: Vec<Judged<'_>> = self
            .found
            .iter()
            .filter_map(|repository| {
                let before = before.repositories.get(&repository.key())?;
                Some(Judged {
                    repository: &*repository.gates,
                    name: &repository.name,
                    before,
                    own: &repository.own,
                    branch: repository.branch.as_deref().or(before.refs.head.branch()),
                })
            })
            .collect();
        ask(&Judge {
            context,
            repositories: &judged,
            pinned,
            merges: before.is_merge,
            in_slot: self.in_slot,
        })
    }

    /// Keeps accepted work under a ref of Ralph's where the branch that is checked out does not have it, and says where.
    pub(crate) fn keep_accepted(
        &self,
        item: &str,
        work: &Work,
    ) -> Result<Option<String>, WorkflowError> {
        // Work in a slot has landed, or the item would not be done.
        if self.in_slot {
            return Ok(None);
        }
        let Some(repository) = self.gates(&work.repository) else { return Ok(None) };
        let (git, commit) = (repository.git(), oid(&work.commit));
        if let Some(head) = git.head()?.id()
            && git.is_ancestor(&commit, head)?
        {
            return Ok(None);
        }
        let name = format!("refs/ralph/accepted/{}", file_name(item));
        let now = git.resolve(&name)?;
        if now.as_ref() != Some(&commit) {
            git.return_refs(&[RefReturn { name: name.clone(), before: Some(commit), now }])?;
        }
        Ok(Some(format!(
            "the accepted commit {} is not on the branch that is checked out; {name} keeps it",
            work.commit
        )))
    }

    /// Returns the repository of a name, or the only one.
    pub(crate) fn gates(&self, name: &str) -> Option<&dyn WorkRepository> {
        let found = self.found.iter().find(|repository| repository.name == name);
        found.or_else(|| self.found.first()).map(|repository| &*repository.gates)
    }

    /// Returns the repositories that are git's own, each with its directory in the workspace.
    pub(crate) fn real(&self) -> impl Iterator<Item = (&str, &GateRepository)> {
        self.found.iter().filter_map(|one| Some((one.name.as_str(), one.gates.real()?)))
    }

    /// Makes a checkout for the verifier at the work in each repository; the first is the one it starts in.
    pub(crate) fn checkouts_for_verifier(
        &self,
        context: &GateContext<'_>,
        pinned: &PinnedGates,
        works: &[Work],
        tell: Tell<'_>,
    ) -> Result<Vec<WorkCheckout>, WorkflowError> {
        let mut checkouts = Vec::new();
        for work in works {
            let Some(repository) = self.gates(&work.repository) else { continue };
            let id = oid(&work.commit);
            repository.fill_mirror(std::slice::from_ref(&id))?;
            let checkout = repository.checkout_for_verifier(context, pinned, &id, tell)?;
            checkouts.push(WorkCheckout { work: work.clone(), checkout });
        }
        Ok(checkouts)
    }

    /// Commits what a run changed and left uncommitted: never the person's own dirt, never home. Returns why what it left
    /// in a repository cannot be committed, which only an agent can change: everything there stays as it is.
    pub(crate) fn commit_leftovers(
        &self,
        before: &BeforeAll,
        message: &str,
        signing: Signing,
    ) -> Result<Option<String>, WorkflowError> {
        let mut refused = None;
        for repository in &self.found {
            let Some(noted) = before.repositories.get(&repository.key()) else { continue };
            let git = repository.gates.git();
            let paths = noted.dirt.leftovers(&repository.dirt()?).new;
            if !paths.is_empty() {
                let patience = PATIENCE;
                let request = CommitRequest { paths: &paths, message, signing, patience };
                match git.commit_paths(&request) {
                    Err(
                        error @ (CommitError::Unmerged { .. } | CommitError::NeedsFilter { .. }),
                    ) => {
                        let why = format!("what the run left cannot be committed: {error}");
                        refused.get_or_insert(why);
                    }
                    committed => {
                        committed?;
                    }
                }
            }
        }
        Ok(refused)
    }

    /// Returns the one commit whose name begins like this, in whichever repository it is.
    pub(crate) fn named_like(&self, beginning: &str) -> Result<Option<CommitId>, WorkflowError> {
        for repository in &self.found {
            if let Some(found) = repository.gates.git().find_commit(beginning)? {
                return Ok(Some(commit_id(&found.id)));
            }
        }
        Ok(None)
    }

    /// Returns the tip of the branch that has a commit: what is above it is part of the work. In a clone all branches are
    /// the run's.
    pub(crate) fn tip_above(&self, commit: &CommitId) -> Result<CommitId, WorkflowError> {
        let below = oid(commit);
        for repository in &self.found {
            let git = repository.gates.git();
            if !git.have(std::slice::from_ref(&below))?[0] {
                continue;
            }
            let now = git.refs()?;
            let head = now.head.id().cloned();
            let branches = now.refs.iter().filter(|one| one.name.starts_with("refs/heads/"));
            for tip in head.into_iter().chain(branches.map(|one| one.id.clone())) {
                if git.is_ancestor(&below, &tip)? {
                    return Ok(commit_id(&tip));
                }
            }
        }
        Ok(commit.clone())
    }

    /// Returns where every repository stands, the one first that has a commit.
    pub(crate) fn heads(&self, commit: Option<&CommitId>) -> Result<Vec<Work>, WorkflowError> {
        let (mut first, mut others) = (Vec::new(), Vec::new());
        for repository in &self.found {
            let git = repository.gates.git();
            let Some(head) = git.head()?.id().cloned() else { continue };
            let has_commit = match commit {
                Some(commit) if first.is_empty() => git.have(&[oid(commit)])?[0],
                _ => false,
            };
            let heads = if has_commit { &mut first } else { &mut others };
            heads.push(repository.work(&head));
        }
        first.append(&mut others);
        Ok(first)
    }

    /// Returns to the branches that a run began on, and to what the person had not committed there. Returns what is to be
    /// said of it.
    pub(crate) fn return_to_branches(
        &self,
        item: &str,
        before: &mut BeforeAll,
    ) -> Result<Vec<String>, WorkflowError> {
        let mut problems = Vec::new();
        if std::mem::replace(&mut before.returned, true) {
            return Ok(problems);
        }
        for repository in &self.found {
            let Some(noted) = before.repositories.get(&repository.key()) else { continue };
            let git = repository.gates.git();
            let now = git.head()?;
            if let Head::Branch { name: then, .. } = &noted.refs.head
                && !matches!(&now, Head::Branch { name, .. } if name == then)
            {
                repository.keep_detached(item, &now, then)?;
                if let Err(problem) = git.switch_to(then) {
                    problems.push(repository.force_return(then, &problem)?);
                }
            }
            problems.extend(repository.return_dirt(noted)?);
            problems.extend(repository.newly_hidden(noted)?);
        }
        before.ended = self.base()?;
        Ok(problems)
    }

    /// Notes where a run has ended that is on other branches than it began on; tells whether that is news.
    ///
    /// The first note counts: a Ralph killed while returning has the branch checked out already.
    pub(crate) fn note_standing(&self, before: &mut BeforeAll) -> Result<bool, WorkflowError> {
        if before.returned {
            return Ok(false);
        }
        let mut stood = before.stood.clone();
        for repository in &self.found {
            let Some(noted) = before.repositories.get(&repository.key()) else { continue };
            let Head::Branch { name: then, .. } = &noted.refs.head else { continue };
            let now = repository.gates.git().head()?;
            let is_there = matches!(&now, Head::Branch { name, .. } if name == then);
            if let Some(id) = now.id().filter(|_| !is_there) {
                stood.entry(repository.key()).or_insert_with(|| commit_id(id));
            }
        }
        let is_new = stood != before.stood;
        before.stood = stood;
        Ok(is_new)
    }

    /// Tells whether a head is detached that was on a branch before the run.
    pub(crate) fn is_detached_since(&self, before: &BeforeAll) -> Result<bool, WorkflowError> {
        for repository in &self.found {
            let noted = before.repositories.get(&repository.key());
            let began = noted.is_some_and(|noted| matches!(noted.refs.head, Head::Branch { .. }));
            if began && matches!(repository.gates.git().head()?, Head::Detached { .. }) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns what is changed and uncommitted outside home and was not left by a run, by name from the workspace.
    ///
    /// What runs were begun with tells their leftovers from the person's own work.
    pub(crate) fn dirt(&self, begun: &[BeforeAll]) -> Result<Vec<String>, WorkflowError> {
        self.dirty_paths(|repository, now| {
            let left: Vec<PathBuf> =
                begun.iter().flat_map(|all| all.left_by_runs(&repository.key(), now)).collect();
            now.paths.iter().map(path_of).filter(|path| !left.contains(path)).collect()
        })
    }

    /// Returns what runs of an item left uncommitted, by name from the workspace: all that is dirty in its slot, in place
    /// what is as its last run left it.
    pub(crate) fn half_done(
        &self,
        earlier: Option<&BeforeAll>,
    ) -> Result<Vec<String>, WorkflowError> {
        self.dirty_paths(|repository, now| {
            if self.in_slot {
                return now.paths.iter().map(path_of).collect();
            }
            let left = earlier.map(|earlier| earlier.left_by_runs(&repository.key(), now));
            left.unwrap_or_default()
        })
    }

    /// Names what is dirty and chosen, from the workspace.
    fn dirty_paths(
        &self,
        choose: impl Fn(&TrackedRepository, &Dirt) -> Vec<PathBuf>,
    ) -> Result<Vec<String>, WorkflowError> {
        let mut paths = Vec::new();
        for repository in &self.found {
            for path in choose(repository, &repository.dirt()?) {
                let path = shown(&path);
                paths.push(match repository.name.as_str() {
                    "" => path,
                    name => format!("{name}/{path}"),
                });
            }
        }
        // A file that is staged as deleted and exists all the same is listed twice.
        paths.sort();
        paths.dedup();
        Ok(paths)
    }
}

impl BeforeAll {
    /// Tells whether the run worked in the person's checkout.
    pub(crate) const fn is_in_place(&self) -> bool {
        !self.in_slot
    }

    /// Tells whether the branches that the run began on were returned to.
    pub(crate) const fn is_returned(&self) -> bool {
        self.returned
    }

    /// Returns where work began.
    pub(crate) fn base(&self) -> Base {
        let known = self.repositories.iter();
        known
            .filter_map(|(name, before)| Some((name.clone(), commit_id(before.base.as_ref()?))))
            .collect()
    }
}

impl BeforeAll {
    /// Returns the same with another base in one repository, for measuring a merge with what came meanwhile.
    pub(crate) fn with_base(&self, name: &str, base: &Oid) -> BeforeAll {
        let mut before = BeforeAll { is_merge: true, ..self.clone() };
        if let Some(noted) = before.repositories.get_mut(&key(name)) {
            noted.base = Some(base.clone());
        }
        before
    }
}

/// Returns the content of an item's receipts in addition to the measurements. `worker` is the role that did the work.
pub(crate) fn attestation<'i>(
    context: &SessionContext,
    item: &'i str,
    worker: Role,
    verifier: Option<VerifierReceipt>,
    agreed: AgreedChecks,
) -> Attested<'i> {
    let worker = context.config.agent_for(worker);
    Attested {
        item,
        worker: Worker { agent: worker.name, model: worker.model },
        boundary: context.boundary,
        verifier,
        at: context.clock.now(),
        agreed,
        ralph: env!("CARGO_PKG_VERSION"),
    }
}

fn path_of(dirty: &DirtyPath) -> PathBuf {
    dirty.entry.path.clone()
}

/// Returns what is Ralph's own in a repository, named from the root of its work tree: home, `ralph.toml`, the mailbox.
pub(crate) fn own_paths(
    workspace: &Utf8Path,
    home: &Utf8Path,
    mailbox: &Utf8Path,
    worktree: &Utf8Path,
) -> Vec<PathBuf> {
    let settings = settings_files(workspace, worktree);
    let own = [Some(home), mailbox::own(mailbox)].into_iter().flatten();
    let own = own
        .chain(settings.iter().map(|path| &**path))
        .filter_map(|path| path.strip_prefix(worktree).ok());
    own.map(|path| path.as_std_path().to_owned()).collect()
}

pub(crate) fn key(name: &str) -> String {
    if name.is_empty() { WORKSPACE.to_owned() } else { name.to_owned() }
}

pub(crate) fn commit_id(id: &Oid) -> CommitId {
    id.as_str().parse().expect("an object's id is 40 or 64 hexadecimal digits")
}

pub(crate) fn oid(id: &CommitId) -> Oid {
    Oid::parse(id.as_str().as_bytes()).expect("a commit's id is an object's id")
}

/// Returns what refs lead to when work on an item begins: the person's own too, whose objects a clone can reach.
fn begun_with(
    repository: &TrackedRepository,
    refs: &RefsSnapshot,
) -> Result<Vec<Oid>, WorkflowError> {
    // A clone contains only the person's commits, and judged work from which an item continues.
    let mut begun = match repository.gates.person() {
        Some(person) => person.refs()?.tips_of_persons(),
        None => refs.tips_of_persons(),
    };
    begun.sort();
    begun.dedup();
    Ok(begun)
}
