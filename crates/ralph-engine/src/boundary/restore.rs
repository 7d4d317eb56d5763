//! Putting things back. Whatever is put back is saved first, in private state; what lay in a work tree also as a commit.
//!
//! Saving is a rename where that is possible, so that even a huge file is saved at no cost. No link is ever followed on
//! the way to a path: a directory that became a link is put away before anything is written below it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

use camino::{Utf8Path, Utf8PathBuf};
use rustix::fs::OFlags;

use super::record::read_content;
use super::walk::{Stamp, WalkStep, walk};
use crate::files::create_private_directory;
use crate::git::undo::{DisplacedContent, DisplacedFile};

/// The largest file that goes into a commit; larger ones are in private state alone.
const COMMIT_CAP: u64 = 32 << 20;

/// Where what is put back is saved.
pub(super) struct Saver<'a> {
    directory: Utf8PathBuf,
    workspace: &'a Utf8Path,
    used: bool,
}

impl<'a> Saver<'a> {
    pub(super) fn new(directory: Utf8PathBuf, workspace: &'a Utf8Path) -> Saver<'a> {
        Saver { directory, workspace, used: false }
    }

    /// Returns the directory, if anything is in it.
    pub(super) fn used(&self) -> Option<&Utf8Path> {
        self.used.then_some(&self.directory)
    }

    /// Returns the path of a saved file.
    pub(super) fn place_of(&self, path: &Path) -> PathBuf {
        let below = |base: &str, path: &Path| {
            let names = path.components().filter(|part| matches!(part, Component::Normal(_)));
            self.directory.as_std_path().join(base).join(names.collect::<PathBuf>())
        };
        match path.strip_prefix(self.workspace) {
            Ok(inside) => below("workspace", inside),
            Err(_) => below("elsewhere", path),
        }
    }

    /// Moves a path away. What is not there is as good as moved.
    pub(super) fn put_away(&mut self, path: &Path) -> io::Result<()> {
        let Ok(found) = fs::symlink_metadata(path) else { return Ok(()) };
        let place = self.prepare(path)?;
        match fs::rename(path, &place) {
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {}
            moved => return moved,
        }
        copy(path, &place)?;
        if found.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
    }

    /// Saves bytes that are about to be replaced.
    pub(super) fn save(&mut self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let place = self.prepare(path)?;
        fs::write(place, bytes)
    }

    fn prepare(&mut self, path: &Path) -> io::Result<PathBuf> {
        if !self.used {
            create_private_directory(&self.directory).map_err(|error| error.source)?;
            self.used = true;
        }
        let mut place = self.place_of(path);
        if let Some(parent) = place.parent() {
            fs::create_dir_all(parent)?;
        }
        // A file and a directory of one name can be in each other's way.
        while fs::symlink_metadata(&place).is_ok() {
            let mut name = place.file_name().unwrap_or_default().to_owned();
            name.push("~");
            place.set_file_name(name);
        }
        Ok(place)
    }
}

/// Copies a file, a link or a directory; what is none of these is not worth keeping.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(from)?;
    if found.is_symlink() {
        return std::os::unix::fs::symlink(fs::read_link(from)?, to);
    }
    if found.is_file() {
        return fs::copy(from, to).map(|_| ());
    }
    if found.is_dir() {
        fs::create_dir_all(to)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            copy(&entry.path(), &to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

/// Puts a file or link in its place again, which must be free. Directories on the way are made.
///
/// Below `floor` no link is followed.
pub(super) fn put_back(path: &Path, floor: &Path, stamp: &Stamp, content: &[u8]) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        refuse_links(parent, floor)?;
        fs::create_dir_all(parent)?;
    }
    if stamp.kind().is_symlink() {
        return std::os::unix::fs::symlink(std::ffi::OsStr::from_bytes(content), path);
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(content)?;
    file.set_permissions(fs::Permissions::from_mode(stamp.permissions()))?;
    set_time(&file, stamp);
    Ok(())
}

/// Replaces the content of a file where it is. No link is followed.
pub(super) fn overwrite(path: &Path, content: &[u8]) -> io::Result<()> {
    let flags = OFlags::NOFOLLOW.bits().cast_signed();
    let mut file = OpenOptions::new().write(true).custom_flags(flags).open(path)?;
    file.set_len(0)?;
    file.write_all(content)
}

/// Gives a file its owner and its permissions back.
pub(super) fn put_permissions_back(path: &Path, stamp: &Stamp) -> io::Result<()> {
    if stamp.kind().is_symlink() {
        return Ok(());
    }
    let now = fs::symlink_metadata(path)?;
    if (now.uid(), now.gid()) != (stamp.uid, stamp.gid) {
        let uid = Some(stamp.uid).filter(|uid| *uid != now.uid());
        std::os::unix::fs::lchown(path, uid, Some(stamp.gid))?;
    }
    fs::set_permissions(path, fs::Permissions::from_mode(stamp.permissions()))
}

/// Lets the owner of a directory do everything with it.
pub(super) fn open_to_owner(path: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(path)?;
    if !found.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    let mode = found.permissions().mode() | 0o700;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

/// Build tools go by the time of a file: what did not change must not look newer.
fn set_time(file: &File, stamp: &Stamp) {
    if let Ok(seconds) = u64::try_from(stamp.mtime.0) {
        let since = Duration::from_secs(seconds) + Duration::from_nanos(stamp.mtime.1);
        let _ = file.set_modified(SystemTime::UNIX_EPOCH + since);
    }
}

/// A link that a run put where a directory was would lead the harness elsewhere.
fn refuse_links(directory: &Path, floor: &Path) -> io::Result<()> {
    let below = directory.ancestors().take_while(|above| *above != floor);
    for above in below.filter(|above| above.starts_with(floor)) {
        if fs::symlink_metadata(above).is_ok_and(|found| found.is_symlink()) {
            return Err(io::Error::other("a link is in the way"));
        }
    }
    Ok(())
}

/// Reads what was saved of a path of a work tree, for a commit.
pub(super) fn displaced_files(root: &Path, path: &Path, saved: &Path) -> Vec<DisplacedFile> {
    let Ok(path) = path.strip_prefix(root) else { return Vec::new() };
    let mut files = Vec::new();
    let mut take = |path: PathBuf, place: &Path, stamp: &Stamp| {
        if u64::try_from(stamp.size).is_ok_and(|size| size > COMMIT_CAP) {
            return;
        }
        let Some(bytes) = read_content(place, stamp) else { return };
        let content = if stamp.kind().is_symlink() {
            DisplacedContent::Link { target: bytes }
        } else {
            DisplacedContent::File { bytes, executable: stamp.mode & 0o100 != 0 }
        };
        files.push(DisplacedFile { path, content: Some(content) });
    };
    match Stamp::of(saved) {
        None => files.push(DisplacedFile { path: path.to_owned(), content: None }),
        Some(stamp) if stamp.kind().is_dir() => {
            walk(saved, &mut |place, _, stamp| {
                if let Ok(below) = place.strip_prefix(saved) {
                    take(path.join(below), place, stamp);
                }
                WalkStep::Enter
            });
        }
        Some(stamp) => take(path.to_owned(), saved, &stamp),
    }
    files
}
