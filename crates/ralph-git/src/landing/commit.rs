//! The landing's own commit: the merged tree, with home as in the tip except for the item's own changes.
//!
//! Home and configuration never come from an agent's commit. They are taken from the tip as a whole, then the harness's
//! own edits are applied; nothing else in the tree changes.

use std::path::PathBuf;

use super::super::Oid;
use super::super::commits::Signing;
use super::super::direct::trees::NewObjects;
use super::super::item_refs::tree_id;
use super::super::new_commit::NewCommit;
use super::super::objects::Objects;
use super::super::settings::Unfit;
use super::super::tree_edit::{TreeChange, TreeChanges, find_entry};
use super::{Landing, LandingError};

/// A file that a landing itself changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEdit {
    /// Relative to the root of the working tree.
    pub path: PathBuf,
    /// `None` removes it. An existing file keeps its mode.
    pub content: Option<Vec<u8>>,
}

/// A commit that is to land.
#[derive(Clone, Copy, Debug)]
pub struct LandingCommit<'a> {
    /// The merged tree, or the candidate's own.
    pub tree: &'a Oid,
    pub tip: &'a Oid,
    /// Files and directories (home, `ralph.toml`) that are taken from the tip, whatever the tree has there.
    pub as_in_tip: &'a [PathBuf],
    /// Applied last.
    pub edits: &'a [FileEdit],
    pub parents: &'a [&'a Oid],
    pub message: &'a str,
    pub signing: Signing,
}

impl Landing<'_> {
    /// Creates the commit in the mirror. No ref of the person's moves.
    pub fn commit(&self, request: &LandingCommit<'_>) -> Result<Oid, LandingError> {
        let tree = self.edited_tree(request)?;
        let LandingCommit { parents, message, signing, .. } = *request;
        self.write_commit(&NewCommit { tree: &tree, parents, message, author: None, signing })
    }

    /// Returns a tree in which some paths are taken from the tip.
    pub(super) fn tree_with_tips(
        &self,
        tree: &Oid,
        tip: &Oid,
        as_in_tip: &[PathBuf],
    ) -> Result<Oid, LandingError> {
        let (edits, parents, message) = (&[][..], &[][..], "");
        let signing = Signing::Unsigned;
        self.edited_tree(&LandingCommit { tree, tip, as_in_tip, edits, parents, message, signing })
    }

    fn edited_tree(&self, request: &LandingCommit<'_>) -> Result<Oid, LandingError> {
        if request.as_in_tip.is_empty() && request.edits.is_empty() {
            return Ok(request.tree.clone());
        }
        let place = self.mirror.git().place();
        let kind = self.mirror.object_format().kind();
        let mut objects = Objects::open(place, kind);
        let mut fresh = NewObjects::new(kind);
        let unwritable = |Unfit(reason)| LandingError::Objects { reason };
        let refused = |path: &PathBuf| LandingError::Path { path: path.clone() };
        let tip = tree_id(&mut objects, request.tip)?;
        let mut changes = TreeChanges::default();
        for path in request.as_in_tip {
            let there = find_entry(&mut objects, &tip, path)?;
            if !changes.add(path, there.unwrap_or(TreeChange::Remove)) {
                return Err(refused(path));
            }
        }
        for FileEdit { path, content } in request.edits {
            let change = match content {
                None => TreeChange::Remove,
                Some(content) => {
                    let id = fresh.add("blob", content).map_err(unwritable)?;
                    let mode = match find_entry(&mut objects, &tip, path)? {
                        Some(TreeChange::Put { mode, .. }) if mode == b"100755" => mode,
                        _ => b"100644".to_vec(),
                    };
                    TreeChange::Put { mode, id }
                }
            };
            if !changes.add(path, change) {
                return Err(refused(path));
            }
        }
        let tree = changes.apply(&mut objects, &mut fresh, Some(request.tree.to_id()))?;
        fresh.write(place.git_dir.join("objects").as_std_path()).map_err(unwritable)?;
        Ok(Oid::of(&tree))
    }
}
