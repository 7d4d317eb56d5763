//! Uncommitted leftovers of a run in a slot, as a commit in the mirror.
//!
//! Git runs with the mirror as its repository and the slot as its working tree: none of the slot's configuration,
//! index, attributes, excludes or hooks is used, and objects are written and hashed by the harness. Changed files are
//! found with the private index of the last preparation, moved to the slot's `HEAD`.
//!
//! The result is what `git add --all` would commit. Nested repositories are neither entered nor included. LFS files
//! become pointers, in process; a file that needs any other filter is left out, because its raw content must not be
//! committed (it may be a secret in plain text).

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use camino::{Utf8Path, Utf8PathBuf};

use super::super::call::{Call, path_bytes, path_from};
use super::super::clearing::{FileError, TIMEOUT, remove};
use super::super::commits::{Signing, copy_index, joined, parse_id};
use super::super::differing::{IndexCommand, differing};
use super::super::drivers::Drivers;
use super::super::mirror::Mirror;
use super::super::new_commit::NewCommit;
use super::super::parse::{ChangeKind, PathChange};
use super::super::{Git, GitError, Oid, regular_file};
use super::lfs::LfsPointer;
use super::untouched::Untouched;
use super::{Slot, SlotError, SlotFiles, SlotRequest};

/// The parameters for keeping the uncommitted files of a slot.
#[derive(Clone, Copy, Debug)]
pub struct LeftoverRequest<'a> {
    /// Contains everything reachable from the slot's `HEAD`; see [`Slot::transfer`].
    pub mirror: &'a Mirror,
    /// The author of the commit, and the owner of the LFS store for new contents.
    pub person: &'a Git,
    pub message: &'a str,
}

/// A commit of a slot's uncommitted files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptLeftovers {
    /// `None` if nothing could be included.
    pub commit: Option<Oid>,
    /// The slot's `HEAD`.
    pub parent: Oid,
    /// The changed paths of the commit.
    pub paths: Vec<PathBuf>,
    /// Nested repositories, which are not part of the commit.
    pub nested: Vec<PathBuf>,
    /// Files that need a filter, which are not part of the commit.
    pub unfiltered: Vec<PathBuf>,
}

/// Compares the files of a slot with its base, using the private index of its preparation.
pub(super) fn compare(request: &SlotRequest<'_>) -> Result<SlotFiles, SlotError> {
    let index = request.private.join("index-of-setup");
    remove(&index)?;
    let kept = request.private.join("index");
    copy_index(&kept, &index).map_err(|error| FileError::new("write", &index, error))?;
    let root = request.directory.canonicalize_utf8();
    let root = root.map_err(|error| FileError::new("find", request.directory, error))?;
    let work = Outside { mirror: request.mirror, root: &root, index: &index };
    let changed = work.differing()?.into_iter().map(|change| change.path).collect();
    let made = work.others(&request.private.join("exclude"), &["--directory"])?;
    remove(&index)?;
    Ok(SlotFiles { changed, made: made.iter().map(|name| path_from(name)).collect() })
}

/// Changed files of a slot, by how they are handled.
#[derive(Default)]
struct Changes {
    present: Vec<PathBuf>,
    removed: Vec<PathBuf>,
    nested: Vec<PathBuf>,
    unfiltered: Vec<PathBuf>,
    /// Pointers to the contents of LFS files, with the files' modes.
    pointers: Vec<(PathBuf, LfsPointer, &'static str)>,
}

impl Slot {
    /// Commits the slot's uncommitted files, in the mirror only; `None` if there are none.
    pub fn leftovers(
        &self,
        request: &LeftoverRequest<'_>,
    ) -> Result<Option<KeptLeftovers>, SlotError> {
        let head = self.git().head()?;
        let Some(parent) = head.id().cloned() else { return Ok(None) };
        if self.is_untouched(request.mirror, &parent) {
            return Ok(None);
        }
        let index = self.leftover_index();
        remove(&index)?;
        let kept = self.private.join("index");
        if kept.is_file() {
            copy_index(&kept, &index).map_err(|error| FileError::new("write", &index, error))?;
        }
        let work = Outside { mirror: request.mirror, root: self.directory(), index: &index };
        work.call(&["read-tree", "--reset", parent.as_str()], b"", &[])?;
        let materialised = self.materialised(&work)?;
        let mut changes = work.changes(&self.private.join("exclude"))?;
        if let Some(there) = materialised {
            changes.removed.retain(|path| there.contains(path));
        }
        work.set_filtered_apart(&mut changes)?;
        let tree = work.tree_with(&changes, request.person)?;
        let before = work.tree_of(&parent)?;
        let Changes { nested, unfiltered, .. } = changes;
        if tree == before {
            let nothing = nested.is_empty() && unfiltered.is_empty();
            let kept =
                KeptLeftovers { commit: None, parent, paths: Vec::new(), nested, unfiltered };
            return Ok((!nothing).then_some(kept));
        }
        let commit = work.commit(request, &tree, &parent)?;
        let mirror = request.mirror.git();
        let paths = mirror.plain_changes(&before, &tree)?.into_iter().map(|change| change.path);
        let paths = paths.collect();
        Ok(Some(KeptLeftovers { commit: Some(commit), parent, paths, nested, unfiltered }))
    }

    /// Moves the slot's `HEAD` to the commit of its leftovers, and updates the index; no file is touched.
    pub fn adopt(&self, kept: &KeptLeftovers) -> Result<(), SlotError> {
        let Some(commit) = &kept.commit else { return Ok(()) };
        super::soundness::check(&self.git().place().git_dir, Utf8Path::new(&self.stamp.objects))?;
        let own = self.git().place().git_dir.join("index");
        remove(format!("{own}.lock"))?;
        remove(&own)?;
        copy_index(&self.leftover_index(), &own)
            .map_err(|error| FileError::new("write", &own, error))?;
        let args = ["update-ref", "HEAD", commit.as_str(), kept.parent.as_str()];
        Ok(self.git().call(Call::new(&args)).map(|_| ())?)
    }

    /// Whether a quick scan finds nothing uncommitted.
    fn is_untouched(&self, mirror: &Mirror, head: &Oid) -> bool {
        let absent = self.private.join("index-of-nothing");
        let work = Outside { mirror, root: self.directory(), index: &absent };
        let exclude = self.private.join("exclude");
        let others = |paths: &[PathBuf]| {
            let found = work.others_among(&exclude, &[], paths)?;
            Ok(found.iter().map(|name| path_from(name)).collect())
        };
        let look = Untouched {
            mirror,
            root: self.directory(),
            index: &self.private.join("index"),
            base: &self.stamp.base,
            head,
            others: &others,
        };
        look.is_so().unwrap_or(false)
    }

    fn leftover_index(&self) -> Utf8PathBuf {
        self.private.join("index-of-leftovers")
    }

    /// Returns the files that the last preparation wrote, if it was sparse; the others are not missing.
    fn materialised(&self, work: &Outside<'_>) -> Result<Option<HashSet<PathBuf>>, GitError> {
        let index = self.private.join("index");
        let prepared = Outside { index: &index, ..*work };
        if !index.is_file() {
            return Ok(None);
        }
        let output = prepared.call(&["ls-files", "-v", "-z"], b"", &[])?;
        let mut there = HashSet::new();
        let mut is_sparse = false;
        for entry in output.split(|byte| *byte == 0) {
            match entry {
                [b'S', b' ', ..] => is_sparse = true,
                [_, b' ', path @ ..] => {
                    there.insert(path_from(path));
                }
                _ => {}
            }
        }
        Ok(is_sparse.then_some(there))
    }
}

/// The mirror's repository with the slot's working tree, and the harness's own index.
struct Outside<'a> {
    mirror: &'a Mirror,
    root: &'a Utf8Path,
    index: &'a Utf8Path,
}

impl Outside<'_> {
    fn call(&self, args: &[&str], input: &[u8], accepted: &[i32]) -> Result<Vec<u8>, GitError> {
        self.run(&IndexCommand { args, paths: &[], input, accepted })
    }

    fn run(&self, command: &IndexCommand<'_>) -> Result<Vec<u8>, GitError> {
        let call = Call::new(command.args)
            .env("GIT_DIR", self.mirror.git().place().git_dir.as_str())
            .env("GIT_WORK_TREE", self.root.as_str())
            .env("GIT_INDEX_FILE", self.index.as_str())
            .config("core.fsync", "loose-object")
            .cwd(self.root.as_std_path())
            .input(command.input)
            .timeout(TIMEOUT)
            .accept(command.accepted);
        let call = command.paths.iter().fold(call, |call, path| call.name(path.as_os_str()));
        Ok(call.run(self.mirror.git().program())?.stdout)
    }

    /// Returns the files that differ from the index, which is refreshed.
    fn differing(&self) -> Result<Vec<PathChange>, GitError> {
        differing(&|command| self.run(command), None)
    }

    /// Finds what differs from the index, and what it lacks.
    fn changes(&self, exclude: &Utf8Path) -> Result<Changes, GitError> {
        let mut changes = Changes::default();
        for change in self.differing()? {
            match change.kind {
                ChangeKind::Deleted => changes.removed.push(change.path),
                _ => changes.present.push(change.path),
            }
        }
        for name in self.others(exclude, &[])? {
            match name.strip_suffix(b"/") {
                Some(nested) => changes.nested.push(path_from(nested)),
                None => changes.present.push(path_from(&name)),
            }
        }
        Ok(changes)
    }

    /// Returns what is neither tracked nor ignored; repositories, and with `--directory` whole directories, end in a
    /// slash.
    fn others(&self, exclude: &Utf8Path, how: &[&str]) -> Result<Vec<Vec<u8>>, GitError> {
        self.others_among(exclude, how, &[])
    }

    /// The same at or below some paths; empty for all.
    fn others_among(
        &self,
        exclude: &Utf8Path,
        how: &[&str],
        paths: &[PathBuf],
    ) -> Result<Vec<Vec<u8>>, GitError> {
        let from = format!("--exclude-from={exclude}");
        let mut args = vec!["ls-files", "-z", "--others", "--exclude-per-directory=.gitignore"];
        args.extend(how);
        args.extend(exclude.is_file().then_some(from.as_str()));
        args.push("--");
        let output = self.run(&IndexCommand { args: &args, paths, input: b"", accepted: &[] })?;
        let names = output.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        Ok(names.map(<[u8]>::to_vec).collect())
    }

    /// Separates files that need a filter from those that are committed unchanged.
    fn set_filtered_apart(&self, changes: &mut Changes) -> Result<(), GitError> {
        if changes.present.is_empty() {
            return Ok(());
        }
        let args = ["check-attr", "-z", "--stdin", "filter"];
        let output = self.call(&args, &joined(&changes.present), &[])?;
        let mut fields = output.split(|byte| *byte == 0);
        let mut apart = HashSet::new();
        while let (Some(path), Some(_), Some(filter)) =
            (fields.next(), fields.next(), fields.next())
        {
            let path = path_from(path);
            match filter {
                b"unspecified" | b"unset" | b"set" => continue,
                b"lfs" => match self.pointer(&path) {
                    Some((pointer, mode)) => {
                        changes.pointers.push((path.clone(), pointer, mode));
                    }
                    None => changes.unfiltered.push(path.clone()),
                },
                _ => changes.unfiltered.push(path.clone()),
            }
            apart.insert(path);
        }
        changes.present.retain(|path| !apart.contains(path));
        Ok(())
    }

    /// Returns the pointer to the content of an LFS file.
    fn pointer(&self, path: &Path) -> Option<(LfsPointer, &'static str)> {
        let (mut file, found) = regular_file::open(&self.root.as_std_path().join(path)).ok()?;
        let is_executable = std::os::unix::fs::MetadataExt::mode(&found) & 0o100 != 0;
        let mode = if is_executable { "100755" } else { "100644" };
        if found.len() <= 1024 {
            let bytes = regular_file::read_open(&file, &found).ok()?;
            let pointer = LfsPointer::parse(&bytes);
            let pointer = pointer.or_else(|| LfsPointer::of(&mut bytes.as_slice()).ok());
            return pointer.map(|pointer| (pointer, mode));
        }
        LfsPointer::of(&mut file).ok().map(|pointer| (pointer, mode))
    }

    /// Writes the tree of the index with the changes.
    fn tree_with(&self, changes: &Changes, person: &Git) -> Result<Oid, SlotError> {
        // Removals first: a file may have become a directory. By id and not by name: a path that is now behind a
        // symlink would be refused.
        let mut info = Vec::new();
        let zero = self.mirror.object_format().zero();
        for path in &changes.removed {
            info.extend(format!("0 {zero}\t").bytes());
            info.extend(path_bytes(path).iter().copied().chain([0]));
        }
        for (path, pointer, mode) in &changes.pointers {
            // A file that is itself a pointer has no content to keep.
            pointer.keep(&self.root.as_std_path().join(path), person)?;
            let args = ["hash-object", "-w", "--no-filters", "--stdin"];
            let id = parse_id(&args, &self.call(&args, pointer.to_text().as_bytes(), &[])?)?;
            info.extend(format!("{mode} {id}\t").bytes());
            info.extend(path_bytes(path).iter().copied().chain([0]));
        }
        if !info.is_empty() {
            self.call(&["update-index", "-z", "--index-info"], &info, &[])?;
        }
        if !changes.present.is_empty() {
            let args = ["update-index", "--add", "--remove", "--replace", "-z", "--stdin"];
            self.call(&args, &joined(&changes.present), &[])?;
        }
        Ok(parse_id(&["write-tree"], &self.call(&["write-tree"], b"", &[])?)?)
    }

    fn tree_of(&self, commit: &Oid) -> Result<Oid, GitError> {
        let tree = format!("{commit}^{{tree}}");
        let args = ["rev-parse", "--verify", tree.as_str()];
        parse_id(&args, &self.call(&args, b"", &[])?)
    }

    fn commit(
        &self,
        request: &LeftoverRequest<'_>,
        tree: &Oid,
        parent: &Oid,
    ) -> Result<Oid, SlotError> {
        let made = NewCommit {
            author: None,
            tree,
            parents: &[parent],
            message: request.message,
            signing: Signing::Unsigned,
        };
        let drivers = Drivers::of(request.person)?;
        let commit = made.write(self.mirror.git(), request.person, &drivers)?;
        self.mirror.keep(&commit)?;
        Ok(commit)
    }
}

#[cfg(test)]
#[path = "leftovers_tests.rs"]
mod tests;
