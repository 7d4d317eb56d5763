//! A gate as configured, pinned and written into receipts.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::glob::Glob;
use crate::millis;

/// A configured check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "GateForm", into = "GateForm")]
pub struct GateSpec {
    pub name: String,
    pub check: Check,
    pub timeout: Duration,
    /// The directory of its repository, in a workspace of several; `None` applies to each of them.
    pub repo: Option<String>,
    /// It runs only for changes to these paths. Empty: for any change.
    pub paths: Vec<Glob>,
    /// It runs before the gates that are not fast.
    pub fast: bool,
    /// It may use the network.
    pub net: bool,
    /// It may use unix sockets.
    pub unix: bool,
}

/// What a gate does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// Runs a program in a checkout; its exit decides.
    Command { argv: Vec<String> },
    /// A built-in check on the files of a commit.
    BuiltIn(BuiltIn),
}

/// The harness's built-in checks. They belong to the loop; `ralph-outline` implements them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BuiltIn {
    HasSummary,
    PlanDiff,
    Scope,
    AppExists,
    AppHasContent,
    CssThemeComplete,
    CssNoTailwindDirectives,
    NoHardcodedColors,
}

impl BuiltIn {
    /// Returns its name as a gate.
    pub const fn name(self) -> &'static str {
        match self {
            BuiltIn::HasSummary => "has-summary",
            BuiltIn::PlanDiff => "plan-diff",
            BuiltIn::Scope => "scope",
            BuiltIn::AppExists => "app-exists",
            BuiltIn::AppHasContent => "app-has-content",
            BuiltIn::CssThemeComplete => "css-theme-complete",
            BuiltIn::CssNoTailwindDirectives => "css-no-tailwind-directives",
            BuiltIn::NoHardcodedColors => "no-hardcoded-colors",
        }
    }
}

impl From<BuiltIn> for GateSpec {
    fn from(check: BuiltIn) -> GateSpec {
        GateSpec {
            name: check.name().to_owned(),
            check: Check::BuiltIn(check),
            timeout: Duration::ZERO,
            repo: None,
            paths: Vec::new(),
            fast: true,
            net: false,
            unix: false,
        }
    }
}

/// The serialised form of a gate: either `argv` or `built_in` is present.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct GateForm {
    name: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    argv: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    built_in: Option<BuiltIn>,
    #[serde(with = "millis", rename = "timeout_ms")]
    timeout: Duration,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    repo: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    paths: Vec<Glob>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    fast: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    net: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    unix: bool,
}

impl From<GateSpec> for GateForm {
    fn from(gate: GateSpec) -> GateForm {
        let (argv, built_in) = match gate.check {
            Check::Command { argv } => (argv, None),
            Check::BuiltIn(check) => (Vec::new(), Some(check)),
        };
        let GateSpec { name, timeout, repo, paths, fast, net, unix, .. } = gate;
        GateForm { name, argv, built_in, timeout, repo, paths, fast, net, unix }
    }
}

impl TryFrom<GateForm> for GateSpec {
    type Error = String;

    fn try_from(form: GateForm) -> Result<GateSpec, String> {
        let GateForm { name, argv, built_in, timeout, repo, paths, fast, net, unix } = form;
        let check = match built_in {
            Some(check) if argv.is_empty() => Check::BuiltIn(check),
            Some(_) => return Err(format!("the gate `{name}` has `argv` and `built_in`")),
            None => Check::Command { argv },
        };
        Ok(GateSpec { name, check, timeout, repo, paths, fast, net, unix })
    }
}

impl GateSpec {
    /// Returns the command it runs; empty for a built-in check.
    pub fn argv(&self) -> &[String] {
        match &self.check {
            Check::Command { argv } => argv,
            Check::BuiltIn(_) => &[],
        }
    }

    pub const fn built_in(&self) -> Option<BuiltIn> {
        match self.check {
            Check::BuiltIn(check) => Some(check),
            Check::Command { .. } => None,
        }
    }

    /// Whether it applies to a repository of the workspace, given by its directory.
    pub fn is_for(&self, repository: &str) -> bool {
        self.repo.as_deref().is_none_or(|own| own == repository)
    }

    /// Whether a change to these paths is relevant to this gate.
    pub fn concerns<'a>(&self, changed: impl IntoIterator<Item = &'a str>) -> bool {
        self.paths.is_empty()
            || changed.into_iter().any(|path| self.paths.iter().any(|glob| glob.matches(path)))
    }
}
