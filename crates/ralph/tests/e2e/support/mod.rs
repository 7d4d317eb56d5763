//! Shared by the tests: an isolated environment, processes that cannot outlive them, the real agent CLIs and a scripted
//! model for them.

pub(crate) mod agents;
pub(crate) mod model_client;
pub(crate) mod model_server;
pub(crate) mod process;

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// The name of the environment variable that marks every process a test starts.
pub(crate) const MARK: &str = "RALPH_TEST_MARK";

/// A temporary directory with a home, a scratch directory and a git repository, and the matching environment.
///
/// Every process that still carries its mark when it is dropped is killed, so that failed tests leave no process behind
/// either.
pub(crate) struct TestEnv {
    dir: TempDir,
    mark: String,
    isolation: Cell<Isolation>,
}

/// Where agents of workflows work.
#[derive(Clone, Copy)]
enum Isolation {
    Clone,
    InPlace,
}

impl TestEnv {
    /// Creates the directories, and a repository on branch `main` with one commit.
    pub(crate) fn new() -> TestEnv {
        // Not the system's temporary directory: agents get their own one mounted over it.
        let env = TestEnv::empty_in(Path::new("/var/tmp"));
        for path in [env.home(), env.tmp(), env.repo()] {
            std::fs::create_dir(path).unwrap();
        }
        env.trust_all();
        env.git(&["init", "--quiet", "--initial-branch=main"]);
        std::fs::write(env.repo().join("README.md"), "A repository.\n").unwrap();
        env.git(&["add", "README.md"]);
        env.git(&["commit", "--quiet", "--message=start"]);
        env
    }

    /// Creates an empty environment directory in another.
    pub(crate) fn empty_in(parent: &Path) -> TestEnv {
        let dir = tempfile::Builder::new().prefix("ralph-e2e-").tempdir_in(parent).unwrap();
        let mark = text(dir.path());
        let isolation = Cell::new(Isolation::Clone);
        TestEnv { dir, mark, isolation }
    }

    /// Trusts every workspace of this place in the person's own configuration.
    pub(crate) fn trust_all(&self) {
        let directory = self.home().join(".config/ralph");
        std::fs::create_dir_all(&directory).unwrap();
        let place = text(self.dir.path());
        // Otherwise the mark would be withheld from this place's processes.
        let config =
            format!("[trust]\nalways = [\"{place}/*\"]\n[env]\npass = [\"{MARK}\", \"TEST_*\"]\n");
        std::fs::write(directory.join("config.toml"), config).unwrap();
    }

    /// Revokes all trust: what the tests write is untrusted.
    pub(crate) fn trust_nothing(&self) {
        let config = self.home().join(".config/ralph/config.toml");
        std::fs::write(config, format!("[env]\npass = [\"{MARK}\"]\n")).unwrap();
    }

    /// Makes agents of workflows work in clones from now on, the default.
    pub(crate) fn isolate(&self) {
        self.isolation.set(Isolation::Clone);
    }

    /// Makes agents of workflows work in the person's own working tree from now on.
    pub(crate) fn in_place(&self) {
        self.isolation.set(Isolation::InPlace);
    }

    /// Makes agents work where they do in another place.
    pub(crate) fn isolate_like(&self, other: &TestEnv) {
        self.isolation.set(other.isolation.get());
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    /// Returns the scratch directory; outside home, because codex refuses a home inside `TMPDIR`.
    pub(crate) fn tmp(&self) -> PathBuf {
        self.dir.path().join("tmp")
    }

    pub(crate) fn repo(&self) -> PathBuf {
        self.dir.path().join("repo")
    }

    /// Returns the directory of Ralph's private state: outside everything an agent may write.
    pub(crate) fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    /// Returns the mark of this place's processes in their environment.
    pub(crate) fn mark(&self) -> &str {
        &self.mark
    }

    /// Returns a complete environment: only `PATH` from the person, git pinned, time in UTC.
    pub(crate) fn environment(&self) -> Vec<(String, String)> {
        let path = std::env::var("PATH").expect("tests run with a PATH");
        let home = text(&self.home());
        let tmp = text(&self.tmp());
        [
            ("PATH", path.as_str()),
            ("HOME", &home),
            ("TMPDIR", &tmp),
            ("TERM", "dumb"),
            ("TZ", "UTC"),
            ("LC_ALL", "C.UTF-8"),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_AUTHOR_NAME", "Ralph Test"),
            ("GIT_AUTHOR_EMAIL", "test@ralph.invalid"),
            ("GIT_COMMITTER_NAME", "Ralph Test"),
            ("GIT_COMMITTER_EMAIL", "test@ralph.invalid"),
            (MARK, &self.mark),
            (
                "RALPH_ISOLATION",
                match self.isolation.get() {
                    Isolation::Clone => "clone",
                    Isolation::InPlace => "in-place",
                },
            ),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
    }

    /// Runs git in the repository and returns its output, without the last newline.
    pub(crate) fn git(&self, args: &[&str]) -> String {
        let output = Command::new("git")
            .args(args)
            .current_dir(self.repo())
            .env_clear()
            .envs(self.environment())
            .output()
            .expect("git is installed");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "git {args:?}: {stderr}");
        String::from_utf8(output.stdout).unwrap().trim_end_matches('\n').to_owned()
    }

    /// Runs git, which may fail; returns whether it succeeded.
    pub(crate) fn try_git(&self, args: &[&str]) -> bool {
        let mut git = Command::new("git");
        git.args(args).current_dir(self.repo()).env_clear().envs(self.environment());
        git.output().expect("git is installed").status.success()
    }

    /// Returns the subjects of all commits, newest first.
    pub(crate) fn commits(&self) -> Vec<String> {
        self.git(&["log", "--format=%s"]).lines().map(str::to_owned).collect()
    }
}

impl Drop for TestEnv {
    fn drop(&mut self) {
        process::kill_marked(&self.mark);
    }
}

pub(crate) fn text(path: &Path) -> String {
    path.to_str().expect("test paths are UTF-8").to_owned()
}
