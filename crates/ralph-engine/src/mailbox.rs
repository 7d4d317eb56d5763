//! The mailbox: the directory in the workspace for notes between agent and harness.
//!
//! Other tools use `.ralph/` too. A mark in the `.gitignore` of Ralph's own mailbox identifies it; a directory without
//! that mark belongs to another tool and is never written to. This module only inspects.

use std::fs;
use std::io;

use camino::Utf8Path;

use crate::files::PathError;

const IGNORE_FILE: &str = ".gitignore";
const MARK: &str = "# ralph-mailbox";

/// The state of the mailbox path on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MailboxState {
    /// Nothing, or an empty directory.
    Free,
    Ours,
    Foreign,
}

/// Inspects a path without changing it.
pub(crate) fn inspect(path: &Utf8Path) -> Result<MailboxState, PathError> {
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

#[cfg(test)]
mod tests {
    use camino::Utf8PathBuf;

    use super::*;

    fn temp() -> (tempfile::TempDir, Utf8PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::from_path_buf(directory.path().join(".ralph")).unwrap();
        (directory, path)
    }

    #[test]
    fn an_absent_or_empty_directory_is_free_and_a_marked_one_is_ours() {
        let (_guard, path) = temp();
        assert_eq!(inspect(&path).unwrap(), MailboxState::Free);
        fs::create_dir(&path).unwrap();
        assert_eq!(inspect(&path).unwrap(), MailboxState::Free);
        fs::write(path.join(".gitignore"), "# ralph-mailbox: not for git\n*\n").unwrap();
        fs::write(path.join("phase.txt"), "PLAN").unwrap();
        assert_eq!(inspect(&path).unwrap(), MailboxState::Ours);
    }

    #[test]
    fn a_directory_without_the_mark_belongs_to_another_tool() {
        let (_guard, path) = temp();
        fs::create_dir(&path).unwrap();
        fs::write(path.join("agent.yml"), "x").unwrap();
        fs::write(path.join(".gitignore"), "*\n").unwrap();
        assert_eq!(inspect(&path).unwrap(), MailboxState::Foreign);
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
