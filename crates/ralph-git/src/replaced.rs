//! A file that is replaced and committed while git cannot switch branches.
//!
//! `index.lock` is held from before the file is read until it is committed: `git checkout`, `merge`, `rebase`, `stash`
//! and `pull` need it to change the working tree. They move `HEAD` only after releasing it, so for a moment index and
//! working tree belong to another branch than `HEAD`. [`Replaced::wait_for_switch`] recognises that moment: the index
//! has the file as read, and `HEAD` has not. A person who staged the file leaves the same state, but no running git.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use gix_hash::ObjectId;
use ralph_proc::witness;

use super::commits::{CommitError, Committed};
use super::lock::LockFile;
use super::{Git, GitError, Head, regular_file};

/// How long to wait for an invisible git to move `HEAD`: it runs in a container, or as another user.
const UNSEEN: Duration = Duration::from_millis(20);
/// How long to wait for a visible git. It may be one that never ends, such as a daemon.
const SEEN: Duration = Duration::from_secs(2);

/// How many commits a running git may have missed.
const RECENT: usize = 4;

/// The right to change a repository's index, and thereby its working tree.
#[derive(Debug)]
pub struct HeldIndex {
    pub(super) lock: LockFile,
}

impl Git {
    /// Takes `index.lock`, waiting for another holder at most `patience`.
    pub fn hold_index(&self, patience: Duration) -> Result<HeldIndex, GitError> {
        let path = self.place().git_dir.join("index.lock");
        Ok(HeldIndex { lock: LockFile::take(path.as_std_path(), patience)? })
    }
}

/// The one file of a commit, as it was read and as it was written since.
#[derive(Clone, Copy, Debug)]
pub struct Replaced<'a> {
    pub before: &'a [u8],
    pub after: &'a [u8],
}

impl Replaced<'_> {
    /// Refuses content that differs from what was written.
    pub(super) fn check_content(&self, path: &Path, content: &[u8]) -> Result<(), CommitError> {
        if content == self.after {
            return Ok(());
        }
        Err(CommitError::Replaced { path: path.to_owned() })
    }

    /// Refuses a file in the working tree that differs from what was written.
    pub(super) fn check_file(&self, git: &Git, path: &Path) -> Result<(), CommitError> {
        let root = git.place().worktree.as_ref().map(|root| root.as_std_path().join(path));
        let content = root
            .and_then(|file| regular_file::read_regular(&file).ok().flatten())
            .unwrap_or_default();
        self.check_content(path, &content)
    }

    /// Waits for a git that has written a new working tree but not yet moved `HEAD`; `staged` differs from `HEAD`.
    pub(super) fn wait_for_switch(
        &self,
        git: &Git,
        head: &Head,
        path: &Path,
        staged: &ObjectId,
    ) -> Result<(), CommitError> {
        if !is_blob(staged, self.before) {
            return Ok(());
        }
        let start = Instant::now();
        loop {
            if git.current_head()? != *head {
                return Err(CommitError::Moved);
            }
            let waited = start.elapsed();
            if waited >= SEEN || (waited >= UNSEEN && !is_git_at_work(git)) {
                return self.refuse_older(git, path);
            }
            sleep(Duration::from_millis(2));
        }
    }
}

impl Committed {
    /// Whether the replaced file is known to have been `content` in the parent.
    pub fn has_replaced(&self, content: &[u8]) -> bool {
        self.replaced.as_ref().is_some_and(|id| is_blob(&id.to_id(), content))
    }
}

impl Replaced<'_> {
    /// Refuses a file that was read in the version of a recent commit other than the last one.
    ///
    /// A `git checkout` that resolved the branch before these commits writes such a file and stages it.
    fn refuse_older(&self, git: &Git, path: &Path) -> Result<(), CommitError> {
        for back in 1..=RECENT {
            let Some(commit) = git.resolve(&format!("HEAD~{back}"))? else { break };
            if git.file_at(&commit, path)?.is_some_and(|old| old == self.before) {
                return Err(CommitError::Older { path: path.to_owned() });
            }
        }
        Ok(())
    }
}

fn is_blob(id: &ObjectId, content: &[u8]) -> bool {
    let mut hasher = gix_hash::hasher(id.kind());
    hasher.update(format!("blob {}\0", content.len()).as_bytes());
    hasher.update(content);
    hasher.try_finalize().is_ok_and(|found| found == *id)
}

/// Whether a git process works in the repository, as far as visible.
fn is_git_at_work(git: &Git) -> bool {
    let place = git.place();
    let mut roots = vec![place.git_dir.clone()];
    roots.extend(place.worktree.clone());
    witness::look(move || {
        fs::read_dir("/proc").into_iter().flatten().flatten().any(|process| {
            fs::read(process.path().join("comm")).is_ok_and(|name| name.starts_with(b"git"))
                && fs::read_link(process.path().join("cwd"))
                    .is_ok_and(|cwd| roots.iter().any(|root| cwd.starts_with(root)))
        })
    })
}
