//! Home at the tip, and in the index, after a run in the person's checkout. A comparison puts files back in the work tree; a
//! run that has committed or staged them has also to be undone there, or whoever clones the repository has what it forged.
//!
//! What a run committed stays in history: the undoing is a commit on top. It does not depend on what was put back in the
//! work tree, so that it is also made after a crash in between, and for what a run took back in the work tree itself.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::compare::{BoundaryFinding, BoundaryReport, FindingKind, Watch};
use super::protected::{self, Class, Watched, is_edited_by_hand};
use super::record::read_content;
use super::run_refs::{RefsBefore, head_of};
use super::walk::Stamp;
use crate::git::commits::{CommitError, CommitRequest, Signing, commit_paths};
use crate::git::home_copy::HomeChange;
use crate::git::{Git, GitProgram, Oid, shown};

const MESSAGE: &str = "ralph: restore home after a run";
/// How long another program that holds the index is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// A file of home that a run left otherwise than Ralph has it.
struct Forged {
    path: PathBuf,
    class: Class,
    what: FindingKind,
}

/// Such files, and whether they are as they were again.
struct Repair {
    forged: Vec<Forged>,
    is_done: bool,
    /// They are in the work tree, where the person may have changed them.
    is_here: bool,
}

/// One repository in which there are files of home.
struct HomeTip<'a> {
    git: &'a Git,
    root: &'a Path,
    watched: &'a [Watched],
    before: &'a RefsBefore,
    before_repair: &'a dyn Fn(),
}

impl Watch {
    /// Makes home at the tip and in the index what it is in the work tree, and on a branch that the run has left what it was.
    pub(super) fn return_tips(
        &self,
        program: &dyn Fn() -> GitProgram,
        before_repair: &dyn Fn(),
        report: &mut BoundaryReport,
    ) {
        if self.in_slot || self.refs.is_empty() {
            return;
        }
        let watched = protected::state(&self.workspace, self.home.as_deref());
        for place in &self.places {
            let known = self.refs.iter().find(|known| known.common_dir == place.common_dir);
            let (Some(before), Some(root)) = (known, &place.worktree) else { continue };
            let root = root.as_std_path();
            if !watched.iter().any(|watched| watched.path.starts_with(root)) {
                continue;
            }
            let git = &Git::at(program(), place.clone());
            let tip = HomeTip { git, root, watched: &watched, before, before_repair };
            let is_left = tip.is_left();
            let left = if is_left { tip.return_left_branch() } else { Ok(None) };
            for repair in [left, tip.return_checked_out(is_left)] {
                match repair {
                    Ok(None) => {}
                    Ok(Some(repair)) => self.tell_of_tip(root, &repair, report),
                    // Unknown is never "nothing there".
                    Err(_) => {
                        let found =
                            BoundaryFinding { path: "HEAD".to_owned(), what: FindingKind::Changed };
                        report.violations.push(found.clone());
                        report.left.push(found);
                    }
                }
            }
        }
        report.sort();
    }

    fn tell_of_tip(&self, root: &Path, repair: &Repair, report: &mut BoundaryReport) {
        for Forged { path, class, what } in &repair.forged {
            let path = root.join(path);
            let name = shown(path.strip_prefix(&self.workspace).unwrap_or(&path));
            let is_known = report.violations.iter().any(|found| found.path == name);
            let found = BoundaryFinding { path: name, what: *what };
            let is_violation = *class == Class::State || !repair.is_done;
            if is_violation && !is_known {
                let is_by_hand = is_edited_by_hand(&path, &self.workspace, self.home.as_deref());
                if is_by_hand && repair.is_here && repair.is_done {
                    report.unattributed.push(found.clone());
                }
                report.violations.push(found.clone());
            }
            let list = if repair.is_done { &mut report.put_back } else { &mut report.left };
            if !list.iter().any(|known| known.path == found.path) {
                list.push(found);
            }
        }
    }
}

impl HomeTip<'_> {
    /// Whether something else is checked out than when the run began. A detached `HEAD` moves as a branch does.
    fn is_left(&self) -> bool {
        let now = head_of(self.git.place());
        let is_branch =
            |head: &Option<String>| head.as_ref().is_some_and(|h| h.starts_with("ref:"));
        now != self.before.head && (is_branch(&now) || is_branch(&self.before.head))
    }

    /// Undoes what the run has committed on the branch that it began on, and has left.
    fn return_left_branch(&self) -> Result<Option<Repair>, CommitError> {
        let (Some(branch), Some(then)) = (self.before.branch(), self.before.tip()) else {
            return Ok(None);
        };
        let Some(now) = self.git.resolve(branch)?.filter(|now| *now != then) else {
            return Ok(None);
        };
        let changes = self.git.tree_changes(&then, &now)?;
        let changes = changes.into_iter().map(|change| (change.path, change.after.map(|to| to.id)));
        let forged: Vec<Forged> =
            changes.filter_map(|(path, now)| self.forged(path, now.as_ref())).collect();
        if forged.is_empty() {
            return Ok(None);
        }
        (self.before_repair)();
        let is_done = self.commit_as_before(branch, &then, &now, &forged).is_some();
        Ok(Some(Repair { forged, is_done, is_here: false }))
    }

    fn commit_as_before(
        &self,
        branch: &str,
        then: &Oid,
        now: &Oid,
        forged: &[Forged],
    ) -> Option<()> {
        let tree = self.git.find_commit(then.as_str()).ok()??.tree;
        let paths: Vec<&Path> = forged.iter().map(|forged| forged.path.as_path()).collect();
        let before = self.git.blobs_in(&tree, &paths).ok()?;
        let changes = paths.iter().zip(before);
        let changes: Vec<HomeChange> =
            changes.map(|(path, after)| HomeChange { path: path.into(), after }).collect();
        self.git.commit_onto(branch, now, &changes, MESSAGE).ok()
    }

    /// Commits home's files as they are in the work tree, where the run has committed or staged others.
    fn return_checked_out(&self, is_left: bool) -> Result<Option<Repair>, CommitError> {
        let mut found: Vec<(PathBuf, Option<Oid>)> = Vec::new();
        let head = self.git.head()?.id().cloned();
        if let Some(now) = head.filter(|_| !is_left) {
            if let Some(then) = self.before.tip() {
                let changes = self.git.tree_changes(&then, &now)?.into_iter();
                found.extend(changes.map(|to| (to.path, to.after.map(|to| to.id))));
            } else {
                // The run has made the first commit.
                let files = self.git.tree(&now)?.into_iter();
                found.extend(files.map(|file| (file.path, Some(file.id))));
            }
        }
        found.extend(self.git.staged()?.into_iter().map(|change| (change.path, change.id)));
        let ids: Vec<Oid> = found
            .iter()
            .filter(|(path, _)| self.class_of(path).is_some())
            .filter_map(|(_, id)| id.clone())
            .collect();
        let known = if ids.is_empty() { HashMap::new() } else { self.git.blobs(&ids)? };
        let mut forged: Vec<Forged> = Vec::new();
        for (path, id) in found {
            let there = self.root.join(&path);
            let stamp = Stamp::of(&there);
            let is_same = match (&id, stamp) {
                (None, None) => true,
                (Some(id), Some(stamp)) => {
                    known.contains_key(id) && read_content(&there, &stamp).as_ref() == known.get(id)
                }
                _ => false,
            };
            let is_persons_removal = stamp.is_none() && self.class_of(&path) == Some(Class::People);
            if !is_same && !is_persons_removal && !forged.iter().any(|one| one.path == path) {
                forged.extend(self.forged(path, id.as_ref()));
            }
        }
        if forged.is_empty() {
            return Ok(None);
        }
        (self.before_repair)();
        let paths: Vec<PathBuf> = forged.iter().map(|forged| forged.path.clone()).collect();
        let request = CommitRequest {
            paths: &paths,
            message: MESSAGE,
            signing: Signing::Unsigned,
            patience: PATIENCE,
        };
        let is_done =
            self.git.show_hidden(&paths).is_ok() && commit_paths(self.git, &request).is_ok();
        Ok(Some(Repair { forged, is_done, is_here: true }))
    }

    /// Returns a file that is not the run's to change. Texts of people it may edit, and only not remove.
    fn forged(&self, path: PathBuf, now: Option<&Oid>) -> Option<Forged> {
        let class = self.class_of(&path)?;
        let what = if now.is_some() { FindingKind::Changed } else { FindingKind::Removed };
        (class != Class::People || now.is_none()).then_some(Forged { path, class, what })
    }

    fn class_of(&self, path: &Path) -> Option<Class> {
        let path = self.root.join(path);
        let is_it = |watched: &&Watched| {
            path == watched.path || watched.below && path.starts_with(&watched.path)
        };
        self.watched.iter().find(is_it).map(|watched| watched.class)
    }
}
