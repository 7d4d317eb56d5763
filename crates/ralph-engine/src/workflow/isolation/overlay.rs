//! Home as a reader should see it: the person's files, landed changes that are not in their checkout yet, and state in
//! flight.
//!
//! What a person has put in place of a file counts: a file is laid over only where theirs is what it was when the
//! workflow wrote its own. Nothing is written here, and where nothing waits and nothing is in flight no process is
//! started.

use std::collections::BTreeMap;
use std::path::Path;

use camino::{Utf8Path, Utf8PathBuf};

use super::in_flight;
use crate::files::read_optional;
use crate::git::{Git, GitProgram, Head};
use crate::workflow::WorkflowError;

/// Files of home that are not as they are on disk.
#[derive(Clone, Debug, Default)]
pub struct HomeOverlay {
    /// By their paths from home; `None` where a file is gone.
    files: BTreeMap<Utf8PathBuf, Option<Vec<u8>>>,
}

impl HomeOverlay {
    /// Looks for what has landed and what is in flight of a home.
    pub fn look(program: &GitProgram, home: &Utf8Path) -> Result<HomeOverlay, WorkflowError> {
        let mut overlay = HomeOverlay::default();
        // A home outside any repository is written where it is.
        let Ok(git) = Git::discover(program.clone(), home) else { return Ok(overlay) };
        let Some(worktree) = git.place().worktree.clone() else { return Ok(overlay) };
        let Ok(inside) = home.strip_prefix(&worktree) else { return Ok(overlay) };
        overlay.lay_landed(&git, &worktree, inside)?;
        overlay.lay_in_flight(&git, &worktree, inside)?;
        Ok(overlay)
    }

    /// Returns what a file holds in place of what is on disk; `Some(None)` if it is gone.
    pub fn file(&self, below: impl AsRef<Utf8Path>) -> Option<Option<&[u8]>> {
        self.files.get(below.as_ref()).map(Option::as_deref)
    }

    /// Lays over what has landed on the branch that is checked out, and waits for its checkout.
    fn lay_landed(
        &mut self,
        git: &Git,
        worktree: &Utf8Path,
        inside: &Utf8Path,
    ) -> Result<(), WorkflowError> {
        if !git.may_have_refs("refs/ralph/landed/") {
            return Ok(());
        }
        let Head::Branch { name, id: head } = git.head()? else { return Ok(()) };
        let short = name.strip_prefix("refs/heads/").unwrap_or(&name);
        let Some(landed) = git.resolve(&format!("refs/ralph/landed/{short}"))? else {
            return Ok(());
        };
        for change in git.tree_changes(&head, &landed)? {
            let Some(below) = below(&change.path, inside) else { continue };
            let theirs = read_optional(&worktree.join(inside).join(&below))?;
            if theirs == git.file_at(&head, &change.path)? {
                self.files.insert(below, git.file_at(&landed, &change.path)?);
            }
        }
        Ok(())
    }

    fn lay_in_flight(
        &mut self,
        git: &Git,
        worktree: &Utf8Path,
        inside: &Utf8Path,
    ) -> Result<(), WorkflowError> {
        for (_, flight) in in_flight::read_all(git)? {
            if !flight.is_of(worktree, inside.as_std_path()) {
                continue;
            }
            for (path, file) in flight.files {
                let Some(below) = below(&path, inside) else { continue };
                let there = match self.files.get(&below) {
                    Some(laid) => laid.clone(),
                    None => read_optional(&worktree.join(inside).join(&below))?,
                };
                let there = there.map(|bytes| git.blob_id(&bytes)).transpose()?;
                if there == file.was {
                    self.files.insert(below, file.now);
                }
            }
        }
        Ok(())
    }
}

/// Names a file from home, if it is in it.
fn below(path: &Path, inside: &Utf8Path) -> Option<Utf8PathBuf> {
    let below = path.strip_prefix(inside.as_std_path()).ok()?;
    Utf8PathBuf::from_path_buf(below.to_owned()).ok()
}
