//! Refs that are files, read and moved in process.
//!
//! The protocol is git's own: whoever writes a ref holds `<ref>.lock`, the old value is compared while the lock is
//! held (and nobody holds that of `HEAD`, which names the branch), and the logs are written before the ref moves. Beyond what git does by
//! default, the new value is on disk before it takes the name, and it comes from a file of its own: the lock says from its
//! first to its last moment whose it is, so that one left by a dead Ralph is known and removed by the next. What is odd (a
//! link, a ref that names another, a directory in the place of a ref) is [`Unfit`] and left to git.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use camino::Utf8Path;

use super::lock::{SIGNATURE, holder_of, is_abandoned, is_alive, remove_abandoned};
use super::settings::Unfit;
use super::{GitError, Head, Oid, Place, regular};
use crate::files::fault;

/// How long a lock on a ref is waited for; nobody holds one for longer than a moment.
const PATIENCE: Duration = Duration::from_secs(1);

/// The refs of one repository.
pub(super) struct RefFiles<'a> {
    place: &'a Place,
}

/// A step of `HEAD`, or of the branch that it names.
pub(super) struct Step<'a> {
    pub(super) from: &'a Head,
    pub(super) to: &'a Oid,
    /// What stands for no commit.
    pub(super) zero: &'a str,
    /// Who, when and why, as logs have it.
    pub(super) log_entry: &'a str,
    /// Whether a log is begun where there is none.
    pub(super) begin_log: bool,
}

/// Why a ref was not moved.
#[derive(Debug)]
pub(super) enum NotMoved {
    /// It is not what it was.
    Changed,
    Unfit(Unfit),
    Failed(GitError),
}

impl From<Unfit> for NotMoved {
    fn from(unfit: Unfit) -> Self {
        NotMoved::Unfit(unfit)
    }
}

impl<'a> RefFiles<'a> {
    pub(super) fn of(place: &'a Place) -> Self {
        RefFiles { place }
    }

    /// Returns what `HEAD` is.
    pub(super) fn head(&self) -> Result<Head, Unfit> {
        let odd = Unfit("its `HEAD` is odd");
        let bytes = regular::read(self.place.git_dir.join("HEAD").as_std_path());
        let bytes = bytes.map_err(|_| odd)?.ok_or(odd)?;
        let text = std::str::from_utf8(&bytes).map_err(|_| odd)?.trim_end();
        let Some(name) = text.strip_prefix("ref:").map(str::trim_start) else {
            return Oid::parse(text.as_bytes()).map(|id| Head::Detached { id }).ok_or(odd);
        };
        if !name.starts_with("refs/heads/") || !is_plain_name(name) {
            return Err(odd);
        }
        let name = name.to_owned();
        Ok(match self.read(&name)? {
            Some(id) => Head::Branch { name, id },
            None => Head::Unborn { name },
        })
    }

    /// Returns what a ref points at; `None` if there is none.
    pub(super) fn read(&self, name: &str) -> Result<Option<Oid>, Unfit> {
        let odd = Unfit("one of its refs is odd");
        let path = self.place.common_dir.join(name);
        let loose = match regular::read(path.as_std_path()) {
            // Git leaves directories behind where branches were.
            Err(_) if path.is_dir() => None,
            read => read.map_err(|_| odd)?,
        };
        match loose {
            Some(bytes) => Oid::parse(bytes.trim_ascii_end()).map(Some).ok_or(odd),
            None => self.packed(name),
        }
    }

    /// Returns what a ref points at whose name somebody gave.
    pub(super) fn read_named(&self, name: &str) -> Result<Option<Oid>, Unfit> {
        if is_plain_name(name) { self.read(name) } else { Ok(None) }
    }

    fn packed(&self, name: &str) -> Result<Option<Oid>, Unfit> {
        let odd = Unfit("its packed refs are odd");
        let Some(bytes) = self.packed_refs()? else { return Ok(None) };
        let line = format!(" {name}\n");
        let Some(end) = memchr::memmem::find(&bytes, line.as_bytes()) else { return Ok(None) };
        let start = memchr::memrchr(b'\n', &bytes[..end]).map_or(0, |newline| newline + 1);
        Oid::parse(&bytes[start..end]).map(Some).ok_or(odd)
    }

    fn packed_refs(&self) -> Result<Option<Vec<u8>>, Unfit> {
        let path = self.place.common_dir.join("packed-refs");
        regular::read(path.as_std_path()).map_err(|_| Unfit("its packed refs are odd"))
    }

    /// Moves `HEAD`, or the branch that it names, if it still is where the step begins.
    pub(super) fn advance(&self, step: &Step<'_>) -> Result<(), NotMoved> {
        let head_path = self.place.git_dir.join("HEAD");
        let branch = match step.from {
            Head::Branch { name, .. } | Head::Unborn { name } => Some(name.as_str()),
            Head::Detached { .. } => None,
        };
        let lock = match branch {
            None => RefLock::take(head_path.as_std_path(), &self.place.git_dir)?,
            Some(name) => {
                let path = self.place.common_dir.join(name);
                make_room(self, name, &path, step)?;
                let lock = RefLock::take(path.as_std_path(), &self.place.git_dir)?;
                // `HEAD` itself stays as it is, and who changes it now changes it after this step.
                RefLock::wait_for_others(head_path.as_std_path(), &self.place.git_dir)?;
                lock
            }
        };
        if self.head()? != *step.from {
            return Err(NotMoved::Changed);
        }
        let logs = [
            Some((&self.place.git_dir, "HEAD")),
            branch.map(|name| (&self.place.common_dir, name)),
        ];
        let mut open = Vec::new();
        for (dir, name) in logs.into_iter().flatten() {
            open.extend(open_log(&dir.join("logs").join(name), step.begin_log)?);
        }
        let old = step.from.id().map_or(step.zero, Oid::as_str);
        let line = format!("{old} {} {}\n", step.to, step.log_entry);
        lock.write(step.to)?;
        for mut log in open {
            log.write_all(line.as_bytes()).map_err(|_| Unfit("its logs cannot be written"))?;
        }
        lock.commit()
    }
}

/// Tells whether a name is one that git would make, so that it leads where it seems to.
fn is_plain_name(name: &str) -> bool {
    let plain = |byte: u8| byte > b' ' && byte != 0x7f && !b"~^:?*[\\".contains(&byte);
    name.bytes().all(plain)
        && !name.contains("..")
        && !name.contains("@{")
        && name.split('/').all(|part| {
            let is_lock = Path::new(part).extension().is_some_and(|end| end == "lock");
            !part.is_empty() && !part.starts_with('.') && !part.ends_with('.') && !is_lock
        })
}

/// Makes the directory for a branch that is about to be born; a branch in the way is git's to complain about.
fn make_room(
    refs: &RefFiles<'_>,
    name: &str,
    path: &Utf8Path,
    step: &Step<'_>,
) -> Result<(), Unfit> {
    let in_the_way = Unfit("another branch is in the way");
    if step.from.id().is_none() {
        if path.is_dir() {
            return Err(in_the_way);
        }
        if let Some(packed) = refs.packed_refs()? {
            let below = format!(" {name}/");
            let above = name.match_indices('/').map(|(at, _)| format!(" {}\n", &name[..at]));
            if std::iter::once(below)
                .chain(above)
                .any(|line| memchr::memmem::find(&packed, line.as_bytes()).is_some())
            {
                return Err(in_the_way);
            }
        }
    }
    let parent = path.parent().ok_or(in_the_way)?;
    let made: Vec<&Utf8Path> = parent.ancestors().take_while(|dir| !dir.exists()).collect();
    fs::create_dir_all(parent).map_err(|_| in_the_way)?;
    for dir in made.into_iter().filter_map(Utf8Path::parent) {
        let _ = File::open(dir).and_then(|dir| dir.sync_all());
    }
    Ok(())
}

fn open_log(path: &Utf8Path, begin: bool) -> Result<Option<File>, Unfit> {
    let odd = Unfit("its logs are odd");
    match fs::symlink_metadata(path) {
        Err(error) if regular::is_absence(&error) && !begin => return Ok(None),
        Err(error) if regular::is_absence(&error) => {
            let parent = path.parent().ok_or(odd)?;
            fs::create_dir_all(parent).map_err(|_| odd)?;
        }
        _ => {}
    }
    crate::files::open_to_append(path).map(Some).map_err(|_| odd)
}

fn lock_of(path: &Path) -> PathBuf {
    let mut lock = path.as_os_str().to_owned();
    lock.push(".lock");
    PathBuf::from(lock)
}

/// How the name of a draft begins; the id of its process follows.
const DRAFT: &str = "ralph-ref-";

/// Removes what dead Ralphs were about to give a name to.
fn remove_drafts(git_dir: &Utf8Path) {
    for entry in git_dir.read_dir_utf8().into_iter().flatten().flatten() {
        let pid = entry.file_name().strip_prefix(DRAFT).and_then(|pid| pid.parse().ok());
        if pid.is_some_and(|pid| !is_alive(pid)) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Tries until it is done. A lock of a dead Ralph is removed; what stays locked is explained.
fn with_patience(
    lock: &Path,
    git_dir: &Utf8Path,
    mut is_done: impl FnMut() -> Result<bool, Unfit>,
) -> Result<(), NotMoved> {
    let deadline = Instant::now() + PATIENCE;
    let mut pause = Duration::from_millis(1);
    while !is_done()? {
        if is_abandoned(lock) && remove_abandoned(lock).is_ok() {
            remove_drafts(git_dir);
            continue;
        }
        if Instant::now() >= deadline {
            let (path, holder) = (lock.to_owned(), holder_of(lock));
            return Err(NotMoved::Failed(GitError::Locked { path, holder }));
        }
        sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
    Ok(())
}

/// A ref that is locked until this is dropped.
struct RefLock {
    path: PathBuf,
    lock: PathBuf,
    /// Where what is to take a name is made ready. `index.lock`, which is held by now, keeps others in this process from it.
    draft: PathBuf,
}

impl RefLock {
    fn take(path: &Path, git_dir: &Utf8Path) -> Result<Self, NotMoved> {
        let draft = git_dir.join(format!("{DRAFT}{}", std::process::id()));
        let taken = RefLock { path: path.to_owned(), lock: lock_of(path), draft: draft.into() };
        let made = with_patience(&taken.lock, git_dir, || taken.sign());
        match made {
            Ok(()) => Ok(taken),
            Err(error) => {
                // Whose lock it is that stands there, it is not ours to remove.
                let _ = fs::remove_file(&taken.draft);
                std::mem::forget(taken);
                Err(error)
            }
        }
    }

    /// Makes the lock, with the name of this process in it; returns whether nobody else had it.
    fn sign(&self) -> Result<bool, Unfit> {
        let unlockable = Unfit("its refs cannot be locked");
        let signature = format!("{SIGNATURE}{}\n", std::process::id());
        let made = self.prepare(&signature).and_then(|_| {
            // A link makes it whole or not at all.
            match fs::hard_link(&self.draft, &self.lock) {
                Err(error) if !is_taken(&error) => self.sign_in_place(&signature),
                linked => linked,
            }
        });
        match made {
            Ok(()) => Ok(true),
            Err(error) if is_taken(&error) => Ok(false),
            Err(_) => Err(unlockable),
        }
    }

    /// Does it where there are no links.
    fn sign_in_place(&self, signature: &str) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).open(&self.lock)?;
        file.write_all(signature.as_bytes())
    }

    /// Waits until nobody is about to change a ref.
    fn wait_for_others(path: &Path, git_dir: &Utf8Path) -> Result<(), NotMoved> {
        let lock = lock_of(path);
        with_patience(&lock, git_dir, || Ok(fs::symlink_metadata(&lock).is_err()))
    }

    /// Makes the new value ready, and durable.
    fn write(&self, id: &Oid) -> Result<(), Unfit> {
        let written = self.prepare(&format!("{id}\n")).and_then(|file| file.sync_all());
        written.map_err(|_| Unfit("its refs cannot be written"))?;
        fault::after_write();
        Ok(())
    }

    /// Writes a draft. It is always a new file: the last one may have become a lock or a ref.
    fn prepare(&self, text: &str) -> io::Result<File> {
        let _ = fs::remove_file(&self.draft);
        let mut file = File::create_new(&self.draft)?;
        file.write_all(text.as_bytes())?;
        Ok(file)
    }

    /// Gives the new value the name; it is durable when this returns.
    fn commit(self) -> Result<(), NotMoved> {
        fs::rename(&self.draft, &self.path).map_err(|_| Unfit("its refs cannot be written"))?;
        let parent = self.path.parent().unwrap_or(&self.path);
        // The ref has moved: what fails now fails after the fact, and the next sync of anything there makes up for it.
        let _ = File::open(parent).and_then(|dir| dir.sync_all());
        Ok(())
    }
}

impl Drop for RefLock {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.draft);
        let _ = fs::remove_file(&self.lock);
    }
}

fn is_taken(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AlreadyExists
}

#[cfg(test)]
mod tests {
    use super::super::testing::{World, write};
    use super::*;

    #[test]
    fn refs_are_read_as_git_reads_them_loose_and_packed() {
        let world = World::new();
        let dir = world.repository("r");
        let place = world.open(&dir).place().clone();
        let refs = RefFiles::of(&place);
        let id = world.head(&dir);
        world.git(&dir, &["branch", "some/branch"]);
        for _ in 0..2 {
            assert_eq!(refs.head().unwrap(), world.open(&dir).head().unwrap());
            assert_eq!(refs.read("refs/heads/some/branch").unwrap(), Some(id.clone()));
            assert_eq!(refs.read("refs/heads/some").unwrap(), None);
            assert_eq!(refs.read("refs/heads/branch").unwrap(), None);
            world.git(&dir, &["pack-refs", "--all"]);
        }
        for odd in ["ref: refs/../config", "ref: refs/heads/x.lock", "ref: refs/tags/x", "zzz", ""]
        {
            write(&dir.join(".git/HEAD"), odd);
            assert!(refs.head().is_err(), "{odd}");
        }
    }

    /// Moves `main` by one commit, whose id it returns.
    fn advance(world: &World, dir: &Utf8Path) -> Result<Oid, NotMoved> {
        let place = world.open(dir).place().clone();
        let refs = RefFiles::of(&place);
        let from = refs.head().unwrap();
        let tree = world.git(dir, &["rev-parse", "HEAD^{tree}"]);
        let old = world.head(dir);
        let to = world.git(dir, &["commit-tree", "-m", "next", "-p", old.as_str(), tree.trim()]);
        let to = Oid::parse(to.trim().as_bytes()).unwrap();
        let zero = "0".repeat(40);
        let log_entry = "A <a@b> 1 +0000\tcommit: next";
        refs.advance(&Step { from: &from, to: &to, zero: &zero, log_entry, begin_log: true })?;
        assert_eq!(world.head(dir), to);
        Ok(to)
    }

    #[test]
    fn a_lock_of_a_dead_ralph_is_removed_whatever_it_had_got_to() {
        let world = World::new();
        let dir = world.repository("r");
        let git_dir = dir.join(".git");
        let dead = format!("{SIGNATURE}{}\n", i32::MAX);
        let draft = git_dir.join(format!("{DRAFT}{}", i32::MAX));
        for locked in ["refs/heads/main.lock", "HEAD.lock"] {
            write(&git_dir.join(locked), &dead);
            write(&draft, "half an id");
            advance(&world, &dir).unwrap();
            assert!(!git_dir.join(locked).exists(), "{locked}");
        }
        assert!(!draft.exists());
        // It had moved the ref and not yet removed its lock.
        let moved = advance(&world, &dir).unwrap();
        write(&git_dir.join("refs/heads/main.lock"), &dead);
        advance(&world, &dir).unwrap();
        assert_eq!(world.git(&dir, &["rev-parse", "main~1"]).trim(), moved.as_str());
        world.git(&dir, &["switch", "-q", "--detach"]);
        write(&git_dir.join("HEAD.lock"), &dead);
        advance(&world, &dir).unwrap();
        assert!(!git_dir.join("HEAD.lock").exists());
        world.git(&dir, &["fsck", "--strict"]);
    }

    #[test]
    fn a_lock_of_somebody_else_is_left_alone_and_explained() {
        let world = World::new();
        let dir = world.repository("r");
        let lock = dir.join(".git/refs/heads/main.lock");
        let alive = format!("{SIGNATURE}{}\n", std::process::id());
        let id = format!("{}\n", world.head(&dir));
        // Git's own, before and after it has written to it; another Ralph's.
        for text in ["", &id, &alive] {
            write(&lock, text);
            let Err(NotMoved::Failed(error)) = advance(&world, &dir) else { panic!("{text}") };
            assert!(matches!(error, GitError::Locked { .. }), "{error}");
            assert_eq!(fs::read_to_string(&lock).unwrap(), text);
            fs::remove_file(&lock).unwrap();
        }
        advance(&world, &dir).unwrap();
    }

    #[test]
    fn a_lock_is_signed_from_its_first_to_its_last_moment_and_leaves_nothing() {
        let world = World::new();
        let dir = world.repository("r");
        let git_dir = dir.join(".git");
        let entries = || fs::read_dir(&git_dir).unwrap().count();
        let before = entries();
        let path = git_dir.join("refs/heads/main");
        let lock_path = lock_of(path.as_std_path());
        let signature = format!("{SIGNATURE}{}\n", std::process::id());
        let is_signed = || fs::read_to_string(&lock_path).unwrap() == signature;
        let lock = RefLock::take(path.as_std_path(), &git_dir).unwrap();
        assert!(is_signed());
        let id = world.head(&dir);
        lock.write(&id).unwrap();
        assert!(is_signed());
        lock.commit().unwrap();
        assert!(!lock_path.exists());
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{id}\n"));
        drop(RefLock::take(path.as_std_path(), &git_dir).unwrap());
        assert_eq!((entries(), lock_path.exists()), (before, false));
    }

    #[test]
    fn a_branch_that_cannot_be_born_beside_another_is_left_to_git() {
        let world = World::new();
        let dir = world.repository("r");
        let place = world.open(&dir).place().clone();
        let refs = RefFiles::of(&place);
        let id = world.head(&dir);
        world.git(&dir, &["branch", "a/b"]);
        for _ in 0..2 {
            for name in ["a", "a/b/c"] {
                let name = format!("refs/heads/{name}");
                world.git(&dir, &["symbolic-ref", "HEAD", &name]);
                let from = Head::Unborn { name };
                let zero = "0".repeat(40);
                let step =
                    Step { from: &from, to: &id, zero: &zero, log_entry: "x", begin_log: true };
                assert!(matches!(refs.advance(&step), Err(NotMoved::Unfit(_))), "{from:?}");
            }
            world.git(&dir, &["pack-refs", "--all"]);
        }
        world.git(&dir, &["fsck", "--strict"]);
    }
}
