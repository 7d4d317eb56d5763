//! Slots: the harness's own clones in which agents work, out of reach of the person's repository.
//!
//! A slot is a working tree with a `.git` that borrows its objects from the private mirror. An agent may write all of
//! it; so [`Slot::prepare`] removes `.git` without following symlinks and recreates it, and makes the files exactly
//! those of the base except for named caches. What must survive an agent (the index of the last preparation, the
//! excludes, the completion stamp) is in a private directory outside the slot.
//!
//! After a run the slot is hostile. [`Slot::open`] checks that `.git` is still a directory of this slot made only of
//! files and directories; git then runs in it with the settings of [`call`](super::call), which start no program named
//! by a repository. No process of the run may be alive during any of this.
//!
//! Left out: running `[checkout] setup` ([`Slot::settle`] cleans up after it), copied files ([`super::copied`]), and
//! anything that needs a network. Missing submodules and LFS files are reported in [`Unfilled`].

mod config_text;
mod files;
mod git_dir;
mod leftovers;
mod lfs;
mod person_side;
mod soundness;
mod submodules;
mod untouched;

use std::path::PathBuf;

use camino::{Utf8Path, Utf8PathBuf};

use super::call::{Call, path_bytes};
use super::checkout::{Checkout, FillSource};
use super::clearing::{
    FileError, escape_bytes, file_pattern, is_cache_name, keep_patterns, make_dirs, remove,
    unlock_one,
};
use super::commits::CommitError;
use super::item_refs::ItemKey;
use super::mirror::{Mirror, MirrorError};
use super::names::ref_bytes;
use super::provision::Provision;
use super::{Git, GitError, GitProgram, Oid, RefsSnapshot, RepositoryLocation, read_regular};
use files::{Others, WorkTree, read_private};
use git_dir::{GitDir, NewHead, SymbolicRef};
pub use leftovers::{KeptLeftovers, LeftoverRequest};
use person_side::{PersonSide, shared_refs};
pub use soundness::check_files;

/// The parameters of a slot.
#[derive(Clone, Copy, Debug)]
pub struct SlotRequest<'a> {
    /// The working tree. Created if needed; its content is replaced.
    pub directory: &'a Utf8Path,
    /// A directory outside the slot, one for each slot, that no agent can write.
    pub private: &'a Utf8Path,
    pub mirror: &'a Mirror,
    /// The person's repository.
    pub person: &'a Git,
    /// The person's refs, as imported by the mirror.
    pub refs: &'a RefsSnapshot,
    pub base: &'a Oid,
    /// The item's branch, in full; see [`branch_for`].
    pub branch: &'a str,
    /// The run's branch, in full, and its target.
    pub run_branch: Option<(&'a str, &'a Oid)>,
    /// Directories relative to the root of the working tree that are kept.
    pub caches: &'a [Utf8PathBuf],
    /// Paths relative to the root of the working tree that are never work: created by `setup` or copied.
    pub exclude: &'a [PathBuf],
}

/// A slot could not be prepared or opened.
#[derive(Debug, thiserror::Error)]
pub enum SlotError {
    /// Something in the directory cannot be removed or replaced. Another directory must be used.
    #[error("the slot `{directory}` cannot be cleared: {detail}")]
    Uncleared { directory: Utf8PathBuf, detail: String },
    /// The repository in the slot is no longer the one that was created there.
    #[error(
        "the repository of the slot was replaced or damaged: `{}` {problem}",
        super::shown(path)
    )]
    Tampered { path: PathBuf, problem: &'static str },
    #[error("the mirror lacks files of commit `{commit}`: {detail}")]
    Incomplete { commit: Oid, detail: String },
    #[error("commit `{commit}` cannot be checked out: {detail}")]
    UnsafeTree { commit: Oid, detail: String },
    #[error("`{name}` cannot be a cache: it must be a path inside the tree")]
    CacheName { name: Utf8PathBuf },
    #[error(transparent)]
    Files(#[from] FileError),
    #[error(transparent)]
    Mirror(#[from] MirrorError),
    #[error(transparent)]
    Commit(#[from] CommitError),
    #[error(transparent)]
    Git(#[from] GitError),
}

impl SlotError {
    /// Returns advice for the person.
    pub fn hint(&self) -> Option<String> {
        match self {
            SlotError::Uncleared { directory, .. } => Some(format!(
                "remove `{directory}` by hand (it may hold immutable files or mount points); another slot is used until then"
            )),
            SlotError::Incomplete { .. } => Some(
                "fetch the missing objects in your own repository: git fetch --refetch".to_owned(),
            ),
            SlotError::CacheName { .. } => {
                Some("name a directory below the root of the repository".to_owned())
            }
            SlotError::Git(error) => error.hint(),
            _ => None,
        }
    }
}

/// What a slot lacks because the person's own repository lacks it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unfilled {
    /// Submodules that stay empty, relative to the root of the working tree.
    pub submodules: Vec<PathBuf>,
    /// LFS files that stay pointers.
    pub lfs: Vec<PathBuf>,
}

/// Files of a slot that differ from its base.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlotFiles {
    /// Tracked files that were changed or removed.
    pub changed: Vec<PathBuf>,
    /// Files and whole directories that are neither tracked nor ignored; a directory's name ends in a slash.
    pub made: Vec<PathBuf>,
}

impl SlotFiles {
    /// Scans a slot that was prepared with this request. No file of the slot's own repository is used.
    pub fn of(request: &SlotRequest<'_>) -> Result<SlotFiles, SlotError> {
        leftovers::compare(request)
    }
}

/// A prepared slot.
#[derive(Clone, Debug)]
pub struct Slot {
    git: Git,
    private: Utf8PathBuf,
    stamp: Stamp,
}

/// The record in the private directory of a completed preparation.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp {
    directory: String,
    branch: String,
    base: Oid,
    /// The objects that the slot borrows.
    objects: String,
}

/// Fills a checkout's submodules and LFS files; the latter only if the person's own checkouts have them filled, which
/// the caller says.
pub(crate) fn fill_checkout(
    checkout: &Checkout,
    source: &FillSource<'_>,
) -> Result<(Unfilled, bool), SlotError> {
    let with_lfs = checkout.provision().needs_lfs && PersonSide::read(source.person)?.uses_lfs();
    let private = checkout.git_dir().join("ralph-filled");
    make_dirs(&private)?;
    let filling = submodules::Filling {
        person: source.person,
        mirror: source.mirror,
        git: checkout.git(),
        private: &private,
    };
    let stores: Vec<&Utf8Path> = source.clone.into_iter().collect();
    let unfilled = filling.fill_all(checkout.commit(), checkout.provision(), with_lfs, &stores)?;
    Ok((unfilled, with_lfs))
}

impl Slot {
    /// Prepares the slot for an item, whatever is in its directory.
    pub fn prepare(request: &SlotRequest<'_>) -> Result<(Self, Unfilled), SlotError> {
        Self::make(request, Others::Removed)
    }

    /// Prepares the slot once more after commands of the project (`setup`) have run in it: their changes to tracked
    /// files are reverted, files they created are kept and excluded. The repository is recreated, because they could
    /// write it.
    ///
    /// Also returns what was reverted and what they created, the latter as patterns that are excluded from now on.
    pub fn settle(
        request: &SlotRequest<'_>,
        before: &SlotFiles,
    ) -> Result<(Self, SlotFiles), SlotError> {
        let mut after = SlotFiles::of(request)?;
        after.changed.retain(|path| !before.changed.contains(path));
        let made = after.made.iter().filter(|path| !before.made.contains(path));
        let exclude: Vec<PathBuf> = request.exclude.iter().chain(made).cloned().collect();
        let request = SlotRequest { exclude: &exclude, ..*request };
        let (slot, _) = Self::make(&request, Others::Kept)?;
        after.made.retain(|path| !before.made.contains(path));
        Ok((slot, after))
    }

    /// Whether the slot contains anything that is neither in its base, nor in a cache, nor copied.
    pub fn has_additions(&self, request: &SlotRequest<'_>) -> Result<bool, SlotError> {
        let mut patterns = keep_patterns(request.caches);
        patterns.extend(request.exclude.iter().map(|path| file_pattern(path)));
        let mut args = vec!["clean", "--dry-run", "-ffdx"];
        args.extend(patterns.iter().flat_map(|pattern| ["-e", pattern.as_str()]));
        let call = Call::new(&args).timeout(super::clearing::TIMEOUT);
        Ok(!self.git.call(call)?.stdout.is_empty())
    }

    fn make(request: &SlotRequest<'_>, others: Others) -> Result<(Self, Unfilled), SlotError> {
        if let Some(name) = request.caches.iter().find(|name| !is_cache_name(name)) {
            return Err(SlotError::CacheName { name: name.clone() });
        }
        make_dirs(request.private)?;
        let last = read_private(&stamp_file(request.private));
        let last = last.and_then(|bytes| Stamp::parse(&bytes));
        remove(stamp_file(request.private))?;
        make_dirs(request.directory)?;
        let directory = request.directory.canonicalize_utf8();
        let directory =
            directory.map_err(|error| FileError::new("find", request.directory, error))?;
        let uncleared = |error: FileError| SlotError::Uncleared {
            directory: directory.clone(),
            detail: format!("{error}: {}", error.source),
        };
        unlock_one(directory.as_std_path()).map_err(uncleared)?;
        remove(directory.join(".git")).map_err(uncleared)?;
        let person = PersonSide::read(request.person)?;
        let exclude = excludes(request, &person);
        write_private(&request.private.join("exclude"), &exclude)?;
        let symbolic = person.symbolic(request.refs)?;
        new_git_dir(request, &person, &directory, symbolic)?.write()?;
        let program = request.mirror.git().program().clone();
        let git = Git::at(program, location(&directory));
        let last = last.filter(|last| last.directory == directory.as_str());
        let tree = WorkTree {
            git: &git,
            index: request.private.join("index"),
            caches: request.caches,
            last: last.as_ref().map(|last| &last.base),
            kind: request.mirror.object_format().kind(),
        };
        tree.check_out(request.base, others)?;
        let provision = Provision::of(request.mirror.git(), request.base)?;
        let filling = submodules::Filling {
            person: request.person,
            mirror: request.mirror,
            git: &git,
            private: request.private,
        };
        let uses_lfs = person.uses_lfs();
        let unfilled = filling.fill_all(request.base, &provision, uses_lfs, &[])?;
        let stamp = Stamp {
            directory: directory.into_string(),
            branch: request.branch.to_owned(),
            base: request.base.clone(),
            objects: request.mirror.objects_dir().into_string(),
        };
        write_private(&stamp_file(request.private), &stamp.to_bytes())?;
        Ok((Slot { git, private: request.private.to_owned(), stamp }, unfilled))
    }

    /// Opens a slot as a run left it; `None` if its last preparation was not completed, or was for another directory.
    ///
    /// Nothing in the working tree is touched, so that an item continues where it was.
    pub fn open(
        program: &GitProgram,
        directory: &Utf8Path,
        private: &Utf8Path,
    ) -> Result<Option<Self>, SlotError> {
        let stamp = read_private(&stamp_file(private)).and_then(|bytes| Stamp::parse(&bytes));
        let Some(stamp) = stamp else { return Ok(None) };
        let Ok(directory) = directory.canonicalize_utf8() else { return Ok(None) };
        if stamp.directory != directory {
            return Ok(None);
        }
        let place = location(&directory);
        soundness::check(&place.git_dir, Utf8Path::new(&stamp.objects))?;
        let git = Git::at(program.clone(), place);
        Ok(Some(Slot { git, private: private.to_owned(), stamp }))
    }

    /// Returns the slot's repository. Its answers are untrusted; its content is true only once it is in the mirror.
    pub fn git(&self) -> &Git {
        &self.git
    }

    /// Returns the item's branch, in full.
    pub fn branch(&self) -> &str {
        &self.stamp.branch
    }

    pub fn base(&self) -> &Oid {
        &self.stamp.base
    }

    fn directory(&self) -> &Utf8Path {
        Utf8Path::new(&self.stamp.directory)
    }

    /// Points a ref of the slot to an object of the mirror (`refs/remotes/ralph/tip`).
    pub fn point(&self, name: &str, id: &Oid) -> Result<(), SlotError> {
        soundness::check(&self.git.place().git_dir, Utf8Path::new(&self.stamp.objects))?;
        let bytes = ref_bytes(name);
        let name = <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(&bytes);
        let args = ["update-ref", "--no-deref"];
        let call = Call::new(&args).name(name).name(id.as_str().as_ref());
        Ok(self.git.call(call).map(|_| ())?)
    }

    /// Imports everything that the slot's refs and `HEAD`s point to into the mirror, hashed and checked on arrival.
    pub fn transfer(&self, mirror: &Mirror) -> Result<RefsSnapshot, SlotError> {
        soundness::check(&self.git.place().git_dir, Utf8Path::new(&self.stamp.objects))?;
        Ok(mirror.fill_from_slot(&self.git)?)
    }
}

/// Returns the full name of the branch for an item's work, without conflicts with the person's branches.
pub fn branch_for(key: &ItemKey, refs: &RefsSnapshot) -> String {
    let clashes = |name: &str| {
        refs.refs.iter().any(|other| {
            let below = |one: &str, other: &str| {
                one.strip_prefix(other).is_some_and(|rest| rest.starts_with('/'))
            };
            other.name == name || below(name, &other.name) || below(&other.name, name)
        })
    };
    let numbered = (2..).map(|number| format!("refs/heads/ralph-{key}-{number}"));
    let names = ["refs/heads/ralph/", "refs/heads/ralph-"].map(|start| format!("{start}{key}"));
    let free = names.into_iter().chain(numbered).find(|name| !clashes(name));
    free.unwrap_or_else(|| format!("refs/heads/ralph/{key}"))
}

impl Stamp {
    const VERSION: &'static str = "1";

    fn to_bytes(&self) -> Vec<u8> {
        let Stamp { directory, branch, base, objects } = self;
        [Self::VERSION, directory, branch, base.as_str(), objects].join("\0").into_bytes()
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let [Self::VERSION, directory, branch, base, objects] =
            text.split('\0').collect::<Vec<_>>()[..]
        else {
            return None;
        };
        Some(Stamp {
            directory: directory.to_owned(),
            branch: branch.to_owned(),
            base: Oid::parse(base.as_bytes())?,
            objects: objects.to_owned(),
        })
    }
}

fn stamp_file(private: &Utf8Path) -> Utf8PathBuf {
    private.join("prepared")
}

fn write_private(path: &Utf8Path, content: &[u8]) -> Result<(), FileError> {
    // Never through a symlink, although only Ralph should write there.
    remove(path)?;
    git_dir::write(path.as_std_path(), content)
}

fn location(directory: &Utf8Path) -> RepositoryLocation {
    let git_dir = directory.join(".git");
    RepositoryLocation {
        git_dir: git_dir.clone(),
        common_dir: git_dir,
        worktree: Some(directory.to_owned()),
    }
}

/// Returns the patterns of everything that is never work, except those of the person's own configuration.
fn excludes(request: &SlotRequest<'_>, person: &PersonSide<'_>) -> Vec<u8> {
    let mut text = person.excluded_everywhere();
    text.push(b'\n');
    text.extend(person.exclude());
    text.push(b'\n');
    for pattern in keep_patterns(request.caches) {
        text.extend(pattern.bytes());
        text.push(b'\n');
    }
    for path in request.exclude {
        text.push(b'/');
        text.extend(escape_bytes(path_bytes(path)));
        text.push(b'\n');
    }
    text
}

/// A key for the state of all lock files of a commit: the same key means the same dependencies.
pub fn setup_key(mirror: &Mirror, commit: &Oid) -> Result<String, GitError> {
    Ok(Provision::of(mirror.git(), commit)?.setup_key)
}

/// Returns the total size of a commit's files in bytes.
pub fn checkout_size(mirror: &Mirror, commit: &Oid) -> Result<u64, GitError> {
    let args = ["ls-tree", "-r", "-l", "-z", "--full-tree", commit.as_str()];
    let output = mirror.git().call(Call::new(&args).timeout(super::LONG))?.stdout;
    let size = |entry: &[u8]| {
        let fields = entry.split(|byte| *byte == b'\t').next().unwrap_or_default();
        let last = fields.split(|byte| *byte == b' ').next_back().unwrap_or_default();
        std::str::from_utf8(last).ok().and_then(|text| text.parse::<u64>().ok()).unwrap_or(0)
    };
    Ok(output.split(|byte| *byte == 0).map(size).sum())
}

fn new_git_dir<'a>(
    request: &SlotRequest<'a>,
    person: &PersonSide<'_>,
    directory: &Utf8Path,
    symbolic: Vec<SymbolicRef>,
) -> Result<GitDir<'a>, SlotError> {
    let mut refs: Vec<(Vec<u8>, Oid)> = shared_refs(request.refs).collect();
    refs.retain(|(name, _)| !symbolic.iter().any(|(other, _)| other == name));
    let own = [Some((request.branch, request.base)), request.run_branch];
    let own = own.into_iter().flatten();
    refs.extend(own.map(|(name, id)| (ref_bytes(name).into_owned(), id.clone())));
    Ok(GitDir {
        path: directory.join(".git"),
        format: request.mirror.object_format(),
        objects: request.mirror.objects_dir(),
        shallow: read_shallow(request.mirror)?,
        head: NewHead::Branch(request.branch.as_bytes()),
        refs,
        symbolic,
        config: person.config(request.run_branch.map(|(name, _)| name)),
        exclude: excludes(request, person),
        attributes: person.attributes(),
        sparse: person.sparse(),
        hooks: person.hooks(),
    })
}

fn read_shallow(mirror: &Mirror) -> Result<Option<Vec<u8>>, FileError> {
    let path = mirror.shallow_file();
    read_regular(path.as_std_path()).map_err(|error| FileError::new("read", path, error))
}

#[cfg(test)]
#[path = "slot_tests.rs"]
pub(super) mod tests;
