//! Files on disk: several made durable at the cost of little more than one, and one opened to append to it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

use crate::sys::{WriteOut, write_out};

/// Makes files durable, with the names that they have now.
///
/// All of them are written out first, at the same time: what a file system notes about them then goes to disk with the
/// first that is synced.
pub fn sync_together<'a>(mut files: impl Iterator<Item = &'a File> + Clone) -> io::Result<()> {
    for step in [WriteOut::Begin, WriteOut::Await] {
        files.clone().for_each(|file| write_out(file, step));
    }
    files.try_for_each(File::sync_all)
}

/// Opens a regular file to append to it: no link is followed, and nothing that is no file makes the call hang.
pub fn open_to_append(path: impl AsRef<Path>) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file =
        OpenOptions::new().read(true).append(true).create(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    Ok(file)
}
