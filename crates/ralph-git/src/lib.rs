//! Git: typed queries of one repository, a private mirror of it, Ralph's own checkouts and commits, and evidence.
//!
//! Queries go through the git binary, with plumbing commands whose output is made for programs. Frequent operations
//! that must be cheap are done in process: a commit of a few files ([`direct`]) and the [`history`] of one, with the
//! binary as the fallback if a repository has an unknown layout. Invariants: nothing starts a program named in a
//! repository's configuration (see [`call`]); every call has a timeout, and only regular files are read in process; a
//! repository that was redirected since it was opened is refused ([`RepositoryLocation`]). What must be *true* is asked
//! of the [`mirror`], whose objects were hashed on arrival; a workspace's own object store can be forged by any process
//! with write access.

pub mod anchor;
mod call;
pub mod change_size;
pub mod checkout;
mod clearing;
pub mod commits;
mod contents;
pub mod copied;
mod differing;
pub mod direct;
mod diverted;
mod drivers;
mod error;
pub mod evidence;
pub mod history;
pub mod home_copy;
mod identity;
pub mod item_refs;
pub mod landing;
mod location;
mod lock;
pub mod merging;
pub mod mirror;
mod mirror_mend;
mod names;
mod new_commit;
pub mod notes;
mod objects;
mod oid;
mod parse;
pub mod patch;
mod provision;
mod quick_status;
mod ref_query;
mod refs;
mod regular_file;
pub mod replaced;
mod revisions;
pub mod saved;
mod scan;
mod settings;
pub mod slot;
pub mod snapshot;
pub mod stash;
mod switch;
#[cfg(test)]
mod testing;
mod tip;
mod tree_diff;
mod tree_edit;
mod tree_move;
pub mod undo;
mod worktrees;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use camino::Utf8Path;
use ralph_proc::capture::Answer;
use serde::{Deserialize, Serialize};

pub use call::GitProgram;
pub use clearing::FileError;
pub use error::GitError;
pub use location::{RepositoryLocation, real_directory};
pub use lock::{Holder, remove_left_behind};
pub use names::{ref_name, shown};
pub use objects::ObjectError;
pub(crate) use oid::ObjectFormat;
pub use oid::Oid;
pub use parse::{
    ChangeKind, CommitHeader, Head, PathChange, PathState, Ref, StatusEntry, TreeEntry, Worktree,
};
pub use provision::Provision;
pub use regular_file::{LARGEST, read_regular};
pub use worktrees::{BranchUse, GitOperation};

use call::{Call, UserConfig, first_line};
use diverted::refuse_diverted;
use drivers::Drivers;
use objects::{ObjectKind, is_genuine};
use oid::lines;
use parse::{
    parse_batch, parse_batch_check, parse_commit, parse_ids, parse_raw_diff, parse_status,
    parse_tree,
};
use scan::Part;

/// The timeout of a walk over the whole tree or history.
const LONG: Duration = Duration::from_mins(5);

/// All refs of a repository, and the `HEAD` of each of its worktrees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefsSnapshot {
    pub head: Head,
    pub refs: Vec<Ref>,
    /// One per worktree that has a commit, including the main one.
    #[serde(with = "names::path_pairs_record")]
    pub worktree_heads: Vec<(PathBuf, Oid)>,
}

impl RefsSnapshot {
    /// Returns the targets of refs and `HEAD`s, except for Ralph's own refs.
    pub fn tips_of_persons(&self) -> Vec<Oid> {
        let mut refs = self.clone();
        refs.refs.retain(|reference| !reference.name.starts_with("refs/ralph/"));
        refs.tips()
    }

    /// Returns every commit or tag that a ref or `HEAD` points to, each once.
    pub(crate) fn tips(&self) -> Vec<Oid> {
        let refs = self.refs.iter().map(|reference| &reference.id);
        let heads = self.worktree_heads.iter().map(|(_, id)| id).chain(self.head.id());
        let mut tips: Vec<Oid> = refs.chain(heads).cloned().collect();
        tips.sort();
        tips.dedup();
        tips
    }

    /// Returns what a ref points at.
    pub fn id_of(&self, name: &str) -> Option<&Oid> {
        self.refs.iter().find(|reference| reference.name == name).map(|reference| &reference.id)
    }
}

/// One repository.
#[derive(Clone, Debug)]
pub struct Git {
    program: GitProgram,
    place: RepositoryLocation,
    /// Whether only Ralph writes its object store.
    is_private: bool,
}

impl Git {
    /// Opens the repository that a directory is in.
    pub fn discover(program: GitProgram, dir: &Utf8Path) -> Result<Self, GitError> {
        Ok(Git::at(program, RepositoryLocation::discover(dir)?))
    }

    /// Opens a repository at its known location.
    pub fn at(program: GitProgram, place: RepositoryLocation) -> Self {
        Git { program, place, is_private: false }
    }

    /// Declares that only Ralph writes its object store, so objects can be cached once read.
    fn private(self) -> Self {
        Git { is_private: true, ..self }
    }

    pub fn place(&self) -> &RepositoryLocation {
        &self.place
    }

    /// Returns the git binary.
    pub fn program(&self) -> &GitProgram {
        &self.program
    }

    /// Makes a call in exactly this repository.
    fn call(&self, call: Call<'_>) -> Result<Answer, GitError> {
        self.place.check()?;
        if !call.only_reads() {
            refuse_diverted(&self.place)?;
        }
        self.call_unchecked(call)
    }

    /// Makes a call without checking the links between the directories, if they do not matter.
    fn call_unchecked(&self, call: Call<'_>) -> Result<Answer, GitError> {
        let RepositoryLocation { git_dir, common_dir, worktree } = &self.place;
        let mut call = call.env("GIT_DIR", git_dir.as_str());
        if common_dir != git_dir {
            call = call.env("GIT_COMMON_DIR", common_dir.as_str());
        }
        match worktree {
            Some(worktree) => {
                call.env("GIT_WORK_TREE", worktree.as_str()).cwd(worktree.as_std_path())
            }
            None => call.cwd(git_dir.as_std_path()),
        }
        .run(&self.program)
    }

    fn ask(&self, args: &[&str]) -> Result<Vec<u8>, GitError> {
        self.call(Call::new(args)).map(|answer| answer.stdout)
    }

    /// Makes a call that is answered by success or exit code 1.
    fn ask_whether(&self, args: &[&str]) -> Result<Option<Vec<u8>>, GitError> {
        let answer = self.call(Call::new(args).accept(&[1]))?;
        Ok((answer.code == Some(0)).then_some(answer.stdout))
    }

    /// Whether the clone is shallow.
    pub fn is_shallow(&self) -> bool {
        self.place.shallow_file().symlink_metadata().is_ok_and(|found| found.len() > 0)
    }

    /// Returns every ref and every `HEAD`.
    pub fn refs(&self) -> Result<RefsSnapshot, GitError> {
        let refs = self.refs_at(&[])?;
        let heads = self.worktrees()?.into_iter();
        let worktree_heads = heads.filter_map(|worktree| Some((worktree.path, worktree.head?)));
        let worktree_heads = worktree_heads.collect();
        Ok(RefsSnapshot { head: self.head()?, refs, worktree_heads })
    }

    /// Returns the names of the branches, and of Ralph's own refs to accepted work, from which a commit is reachable.
    pub fn refs_with(&self, commit: &str) -> Result<Vec<String>, GitError> {
        let contains = format!("--contains={commit}");
        let list =
            ["for-each-ref", "--format=%(refname)", &contains, "refs/heads", "refs/ralph/accepted"];
        let output = self.ask(&list)?;
        let names = output.split(|byte| *byte == b'\n').filter(|name| !name.is_empty());
        Ok(names.map(ref_name).collect())
    }

    /// Returns the root commits of `HEAD`.
    pub fn root_commits(&self) -> Result<Vec<Oid>, GitError> {
        if self.head()?.id().is_none() {
            return Ok(Vec::new());
        }
        self.ids(&["rev-list", "--max-parents=0", "HEAD"])
    }

    /// Whether one commit is an ancestor of another; a commit is its own ancestor.
    pub fn is_ancestor(&self, ancestor: &Oid, descendant: &Oid) -> Result<bool, GitError> {
        if ancestor == descendant {
            return Ok(true);
        }
        let args = ["merge-base", "--is-ancestor", ancestor.as_str(), descendant.as_str()];
        self.ask_whether(&args).map(|answer| answer.is_some())
    }

    /// Returns the best common ancestor of two commits.
    pub fn merge_base(&self, one: &Oid, other: &Oid) -> Result<Option<Oid>, GitError> {
        let output = self.ask_whether(&["merge-base", one.as_str(), other.as_str()])?;
        Ok(output.and_then(|output| Oid::parse(output.trim_ascii())))
    }

    /// Resolves a possible commit: a whole id, or a unique prefix.
    pub fn find_commit(&self, claimed: &str) -> Result<Option<CommitHeader>, GitError> {
        let looks_like_id = (4..=64).contains(&claimed.len())
            && claimed.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !looks_like_id {
            return Ok(None);
        }
        if let Some(header) = Oid::parse(claimed.to_ascii_lowercase().as_bytes())
            .and_then(|id| self.commit_in_process(&id))
        {
            return Ok(Some(header));
        }
        let question = format!("{}^{{commit}}\n", claimed.to_ascii_lowercase());
        let args = ["cat-file", "--batch"];
        let answer = self.call(Call::new(&args).input(question.as_bytes()))?;
        let objects =
            parse_batch(&answer.stdout).ok_or_else(|| unexpected(&args, &answer.stdout))?;
        let Some((header, content)) = objects.into_iter().next().flatten() else { return Ok(None) };
        // A branch may have a name that looks like an id.
        if !header.id.as_str().starts_with(&claimed.to_ascii_lowercase()) {
            return Ok(None);
        }
        parse_commit(header.id, &content).map(Some).ok_or_else(|| unexpected(&args, &content))
    }

    /// Returns a commit; `None` if there is no such commit.
    pub(crate) fn commit_header(&self, id: &Oid) -> Result<Option<CommitHeader>, GitError> {
        self.find_commit(id.as_str())
    }

    /// Reads a commit; `None` if there is none, or if git has to be asked.
    fn commit_in_process(&self, id: &Oid) -> Option<CommitHeader> {
        self.place.check().ok()?;
        let (mut objects, _) = self.own_objects().ok()?;
        let mut content = Vec::new();
        objects.read(&id.to_id(), ObjectKind::Commit, &mut content).ok()?;
        // Whoever can write the store can forge objects; git compares the id of a commit as well.
        is_genuine(&id.to_id(), ObjectKind::Commit, &content)
            .then(|| parse_commit(id.clone(), &content))?
    }

    /// Returns for each object whether it exists.
    pub fn have(&self, ids: &[Oid]) -> Result<Vec<bool>, GitError> {
        let input = lines(ids, Oid::to_string);
        let args = ["cat-file", "--batch-check"];
        let answer = self.call(Call::new(&args).input(input.as_bytes()))?;
        let found = parse_batch_check(&answer.stdout).filter(|found| found.len() == ids.len());
        let found = found.ok_or_else(|| unexpected(&args, &answer.stdout))?;
        Ok(found.iter().map(Option::is_some).collect())
    }

    /// Returns the differences between the trees of two commits (or trees), with renames.
    pub fn changes(&self, from: &Oid, to: &Oid) -> Result<Vec<PathChange>, GitError> {
        match self.changes_in_process(from, to) {
            // A rename needs both an added and a removed file.
            Ok(changes) if !may_be_renamed(&changes) => Ok(changes),
            _ => self.diff_trees("--find-renames", from, to),
        }
    }

    /// The same without renames: every differing path is listed.
    pub(crate) fn plain_changes(&self, from: &Oid, to: &Oid) -> Result<Vec<PathChange>, GitError> {
        match self.changes_in_process(from, to) {
            Ok(changes) => Ok(changes),
            Err(_) => self.diff_trees("--no-renames", from, to),
        }
    }

    fn diff_trees(&self, renames: &str, from: &Oid, to: &Oid) -> Result<Vec<PathChange>, GitError> {
        let mut args = vec!["diff-tree", "-r", "-z", "--raw", "--no-abbrev", renames];
        args.extend(["--no-ext-diff", "--no-textconv", from.as_str(), to.as_str()]);
        let output = self.call(Call::new(&args).timeout(LONG))?.stdout;
        parse_raw_diff(&output).ok_or_else(|| unexpected(&args, &output))
    }

    /// Returns the commits reachable from `tips` and from none of `known`, newest first.
    pub fn new_commits(&self, tips: &[Oid], known: &[Oid]) -> Result<Vec<Oid>, GitError> {
        if tips.is_empty() {
            return Ok(Vec::new());
        }
        let mut input = lines(tips, Oid::to_string);
        input.push_str(&lines(known, |id| format!("^{id}")));
        let args = ["rev-list", "--stdin"];
        let answer = self.call(Call::new(&args).input(input.as_bytes()).timeout(LONG))?;
        parse_ids(&answer.stdout).ok_or_else(|| unexpected(&args, &answer.stdout))
    }

    /// Returns the differences from `HEAD`: staged, changed and untracked files, each by name.
    ///
    /// A submodule counts as changed when another commit is checked out in it; dirt inside is ignored.
    pub fn status(&self) -> Result<Vec<StatusEntry>, GitError> {
        self.status_without(&[])
    }

    /// Whether the index has a file below a directory of the working tree.
    pub fn has_tracked_within(&self, directory: &Path) -> Result<bool, GitError> {
        let call = Call::new(&["ls-files", "-z", "--"]).env("GIT_LITERAL_PATHSPECS", "0");
        let answer = self.call(call.name(pathspec(":(top,literal)", directory).as_os_str()))?;
        Ok(!answer.stdout.is_empty())
    }

    /// Returns the differences from `HEAD` below a directory of the working tree.
    pub fn status_within(&self, directory: &Path) -> Result<Vec<StatusEntry>, GitError> {
        let part = Part { within: Some(directory), ..Part::default() };
        match self.quick_status(&part) {
            Some(status) => Ok(status),
            None => self.status_of(&[pathspec(":(top,literal)", directory)]),
        }
    }

    /// The same if no files but these have changed in the working tree since they were as `HEAD` has them: no others are
    /// scanned.
    pub fn status_among(
        &self,
        directory: &Path,
        among: &BTreeSet<PathBuf>,
    ) -> Result<Vec<StatusEntry>, GitError> {
        let part = Part { within: Some(directory), among: Some(among), ..Part::default() };
        self.quick_status(&part).map_or_else(|| self.status_within(directory), Ok)
    }

    /// Returns the differences from `HEAD`, except for some files and directories, which are not even scanned.
    pub(crate) fn status_without(&self, paths: &[PathBuf]) -> Result<Vec<StatusEntry>, GitError> {
        let part = Part { but: paths, ..Part::default() };
        if let Some(status) = self.quick_status(&part) {
            return Ok(status);
        }
        let mut pathspecs = vec![OsString::from(":(top)")];
        pathspecs.extend(paths.iter().map(|path| pathspec(":(top,literal,exclude)", path)));
        self.status_of(&pathspecs)
    }

    fn status_of(&self, pathspecs: &[OsString]) -> Result<Vec<StatusEntry>, GitError> {
        let drivers = Drivers::of(self)?;
        let args = [
            "status",
            "--porcelain=v2",
            "-z",
            "--untracked-files=all",
            "--no-renames",
            "--ignore-submodules=dirty",
            "--",
        ];
        let mut call = Call::new(&args).person(UserConfig::Heard).configs(drivers.overrides());
        call = call.env("GIT_LITERAL_PATHSPECS", "0");
        for pathspec in pathspecs {
            call = call.name(pathspec);
        }
        let output = self.call(call.timeout(LONG))?.stdout;
        parse_status(&output).ok_or_else(|| unexpected(&args, &output))
    }

    /// Returns every file, symlink and submodule of a commit.
    pub fn tree(&self, commit: &Oid) -> Result<Vec<TreeEntry>, GitError> {
        let args = ["ls-tree", "-r", "-z", "--full-tree", commit.as_str()];
        let output = self.ask(&args)?;
        parse_tree(&output).ok_or_else(|| unexpected(&args, &output))
    }

    fn ids(&self, args: &[&str]) -> Result<Vec<Oid>, GitError> {
        let output = self.call(Call::new(args).timeout(LONG))?.stdout;
        parse_ids(&output).ok_or_else(|| unexpected(args, &output))
    }
}

fn may_be_renamed(changes: &[PathChange]) -> bool {
    let has = |kind: ChangeKind| changes.iter().any(|change| change.kind == kind);
    has(ChangeKind::Added) && has(ChangeKind::Deleted)
}

/// Returns a pathspec with the given magic that matches the path literally.
fn pathspec(magic: &str, path: &Path) -> OsString {
    let mut pathspec = OsString::from(magic);
    pathspec.push(path);
    pathspec
}

fn unexpected(args: &[&str], output: &[u8]) -> GitError {
    GitError::Unexpected { args: args.join(" "), output: first_line(output) }
}

#[cfg(test)]
#[path = "immunity_tests.rs"]
mod immunity_tests;
#[cfg(test)]
#[path = "git_tests.rs"]
mod tests;
