//! Notes about a setup for the person, in addition to the created files.

use std::fmt;

use camino::Utf8PathBuf;

use crate::config::{Config, ConfigError, render_list};
use crate::detect::checks::{SuggestedGate, Suggestions};
use crate::home::CONFIG_FILE;
use crate::plan_file::merge_driver;

/// One note. Its text describes it; [`InitNote::hint`] gives advice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InitNote {
    NotARepository {
        root: Utf8PathBuf,
    },
    /// Another tool's mailbox is left alone; ours goes to `moved`.
    ForeignMailbox {
        path: Utf8PathBuf,
        moved: Option<String>,
    },
    /// None of these agents can be used.
    NoAgent {
        names: Vec<String>,
    },
    NoChecks,
    /// The directory chosen as home already contains other files.
    HomeHasOtherFiles {
        path: Utf8PathBuf,
    },
    IgnoreLacks {
        path: Utf8PathBuf,
        lines: Vec<String>,
    },
    /// Home's attributes do not configure merging plans.
    AttributesLack {
        path: Utf8PathBuf,
    },
    /// The existing PRD does not match the schema.
    ForeignPrd {
        path: Utf8PathBuf,
        errors: Vec<String>,
    },
    /// The existing configuration does not load.
    ConfigProblem {
        problem: String,
    },
    /// The existing configuration has no gate that runs this.
    GateNotConfigured {
        gate: SuggestedGate,
    },
    SetupNotConfigured {
        command: Vec<String>,
    },
    CacheNotConfigured {
        path: String,
    },
    /// Commit hooks of the project run checks, and no gate runs them.
    HooksNoGate {
        file: &'static str,
        run: Vec<String>,
    },
    /// A tool of the project would also process home's files.
    ToolMeetsHome {
        tool: &'static str,
        file: &'static str,
        home: String,
    },
}

impl InitNote {
    /// Returns advice for the person.
    pub fn hint(&self) -> Option<String> {
        match self {
            InitNote::NotARepository { .. } => {
                Some("run `git init` there: Ralph needs a git repository".to_owned())
            }
            InitNote::ForeignMailbox { moved: None, .. } => Some(format!(
                "give Ralph a place of its own with `mailbox = \"…\"` in {CONFIG_FILE}"
            )),
            InitNote::NoAgent { .. } => Some(format!(
                "install one and set `agent` in {CONFIG_FILE}, or describe your own under `[agents.NAME]`"
            )),
            InitNote::NoChecks => Some(format!(
                "add a `[[gate]]` to {CONFIG_FILE}: without one every result is `not proven`"
            )),
            InitNote::HomeHasOtherFiles { .. } => {
                Some("to keep them apart, start again with `--home DIRECTORY`".to_owned())
            }
            InitNote::IgnoreLacks { lines, .. } => Some(format!("add `{}`", lines.join("`, `"))),
            InitNote::AttributesLack { .. } => Some(format!(
                "add `{}`",
                merge_driver::attributes().lines().last().unwrap_or_default()
            )),
            InitNote::ForeignPrd { .. } => Some("`ralph prd import` converts it".to_owned()),
            InitNote::ConfigProblem { .. } => {
                Some("correct it; Ralph does not start with it".to_owned())
            }
            InitNote::GateNotConfigured { gate } => {
                Some(format!("to use it, add a `[[gate]]` with `run = {}`", render_list(&gate.run)))
            }
            InitNote::SetupNotConfigured { command } => {
                Some(format!("to use it, add `{}` to `checkout.setup`", render_list(command)))
            }
            InitNote::CacheNotConfigured { .. } => {
                Some("to keep it between gate runs, add it to `checkout.cache`".to_owned())
            }
            InitNote::HooksNoGate { run, .. } => Some(format!(
                "they do not run for Ralph; to use them as a gate, add a `[[gate]]` with `run = {}`",
                render_list(run)
            )),
            InitNote::ToolMeetsHome { tool: "setuptools", .. } => Some(
                "name your packages under `[tool.setuptools]`: `packages = [\"…\"]`".to_owned(),
            ),
            InitNote::ToolMeetsHome { file, home, .. } => {
                Some(format!("exclude `{home}/` in `{file}`"))
            }
            InitNote::ForeignMailbox { moved: Some(_), .. } => None,
        }
    }
}

impl fmt::Display for InitNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InitNote::NotARepository { root } => write!(f, "`{root}` is not a git repository"),
            InitNote::ForeignMailbox { path, moved: None } => {
                write!(f, "`{path}` belongs to another tool and is left alone")
            }
            InitNote::ForeignMailbox { path, moved: Some(moved) } => {
                write!(
                    f,
                    "`{path}` belongs to another tool and is left alone; Ralph uses `{moved}`"
                )
            }
            InitNote::NoAgent { names } => {
                write!(f, "no agent found on PATH; Ralph knows `{}`", names.join("`, `"))
            }
            InitNote::NoChecks => {
                f.write_str("no tests, build or linter of the project were recognised")
            }
            InitNote::HomeHasOtherFiles { path } => {
                write!(f, "`{path}` has other files; Ralph's files will be mixed in")
            }
            InitNote::IgnoreLacks { path, lines } => {
                write!(f, "`{path}` is kept, but does not ignore `{}`", lines.join("`, `"))
            }
            InitNote::AttributesLack { path } => {
                write!(f, "`{path}` is kept, but does not have plans merged by record")
            }
            InitNote::ForeignPrd { path, errors } => {
                write!(f, "`{path}` is kept, but is not a valid PRD: {}", errors.join("; "))
            }
            InitNote::ConfigProblem { problem } => {
                write!(f, "the configuration is kept: {problem}")
            }
            InitNote::GateNotConfigured { gate } => {
                let SuggestedGate { name, why, .. } = gate;
                write!(f, "`{CONFIG_FILE}` is kept, without a gate for the {name} ({why})")
            }
            InitNote::SetupNotConfigured { command } => {
                write!(f, "`{CONFIG_FILE}` is kept, without the set-up `{}`", command.join(" "))
            }
            InitNote::CacheNotConfigured { path } => {
                write!(f, "`{CONFIG_FILE}` is kept, without the cache `{path}`")
            }
            InitNote::HooksNoGate { file, .. } => {
                write!(f, "`{file}` configures commit hooks, and no gate runs them")
            }
            InitNote::ToolMeetsHome { tool: "setuptools", home, .. } => {
                write!(
                    f,
                    "setuptools discovers packages automatically and would treat `{home}/` as one"
                )
            }
            InitNote::ToolMeetsHome { tool, home, .. } => {
                write!(f, "{tool} would check Ralph's files in `{home}/` too")
            }
        }
    }
}

/// Returns the suggested gates that the configuration lacks. Commands are compared, not names.
pub(super) fn compare(
    config: Result<&Config, &ConfigError>,
    suggestions: &Suggestions,
) -> Vec<InitNote> {
    let config = match config {
        Ok(config) => config,
        Err(error) => {
            let problems = error.problems.iter().map(ToString::to_string);
            return problems.map(|problem| InitNote::ConfigProblem { problem }).collect();
        }
    };
    let gates = suggestions.gates.iter();
    let gates = gates.filter(|gate| !config.gates.iter().any(|own| own.run == gate.run));
    let mut notes: Vec<_> =
        gates.map(|gate| InitNote::GateNotConfigured { gate: gate.clone() }).collect();
    let setup = suggestions.checkout.setup.iter();
    let setup = setup.filter(|command| !config.checkout.setup.contains(command));
    notes.extend(setup.map(|command| InitNote::SetupNotConfigured { command: command.clone() }));
    let cache = suggestions.checkout.cache.iter();
    let cache = cache.filter(|path| !config.checkout.cache.contains(path));
    notes.extend(cache.map(|path| InitNote::CacheNotConfigured { path: path.clone() }));
    notes
}
