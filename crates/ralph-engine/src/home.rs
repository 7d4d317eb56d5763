//! Finds the workspace, its repository, and home.
//!
//! Everything is found by reading files; no process is started. There are two steps, because the configuration at the
//! workspace's root may name home: first [`find_workspace`], then [`Workspace::home`].
//!
//! While walking up, a world-writable directory with the sticky bit (`/tmp`) is skipped: otherwise a `ralph.toml` left
//! there by another user would decide which programs run.

use std::borrow::Cow;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::sync::{Mutex, PoisonError};

use camino::{Utf8Path, Utf8PathBuf};

use crate::files::PathError;
use crate::files::plain::read_text;
use crate::git::real_directory;

/// The configuration's name at the root of a workspace.
pub const CONFIG_FILE: &str = "ralph.toml";
/// Lists ignored files that are copied into Ralph's own clones and checkouts.
pub(crate) const INCLUDE_FILE: &str = ".worktreeinclude";

/// Returns the workspace's files outside home that only the person may change, never an agent. `worktree` is one of its
/// repositories.
pub fn settings_files(workspace: &Utf8Path, worktree: &Utf8Path) -> [Utf8PathBuf; 3] {
    [workspace.join(CONFIG_FILE), workspace.join(INCLUDE_FILE), worktree.join(INCLUDE_FILE)]
}

/// The draft of home that this process uses, and the home it represents.
static DRAFT: Mutex<Option<(Utf8PathBuf, Utf8PathBuf)>> = Mutex::new(None);

/// Registers a draft in private state as the representation of a person's home.
pub(crate) fn stands_for(draft: &Utf8Path, home: &Utf8Path) {
    let mut known = DRAFT.lock().unwrap_or_else(PoisonError::into_inner);
    *known = Some((draft.to_owned(), home.to_owned()));
}

/// Replaces paths of the draft in a text by the person's own paths.
///
/// Errors name the file that could not be read or written, which is the draft's; the person has to fix theirs.
pub fn in_persons_words(text: &str) -> Cow<'_, str> {
    let known = DRAFT.lock().unwrap_or_else(PoisonError::into_inner);
    match &*known {
        Some((draft, home)) if text.contains(draft.as_str()) => {
            Cow::Owned(text.replace(draft.as_str(), home.as_str()))
        }
        _ => Cow::Borrowed(text),
    }
}

/// The default locations of home, best first; the first is also where it is created.
pub(crate) const USUAL_HOMES: [&str; 2] = ["ralph", "scripts/ralph"];

/// Entries that identify a home.
const HOME_SIGNS: [&str; 4] = ["specs", "plan.jsonl", "prd.json", "prompt.md"];

/// The directory in which agents work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workspace {
    /// Canonical: absolute and without symlinks.
    pub root: Utf8PathBuf,
    pub kind: WorkspaceKind,
}

/// The relation of a workspace to git.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkspaceKind {
    /// It is, or is inside, the working tree of a repository.
    Repository(Repository),
    /// Its subdirectories are repositories.
    RepositoryCollection,
    /// It is not related to git.
    Plain,
}

/// A working tree and its git directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repository {
    pub toplevel: Utf8PathBuf,
    /// For a linked worktree its own part of the repository, for a submodule its directory in the outer one.
    pub(crate) git_dir: Utf8PathBuf,
}

/// Home: its path, and whether it exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    pub path: Utf8PathBuf,
    pub exists: bool,
}

/// The workspace cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    #[error("`{root}` is not a git repository")]
    NotARepository { root: Utf8PathBuf },
    #[error("`{root}` is a bare repository, without files to work on")]
    Bare { root: Utf8PathBuf },
    #[error("`{path}` belongs to another user (uid {owner})")]
    ForeignOwner { path: Utf8PathBuf, owner: u32, is_repository: bool },
    #[error(transparent)]
    Path(#[from] PathError),
}

impl WorkspaceError {
    /// Returns advice for the person.
    pub fn hint(&self) -> Option<String> {
        match self {
            WorkspaceError::NotARepository { root } => Some(format!(
                "run `git init {}` first, or name a repository with `--root`",
                quote(root)
            )),
            WorkspaceError::Bare { .. } => {
                Some("work in a clone, or in a tree that `git worktree add` makes".to_owned())
            }
            WorkspaceError::ForeignOwner { path, is_repository: true, .. } => Some(format!(
                "if you trust them: `git config --global --add safe.directory {}`",
                quote(path)
            )),
            WorkspaceError::ForeignOwner { path, .. } => {
                Some(format!("work in a copy of your own, or make `{path}` yours"))
            }
            WorkspaceError::Path(_) => None,
        }
    }
}

/// Finds the workspace: the given root, otherwise up from `start` to a `ralph.toml`, otherwise to a home, otherwise to
/// a repository.
///
/// Otherwise the workspace is `start` itself; commands that need a repository check for it.
pub fn find_workspace(
    named: Option<&Utf8Path>,
    start: &Utf8Path,
) -> Result<Workspace, WorkspaceError> {
    let start = canonical(start)?;
    let root = match named {
        Some(named) => {
            let root = canonical(&start.join(named))?;
            if !root.is_dir() {
                let problem = io::Error::from(io::ErrorKind::NotADirectory);
                return Err(PathError::new("work in", &root, problem).into());
            }
            root
        }
        None => find_root(&start),
    };
    let kind = match enclosing_repository(&root) {
        Some(repository) => WorkspaceKind::Repository(repository),
        None if holds_repositories(&root) => WorkspaceKind::RepositoryCollection,
        None => WorkspaceKind::Plain,
    };
    Ok(Workspace { root, kind })
}

impl Workspace {
    /// Returns an error with a hint if there is no repository.
    pub fn require_repository(&self) -> Result<(), WorkspaceError> {
        match self.kind {
            WorkspaceKind::Repository(_) | WorkspaceKind::RepositoryCollection => Ok(()),
            WorkspaceKind::Plain => {
                let root = self.root.clone();
                let has = |name: &str| root.join(name).exists();
                Err(if has("HEAD") && has("objects") && has("refs") {
                    WorkspaceError::Bare { root }
                } else {
                    WorkspaceError::NotARepository { root }
                })
            }
        }
    }

    /// Returns the git directories that belong to the workspace but are outside it: those of a linked worktree, of a
    /// submodule, or of a workspace inside a larger repository.
    pub fn outer_git_dirs(&self) -> Vec<Utf8PathBuf> {
        let Some(own) = self.git_dir() else { return Vec::new() };
        let mut directories = vec![own.to_owned()];
        if let Ok(common) = read_text(&own.join("commondir"))
            && let Ok(common) = std::str::from_utf8(&common)
        {
            directories.extend(own.join(common.trim()).canonicalize_utf8().ok());
        }
        directories.retain(|directory| !directory.starts_with(&self.root));
        directories
    }

    /// Returns the git directory of this working tree.
    pub fn git_dir(&self) -> Option<&Utf8Path> {
        match &self.kind {
            WorkspaceKind::Repository(repository) => Some(&repository.git_dir),
            WorkspaceKind::RepositoryCollection | WorkspaceKind::Plain => None,
        }
    }

    /// Finds home: the given one (an absolute path), otherwise the first existing default location.
    pub fn home(&self, named: Option<&Utf8Path>) -> Home {
        if let Some(named) = named {
            let path = self.root.join(named);
            let exists = is_home(&path);
            return Home { path, exists };
        }
        let mut places = USUAL_HOMES.iter().map(|place| self.root.join(place));
        match places.find(|place| is_home(place)) {
            Some(path) => Home { path, exists: true },
            None => Home { path: self.root.join(USUAL_HOMES[0]), exists: false },
        }
    }
}

/// Whether a directory is a home, rather than one with just the same name.
pub(crate) fn is_home(path: &Utf8Path) -> bool {
    HOME_SIGNS.iter().any(|sign| path.join(sign).exists())
}

fn find_root(start: &Utf8Path) -> Utf8PathBuf {
    let up = || {
        let trusted = |directory: &&Utf8Path| *directory == start || !anybody_may_write(directory);
        start.ancestors().filter(trusted)
    };
    let has_config = |directory: &&Utf8Path| directory.join(CONFIG_FILE).is_file();
    let has_home =
        |directory: &&Utf8Path| USUAL_HOMES.iter().any(|place| is_home(&directory.join(place)));
    up().find(has_config)
        .or_else(|| up().find(has_home))
        .map(Utf8Path::to_owned)
        .or_else(|| enclosing_repository(start).map(|repository| repository.toplevel))
        .unwrap_or_else(|| start.to_owned())
}

/// Whether a directory is shared like `/tmp`. The sticky bit distinguishes it from a drive without permissions.
fn anybody_may_write(directory: &Utf8Path) -> bool {
    const SHARED: u32 = 0o1002;
    fs::metadata(directory).is_ok_and(|found| found.permissions().mode() & SHARED == SHARED)
}

fn enclosing_repository(start: &Utf8Path) -> Option<Repository> {
    start.ancestors().find_map(|directory| {
        let git_dir = git_dir_of(directory)?;
        Some(Repository { toplevel: directory.to_owned(), git_dir })
    })
}

fn holds_repositories(directory: &Utf8Path) -> bool {
    let Ok(mut children) = directory.read_dir_utf8() else { return false };
    children.any(|child| child.is_ok_and(|child| git_dir_of(child.path()).is_some()))
}

/// Returns the git directory of a working tree: `.git`, or the target of a file of that name.
fn git_dir_of(worktree: &Utf8Path) -> Option<Utf8PathBuf> {
    let dot_git = worktree.join(".git");
    let git_dir = if dot_git.is_dir() {
        dot_git
    } else {
        let pointer = read_start(&dot_git)?;
        let target = pointer.strip_prefix("gitdir:")?.trim();
        worktree.join(target).canonicalize_utf8().ok()?
    };
    // Git does not treat a directory without a HEAD as a repository, and walks on.
    fs::symlink_metadata(git_dir.join("HEAD")).is_ok().then_some(git_dir)
}

/// Reads a small file, up to a limit, whatever it is.
fn read_start(path: &Utf8Path) -> Option<String> {
    if !path.is_file() {
        return None;
    }
    let mut text = String::new();
    fs::File::open(path).ok()?.take(8192).read_to_string(&mut text).ok()?;
    Some(text)
}

fn canonical(path: &Utf8Path) -> Result<Utf8PathBuf, PathError> {
    if let Some(real) = real_directory(path) {
        return Ok(real);
    }
    path.canonicalize_utf8().map_err(|source| PathError::new("find", path, source))
}

/// Quotes a path for a shell if needed.
fn quote(path: &Utf8Path) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@%".contains(c);
    if path.as_str().chars().all(plain) {
        return path.to_string();
    }
    format!("'{}'", path.as_str().replace('\'', r"'\''"))
}

#[cfg(test)]
#[path = "home_tests.rs"]
mod tests;
