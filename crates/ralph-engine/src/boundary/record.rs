//! The records of a [`baseline`]'s log: each is a line of JSON, a path and a content, so that neither must be text.
//!
//! [`baseline`]: super::baseline

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use super::protected::Class;
use super::walk::Stamp;
use crate::git::Oid;

/// The largest protected file that is kept; larger ones are noticed but not put back.
const PROTECTED_CAP: u64 = 64 << 20;

/// What there is to put a file back from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    /// Nothing; the file is looked at all the same.
    Nothing,
    /// Git ignores it: it is not compared.
    Ignored,
    /// A content in the log.
    Bytes { offset: u64, length: u64 },
    /// An object of the repository, named by its id.
    Object(Oid),
}

/// One record, before its path and content.
#[derive(Serialize, Deserialize)]
struct Record {
    path: usize,
    class: Class,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stamp: Option<Stamp>,
    kept: RecordKept,
}

/// What a record says there is to put a file back from; a content's length, as its place follows from the record's.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RecordKept {
    Nothing,
    Ignored,
    Bytes(u64),
    Object(Oid),
}

impl RecordKept {
    pub(super) fn of(kept: &Kept) -> RecordKept {
        match kept {
            Kept::Nothing => RecordKept::Nothing,
            Kept::Ignored => RecordKept::Ignored,
            Kept::Object(id) => RecordKept::Object(id.clone()),
            Kept::Bytes { length, .. } => RecordKept::Bytes(*length),
        }
    }

    /// Says where the content is.
    pub(super) fn at(self, offset: u64) -> Kept {
        match self {
            RecordKept::Nothing => Kept::Nothing,
            RecordKept::Ignored => Kept::Ignored,
            RecordKept::Object(id) => Kept::Object(id),
            RecordKept::Bytes(length) => Kept::Bytes { offset, length },
        }
    }
}

/// Adds a record to a log.
pub(super) fn append(
    text: &mut Vec<u8>,
    path: &Path,
    class: Class,
    stamp: Option<Stamp>,
    kept: &RecordKept,
    content: &[u8],
) {
    let bytes = path.as_os_str().as_bytes();
    let record = Record { path: bytes.len(), class, stamp, kept: kept.clone() };
    serde_json::to_writer(&mut *text, &record).expect("a record is plain data");
    text.push(b'\n');
    text.extend_from_slice(bytes);
    text.extend_from_slice(content);
}

/// One record that was read.
pub(super) struct Recorded<'a> {
    pub(super) path: &'a Path,
    pub(super) class: Class,
    /// `None`: the path was removed.
    pub(super) stamp: Option<Stamp>,
    pub(super) kept: Kept,
}

/// The records of a log, up to one that was cut short.
pub(super) struct Records<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Records<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Records<'a> {
        Records { bytes, at: 0 }
    }

    /// Where the last whole record ends.
    pub(super) fn end(&self) -> u64 {
        self.at as u64
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Recorded<'a>;

    fn next(&mut self) -> Option<Recorded<'a>> {
        let rest = &self.bytes[self.at..];
        let line = rest.iter().position(|byte| *byte == b'\n')?;
        let record: Record = serde_json::from_slice(&rest[..line]).ok()?;
        let path = rest.get(line + 1..)?.get(..record.path)?;
        let offset = line + 1 + record.path;
        let content = if let RecordKept::Bytes(length) = record.kept { length } else { 0 };
        let end = offset.checked_add(usize::try_from(content).ok()?)?;
        if rest.len() < end {
            return None;
        }
        let kept = record.kept.at((self.at + offset) as u64);
        self.at += end;
        let path = Path::new(OsStr::from_bytes(path));
        Some(Recorded { path, class: record.class, stamp: record.stamp, kept })
    }
}

/// Reads a file's content, or a link's target; `None` for anything else, and for what is too large.
pub(super) fn read_content(path: &Path, stamp: &Stamp) -> Option<Vec<u8>> {
    let kind = stamp.kind();
    if kind.is_symlink() {
        return fs::read_link(path).ok().map(|target| target.as_os_str().as_bytes().to_vec());
    }
    if !kind.is_file() || u64::try_from(stamp.size).is_ok_and(|size| size > PROTECTED_CAP) {
        return None;
    }
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let mut content = Vec::with_capacity(usize::try_from(stamp.size).unwrap_or(0));
    file.take(PROTECTED_CAP).read_to_end(&mut content).ok()?;
    Some(content)
}
