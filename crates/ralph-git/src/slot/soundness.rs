//! Checks that the repository in a slot is still the one created there, before git runs in it.
//!
//! A symlink would lead git to another repository, a FIFO at the path of an object or a ref would block it until its
//! timeout, and a ref of terabytes, which takes no space where it is sparse, would fill its memory. Git itself creates none
//! of these. Hooks may be symlinks; they are not run.

use std::fs;
use std::path::Path;

use camino::Utf8Path;

use super::super::clearing::remove;
use super::super::regular_file;
use super::SlotError;
use super::git_dir::{alternates, write};

/// Top-level directories of a git directory that the harness's git does not read.
const SKIPPED: &[&str] = &["hooks", "lfs", "modules"];

/// Checks a slot's git directory, and makes it borrow only from the mirror.
pub(super) fn check(git_dir: &Utf8Path, objects: &Utf8Path) -> Result<(), SlotError> {
    check_files(git_dir)?;
    borrow_from_mirror(git_dir, objects)
}

/// Checks that a slot's git directory has only files and directories of which git can be asked.
pub fn check_files(git_dir: &Utf8Path) -> Result<(), SlotError> {
    let tampered = |path: &Path, problem| SlotError::Tampered { path: path.to_owned(), problem };
    let found = fs::symlink_metadata(git_dir);
    if !found.is_ok_and(|found| found.is_dir()) {
        return Err(tampered(git_dir.as_std_path(), "is not a directory"));
    }
    for name in ["commondir", "gitdir"] {
        let path = git_dir.join(name);
        if fs::symlink_metadata(&path).is_ok() {
            return Err(tampered(path.as_std_path(), "points to another repository"));
        }
    }
    // Objects are not read whole.
    let store = git_dir.join("objects");
    let mut open = vec![git_dir.to_owned().into_std_path_buf()];
    while let Some(directory) = open.pop() {
        let unreadable = |_| tampered(&directory, "cannot be read");
        for entry in fs::read_dir(&directory).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let kind = entry.file_type().map_err(unreadable)?;
            if kind.is_dir() {
                // Elsewhere a directory of that name may be part of a ref.
                let is_top = directory == *git_dir;
                if !(is_top && SKIPPED.iter().any(|name| entry.file_name() == *name)) {
                    open.push(entry.path());
                }
            } else if !kind.is_file() {
                return Err(tampered(&entry.path(), "is neither a file nor a directory"));
            } else if !directory.starts_with(&store)
                && entry.metadata().map_err(unreadable)?.len() > regular_file::LARGEST
            {
                return Err(tampered(&entry.path(), "is larger than any file of git's"));
            }
        }
    }
    Ok(())
}

/// Rewrites the file that names the borrowed objects, if it names others: they may be ones that no agent may read.
fn borrow_from_mirror(git_dir: &Utf8Path, objects: &Utf8Path) -> Result<(), SlotError> {
    let info = git_dir.join("objects/info");
    fs::create_dir_all(&info).map_err(|_| SlotError::Tampered {
        path: info.clone().into(),
        problem: "is not a directory",
    })?;
    let (path, wanted) = (info.join("alternates"), alternates(objects));
    let found = regular_file::read_regular(path.as_std_path()).ok().flatten();
    if found.as_deref() != Some(&wanted) {
        remove(&path)?;
        write(path.as_std_path(), &wanted)?;
    }
    Ok(())
}
