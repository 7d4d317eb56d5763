//! Making several files durable at the cost of little more than one.

use std::fs::File;
use std::io;

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
