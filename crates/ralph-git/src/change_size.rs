//! The size of the difference between two commits. For the files, see [`super::patch`].

use super::call::Call;
use super::refs::RefFiles;
use super::{Git, GitError, Oid, RepositoryLocation};

/// Commits, files and lines between two commits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Distance {
    pub commits: u64,
    pub files: u64,
    /// Lines; those of binary files are not counted.
    pub added: u64,
    pub removed: u64,
}

/// Returns the checked-out commit without a git process: `None` if there is none, or if only git can tell.
pub fn checked_out(place: &RepositoryLocation) -> Option<Oid> {
    RefFiles::of(place).head().ok()?.id().cloned()
}

impl Git {
    /// Returns the number of commits in `new` that are not in `old`, and the size of the difference of their trees;
    /// `None` means before the first commit. No program named by a repository is started.
    pub fn distance(&self, old: Option<&Oid>, new: &Oid) -> Result<Distance, GitError> {
        let range = old.map_or_else(|| new.to_string(), |old| format!("{old}..{new}"));
        let count = self.ask(&["rev-list", "--count", &range, "--"])?;
        let empty = self.object_format()?.empty_tree();
        let args = ["diff", "--no-ext-diff", "--no-textconv", "--no-renames", "--numstat", "-z"];
        let call = Call::new(&args).args([old.unwrap_or(&empty).as_str(), new.as_str(), "--"]);
        let listed = self.call(call)?.stdout;
        let mut distance = Distance { commits: number(&count), ..Distance::default() };
        for line in listed.split(|byte| *byte == 0).filter(|line| !line.is_empty()) {
            let mut columns = line.splitn(3, |byte| *byte == b'\t').map(number);
            distance.files += 1;
            distance.added += columns.next().unwrap_or(0);
            distance.removed += columns.next().unwrap_or(0);
        }
        Ok(distance)
    }
}

/// Parses a number; a binary file has none.
fn number(text: &[u8]) -> u64 {
    std::str::from_utf8(text.trim_ascii()).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::World;

    #[test]
    fn commits_files_and_lines_are_counted_from_any_commit_and_from_none() {
        let world = World::new();
        let dir = world.repository("repo");
        let first = world.head(&dir);
        std::fs::write(dir.join("b.bin"), [0, 159, 146, 150]).unwrap();
        world.commit(&dir, &[("a.txt", "two\nlines\n")]);
        let last = world.commit(&dir, &[("new\nline.txt", "x\ny\n")]);
        world.git(&dir, &["config", "diff.external", "false"]);
        let git = world.open(&dir);
        assert_eq!(checked_out(git.place()), Some(last.clone()));
        let found = git.distance(Some(&first), &last).unwrap();
        let removed = found.removed;
        assert_eq!(found, Distance { commits: 2, files: 3, added: 4, removed });
        let whole = git.distance(None, &last).unwrap();
        assert_eq!((whole.commits, whole.files, whole.removed), (3, 4, 0));
        assert_eq!(git.distance(Some(&last), &last).unwrap(), Distance::default());
    }
}
