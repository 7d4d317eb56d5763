//! Reads the contents of files: of one in process if possible, of many in bounded memory and a few git calls.

use std::path::{Component, Path};

use super::call::{Call, path_bytes};
use super::direct::trees::{Trees, find};
use super::objects::ObjectKind;
use super::oid::lines;
use super::parse::{parse_batch, parse_batch_check};
use super::settings::Unfit;
use super::{Git, GitError, Oid, unexpected};

/// Bytes requested per call.
const BATCH: usize = 32 << 20;

impl Git {
    /// Returns a file at a commit; `None` if it does not exist there.
    pub fn file_at(&self, commit: &Oid, path: &Path) -> Result<Option<Vec<u8>>, GitError> {
        self.file_in_process(commit, path).or_else(|_| self.file_by_git(commit, path))
    }

    fn file_by_git(&self, commit: &Oid, path: &Path) -> Result<Option<Vec<u8>>, GitError> {
        let mut question = format!("{commit}:").into_bytes();
        question.extend(path_bytes(path));
        question.push(b'\n');
        let args = ["cat-file", "--batch"];
        let answer = self.call(Call::new(&args).input(&question))?;
        // The answer for a name with a newline is ambiguous; such a file is not found.
        let objects = parse_batch(&answer.stdout).filter(|objects| objects.len() == 1);
        let found = objects.and_then(|mut objects| objects.pop().flatten());
        Ok(found.filter(|(header, _)| header.kind == "blob").map(|(_, content)| content))
    }

    fn file_in_process(&self, commit: &Oid, path: &Path) -> Result<Option<Vec<u8>>, Unfit> {
        let is_plain = |part| matches!(part, Component::Normal(_));
        if !path.components().all(is_plain) || path_bytes(path).contains(&b'\n') {
            return Err(Unfit("the name means something else to git"));
        }
        let unknown = Unfit("an object cannot be read");
        let tree = self.commit_in_process(commit).ok_or(unknown)?.tree.to_id();
        let (mut objects, _) = self.own_objects().map_err(|_| unknown)?;
        let mut trees = Trees::of(&mut objects);
        let Some((mode, id)) = find(&mut trees, Some(tree), path_bytes(path))? else {
            return Ok(None);
        };
        if !mode.starts_with(b"100") && mode != b"120000" {
            return Ok(None);
        }
        let mut content = Vec::new();
        objects.read(&id, ObjectKind::Blob, &mut content).map_err(|_| unknown)?;
        Ok(Some(content))
    }

    /// Returns the contents of files at commits and paths (empty if larger than `limit`), or `None`.
    pub fn files_at(
        &self,
        wanted: &[(&Oid, &Path)],
        limit: usize,
    ) -> Result<Vec<Option<Vec<u8>>>, GitError> {
        // A name with a newline would be two requests; such a file is not found.
        let asked: Vec<usize> = (0..wanted.len())
            .filter(|index| !path_bytes(wanted[*index].1).contains(&b'\n'))
            .collect();
        let mut contents: Vec<Option<Vec<u8>>> = vec![None; wanted.len()];
        if asked.is_empty() {
            return Ok(contents);
        }
        let mut question = Vec::new();
        for (commit, path) in asked.iter().map(|index| wanted[*index]) {
            question.extend(format!("{commit}:").bytes());
            question.extend(path_bytes(path));
            question.push(b'\n');
        }
        let args = ["cat-file", "--batch-check"];
        let answer = self.call(Call::new(&args).input(&question))?;
        let found = parse_batch_check(&answer.stdout).filter(|found| found.len() == asked.len());
        let found = found.ok_or_else(|| unexpected(&args, &answer.stdout))?;
        let mut batch: Vec<(usize, Oid)> = Vec::new();
        let mut bytes = 0;
        for (index, header) in asked.into_iter().zip(found) {
            let Some(header) = header.filter(|header| header.kind == "blob") else { continue };
            if header.size > limit {
                contents[index] = Some(Vec::new());
                continue;
            }
            if bytes + header.size > BATCH {
                self.read_batch(&mut batch, &mut contents)?;
                bytes = 0;
            }
            bytes += header.size;
            batch.push((index, header.id));
        }
        self.read_batch(&mut batch, &mut contents)?;
        Ok(contents)
    }

    /// Whether the index has a file that is excluded from the working tree.
    pub fn is_left_out(&self, path: &Path) -> Result<bool, GitError> {
        let args = ["ls-files", "-v", "-z", "--"];
        let answer = self.call(Call::new(&args).name(path.as_os_str()))?;
        Ok(answer.stdout.first().is_some_and(|tag| tag.eq_ignore_ascii_case(&b's')))
    }

    fn read_batch(
        &self,
        batch: &mut Vec<(usize, Oid)>,
        contents: &mut [Option<Vec<u8>>],
    ) -> Result<(), GitError> {
        let input = lines(batch.iter(), |(_, id)| id.to_string());
        let args = ["cat-file", "--batch"];
        let answer = self.call(Call::new(&args).input(input.as_bytes()))?;
        let objects = parse_batch(&answer.stdout).filter(|objects| objects.len() == batch.len());
        let objects = objects.ok_or_else(|| unexpected(&args, &answer.stdout))?;
        for ((index, _), object) in batch.drain(..).zip(objects) {
            contents[index] = object.map(|(_, content)| content);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::World;
    use super::*;

    #[test]
    fn files_are_read_as_their_commits_have_them_and_large_ones_are_left_out() {
        let world = World::new();
        let dir = world.repository("r");
        let first = world.head(&dir);
        let large = "x".repeat(1000);
        let second = world.commit(&dir, &[("a.txt", "b\n"), ("large", &large), ("é f", "1")]);
        let git = world.open(&dir);
        let wanted: Vec<(&Oid, &Path)> = [
            (&first, "a.txt"),
            (&second, "a.txt"),
            (&first, "large"),
            (&second, "large"),
            (&second, "é f"),
            (&second, "src"),
            (&second, "a\nb"),
        ]
        .map(|(commit, path)| (commit, Path::new(path)))
        .to_vec();
        let texts: Vec<Option<String>> = git
            .files_at(&wanted, 999)
            .unwrap()
            .into_iter()
            .map(|content| content.map(|content| String::from_utf8(content).unwrap()))
            .collect();
        for (commit, path) in wanted {
            let by_git = git.file_by_git(commit, path).unwrap();
            assert_eq!(git.file_at(commit, path).unwrap(), by_git, "{path:?}");
            if let Ok(in_process) = git.file_in_process(commit, path) {
                assert_eq!(in_process, by_git, "{path:?}");
            }
        }
        assert_eq!(git.file_in_process(&second, Path::new("é f")), Ok(Some(b"1".to_vec())));
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(texts, [some("a\n"), some("b\n"), None, some(""), some("1"), None, None]);
        assert_eq!(git.files_at(&[], 1).unwrap(), Vec::<Option<Vec<u8>>>::new());
    }
}
