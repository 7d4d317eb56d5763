//! Splices manifests: test and build settings from the anchor, dependencies and code from the candidate.
//!
//! They are compared and merged as data. If the result equals the candidate's, the file is left unchanged.

use toml::{Table, Value};

use super::go_mod::go_mod;
use super::manifest_json::{COMPOSER, PACKAGE, json_splice};

/// A manifest that contains both dependencies and test settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manifest {
    Cargo,
    Package,
    Pyproject,
    SetupCfg,
    Pipfile,
    Composer,
    GoMod,
}

/// The result of splicing a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Spliced {
    Same,
    Text(String),
    /// One of the two cannot be parsed.
    Unreadable,
}

impl Manifest {
    pub(super) fn of(name: &str) -> Option<Manifest> {
        match name {
            "Cargo.toml" => Some(Manifest::Cargo),
            "package.json" => Some(Manifest::Package),
            "pyproject.toml" => Some(Manifest::Pyproject),
            "setup.cfg" => Some(Manifest::SetupCfg),
            "Pipfile" => Some(Manifest::Pipfile),
            "composer.json" => Some(Manifest::Composer),
            "go.mod" => Some(Manifest::GoMod),
            _ => None,
        }
    }

    /// Merges the anchor's settings with the rest of the candidate's; a manifest missing in the anchor counts as empty.
    pub(super) fn splice(self, anchor: &str, candidate: &str) -> Spliced {
        match self {
            Manifest::Cargo => toml_splice(anchor, candidate, cargo),
            Manifest::Pyproject => toml_splice(anchor, candidate, pyproject),
            Manifest::Pipfile => toml_splice(anchor, candidate, pipfile),
            Manifest::Package => json_splice(anchor, candidate, &PACKAGE),
            Manifest::Composer => json_splice(anchor, candidate, &COMPOSER),
            Manifest::GoMod => go_mod(anchor, candidate),
            Manifest::SetupCfg => {
                let text = setup_cfg(anchor, candidate);
                if text == sections_text(candidate) { Spliced::Same } else { Spliced::Text(text) }
            }
        }
    }
}

fn toml_splice(anchor: &str, candidate: &str, join: fn(&Table, &Table) -> Table) -> Spliced {
    let (Ok(anchor), Ok(candidate)) = (anchor.parse::<Table>(), candidate.parse::<Table>()) else {
        return Spliced::Unreadable;
    };
    let joined = join(&anchor, &candidate);
    if joined == candidate { Spliced::Same } else { Spliced::Text(toml_text(&joined)) }
}

/// Takes the keys of one table from the anchor: its value, or no value.
fn take(joined: &mut Table, anchor: &Table, keys: &[&str]) {
    for key in keys {
        match anchor.get(*key) {
            Some(value) => drop(joined.insert((*key).to_owned(), value.clone())),
            None => drop(joined.remove(*key)),
        }
    }
}

/// Adds the anchor's entries to the candidate's; the anchor's win.
fn keep_entries(joined: &mut Table, anchor: &Table, key: &str) {
    let Some(Value::Table(before)) = anchor.get(key) else { return };
    let now = joined.entry(key.to_owned()).or_insert_with(|| Value::Table(Table::new()));
    if let Value::Table(now) = now {
        now.extend(before.clone());
    }
}

fn cargo(anchor: &Table, candidate: &Table) -> Table {
    let mut joined = candidate.clone();
    take(&mut joined, anchor, &["lib", "test", "profile", "patch", "replace", "lints"]);
    let empty = Table::new();
    let table = |root: &Table, key: &str| root.get(key).and_then(Value::as_table).cloned();
    if let Some(Value::Table(package)) = joined.get_mut("package") {
        let before = table(anchor, "package").unwrap_or_default();
        take(package, &before, &["build", "autotests", "autobins", "autolib", "metadata"]);
    }
    for kind in ["bin", "example", "bench"] {
        let before = anchor.get(kind).and_then(Value::as_array);
        let named = |name: Option<&Value>| {
            before?.iter().find_map(|target| {
                let target = target.as_table()?;
                (target.get("name") == name).then_some(target)
            })
        };
        let Some(Value::Array(targets)) = joined.get_mut(kind) else { continue };
        for target in targets.iter_mut().filter_map(Value::as_table_mut) {
            if let Some(before) = named(target.get("name")) {
                take(target, before, &["test", "harness", "doctest"]);
            }
        }
    }
    keep_entries(&mut joined, anchor, "dev-dependencies");
    if let Some(Value::Table(targets)) = joined.get_mut("target") {
        let before = table(anchor, "target").unwrap_or_default();
        for (name, target) in targets.iter_mut() {
            let Value::Table(target) = target else { continue };
            let before = before.get(name).and_then(Value::as_table).unwrap_or(&empty);
            keep_entries(target, before, "dev-dependencies");
        }
    }
    if let Some(Value::Table(workspace)) = joined.get_mut("workspace") {
        let before = table(anchor, "workspace").unwrap_or_default();
        take(workspace, &before, &["default-members", "exclude", "lints", "metadata"]);
        keep_origins(workspace, &before);
        let members = before.get("members").and_then(Value::as_array).cloned().unwrap_or_default();
        if let Some(Value::Array(now)) = workspace.get_mut("members") {
            let lost: Vec<Value> =
                members.into_iter().filter(|member| !now.contains(member)).collect();
            now.extend(lost);
        }
    }
    joined
}

/// Where a dependency of the workspace comes from stays as it was, because those of tests are named there, too. Its version may change.
fn keep_origins(workspace: &mut Table, before: &Table) {
    let Some(Value::Table(before)) = before.get("dependencies") else { return };
    let Some(Value::Table(now)) = workspace.get_mut("dependencies") else { return };
    let empty = Table::new();
    for (name, value) in now.iter_mut() {
        let Some(old) = before.get(name) else { continue };
        let origin = |value: &Value| {
            let table = value.as_table().unwrap_or(&empty);
            ["path", "git", "registry", "package"].map(|key| table.get(key).cloned())
        };
        if origin(value) != origin(old) {
            value.clone_from(old);
        }
    }
}

/// Keys of a packager's table that specify dependencies or names.
const PACKAGING: [&str; 11] = [
    "dependencies",
    "dev-dependencies",
    "group",
    "extras",
    "source",
    "sources",
    "version",
    "name",
    "packages",
    "include",
    "optional-dependencies",
];

fn pyproject(anchor: &Table, candidate: &Table) -> Table {
    let mut joined = candidate.clone();
    take(&mut joined, anchor, &["tool", "build-system"]);
    if let Some(Value::Table(project)) = joined.get_mut("project") {
        let before = anchor.get("project").and_then(Value::as_table).cloned().unwrap_or_default();
        // What registers here is loaded by tools: a plugin of the runner, for one.
        take(project, &before, &["entry-points"]);
        // A new program can have the name of one that a gate runs.
        let known = before.get("scripts").and_then(Value::as_table).cloned().unwrap_or_default();
        if let Some(Value::Table(scripts)) = project.get_mut("scripts") {
            scripts.retain(|name, _| known.contains_key(name));
        }
        let is_new = !before.contains_key("scripts");
        if is_new {
            project.remove("scripts");
        }
    }
    for packager in ["poetry", "uv", "pdm", "rye"] {
        let now =
            candidate.get("tool").and_then(|tool| tool.get(packager)).and_then(Value::as_table);
        let Some(now) = now else { continue };
        let tool = joined.entry("tool").or_insert_with(|| Value::Table(Table::new()));
        let Some(tool) = tool.as_table_mut() else { continue };
        let table = tool.entry(packager).or_insert_with(|| Value::Table(Table::new()));
        if let Value::Table(table) = table {
            take(table, now, &PACKAGING);
        }
    }
    // Drop a table that was created only as an intermediate step.
    let is_empty = |value: &Value| value.as_table().is_some_and(Table::is_empty);
    if let Some(Value::Table(tool)) = joined.get_mut("tool") {
        let known = anchor.get("tool").and_then(Value::as_table);
        tool.retain(|name, value| {
            !is_empty(value) || known.is_some_and(|known| known.contains_key(name))
        });
    }
    if joined.get("tool").is_some_and(is_empty) && !anchor.contains_key("tool") {
        joined.remove("tool");
    }
    joined
}

fn pipfile(anchor: &Table, candidate: &Table) -> Table {
    let mut joined = candidate.clone();
    take(&mut joined, anchor, &["scripts", "requires", "pipenv"]);
    keep_entries(&mut joined, anchor, "dev-packages");
    joined
}

/// Sections of setup.cfg with project metadata.
const PROJECT_SECTIONS: [&str; 3] = ["metadata", "options", "bdist_wheel"];

fn setup_cfg(anchor: &str, candidate: &str) -> String {
    let is_projects = |name: &str| {
        PROJECT_SECTIONS
            .iter()
            .any(|known| name == *known || name.starts_with(&format!("{known}.")))
            // What registers here is loaded by tools, or can have the name of one.
            && name != "options.entry_points"
    };
    let mut text = String::new();
    for (name, body) in sections(candidate).into_iter().filter(|(name, _)| is_projects(name)) {
        text.extend(["[", name.as_str(), "]\n", body.as_str()]);
    }
    for (name, body) in sections(anchor).into_iter().filter(|(name, _)| !is_projects(name)) {
        text.extend(["[", name.as_str(), "]\n", body.as_str()]);
    }
    text
}

fn sections_text(text: &str) -> String {
    setup_cfg(text, text)
}

/// Splits an INI file into its sections, without blank lines and comments.
fn sections(text: &str) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    for line in text.lines() {
        let plain = line.trim();
        if plain.is_empty() || plain.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = plain.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            found.push((name.trim().to_owned(), String::new()));
        } else if let Some((_, body)) = found.last_mut() {
            body.push_str(line.trim_end());
            body.push('\n');
        }
    }
    found
}

/// Writes a table as TOML, with everything below its keys inline.
fn toml_text(table: &Table) -> String {
    let mut text = String::new();
    for (key, value) in table {
        text.push_str(&quoted(key));
        text.push_str(" = ");
        push_value(&mut text, value);
        text.push('\n');
    }
    text
}

fn push_value(text: &mut String, value: &Value) {
    match value {
        Value::String(string) => text.push_str(&quoted(string)),
        Value::Integer(number) => text.push_str(&number.to_string()),
        Value::Float(number) if number.is_finite() => text.push_str(format!("{number:?}").as_str()),
        Value::Float(number) if number.is_nan() => text.push_str("nan"),
        Value::Float(number) => text.push_str(if *number > 0.0 { "inf" } else { "-inf" }),
        Value::Boolean(flag) => text.push_str(if *flag { "true" } else { "false" }),
        Value::Datetime(time) => text.push_str(&time.to_string()),
        Value::Array(values) => {
            text.push('[');
            for value in values {
                push_value(text, value);
                text.push_str(", ");
            }
            text.push(']');
        }
        Value::Table(table) => {
            text.push('{');
            for (at, (key, value)) in table.iter().enumerate() {
                text.push_str(if at == 0 { " " } else { ", " });
                text.push_str(&quoted(key));
                text.push_str(" = ");
                push_value(text, value);
            }
            text.push_str(" }");
        }
    }
}

/// Every JSON string is a TOML basic string, except for the one control character that JSON does not escape.
fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("a string is a value").replace('\u{7f}', "\\u007f")
}

#[cfg(test)]
#[path = "manifest_tests.rs"]
mod tests;
