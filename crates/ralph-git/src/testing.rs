//! Real repositories for tests.

use std::fs;
use std::path::Path;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use ralph_proc::capture::{CaptureRequest, ask};
use tempfile::TempDir;

use super::{Git, GitProgram, Oid};

/// A temporary directory in which git ignores the machine's configuration.
pub(super) struct World {
    _dir: TempDir,
    pub(super) root: Utf8PathBuf,
}

impl World {
    pub(super) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(dir.path()).unwrap().canonicalize_utf8().unwrap();
        fs::write(root.join("gitconfig"), "[user]\n\tname = Person\n\temail = p@example.org\n[init]\n\tdefaultBranch = main\n[protocol \"file\"]\n\tallow = always\n[safe]\n\tdirectory = *\n").unwrap();
        World { _dir: dir, root }
    }

    pub(super) fn path(&self, name: &str) -> Utf8PathBuf {
        self.root.join(name)
    }

    pub(super) fn program(&self) -> GitProgram {
        let ours = [
            ("GIT_CONFIG_GLOBAL".into(), self.path("gitconfig").into_os_string()),
            ("GIT_CONFIG_NOSYSTEM".into(), "1".into()),
        ];
        GitProgram::new("git", std::env::vars_os().filter(|(name, _)| !is_git(name)).chain(ours))
            .with_variable("HOME", self.root.as_str())
    }

    /// Runs git like a person or an agent, with nothing disabled.
    pub(super) fn git(&self, dir: &Utf8Path, args: &[&str]) -> String {
        let answer = self.try_git(dir, args);
        answer.unwrap_or_else(|error| panic!("git {args:?}: {error}"))
    }

    pub(super) fn try_git(&self, dir: &Utf8Path, args: &[&str]) -> Result<String, String> {
        let global = self.path("gitconfig");
        let inherited: Vec<String> = std::env::vars_os()
            .filter(|(name, _)| is_git(name))
            .filter_map(|(name, _)| name.into_string().ok())
            .collect();
        let mut env: Vec<(&str, Option<&str>)> =
            inherited.iter().map(|name| (name.as_str(), None)).collect();
        env.extend([
            ("GIT_CONFIG_GLOBAL", Some(global.as_str())),
            ("GIT_CONFIG_NOSYSTEM", Some("1")),
            ("HOME", Some(self.root.as_str())),
            ("LC_ALL", Some("C")),
        ]);
        let answer = ask(&CaptureRequest {
            program: Path::new("git"),
            args,
            names: &[],
            cwd: Some(dir.as_std_path()),
            env: &env,
            timeout: Duration::from_mins(1),
            cap: 1 << 20,
        })
        .unwrap();
        if answer.code == Some(0) {
            return Ok(String::from_utf8_lossy(&answer.stdout).trim().to_owned());
        }
        Err(String::from_utf8_lossy(&answer.stderr).into_owned())
    }

    /// Creates a repository with one commit of `a.txt` and `src/lib.rs`.
    pub(super) fn repository(&self, name: &str) -> Utf8PathBuf {
        let dir = self.path(name);
        self.git(&self.root, &["init", "-q", dir.as_str()]);
        self.commit(&dir, &[("a.txt", "a\n"), ("src/lib.rs", "fn main() {}\n")]);
        dir
    }

    /// Writes files and commits everything, like an agent.
    pub(super) fn commit(&self, dir: &Utf8Path, files: &[(&str, &str)]) -> Oid {
        for (name, content) in files {
            write(&dir.join(name), content);
        }
        self.git(dir, &["add", "-A"]);
        self.git(dir, &["commit", "-q", "--allow-empty", "-m", "work"]);
        self.head(dir)
    }

    pub(super) fn head(&self, dir: &Utf8Path) -> Oid {
        self.id(dir, "HEAD")
    }

    pub(super) fn id(&self, dir: &Utf8Path, name: &str) -> Oid {
        Oid::parse(self.git(dir, &["rev-parse", "--verify", name]).as_bytes()).unwrap()
    }

    pub(super) fn open(&self, dir: &Utf8Path) -> Git {
        Git::discover(self.program(), dir).unwrap()
    }
}

fn is_git(name: &std::ffi::OsStr) -> bool {
    name.to_string_lossy().starts_with("GIT_")
}

pub(super) fn write(path: &Utf8Path, content: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

pub(super) fn read(path: &Utf8Path) -> String {
    fs::read_to_string(path).unwrap()
}
