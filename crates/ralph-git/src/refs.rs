//! Loose refs, read and moved in process.
//!
//! The protocol is git's own: a ref is written through `<ref>.lock`, the old value is compared while the lock is held
//! (and that of `HEAD`, which names the branch, is free), and the reflogs are written before the ref moves. Unlike git
//! by default, the new value is synced before the rename. Anything unusual (a symlink, a symbolic ref, a directory at
//! the path of a ref) is [`Unfit`] and left to git.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use camino::Utf8Path;
use ralph_proc::disk::open_to_append;
use ralph_proc::fault;

use super::diverted::leads_through_link;
use super::lock::{LockFile, wait_for_others};
use super::settings::Unfit;
use super::{GitError, Head, Oid, RepositoryLocation, regular_file};

/// How long to wait for a ref's lock; it is normally held for milliseconds.
const PATIENCE: Duration = Duration::from_secs(1);

/// How many symbolic refs may lead to each other; as in git.
const MAX_LINKS: usize = 5;

/// The refs of one repository.
pub(super) struct RefFiles<'a> {
    place: &'a RepositoryLocation,
}

/// The content of a ref's file.
enum Loose {
    Id(Oid),
    /// The name of another ref.
    Symbolic(String),
}

/// A move of `HEAD`, or of its branch.
pub(super) struct LookupStep<'a> {
    pub(super) from: &'a Head,
    pub(super) to: &'a Oid,
    /// The null id.
    pub(super) zero: &'a str,
    /// Identity, time and message, in reflog format.
    pub(super) log_entry: &'a str,
    /// Whether to create a missing reflog.
    pub(super) begin_log: bool,
}

/// Why a ref was not moved.
#[derive(Debug)]
pub(super) enum NotMoved {
    /// Its value has changed.
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
    pub(super) fn of(place: &'a RepositoryLocation) -> Self {
        RefFiles { place }
    }

    /// Returns what `HEAD` is.
    pub(super) fn head(&self) -> Result<Head, Unfit> {
        let odd = Unfit("its `HEAD` is odd");
        let bytes = regular_file::read_regular(self.place.git_dir.join("HEAD").as_std_path());
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

    /// Returns the target of a ref; `None` if it does not exist.
    pub(super) fn read(&self, name: &str) -> Result<Option<Oid>, Unfit> {
        match self.loose(name)? {
            Some(Loose::Id(id)) => Ok(Some(id)),
            Some(Loose::Symbolic(_)) => Err(Unfit("one of its refs is odd")),
            None => self.packed(name),
        }
    }

    /// Returns the id to which a ref leads, also through symbolic refs; `None` if it does not exist.
    pub(super) fn read_following(&self, name: &str) -> Result<Option<Oid>, Unfit> {
        let odd = Unfit("one of its refs is odd");
        let mut name = name.to_owned();
        for link in 0..=MAX_LINKS {
            name = match self.loose(&name)? {
                Some(Loose::Symbolic(target)) => target,
                Some(Loose::Id(id)) => return Ok(Some(id)),
                // A symbolic ref that leads nowhere is reported by git.
                None if link > 0 => return self.packed(&name)?.map(Some).ok_or(odd),
                None => return self.packed(&name),
            };
        }
        Err(odd)
    }

    fn loose(&self, name: &str) -> Result<Option<Loose>, Unfit> {
        let odd = Unfit("one of its refs is odd");
        let path = self.place.common_dir.join(name);
        let bytes = match regular_file::read_regular(path.as_std_path()) {
            // Git leaves directories behind where branches were.
            Err(_) if path.is_dir() => None,
            read => read.map_err(|_| odd)?,
        };
        let Some(bytes) = bytes else { return Ok(None) };
        let Some(target) = bytes.strip_prefix(b"ref:") else {
            return Oid::parse(bytes.trim_ascii_end()).map(|id| Some(Loose::Id(id))).ok_or(odd);
        };
        let target = std::str::from_utf8(target.trim_ascii()).map_err(|_| odd)?;
        let is_plain = target.starts_with("refs/") && is_plain_name(target);
        is_plain.then(|| Some(Loose::Symbolic(target.to_owned()))).ok_or(odd)
    }

    /// Returns the target of a ref with an untrusted name.
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

    /// Returns the content of `packed-refs`.
    pub(super) fn packed_refs(&self) -> Result<Option<Vec<u8>>, Unfit> {
        let path = self.place.common_dir.join("packed-refs");
        regular_file::read_regular(path.as_std_path()).map_err(|_| Unfit("its packed refs are odd"))
    }

    /// Moves `HEAD`, or its branch, if it still has the expected value.
    pub(super) fn advance(&self, step: &LookupStep<'_>) -> Result<(), NotMoved> {
        let head_path = self.place.git_dir.join("HEAD");
        let branch = match step.from {
            Head::Branch { name, .. } | Head::Unborn { name } => Some(name.as_str()),
            Head::Detached { .. } => None,
        };
        let (lock, path) = match branch {
            None => (lock(head_path.as_std_path())?, head_path),
            Some(name) => {
                let path = self.place.common_dir.join(name);
                make_room(self, name, &path, step)?;
                let lock = lock(path.as_std_path())?;
                // `HEAD` itself stays unchanged, and a concurrent change of it happens after this step.
                wait_for_others(&lock_of(head_path.as_std_path()), PATIENCE)
                    .map_err(NotMoved::Failed)?;
                (lock, path)
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
            open.extend(open_log(dir, name, step.begin_log)?);
        }
        let old = step.from.id().map_or(step.zero, Oid::as_str);
        let line = format!("{old} {} {}\n", step.to, step.log_entry);
        let mut file = lock.file();
        file.write_all(format!("{}\n", step.to).as_bytes())
            .and_then(|()| file.sync_all())
            .map_err(|_| Unfit("its refs cannot be written"))?;
        fault::after_write();
        for mut log in open {
            log.write_all(line.as_bytes()).map_err(|_| Unfit("its logs cannot be written"))?;
        }
        // A power failure may undo the rename: then the branch is where it was, without the new commit.
        Ok(lock
            .become_file(path.as_std_path(), None)
            .map_err(|_| Unfit("its refs cannot be written"))?)
    }
}

/// Whether a name is one that git would create, so that it is a safe path.
pub(super) fn is_plain_name(name: &str) -> bool {
    let plain = |byte: u8| byte > b' ' && byte != 0x7f && !b"~^:?*[\\".contains(&byte);
    name.bytes().all(plain)
        && !name.contains("..")
        && !name.contains("@{")
        && name.split('/').all(|part| {
            !part.is_empty() && !part.starts_with('.') && !part.ends_with('.') && !is_lock(part)
        })
}

/// Whether a file in a directory of refs is the lock of one.
pub(super) fn is_lock(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|end| end == "lock")
}

/// Creates the directory for an unborn branch; a conflicting branch is left to git's error.
fn make_room(
    refs: &RefFiles<'_>,
    name: &str,
    path: &Utf8Path,
    step: &LookupStep<'_>,
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
    if leads_through_link(&refs.place.common_dir, path, &["refs"]) {
        return Err(Unfit("a directory of its refs is a link"));
    }
    let parent = path.parent().ok_or(in_the_way)?;
    if parent.is_dir() {
        return Ok(());
    }
    let made: Vec<&Utf8Path> = parent.ancestors().take_while(|dir| !dir.exists()).collect();
    fs::create_dir_all(parent).map_err(|_| in_the_way)?;
    for dir in made.into_iter().filter_map(Utf8Path::parent) {
        let _ = File::open(dir).and_then(|dir| dir.sync_all());
    }
    Ok(())
}

fn open_log(git_dir: &Utf8Path, name: &str, begin: bool) -> Result<Option<File>, Unfit> {
    let odd = Unfit("its logs are odd");
    let path = &git_dir.join("logs").join(name);
    // Links are refused, on the way too; also by the git binary, which is the fallback here.
    if leads_through_link(git_dir, path, &["logs/refs"]) {
        return Err(odd);
    }
    match fs::symlink_metadata(path) {
        Err(error) if regular_file::is_absence(&error) && !begin => return Ok(None),
        Err(error) if regular_file::is_absence(&error) => {
            let parent = path.parent().ok_or(odd)?;
            fs::create_dir_all(parent).map_err(|_| odd)?;
        }
        _ => {}
    }
    open_to_append(path).map(Some).map_err(|_| odd)
}

fn lock_of(path: &Path) -> PathBuf {
    let mut lock = path.as_os_str().to_owned();
    lock.push(".lock");
    PathBuf::from(lock)
}

/// Takes the lock of a ref.
fn lock(path: &Path) -> Result<LockFile, NotMoved> {
    LockFile::take(&lock_of(path), PATIENCE).map_err(|error| match error {
        GitError::Locked { .. } => NotMoved::Failed(error),
        _ => NotMoved::Unfit(Unfit("its refs cannot be locked")),
    })
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
            assert_eq!(refs.head().unwrap(), world.open(&dir).head_by_git().unwrap());
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

    /// Advances `main` by one commit, and returns its id.
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
        refs.advance(&LookupStep {
            from: &from,
            to: &to,
            zero: &zero,
            log_entry,
            begin_log: true,
        })?;
        assert_eq!(world.head(dir), to);
        Ok(to)
    }

    #[test]
    fn a_lock_of_a_dead_ralph_is_removed_whatever_it_had_got_to() {
        let world = World::new();
        let dir = world.repository("r");
        let git_dir = dir.join(".git");
        let leave = |name: &str, text: &str| {
            let lock = LockFile::take(git_dir.join(name).as_std_path(), PATIENCE).unwrap();
            write(&git_dir.join("given"), text);
            let mode = fs::metadata(git_dir.join(name)).unwrap().permissions();
            drop(lock);
            fs::rename(git_dir.join("given"), git_dir.join(name)).unwrap();
            fs::set_permissions(git_dir.join(name), mode).unwrap();
        };
        for text in ["", "half an id", &format!("{}\n", world.head(&dir))] {
            for locked in ["refs/heads/main.lock", "HEAD.lock"] {
                leave(locked, text);
                advance(&world, &dir).unwrap();
                assert!(!git_dir.join(locked).exists(), "{locked}");
            }
        }
        world.git(&dir, &["switch", "-q", "--detach"]);
        leave("HEAD.lock", "");
        advance(&world, &dir).unwrap();
        assert!(!git_dir.join("HEAD.lock").exists());
        world.git(&dir, &["fsck", "--strict"]);
    }

    #[test]
    fn a_lock_of_somebody_else_is_left_alone_and_explained() {
        let world = World::new();
        let dir = world.repository("r");
        let lock = dir.join(".git/refs/heads/main.lock");
        let id = format!("{}\n", world.head(&dir));
        // Git's own, before and after it has written to it.
        for text in ["", &id] {
            write(&lock, text);
            let Err(NotMoved::Failed(error)) = advance(&world, &dir) else { panic!("{text}") };
            assert!(matches!(error, GitError::Locked { .. }), "{error}");
            assert_eq!(fs::read_to_string(&lock).unwrap(), text);
            fs::remove_file(&lock).unwrap();
        }
        let another = LockFile::take(lock.as_std_path(), PATIENCE).unwrap();
        assert!(matches!(advance(&world, &dir), Err(NotMoved::Failed(_))));
        drop(another);
        advance(&world, &dir).unwrap();
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
                let step = LookupStep {
                    from: &from,
                    to: &id,
                    zero: &zero,
                    log_entry: "x",
                    begin_log: true,
                };
                assert!(matches!(refs.advance(&step), Err(NotMoved::Unfit(_))), "{from:?}");
            }
            world.git(&dir, &["pack-refs", "--all"]);
        }
        world.git(&dir, &["fsck", "--strict"]);
    }
}
