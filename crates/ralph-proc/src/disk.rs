//! Files on disk: syncs several for little more than the cost of one, and opens one for appending.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

use crate::sys::{WriteOut, write_out};

/// The `statfs` type of ext4, and of ext2 and ext3, which share its code.
#[cfg(target_os = "linux")]
const EXT4: u64 = 0xef53;

/// Makes files of one file system durable, with their current names.
///
/// All of them are written out first, concurrently. Their ext4 metadata (names, sizes, extents) is then in one journal
/// transaction, which goes to disk with any of them, as in git's `core.fsyncMethod=batch`. Other file systems do not
/// guarantee that, so there each file is synced; after the first, little is left to do.
pub fn sync_together<'a>(mut files: impl Iterator<Item = &'a File> + Clone) -> io::Result<()> {
    for step in [WriteOut::Begin, WriteOut::Await] {
        files.clone().for_each(|file| write_out(file, step));
    }
    let Some(last) = files.clone().last() else { return Ok(()) };
    if is_on_ext4(last) { last.sync_all() } else { files.try_for_each(File::sync_all) }
}

#[cfg(target_os = "linux")]
fn is_on_ext4(file: &File) -> bool {
    rustix::fs::fstatfs(file)
        .is_ok_and(|fs| u64::try_from(fs.f_type).is_ok_and(|kind| kind == EXT4))
}

#[cfg(not(target_os = "linux"))]
const fn is_on_ext4(_file: &File) -> bool {
    false
}

/// Opens a regular file for appending: symlinks are not followed, and other file types do not block the call.
pub fn open_to_append(path: impl AsRef<Path>) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file =
        OpenOptions::new().read(true).append(true).create(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    Ok(file)
}
