//! Checks which entries of private state are files and which are directories. An entry of the wrong kind is set aside
//! and recreated when needed: symlinks are never followed, and a directory at the path of a file is never read.

use camino::{Utf8Path, Utf8PathBuf};

use super::State;
use crate::files::disk::{self, FileKind};
use crate::files::{PathError, remove_durably};

/// Directories in which each entry is a directory of files.
const NESTED: [&str; 3] = ["copies", "gates", "plans"];
/// Directories in which each entry is a directory, except for records.
const PLACES: [&str; 3] = ["drafts", "slots", "slot-state"];
/// Directories with arbitrary content.
const FREE: [&str; 6] = ["agents", "bin", "caches", "damaged", "runs", "scratch"];
/// Directories shared by all workspaces, each of files.
const SHARED: [&str; 2] = ["index", "locks"];

const LOSS: &str = "it was not valid and is recreated";

/// Moves entries of the wrong kind away that all workspaces share.
pub(super) fn mend_shared(base: &Utf8Path) -> Result<(), PathError> {
    for name in SHARED {
        let path = base.join(name);
        let wrong = match disk::look(&path) {
            Ok(found) if found.kind == FileKind::Directory => wrong_in(&path, |_| FileKind::File),
            Ok(_) => vec![path],
            Err(_) => Vec::new(),
        };
        // None of them is authoritative, and all are rewritten when needed.
        for path in wrong {
            remove_anything(&path)?;
        }
    }
    Ok(())
}

impl State {
    /// Sets all entries of the wrong kind aside.
    pub(crate) fn mend_shapes(&self) -> Result<(), PathError> {
        mend_shared(&self.base)?;
        let damaged = self.directory.join("damaged");
        if disk::look(&damaged).is_ok_and(|found| found.kind != FileKind::Directory) {
            remove_anything(&damaged)?;
        }
        let top =
            |name: &str| if is_file_name(name) { FileKind::File } else { FileKind::Directory };
        let mut wrong = wrong_in(&self.directory, top);
        // A symlink at the path of a directory is itself wrong, and is not followed.
        for path in directories_in(&self.directory) {
            let name = path.file_name().unwrap_or_default();
            if FREE.contains(&name) {
                continue;
            }
            if NESTED.contains(&name) {
                wrong.extend(wrong_in(&path, |_| FileKind::Directory));
                for below in directories_in(&path) {
                    wrong.extend(wrong_in(&below, |_| FileKind::File));
                }
            } else if PLACES.contains(&name) {
                wrong.extend(wrong_in(&path, top));
                if name == "slot-state" {
                    let slots = directories_in(&path);
                    wrong.extend(slots.iter().flat_map(|slot| wrong_in(slot, top)));
                }
            } else if name == "repositories" {
                wrong.extend(wrong_in(&path, |_| FileKind::Directory));
                for below in directories_in(&path) {
                    wrong.extend(wrong_in(&below, top));
                }
            } else {
                wrong.extend(wrong_in(&path, |_| FileKind::File));
            }
        }
        wrong.iter().try_for_each(|path| self.set_aside(path, LOSS))
    }
}

/// Records have a file name extension; Ralph's own directories have none.
fn is_file_name(name: &str) -> bool {
    [".json", ".jsonl", ".lock", ".log", ".ralph-tmp"].iter().any(|end| name.ends_with(end))
}

/// Returns the entries of a directory that are of the wrong kind.
fn wrong_in(directory: &Utf8Path, wanted: impl Fn(&str) -> FileKind) -> Vec<Utf8PathBuf> {
    let listed = disk::list(directory).into_iter().flatten();
    let wrong = listed.filter_map(|entry| {
        let name = entry.name.into_string().ok()?;
        let kind = entry.kind.ok()?;
        (kind != wanted(&name)).then(|| directory.join(name))
    });
    wrong.collect()
}

fn directories_in(directory: &Utf8Path) -> Vec<Utf8PathBuf> {
    let listed = disk::list(directory).into_iter().flatten();
    let found = listed.filter(|entry| matches!(entry.kind, Ok(FileKind::Directory)));
    found.filter_map(|entry| Some(directory.join(entry.name.into_string().ok()?))).collect()
}

fn remove_anything(path: &Utf8Path) -> Result<(), PathError> {
    match disk::look(path).map(|found| found.kind) {
        Ok(FileKind::Directory) => {
            std::fs::remove_dir_all(path).map_err(|source| PathError::new("remove", path, source))
        }
        Ok(_) => remove_durably(path),
        Err(_) => Ok(()),
    }
}
