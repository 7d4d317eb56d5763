//! The environment of a demo: a repository, and everything that Ralph would otherwise keep in the person's home.
//!
//! It is isolated from the person: no git configuration, no settings, no state. Everything is removed with the stage,
//! unless it is kept.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use ralph_engine::init::{InitRequest, perform, plan_init};
use ralph_engine::run::Environment;
use ralph_proc::capture::{CaptureRequest, ask};

use crate::args::GlobalArgs;
use crate::error::CliError;
use crate::render;
use crate::setup::{Setup, current_directory};

/// The initial content of the repository, and the script of the agents next to it.
const FILES: [(&str, &str); 11] = [
    ("slug/README.md", include_str!("../../demo/repository/README.md")),
    ("slug/AGENTS.md", include_str!("../../demo/repository/AGENTS.md")),
    ("slug/slug.sh", include_str!("../../demo/repository/slug.sh")),
    ("slug/tests/run.sh", include_str!("../../demo/repository/tests/run.sh")),
    ("slug/tests/syntax.sh", include_str!("../../demo/repository/tests/syntax.sh")),
    ("slug/tests/cases.txt", include_str!("../../demo/repository/tests/cases.txt")),
    ("slug/ralph.toml", include_str!("../../demo/repository/ralph.toml")),
    (
        "slug/ralph/specs/0001-lower-case.md",
        include_str!("../../demo/repository/specs/0001-lower-case.md"),
    ),
    (
        "slug/ralph/specs/0002-single-dashes.md",
        include_str!("../../demo/repository/specs/0002-single-dashes.md"),
    ),
    (
        "slug/ralph/specs/0003-symbols.md",
        include_str!("../../demo/repository/specs/0003-symbols.md"),
    ),
    ("rehearsal.txt", include_str!("../../demo/rehearsal.txt")),
];

/// The settings taken from the person: how Ralph communicates, and how it confines agents.
const KEPT_SETTINGS: [&str; 4] = ["RALPH_UI", "RALPH_COLOR", "RALPH_ASCII", "RALPH_BOUNDARY"];

/// The timeout of small git commands.
const PATIENCE: Duration = Duration::from_mins(1);

/// Where a demo takes place.
pub(super) struct DemoStage {
    directory: Utf8PathBuf,
    keep: bool,
    /// Whether the directory itself existed before.
    was_there: bool,
}

impl DemoStage {
    /// Claims an empty directory.
    pub(super) fn claim(named: Option<&Utf8Path>, keep: bool) -> Result<DemoStage, CliError> {
        let Some(named) = named else { return DemoStage::claim_temporary(keep) };
        let directory = current_directory()?.join(named);
        let made = private().create(&directory);
        let was_there = match made {
            Ok(()) => false,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => true,
            Err(error) => return Err(no_place(&directory, &error)),
        };
        if was_there {
            let entries = fs::read_dir(&directory).map_err(|error| no_place(&directory, &error))?;
            if entries.count() > 0 {
                let message = format!("`{directory}` is not empty");
                return Err(
                    CliError::usage(message).hint("name a directory that does not exist yet")
                );
            }
        }
        DemoStage { directory, keep, was_there }.settled()
    }

    fn claim_temporary(keep: bool) -> Result<DemoStage, CliError> {
        let below = Utf8PathBuf::from_path_buf(std::env::temp_dir())
            .map_err(|_| CliError::usage("the path of the temporary directory is not UTF-8"))?;
        let process = std::process::id();
        for number in 0_u32.. {
            let directory = below.join(format!("ralph-demo-{process}-{number}"));
            match private().create(&directory) {
                Ok(()) => return DemoStage { directory, keep, was_there: false }.settled(),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(no_place(&below, &error)),
            }
        }
        Err(CliError::usage(format!("no free name in `{below}`")))
    }

    /// Canonicalises the directory, for later comparisons.
    fn settled(mut self) -> Result<DemoStage, CliError> {
        let named = self.directory.clone();
        let found = named.canonicalize_utf8().map_err(|error| no_place(&named, &error))?;
        self.directory = found;
        Ok(self)
    }

    pub(super) fn directory(&self) -> &Utf8Path {
        &self.directory
    }

    pub(super) fn repository(&self) -> Utf8PathBuf {
        self.directory.join("slug")
    }

    /// Returns the environment for everything in the demo.
    pub(super) fn environment(&self) -> Environment {
        let is_ours = |name: &str| {
            (name.starts_with("GIT_") || name.starts_with("RALPH_"))
                && !KEPT_SETTINGS.contains(&name)
        };
        let inherited = std::env::vars_os().filter(|(name, _)| !name.to_str().is_some_and(is_ours));
        let mut environment = Environment::inherited(inherited);
        for (name, value) in self.variables() {
            environment.set(name, value);
        }
        environment
    }

    fn variables(&self) -> [(&'static str, String); 6] {
        let below = |name: &str| self.directory.join(name).into_string();
        [
            ("HOME", below("home")),
            ("XDG_CONFIG_HOME", below("config")),
            ("XDG_STATE_HOME", below("state")),
            ("RALPH_REHEARSAL_STATE", below("rehearsal")),
            ("GIT_CONFIG_GLOBAL", "/dev/null".to_owned()),
            ("GIT_CONFIG_NOSYSTEM", "1".to_owned()),
        ]
    }

    /// Creates the repository with a home for Ralph, and commits both.
    pub(super) fn build(&self, global: &GlobalArgs) -> Result<Setup, CliError> {
        let fail = |path: &Utf8Path, error: &io::Error| {
            CliError::usage(format!("cannot write `{path}`: {error}"))
        };
        for (name, text) in FILES {
            let path = self.directory.join(name);
            let above = path.parent().expect("it lies below the stage");
            fs::create_dir_all(above).map_err(|error| fail(above, &error))?;
            fs::write(&path, text).map_err(|error| fail(&path, &error))?;
        }
        for name in ["home", "config"] {
            let path = self.directory.join(name);
            fs::create_dir(&path).map_err(|error| fail(&path, &error))?;
        }
        let path = self.directory.join("env");
        fs::write(&path, self.variables_for_a_shell()).map_err(|error| fail(&path, &error))?;
        self.git(&["init", "--quiet", "--initial-branch=main", "--template="])?;
        // There is no git identity: agents commit as `Rehearsal`, Ralph as `Ralph`.
        self.git(&["config", "user.useConfigOnly", "true"])?;
        let setup = Setup::load_at(global, self.environment(), &self.repository())?;
        let (workspace, config) = (&setup.workspace, Ok(&setup.config));
        let plan = plan_init(&InitRequest { workspace, config, as_written: None, agents: &[] });
        plan.and_then(|plan| perform(&plan)).map_err(CliError::usage)?;
        self.git(&["add", "--all"])?;
        let who = ["-c", "user.name=Demo", "-c", "user.email=demo@localhost"];
        let commit = ["commit", "--quiet", "--message=A small program, its tests, three specs"];
        self.git(&[who.as_slice(), commit.as_slice()].concat())?;
        Setup::load_at(global, self.environment(), &self.repository())
    }

    fn variables_for_a_shell(&self) -> String {
        let lines = self
            .variables()
            .map(|(name, value)| format!("export {name}='{}'\n", value.replace('\'', r"'\''")));
        format!("# `. ./env` makes a shell see what the demo saw.\n{}", lines.concat())
    }

    /// Runs git in the repository and returns its output.
    pub(super) fn git(&self, args: &[&str]) -> Result<String, CliError> {
        let own: Vec<String> = std::env::vars_os()
            .filter_map(|(name, _)| name.into_string().ok())
            .filter(|name| name.starts_with("GIT_"))
            .collect();
        let ours = self.variables();
        let removed = own.iter().map(|name| (name.as_str(), None));
        let set = ours.iter().map(|(name, value)| (*name, Some(value.as_str())));
        let env: Vec<_> = removed.chain(set).collect();
        let repository = self.repository();
        let answer = ask(&CaptureRequest {
            program: Path::new("git"),
            args,
            names: &[],
            cwd: Some(repository.as_std_path()),
            env: &env,
            timeout: PATIENCE,
            cap: 1 << 20,
        });
        let answer = answer
            .map_err(|error| CliError::failed(format!("`git {}`: {error}", args.join(" "))))?;
        if answer.code == Some(0) {
            return Ok(String::from_utf8_lossy(&answer.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&answer.stderr);
        Err(CliError::failed(format!("`git {}` failed: {}", args.join(" "), said.trim())))
    }
}

impl Drop for DemoStage {
    fn drop(&mut self) {
        if self.keep {
            return;
        }
        let removed = if self.was_there {
            remove_all_in(&self.directory)
        } else {
            fs::remove_dir_all(&self.directory)
        };
        if let Err(error) = removed {
            render::important(&format!("cannot remove `{}`: {error}", self.directory));
        }
    }
}

fn remove_all_in(directory: &Utf8Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn private() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.mode(0o700);
    builder
}

fn no_place(path: &Utf8Path, error: &io::Error) -> CliError {
    CliError::usage(format!("cannot make the demo's repository in `{path}`: {error}"))
        .hint("name another place with --dir")
}
