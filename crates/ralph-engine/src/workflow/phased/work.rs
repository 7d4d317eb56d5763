//! Every call of the loop that touches the repositories: where work begins, what is committed, judged, kept and put back.

use ralph_model::build::Work;
use ralph_model::phase::{LoopRecord, SnapshotPoint};
use ralph_model::receipt::VerifierReceipt;
use ralph_model::role::Role;

use super::{Phased, item_of};
use crate::boundary;
use crate::gates::assess::Extent;
use crate::gates::pin::PinnedGates;
use crate::gates::{BuiltInContext, CandidateFiles, CommitTree, GateContext};
use crate::git::commits::{CommitRequest, Signing, commit_paths};
use crate::git::evidence::{Dirt, is_own};
use crate::git::{Git, Oid, shown};
use crate::home::settings_files;
use crate::judge::{AgreedChecks, Case, Said};
use crate::run::RESULTS;
use crate::workflow::WorkflowError;
use crate::workflow::repositories::{BEFORE, BeforeAll, WorkCheckout, attestation};

/// How long another program that holds the index is waited for.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);

/// Returns the ref that keeps a snapshot of a task.
pub(super) fn snapshot_ref(task: u32, point: SnapshotPoint) -> String {
    match point {
        SnapshotPoint::Before => format!("refs/ralph/loop/{task}/before"),
        SnapshotPoint::After => format!("refs/ralph/loop/{task}/after"),
    }
}

impl Phased<'_, '_> {
    /// Returns what runs of the task left uncommitted.
    pub(super) fn half_done(&self, item: &str) -> Result<Vec<String>, WorkflowError> {
        let earlier = BEFORE.load(&self.session.context.state, item)?;
        self.project.repositories.half_done(earlier.as_ref())
    }

    /// Notes what there is before a run of the task, and from where its work counts.
    pub(super) fn begin_run(&self, item: &str) -> Result<BeforeAll, WorkflowError> {
        self.project.note_before(self.session, item, None)
    }

    /// Returns to the branches that the last builder began on, if its Ralph died in the middle of the run.
    pub(super) fn return_after_kill(&mut self) -> Result<(), WorkflowError> {
        if RESULTS.all(&self.session.context.state)?.is_empty() {
            self.project.is_where_work_began(self.session, Role::Builder)?;
        }
        Ok(())
    }

    pub(super) fn back_to_branches(&mut self, item: &str) -> Result<(), WorkflowError> {
        self.project.return_to_branches(self.session, item)
    }

    /// Commits what a run changed and left uncommitted. Returns why that cannot be committed.
    pub(super) fn commit_iteration(
        &self,
        record: &LoopRecord,
        before: &BeforeAll,
    ) -> Result<Option<String>, WorkflowError> {
        let title = record.task.text.lines().next().unwrap_or_default();
        let title: String = title.chars().take(60).collect();
        let (task, iteration) = (record.task.number, record.iterations + 1);
        let message = format!("{title}\n\nTask {task} of the loop, iteration {iteration}.\n");
        self.project.repositories.commit_leftovers(before, &message, self.signing)
    }

    /// Whether anything outside Ralph's own files differs from when the task began.
    pub(super) fn is_changed(&self, before: &BeforeAll) -> bool {
        !self.project.repositories.probe(before).is_unchanged()
    }

    pub(super) fn works(&self, before: &BeforeAll) -> Result<Vec<Work>, WorkflowError> {
        self.project.repositories.work_of(before)
    }

    /// Returns the `HEAD` of every repository.
    pub(super) fn heads(&self) -> Result<Vec<Work>, WorkflowError> {
        self.project.repositories.heads(None)
    }

    /// Makes checkouts of commits, for a verifier.
    pub(super) fn checkouts_of(
        &mut self,
        item: &str,
        pinned: &PinnedGates,
        works: &[Work],
    ) -> Result<Vec<WorkCheckout>, WorkflowError> {
        let repositories = &self.project.repositories;
        self.session.with_gates(item, |context, tell| {
            repositories.checkouts_for_verifier(context, pinned, works, tell)
        })
    }

    /// Has the judge measure work, with all gates.
    pub(super) fn examine(
        &mut self,
        item: &str,
        before: &BeforeAll,
        pinned: &PinnedGates,
        works: &[Work],
        beside: BuiltInContext<'_>,
    ) -> Result<Vec<Case>, WorkflowError> {
        let repositories = &self.project.repositories;
        let mut cases = Vec::new();
        let mut pinned = pinned.clone();
        for work in works {
            let said = Said::Work(work.clone());
            cases.push(self.session.with_gates(item, |context, tell| {
                let context =
                    GateContext { extent: Extent::All, built_in: Some(beside), ..*context };
                repositories.examine(&context, before, &pinned, &said, tell)
            })?);
            // These look at all repositories together, once.
            pinned.gates.retain(|gate| gate.built_in().is_none());
        }
        Ok(cases)
    }

    /// Puts receipts on the commits of accepted work.
    pub(super) fn attest(
        &self,
        item: &str,
        before: &BeforeAll,
        pinned: &PinnedGates,
        cases: &[Case],
        (verifier, agreed): (Option<VerifierReceipt>, AgreedChecks),
    ) -> Result<(), WorkflowError> {
        let context = &self.session.context;
        let attested = attestation(context, item, Role::Builder, verifier, agreed);
        self.project.repositories.attest(&context.gates(item), before, pinned, cases, &attested)
    }

    /// Returns the files of work and of where it began, in all repositories.
    pub(super) fn files_of(
        &self,
        before: &BeforeAll,
        works: &[Work],
    ) -> Result<CandidateFiles, WorkflowError> {
        let mut files = CandidateFiles::default();
        for (name, repository) in self.project.repositories.real() {
            let work = works.iter().find(|work| work.repository == name);
            let commit = work.and_then(|work| Oid::parse(work.commit.as_str().as_bytes()));
            let base = base_of(before, name);
            let known: Vec<Oid> = commit.iter().chain(&base).cloned().collect();
            repository.mirror.fill(&repository.git, &known)?;
            files.add(repository, commit.as_ref(), base.as_ref())?;
        }
        Ok(files)
    }

    /// Returns the files that the task began with.
    pub(super) fn tree_before(&self, before: &BeforeAll) -> Result<CommitTree, WorkflowError> {
        let mut tree = CommitTree::default();
        for (name, repository) in self.project.repositories.real() {
            if let Some(base) = base_of(before, name) {
                tree.add(repository, &base)?;
            }
        }
        Ok(tree)
    }

    /// The repositories with what is Ralph's own in each.
    fn trees(&self) -> Vec<(Git, Vec<std::path::PathBuf>)> {
        let context = &self.session.context;
        let root = &context.workspace.root;
        let found = boundary::repositories(root).into_iter().filter_map(|place| {
            let worktree = place.worktree.clone()?;
            let settings = settings_files(root, &worktree);
            let own = [context.home_path(), self.mailbox.path()];
            let own = own.into_iter().chain(settings.iter().map(|path| &**path));
            let own = own.filter_map(|path| path.strip_prefix(&worktree).ok());
            let own = own.map(|path| path.as_std_path().to_owned()).collect();
            Some((Git::at(context.git(), place), own))
        });
        found.collect()
    }

    /// Keeps the tree under a ref. One that is there already was kept before a crash, and stays.
    pub(super) fn snapshot(
        &mut self,
        task: u32,
        point: SnapshotPoint,
    ) -> Result<(), WorkflowError> {
        let name = snapshot_ref(task, point);
        for (git, own) in self.trees() {
            if git.resolve(&name)?.is_some() {
                continue;
            }
            let message = format!("The work tree of task {task} of the loop");
            let taken = git.take_snapshot(&name, &own, &message)?;
            let left_out = taken.map(|taken| taken.left_out).unwrap_or_default();
            if !left_out.is_empty() {
                let names: Vec<String> = left_out.iter().take(10).map(|path| shown(path)).collect();
                self.note(format!("the snapshot leaves out {}", names.join(", ")))?;
            }
        }
        Ok(())
    }

    /// Puts the trees back as they were before a task. What is in them now is saved first; commits are reverted by one.
    pub(super) fn put_tree_back(&mut self, task: u32) -> Result<(), WorkflowError> {
        let then = snapshot_ref(task, SnapshotPoint::Before);
        for (git, own) in self.trees() {
            let Some(then) = git.resolve(&then)? else { continue };
            if let Some(saved) = git.save_dirt(&Dirt::of(&git, &own)?)? {
                self.note(format!("what was not committed is saved in {}", saved.name))?;
            }
            let name = format!("refs/ralph/loop/{task}/rolled-back");
            let message = format!("The work tree before task {task} was rolled back");
            let Some(now) = git.take_snapshot(&name, &own, &message)? else { continue };
            let began =
                git.find_commit(then.as_str())?.and_then(|found| found.parents.first().cloned());
            let committed = match (began, git.head()?.id()) {
                (Some(began), Some(head)) => git.changes(&began, head)?,
                _ => Vec::new(),
            };
            git.return_to_snapshot(&then, &now, &own)?;
            let mut paths: Vec<std::path::PathBuf> =
                committed.into_iter().map(|change| change.path).collect();
            paths.retain(|path| !is_own(&own, path));
            if !paths.is_empty() {
                let message = format!("ralph: roll back task {task} of the loop");
                let signing = Signing::allowed(self.session.context.config.git.sign);
                let request =
                    CommitRequest { paths: &paths, message: &message, signing, patience: PATIENCE };
                commit_paths(&git, &request)?;
            }
        }
        BEFORE.forget(&self.session.context.state, &item_of(task))?;
        Ok(())
    }
}

/// Returns the commit at which work began in a repository.
fn base_of(before: &BeforeAll, repository: &str) -> Option<Oid> {
    let key = if repository.is_empty() { "." } else { repository };
    let base = before.base().get(key).cloned()?;
    Oid::parse(base.as_str().as_bytes())
}
