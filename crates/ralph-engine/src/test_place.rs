//! Shared by tests of the setup: a temporary directory with real git, and programs to look up.

use std::fs;
use std::process::Command;

use camino::{Utf8Path, Utf8PathBuf};

use crate::config::{ArmedKeys, Config, ConfigError, ConfigRequest, EnvNames};
use crate::detect::agents::FoundAgent;
use crate::home::find_workspace;
use crate::state::{State, StateRequest};

const ADAPTERS: [&str; 5] = ["codex", "claude", "opencode", "gemini", "rehearsal"];

/// A temporary directory.
pub(crate) struct Place {
    _guard: tempfile::TempDir,
    pub(crate) root: Utf8PathBuf,
}

impl Place {
    pub(crate) fn new() -> Self {
        let guard = tempfile::tempdir().unwrap();
        let root = Utf8PathBuf::from_path_buf(guard.path().canonicalize().unwrap()).unwrap();
        Place { _guard: guard, root }
    }

    pub(crate) fn repository() -> Self {
        let place = Self::new();
        place.git(&["init", "-q"]);
        place
    }

    /// Opens private state below the directory.
    pub(crate) fn state(&self) -> State {
        let workspace = find_workspace(Some(&self.root), &self.root).unwrap();
        let request = StateRequest {
            base: &self.root.join("state"),
            workspace: &workspace,
            home: &workspace.home(None),
            now: jiff::Timestamp::UNIX_EPOCH,
            root_commit: &|_| None,
        };
        State::open(&request).unwrap().0
    }

    pub(crate) fn git(&self, args: &[&str]) -> String {
        let mut git = Command::new("git");
        git.args(args).current_dir(&self.root).env("GIT_CONFIG_GLOBAL", "/dev/null");
        let output = git.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.root.join(path)).unwrap()
    }

    /// Creates a program. A shell writes it: a file that this process has open for writing while another thread forks
    /// could not be executed.
    pub(crate) fn program(&self, name: &str, script: &str) -> Utf8PathBuf {
        let path = self.root.join(name);
        let text = format!("#!/bin/sh\n{script}\n");
        let write = "printf %s \"$1\" > \"$2\" && chmod 755 \"$2\"";
        let args = ["-c", write, "sh", text.as_str(), path.as_str()];
        assert!(Command::new("/bin/sh").args(args).status().unwrap().success());
        path
    }

    /// Loads the configuration at the root, with `RALPH_HOME` set if a home is named.
    pub(crate) fn load(&self, home: Option<&str>) -> Result<Config, ConfigError> {
        load_config(&self.root, home)
    }
}

pub(crate) fn load_config(root: &Utf8Path, home: Option<&str>) -> Result<Config, ConfigError> {
    let env = |name: &str| home.filter(|_| name == "RALPH_HOME").map(str::to_owned);
    Config::load(&ConfigRequest {
        root,
        cwd: root,
        env: &env,
        env_names: EnvNames::Own,
        flags: &[],
        adapters: &ADAPTERS,
        armed: ArmedKeys::Counted,
    })
}

/// An agent that is installed and works.
pub(crate) fn installed_agent(name: &str) -> FoundAgent {
    FoundAgent {
        name: name.to_owned(),
        program: name.to_owned(),
        path: Some(Utf8PathBuf::from("/usr/bin").join(name)),
        version: Some("1.2.3".to_owned()),
        problem: None,
    }
}
