//! LFS files of a slot, filled from the person's own store; and pointers, without any filter program.
//!
//! For a user of LFS, a file in the working tree is the content; the commit has a small pointer to it. Both directions
//! are implemented here in process, because the usual program would run with the slot's configuration.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use camino::Utf8Path;
use sha2::{Digest, Sha256};

use super::super::call::{Call, path_from};
use super::super::clearing::FileError;
use super::super::mirror::Mirror;
use super::super::oid::hex;
use super::super::{Git, GitError, Oid, regular_file};
use super::{Slot, SlotError};

/// No pointer is larger.
const LARGEST_POINTER: u64 = 1024;
const FIRST_LINE: &str = "version https://git-lfs.github.com/spec/v1";

/// The content of a pointer file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LfsPointer {
    /// SHA-256 of the content, in hexadecimal digits.
    oid: String,
    size: u64,
}

impl LfsPointer {
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let mut lines = text.lines();
        if lines.next()? != FIRST_LINE {
            return None;
        }
        let (mut oid, mut size) = (None, None);
        for line in lines {
            if let Some(value) = line.strip_prefix("oid sha256:") {
                let is_hex = value.len() == 64
                    && value.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
                oid = is_hex.then(|| value.to_owned());
            } else if let Some(value) = line.strip_prefix("size ") {
                size = value.parse().ok();
            }
        }
        Some(LfsPointer { oid: oid?, size: size? })
    }

    /// Reads a whole content and returns the pointer to it.
    pub(super) fn of(content: &mut impl Read) -> io::Result<Self> {
        let (mut digest, mut size) = (Sha256::new(), 0);
        let mut buffer = vec![0; 1 << 16];
        loop {
            let count = content.read(&mut buffer)?;
            if count == 0 {
                break;
            }
            digest.update(&buffer[..count]);
            size += count as u64;
        }
        let oid = hex(&digest.finalize());
        Ok(LfsPointer { oid, size })
    }

    pub(super) fn to_text(&self) -> String {
        format!("{FIRST_LINE}\noid sha256:{}\nsize {}\n", self.oid, self.size)
    }

    /// Returns the path of the content in a repository's store.
    pub(super) fn object_in(&self, common_dir: &Path) -> PathBuf {
        let objects = common_dir.join("lfs/objects");
        objects.join(&self.oid[..2]).join(&self.oid[2..4]).join(&self.oid)
    }
}

impl LfsPointer {
    /// Adds the content at a path to the person's store, under the name given by its hash; `false` if it does not match
    /// the pointer.
    pub(super) fn keep(&self, content: &Path, person: &Git) -> Result<bool, FileError> {
        let object = self.object_in(person.place().common_dir.as_std_path());
        if object.exists() {
            return Ok(true);
        }
        let failed = |source| FileError::new("keep", &object, source);
        let Ok((mut file, found)) = regular_file::open(content) else { return Ok(false) };
        let Some(parent) = object.parent().filter(|_| found.size() == self.size) else {
            return Ok(false);
        };
        fs::create_dir_all(parent).map_err(failed)?;
        let incoming = parent.join(format!(".ralph-{}", std::process::id()));
        let mut copy = File::create(&incoming).map_err(failed)?;
        io::copy(&mut file, &mut copy).and_then(|_| copy.sync_all()).map_err(failed)?;
        // The copy is hashed: no other process can change it meanwhile.
        let copied = File::open(&incoming).and_then(|mut copied| LfsPointer::of(&mut copied));
        if copied.map_err(failed)? == *self {
            fs::rename(&incoming, &object).map_err(failed)?;
            return Ok(true);
        }
        fs::remove_file(&incoming).map_err(failed)?;
        Ok(false)
    }
}

impl Slot {
    /// Adds the LFS contents that a commit of the mirror needs and the slot has to the person's store; returns the
    /// files whose content neither of them has.
    ///
    /// An agent's own LFS keeps contents in the slot's git directory, which the next preparation removes.
    pub fn transfer_lfs(
        &self,
        mirror: &Mirror,
        person: &Git,
        commit: &Oid,
    ) -> Result<Vec<PathBuf>, SlotError> {
        let changes = mirror.git().plain_changes(self.base(), commit)?;
        let paths: Vec<PathBuf> = changes
            .into_iter()
            .filter(|change| change.modes.1.starts_with("100"))
            .map(|change| change.path)
            .collect();
        let wanted: Vec<(&Oid, &Path)> =
            paths.iter().map(|path| (commit, path.as_path())).collect();
        let largest = usize::try_from(LARGEST_POINTER).unwrap_or(usize::MAX);
        let contents = mirror.git().files_at(&wanted, largest)?;
        let mut missing = Vec::new();
        for (path, content) in paths.iter().zip(contents) {
            let Some(pointer) = content.and_then(|content| LfsPointer::parse(&content)) else {
                continue;
            };
            let own = pointer.object_in(self.git().place().git_dir.as_std_path());
            if !pointer.keep(&own, person)? {
                missing.push(path.clone());
            }
        }
        Ok(missing)
    }
}

/// Returns the LFS files in the index.
fn tracked(git: &Git) -> Result<Vec<PathBuf>, GitError> {
    let args = ["ls-files", "-z", "--", ":(top,attr:filter=lfs)"];
    let output = git.call(Call::new(&args).env("GIT_LITERAL_PATHSPECS", "0"))?.stdout;
    Ok(output.split(|byte| *byte == 0).filter(|name| !name.is_empty()).map(path_from).collect())
}

/// Replaces pointers in a working tree by contents from one of these git directories, the first of which is the
/// person's; returns the files that stay pointers.
///
/// Contents of the others are untrusted: they are hashed.
pub(super) fn fill(git: &Git, stores: &[&Utf8Path]) -> Result<Vec<PathBuf>, SlotError> {
    let Some(root) = git.place().worktree.as_ref().map(|root| root.as_std_path()) else {
        return Ok(Vec::new());
    };
    let mut unfilled = Vec::new();
    for path in tracked(git)? {
        let file = root.join(&path);
        let Some(pointer) = read_pointer(&file) else { continue };
        let mut objects = stores.iter().map(|store| pointer.object_in(store.as_std_path()));
        let persons = objects.next();
        let has_size = |object: &PathBuf| {
            fs::metadata(object).is_ok_and(|found| found.is_file() && found.size() == pointer.size)
        };
        if let Some(object) = persons.filter(has_size) {
            replace(&file, &object)?;
            continue;
        }
        let mut is_filled = false;
        for object in objects {
            let Ok((mut opened, _)) = regular_file::open(&object) else { continue };
            if LfsPointer::of(&mut opened).is_ok_and(|found| found == pointer) {
                replace(&file, &object)?;
                // It may have been changed in between.
                let filled = File::open(&file).and_then(|mut filled| LfsPointer::of(&mut filled));
                is_filled = filled.is_ok_and(|found| found == pointer);
                break;
            }
        }
        if !is_filled {
            unfilled.push(path);
        }
    }
    Ok(unfilled)
}

/// Parses a file that may be a pointer.
fn read_pointer(file: &Path) -> Option<LfsPointer> {
    let (file, found) = regular_file::open(file).ok()?;
    if found.size() > LARGEST_POINTER {
        return None;
    }
    LfsPointer::parse(&regular_file::read_open(&file, &found).ok()?)
}

/// Overwrites a pointer with its content, keeping the permissions.
fn replace(file: &Path, object: &Path) -> Result<(), FileError> {
    let failed = |source| FileError::new("fill", file, source);
    let mut from = File::open(object).map_err(failed)?;
    let mut to = File::options().write(true).truncate(true).open(file).map_err(failed)?;
    io::copy(&mut from, &mut to).map(|_| ()).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_is_read_back_and_what_is_none_is_not_taken_for_one() {
        let pointer = LfsPointer::of(&mut &b"content"[..]).unwrap();
        assert_eq!(pointer.size, 7);
        assert_eq!(LfsPointer::parse(pointer.to_text().as_bytes()), Some(pointer.clone()));
        let short = pointer.to_text().replace(&pointer.oid, "abc");
        let up = pointer.to_text().replace(&pointer.oid, &format!("../../{}", &pointer.oid[6..]));
        for text in ["", "version x\n", FIRST_LINE, &short, &up, "content"] {
            assert_eq!(LfsPointer::parse(text.as_bytes()), None, "{text}");
        }
    }
}
