//! Settings, in layers: defaults, the person's own file, the workspace's `ralph.toml`, the environment, the flags.
//!
//! Every value has an origin. An unknown key is an error, never ignored, and all problems are reported at once. Nothing
//! here runs or looks up a program; a path is only joined to its base: the workspace's root, or for a flag the current
//! directory.

mod agents;
mod armed;
mod duration;
mod entries;
mod include;
mod layer;
mod loop_settings;
mod notify;
mod problem;
mod reference;
mod schema;
mod size;
mod validate;
mod value;

use std::collections::BTreeMap;
use std::time::Duration;

use camino::{Utf8Component, Utf8Path, Utf8PathBuf};
use ralph_model::gate::CacheMode;
use ralph_model::usage::Price;
use ralph_model::verdict::ChangedChecks;

pub use self::agents::AgentChoice;
pub(crate) use self::agents::AgentProgram;
pub(crate) use self::agents::SESSION_MARK;
pub use self::armed::{ArmedKey, ArmedKeys};
pub use self::entries::ConfigEntry;
use self::layer::{GateTable, Layer, Located, Rank};
pub(crate) use self::loop_settings::{LoopPreset, LoopSettings};
pub use self::notify::{NotifySettings, TerminalNotice};
pub use self::problem::{ConfigError, ConfigProblem, ConfigProblemKind, Origin};
pub use self::reference::reference;
pub(crate) use self::size::approximate_size;
pub(crate) use self::value::{render_list, render_string};
use crate::files::read_optional;
use crate::git::copied::CopyList;
use crate::home::CONFIG_FILE;
use ralph_proc::sandbox::SocketAccess;

/// The input of loading a configuration.
pub struct ConfigRequest<'a> {
    /// The workspace's root, which contains `ralph.toml`.
    pub root: &'a Utf8Path,
    /// The current directory.
    pub cwd: &'a Utf8Path,
    pub env: &'a dyn Fn(&str) -> Option<String>,
    pub env_names: EnvNames,
    pub flags: &'a [FlagValue<'a>],
    /// The names of the available adapters.
    pub adapters: &'a [&'a str],
    /// Whether the person trusts the workspace's file.
    pub armed: ArmedKeys,
}

/// Which variable names are recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnvNames {
    /// Ralph's own.
    Own,
    /// Also the legacy ones, which the goal-driven commands keep.
    Goal,
}

/// A flag that sets a value, as typed.
#[derive(Clone, Copy, Debug)]
pub struct FlagValue<'a> {
    /// With its dashes.
    pub flag: &'static str,
    pub key: &'static str,
    pub value: &'a str,
}

/// How roles are confined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoundaryMode {
    /// By both kernel layers; without them nothing runs.
    Strict,
    /// By the kernel; if it cannot, nothing runs.
    Kernel,
    /// By the kernel if possible, otherwise by comparison.
    Auto,
    /// By comparison after each run.
    Detect,
    Off,
}

/// What the second layer of the boundary exposes to agents and gates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxConfig {
    /// Exposed parts of the home directory, in addition to what every run needs.
    pub show: Vec<Utf8PathBuf>,
    /// Which unix sockets agents may open: they lead to daemons outside the boundary.
    pub unix_sockets: SocketAccess,
    pub namespaces: Namespaces,
}

impl SandboxConfig {
    fn from_settings(settings: &Layer, places: &Places) -> SandboxConfig {
        let get = |key: &str| settings.values.get(&layer::split_key(key));
        let with_default = |key: &str| get(key).expect("the setting has a default");
        let own = with_default("sandbox.unix").text() == "own";
        SandboxConfig {
            show: get("sandbox.show").map(|paths| places.resolve_all(paths)).unwrap_or_default(),
            unix_sockets: match (with_default("unix_sockets").flag(), own) {
                (true, _) => SocketAccess::All,
                (false, true) => SocketAccess::Own,
                (false, false) => SocketAccess::Denied,
            },
            namespaces: match with_default("sandbox.namespaces").text() {
                "off" => Namespaces::Off,
                _ => Namespaces::Auto,
            },
        }
    }
}

/// Whether runs get their own mount and process namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Namespaces {
    /// If the machine allows it.
    Auto,
    Off,
}

/// Where agents of a workflow work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// In clones owned by Ralph; only judged work reaches the branch.
    Clone,
    /// In the person's checkout.
    InPlace,
}

/// When the person's branch and checkout follow landed work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follow {
    /// After each landing, if that does not interfere.
    Clean,
    /// When the workflow ends, if that does not interfere.
    End,
    /// On `ralph land`.
    Never,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogFormat {
    Json,
    Text,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UiMode {
    Auto,
    Rich,
    Plain,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Color {
    Auto,
    Always,
    Never,
}

/// All settings. [`Config::agent_for`] resolves a role's agent.
#[derive(Clone, Debug)]
pub struct Config {
    pub boundary: BoundaryMode,
    pub isolation: Isolation,
    pub(crate) follow: Follow,
    /// The directory of clones, if not in private state.
    pub(crate) slots: Option<Utf8PathBuf>,
    /// Home, if configured. Absolute, like all paths here.
    pub home: Option<Utf8PathBuf>,
    pub(crate) mailbox: Utf8PathBuf,
    /// Paths that every role may write in addition to its own.
    pub writable: Vec<Utf8PathBuf>,
    /// Names of the person's variables that are passed to every run.
    pub env_pass: Vec<String>,
    pub sandbox: SandboxConfig,
    pub(crate) log_format: LogFormat,
    pub(crate) checkout: CheckoutConfig,
    pub gates: Vec<Gate>,
    /// Patterns of checks that work may change.
    pub(crate) allow: Vec<String>,
    /// Who decides on other changed checks.
    pub(crate) changed_checks: ChangedChecks,
    /// Which caches gates may use at a candidate.
    pub(crate) judge_cache: CacheMode,
    pub limits: Limits,
    pub budget: BudgetConfig,
    /// By model, for agents that do not report the cost of a run.
    pub(crate) prices: BTreeMap<String, Price>,
    pub git: GitSettings,
    pub ui: UiSettings,
    pub(crate) loop_settings: LoopSettings,
    /// How a person who is away is notified.
    pub notify: NotifySettings,
    /// Checkouts whose armed keys are always trusted.
    pub(crate) trusted: Vec<Utf8PathBuf>,
    armed: Vec<ArmedKey>,
    armed_keys: ArmedKeys,
    settings: Layer,
    adapters: Vec<String>,
    places: Places,
}

/// How Ralph's own checkouts are prepared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CheckoutConfig {
    pub(crate) setup: Vec<Vec<String>>,
    /// Paths in the checkout that are kept between runs.
    pub(crate) cache: Vec<String>,
    /// Ignored files of the workspace that are copied in, from `copy` and `.worktreeinclude`.
    pub(crate) copy: CopyList,
}

/// A check the harness runs itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gate {
    pub name: String,
    pub run: Vec<String>,
    pub timeout: Duration,
    /// Its repository in the workspace, by directory.
    pub repo: Option<String>,
    pub paths: Vec<String>,
    pub fast: bool,
    pub net: bool,
    pub unix: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Whether to wait for a usage limit to reset.
    pub wait: bool,
    /// Whether a limit hit by an earlier command counts at the start.
    pub(crate) remember: bool,
    /// Added to the reported reset time.
    pub(crate) margin: Duration,
    /// The longest single wait if that time is unknown.
    pub(crate) max_wait: Duration,
    /// The longest pause after consecutive failures; zero disables pauses.
    pub(crate) backoff: Duration,
    /// The maximum number of troubles per item, of any kind.
    pub(crate) troubles: u32,
    /// How often a task is rejected before a person is asked.
    pub(crate) rejections: u32,
    /// The maximum number of consecutive attempts with the same end.
    pub repeats: u32,
    /// The maximum number of consecutive rounds of the build loop without net progress.
    pub(crate) rounds: u32,
    /// Between interrupting an agent and terminating it.
    pub interrupt_grace: Duration,
    /// Between terminating an agent and killing it.
    pub terminate_grace: Duration,
    /// How many bytes of an agent's or a gate's output are kept.
    pub log: u64,
    /// Percent of the context at which to warn, and at which to stop.
    pub(crate) context_warn: u64,
    pub(crate) context_kill: u64,
}

/// The limits after which work stops.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BudgetConfig {
    pub tokens: Option<u64>,
    /// In dollars.
    pub cost: Option<f64>,
    pub wall: Option<Duration>,
    pub iterations: Option<u64>,
    /// Consecutive ones.
    pub failures: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitSettings {
    pub commit_home: bool,
    pub sign: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UiSettings {
    pub mode: UiMode,
    pub color: Color,
    pub ascii: bool,
}

/// The base directories of relative paths.
#[derive(Clone, Debug)]
struct Places {
    root: Utf8PathBuf,
    cwd: Utf8PathBuf,
    user_home: Option<Utf8PathBuf>,
}

impl Config {
    /// Returns the ignored files of the workspace that are copied into Ralph's own checkouts.
    pub fn copied(&self) -> &CopyList {
        &self.checkout.copy
    }

    /// Loads all layers.
    pub fn load(request: &ConfigRequest<'_>) -> Result<Self, ConfigError> {
        let mut problems = Vec::new();
        let mut settings = Layer::defaults();
        if let Some(path) = user_config_path(request.env) {
            settings.overlay(load_file(&path, Rank::User, &mut problems));
        }
        let workspace_file = request.root.join(CONFIG_FILE);
        let mut workspace = load_file(&workspace_file, Rank::Workspace, &mut problems);
        armed::check_personal(&workspace, &mut problems);
        let mut armed = armed::armed_keys(&workspace, &settings);
        let included = include::lists(request.root, &mut problems);
        armed.extend(included.iter().map(include::IncludeList::armed));
        if request.armed == ArmedKeys::Ignored {
            armed::disarm(&mut workspace, &settings);
        }
        armed::tighten(&mut workspace, &settings);
        settings.overlay(workspace);
        settings.overlay(Layer::from_env(request.env, request.env_names, &mut problems));
        settings.overlay(Layer::from_flags(request.flags, &mut problems));
        validate::check(&settings, request.adapters, request.armed, &mut problems);
        if !problems.is_empty() {
            return Err(ConfigError { problems });
        }
        let places = Places {
            root: request.root.to_owned(),
            cwd: request.cwd.to_owned(),
            user_home: absolute((request.env)("HOME")),
        };
        let adapters = request.adapters.iter().map(|name| (*name).to_owned()).collect();
        let mut config = Self::from_settings(settings, adapters, places);
        if request.armed == ArmedKeys::Counted {
            for list in &included {
                config.checkout.copy.include(&list.directory, &list.text);
            }
        }
        Ok(Config { armed, armed_keys: request.armed, ..config })
    }

    /// Returns the keys of the workspace's file that need the person's trust, whether trusted or not.
    pub fn armed(&self) -> &[ArmedKey] {
        &self.armed
    }

    /// Whether the armed keys are in force, so that programs may be started because of them.
    pub fn is_trusted(&self) -> bool {
        self.armed_keys == ArmedKeys::Counted
    }

    /// Whether the person configured home themselves: by a flag, a variable or their own file.
    pub(crate) fn is_home_personal(&self) -> bool {
        self.settings.get(&["home"]).is_some_and(|home| home.rank != Rank::Workspace)
    }

    fn from_settings(settings: Layer, adapters: Vec<String>, places: Places) -> Self {
        let get = |key: &str| settings.values.get(&layer::split_key(key));
        let with_default = |key: &str| get(key).expect("the setting has a default");
        let flag = |key| with_default(key).flag();
        let duration = |key| with_default(key).duration();
        let count = |key| get(key).map(Located::count);
        // No limit at all would be an endless loop, so zero means one.
        let bound = |key| u32::try_from(with_default(key).count()).unwrap_or(u32::MAX).max(1);
        let list = |key| get(key).map(Located::list).unwrap_or_default().to_vec();
        Config {
            boundary: match with_default("boundary").text() {
                "strict" => BoundaryMode::Strict,
                "kernel" => BoundaryMode::Kernel,
                "detect" => BoundaryMode::Detect,
                "off" => BoundaryMode::Off,
                _ => BoundaryMode::Auto,
            },
            isolation: match with_default("isolation").text() {
                "in-place" => Isolation::InPlace,
                _ => Isolation::Clone,
            },
            follow: match with_default("follow").text() {
                "end" => Follow::End,
                "never" => Follow::Never,
                _ => Follow::Clean,
            },
            slots: get("slots.dir").map(|dir| places.resolve(dir, dir.text())),
            home: get("home").map(|home| places.resolve(home, home.text())),
            mailbox: places.resolve(with_default("mailbox"), with_default("mailbox").text()),
            writable: get("writable").map(|paths| places.resolve_all(paths)).unwrap_or_default(),
            sandbox: SandboxConfig::from_settings(&settings, &places),
            env_pass: list("env.pass"),
            log_format: match with_default("log_format").text() {
                "text" => LogFormat::Text,
                _ => LogFormat::Json,
            },
            checkout: CheckoutConfig {
                setup: get("checkout.setup").map(Located::commands).unwrap_or_default().to_vec(),
                cache: list("checkout.cache"),
                copy: CopyList { names: list("checkout.copy"), patterns: Vec::new() },
            },
            gates: settings.gates.iter().flatten().map(gate).collect(),
            allow: list("protect.allow"),
            changed_checks: match with_default("judge.changed_checks").text() {
                "reject" => ChangedChecks::Reject,
                "person" => ChangedChecks::Person,
                _ => ChangedChecks::Verifier,
            },
            judge_cache: match with_default("judge.cache").text() {
                "cold" => CacheMode::Cold,
                "warm" => CacheMode::Warm,
                _ => CacheMode::Accepted,
            },
            limits: Limits {
                wait: flag("limits.wait"),
                remember: flag("limits.remember"),
                margin: duration("limits.margin"),
                max_wait: duration("limits.max_wait"),
                backoff: duration("limits.backoff"),
                troubles: bound("limits.troubles"),
                rejections: bound("limits.rejections"),
                repeats: bound("limits.repeats"),
                rounds: bound("limits.rounds"),
                interrupt_grace: duration("limits.interrupt_grace"),
                terminate_grace: duration("limits.terminate_grace"),
                log: with_default("limits.log").size(),
                context_warn: with_default("limits.context_warn").count(),
                context_kill: with_default("limits.context_kill").count(),
            },
            budget: BudgetConfig {
                tokens: count("budget.tokens"),
                cost: get("budget.cost").map(Located::number),
                wall: get("budget.wall").map(Located::duration),
                iterations: count("budget.iterations"),
                failures: count("budget.failures"),
            },
            prices: prices(&settings),
            git: GitSettings { commit_home: flag("git.commit_home"), sign: flag("git.sign") },
            ui: UiSettings {
                mode: match with_default("ui.mode").text() {
                    "rich" => UiMode::Rich,
                    "plain" => UiMode::Plain,
                    _ => UiMode::Auto,
                },
                color: match with_default("ui.color").text() {
                    "always" => Color::Always,
                    "never" => Color::Never,
                    _ => Color::Auto,
                },
                ascii: flag("ui.ascii"),
            },
            loop_settings: LoopSettings::of(&settings),
            notify: NotifySettings::of(&settings),
            trusted: get("trust.always").map(|paths| places.resolve_all(paths)).unwrap_or_default(),
            armed: Vec::new(),
            armed_keys: ArmedKeys::Counted,
            settings,
            adapters,
            places,
        }
    }
}

impl Places {
    /// Makes a path absolute. `~/` is the person's home directory.
    fn resolve(&self, located: &Located, path: &str) -> Utf8PathBuf {
        if let (Some(rest), Some(home)) = (path.strip_prefix("~/"), &self.user_home) {
            return home.join(rest);
        }
        let base = if located.rank == Rank::Flags { &self.cwd } else { &self.root };
        // Without `..`: an agent may be able to see the target but not the directories on the way to it.
        without_parents(&base.join(path))
    }

    fn resolve_all(&self, located: &Located) -> Vec<Utf8PathBuf> {
        located.list().iter().map(|path| self.resolve(located, path)).collect()
    }

    /// Returns a command's text with the script it runs as an absolute path, if that file exists relative to the
    /// setting's base directory: the first word, or after an interpreter the first non-option. Agents work in clones,
    /// which contain only committed files and what the agents make of them.
    fn resolve_script(&self, located: &Located) -> String {
        let text = located.text();
        let is_plain = |word: &str| {
            word.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '/'))
        };
        let mut words = text.split_ascii_whitespace();
        let Some(first) = words.next() else { return text.to_owned() };
        let named = if first.contains('/') {
            Some(first)
        } else {
            words.find(|word| !word.starts_with('-'))
        };
        let Some(word) = named.filter(|word| is_plain(word) && !word.starts_with('/')) else {
            return text.to_owned();
        };
        let path = self.resolve(located, word);
        if !path.as_std_path().is_file() {
            return text.to_owned();
        }
        let quoted = format!("'{}'", path.as_str().replace('\'', "'\\''"));
        let is_space = |c: Option<char>| c.is_none_or(|c| c.is_ascii_whitespace());
        let mut places = text.match_indices(word).map(|(at, _)| (at, at + word.len()));
        let place = places.find(|(at, end)| {
            is_space(text[..*at].chars().next_back()) && is_space(text[*end..].chars().next())
        });
        let (at, end) = place.expect("it is a word of the text");
        format!("{}{quoted}{}", &text[..at], &text[end..])
    }

    /// Makes a program's path absolute; a bare name is looked up on PATH later.
    fn resolve_program(&self, located: &Located, program: &str) -> String {
        if program.contains('/') {
            self.resolve(located, program).into_string()
        } else {
            program.to_owned()
        }
    }
}

/// Removes `.` and `..` from an absolute path.
pub(crate) fn without_parents(path: &Utf8Path) -> Utf8PathBuf {
    let mut plain = Utf8PathBuf::new();
    for part in path.components() {
        match part {
            Utf8Component::ParentDir => {
                plain.pop();
            }
            Utf8Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

/// Returns the path of the person's own settings, whether or not the file exists.
pub(crate) fn user_config_path(env: &dyn Fn(&str) -> Option<String>) -> Option<Utf8PathBuf> {
    let directory = absolute(env("XDG_CONFIG_HOME"))
        .or_else(|| absolute(env("HOME")).map(|home| home.join(".config")))?;
    Some(directory.join("ralph/config.toml"))
}

/// Accepts a path from the environment only if it is absolute, as the base directory specification requires.
pub(crate) fn absolute(path: Option<String>) -> Option<Utf8PathBuf> {
    path.map(Utf8PathBuf::from).filter(|path| path.is_absolute())
}

fn load_file(path: &Utf8Path, rank: Rank, problems: &mut Vec<ConfigProblem>) -> Layer {
    let mut unreadable = |reason: String| {
        let origin = Origin::File { path: path.to_owned(), line: 1, column: 1 };
        problems.push(ConfigProblem { origin, kind: ConfigProblemKind::Unreadable { reason } });
        Layer::default()
    };
    match read_optional(path) {
        Ok(None) => Layer::default(),
        Err(error) => unreadable(error.source.to_string()),
        Ok(Some(bytes)) => match String::from_utf8(bytes) {
            Ok(text) => Layer::from_toml(path, &text, rank, problems),
            Err(_) => unreadable("it is not UTF-8".to_owned()),
        },
    }
}

fn gate(table: &GateTable) -> Gate {
    let get = |key| table.values.get(key).expect("gates are validated and have their defaults");
    let flag = |key| get(key).flag();
    Gate {
        name: get("name").text().to_owned(),
        run: get("run").list().to_vec(),
        timeout: get("timeout").duration(),
        repo: table.values.get("repo").map(|repo| repo.text().trim_end_matches('/').to_owned()),
        paths: table.values.get("paths").map(Located::list).unwrap_or_default().to_vec(),
        fast: flag("fast"),
        net: flag("net"),
        unix: flag("unix"),
    }
}

fn prices(settings: &Layer) -> BTreeMap<String, Price> {
    let mut prices: BTreeMap<String, Price> = BTreeMap::new();
    for (key, value) in &settings.values {
        let [table, model, kind] = key.as_slice() else { continue };
        if table != "prices" {
            continue;
        }
        let price = prices.entry(model.clone()).or_default();
        match kind.as_str() {
            "input" => price.input = value.number(),
            "output" => price.output = value.number(),
            "cache_read" => price.cache_read = Some(value.number()),
            _ => price.cache_write = Some(value.number()),
        }
    }
    prices
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
