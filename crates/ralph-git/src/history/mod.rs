//! The history of one file: one pass over the commits that changed it, oldest first, with the changed lines.
//!
//! Objects are read in process. A commit comes after its parents, otherwise by date; merges are reported with their
//! difference from each parent. A moved file is followed: if a commit removes it from one path and adds the same or a
//! similar one under the same file name at another. Replace refs and grafts are ignored; at the edge of a shallow clone
//! history begins.
//!
//! Memory use is a few numbers per commit and a few versions of the file, however many there are. With
//! [`HistoryQuery::since`] only commits new since a commit are reported. Whether that commit is an ancestor of the tip
//! is determined on the way; a rewritten history ends as [`Walked::Rewritten`].

mod graph;
mod lines;
mod moves;
mod versions;

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use gix_hash::ObjectId;

use super::call::path_bytes;
use super::objects::{ObjectError, Objects};
use super::refs::RefFiles;
use super::settings::{OwnSettings, Unfit};
use super::{Git, GitError, Head, Oid};
use graph::{Graph, GraphOptions};
use versions::Versions;

pub use lines::LineChange;

/// The query.
#[derive(Clone, Debug)]
pub struct HistoryQuery<'a> {
    /// The file, relative to the root of the tree, as in the tip.
    pub path: &'a Path,
    /// The end of the history.
    pub tip: &'a Oid,
    /// The last known commit.
    pub since: Option<&'a Oid>,
    /// Prefixes of the subjects that are reported.
    pub subjects: &'a [&'a str],
}

/// A commit that changed the file.
#[derive(Clone, Debug)]
pub struct CommittedVersion<'a> {
    pub commit: Oid,
    /// In git's form: `Name <mail>`.
    pub author: &'a str,
    /// The subject if its prefix was requested, otherwise empty.
    pub subject: &'a str,
    /// The branch that a merge names as its source; `None` for the branch of the tip.
    pub branch: Option<&'a str>,
    /// The author time, in seconds since 1970, and the offset from UTC in seconds.
    pub time: (i64, i32),
    /// The number of parents: several for a merge, none for the first commit.
    pub parents: usize,
    /// The differences from each parent's version, in order; for a commit without parents from an empty file.
    pub changes: &'a [LineChange<'a>],
}

/// How a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walked {
    /// Nothing is new since the given commit.
    UpToDate,
    /// This many commits were reported.
    Told(usize),
    /// The visitor stopped the walk.
    Stopped,
    /// The given commit is not an ancestor of the tip; nothing was reported.
    Rewritten,
}

/// A history could not be read.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    #[error("the repository cannot be read in process: {reason}")]
    Unfit { reason: &'static str },
    #[error("the history of `{}` cannot be read", path.display())]
    Objects {
        path: PathBuf,
        #[source]
        source: ObjectError,
    },
    #[error(transparent)]
    Git(#[from] GitError),
}

impl From<Unfit> for HistoryError {
    fn from(Unfit(reason): Unfit) -> Self {
        HistoryError::Unfit { reason }
    }
}

impl Git {
    /// Resolves a commit name; `HEAD` and branches without a git process.
    pub fn tip(&self, name: &str) -> Result<Option<Oid>, GitError> {
        self.place().check()?;
        match self.tip_in_process(name) {
            Ok(Some(id)) => Ok(Some(id)),
            Ok(None) | Err(Unfit(_)) => self.resolve(name),
        }
    }

    /// Returns `HEAD`, without a git process if possible.
    pub fn current_head(&self) -> Result<Head, GitError> {
        self.place().check()?;
        // With a reftable, the file names an invalid branch, and is unfit.
        RefFiles::of(self.place()).head().or_else(|Unfit(_)| self.head())
    }

    fn tip_in_process(&self, name: &str) -> Result<Option<Oid>, Unfit> {
        if !OwnSettings::read(self.place())?.layout.refs_are_files {
            return Err(Unfit("its refs are in a table"));
        }
        let refs = RefFiles::of(self.place());
        if name == "HEAD" {
            return Ok(refs.head()?.id().cloned());
        }
        // A short name may mean a tag before a branch; a tag may have to be peeled.
        if name.starts_with("refs/heads/") { refs.read_named(name) } else { Ok(None) }
    }
}

/// Reports the history of a file to a visitor, oldest first.
pub fn walk(
    git: &Git,
    query: &HistoryQuery<'_>,
    visit: &mut dyn FnMut(&CommittedVersion<'_>) -> ControlFlow<()>,
) -> Result<Walked, HistoryError> {
    if query.since == Some(query.tip) {
        return Ok(Walked::UpToDate);
    }
    git.place().check()?;
    let layout = OwnSettings::read(git.place())?.layout;
    let mut objects = Objects::open(git.place(), layout.format.kind());
    let surroundings = GraphOptions { shallow: shallow_edge(git)?, subjects: query.subjects };
    let failed = |source| HistoryError::Objects { path: query.path.to_owned(), source };
    let tip = query.tip.to_id();
    let since = query.since.map(Oid::to_id);
    let graph = Graph::read(&mut objects, &tip, since.as_ref(), &surroundings).map_err(failed)?;
    let Some(graph) = graph else { return Ok(Walked::Rewritten) };
    let versions = Versions::find(&mut objects, &graph, path_bytes(query.path)).map_err(failed)?;
    versions::tell(&mut objects, &graph, &versions, visit).map_err(failed)
}

/// Returns the commits whose parents are missing.
fn shallow_edge(git: &Git) -> Result<HashSet<ObjectId>, HistoryError> {
    let path = git.place().shallow_file();
    let odd = Unfit("its edge is odd");
    let bytes =
        super::regular_file::read_regular(path.as_std_path()).map_err(|_| odd)?.unwrap_or_default();
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let ids: Result<HashSet<ObjectId>, Unfit> =
        lines.map(|line| ObjectId::from_hex(line).map_err(|_| odd)).collect();
    Ok(ids?)
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
