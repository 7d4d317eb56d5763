//! The file system calls beneath [`files`](super), without any policy.
//!
//! In tests, paths below [`simulated::ROOT`](super::simulated::ROOT) are served by an in-memory disk that can lose
//! power, be full and fail. Other builds contain only the real file system.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{
    DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown,
};

use camino::Utf8Path;
use ralph_proc::tree::ProcessIdentity;
use rustix::fs::{CWD, FlockOperation, OFlags, RenameFlags, flock, renameat_with};
use rustix::io::Errno;

#[cfg(test)]
use super::simulated::{self, SimulatedFile};

/// The type of a directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    File,
    Directory,
    Link,
    Other,
}

impl From<fs::FileType> for FileKind {
    fn from(kind: fs::FileType) -> FileKind {
        if kind.is_file() {
            FileKind::File
        } else if kind.is_dir() {
            FileKind::Directory
        } else if kind.is_symlink() {
            FileKind::Link
        } else {
            FileKind::Other
        }
    }
}

/// The metadata at a path.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) kind: FileKind,
    pub(crate) length: u64,
    /// Mode and owner; a simulated file has none.
    metadata: Option<fs::Metadata>,
}

impl Found {
    fn of(metadata: fs::Metadata) -> Found {
        let (kind, length) = (metadata.file_type().into(), metadata.len());
        Found { kind, length, metadata: Some(metadata) }
    }

    #[cfg(test)]
    pub(super) const fn simulated(kind: FileKind, length: u64) -> Found {
        Found { kind, length, metadata: None }
    }
}

/// One directory entry.
#[derive(Debug)]
pub(crate) struct DiskEntry {
    pub(crate) name: OsString,
    pub(crate) kind: io::Result<FileKind>,
}

/// Returns the metadata at a path, without following a symlink.
pub(crate) fn look(path: &Utf8Path) -> io::Result<Found> {
    #[cfg(test)]
    if simulated::serves(path) {
        return simulated::look(path);
    }
    fs::symlink_metadata(path).map(Found::of)
}

/// Returns the metadata at a path, following symlinks.
fn follow(path: &Utf8Path) -> io::Result<Found> {
    #[cfg(test)]
    if simulated::serves(path) {
        return simulated::look(path);
    }
    fs::metadata(path).map(Found::of)
}

pub(crate) fn exists(path: &Utf8Path) -> bool {
    follow(path).is_ok()
}

pub(crate) fn is_file(path: &Utf8Path) -> bool {
    follow(path).is_ok_and(|found| found.kind == FileKind::File)
}

pub(crate) fn is_directory(path: &Utf8Path) -> bool {
    follow(path).is_ok_and(|found| found.kind == FileKind::Directory)
}

/// Returns the length of a file; 0 if it does not exist.
pub(crate) fn length(path: &Utf8Path) -> u64 {
    follow(path).map_or(0, |found| found.length)
}

/// Lists a directory, in no particular order.
pub(crate) fn list(path: &Utf8Path) -> io::Result<Vec<DiskEntry>> {
    #[cfg(test)]
    if simulated::serves(path) {
        return simulated::list(path);
    }
    let listed = |entry: fs::DirEntry| DiskEntry {
        name: entry.file_name(),
        kind: entry.file_type().map(FileKind::from),
    };
    fs::read_dir(path)?.map(|entry| entry.map(listed)).collect()
}

pub(super) fn rename(from: &Utf8Path, to: &Utf8Path) -> io::Result<()> {
    #[cfg(test)]
    if simulated::serves(from) {
        return simulated::rename(from, to);
    }
    fs::rename(from, to)
}

/// Renames a file unless the target exists; then the error kind is `AlreadyExists`.
///
/// If the file system does not support that, the file may keep its old name in addition to the new one.
pub(super) fn rename_new(from: &Utf8Path, to: &Utf8Path) -> io::Result<()> {
    #[cfg(test)]
    if simulated::serves(from) {
        if exists(to) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        return simulated::rename(from, to);
    }
    let renamed =
        renameat_with(CWD, from.as_std_path(), CWD, to.as_std_path(), RenameFlags::NOREPLACE);
    match renamed {
        // A hard link is equivalent there: it does not replace either.
        Err(Errno::INVAL | Errno::NOSYS) => fs::hard_link(from, to),
        renamed => Ok(renamed?),
    }
}

pub(super) fn remove_file(path: &Utf8Path) -> io::Result<()> {
    #[cfg(test)]
    if simulated::serves(path) {
        return simulated::remove_file(path);
    }
    fs::remove_file(path)
}

pub(super) fn create_directories(path: &Utf8Path) -> io::Result<()> {
    #[cfg(test)]
    if simulated::serves(path) {
        return simulated::create_directories(path);
    }
    fs::create_dir_all(path)
}

/// Creates a directory and its ancestors, accessible only by the owner. An existing one gets the same protection.
pub(super) fn create_private_directories(path: &Utf8Path) -> io::Result<()> {
    #[cfg(test)]
    if simulated::serves(path) {
        return simulated::create_directories(path);
    }
    let is_directory = |found: &fs::Metadata| found.is_dir();
    let found = if let Some(found) = fs::metadata(path).ok().filter(is_directory) {
        found
    } else {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        fs::metadata(path)?
    };
    if found.permissions().mode() & 0o077 != 0 {
        fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
    }
    Ok(())
}

/// Makes the names in a directory durable.
pub(super) fn sync_directory(path: &Utf8Path) -> io::Result<()> {
    #[cfg(test)]
    if simulated::serves(path) {
        return simulated::sync_directory(path);
    }
    match File::open(path)?.sync_all() {
        // Some file systems cannot sync directories and need not.
        Err(problem) if Errno::from_io_error(&problem) == Some(Errno::INVAL) => Ok(()),
        synced => synced,
    }
}

/// Opens a file for reading. Does not block on a FIFO.
pub(crate) fn open_to_read(path: &Utf8Path) -> io::Result<DiskFile> {
    #[cfg(test)]
    if simulated::serves(path) {
        return simulated::open(path, simulated::Opening::Existing).map(DiskFile::Simulated);
    }
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    OpenOptions::new().read(true).custom_flags(flags).open(path).map(DiskFile::Real)
}

/// Creates a file that must not exist yet.
pub(crate) fn create_new(path: &Utf8Path) -> io::Result<DiskFile> {
    #[cfg(test)]
    if simulated::serves(path) {
        return simulated::open(path, simulated::Opening::New).map(DiskFile::Simulated);
    }
    File::create_new(path).map(DiskFile::Real)
}

/// Opens a regular file for appending, creating it if needed. Symlinks are not followed.
pub(crate) fn open_to_append(path: &Utf8Path) -> io::Result<DiskFile> {
    #[cfg(test)]
    if simulated::serves(path) {
        return simulated::open(path, simulated::Opening::Append).map(DiskFile::Simulated);
    }
    ralph_proc::disk::open_to_append(path).map(DiskFile::Real)
}

/// Opens a file for overwriting parts of it. Symlinks are not followed.
pub(crate) fn open_to_patch(path: &Utf8Path, create: bool) -> io::Result<DiskFile> {
    #[cfg(test)]
    if simulated::serves(path) {
        let opening =
            if create { simulated::Opening::Create } else { simulated::Opening::Existing };
        return simulated::open(path, opening).map(DiskFile::Simulated);
    }
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let mut options = OpenOptions::new();
    options.write(true).create(create).truncate(false).mode(0o600).custom_flags(flags);
    options.open(path).map(DiskFile::Real)
}

/// Opens a lock file, creating it if needed. Symlinks are not followed.
pub(super) fn open_lock_file(path: &Utf8Path) -> io::Result<DiskFile> {
    #[cfg(test)]
    if simulated::serves(path) {
        return simulated::open(path, simulated::Opening::Create).map(DiskFile::Simulated);
    }
    let flags = OFlags::NOFOLLOW.bits().cast_signed();
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).custom_flags(flags);
    options.open(path).map(DiskFile::Real)
}

/// Opens a directory to lock it.
pub(super) fn open_directory(path: &Utf8Path) -> io::Result<DiskFile> {
    #[cfg(test)]
    if simulated::serves(path) {
        return simulated::open(path, simulated::Opening::Directory).map(DiskFile::Simulated);
    }
    let flags = OFlags::DIRECTORY.bits().cast_signed();
    OpenOptions::new().read(true).custom_flags(flags).open(path).map(DiskFile::Real)
}

/// Returns the identity of this process.
pub(crate) fn own_process() -> ProcessIdentity {
    #[cfg(test)]
    if let Some(own) = simulated::process() {
        return own;
    }
    ProcessIdentity::own()
}

/// Returns the pid of this process, without reading `/proc`.
pub(super) fn own_pid() -> i32 {
    #[cfg(test)]
    if let Some(own) = simulated::process() {
        return own.pid;
    }
    rustix::process::getpid().as_raw_nonzero().get()
}

/// Returns the identity of a live process.
pub(crate) fn living_process(pid: i32) -> Option<ProcessIdentity> {
    #[cfg(test)]
    if let Some(own) = simulated::process() {
        return (own.pid == pid).then_some(own);
    }
    ProcessIdentity::of(pid)
}

/// Whether a process is alive.
pub(crate) fn is_alive(process: &ProcessIdentity) -> bool {
    #[cfg(test)]
    if let Some(own) = simulated::process() {
        return own == *process;
    }
    process.is_alive()
}

/// An open file.
#[derive(Debug)]
pub(crate) enum DiskFile {
    Real(File),
    #[cfg(test)]
    Simulated(SimulatedFile),
}

impl DiskFile {
    pub(crate) fn found(&self) -> io::Result<Found> {
        match self {
            DiskFile::Real(file) => file.metadata().map(Found::of),
            #[cfg(test)]
            DiskFile::Simulated(file) => file.found(),
        }
    }

    /// Reads at an offset, up to the length of the buffer.
    pub(crate) fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        match self {
            DiskFile::Real(file) => file.read_at(bytes, offset),
            #[cfg(test)]
            DiskFile::Simulated(file) => file.read_at(bytes, offset),
        }
    }

    pub(crate) fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        match self {
            DiskFile::Real(file) => file.read_exact_at(bytes, offset),
            #[cfg(test)]
            DiskFile::Simulated(file) => match file.read_at(bytes, offset)? {
                read if read == bytes.len() => Ok(()),
                _ => Err(io::ErrorKind::UnexpectedEof.into()),
            },
        }
    }

    /// Writes after the previous write.
    pub(crate) fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        match self {
            DiskFile::Real(file) => {
                let mut file = file;
                file.write_all(bytes)
            }
            #[cfg(test)]
            DiskFile::Simulated(file) => file.write(bytes, None),
        }
    }

    pub(crate) fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        match self {
            DiskFile::Real(file) => file.write_all_at(bytes, offset),
            #[cfg(test)]
            DiskFile::Simulated(file) => file.write(bytes, Some(offset)),
        }
    }

    pub(crate) fn set_length(&self, length: u64) -> io::Result<()> {
        match self {
            DiskFile::Real(file) => file.set_len(length),
            #[cfg(test)]
            DiskFile::Simulated(file) => file.set_length(length),
        }
    }

    /// Makes the content durable, with the metadata needed to read it.
    pub(crate) fn sync_data(&self) -> io::Result<()> {
        match self {
            DiskFile::Real(file) => file.sync_data(),
            #[cfg(test)]
            DiskFile::Simulated(file) => file.sync(),
        }
    }

    pub(super) fn sync_all(&self) -> io::Result<()> {
        match self {
            DiskFile::Real(file) => file.sync_all(),
            #[cfg(test)]
            DiskFile::Simulated(file) => file.sync(),
        }
    }

    /// Copies mode and owner of another file. Only a privileged user can encounter or set a different owner.
    pub(super) fn become_like(&self, other: &Found) -> io::Result<()> {
        match (self, &other.metadata) {
            (DiskFile::Real(file), Some(like)) => {
                let ids = |found: &fs::Metadata| (found.uid(), found.gid());
                if file.metadata().is_ok_and(|new| ids(&new) != ids(like)) {
                    let _ = fchown(file, Some(like.uid()), Some(like.gid()));
                }
                file.set_permissions(like.permissions())
            }
            _ => Ok(()),
        }
    }

    /// Locks it; error kind `WouldBlock` means that another process has the lock.
    pub(super) fn try_lock(&self) -> io::Result<()> {
        match self {
            DiskFile::Real(file) => Ok(flock(file, FlockOperation::NonBlockingLockExclusive)?),
            #[cfg(test)]
            DiskFile::Simulated(file) if file.try_lock() => Ok(()),
            #[cfg(test)]
            DiskFile::Simulated(_) => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// Releases the lock. Closing the file does that as well, so an error here does not matter.
    pub(super) fn unlock(&self) {
        match self {
            DiskFile::Real(file) => drop(flock(file, FlockOperation::Unlock)),
            #[cfg(test)]
            DiskFile::Simulated(file) => file.unlock(),
        }
    }

    /// Returns a reader starting at an offset.
    pub(crate) const fn reader(&self, offset: u64) -> DiskReader<'_> {
        DiskReader { file: self, offset }
    }
}

/// Reads a file starting at an offset.
#[derive(Debug)]
pub(crate) struct DiskReader<'f> {
    file: &'f DiskFile,
    offset: u64,
}

impl Read for DiskReader<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(bytes, self.offset)?;
        self.offset += read as u64;
        Ok(read)
    }
}
