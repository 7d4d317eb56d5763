//! Splices manifests in JSON, of npm and of Composer.

use serde_json::{Map, Value as Json};

use super::manifest::Spliced;

/// What of a manifest in JSON is the candidate's. All other keys may be settings of a tool, and are the anchor's.
pub(super) struct JsonManifest {
    of_product: &'static [&'static str],
    /// The key of the dependencies of tests: the anchor's entries, and new ones.
    for_tests: &'static str,
}

pub(super) const PACKAGE: JsonManifest = JsonManifest {
    of_product: &[
        "name",
        "version",
        "private",
        "description",
        "keywords",
        "homepage",
        "bugs",
        "license",
        "author",
        "contributors",
        "maintainers",
        "funding",
        "repository",
        "files",
        "main",
        "module",
        "browser",
        "exports",
        "types",
        "typings",
        "typesVersions",
        "sideEffects",
        "unpkg",
        "jsdelivr",
        "bin",
        "man",
        "directories",
        "dependencies",
        "peerDependencies",
        "peerDependenciesMeta",
        "optionalDependencies",
        "bundleDependencies",
        "bundledDependencies",
        "os",
        "cpu",
        "libc",
        "publishConfig",
        "workspaces",
        "devDependencies",
    ],
    for_tests: "devDependencies",
};

pub(super) const COMPOSER: JsonManifest = JsonManifest {
    of_product: &[
        "name",
        "version",
        "description",
        "type",
        "keywords",
        "homepage",
        "readme",
        "time",
        "license",
        "authors",
        "support",
        "funding",
        "require",
        "require-dev",
        "conflict",
        "replace",
        "provide",
        "suggest",
        "autoload",
        "bin",
        "minimum-stability",
        "prefer-stable",
        "abandoned",
    ],
    for_tests: "require-dev",
};

pub(super) fn json_splice(anchor: &str, candidate: &str, manifest: &JsonManifest) -> Spliced {
    let anchor = if anchor.trim().is_empty() { "{}" } else { anchor };
    let read = |text: &str| match serde_json::from_str::<Json>(text) {
        Ok(Json::Object(object)) => Some(object),
        _ => None,
    };
    let (Some(anchor), Some(candidate)) = (read(anchor), read(candidate)) else {
        return Spliced::Unreadable;
    };
    let mut joined: Map<String, Json> = Map::new();
    let is_products = |key: &String| manifest.of_product.contains(&key.as_str());
    joined.extend(candidate.iter().filter(|(key, _)| is_products(key)).map(owned));
    joined.extend(anchor.iter().filter(|(key, _)| !is_products(key)).map(owned));
    // New members of a workspace are new code.
    match (anchor.get("workspaces"), joined.get_mut("workspaces")) {
        (Some(Json::Array(before)), Some(Json::Array(now))) => {
            let lost: Vec<Json> =
                before.iter().filter(|member| !now.contains(member)).cloned().collect();
            now.extend(lost);
        }
        (Some(before), _) => drop(joined.insert("workspaces".to_owned(), before.clone())),
        (None, _) => drop(joined.remove("workspaces")),
    }
    if let Some(Json::Object(before)) = anchor.get(manifest.for_tests) {
        let now = joined.entry(manifest.for_tests).or_insert_with(|| Json::Object(Map::new()));
        if let Json::Object(now) = now {
            now.extend(before.clone());
        }
    }
    if joined == candidate {
        return Spliced::Same;
    }
    let text = serde_json::to_string_pretty(&Json::Object(joined)).expect("its keys are strings");
    Spliced::Text(text + "\n")
}

fn owned((key, value): (&String, &Json)) -> (String, Json) {
    (key.clone(), value.clone())
}
