//! The mailbox: the directory for notes between agent and harness, in the workspace or in a slot.
//!
//! Other tools use `.ralph/` too. A mark in the `.gitignore` of Ralph's own mailbox identifies it; a directory without
//! that mark belongs to another tool and is never written to, unless it holds nothing but a plan that a person wrote for
//! the loop. Agents write here freely, so anything except a regular
//! file counts as absent, and files are replaced atomically.

pub(crate) mod exchange;

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;

use camino::{Utf8Path, Utf8PathBuf};
use ralph_proc::removal::remove_tree;

use crate::files::disk::{self, DiskEntry, FileKind};
use crate::files::plain::read_plain_in;
use crate::files::{PathError, create_directory, is_temporary, rename_durably, replace_atomically};

const IGNORE_FILE: &str = ".gitignore";
const MARK: &str = "# ralph-mailbox";
const IGNORE: &str = "# ralph-mailbox: notes between Ralph and its agents, not for git\n*\n";

/// The largest file that is read.
const LARGEST: usize = 1 << 20;

/// The files that a person may write before the first loop.
const PLANS: [&str; 2] = ["plan.md", "plan.tsx"];

/// The state of the mailbox path on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MailboxState {
    /// Nothing, or a directory with nothing but plans in it.
    Free,
    Ours,
    Foreign,
}

/// Inspects a path without changing it.
pub(crate) fn inspect(path: &Utf8Path) -> Result<MailboxState, PathError> {
    let error = |source: io::Error| PathError::new("read", path, source);
    match disk::look(path) {
        Err(problem) if problem.kind() == io::ErrorKind::NotFound => return Ok(MailboxState::Free),
        Err(problem) => return Err(error(problem)),
        Ok(found) if found.kind != FileKind::Directory => return Ok(MailboxState::Foreign),
        Ok(_) => {}
    }
    if Mailbox::new(path).is_marked() {
        return Ok(MailboxState::Ours);
    }
    // A Ralph killed while writing the mark left only a temporary file.
    let is_ours = |entry: &DiskEntry| {
        let is_plan = |name| PLANS.contains(&name) && matches!(entry.kind, Ok(FileKind::File));
        entry.name.to_str().is_some_and(|name| is_temporary(name) || is_plan(name))
    };
    let empty = disk::list(path).map_err(error)?.iter().all(is_ours);
    Ok(if empty { MailboxState::Free } else { MailboxState::Foreign })
}

/// Returns a path if it is, or can become, Ralph's mailbox: then nothing in it is ever work.
pub(crate) fn own(path: &Utf8Path) -> Option<&Utf8Path> {
    inspect(path).is_ok_and(|state| state != MailboxState::Foreign).then_some(path)
}

/// The mailbox of a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mailbox {
    path: Utf8PathBuf,
}

impl Mailbox {
    pub(crate) fn new(path: &Utf8Path) -> Mailbox {
        Mailbox { path: path.to_owned() }
    }

    pub(crate) fn path(&self) -> &Utf8Path {
        &self.path
    }

    /// Creates the directory and its mark, if needed. A symlink planted at its path is removed.
    pub(crate) fn make_ready(&self) -> Result<(), PathError> {
        let found = disk::look(&self.path).ok();
        if found.is_some_and(|found| found.kind != FileKind::Directory) {
            let error = |source| PathError::new("remove", &self.path, source);
            fs::remove_file(&self.path).map_err(error)?;
        }
        create_directory(&self.path)?;
        if self.is_marked() { Ok(()) } else { self.write(IGNORE_FILE, IGNORE) }
    }

    /// Restores the owner's permissions on the directories of the mailbox, whatever an agent did to them. No run may be
    /// alive. Directories that cannot be opened count as absent.
    pub(crate) fn unlock(&self) {
        let mut waiting = vec![(self.path.as_std_path().to_owned(), 0)];
        while let Some((next, depth)) = waiting.pop() {
            let Ok(found) = fs::symlink_metadata(&next) else { continue };
            let mode = found.permissions().mode();
            if !found.is_dir() || depth > exchange::DEEPEST {
                continue;
            }
            if mode & 0o700 != 0o700 {
                let _ = fs::set_permissions(&next, fs::Permissions::from_mode(mode | 0o700));
            }
            let below = fs::read_dir(&next).into_iter().flatten().flatten();
            waiting.extend(below.map(|entry| (entry.path(), depth + 1)));
        }
    }

    fn is_marked(&self) -> bool {
        self.read(IGNORE_FILE).is_some_and(|text| text.starts_with(MARK))
    }

    /// Returns a file as text. Anything except a regular file of limited size counts as absent.
    pub(crate) fn read(&self, name: &str) -> Option<String> {
        let bytes = read_plain_in(&self.path, name, LARGEST).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> Result<(), PathError> {
        self.write_bytes(name, text.as_bytes())
    }

    fn write_bytes(&self, name: &str, bytes: &[u8]) -> Result<(), PathError> {
        let path = self.path.join(name);
        Mailbox::remove_what_is_no_file(&path)?;
        replace_atomically(&path, bytes)
    }

    pub(crate) fn remove(&self, name: &str) -> Result<(), PathError> {
        let path = self.path.join(name);
        Mailbox::remove_what_is_no_file(&path)?;
        crate::files::remove_optional(&path)
    }

    /// Moves a file of an earlier task to `archive/`, if it exists, without overwriting anything.
    pub(crate) fn archive(&self, name: &str, task: u32) -> Result<(), PathError> {
        let from = self.path.join(name);
        if disk::look(&from).is_err() {
            return Ok(());
        }
        let place = |number: u32| match number {
            1 => self.path.join(format!("archive/task-{task}-{name}")),
            number => self.path.join(format!("archive/task-{task}-{number}-{name}")),
        };
        let is_free = |to: &Utf8PathBuf| disk::look(to).is_err();
        let to = (1..=u32::MAX).map(place).find(is_free);
        rename_durably(&from, &to.unwrap_or_else(|| place(u32::MAX)))
    }

    /// Removes anything an agent put at the path of a file: a directory, a symlink, a FIFO.
    fn remove_what_is_no_file(path: &Utf8Path) -> Result<(), PathError> {
        let error = |source| PathError::new("remove", path, source);
        match disk::look(path).map(|found| found.kind) {
            Ok(FileKind::Directory) => remove_tree(path.as_std_path()).map_err(error),
            Ok(FileKind::Link | FileKind::Other) => fs::remove_file(path).map_err(error),
            _ => Ok(()),
        }
    }
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
    fn a_ralph_that_was_killed_while_it_marked_the_directory_leaves_it_free() {
        let (_guard, path) = temp();
        fs::create_dir(&path).unwrap();
        fs::write(path.join("..gitignore.7.1.ralph-tmp"), "# ralph-").unwrap();
        assert_eq!(inspect(&path).unwrap(), MailboxState::Free);
        fs::write(path.join("notes.ralph-tmp"), "somebody's").unwrap();
        assert_eq!(inspect(&path).unwrap(), MailboxState::Foreign);
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
    fn whatever_an_agent_makes_of_it_the_mailbox_can_be_read_and_written() {
        let (guard, path) = temp();
        let mailbox = Mailbox::new(&path);
        mailbox.make_ready().unwrap();
        assert_eq!(inspect(&path).unwrap(), MailboxState::Ours);
        fs::create_dir_all(path.join("status.txt/inside")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", path.join("summary.md")).unwrap();
        fs::write(path.join("large.md"), vec![b'x'; LARGEST + 1]).unwrap();
        fs::write(path.join("bytes.md"), b"caf\xe9").unwrap();
        for name in ["status.txt", "summary.md", "large.md", "nothing"] {
            assert_eq!(mailbox.read(name), None, "{name}");
        }
        assert_eq!(mailbox.read("bytes.md").as_deref(), Some("caf\u{fffd}"));
        mailbox.write("status.txt", "running").unwrap();
        mailbox.write("summary.md", "mine").unwrap();
        assert_eq!(mailbox.read("summary.md").as_deref(), Some("mine"));
        assert!(fs::read_to_string("/etc/passwd").unwrap().contains("root"));
        mailbox.remove("status.txt").unwrap();
        mailbox.remove("status.txt").unwrap();
        fs::remove_dir_all(&path).unwrap();
        std::os::unix::fs::symlink(guard.path(), &path).unwrap();
        mailbox.make_ready().unwrap();
        assert!(!guard.path().join(".gitignore").exists(), "a link is not followed");
    }

    /// Root bypasses permissions, so this is meaningful only for other users.
    #[test]
    fn directories_that_an_agent_locked_are_opened_again() {
        let (_guard, path) = temp();
        let mailbox = Mailbox::new(&path);
        mailbox.make_ready().unwrap();
        fs::create_dir_all(path.join("status.txt/inside")).unwrap();
        fs::create_dir(path.join("archive")).unwrap();
        mailbox.write("plan.md", "a plan").unwrap();
        let locked = |mode| fs::Permissions::from_mode(mode);
        for name in ["status.txt/inside", "status.txt", "archive", ""] {
            fs::set_permissions(path.join(name), locked(0)).unwrap();
        }
        mailbox.unlock();
        for name in ["", "archive", "status.txt", "status.txt/inside"] {
            let mode = fs::metadata(path.join(name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o700, 0o700, "{name}");
        }
        assert_eq!(inspect(&path).unwrap(), MailboxState::Ours);
        fs::set_permissions(path.join("status.txt/inside"), locked(0)).unwrap();
        mailbox.write("status.txt", "running").unwrap();
        mailbox.archive("plan.md", 1).unwrap();
        assert_eq!(mailbox.read("status.txt").as_deref(), Some("running"));
    }

    #[test]
    fn archives_never_replace_each_other() {
        let (_guard, path) = temp();
        let mailbox = Mailbox::new(&path);
        mailbox.make_ready().unwrap();
        for text in ["one", "two"] {
            mailbox.write("plan.md", text).unwrap();
            mailbox.archive("plan.md", 3).unwrap();
            mailbox.archive("plan.md", 3).unwrap();
        }
        let read = |name: &str| fs::read_to_string(path.join("archive").join(name)).unwrap();
        assert_eq!(read("task-3-plan.md"), "one");
        assert_eq!(read("task-3-2-plan.md"), "two");
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
