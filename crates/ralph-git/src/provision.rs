//! What a checkout needs in addition to its files: the lock files that `setup` depends on, submodules, LFS.
//!
//! Read from the tree in the mirror, so that nothing in a working tree can hide it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use gix_hash::ObjectId;

use super::call::{Call, path_bytes, path_from};
use super::direct::trees::items;
use super::home_copy::HomeCopyError;
use super::objects::Objects;
use super::oid::lines;
use super::parse::{TreeEntry, parse_batch};
use super::{Git, GitError, ObjectError, Oid, tree_diff, unexpected};

const LOCK_FILES: &[&str] = &[
    "Cargo.lock",
    "package-lock.json",
    "npm-shrinkwrap.json",
    "pnpm-lock.yaml",
    "yarn.lock",
    "bun.lock",
    "bun.lockb",
    "uv.lock",
    "poetry.lock",
    "Pipfile.lock",
    "go.sum",
    "Gemfile.lock",
    "composer.lock",
    "gradle.lockfile",
    "buildscript-gradle.lockfile",
    "verification-metadata.xml",
    "pom.xml",
    ".gitmodules",
];

/// The setup requirements of one commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provision {
    /// Changes when a lock file does.
    pub setup_key: String,
    pub submodules: Vec<PathBuf>,
    /// The commit of each submodule, in the same order.
    pub(crate) pinned: Vec<Oid>,
    pub needs_lfs: bool,
}

impl Provision {
    /// Reads a commit's requirements from the mirror.
    pub(crate) fn of(git: &Git, commit: &Oid) -> Result<Self, GitError> {
        let tree = match notable(git, commit) {
            Ok(tree) => tree,
            Err(_) => git.tree(commit)?,
        };
        let is_submodule = |entry: &&TreeEntry| entry.mode == "160000";
        Ok(Provision {
            setup_key: setup_key(git, &tree)?,
            submodules: tree.iter().filter(is_submodule).map(|entry| entry.path.clone()).collect(),
            pinned: tree.iter().filter(is_submodule).map(|entry| entry.id.clone()).collect(),
            needs_lfs: needs_lfs(git, &tree)?,
        })
    }
}

/// Relevant files by the tree that contains them somewhere below, relative to it.
type Known = HashMap<ObjectId, Arc<Vec<TreeEntry>>>;

/// A cache by tree id, which identifies the content: most trees of a commit equal those of the previous one. It is
/// cleared when it gets large.
static KNOWN: Mutex<Option<Known>> = Mutex::new(None);
const MOST_KNOWN: usize = 100_000;

/// Returns the relevant files of a commit, in process; known directories are not entered.
fn notable(git: &Git, commit: &Oid) -> Result<Vec<TreeEntry>, HomeCopyError> {
    let (mut objects, _) = git.own_objects()?;
    let root = tree_diff::tree_of(&mut objects, &commit.to_id())?;
    let mut known = KNOWN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let known = known.get_or_insert_default();
    if known.len() > MOST_KNOWN {
        known.clear();
    }
    Ok(notable_in(&mut objects, known, &root)?.to_vec())
}

fn notable_in(
    objects: &mut Objects,
    known: &mut Known,
    tree: &ObjectId,
) -> Result<Arc<Vec<TreeEntry>>, ObjectError> {
    if let Some(found) = known.get(tree) {
        return Ok(Arc::clone(found));
    }
    let bytes = objects.read_tree(tree)?;
    let mut found = Vec::new();
    for item in items(&bytes, objects.kind) {
        let item = item.ok_or_else(|| ObjectError::Malformed { id: Oid::of(tree) })?;
        let name = path_from(item.name);
        if item.is_tree() {
            let below = notable_in(objects, known, &item.id)?;
            let named =
                |entry: &TreeEntry| TreeEntry { path: name.join(&entry.path), ..entry.clone() };
            found.extend(below.iter().map(named));
        } else if item.mode == b"160000" || is_lock_file(&name) || name.ends_with(".gitattributes")
        {
            let mode = String::from_utf8_lossy(item.mode).into_owned();
            found.push(TreeEntry { mode, id: Oid::of(&item.id), path: name });
        }
    }
    let found = Arc::new(found);
    known.insert(*tree, Arc::clone(&found));
    Ok(found)
}

/// A key for the state of all lock files of a commit: the same key means the same dependencies.
fn setup_key(git: &Git, tree: &[TreeEntry]) -> Result<String, GitError> {
    let mut list = Vec::new();
    // `setup` fills in a submodule at its pinned commit.
    for entry in tree.iter().filter(|entry| is_lock_file(&entry.path) || entry.mode == "160000") {
        list.extend(entry.id.as_str().bytes());
        list.push(b' ');
        list.extend(path_bytes(&entry.path));
        list.push(0);
    }
    let args = ["hash-object", "--no-filters", "--stdin"];
    let output = git.call(Call::new(&args).input(&list))?.stdout;
    let key = Oid::parse(output.trim_ascii()).ok_or_else(|| unexpected(&args, &output))?;
    Ok(key.to_string())
}

fn is_lock_file(path: &Path) -> bool {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return false };
    let requirements =
        name.starts_with("requirements") && path.extension().is_some_and(|e| e == "txt");
    requirements || LOCK_FILES.contains(&name)
}

fn needs_lfs(git: &Git, tree: &[TreeEntry]) -> Result<bool, GitError> {
    let attributes = tree.iter().filter(|entry| entry.path.ends_with(".gitattributes"));
    let input = lines(attributes, |entry| entry.id.to_string());
    if input.is_empty() {
        return Ok(false);
    }
    let args = ["cat-file", "--batch"];
    let output = git.call(Call::new(&args).input(input.as_bytes()))?.stdout;
    let files = parse_batch(&output).ok_or_else(|| unexpected(&args, &output))?;
    Ok(files.iter().flatten().any(|(_, content)| asks_for_lfs(content)))
}

fn asks_for_lfs(attributes: &[u8]) -> bool {
    attributes.split(|byte| *byte == b'\n').any(|line| {
        !line.trim_ascii_start().starts_with(b"#")
            && line.split(u8::is_ascii_whitespace).any(|word| word == b"filter=lfs")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_files_are_known_by_name_at_any_depth() {
        for name in ["Cargo.lock", "a/b/requirements-dev.txt", "requirements.txt", "web/yarn.lock"]
        {
            assert!(is_lock_file(Path::new(name)), "{name}");
        }
        for name in ["Cargo.toml", "requirements.md", "lock/x", "my-Cargo.lock"] {
            assert!(!is_lock_file(Path::new(name)), "{name}");
        }
    }

    #[test]
    fn lfs_is_asked_for_by_an_attribute_and_not_by_a_comment() {
        assert!(asks_for_lfs(b"*.png binary\n*.bin filter=lfs diff=lfs -text\n"));
        assert!(!asks_for_lfs(b"# *.bin filter=lfs\n*.x filter=lfsx\n"));
    }
}
