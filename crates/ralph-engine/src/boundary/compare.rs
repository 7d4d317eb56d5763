//! After a run: what changed, whose doing it was, and what follows from it.
//!
//! | what changed | kernel | detect |
//! |---|---|---|
//! | state files, `ralph.toml` | put back, the run has failed; kept if the role cannot write there | put back, failed |
//! | git settings, hooks, home's ignores, agent settings | put back, reported; kept if the role cannot write there | put back, reported |
//! | refs (roles that may write) | see [`run_refs`](super::run_refs) | the same |
//! | home itself, moved away | moved back, failed; kept if the role cannot write there | moved back, failed |
//! | specs and prompts, removed | put back, reported; kept if the role cannot write there | put back, reported |
//! | refs, files (roles that must not write) | permissions: put back, failed; all else is the person's | put back, failed |
//!
//! After a crash, what was changed when nothing of the run was left any more is the person's in every case: kept, and told.
//!
//! What the harness itself wrote during a run, for an agent or a person, it vouches for: that stays. In the person's checkout
//! other changes of files that people edit (`plan.jsonl`, the PRD, `ralph.toml`, a plan of a spec) cannot be attributed: the
//! run or the person made them. If they are a run's only violations, the workflow asks and does not charge the run.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use camino::{Utf8Path, Utf8PathBuf};
use jiff::Timestamp;
use ralph_model::journal::BoundaryCrossed;
use ralph_model::role::Role;
use ralph_proc::end_note::FileTime;
use ralph_proc::tree::ancestors;
use serde::{Deserialize, Serialize};

use super::InForce;
use super::baseline::{Baseline, BaselineScope, Scope};
use super::nested;
use super::outside::{Outside, file_beside};
use super::protected::{self, Class, Watched};
use super::restore::Saver;
use super::run_refs::{RefsBefore, head_of};
use super::settle::Settlement;
use crate::agent::Guarded;
use crate::digest;
use crate::files::PathError;
use crate::files::lock::{OwnerPlace, locked_directory, place_of_owner};
use crate::files::note::write_note;
use crate::git::undo::RefReturn;
use crate::git::{Git, GitProgram, Oid, RepositoryLocation};
use crate::state::{COPIES, State};

/// Everything that is needed to take a baseline and to judge by it, also by another Ralph after this one died.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Watch {
    pub(crate) run: String,
    pub(crate) role: Role,
    pub(crate) in_force: InForce,
    pub(crate) workspace: Utf8PathBuf,
    pub(crate) home: Option<Utf8PathBuf>,
    /// The run works in a clone of Ralph's own, whose `ralph.toml` counts for nothing.
    #[serde(default)]
    pub(crate) in_slot: bool,
    /// The repositories of the workspace, as they were found when it was opened.
    pub(crate) places: Vec<RepositoryLocation>,
    /// Where the run may write.
    pub(crate) writable: Vec<String>,
    /// The settings of the agent itself.
    pub(crate) guarded: Vec<Guarded>,
    pub(crate) started: Timestamp,
    /// The path of the baseline.
    pub(crate) baseline: Utf8PathBuf,
    /// The length of its log when the run began, for a reader after a crash.
    #[serde(default)]
    pub(crate) baseline_length: u64,
    /// Which directories the git directories are, by inode: one can be moved away and another put in its place.
    pub(crate) git_dirs: Vec<(Utf8PathBuf, u64)>,
    /// Which directory home is, by inode, if it was there.
    #[serde(default)]
    pub(crate) home_inode: Option<u64>,
    /// The refs of roles that may move some.
    #[serde(default)]
    pub(crate) refs: Vec<RefsBefore>,
    /// How long the journal was; it only ever grows.
    pub(crate) journal: u64,
}

/// How a path differs from what it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    Changed,
    Added,
    Removed,
    Permissions,
    /// A directory that cannot be listed, so that changes in it cannot be found.
    Unreadable,
}

/// One change that was found, by its path in the workspace, or the whole path if it is elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct BoundaryFinding {
    pub path: String,
    pub(crate) what: FindingKind,
}

/// What a comparison found, and what was done about it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BoundaryReport {
    /// What the role must not change. The run has failed.
    pub violations: Vec<BoundaryFinding>,
    /// What is as it was again, violations or not.
    pub put_back: Vec<BoundaryFinding>,
    /// What could not be put back, or must not be.
    pub left: Vec<BoundaryFinding>,
    /// What only the person can have changed.
    pub kept: Vec<BoundaryFinding>,
    /// Where that is which was undone.
    pub saved_in: Option<Utf8PathBuf>,
    /// The ref of the commit that has it, where it was in a work tree.
    pub displaced: Option<String>,
    /// Violations that cannot be attributed: changes, in the person's checkout, of files that people edit.
    #[serde(skip)]
    pub(crate) unattributed: Vec<BoundaryFinding>,
}

impl BoundaryFinding {
    /// How a ref differs from what it was.
    pub(super) fn of_ref(moved: &RefReturn) -> BoundaryFinding {
        let what = match (&moved.before, &moved.now) {
            (None, _) => FindingKind::Added,
            (_, None) => FindingKind::Removed,
            _ => FindingKind::Changed,
        };
        BoundaryFinding { path: moved.name.clone(), what }
    }
}

impl BoundaryReport {
    pub(crate) fn is_empty(&self) -> bool {
        *self == BoundaryReport::default()
    }

    /// The paths of the violations.
    pub(crate) fn violated(&self) -> Vec<String> {
        names(&self.violations)
    }

    /// Tells whether everything that must not be changed may have been changed by a person, who works in the same tree.
    fn may_be_persons(&self) -> bool {
        self.violations.iter().all(|found| self.unattributed.contains(found))
    }

    /// The paths of violations that are held against the run.
    pub(crate) fn violated_by_run(&self) -> Vec<String> {
        if self.may_be_persons() { Vec::new() } else { self.violated() }
    }

    /// The paths that are not held against the run, as a person may have changed them.
    pub(crate) fn not_attributed(&self) -> Vec<String> {
        if self.may_be_persons() { names(&self.unattributed) } else { Vec::new() }
    }

    /// Returns what to ask a person about changes that they may have made themselves.
    pub(crate) fn question(&self) -> Option<String> {
        let changed = self.not_attributed();
        if changed.is_empty() {
            return None;
        }
        let files = changed.join(", ");
        let kept = match (&self.displaced, &self.saved_in) {
            (Some(name), _) => format!("`{name}` (`git checkout {name} -- {}`)", changed.join(" ")),
            (None, Some(directory)) => format!("`{directory}`"),
            (None, None) => "nothing".to_owned(),
        };
        Some(format!(
            "these files changed while the agent worked in your checkout: {files}. Ralph cannot tell whether you changed them. They were restored, and the change is kept in {kept}. If it was yours, bring it back; then start again. The run is judged by its work, and it cost no attempt"
        ))
    }

    pub(super) fn sort(&mut self) {
        for list in [
            &mut self.violations,
            &mut self.put_back,
            &mut self.left,
            &mut self.kept,
            &mut self.unattributed,
        ] {
            list.sort();
            list.dedup();
        }
    }

    /// What the journal keeps of it.
    pub(crate) fn journal(&self) -> BoundaryCrossed {
        BoundaryCrossed {
            violations: self.violated(),
            put_back: names(&self.put_back),
            left: names(&self.left),
            kept: names(&self.kept),
            saved_in: self.saved_in.as_ref().map(ToString::to_string),
            displaced: self.displaced.clone(),
        }
    }
}

/// What Ralph itself writes in private state during a run, and large files that are checked by their own hashes.
const WRITTEN_MEANWHILE: [&str; 21] = [
    "journal.jsonl*",
    "board.json*",
    "live",
    "scratch",
    "results",
    "uncompared",
    "plans",
    "vouched",
    "drafts",
    "uncommitted",
    "slots",
    "slot-state",
    "tasks",
    "made",
    "repositories",
    "gates",
    "displaced",
    "runs",
    "agents",
    "names",
    "caches",
];

/// Returns the names of what Ralph writes meanwhile, also as the second copies of records.
fn written_meanwhile() -> Vec<String> {
    let copies = WRITTEN_MEANWHILE.iter().map(|name| format!("{COPIES}/{name}"));
    WRITTEN_MEANWHILE.iter().map(|name| (*name).to_owned()).chain(copies).collect()
}

fn names(found: &[BoundaryFinding]) -> Vec<String> {
    found.iter().map(|found| found.path.clone()).collect()
}

impl Watch {
    fn scope(&self) -> Scope {
        let kernel = self.in_force.is_kernel();
        // With the kernel boundary a read-only role cannot write its slot, and no other process does.
        let is_kept = kernel && self.in_slot;
        let tree = !self.role.writes_workspace() && !is_kept;
        Scope { tree, contents: tree && !kernel, private: !kernel }
    }

    pub(super) fn field(&self, state: &State) -> BaselineScope<'_> {
        let scope = self.scope();
        let mut watched = if self.in_slot {
            Vec::new()
        } else {
            protected::state(&self.workspace, self.home.as_deref())
        };
        for place in &self.places {
            watched.extend(protected::git_settings(place));
            if scope.tree {
                watched.extend(protected::git_refs(place));
            }
        }
        let writes = self.role.writes_workspace() || !self.in_force.is_kernel();
        if !self.in_slot && writes {
            watched.extend(nested::watched(self.workspace.as_std_path(), &self.places));
        }
        let tops = self.places.iter().map(|place| (&place.common_dir, Class::Settings));
        let tops = tops.chain(self.home.iter().map(|home| (home, Class::State)));
        let on_the_way: Vec<Watched> =
            tops.flat_map(|(top, class)| protected::on_the_way(&watched, top, class)).collect();
        watched.extend(on_the_way);
        if !self.in_slot {
            watched.push(Watched::directory(&self.workspace, Class::Settings));
        }
        for Guarded { path, below, data, .. } in &self.guarded {
            let (path, data) = (path.into(), data.clone());
            watched.push(Watched {
                path,
                class: Class::Agent,
                below: *below,
                itself: *below,
                data,
            });
        }
        if scope.private {
            let files = ["state.json", "bin/ralph"].map(|name| state.directory().join(name));
            watched.extend(files.map(|path| Watched::file(path, Class::Private)));
            watched.push(Watched::below(state.sessions(), Class::Private));
            let (path, data) = (state.directory().into(), written_meanwhile());
            watched.push(Watched { path, class: Class::Private, below: true, itself: true, data });
        }
        let logs = self.home.iter().flat_map(|home| [home.join("runs"), home.join("ralph.log")]);
        let exempt = logs.map(PathBuf::from).collect();
        BaselineScope { watched, tree: &self.workspace, exempt, scope }
    }

    pub(super) fn gits(&self, program: &GitProgram) -> Vec<Git> {
        self.places.iter().map(|place| Git::at(program.clone(), place.clone())).collect()
    }

    /// Takes the baseline before the run.
    pub(crate) fn take(
        &self,
        baseline: &mut Baseline,
        state: &State,
        program: &dyn Fn() -> GitProgram,
    ) -> Result<(), PathError> {
        if self.in_force == InForce::Off {
            return Ok(());
        }
        let field = self.field(state);
        let gits = if field.scope.tree { self.gits(&program()) } else { Vec::new() };
        baseline.take(&field, &gits)
    }

    /// Compares after the run, and does what follows.
    ///
    /// `before_repair` is called before anything is put back: a comparison after a crash in the middle of that would miss
    /// what is back in its place already.
    pub(crate) fn settle(
        &self,
        baseline: &mut Baseline,
        state: &State,
        program: &dyn Fn() -> GitProgram,
        before_repair: &dyn Fn(),
    ) -> BoundaryReport {
        self.settle_since(None, baseline, state, program, before_repair)
    }

    fn settle_since(
        &self,
        gone: Option<FileTime>,
        baseline: &mut Baseline,
        state: &State,
        program: &dyn Fn() -> GitProgram,
        before_repair: &dyn Fn(),
    ) -> BoundaryReport {
        if self.in_force == InForce::Off {
            return BoundaryReport::default();
        }
        let displaced = state.directory().join("displaced").join(&self.run);
        let mut saver = Saver::new(displaced, &self.workspace);
        let mut report = BoundaryReport::default();
        for (path, before) in &self.git_dirs {
            if inode(path) != Some(*before) {
                before_repair();
                let found = BoundaryFinding { path: path.to_string(), what: FindingKind::Changed };
                report.violations.push(found.clone());
                let returned = return_directory(path, *before, &mut saver);
                if returned { report.put_back.push(found) } else { report.left.push(found) }
            }
        }
        let made = self.make_git_dirs(gone, baseline, state, program, &mut saver, before_repair);
        self.unblock_git(before_repair, &mut saver, &mut report);
        // Before anything is compared: home is what its branch has.
        let tips = self.return_refs(gone, state, program, before_repair, &mut report);
        Watch::complete_git_dirs(&made, program, &mut report);
        self.return_home(before_repair, &mut saver, &mut report);
        let differences = baseline.compare(&self.field(state));
        if self.in_force == InForce::Detect && state.journal_length() < self.journal {
            let found =
                BoundaryFinding { path: state.journal().to_string(), what: FindingKind::Changed };
            report.left.push(found.clone());
            report.violations.push(found);
        }
        if differences.is_empty() {
            report.saved_in = saver.used().map(ToOwned::to_owned);
            self.return_tips(program, before_repair, &mut report);
            return report;
        }
        let settlement = Settlement {
            watch: self,
            gone,
            baseline,
            state,
            writable: canonical(&self.writable),
            saver,
            report,
            objects: HashMap::new(),
            undone: BTreeSet::new(),
            tips,
            program,
            before_repair,
            other_branch: self.other_branch(program),
        };
        let mut report = settlement.run(differences);
        self.return_tips(program, before_repair, &mut report);
        report
    }

    /// Moves home back if the run moved it aside, and takes a link or a file away that it put there. What became of one
    /// that is gone, its files tell.
    fn return_home(
        &self,
        before_repair: &dyn Fn(),
        saver: &mut Saver<'_>,
        report: &mut BoundaryReport,
    ) {
        let (Some(home), Some(before)) = (&self.home, self.home_inode) else { return };
        let could_move = !self.in_force.is_kernel()
            || canonical(&self.writable)
                .iter()
                .any(|granted| home.starts_with(granted) && home != granted);
        if !could_move || inode(home) == Some(before) {
            return;
        }
        before_repair();
        let is_something = std::fs::symlink_metadata(home).is_ok();
        let is_displaced = is_something && inode(home).is_none();
        // Its files are made again below a directory of its own, not below where a link leads.
        let returned = return_directory(home, before, saver)
            || is_displaced
                && saver.put_away(home.as_std_path()).is_ok()
                && std::fs::create_dir(home).is_ok();
        if returned || is_displaced {
            let path = home.strip_prefix(&self.workspace).unwrap_or(home).to_string();
            let found = BoundaryFinding { path, what: FindingKind::Changed };
            report.violations.push(found.clone());
            if returned { report.put_back.push(found) } else { report.left.push(found) }
        }
    }

    /// Returns home's files, and `ralph.toml`, as the commit that is checked out has them, if the run left another branch
    /// checked out than the one that it began on.
    fn other_branch(&self, program: &dyn Fn() -> GitProgram) -> Option<HashMap<PathBuf, Oid>> {
        let mut found = HashMap::new();
        let mut is_other = false;
        for place in &self.places {
            let before = self.refs.iter().find(|known| known.common_dir == place.common_dir)?;
            let (Some(root), Some(head)) = (&place.worktree, head_of(place)) else { continue };
            if before.head.as_ref() == Some(&head) {
                continue;
            }
            is_other = true;
            let git = Git::at(program(), place.clone());
            let head = git.head().ok()?;
            for file in git.tree(head.id()?).ok()? {
                found.insert(root.as_std_path().join(&file.path), file.id);
            }
        }
        is_other.then_some(found)
    }

    /// Compares what the run of a killed Ralph left with the baseline that was recorded before it. What was changed after
    /// the last process of the run had ended is kept: the run cannot have done it. `None` where the baseline is damaged: what
    /// is missing from it would count as added, and be put away.
    pub(crate) fn settle_abandoned(
        &self,
        gone: Option<FileTime>,
        state: &State,
        program: &dyn Fn() -> GitProgram,
        before_repair: &dyn Fn(),
    ) -> Result<Option<BoundaryReport>, PathError> {
        // Where there is none and none was taken, there was nothing to watch.
        let baseline = Baseline::load(&self.baseline);
        let length = baseline.as_ref().map_or(0, Baseline::length);
        let mut report = match baseline {
            Ok(mut baseline) if length >= self.baseline_length => {
                self.settle_since(gone, &mut baseline, state, program, before_repair)
            }
            _ if self.baseline_length == 0 => BoundaryReport::default(),
            _ => {
                let loss = "what its run changed is not compared with what was before";
                if std::fs::symlink_metadata(&self.baseline).is_ok() {
                    state.set_aside(&self.baseline, loss)?;
                }
                return Ok(None);
            }
        };
        if let Ok(outside) = Outside::load(&file_beside(&self.baseline)) {
            outside.settle(gone, before_repair, &mut report);
        }
        Ok(Some(report))
    }
}

/// Whether what is at a path was changed after everything of a run was gone.
pub(super) fn is_later(gone: Option<FileTime>, path: &Path) -> bool {
    gone.is_some_and(|gone| gone.is_before_change_of(path))
}

/// Whether a ref was changed later. For one that is packed or was deleted, the time of `packed-refs` counts.
pub(super) fn is_ref_later(gone: Option<FileTime>, place: &RepositoryLocation, name: &str) -> bool {
    let loose = place.common_dir.join(name);
    is_later(gone, loose.as_std_path())
        || !loose.exists() && is_later(gone, place.common_dir.join("packed-refs").as_std_path())
}

/// Finds the inodes of the git directories that a run could replace.
pub(crate) fn inodes(places: &[RepositoryLocation]) -> Vec<(Utf8PathBuf, u64)> {
    let dirs = places.iter().map(|place| &place.common_dir);
    dirs.filter_map(|dir| Some((dir.clone(), inode(dir)?))).collect()
}

/// Returns which directory it is; `None` if it is none.
pub(crate) fn inode(directory: impl AsRef<Path>) -> Option<u64> {
    let found = std::fs::symlink_metadata(directory).ok()?;
    found.is_dir().then(|| std::os::unix::fs::MetadataExt::ino(&found))
}

/// Restores a directory that was moved away, if it is still next to its path, and returns whether it did.
fn return_directory(path: &Utf8Path, before: u64, saver: &mut Saver<'_>) -> bool {
    let beside = path.parent().and_then(|parent| std::fs::read_dir(parent).ok());
    let mut moved = beside.into_iter().flatten().flatten().map(|entry| entry.path());
    let moved = moved.find(|candidate| inode(candidate) == Some(before));
    moved.is_some_and(|moved| {
        saver.put_away(path.as_std_path()).is_ok() && std::fs::rename(moved, path).is_ok()
    })
}

fn canonical(paths: &[String]) -> Vec<PathBuf> {
    paths.iter().filter_map(|path| Path::new(path).canonicalize().ok()).collect()
}

/// Records that the harness itself wrote a state file, on somebody's behalf: a comparison that finds it so leaves it.
///
/// To be called before the file is written, so that no run ends between the two.
pub fn vouch(
    state: &State,
    home: &Utf8Path,
    path: &Utf8Path,
    content: &[u8],
) -> Result<(), PathError> {
    vouch_for(state, home, path, &digest::of_bytes(content))
}

/// The same for callers that have the digest of the content.
pub(crate) fn vouch_for(
    state: &State,
    home: &Utf8Path,
    path: &Utf8Path,
    digest: &str,
) -> Result<(), PathError> {
    write_note(&state.vouched(path), digest)?;
    vouch_elsewhere(state, home, path, digest);
    Ok(())
}

/// Leaves the note also with a Ralph that is at work in this home with other private state. Where that cannot be done,
/// the change cannot be attributed, and the person is asked about it.
fn vouch_elsewhere(state: &State, home: &Utf8Path, path: &Utf8Path, digest: &str) -> Option<()> {
    let OwnerPlace { home: theirs, state: directory } = place_of_owner(&locked_directory(home))?;
    if directory == state.directory() {
        return None;
    }
    let other = State::at(&directory)?;
    // A process of its own run does not speak for a person, wherever it keeps state.
    if other.run_guarded_by(ancestors).ok()?.is_some() {
        return None;
    }
    write_note(&other.vouched(&theirs.join(path.strip_prefix(home).ok()?)), digest).ok()
}

#[cfg(test)]
#[path = "compare_tests.rs"]
mod tests;
