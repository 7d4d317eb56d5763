//! What the tests share: a place of their own to work in, processes that cannot outlive them, the real agent CLIs and
//! a scripted model for these to talk to.

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

/// A temporary place with a home, a scratch directory and a git repository, and the environment that goes with it.
///
/// Whatever still carries its mark when it is dropped is killed: a failed test leaves no process behind either.
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
    /// Makes the directories, and a repository on branch `main` with one commit.
    pub(crate) fn new() -> TestEnv {
        // Not the system's temporary directory: agents have one of their own in its place.
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

    /// Makes a directory for a place in another, and nothing in it.
    pub(crate) fn empty_in(parent: &Path) -> TestEnv {
        let dir = tempfile::Builder::new().prefix("ralph-e2e-").tempdir_in(parent).unwrap();
        let mark = text(dir.path());
        let isolation = Cell::new(Isolation::Clone);
        TestEnv { dir, mark, isolation }
    }

    /// Trusts every workspace of this place, as a person does who wrote them all: in their own configuration.
    pub(crate) fn trust_all(&self) {
        let directory = self.home().join(".config/ralph");
        std::fs::create_dir_all(&directory).unwrap();
        let place = text(self.dir.path());
        // The mark of this place's processes would be withheld from them otherwise.
        let config =
            format!("[trust]\nalways = [\"{place}/*\"]\n[env]\npass = [\"{MARK}\", \"TEST_*\"]\n");
        std::fs::write(directory.join("config.toml"), config).unwrap();
    }

    /// Trusts nothing any more: what the tests write is a stranger's.
    pub(crate) fn trust_nothing(&self) {
        let config = self.home().join(".config/ralph/config.toml");
        std::fs::write(config, format!("[env]\npass = [\"{MARK}\"]\n")).unwrap();
    }

    /// Has agents of workflows work in clones from now on, as they do unless a person says otherwise.
    pub(crate) fn isolate(&self) {
        self.isolation.set(Isolation::Clone);
    }

    /// Has agents of workflows work in the person's own tree from now on, and no longer in clones.
    pub(crate) fn in_place(&self) {
        self.isolation.set(Isolation::InPlace);
    }

    /// Has agents work where they do in another place.
    pub(crate) fn isolate_like(&self, other: &TestEnv) {
        self.isolation.set(other.isolation.get());
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    /// Returns the scratch directory; beside home, because codex refuses a home inside `TMPDIR`.
    pub(crate) fn tmp(&self) -> PathBuf {
        self.dir.path().join("tmp")
    }

    pub(crate) fn repo(&self) -> PathBuf {
        self.dir.path().join("repo")
    }

    /// Returns where Ralph keeps its private state: outside everything an agent may write.
    pub(crate) fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    /// Returns what marks this place's processes in their environment.
    pub(crate) fn mark(&self) -> &str {
        &self.mark
    }

    /// Returns a whole environment: nothing of the person's but `PATH`, git pinned, time in UTC.
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

    /// Runs git in the repository and returns what it printed, without the last newline.
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

    /// Runs git where it may be refused; tells whether it was not.
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
