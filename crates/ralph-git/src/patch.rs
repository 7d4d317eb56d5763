//! The changes between two commits, for people and for `git apply`.

use super::call::Call;
use super::{Git, GitError, Oid};

/// The form of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchForm {
    /// Complete, including binary files, so that it can be applied.
    Whole,
    /// One line per file.
    Summary,
}

impl Git {
    /// Returns the change from one commit or tree to another. No program named by a repository is started.
    pub fn patch(&self, old: &Oid, new: &Oid, form: PatchForm) -> Result<Vec<u8>, GitError> {
        let form: &[&str] = match form {
            PatchForm::Whole => &["--patch", "--binary"],
            PatchForm::Summary => &["--stat=100"],
        };
        let args = ["diff", "--no-color", "--no-ext-diff", "--no-textconv", "--find-renames"];
        let call = Call::new(&args).args(form.iter().copied());
        let call = call.args([old.as_str(), new.as_str(), "--"]);
        self.call(call).map(|answer| answer.stdout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::World;

    #[test]
    fn a_patch_can_be_applied_and_starts_no_program_that_the_repository_names() {
        let world = World::new();
        let dir = world.repository("repo");
        let old = world.head(&dir);
        std::fs::write(dir.join("b.bin"), [0, 159, 146, 150]).unwrap();
        let new = world.commit(&dir, &[("a.txt", "two\n")]);
        let mark = dir.join("ran");
        world.git(&dir, &["config", "diff.external", &format!("touch {mark}")]);
        let git = world.open(&dir);
        let patch = git.patch(&old, &new, PatchForm::Whole).unwrap();
        let summary = git.patch(&old, &new, PatchForm::Summary).unwrap();
        assert!(!mark.exists());
        let summary = String::from_utf8(summary).unwrap();
        assert!(summary.contains("a.txt |") && summary.contains("2 files"), "{summary}");
        world.git(&dir, &["checkout", "-q", old.as_str()]);
        std::fs::write(dir.join("../patch"), patch).unwrap();
        world.git(&dir, &["apply", "--index", "../patch"]);
        let tree = format!("{new}^{{tree}}");
        assert_eq!(world.git(&dir, &["write-tree"]), world.git(&dir, &["rev-parse", &tree]));
    }
}
