//! The index with a few entries replaced, and every other byte of it kept.
//!
//! Rewriting an index through a library loses what the library does not write: its version, the untracked cache, the
//! halves of a split one. Here the entries that change are written anew and all others copied. Of the extensions, the tree
//! cache forgets the directories that changed; the others are kept as long as they stay true, and where one would not (or
//! is not known) the index is [`Unfit`] and left to git. No checksum is verified, as git does not either.

use std::borrow::Cow;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

use gix_hash::{Kind, ObjectId};
use sha1::Sha1;
use sha2::{Digest, Sha256};

use super::super::settings::Unfit;
use super::tree_cache::forget;

/// Bytes before an entry's id: times, device, inode, mode, owner, size.
const STAT: usize = 40;
const HEADER: usize = 12;
/// Flags of an entry.
const ASSUME_VALID: u16 = 0x8000;
const EXTENDED: u16 = 0x4000;
const STAGE: u16 = 0x3000;
const NAME: u16 = 0x0fff;
/// Flags of an extended entry.
const SKIP_WORKTREE: u16 = 0x4000;
const INTENT_TO_ADD: u16 = 0x2000;

/// An entry that the index is to have.
#[derive(Clone, Debug)]
pub(super) struct IndexEdit<'a> {
    pub(super) path: &'a [u8],
    pub(super) id: ObjectId,
    pub(super) executable: bool,
    /// The file that has this content.
    pub(super) file: &'a Metadata,
}

/// What the index had at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Staged {
    pub(super) id: ObjectId,
    pub(super) mode: u32,
    /// A promise to add the file, without content.
    pub(super) promised: bool,
}

/// An index that was changed.
#[derive(Debug)]
pub(super) struct Patched<'a> {
    /// What it consists of: mostly the old one, which may be large.
    pub(super) pieces: Vec<Cow<'a, [u8]>>,
    /// One for each edit.
    pub(super) before: Vec<Option<Staged>>,
    /// Some file may have changed after it was staged without looking like it: only because the index is not newer than
    /// the file will git look into it, so the new index must not seem newer than the old one.
    pub(super) keep_time: bool,
}

/// Why there is no new index.
#[derive(Debug)]
pub(super) enum NotPatched {
    /// The path with this number has an unresolved conflict.
    Unmerged(usize),
    Unfit(Unfit),
}

impl From<Unfit> for NotPatched {
    fn from(unfit: Unfit) -> Self {
        NotPatched::Unfit(unfit)
    }
}

pub(super) const TORN: Unfit = Unfit("its index is torn");
const UNTRUE: Unfit = Unfit("its index has parts that would not stay true");

/// Replaces or inserts entries; `edits` are sorted by path.
///
/// `old` is the index and when it was written, if there is one. An entry at one of the `watched` paths makes the index
/// unfit: it would have a say about the edits (attributes that are not in the work tree).
pub(super) fn patch<'a>(
    old: Option<(&'a [u8], (u32, u32))>,
    kind: Kind,
    edits: &[IndexEdit<'_>],
    watched: &[Vec<u8>],
) -> Result<Patched<'a>, NotPatched> {
    let Some((old, written)) = old else {
        return Ok(first_index(kind, edits));
    };
    let index = Index::open(old, kind)?;
    let mut found = Found { before: vec![None; edits.len()], splices: Vec::new(), inserted: 0 };
    let mut cursor = Cursor { position: HEADER, name: Vec::new() };
    let mut next = 0;
    let mut keep_time = false;
    let mut first_bytes = [false; 256];
    for path in edits.iter().map(|edit| edit.path).chain(watched.iter().map(Vec::as_slice)) {
        first_bytes[usize::from(path.first().copied().unwrap_or(0))] = true;
    }
    for _ in 0..index.count {
        let entry = index.entry(&mut cursor)?;
        let name = cursor.name.as_slice();
        let may_matter = name.first().is_none_or(|first| first_bytes[usize::from(*first)]);
        if may_matter && watched.iter().any(|path| path == name) {
            return Err(Unfit("attributes are staged that are not in the work tree").into());
        }
        if may_matter && edits.iter().any(|edit| are_in_each_others_way(edit.path, name)) {
            return Err(Unfit("the index has something else in the file's place").into());
        }
        while edits.get(next).is_some_and(|edit| edit.path < name) {
            found.insert(&index, entry.start, &edits[next])?;
            next += 1;
        }
        if edits.get(next).is_some_and(|edit| edit.path == name) {
            if entry.flags & STAGE != 0 {
                return Err(NotPatched::Unmerged(next));
            }
            found.replace(&index, &entry, &edits[next], next)?;
            next += 1;
        } else {
            keep_time |= entry.modified >= written;
        }
    }
    let end = cursor.position;
    for edit in &edits[next..] {
        found.insert(&index, end, edit)?;
    }

    let count = index.count + found.inserted;
    let mut pieces = vec![Cow::Owned([&old[..8], &count.to_be_bytes()].concat())];
    let mut copied = HEADER;
    for Splice { from, to, with } in found.splices {
        pieces.push(Cow::Borrowed(&old[copied..from]));
        pieces.push(Cow::Owned(with));
        copied = to;
    }
    pieces.push(Cow::Borrowed(&old[copied..end]));
    let new_end = pieces.iter().map(|piece| piece.len()).sum();
    pieces.push(Cow::Owned(index.extensions(end, new_end, edits, found.inserted > 0)?));
    pieces.push(Cow::Owned(index.checksum(&pieces)));
    Ok(Patched { pieces, before: found.before, keep_time })
}

/// Makes the index of a repository that has none.
fn first_index(kind: Kind, edits: &[IndexEdit<'_>]) -> Patched<'static> {
    let mut bytes = b"DIRC\0\0\0\x02".to_vec();
    let count = u32::try_from(edits.len()).expect("a few files are committed this way");
    bytes.extend_from_slice(&count.to_be_bytes());
    for edit in edits {
        bytes.extend(edit.entry(None));
    }
    bytes.extend(checksum(kind, &[&bytes]));
    let pieces = vec![Cow::Owned(bytes)];
    Patched { pieces, before: vec![None; edits.len()], keep_time: false }
}

fn are_in_each_others_way(path: &[u8], name: &[u8]) -> bool {
    let below = |long: &[u8], short: &[u8]| {
        long.strip_prefix(short).is_some_and(|rest| rest.first() == Some(&b'/'))
    };
    // A directory that is not checked out is one entry, and ends in a slash.
    below(path, name) || below(name, path) || (name.ends_with(b"/") && path.starts_with(name))
}

/// Computes a checksum. It protects from accidents alone, so nobody looks for an attack on the hash.
fn checksum(kind: Kind, pieces: &[impl AsRef<[u8]>]) -> Vec<u8> {
    fn digest<D: Digest>(pieces: &[impl AsRef<[u8]>]) -> Vec<u8> {
        let mut hash = D::new();
        for piece in pieces {
            hash.update(piece);
        }
        hash.finalize().to_vec()
    }
    match kind {
        Kind::Sha1 => digest::<Sha1>(pieces),
        _ => digest::<Sha256>(pieces),
    }
}

impl IndexEdit<'_> {
    /// Writes the entry; `compressed` is its name as version 4 has it after the entry before.
    fn entry(&self, compressed: Option<&[u8]>) -> Vec<u8> {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "as git does")]
        let stat = [
            self.file.ctime() as u32,
            self.file.ctime_nsec() as u32,
            self.file.mtime() as u32,
            self.file.mtime_nsec() as u32,
            self.file.dev() as u32,
            self.file.ino() as u32,
            self.mode(),
            self.file.uid(),
            self.file.gid(),
            self.file.size() as u32,
        ];
        let mut entry: Vec<u8> = stat.iter().flat_map(|field| field.to_be_bytes()).collect();
        entry.extend_from_slice(self.id.as_slice());
        let flags = u16::try_from(self.path.len()).unwrap_or(NAME).min(NAME);
        entry.extend_from_slice(&flags.to_be_bytes());
        if let Some(name) = compressed {
            entry.extend_from_slice(name);
        } else {
            entry.extend_from_slice(self.path);
            entry.resize((entry.len() + 8) & !7, 0);
        }
        entry
    }

    pub(super) fn mode(&self) -> u32 {
        if self.executable { 0o100_755 } else { 0o100_644 }
    }
}

/// Bytes that are to be replaced by others.
struct Splice {
    from: usize,
    to: usize,
    with: Vec<u8>,
}

struct Found {
    before: Vec<Option<Staged>>,
    splices: Vec<Splice>,
    inserted: u32,
}

impl Found {
    fn insert(&mut self, index: &Index<'_>, at: usize, edit: &IndexEdit<'_>) -> Result<(), Unfit> {
        if index.version == 4 {
            return Err(Unfit("its index writes a name as a difference to the one before"));
        }
        self.splices.push(Splice { from: at, to: at, with: edit.entry(None) });
        self.inserted += 1;
        Ok(())
    }

    fn replace(
        &mut self,
        index: &Index<'_>,
        entry: &Entry<'_>,
        edit: &IndexEdit<'_>,
        number: usize,
    ) -> Result<(), Unfit> {
        if entry.flags & ASSUME_VALID != 0 || entry.extended & SKIP_WORKTREE != 0 {
            return Err(Unfit("git was told not to look at the file"));
        }
        if entry.mode & 0o170_000 != 0o100_000 {
            return Err(Unfit("the index has something else in the file's place"));
        }
        let compressed = (index.version == 4).then(|| &index.bytes[entry.name..entry.end]);
        self.before[number] = Some(Staged {
            id: ObjectId::try_from(entry.id).map_err(|_| TORN)?,
            mode: entry.mode,
            promised: entry.extended & INTENT_TO_ADD != 0,
        });
        self.splices.push(Splice {
            from: entry.start,
            to: entry.end,
            with: edit.entry(compressed),
        });
        Ok(())
    }
}

/// One entry, by where its bytes are.
struct Entry<'a> {
    start: usize,
    end: usize,
    /// Where what tells the name begins.
    name: usize,
    modified: (u32, u32),
    mode: u32,
    id: &'a [u8],
    flags: u16,
    extended: u16,
}

/// How far the index was read, and the name of the entry before.
struct Cursor {
    position: usize,
    name: Vec<u8>,
}

struct Index<'a> {
    bytes: &'a [u8],
    version: u32,
    count: u32,
    kind: Kind,
    hash_len: usize,
}

impl<'a> Index<'a> {
    fn open(bytes: &'a [u8], kind: Kind) -> Result<Self, Unfit> {
        let hash_len = kind.len_in_bytes();
        if !bytes.starts_with(b"DIRC") || bytes.len() < HEADER + hash_len {
            return Err(TORN);
        }
        let mut index = Index { bytes, version: 0, count: 0, kind, hash_len };
        (index.version, index.count) = (index.number(4)?, index.number(8)?);
        if !(2..=4).contains(&index.version) {
            return Err(Unfit("its index has an unknown version"));
        }
        Ok(index)
    }

    fn body_end(&self) -> usize {
        self.bytes.len() - self.hash_len
    }

    fn number(&self, at: usize) -> Result<u32, Unfit> {
        let field = self.bytes.get(at..at + 4).and_then(|field| field.try_into().ok());
        field.map(u32::from_be_bytes).ok_or(TORN)
    }

    fn short(&self, at: usize) -> Result<u16, Unfit> {
        let field = self.bytes.get(at..at + 2).and_then(|field| field.try_into().ok());
        field.map(u16::from_be_bytes).ok_or(TORN)
    }

    /// Reads the entry at the cursor, which then stands behind it and has its name.
    fn entry(&self, cursor: &mut Cursor) -> Result<Entry<'a>, Unfit> {
        let start = cursor.position;
        let id = start + STAT;
        let flags_at = id + self.hash_len;
        let flags = self.short(flags_at)?;
        let is_extended = self.version > 2 && flags & EXTENDED != 0;
        let extended = if is_extended { self.short(flags_at + 2)? } else { 0 };
        let name = flags_at + if is_extended { 4 } else { 2 };
        let rest = self.bytes.get(name..self.body_end()).ok_or(TORN)?;
        if self.version == 4 {
            let (strip, used) = variable_number(rest).ok_or(TORN)?;
            let len = memchr::memchr(0, &rest[used..]).ok_or(TORN)?;
            let keep = cursor.name.len().checked_sub(strip).ok_or(TORN)?;
            cursor.name.truncate(keep);
            cursor.name.extend_from_slice(&rest[used..used + len]);
            cursor.position = name + used + len + 1;
        } else {
            let len = match flags & NAME {
                NAME => memchr::memchr(0, rest).ok_or(TORN)?,
                len => usize::from(len),
            };
            cursor.name.clear();
            cursor.name.extend_from_slice(rest.get(..len).ok_or(TORN)?);
            cursor.position = start + ((name - start + len + 8) & !7);
        }
        if cursor.position > self.body_end() {
            return Err(TORN);
        }
        Ok(Entry {
            start,
            end: cursor.position,
            name,
            modified: (self.number(start + 8)?, self.number(start + 12)?),
            mode: self.number(start + 24)?,
            id: &self.bytes[id..flags_at],
            flags,
            extended,
        })
    }

    /// Returns the extensions behind the entries, as far as they stay true; the entries ended at `end`, and now end at
    /// `new_end`.
    fn extensions(
        &self,
        end: usize,
        new_end: usize,
        edits: &[IndexEdit<'_>],
        inserted: bool,
    ) -> Result<Vec<u8>, Unfit> {
        let mut at = end;
        let mut out = Vec::new();
        let mut headers = Vec::new();
        let entries_moved = new_end != end;
        let new_end = u32::try_from(new_end).map_err(|_| TORN)?;
        while at < self.body_end() {
            let size = usize::try_from(self.number(at + 4)?).map_err(|_| TORN)?;
            let data = self.bytes.get(at + 8..at + 8 + size).ok_or(TORN)?;
            let name = &self.bytes[at..at + 4];
            at += 8 + size;
            if at > self.body_end() {
                return Err(TORN);
            }
            let mut changed = None;
            match name {
                b"TREE" => {
                    let mut tree = data.to_vec();
                    for edit in edits {
                        tree = forget(&tree, edit.path, self.hash_len)?;
                    }
                    changed = Some(tree);
                }
                // These know entries by number, or files by not being there.
                b"UNTR" | b"FSMN" if inserted => return Err(UNTRUE),
                // Only a help for reading in parallel.
                b"IEOT" | b"EOIE" if entries_moved => continue,
                b"REUC" | b"sdir" | b"UNTR" | b"FSMN" | b"IEOT" => {}
                b"EOIE" => {
                    let mut end = new_end.to_be_bytes().to_vec();
                    end.extend(checksum(self.kind, &[&headers]));
                    changed = Some(end);
                }
                _ => return Err(UNTRUE),
            }
            let data = changed.as_deref().unwrap_or(data);
            let size = u32::try_from(data.len()).map_err(|_| TORN)?;
            let header = [name, &size.to_be_bytes()].concat();
            out.extend_from_slice(&header);
            out.extend_from_slice(data);
            headers.extend(header);
        }
        Ok(out)
    }

    /// Returns the checksum, unless this index does without.
    fn checksum(&self, pieces: &[impl AsRef<[u8]>]) -> Vec<u8> {
        let without = self.bytes[self.body_end()..].iter().all(|byte| *byte == 0);
        if without { vec![0; self.hash_len] } else { checksum(self.kind, pieces) }
    }
}

/// Reads a number as version 4 writes how much of a name to drop.
fn variable_number(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut number = 0_usize;
    for (used, byte) in bytes.iter().enumerate().take(9) {
        if used > 0 {
            number = number.checked_add(1)?;
        }
        number = number.checked_mul(128)?.checked_add(usize::from(byte & 127))?;
        if byte & 128 == 0 {
            return Some((number, used + 1));
        }
    }
    None
}
