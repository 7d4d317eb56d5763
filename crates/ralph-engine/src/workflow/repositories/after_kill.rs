//! A run in the person's checkout whose Ralph was killed: what a person changed after everything of it was gone is theirs. It
//! is not committed as the run's work, not put back, and no evidence.

use std::path::PathBuf;

use ralph_proc::end_note::FileTime;

use super::work::moved_branches;
use super::{BEFORE, BeforeAll, Repositories, TrackedRepository, commit_id};
use crate::git::Oid;
use crate::git::evidence::{Before, Dirt};
use crate::state::{AFTER_KILL, AfterKill, State};
use crate::workflow::WorkflowError;

impl Repositories {
    /// Tells the person's changes from what killed runs left. To be called before anybody asks what is dirty or what was
    /// done.
    pub(crate) fn note_after_kills(&self, state: &State) -> Result<(), WorkflowError> {
        for AfterKill { item, gone } in AFTER_KILL.all(state)? {
            if let Some(mut before) = BEFORE.load(state, &item)? {
                for repository in &self.found {
                    repository.note_after_kill(&mut before, gone)?;
                }
                BEFORE.save(state, &item, &before)?;
            }
            AFTER_KILL.forget(state, &item)?;
        }
        Ok(())
    }
}

impl TrackedRepository {
    fn note_after_kill(&self, before: &mut BeforeAll, gone: FileTime) -> Result<(), WorkflowError> {
        let key = self.key();
        let Some(noted) = before.repositories.get_mut(&key) else { return Ok(()) };
        self.note_persons_dirt(noted, gone)?;
        let git = self.gates.git();
        let refs = git.refs()?;
        let head = refs.head.id().cloned();
        let moved = moved_branches(&noted.refs, &refs).cloned();
        let mut tips: Vec<Oid> = head.iter().cloned().chain(moved).collect();
        tips.sort();
        tips.dedup();
        for tip in tips {
            let Some(left) = self.left_at(&noted.refs.tips_of_persons(), &tip, gone)? else {
                continue;
            };
            let changes = git.changes(&left, &tip)?;
            noted.theirs.extend(changes.into_iter().map(|change| (change.path, change.id)));
            // Where the run had committed nothing, nothing is done yet.
            let since = before.since.get_mut(&key);
            if let Some(since) = since.filter(|since| since.as_str() == left.as_str())
                && head.as_ref() == Some(&tip)
            {
                *since = commit_id(&tip);
            }
        }
        Ok(())
    }

    /// Takes what the person changed for what they had not committed before the run, and what they put back themselves for
    /// nothing of it.
    fn note_persons_dirt(&self, noted: &mut Before, gone: FileTime) -> Result<(), WorkflowError> {
        let Some(root) = self.root() else { return Ok(()) };
        let is_later = |path: &PathBuf| gone.is_before_change_of(&root.join(path));
        let now = self.dirt()?;
        let is_dirty = |path: &PathBuf| now.paths.iter().any(|dirty| dirty.entry.path == *path);
        noted.dirt.paths.retain(|dirty| !is_later(&dirty.entry.path));
        let vanished = noted.dirt.paths.iter().any(|dirty| !is_dirty(&dirty.entry.path));
        let theirs: Vec<_> =
            now.paths.into_iter().filter(|dirty| is_later(&dirty.entry.path)).collect();
        if theirs.is_empty() {
            return Ok(());
        }
        noted.dirt.paths.extend(theirs);
        // What the run destroyed is returned from what was saved before it, which stays as it is then.
        if !vanished {
            let dirt = Dirt { paths: noted.dirt.paths.clone() };
            noted.saved = self.gates.git().save_dirt(&dirt)?;
        }
        Ok(())
    }

    /// Returns the commit that a branch stood at when everything of the run was gone, if the person committed on top of it.
    fn left_at(
        &self,
        known: &[Oid],
        tip: &Oid,
        gone: FileTime,
    ) -> Result<Option<Oid>, WorkflowError> {
        let Some(real) = self.gates.real() else { return Ok(None) };
        let objects = real.git.place().common_dir.join("objects");
        let mut at = tip.clone();
        while !known.contains(&at) {
            let (directory, file) = at.as_str().split_at(2);
            let loose = objects.join(directory).join(file);
            let is_later = if loose.exists() {
                gone.is_before_change_of(loose.as_std_path())
            } else {
                // Packed since: the commit tells its own time, in whole seconds.
                let above = real.git.find_commit(at.as_str())?.map(|commit| commit.parents);
                let times = real.git.times_of_new_commits(&at, &above.unwrap_or_default())?;
                times.first().is_some_and(|time| time.as_second() > gone.seconds)
            };
            let Some(commit) = real.git.find_commit(at.as_str())?.filter(|_| is_later) else {
                break;
            };
            let Some(parent) = commit.parents.into_iter().next() else { break };
            at = parent;
        }
        Ok((at != *tip).then_some(at))
    }

    fn root(&self) -> Option<PathBuf> {
        Some(self.gates.real()?.git.place().worktree.clone()?.into())
    }
}
