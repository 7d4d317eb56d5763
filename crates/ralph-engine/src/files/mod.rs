//! Durable files: the only writer of persistent state.
//!
//! Invariant: replacing a file is atomic, so that a crash leaves either the old or the new content; an appended line is
//! on disk when the call returns. Symlinks are never written through: a process that can place a link in a shared
//! directory could otherwise make the harness write anywhere, and replacing the link would undo a person's setup.
//! Linking a whole directory is fine. [`lock`] decides who may write when.

pub(crate) mod append;
pub(crate) mod beneath;
pub(crate) mod disk;
pub mod lock;
pub(crate) mod note;
pub(crate) mod notifier;
pub(crate) mod plain;
#[cfg(test)]
pub(crate) mod simulated;
pub(crate) mod tree_watch;

use std::fs::File;
use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, Ordering};

use camino::{Utf8Path, Utf8PathBuf};
pub(crate) use ralph_proc::fault;

use crate::defect::{Defect, is_put_back};
use disk::{DiskEntry, DiskFile, FileKind, Found};

/// The suffix of temporary files.
const TEMPORARY: &str = ".ralph-tmp";

/// An operation on a path failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation} `{path}`")]
pub struct PathError {
    pub(crate) operation: &'static str,
    pub(crate) path: Utf8PathBuf,
    #[source]
    pub source: io::Error,
}

impl PathError {
    pub(crate) fn new(
        operation: &'static str,
        path: &Utf8Path,
        source: impl Into<io::Error>,
    ) -> Self {
        PathError { operation, path: path.to_owned(), source: source.into() }
    }
}

/// Whether a file was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Creation {
    Created,
    AlreadyThere,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Survives {
    PowerLoss,
    ProcessDeath,
}

/// Replaces or creates a file atomically: a reader or a crash sees either the old or the new content.
///
/// Mode and owner of the old file are kept. On failure (including a full disk) the old file is untouched.
pub(crate) fn replace_atomically(path: &Utf8Path, bytes: &[u8]) -> Result<(), PathError> {
    let is_lax = is_put_back(Defect::DoesNotSync);
    replace(path, bytes, if is_lax { Survives::ProcessDeath } else { Survives::PowerLoss })
}

/// Replaces a file that means nothing after a reboot: whole to every reader, but not forced to disk.
pub(crate) fn replace_unsynced(path: &Utf8Path, bytes: &[u8]) -> Result<(), PathError> {
    replace(path, bytes, Survives::ProcessDeath)
}

fn replace(path: &Utf8Path, bytes: &[u8], survives: Survives) -> Result<(), PathError> {
    let error = |source: io::Error| PathError::new("write", path, source);
    let old = match disk::look(path) {
        Ok(old) => match old.kind {
            FileKind::File => Some(old),
            FileKind::Link => {
                return Err(error(io::Error::other(
                    "it is a symbolic link, which Ralph does not follow",
                )));
            }
            FileKind::Directory | FileKind::Other => {
                return Err(error(io::Error::other("it is not a file")));
            }
        },
        Err(problem) if problem.kind() == io::ErrorKind::NotFound => None,
        Err(problem) => return Err(error(problem)),
    };
    let temporary = Temporary::write(path, bytes, survives, old.as_ref()).map_err(error)?;
    disk::rename(&temporary.path, path).map_err(error)?;
    temporary.keep();
    if survives == Survives::PowerLoss {
        sync_directory(parent(path))?;
    }
    fault::after_write();
    Ok(())
}

/// Creates a new file; an existing one, even a dangling symlink, is left unchanged.
pub(crate) fn create_new(path: &Utf8Path, bytes: &[u8]) -> Result<Creation, PathError> {
    let error = |source: io::Error| PathError::new("create", path, source);
    if disk::look(path).is_ok() {
        return Ok(Creation::AlreadyThere);
    }
    let temporary = Temporary::write(path, bytes, Survives::PowerLoss, None).map_err(error)?;
    match disk::rename_new(&temporary.path, path) {
        Err(problem) if problem.kind() == io::ErrorKind::AlreadyExists => {
            return Ok(Creation::AlreadyThere);
        }
        renamed => renamed.map_err(error)?,
    }
    // The old name is gone, or is a second link, which is removed here.
    drop(temporary);
    sync_directory(parent(path))?;
    fault::after_write();
    Ok(Creation::Created)
}

/// Creates a directory and its ancestors. An existing one is left unchanged.
pub(crate) fn create_directory(path: &Utf8Path) -> Result<(), PathError> {
    disk::create_directories(path).map_err(|source| PathError::new("create", path, source))
}

/// Creates a directory and its ancestors, accessible only by the owner. An existing one gets the same protection.
pub(crate) fn create_private_directory(path: &Utf8Path) -> Result<(), PathError> {
    disk::create_private_directories(path).map_err(|source| PathError::new("create", path, source))
}

/// Opens a file in a private directory, which is created if needed.
fn open_privately(
    path: &Utf8Path,
    operation: &'static str,
    open: impl Fn(&Utf8Path) -> io::Result<DiskFile>,
) -> Result<DiskFile, PathError> {
    let opened = match open(path) {
        Err(problem) if problem.kind() == io::ErrorKind::NotFound => {
            create_private_directory(parent(path))?;
            open(path)
        }
        opened => opened,
    };
    opened.map_err(|source| PathError::new(operation, path, source))
}

/// Removes leftovers of dead writers from a directory. Files of live writers are kept.
pub(crate) fn remove_abandoned(directory: &Utf8Path) -> Result<(), PathError> {
    let error = |source: io::Error| PathError::new("read", directory, source);
    for entry in disk::list(directory).map_err(error)? {
        // Our names are UTF-8.
        let Some(name) = entry.name.to_str() else { continue };
        let Some(writer) = temporary_writer(name) else { continue };
        let lives = i32::try_from(writer).ok().and_then(disk::living_process).is_some();
        if !lives {
            let path = directory.join(name);
            let remove = |source| PathError::new("remove", &path, source);
            disk::remove_file(&path).map_err(remove)?;
        }
    }
    Ok(())
}

/// Creates a new file for streamed output. Child processes write it, so it is never on a simulated disk.
pub(crate) fn create_log(path: &Utf8Path) -> Result<File, PathError> {
    File::create_new(path).map_err(|source| PathError::new("create", path, source))
}

/// Reads a file that may be missing. Anything else at its path (a FIFO) is an error, and does not block.
pub fn read_optional(path: &Utf8Path) -> Result<Option<Vec<u8>>, PathError> {
    let read = || {
        let file = disk::open_to_read(path)?;
        let found = file.found()?;
        if !matches!(found.kind, FileKind::File | FileKind::Directory) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file"));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(found.length).unwrap_or(0));
        // Reserving the file's size saves a last read. Some special files report no size.
        let length = if found.length == 0 { u64::MAX } else { found.length };
        file.reader(0).take(length).read_to_end(&mut bytes).map(|_| bytes)
    };
    match read() {
        Ok(bytes) => Ok(Some(bytes)),
        Err(problem) if problem.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(problem) => Err(PathError::new("read", path, problem)),
    }
}

/// Lists a directory that may be missing. One that cannot be listed is an error, not an empty list.
pub(crate) fn list_optional(path: &Utf8Path) -> Result<Vec<DiskEntry>, PathError> {
    match disk::list(path) {
        Err(problem)
            if matches!(problem.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            Ok(Vec::new())
        }
        listed => listed.map_err(|source| PathError::new("list", path, source)),
    }
}

/// Renames a file within a file system, durably.
pub(crate) fn rename_durably(from: &Utf8Path, to: &Utf8Path) -> Result<(), PathError> {
    let parents = [from.parent(), to.parent()];
    if let Some(directory) = to.parent() {
        create_directory(directory)?;
    }
    disk::rename(from, to).map_err(|source| PathError::new("move", from, source))?;
    for directory in parents.into_iter().flatten() {
        sync_directory(directory)?;
    }
    fault::after_write();
    Ok(())
}

/// Removes a file that may be missing. A power failure may bring it back.
pub(crate) fn remove_optional(path: &Utf8Path) -> Result<(), PathError> {
    if remove(path)? {
        fault::after_write();
    }
    Ok(())
}

/// Removes a file that may be missing, durably.
pub(crate) fn remove_durably(path: &Utf8Path) -> Result<(), PathError> {
    if remove(path)? {
        sync_directory(parent(path))?;
        fault::after_write();
    }
    Ok(())
}

fn remove(path: &Utf8Path) -> Result<bool, PathError> {
    match disk::remove_file(path) {
        Err(problem) if problem.kind() == io::ErrorKind::NotFound => Ok(false),
        removed => removed.map(|()| true).map_err(|source| PathError::new("remove", path, source)),
    }
}

/// A temporary file; removed on drop unless kept.
struct Temporary {
    path: Utf8PathBuf,
    kept: bool,
}

impl Temporary {
    fn write(
        target: &Utf8Path,
        bytes: &[u8],
        survives: Survives,
        like: Option<&Found>,
    ) -> io::Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = target.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let process = disk::own_pid();
        let (path, file) = loop {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = parent(target).join(format!(".{name}.{process}.{count}{TEMPORARY}"));
            match disk::create_new(&path) {
                // Another process has the same pid: it died, or is in another pid namespace.
                Err(problem) if problem.kind() == io::ErrorKind::AlreadyExists => {}
                opened => break (path, opened?),
            }
        };
        let temporary = Temporary { path, kept: false };
        if let Some(like) = like {
            file.become_like(like)?;
        }
        file.write_all(bytes)?;
        if survives == Survives::PowerLoss {
            file.sync_all()?;
        }
        Ok(temporary)
    }

    fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.kept {
            // A leftover is found later by `remove_abandoned`.
            let _ = disk::remove_file(&self.path);
        }
    }
}

/// Whether a name is that of a temporary file.
pub(crate) fn is_temporary(name: &str) -> bool {
    temporary_writer(name).is_some()
}

fn temporary_writer(name: &str) -> Option<u32> {
    let mut parts = name.strip_suffix(TEMPORARY)?.strip_prefix('.')?.rsplit('.');
    parts.next()?.parse::<u64>().ok()?;
    parts.next()?.parse().ok()
}

/// Returns the directory of a path; a bare name is in the current one.
pub(crate) fn parent(path: &Utf8Path) -> &Utf8Path {
    path.parent().filter(|parent| !parent.as_str().is_empty()).unwrap_or(Utf8Path::new("."))
}

/// Makes the names in a directory and all its descendants durable. A missing one has none.
pub(crate) fn sync_directories(path: &Utf8Path) -> Result<(), PathError> {
    let listed = match disk::list(path) {
        Err(problem) if problem.kind() == io::ErrorKind::NotFound => return Ok(()),
        listed => listed.map_err(|source| PathError::new("list", path, source))?,
    };
    for entry in listed.iter().filter(|entry| matches!(entry.kind, Ok(FileKind::Directory))) {
        if let Some(name) = entry.name.to_str() {
            sync_directories(&path.join(name))?;
        }
    }
    sync_directory(path)
}

/// Makes the names in a directory durable: everything created, renamed or removed in it.
pub(crate) fn sync_directory(path: &Utf8Path) -> Result<(), PathError> {
    disk::sync_directory(path).map_err(|source| PathError::new("sync", path, source))
}

#[cfg(test)]
#[path = "files_tests.rs"]
mod tests;
