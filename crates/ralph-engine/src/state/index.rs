//! The index: maps a path to its state directory.
//!
//! It saves the common start a call of git, and lets a directory that became a repository, or a repository that got its
//! first commit, keep its state. Losing it only costs that call again.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::UNIX_EPOCH;

use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};

use super::{hash, render};
use crate::files::{
    PathError, create_private_directory, read_optional, remove_abandoned, replace_atomically,
};

/// Identifies a git directory, as opposed to a later one at the same path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct GitIdentity {
    device: u64,
    inode: u64,
    /// In nanoseconds since 1970; inodes are reused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    born: Option<u64>,
}

impl GitIdentity {
    pub(super) fn of(git_dir: &Utf8Path) -> Option<Self> {
        let found = fs::metadata(git_dir).ok()?;
        let born = found.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let born = born.and_then(|age| u64::try_from(age.as_nanos()).ok());
        Some(GitIdentity { device: found.dev(), inode: found.ino(), born })
    }
}

/// The entry for one path.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct IndexEntry {
    pub(super) path: Utf8PathBuf,
    pub(super) git: Option<GitIdentity>,
    pub(super) directory: String,
}

impl IndexEntry {
    /// Loads the entry for a path. An unreadable one, or one for another path, counts as missing.
    pub(super) fn load(base: &Utf8Path, path: &Utf8Path) -> Result<Option<Self>, PathError> {
        let text = match read_optional(&file(base, path)) {
            Ok(Some(text)) => text,
            Ok(None) => return Ok(None),
            // Something else is at its path: it is moved away when the entry is written.
            Err(problem) if !is_refused(&problem) => return Ok(None),
            Err(problem) => return Err(problem),
        };
        let entry = serde_json::from_slice::<IndexEntry>(&text).ok();
        Ok(entry.filter(|entry| entry.path == path && is_plain_name(&entry.directory)))
    }

    pub(super) fn save(&self, base: &Utf8Path) -> Result<(), PathError> {
        let directory = directory(base);
        create_private_directory(&directory)?;
        remove_abandoned(&directory)?;
        replace_atomically(&file(base, &self.path), &render(self))
    }
}

fn is_refused(problem: &PathError) -> bool {
    problem.source.kind() == std::io::ErrorKind::PermissionDenied
}

fn is_plain_name(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains('/')
}

fn directory(base: &Utf8Path) -> Utf8PathBuf {
    base.join("index")
}

fn file(base: &Utf8Path, path: &Utf8Path) -> Utf8PathBuf {
    directory(base).join(format!("{}.json", hash(&[path.as_str()])))
}
