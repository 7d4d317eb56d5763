//! Returns to the branch on which a run began, and fast-forwards it to the run's work.
//!
//! Uncommitted changes are carried along, like with `git switch`; if that is impossible, git refuses and nothing has
//! changed. A change of files that need a filter (LFS) is refused as well, because no filter runs.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::call::{Call, UserConfig, path_bytes};
use super::commits::{CommitError, refuse_filtered};
use super::drivers::Drivers;
use super::home_copy::{HomeBlob, HomeChange};
use super::names::ref_bytes;
use super::{Git, LONG, Oid, regular_file};

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

    /// Fast-forwards the checked-out branch and its files to a commit. A file that is uncommitted as the commit has it is
    /// in nobody's way.
    pub fn fast_forward(&self, commit: &Oid) -> Result<(), CommitError> {
        let drivers = Drivers::of(self)?;
        if let Some(here) = self.head()?.id() {
            let changes = self.tree_changes(here, commit)?;
            let paths: Vec<PathBuf> = changes.iter().map(|change| change.path.clone()).collect();
            refuse_filtered(self, &drivers, &paths)?;
            self.stage_equal(&changes)?;
        }
        let args = ["merge", "--quiet", "--ff-only", commit.as_str()];
        let call = Call::new(&args).person(UserConfig::Heard).configs(drivers.overrides());
        self.call(call.timeout(LONG))?;
        Ok(())
    }

    /// Stages files that are changed or untracked, and equal what the commit has there: otherwise git refuses to write
    /// them. What the person has staged stays as it is.
    fn stage_equal(&self, changes: &[HomeChange]) -> Result<(), CommitError> {
        let Some(root) = &self.place().worktree else { return Ok(()) };
        let coming =
            changes.iter().filter_map(|change| Some((&change.path, change.after.as_ref()?)));
        let coming: HashMap<&PathBuf, &HomeBlob> = coming.collect();
        let staged = self.staged()?;
        let mut dirty: Vec<PathBuf> = self.status()?.into_iter().map(|entry| entry.path).collect();
        dirty.retain(|path| !staged.iter().any(|change| change.path == *path));
        let mut input = Vec::new();
        for path in dirty {
            let Some(blob) = coming.get(&path) else { continue };
            let file = regular_file::read_regular(&root.as_std_path().join(&path));
            let Ok(Some(bytes)) = file else { continue };
            if self.blob_id(&bytes).is_ok_and(|id| id == blob.id) {
                input.extend(format!("{} {}\t", blob.mode, blob.id).bytes());
                input.extend(path_bytes(&path));
                input.push(0);
            }
        }
        if !input.is_empty() {
            self.call(Call::new(&["update-index", "-z", "--index-info"]).input(&input))?;
            let refresh = Call::new(&["update-index", "-q", "--refresh"]).timeout(LONG);
            self.call(refresh.accept(&[1]))?;
        }
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

    #[test]
    fn what_is_uncommitted_as_the_commit_has_it_is_in_nobodys_way() {
        let world = World::new();
        let dir = world.repository("r");
        let git = world.open(&dir);
        let before = world.head(&dir);
        let work = world.commit(&dir, &[("a.txt", "mine\n"), ("notes", "mine\n"), ("work", "x\n")]);
        for (name, text, passes) in
            [("notes", "mine\n", true), ("notes", "newer\n", false), ("a.txt", "newer\n", false)]
        {
            world.git(&dir, &["reset", "-q", "--hard", before.as_str()]);
            for (file, mine) in [("a.txt", "mine\n"), ("notes", "mine\n"), (name, text)] {
                std::fs::write(dir.join(file), mine).unwrap();
            }
            assert_eq!(git.fast_forward(&work).is_ok(), passes, "{name} {text}");
            assert_eq!(std::fs::read_to_string(dir.join(name)).unwrap(), text);
            let expected = if passes { work.clone() } else { before.clone() };
            assert_eq!(world.head(&dir), expected);
            std::fs::remove_file(dir.join("notes")).unwrap();
        }
    }
}
