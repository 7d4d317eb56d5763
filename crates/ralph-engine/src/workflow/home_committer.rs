//! Commits home after each transition and before the next run, so that an agent that adds everything finds nothing of
//! Ralph's to sweep up.
//!
//! A transition commits exactly the files that it wrote, at a cost that does not depend on how much else is in home. The
//! rest of home, where a person may have edited anything, is looked through before a run that can write.
//!
//! Where a person does not want these commits home is excluded instead, in the repository's own `info/exclude`. A home
//! outside any repository is not committed at all.

use std::path::PathBuf;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};

use super::WorkflowError;
use crate::config::GitSettings;
use crate::files::disk;
use crate::files::{PathError, read_optional};
use crate::git::commits::{CommitRequest, Signing};
use crate::git::{Git, GitProgram};
use crate::init::ignores::{complete_ignores, exclude};
use crate::repository::GitAccess;

/// Home's own ignore file.
const IGNORE_FILE: &str = ".gitignore";
/// How long another program that holds the index is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where home is in its repository.
pub(crate) struct HomePlace {
    pub(crate) git: Box<dyn GitAccess>,
    pub(crate) worktree: Utf8PathBuf,
    /// Home, named from the root of the work tree.
    pub(crate) home: PathBuf,
    /// The repository's own list of what it ignores.
    pub(crate) exclude: Utf8PathBuf,
}

/// A file of home in the repository that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CommittedFile {
    /// Its content; `None` if no such file is committed.
    Committed(Option<Vec<u8>>),
    /// Home is not committed.
    NoCommits,
}

/// Commits home.
pub struct HomeCommitter {
    place: Option<HomePlace>,
    home: Utf8PathBuf,
    settings: GitSettings,
}

impl HomeCommitter {
    pub fn open(program: &GitProgram, home: &Utf8Path, settings: &GitSettings) -> HomeCommitter {
        let found = Git::discover(program.clone(), home).ok();
        let place = found.and_then(|git| {
            let worktree = git.place().worktree.clone()?;
            let home = home.strip_prefix(&worktree).ok()?.as_std_path().to_owned();
            let exclude = git.place().common_dir.join("info/exclude");
            Some(HomePlace { git: Box::new(git), worktree, home, exclude })
        });
        HomeCommitter::at(place, home, settings)
    }

    /// Commits a home whose place is known.
    pub(crate) fn at(
        place: Option<HomePlace>,
        home: &Utf8Path,
        settings: &GitSettings,
    ) -> HomeCommitter {
        HomeCommitter { place, settings: settings.clone(), home: home.to_owned() }
    }

    /// Commits what is new in home. Nothing new, or no repository: nothing happens.
    ///
    /// What home ignores is seen to first: whoever took it away must not bring private files into a commit.
    pub fn commit(&self, message: &str) -> Result<(), WorkflowError> {
        let Some(HomePlace { git, home, .. }) = self.committed() else { return Ok(()) };
        if disk::is_directory(&self.home) {
            complete_ignores(&self.home)?;
        }
        let changed =
            if home.as_os_str().is_empty() { git.status() } else { git.status_within(home) };
        let changed = changed?.into_iter().map(|entry| entry.path);
        // What ends in a slash is a repository of its own.
        let is_file = |path: &PathBuf| !path.as_os_str().as_encoded_bytes().ends_with(b"/");
        let mut paths: Vec<PathBuf> = changed.filter(is_file).collect();
        paths.sort();
        paths.dedup();
        if paths.is_empty() {
            return Ok(());
        }
        git.commit_files(&self.request(&paths, message))?;
        Ok(())
    }

    /// Commits files of a home that only this workflow writes, and its ignore file: no other file can be new there.
    ///
    /// The ignore file is completed first, as a person's change of it may have been taken over. It is not among the files
    /// that are noted when they are written.
    pub(crate) fn commit_own(
        &self,
        mut files: Vec<Utf8PathBuf>,
        message: &str,
    ) -> Result<(), WorkflowError> {
        if !self.commits() {
            return Ok(());
        }
        if disk::is_directory(&self.home) {
            complete_ignores(&self.home)?;
        }
        let ignores = self.home.join(IGNORE_FILE);
        let found = CommittedFile::Committed(read_optional(&ignores)?);
        if self.file_at_head(IGNORE_FILE.into())? != found {
            files.push(ignores);
        }
        if files.is_empty() { Ok(()) } else { self.commit_files(&files, message) }
    }

    /// Commits files of home that were just written or removed, and nothing else. What git ignores stays out.
    pub(crate) fn commit_files(
        &self,
        files: &[Utf8PathBuf],
        message: &str,
    ) -> Result<(), WorkflowError> {
        let Some(HomePlace { git, home, .. }) = self.committed() else { return Ok(()) };
        let inside = files.iter().filter_map(|file| file.strip_prefix(&self.home).ok());
        let mut paths: Vec<PathBuf> = inside.map(|file| home.join(file)).collect();
        let ignored = git.ignored(&paths)?;
        paths.retain(|path| !ignored.contains(path));
        if paths.is_empty() {
            return Ok(());
        }
        git.commit_files(&self.request(&paths, message))?;
        Ok(())
    }

    /// Makes the first commit of a repository that has none: home and the configuration.
    pub(crate) fn begin_history(&self, config: &Utf8Path) -> Result<(), WorkflowError> {
        let Some(HomePlace { git, worktree, .. }) = self.committed() else { return Ok(()) };
        if git.head()?.id().is_some() {
            return Ok(());
        }
        self.commit("ralph: begin")?;
        if let Ok(path) = config.strip_prefix(worktree)
            && disk::exists(config)
        {
            let paths = [path.as_std_path().to_owned()];
            git.commit_files(&self.request(&paths, "ralph: begin"))?;
        }
        Ok(())
    }

    /// Returns a file of home, named from there, as `HEAD` has it.
    pub(crate) fn file_at_head(&self, path: &Utf8Path) -> Result<CommittedFile, WorkflowError> {
        let Some(HomePlace { git, home, .. }) = self.committed() else {
            return Ok(CommittedFile::NoCommits);
        };
        let head = git.head()?;
        let found = head.id().map(|head| git.file_at(head, &home.join(path))).transpose()?;
        Ok(CommittedFile::Committed(found.flatten()))
    }

    /// Tells whether home is committed at all.
    pub(crate) fn commits(&self) -> bool {
        self.committed().is_some()
    }

    /// The repository and home in it, where home is committed.
    fn committed(&self) -> Option<&HomePlace> {
        self.place.as_ref().filter(|_| self.settings.commit_home)
    }

    fn request<'a>(&self, paths: &'a [PathBuf], message: &'a str) -> CommitRequest<'a> {
        CommitRequest {
            paths,
            message,
            signing: Signing::allowed(self.settings.sign),
            patience: PATIENCE,
        }
    }

    /// Sees to it that git takes in what it should of home, and nothing else.
    pub fn prepare(&self) -> Result<(), PathError> {
        let Some(HomePlace { home, exclude: path, .. }) = &self.place else { return Ok(()) };
        if self.settings.commit_home {
            return complete_ignores(&self.home);
        }
        exclude(path, &[format!("/{}/", home.display())])
    }
}
