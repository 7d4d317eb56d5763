//! New objects of a commit: trees that differ in a few files, and writing them to disk.
//!
//! Objects are written under temporary names, renamed when they are complete, and synced under their final names, which
//! makes content and name durable: a crash never leaves half an object under its name. A power failure in between may
//! leave an object that nothing refers to yet. An existing object is written again, which repairs it if it was damaged.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use gix_hash::{Kind, ObjectId};
use ralph_proc::disk::sync_together;

use super::super::call::Call;
use super::super::objects::{ObjectKind, Objects};
use super::super::settings::Unfit;
use super::super::{Git, GitError};
use super::deflate::deflate;

/// One entry of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct TreeItem<'a> {
    /// As in the tree, because some modes have more than one encoding.
    pub(in super::super) mode: &'a [u8],
    pub(in super::super) name: &'a [u8],
    pub(in super::super) id: ObjectId,
}

impl TreeItem<'_> {
    pub(in super::super) fn is_tree(&self) -> bool {
        self.mode == b"40000" || self.mode == b"040000"
    }

    pub(in super::super) fn is_file(&self) -> bool {
        self.mode.starts_with(b"100")
    }

    /// The sort key in git's tree order: a directory as if its name ended in a slash.
    pub(in super::super) fn key(&self) -> impl Iterator<Item = u8> {
        self.name.iter().copied().chain(self.is_tree().then_some(b'/'))
    }
}

/// Parses a tree.
pub(in super::super) fn items(bytes: &[u8], kind: Kind) -> TreeItems<'_> {
    TreeItems { bytes, hash_len: kind.len_in_bytes() }
}

/// The entries of a tree; ends early with an error if the tree is truncated.
pub(in super::super) struct TreeItems<'a> {
    bytes: &'a [u8],
    hash_len: usize,
}

impl<'a> Iterator for TreeItems<'a> {
    type Item = Option<TreeItem<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.bytes.is_empty() {
            return None;
        }
        let item = (|| {
            let space = memchr::memchr(b' ', self.bytes)?;
            let (mode, rest) = (&self.bytes[..space], &self.bytes[space + 1..]);
            let end = memchr::memchr(0, rest)?;
            let (name, rest) = (&rest[..end], &rest[end + 1..]);
            let id = ObjectId::try_from(rest.get(..self.hash_len)?).ok()?;
            self.bytes = &rest[self.hash_len..];
            Some(TreeItem { mode, name, id })
        })();
        if item.is_none() {
            self.bytes = &[];
        }
        Some(item)
    }
}

/// A file that a tree must have.
#[derive(Clone, Copy, Debug)]
pub(super) struct TreeEdit<'a> {
    pub(super) path: &'a [u8],
    pub(super) id: ObjectId,
    pub(super) mode: &'static [u8],
}

/// The trees of a repository, each read once.
pub(in super::super) struct Trees<'o> {
    objects: &'o mut Objects,
    read: Vec<(ObjectId, Rc<[u8]>)>,
}

impl<'o> Trees<'o> {
    pub(in super::super) fn of(objects: &'o mut Objects) -> Self {
        Trees { objects, read: Vec::new() }
    }

    fn read(&mut self, id: &ObjectId) -> Result<Rc<[u8]>, Unfit> {
        if let Some((_, bytes)) = self.read.iter().find(|(read, _)| read == id) {
            return Ok(Rc::clone(bytes));
        }
        let mut bytes = Vec::new();
        let missing = |_| Unfit("a tree is missing");
        self.objects.read(id, ObjectKind::Tree, &mut bytes).map_err(missing)?;
        let bytes = Rc::from(bytes);
        self.read.push((*id, Rc::clone(&bytes)));
        Ok(bytes)
    }
}

/// Finds the entry of a tree at a path.
pub(in super::super) fn find(
    trees: &mut Trees<'_>,
    root: Option<ObjectId>,
    path: &[u8],
) -> Result<Option<(Vec<u8>, ObjectId)>, Unfit> {
    let mut at = root.map(|id| (b"40000".to_vec(), id));
    for name in path.split(|byte| *byte == b'/') {
        let Some((mode, id)) = at else { return Ok(None) };
        if mode != b"40000" {
            return Ok(None);
        }
        let bytes = trees.read(&id)?;
        at = None;
        for item in items(&bytes, trees.objects.kind) {
            let item = item.ok_or(Unfit("a tree is torn"))?;
            if item.name == name {
                at = Some((item.mode.to_vec(), item.id));
                break;
            }
        }
    }
    Ok(at)
}

/// Creates the trees that differ from `base` by the edits, which are sorted by path; returns the root.
pub(super) fn edit(
    trees: &mut Trees<'_>,
    fresh: &mut NewObjects,
    base: Option<ObjectId>,
    edits: &[TreeEdit<'_>],
) -> Result<ObjectId, Unfit> {
    let bytes = match base {
        Some(id) => trees.read(&id)?,
        None => Rc::default(),
    };
    let found: Option<Vec<TreeItem<'_>>> = items(&bytes, trees.objects.kind).collect();
    let mut found = found.ok_or(Unfit("a tree is torn"))?;
    let mut rest = edits;
    while let Some(first) = rest.first() {
        let name = first.path.split(|byte| *byte == b'/').next().unwrap_or_default();
        let is_file = name.len() == first.path.len();
        let same = |edit: &TreeEdit<'_>| {
            edit.path.strip_prefix(name).is_some_and(|rest| rest.first() == Some(&b'/'))
        };
        let count = if is_file { 1 } else { rest.iter().take_while(|edit| same(edit)).count() };
        let (group, later) = rest.split_at(count);
        rest = later;
        let old = found.iter().position(|item| item.name == name);
        let in_the_way = Unfit("something else has the file's name");
        let item = if is_file {
            if old.is_some_and(|at| !found[at].is_file()) {
                return Err(in_the_way);
            }
            TreeItem { mode: first.mode, name, id: first.id }
        } else {
            if old.is_some_and(|at| !found[at].is_tree()) {
                return Err(in_the_way);
            }
            let below: Vec<TreeEdit<'_>> = group
                .iter()
                .map(|edit| TreeEdit { path: &edit.path[name.len() + 1..], ..*edit })
                .collect();
            let id = edit(trees, fresh, old.map(|at| found[at].id), &below)?;
            TreeItem { mode: b"40000", name, id }
        };
        if let Some(at) = old {
            found[at] = item;
        } else {
            let after = |other: &TreeItem<'_>| other.key().gt(item.key());
            let at = found.iter().position(after).unwrap_or(found.len());
            found.insert(at, item);
        }
    }
    let mut tree = Vec::with_capacity(bytes.len() + 64);
    for item in &found {
        tree.extend_from_slice(item.mode);
        tree.push(b' ');
        tree.extend_from_slice(item.name);
        tree.push(0);
        tree.extend_from_slice(item.id.as_slice());
    }
    fresh.add("tree", &tree)
}

/// Objects that are not on disk yet.
pub(in super::super) struct NewObjects {
    kind: Kind,
    objects: Vec<(ObjectId, Vec<u8>)>,
}

impl NewObjects {
    pub(in super::super) fn new(kind: Kind) -> Self {
        NewObjects { kind, objects: Vec::new() }
    }

    /// Adds an object and returns its id.
    pub(in super::super) fn add(&mut self, what: &str, content: &[u8]) -> Result<ObjectId, Unfit> {
        let object = [format!("{what} {}\0", content.len()).as_bytes(), content].concat();
        let mut hasher = gix_hash::hasher(self.kind);
        hasher.update(&object);
        let id = hasher.try_finalize().map_err(|_| Unfit("a file attacks the hash"))?;
        self.objects.push((id, object));
        Ok(id)
    }

    pub(in super::super) fn kind(&self) -> Kind {
        self.kind
    }

    /// Adds others.
    pub(super) fn take(&mut self, others: NewObjects) {
        self.objects.extend(others.objects);
    }

    /// Writes them all; they are durable when this returns.
    pub(in super::super) fn write(&self, objects_dir: &Path) -> Result<(), Unfit> {
        self.try_write(objects_dir).map_err(|_| Unfit("its objects cannot be written"))
    }

    /// Lets git write them all, one by one.
    pub(in super::super) fn write_by_git(&self, git: &Git) -> Result<(), GitError> {
        for (_, object) in &self.objects {
            let end = memchr::memchr(0, object).unwrap_or(object.len());
            let header = String::from_utf8_lossy(&object[..end]);
            let kind = header.split(' ').next().unwrap_or_default();
            let args = ["hash-object", "-w", "-t", kind, "--stdin"];
            git.call(Call::new(&args).input(object.get(end + 1..).unwrap_or_default()))?;
        }
        Ok(())
    }

    fn try_write(&self, objects_dir: &Path) -> io::Result<()> {
        let mut pending = Vec::with_capacity(self.objects.len());
        for (id, object) in &self.objects {
            let hex = id.to_hex().to_string();
            let dir = objects_dir.join(&hex[..2]);
            pending.push((Unnamed::write(&dir, &deflate(object))?, dir.join(&hex[2..])));
        }
        for (unnamed, path) in &mut pending {
            unnamed.name(path)?;
        }
        // A journalling file system syncs the names along with the files.
        sync_together(pending.iter().map(|(named, _)| &named.file))
    }
}

/// An object under a temporary name; removed unless it gets its final name.
struct Unnamed {
    path: PathBuf,
    file: File,
    named: bool,
}

impl Unnamed {
    fn write(dir: &Path, bytes: &[u8]) -> io::Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            // Git cleans up leftovers with this prefix.
            let path = dir.join(format!("tmp_obj_ralph-{}-{number}", std::process::id()));
            match OpenOptions::new().write(true).create_new(true).mode(0o444).open(&path) {
                Ok(file) => {
                    let mut unnamed = Unnamed { path, file, named: false };
                    unnamed.file.write_all(bytes)?;
                    return Ok(unnamed);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => make_directory(dir)?,
                Err(error) => return Err(error),
            }
        }
    }

    fn name(&mut self, path: &Path) -> io::Result<()> {
        fs::rename(&self.path, path)?;
        self.named = true;
        Ok(())
    }
}

/// Creates an object directory; another process may have created it meanwhile.
fn make_directory(dir: &Path) -> io::Result<()> {
    match fs::create_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

impl Drop for Unnamed {
    fn drop(&mut self) {
        if !self.named {
            let _ = fs::remove_file(&self.path);
        }
    }
}
