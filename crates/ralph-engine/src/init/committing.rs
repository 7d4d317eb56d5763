//! The commit of a setup: only the files that `init` created.

use std::path::PathBuf;
use std::time::Duration;

use super::{InitPlan, InitStep, StepOutcome};
use crate::config::GitSettings;
use crate::git::commits::{CommitError, CommitRequest, Signing};
use crate::git::direct::commit_files;
use crate::git::{Git, GitError, GitProgram, Oid};

/// How long to wait for another program that holds the index.
const PATIENCE: Duration = Duration::from_secs(10);

/// The commit of a set-up before it is made: what `init` created, but for what git ignores.
pub struct SetUpCommit {
    git: Git,
    paths: Vec<PathBuf>,
    signing: Signing,
}

impl SetUpCommit {
    /// Returns nothing where there is no repository or nothing to commit. Where a person does not want home in git
    /// (`git.commit_home = false`) only `ralph.toml` is committed.
    pub fn plan(
        program: &GitProgram,
        plan: &InitPlan,
        steps: &[InitStep],
        settings: &GitSettings,
    ) -> Result<Option<SetUpCommit>, GitError> {
        let git = match Git::discover(program.clone(), &plan.root) {
            Ok(git) => git,
            Err(GitError::NotARepository { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let Some(worktree) = git.place().worktree.clone() else { return Ok(None) };
        let is_wanted = |step: &&InitStep| {
            step.outcome == StepOutcome::Created
                && step.path.is_file()
                && (settings.commit_home || !step.path.starts_with(&plan.home))
        };
        let inside = steps.iter().filter(is_wanted).filter_map(|step| {
            let path = step.path.strip_prefix(&worktree).ok()?;
            Some(path.as_std_path().to_owned())
        });
        let mut paths: Vec<PathBuf> = inside.collect();
        let ignored = git.ignored(&paths)?;
        paths.retain(|path| !ignored.contains(path));
        let signing = Signing::allowed(settings.sign);
        Ok((!paths.is_empty()).then_some(SetUpCommit { git, paths, signing }))
    }

    /// Makes it: all of the files in one commit, and nothing else that is in the work tree.
    pub fn make(&self) -> Result<Option<Oid>, CommitError> {
        let committed = commit_files(
            &self.git,
            &CommitRequest {
                paths: &self.paths,
                message: "ralph: set up",
                signing: self.signing,
                patience: PATIENCE,
            },
        )?;
        Ok(committed.map(|commit| commit.id))
    }
}
