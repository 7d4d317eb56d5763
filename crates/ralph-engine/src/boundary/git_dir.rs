//! A git directory that a run has removed. What its refs led to is in the mirror: with a directory around it there is a
//! repository again, and the comparison puts refs, settings and hooks back into it.
//!
//! Reflogs and what was staged are gone; the files of the work tree are not touched.

use std::fs;

use ralph_proc::end_note::FileTime;

use super::baseline::Baseline;
use super::compare::{BoundaryReport, Watch, inode, is_later};
use super::restore::Saver;
use super::run_refs::mirror_of;
use crate::files::create_new;
use crate::git::{Git, GitProgram, RepositoryLocation};
use crate::state::State;

impl Watch {
    /// Makes the directories of repositories that are none any more, or others, and returns these repositories.
    ///
    /// What the person put there themselves after a kill stays.
    pub(super) fn make_git_dirs(
        &self,
        gone: Option<FileTime>,
        baseline: &Baseline,
        state: &State,
        program: &dyn Fn() -> GitProgram,
        saver: &mut Saver<'_>,
        before_repair: &dyn Fn(),
    ) -> Vec<&RepositoryLocation> {
        let mut made = Vec::new();
        for place in &self.places {
            let known = self.refs.iter().find(|known| known.common_dir == place.common_dir);
            let Some((before, head)) = known.and_then(|one| Some((one, one.head.as_ref()?))) else {
                continue;
            };
            let directory = &place.common_dir;
            let is_own =
                place.worktree.as_ref().is_some_and(|root| root.join(".git") == *directory);
            let is_same = self
                .git_dirs
                .iter()
                .any(|(path, before)| path == directory && inode(path) == Some(*before));
            // Another directory with the same history is a copy, as of a checkout that was moved or restored.
            let has_history = || {
                before.tip().is_none_or(|tip| {
                    let git = Git::at(program(), place.clone());
                    matches!(git.find_commit(tip.as_str()), Ok(Some(_)))
                })
            };
            let is_whole = directory.join("objects").is_dir()
                && (is_same || directory.join("HEAD").is_file() && has_history());
            let is_persons = is_later(gone, directory.join("HEAD").as_std_path());
            if !is_own || is_whole || is_persons || !mirror_of(place, state).is_dir() {
                continue;
            }
            before_repair();
            if !is_same && saver.put_away(directory.as_std_path()).is_err() {
                continue;
            }
            if make(place, head, baseline, saver).is_some() {
                made.push(place);
            }
        }
        made
    }

    /// Makes the index of such repositories, once their refs are back, and tells whether they are whole.
    pub(super) fn complete_git_dirs(
        made: &[&RepositoryLocation],
        program: &dyn Fn() -> GitProgram,
        report: &mut BoundaryReport,
    ) {
        for place in made {
            if !place.git_dir.join("index").exists() {
                // An unborn branch has none.
                let _ = Git::at(program(), (*place).clone()).renew_index();
            }
            let of_it = report.left.iter().position(|found| found.path == place.common_dir);
            if let Some(found) = of_it.map(|index| report.left.remove(index)) {
                report.put_back.push(found);
            }
        }
    }
}

/// Makes the least that a repository has, with the settings that it had. What else is in its place is put away.
fn make(
    place: &RepositoryLocation,
    head: &str,
    baseline: &Baseline,
    saver: &mut Saver<'_>,
) -> Option<()> {
    let directory = &place.common_dir;
    for name in ["objects", "refs"] {
        let path = directory.join(name);
        if fs::symlink_metadata(&path).is_ok_and(|found| !found.is_dir()) {
            saver.put_away(path.as_std_path()).ok()?;
        }
        fs::create_dir_all(&path).ok()?;
    }
    let config = directory.join("config");
    if fs::symlink_metadata(&config).is_err()
        && let Some(entry) = baseline.entry(config.as_std_path())
    {
        create_new(&config, &baseline.bytes(&entry.kept)?).ok()?;
    }
    let path = directory.join("HEAD");
    saver.put_away(path.as_std_path()).ok()?;
    create_new(&path, format!("{head}\n").as_bytes()).ok().map(drop)
}
