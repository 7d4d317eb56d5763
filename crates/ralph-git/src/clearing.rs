//! Clears directories in which an agent or a gate has worked, without following any symlink left there.
//!
//! No process of the run may be alive: paths are checked before use, which does not protect against a process that
//! swaps them meanwhile. Anything that cannot be removed (immutable files, mount points, files of other users) is an
//! error with its path; the caller uses another directory.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use camino::{Utf8Component, Utf8Path, Utf8PathBuf};
use ralph_proc::removal::remove_tree;

use super::call::Call;
use super::{Git, GitError};

/// The timeout for writing or clearing a whole working tree.
pub(super) const TIMEOUT: Duration = Duration::from_mins(10);

/// An operation on a file or directory failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation} `{}`", super::shown(path))]
pub struct FileError {
    pub(crate) operation: &'static str,
    pub(crate) path: PathBuf,
    #[source]
    pub(crate) source: io::Error,
}

impl FileError {
    pub(super) fn new(operation: &'static str, path: impl AsRef<Path>, source: io::Error) -> Self {
        FileError { operation, path: path.as_ref().to_owned(), source }
    }
}

/// A working tree could not be cleared.
#[derive(Debug)]
pub(super) enum ClearError {
    Files(FileError),
    Git(GitError),
}

/// Removes every file that is not in the index, ignored or not, except for the caches.
pub(super) fn clean(
    git: &Git,
    index: Option<&Utf8Path>,
    caches: &[Utf8PathBuf],
) -> Result<(), ClearError> {
    let patterns = keep_patterns(caches);
    let mut args = vec!["clean", "--quiet", "-ffdx"];
    args.extend(patterns.iter().flat_map(|pattern| ["-e", pattern.as_str()]));
    let mut call = Call::new(&args).timeout(TIMEOUT);
    if let Some(index) = index {
        call = call.env("GIT_INDEX_FILE", index.as_str());
    }
    if git.call(call.clone()).is_ok() {
        return Ok(());
    }
    // There may be directories without owner permissions, or too deep for paths.
    if let Some(worktree) = &git.place().worktree {
        remove_deep(worktree, caches).map_err(ClearError::Files)?;
        unlock(worktree.as_std_path(), caches).map_err(ClearError::Files)?;
    }
    git.call(call).map(|_| ()).map_err(ClearError::Git)
}

/// A directory depth at which paths are still short enough for all programs.
const DEEPEST: usize = 200;

/// Removes everything that is too deep for paths; nothing worth keeping is.
fn remove_deep(top: &Utf8Path, caches: &[Utf8PathBuf]) -> Result<(), FileError> {
    let mut waiting = vec![(top.as_std_path().to_owned(), 0)];
    while let Some((next, depth)) = waiting.pop() {
        if depth > DEEPEST {
            remove(&next)?;
            continue;
        }
        // Make an unreadable directory readable first.
        let mode = fs::symlink_metadata(&next).map(|found| found.permissions().mode());
        if mode.is_ok_and(|mode| mode & 0o700 != 0o700) {
            let _ = fs::set_permissions(&next, Permissions::from_mode(0o700));
        }
        for entry in fs::read_dir(&next).into_iter().flatten().flatten() {
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_dir && !caches.iter().any(|cache| entry.path() == top.join(cache)) {
                waiting.push((entry.path(), depth + 1));
            }
        }
    }
    Ok(())
}

/// Whether a name can be that of a cache: a path inside the tree, outside any git directory.
pub(super) fn is_cache_name(name: &Utf8Path) -> bool {
    let inside =
        |part| matches!(part, Utf8Component::Normal(part) if !part.eq_ignore_ascii_case(".git"));
    !name.as_str().is_empty() && name.components().all(inside)
}

pub(super) fn make_dirs(path: &Utf8Path) -> Result<(), FileError> {
    fs::create_dir_all(path).map_err(|source| FileError::new("make", path, source))
}

/// Whether a path below `root` is a directory that is reached without a symlink.
pub(super) fn is_real_dir(root: &Utf8Path, path: &Utf8Path) -> bool {
    path.ancestors()
        .filter(|place| !place.as_str().is_empty())
        .all(|place| fs::symlink_metadata(root.join(place)).is_ok_and(|found| found.is_dir()))
}

/// Returns the patterns that `git clean` must keep.
pub(super) fn keep_patterns(caches: &[Utf8PathBuf]) -> Vec<String> {
    // The trailing slash makes a pattern match directories only: a symlink of that name is removed.
    let pattern = |cache: &Utf8PathBuf| {
        format!("/{}/", String::from_utf8_lossy(&escape_bytes(cache.as_str().as_bytes())))
    };
    caches.iter().map(pattern).collect()
}

/// Returns the pattern that matches exactly one path.
pub(super) fn file_pattern(path: &Path) -> String {
    format!("/{}", String::from_utf8_lossy(&escape_bytes(super::call::path_bytes(path))))
}

/// Escapes pattern characters of `.gitignore` in a path that need not be UTF-8.
pub(super) fn escape_bytes(path: &[u8]) -> Vec<u8> {
    let special = |byte: &u8| b"*?[]\\!# ".contains(byte);
    path.iter().flat_map(|byte| special(byte).then_some(b'\\').into_iter().chain([*byte])).collect()
}

/// Removes anything at a path, without following symlinks.
pub(super) fn remove(path: impl AsRef<Path>) -> Result<(), FileError> {
    let path = path.as_ref();
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(FileError::new("look at", path, source)),
    };
    if !metadata.is_dir() {
        return fs::remove_file(path).map_err(|source| FileError::new("remove", path, source));
    }
    remove_tree(path).map_err(|source| FileError::new("remove", path, source))
}

/// Removes everything in a directory except the kept ones; both are relative to `root`.
pub(super) fn remove_all_but(root: &Path, at: &Path, kept: &[&Path]) -> Result<(), FileError> {
    let dir = root.join(at);
    for entry in fs::read_dir(&dir).map_err(|source| FileError::new("read", &dir, source))? {
        let entry = entry.map_err(|source| FileError::new("read", &dir, source))?;
        let path = at.join(entry.file_name());
        if kept.contains(&path.as_path()) {
            continue;
        }
        if kept.iter().any(|kept| kept.starts_with(&path)) {
            remove_all_but(root, &path, kept)?;
        } else {
            remove(root.join(&path))?;
        }
    }
    Ok(())
}

/// Restores the owner's permissions on one directory, which is not a symlink.
pub(super) fn unlock_one(dir: &Path) -> Result<(), FileError> {
    let error = |source| FileError::new("unlock", dir, source);
    let mode = fs::symlink_metadata(dir).map_err(error)?.permissions().mode();
    if mode & 0o700 == 0o700 {
        return Ok(());
    }
    fs::set_permissions(dir, Permissions::from_mode(mode | 0o700)).map_err(error)
}

/// Restores the owner's permissions on every directory, without following symlinks.
pub(super) fn unlock(dir: &Path, but: &[Utf8PathBuf]) -> Result<(), FileError> {
    let mut waiting = vec![dir.to_owned()];
    while let Some(next) = waiting.pop() {
        let error = |source| FileError::new("unlock", &next, source);
        unlock_one(&next)?;
        for entry in fs::read_dir(&next).map_err(error)? {
            let entry = entry.map_err(error)?;
            let is_dir = entry.file_type().map_err(error)?.is_dir();
            if is_dir && !but.iter().any(|cache| entry.path() == dir.join(cache)) {
                waiting.push(entry.path());
            }
        }
    }
    Ok(())
}
