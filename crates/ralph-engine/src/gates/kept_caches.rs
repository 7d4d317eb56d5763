//! The directories that `checkout.cache` names, kept from one accepted commit to the next.
//!
//! Each gate has its own set, so that no gate finds what another one left. A run at a candidate works on a copy of the
//! accepted set, and what it leaves becomes the accepted set only if its commit is in the history that later work begins
//! from ([`KeptCaches::settle`]). So only code of accepted commits has ever written to the files that a run begins with.
//! On file systems that can share blocks between files, copies cost next to nothing.
//!
//! What `setup` makes for one gate of a candidate is copied for the others, before the gate runs.
//!
//! Build tools compare modification times: copies keep those of the cache, and files of the commit with a forged time
//! get the present one ([`KeptCaches::bring`]).
//!
//! A set that cannot be copied is removed, and the run begins without it.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use camino::{Utf8Path, Utf8PathBuf};
use ralph_proc::removal::remove_tree;
use rustix::fs::{Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, futimens};
use serde::{Deserialize, Serialize};

use crate::files::{PathError, create_private_directory, read_optional, replace_unsynced};
use crate::git::Oid;
use crate::state::file_name;

/// What the last complete `setup` was, and what it left in the caches.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct SetUp {
    pub(super) key: String,
    pub(super) caches: Vec<Utf8PathBuf>,
}

/// The commit whose run left a set, and the `setup` that is in it.
#[derive(Serialize, Deserialize)]
struct Filler {
    commit: String,
    setup: Option<SetUp>,
}

/// The file of a set that says who filled it; a set without it is incomplete.
const FILLER: &str = "filler.json";
const ACCEPTED: &str = "accepted";
const LATEST: &str = "latest";

/// A file is taken for one with a forged time if it was changed this much later than it says. A checkout writes a file and
/// its time at once.
const FORGED: i128 = SECOND / 10;
/// In nanoseconds.
const SECOND: i128 = 1_000_000_000;

/// The sets of all gates of one checkout.
pub(super) struct KeptCaches {
    directory: Utf8PathBuf,
}

impl KeptCaches {
    pub(super) fn new(checkout: &Utf8Path) -> KeptCaches {
        KeptCaches { directory: checkout.join("caches") }
    }

    fn set(&self, gate: &str, which: &str) -> Utf8PathBuf {
        self.directory.join(file_name(gate)).join(which)
    }

    fn made_by_setup(&self) -> Utf8PathBuf {
        self.directory.with_file_name("caches-of-setup")
    }

    /// Makes each gate's latest set its accepted one if the commit that filled it is accepted; removes it otherwise.
    pub(super) fn settle(&self, is_accepted: &dyn Fn(&Oid) -> bool) -> Result<(), PathError> {
        removed(&self.made_by_setup())?;
        for gate in self.directory.read_dir_utf8().into_iter().flatten().flatten() {
            let [accepted, latest] = [ACCEPTED, LATEST].map(|which| gate.path().join(which));
            if !latest.exists() {
                continue;
            }
            let filler = filler_of(&latest)?;
            let commit = filler.and_then(|filler| Oid::parse(filler.commit.as_bytes()));
            if !commit.is_some_and(|commit| is_accepted(&commit)) {
                removed(&latest)?;
                continue;
            }
            removed(&accepted)?;
            fs::rename(&latest, &accepted)
                .map_err(|source| PathError::new("rename", &latest, source))?;
        }
        Ok(())
    }

    /// Copies a gate's accepted set into a tree that has nothing but the files of a commit, or the one that `setup` has made
    /// for the commit. Returns the caches that came along, and the `setup` that is in them.
    pub(super) fn bring(
        &self,
        gate: &str,
        commit: &Oid,
        tree: &Utf8Path,
        caches: &[Utf8PathBuf],
    ) -> Result<(Vec<Utf8PathBuf>, Option<SetUp>), PathError> {
        removed(&self.set(gate, LATEST))?;
        let accepted = self.set(gate, ACCEPTED);
        let (mut from_set, mut filler) = (accepted.clone(), filler_of(&accepted)?);
        let made = filler_of(&self.made_by_setup())?.filter(|made| made.commit == commit.as_str());
        let key = |filler: &Filler| filler.setup.as_ref().map(|setup| setup.key.clone());
        if let Some(made) = made
            && filler.as_ref().and_then(key) != key(&made)
        {
            (from_set, filler) = (self.made_by_setup(), Some(made));
        }
        let Some(filler) = filler else {
            removed(&accepted)?;
            return Ok((Vec::new(), None));
        };
        let mut brought = Vec::new();
        for cache in caches {
            let from = from_set.join(cache);
            if !is_real_directory(&from) {
                continue;
            }
            // A commit that has a link or a file there has no such cache.
            let Ok(to) = make_way(tree, cache) else { continue };
            if copy(from.as_ref(), to.as_ref()).is_err() {
                let reached = caches.iter().filter(|cache| is_reached_without_links(tree, cache));
                for cache in reached {
                    removed(&tree.join(cache))?;
                }
                removed(&from_set)?;
                return Ok((Vec::new(), None));
            }
            brought.push(cache.clone());
        }
        if !brought.is_empty() {
            let of_tree = |source| PathError::new("read", tree, source);
            renew_forged(tree.as_ref(), &tree_paths(tree, caches)).map_err(of_tree)?;
        }
        Ok((brought, filler.setup))
    }

    /// Copies what `setup` made in the caches for other gates at the same commit. If that fails, it runs again for them.
    pub(super) fn keep_set_up(
        &self,
        tree: &Utf8Path,
        caches: &[Utf8PathBuf],
        commit: &Oid,
        setup: &SetUp,
    ) -> Result<(), PathError> {
        let made = self.made_by_setup();
        removed(&made)?;
        let is_copied =
            caches.iter().filter(|cache| is_reached_without_links(tree, cache)).all(|cache| {
                let to = made.join(cache);
                create_private_directory(&to).is_ok()
                    && copy(tree.join(cache).as_ref(), to.as_ref()).is_ok()
            });
        if !is_copied {
            return removed(&made);
        }
        fill(&made, commit, Some(setup.clone()))
    }

    /// Takes what a run at a commit left in its caches out of the tree.
    pub(super) fn keep(
        &self,
        gate: &str,
        tree: &Utf8Path,
        caches: &[Utf8PathBuf],
        commit: &Oid,
        setup: Option<SetUp>,
    ) -> Result<(), PathError> {
        let latest = self.set(gate, LATEST);
        removed(&latest)?;
        for cache in caches {
            let (from, to) = (tree.join(cache), latest.join(cache));
            if !is_reached_without_links(tree, cache) {
                continue;
            }
            to.parent().map_or(Ok(()), create_private_directory)?;
            // One that cannot be moved is removed with the next reset.
            let _ = fs::rename(&from, &to);
        }
        fill(&latest, commit, setup)
    }
}

/// Notes who filled a set, which makes it complete.
fn fill(set: &Utf8Path, commit: &Oid, setup: Option<SetUp>) -> Result<(), PathError> {
    create_private_directory(set)?;
    let filler = Filler { commit: commit.to_string(), setup };
    let text = serde_json::to_vec(&filler).expect("it is plain data");
    replace_unsynced(&set.join(FILLER), &text)
}

fn filler_of(set: &Utf8Path) -> Result<Option<Filler>, PathError> {
    let text = read_optional(&set.join(FILLER))?;
    Ok(text.and_then(|text| serde_json::from_slice(&text).ok()))
}

fn removed(path: &Utf8Path) -> Result<(), PathError> {
    remove_tree(path.as_std_path()).map_err(|source| PathError::new("remove", path, source))
}

fn is_real_directory(path: &Utf8Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
}

/// Whether a cache is a directory, and so is each one above it in the tree.
fn is_reached_without_links(tree: &Utf8Path, cache: &Utf8Path) -> bool {
    let mut above = cache.ancestors().filter(|part| !part.as_str().is_empty());
    above.all(|part| is_real_directory(&tree.join(part)))
}

/// Makes the directories above a cache, through no link of the commit's.
fn make_way(tree: &Utf8Path, cache: &Utf8Path) -> io::Result<Utf8PathBuf> {
    let mut path = tree.to_owned();
    for part in cache.components() {
        path.push(part);
        match fs::create_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if !is_real_directory(&path) {
                    return Err(io::ErrorKind::NotADirectory.into());
                }
            }
            made => made?,
        }
    }
    Ok(path)
}

/// Copies what is in one directory into another. What is there already stays: it is of the commit.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let (kind, found) = (entry.file_type()?, fs::symlink_metadata(&target));
        if kind.is_dir() {
            match found {
                Err(_) => fs::create_dir(&target)?,
                Ok(found) if found.is_dir() => {}
                Ok(_) => continue,
            }
            copy(&source, &target)?;
            let metadata = fs::symlink_metadata(&source)?;
            File::open(&target)?.set_modified(metadata.modified()?)?;
            fs::set_permissions(&target, metadata.permissions())?;
        } else if found.is_err() && kind.is_symlink() {
            symlink(fs::read_link(&source)?, &target)?;
        } else if found.is_err() && kind.is_file() {
            fs::copy(&source, &target)?;
            let modified = fs::symlink_metadata(&source)?.modified()?;
            File::open(&target)?.set_modified(modified)?;
        }
    }
    Ok(())
}

/// The caches as they are named in a tree.
fn tree_paths(tree: &Utf8Path, caches: &[Utf8PathBuf]) -> Vec<PathBuf> {
    caches.iter().map(|cache| tree.join(cache).into_std_path_buf()).collect()
}

/// Gives the present time to files that claim to be older than they are. Otherwise a candidate's gate could make a source
/// older than the cached product of its accepted version, and the next gate would test that product.
fn renew_forged(directory: &Path, but: &[PathBuf]) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        if kind.is_dir() && !but.contains(&path) {
            renew_forged(&path, but)?;
        }
        if !kind.is_file() {
            continue;
        }
        let found = fs::symlink_metadata(&path)?;
        let nanoseconds =
            |seconds: i64, below: i64| i128::from(seconds) * SECOND + i128::from(below);
        let written = nanoseconds(found.ctime(), found.ctime_nsec());
        if written - nanoseconds(found.mtime(), found.mtime_nsec()) > FORGED {
            let present = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
            let same = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
            let times = Timestamps { last_access: same, last_modification: present };
            futimens(File::open(&path)?, &times)?;
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "kept_caches_tests.rs"]
mod tests;
