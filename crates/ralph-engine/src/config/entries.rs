//! Every setting with its value and origin, as `ralph config` shows them.

use super::layer::{GateTable, Located, split_key};
use super::schema::{GATE, GATE_SETTINGS, SETTINGS, render_key};
use super::{Config, Origin};

/// One setting in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigEntry {
    pub key: String,
    /// As TOML. `None`: unset and without a default.
    pub value: Option<String>,
    pub origin: Origin,
}

/// Shown instead of a secret.
const SECRET: &str = "<set>";

impl Config {
    /// Returns all settings in the order of the table of settings, the gates last.
    pub fn entries(&self) -> Vec<ConfigEntry> {
        let mut entries = Vec::new();
        let mut last_family = "";
        for setting in SETTINGS {
            if !setting.is_family() {
                let value = self.settings.values.get(&split_key(setting.key));
                entries.push(entry(setting.key.to_owned(), value, false));
                continue;
            }
            let family = setting.key.split('.').next().unwrap_or_default();
            if family != last_family {
                last_family = family;
                for (key, value) in &self.settings.values {
                    if key[0] == family {
                        let name = render_key(key.iter().map(String::as_str));
                        entries.push(entry(name, Some(value), is_secret(key)));
                    }
                }
            }
        }
        entries.extend(self.settings.gates.iter().flatten().flat_map(gate_entries));
        entries
    }
}

fn gate_entries(gate: &GateTable) -> Vec<ConfigEntry> {
    let name = gate.values.get("name").map(Located::text).unwrap_or_default();
    let settings = GATE_SETTINGS.iter().filter(|setting| setting.key != "name");
    let entry = |key| entry(render_key([GATE, name, key].into_iter()), gate.values.get(key), false);
    settings.map(|setting| entry(setting.key)).collect()
}

fn entry(key: String, located: Option<&Located>, secret: bool) -> ConfigEntry {
    let Some(located) = located else {
        return ConfigEntry { key, value: None, origin: Origin::Default };
    };
    let value = if secret { SECRET.to_owned() } else { located.value.render() };
    ConfigEntry { key, value: Some(value), origin: located.origin.clone() }
}

/// Whether a variable of an agent looks like a secret. False positives are better than a leak.
fn is_secret(key: &[String]) -> bool {
    let [agents, _, env, name] = key else { return false };
    let name = name.to_ascii_uppercase();
    let signs = ["KEY", "TOKEN", "SECRET", "PASS", "CREDENTIAL", "AUTH", "COOKIE"];
    agents == "agents" && env == "env" && signs.iter().any(|sign| name.contains(sign))
}
