//! The resources with which one Ralph runs its agents sequentially: a scratch directory and the record of the current
//! run.
//!
//! Both are created once and reused: creating and removing directories for every run would cost more than the guard.
//! Between two runs everything left in the scratch directory is removed.
//!
//! The scratch directory is directly below the system's temporary directory, because programs create unix sockets in it
//! and such a path is limited to about a hundred bytes.

use std::cell::{Cell, OnceCell, RefCell};
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;

use camino::{Utf8Path, Utf8PathBuf};
use ralph_proc::launcher::Launcher;
use ralph_proc::removal::remove_tree;

use super::fresh_nonce;
use crate::boundary::{Baseline, Outside, repositories};
use crate::files::PathError;
use crate::git::{Git, GitProgram, RepositoryLocation};
use crate::state::{LiveRecord, State};

/// The resources of this process for its runs.
#[derive(Debug)]
pub struct RunResources {
    pub(crate) scratch: Scratch,
    pub(crate) live: LiveRecord,
    pub(crate) launcher: RefCell<Launcher>,
    pub(super) baseline: RefCell<Baseline>,
    pub(crate) outside: RefCell<Outside>,
    /// Looked up once: a run can redirect a repository.
    repositories: OnceCell<Vec<RepositoryLocation>>,
    /// The person's git identity, as variables. Read once, before a run can change it.
    identity: OnceCell<Vec<(&'static str, String)>>,
}

impl RunResources {
    pub fn open(state: &State) -> Result<RunResources, PathError> {
        let baseline = RefCell::new(Baseline::new(state.baseline()));
        let (scratch, live) = (Scratch::create()?, state.live_record()?);
        let (launcher, outside) = (RefCell::default(), RefCell::default());
        let (repositories, identity) = (OnceCell::new(), OnceCell::new());
        Ok(RunResources { scratch, live, launcher, baseline, outside, repositories, identity })
    }

    /// The resources of simulated runs, without a real scratch directory.
    #[cfg(test)]
    pub(crate) fn simulated(state: &State) -> Result<RunResources, PathError> {
        let scratch = Scratch { path: "/simulated-scratch".into(), empty: Cell::new(None) };
        let baseline = RefCell::new(Baseline::new(state.baseline()));
        let (live, launcher) = (state.live_record()?, RefCell::default());
        let outside = RefCell::default();
        let (repositories, identity) = (OnceCell::new(), OnceCell::from(Vec::new()));
        Ok(RunResources { scratch, live, launcher, baseline, outside, repositories, identity })
    }

    /// The path of a run's outbox.
    pub(crate) fn outbox(&self) -> Utf8PathBuf {
        self.scratch.outbox()
    }

    /// Returns the person's git identity as variables: an agent that hides their configuration can still commit.
    pub(super) fn identity(
        &self,
        workspace: &Utf8Path,
        program: impl FnOnce() -> GitProgram,
    ) -> &[(&'static str, String)] {
        self.identity.get_or_init(|| {
            let place = self.repositories(workspace).first().cloned();
            place.map(|place| Git::at(program(), place).known_identity()).unwrap_or_default()
        })
    }

    pub(crate) fn repositories(&self, workspace: &Utf8Path) -> &[RepositoryLocation] {
        self.repositories.get_or_init(|| repositories(workspace))
    }
}

/// Temporary files and outbox of the current run. Removed on drop.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: Utf8PathBuf,
    /// The state of the directories when they were empty.
    empty: Cell<Option<[Look; 4]>>,
}

/// A directory's inode and its ctime, which cannot be set back.
type Look = (u64, i64, i64);

impl Scratch {
    pub(super) fn create() -> Result<Scratch, PathError> {
        let below = Utf8PathBuf::from_path_buf(std::env::temp_dir());
        Scratch::create_below(&below.unwrap_or_else(|_| "/tmp".into()), fresh_nonce)
    }

    /// Creates a directory with an unused name. Only a directory created by this call becomes a `Scratch`, which
    /// removes it.
    fn create_below(
        below: &Utf8Path,
        mut nonce: impl FnMut() -> io::Result<u64>,
    ) -> Result<Scratch, PathError> {
        let error = |source| PathError::new("create a directory in", below, source);
        let path = loop {
            let path = below.join(format!("ralph-{:016x}", nonce().map_err(error)?));
            match private().create(&path) {
                Ok(()) => break path,
                Err(source) if source.kind() == io::ErrorKind::AlreadyExists => {}
                Err(source) => return Err(PathError::new("create", &path, source)),
            }
        };
        let scratch = Scratch { path, empty: Cell::new(None) };
        scratch.make_ready().map_err(|source| PathError::new("create", &scratch.path, source))?;
        Ok(scratch)
    }

    /// Prepares the directory for a run: existing and empty.
    pub(crate) fn make_ready(&self) -> io::Result<()> {
        if self.is_untouched() {
            return Ok(());
        }
        for directory in [self.temporary(), self.outbox(), self.channel()] {
            match private().create(&directory) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Removes a run's leftovers.
    pub(crate) fn clear(&self) {
        if self.is_untouched() {
            return;
        }
        let mut was_empty = true;
        for (directory, kept) in [
            (self.path.clone(), &["tmp", "out"][..]),
            (self.temporary(), &[]),
            (self.outbox(), &["channel"]),
            (self.channel(), &[]),
        ] {
            was_empty &= !unlock(&directory);
            for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
                let is_ours = kept.iter().any(|kept| entry.file_name() == *kept)
                    && entry.file_type().is_ok_and(|kind| kind.is_dir());
                if !is_ours {
                    was_empty = false;
                    remove(entry.path());
                }
            }
        }
        // Only for directories that stayed empty during a whole run: their ctime is well before this check.
        self.empty.set(self.look().filter(|_| was_empty));
    }

    /// Whether nothing was created or removed here since it was last seen empty.
    fn is_untouched(&self) -> bool {
        self.empty.get().is_some_and(|empty| self.look() == Some(empty))
    }

    fn look(&self) -> Option<[Look; 4]> {
        let mut looks = [(0, 0, 0); 4];
        let directories = [self.path.clone(), self.temporary(), self.outbox(), self.channel()];
        for (look, directory) in looks.iter_mut().zip(directories) {
            let found = fs::symlink_metadata(directory).ok().filter(fs::Metadata::is_dir)?;
            *look = (found.ino(), found.ctime(), found.ctime_nsec());
        }
        Some(looks)
    }

    pub(crate) fn path(&self) -> &Utf8Path {
        &self.path
    }

    /// The agent's `TMPDIR`.
    pub(crate) fn temporary(&self) -> Utf8PathBuf {
        self.path.join("tmp")
    }

    /// The directory in which the agent leaves files for the harness.
    pub(super) fn outbox(&self) -> Utf8PathBuf {
        self.path.join("out")
    }

    /// The directory in which the agent leaves requests for the harness.
    pub(super) fn channel(&self) -> Utf8PathBuf {
        self.path.join("out").join("channel")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// Restores the owner's permissions on a directory; returns whether it had to. A symlink is left alone.
fn unlock(directory: &Utf8Path) -> bool {
    let Ok(found) = fs::symlink_metadata(directory) else { return false };
    let is_locked = found.is_dir() && found.mode() & 0o777 != 0o700;
    if is_locked {
        let _ = fs::set_permissions(directory, fs::Permissions::from_mode(0o700));
    }
    is_locked
}

fn private() -> fs::DirBuilder {
    let mut builder = fs::DirBuilder::new();
    builder.mode(0o700);
    builder
}

/// Whether a recorded path is a scratch directory created by some Ralph of this user: by its name and owner. Nothing
/// else is removed because of a record.
pub(crate) fn is_scratch(path: &Utf8Path) -> bool {
    let number = path.file_name().and_then(|name| name.strip_prefix("ralph-"));
    let is_named = number.is_some_and(|number| {
        number.len() == 16 && number.bytes().all(|byte| byte.is_ascii_hexdigit())
    });
    let own = rustix::process::geteuid().as_raw();
    is_named
        && path.is_absolute()
        && fs::symlink_metadata(path).is_ok_and(|found| {
            found.is_dir() && found.uid() == own && found.mode().trailing_zeros() >= 6
        })
}

/// Removes a file or directory, regardless of permissions and depth.
pub(crate) fn remove(path: impl AsRef<Path>) {
    let _ = remove_tree(path.as_ref());
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn a_taken_name_is_left_alone_and_another_one_is_tried() {
        let dir = tempfile::tempdir().unwrap();
        let below = Utf8Path::from_path(dir.path()).unwrap();
        let taken = below.join("ralph-0000000000000001");
        fs::create_dir(&taken).unwrap();
        fs::write(taken.join("file"), "another's").unwrap();
        let mut names = [1, 1, 2].into_iter();
        let scratch = Scratch::create_below(below, || Ok(names.next().unwrap())).unwrap();
        assert_eq!(scratch.path(), below.join("ralph-0000000000000002"));
        drop(scratch);
        assert!(taken.join("file").exists());
        // A directory that this process did not create is not removed.
        let missing = below.join("missing");
        Scratch::create_below(&missing, || Ok(1)).unwrap_err();
        let no_names = || Err(io::ErrorKind::Unsupported.into());
        Scratch::create_below(below, no_names).unwrap_err();
        assert!(taken.join("file").exists() && !below.join("ralph-0000000000000002").exists());
    }

    #[test]
    fn only_what_looks_like_a_scratch_directory_of_ours_is_one() {
        let dir = tempfile::tempdir().unwrap();
        let below = Utf8Path::from_path(dir.path()).unwrap();
        let scratch = Scratch::create_below(below, || Ok(7)).unwrap();
        assert!(is_scratch(scratch.path()));
        let precious = below.join("precious");
        fs::create_dir(&precious).unwrap();
        let link = below.join("ralph-00000000000000aa");
        std::os::unix::fs::symlink(&precious, &link).unwrap();
        let open = below.join("ralph-00000000000000bb");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
        for path in [&precious, &link, &open, &below.join("ralph-00000000000000cc")] {
            assert!(!is_scratch(path), "{path}");
        }
    }

    #[test]
    fn nonces_differ_in_both_halves() {
        let nonces: Vec<u64> = (0..4).map(|_| fresh_nonce().unwrap()).collect();
        for (at, nonce) in nonces.iter().enumerate() {
            let halves = |other: &u64| (nonce ^ other) >> 32 != 0 && (nonce ^ other) << 32 != 0;
            assert!(nonces[..at].iter().all(halves), "{nonces:x?}");
        }
    }

    #[test]
    fn a_cleared_scratch_is_empty_whatever_a_run_did_to_it() {
        let scratch = Scratch::create().unwrap();
        let deep = scratch.temporary().join("a/b");
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("file"), "x").unwrap();
        let not_text = OsStr::from_bytes(b"caf\xe9");
        fs::create_dir(deep.as_std_path().join(not_text)).unwrap();
        fs::write(scratch.temporary().as_std_path().join(not_text), "x").unwrap();
        fs::set_permissions(&deep, fs::Permissions::from_mode(0o500)).unwrap();
        fs::remove_dir_all(scratch.channel()).unwrap();
        std::os::unix::fs::symlink("/etc", scratch.channel()).unwrap();
        fs::write(scratch.path().join("stray"), "x").unwrap();
        for directory in [scratch.outbox(), scratch.temporary(), scratch.path().to_owned()] {
            fs::set_permissions(directory, fs::Permissions::from_mode(0o000)).unwrap();
        }
        scratch.clear();
        scratch.make_ready().unwrap();
        for directory in [scratch.path().to_owned(), scratch.outbox(), scratch.temporary()] {
            let mode = fs::metadata(&directory).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o700, "{directory}");
        }
        // Once seen empty, it is assumed empty until something happens in it.
        scratch.clear();
        assert!(scratch.is_untouched());
        fs::write(scratch.channel().join("late"), "x").unwrap();
        fs::remove_file(scratch.channel().join("late")).unwrap();
        assert!(!scratch.is_untouched());
        fs::write(scratch.temporary().join("late"), "x").unwrap();
        scratch.clear();
        scratch.make_ready().unwrap();
        let names = |directory: &Utf8Path| -> Vec<String> {
            let entries = directory.read_dir_utf8().unwrap();
            let mut names: Vec<String> =
                entries.map(|entry| entry.unwrap().file_name().to_owned()).collect();
            names.sort();
            names
        };
        assert_eq!(names(scratch.path()), ["out", "tmp"]);
        assert_eq!(names(&scratch.outbox()), ["channel"]);
        assert!(names(&scratch.temporary()).is_empty());
        assert!(fs::symlink_metadata(scratch.channel()).unwrap().is_dir());
        let path = scratch.path().to_owned();
        drop(scratch);
        assert!(!path.exists());
    }
}
