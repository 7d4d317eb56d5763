//! A repository's objects, read in process.
//!
//! Replace refs and grafts do not exist here. Objects are not hashed when they are read, as git does not either; who may
//! write the object store may forge them, and what must be true is asked of the mirror. A FIFO in the place of an object
//! would hold a reader for ever, where git has a timeout: what is no file is found before it is opened.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use gix_hash::{Kind, ObjectId};
use gix_odb::store::Handle;
use gix_odb::{Store, store};
use gix_pack::Find;
use gix_pack::cache::DecodeEntry;

use super::settings::Unfit;
use super::{ObjectFormat, Oid, Place};

/// What kept versions may take before the oldest goes.
const CACHE_BYTES: usize = 16 << 20;
/// More than a file of a plan ever has; a pack may claim any size.
const LARGEST: usize = 1 << 30;
const CACHE_ENTRIES: usize = 32;

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

/// What an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ObjectKind {
    Commit,
    Tree,
    Blob,
}

/// Why an object could not be had.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    #[error("object `{id}` is not there")]
    Missing { id: Oid },
    #[error("object `{id}` is not what it should be")]
    Malformed { id: Oid },
    #[error("object `{id}` cannot be read: {reason}")]
    Unreadable { id: Oid, reason: String },
}

/// The object store of one repository.
pub(super) struct Objects {
    handle: Handle<Arc<Store>>,
    pub(super) kind: Kind,
    cache: Kept,
    /// Object directories, each with what is known of which loose directories it has.
    loose: Vec<(PathBuf, [Option<bool>; 256])>,
}

impl Objects {
    /// Opens the store.
    pub(super) fn open(place: &Place, format: ObjectFormat) -> Result<Self, Unfit> {
        let dir = place.common_dir.join("objects").into_std_path_buf();
        let odd = Unfit("its object store is not in order");
        let mut dirs = vec![dir.clone()];
        if super::regular::read(&dir.join("info/alternates")).map_err(|_| odd)?.is_some() {
            dirs.extend(
                gix_odb::alternate::resolve(dir.clone(), place.git_dir.as_std_path())
                    .map_err(|_| odd)?,
            );
        }
        for dir in &dirs {
            let packs = fs::read_dir(dir.join("pack")).into_iter().flatten().flatten();
            if packs.into_iter().any(|file| !file.file_type().is_ok_and(|kind| kind.is_file())) {
                return Err(odd);
            }
        }
        let options = store::init::Options {
            alloc_limit_bytes: Some(LARGEST),
            current_dir: Some(place.git_dir.clone().into_std_path_buf()),
            ..store::init::Options::default()
        };
        let store = Store::at_opts(dir, format.kind(), &mut std::iter::empty(), options)
            .map_err(|_| odd)?;
        let mut handle = Arc::new(store).to_handle_arc();
        handle.ignore_replacements = true;
        let loose = dirs.into_iter().map(|dir| (dir, [None; 256])).collect();
        Ok(Objects { handle, kind: format.kind(), cache: Kept::default(), loose })
    }

    /// Reads an object of a certain kind; says where in its pack it lies, if it lies in one.
    pub(super) fn read(
        &mut self,
        id: &ObjectId,
        kind: ObjectKind,
        into: &mut Vec<u8>,
    ) -> Result<Option<u64>, ObjectError> {
        if id.kind() != self.kind || !self.is_safe_to_open(id) {
            return Err(ObjectError::Malformed { id: Oid::of(id) });
        }
        let found = self.handle.try_find_cached(id, into, &mut self.cache);
        let found = found.map_err(|error| ObjectError::Unreadable {
            id: Oid::of(id),
            reason: error.to_string(),
        })?;
        let Some((data, location)) = found else {
            return Err(ObjectError::Missing { id: Oid::of(id) });
        };
        let as_expected = match kind {
            ObjectKind::Commit => data.kind.is_commit(),
            ObjectKind::Tree => data.kind.is_tree(),
            ObjectKind::Blob => data.kind.is_blob(),
        };
        if !as_expected {
            return Err(ObjectError::Malformed { id: Oid::of(id) });
        }
        let len = data.data.len();
        into.truncate(len);
        Ok(location.map(|location| location.pack_offset))
    }

    /// Tells whether no loose object of this name could hold up who opens it.
    fn is_safe_to_open(&mut self, id: &ObjectId) -> bool {
        let first = usize::from(id.first_byte());
        self.loose.iter_mut().all(|(dir, present)| {
            let is_there = || dir.join(format!("{first:02x}")).exists();
            if !*present[first].get_or_insert_with(is_there) {
                return true;
            }
            let hex = id.to_hex().to_string();
            let path = dir.join(&hex[..2]).join(&hex[2..]);
            fs::symlink_metadata(path).map_or(true, |found| found.is_file())
        })
    }
}

/// The versions that were decoded last; the next is mostly a small difference to one of them.
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
    /// What the library wants back with the data.
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
