//! Errors of git calls, with advice for the person.

use std::path::PathBuf;
use std::time::Duration;

use camino::Utf8PathBuf;

use super::lock::{Holder, holder_of};

/// A git call failed.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    #[error("program `{}` not found", .program.display())]
    NotFound { program: PathBuf },
    #[error("cannot start `git {args}`")]
    Start {
        args: String,
        #[source]
        source: std::io::Error,
    },
    #[error("`{dir}` is not in a git repository")]
    NotARepository { dir: Utf8PathBuf },
    /// The repository is no longer where it was when it was opened.
    #[error("`{link}` no longer leads to `{expected}` (found {})", found.as_ref().map_or_else(|| "nothing".to_owned(), |found| format!("`{found}`")))]
    Repointed { link: Utf8PathBuf, expected: Utf8PathBuf, found: Option<Utf8PathBuf> },
    /// Git would write through a symlink.
    #[error("`{link}` is a symbolic link, and git would write where it leads")]
    Diverted { link: Utf8PathBuf },
    #[error("`git {args}` took longer than {} s", .after.as_secs())]
    TimedOut { args: String, after: Duration },
    #[error("`git {args}` printed more than {cap} bytes")]
    TooMuch { args: String, cap: usize },
    #[error("`git {args}` failed: {stderr}")]
    Failed { args: String, code: Option<i32>, stderr: String },
    /// Killed by a signal: that says nothing about the repository.
    #[error("`git {args}` was ended by a signal")]
    Killed { args: String },
    #[error("the disk is full: `git {args}` could not write")]
    DiskFull { args: String },
    #[error("`{}` is locked", path.display())]
    Locked { path: PathBuf, holder: Holder },
    #[error("cannot create `{}`", path.display())]
    Unlockable {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("`git {args}` printed something unexpected: `{output}`")]
    Unexpected { args: String, output: String },
    /// A driver whose name cannot be passed on cannot be disabled either.
    #[error("the configuration key `{key}` cannot be overridden")]
    UnnameableDriver { key: String },
}

impl GitError {
    pub(super) fn from_failure(args: String, code: Option<i32>, stderr: &[u8]) -> Self {
        let text = String::from_utf8_lossy(stderr);
        if let Some(path) = locked_path(&text) {
            let holder = holder_of(&path);
            return GitError::Locked { path, holder };
        }
        if says_full(&text) {
            return GitError::DiskFull { args };
        }
        if code.is_none() {
            return GitError::Killed { args };
        }
        GitError::Failed { args, code, stderr: telling_line(&text) }
    }

    /// Returns advice for the person.
    pub fn hint(&self) -> Option<String> {
        match self {
            GitError::NotFound { .. } => Some("install git, or put it on PATH".to_owned()),
            GitError::NotARepository { dir } => Some(format!("run `git init {dir}`")),
            GitError::Locked { path, holder } => Some(holder.advice(path)),
            GitError::Unlockable { path, .. } => path.parent().map(|directory| {
                format!("check the free space and your permissions for `{}`", directory.display())
            }),
            GitError::DiskFull { .. } => Some("free some space on it".to_owned()),
            GitError::TimedOut { .. } => {
                Some("is the repository on a file system that hangs?".to_owned())
            }
            _ => None,
        }
    }
}

/// Whether git failed because of a full disk or an exceeded quota.
pub(super) fn says_full(stderr: &str) -> bool {
    ["No space left on device", "Out of diskspace", "Disk quota exceeded"]
        .iter()
        .any(|words| stderr.contains(words))
}

/// Returns the lock file that blocked git, if that is the error.
fn locked_path(stderr: &str) -> Option<PathBuf> {
    let line = stderr.lines().find(|line| line.contains(".lock': File exists"))?;
    let start = line.find("Unable to create '")? + "Unable to create '".len();
    let end = line[start..].find("': File exists")? + start;
    Some(PathBuf::from(&line[start..end]))
}

/// Returns the line of stderr with the error, and if it only announces another one, that one too.
fn telling_line(stderr: &str) -> String {
    // GnuPG's machine-readable status lines are useless to people.
    let is_told = |line: &&str| !line.is_empty() && !line.starts_with("[GNUPG:]");
    let lines: Vec<&str> = stderr.lines().map(str::trim).filter(is_told).collect();
    let names_it = |line: &&str| line.starts_with("fatal:") || line.starts_with("error:");
    let at = lines.iter().position(names_it).unwrap_or(0);
    match (lines.get(at), lines.get(at + 1)) {
        (None, _) => "no reason given".to_owned(),
        (Some(line), Some(next)) if line.ends_with(':') => format!("{line} {next}"),
        (Some(line), _) => (*line).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_called_one() {
        for stderr in [
            "error: unable to write file .git/objects/ab/cd: No space left on device\nfatal: updating files failed\n",
            "fatal: sha1 file '.git/objects/x' write error. Out of diskspace\n",
            "error: file write error (Disk quota exceeded)\n",
        ] {
            let error = GitError::from_failure("add".to_owned(), Some(128), stderr.as_bytes());
            assert!(matches!(error, GitError::DiskFull { .. }), "{stderr}: {error:?}");
            assert_eq!(error.hint().as_deref(), Some("free some space on it"));
        }
        let other = GitError::from_failure("add".to_owned(), Some(128), b"fatal: bad object\n");
        assert!(matches!(other, GitError::Failed { .. }), "{other:?}");
    }

    #[test]
    fn the_line_that_names_the_failure_is_kept() {
        let stderr = b"warning: odd\nfatal: bad object abc\nhint: more\n";
        let error = GitError::from_failure("show abc".to_owned(), Some(128), stderr);
        assert_eq!(error.to_string(), "`git show abc` failed: fatal: bad object abc");
        let signing =
            b"error: gpg failed to sign the data:\n[GNUPG:] INV_SGNR 9\ngpg: no key\ngpg: bye\n";
        let error = GitError::from_failure("commit-tree".to_owned(), Some(1), signing);
        assert!(error.to_string().ends_with("failed to sign the data: gpg: no key"), "{error}");
        let silent = GitError::from_failure("x".to_owned(), Some(1), b"");
        assert_eq!(silent.to_string(), "`git x` failed: no reason given");
        let killed = GitError::from_failure("x".to_owned(), None, b"");
        assert_eq!(killed.to_string(), "`git x` was ended by a signal");
    }

    #[test]
    fn a_lock_is_recognised_in_the_complaints_about_index_and_refs() {
        for line in [
            "fatal: Unable to create '/nowhere/a b/.git/index.lock': File exists.",
            "fatal: update_ref failed for ref 'HEAD': cannot lock ref 'HEAD': Unable to create '/nowhere/a b/.git/index.lock': File exists.",
        ] {
            let error = GitError::from_failure("x".to_owned(), Some(128), line.as_bytes());
            let GitError::Locked { path, .. } = &error else { panic!("{error:?}") };
            assert_eq!(path, &PathBuf::from("/nowhere/a b/.git/index.lock"));
            assert!(error.hint().is_some());
        }
    }
}
