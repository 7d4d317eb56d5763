//! Repositories inside the workspace that are not the workspace's own: clones, gitlinks, whatever has a `.git`.
//!
//! Git goes into them by itself (`git status` asks a gitlink for its state) and then does what *their* configuration says. So
//! their settings and hooks are watched like those of the workspace's repositories. One that a run has made is its work, as
//! long as nothing in it runs a program: what `git init` and `git clone` write stays.

use std::collections::{BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use ralph_proc::listing::Listing;
use rustix::fs::{CWD, Mode, OFlags, fstat, openat};
use rustix::io::Errno;

use super::protected::{Class, REPOSITORY_SETTINGS, Watched, is_sample, remote_in};
use super::walk::{Listed, is_gone};
use crate::clock::{Clock, SystemClock};
use crate::git::RepositoryLocation;

/// The name by which git finds a repository.
const LINK: &str = ".git";

/// Lists what is watched of the repositories below a workspace, but for those in `places`.
pub(super) fn watched(workspace: &Path, places: &[RepositoryLocation]) -> Vec<Watched> {
    let own: BTreeSet<&Path> = places
        .iter()
        .flat_map(|place| [&place.git_dir, &place.common_dir])
        .map(|directory| directory.as_std_path())
        .collect();
    let (links, unread) = links(workspace);
    // What is in them is not known, which the walk through them tells.
    let mut watched: Vec<Watched> =
        unread.into_iter().map(|directory| Watched::below(directory, Class::Settings)).collect();
    for link in links {
        let Some(directory) = git_directory(&link) else { continue };
        if own.iter().any(|own| directory.starts_with(own)) {
            continue;
        }
        if directory != link {
            watched.push(Watched::file(&link, Class::Settings));
        }
        // Paths elsewhere cannot be written by any run.
        if directory.starts_with(workspace) {
            let files = REPOSITORY_SETTINGS.iter().map(|name| directory.join(name));
            watched.extend(files.map(|path| Watched::file(path, Class::Settings)));
            watched.push(Watched::below(directory.join("hooks"), Class::Settings));
            watched.push(Watched::directory(&directory, Class::Settings));
        }
    }
    watched
}

/// Finds everything that is called `.git`, through no link, and the directories that cannot be listed.
fn links(workspace: &Path) -> (Vec<PathBuf>, Vec<PathBuf>) {
    static LAST: Mutex<Option<Look>> = Mutex::new(None);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    let look = last.take().filter(|look| look.workspace == workspace);
    let mut look = look.unwrap_or_else(|| Look::at(workspace));
    let found = look.again(SystemClock.now().as_second());
    *last = Some(look);
    found
}

/// The directories of a workspace as they were listed last: a directory with the same ctime has the same names, and is
/// not listed again. Home alone can have tens of thousands of files.
struct Look {
    workspace: PathBuf,
    known: HashMap<PathBuf, KnownDirectory>,
}

struct KnownDirectory {
    listed: Listed,
    /// Something in it is called `.git`.
    has_link: bool,
    /// The directories in it.
    inner: Vec<OsString>,
}

impl Look {
    fn at(workspace: &Path) -> Look {
        Look { workspace: workspace.to_owned(), known: HashMap::new() }
    }

    /// Looks through the workspace; `began` is the current second. Only directories that have not changed for a while
    /// are known the next time: the time of any other may not show another change.
    fn again(&mut self, began: i64) -> (Vec<PathBuf>, Vec<PathBuf>) {
        let (mut found, mut unread) = (Vec::new(), Vec::new());
        let mut before = std::mem::take(&mut self.known);
        let mut listing = Listing::new();
        let mut open = vec![self.workspace.clone()];
        while let Some(directory) = open.pop() {
            let same = before.remove(&directory).filter(|known| known.listed.is_same());
            let looked = match same {
                Some(same) => Ok(Some((same, true))),
                None => KnownDirectory::list(&directory, &mut listing),
            };
            let Ok(looked) = looked else {
                unread.push(directory);
                continue;
            };
            let Some((entered, is_read)) = looked else { continue };
            found.extend(entered.has_link.then(|| directory.join(LINK)));
            open.extend(entered.inner.iter().map(|name| directory.join(name)));
            if !is_read {
                unread.push(directory);
            } else if entered.listed.is_settled(began) {
                self.known.insert(directory, entered);
            }
        }
        (found, unread)
    }
}

impl KnownDirectory {
    /// Lists a directory, and tells whether that succeeded to the end; `None` if it is gone.
    fn list(
        directory: &Path,
        listing: &mut Listing,
    ) -> Result<Option<(KnownDirectory, bool)>, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = match openat(CWD, directory, flags, Mode::empty()) {
            Ok(opened) => opened,
            Err(error) if is_gone(error) => return Ok(None),
            Err(error) => return Err(error),
        };
        // Before the listing: a change meanwhile has another time.
        let listed = Listed::of(directory.to_owned(), &fstat(&opened)?);
        let mut known = KnownDirectory { listed, has_link: false, inner: Vec::new() };
        let read = listing.each(&opened, |name, kind| {
            let name = name.to_bytes();
            if name == LINK.as_bytes() {
                known.has_link = true;
            } else if kind.is_dir() && !matches!(name, b"." | b"..") {
                known.inner.push(OsStr::from_bytes(name).to_owned());
            }
        });
        Ok(Some((known, read.is_ok())))
    }
}

/// Finds the directory that a `.git` is or leads to.
fn git_directory(link: &Path) -> Option<PathBuf> {
    /// A file that leads to a directory holds little more than its path.
    const MOST: u64 = 8 << 10;
    let found = fs::metadata(link).ok()?;
    if found.is_dir() {
        return link.canonicalize().ok();
    }
    let text = (found.is_file() && found.len() < MOST).then(|| fs::read(link).ok()).flatten()?;
    let target = text.strip_prefix(b"gitdir:")?.trim_ascii();
    let target = Path::new(OsStr::from_bytes(target));
    link.parent()?.join(target).canonicalize().ok()
}

/// Whether a file of a repository that a run has made is one that git itself would have put there, and runs nothing.
pub(super) fn is_plain(workspace: &Path, path: &Path, content: Option<&[u8]>) -> bool {
    let name = path.file_name().unwrap_or_default();
    let is_in_hooks = path.parent().is_some_and(|above| above.ends_with("hooks"));
    is_in_hooks && is_sample(name.as_bytes())
        || name == LINK && git_directory(path).is_some_and(|it| it.starts_with(workspace))
        || name == "config" && content.is_some_and(is_plain_config)
}

/// Whether a file is part of a repository that an agent keeps among its own data, and runs nothing.
pub(super) fn is_plain_among_data(path: &Path, content: Option<&[u8]>) -> bool {
    let name = path.file_name().unwrap_or_default();
    let Some(above) = path.parent() else { return false };
    let is_hook = above.ends_with("hooks") && is_sample(name.as_bytes());
    let is_config = name == "config" && above.join("HEAD").is_file()
        || name == ".gitconfig" && above.join(LINK).is_dir();
    is_hook || is_config && content.is_some_and(is_plain_config)
}

/// Whether a configuration has nothing but what `git init`, `git clone`, `git submodule` and agents' snapshots write.
fn is_plain_config(content: &[u8]) -> bool {
    const CORE: [&str; 11] = [
        "repositoryformatversion",
        "filemode",
        "bare",
        "logallrefupdates",
        "ignorecase",
        "precomposeunicode",
        "symlinks",
        "autocrlf",
        "worktree",
        "longpaths",
        "untrackedcache",
    ];
    const SECTIONS: [&str; 9] = [
        "core",
        "remote",
        "branch",
        "user",
        "submodule",
        "extensions",
        "commit",
        "index",
        "feature",
    ];
    let Ok(text) = std::str::from_utf8(content) else { return false };
    let remotes: Vec<&str> = text.lines().filter_map(remote_in).collect();
    let mut section = String::new();
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with(['#', ';']))
        .all(|line| {
            if let Some(header) = line.strip_prefix('[') {
                let Some(header) = header.strip_suffix(']') else { return false };
                section = header.split([' ', '.']).next().unwrap_or_default().to_ascii_lowercase();
                return SECTIONS.contains(&section.as_str());
            }
            let Some((key, value)) = line.split_once('=') else { return false };
            let (key, value) = (key.trim().to_ascii_lowercase(), value.trim());
            match section.as_str() {
                "core" => CORE.contains(&key.as_str()) || key == "fsmonitor" && value == "false",
                // Of addresses, those that name a helper (`ext::`) run it; a path leads to a repository with hooks.
                "remote" => key == "fetch" || key == "url" && is_address(value),
                // Any other name than that of a remote is a path.
                "branch" if key == "remote" => remotes.contains(&value),
                "branch" => ["merge", "rebase"].contains(&key.as_str()),
                "user" => ["name", "email"].contains(&key.as_str()),
                "submodule" => key == "active" || key == "url" && is_address(value),
                "extensions" => ["objectformat", "refstorage"].contains(&key.as_str()),
                "commit" => key == "gpgsign" && value == "false",
                "index" => ["version", "threads", "skiphash"].contains(&key.as_str()),
                "feature" => key == "manyfiles",
                _ => false,
            }
        })
}

/// Whether an address leads to another machine, by a way of git's own.
fn is_address(value: &str) -> bool {
    let known = ["https://", "http://", "ssh://", "git://"];
    known.iter().any(|scheme| value.starts_with(scheme))
        || value.starts_with("git@") && !value.contains("::")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;
    use std::time::{Duration, Instant};

    use super::*;

    /// Makes and removes names in a directory until its ctime differs: clocks of file systems tick.
    fn let_it_tick(directory: &Path) {
        let ctime = || {
            let found = fs::metadata(directory).unwrap();
            (found.ctime(), found.ctime_nsec())
        };
        let (before, since) = (ctime(), Instant::now());
        while ctime() == before {
            assert!(since.elapsed() < Duration::from_secs(10), "the clock stands still");
            fs::write(directory.join("tick"), "").unwrap();
            fs::remove_file(directory.join("tick")).unwrap();
        }
    }

    #[test]
    fn a_repository_in_a_directory_that_is_known_is_found_and_one_that_is_removed_is_not() {
        let place = tempfile::tempdir().unwrap();
        let (inner, deep) = (place.path().join("a"), place.path().join("a/b"));
        fs::create_dir_all(&deep).unwrap();
        // As if all had stood still for long.
        let mut look = Look::at(place.path());
        let mut links = || {
            let (mut found, unread) = look.again(i64::MAX);
            assert!(unread.is_empty(), "{unread:?}");
            found.sort();
            found
        };
        assert!(links().is_empty());
        for directory in [&deep, &inner] {
            let_it_tick(directory);
            fs::create_dir(directory.join(".git")).unwrap();
            assert_eq!(links(), [directory.join(".git")]);
            assert_eq!(links(), [directory.join(".git")], "also where nothing has changed");
            let_it_tick(directory);
            fs::remove_dir(directory.join(".git")).unwrap();
            assert!(links().is_empty());
        }
        let_it_tick(&inner);
        fs::rename(&deep, place.path().join("c")).unwrap();
        fs::create_dir_all(deep.join(".git")).unwrap();
        assert_eq!(links(), [deep.join(".git")], "another directory in its place");
    }

    #[test]
    fn only_directories_that_have_stood_still_are_known_the_next_time() {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("a")).unwrap();
        let changed = fs::metadata(place.path().join("a")).unwrap().ctime();
        let mut look = Look::at(place.path());
        look.again(changed);
        assert!(look.known.is_empty());
        look.again(changed + 60);
        assert_eq!(look.known.len(), 2);
    }

    #[test]
    fn what_git_writes_is_plain_and_what_names_a_program_is_not() {
        let plain = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n[remote \"origin\"]\n\turl = https://h/r\n\
                     \tfetch = +refs/heads/*:refs/remotes/origin/*\n[branch \"main\"]\n\tremote = origin\n";
        assert!(is_plain_config(plain.as_bytes()));
        let snapshots = "[core]\n\tfsmonitor = false\n\tlongpaths = true\n[user]\n  name = Gemini CLI\n[commit]\n  gpgsign = false\n";
        assert!(is_plain_config(snapshots.as_bytes()));
        for more in [
            "[core]\n\tfsmonitor = evil\n",
            "[core] fsmonitor = evil\n",
            "[core]\n\thooksPath = x\n",
            "[core]\n\tfilemode = true\\\n\tfsmonitor = evil\n",
            "[include]\n\tpath = x\n",
            "[includeIf \"gitdir:/\"]\n\tpath = x\n",
            "[remote \"o\"]\n\turl = ext::sh -c evil\n",
            "[remote \"o\"]\n\turl = ../evil.git\n",
            "[branch \"b\"]\n\tremote = ../evil.git\n",
            "[branch \"b\"]\n\tremote = evil\n",
            "[branch \"b\"]\n\tpushRemote = evil\n",
            "[commit]\n\ttemplate = x\n",
            "[remote \"o\"]\n\tuploadpack = evil\n",
            "[submodule \"s\"]\n\tupdate = !evil\n",
            "[filter \"f\"]\n\tclean = evil\n",
            "[alias]\n\tst = !evil\n",
            "fsmonitor = evil\n",
        ] {
            assert!(!is_plain_config(format!("{plain}{more}").as_bytes()), "{more}");
        }
    }
}
