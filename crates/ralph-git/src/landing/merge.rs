//! Merges of trees, made in the mirror without any work tree.
//!
//! Merge drivers that configuration names do not run; `merge=union` and the like, which `.gitattributes` of the tip ask
//! for, count.

use std::path::PathBuf;

use super::super::call::{Call, path_from};
use super::super::commits::{Signing, parse_id};
use super::super::new_commit::NewCommit;
use super::super::{LONG, Oid, unexpected};
use super::{Landing, LandingError};

/// What a merge made.
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

/// Two commits that are being merged.
#[derive(Clone, Copy, Debug)]
pub struct MergeSides<'a> {
    pub ours: &'a Oid,
    pub theirs: &'a Oid,
    /// Paths that git could not merge.
    pub conflicts: &'a [PathBuf],
}

impl Landing<'_> {
    /// Merges a candidate into a tip; both are in the mirror. Only a tree is made.
    ///
    /// `base` stands in for the best common ancestor: with it, what is merged is the change from there to the candidate.
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

    /// Applies the change from `base` to `candidate` to a tip that does not contain `base`, as one new commit.
    ///
    /// Returns the commit, or the paths in conflict. It is the candidate from then on, and is judged again.
    pub fn carry_over(
        &self,
        tip: &Oid,
        base: &Oid,
        candidate: &Oid,
        message: &str,
    ) -> Result<Result<Oid, Vec<PathBuf>>, LandingError> {
        let tree = match self.merge(tip, candidate, Some(base))? {
            TreeMerge::Clean { tree } => tree,
            TreeMerge::Conflict { paths, .. } => return Ok(Err(paths)),
        };
        let (tree, signing) = (&tree, Signing::Unsigned);
        self.write_commit(&NewCommit { tree, parents: &[tip], message, signing }).map(Ok)
    }

    /// Returns the tree of a commit of the mirror.
    pub fn tree_of(&self, commit: &Oid) -> Result<Oid, LandingError> {
        let tree = format!("{commit}^{{tree}}");
        let args = ["rev-parse", "--verify", tree.as_str()];
        Ok(parse_id(&args, &self.mirror.git().ask(&args)?)?)
    }
}
