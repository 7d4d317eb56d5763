//! Settings of a workspace's `ralph.toml` that need the person's trust, and how far they apply then.
//!
//! A repository's file is untrusted. A key is *armed* if it can start a program, pass one an argument, or widen a run's
//! access. The list below names the harmless keys: an unclassified setting is armed. A repository may only tighten the
//! person's own file, trusted or not.

use camino::{Utf8Component, Utf8Path};

use super::layer::{GateTable, Layer, Located, Rank, split_key};
use super::problem::{ConfigProblem, ConfigProblemKind, Origin};
use super::schema::{GATE, GATE_SETTINGS, render_key};
use super::value::SettingValue;

/// Whether the armed keys of the workspace's file are in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArmedKeys {
    Counted,
    Ignored,
}

/// One armed key of a workspace's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArmedKey {
    pub key: String,
    /// As TOML.
    pub value: String,
    pub origin: Origin,
}

/// Settings that are allowed only in the person's own file.
pub(super) const PERSONAL: [&str; 7] = [
    "slots.dir",
    "trust.always",
    "notify.on",
    "notify.after",
    "notify.terminal",
    "notify.command",
    "notify.webhook",
];

/// Keys of a gate that neither start nor widen anything.
const TAME_OF_GATE: [&str; 5] = ["name", "timeout", "paths", "fast", "repo"];

/// The boundary modes, strictest first.
const STRICTEST_FIRST: [&str; 5] = ["strict", "kernel", "auto", "detect", "off"];

/// Reports settings that a workspace's file must not contain.
pub(super) fn check_personal(workspace: &Layer, problems: &mut Vec<ConfigProblem>) {
    for key in PERSONAL {
        if let Some(located) = workspace.values.get(&split_key(key)) {
            let reason = "only your own configuration file can set it".to_owned();
            let kind = ConfigProblemKind::BadValue { key: key.to_owned(), reason };
            problems.push(ConfigProblem { origin: located.origin.clone(), kind });
        }
    }
}

/// Returns the armed keys of a workspace's layer. `below` is the layer it is applied over.
pub(super) fn armed_keys(workspace: &Layer, below: &Layer) -> Vec<ArmedKey> {
    let armed = |key: String, located: &Located| ArmedKey {
        key,
        value: located.value.render(),
        origin: located.origin.clone(),
    };
    let mut keys = Vec::new();
    for (key, located) in &workspace.values {
        if is_armed(key, located, below) {
            keys.push(armed(render_key(key.iter().map(String::as_str)), located));
        }
    }
    for gate in workspace.gates.iter().flatten() {
        let name = gate.values.get("name").map(Located::text).unwrap_or_default();
        for (key, located) in armed_of_gate(gate) {
            keys.push(armed(render_key([GATE, name, key].into_iter()), located));
        }
    }
    keys
}

/// Removes the armed keys. Gates are removed as a whole: a gate without its command is useless.
pub(super) fn disarm(workspace: &mut Layer, below: &Layer) {
    workspace.values.retain(|key, located| !is_armed(key, located, below));
    workspace.gates = None;
}

/// Removes everything from a workspace's layer that loosens the person's own file.
pub(super) fn tighten(workspace: &mut Layer, below: &Layer) {
    workspace.values.retain(|key, located| {
        let Some(own) = below.values.get(key).filter(|own| own.rank == Rank::User) else {
            return true;
        };
        let key: Vec<&str> = key.iter().map(String::as_str).collect();
        match key.as_slice() {
            ["boundary"] => strictness(located) <= strictness(own),
            ["isolation"] => located.text() == "clone",
            ["unix_sockets"] => !located.flag(),
            ["sandbox", "unix"] => located.text() == "none",
            ["sandbox", "namespaces"] => located.text() == "auto",
            ["budget", _] => !is_more(&located.value, &own.value),
            ["writable"] | ["env", "pass"] | ["sandbox", "show"] => {
                if let (SettingValue::List(items), SettingValue::List(allowed)) =
                    (&mut located.value, &own.value)
                {
                    items.retain(|item| allowed.iter().any(|allowed| is_within(item, allowed)));
                }
                true
            }
            _ => true,
        }
    });
}

fn is_armed(key: &[String], located: &Located, below: &Layer) -> bool {
    let key: Vec<&str> = key.iter().map(String::as_str).collect();
    match key.as_slice() {
        ["boundary"] => {
            below.get(&["boundary"]).is_none_or(|own| strictness(located) > strictness(own))
        }
        ["isolation"] => located.text() != "clone",
        ["unix_sockets"] => located.flag(),
        ["home" | "mailbox"] => leads_outside(located.text()),
        ["checkout", "cache"] => located.list().iter().any(|path| leads_outside(path)),
        other => !is_tame(other),
    }
}

/// Whether a key neither refers to a program, an argument, an outside path, a socket, the network or a variable, nor
/// widens a run's access.
fn is_tame(key: &[&str]) -> bool {
    if key == ["loop", "build"] {
        return false;
    }
    matches!(
        key,
        ["agent"
            | "model"
            | "reasoning"
            | "timeout"
            | "idle_timeout"
            | "isolate"
            | "follow"
            | "log_format",]
            | [
                "agents",
                _,
                "model"
                    | "reasoning"
                    | "isolate"
                    | "context_window"
                    | "final"
                    | "limit_patterns"
                    | "session"
            ]
            | [
                "roles"
                    | "limits"
                    | "budget"
                    | "prices"
                    | "git"
                    | "ui"
                    | "judge"
                    | "protect"
                    | "loop",
                ..,
            ]
    )
}

fn armed_of_gate(gate: &GateTable) -> impl Iterator<Item = (&'static str, &Located)> {
    let differs = |key: &str, located: &Located| {
        let setting = GATE_SETTINGS.iter().find(|setting| setting.key == key);
        let default = setting.and_then(|setting| setting.kind.parse(setting.default?).ok());
        default.as_ref() != Some(&located.value)
    };
    let armed = move |(key, located): &(&&'static str, &Located)| {
        !TAME_OF_GATE.contains(*key) && differs(key, located)
    };
    gate.values.iter().filter(armed).map(|(key, located)| (*key, located))
}

/// Returns the rank of a boundary mode by strictness; an unknown one counts as the loosest.
fn strictness(located: &Located) -> usize {
    let mode = located.text();
    STRICTEST_FIRST.iter().position(|known| *known == mode).unwrap_or(STRICTEST_FIRST.len())
}

fn is_more(value: &SettingValue, than: &SettingValue) -> bool {
    match (value, than) {
        (SettingValue::Count(value), SettingValue::Count(than)) => value > than,
        (SettingValue::Number(value), SettingValue::Number(than)) => value > than,
        (SettingValue::Duration(value), SettingValue::Duration(than)) => value > than,
        _ => true,
    }
}

/// Whether a list item equals one in the person's list, or is a path below one.
fn is_within(item: &str, allowed: &str) -> bool {
    item == allowed || (Utf8Path::new(item).starts_with(allowed) && !leads_up(item))
}

/// Whether a path in the workspace's file is outside the workspace.
fn leads_outside(path: &str) -> bool {
    path.starts_with('~') || Utf8Path::new(path).is_absolute() || leads_up(path)
}

fn leads_up(path: &str) -> bool {
    Utf8Path::new(path).components().any(|part| part == Utf8Component::ParentDir)
}

#[cfg(test)]
#[path = "armed_tests.rs"]
mod tests;
