//! Work on one task over several runs: where it began, what its runs left uncommitted, and which commit has it.
//!
//! The base stays where work on the task began until the task is done: gates that are compared with a base which a
//! rejected run had broken already would prove nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ralph_model::build::Work;
use ralph_model::id::CommitId;

use super::{BEFORE, BeforeAll, Repositories, oid};
use crate::gates::WorkRepository;
use crate::git::evidence::{Before, Dirt, DirtyPath, is_own};
use crate::git::{Head, Oid, RefsSnapshot};
use crate::judge::{DETACHED, state_files};
use crate::repository::GitAccess;
use crate::state::State;
use crate::workflow::WorkflowError;

impl Repositories {
    /// Notes what there is before the first run of a task that begins at `base`.
    pub(crate) fn note_first(&self, base: &super::Base) -> Result<BeforeAll, WorkflowError> {
        let base = self.moved_base(base)?.unwrap_or_else(|| base.clone());
        // A clone that was made anew at judged work has all of it from this item.
        let since = if self.in_slot { base.clone() } else { self.base()? };
        Ok(BeforeAll { since, ..self.note(&base)? })
    }

    /// Records the state before a further run of a task. Uncommitted leftovers of its earlier runs are not attributed
    /// to the person. Work in a slot begins at the slot's base.
    pub(crate) fn note_further(
        &self,
        earlier: &BeforeAll,
        slot_base: Option<super::Base>,
    ) -> Result<BeforeAll, WorkflowError> {
        let base = slot_base.unwrap_or_else(|| earlier.base());
        let base = self.moved_base(&base)?.unwrap_or(base);
        let before = self.note_again(Some(earlier), &base)?;
        Ok(BeforeAll { since: earlier.since.clone(), ..before })
    }

    /// Notes that a run goes on which its usage limit had ended: what the person has not committed by now is told from what
    /// it will leave. From where its work counts, and on which branches it began, stays as it was. Returns what is to be
    /// said of it.
    pub(crate) fn note_resumed(
        &self,
        state: &State,
        item: &str,
    ) -> Result<Vec<String>, WorkflowError> {
        let mut told = Vec::new();
        let Some(mut before) = BEFORE.load(state, item)? else { return Ok(told) };
        for repository in &self.found {
            let Some(noted) = before.repositories.get(&repository.key()) else { continue };
            told.extend(repository.return_dirt(noted)?);
        }
        self.note_left_of_others(state, &before)?;
        for repository in &self.found {
            let name = repository.key();
            if !before.repositories.contains_key(&name) {
                continue;
            }
            let mut dirt = self.persons_dirt(repository)?;
            let left = before.left_by_runs(&name, &dirt);
            let Some(noted) = before.repositories.get_mut(&name) else { continue };
            dirt.paths.retain(|dirty| !left.contains(&dirty.entry.path));
            noted.saved = repository.gates.git().save_dirt(&dirt)?;
            noted.dirt = dirt;
            before.left.remove(&name);
        }
        before.stood.clear();
        BEFORE.save(state, item, &before)?;
        Ok(told)
    }

    /// Returns what was done since the item's base in all repositories but one.
    pub(crate) fn work_elsewhere(
        &self,
        before: &BeforeAll,
        but: &str,
    ) -> Result<Vec<Work>, WorkflowError> {
        let mut works = Vec::new();
        for repository in self.found.iter().filter(|found| found.name != but) {
            let git = repository.gates.git();
            let refs = git.refs()?;
            let Some(noted) = before.repositories.get(&repository.key()) else { continue };
            let own = &repository.own;
            let base = noted.base.as_ref();
            let head = refs.head.id().cloned();
            let head = head.filter(|head| base != Some(head) && is_work(git, own, base, head));
            let commit = match head {
                Some(head) => Some(last_work(git, own, base, head)?),
                None => moved_branches(&noted.refs, &refs)
                    .find(|tip| is_work(git, own, base, tip))
                    .cloned(),
            };
            works.extend(commit.map(|commit| repository.work(&commit)));
        }
        Ok(works)
    }

    /// Notes what a run has left, so that a person's later changes can be told from it. The first to ask anything of a
    /// clone after a run.
    pub(crate) fn note_left(&self, state: &State, item: &str) -> Result<(), WorkflowError> {
        for repository in self.found.iter().filter(|_| self.in_slot) {
            repository.check_clone()?;
        }
        let Some(mut before) = BEFORE.load(state, item)? else { return Ok(()) };
        for repository in &self.found {
            before.left.insert(repository.key(), repository.dirt()?);
        }
        Ok(BEFORE.save(state, item, &before)?)
    }

    /// Keeps what runs of other items had left known as theirs. Whoever returns to a branch may have put it back, or the run
    /// has touched it: either way it is another file now, and not the person's.
    pub(crate) fn note_left_of_others(
        &self,
        state: &State,
        before: &BeforeAll,
    ) -> Result<(), WorkflowError> {
        for repository in &self.found {
            let name = repository.key();
            let Some(noted) = before.repositories.get(&name) else { continue };
            if noted.dirt.paths.is_empty() {
                continue;
            }
            let now = repository.dirt()?;
            let moved: Vec<(&DirtyPath, &DirtyPath)> = noted
                .dirt
                .paths
                .iter()
                .filter_map(|then| Some((then, now.find(&then.entry.path)?)))
                .filter(|(then, now)| then.file != now.file)
                .collect();
            if moved.is_empty() {
                continue;
            }
            BEFORE.change_all(state, |other| {
                let Some(left) = other.left.get_mut(&name) else { return false };
                let mut is_changed = false;
                for dirty in &mut left.paths {
                    let same = moved.iter().find(|(then, _)| {
                        then.entry.path == dirty.entry.path && then.file == dirty.file
                    });
                    if let Some((_, now)) = same {
                        *dirty = (*now).clone();
                        is_changed = true;
                    }
                }
                is_changed
            })?;
        }
        Ok(())
    }

    /// Begins another attempt: what there is counts as done before it.
    pub(crate) fn begin_attempt(&self, state: &State, item: &str) -> Result<(), WorkflowError> {
        let Some(before) = BEFORE.load(state, item)? else { return Ok(()) };
        Ok(BEFORE.save(state, item, &BeforeAll { since: self.base()?, ..before })?)
    }

    /// Returns what tells whether an attempt has changed anything.
    pub(crate) fn probe(&self, before: &BeforeAll) -> ChangeProbe {
        let repositories = self.found.iter().filter_map(|repository| {
            Some(Probed {
                repository: Arc::clone(&repository.gates),
                before: before.repositories.get(&repository.key())?.clone(),
                since: before.since.get(&repository.key()).map(oid),
                own: repository.own.clone(),
            })
        });
        ChangeProbe { repositories: repositories.collect() }
    }

    /// Returns the commits that the work on a task ended with, one of each repository that has some: of where its `HEAD`
    /// stands, or else of the first branch that the run made or moved. What the present attempt did stands first; what
    /// earlier ones did elsewhere is part of the work. Where there is none at all it is the first `HEAD`, for the judge to
    /// say so.
    pub(crate) fn work_of(&self, before: &BeforeAll) -> Result<Vec<Work>, WorkflowError> {
        let (mut works, mut earlier, mut first) = (Vec::new(), Vec::new(), None);
        for repository in &self.found {
            let git = repository.gates.git();
            let refs = git.refs()?;
            let stood = before.stood.get(&repository.key()).map(oid);
            let Some(head) = stood.or_else(|| refs.head.id().cloned()) else { continue };
            first.get_or_insert_with(|| repository.work(&head));
            let noted = before.repositories.get(&repository.key());
            let since = before.since.get(&repository.key()).map(oid);
            let own = &repository.own;
            let is_new = |tip: &&Oid| is_work(git, own, since.as_ref(), tip);
            let on_branch = || moved_branches(&noted?.refs, &refs).find(is_new);
            let base = noted.and_then(|noted| noted.base.as_ref());
            if is_new(&&head) {
                works.push(repository.work(&last_work(git, own, since.as_ref(), head)?));
            } else if let Some(tip) = on_branch() {
                works.push(repository.work(tip));
            } else if base.is_some() && is_work(git, own, base, &head) {
                earlier.push(repository.work(&last_work(git, own, base, head)?));
            }
        }
        works.append(&mut earlier);
        if works.is_empty() {
            works.extend(first);
        }
        Ok(works)
    }

    /// Whether two commits are the same work: only Ralph's own files differ between them.
    pub(crate) fn is_same_work(
        &self,
        one: &CommitId,
        other: &CommitId,
    ) -> Result<bool, WorkflowError> {
        if one == other {
            return Ok(true);
        }
        let ids = [oid(one), oid(other)];
        for repository in &self.found {
            let git = repository.gates.git();
            if git.have(&ids)?.iter().all(|there| *there) {
                return Ok(!is_work(git, &repository.own, Some(&ids[0]), &ids[1]));
            }
        }
        Ok(false)
    }

    /// Returns what tells one state of the work from another: what is committed and what is not, but for home.
    pub(crate) fn print(&self) -> Result<String, WorkflowError> {
        let mut print = String::new();
        for repository in &self.found {
            let git = repository.gates.git();
            let own = &repository.own;
            if let Some(head) = git.head()?.id().cloned() {
                print += last_work(git, own, None, head)?.as_str();
            }
            print += &serde_json::to_string(&repository.dirt()?).expect("it is plain data");
        }
        Ok(print)
    }

    /// Takes work that was done on another branch into the one that the run began on, where that only moves it forward.
    /// Returns why not, where it does not.
    pub(crate) fn take_in(&self, work: &Work) -> Result<Option<String>, WorkflowError> {
        let Some(repository) = self.found.iter().find(|found| found.name == work.repository) else {
            return Ok(None);
        };
        let git = repository.gates.git();
        let commit = oid(&work.commit);
        let Head::Branch { id: head, name: branch } = git.head()? else { return Ok(None) };
        if git.is_ancestor(&commit, &head)? {
            return Ok(None);
        }
        let branch = branch.strip_prefix("refs/heads/").unwrap_or(&branch).to_owned();
        if !git.is_ancestor(&head, &commit)? {
            return Ok(Some(format!(
                "the work is in {}, which `{branch}` does not lead to: merge it by hand",
                commit.as_str()
            )));
        }
        // In the checkout Ralph itself commits these on the run's branch alone.
        let forged = state_files(&repository.own, git.changes(&head, &commit)?.iter());
        if !forged.is_empty() {
            return Ok(Some(format!(
                "its commits change files that only Ralph writes: {}. Take these changes out of them",
                forged.join(", ")
            )));
        }
        Ok(match git.fast_forward(&commit) {
            Ok(()) => None,
            Err(problem) => Some(format!("cannot take the work into `{branch}`: {problem}")),
        })
    }
}

/// Whether the current attempt has changed anything yet, during its run.
pub(crate) struct ChangeProbe {
    repositories: Vec<Probed>,
}

struct Probed {
    repository: Arc<dyn WorkRepository>,
    before: Before,
    since: Option<Oid>,
    own: Vec<PathBuf>,
}

impl ChangeProbe {
    /// Returns whether everything outside home is as it was. What cannot be looked at counts as changed: the judge will
    /// look again.
    pub(crate) fn is_unchanged(&self) -> bool {
        self.repositories.iter().all(|probed| {
            let Probed { repository, before, since, own } = probed;
            let git = repository.git();
            let Ok(refs) = git.refs() else { return false };
            let Ok(dirt) = git.dirt(own) else { return false };
            let mut tips = refs.head.id().into_iter().chain(moved_branches(&before.refs, &refs));
            before.dirt.leftovers(&dirt).new.is_empty()
                && !tips.any(|tip| is_work(git, own, since.as_ref(), tip))
        })
    }
}

impl BeforeAll {
    /// Tells whether the runs of the item left nothing uncommitted, as far as that was looked at.
    pub(crate) fn left_nothing(&self) -> bool {
        self.repositories.iter().all(|(name, before)| {
            self.left.get(name).is_some_and(|left| before.dirt.leftovers(left).new.is_empty())
        })
    }

    /// Returns what is dirty because runs left it so.
    pub(super) fn left_by_runs(&self, name: &str, now: &Dirt) -> Vec<PathBuf> {
        let Some(before) = self.repositories.get(name) else { return Vec::new() };
        let mut paths = before.dirt.leftovers(now).new;
        // Where Ralph could not look after the run, nobody knows better. What git thinks of a file may have changed since, by
        // a commit that was cut short; the file itself may not.
        if let Some(left) = self.left.get(name) {
            let file = |dirt: &Dirt, path: &Path| dirt.find(path).map(|dirty| dirty.file.clone());
            paths.retain(|path| file(left, path) == file(now, path));
        }
        paths
    }
}

/// Tells whether there is anything outside home between two commits. What cannot be compared counts as work.
fn is_work(git: &dyn GitAccess, own: &[PathBuf], since: Option<&Oid>, tip: &Oid) -> bool {
    let Some(since) = since else { return true };
    if since == tip {
        return false;
    }
    git.changes(since, tip)
        .map_or(true, |changes| changes.iter().any(|change| !is_own(own, &change.path)))
}

/// Returns the last commit that changed something outside home, from `tip` back.
fn last_work(
    git: &dyn GitAccess,
    own: &[PathBuf],
    since: Option<&Oid>,
    tip: Oid,
) -> Result<Oid, WorkflowError> {
    let mut at = tip;
    while Some(&at) != since {
        let Some(header) = git.find_commit(at.as_str())? else { break };
        let [parent] = &header.parents[..] else { break };
        if is_work(git, own, Some(parent), &at) {
            break;
        }
        at = parent.clone();
    }
    Ok(at)
}

pub(super) fn moved_branches<'r>(
    before: &'r RefsSnapshot,
    now: &'r RefsSnapshot,
) -> impl Iterator<Item = &'r Oid> {
    let is_branch = |name: &str| name.starts_with("refs/heads/") || name.starts_with(DETACHED);
    let branches = now.refs.iter().filter(move |found| is_branch(&found.name));
    branches.filter(|found| before.id_of(&found.name) != Some(&found.id)).map(|found| &found.id)
}
