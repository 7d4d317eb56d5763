//! Files below a directory that an agent may have written: no symlink is followed on the way to them.
//!
//! These files are written for an agent. They need not be durable: they are written again before each run.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};

use camino::{Utf8Component, Utf8Path};
use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, unlinkat};
use rustix::io::Errno;

use super::plain::{open_directory, read_plain};

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Whether missing directories on the way are created.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    Made,
    Refused,
}

/// Opens the directory of a file below `root`, whose path is relative; also returns its name in it.
fn open_parent<'p>(
    root: &Utf8Path,
    path: &'p Utf8Path,
    missing: Missing,
) -> io::Result<(OwnedFd, &'p str)> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
    let mut parts = Vec::new();
    for part in path.components() {
        let Utf8Component::Normal(part) = part else { return Err(invalid()) };
        parts.push(part);
    }
    let name = parts.pop().ok_or_else(invalid)?;
    let mut directory = open_directory(root)?;
    for part in parts {
        if missing == Missing::Made {
            match mkdirat(&directory, part, Mode::from(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        directory = openat(&directory, part, DIRECTORY, Mode::empty())?;
    }
    Ok((directory, name))
}

/// Opens a directory below `root`, creating missing ones on the way. The last one must not exist.
pub(crate) fn make_directory_beneath(root: &Utf8Path, path: &Utf8Path) -> io::Result<OwnedFd> {
    let (parent, name) = open_parent(root, path, Missing::Made)?;
    mkdirat(&parent, name, Mode::from(0o777))?;
    Ok(openat(&parent, name, DIRECTORY, Mode::empty())?)
}

/// Creates a new file in an open directory.
pub(crate) fn create_in(directory: impl AsFd, name: &str) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(openat(directory, name, flags, Mode::from(0o666))?))
}

/// Opens a directory inside an open one, creating it if needed.
pub(crate) fn directory_in(directory: impl AsFd, name: &str) -> io::Result<OwnedFd> {
    match mkdirat(&directory, name, Mode::from(0o777)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(openat(&directory, name, DIRECTORY, Mode::empty())?)
}

/// Reads a regular file with a single link and at most `cap` bytes; anything else counts as missing.
pub(crate) fn read_beneath(root: &Utf8Path, path: &Utf8Path, cap: usize) -> Option<Vec<u8>> {
    let (directory, name) = open_parent(root, path, Missing::Refused).ok()?;
    read_plain(&directory, name, cap).ok()
}

/// Replaces a file, or anything except a directory at its path.
pub(crate) fn place_beneath(root: &Utf8Path, path: &Utf8Path, bytes: &[u8]) -> io::Result<()> {
    let (directory, name) = open_parent(root, path, Missing::Made)?;
    match unlinkat(&directory, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    create_in(&directory, name)?.write_all(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn files_are_placed_and_read_below_a_directory_and_through_no_link() {
        let place = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(place.path()).unwrap().canonicalize_utf8().unwrap();
        let (inside, outside) = (root.join("inside"), root.join("outside"));
        fs::create_dir(&inside).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("prd.json"), "theirs").unwrap();
        let path = Utf8Path::new("scripts/ralph/prd.json");
        assert_eq!(read_beneath(&inside, path, 100), None);
        place_beneath(&inside, path, b"one").unwrap();
        place_beneath(&inside, path, b"two").unwrap();
        assert_eq!(read_beneath(&inside, path, 100).unwrap(), b"two");
        assert_eq!(read_beneath(&inside, path, 2), None, "too large");

        fs::remove_file(inside.join(path)).unwrap();
        symlink(outside.join("prd.json"), inside.join(path)).unwrap();
        assert_eq!(read_beneath(&inside, path, 100), None);
        place_beneath(&inside, path, b"three").unwrap();
        assert_eq!(read_beneath(&inside, path, 100).unwrap(), b"three");

        fs::remove_dir_all(inside.join("scripts/ralph")).unwrap();
        symlink(&outside, inside.join("scripts/ralph")).unwrap();
        assert!(place_beneath(&inside, path, b"four").is_err());
        assert_eq!(read_beneath(&inside, path, 100), None);
        assert_eq!(fs::read(outside.join("prd.json")).unwrap(), b"theirs");
        for bad in ["", "../x", "/etc/passwd", "a/../b"] {
            assert!(place_beneath(&inside, Utf8Path::new(bad), b"x").is_err(), "{bad}");
        }
    }
}
