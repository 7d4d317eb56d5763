//! Ralph's own checkouts, for gates and verifiers.
//!
//! A checkout is a directory with two parts: `tree`, which a gate may write, and `git`, which it must not. Objects are
//! borrowed only from the private mirror. Invariant: after [`Checkout::prepare`], `tree` contains exactly the files of
//! the commit and the named caches, whatever was left there before: files hidden by the commit's own `.gitignore`,
//! changed modes, symlinks in place of directories, a redirected `.git`. A cache is kept only if it and every directory
//! above it is a real directory and the commit has no file or symlink at that path; names are paths from the root of
//! the tree, not patterns.
//!
//! No filter runs: LFS files are pointers and submodules empty, until [`Checkout::fill`] fills them from the person's
//! side.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use camino::{Utf8Path, Utf8PathBuf};

use super::call::Call;
use super::clearing::{
    ClearError, FileError, TIMEOUT, clean, file_pattern, is_cache_name, is_real_dir, keep_patterns,
    make_dirs, remove, remove_all_but, unlock,
};
use super::mirror::Mirror;
use super::provision::Provision;
use super::scan::{IndexFile, Part};
use super::settings::Unfit;
use super::slot::{SlotError, Unfilled, fill_checkout};
use super::tree_move::TreeMove;
use super::{Git, GitError, Oid, RepositoryLocation};

/// A checkout could not be created.
#[derive(Debug, thiserror::Error)]
pub enum CheckoutError {
    /// The source lacked files of this commit (a partial clone), so the mirror does too.
    #[error("the mirror lacks files of commit `{commit}`: {detail}")]
    Incomplete { commit: Oid, detail: String },
    /// A tree that no honest commit has: it contains `.git` or the like.
    #[error("commit `{commit}` cannot be checked out: {detail}")]
    UnsafeTree { commit: Oid, detail: String },
    #[error("`{name}` cannot be a cache: it must be a path inside the tree")]
    CacheName { name: Utf8PathBuf },
    #[error(transparent)]
    Files(#[from] FileError),
    #[error("cannot check out commit `{commit}`")]
    Git {
        commit: Oid,
        #[source]
        source: GitError,
    },
}

/// The tree could not be moved from one commit to the other in process.
struct Unmoved;

impl From<Unfit> for Unmoved {
    fn from(_: Unfit) -> Self {
        Unmoved
    }
}

/// The sources of a checkout's submodules and LFS files.
pub struct FillSource<'a> {
    pub mirror: &'a Mirror,
    pub person: &'a Git,
    /// The git directory of the clone in which the work was done, if it is not the person's.
    pub clone: Option<&'a Utf8Path>,
}

/// A checkout of one commit.
#[derive(Clone, Debug)]
pub struct Checkout {
    git: Git,
    commit: Oid,
    worktree: Utf8PathBuf,
    warm: Vec<Utf8PathBuf>,
    provision: Provision,
}

impl Checkout {
    /// Refuses names of caches that lead out of a tree.
    pub fn check_cache_names(caches: &[Utf8PathBuf]) -> Result<(), CheckoutError> {
        match caches.iter().find(|name| !is_cache_name(name)) {
            Some(name) => Err(CheckoutError::CacheName { name: name.clone() }),
            None => Ok(()),
        }
    }

    /// Creates the checkout in `dir`, or resets an existing one, to a commit of the mirror.
    pub fn prepare(
        mirror: &Mirror,
        dir: &Utf8Path,
        commit: &Oid,
        caches: &[Utf8PathBuf],
    ) -> Result<Self, CheckoutError> {
        Self::check_cache_names(caches)?;
        let failed = |source| CheckoutError::Git { commit: commit.clone(), source };
        let provision = Provision::of(mirror.git(), commit).map_err(failed)?;
        make_dirs(dir)?;
        let dir = dir.canonicalize_utf8().map_err(|source| FileError::new("find", dir, source))?;
        let (tree, git_dir) = (dir.join("tree"), dir.join("git"));
        let place = RepositoryLocation {
            git_dir: git_dir.clone(),
            common_dir: git_dir,
            worktree: Some(tree.clone()),
        };
        let git = Git::at(mirror.git().program().clone(), place);
        let mut checkout =
            Checkout { git, commit: commit.clone(), worktree: tree, warm: Vec::new(), provision };
        let reused = checkout.is_intact();
        if !reused {
            checkout.start_over(mirror, caches)?;
        }
        checkout.point_git_file()?;
        // The mirror's history may be shallow; without this file git inside a gate would fail at the edge.
        match fs::copy(mirror.shallow_file(), checkout.git_dir().join("shallow")) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(FileError::new("copy", mirror.shallow_file(), source).into()),
        }
        let last = if reused { checkout.last_commit() } else { None };
        let is_moved = last.is_some_and(|last| checkout.move_from(&last, mirror, caches).is_ok());
        if !is_moved {
            if reused {
                clean(&checkout.git, None, caches).map_err(|error| match error {
                    ClearError::Files(error) => error.into(),
                    ClearError::Git(error) => checkout.explain(error),
                })?;
            }
            checkout.give_way(mirror, caches)?;
            checkout.switch()?;
        }
        checkout.warm =
            caches.iter().filter(|cache| is_real_dir(&checkout.worktree, cache)).cloned().collect();
        checkout.write_stamp()?;
        Ok(checkout)
    }

    /// Returns the directory in which a gate runs, and which it may write.
    pub fn worktree(&self) -> &Utf8Path {
        &self.worktree
    }

    /// Returns the checkout's git directory, which a gate may read and must not write.
    pub(crate) fn git_dir(&self) -> &Utf8Path {
        &self.git.place.git_dir
    }

    pub fn commit(&self) -> &Oid {
        &self.commit
    }

    /// Returns the names of the kept caches.
    pub fn warm_caches(&self) -> &[Utf8PathBuf] {
        &self.warm
    }

    /// Returns what `setup` has to provide.
    pub fn provision(&self) -> &Provision {
        &self.provision
    }

    /// Whether the tree contains anything that is neither in the commit, nor in a cache, nor copied.
    pub fn has_additions(
        &self,
        caches: &[Utf8PathBuf],
        copied: &[PathBuf],
    ) -> Result<bool, CheckoutError> {
        let mut patterns = keep_patterns(caches);
        patterns.extend(copied.iter().map(|path| file_pattern(path)));
        let mut args = vec!["clean", "--dry-run", "-ffdx"];
        args.extend(patterns.iter().flat_map(|pattern| ["-e", pattern.as_str()]));
        let answer = self.git.call(Call::new(&args).timeout(TIMEOUT));
        answer.map(|answer| !answer.stdout.is_empty()).map_err(|error| self.explain(error))
    }

    /// Fills what the commit only references, before any of its code runs: submodules and LFS files, from the person's
    /// own clones and store, and from the store of the clone in which the work was done.
    ///
    /// The index treats filled LFS files as unmodified, so the next preparation must start over.
    pub fn fill(&self, source: &FillSource<'_>) -> Result<Unfilled, SlotError> {
        if self.provision.submodules.is_empty() && !self.provision.needs_lfs {
            return Ok(Unfilled::default());
        }
        let (unfilled, with_lfs) = fill_checkout(self, source)?;
        if with_lfs {
            let filled = ["ls-files", "-z", "--modified"];
            let output = self.git.call(Call::new(&filled).timeout(TIMEOUT))?.stdout;
            let args = ["update-index", "-z", "--assume-unchanged", "--stdin"];
            self.git.call(Call::new(&args).input(&output).timeout(TIMEOUT))?;
            remove(self.stamp_file())?;
        }
        Ok(unfilled)
    }

    pub(crate) fn git(&self) -> &Git {
        &self.git
    }

    /// Restores every tracked file that was changed or removed since the checkout was created, except those for which
    /// `filled` returns true. Additional files and the contents of submodules are kept.
    pub fn put_tracked_back(&self, filled: &dyn Fn(&Path) -> bool) -> Result<(), CheckoutError> {
        let failed = |error| self.explain(error);
        // A process that changes a file can restore its size and mtime, but not its ctime, which the index records too.
        let args = ["diff-files", "-z", "--name-only", "--ignore-submodules=all"];
        let answer = self.git.call(Call::new(&args).timeout(TIMEOUT)).map_err(failed)?;
        let names = answer.stdout.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        let changed = names.map(super::call::path_from).filter(|path| !filled(path));
        let paths: Vec<Vec<u8>> =
            changed.map(|path| path.into_os_string().into_encoded_bytes()).collect();
        if !paths.is_empty() {
            let input = paths.join(&0);
            let args = ["checkout-index", "--force", "--quiet", "-z", "--stdin"];
            self.git.call(Call::new(&args).input(&input).timeout(TIMEOUT)).map_err(failed)?;
        }
        // Without a stamp the next preparation starts over, as it must if LFS files were filled.
        if self.stamp_file().exists() { self.write_stamp() } else { Ok(()) }
    }

    /// Returns the tracked files whose content was changed, or that were removed, since the checkout was created.
    pub fn rewritten(&self) -> Result<Vec<PathBuf>, CheckoutError> {
        let ask = |args: &[&str]| {
            let call = Call::new(args).config("diff.autoRefreshIndex", "false").timeout(TIMEOUT);
            self.git.call(call).map_err(|error| self.explain(error))
        };
        let touched = ask(&["diff-files", "-z", "--name-only", "--ignore-submodules=all"])?;
        if touched.stdout.is_empty() {
            return Ok(Vec::new());
        }
        // What was only touched, or written again as it was, is the same.
        let args = [
            "diff",
            "-z",
            "--name-only",
            "--no-ext-diff",
            "--no-textconv",
            "--ignore-submodules=all",
        ];
        let changed = ask(&args)?.stdout;
        let names = changed.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        Ok(names.map(super::call::path_from).collect())
    }

    fn stamp_file(&self) -> Utf8PathBuf {
        self.git_dir().join("ralph-stamp")
    }

    /// Whether the git directory is unchanged since the last `prepare`.
    ///
    /// A foreign index may claim that a changed file is clean; it is discarded with the tree.
    fn is_intact(&self) -> bool {
        let kept = fs::read_to_string(self.stamp_file());
        kept.is_ok_and(|kept| self.stamp().is_some_and(|stamp| stamp == kept))
    }

    fn stamp(&self) -> Option<String> {
        let mut stamp = Vec::new();
        for name in ["index", "config", "objects/info/alternates"] {
            let at = fs::symlink_metadata(self.git_dir().join(name)).ok()?;
            let times = [at.mtime(), at.mtime_nsec(), at.ctime(), at.ctime_nsec()];
            stamp.push(format!("{name} {} {} {times:?}\n", at.ino(), at.size()));
        }
        Some(stamp.concat())
    }

    fn write_stamp(&self) -> Result<(), CheckoutError> {
        let path = self.stamp_file();
        let stamp = self.stamp().unwrap_or_default();
        Ok(fs::write(&path, stamp).map_err(|source| FileError::new("write", &path, source))?)
    }

    /// Empties the tree except for the caches, and creates a new git directory.
    fn start_over(&self, mirror: &Mirror, caches: &[Utf8PathBuf]) -> Result<(), CheckoutError> {
        let git_dir = self.git_dir().to_owned();
        remove(&git_dir)?;
        make_dirs(&self.worktree)?;
        let kept = caches.iter().filter(|cache| is_real_dir(&self.worktree, cache));
        let kept: Vec<&Path> = kept.map(|cache| cache.as_std_path()).collect();
        remove_all_but(self.worktree.as_std_path(), Path::new(""), &kept)?;
        let format = format!("--object-format={}", mirror.object_format().name());
        let args = ["init", "--quiet", "--bare", "--template=", &format, git_dir.as_str()];
        let failed = |source| CheckoutError::Git { commit: self.commit.clone(), source };
        Call::new(&args).run(self.git.program()).map_err(failed)?;
        let config = git_dir.join("config");
        let text = fs::read_to_string(&config)
            .map_err(|source| FileError::new("read", &config, source))?;
        let text = text.replace("bare = true", "bare = false\n\tautocrlf = false")
            + "[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n";
        fs::write(&config, text).map_err(|source| FileError::new("write", &config, source))?;
        let info = git_dir.join("objects/info");
        make_dirs(&info)?;
        let alternates = info.join("alternates");
        Ok(fs::write(&alternates, format!("{}\n", mirror.objects_dir()))
            .map_err(|source| FileError::new("write", &alternates, source))?)
    }

    /// Returns the commit of the last preparation.
    fn last_commit(&self) -> Option<Oid> {
        let head = fs::read(self.git_dir().join("HEAD")).ok()?;
        Oid::parse(head.trim_ascii())
    }

    /// Moves the tree from the commit of the last preparation to this one, after a single scan for changes. On failure,
    /// everything still has to be done.
    fn move_from(
        &self,
        last: &Oid,
        mirror: &Mirror,
        caches: &[Utf8PathBuf],
    ) -> Result<(), Unmoved> {
        let kind = mirror.object_format().kind();
        let index = self.git_dir().join("index");
        let known = IndexFile::read(index.as_std_path(), kind)?;
        let kept = caches.iter().filter(|cache| is_real_dir(&self.worktree, cache));
        let kept: Vec<PathBuf> = kept.map(|cache| cache.as_std_path().to_owned()).collect();
        let part = Part { kept: &kept, ..Part::default() };
        let root = self.worktree.as_std_path();
        let mut found = known.scan(root, &part)?;
        known.confirm(root, &mut found, kind);
        for other in &found.others {
            remove(root.join(other)).map_err(|_| Unmoved)?;
        }
        let step = TreeMove {
            git: &self.git,
            kind,
            index: &index,
            from: last,
            to: &self.commit,
            unsure: &found.unsure,
        };
        step.make(&known)?;
        if *last != self.commit {
            let args = ["update-ref", "--no-deref", "HEAD", self.commit.as_str()];
            self.run(&args).map_err(|_| Unmoved)?;
        }
        Ok(())
    }

    /// Writes the `.git` file, so that tools in a gate find their commit.
    fn point_git_file(&self) -> Result<(), CheckoutError> {
        let path = self.worktree.join(".git");
        let text = format!("gitdir: {}\n", self.git_dir());
        let is_file = fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_file());
        if is_file && fs::read_to_string(&path).is_ok_and(|found| found == text) {
            return Ok(());
        }
        remove(&path)?;
        Ok(fs::write(&path, text).map_err(|source| FileError::new("write", &path, source))?)
    }

    /// Removes each cache at whose path the commit has something other than a directory.
    fn give_way(&self, mirror: &Mirror, caches: &[Utf8PathBuf]) -> Result<(), CheckoutError> {
        let existing: Vec<&Utf8PathBuf> =
            caches.iter().filter(|cache| is_real_dir(&self.worktree, cache)).collect();
        if existing.is_empty() {
            return Ok(());
        }
        let failed = |source| CheckoutError::Git { commit: self.commit.clone(), source };
        // Every directory above counts as well: `a` may be a symlink where `a/target` is a cache.
        let places = existing.iter().flat_map(|cache| cache.ancestors());
        let mut places: Vec<&str> =
            places.map(Utf8Path::as_str).filter(|place| !place.is_empty()).collect();
        places.sort_unstable();
        places.dedup();
        let args = ["ls-tree", "-z", "--full-tree", self.commit.as_str(), "--"];
        let call = Call::new(&args).args(places);
        let output = mirror.git().call(call).map_err(failed)?.stdout;
        let entries = super::parse::parse_tree(&output)
            .ok_or_else(|| failed(super::unexpected(&args, &output)))?;
        for entry in entries.iter().filter(|entry| entry.mode != "040000") {
            if let Some(place) = Utf8Path::from_path(&entry.path) {
                remove(self.worktree.join(place))?;
            }
        }
        Ok(())
    }

    /// Sets index and files to those of the commit.
    fn switch(&self) -> Result<(), CheckoutError> {
        let args = ["checkout", "--quiet", "--force", "--detach", self.commit.as_str()];
        let Err(first) = self.run(&args) else { return Ok(()) };
        unlock(self.worktree.as_std_path(), &[])?;
        self.run(&args).map_err(|_| self.explain(first))
    }

    fn run(&self, args: &[&str]) -> Result<(), GitError> {
        self.git.call(Call::new(args).timeout(TIMEOUT)).map(|_| ())
    }

    fn explain(&self, error: GitError) -> CheckoutError {
        let commit = self.commit.clone();
        match error {
            GitError::Failed { stderr, .. } if stderr.contains("invalid path") => {
                CheckoutError::UnsafeTree { commit, detail: stderr }
            }
            GitError::Failed { stderr, .. } if stderr.contains("unable to read") => {
                CheckoutError::Incomplete { commit, detail: stderr }
            }
            source => CheckoutError::Git { commit, source },
        }
    }
}

#[cfg(test)]
#[path = "checkout_tests.rs"]
mod tests;
