//! The worktrees of a repository: which branch each has checked out, and whether an operation is in progress there.
//!
//! A branch is also in use while it is being rebased or bisected, although `HEAD` does not name it then: git records
//! that in files of the worktree's git directory, which are read here like git reads them.

use std::fmt;

use camino::{Utf8Path, Utf8PathBuf};

use super::names::ref_name;
use super::parse::{Worktree, parse_worktrees};
use super::{Git, GitError, RepositoryLocation, regular_file, unexpected};

/// An operation that a person has begun in a worktree and not completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GitOperation {
    Merge,
    Rebase,
    Am,
    CherryPick,
    Revert,
    Bisect,
}

impl fmt::Display for GitOperation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            GitOperation::Merge => "merge",
            GitOperation::Rebase => "rebase",
            GitOperation::Am => "am",
            GitOperation::CherryPick => "cherry-pick",
            GitOperation::Revert => "revert",
            GitOperation::Bisect => "bisect",
        })
    }
}

/// A worktree in which a branch is in use.
#[derive(Clone, Debug)]
pub struct BranchUse {
    pub worktree: Worktree,
    /// `None` if the directory is missing, or is another repository by now.
    pub git: Option<Git>,
    pub operation: Option<GitOperation>,
}

impl Git {
    /// Returns every worktree of the repository, the main one first.
    pub fn worktrees(&self) -> Result<Vec<Worktree>, GitError> {
        self.place().check()?;
        if let Some(worktree) = self.sole_worktree() {
            return Ok(vec![worktree]);
        }
        let args = ["worktree", "list", "--porcelain", "-z"];
        let output = self.ask(&args)?;
        let mut found = parse_worktrees(&output).ok_or_else(|| unexpected(&args, &output))?;
        // For a git directory elsewhere, such as that of a submodule, git names that directory in place of the main
        // worktree.
        let place = self.place();
        if place.git_dir == place.common_dir
            && let (Some(main), Some(root)) = (found.first_mut(), &place.worktree)
        {
            main.path = root.into();
        }
        Ok(found)
    }

    /// Returns the operation in progress in this worktree.
    pub fn operation(&self) -> Option<GitOperation> {
        operation_in(&self.place().git_dir)
    }

    /// Returns the worktrees in which a branch, given in full, is checked out, rebased or bisected.
    ///
    /// One whose directory is missing does not count, unless it is locked: then it may come back.
    pub fn uses_of(&self, branch: &str) -> Result<Vec<BranchUse>, GitError> {
        let mut uses = Vec::new();
        for worktree in self.worktrees()? {
            let git = self.open_worktree(&worktree);
            let is_in_use = worktree.branch.as_deref() == Some(branch)
                || git.as_ref().is_some_and(|git| is_held(&git.place().git_dir, branch));
            if !is_in_use || (git.is_none() && !worktree.is_locked && !worktree.path.exists()) {
                continue;
            }
            let operation = git.as_ref().and_then(Git::operation);
            uses.push(BranchUse { worktree, git, operation });
        }
        Ok(uses)
    }

    fn open_worktree(&self, worktree: &Worktree) -> Option<Git> {
        let path = Utf8Path::from_path(&worktree.path)?;
        let place = RepositoryLocation::discover(path).ok()?;
        (place.common_dir == self.place().common_dir)
            .then(|| Git::at(self.program().clone(), place))
    }
}

fn operation_in(git_dir: &Utf8Path) -> Option<GitOperation> {
    let has = |name: &str| git_dir.join(name).symlink_metadata().is_ok();
    let signs: [(&[&str], GitOperation); 7] = [
        (&["rebase-apply/applying"], GitOperation::Am),
        (&["rebase-merge", "rebase-apply"], GitOperation::Rebase),
        (&["MERGE_HEAD"], GitOperation::Merge),
        (&["REVERT_HEAD"], GitOperation::Revert),
        // Between two picks of a series there is no `CHERRY_PICK_HEAD`.
        (&["CHERRY_PICK_HEAD", "sequencer"], GitOperation::CherryPick),
        (&["BISECT_LOG"], GitOperation::Bisect),
        (&["BISECT_START"], GitOperation::Bisect),
    ];
    signs.iter().find(|(names, _)| names.iter().any(|name| has(name))).map(|(_, found)| *found)
}

/// Whether an operation will return to a branch, or move it when it ends.
fn is_held(git_dir: &Utf8Path, branch: &str) -> bool {
    let lines = |path: Utf8PathBuf| -> Vec<String> {
        let bytes =
            regular_file::read_regular(path.as_std_path()).ok().flatten().unwrap_or_default();
        bytes.split(|byte| *byte == b'\n').map(|line| ref_name(line.trim_ascii())).collect()
    };
    let short = branch.strip_prefix("refs/heads/").unwrap_or(branch);
    let names = ["rebase-merge/head-name", "rebase-apply/head-name", "rebase-merge/update-refs"];
    names.iter().any(|name| lines(git_dir.join(name)).iter().any(|line| line == branch))
        || lines(git_dir.join("BISECT_START")).iter().any(|line| line == short || line == branch)
}

#[cfg(test)]
mod tests {
    use super::super::testing::World;
    use super::*;

    /// How to begin an operation, what it is, and how to end it.
    type Case = (&'static [&'static str], GitOperation, &'static [&'static str]);

    #[test]
    fn an_operation_under_way_is_named_and_holds_its_branch() {
        let world = World::new();
        let dir = world.repository("r");
        world.git(&dir, &["switch", "-q", "-c", "other"]);
        world.commit(&dir, &[("a.txt", "other\n")]);
        world.git(&dir, &["switch", "-q", "main"]);
        world.commit(&dir, &[("b.txt", "b\n")]);
        world.commit(&dir, &[("a.txt", "main\n")]);
        let git = world.open(&dir);
        assert_eq!(git.operation(), None);
        let cases: &[Case] = &[
            (&["merge", "other"], GitOperation::Merge, &["merge", "--abort"]),
            (&["rebase", "other"], GitOperation::Rebase, &["rebase", "--abort"]),
            (&["rebase", "--apply", "other"], GitOperation::Rebase, &["rebase", "--abort"]),
            (&["cherry-pick", "other"], GitOperation::CherryPick, &["cherry-pick", "--abort"]),
            (&["revert", "HEAD~2"], GitOperation::Revert, &["revert", "--abort"]),
            (&["bisect", "start", "HEAD", "HEAD~2"], GitOperation::Bisect, &["bisect", "reset"]),
        ];
        for (begin, operation, end) in cases {
            let _ = world.try_git(&dir, begin);
            assert_eq!(git.operation(), Some(*operation), "{begin:?}");
            let uses = git.uses_of("refs/heads/main").unwrap();
            assert_eq!(uses.len(), 1, "{begin:?}");
            assert_eq!(uses[0].operation, Some(*operation));
            assert!(git.uses_of("refs/heads/other").unwrap().is_empty(), "{begin:?}");
            world.git(&dir, end);
            assert_eq!(git.operation(), None, "{end:?}");
        }
    }

    #[test]
    fn a_branch_is_in_use_where_it_is_checked_out() {
        let world = World::new();
        let dir = world.repository("r");
        let git = world.open(&dir);
        let linked = world.path("linked");
        world.git(&dir, &["worktree", "add", "-q", "-b", "a/b", linked.as_str()]);
        let paths = |branch: &str| -> Vec<String> {
            let uses = git.uses_of(branch).unwrap();
            uses.iter().map(|one| one.worktree.path.to_string_lossy().into_owned()).collect()
        };
        assert_eq!(paths("refs/heads/main"), [dir.as_str()]);
        assert_eq!(paths("refs/heads/a/b"), [linked.as_str()]);
        assert!(paths("refs/heads/a").is_empty());
        let found = git.uses_of("refs/heads/a/b").unwrap();
        assert_eq!(found[0].git.as_ref().unwrap().place().worktree.as_ref(), Some(&linked));
        let apart = world.repository("apart");
        world.git(&apart, &["init", "-q", "--separate-git-dir=../apart.git"]);
        let uses = world.open(&apart).uses_of("refs/heads/main").unwrap();
        let roots: Vec<_> =
            uses.iter().map(|one| one.git.as_ref()?.place().worktree.clone()).collect();
        assert_eq!(roots, [Some(apart)]);
        // Removed permanently, or only temporarily.
        std::fs::rename(&linked, world.path("away")).unwrap();
        assert!(paths("refs/heads/a/b").is_empty());
        world.git(&dir, &["worktree", "lock", linked.as_str()]);
        let found = git.uses_of("refs/heads/a/b").unwrap();
        assert!(found[0].git.is_none() && found[0].worktree.is_locked);
    }
}
