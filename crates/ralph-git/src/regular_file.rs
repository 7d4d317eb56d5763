//! Reads a repository's own files in process, without git's timeout: only regular files, in one read, and only files of a
//! size that git's own can have.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// The largest file that is read. A sparse file costs whoever makes it nothing, and could take all memory here.
pub const LARGEST: u64 = 1 << 30;

/// Opens a regular file for reading; symlinks are not followed and a FIFO does not block.
pub(super) fn open(path: &Path) -> io::Result<(File, Metadata)> {
    open_with(path, OFlags::NOFOLLOW)
}

fn open_with(path: &Path, flags: OFlags) -> io::Result<(File, Metadata)> {
    let flags = (flags | OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_file() {
        Ok((file, metadata))
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file"))
    }
}

/// Reads a regular file; `None` if it does not exist. Does not follow a symlink, block on a FIFO, or fill the memory.
pub fn read_regular(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match open(path) {
        Ok((file, metadata)) => Ok(Some(read_open(&file, &metadata)?)),
        Err(error) if is_absence(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads an open file of a known size, even if its size has changed.
pub(super) fn read_open(file: &File, metadata: &Metadata) -> io::Result<Vec<u8>> {
    let too_large =
        || io::Error::new(io::ErrorKind::FileTooLarge, "it is larger than any of git's");
    if metadata.len() > LARGEST {
        return Err(too_large());
    }
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or(0) + 1);
    // Read as a stream, which avoids another stat call.
    file.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST { Err(too_large()) } else { Ok(bytes) }
}

/// Reads a system file, following symlinks.
pub(super) fn follow(path: &Path) -> io::Result<Vec<u8>> {
    let (file, metadata) = open_with(path, OFlags::empty())?;
    read_open(&file, &metadata)
}

/// Whether an error means that the file does not exist.
pub(super) fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_file_or_too_large_is_an_error_and_what_is_not_there_is_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("file"), "text").unwrap();
        std::os::unix::fs::symlink(at("file"), at("link")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            at("fifo"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        assert_eq!(read_regular(&at("file")).unwrap().as_deref(), Some(&b"text"[..]));
        assert_eq!(read_regular(&at("none")).unwrap(), None);
        assert_eq!(read_regular(&at("file/below")).unwrap(), None);
        let sparse = File::create(at("sparse")).unwrap();
        sparse.set_len(LARGEST + 1).unwrap();
        for odd in ["link", "fifo", ".", "sparse"] {
            assert!(read_regular(&at(odd)).is_err(), "{odd}");
        }
    }
}
