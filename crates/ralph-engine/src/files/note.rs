//! One-line notes that are rewritten often: in place, in one write, without creating or removing a file each time.
//!
//! A note is not synced unless it is asked for, and a crash during the write may corrupt it, so it may only contain what its reader can verify
//! (a digest, a document). Leftover bytes of a longer note follow the end of the line; readers ignore them.

use std::io::{self, Read};

use camino::Utf8Path;

use super::disk::{open_to_patch, open_to_read};
use super::{PathError, fault, open_privately};

/// Larger than any note.
const LARGEST: u64 = 64 << 10;

/// Overwrites a note, creating its directory if needed.
pub(crate) fn write_note(path: &Utf8Path, line: &str) -> Result<(), PathError> {
    debug_assert!(!line.contains('\n'), "a note is one line");
    let error = |source: io::Error| PathError::new("write", path, source);
    let file = open_privately(path, "write", |path| open_to_patch(path, true))?;
    file.write_all_at(format!("{line}\n").as_bytes(), 0).map_err(error)?;
    fault::after_write();
    Ok(())
}

/// Makes the content of a note durable, if there is one. Its name is as durable as its directory.
pub(crate) fn sync_note(path: &Utf8Path) -> Result<(), PathError> {
    let error = |source: io::Error| PathError::new("write", path, source);
    match open_to_patch(path, false) {
        Err(problem) if problem.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened.and_then(|file| file.sync_data()).map_err(error)?,
    }
    fault::after_write();
    Ok(())
}

/// Clears a note, if there is one.
pub(crate) fn clear_note(path: &Utf8Path) -> Result<(), PathError> {
    let error = |source: io::Error| PathError::new("write", path, source);
    match open_to_patch(path, false) {
        Err(problem) if problem.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened.and_then(|file| file.write_all_at(b"\n", 0)).map_err(error)?,
    }
    fault::after_write();
    Ok(())
}

/// Returns the content of a note; `None` if there is no complete one.
pub(crate) fn read_note(path: &Utf8Path) -> Result<Option<String>, PathError> {
    let error = |source: io::Error| PathError::new("read", path, source);
    let file = match open_to_read(path) {
        Err(problem) if problem.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(error)?,
    };
    let mut bytes = Vec::with_capacity(1024);
    file.reader(0).take(LARGEST).read_to_end(&mut bytes).map_err(error)?;
    let line = bytes.split_inclusive(|byte| *byte == b'\n').next();
    let line = line.and_then(|line| line.strip_suffix(b"\n")).filter(|line| !line.is_empty());
    Ok(line.and_then(|line| String::from_utf8(line.to_vec()).ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_the_last_one_written_whatever_was_longer_before() {
        let directory = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(directory.path()).unwrap().join("deep/note");
        assert_eq!(read_note(&path).unwrap(), None);
        clear_note(&path).unwrap();
        assert!(!path.exists());
        for line in ["a long note", "short", "a longer note than that", "x"] {
            write_note(&path, line).unwrap();
            assert_eq!(read_note(&path).unwrap().as_deref(), Some(line));
        }
        clear_note(&path).unwrap();
        assert_eq!(read_note(&path).unwrap(), None);
    }

    #[test]
    fn a_note_without_its_end_is_none_and_no_link_is_written_through() {
        let directory = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(directory.path()).unwrap().join("note");
        for torn in ["", "torn", "\n", "\nold", "\u{0}"] {
            std::fs::write(&path, torn).unwrap();
            assert_eq!(read_note(&path).unwrap(), None, "{torn:?}");
        }
        std::fs::write(&path, b"\xff\n").unwrap();
        assert_eq!(read_note(&path).unwrap(), None);
        std::fs::remove_file(&path).unwrap();
        let other = path.with_file_name("other");
        std::os::unix::fs::symlink(&other, &path).unwrap();
        write_note(&path, "x").unwrap_err();
        assert!(!other.exists());
    }
}
