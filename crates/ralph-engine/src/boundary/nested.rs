//! Repositories inside the workspace that are not the workspace's own: clones, gitlinks, whatever has a `.git`.
//!
//! Git goes into them by itself (`git status` asks a gitlink for its state) and then does what *their* configuration says. So
//! their settings and hooks are watched like those of the workspace's repositories. One that a run has made is its work, as
//! long as nothing in it runs a program: what `git init` and `git clone` write stays.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ralph_proc::listing::Listing;
use rustix::fs::{CWD, Mode, OFlags, openat};

use super::protected::{Class, REPOSITORY_SETTINGS, Watched, is_sample, remote_in};
use super::walk::is_gone;
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
    let (mut found, mut unread) = (Vec::new(), Vec::new());
    let mut listing = Listing::new();
    let mut open = vec![workspace.to_owned()];
    while let Some(directory) = open.pop() {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = match openat(CWD, &directory, flags, Mode::empty()) {
            Ok(opened) => opened,
            Err(error) if is_gone(error) => continue,
            Err(_) => {
                unread.push(directory);
                continue;
            }
        };
        let listed = listing.each(&opened, |name, kind| {
            let name = name.to_bytes();
            if name == LINK.as_bytes() {
                found.push(directory.join(LINK));
            } else if kind.is_dir() && !matches!(name, b"." | b"..") {
                open.push(directory.join(std::ffi::OsStr::from_bytes(name)));
            }
        });
        if listed.is_err() {
            unread.push(directory);
        }
    }
    (found, unread)
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
    let target = Path::new(std::ffi::OsStr::from_bytes(target));
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
    use super::*;

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
