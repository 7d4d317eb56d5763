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
    let Some(last) = files.clone().last() else { return Ok(()) };
    // The last one is written out when it is synced.
    let others = files.clone().count() - 1;
    for step in [WriteOut::Begin, WriteOut::Await] {
        files.clone().take(others).for_each(|file| write_out(file, step));
    }
    if is_on_ext4(last) { last.sync_all() } else { files.try_for_each(File::sync_all) }
}

/// Tells whether directories are on one ext4: what is synced in one of them takes along whatever names changed in the
/// others before.
#[cfg(target_os = "linux")]
pub fn share_journal(directories: &[&Path]) -> bool {
    use std::os::unix::fs::MetadataExt;
    let device = |path: &&Path| std::fs::metadata(path).map(|found| found.dev()).ok();
    let Some((first, rest)) = directories.split_first() else { return true };
    let on = device(first);
    on.is_some()
        && rest.iter().all(|path| device(path) == on)
        && rustix::fs::statfs(*first).is_ok_and(|fs| is_ext4(&fs))
}

#[cfg(not(target_os = "linux"))]
pub fn share_journal(_directories: &[&Path]) -> bool {
    false
}

#[cfg(target_os = "linux")]
fn is_ext4(found: &rustix::fs::StatFs) -> bool {
    u64::try_from(found.f_type).is_ok_and(|kind| kind == EXT4)
}

#[cfg(target_os = "linux")]
fn is_on_ext4(file: &File) -> bool {
    rustix::fs::fstatfs(file).is_ok_and(|fs| is_ext4(&fs))
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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn only_directories_of_one_ext4_share_a_journal() {
        let here = std::env::temp_dir();
        let on_ext4 = rustix::fs::statfs(&here).is_ok_and(|fs| is_ext4(&fs));
        assert_eq!(share_journal(&[&here, &here]), on_ext4);
        let elsewhere = Path::new("/proc");
        assert!(!share_journal(&[elsewhere, elsewhere]), "there is no journal");
        assert!(!share_journal(&[&here, elsewhere]));
        assert!(!share_journal(&[&here, &here.join("ralph-is-not-here")]));
    }
}
