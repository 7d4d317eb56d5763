//! Packages of a tree that only tests depend on: Cargo's and npm's, by their paths or as members of a workspace.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value as Json;
use toml::{Table, Value};

/// What a manifest says about packages of the same tree.
#[derive(Default)]
struct Dependencies {
    /// Packages that can be named: directories, from the manifest's.
    packages: Vec<(String, String)>,
    development: Vec<Dependency>,
    others: Vec<Dependency>,
}

enum Dependency {
    /// By a directory, from the manifest's.
    Path(String),
    Named(String),
}

/// Returns the directories of packages that only development dependencies lead to, given all manifests by their paths.
pub fn packages_for_tests(manifests: &[(String, String)]) -> BTreeSet<String> {
    let (mut development, mut others) = (BTreeSet::new(), BTreeSet::new());
    for (name, read) in
        [("Cargo.toml", cargo as fn(&str) -> Option<Dependencies>), ("package.json", npm)]
    {
        let of_kind = manifests.iter().filter(|(path, _)| path.rsplit('/').next() == Some(name));
        let found: Vec<(&str, Dependencies)> = of_kind
            .filter_map(|(path, text)| {
                let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
                Some((directory, read(text)?))
            })
            .collect();
        let packages: BTreeMap<&str, String> = found
            .iter()
            .flat_map(|(directory, manifest)| {
                let place = |path: &str| path_from(directory, path);
                manifest.packages.iter().map(move |(name, path)| (name.as_str(), place(path)))
            })
            .collect();
        for (directory, manifest) in &found {
            let place = |one: &Dependency| match one {
                Dependency::Path(path) => Some(path_from(directory, path)),
                Dependency::Named(name) => packages.get(name.as_str()).cloned(),
            };
            development.extend(manifest.development.iter().filter_map(place));
            others.extend(manifest.others.iter().filter_map(place));
        }
    }
    development.difference(&others).filter(|path| !path.is_empty()).cloned().collect()
}

fn cargo(text: &str) -> Option<Dependencies> {
    let root: Table = text.parse().ok()?;
    let read = |table: Option<&Value>, into: &mut Vec<Dependency>| {
        for (name, value) in table.and_then(Value::as_table).into_iter().flatten() {
            let Some(value) = value.as_table() else { continue };
            if let Some(path) = value.get("path").and_then(Value::as_str) {
                into.push(Dependency::Path(path.to_owned()));
            } else if value.contains_key("workspace") {
                into.push(Dependency::Named(name.clone()));
            }
        }
    };
    let mut found = Dependencies::default();
    let targets = root.get("target").and_then(Value::as_table).into_iter().flatten();
    let tables = targets.filter_map(|(_, target)| target.as_table()).chain([&root]);
    for table in tables {
        read(table.get("dev-dependencies"), &mut found.development);
        read(table.get("dependencies"), &mut found.others);
        read(table.get("build-dependencies"), &mut found.others);
    }
    let shared = root.get("workspace").and_then(|workspace| workspace.get("dependencies"));
    for (name, value) in shared.and_then(Value::as_table).into_iter().flatten() {
        if let Some(path) = value.get("path").and_then(Value::as_str) {
            found.packages.push((name.clone(), path.to_owned()));
        }
    }
    Some(found)
}

fn npm(text: &str) -> Option<Dependencies> {
    let root: Json = serde_json::from_str(text).ok()?;
    let read = |key: &str, into: &mut Vec<Dependency>| {
        for (name, version) in root.get(key).and_then(Json::as_object).into_iter().flatten() {
            let version = version.as_str().unwrap_or_default();
            let path = ["file:", "link:", "portal:"].iter().find_map(|by| version.strip_prefix(by));
            into.push(match path {
                Some(path) => Dependency::Path(path.to_owned()),
                None => Dependency::Named(name.clone()),
            });
        }
    };
    let mut found = Dependencies::default();
    read("devDependencies", &mut found.development);
    for key in ["dependencies", "optionalDependencies", "peerDependencies"] {
        read(key, &mut found.others);
    }
    if let Some(name) = root.get("name").and_then(Json::as_str) {
        found.packages.push((name.to_owned(), String::new()));
    }
    Some(found)
}

/// Joins a path that may lead upwards with the directory that it is named from.
pub fn path_from(directory: &str, path: &str) -> String {
    let mut parts: Vec<&str> = directory.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_that_only_tests_depend_on_are_found_by_paths_and_by_workspaces() {
        let manifests = [
            (
                "Cargo.toml",
                "[workspace.dependencies]\nasserts = { path = \"kit/asserts\" }\n\
                 shared = { path = \"shared\" }\n[dev-dependencies]\nasserts.workspace = true\n\
                 shared.workspace = true\n[target.'cfg(unix)'.dev-dependencies]\nfs = { path = \"fs\" }\n",
            ),
            (
                "a/Cargo.toml",
                "[dependencies]\nshared = { workspace = true }\n\
                 [dev-dependencies]\nsupport = { path = \"../support\" }\nserde = \"1\"\n",
            ),
            (
                "package.json",
                r#"{"name": "root", "devDependencies": {"same": "*", "kit": "file:js/kit", "used": "*"}}"#,
            ),
            ("packages/same/package.json", r#"{"name": "same"}"#),
            ("packages/used/package.json", r#"{"name": "used"}"#),
            (
                "packages/app/package.json",
                r#"{"name": "app", "dependencies": {"used": "workspace:*"}}"#,
            ),
            ("broken/package.json", "{"),
        ];
        let manifests = manifests.map(|(path, text)| (path.to_owned(), text.to_owned()));
        let found: Vec<String> = packages_for_tests(&manifests).into_iter().collect();
        assert_eq!(found, ["fs", "js/kit", "kit/asserts", "packages/same", "support"]);
    }
}
