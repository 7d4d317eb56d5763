//! The history of one file: one pass over the commits that changed it, oldest first, with the lines that changed.
//!
//! Objects are read in process. A commit comes after its parents, else by its date; merges are reported with their difference
//! from each parent. A file that moves is followed: where a commit takes it away from one path and has it, the same or
//! much alike and under the same file name, at another. Replace refs and grafts do not exist here; at the edge of a shallow
//! clone history begins.
//!
//! What is kept in memory is a few numbers per commit and a handful of versions of the file, however many there are.
//! With [`HistoryQuery::since`] only commits that are new since a commit are reported. Whether that commit is an ancestor of
//! the tip is found out on the way; a rewritten history ends as [`Walked::Rewritten`].

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

/// What is asked about.
#[derive(Clone, Debug)]
pub struct HistoryQuery<'a> {
    /// The file, from the root of the tree, as the tip has it.
    pub path: &'a Path,
    /// Where history ends.
    pub tip: &'a Oid,
    /// A commit up to which history is known already.
    pub since: Option<&'a Oid>,
    /// Prefixes of the subjects that are reported.
    pub subjects: &'a [&'a str],
}

/// A commit that changed the file.
#[derive(Clone, Debug)]
pub struct CommittedVersion<'a> {
    pub commit: Oid,
    /// As git has it: `Name <mail>`.
    pub author: &'a str,
    /// The first line of its message if its prefix was asked for, else empty.
    pub subject: &'a str,
    /// The branch that a merge says it came from; `None` for the branch of the tip.
    pub branch: Option<&'a str>,
    /// When the author made it, in seconds since 1970 and the offset from UTC in seconds.
    pub time: (i64, i32),
    /// How many parents it has: a merge several and the first commit none.
    pub parents: usize,
    /// How the file differs from that of each parent, in the same order; for a commit without parents from no file.
    pub changes: &'a [LineChange<'a>],
}

/// How a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walked {
    /// Nothing is new since the commit that was named.
    UpToDate,
    /// This many commits were reported.
    Told(usize),
    /// The visitor had enough.
    Stopped,
    /// The commit that was named is not an ancestor of the tip; nothing was reported.
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
    /// Returns the commit that a name means; `HEAD` and branches are found without a git process.
    pub fn tip(&self, name: &str) -> Result<Option<Oid>, GitError> {
        self.place().check()?;
        match self.tip_in_process(name) {
            Ok(Some(id)) => Ok(Some(id)),
            Ok(None) | Err(Unfit(_)) => self.resolve(name),
        }
    }

    /// Returns what `HEAD` is, without a git process where that is possible.
    pub fn current_head(&self) -> Result<Head, GitError> {
        self.place().check()?;
        // Where refs are in a table, the file names a branch that cannot be, and is odd.
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
        // A short name may mean a tag before it means a branch; a tag may have to be looked through.
        if name.starts_with("refs/heads/") { refs.read_named(name) } else { Ok(None) }
    }
}

/// Tells the history of a file to a visitor, oldest first.
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

/// Returns the commits whose parents are not here.
fn shallow_edge(git: &Git) -> Result<HashSet<ObjectId>, HistoryError> {
    let path = git.place().shallow_file();
    let odd = Unfit("its edge is odd");
    let bytes = super::regular_file::read(path.as_std_path()).map_err(|_| odd)?.unwrap_or_default();
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let ids: Result<HashSet<ObjectId>, Unfit> =
        lines.map(|line| ObjectId::from_hex(line).map_err(|_| odd)).collect();
    Ok(ids?)
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
