//! Resolves commit names: `HEAD`, a branch, `v1..v2`.
//!
//! Names are resolved in the repository; the content of a commit is asked of the mirror.

use super::call::Call;
use super::parse::parse_ids;
use super::refs::RefFiles;
use super::{Git, GitError, LONG, Oid, unexpected};

impl Git {
    /// Resolves a commit name.
    pub fn resolve(&self, name: &str) -> Result<Option<Oid>, GitError> {
        if let Some(id) = self.plain_target(name)
            && self.commit_in_process(&id).is_some()
        {
            return Ok(Some(id));
        }
        let commit = format!("{name}^{{commit}}");
        let args = ["rev-parse", "--verify", "--quiet", "--end-of-options", &commit];
        let answer = self.call(Call::new(&args).accept(&[1, 128]))?;
        Ok(Oid::parse(answer.stdout.trim_ascii()).filter(|_| answer.code == Some(0)))
    }

    /// Returns what a whole id, `HEAD` or a ref's whole name stands for, if that is certain without git.
    fn plain_target(&self, name: &str) -> Option<Oid> {
        self.place().check().ok()?;
        let refs = RefFiles::of(self.place());
        match name {
            "HEAD" => refs.head().ok()?.id().cloned(),
            _ if name.starts_with("refs/") => refs.read_named(name).ok()?,
            _ => Oid::parse(name.as_bytes()),
        }
    }

    /// Returns the commits of a range such as `a..b`, oldest first; `None` if it cannot be resolved.
    pub fn range(&self, range: &str) -> Result<Option<Vec<Oid>>, GitError> {
        let args = ["rev-list", "--reverse", "--end-of-options", range, "--"];
        let answer = self.call(Call::new(&args).timeout(LONG).accept(&[128, 129]))?;
        if answer.code != Some(0) {
            return Ok(None);
        }
        let ids = parse_ids(&answer.stdout).ok_or_else(|| unexpected(&args, &answer.stdout))?;
        Ok(Some(ids))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::World;

    #[test]
    fn names_and_ranges_lead_to_commits_and_options_do_not() {
        let world = World::new();
        let dir = world.repository("r");
        let first = world.head(&dir);
        let second = world.commit(&dir, &[("b", "b")]);
        let third = world.commit(&dir, &[("b", "c")]);
        let git = world.open(&dir);
        assert_eq!(git.resolve("HEAD").unwrap(), Some(third.clone()));
        assert_eq!(git.resolve("main~2").unwrap(), Some(first.clone()));
        for nothing in ["nope", "--all", "HEAD:b", ""] {
            assert_eq!(git.resolve(nothing).unwrap(), None, "{nothing}");
        }
        let range = format!("{first}..HEAD");
        assert_eq!(git.range(&range).unwrap(), Some(vec![second, third]));
        assert_eq!(git.range("nope..HEAD").unwrap(), None);
        assert_eq!(git.range("--all").unwrap(), None);
    }
}
