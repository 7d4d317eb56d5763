//! The names in an open directory: no paths, no allocation per name where the system allows.

use std::ffi::CStr;
use std::io;
use std::os::fd::AsFd;

use rustix::fs::{AtFlags, FileType, statat};

/// Lists directories, one after the other.
#[derive(Debug)]
pub struct Listing {
    /// Bytes of a listing that are read at once.
    #[cfg(target_os = "linux")]
    buffer: Vec<u8>,
}

impl Listing {
    pub fn new() -> Listing {
        Listing {
            #[cfg(target_os = "linux")]
            buffer: Vec::with_capacity(64 << 10),
        }
    }

    /// Iterates over the names in a directory, including `.` and `..`, from the current position.
    pub fn each(
        &mut self,
        directory: impl AsFd,
        mut take: impl FnMut(&CStr, FileType),
    ) -> io::Result<()> {
        let directory = directory.as_fd();
        #[cfg(target_os = "linux")]
        let mut entries = rustix::fs::RawDir::new(directory, self.buffer.spare_capacity_mut());
        #[cfg(target_os = "macos")]
        let mut entries = rustix::fs::Dir::read_from(directory)?;
        // Entries of one call may borrow from the last: not a standard iterator.
        #[cfg_attr(target_os = "macos", expect(clippy::while_let_on_iterator, reason = "as above"))]
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let kind = match entry.file_type() {
                // Not every file system reports the type with the name.
                FileType::Unknown => {
                    statat(directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)
                        .map_or(FileType::Unknown, |found| FileType::from_raw_mode(found.st_mode))
                }
                kind => kind,
            };
            take(entry.file_name(), kind);
        }
        Ok(())
    }
}

impl Default for Listing {
    fn default() -> Listing {
        Listing::new()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use super::*;

    #[test]
    fn every_name_is_listed_with_its_kind_however_many_there_are() {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("directory")).unwrap();
        for number in 0..3000 {
            fs::write(place.path().join(format!("file-{number:060}")), "").unwrap();
        }
        let (mut files, mut directories) = (0, 0);
        let opened = File::open(place.path()).unwrap();
        Listing::new()
            .each(&opened, |_, kind| {
                files += usize::from(kind.is_file());
                directories += usize::from(kind.is_dir());
            })
            .unwrap();
        assert_eq!((files, directories), (3000, 3));
    }
}
