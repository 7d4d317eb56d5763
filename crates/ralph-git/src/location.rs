//! The location of a repository, found once and then enforced.
//!
//! An agent with write access to a working tree can redirect its `.git` file, a linked worktree's `commondir`, or plant
//! a `commondir` in the main git directory: each makes git read another repository, with another configuration. So the
//! locations are found once, when the workspace is opened, and every later call first checks that they are unchanged.

use std::fs;
use std::io;

use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};

use super::error::GitError;

/// The directories of one repository, absolute and without symlinks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepositoryLocation {
    pub git_dir: Utf8PathBuf,
    /// The same as `git_dir` except in a linked worktree.
    pub common_dir: Utf8PathBuf,
    /// `None` for a bare repository.
    pub worktree: Option<Utf8PathBuf>,
}

impl RepositoryLocation {
    /// Returns the file that lists the edge of a shallow history.
    pub(crate) fn shallow_file(&self) -> Utf8PathBuf {
        self.common_dir.join("shallow")
    }

    /// Finds the repository of a directory.
    ///
    /// The working tree is the directory of `.git`, whatever `core.worktree` says.
    pub fn discover(dir: &Utf8Path) -> Result<Self, GitError> {
        let none = || GitError::NotARepository { dir: dir.to_owned() };
        let dir = real_directory(dir).ok_or_else(none)?;
        let worktree = dir
            .ancestors()
            .find(|ancestor| fs::symlink_metadata(ancestor.join(".git")).is_ok())
            .ok_or_else(none)?;
        let git_dir = git_dir_of(worktree).ok_or_else(none)?;
        let common_dir = common_dir_of(&git_dir).ok_or_else(none)?;
        let whole = fs::symlink_metadata(git_dir.join("HEAD")).is_ok()
            && common_dir.join("objects").is_dir();
        if !whole {
            return Err(none());
        }
        Ok(RepositoryLocation { git_dir, common_dir, worktree: Some(worktree.to_owned()) })
    }

    /// Checks that the links between the directories are unchanged.
    pub(crate) fn check(&self) -> Result<(), GitError> {
        if let Some(worktree) = &self.worktree {
            let found = git_dir_of(worktree);
            if found.as_ref() != Some(&self.git_dir) {
                let link = worktree.join(".git");
                return Err(GitError::Repointed { link, expected: self.git_dir.clone(), found });
            }
        }
        let mut dirs = vec![&self.git_dir, &self.common_dir];
        dirs.dedup();
        for dir in dirs {
            // A path found above is already resolved.
            let is_resolved = self.worktree.is_some() && *dir == self.git_dir;
            let found = if is_resolved { shared_by(dir) } else { common_dir_of(dir) };
            if found.as_ref() != Some(&self.common_dir) {
                let link = dir.join("commondir");
                return Err(GitError::Repointed { link, expected: self.common_dir.clone(), found });
            }
        }
        Ok(())
    }
}

/// Resolves the path of a directory.
pub fn real_directory(dir: &Utf8Path) -> Option<Utf8PathBuf> {
    // Without `.` and double slashes, like the other branch.
    let normal = || dir.components().collect();
    if is_real_directory(dir) { Some(normal()) } else { dir.canonicalize_utf8().ok() }
}

/// Returns the target of a working tree's `.git`.
fn git_dir_of(worktree: &Utf8Path) -> Option<Utf8PathBuf> {
    let link = worktree.join(".git");
    if is_real_directory(&link) {
        return Some(link);
    }
    let link = link.canonicalize_utf8().ok()?;
    if link.is_dir() {
        return Some(link);
    }
    let target = read_small(&link)?;
    let target = target.strip_prefix("gitdir:")?.trim();
    worktree.join(target).canonicalize_utf8().ok()
}

/// Returns the common directory of a git directory; itself if it shares nothing.
fn common_dir_of(git_dir: &Utf8Path) -> Option<Utf8PathBuf> {
    shared_by(&real_directory(git_dir)?)
}

/// The same for a git directory whose path is resolved.
fn shared_by(git_dir: &Utf8Path) -> Option<Utf8PathBuf> {
    let link = git_dir.join("commondir");
    match fs::symlink_metadata(&link) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Some(git_dir.to_owned()),
        Err(_) => None,
        Ok(_) => git_dir.join(read_small(&link)?.trim()).canonicalize_utf8().ok(),
    }
}

/// Whether an absolute path leads to a directory without any symlink on the way, so that resolving it would not change
/// it.
///
/// One call instead of one for each directory on the way. If the system lacks that call, it returns false.
#[cfg(target_os = "linux")]
fn is_real_directory(path: &Utf8Path) -> bool {
    use camino::Utf8Component;
    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
    let is_plain = path
        .components()
        .all(|part| matches!(part, Utf8Component::RootDir | Utf8Component::Normal(_)));
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS;
    path.is_absolute()
        && is_plain
        && openat2(CWD, path.as_std_path(), flags, Mode::empty(), resolve).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn is_real_directory(_path: &Utf8Path) -> bool {
    false
}

/// Reads a file that contains one path; a FIFO or an oversized file does not count.
fn read_small(path: &Utf8Path) -> Option<String> {
    let metadata = fs::symlink_metadata(path).ok()?;
    (metadata.is_file() && metadata.len() <= 64 << 10).then(|| fs::read_to_string(path).ok())?
}
