//! The draft of home: the copy in private state that a workflow reads and writes while its agents work.
//!
//! What is in flight is the difference between the draft and home *as seen*: home at the tip of the run's branch, with
//! what the person has not committed of it laid over while that branch is checked out. [`HomeDraft::sync`] looks at the
//! person's side again and merges what has changed there: the plan by record, notes by line, any other file as the person
//! has it. So a plan written by hand, an edited spec or `ralph task add` wins at the next step, and nothing that a person
//! does to the checkout meanwhile changes what is in flight.
//!
//! The draft is committed after each transition, in a repository of its own, and what is in flight to a ref of its item
//! ([`super::in_flight`]).

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use camino::{Utf8Path, Utf8PathBuf};
use ralph_model::memory::merge_notes;
use ralph_model::plan::Plan;
use serde::{Deserialize, Serialize};

use super::access::{HomeAccess, LandingRepository};
use super::in_flight::{Flight, FlyingFile};
use crate::files::disk::{self, FileKind};
use crate::files::tree_watch::TreeWatch;
use crate::files::{PathError, read_optional};
use crate::git::home_copy::{HomeBlob, HomeChange, HomeCopyError};
use crate::git::landing::FileEdit;
use crate::git::{ObjectError, Oid, RepositoryLocation};
use crate::plan_file::PLAN_FILE;
use crate::plan_file::draft::merge_plan;
use crate::repository::GitAccess;
use crate::state::{Entry, State};
use crate::workflow::WorkflowError;

/// What the draft of a home was last brought in line with, by the path of the home.
pub(super) const SEEN: Entry<Seen> =
    Entry::new("drafts", "what is in flight is known from refs alone");

/// Files that agents keep notes in; both sides' lines are kept.
pub(super) const NOTES: [&str; 2] = ["SCRATCHPAD.md", "progress.txt"];

const REGULAR: &str = "100644";

/// Home on the person's side, as it was when the draft was last brought in line with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Seen {
    /// The tip of the run's branch; `None` where there was no commit yet.
    pub(super) tip: Option<Oid>,
    /// A tree that holds home alone.
    tree: Oid,
    /// What the person had edited and not committed.
    #[serde(default)]
    edits: Option<Edits>,
    /// Where the draft stood when this was noted; its commits since are on top. An earlier Ralph did not note it.
    #[serde(default)]
    pub(super) draft: Option<Oid>,
}

/// Files of home in the person's checkout that are not as its `HEAD` has them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Edits {
    head: Option<Oid>,
    /// Home as it is in the checkout.
    tree: Oid,
    /// What the edits are a change of: home at `HEAD`, but files that have landed as they were edited when they did.
    base: Oid,
}

/// Home on the person's side now.
pub(crate) struct PersonsHome<'a> {
    /// The tip that work lands on.
    pub(crate) tip: Option<&'a Oid>,
    /// The person's checkout, while it is on the run's branch.
    pub(crate) checkout: Option<PersonsCheckout<'a>>,
}

/// The person's checkout.
#[derive(Clone, Copy)]
pub(crate) struct PersonsCheckout<'a> {
    pub(crate) git: &'a dyn GitAccess,
    pub(crate) place: &'a RepositoryLocation,
}

/// What Ralph keeps in home but never in git, and writes in the person's while a workflow is at work.
const PRIVATE: [&str; 3] = ["runs", "ralph.log", "specs/sessions"];

/// The last look at the person's checkout. As long as nothing happens there, another would find the same.
struct LastLook {
    state: CheckoutState,
    watch: TreeWatch,
    seen: Seen,
    /// Files that may not be as `HEAD` has them, named from the root of the work tree: those that were not when they were
    /// looked at, and those that have changed since.
    suspects: BTreeSet<PathBuf>,
}

impl LastLook {
    /// Takes note of what has happened since, and tells whether anything has. `None` if that is not known file by file.
    fn follow(
        &mut self,
        checkout: PersonsCheckout<'_>,
        inside: &Path,
        now: &CheckoutState,
    ) -> Option<bool> {
        let changed = self.watch.changes()?;
        if self.state.ignore_rules != now.ignore_rules {
            return None;
        }
        let is_quiet = changed.is_empty() && self.state == *now;
        let mut news: Vec<PathBuf> = changed.into_iter().map(|path| inside.join(path)).collect();
        if self.state.head != now.head {
            let moved = checkout.git.tree_changes(self.state.head.as_ref()?, now.head.as_ref()?);
            let paths = moved.ok()?.into_iter().map(|change| change.path);
            news.extend(paths.filter(|path| path.starts_with(inside)));
        }
        // It says which other files are ignored.
        let is_rule = |path: &PathBuf| path.file_name().is_some_and(|name| name == ".gitignore");
        if news.iter().any(is_rule) {
            return None;
        }
        self.suspects.extend(news);
        Some(!is_quiet)
    }
}

/// Records, in addition to the files of home, how they differ from the tip.
#[derive(PartialEq, Eq)]
struct CheckoutState {
    tip: Option<Oid>,
    head: Option<Oid>,
    /// The index: git replaces it by another file.
    index: Option<FileMark>,
    /// The files outside home that say what is ignored in it.
    ignore_rules: Vec<Option<FileMark>>,
}

/// Inode, size and times of a file.
type FileMark = (u64, u64, i64, i64);

fn mark_of(path: &Utf8Path) -> Option<FileMark> {
    let found = path.symlink_metadata().ok()?;
    let nanoseconds = found.ctime().wrapping_mul(1_000_000_000);
    Some((found.ino(), found.size(), nanoseconds.wrapping_add(found.ctime_nsec()), found.mtime()))
}

impl CheckoutState {
    fn of(
        checkout: PersonsCheckout<'_>,
        tip: Option<&Oid>,
        inside: &Path,
    ) -> Result<CheckoutState, WorkflowError> {
        let place = checkout.place;
        let above = inside.ancestors().skip(1).filter_map(Utf8Path::from_path);
        let root = place.worktree.as_deref().unwrap_or(Utf8Path::new(""));
        let rules = above.map(|above| root.join(above).join(".gitignore"));
        let rules = rules.chain([place.common_dir.join("info/exclude")]);
        Ok(CheckoutState {
            tip: tip.cloned(),
            head: checkout.git.head()?.id().cloned(),
            index: mark_of(&place.git_dir.join("index")),
            ignore_rules: rules.map(|path| mark_of(&path)).collect(),
        })
    }
}

/// The draft of one home.
pub(crate) struct HomeDraft {
    pub(super) copy: Box<dyn HomeAccess>,
    /// Home inside the draft.
    home: Utf8PathBuf,
    /// Home, named from the root of the work tree.
    inside: PathBuf,
    /// What the draft is filed under in private state.
    pub(super) key: String,
    last_look: RefCell<Option<LastLook>>,
}

impl HomeDraft {
    /// Opens the draft of a home. The flag tells whether it had to be created.
    pub(crate) fn open(
        repository: &dyn LandingRepository,
        directory: &Utf8Path,
        inside: &Path,
        home: &Utf8Path,
    ) -> Result<(HomeDraft, bool), WorkflowError> {
        let (copy, is_new) = repository.home_copy(directory, inside)?;
        let below = Utf8Path::from_path(inside).expect("home's path is UTF-8");
        let home_inside = copy.root().join(below);
        let draft = HomeDraft {
            copy,
            home: home_inside,
            inside: inside.to_owned(),
            key: home.to_string(),
            last_look: RefCell::new(None),
        };
        Ok((draft, is_new))
    }

    /// Returns home inside the draft.
    pub(crate) fn home(&self) -> &Utf8Path {
        &self.home
    }

    pub(super) fn git(&self) -> &dyn GitAccess {
        self.copy.git()
    }

    /// Brings the draft in line with the person's side; returns what they changed that was in flight as well. A draft that
    /// was lost takes up `flights`.
    ///
    /// What the workflow has written must be committed before. Every step can be repeated after a crash.
    pub(super) fn sync(
        &self,
        state: &State,
        persons: &PersonsHome<'_>,
        flights: &[Flight],
    ) -> Result<Vec<PathBuf>, WorkflowError> {
        let before = SEEN.load(state, &self.key)?;
        let now = self.look(persons, before.as_ref())?;
        let is_known = |before: &Seen| Seen { draft: None, ..before.clone() } == now;
        if before.as_ref().is_some_and(is_known) {
            return Ok(Vec::new());
        }
        let (merged, taken) = match &before {
            None => (self.lay_over(&now.tree, flights)?, Vec::new()),
            Some(before) => self.merge(&before.tree, &now.tree)?,
        };
        self.copy.stand_on(now.tip.as_ref(), &merged)?;
        self.note_seen(state, now)?;
        Ok(taken)
    }

    /// Records what the draft is synchronised with, and its position.
    fn note_seen(&self, state: &State, seen: Seen) -> Result<(), WorkflowError> {
        let draft = self.git().head()?.id().cloned();
        Ok(SEEN.save(state, &self.key, &Seen { draft, ..seen })?)
    }

    /// Looks at home as the person has it.
    fn look(
        &self,
        persons: &PersonsHome<'_>,
        before: Option<&Seen>,
    ) -> Result<Seen, WorkflowError> {
        let Some(checkout) = persons.checkout else {
            let tree = self.copy.tree_at(persons.tip)?;
            return Ok(Seen { tip: persons.tip.cloned(), tree, edits: None, draft: None });
        };
        let state = CheckoutState::of(checkout, persons.tip, &self.inside)?;
        let mut last_look = self.last_look.borrow_mut();
        if let Some(mut last) = last_look.take()
            && let Some(is_news) = last.follow(checkout, &self.inside, &state)
        {
            if is_news {
                let found = self.look_through(checkout, persons.tip, before, Some(&last.suspects));
                (last.seen, last.suspects) = found?;
                last.state = state;
            }
            return Ok(last_look.insert(last).seen.clone());
        }
        // Watched first, so that what changes during the look is seen by the next one.
        let root = checkout.place.worktree.as_deref().filter(|_| self.inside.as_os_str() != "");
        let home = root.zip(Utf8Path::from_path(&self.inside)).map(|(root, home)| root.join(home));
        let watch = home.and_then(|home| TreeWatch::over(&home, &PRIVATE));
        let (seen, suspects) = self.look_through(checkout, persons.tip, before, None)?;
        let looked = |watch| LastLook { state, watch, seen: seen.clone(), suspects };
        *last_look = watch.map(looked);
        Ok(seen)
    }

    /// Looks through home in the person's checkout, or at some files only; returns the edited ones as well.
    ///
    /// What they have edited is a change of what their `HEAD` has. A file that has landed since, while the checkout does not
    /// follow, has the edits of then: they are no change any more, whatever became of them on the branch.
    fn look_through(
        &self,
        checkout: PersonsCheckout<'_>,
        tip: Option<&Oid>,
        before: Option<&Seen>,
        among: Option<&BTreeSet<PathBuf>>,
    ) -> Result<(Seen, BTreeSet<PathBuf>), WorkflowError> {
        let at_tip = self.copy.tree_at(tip)?;
        let edited = match among {
            _ if self.inside.as_os_str().is_empty() => checkout.git.status(),
            Some(among) => checkout.git.status_among(&self.inside, among),
            None => checkout.git.status_within(&self.inside),
        };
        let mut edited: Vec<PathBuf> = edited?.into_iter().map(|entry| entry.path).collect();
        // What ends in a slash is a repository of its own.
        edited.retain(|path| !path.as_os_str().as_encoded_bytes().ends_with(b"/"));
        edited.retain(|path| !self.is_private(path));
        let edited: BTreeSet<PathBuf> = edited.into_iter().collect();
        if edited.is_empty() {
            let seen = Seen { tip: tip.cloned(), tree: at_tip, edits: None, draft: None };
            return Ok((seen, edited));
        }
        let root = checkout.place.worktree.as_ref().expect("a checkout has a work tree");
        let head = checkout.git.head()?;
        let at_head = self.copy.tree_at(head.id())?;
        let mut in_checkout = Vec::new();
        for path in &edited {
            let content = read_regular(root, path)?;
            if self.is_unfit_plan(path, content.as_deref(), head.id())? {
                continue;
            }
            let after = content.map(|bytes| self.blob(&bytes)).transpose()?;
            in_checkout.push(HomeChange { path: path.clone(), after });
        }
        let in_checkout = self.copy.tree_with(&at_head, &in_checkout)?;
        let earlier = before.and_then(|before| before.edits.as_ref());
        let earlier = earlier.filter(|edits| edits.head.as_ref() == head.id());
        let base = earlier.map_or(at_head, |edits| edits.base.clone());
        let tree = self.merge_trees(&base, &at_tip, &in_checkout)?.0;
        let edits = Some(Edits { head: head.id().cloned(), tree: in_checkout, base });
        Ok((Seen { tip: tip.cloned(), tree, edits, draft: None }, edited))
    }

    /// Tells whether a person has edited the plan so that no agent could work on it. It is not taken up before they have
    /// mended it: it would land with the next task, and what they mend then is another file.
    fn is_unfit_plan(
        &self,
        path: &Path,
        content: Option<&[u8]>,
        head: Option<&Oid>,
    ) -> Result<bool, WorkflowError> {
        let is_plan = path == self.inside.join(PLAN_FILE);
        let (Some(content), Some(head)) = (content.filter(|_| is_plan), head) else {
            return Ok(false);
        };
        let is_workable = |plan: &[u8]| Plan::parse(plan).workable().is_ok();
        let committed = self.git().file_at(head, path)?.unwrap_or_default();
        Ok(!is_workable(content) && is_workable(&committed))
    }

    /// Merges what the person changed into the draft.
    fn merge(&self, seen: &Oid, now: &Oid) -> Result<(Oid, Vec<PathBuf>), WorkflowError> {
        let own = self.copy.head_tree()?;
        self.merge_trees(seen, &own, now)
    }

    /// Returns what `ours` and `theirs` made of `base`, and the paths that both had changed.
    fn merge_trees(
        &self,
        base: &Oid,
        ours: &Oid,
        theirs: &Oid,
    ) -> Result<(Oid, Vec<PathBuf>), WorkflowError> {
        if base == ours || base == theirs {
            let changed = if base == ours { theirs } else { ours };
            return Ok((changed.clone(), Vec::new()));
        }
        let git = self.git();
        let our_changes: BTreeMap<PathBuf, Option<HomeBlob>> = git
            .tree_changes(base, ours)?
            .into_iter()
            .map(|change| (change.path, change.after))
            .collect();
        let (mut changes, mut both) = (Vec::new(), Vec::new());
        for change in git.tree_changes(base, theirs)? {
            match our_changes.get(&change.path) {
                None => changes.push(change),
                Some(own) if *own == change.after => {}
                Some(own) => {
                    both.push(change.path.clone());
                    changes.push(self.merge_file(base, own.as_ref(), change)?);
                }
            }
        }
        Ok((self.copy.tree_with(ours, &changes)?, both))
    }

    /// Merges one file that both sides changed.
    fn merge_file(
        &self,
        base: &Oid,
        ours: Option<&HomeBlob>,
        theirs: HomeChange,
    ) -> Result<HomeChange, WorkflowError> {
        let (Some(our_blob), Some(their_blob)) = (ours, &theirs.after) else { return Ok(theirs) };
        let blobs = self.copy.blobs(&[our_blob.id.clone(), their_blob.id.clone()])?;
        let read = |blob: &HomeBlob| blobs.get(&blob.id).cloned().unwrap_or_default();
        let base = self.git().file_at(base, &theirs.path)?.unwrap_or_default();
        let merged = merge_home_file(&theirs.path, &base, &read(our_blob), read(their_blob));
        Ok(HomeChange { after: Some(self.blob(&merged)?), ..theirs })
    }

    /// Tells whether a path is one of those that Ralph keeps in home but never in git, also where home does not ignore
    /// them yet.
    fn is_private(&self, path: &Path) -> bool {
        let inside = path.strip_prefix(&self.inside).unwrap_or(path);
        let name = inside.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        PRIVATE.iter().any(|private| inside.starts_with(private)) || name.ends_with(".ralph-tmp")
    }

    pub(super) fn blob(&self, bytes: &[u8]) -> Result<HomeBlob, WorkflowError> {
        Ok(HomeBlob { mode: REGULAR.to_owned(), id: self.copy.write_blob(bytes)? })
    }

    /// Returns what is in flight: what differs from home as it was seen on the person's side. `with` are files, named
    /// from home, that are part of it as the draft has them even if the person wrote them and has not committed them.
    pub(crate) fn in_flight(
        &self,
        state: &State,
        with: &[&Utf8Path],
    ) -> Result<Vec<HomeChange>, WorkflowError> {
        let Some(seen) = SEEN.load(state, &self.key)? else { return Ok(Vec::new()) };
        let own = self.copy.head_tree()?;
        let mut changes = self.git().tree_changes(&seen.tree, &own)?;
        if with.is_empty() {
            return Ok(changes);
        }
        let at_tip = self.copy.tree_at(seen.tip.as_ref())?;
        for change in self.git().tree_changes(&at_tip, &own)? {
            let is_wanted = with.iter().any(|path| change.path == self.inside.join(path));
            if is_wanted && !changes.iter().any(|known| known.path == change.path) {
                changes.push(change);
            }
        }
        Ok(changes)
    }

    /// Returns what is in flight as an item's ref holds it; `None` before the first look at the person's side.
    pub(super) fn flight(
        &self,
        state: &State,
        item: &str,
        checkout: &Utf8Path,
    ) -> Result<Option<Flight>, WorkflowError> {
        let Some(seen) = SEEN.load(state, &self.key)? else { return Ok(None) };
        let changes = self.git().tree_changes(&seen.tree, &self.copy.head_tree()?)?;
        let paths: Vec<&Path> = changes.iter().map(|change| change.path.as_path()).collect();
        let before = self.copy.blobs_in(&seen.tree, &paths)?;
        let mut files = BTreeMap::new();
        for (edit, was) in self.edits(&changes)?.into_iter().zip(before) {
            let was = was.map(|blob| blob.id);
            files.insert(edit.path, FlyingFile { was, now: edit.content });
        }
        let (item, checkout) = (item.to_owned(), checkout.to_owned());
        let home = self.inside.clone();
        Ok(Some(Flight { item, checkout, home, seen: seen.tip, files }))
    }

    /// Returns what a file of the draft holds, by its path from the root of the work tree.
    pub(super) fn file(&self, path: &Path) -> Result<Option<Vec<u8>>, WorkflowError> {
        let tree = self.copy.head_tree()?;
        let Some(blob) = self.copy.blobs_in(&tree, &[path])?.remove(0) else { return Ok(None) };
        Ok(self.copy.blobs(std::slice::from_ref(&blob.id))?.remove(&blob.id))
    }

    /// Returns home, named from the root of the work tree.
    pub(super) fn inside(&self) -> &Path {
        &self.inside
    }

    /// Forgets what the draft was last brought in line with.
    pub(super) fn forget(&self, state: &State) -> Result<(), PathError> {
        SEEN.forget(state, &self.key)
    }

    /// Tells whether nothing is known of what the draft was last brought in line with.
    pub(super) fn is_lost(&self, state: &State) -> Result<bool, PathError> {
        Ok(SEEN.load(state, &self.key)?.is_none())
    }

    /// Returns the tip that the draft was last brought in line with.
    pub(crate) fn seen_tip(&self, state: &State) -> Result<Option<Oid>, PathError> {
        Ok(SEEN.load(state, &self.key)?.and_then(|seen| seen.tip))
    }

    /// Returns what is in flight, one entry for each commit of the draft, with its message.
    pub(crate) fn steps(
        &self,
        state: &State,
    ) -> Result<Vec<(String, Vec<HomeChange>)>, WorkflowError> {
        let Some(seen) = SEEN.load(state, &self.key)? else { return Ok(Vec::new()) };
        let mut tree = seen.tree;
        let mut steps = Vec::new();
        let mut commits = self.copy.steps(seen.tip.as_ref())?;
        // Those up to the one that the person's side has already were published before.
        if let Some(last) = commits.iter().rposition(|(_, known)| *known == tree) {
            commits.drain(..=last);
        }
        for (message, next) in commits {
            let changes = self.git().tree_changes(&tree, &next)?;
            if !changes.is_empty() {
                steps.push((message, changes));
            }
            tree = next;
        }
        Ok(steps)
    }

    /// Notes that some changes are on the branch: they are in flight no longer.
    pub(crate) fn published(
        &self,
        state: &State,
        tip: &Oid,
        changes: &[HomeChange],
    ) -> Result<(), WorkflowError> {
        let Some(seen) = SEEN.load(state, &self.key)? else { return Ok(()) };
        let tree = self.copy.tree_with(&seen.tree, changes)?;
        let edits = self.edits_after(seen.edits, changes)?;
        self.note_seen(state, Seen { tip: Some(tip.clone()), tree, edits, draft: None })
    }

    /// Returns the person's edits when files have landed: of those the branch has what was edited.
    fn edits_after(
        &self,
        edits: Option<Edits>,
        landed: &[HomeChange],
    ) -> Result<Option<Edits>, WorkflowError> {
        let Some(edits) = edits else { return Ok(None) };
        let paths: Vec<&Path> = landed.iter().map(|change| change.path.as_path()).collect();
        let edited = self.copy.blobs_in(&edits.tree, &paths)?;
        let known = paths.into_iter().zip(edited);
        let known = known.map(|(path, after)| HomeChange { path: path.to_owned(), after });
        let base = self.copy.tree_with(&edits.base, &known.collect::<Vec<_>>())?;
        Ok(Some(Edits { base, ..edits }))
    }

    /// Notes that all that was in flight is on the branch.
    pub(crate) fn landed(&self, state: &State, tip: &Oid) -> Result<(), WorkflowError> {
        let tree = self.copy.tree_at(Some(tip))?;
        self.copy.stand_on(Some(tip), &tree)?;
        let edits = match SEEN.load(state, &self.key)? {
            Some(seen) => {
                let before = self.copy.tree_at(seen.tip.as_ref())?;
                self.edits_after(seen.edits, &self.git().tree_changes(&before, &tree)?)?
            }
            None => None,
        };
        self.note_seen(state, Seen { tip: Some(tip.clone()), tree, edits, draft: None })
    }

    /// Returns changes as edits of a commit.
    pub(crate) fn edits(&self, changes: &[HomeChange]) -> Result<Vec<FileEdit>, WorkflowError> {
        let ids: Vec<Oid> =
            changes.iter().filter_map(|one| Some(one.after.as_ref()?.id.clone())).collect();
        let blobs = if ids.is_empty() { HashMap::new() } else { self.copy.blobs(&ids)? };
        let content = |blob: &HomeBlob| match blobs.get(&blob.id) {
            Some(bytes) => Ok(bytes.clone()),
            // A file whose content is lost is not one that was removed.
            None => Err(HomeCopyError::from(ObjectError::Missing { id: blob.id.clone() })),
        };
        let edit = |change: &HomeChange| -> Result<FileEdit, WorkflowError> {
            let content = change.after.as_ref().map(content).transpose()?;
            Ok(FileEdit { path: change.path.clone(), content })
        };
        changes.iter().map(edit).collect()
    }

    /// Names a file of the draft as commits do.
    pub(crate) fn in_commit(&self, path: &Utf8Path) -> PathBuf {
        self.inside.join(path.strip_prefix(&self.home).unwrap_or(path))
    }
}

/// Merges a file of home that Ralph (`ours`) and the person changed: the plan by record, notes by line. Any other is as
/// the person has it.
pub(super) fn merge_home_file(path: &Path, base: &[u8], ours: &[u8], theirs: Vec<u8>) -> Vec<u8> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if name == PLAN_FILE {
        return merge_plan(base, ours, &theirs);
    }
    if NOTES.contains(&name) { merge_notes(base, ours, &theirs) } else { theirs }
}

/// Reads a file of the person's checkout; what is no regular file counts as not there.
fn read_regular(root: &Utf8Path, path: &Path) -> Result<Option<Vec<u8>>, PathError> {
    let Some(path) = Utf8Path::from_path(path) else { return Ok(None) };
    let path = root.join(path);
    let is_file = disk::look(&path).is_ok_and(|found| found.kind == FileKind::File);
    if is_file { read_optional(&path) } else { Ok(None) }
}
