//! Refs after a run that may write: everything that was reachable before it still is, and every ref that is not the run's
//! own to move is what it was.
//!
//! | what a run did | what follows |
//! |---|---|
//! | made a branch or a tag, moved a branch forward, fetched | nothing |
//! | deleted a branch, a tag, the stash, any other ref | put back, told |
//! | moved a tag or the stash | put back, told; of the stash all entries ([`run_stash`](super::run_stash)) |
//! | removed the newest entries of a reflog | told ([`reflogs`](super::reflogs)) |
//! | moved a branch so that commits are on no ref any more | put back, the run has failed; what it moved to is kept |
//! | touched Ralph's own refs, loose or packed | put back, the run has failed |
//!
//! Commits that are only on Ralph's own refs do not count as reachable: these are for looking, not for working on.

use camino::Utf8PathBuf;
use ralph_proc::end_note::FileTime;
use serde::{Deserialize, Serialize};

use super::compare::{BoundaryFinding, BoundaryReport, Watch, is_ref_later};
use super::reflogs::{LogEnd, log_ends};
use super::refs::{self, Refs};
use super::run_stash::{STASH, StashReturn};
use crate::git::stash::Stash;
use crate::git::undo::RefReturn;
use crate::git::{Git, GitProgram, Head, Oid, RepositoryLocation, read_regular};
use crate::state::State;

/// The refs of one repository before a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RefsBefore {
    pub(super) common_dir: Utf8PathBuf,
    /// What is checked out: the line that `HEAD` consists of.
    pub(super) head: Option<String>,
    refs: Refs,
    #[serde(default)]
    pub(super) stash: Stash,
    #[serde(default)]
    logs: Vec<LogEnd>,
}

impl RefsBefore {
    /// The branch that was checked out.
    pub(super) fn branch(&self) -> Option<&str> {
        self.head.as_deref()?.strip_prefix("ref: ")
    }

    /// The commit that was checked out; `None` on an unborn branch.
    pub(super) fn tip(&self) -> Option<Oid> {
        let head = self.head.as_deref()?;
        let id = self.branch().map_or(Some(head), |branch| self.refs.get(branch).map(|id| &**id));
        Oid::parse(id?.as_bytes())
    }
}

/// Records every ref, and what only reflogs hold. In the person's own repositories the stash is saved first.
pub(crate) fn note_refs(
    places: &[RepositoryLocation],
    person: Option<&GitProgram>,
) -> Vec<RefsBefore> {
    let note = |place: &RepositoryLocation| {
        if let Some(program) = person {
            // Where this fails, the mirror of a workflow has the entries.
            let _ = Git::at(program.clone(), place.clone()).save_stash();
        }
        RefsBefore {
            common_dir: place.common_dir.clone(),
            head: head_of(place),
            refs: refs::now(place),
            stash: Stash::of(place),
            logs: if person.is_some() { log_ends(place) } else { Vec::new() },
        }
    };
    places.iter().map(note).collect()
}

/// Says what is checked out in each repository, for people.
pub(crate) fn checked_out(places: &[RepositoryLocation]) -> Vec<Option<String>> {
    let shown = |head: String| match head.strip_prefix("ref: refs/heads/") {
        Some(branch) => format!("the branch `{branch}`"),
        None => format!("the commit {head}"),
    };
    places.iter().map(|place| head_of(place).map(shown)).collect()
}

/// Returns the name of the branch that is checked out, or the commit of a detached `HEAD`.
pub(super) fn head_of(place: &RepositoryLocation) -> Option<String> {
    let text = read_regular(place.git_dir.join("HEAD").as_std_path()).ok()??;
    Some(String::from_utf8_lossy(&text).trim().to_owned())
}

/// What the run has moved in one repository.
struct Moved {
    refs: Vec<RefReturn>,
    stash: Option<StashReturn>,
}

/// What is to become of a ref.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RefFate {
    Stays,
    PutBack { violation: bool },
}

impl Watch {
    /// Compares the refs with those before the run, and puts back what is not the run's to change. Returns where the run
    /// had moved them, which is kept under a ref of Ralph's.
    pub(super) fn return_refs(
        &self,
        gone: Option<FileTime>,
        state: &State,
        program: &dyn Fn() -> GitProgram,
        before_repair: &dyn Fn(),
        report: &mut BoundaryReport,
    ) -> Vec<Oid> {
        let mut kept = Vec::new();
        for place in &self.places {
            let known = self.refs.iter().find(|known| known.common_dir == place.common_dir);
            let Some(before) = known else { continue };
            let now = refs::now(place);
            self.tell_of_logs(&before.logs, place, &now, report);
            let git = Git::at(program(), place.clone());
            let stash = Watch::stash_to_return(gone, &git, before, &now, state, report);
            if now == before.refs && stash.is_none() {
                continue;
            }
            let mut moved = refs::differences(&before.refs, &now);
            moved.retain(|moved| moved.name != STASH || before.stash.is_empty());
            // A ref that moved after the last process of the run had ended was not moved by the run.
            moved.retain(|moved| {
                let is_later = is_ref_later(gone, place, &moved.name);
                if is_later {
                    report.kept.push(BoundaryFinding::of_ref(moved));
                }
                !is_later
            });
            let moved = Moved { refs: moved, stash };
            kept.extend(self.return_refs_of(&git, moved, &now, state, before_repair, report));
        }
        kept
    }

    fn return_refs_of(
        &self,
        git: &Git,
        Moved { refs: moved, stash }: Moved,
        now: &Refs,
        state: &State,
        before_repair: &dyn Fn(),
        report: &mut BoundaryReport,
    ) -> Vec<Oid> {
        let tips = persons_tips(now);
        let mut returned = Vec::new();
        let mut dropped_to = Vec::new();
        let ids: Vec<Oid> = moved.iter().filter_map(|moved| moved.before.clone()).collect();
        fetch_back(git, state, &ids);
        for moved in moved {
            let is_dropped = is_dropped(git, &moved, &tips);
            let RefFate::PutBack { violation } = fate(&moved, is_dropped) else { continue };
            let found = BoundaryFinding::of_ref(&moved);
            if violation {
                report.violations.push(found.clone());
            }
            dropped_to.extend(moved.now.clone());
            returned.push((found, moved));
        }
        if !returned.is_empty() || stash.is_some() {
            before_repair();
        }
        dropped_to.extend(stash.iter().flat_map(|stash| stash.dropped.iter().cloned()));
        // Where the run had moved them is kept: it may be work that is worth a look.
        let name = format!("refs/ralph/displaced/{}", self.run);
        if !dropped_to.is_empty()
            && git.keep_displaced(&name, &[], &dropped_to, self.started).is_ok()
        {
            report.displaced = Some(name);
        }
        for (found, moved) in returned {
            if return_one(git, &moved) {
                report.put_back.push(found);
            } else {
                report.left.push(found);
            }
        }
        if let Some(stash) = stash {
            let is_back = stash.perform(git);
            let list = if is_back { &mut report.put_back } else { &mut report.left };
            list.push(stash.found);
        }
        dropped_to
    }
}

/// Takes commits back from the mirror that the run has pruned.
pub(super) fn fetch_back(git: &Git, state: &State, ids: &[Oid]) {
    // Where that fails a ref cannot be put back, and is named among what is left.
    let _ = git.take_missing(&mirror_of(git.place(), state), ids);
}

/// Where the mirror of a repository is, if there is one.
pub(super) fn mirror_of(place: &RepositoryLocation, state: &State) -> Utf8PathBuf {
    state.repository(&place.common_dir).join("mirror")
}

/// Decides by the name of a ref, and by whether commits are lost.
fn fate(moved: &RefReturn, is_dropped: bool) -> RefFate {
    let name = moved.name.as_str();
    let is_in = |prefix: &str| name.starts_with(prefix);
    if is_in("refs/ralph/") || name == "refs/notes/ralph" {
        return RefFate::PutBack { violation: true };
    }
    if is_in("refs/remotes/") || is_in("refs/replace/") || moved.before.is_none() {
        // What a remote has comes and goes with a fetch; replacements are put back with the settings.
        return RefFate::Stays;
    }
    if moved.now.is_none() || is_in("refs/tags/") || name == "refs/stash" {
        return RefFate::PutBack { violation: false };
    }
    if is_dropped { RefFate::PutBack { violation: true } } else { RefFate::Stays }
}

/// The commits that refs of the person and the run lead to.
fn persons_tips(refs: &Refs) -> Vec<Oid> {
    let refs = refs.iter().filter(|(name, _)| !name.starts_with("refs/ralph/"));
    refs.filter_map(|(_, text)| Oid::parse(text.as_bytes())).collect()
}

/// Whether the old target of a ref is no longer reachable. If unknown, it counts as lost: restoring does no harm.
fn is_dropped(git: &Git, moved: &RefReturn, tips: &[Oid]) -> bool {
    let Some(old) = &moved.before else { return false };
    let is_forward = |now: &Oid| git.is_ancestor(old, now).unwrap_or(false);
    !tips.contains(old)
        && !moved.now.as_ref().is_some_and(is_forward)
        && git.new_commits(std::slice::from_ref(old), tips).map_or(true, |lost| !lost.is_empty())
}

/// Puts one ref back; the branch that is checked out with its files.
fn return_one(git: &Git, moved: &RefReturn) -> bool {
    let is_checked_out = git
        .head()
        .is_ok_and(|head| matches!(head, Head::Branch { name, .. } if name == moved.name));
    if let Some(before) = moved.before.as_ref().filter(|_| is_checked_out && moved.now.is_some())
        && git.move_branch_to(before).is_ok()
    {
        return true;
    }
    git.return_refs(std::slice::from_ref(moved)).is_ok()
}
