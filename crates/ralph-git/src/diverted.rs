//! Files that git writes in place: it follows a symlink at their path, and would append to, or replace, its target.
//!
//! An agent with write access to a git directory can plant a symlink there. So all of them are checked before a call
//! that changes something. People's own links to whole directories (shared objects, a shared `logs/refs`) are allowed.

use std::fs;

use camino::{Utf8Path, Utf8PathBuf};

use super::{GitError, RepositoryLocation};

/// Files at the top of a git directory that are written in place.
const WRITTEN: [&str; 14] = [
    "AUTO_MERGE",
    "BISECT_LOG",
    "CHERRY_PICK_HEAD",
    "COMMIT_EDITMSG",
    "FETCH_HEAD",
    "MERGE_HEAD",
    "MERGE_MODE",
    "MERGE_MSG",
    "MERGE_RR",
    "ORIG_HEAD",
    "REBASE_HEAD",
    "REVERT_HEAD",
    "SQUASH_MSG",
    "TAG_EDITMSG",
];

/// Directories of refs. All of `refs` may be shared with another repository; these never are by themselves.
const REFS: [&str; 5] = ["refs/heads", "refs/notes", "refs/ralph", "refs/remotes", "refs/tags"];

/// Tells whether one of the directories on the way from a git directory to a path in it is a link. Those that people share
/// may be.
pub(super) fn leads_through_link(git_dir: &Utf8Path, path: &Utf8Path, shared: &[&str]) -> bool {
    let above = path.ancestors().skip(1).take_while(|above| *above != git_dir);
    above.into_iter().any(|above| {
        let is_shared = shared.iter().any(|name| above == git_dir.join(name)) && above.is_dir();
        !is_shared && is_link(above)
    })
}

/// Refuses a repository in which git would write through a link.
pub(super) fn refuse_diverted(place: &RepositoryLocation) -> Result<(), GitError> {
    let mut directories = vec![&place.git_dir, &place.common_dir];
    directories.dedup();
    for directory in directories {
        let written = WRITTEN.iter().map(|name| directory.join(name));
        let refs = REFS.iter().map(|name| directory.join(name));
        let logs = directory.join("logs");
        for link in written.chain(refs).chain([logs.clone()]) {
            if is_link(&link) {
                return Err(GitError::Diverted { link });
            }
        }
        refuse_in_logs(logs)?;
    }
    Ok(())
}

fn refuse_in_logs(logs: Utf8PathBuf) -> Result<(), GitError> {
    let shared = logs.join("refs");
    let mut open = vec![logs];
    while let Some(directory) = open.pop() {
        for entry in directory.read_dir_utf8().into_iter().flatten().flatten() {
            let link = entry.path().to_owned();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => open.push(link),
                Ok(kind) if kind.is_symlink() && !(link == shared && link.is_dir()) => {
                    return Err(GitError::Diverted { link });
                }
                _ => {}
            }
        }
    }
    Ok(())
}

fn is_link(path: &Utf8Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::super::testing::{World, write};
    use super::*;

    #[test]
    fn directories_on_the_way_are_no_links_but_where_people_share_them() {
        let world = World::new();
        let (git_dir, other) = (world.path("git"), world.path("other"));
        let place = |name: &str| git_dir.join(name);
        fs::create_dir_all(place("logs")).unwrap();
        fs::create_dir_all(other.join("heads")).unwrap();
        symlink(&other, place("logs/refs")).unwrap();
        let leads = |name: &str| leads_through_link(&git_dir, &place(name), &["logs/refs"]);
        assert!(!leads("logs/HEAD") && !leads("logs/refs/heads/main"));
        // A branch may be called like the directory.
        symlink(&other, other.join("heads/logs")).unwrap();
        assert!(leads("logs/refs/heads/logs/x"));
        fs::rename(place("logs"), place("moved")).unwrap();
        symlink(place("moved"), place("logs")).unwrap();
        assert!(leads("logs/HEAD") && leads("logs/refs/heads/logs"));
    }

    #[test]
    fn git_is_not_called_to_write_through_a_link() {
        for name in ["logs/HEAD", "logs/refs/heads/main", "COMMIT_EDITMSG", "logs", "refs/heads"] {
            let world = World::new();
            let dir = world.repository("repo");
            world.commit(&dir, &[("a", "b")]);
            let git = world.open(&dir);
            write(&world.path("victim"), "before");
            let link = git.place().git_dir.join(name);
            let _ = fs::remove_file(&link);
            let _ = fs::remove_dir_all(&link);
            symlink(world.path("victim"), &link).unwrap();
            let refused = git.call(super::super::call::Call::new(&[
                "commit",
                "--allow-empty",
                "--quiet",
                "-m",
                "$(evil)",
            ]));
            assert!(matches!(refused, Err(GitError::Diverted { .. })), "{name}: {refused:?}");
            assert_eq!(fs::read_to_string(world.path("victim")).unwrap(), "before");
        }
    }
}
