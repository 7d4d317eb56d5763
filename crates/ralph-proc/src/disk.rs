//! Making several files durable at the cost of little more than one.

use std::fs::File;
use std::io;

/// Makes files durable, with the names that they have now.
///
/// All of them are written out first: what a file system notes about them then goes to disk with the first that is synced.
pub fn sync_together<'a>(mut files: impl Iterator<Item = &'a File> + Clone) -> io::Result<()> {
    files.clone().for_each(crate::sys::write_out);
    files.try_for_each(File::sync_all)
}
