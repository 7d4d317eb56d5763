//! The parts of an agent's own directories that must not change beyond a run.
//!
//! Everything is guarded except known data: anything else there (settings, plugins, skills, hooks, servers, programs)
//! may later run as the person. Changes that a CLI is known to make by itself are reverted without a report.

use std::path::Path;

use camino::Utf8PathBuf;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::names;

/// A guarded file or directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guarded {
    pub(crate) path: Utf8PathBuf,
    /// Whether it is a directory with everything in it.
    pub(crate) below: bool,
    /// The guarded keys of a JSON file that also contains other data; empty if all of it is guarded. A key may have
    /// several parts, and `*` matches every key at its position.
    pub(crate) keys: Vec<String>,
    /// Data in the directory: sessions, history, logs, the login. Not compared.
    #[serde(default)]
    pub(crate) data: Vec<String>,
    /// Paths in the directory that the agent's program writes by itself.
    #[serde(default)]
    quiet: Vec<String>,
    /// Tables of its TOML files that the agent's program writes by itself.
    #[serde(default)]
    quiet_tables: Vec<String>,
}

impl Guarded {
    /// Guards everything in a directory except `data`. Patterns are relative paths, in which `*` matches anything
    /// within a component.
    pub(super) fn directory(path: Utf8PathBuf, data: &[&str], quiet: &[&str]) -> Guarded {
        let (data, quiet) = (names(data), names(quiet));
        Guarded { path, below: true, keys: Vec::new(), data, quiet, quiet_tables: Vec::new() }
    }

    /// Sets the tables of TOML files in the directory that the agent's program writes by itself.
    pub(super) fn with_quiet_tables(mut self, tables: &[&str]) -> Guarded {
        self.quiet_tables = names(tables);
        self
    }

    /// Guards keys of a JSON file.
    pub(super) fn keys(path: Utf8PathBuf, keys: &[&str]) -> Guarded {
        let (keys, data, quiet) = (names(keys), Vec::new(), Vec::new());
        Guarded { path, below: false, keys, data, quiet, quiet_tables: Vec::new() }
    }

    /// Whether a change of a file in the directory is one that the agent's program makes by itself.
    pub(crate) fn is_quiet(&self, path: &Path, before: &[u8], now: &[u8]) -> bool {
        let Ok(inside) = path.strip_prefix(&self.path) else { return false };
        if self.quiet.iter().any(|pattern| covers(pattern, inside)) {
            return true;
        }
        let is_toml = path.extension().is_some_and(|extension| extension == "toml");
        if !is_toml || self.quiet_tables.is_empty() {
            return false;
        }
        let rest = |text: &[u8]| -> Option<toml::Table> {
            let mut table: toml::Table = std::str::from_utf8(text).ok()?.parse().ok()?;
            table.retain(|key, _| !self.quiet_tables.iter().any(|quiet| quiet == key));
            Some(table)
        };
        rest(before).is_some_and(|before| Some(before) == rest(now))
    }

    /// Returns the current file with its guarded keys reverted; `None` if all of it is guarded or it is not a JSON
    /// object.
    pub(crate) fn merged(&self, before: &[u8], now: &[u8]) -> Option<Vec<u8>> {
        if self.keys.is_empty() {
            return None;
        }
        let before: Map<String, Value> = serde_json::from_slice(before).ok()?;
        let mut merged: Map<String, Value> = serde_json::from_slice(now).ok()?;
        let found = merged.clone();
        for key in &self.keys {
            let parts: Vec<&str> = key.split('.').collect();
            take_over(&mut merged, &before, &parts);
        }
        if merged == found {
            return Some(now.to_vec());
        }
        serde_json::to_vec_pretty(&merged).ok()
    }
}

/// Whether a path matches a pattern or is below a match. `*` matches anything within a component.
pub(crate) fn covers(pattern: &str, path: &Path) -> bool {
    let mut parts = path.components();
    pattern.split('/').all(|pattern| {
        let Some(part) = parts.next() else { return false };
        matches(pattern.as_bytes(), part.as_os_str().as_encoded_bytes())
    })
}

/// Whether a name matches a pattern, in which `*` matches any bytes.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, rest) => rest.is_none(),
        (Some((b'*', rest)), _) => (0..=name.len()).any(|at| matches(rest, &name[at..])),
        (Some((wanted, pattern)), Some((found, name))) => wanted == found && matches(pattern, name),
        (Some(_), None) => false,
    }
}

fn take_over(now: &mut Map<String, Value>, before: &Map<String, Value>, key: &[&str]) {
    match key {
        [] => {}
        [last] => match before.get(*last) {
            Some(value) => {
                now.insert((*last).to_owned(), value.clone());
            }
            None => {
                // A program fills in what it has no value for.
                if now.get(*last).is_some_and(|value| !is_empty(value)) {
                    now.remove(*last);
                }
            }
        },
        [first, rest @ ..] => {
            let empty = Map::new();
            let names: Vec<String> = match *first {
                "*" => now.keys().cloned().collect(),
                name => vec![name.to_owned()],
            };
            for name in names {
                let Some(inner) = now.get_mut(&name).and_then(Value::as_object_mut) else {
                    continue;
                };
                let before = before.get(&name).and_then(Value::as_object).unwrap_or(&empty);
                take_over(inner, before, rest);
            }
        }
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Bool(true) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_cover_paths_by_their_parts() {
        for (pattern, path, expected) in [
            ("sessions", "sessions/2026/a.jsonl", true),
            ("sessions", "sessions-evil/a", false),
            ("*.sqlite*", "state_5.sqlite-wal", true),
            ("tmp/*/chats", "tmp/abc/chats/s.json", true),
            ("tmp/*/chats", "tmp/bin/rg", false),
            ("tmp/*/chats", "tmp/abc", false),
        ] {
            assert_eq!(covers(pattern, Path::new(path)), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn only_tables_that_the_program_writes_itself_are_quiet() {
        let guarded =
            Guarded::directory("/c".into(), &[], &["tmp"]).with_quiet_tables(&["projects"]);
        let quiet = |before: &str, now: &str| {
            guarded.is_quiet(Path::new("/c/config.toml"), before.as_bytes(), now.as_bytes())
        };
        let trusted = "model = \"m\"\n[projects.\"/w\"]\ntrust_level = \"trusted\"\n";
        assert!(quiet("model = \"m\"\n", trusted) && quiet("", "[projects]\n"));
        assert!(!quiet("", "[mcp_servers.evil]\ncommand = \"x\"\n") && !quiet("", trusted));
        assert!(!quiet("", "not toml"));
        assert!(guarded.is_quiet(Path::new("/c/tmp/x"), b"", b"x"));
        assert!(!guarded.is_quiet(Path::new("/c/hooks.json"), b"", b"{}"));
    }

    #[test]
    fn only_what_counts_is_taken_over() {
        let guarded = Guarded::keys("/c.json".into(), &["mcpServers", "projects.*.mcpServers"]);
        let before = br#"{"starts":1,"mcpServers":{"a":1},"projects":{"/w":{"seen":1}}}"#;
        let now = br#"{"starts":2,"mcpServers":{"evil":1},"projects":{"/w":{"seen":2,"mcpServers":{"evil":1}}}}"#;
        let merged: Value = serde_json::from_slice(&guarded.merged(before, now).unwrap()).unwrap();
        let expected = r#"{"starts":2,"mcpServers":{"a":1},"projects":{"/w":{"seen":2}}}"#;
        assert_eq!(merged, serde_json::from_str::<Value>(expected).unwrap());
        let harmless = br#"{ "starts": 3, "mcpServers": {"a":1} }"#;
        assert_eq!(guarded.merged(before, harmless).unwrap(), harmless, "as the agent wrote it");
        let filled_in = br#"{"starts":1,"mcpServers":{"a":1},"projects":{"/v":{"mcpServers":{}}}}"#;
        assert_eq!(guarded.merged(before, filled_in).unwrap(), filled_in);
        assert_eq!(guarded.merged(before, b"nonsense"), None);
    }
}
