//! Replaces a few entries of the index, keeping every other byte.
//!
//! Rewriting an index through a library loses what the library does not write: its version, the untracked cache, the
//! halves of a split one. Here changed entries are rewritten and all others copied. Of the extensions, the tree cache
//! drops the changed directories; the others are kept if they stay valid, and if one would not (or is unknown) the
//! index is [`Unfit`] and left to git. No checksum is verified, as in git.

use std::fs::{File, Metadata};
use std::io::Seek;
use std::os::unix::fs::{FileExt, MetadataExt};

use gix_hash::{Kind, ObjectId};

use super::super::settings::Unfit;
use super::copy::{Checksum, Copying, Sink};
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

/// An entry that the index must have.
#[derive(Clone, Debug)]
pub(in super::super) struct IndexEdit<'a> {
    pub(in super::super) path: &'a [u8],
    pub(in super::super) id: ObjectId,
    pub(in super::super) executable: bool,
    /// The file with this content, if it exists already.
    pub(in super::super) file: Option<&'a Metadata>,
}

/// The index's old entry at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Staged {
    pub(super) id: ObjectId,
    pub(super) mode: u32,
    /// An intent to add the file, without content.
    pub(super) promised: bool,
}

/// What was found while an index was changed.
#[derive(Debug)]
pub(in super::super) struct Patched {
    /// One for each edit.
    pub(super) before: Vec<Option<Staged>>,
    /// Some file may have changed after it was staged without looking different: git compares its content only because
    /// the index is not newer than the file, so the new index must not appear newer than the old one.
    pub(in super::super) keep_time: bool,
}

/// Why there is no new index.
#[derive(Debug)]
pub(in super::super) enum NotPatched {
    /// The path with this index has an unresolved conflict.
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

/// The changes of an index, all sorted by path.
pub(in super::super) struct IndexChange<'a> {
    pub(in super::super) edits: &'a [IndexEdit<'a>],
    /// Entries to remove.
    pub(in super::super) gone: &'a [&'a [u8]],
    /// An entry at one of these paths makes the index unfit: it would affect the edits (attributes that are missing in
    /// the working tree).
    pub(in super::super) watched: &'a [Vec<u8>],
    /// How many entries more there will be, as far as the caller knows: another number costs a second pass.
    pub(in super::super) expected: i32,
}

/// Writes an index with entries replaced, inserted or removed. `old` is the index and its metadata, if it exists.
pub(in super::super) fn patch(
    old: Option<(&File, &Metadata)>,
    kind: Kind,
    change: &IndexChange<'_>,
    to: &File,
) -> Result<Patched, NotPatched> {
    let Some((old, metadata)) = old else {
        return Ok(first_index(kind, change.edits, to)?);
    };
    // How many entries there will be stands at the beginning: where that is not as expected, all is written again.
    let mut more = change.expected;
    loop {
        let (patched, found) = copy_patched(old, metadata, kind, change, to, more)?;
        if found == more {
            return Ok(patched);
        }
        more = found;
        let (mut from, mut again) = (old, to);
        let rewound = from.rewind().and_then(|()| again.rewind()).and_then(|()| to.set_len(0));
        rewound.map_err(|_| TORN)?;
    }
}

/// Creates the index of a repository without one.
pub(in super::super) fn first_index(
    kind: Kind,
    edits: &[IndexEdit<'_>],
    to: &File,
) -> Result<Patched, Unfit> {
    let mut sink = Sink::new(to, kind);
    let count = u32::try_from(edits.len()).expect("a few files are committed this way");
    sink.put(&[&b"DIRC\0\0\0\x02"[..], &count.to_be_bytes()].concat())?;
    for edit in edits {
        sink.put(&edit.entry(None))?;
    }
    sink.seal()?;
    Ok(Patched { before: vec![None; edits.len()], keep_time: false })
}

/// Copies an index with its entries changed, and returns how many more it has; the header announces `more`.
fn copy_patched(
    old: &File,
    metadata: &Metadata,
    kind: Kind,
    change: &IndexChange<'_>,
    to: &File,
    more: i32,
) -> Result<(Patched, i32), NotPatched> {
    let IndexChange { edits, gone, watched, .. } = change;
    // Whole seconds: not every git looks at what is below.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "as git does")]
    let written = metadata.mtime() as u32;
    let mut index = Index::open(old, metadata.len(), kind, to, more)?;
    let mut first_bytes = [false; 256];
    for path in edits.iter().map(|edit| edit.path).chain(watched.iter().map(Vec::as_slice)) {
        first_bytes[usize::from(path.first().copied().unwrap_or(0))] = true;
    }
    let mut before = vec![None; edits.len()];
    let (mut next, mut next_gone, mut inserted, mut keep_time) = (0, 0, 0, false);
    for _ in 0..index.count {
        let entry = index.entry()?;
        let name = index.name.as_slice();
        let may_matter = name.first().is_none_or(|first| first_bytes[usize::from(*first)]);
        if may_matter && watched.iter().any(|path| path == name) {
            return Err(Unfit("attributes are staged that are not in the work tree").into());
        }
        if may_matter && edits.iter().any(|edit| are_in_each_others_way(edit.path, name)) {
            return Err(Unfit("the index has something else in the file's place").into());
        }
        while let Some(edit) = edits.get(next).filter(|edit| edit.path < index.name.as_slice()) {
            index.insert(edit)?;
            (next, inserted) = (next + 1, inserted + 1);
        }
        if let Some(edit) = edits.get(next).filter(|edit| edit.path == index.name) {
            if entry.flags & STAGE != 0 {
                return Err(NotPatched::Unmerged(next));
            }
            before[next] = Some(index.replace(&entry, edit)?);
            next += 1;
        } else if gone.get(next_gone).is_some_and(|path| *path == index.name) {
            index.leave_out(&entry)?;
            next_gone += 1;
        } else {
            keep_time |= entry.modified >= written;
            index.copy.pass(entry.len)?;
        }
    }
    for edit in &edits[next..] {
        index.insert(edit)?;
        inserted += 1;
    }
    if next_gone < gone.len() {
        return Err(Unfit("the index lacks what is to go").into());
    }
    let left_out = i32::try_from(next_gone).map_err(|_| TORN)?;
    index.extensions(edits, gone, inserted + left_out > 0)?;
    index.copy.finish()?.seal()?;
    Ok((Patched { before, keep_time }, inserted - left_out))
}

fn are_in_each_others_way(path: &[u8], name: &[u8]) -> bool {
    let below = |long: &[u8], short: &[u8]| {
        long.strip_prefix(short).is_some_and(|rest| rest.first() == Some(&b'/'))
    };
    // A directory that is not checked out is one entry, with a trailing slash.
    below(path, name) || below(name, path) || (name.ends_with(b"/") && path.starts_with(name))
}

impl IndexEdit<'_> {
    /// Writes the entry; `compressed` is its name in version 4 format, relative to the previous entry.
    fn entry(&self, compressed: Option<&[u8]>) -> Vec<u8> {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "as git does")]
        let stat = match self.file {
            Some(file) => [
                file.ctime() as u32,
                file.ctime_nsec() as u32,
                file.mtime() as u32,
                file.mtime_nsec() as u32,
                file.dev() as u32,
                file.ino() as u32,
                self.mode(),
                file.uid(),
                file.gid(),
                file.size() as u32,
            ],
            None => [0, 0, 0, 0, 0, 0, self.mode(), 0, 0, 0],
        };
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

/// The next entry of an index.
struct Entry {
    len: usize,
    /// The offset of the name data.
    name: usize,
    /// In seconds.
    modified: u32,
    mode: u32,
    flags: u16,
    extended: u16,
}

/// An index being copied.
struct Index<'a> {
    copy: Copying<'a>,
    version: u32,
    count: u32,
    kind: Kind,
    hash_len: usize,
    /// The name of the last entry read; in version 4 the next one builds on it.
    name: Vec<u8>,
}

impl<'a> Index<'a> {
    /// Begins to copy an index with `more` additional entries.
    fn open(from: &'a File, len: u64, kind: Kind, to: &'a File, more: i32) -> Result<Self, Unfit> {
        let hash_len = kind.len_in_bytes();
        let body = len.checked_sub(hash_len as u64).ok_or(TORN)?;
        let mut checksum = vec![0; hash_len];
        from.read_exact_at(&mut checksum, body).map_err(|_| TORN)?;
        // An index without a checksum stays without.
        let is_without = checksum.iter().all(|byte| *byte == 0);
        let sink = if is_without { Sink::without_checksum } else { Sink::new };
        let mut copy = Copying::new(from, body, sink(to, kind));
        let header = copy.ahead(HEADER)?;
        if !header.starts_with(b"DIRC") {
            return Err(TORN);
        }
        let (version, count) = (number(header, 4), number(header, 8));
        let announced = count.checked_add_signed(more).ok_or(TORN)?;
        let new = [&header[..8], &announced.to_be_bytes()].concat();
        copy.replace(HEADER, &new)?;
        if !(2..=4).contains(&version) {
            return Err(Unfit("its index has an unknown version"));
        }
        Ok(Index { copy, version, count, kind, hash_len, name: Vec::new() })
    }

    /// Parses the next entry.
    fn entry(&mut self) -> Result<Entry, Unfit> {
        let flags_at = STAT + self.hash_len;
        let flags = short(self.copy.ahead(flags_at + 2)?, flags_at);
        let is_extended = self.version > 2 && flags & EXTENDED != 0;
        let name = flags_at + if is_extended { 4 } else { 2 };
        let extended = if is_extended { short(self.copy.ahead(name)?, flags_at + 2) } else { 0 };
        let (bytes, len) = if self.version == 4 {
            let (strip, used) = self.variable_number(name)?;
            let end = self.copy.nul_after(name + used)?;
            let keep = self.name.len().checked_sub(strip).ok_or(TORN)?;
            self.name.truncate(keep);
            let bytes = self.copy.ahead(end + 1)?;
            self.name.extend_from_slice(&bytes[name + used..end]);
            (bytes, end + 1)
        } else {
            let name_len = match flags & NAME {
                NAME => self.copy.nul_after(name)? - name,
                len => usize::from(len),
            };
            let len = (name + name_len + 8) & !7;
            let bytes = self.copy.ahead(len)?;
            self.name.clear();
            self.name.extend_from_slice(&bytes[name..name + name_len]);
            (bytes, len)
        };
        Ok(Entry {
            len,
            name,
            modified: number(bytes, 8),
            mode: number(bytes, 24),
            flags,
            extended,
        })
    }

    /// Parses a version 4 number (how much of the previous name to drop), and returns its encoded length.
    fn variable_number(&mut self, at: usize) -> Result<(usize, usize), Unfit> {
        let mut number = 0_usize;
        for used in 0..9 {
            let byte = self.copy.ahead(at + used + 1)?[at + used];
            let before = if used > 0 { number.checked_add(1) } else { Some(0) };
            let shifted = before.and_then(|before| before.checked_mul(128)).ok_or(TORN)?;
            number = shifted.checked_add(usize::from(byte & 127)).ok_or(TORN)?;
            if byte & 128 == 0 {
                return Ok((number, used + 1));
            }
        }
        Err(TORN)
    }

    /// Inserts a new entry.
    fn insert(&mut self, edit: &IndexEdit<'_>) -> Result<(), Unfit> {
        if self.version == 4 {
            return Err(Unfit("its index writes a name as a difference to the one before"));
        }
        self.copy.replace(0, &edit.entry(None))
    }

    /// Removes the next entry.
    fn leave_out(&mut self, entry: &Entry) -> Result<(), Unfit> {
        if self.version == 4 {
            return Err(Unfit("its index writes a name as a difference to the one before"));
        }
        self.copy.replace(entry.len, &[])
    }

    /// Replaces the next entry, and returns the old one.
    fn replace(&mut self, entry: &Entry, edit: &IndexEdit<'_>) -> Result<Staged, Unfit> {
        if entry.flags & ASSUME_VALID != 0 || entry.extended & SKIP_WORKTREE != 0 {
            return Err(Unfit("git was told not to look at the file"));
        }
        if entry.mode & 0o170_000 != 0o100_000 {
            return Err(Unfit("the index has something else in the file's place"));
        }
        let (is_compressed, hash_len) = (self.version == 4, self.hash_len);
        let bytes = self.copy.ahead(entry.len)?;
        let id = ObjectId::try_from(&bytes[STAT..STAT + hash_len]).map_err(|_| TORN)?;
        let new = edit.entry(is_compressed.then_some(&bytes[entry.name..]));
        self.copy.replace(entry.len, &new)?;
        let promised = entry.extended & INTENT_TO_ADD != 0;
        Ok(Staged { id, mode: entry.mode, promised })
    }

    /// Copies the extensions after the entries, as far as they stay valid.
    fn extensions(
        &mut self,
        edits: &[IndexEdit<'_>],
        gone: &[&[u8]],
        moved: bool,
    ) -> Result<(), Unfit> {
        let new_end = u32::try_from(self.copy.written()).map_err(|_| TORN)?;
        let entries_moved = u64::from(new_end) != self.copy.passed();
        let mut headers = Checksum::new(self.kind);
        while !self.copy.is_at_end() {
            let header = self.copy.ahead(8)?;
            let name: [u8; 4] = header[..4].try_into().expect("these are four bytes");
            let size = usize::try_from(number(header, 4)).map_err(|_| TORN)?;
            let whole = size.checked_add(8).ok_or(TORN)?;
            let changed = match &name {
                b"TREE" => {
                    let mut tree = self.copy.ahead(whole)?[8..].to_vec();
                    for path in edits.iter().map(|edit| edit.path).chain(gone.iter().copied()) {
                        tree = forget(&tree, path, self.hash_len)?;
                    }
                    Some(tree)
                }
                // These refer to entries by number, or to missing files.
                b"UNTR" | b"FSMN" if moved => return Err(UNTRUE),
                // Only an aid for reading in parallel.
                b"IEOT" | b"EOIE" if entries_moved => {
                    self.copy.replace(whole, &[])?;
                    continue;
                }
                b"REUC" | b"sdir" | b"UNTR" | b"FSMN" | b"IEOT" => None,
                b"EOIE" => {
                    let mut end = new_end.to_be_bytes().to_vec();
                    let before = std::mem::replace(&mut headers, Checksum::new(self.kind));
                    end.extend(before.finish());
                    Some(end)
                }
                _ => return Err(UNTRUE),
            };
            let new_size = changed.as_ref().map_or(size, Vec::len);
            let new_size = u32::try_from(new_size).map_err(|_| TORN)?;
            let header = [&name[..], &new_size.to_be_bytes()].concat();
            headers.update(&header);
            match changed {
                Some(data) => self.copy.replace(whole, &[header, data].concat())?,
                None => self.copy.pass(whole)?,
            }
        }
        Ok(())
    }
}

fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("these are four bytes"))
}

fn short(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(bytes[at..at + 2].try_into().expect("these are two bytes"))
}
