//! The mailbox: the directory in the workspace where agent and harness leave each other notes.
//!
//! Other tools use `.ralph/` too. Ours says so in its `.gitignore`, which also keeps it out of git; a directory without
//! that mark is somebody else's and is never written to.

use std::fs;
use std::io;

use camino::{Utf8Path, Utf8PathBuf};

use crate::files::{PathError, create_new};

const IGNORE_FILE: &str = ".gitignore";
const MARK: &str = "# ralph-mailbox";
const IGNORE_TEXT: &str =
    "# ralph-mailbox: what Ralph and its agents say to each other; not for git.\n*\n";

/// What stands where the mailbox is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MailboxState {
    /// Nothing, or an empty directory.
    Free,
    Ours,
    Foreign,
}

/// The mailbox cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MailboxError {
    #[error("`{path}` belongs to another tool")]
    Foreign { path: Utf8PathBuf },
    #[error(transparent)]
    Path(#[from] PathError),
}

impl MailboxError {
    /// Returns what the person can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            MailboxError::Foreign { .. } => {
                Some("give Ralph a place of its own with `mailbox = \"…\"` in ralph.toml")
            }
            MailboxError::Path(_) => None,
        }
    }
}

/// Looks at a place without touching it.
pub fn inspect(path: &Utf8Path) -> Result<MailboxState, PathError> {
    let error = |source: io::Error| PathError::new("read", path, source);
    match fs::symlink_metadata(path) {
        Err(problem) if problem.kind() == io::ErrorKind::NotFound => return Ok(MailboxState::Free),
        Err(problem) => return Err(error(problem)),
        Ok(found) if !found.is_dir() => return Ok(MailboxState::Foreign),
        Ok(_) => {}
    }
    let ignore = path.join(IGNORE_FILE);
    let is_file = fs::symlink_metadata(&ignore).is_ok_and(|found| found.is_file());
    if is_file && fs::read(&ignore).is_ok_and(|text| text.starts_with(MARK.as_bytes())) {
        return Ok(MailboxState::Ours);
    }
    let empty = path.read_dir_utf8().map_err(error)?.next().is_none();
    Ok(if empty { MailboxState::Free } else { MailboxState::Foreign })
}

/// Makes the mailbox where the place is free.
pub fn prepare(path: &Utf8Path) -> Result<(), MailboxError> {
    match inspect(path)? {
        MailboxState::Ours => Ok(()),
        MailboxState::Foreign => Err(MailboxError::Foreign { path: path.to_owned() }),
        MailboxState::Free => {
            fs::create_dir_all(path).map_err(|source| PathError::new("create", path, source))?;
            create_new(&path.join(IGNORE_FILE), IGNORE_TEXT.as_bytes())?;
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn temp() -> (tempfile::TempDir, Utf8PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::from_path_buf(directory.path().join(".ralph")).unwrap();
        (directory, path)
    }

    #[test]
    fn a_free_place_becomes_ours_and_stays_so() {
        let (_guard, path) = temp();
        assert_eq!(inspect(&path).unwrap(), MailboxState::Free);
        prepare(&path).unwrap();
        fs::write(path.join("phase.txt"), "PLAN").unwrap();
        assert_eq!(inspect(&path).unwrap(), MailboxState::Ours);
        prepare(&path).unwrap();
        let ignored = fs::read_to_string(path.join(".gitignore")).unwrap();
        assert_eq!(ignored.lines().last(), Some("*"));
    }

    #[test]
    fn the_directory_of_another_tool_is_left_alone() {
        let (_guard, path) = temp();
        fs::create_dir(&path).unwrap();
        fs::write(path.join("agent.yml"), "x").unwrap();
        fs::write(path.join(".gitignore"), "*\n").unwrap();
        let error = prepare(&path).unwrap_err();
        assert_eq!(error.to_string(), format!("`{path}` belongs to another tool"));
        assert!(error.hint().unwrap().contains("mailbox = "));
        assert_eq!(fs::read_to_string(path.join(".gitignore")).unwrap(), "*\n");
        assert_eq!(path.read_dir_utf8().unwrap().count(), 2);
    }

    #[test]
    fn a_link_or_a_file_of_that_name_is_somebody_elses() {
        let (guard, path) = temp();
        std::os::unix::fs::symlink(guard.path(), &path).unwrap();
        assert_eq!(inspect(&path).unwrap(), MailboxState::Foreign);
        fs::remove_file(&path).unwrap();
        fs::write(&path, "").unwrap();
        assert_eq!(inspect(&path).unwrap(), MailboxState::Foreign);
    }
}
