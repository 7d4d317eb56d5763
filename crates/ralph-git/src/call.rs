//! One call of the git binary, hardened against a hostile repository.
//!
//! Invariant: no call made here starts a program named in a repository's own configuration. Three layers ensure that.
//! The environment is pinned: no inherited `GIT_*` variable survives, and there is no prompt, lazy fetch, transport,
//! replace ref or graft. The configuration keys that name programs, or that let an index or a commit graph lie, are
//! overridden in the command scope, which takes precedence over every file. Keys whose names an agent may choose
//! (`filter.<any>.clean`, `hook.<any>.command`) cannot be listed in advance: calls that would consult them go through
//! [`Drivers`](super::drivers::Drivers) first. Submodules are never entered, because git would use their own
//! configuration there, without our overrides.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ralph_proc::capture::{Answer, CaptureRequest, ask, ask_with_input, change};

use super::error::GitError;
use super::lock::remove_abandoned;

/// The default timeout of a call.
const TIMEOUT: Duration = Duration::from_mins(1);
/// The maximum output of a call in bytes; a truncated answer is an error, not an answer.
const CAP: usize = 256 << 20;

/// Settings that override the repository's.
const PINNED: &[(&str, &str)] = &[
    // Programs.
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.pager", "cat"),
    ("core.editor", "false"),
    ("sequence.editor", "false"),
    ("core.askPass", ""),
    ("core.sshCommand", "false"),
    ("core.gitProxy", "none"),
    ("core.alternateRefsCommand", "true"),
    ("credential.helper", ""),
    ("gpg.program", "false"),
    ("gpg.openpgp.program", "false"),
    ("gpg.x509.program", "false"),
    ("gpg.ssh.program", "false"),
    ("gpg.ssh.defaultKeyCommand", "false"),
    ("log.showSignature", "false"),
    ("protocol.allow", "never"),
    ("submodule.recurse", "false"),
    ("fetch.recurseSubmodules", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    // Settings that could falsify an answer.
    ("core.attributesFile", "/dev/null"),
    ("core.commitGraph", "false"),
    ("core.untrackedCache", "false"),
    ("core.trustctime", "true"),
    ("core.checkStat", "default"),
    ("core.fileMode", "true"),
    ("core.symlinks", "true"),
    ("core.safecrlf", "false"),
    ("core.protectNTFS", "true"),
    ("core.protectHFS", "true"),
    ("pack.useBitmaps", "false"),
    ("diff.ignoreSubmodules", "none"),
    ("color.ui", "false"),
];

/// Whether the person's own configuration, outside any repository, applies to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UserConfig {
    Heard,
    Ignored,
}

/// The git binary and its environment.
#[derive(Clone, Debug)]
pub struct GitProgram {
    exe: PathBuf,
    /// Inherited variables to remove, and variables set by a caller.
    base: Vec<(String, Option<String>)>,
    /// The location of the person's configuration, from the environment.
    person: Vec<(String, String)>,
    /// The person's identity, from the environment.
    identity: Vec<(String, String)>,
    /// The locations of programs and of the person's files: `PATH`, `HOME`, `XDG_CONFIG_HOME`; and `TZ`.
    surroundings: Vec<(String, PathBuf)>,
}

impl GitProgram {
    /// Takes the binary (a name is looked up in `PATH`) and Ralph's environment.
    pub fn new(
        exe: impl Into<PathBuf>,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Self {
        let mut program = GitProgram {
            exe: exe.into(),
            base: Vec::new(),
            person: Vec::new(),
            identity: Vec::new(),
            surroundings: Vec::new(),
        };
        // A call inherits this process's own environment, which may contain more than the given one.
        let own = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        program.base.extend(own.filter(|name| name.starts_with("GIT_")).map(|name| (name, None)));
        for (name, value) in environment {
            let (Some(name), text) = (name.to_str(), value.to_str()) else { continue };
            if let ("HOME" | "XDG_CONFIG_HOME", Some(text)) = (name, text) {
                program.base.push((name.to_owned(), Some(text.to_owned())));
            }
            if matches!(name, "PATH" | "HOME" | "XDG_CONFIG_HOME" | "TZ") {
                program.surroundings.push((name.to_owned(), PathBuf::from(value)));
                continue;
            }
            if !name.starts_with("GIT_") {
                continue;
            }
            program.base.push((name.to_owned(), None));
            let Some(value) = text else { continue };
            let pair = (name.to_owned(), value.to_owned());
            match name {
                "GIT_CONFIG_GLOBAL" | "GIT_CONFIG_SYSTEM" | "GIT_CONFIG_NOSYSTEM" => {
                    program.person.push(pair);
                }
                "GIT_AUTHOR_NAME"
                | "GIT_AUTHOR_EMAIL"
                | "GIT_COMMITTER_NAME"
                | "GIT_COMMITTER_EMAIL" => program.identity.push(pair),
                _ => {}
            }
        }
        program
    }

    /// Sets a variable for every call (`HOME`, `PATH`).
    #[cfg(test)]
    pub(crate) fn with_variable(mut self, name: &str, value: &str) -> Self {
        self.base.push((name.to_owned(), Some(value.to_owned())));
        self
    }

    /// Returns the person's home directory.
    pub(super) fn home(&self) -> Option<&Path> {
        self.surrounding("HOME")
    }

    /// Returns the person's time zone from the environment.
    pub(super) fn time_zone(&self) -> Option<&str> {
        let named = self.surroundings.iter().find(|(name, _)| name == "TZ");
        named.and_then(|(_, value)| value.to_str())
    }

    fn surrounding(&self, name: &str) -> Option<&Path> {
        let set = self.base.iter().rev().find(|(set, _)| set == name);
        let set = set.and_then(|(_, value)| value.as_deref()).map(Path::new);
        let inherited = || self.surroundings.iter().find(|(set, _)| set == name);
        set.or_else(|| inherited().map(|(_, value)| value.as_path()))
            .filter(|value| !value.as_os_str().is_empty())
    }

    /// Returns an environment variable about the location of the person's settings.
    pub(super) fn persons_variable(&self, name: &str) -> Option<&str> {
        self.person.iter().rev().find(|(set, _)| set == name).map(|(_, value)| value.as_str())
    }

    /// Returns the default locations of the person's settings, in git's order.
    pub(super) fn global_settings(&self) -> impl Iterator<Item = PathBuf> {
        let config = self.surrounding("XDG_CONFIG_HOME").map(Path::to_owned);
        let config = config.or_else(|| self.home().map(|home| home.join(".config")));
        let own = self.home().map(|home| home.join(".gitconfig"));
        config.map(|config| config.join("git/config")).into_iter().chain(own)
    }

    /// Returns where this git looks for system-wide settings: relative to itself, or in `/etc` for the system's own.
    pub(super) fn system_settings(&self) -> Option<PathBuf> {
        let exe = if self.exe.components().count() > 1 {
            self.exe.clone()
        } else {
            let path = self.surrounding("PATH")?.as_os_str().to_owned();
            let found = std::env::split_paths(&path).map(|dir| dir.join(&self.exe));
            found.into_iter().find(|candidate| candidate.is_file())?
        };
        let prefix = exe.parent()?.parent()?;
        let root = Path::new("/");
        Some(if prefix == root.join("usr") || prefix == root {
            PathBuf::from("/etc/gitconfig")
        } else {
            prefix.join("etc/gitconfig")
        })
    }

    pub(super) fn exe(&self) -> &Path {
        &self.exe
    }

    /// Returns the person's identity from the environment.
    pub(super) fn identity(&self) -> &[(String, String)] {
        &self.identity
    }
}

/// A call about to be made.
#[derive(Clone, Debug)]
pub(super) struct Call<'a> {
    args: Vec<&'a str>,
    /// Names of files or refs, not necessarily UTF-8: the last arguments.
    names: Vec<&'a OsStr>,
    cwd: Option<&'a Path>,
    env: Vec<(&'a str, &'a str)>,
    config: Vec<(&'a str, &'a str)>,
    person: UserConfig,
    input: Option<&'a [u8]>,
    timeout: Duration,
    accepted: &'a [i32],
}

impl<'a> Call<'a> {
    pub(super) fn new(args: &[&'a str]) -> Self {
        Call {
            args: args.to_vec(),
            names: Vec::new(),
            cwd: None,
            env: Vec::new(),
            config: Vec::new(),
            person: UserConfig::Ignored,
            input: None,
            timeout: TIMEOUT,
            accepted: &[],
        }
    }

    pub(super) fn args(mut self, args: impl IntoIterator<Item = &'a str>) -> Self {
        self.args.extend(args);
        self
    }

    /// Adds a name after all other arguments.
    pub(super) fn name(mut self, name: &'a OsStr) -> Self {
        self.names.push(name);
        self
    }

    pub(super) fn cwd(mut self, cwd: &'a Path) -> Self {
        self.cwd = Some(cwd);
        self
    }

    pub(super) fn env(mut self, name: &'a str, value: &'a str) -> Self {
        self.env.push((name, value));
        self
    }

    pub(super) fn config(mut self, key: &'a str, value: &'a str) -> Self {
        self.config.push((key, value));
        self
    }

    pub(super) fn configs(mut self, pairs: &'a [(String, String)]) -> Self {
        self.config.extend(pairs.iter().map(|(key, value)| (key.as_str(), value.as_str())));
        self
    }

    pub(super) fn person(mut self, person: UserConfig) -> Self {
        self.person = person;
        self
    }

    pub(super) fn input(mut self, input: &'a [u8]) -> Self {
        self.input = Some(input);
        self
    }

    pub(super) fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets exit codes in addition to 0 that are an answer rather than a failure.
    pub(super) fn accept(mut self, codes: &'a [i32]) -> Self {
        self.accepted = codes;
        self
    }

    pub(super) fn run(&self, program: &GitProgram) -> Result<Answer, GitError> {
        let count = (PINNED.len() + self.config.len()).to_string();
        let config: Vec<(String, String, &str, &str)> = PINNED
            .iter()
            .chain(&self.config)
            .enumerate()
            .map(|(index, (key, value))| {
                (
                    format!("GIT_CONFIG_KEY_{index}"),
                    format!("GIT_CONFIG_VALUE_{index}"),
                    *key,
                    *value,
                )
            })
            .collect();
        let mut env: Vec<(&str, Option<&str>)> =
            program.base.iter().map(|(name, value)| (name.as_str(), value.as_deref())).collect();
        env.extend(
            [
                ("LC_ALL", "C"),
                ("LANGUAGE", "C"),
                ("GIT_TERMINAL_PROMPT", "0"),
                ("GIT_OPTIONAL_LOCKS", "0"),
                ("GIT_NO_REPLACE_OBJECTS", "1"),
                ("GIT_GRAFT_FILE", "/dev/null"),
                ("GIT_NO_LAZY_FETCH", "1"),
                ("GIT_ALLOW_PROTOCOL", ""),
                ("GIT_ATTR_NOSYSTEM", "1"),
                ("GIT_LITERAL_PATHSPECS", "1"),
                ("GIT_PAGER", "cat"),
                ("GIT_EDITOR", "false"),
                ("GIT_ASKPASS", ""),
                ("SSH_ASKPASS", ""),
                ("GIT_CONFIG_COUNT", count.as_str()),
            ]
            .map(|(name, value)| (name, Some(value))),
        );
        match self.person {
            UserConfig::Ignored => env.extend([
                ("GIT_CONFIG_GLOBAL", Some("/dev/null")),
                ("GIT_CONFIG_NOSYSTEM", Some("1")),
            ]),
            UserConfig::Heard => env.extend(
                program.person.iter().map(|(name, value)| (name.as_str(), Some(value.as_str()))),
            ),
        }
        for (key_name, value_name, key, value) in &config {
            env.push((key_name, Some(key)));
            env.push((value_name, Some(value)));
        }
        env.extend(self.env.iter().map(|(name, value)| (*name, Some(*value))));
        let question = CaptureRequest {
            program: &program.exe,
            args: &self.args,
            names: &self.names,
            cwd: self.cwd,
            env: &env,
            timeout: self.timeout,
            cap: CAP,
        };
        // A commit takes three locks: of the index, of `HEAD`, of its branch.
        let mut in_the_way = 3;
        loop {
            let answered = match self.input {
                input if !only_reads(&self.args) => change(&question, input),
                Some(input) => ask_with_input(&question, input),
                None => ask(&question),
            };
            match self.judge(program, answered) {
                // The lock of a killed Ralph has no holder. Git takes locks before it changes what they protect, so
                // retrying is safe.
                Err(GitError::Locked { path, .. }) if in_the_way > 0 && remove_abandoned(&path) => {
                    in_the_way -= 1;
                }
                judged => return judged,
            }
        }
    }

    /// Whether it is known to change no file.
    pub(super) fn only_reads(&self) -> bool {
        only_reads(&self.args)
    }

    fn judge(
        &self,
        program: &GitProgram,
        answered: std::io::Result<Answer>,
    ) -> Result<Answer, GitError> {
        let args = || self.args.join(" ");
        let answer = match answered {
            Ok(answer) => answer,
            Err(source)
                if source.kind() == std::io::ErrorKind::NotFound
                    && self.cwd.is_none_or(Path::is_dir) =>
            {
                return Err(GitError::NotFound { program: program.exe.clone() });
            }
            Err(source) => return Err(GitError::Start { args: args(), source }),
        };
        if answer.timed_out {
            return Err(GitError::TimedOut { args: args(), after: self.timeout });
        }
        if answer.stdout.len() >= CAP {
            return Err(GitError::TooMuch { args: args(), cap: CAP });
        }
        if answer.code.is_some_and(|code| code == 0 || self.accepted.contains(&code)) {
            return Ok(answer);
        }
        Err(GitError::from_failure(args(), answer.code, &answer.stderr))
    }
}

/// Whether a command is known to change no file. Optional locks are disabled, so none refreshes an index either.
fn only_reads(args: &[&str]) -> bool {
    match args {
        ["config", rest @ ..] => {
            rest.iter().any(|arg| *arg == "--list" || arg.starts_with("--get"))
        }
        ["notes", _, command, ..] | ["worktree", command, ..] => *command == "list",
        ["symbolic-ref", "--quiet", name] => !name.starts_with('-'),
        ["clean", rest @ ..] => rest.contains(&"--dry-run"),
        ["hash-object", rest @ ..] => !rest.contains(&"-w"),
        [command, ..] => READING.contains(command),
        [] => false,
    }
}

/// Commands that change no file, whatever arguments are used here.
const READING: &[&str] = &[
    "cat-file",
    "check-attr",
    "check-ignore",
    "diff-index",
    "diff-tree",
    "for-each-ref",
    "ls-files",
    "ls-tree",
    "merge-base",
    "rev-list",
    "rev-parse",
    "status",
    "version",
];

/// Returns the first line of an output, for messages.
pub(super) fn first_line(bytes: &[u8]) -> String {
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    String::from_utf8_lossy(line).into_owned()
}

/// Returns a path's bytes.
pub(super) fn path_bytes(path: &Path) -> &[u8] {
    std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str())
}

/// Returns the path with these bytes.
pub(super) fn path_from(bytes: &[u8]) -> PathBuf {
    PathBuf::from(<OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::only_reads;

    #[test]
    fn a_command_reads_only_if_none_of_its_forms_here_writes() {
        let reading = [
            "status --porcelain=v2",
            "config --list --null",
            "config --local --get merge.plan.driver",
            "notes --ref=refs/notes/ralph list 1234",
            "symbolic-ref --quiet HEAD",
            "worktree list --porcelain",
            "clean --dry-run -ffdx",
            "hash-object --no-filters --stdin",
        ];
        let writing = [
            "",
            "config --local merge.plan.driver x",
            "notes --ref=refs/notes/ralph add --force --file=- 1234",
            "symbolic-ref HEAD refs/heads/main",
            "worktree add x",
            "clean --quiet -ffdx",
            "hash-object -w --stdin",
            "update-index -z --stdin",
            "a-command-of-tomorrow",
        ];
        for (commands, expected) in [(&reading[..], true), (&writing, false)] {
            for command in commands {
                let args: Vec<&str> = command.split_whitespace().collect();
                assert_eq!(only_reads(&args), expected, "{command}");
            }
        }
    }
}
