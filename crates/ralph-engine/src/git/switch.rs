//! Returning to the branch that a run began on.
//!
//! What is uncommitted comes along, as with `git switch`; where that cannot be, git refuses and nothing has changed. So
//! does a change of files that a filter (LFS) would have to write, as no filter runs.

use std::path::PathBuf;

use super::call::{Call, Person};
use super::commits::{CommitError, refuse_filtered};
use super::drivers::Drivers;
use super::{Git, LONG};

impl Git {
    /// Makes `HEAD` a branch again, named in full, with the files of its commit.
    pub fn switch_to(&self, branch: &str) -> Result<(), CommitError> {
        let drivers = Drivers::of(self)?;
        let refs = self.refs()?;
        if let (Some(here), Some(there)) = (refs.head.id(), refs.id_of(branch)) {
            let changes = self.changes(here, there)?;
            let paths: Vec<PathBuf> = changes.into_iter().map(|change| change.path).collect();
            refuse_filtered(self, &drivers, &paths)?;
        }
        let short = branch.strip_prefix("refs/heads/").unwrap_or(branch);
        let args = ["switch", "--quiet", "--no-guess", short];
        let call = Call::new(&args).person(Person::Heard).configs(drivers.overrides());
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
            crate::git::Head::Branch { name, .. } => name,
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
}
