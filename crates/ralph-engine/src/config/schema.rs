//! All settings in one table: key, type, default, and environment variable.
//!
//! Parsing, merging, suggestions and display all use this table; a new setting is a row here and a field in `Config`.

use ralph_model::role::Role;

use super::value::Kind;

/// One row: a setting, or a family of settings if the key has a variable part.
#[derive(Debug)]
pub(super) struct Setting {
    /// Parts joined by dots. `*` matches any name, `<role>` a role's.
    pub(super) key: &'static str,
    pub(super) kind: Kind,
    pub(super) default: Option<&'static str>,
    pub(super) env: &'static [EnvName],
}

/// A variable that sets a setting.
#[derive(Debug)]
pub(super) struct EnvName {
    pub(super) name: &'static str,
    /// The value if the variable is set to anything; otherwise its text is the value.
    pub(super) means: Option<&'static str>,
    /// Only the goal-driven commands recognise it.
    pub(super) goal_only: bool,
}

const fn env(name: &'static str) -> EnvName {
    EnvName { name, means: None, goal_only: false }
}

const fn goal_env(name: &'static str) -> EnvName {
    EnvName { name, means: None, goal_only: true }
}

const fn setting(key: &'static str, kind: Kind) -> Setting {
    Setting { key, kind, default: None, env: &[] }
}

impl Setting {
    const fn or(mut self, default: &'static str) -> Self {
        self.default = Some(default);
        self
    }

    const fn env(mut self, names: &'static [EnvName]) -> Self {
        self.env = names;
        self
    }

    pub(super) fn is_family(&self) -> bool {
        self.key.split('.').any(|part| part == "*" || part == "<role>")
    }
}

const BOUNDARIES: Kind = Kind::Choice(&["strict", "kernel", "auto", "detect", "off"]);
const NAMESPACES: Kind = Kind::Choice(&["auto", "off"]);
const UNIX_SOCKETS: Kind = Kind::Choice(&["none", "own"]);
const ISOLATIONS: Kind = Kind::Choice(&["clone", "in-place"]);
const FOLLOWS: Kind = Kind::Choice(&["clean", "end", "never"]);
const LOG_FORMATS: Kind = Kind::Choice(&["json", "text"]);
const UI_MODES: Kind = Kind::Choice(&["auto", "rich", "plain"]);
const LOOP_PRESETS: Kind = Kind::Choice(&["generic", "web-app", "minimal"]);
const TERMINAL_NOTICES: Kind = Kind::Choice(&["auto", "osc777", "osc9", "bell", "off"]);
const CACHES: Kind = Kind::Choice(&["accepted", "cold", "warm"]);
const CHANGED_CHECKS: Kind = Kind::Choice(&["reject", "verifier", "person"]);
const COLORS: Kind = Kind::Choice(&["auto", "always", "never"]);

pub(super) const SETTINGS: &[Setting] = &[
    setting("agent", Kind::Text).or("codex").env(&[env("RALPH_AGENT")]),
    setting("agent_cmd", Kind::Text).env(&[env("RALPH_AGENT_CMD"), goal_env("AGENT_CMD")]),
    setting("model", Kind::Text).env(&[env("RALPH_MODEL"), goal_env("MODEL")]),
    setting("reasoning", Kind::Text)
        .env(&[env("RALPH_REASONING"), goal_env("MODEL_REASONING_EFFORT")]),
    setting("timeout", Kind::Timeout).or("60m").env(&[env("RALPH_TIMEOUT")]),
    setting("idle_timeout", Kind::Timeout).or("15m").env(&[env("RALPH_IDLE_TIMEOUT")]),
    setting("isolate", Kind::Bool).or("false").env(&[env("RALPH_ISOLATE")]),
    setting("boundary", BOUNDARIES).or("auto").env(&[env("RALPH_BOUNDARY")]),
    setting("isolation", ISOLATIONS).or("clone").env(&[env("RALPH_ISOLATION")]),
    setting("follow", FOLLOWS).or("clean").env(&[env("RALPH_FOLLOW")]),
    setting("writable", Kind::List),
    setting("unix_sockets", Kind::Bool).or("false"),
    setting("sandbox.show", Kind::List),
    setting("sandbox.unix", UNIX_SOCKETS).or("none"),
    setting("sandbox.namespaces", NAMESPACES).or("auto").env(&[env("RALPH_NAMESPACES")]),
    setting("home", Kind::Text).env(&[env("RALPH_HOME")]),
    setting("mailbox", Kind::Text).or(".ralph").env(&[env("RALPH_MAILBOX")]),
    setting("log_format", LOG_FORMATS).or("json").env(&[env("RALPH_LOG_FORMAT")]),
    setting("roles.<role>.agent", Kind::Text),
    setting("roles.<role>.model", Kind::Text),
    setting("roles.<role>.reasoning", Kind::Text),
    setting("roles.<role>.timeout", Kind::Timeout),
    setting("roles.<role>.idle_timeout", Kind::Timeout),
    setting("agents.*.exe", Kind::Text),
    setting("agents.*.args", Kind::List),
    setting("agents.*.env.*", Kind::AnyText),
    setting("agents.*.command", Kind::Command),
    setting("agents.*.model", Kind::Text),
    setting("agents.*.reasoning", Kind::Text),
    setting("agents.*.isolate", Kind::Bool),
    setting("agents.*.context_window", Kind::Count),
    setting("agents.*.script", Kind::Text),
    setting("agents.*.state", Kind::List),
    setting("agents.*.pass", Kind::List),
    setting("agents.*.limit_patterns", Kind::List),
    setting("agents.*.final", Kind::Text),
    setting("agents.*.resume", Kind::List),
    setting("agents.*.session", Kind::Text),
    setting("env.pass", Kind::List),
    setting("checkout.setup", Kind::Commands),
    setting("checkout.cache", Kind::List),
    setting("checkout.copy", Kind::List),
    setting("slots.dir", Kind::Text),
    setting("trust.always", Kind::List),
    setting("protect.allow", Kind::List),
    setting("judge.changed_checks", CHANGED_CHECKS).or("verifier"),
    setting("judge.cache", CACHES).or("accepted"),
    setting("limits.wait", Kind::Bool).or("true").env(&[env("RALPH_WAIT")]),
    setting("limits.remember", Kind::Bool).or("true"),
    setting("limits.margin", Kind::Duration).or("30s"),
    setting("limits.max_wait", Kind::Timeout).or("1h"),
    setting("limits.backoff", Kind::Duration).or("60s"),
    setting("limits.troubles", Kind::Count).or("10"),
    setting("limits.rejections", Kind::Count).or("5"),
    setting("limits.repeats", Kind::Count).or("3"),
    setting("limits.rounds", Kind::Count).or("3"),
    setting("limits.interrupt_grace", Kind::Duration).or("10s"),
    setting("limits.terminate_grace", Kind::Duration).or("5s"),
    setting("limits.log", Kind::Size).or("1GiB"),
    setting("limits.context_warn", Kind::Percent).or("70"),
    setting("limits.context_kill", Kind::Percent).or("95"),
    setting("budget.tokens", Kind::Count).env(&[env("RALPH_MAX_TOKENS")]),
    setting("budget.cost", Kind::Number).env(&[env("RALPH_MAX_COST")]),
    setting("budget.wall", Kind::Timeout).env(&[env("RALPH_MAX_WALL")]),
    setting("budget.iterations", Kind::Count).env(&[env("RALPH_MAX_ITERATIONS")]),
    setting("budget.failures", Kind::Count).env(&[env("RALPH_MAX_FAILURES")]),
    setting("prices.*.input", Kind::Number),
    setting("prices.*.output", Kind::Number),
    setting("prices.*.cache_read", Kind::Number),
    setting("prices.*.cache_write", Kind::Number),
    setting("loop.preset", LOOP_PRESETS).or("generic"),
    setting("loop.strict", Kind::Bool).or("false"),
    setting("loop.reflect", Kind::Bool).or("false"),
    setting("loop.build", Kind::Command),
    setting("loop.source", Kind::Text),
    setting("loop.app", Kind::Text),
    setting("loop.css", Kind::Text),
    setting("loop.stack", Kind::List),
    setting("loop.scaffold", Kind::List),
    setting("loop.registry.moods", Kind::List),
    setting("loop.registry.presets", Kind::List),
    setting("loop.registry.fonts", Kind::List),
    setting("loop.registry.gumdrops", Kind::List),
    setting("loop.registry.grid_heavy", Kind::List),
    setting("loop.registry.stateful", Kind::List),
    setting("loop.registry.theme_variables", Kind::List),
    setting("notify.on", Kind::List),
    setting("notify.after", Kind::Duration).or("1m"),
    setting("notify.terminal", TERMINAL_NOTICES).or("auto"),
    setting("notify.command", Kind::Command),
    setting("notify.webhook", Kind::Text),
    setting("git.commit_home", Kind::Bool).or("true"),
    setting("git.sign", Kind::Bool).or("false"),
    setting("ui.mode", UI_MODES).or("auto").env(&[env("RALPH_UI")]),
    setting("ui.color", COLORS).or("auto").env(&[
        env("RALPH_COLOR"),
        EnvName { name: "NO_COLOR", means: Some("never"), goal_only: false },
    ]),
    setting("ui.ascii", Kind::Bool).or("false").env(&[env("RALPH_ASCII")]),
];

/// The list of gates: the only setting that is an array of tables.
pub(super) const GATE: &str = "gate";

pub(super) const GATE_SETTINGS: &[Setting] = &[
    setting("name", Kind::Text),
    setting("run", Kind::Command),
    setting("timeout", Kind::Timeout).or("30m"),
    setting("repo", Kind::Text),
    setting("paths", Kind::List),
    setting("fast", Kind::Bool).or("false"),
    setting("net", Kind::Bool).or("false"),
    setting("unix", Kind::Bool).or("false"),
];

/// The meaning of a key.
#[derive(Debug)]
pub(super) enum Meaning {
    Setting(&'static Setting),
    /// It contains settings.
    Table,
    Unknown,
}

/// Looks up a key.
pub(super) fn look_up(path: &[String]) -> Meaning {
    let mut meaning = Meaning::Unknown;
    for setting in SETTINGS {
        let mut parts = setting.key.split('.');
        if !path.iter().all(|part| parts.next().is_some_and(|pattern| fits(pattern, part))) {
            continue;
        }
        if parts.next().is_none() {
            return Meaning::Setting(setting);
        }
        meaning = Meaning::Table;
    }
    meaning
}

fn fits(pattern: &str, part: &str) -> bool {
    match pattern {
        "*" => true,
        "<role>" => part.parse::<Role>().is_ok(),
        name => name == part,
    }
}

/// Returns the known key that was probably meant by an unknown one.
pub(super) fn nearest(path: &[String]) -> Option<String> {
    let (last, above) = path.split_last()?;
    let mut siblings = Vec::new();
    for setting in SETTINGS {
        let mut parts = setting.key.split('.');
        if !above.iter().all(|part| parts.next().is_some_and(|pattern| fits(pattern, part))) {
            continue;
        }
        match parts.next() {
            Some("<role>") => siblings.extend(Role::ALL.map(Role::as_str)),
            None | Some("*") => {}
            Some(name) => siblings.push(name),
        }
    }
    if above.is_empty() {
        siblings.push(GATE);
    }
    if let Some(name) = closest(last, &siblings) {
        let parts = above.iter().map(String::as_str).chain([name]);
        return Some(render_key(parts));
    }
    // The right name in the wrong table.
    let elsewhere = SETTINGS.iter().filter(|setting| !setting.is_family());
    let mut elsewhere = elsewhere.filter(|setting| setting.key.rsplit('.').next() == Some(last));
    elsewhere.next().map(|setting| setting.key.to_owned())
}

/// Whether a key is a top-level one.
pub(super) fn is_top_level(key: &str) -> bool {
    SETTINGS.iter().any(|setting| setting.key == key && !key.contains('.'))
}

/// Returns the known key of a gate that was probably meant by an unknown one.
pub(super) fn nearest_of_gate(key: &str) -> Option<&'static str> {
    let names: Vec<_> = GATE_SETTINGS.iter().map(|setting| setting.key).collect();
    closest(key, &names)
}

/// Returns the closest name, if it is close enough.
pub(super) fn closest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    ralph_model::nearest::nearest(name, known.iter().copied()).into_iter().next()
}

/// Renders a key's parts, quoted where TOML needs it.
pub(super) fn render_key<'a>(parts: impl Iterator<Item = &'a str>) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let parts: Vec<_> = parts
        .map(|part| {
            if !part.is_empty() && part.chars().all(bare) {
                part.to_owned()
            } else {
                super::value::render_string(part)
            }
        })
        .collect();
    parts.join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(key: &str) -> Vec<String> {
        key.split('.').map(str::to_owned).collect()
    }

    #[test]
    fn every_default_is_a_value_of_its_kind() {
        for setting in SETTINGS.iter().chain(GATE_SETTINGS) {
            if let Some(default) = setting.default {
                setting.kind.parse(default).unwrap();
                assert!(!setting.is_family(), "{}", setting.key);
            }
            for name in setting.env {
                name.means.map(|means| setting.kind.parse(means).unwrap());
            }
        }
    }

    #[test]
    fn no_key_and_no_variable_stands_twice() {
        let mut keys: Vec<_> = SETTINGS.iter().map(|setting| setting.key).collect();
        let mut names: Vec<_> =
            SETTINGS.iter().flat_map(|setting| setting.env).map(|name| name.name).collect();
        for list in [&mut keys, &mut names] {
            let length = list.len();
            list.sort_unstable();
            list.dedup();
            assert_eq!(list.len(), length);
        }
    }

    #[test]
    fn a_mistyped_key_finds_its_neighbour() {
        for (typed, meant) in [
            ("modle", Some("model")),
            ("Agent", Some("agent")),
            ("gates", Some("gate")),
            ("idle-timeout", Some("idle_timeout")),
            ("roles.verfier", Some("roles.verifier")),
            ("roles.verifier.modell", Some("roles.verifier.model")),
            ("agents.mine.comand", Some("agents.mine.command")),
            ("tokens", Some("budget.tokens")),
            ("zebra", None),
        ] {
            assert_eq!(nearest(&path(typed)).as_deref(), meant, "{typed}");
        }
        assert_eq!(nearest_of_gate("tmeout"), Some("timeout"));
    }
}
