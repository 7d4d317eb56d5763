//! Clearing directories in which an agent or a gate has worked, without following any link it left there.
//!
//! Nothing of the run may be alive any more: paths are looked at before they are used, which is no protection against
//! a process that swaps them meanwhile. What cannot be removed (immutable files, mount points, files of other users) is
//! an error that names the path; the caller uses another directory.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use camino::{Utf8Component, Utf8Path, Utf8PathBuf};
use ralph_proc::removal::remove_tree;

use super::call::Call;
use super::{Git, GitError};

/// How long git may take to write or clear a whole work tree.
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

/// A work tree could not be cleared.
#[derive(Debug)]
pub(super) enum ClearError {
    Files(FileError),
    Git(GitError),
}

/// Removes every file that the index does not have, ignored or not, but for the caches.
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
    // There may be directories in which their owner can remove nothing, or that are too deep for paths.
    if let Some(worktree) = &git.place().worktree {
        remove_deep(worktree, caches).map_err(ClearError::Files)?;
        unlock(worktree.as_std_path(), caches).map_err(ClearError::Files)?;
    }
    git.call(call).map(|_| ()).map_err(ClearError::Git)
}

/// How many directories below each other are sure to have paths that programs can use.
const DEEPEST: usize = 200;

/// Removes what lies deeper below a directory than paths reach; nothing that is worth keeping does.
fn remove_deep(top: &Utf8Path, caches: &[Utf8PathBuf]) -> Result<(), FileError> {
    let mut waiting = vec![(top.as_std_path().to_owned(), 0)];
    while let Some((next, depth)) = waiting.pop() {
        if depth > DEEPEST {
            remove(&next)?;
            continue;
        }
        // What cannot be listed is opened first.
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

/// Tells whether a name can be that of a cache: a path inside the tree, outside of any git directory.
pub(super) fn is_cache_name(name: &Utf8Path) -> bool {
    let inside =
        |part| matches!(part, Utf8Component::Normal(part) if !part.eq_ignore_ascii_case(".git"));
    !name.as_str().is_empty() && name.components().all(inside)
}

pub(super) fn make_dirs(path: &Utf8Path) -> Result<(), FileError> {
    fs::create_dir_all(path).map_err(|source| FileError::new("make", path, source))
}

/// Tells whether a path below `root` is a directory that is reached without a link.
pub(super) fn is_real_dir(root: &Utf8Path, path: &Utf8Path) -> bool {
    path.ancestors()
        .filter(|place| !place.as_str().is_empty())
        .all(|place| fs::symlink_metadata(root.join(place)).is_ok_and(|found| found.is_dir()))
}

/// Returns the patterns that `git clean` is to leave alone.
pub(super) fn keep_patterns(caches: &[Utf8PathBuf]) -> Vec<String> {
    // The slash at the end makes a pattern match directories only: a link of that name goes.
    let pattern = |cache: &Utf8PathBuf| {
        format!("/{}/", String::from_utf8_lossy(&escape_bytes(cache.as_str().as_bytes())))
    };
    caches.iter().map(pattern).collect()
}

/// Returns the pattern that matches one path and nothing else.
pub(super) fn file_pattern(path: &Path) -> String {
    format!("/{}", String::from_utf8_lossy(&escape_bytes(super::call::path_bytes(path))))
}

/// Escapes what `.gitignore` would take for a pattern, in a path that need not be text.
pub(super) fn escape_bytes(path: &[u8]) -> Vec<u8> {
    let special = |byte: &u8| b"*?[]\\!# ".contains(byte);
    path.iter().flat_map(|byte| special(byte).then_some(b'\\').into_iter().chain([*byte])).collect()
}

/// Removes whatever is at a path, without following links.
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

/// Removes everything in a directory but the kept ones; both are named from `root`.
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

/// Gives the owner back the right to change one directory, which is no link.
pub(super) fn unlock_one(dir: &Path) -> Result<(), FileError> {
    let error = |source| FileError::new("unlock", dir, source);
    let mode = fs::symlink_metadata(dir).map_err(error)?.permissions().mode();
    if mode & 0o700 == 0o700 {
        return Ok(());
    }
    fs::set_permissions(dir, Permissions::from_mode(mode | 0o700)).map_err(error)
}

/// Gives the owner back the right to change every directory, without following links.
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
