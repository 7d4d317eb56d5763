//! One walk over a working tree, compared with an index: what may have changed, and what the index lacks.
//!
//! Git answers the same questions with one process each, and scans every file for each of them. Here all are answered
//! by one stat of each file: its times, size, owner, type and inode, as git compares them, and its siblings. Only the
//! index is read. A walk follows no symlink and accesses no file through one.
//!
//! A file that looks unchanged *is* unchanged only if it was not changed in the instant in which the index was written;
//! such a file is [`TreeScan::unsure`], as is anything that differs. An index with more than names, ids and times
//! (sparse or split ones, submodules, hidden files, conflicts) is [`Unfit`], and git is asked.

use std::collections::{BTreeSet, HashMap};
use std::fs::Metadata;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use gix_hash::{Kind, ObjectId};
use ralph_proc::listing::Listing;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, open, openat, statat};
use rustix::io::Errno;

use super::call::{path_bytes, path_from};
use super::direct::tree_cache::TreeCache;
use super::direct::trees::NewObjects;
use super::regular_file;
use super::settings::Unfit;

const HEADER: usize = 12;
/// Bytes before an entry's id: times, device, inode, mode, owner, size.
const STAT: usize = 40;
const NAME: u16 = 0x0fff;
const REGULAR: u32 = 0o100_000;
const LINK: u32 = 0o120_000;

/// The flags for opening a directory: symlinks are never followed.
const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// How many files are compared by content: for more the git binary is faster.
const FEW: usize = 256;

const TORN: Unfit = Unfit("its index is torn");
const ODD: Unfit = Unfit("its index says more than which files there are");
const UNREADABLE: Unfit = Unfit("a directory cannot be looked through");

/// The result of a walk.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct TreeScan {
    /// Tracked files that are missing, or may differ from the index.
    pub(super) unsure: Vec<PathBuf>,
    /// What is not in the index; a directory without tracked files is listed as a whole.
    pub(super) others: Vec<PathBuf>,
}

#[cfg(test)]
impl TreeScan {
    /// Whether everything matches the index, and nothing else exists.
    pub(super) fn is_clean(&self) -> bool {
        self.unsure.is_empty() && self.others.is_empty()
    }
}

/// The part of a working tree to scan.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Part<'a> {
    /// One directory; `None` for all.
    pub(super) within: Option<&'a Path>,
    /// Files and directories to skip.
    pub(super) but: &'a [PathBuf],
    /// Directories in which only tracked files are checked.
    pub(super) kept: &'a [PathBuf],
    /// The only files to look at; `None` for all. The caller knows that no other has changed.
    pub(super) among: Option<&'a BTreeSet<PathBuf>>,
}

/// A parsed index.
pub(super) struct IndexFile {
    bytes: Vec<u8>,
    entries: Vec<TrackedEntry>,
    /// When it was written: a file changed then or later may have changed after it was checked.
    written: (i64, i64),
    /// The range of the tree cache.
    trees: Option<Range<usize>>,
    hash_len: usize,
}

/// Entries of an index, in its order.
pub(super) type Tracked<'i> = &'i [TrackedEntry];

/// The position of an entry in the index.
pub(super) struct TrackedEntry {
    at: usize,
    name: Range<usize>,
}

impl IndexFile {
    /// Parses an index.
    pub(super) fn read(path: &Path, kind: Kind) -> Result<IndexFile, Unfit> {
        let (file, metadata) = regular_file::open(path).map_err(|_| TORN)?;
        let bytes = regular_file::read_open(&file, &metadata).map_err(|_| TORN)?;
        IndexFile::parse(bytes, &metadata, kind)
    }

    fn parse(bytes: Vec<u8>, metadata: &Metadata, kind: Kind) -> Result<IndexFile, Unfit> {
        let hash_len = kind.len_in_bytes();
        let end = bytes.len().checked_sub(hash_len).ok_or(TORN)?;
        if end < HEADER || !bytes.starts_with(b"DIRC") {
            return Err(TORN);
        }
        if !(2..=3).contains(&number(&bytes, 4)) {
            return Err(ODD);
        }
        let count = number(&bytes, 8) as usize;
        let mut entries = Vec::with_capacity(count.min(bytes.len() / (STAT + hash_len)));
        let mut at = HEADER;
        for _ in 0..count {
            let name = at + STAT + hash_len + 2;
            if name > end {
                return Err(TORN);
            }
            let flags = u16::from_be_bytes([bytes[name - 2], bytes[name - 1]]);
            let mode = number(&bytes, at + 24);
            // Conflicts, extended flags, hidden files; submodules and whole directories.
            if flags & !NAME != 0 || !matches!(mode & 0o170_000, REGULAR | LINK) {
                return Err(ODD);
            }
            let len = match flags & NAME {
                NAME => memchr::memchr(0, &bytes[name..end]).ok_or(TORN)?,
                len => usize::from(len),
            };
            if name + len >= end {
                return Err(TORN);
            }
            entries.push(TrackedEntry { at, name: name..name + len });
            at += (name - at + len + 8) & !7;
        }
        let mut trees = None;
        while at < end {
            let header = bytes.get(at..at + 8).ok_or(TORN)?;
            let size = number(header, 4) as usize;
            let data = at + 8..(at + 8).checked_add(size).filter(|to| *to <= end).ok_or(TORN)?;
            // An extension with a lower-case name changes the meaning of the entries.
            if !header[0].is_ascii_uppercase() {
                return Err(ODD);
            }
            if header.starts_with(b"TREE") {
                trees = Some(data.clone());
            }
            at = data.end;
        }
        let written = (metadata.mtime(), metadata.mtime_nsec());
        Ok(IndexFile { bytes, entries, written, trees, hash_len })
    }

    pub(super) fn name(&self, entry: &TrackedEntry) -> &[u8] {
        &self.bytes[entry.name.clone()]
    }

    /// Returns the entries below a directory, whose name ends in a slash; all for an empty name.
    pub(super) fn below(&self, directory: &[u8]) -> Tracked<'_> {
        let from = self.entries.partition_point(|entry| self.name(entry) < directory);
        self.split(&self.entries[from..], directory).0
    }

    /// Splits off the leading entries with a prefix.
    pub(super) fn split<'i>(
        &self,
        entries: Tracked<'i>,
        beginning: &[u8],
    ) -> (Tracked<'i>, Tracked<'i>) {
        entries.split_at(entries.partition_point(|entry| self.name(entry).starts_with(beginning)))
    }

    /// Whether an entry equals a file of a tree.
    pub(super) fn is_entry(
        &self,
        entry: &TrackedEntry,
        path: &[u8],
        mode: &[u8],
        id: &ObjectId,
    ) -> bool {
        let staged = number(&self.bytes, entry.at + 24);
        let mode =
            std::str::from_utf8(mode).ok().and_then(|mode| u32::from_str_radix(mode, 8).ok());
        self.name(entry) == path
            && mode == Some(staged)
            && self.bytes[entry.at + STAT..].starts_with(id.as_slice())
    }

    /// Returns the tree cache of the index, by directory path.
    pub(super) fn trees(&self) -> HashMap<Vec<u8>, ObjectId> {
        let mut known = HashMap::new();
        let Some(cache) = self.trees.clone() else { return known };
        let mut nodes = TreeCache { rest: &self.bytes[cache], hash_len: self.hash_len };
        // The open directories, each with the number of its remaining subdirectories.
        let mut open: Vec<(usize, u64)> = Vec::new();
        let mut path: Vec<u8> = Vec::new();
        while let Some(node) = nodes.next() {
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(node.name);
            if let Some(id) = node.id.and_then(|id| ObjectId::try_from(id).ok()) {
                known.insert(path.clone(), id);
            }
            open.push((path.len(), node.children));
            while let Some((_, left)) = open.last_mut() {
                if *left > 0 {
                    *left -= 1;
                    break;
                }
                open.pop();
            }
            let Some((len, _)) = open.last() else { break };
            path.truncate(*len);
        }
        known
    }

    /// Walks over the working tree, or the requested part of it.
    pub(super) fn scan<'i>(&'i self, root: &Path, part: &Part<'i>) -> Result<TreeScan, Unfit> {
        if let Some(among) = part.among {
            return self.scan_among(root, among);
        }
        let directory = part.within.unwrap_or(Path::new(""));
        let mut handle = open(root, DIRECTORY, Mode::empty()).map_err(|_| UNREADABLE)?;
        let mut path = Vec::new();
        for part in directory.components() {
            handle = openat(&handle, part.as_os_str(), DIRECTORY, Mode::empty())
                .map_err(|_| UNREADABLE)?;
            path.extend(part.as_os_str().as_encoded_bytes());
            path.push(b'/');
        }
        let below = self.below(&path);
        let mut walk = Walk {
            index: self,
            but: part.but.iter().map(|path| path_bytes(path)).collect(),
            kept: part.kept.iter().map(|path| path_bytes(path)).collect(),
            found: TreeScan::default(),
        };
        walk.directory(&handle, &mut path, below)?;
        Ok(walk.found)
    }

    /// Looks at some files only.
    fn scan_among(&self, root: &Path, among: &BTreeSet<PathBuf>) -> Result<TreeScan, Unfit> {
        let mut scan = TreeScan::default();
        for path in among {
            let found = statat(CWD, root.join(path), AtFlags::SYMLINK_NOFOLLOW);
            match (self.entry(path), found) {
                (Some(entry), Ok(found)) if self.is_same(entry, &found) => {}
                (Some(_), _) => scan.unsure.push(path.clone()),
                (None, Err(Errno::NOENT | Errno::NOTDIR)) => {}
                (None, Ok(found)) if !FileType::from_raw_mode(found.st_mode).is_dir() => {
                    scan.others.push(path.clone());
                }
                (None, _) => return Err(UNREADABLE),
            }
        }
        Ok(scan)
    }

    /// Whether a file looks as recorded in the index.
    fn is_same(&self, entry: &TrackedEntry, found: &Stat) -> bool {
        let field = |number_of: usize| number(&self.bytes, entry.at + 4 * number_of);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "as git does")]
        let alike = field(0) == found.st_ctime as u32
            && field(1) == found.st_ctime_nsec as u32
            && field(2) == found.st_mtime as u32
            && field(3) == found.st_mtime_nsec as u32
            && field(5) == found.st_ino as u32
            && field(7) == found.st_uid
            && field(8) == found.st_gid
            && field(9) == found.st_size as u32;
        let mode = field(6);
        let is_executable = Mode::from_raw_mode(found.st_mode).contains(Mode::XUSR);
        let is_kind = match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile => {
                mode & 0o170_000 == REGULAR && (mode & 0o100 != 0) == is_executable
            }
            FileType::Symlink => mode & 0o170_000 == LINK,
            _ => false,
        };
        // A file changed since then has a later ctime: it cannot be the recorded one.
        let time = |seconds, below| (i64::from(field(seconds)), i64::from(field(below)));
        alike && is_kind && time(0, 1) < self.written && time(2, 3) < self.written
    }

    /// Removes files from `unsure` whose content equals the index's, byte by byte.
    pub(super) fn confirm(&self, root: &Path, scan: &mut TreeScan, kind: Kind) {
        if scan.unsure.len() > FEW {
            return;
        }
        scan.unsure.retain(|path| !self.has_content(root, path, kind));
    }

    /// Returns a regular file in the index: its content, and whether it is executable.
    pub(super) fn file(&self, path: &Path) -> Option<(ObjectId, bool)> {
        let entry = self.entry(path)?;
        let mode = number(&self.bytes, entry.at + 24);
        let id = ObjectId::try_from(&self.bytes[entry.at + STAT..][..self.hash_len]).ok()?;
        (mode & 0o170_000 == REGULAR).then_some((id, mode & 0o100 != 0))
    }

    /// Whether a path matches the index: the same file, or absent in both.
    pub(super) fn is_there(&self, root: &Path, path: &Path, kind: Kind) -> bool {
        let found = statat(CWD, root.join(path), AtFlags::SYMLINK_NOFOLLOW);
        match self.entry(path) {
            Some(entry) => {
                found.is_ok_and(|found| self.is_same(entry, &found))
                    || self.has_content(root, path, kind)
            }
            None => found.is_err_and(|error| matches!(error, Errno::NOENT | Errno::NOTDIR)),
        }
    }

    pub(super) fn has(&self, path: &Path) -> bool {
        self.entry(path).is_some()
    }

    fn entry(&self, path: &Path) -> Option<&TrackedEntry> {
        let wanted = path_bytes(path);
        let found = self.entries.binary_search_by(|entry| self.name(entry).cmp(wanted));
        found.ok().map(|at| &self.entries[at])
    }

    fn has_content(&self, root: &Path, path: &Path, kind: Kind) -> bool {
        let Some((wanted, executable)) = self.file(path) else { return false };
        let Ok((file, metadata)) = regular_file::open(&root.join(path)) else { return false };
        if executable != (metadata.mode() & 0o100 != 0) {
            return false;
        }
        let Ok(content) = regular_file::read_open(&file, &metadata) else { return false };
        NewObjects::new(kind).add("blob", &content).is_ok_and(|id| id == wanted)
    }
}

/// What to look for in a directory.
enum Child<'i> {
    File(&'i TrackedEntry),
    Directory(&'i [TrackedEntry]),
}

struct Walk<'i> {
    index: &'i IndexFile,
    but: Vec<&'i [u8]>,
    kept: Vec<&'i [u8]>,
    found: TreeScan,
}

impl<'i> Walk<'i> {
    /// Scans a directory, of which `entries` are tracked. `path` ends in a slash, or is empty.
    fn directory(
        &mut self,
        handle: &OwnedFd,
        path: &mut Vec<u8>,
        entries: &'i [TrackedEntry],
    ) -> Result<(), Unfit> {
        let index = self.index;
        let start = path.len();
        let mut tracked = 0;
        let mut rest = entries;
        let mut names: Vec<&'i [u8]> = Vec::new();
        while let Some(first) = rest.first() {
            let name = &index.name(first)[start..];
            let (name, child) = match memchr::memchr(b'/', name) {
                None => {
                    rest = &rest[1..];
                    (name, Child::File(first))
                }
                Some(slash) => {
                    let name = &name[..slash];
                    let is_below = |entry: &TrackedEntry| {
                        let other = &index.name(entry)[start..];
                        other.get(slash) == Some(&b'/') && other.starts_with(name)
                    };
                    let count = rest.partition_point(is_below);
                    let below;
                    (below, rest) = rest.split_at(count);
                    (name, Child::Directory(below))
                }
            };
            if name.is_empty() {
                return Err(TORN);
            }
            names.push(name);
            path.truncate(start);
            path.extend(name);
            tracked += usize::from(self.child(handle, path, start, &child)?);
        }
        path.truncate(start);
        self.listing(handle, path, &mut names, tracked)
    }

    /// Checks a tracked entry; returns whether anything exists at its path.
    fn child(
        &mut self,
        handle: &OwnedFd,
        path: &mut Vec<u8>,
        start: usize,
        child: &Child<'i>,
    ) -> Result<bool, Unfit> {
        if self.but.contains(&path.as_slice()) {
            let found = statat(handle, &path[start..], AtFlags::SYMLINK_NOFOLLOW);
            return Ok(found.is_ok());
        }
        match child {
            Child::File(entry) => {
                let found = statat(handle, &path[start..], AtFlags::SYMLINK_NOFOLLOW);
                if !found.as_ref().is_ok_and(|found| self.index.is_same(entry, found)) {
                    self.found.unsure.push(path_from(path));
                }
                Ok(found.is_ok())
            }
            Child::Directory(below) => {
                let inner = match openat(handle, &path[start..], DIRECTORY, Mode::empty()) {
                    Ok(inner) => inner,
                    Err(Errno::NOENT) => {
                        let names = below.iter().map(|entry| path_from(self.index.name(entry)));
                        self.found.unsure.extend(names);
                        return Ok(false);
                    }
                    // A symlink, or no permission to open it.
                    Err(_) => return Err(UNREADABLE),
                };
                path.push(b'/');
                self.directory(&inner, path, below)?;
                Ok(true)
            }
        }
    }

    /// Finds entries of a directory other than `names`, of which `tracked` exist.
    fn listing(
        &mut self,
        handle: &OwnedFd,
        path: &mut Vec<u8>,
        names: &mut [&[u8]],
        tracked: usize,
    ) -> Result<(), Unfit> {
        let start = path.len();
        let is_in =
            |kept: &&[u8]| path.strip_prefix(*kept).is_some_and(|rest| rest.first() == Some(&b'/'));
        if self.kept.iter().any(is_in) {
            return Ok(());
        }
        // The repository itself is not part of the tree.
        let is_own = |name: &[u8]| matches!(name, b"." | b"..") || (start == 0 && name == b".git");
        let mut count = 0;
        each_in(handle, |name, _| count += usize::from(!is_own(name)))?;
        // Usually every existing entry is tracked: then counting is enough.
        if count == tracked {
            return Ok(());
        }
        names.sort_unstable();
        let mut others = Vec::new();
        each_in(handle, |name, kind| {
            if !is_own(name) && names.binary_search(&name).is_err() {
                others.push((name.to_vec(), kind));
            }
        })?;
        for (name, kind) in others {
            path.truncate(start);
            path.extend(&name);
            self.other(handle, path, start, kind)?;
        }
        path.truncate(start);
        Ok(())
    }

    /// Records something that is not in the index.
    fn other(
        &mut self,
        handle: &OwnedFd,
        path: &mut Vec<u8>,
        start: usize,
        kind: FileType,
    ) -> Result<(), Unfit> {
        let mut passed = self.but.iter().chain(&self.kept);
        if passed.clone().any(|one| *one == path.as_slice()) {
            return Ok(());
        }
        let is_above = |but: &&[u8]| {
            but.strip_prefix(path.as_slice()).is_some_and(|rest| rest.first() == Some(&b'/'))
        };
        // An excluded path is somewhere inside it.
        if kind != FileType::RegularFile
            && passed.any(is_above)
            && let Ok(inner) = openat(handle, &path[start..], DIRECTORY, Mode::empty())
        {
            path.push(b'/');
            return self.directory(&inner, path, &[]);
        }
        self.found.others.push(path_from(path));
        Ok(())
    }
}

/// Iterates over the names in a directory, from the first one.
fn each_in(handle: &OwnedFd, mut take: impl FnMut(&[u8], FileType)) -> Result<(), Unfit> {
    let again = openat(handle, c".", DIRECTORY, Mode::empty()).map_err(|_| UNREADABLE)?;
    let listed = Listing::new().each(again, |name, kind| take(name.to_bytes(), kind));
    listed.map_err(|_| UNREADABLE)
}

fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("these are four bytes"))
}

#[cfg(test)]
#[path = "scan_tests.rs"]
mod tests;
