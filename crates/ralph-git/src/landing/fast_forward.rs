//! Fast-forwards a worktree of the person's with its branch: files, then the branch, then the index.
//!
//! `index.lock` is held throughout, so that no git of the person's sees an intermediate state. The intent is recorded
//! first, in `ralph-fast-forward` of the git directory; only with that note is a torn, missing or already written file
//! treated as ours after a crash. A crash
//!
//! - before the branch moves leaves files with the target's content: they are no obstacle the next time;
//! - after it leaves the index behind the branch: [`FastForward::complete`] updates it.
//!
//! A file is an obstacle if it has uncommitted changes or is untracked, unless it already has the target's content.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use camino::Utf8PathBuf;
use ralph_proc::fault;

use super::super::call::{Call, UserConfig, path_bytes};
use super::super::clearing::{FileError, remove};
use super::super::commits::{CommitError, CommitSteps, ScratchIndex, joined, refuse_filtered};
use super::super::differing::{IndexCommand, differing, refresh};
use super::super::drivers::Drivers;
use super::super::lock::LockFile;
use super::super::parse::{ChangeKind, PathChange};
use super::super::settings::Unfit;
use super::super::{Git, GitError, LONG, Oid, regular_file};
use super::LandingError;
use super::follow::{WaitReason, root_of, waits_for};
use super::plain_forward::PlainForward;
use super::transaction::RefTransaction;

/// How long to wait for a git of the person's.
const PATIENCE: Duration = Duration::from_secs(2);

/// Git's messages when it refuses to overwrite something.
const REFUSALS: &[&str] =
    &["overwritten by", "not uptodate", "would lose", "removed by", "overlaps", "cannot checkout"];

/// The result of an attempt to move a branch.
pub(super) enum Forwarded {
    Done,
    /// The branch moved meanwhile.
    Lost,
    Waits {
        files: Vec<PathBuf>,
        worktree: PathBuf,
        reason: WaitReason,
    },
}

/// A branch that is checked out in a worktree, and its target.
pub(super) struct FastForward<'a> {
    /// The worktree that has it checked out.
    pub(super) git: &'a Git,
    pub(super) branch: &'a str,
    pub(super) from: &'a Oid,
    pub(super) to: &'a Oid,
}

/// Which of the files have the target's content because we wrote it.
enum Begun {
    /// None.
    Not,
    /// Those that were written in process: all but these, which had it before.
    Plainly { theirs: Vec<PathBuf> },
    /// It is not known, because that attempt was killed.
    Earlier,
}

/// The state of the touched files.
#[derive(Default)]
struct Findings {
    /// They would be overwritten.
    in_the_way: Vec<PathBuf>,
    /// They already have the target's content.
    equal: Vec<PathBuf>,
    /// An earlier attempt was killed while writing them.
    torn: Vec<PathBuf>,
}

impl FastForward<'_> {
    /// Returns the obstacles, without moving anything; git itself may find more.
    pub(super) fn obstacle(&self) -> Result<Option<(Vec<PathBuf>, WaitReason)>, LandingError> {
        let drivers = Drivers::of(self.git)?;
        let touched = self.git.plain_changes(self.from, self.to)?;
        if let Some((path, reason)) = self.filtered(&drivers, &touched)? {
            return Ok(Some((vec![path], reason)));
        }
        let git_dir = &self.git.place().git_dir;
        if git_dir.join("index.lock").exists() {
            return Ok(Some((Vec::new(), WaitReason::Busy)));
        }
        let index = ScratchIndex::copy_of_index(git_dir)?;
        let bench = Bench { git: self.git, drivers: &drivers, index: &index };
        let unmerged = bench.unmerged()?;
        if !unmerged.is_empty() {
            return Ok(Some((unmerged, WaitReason::Unmerged)));
        }
        let was_killed = Note::read(self.git).is_some_and(|note| note.to == *self.to);
        let files = bench.examine(self.from, &touched, was_killed)?.in_the_way;
        Ok((!files.is_empty()).then_some((files, WaitReason::Uncommitted)))
    }

    /// Returns a file that only a filter of the person's could write.
    fn filtered(
        &self,
        drivers: &Drivers,
        touched: &[PathChange],
    ) -> Result<Option<(PathBuf, WaitReason)>, LandingError> {
        let paths: Vec<PathBuf> = touched.iter().map(|change| change.path.clone()).collect();
        match refuse_filtered(self.git, drivers, &paths) {
            Ok(()) => Ok(None),
            Err(CommitError::NeedsFilter { path, filter }) => {
                Ok(Some((path, WaitReason::NeedsFilter { filter })))
            }
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn run(&self) -> Result<Forwarded, LandingError> {
        let worktree = root_of(self.git);
        let waits =
            |files, reason| Ok(Forwarded::Waits { files, worktree: worktree.clone(), reason });
        let drivers = Drivers::of(self.git)?;
        let touched = self.git.plain_changes(self.from, self.to)?;
        if let Some((path, reason)) = self.filtered(&drivers, &touched)? {
            return waits(vec![path], reason);
        }
        let git_dir = &self.git.place().git_dir;
        let lock = match LockFile::take(git_dir.join("index.lock").as_std_path(), PATIENCE) {
            Ok(lock) => lock,
            Err(error) => return waits(Vec::new(), waits_for(error)?),
        };
        ScratchIndex::remove_abandoned(git_dir);
        let was_killed = Note::read(self.git).is_some_and(|note| note.to == *self.to);
        let plain = if was_killed {
            Err(Begun::Earlier)
        } else {
            self.forward_plainly(&drivers, &touched)?
        };
        let index = match plain {
            Ok(index) => index,
            Err(begun) => match self.forward(&drivers, &touched, &begun)? {
                Ok(index) => index,
                Err((files, reason)) => return waits(files, reason),
            },
        };
        let bench = Bench { git: self.git, drivers: &drivers, index: &index };
        fault::after_write();
        let mut refs =
            RefTransaction::with(self.git, "ralph: follow landed work", self.to, &drivers);
        refs.update(self.branch, Some(self.to), Some(self.from));
        if !refs.commit()? {
            // Back to the branch's old value: the index lock kept others from committing in this worktree.
            bench.switch(self.to, self.from)?;
            Note::remove(self.git)?;
            return Ok(Forwarded::Lost);
        }
        index.become_index(git_dir)?;
        fault::after_write();
        drop(lock);
        Note::remove(self.git)?;
        Ok(Forwarded::Done)
    }

    /// Writes files and a new index in process, in a plain case; else git has to do the rest.
    fn forward_plainly(
        &self,
        drivers: &Drivers,
        touched: &[PathChange],
    ) -> Result<Result<ScratchIndex, Begun>, LandingError> {
        let Ok(plain) = PlainForward::examine(self.git, self.from, touched) else {
            return Ok(Err(Begun::Not));
        };
        Note { from: self.from.clone(), to: self.to.clone() }.write(self.git)?;
        fault::after_write();
        // Syncing the note takes time, in which a person may have saved a file.
        if !plain.is_current() {
            Note::remove(self.git)?;
            return Ok(Err(Begun::Not));
        }
        let index = ScratchIndex::absent(&self.git.place().git_dir);
        let bench = Bench { git: self.git, drivers, index: &index };
        let check_out = |few: &ScratchIndex| {
            let made = bench.call(few, &["checkout-index", "--quiet", "--all"], b"");
            made.map(|_| ()).map_err(|_| Unfit("git does not write the files"))
        };
        let written = plain.write(&index, &check_out);
        Ok(match written {
            Ok(()) => Ok(index),
            Err(_) => Err(Begun::Plainly { theirs: plain.done() }),
        })
    }

    /// Has git write files and a new index, or returns what is in the way.
    fn forward(
        &self,
        drivers: &Drivers,
        touched: &[PathChange],
        begun: &Begun,
    ) -> Result<Result<ScratchIndex, (Vec<PathBuf>, WaitReason)>, LandingError> {
        let index = ScratchIndex::copy_of_index(&self.git.place().git_dir)?;
        let bench = Bench { git: self.git, drivers, index: &index };
        let unmerged = bench.unmerged()?;
        if !unmerged.is_empty() {
            return Ok(Err((unmerged, WaitReason::Unmerged)));
        }
        let findings = bench.examine(self.from, touched, !matches!(begun, Begun::Not))?;
        let theirs: Option<&[PathBuf]> = match begun {
            Begun::Not => Some(&findings.equal),
            Begun::Plainly { theirs } => Some(theirs),
            Begun::Earlier => None,
        };
        if !findings.in_the_way.is_empty() {
            return Ok(Err((findings.in_the_way, WaitReason::Uncommitted)));
        }
        Note { from: self.from.clone(), to: self.to.clone() }.write(self.git)?;
        fault::after_write();
        bench.stage(touched, &findings)?;
        if let Err(error) = bench.switch(self.from, self.to) {
            // Only if git refuses at the beginning has nothing changed.
            let GitError::Failed { stderr, .. } = &error else { return Err(error.into()) };
            if REFUSALS.iter().any(|text| stderr.contains(text)) {
                Note::remove(self.git)?;
            } else if let Some(theirs) = theirs {
                // What cannot be taken back is ours by the note.
                let _ = self.take_back(drivers, touched, theirs);
            }
            return Ok(Err((Vec::new(), waits_for(error)?)));
        }
        Ok(Ok(index))
    }

    /// Takes back what was written of an attempt that git cannot complete; files that had the target's content before stay.
    fn take_back(
        &self,
        drivers: &Drivers,
        touched: &[PathChange],
        theirs: &[PathBuf],
    ) -> Result<(), LandingError> {
        let index = ScratchIndex::copy_of_index(&self.git.place().git_dir)?;
        let bench = Bench { git: self.git, drivers, index: &index };
        let found = bench.examine(self.from, touched, true)?;
        let written = |path: &PathBuf| {
            !theirs.contains(path) && (found.equal.contains(path) || found.torn.contains(path))
        };
        let mut changed = Vec::new();
        for change in touched.iter().filter(|change| written(&change.path)) {
            if change.kind == ChangeKind::Added {
                remove(root_of(self.git).join(&change.path))?;
            } else {
                changed.push(change.path.clone());
            }
        }
        let args = ["checkout-index", "--force", "--quiet", "-z", "--stdin"];
        bench.call(&index, &args, &joined(&changed))?;
        Note::remove(self.git)
    }

    /// Updates the index after a crash right after the branch had moved.
    pub(super) fn complete(git: &Git, landed: &Oid) -> Result<(), LandingError> {
        let Some(note) = Note::read(git) else { return Ok(()) };
        if note.to != *landed {
            return Note::remove(git);
        }
        let git_dir = &git.place().git_dir;
        let lock = LockFile::take(git_dir.join("index.lock").as_std_path(), PATIENCE)?;
        ScratchIndex::remove_abandoned(git_dir);
        let index = ScratchIndex::copy_of_index(git_dir)?;
        let drivers = Drivers::of(git)?;
        let bench = Bench { git, drivers: &drivers, index: &index };
        let touched = git.plain_changes(&note.from, &note.to)?;
        let staged = bench.staged(&note.from, &touched)?;
        // Anything staged differently is the person's by now, and so is every file.
        let behind = touched.iter().filter(|change| !staged.contains_key(change.path.as_path()));
        let behind = behind.map(|change| change.path.clone()).collect();
        bench.stage(&touched, &Findings { equal: behind, ..Findings::default() })?;
        index.become_index(git_dir)?;
        fault::after_write();
        drop(lock);
        Note::remove(git)
    }
}

/// A worktree with a temporary index.
struct Bench<'a> {
    git: &'a Git,
    drivers: &'a Drivers,
    index: &'a ScratchIndex,
}

impl Bench<'_> {
    fn call(&self, index: &ScratchIndex, args: &[&str], input: &[u8]) -> Result<Vec<u8>, GitError> {
        self.run(index, &IndexCommand { args, paths: &[], input, accepted: &[] })
    }

    fn run(&self, index: &ScratchIndex, command: &IndexCommand<'_>) -> Result<Vec<u8>, GitError> {
        let call = Call::new(command.args)
            .person(UserConfig::Heard)
            .configs(self.drivers.overrides())
            .env("GIT_INDEX_FILE", index.name())
            .input(command.input)
            .timeout(LONG)
            .accept(command.accepted);
        let call = command.paths.iter().fold(call, |call, path| call.name(path.as_os_str()));
        Ok(self.git.call(call)?.stdout)
    }

    /// Returns how the index differs from a commit, among the touched files.
    fn staged<'t>(
        &self,
        commit: &Oid,
        touched: &'t [PathChange],
    ) -> Result<HashMap<&'t Path, PathChange>, GitError> {
        let wanted: HashSet<&'t Path> = touched.iter().map(|one| one.path.as_path()).collect();
        let steps = CommitSteps { git: self.git, drivers: self.drivers, base: commit };
        let staged = steps.staged(self.index, &wanted)?;
        let known = staged.into_iter().filter_map(|change| {
            wanted.get(change.path.as_path()).map(|path| (*path, change.clone()))
        });
        Ok(known.collect())
    }

    /// Returns the files that are unmerged in the index. With any, git moves no other either.
    fn unmerged(&self) -> Result<Vec<PathBuf>, GitError> {
        let output = self.call(self.index, &["ls-files", "-z", "--unmerged"], b"")?;
        let path = |record: &[u8]| {
            let tab = memchr::memchr(b'\t', record)?;
            Some(PathBuf::from(OsStr::from_bytes(&record[tab + 1..])))
        };
        // One record a stage, sorted by path.
        let mut paths: Vec<PathBuf> = output.split(|byte| *byte == 0).filter_map(path).collect();
        paths.dedup();
        Ok(paths)
    }

    /// Determines which of the touched files are obstacles.
    fn examine(
        &self,
        from: &Oid,
        touched: &[PathChange],
        was_killed: bool,
    ) -> Result<Findings, LandingError> {
        let paths: Vec<PathBuf> = touched.iter().map(|change| change.path.clone()).collect();
        let dirty = differing(&|command| self.run(self.index, command), Some(&paths))?;
        let dirty: HashSet<PathBuf> = dirty.into_iter().map(|change| change.path).collect();
        let staged = self.staged(from, touched)?;
        let root = root_of(self.git);
        let (mut findings, mut questions) = (Findings::default(), Vec::new());
        for change in touched {
            match staged.get(change.path.as_path()) {
                Some(there) if is_same(there, change) => {}
                Some(_) => findings.in_the_way.push(change.path.clone()),
                None if dirty.contains(&change.path) => questions.push(change),
                None if change.kind == ChangeKind::Added => {
                    match obstacle(&root, &change.path) {
                        Some(path) if path == change.path => questions.push(change),
                        // A tracked file that is removed makes room for a directory; git checks that.
                        Some(path) if !touched.iter().any(|other| other.path == path) => {
                            findings.in_the_way.push(path);
                        }
                        _ => {}
                    }
                }
                None => {}
            }
        }
        self.answer(&questions, was_killed, &mut findings)?;
        findings.in_the_way.sort();
        findings.in_the_way.dedup();
        Ok(findings)
    }

    /// Compares files that differ from the index with their target content.
    fn answer(
        &self,
        questions: &[&PathChange],
        was_killed: bool,
        findings: &mut Findings,
    ) -> Result<(), LandingError> {
        if questions.is_empty() {
            return Ok(());
        }
        let targets = ScratchIndex::absent(&self.git.place().git_dir);
        let kept = questions.iter().filter(|change| change.id.is_some()).copied();
        self.call(&targets, &["update-index", "-z", "--index-info"], &index_info(self.git, kept)?)?;
        let differing = differing(&|command| self.run(&targets, command), None)?;
        let differing: HashSet<PathBuf> = differing.into_iter().map(|change| change.path).collect();
        let root = root_of(self.git);
        for change in questions {
            let file = root.join(&change.path);
            let is_absent = fs::symlink_metadata(&file).is_err();
            let is_equal = match &change.id {
                Some(_) => !differing.contains(&change.path),
                None => is_absent,
            };
            if is_equal {
                findings.equal.push(change.path.clone());
            } else if was_killed && (is_absent || self.is_torn(&file, change)?) {
                findings.torn.push(change.path.clone());
            } else {
                findings.in_the_way.push(change.path.clone());
            }
        }
        Ok(())
    }

    /// Whether a file is a prefix of its target content.
    fn is_torn(&self, file: &Path, change: &PathChange) -> Result<bool, LandingError> {
        let Some(id) = &change.id else { return Ok(false) };
        let Ok(Some(found)) = regular_file::read_regular(file) else { return Ok(false) };
        let blobs = self.git.blobs(std::slice::from_ref(id))?;
        Ok(blobs.get(id).is_some_and(|whole| whole.starts_with(&found)))
    }

    /// Adds files to the index in their target state, and rewrites those torn by a killed attempt.
    fn stage(&self, touched: &[PathChange], findings: &Findings) -> Result<(), LandingError> {
        let wanted: HashSet<&PathBuf> = findings.equal.iter().chain(&findings.torn).collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let staged = touched.iter().filter(|change| wanted.contains(&change.path));
        let info = index_info(self.git, staged)?;
        self.call(self.index, &["update-index", "-z", "--index-info"], &info)?;
        if !findings.torn.is_empty() {
            let there = |path: &&PathBuf| {
                touched.iter().any(|change| change.path == **path && change.id.is_some())
            };
            let torn: Vec<PathBuf> = findings.torn.iter().filter(there).cloned().collect();
            let args = ["checkout-index", "--force", "--quiet", "-z", "--stdin"];
            self.call(self.index, &args, &joined(&torn))?;
        }
        let kept = touched.iter().filter(|one| one.id.is_some() && wanted.contains(&one.path));
        let kept: Vec<PathBuf> = kept.map(|change| change.path.clone()).collect();
        Ok(refresh(&|command| self.run(self.index, command), &kept)?)
    }

    /// Writes the files that differ between two commits, all or none; git refuses to overwrite uncommitted changes.
    fn switch(&self, from: &Oid, to: &Oid) -> Result<(), GitError> {
        let args = ["read-tree", "-m", "-u", from.as_str(), to.as_str()];
        self.call(self.index, &args, b"").map(|_| ())
    }
}

/// Whether two changes result in the same file.
fn is_same(one: &PathChange, other: &PathChange) -> bool {
    one.id == other.id && (one.id.is_none() || one.modes.1 == other.modes.1)
}

/// Returns what is at a path, or in place of a directory on the way to it.
fn obstacle(root: &Path, path: &Path) -> Option<PathBuf> {
    let mut ancestors: Vec<&Path> = path.ancestors().collect();
    // The first is the path itself, the last the root.
    ancestors.pop();
    for place in ancestors.into_iter().rev() {
        match fs::symlink_metadata(root.join(place)) {
            Err(_) => return None,
            Ok(found) if found.is_dir() => {}
            Ok(_) => return Some(place.to_owned()),
        }
    }
    // A directory at the path of the file: git checks whether anything in it would be lost.
    None
}

/// Formats changes for `update-index --index-info`.
fn index_info<'c>(
    git: &Git,
    changes: impl Iterator<Item = &'c PathChange>,
) -> Result<Vec<u8>, GitError> {
    let zero = git.object_format()?.zero();
    let mut info = Vec::new();
    for change in changes {
        let line = match &change.id {
            Some(id) => format!("{} {id}\t", change.modes.1),
            None => format!("0 {zero}\t"),
        };
        info.extend(line.bytes());
        info.extend(path_bytes(&change.path).iter().copied().chain([0]));
    }
    Ok(info)
}

/// Records that a worktree is being moved, from the first written file until the index is updated.
struct Note {
    from: Oid,
    to: Oid,
}

impl Note {
    fn file(git: &Git) -> Utf8PathBuf {
        git.place().git_dir.join("ralph-fast-forward")
    }

    fn read(git: &Git) -> Option<Note> {
        let bytes = regular_file::read_regular(Note::file(git).as_std_path()).ok().flatten()?;
        let mut ids = bytes.trim_ascii_end().split(|byte| *byte == b' ').map(Oid::parse);
        Some(Note { from: ids.next()??, to: ids.next()?? })
    }

    fn write(&self, git: &Git) -> Result<(), LandingError> {
        let path = Note::file(git);
        let failed = |source| FileError::new("write", &path, source);
        remove(&path)?;
        let text = format!("{} {}\n", self.from, self.to);
        fs::write(&path, text).map_err(failed)?;
        let synced = fs::File::open(&path).and_then(|file| file.sync_all());
        Ok(synced.map_err(failed)?)
    }

    fn remove(git: &Git) -> Result<(), LandingError> {
        Ok(remove(Note::file(git))?)
    }
}
