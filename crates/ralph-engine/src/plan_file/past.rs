//! The history of the plan: all ids and the outcome of every task, read from git and cached between commands.
//!
//! The results are cached in private state, with the last commit they cover. That commit must be an ancestor of the
//! requested one, otherwise everything is read again: a rewritten history is never patched. A merge among the new
//! commits also causes a full read, because the order of events on both sides is not known from one of them. Losing the
//! cache only costs time.

use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use camino::{Utf8Path, Utf8PathBuf};
use jiff::Timestamp;
use ralph_model::history::{ChangedLines, History, PlanVersion, TELLING_SUBJECTS};
use serde::{Deserialize, Serialize};

use super::PLAN_FILE;
use super::known::{IdsFile, KnownIds};
use crate::files::{create_private_directory, read_optional, replace_unsynced};
use crate::git::commits::Committed;
use crate::git::history::{HistoryError, HistoryQuery, LineChange, Walked, walk};
use crate::git::{Git, GitError, GitProgram, ObjectError, Oid, real_directory};
use crate::repository::GitAccess;
use crate::state::State;

/// The format version of the cache.
const FORMAT: u32 = 3;

/// Up to this many new commits are read again instead of updating the cache.
const NOT_WORTH_KEEPING: usize = 8;

/// The message for a shallow clone, and how to fetch the rest.
pub const SHALLOW: &str =
    "this clone is shallow, and `git fetch --unshallow` fetches what came before";

/// The history of a plan in its repository.
pub struct Past {
    git: Git,
    /// Relative to the root of the working tree.
    path: Utf8PathBuf,
    /// The cache directory; `None` for processes that may not write there.
    cache: Option<Utf8PathBuf>,
}

/// What a plan file needs from its repository. The simulation has another implementation.
pub(crate) trait PlanPast: Send + Sync {
    fn git(&self) -> &dyn GitAccess;

    /// The path of the plan, relative to the root of the working tree.
    fn path(&self) -> &Path;

    /// Returns all ids that the plan ever had up to `HEAD`.
    fn ids(&self) -> Result<KnownIds, PastError>;

    /// Adds the ids of a new commit, which replaced the plan `before` by `after`. See [`Past::note_commit`].
    fn note_commit(&self, made: &Committed, before: &[u8], after: &[u8]);

    /// Whether the clone is shallow.
    fn is_shallow(&self) -> bool;

    /// Explains which part of the history is missing and how to fetch it.
    fn gap(&self) -> Option<String>;
}

impl PlanPast for Past {
    fn git(&self) -> &dyn GitAccess {
        &self.git
    }

    fn path(&self) -> &Path {
        Past::path(self)
    }

    fn ids(&self) -> Result<KnownIds, PastError> {
        Past::ids(self)
    }

    fn note_commit(&self, made: &Committed, before: &[u8], after: &[u8]) {
        Past::note_commit(self, made, before, after);
    }

    fn is_shallow(&self) -> bool {
        self.git.is_shallow()
    }

    fn gap(&self) -> Option<String> {
        Past::gap(self)
    }
}

/// The history could not be read.
#[derive(Debug, thiserror::Error)]
pub enum PastError {
    #[error("commit, branch or tag `{name}` not found")]
    UnknownRevision { name: String },
    #[error(transparent)]
    History(#[from] HistoryError),
    #[error(transparent)]
    Git(#[from] GitError),
}

impl PastError {
    /// Returns advice for the person.
    pub fn hint(&self) -> Option<String> {
        match self {
            PastError::UnknownRevision { .. } => {
                Some("`git branch --all` lists the branches".to_owned())
            }
            PastError::History(HistoryError::Objects {
                path,
                source: ObjectError::Missing { .. },
            }) => Some(format!(
                "in a partial clone `git log -p -- {} >/dev/null` fetches what is not here",
                path.display()
            )),
            PastError::Git(error) | PastError::History(HistoryError::Git(error)) => error.hint(),
            PastError::History(_) => None,
        }
    }
}

/// The last commit of a requested history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tip {
    pub commit: Oid,
    /// The branch that ends there.
    pub(crate) branch: Option<String>,
}

/// What cached ids depend on.
#[derive(Serialize)]
struct About<'p> {
    format: u32,
    path: &'p Utf8Path,
    branch: Option<&'p str>,
}

/// The header of a cache file, which identifies its content.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct Label {
    format: u32,
    path: Utf8PathBuf,
    branch: Option<String>,
    tip: Oid,
}

/// Identifies a cached report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportKey {
    format: u32,
    tip: Oid,
    branch: Option<String>,
    /// The plan's file in the working tree.
    plan: Option<Stamp>,
}

/// Identifies a version of a file without reading it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Stamp {
    inode: u64,
    size: u64,
    changed: (i64, i64),
    written: (i64, i64),
}

impl Past {
    /// Opens the history of a home's plan; `None` if home is not in a working tree.
    pub fn of(program: &GitProgram, home: &Utf8Path, state: Option<&State>) -> Option<Past> {
        // A home that does not exist yet will be in the repository of its parent.
        let there = home.ancestors().find(|directory| directory.is_dir())?;
        let git = Git::discover(program.clone(), there).ok()?;
        let beyond = home.strip_prefix(there).ok()?;
        let home = real_directory(there)?.join(beyond);
        let path = home.strip_prefix(git.place().worktree.as_ref()?).ok()?.join(PLAN_FILE);
        let cache = state.map(|state| state.plan_directory(&home.join(PLAN_FILE)));
        Some(Past { git, path, cache })
    }

    pub fn git(&self) -> &Git {
        &self.git
    }

    /// The path of the plan, relative to the root of the working tree.
    pub fn path(&self) -> &Path {
        self.path.as_std_path()
    }

    /// Explains which part of the history is missing and how to fetch it; `None` if it is complete.
    pub fn gap(&self) -> Option<String> {
        if self.git.is_shallow() {
            return Some(SHALLOW.to_owned());
        }
        self.ids().err().and_then(|error| error.hint())
    }

    /// Returns the path of the cache. A shallow history is not cached: the cache would still be used once it is
    /// complete.
    fn cache(&self) -> Option<&Utf8Path> {
        self.cache.as_deref().filter(|_| !self.git.is_shallow())
    }

    /// Returns `HEAD`; `None` if it is unborn.
    pub fn here(&self) -> Result<Option<Tip>, PastError> {
        let head = self.git.current_head()?;
        let branch = head.branch().map(str::to_owned);
        Ok(head.id().cloned().map(|commit| Tip { commit, branch }))
    }

    /// Resolves a branch, a tag or any other commit name.
    pub fn named(&self, name: &str) -> Result<Tip, PastError> {
        if let Some(commit) = self.git.tip(&format!("refs/heads/{name}"))? {
            return Ok(Tip { commit, branch: Some(name.to_owned()) });
        }
        match self.git.resolve(name)? {
            Some(commit) => Ok(Tip { commit, branch: None }),
            None => Err(PastError::UnknownRevision { name: name.to_owned() }),
        }
    }

    /// Whether the plan is in git but excluded from the working tree, as by a sparse checkout.
    pub fn is_left_out(&self) -> bool {
        self.git.is_left_out(self.path()).unwrap_or(false)
    }

    /// Whether a commit of work is not an ancestor of `HEAD`, or does not exist here.
    pub fn is_orphaned(&self, commit: &str) -> bool {
        let Ok(Some(found)) = self.git.resolve(commit) else { return true };
        match self.git.current_head().map(|head| head.id().cloned()) {
            Ok(Some(head)) => !self.git.is_ancestor(&found, &head).unwrap_or(true),
            _ => false,
        }
    }

    /// Returns all ids that the plan ever had up to `HEAD`.
    pub(crate) fn ids(&self) -> Result<KnownIds, PastError> {
        let Some(tip) = self.here()? else { return Ok(KnownIds::default()) };
        let file = self.ids_file(&tip);
        if let Some((since, mut known)) = file.as_ref().and_then(IdsFile::read) {
            match self.collect_ids(&tip, Some(&since), &mut known)? {
                Walked::Rewritten | Walked::Stopped => {}
                Walked::UpToDate => return Ok(known),
                Walked::Told(_) => {
                    if let Some(file) = &file {
                        file.write(&tip.commit, &known);
                    }
                    return Ok(known);
                }
            }
        }
        let mut known = KnownIds::default();
        self.collect_ids(&tip, None, &mut known)?;
        if let Some(file) = &file {
            file.write(&tip.commit, &known);
        }
        Ok(known)
    }

    /// Records a new commit, which replaced the plan `before` by `after`, so that the next query for ids need not read
    /// it.
    ///
    /// Only if all ids up to its parent are known, and the parent's plan is `before`: then the added lines contain all
    /// missing ids.
    pub(super) fn note_commit(&self, made: &Committed, before: &[u8], after: &[u8]) {
        let tip = Tip { commit: made.id.clone(), branch: made.branch.clone() };
        let Some(file) = self.ids_file(&tip) else { return };
        let Some((known_up_to, mut known)) = file.read() else { return };
        if made.parent.as_ref() == Some(&known_up_to) && made.has_replaced(before) {
            known.add_lines(&LineChange::between(before, after).added);
            file.write(&made.id, &known);
        }
    }

    /// Returns the cache file of the ids up to a commit.
    fn ids_file(&self, tip: &Tip) -> Option<IdsFile> {
        let path = self.cache()?.join(format!("ids-{}", branch_name(tip)));
        let about = About { format: FORMAT, path: &self.path, branch: tip.branch.as_deref() };
        Some(IdsFile::at(path, serde_json::to_string(&about).expect("it is plain data")))
    }

    fn collect_ids(
        &self,
        tip: &Tip,
        since: Option<&Oid>,
        known: &mut KnownIds,
    ) -> Result<Walked, PastError> {
        let query = HistoryQuery { path: self.path(), tip: &tip.commit, since, subjects: &[] };
        Ok(walk(&self.git, &query, &mut |version| {
            known.add_lines(version.changes.iter().flat_map(|change| &change.added));
            ControlFlow::Continue(())
        })?)
    }

    /// Returns the outcome of every task up to a commit.
    pub fn history(&self, tip: &Tip) -> Result<History, PastError> {
        let name = format!("history-{}", branch_name(tip));
        let kept = self.kept(&name, tip).and_then(|(label, bytes)| {
            serde_json::from_slice::<History>(&bytes).ok().map(|history| (label.tip, history))
        });
        if let Some((since, mut history)) = kept {
            match self.fold(tip, Some(&since), &mut history)? {
                Walked::UpToDate => return Ok(history),
                Walked::Told(new) => {
                    if new > NOT_WORTH_KEEPING {
                        self.keep_history(&name, tip, &history);
                    }
                    return Ok(history);
                }
                Walked::Rewritten | Walked::Stopped => {}
            }
        }
        let mut history = History::default();
        self.fold(tip, None, &mut history)?;
        self.keep_history(&name, tip, &history);
        Ok(history)
    }

    /// Adds versions to a history. When continuing a cached one, stops at a merge.
    fn fold(
        &self,
        tip: &Tip,
        since: Option<&Oid>,
        history: &mut History,
    ) -> Result<Walked, PastError> {
        let query = HistoryQuery {
            path: self.path(),
            tip: &tip.commit,
            since,
            subjects: &TELLING_SUBJECTS,
        };
        Ok(walk(&self.git, &query, &mut |version| {
            if since.is_some() && version.parents > 1 {
                return ControlFlow::Break(());
            }
            let Ok(commit) = version.commit.as_str().parse() else {
                return ControlFlow::Continue(());
            };
            let changes: Vec<ChangedLines<'_>> = version
                .changes
                .iter()
                .map(|change| ChangedLines {
                    removed: change.removed.clone(),
                    added: change.added.clone(),
                })
                .collect();
            history.apply(&PlanVersion {
                commit: &commit,
                author: mail(version.author),
                date: Timestamp::from_second(version.time.0).unwrap_or(Timestamp::UNIX_EPOCH),
                branch: version.branch.or(tip.branch.as_deref()),
                subject: version.subject,
                changes: &changes,
            });
            ControlFlow::Continue(())
        })?)
    }

    fn keep_history(&self, name: &str, tip: &Tip, history: &History) {
        let bytes = serde_json::to_vec(history).expect("a history has string keys only");
        self.keep(name, tip, &bytes);
    }

    /// Returns what a report up to a commit depends on; `None` while the plan may still be changing.
    pub fn report_key(&self, tip: &Tip, now: Timestamp) -> Option<ReportKey> {
        let worktree = self.git.place().worktree.as_ref()?;
        let plan = match worktree.join(&self.path).symlink_metadata() {
            Err(_) => None,
            Ok(found) => {
                // A change within the same clock tick would not be detected.
                let settled = now.as_second().saturating_sub(found.ctime().max(found.mtime())) >= 2;
                settled.then_some(())?;
                let changed = (found.ctime(), found.ctime_nsec());
                let written = (found.mtime(), found.mtime_nsec());
                Some(Stamp { inode: found.ino(), size: found.size(), changed, written })
            }
        };
        Some(ReportKey {
            format: FORMAT,
            tip: tip.commit.clone(),
            branch: tip.branch.clone(),
            plan,
        })
    }

    /// Opens a cached report for the same key.
    pub fn report(&self, key: &ReportKey) -> Option<std::fs::File> {
        use std::io::{BufRead, BufReader, Seek, SeekFrom};
        let file = std::fs::File::open(self.cache()?.join("report.json")).ok()?;
        let mut start = BufReader::with_capacity(1024, file);
        let mut line = String::new();
        start.read_line(&mut line).ok()?;
        (serde_json::from_str::<ReportKey>(&line).ok()? == *key).then_some(())?;
        let mut file = start.into_inner();
        file.seek(SeekFrom::Start(line.len() as u64)).ok()?;
        Some(file)
    }

    /// Caches a report.
    pub fn keep_report(&self, key: &ReportKey, report: &str) {
        let Some(cache) = self.cache() else { return };
        let label = serde_json::to_string(key).expect("it is plain data");
        let text = format!("{label}\n{report}");
        let written = create_private_directory(cache)
            .and_then(|()| replace_unsynced(&cache.join("report.json"), text.as_bytes()));
        // On failure it is computed again.
        drop(written);
    }

    /// Returns the cached content of a branch, with its label.
    fn kept(&self, name: &str, tip: &Tip) -> Option<(Label, Vec<u8>)> {
        let mut bytes = read_optional(&self.cache()?.join(name)).ok()??;
        let end = memchr::memchr(b'\n', &bytes)?;
        let label: Label = serde_json::from_slice(&bytes[..end]).ok()?;
        let fits = label.format == FORMAT && label.path == self.path && label.branch == tip.branch;
        bytes.drain(..=end);
        fits.then_some((label, bytes))
    }

    fn keep(&self, name: &str, tip: &Tip, content: &[u8]) {
        let Some(cache) = self.cache() else { return };
        let (path, branch) = (self.path.clone(), tip.branch.clone());
        let label = Label { format: FORMAT, path, branch, tip: tip.commit.clone() };
        let mut bytes = serde_json::to_vec(&label).expect("it is plain data");
        bytes.push(b'\n');
        bytes.extend_from_slice(content);
        let written = create_private_directory(cache)
            .and_then(|()| replace_unsynced(&cache.join(name), &bytes));
        // On failure it is read again.
        drop(written);
    }
}

/// Returns the name of a branch's cache file; all commits without a branch share one.
fn branch_name(tip: &Tip) -> String {
    crate::state::file_name(tip.branch.as_deref().unwrap_or("(none)"))
}

/// Extracts the address from `Name <mail>`.
fn mail(author: &str) -> &str {
    let inside = author.rsplit_once('<').and_then(|(_, rest)| rest.split_once('>'));
    inside.map_or(author, |(mail, _)| mail)
}
