//! Files that a run committed or staged and that count for nothing: what is staged, and commits on top of a branch that
//! is not checked out.

use std::collections::HashSet;
use std::path::PathBuf;

use super::call::{Call, path_from};
use super::commits::{CommitError, Signing, joined};
use super::drivers::Drivers;
use super::home_copy::HomeChange;
use super::new_commit::NewCommit;
use super::parse::parse_raw_diff;
use super::undo::RefReturn;
use super::{Git, GitError, LONG, Oid, PathChange, unexpected};

impl Git {
    /// Returns what is staged: how the index differs from `HEAD`, file by file.
    pub fn staged(&self) -> Result<Vec<PathChange>, GitError> {
        let head = self.head()?;
        let base = match head.id() {
            Some(id) => id.clone(),
            None => self.object_format()?.empty_tree(),
        };
        let mut args = vec!["diff-index", "--cached", "--raw", "-z", "--no-abbrev", "--no-renames"];
        args.extend(["--no-ext-diff", "--ita-invisible-in-index", base.as_str()]);
        let output = self.call(Call::new(&args).timeout(LONG))?.stdout;
        parse_raw_diff(&output).ok_or_else(|| unexpected(&args, &output))
    }

    /// Has git look at files again that it was told not to look at.
    pub fn show_hidden(&self, paths: &[PathBuf]) -> Result<(), GitError> {
        let args = ["ls-files", "-v", "-z"];
        let output = self.call(Call::new(&args).timeout(LONG))?.stdout;
        let hidden: HashSet<PathBuf> = output
            .split(|byte| *byte == 0)
            .filter_map(|entry| match entry {
                [tag, b' ', path @ ..] if tag.is_ascii_lowercase() || *tag == b'S' => {
                    Some(path_from(path))
                }
                _ => None,
            })
            .collect();
        let hidden: Vec<PathBuf> =
            paths.iter().filter(|path| hidden.contains(*path)).cloned().collect();
        if hidden.is_empty() {
            return Ok(());
        }
        for flag in ["--no-assume-unchanged", "--no-skip-worktree"] {
            let args = ["update-index", flag, "-z", "--stdin"];
            self.call(Call::new(&args).input(&joined(&hidden)))?;
        }
        Ok(())
    }

    /// Commits changes of files on top of a branch that is not checked out, if it is still at `tip`.
    pub fn commit_onto(
        &self,
        branch: &str,
        tip: &Oid,
        changes: &[HomeChange],
        message: &str,
    ) -> Result<(), CommitError> {
        let Some(header) = self.commit_header(tip)? else { return Err(CommitError::Moved) };
        let tree = self.tree_with(&header.tree, changes)?;
        let (parents, signing) = ([tip], Signing::Unsigned);
        let made = NewCommit { tree: &tree, parents: &parents, message, author: None, signing };
        let id = made.write(self, self, &Drivers::of(self)?)?;
        let moved = RefReturn { name: branch.to_owned(), before: Some(id), now: Some(tip.clone()) };
        Ok(self.return_refs(&[moved])?)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{World, write};
    use super::*;

    #[test]
    fn a_file_is_taken_out_of_a_branch_that_is_not_checked_out() {
        let world = World::new();
        let dir = world.repository("r");
        let before = world.head(&dir);
        world.commit(&dir, &[("home/done", "forged\n"), ("a.txt", "forged\n"), ("work", "x\n")]);
        world.git(&dir, &["checkout", "-q", "-b", "feat", before.as_str()]);
        let git = world.open(&dir);
        let tip = world.id(&dir, "main");
        let known = git.commit_header(&before).unwrap().unwrap().tree;
        let path = PathBuf::from("a.txt");
        let after = git.blobs_in(&known, &[&path]).unwrap().remove(0);
        let done = HomeChange { path: "home/done".into(), after: None };
        let changes = [HomeChange { path, after }, done];
        git.commit_onto("refs/heads/main", &tip, &changes, "back").unwrap();
        let names = world.git(&dir, &["diff", "--name-only", before.as_str(), "main"]);
        assert_eq!(names, "work");
        assert_eq!(world.id(&dir, "main~1"), tip);
        assert!(git.commit_onto("refs/heads/main", &tip, &changes, "late").is_err());
    }

    #[test]
    fn what_is_staged_and_hidden_is_found() {
        let world = World::new();
        let dir = world.repository("r");
        let git = world.open(&dir);
        assert_eq!(git.staged().unwrap(), []);
        write(&dir.join("new"), "x\n");
        world.git(&dir, &["add", "new"]);
        world.git(&dir, &["rm", "-q", "--cached", "a.txt"]);
        world.git(&dir, &["update-index", "--skip-worktree", "src/lib.rs", "new"]);
        let staged = git.staged().unwrap();
        let staged: Vec<_> = staged.iter().map(|one| (&*one.path, one.id.is_some())).collect();
        let path = std::path::Path::new;
        assert_eq!(staged, [(path("a.txt"), false), (path("new"), true)]);
        git.show_hidden(&["new".into(), "a.txt".into(), "none".into()]).unwrap();
        assert_eq!(world.git(&dir, &["ls-files", "-v", "new", "src"]), "H new\nS src/lib.rs");
    }
}
