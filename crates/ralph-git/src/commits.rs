//! Ralph's own commits: exactly the given paths, whatever else is staged or dirty.
//!
//! The order makes it safe. `index.lock` is taken first, so that no other git changes the index meanwhile and a locked
//! index is detected before anything has changed. Then the paths are added from the working tree to a copy of the
//! index; their changes against `HEAD` go into a second, temporary index that equals `HEAD` otherwise; its tree is
//! committed; the branch moves by compare-and-swap; last the copy becomes the index. A crash before the branch moves
//! changes nothing; one right after it leaves the paths to be staged again, which the next commit of them does.
//!
//! A path whose *staged* content is neither that of `HEAD` nor that of the working tree is committed as in the working
//! tree, like `git commit -- path`; the staged version is returned in [`Committed::displaced`] for the caller to save,
//! its object exists. A file hidden from git (skip-worktree, assume-unchanged) is committed if it is named and exists;
//! files excluded by a sparse checkout are not treated as removed. Unmerged paths are refused. So are paths that need a
//! filter (LFS), because no filter runs: a large file would be committed raw. Hooks do not run. The commit has one
//! parent, even during a merge.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use ralph_proc::fault;

use super::call::{Call, UserConfig, path_bytes, path_from};
use super::drivers::Drivers;
use super::identity::Identity;
use super::lock::LockFile;
use super::new_commit::NewCommit;
use super::parse::{ChangeKind, PathChange, parse_raw_diff};
use super::replaced::Replaced;
use super::{Git, GitError, Head, Oid, unexpected};

/// Whether a commit is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signing {
    Unsigned,
    /// With the key and the program of the person's own configuration.
    AsThePersonDoes,
}

impl Signing {
    /// Interprets a setting that allows or forbids signing.
    pub const fn allowed(is_allowed: bool) -> Signing {
        if is_allowed { Signing::AsThePersonDoes } else { Signing::Unsigned }
    }
}

/// The parameters of a commit.
#[derive(Clone, Debug)]
pub struct CommitRequest<'a> {
    /// Files and directories, relative to the root of the working tree. A directory includes its tracked and its
    /// unignored files; a file is included even if ignored, and a missing file is committed as removed.
    pub paths: &'a [PathBuf],
    pub message: &'a str,
    pub signing: Signing,
    /// How long to wait for another holder of `index.lock`.
    pub patience: Duration,
}

/// A created commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    pub id: Oid,
    pub parent: Option<Oid>,
    /// Its branch; `None` if `HEAD` is detached.
    pub branch: Option<String>,
    /// The parent's content at the path of a replaced file, if known.
    pub(crate) replaced: Option<Oid>,
    pub(crate) paths: Vec<PathBuf>,
    /// Staged versions that are neither in the commit nor in the working tree.
    pub displaced: Vec<(PathBuf, Oid)>,
}

/// A commit could not be made; nothing has changed.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    #[error("`{}` has an unresolved merge conflict", path.display())]
    Unmerged { path: PathBuf },
    #[error("`{}` needs the filter `{filter}`, which is not run", path.display())]
    NeedsFilter { path: PathBuf, filter: String },
    #[error("`{}` is not a path inside the work tree", path.display())]
    Outside { path: PathBuf },
    #[error("the branch moved while the commit was made")]
    Moved,
    #[error("`{}` is staged as an earlier commit has it", path.display())]
    Older { path: PathBuf },
    #[error("`{}` was replaced by another program before it was committed", path.display())]
    Replaced { path: PathBuf },
    #[error("the commit could not be signed, as `git.sign` asks")]
    NotSigned(#[source] GitError),
    #[error("cannot write `{}`", path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(transparent)]
    Git(#[from] GitError),
}

/// Commits the given paths as in the working tree; `None` if `HEAD` already has them.
pub fn commit_paths(
    git: &Git,
    request: &CommitRequest<'_>,
) -> Result<Option<Committed>, CommitError> {
    commit_paths_as(git, request, None)
}

/// Commits the given paths; a replaced one only in its written version.
pub(super) fn commit_paths_as(
    git: &Git,
    request: &CommitRequest<'_>,
    replaced: Option<Replaced<'_>>,
) -> Result<Option<Committed>, CommitError> {
    let drivers = Drivers::of(git)?;
    let paths = expand(git, &drivers, request.paths)?;
    refuse_filtered(git, &drivers, &paths)?;
    let wanted: HashSet<&Path> = paths.iter().map(PathBuf::as_path).collect();
    let git_dir = &git.place().git_dir;
    let lock = LockFile::take(git_dir.join("index.lock").as_std_path(), request.patience)?;
    ScratchIndex::remove_abandoned(git_dir);
    let head = git.head()?;
    let base = match head.id() {
        Some(id) => id.clone(),
        None => git.object_format()?.empty_tree(),
    };
    let index = ScratchIndex::copy_of_index(git_dir)?;
    let bench = CommitSteps { git, drivers: &drivers, base: &base };

    let before = bench.staged(&index, &wanted)?;
    if let Some(torn) = before.iter().find(|change| change.kind == ChangeKind::Unmerged) {
        return Err(CommitError::Unmerged { path: torn.path.clone() });
    }
    if let Some(replaced) = replaced {
        for (path, staged) in before.iter().filter_map(|one| Some((&one.path, one.id.as_ref()?))) {
            replaced.wait_for_switch(git, &head, path, &staged.to_id())?;
        }
    }
    bench.look_again(&index, &named(git, request.paths))?;
    bench.take_in(&index, &paths)?;
    if let Some(replaced) = replaced {
        // A later replacement finds the old content committed.
        paths.iter().try_for_each(|path| replaced.check_file(git, path))?;
    }
    let after = bench.staged(&index, &wanted)?;
    if after.is_empty() {
        if !before.is_empty() {
            index.become_index(git_dir)?;
        }
        return Ok(None);
    }
    let tree = bench.tree_of(git_dir, &after)?;
    let parents: Vec<&Oid> = head.id().into_iter().collect();
    let made = NewCommit {
        author: None,
        tree: &tree,
        parents: &parents,
        message: request.message,
        signing: request.signing,
    };
    let id = made.write(git, git, &drivers)?;
    bench.advance(&head, &id, request.message)?;
    fault::after_write();
    index.become_index(git_dir)?;
    fault::after_write();
    drop(lock);
    let displaced = before.iter().filter_map(|staged| {
        let now = after.iter().find(|change| change.path == staged.path);
        let kept = now.is_some_and(|change| change.id == staged.id);
        staged.id.clone().filter(|_| !kept).map(|id| (staged.path.clone(), id))
    });
    Ok(Some(Committed {
        id,
        parent: head.id().cloned(),
        branch: head.branch().map(str::to_owned),
        replaced: None,
        displaced: displaced.collect(),
        paths: after.into_iter().map(|change| change.path).collect(),
    }))
}

/// The steps of a commit; each is one git call.
pub(super) struct CommitSteps<'a> {
    pub(super) git: &'a Git,
    pub(super) drivers: &'a Drivers,
    pub(super) base: &'a Oid,
}

impl CommitSteps<'_> {
    pub(super) fn call(
        &self,
        index: &ScratchIndex,
        args: &[&str],
        input: &[u8],
    ) -> Result<Vec<u8>, GitError> {
        let call = Call::new(args)
            .person(UserConfig::Heard)
            .configs(self.drivers.overrides())
            .config("core.fsync", "loose-object,reference,index")
            .env("GIT_INDEX_FILE", index.name())
            .input(input);
        Ok(self.git.call(call)?.stdout)
    }

    /// Returns how an index differs from `HEAD` at the given paths.
    pub(super) fn staged(
        &self,
        index: &ScratchIndex,
        wanted: &HashSet<&Path>,
    ) -> Result<Vec<PathChange>, GitError> {
        let mut args = vec!["diff-index", "--cached", "--raw", "-z", "--no-abbrev", "--no-renames"];
        args.extend(["--no-ext-diff", "--ita-invisible-in-index", self.base.as_str()]);
        let output = self.call(index, &args, b"")?;
        let mut changes = parse_raw_diff(&output).ok_or_else(|| unexpected(&args, &output))?;
        changes.retain(|change| wanted.contains(change.path.as_path()));
        Ok(changes)
    }

    /// Clears the flags that hide some of the files from git.
    fn look_again(&self, index: &ScratchIndex, files: &HashSet<&Path>) -> Result<(), GitError> {
        if files.is_empty() {
            return Ok(());
        }
        let output = self.call(index, &["ls-files", "-v", "-z"], b"")?;
        let (mut skipped, mut assumed) = (Vec::new(), Vec::new());
        for entry in output.split(|byte| *byte == 0) {
            let [tag, b' ', path @ ..] = entry else { continue };
            let path = path_from(path);
            if files.contains(path.as_path()) {
                if tag.is_ascii_lowercase() {
                    assumed.push(path.clone());
                }
                if tag.eq_ignore_ascii_case(&b's') {
                    skipped.push(path);
                }
            }
        }
        for (flag, paths) in [("--no-assume-unchanged", assumed), ("--no-skip-worktree", skipped)] {
            if !paths.is_empty() {
                self.call(index, &["update-index", flag, "-z", "--stdin"], &joined(&paths))?;
            }
        }
        Ok(())
    }

    /// Adds the paths from the working tree to an index.
    pub(super) fn take_in(&self, index: &ScratchIndex, paths: &[PathBuf]) -> Result<(), GitError> {
        let args = [
            "update-index",
            "--add",
            "--remove",
            "--ignore-skip-worktree-entries",
            "-z",
            "--stdin",
        ];
        self.call(index, &args, &joined(paths)).map(|_| ())
    }

    /// Writes the tree of `HEAD` with the changes.
    fn tree_of(&self, git_dir: &Utf8Path, changes: &[PathChange]) -> Result<Oid, CommitError> {
        let index = ScratchIndex::absent(git_dir);
        self.call(&index, &["read-tree", self.base.as_str()], b"")?;
        let mut input = Vec::new();
        for change in changes {
            let line = match &change.id {
                Some(id) => format!("{} {id}\t", change.modes.1),
                None => format!("0 {}\t", self.base),
            };
            input.extend(line.bytes());
            input.extend(path_bytes(&change.path));
            input.push(0);
        }
        self.call(&index, &["update-index", "-z", "--index-info"], &input)?;
        Ok(parse_id(&["write-tree"], &self.call(&index, &["write-tree"], b"")?)?)
    }

    fn advance(&self, head: &Head, id: &Oid, message: &str) -> Result<(), CommitError> {
        let old = match head.id() {
            Some(old) => old.to_string(),
            None => self.git.object_format()?.zero(),
        };
        let subject = message.lines().next().unwrap_or_default();
        let reason = format!("commit: {subject}");
        let identity = Identity::of(self.git, self.drivers);
        let args = ["update-ref", "-m", &reason, "HEAD", id.as_str(), &old];
        let mut call = Call::new(&args)
            .person(UserConfig::Heard)
            .configs(self.drivers.overrides())
            .config("core.fsync", "reference");
        for (name, value) in &identity.variables {
            call = call.env(name, value);
        }
        match self.git.call(call) {
            Ok(_) => Ok(()),
            Err(GitError::Failed { stderr, .. })
                if stderr.contains("but expected")
                    || stderr.contains("reference already exists") =>
            {
                Err(CommitError::Moved)
            }
            Err(error) => Err(error.into()),
        }
    }
}

pub(super) fn parse_id(args: &[&str], output: &[u8]) -> Result<Oid, GitError> {
    Oid::parse(output.trim_ascii()).ok_or_else(|| unexpected(args, output))
}

/// The prefix of temporary index files.
const SCRATCH: &str = "ralph-index-";

/// A temporary index; removed on drop.
pub(super) struct ScratchIndex {
    path: Utf8PathBuf,
}

impl ScratchIndex {
    /// Names a file next to the index, where a split index finds its shared half.
    pub(super) fn absent(git_dir: &Utf8Path) -> Self {
        static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path = git_dir.join(format!("{SCRATCH}{}-{number}", std::process::id()));
        let _ = fs::remove_file(&path);
        ScratchIndex { path }
    }

    /// Names another file next to one.
    pub(super) fn beside(other: &ScratchIndex) -> Self {
        ScratchIndex::absent(other.path.parent().unwrap_or(Utf8Path::new("")))
    }

    /// Removes leftovers of killed commits. While the index lock is held, no other process has one.
    pub(super) fn remove_abandoned(git_dir: &Utf8Path) {
        for entry in fs::read_dir(git_dir).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(SCRATCH) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// Copies the index.
    pub(super) fn copy_of_index(git_dir: &Utf8Path) -> Result<Self, CommitError> {
        let scratch = ScratchIndex::absent(git_dir);
        let copied = copy_index(&git_dir.join("index"), &scratch.path);
        match copied {
            Ok(()) => Ok(scratch),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(scratch),
            Err(source) => Err(CommitError::Write { path: scratch.path.clone().into(), source }),
        }
    }

    pub(super) fn name(&self) -> &str {
        self.path.as_str()
    }

    /// Replaces the index, whose lock is held.
    pub(super) fn become_index(self, git_dir: &Utf8Path) -> Result<(), CommitError> {
        let path = git_dir.join("index").into_std_path_buf();
        fs::rename(&self.path, &path).map_err(|source| CommitError::Write { path, source })
    }
}

impl Drop for ScratchIndex {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Copies an index with its mtime: a file of the same size, changed in the same instant as the index was written, is
/// compared by content only because the index is not newer than the file.
pub(super) fn copy_index(from: &Utf8Path, to: &Utf8Path) -> io::Result<()> {
    fs::copy(from, to)?;
    let written = fs::metadata(from)?.modified()?;
    fs::File::options().write(true).open(to)?.set_modified(written)
}

pub(super) fn joined(paths: &[PathBuf]) -> Vec<u8> {
    paths.iter().flat_map(|path| path_bytes(path).iter().copied().chain([0])).collect()
}

/// Returns the explicitly named files that exist.
fn named<'p>(git: &Git, paths: &'p [PathBuf]) -> HashSet<&'p Path> {
    let Some(root) = &git.place().worktree else { return HashSet::new() };
    let is_file = |path: &&Path| {
        fs::symlink_metadata(root.as_std_path().join(path)).is_ok_and(|found| !found.is_dir())
    };
    paths.iter().map(PathBuf::as_path).filter(is_file).collect()
}

/// Expands directories into their files.
fn expand(git: &Git, drivers: &Drivers, paths: &[PathBuf]) -> Result<Vec<PathBuf>, CommitError> {
    let root = git.place().worktree.as_ref().map(|worktree| worktree.as_std_path());
    let mut found = Vec::new();
    let mut dirs = Vec::new();
    for path in paths {
        let normal =
            |part| matches!(part, Component::Normal(name) if !name.eq_ignore_ascii_case(".git"));
        let Some(root) = root.filter(|_| path.components().all(normal)) else {
            return Err(CommitError::Outside { path: path.clone() });
        };
        match fs::symlink_metadata(root.join(path)) {
            Ok(metadata) if metadata.is_dir() => dirs.push(path.as_path()),
            _ => found.push(path.clone()),
        }
    }
    if !dirs.is_empty() {
        let args = ["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--"];
        let mut call = Call::new(&args).person(UserConfig::Heard).configs(drivers.overrides());
        for dir in dirs {
            call = call.name(dir.as_os_str());
        }
        let output = git.call(call)?.stdout;
        let names = output.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        // A name that ends in a slash is a nested repository.
        found.extend(names.filter(|name| !name.ends_with(b"/")).map(path_from));
    }
    found.sort();
    found.dedup();
    Ok(found)
}

pub(super) fn refuse_filtered(
    git: &Git,
    drivers: &Drivers,
    paths: &[PathBuf],
) -> Result<(), CommitError> {
    if drivers.is_empty() || paths.is_empty() {
        return Ok(());
    }
    let args = ["check-attr", "-z", "--stdin", "filter"];
    let input = joined(paths);
    let call = Call::new(&args).configs(drivers.overrides()).input(&input);
    let output = git.call(call)?.stdout;
    let mut fields = output.split(|byte| *byte == 0);
    while let (Some(path), Some(_), Some(filter)) = (fields.next(), fields.next(), fields.next()) {
        if !matches!(filter, b"unspecified" | b"unset" | b"set") {
            let filter = String::from_utf8_lossy(filter).into_owned();
            return Err(CommitError::NeedsFilter { path: path_from(path), filter });
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "commits_tests.rs"]
mod tests;
