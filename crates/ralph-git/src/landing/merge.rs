//! Merges of trees, made in the mirror without a working tree.
//!
//! Merge drivers from configuration do not run; `merge=union` and the like in the tip's `.gitattributes` apply.

use std::path::PathBuf;

use super::super::call::{Call, path_from};
use super::super::commits::{Signing, parse_id};
use super::super::evidence::is_own;
use super::super::new_commit::{Author, NewCommit};
use super::super::{LONG, Oid, unexpected};
use super::{Landing, LandingError};

/// The result of a merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TreeMerge {
    Clean {
        tree: Oid,
    },
    /// The tree has conflict markers at the paths.
    Conflict {
        tree: Oid,
        paths: Vec<PathBuf>,
    },
}

/// The result of applying a change to another commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Carried {
    Commit(Oid),
    /// It already has the change.
    Nothing,
    /// Both sides changed these.
    Conflict(Vec<PathBuf>),
}

/// Two commits that are being merged.
#[derive(Clone, Copy, Debug)]
pub struct MergeSides<'a> {
    pub ours: &'a Oid,
    pub theirs: &'a Oid,
    /// Paths that git could not merge.
    pub conflicts: &'a [PathBuf],
}

impl Landing<'_> {
    /// Merges a candidate into a tip; both are in the mirror. Only a tree is created.
    ///
    /// `base` replaces the merge base: then only the change from there to the candidate is merged.
    pub fn merge(
        &self,
        tip: &Oid,
        candidate: &Oid,
        base: Option<&Oid>,
    ) -> Result<TreeMerge, LandingError> {
        let base = base.map(|base| format!("--merge-base={base}"));
        let mut args = vec!["merge-tree", "--write-tree", "-z", "--name-only", "--no-messages"];
        args.extend(base.as_deref());
        args.extend([tip.as_str(), candidate.as_str()]);
        let call = Call::new(&args)
            .env("GIT_ATTR_SOURCE", tip.as_str())
            .config("core.fsync", "loose-object")
            .config("core.fsyncMethod", "batch")
            .timeout(LONG)
            .accept(&[1]);
        let answer = self.mirror.git().call(call)?;
        let mut fields = answer.stdout.split(|byte| *byte == 0);
        let tree = fields.next().and_then(Oid::parse);
        let tree = tree.ok_or_else(|| unexpected(&args, &answer.stdout))?;
        if answer.code == Some(0) {
            return Ok(TreeMerge::Clean { tree });
        }
        let mut paths: Vec<PathBuf> =
            fields.filter(|name| !name.is_empty()).map(path_from).collect();
        paths.sort();
        paths.dedup();
        Ok(TreeMerge::Conflict { tree, paths })
    }

    /// Applies the change from `base` to `candidate` to a tip that does not contain `base`, as one new commit with the
    /// author and the messages of the work. Paths in `own` are taken from the tip.
    ///
    /// The new commit becomes the candidate, and is judged again.
    pub fn carry_over(
        &self,
        tip: &Oid,
        base: &Oid,
        candidate: &Oid,
        own: &[PathBuf],
    ) -> Result<Carried, LandingError> {
        let tree = match self.merge(tip, candidate, Some(base))? {
            TreeMerge::Clean { tree } => tree,
            TreeMerge::Conflict { tree, paths } => {
                if paths.iter().any(|path| !is_own(own, path)) {
                    return Ok(Carried::Conflict(paths));
                }
                tree
            }
        };
        let tree = self.tree_with_tips(&tree, tip, own)?;
        if tree == self.tree_of(tip)? {
            return Ok(Carried::Nothing);
        }
        self.squashed(&tree, &[tip], base, candidate).map(Carried::Commit)
    }

    /// Turns the change from `base` to `candidate` into one commit unrelated to either: an agent can apply it somewhere
    /// else without its original history.
    pub fn detached_change(&self, base: &Oid, candidate: &Oid) -> Result<Oid, LandingError> {
        let (tree, signing) = (&self.tree_of(base)?, Signing::Unsigned);
        let message = "before the change\n";
        let before = NewCommit { tree, parents: &[], message, author: None, signing };
        let before = self.write_commit(&before)?;
        self.squashed(&self.tree_of(candidate)?, &[&before], base, candidate)
    }

    /// Creates a commit with the author and messages of the commits from `base` to `candidate`.
    fn squashed(
        &self,
        tree: &Oid,
        parents: &[&Oid],
        base: &Oid,
        candidate: &Oid,
    ) -> Result<Oid, LandingError> {
        let truth = self.mirror.git();
        let work = format!("{base}..{candidate}");
        let args =
            ["log", "--no-merges", "--reverse", "--encoding=UTF-8", "--format=%B%x00", &work, "--"];
        let messages = truth.ask(&args)?;
        let messages = String::from_utf8_lossy(&messages);
        let messages = messages.split('\0').map(str::trim).filter(|message| !message.is_empty());
        let mut message = messages.collect::<Vec<_>>().join("\n\n");
        message.push('\n');
        let format = "--format=%an%x00%ae%x00%ad";
        let args =
            ["log", "-1", "--encoding=UTF-8", "--date=raw", format, candidate.as_str(), "--"];
        let author = truth.ask(&args)?;
        let author = String::from_utf8_lossy(&author);
        let mut author = author.trim_end().split('\0').map(str::to_owned);
        let mut field = || author.next().unwrap_or_default();
        let author = Author { name: field(), email: field(), date: field() };
        let (message, signing) = (message.as_str(), Signing::Unsigned);
        self.write_commit(&NewCommit { tree, parents, message, author: Some(&author), signing })
    }

    /// Returns the tree of a commit of the mirror.
    pub fn tree_of(&self, commit: &Oid) -> Result<Oid, LandingError> {
        let tree = format!("{commit}^{{tree}}");
        let args = ["rev-parse", "--verify", tree.as_str()];
        Ok(parse_id(&args, &self.mirror.git().ask(&args)?)?)
    }
}
