//! Returns to the branch on which a run began, and fast-forwards it to the run's work.
//!
//! Uncommitted changes are carried along, like with `git switch`; if that is impossible, git refuses and nothing has
//! changed. A change of files that need a filter (LFS) is refused as well, because no filter runs.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::call::{Call, UserConfig};
use super::commits::{CommitError, refuse_filtered};
use super::drivers::Drivers;
use super::names::ref_bytes;
use super::{Git, LONG, Oid};

impl Git {
    /// Checks out a branch, given in full, with the files of its commit.
    pub fn switch_to(&self, branch: &str) -> Result<(), CommitError> {
        let drivers = Drivers::of(self)?;
        let refs = self.refs()?;
        if let (Some(here), Some(there)) = (refs.head.id(), refs.id_of(branch)) {
            let changes = self.changes(here, there)?;
            let paths: Vec<PathBuf> = changes.into_iter().map(|change| change.path).collect();
            refuse_filtered(self, &drivers, &paths)?;
        }
        let short = branch.strip_prefix("refs/heads/").unwrap_or(branch);
        let short = ref_bytes(short);
        let args = ["switch", "--quiet", "--no-guess"];
        let call = Call::new(&args)
            .name(OsStr::from_bytes(&short))
            .person(UserConfig::Heard)
            .configs(drivers.overrides());
        self.call(call.timeout(LONG))?;
        Ok(())
    }

    /// Returns to a branch and discards uncommitted changes: the caller must save them first.
    pub fn switch_discarding(&self, branch: &str) -> Result<(), CommitError> {
        let drivers = Drivers::of(self)?;
        let short = ref_bytes(branch.strip_prefix("refs/heads/").unwrap_or(branch));
        let args = ["switch", "--quiet", "--no-guess", "--discard-changes"];
        let call = Call::new(&args).name(OsStr::from_bytes(&short)).configs(drivers.overrides());
        self.call(call.person(UserConfig::Heard).timeout(LONG))?;
        Ok(())
    }

    /// Moves the checked-out branch and its files to a commit; uncommitted changes are carried along.
    pub fn move_branch_to(&self, commit: &Oid) -> Result<(), CommitError> {
        let drivers = Drivers::of(self)?;
        let args = ["reset", "--quiet", "--keep", commit.as_str()];
        let call = Call::new(&args).person(UserConfig::Heard).configs(drivers.overrides());
        self.call(call.timeout(LONG))?;
        Ok(())
    }

    /// Fast-forwards the checked-out branch and its files to a commit.
    pub fn fast_forward(&self, commit: &Oid) -> Result<(), CommitError> {
        let drivers = Drivers::of(self)?;
        if let Some(here) = self.head()?.id() {
            let changes = self.changes(here, commit)?;
            let paths: Vec<PathBuf> = changes.into_iter().map(|change| change.path).collect();
            refuse_filtered(self, &drivers, &paths)?;
        }
        let args = ["merge", "--quiet", "--ff-only", commit.as_str()];
        let call = Call::new(&args).person(UserConfig::Heard).configs(drivers.overrides());
        self.call(call.timeout(LONG))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::World;
    use super::*;

    #[test]
    fn it_returns_with_what_is_uncommitted_and_refuses_what_would_be_lost() {
        let world = World::new();
        let dir = world.repository("r");
        let git = world.open(&dir);
        let branch = match git.head().unwrap() {
            crate::Head::Branch { name, .. } => name,
            other => panic!("{other:?}"),
        };
        world.git(&dir, &["switch", "-q", "-c", "feature"]);
        world.commit(&dir, &[("work", "done")]);
        std::fs::write(dir.join("left"), "over").unwrap();
        world.git(&dir, &["config", "core.hooksPath", "/nowhere"]);
        git.switch_to(&branch).unwrap();
        assert!(!dir.join("work").exists() && dir.join("left").exists());
        world.git(&dir, &["switch", "-q", "--detach", "feature"]);
        git.switch_to(&branch).unwrap();
        world.git(&dir, &["switch", "-q", "feature"]);
        std::fs::write(dir.join("work"), "more").unwrap();
        let refused = git.switch_to(&branch).unwrap_err();
        assert!(matches!(refused, CommitError::Git(_)), "{refused}");
        assert_eq!(std::fs::read_to_string(dir.join("work")).unwrap(), "more");
    }

    #[test]
    fn it_moves_forward_with_what_is_uncommitted_and_never_sideways() {
        let world = World::new();
        let dir = world.repository("r");
        let git = world.open(&dir);
        let branch = match git.head().unwrap() {
            crate::Head::Branch { name, .. } => name,
            other => panic!("{other:?}"),
        };
        world.git(&dir, &["switch", "-q", "-c", "feature"]);
        world.commit(&dir, &[("work", "done")]);
        let work = git.head().unwrap().id().unwrap().clone();
        git.switch_to(&branch).unwrap();
        std::fs::write(dir.join("left"), "over").unwrap();
        git.fast_forward(&work).unwrap();
        assert_eq!(git.refs().unwrap().id_of(&branch), Some(&work));
        assert!(dir.join("work").exists() && dir.join("left").exists());
        world.git(&dir, &["reset", "-q", "--hard", "HEAD~1"]);
        world.commit(&dir, &[("else", "where")]);
        let here = git.head().unwrap();
        git.fast_forward(&work).unwrap_err();
        assert_eq!(git.head().unwrap(), here);
    }
}
