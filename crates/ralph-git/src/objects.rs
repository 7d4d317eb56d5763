//! A repository's objects, read in process.
//!
//! Replace refs and grafts are ignored. Objects are not hashed when they are read, as in git; a process with write
//! access to the object store may forge them, so what must be true is asked of the mirror. A FIFO at the path of an
//! object would block a reader forever, where git has a timeout: so file types are checked before opening.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use gix_hash::{Kind, ObjectId};
use gix_odb::store::Handle;
use gix_odb::{Store, store};
use gix_pack::Find;
use gix_pack::cache::DecodeEntry;
use zlib_rs::{Inflate, InflateFlush, Status};

use super::settings::Unfit;
use super::{ObjectFormat, Oid, RepositoryLocation, regular_file};

/// The maximum memory of cached versions before the oldest is dropped.
const CACHE_BYTES: usize = 16 << 20;
/// Larger than any file of a plan; a pack may claim any size.
const LARGEST: usize = 1 << 30;
const CACHE_ENTRIES: usize = 32;
/// The maximum window size of a stream, in bits.
const LARGEST_WINDOW: u8 = 15;

impl ObjectFormat {
    pub(super) fn kind(self) -> Kind {
        match self {
            ObjectFormat::Sha1 => Kind::Sha1,
            ObjectFormat::Sha256 => Kind::Sha256,
        }
    }
}

impl Oid {
    pub(super) fn of(id: &ObjectId) -> Self {
        Oid::parse(id.to_hex().to_string().as_bytes()).expect("no object has the id of zeros")
    }

    pub(super) fn to_id(&self) -> ObjectId {
        ObjectId::from_hex(self.as_str().as_bytes()).expect("an id is 40 or 64 digits")
    }
}

/// The kind of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ObjectKind {
    Commit,
    Tree,
    Blob,
}

impl ObjectKind {
    fn known(self) -> gix_object::Kind {
        match self {
            ObjectKind::Commit => gix_object::Kind::Commit,
            ObjectKind::Tree => gix_object::Kind::Tree,
            ObjectKind::Blob => gix_object::Kind::Blob,
        }
    }
}

/// Why an object could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    #[error("object `{id}` does not exist")]
    Missing { id: Oid },
    #[error("object `{id}` is damaged")]
    Malformed { id: Oid },
    #[error("object `{id}` cannot be read: {reason}")]
    Unreadable { id: Oid, reason: String },
}

/// The object store of one repository.
///
/// Loose objects are read directly. Packs and alternates are opened when the first object is not found among them.
pub(super) struct Objects {
    place: RepositoryLocation,
    pub(super) kind: Kind,
    /// Whether only Ralph writes it, so that large trees are cached once read.
    pub(super) is_private: bool,
    /// The repository's own object directory.
    own: Loose,
    rest: Option<Rest>,
}

/// A directory of loose objects, and its known subdirectories since an object was not found in one of them.
struct Loose {
    dir: PathBuf,
    present: [Option<bool>; 256],
}

/// Packs, and the stores of other repositories from which this one borrows.
struct Rest {
    handle: Handle<Arc<Store>>,
    cache: Kept,
    borrowed: Vec<Loose>,
}

/// The minimum size of trees worth caching.
const LARGE_TREE: usize = 16 << 10;
/// The maximum memory of cached trees before the oldest is dropped.
const TREES_BYTES: usize = 24 << 20;

/// Cached large trees of stores that only Ralph writes, oldest first.
static TREES: Mutex<KeptTrees> = Mutex::new(KeptTrees { trees: VecDeque::new(), bytes: 0 });

struct KeptTrees {
    /// Each with its store: another might have different content under its id.
    trees: VecDeque<(PathBuf, ObjectId, Arc<[u8]>)>,
    bytes: usize,
}

impl KeptTrees {
    fn get(&self, store: &Path, id: &ObjectId) -> Option<Arc<[u8]>> {
        let found = self.trees.iter().find(|(from, known, _)| known == id && from == store);
        found.map(|(.., bytes)| Arc::clone(bytes))
    }

    fn put(&mut self, store: &Path, id: ObjectId, bytes: Arc<[u8]>) {
        self.bytes += bytes.len();
        self.trees.push_back((store.to_owned(), id, bytes));
        while self.bytes > TREES_BYTES
            && let Some((.., gone)) = self.trees.pop_front()
        {
            self.bytes -= gone.len();
        }
    }
}

const ODD: Unfit = Unfit("its object store is not in order");

impl Loose {
    fn of(dir: PathBuf) -> Self {
        Loose { dir, present: [None; 256] }
    }

    /// Checks the path of a loose object. If not even the directory exists, packs need not be searched again.
    fn look<T>(
        &mut self,
        id: &ObjectId,
        look: impl FnOnce(&Path) -> io::Result<Option<T>>,
    ) -> io::Result<Option<T>> {
        let present = &mut self.present[usize::from(id.first_byte())];
        if *present == Some(false) {
            return Ok(None);
        }
        let hex = id.to_hex().to_string();
        let dir = self.dir.join(&hex[..2]);
        let found = look(&dir.join(&hex[2..]))?;
        if found.is_none() {
            present.get_or_insert_with(|| dir.exists());
        }
        Ok(found)
    }
}

impl Rest {
    fn open(place: &RepositoryLocation, kind: Kind) -> Result<Self, Unfit> {
        let dir = place.common_dir.join("objects").into_std_path_buf();
        let mut dirs = vec![dir.clone()];
        if regular_file::read_regular(&dir.join("info/alternates")).map_err(|_| ODD)?.is_some() {
            dirs.extend(
                gix_odb::alternate::resolve(dir.clone(), place.git_dir.as_std_path())
                    .map_err(|_| ODD)?,
            );
        }
        for dir in &dirs {
            let packs = fs::read_dir(dir.join("pack")).into_iter().flatten().flatten();
            if packs.into_iter().any(|file| !file.file_type().is_ok_and(|kind| kind.is_file())) {
                return Err(ODD);
            }
        }
        let options = store::init::Options {
            alloc_limit_bytes: Some(LARGEST),
            current_dir: Some(place.git_dir.clone().into_std_path_buf()),
            ..store::init::Options::default()
        };
        let store = Store::at_opts(dir, kind, &mut std::iter::empty(), options).map_err(|_| ODD)?;
        let mut handle = Arc::new(store).to_handle_arc();
        handle.ignore_replacements = true;
        let borrowed = dirs.drain(1..).map(Loose::of).collect();
        Ok(Rest { handle, cache: Kept::default(), borrowed })
    }

    /// Whether opening a loose object of this name cannot block.
    fn is_safe_to_open(&mut self, id: &ObjectId) -> bool {
        self.borrowed.iter_mut().all(|loose| {
            let found = loose.look(id, |path| Ok(fs::symlink_metadata(path).ok()));
            found.ok().flatten().is_none_or(|found| found.is_file())
        })
    }
}

impl Objects {
    /// Opens the repository's own objects; all others on demand.
    pub(super) fn open(place: &RepositoryLocation, kind: Kind) -> Self {
        let dir = place.common_dir.join("objects").into_std_path_buf();
        Objects { place: place.clone(), kind, is_private: false, own: Loose::of(dir), rest: None }
    }

    /// Reads an object of a certain kind; returns its offset if it is in a pack.
    pub(super) fn read(
        &mut self,
        id: &ObjectId,
        kind: ObjectKind,
        into: &mut Vec<u8>,
    ) -> Result<Option<u64>, ObjectError> {
        let malformed = || ObjectError::Malformed { id: Oid::of(id) };
        if id.kind() != self.kind {
            return Err(malformed());
        }
        if let Some(found) = self.read_loose(id, into)? {
            return if found == kind.known() { Ok(None) } else { Err(malformed()) };
        }
        let unreadable = |reason| ObjectError::Unreadable { id: Oid::of(id), reason };
        let rest = match &mut self.rest {
            Some(rest) => rest,
            none => none.insert(
                Rest::open(&self.place, self.kind)
                    .map_err(|Unfit(why)| unreadable(why.to_owned()))?,
            ),
        };
        if !rest.is_safe_to_open(id) {
            return Err(malformed());
        }
        let found = rest.handle.try_find_cached(id, into, &mut rest.cache);
        let found = found.map_err(|error| unreadable(error.to_string()))?;
        let Some((data, location)) = found else {
            return Err(ObjectError::Missing { id: Oid::of(id) });
        };
        if data.kind != kind.known() {
            return Err(malformed());
        }
        let len = data.data.len();
        into.truncate(len);
        Ok(location.map(|location| location.pack_offset))
    }

    /// Reads a tree; the empty one need not exist.
    pub(super) fn read_tree(&mut self, id: &ObjectId) -> Result<Arc<[u8]>, ObjectError> {
        if *id == ObjectId::empty_tree(self.kind) {
            return Ok(Arc::from([]));
        }
        if self.is_private
            && let Some(bytes) = TREES.lock().ok().and_then(|trees| trees.get(&self.own.dir, id))
        {
            return Ok(bytes);
        }
        let mut bytes = Vec::new();
        self.read(id, ObjectKind::Tree, &mut bytes)?;
        let bytes: Arc<[u8]> = Arc::from(bytes);
        if self.is_private
            && bytes.len() >= LARGE_TREE
            && let Ok(mut trees) = TREES.lock()
        {
            trees.put(&self.own.dir, *id, Arc::clone(&bytes));
        }
        Ok(bytes)
    }

    /// Reads a loose object and returns its kind; `None` if it is not loose.
    fn read_loose(
        &mut self,
        id: &ObjectId,
        into: &mut Vec<u8>,
    ) -> Result<Option<gix_object::Kind>, ObjectError> {
        let malformed = |_| ObjectError::Malformed { id: Oid::of(id) };
        let deflated = self.own.look(id, regular_file::read_regular).map_err(malformed)?;
        let Some(deflated) = deflated else { return Ok(None) };
        inflate(&deflated, into).map(Some).ok_or_else(|| malformed(io::ErrorKind::Other.into()))
    }
}

/// Inflates a loose object and returns its kind; `None` if it is truncated.
fn inflate(deflated: &[u8], into: &mut Vec<u8>) -> Option<gix_object::Kind> {
    let mut inflate = Inflate::new(true, LARGEST_WINDOW);
    let mut start = [0; 64];
    let mut status = inflate.decompress(deflated, &mut start, InflateFlush::NoFlush).ok()?;
    let used = usize::try_from(inflate.total_in()).ok()?;
    let start = &start[..usize::try_from(inflate.total_out()).ok()?];
    let (kind, size, header) = gix_object::decode::loose_header(start).ok()?;
    let size = usize::try_from(size).ok().filter(|size| *size <= LARGEST)?;
    into.clear();
    into.extend_from_slice(start.get(header..)?);
    let made = into.len();
    if made > size {
        return None;
    }
    into.resize(size, 0);
    if status != Status::StreamEnd {
        let rest = &mut into[made..];
        status = inflate.decompress(&deflated[used..], rest, InflateFlush::Finish).ok()?;
    }
    let whole = usize::try_from(inflate.total_out()) == Ok(header + size);
    (status == Status::StreamEnd && whole).then_some(kind)
}

/// Whether an object has this id.
pub(super) fn is_genuine(id: &ObjectId, kind: ObjectKind, content: &[u8]) -> bool {
    gix_object::compute_hash(id.kind(), kind.known(), content).is_ok_and(|hashed| hashed == *id)
}

/// Whether a loose object is intact and matches its id.
pub(super) fn is_whole_object(path: &Path, id: &str, kind: Kind) -> bool {
    let Ok(Some(deflated)) = regular_file::read_regular(path) else { return false };
    let mut content = Vec::new();
    let Some(found) = inflate(&deflated, &mut content) else { return false };
    let hashed = gix_object::compute_hash(kind, found, &content);
    let known = ObjectId::from_hex(id.as_bytes());
    hashed.is_ok_and(|hashed| known.is_ok_and(|known| known == hashed))
}

/// The last decoded versions; the next one is usually a small delta to one of them.
#[derive(Default)]
struct Kept {
    entries: Vec<Decoded>,
    next: usize,
    bytes: usize,
}

struct Decoded {
    pack: u32,
    offset: u64,
    data: Vec<u8>,
    /// The data that the library expects back.
    tag: (gix_object::Kind, usize),
}

impl DecodeEntry for Kept {
    fn put(&mut self, pack: u32, offset: u64, data: &[u8], kind: gix_object::Kind, size: usize) {
        if data.len() > CACHE_BYTES / 2 {
            return;
        }
        while self.bytes + data.len() > CACHE_BYTES && !self.entries.is_empty() {
            self.next %= self.entries.len();
            let gone = self.entries.remove(self.next);
            self.bytes -= gone.data.len();
        }
        self.bytes += data.len();
        let tag = (kind, size);
        if self.entries.len() < CACHE_ENTRIES {
            self.entries.push(Decoded { pack, offset, data: data.to_vec(), tag });
            return;
        }
        self.next = (self.next + 1) % CACHE_ENTRIES;
        let entry = &mut self.entries[self.next];
        self.bytes -= entry.data.len();
        entry.data.clear();
        entry.data.extend_from_slice(data);
        (entry.pack, entry.offset, entry.tag) = (pack, offset, tag);
    }

    fn get(
        &mut self,
        pack: u32,
        offset: u64,
        out: &mut Vec<u8>,
    ) -> Option<(gix_object::Kind, usize)> {
        let found = self.entries.iter().find(|kept| kept.offset == offset && kept.pack == pack)?;
        out.clear();
        out.extend_from_slice(&found.data);
        Some(found.tag)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{World, write};
    use super::*;

    #[test]
    fn an_object_is_the_same_loose_and_packed_and_a_torn_one_is_told() {
        let world = World::new();
        let dir = world.repository("r");
        write(&dir.join("file"), &"some text\n".repeat(100));
        world.git(&dir, &["add", "file"]);
        world.git(&dir, &["commit", "-qm", "x"]);
        let place = world.open(&dir).place().clone();
        let blob = world.id(&dir, "HEAD:file").to_id();
        let read = |kind| {
            let mut bytes = Vec::new();
            Objects::open(&place, Kind::Sha1).read(&blob, kind, &mut bytes).map(|_| bytes)
        };
        let whole = read(ObjectKind::Blob).unwrap();
        assert_eq!(whole, "some text\n".repeat(100).as_bytes());
        assert!(matches!(read(ObjectKind::Tree), Err(ObjectError::Malformed { .. })));

        let hex = blob.to_hex().to_string();
        let path = dir.join(".git/objects").join(&hex[..2]).join(&hex[2..]);
        let deflated = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        for end in 0..deflated.len() {
            fs::write(&path, &deflated[..end]).unwrap();
            assert!(read(ObjectKind::Blob).is_err(), "{end}");
        }
        fs::write(&path, &deflated).unwrap();
        world.git(&dir, &["gc", "--quiet"]);
        assert!(!path.exists());
        assert_eq!(read(ObjectKind::Blob).unwrap(), whole);
        assert!(matches!(read(ObjectKind::Commit), Err(ObjectError::Malformed { .. })));
    }
}
