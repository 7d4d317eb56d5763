//! Saves a person's uncommitted files as a commit under a ref of Ralph's, before a run that could destroy them.
//!
//! Neither the index nor the working tree is touched: a temporary index is used. Huge files are left out, so that no
//! start waits for gigabytes to be copied. A ref is named after its tree, so that the same state is saved once.

use std::fs;
use std::path::{Path, PathBuf};

use super::call::{Call, UserConfig};
use super::commits::{CommitError, CommitSteps, ScratchIndex, parse_id};
use super::drivers::Drivers;
use super::evidence::Dirt;
use super::{Git, GitError, Oid, TreeEntry};

/// The largest saved file, and the maximum total size.
const FILE_CAP: u64 = 32 << 20;
const TOTAL_CAP: u64 = 512 << 20;

const SAVED: &str = "refs/ralph/saved/";

/// What was saved of a working tree.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct SavedDirt {
    /// The ref that keeps it.
    pub name: String,
    pub commit: Oid,
    /// The saved files by content id; a removed one has none.
    #[serde(with = "super::names::path_pairs_record")]
    pub files: Vec<(PathBuf, Option<Oid>)>,
}

impl Git {
    /// Saves the dirty files; `None` if there are none.
    pub fn save_dirt(&self, dirt: &Dirt) -> Result<Option<SavedDirt>, CommitError> {
        let Some(root) = &self.place().worktree else { return Ok(None) };
        let (mut paths, mut total) = (Vec::new(), 0);
        for path in dirt.paths.iter().map(|dirty| dirty.entry.path.clone()) {
            let found = fs::symlink_metadata(root.as_std_path().join(&path)).ok();
            // A directory in a list of files is a nested repository.
            if found.as_ref().is_some_and(fs::Metadata::is_dir) {
                continue;
            }
            let size = found.map_or(0, |found| found.len());
            if size <= FILE_CAP && total + size <= TOTAL_CAP {
                total += size;
                paths.push(path);
            }
        }
        if paths.is_empty() {
            return Ok(None);
        }
        paths.sort();
        paths.dedup();
        let drivers = Drivers::of(self)?;
        let head = self.head()?;
        let base = match head.id() {
            Some(id) => id.clone(),
            None => self.object_format()?.empty_tree(),
        };
        let bench = CommitSteps { git: self, drivers: &drivers, base: &base };
        // From `HEAD`, not from the index, which may be in the middle of a merge. A staged version that differs from
        // the file is not at risk: its object exists.
        let index = ScratchIndex::absent(&self.place().git_dir);
        if head.id().is_some() {
            bench.call(&index, &["read-tree", base.as_str()], b"")?;
        }
        bench.take_in(&index, &paths)?;
        let tree = parse_id(&["write-tree"], &bench.call(&index, &["write-tree"], b"")?)?;
        let name = format!("{SAVED}{}", &tree.as_str()[..16]);
        let commit = match self.resolve(&name)? {
            Some(known) => known,
            None => self.keep_tree(
                &name,
                &tree,
                head.id().as_slice(),
                "What was not committed before a run",
            )?,
        };
        let entries = self.entries(&commit, &paths)?;
        let id_of = |path: &PathBuf| {
            entries.iter().find(|entry| entry.path == *path).map(|entry| entry.id.clone())
        };
        let files = paths.iter().map(|path| (path.clone(), id_of(path))).collect();
        Ok(Some(SavedDirt { name, commit, files }))
    }

    /// Restores saved files, in the working tree only.
    pub fn return_saved(&self, saved: &SavedDirt, paths: &[&Path]) -> Result<(), CommitError> {
        if paths.is_empty() {
            return Ok(());
        }
        let drivers = Drivers::of(self)?;
        let source = format!("--source={}", saved.commit);
        let args = ["restore", "--quiet", "--worktree", &source, "--"];
        let mut call = Call::new(&args).person(UserConfig::Heard).configs(drivers.overrides());
        for path in paths {
            call = call.name(path.as_os_str());
        }
        self.call(call)?;
        Ok(())
    }

    /// Creates a commit of a tree, and a ref that keeps it.
    pub(super) fn keep_tree(
        &self,
        name: &str,
        tree: &Oid,
        parents: &[&Oid],
        message: &str,
    ) -> Result<Oid, GitError> {
        let mut args = vec!["commit-tree", tree.as_str(), "-m", message];
        args.extend(parents.iter().flat_map(|parent| ["-p", parent.as_str()]));
        let ralph = [("NAME", "Ralph"), ("EMAIL", "ralph@localhost")];
        let names = ralph.map(|(what, value)| {
            (format!("GIT_AUTHOR_{what}"), format!("GIT_COMMITTER_{what}"), value)
        });
        let mut call = Call::new(&args);
        for (author, committer, value) in &names {
            call = call.env(author, value).env(committer, value);
        }
        let commit = parse_id(&args, &self.call(call)?.stdout)?;
        self.call(Call::new(&["update-ref", name, commit.as_str()]))?;
        Ok(commit)
    }

    /// Returns the entries of a commit at some paths.
    fn entries(&self, commit: &Oid, paths: &[PathBuf]) -> Result<Vec<TreeEntry>, GitError> {
        let wanted: std::collections::HashSet<&Path> = paths.iter().map(PathBuf::as_path).collect();
        let mut entries = self.tree(commit)?;
        entries.retain(|entry| wanted.contains(entry.path.as_path()));
        Ok(entries)
    }
}
