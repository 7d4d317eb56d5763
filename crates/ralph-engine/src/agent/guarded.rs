//! An agent's own settings that no run may change for longer than it lasts.

use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A file or directory of settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guarded {
    pub(crate) path: Utf8PathBuf,
    /// Whether it is a directory, with all that is in it.
    pub(crate) below: bool,
    /// What counts in a JSON file that the agent also keeps other things in; empty where all of it counts. A key may
    /// have several parts, and `*` stands for every key at its place.
    pub(crate) keys: Vec<String>,
}

impl Guarded {
    /// Names files of a directory.
    pub(super) fn files(directory: &Utf8Path, names: &[&str]) -> Vec<Guarded> {
        let path = |name: &&str| directory.join(name);
        names
            .iter()
            .map(|name| Guarded { path: path(name), below: false, keys: Vec::new() })
            .collect()
    }

    /// Names directories of a directory.
    pub(super) fn directories(directory: &Utf8Path, names: &[&str]) -> Vec<Guarded> {
        let mut guarded = Guarded::files(directory, names);
        for guarded in &mut guarded {
            guarded.below = true;
        }
        guarded
    }

    /// Names parts of a JSON file.
    pub(super) fn keys(path: Utf8PathBuf, keys: &[&str]) -> Guarded {
        let keys = keys.iter().map(|key| (*key).to_owned()).collect();
        Guarded { path, below: false, keys }
    }

    /// Returns the file as it is, with what counts in it as it was; `None` if all of it counts or it is no JSON object.
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

fn take_over(now: &mut Map<String, Value>, before: &Map<String, Value>, key: &[&str]) {
    match key {
        [] => {}
        [last] => match before.get(*last) {
            Some(value) => {
                now.insert((*last).to_owned(), value.clone());
            }
            None => {
                now.remove(*last);
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

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(guarded.merged(before, b"nonsense"), None);
    }
}
