//! Reads files that an untrusted process may have placed: only regular files, never more than a cap, and never blocking
//! on a writer. Files left by an agent are not read through symlinks either; a person's files may be symlinks.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};

use camino::Utf8Path;
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};
use rustix::io::Errno;

use super::disk::{FileKind, open_to_read};

/// The maximum size of a person's text file.
const LARGEST_TEXT: usize = 4 << 20;

/// Why a file is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotPlain {
    #[error("it does not exist")]
    Missing,
    #[error("it is a symbolic link")]
    Link,
    #[error("it is not a file")]
    NotAFile,
    #[error("it has several names (hard links)")]
    SeveralNames,
    #[error("it is larger than {cap} bytes")]
    TooLarge { cap: usize },
    #[error("it cannot be read: {0}")]
    Unreadable(io::ErrorKind),
}

impl NotPlain {
    /// A short code for each reason, to report each once.
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            NotPlain::Missing => "missing",
            NotPlain::Link => "link",
            NotPlain::NotAFile => "not a file",
            NotPlain::SeveralNames => "several names",
            NotPlain::TooLarge { .. } => "too large",
            NotPlain::Unreadable(_) => "unreadable",
        }
    }
}

/// Opens a directory without following a symlink.
pub(crate) fn open_directory(path: &Utf8Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(CWD, path.as_std_path(), flags, Mode::empty())?)
}

/// Reads a regular file with a single link and at most `cap` bytes.
pub(crate) fn read_plain(
    directory: impl AsFd,
    name: &str,
    cap: usize,
) -> Result<Vec<u8>, NotPlain> {
    // Without NONBLOCK a FIFO would block until a writer opens it.
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat(directory, name, flags, Mode::empty()).map_err(|errno| match errno {
        Errno::NOENT => NotPlain::Missing,
        Errno::LOOP => NotPlain::Link,
        // Sockets cannot be opened at all.
        Errno::NXIO => NotPlain::NotAFile,
        errno => unreadable(&errno.into()),
    })?;
    let found = fstat(&file).map_err(|errno| unreadable(&errno.into()))?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return Err(NotPlain::NotAFile);
    }
    if found.st_nlink != 1 {
        return Err(NotPlain::SeveralNames);
    }
    let mut bytes = Vec::new();
    let bound = u64::try_from(cap).unwrap_or(u64::MAX).saturating_add(1);
    File::from(file).take(bound).read_to_end(&mut bytes).map_err(|problem| unreadable(&problem))?;
    if bytes.len() > cap { Err(NotPlain::TooLarge { cap }) } else { Ok(bytes) }
}

/// Reads a regular file in a directory; neither may be a symlink.
pub(crate) fn read_plain_in(
    directory: &Utf8Path,
    name: &str,
    cap: usize,
) -> Result<Vec<u8>, NotPlain> {
    #[cfg(test)]
    if super::simulated::serves(directory) {
        return super::simulated::get(&directory.join(name)).ok_or(NotPlain::Missing);
    }
    let directory = open_directory(directory).map_err(|problem| unreadable(&problem))?;
    read_plain(&directory, name, cap)
}

/// Reads a person's file, following symlinks, if it is a regular file and not larger than a text.
pub(crate) fn read_text(path: &Utf8Path) -> io::Result<Vec<u8>> {
    let bytes = read_start(path, LARGEST_TEXT + 1)?;
    if bytes.len() > LARGEST_TEXT {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is too large for a text"));
    }
    Ok(bytes)
}

/// Reads the beginning of such a file.
pub(crate) fn read_start(path: &Utf8Path, most: usize) -> io::Result<Vec<u8>> {
    let file = open_to_read(path)?;
    let found = file.found()?;
    if found.kind != FileKind::File {
        return Err(io::Error::other("it is not a file"));
    }
    let most = u64::try_from(most).unwrap_or(u64::MAX);
    // One extra byte, so that the end is detected without growing the buffer.
    let expected = usize::try_from(found.length.min(most)).unwrap_or(0) + 1;
    let mut bytes = Vec::with_capacity(expected);
    file.reader(0).take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn unreadable(problem: &io::Error) -> NotPlain {
    NotPlain::Unreadable(problem.kind())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    use std::process::Command;

    use super::*;
    use crate::test_place::Place;

    #[test]
    fn only_regular_files_with_one_name_and_few_bytes_are_read() {
        let place = Place::new();
        let at = |name: &str| place.root.join(name);
        place.write("good", "12345678");
        place.write("huge", "123456789");
        place.write("twice", "x");
        fs::hard_link(at("twice"), at("second")).unwrap();
        symlink(at("good"), at("link")).unwrap();
        symlink("/nowhere", at("dangling")).unwrap();
        fs::create_dir(at("directory")).unwrap();
        assert!(Command::new("mkfifo").arg(at("fifo")).status().unwrap().success());
        let _listener = UnixListener::bind(at("socket")).unwrap();
        let directory = open_directory(&place.root).unwrap();
        let kind = |name: &str| match read_plain(&directory, name, 8) {
            Ok(bytes) => String::from_utf8(bytes).unwrap(),
            Err(reason) => reason.kind().to_owned(),
        };
        for (name, expected) in [
            ("good", "12345678"),
            ("huge", "too large"),
            ("twice", "several names"),
            ("second", "several names"),
            ("link", "link"),
            ("dangling", "link"),
            ("directory", "not a file"),
            ("fifo", "not a file"),
            ("socket", "not a file"),
            ("nothing", "missing"),
        ] {
            assert_eq!(kind(name), expected, "{name}");
        }
    }

    #[test]
    fn a_link_to_a_directory_is_not_opened() {
        let place = Place::new();
        symlink(&place.root, place.root.join("link")).unwrap();
        assert!(open_directory(&place.root.join("link")).is_err());
        assert!(open_directory(&place.root).is_ok());
    }
}
