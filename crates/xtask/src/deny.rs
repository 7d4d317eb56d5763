//! `cargo xtask deny`: checks the dependencies against `deny.toml`, the policy file of cargo-deny.
//!
//! It checks licences, sources and duplicate versions from `cargo metadata`, so it needs only cargo, and no network
//! once the crates are downloaded. An unknown key is an error, so that every written policy is enforced. Advisories are
//! left out, because their database is not in a registry: `cargo deny check advisories` reads that section.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::{Command, ExitCode};

use serde::Deserialize;

use crate::{progress, root};

/// The part of `deny.toml` that is checked here.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Policy {
    graph: Graph,
    licenses: Licences,
    sources: Sources,
    bans: Bans,
    /// Read by cargo-deny only.
    #[serde(rename = "advisories")]
    _advisories: toml::Table,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Graph {
    targets: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Licences {
    allow: BTreeSet<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Sources {
    unknown_registry: Level,
    unknown_git: Level,
    allow_registry: BTreeSet<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Bans {
    multiple_versions: Level,
    wildcards: Level,
    allow_wildcard_paths: bool,
}

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Level {
    Allow,
    Warn,
    Deny,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Clone, Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    /// `None` for a crate of the workspace, or one given by path.
    source: Option<String>,
    dependencies: Vec<Dependency>,
}

#[derive(Clone, Deserialize)]
struct Dependency {
    name: String,
    req: String,
    path: Option<String>,
}

/// Checks the dependencies; fails if one breaks a rule.
pub(crate) fn run() -> Result<ExitCode, String> {
    let file = root().join("deny.toml");
    let text =
        fs::read_to_string(&file).map_err(|error| format!("cannot read deny.toml: {error}"))?;
    let policy: Policy =
        toml::from_str(&text).map_err(|error| format!("cannot read deny.toml: {error}"))?;
    let mut packages = BTreeMap::new();
    for target in &policy.graph.targets {
        let metadata = metadata(target)?;
        packages.extend(metadata.packages.into_iter().map(|found| (found.id.clone(), found)));
    }
    let packages: Vec<Package> = packages.into_values().collect();
    let findings = policy.check(&packages);
    for (level, finding) in &findings {
        let level = if *level == Level::Deny { "error" } else { "warning" };
        println!("{level}: {finding}");
    }
    let denied = findings.iter().filter(|(level, _)| *level == Level::Deny).count();
    progress(&format!("{} packages, {denied} against deny.toml", packages.len()));
    Ok(if denied == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn metadata(target: &str) -> Result<Metadata, String> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--locked", "--format-version=1", "--filter-platform", target])
        .current_dir(root())
        .output()
        .map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr)));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))
}

impl Policy {
    /// Returns the violations with their severity.
    fn check(&self, packages: &[Package]) -> Vec<(Level, String)> {
        let mut findings = Vec::new();
        let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for package in packages {
            let Package { name, version, .. } = package;
            versions.entry(name).or_default().push(version);
            let licence = package.license.as_deref().unwrap_or_default();
            if !is_allowed(licence, &self.licenses.allow) {
                let finding = format!("`{name}` {version} is under `{licence}`");
                findings.push((Level::Deny, finding));
            }
            if let Some(source) = &package.source {
                findings.push((self.level_of(source), format!("`{name}` comes from `{source}`")));
            }
            // Only our own requirements: those of other crates are not our responsibility.
            for dependency in package.dependencies.iter().filter(|_| package.source.is_none()) {
                let by_path = dependency.path.is_some() && self.bans.allow_wildcard_paths;
                if dependency.req == "*" && !by_path {
                    let finding = format!("`{name}` takes any version of `{}`", dependency.name);
                    findings.push((self.bans.wildcards, finding));
                }
            }
        }
        for (name, versions) in versions.into_iter().filter(|(_, versions)| versions.len() > 1) {
            let finding = format!("`{name}` is there as {}", versions.join(" and "));
            findings.push((self.bans.multiple_versions, finding));
        }
        findings.retain(|(level, _)| *level != Level::Allow);
        findings
    }

    fn level_of(&self, source: &str) -> Level {
        match source.split_once('+') {
            Some(("registry" | "sparse", address))
                if self.sources.allow_registry.contains(address) =>
            {
                Level::Allow
            }
            Some(("git", _)) => self.sources.unknown_git,
            _ => self.sources.unknown_registry,
        }
    }
}

/// Whether an SPDX expression can be satisfied with the allowed licences. An unparsable one cannot.
///
/// `A/B`, the old form of `A OR B`, is supported. A licence with an exception must be allowed under that whole name.
fn is_allowed(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    any(&mut rest, allowed) == Some(true) && rest.is_empty()
}

fn any(words: &mut &[&str], allowed: &BTreeSet<String>) -> Option<bool> {
    let mut holds = all(words, allowed)?;
    while let ["OR", rest @ ..] = *words {
        *words = rest;
        holds |= all(words, allowed)?;
    }
    Some(holds)
}

fn all(words: &mut &[&str], allowed: &BTreeSet<String>) -> Option<bool> {
    let mut holds = one(words, allowed)?;
    while let ["AND", rest @ ..] = *words {
        *words = rest;
        holds &= one(words, allowed)?;
    }
    Some(holds)
}

fn one(words: &mut &[&str], allowed: &BTreeSet<String>) -> Option<bool> {
    match *words {
        ["(", rest @ ..] => {
            *words = rest;
            let holds = any(words, allowed)?;
            *words = words.strip_prefix(&[")"])?;
            Some(holds)
        }
        [licence, "WITH", exception, rest @ ..] => {
            *words = rest;
            Some(allowed.contains(&format!("{licence} WITH {exception}")))
        }
        [licence, rest @ ..] if !["AND", "OR", "WITH", ")"].contains(licence) => {
            *words = rest;
            Some(allowed.contains(*licence))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &str = r#"
        [graph]
        targets = ["here"]
        [licenses]
        allow = ["MIT", "Zlib"]
        [sources]
        unknown-registry = "deny"
        unknown-git = "deny"
        allow-registry = ["https://registry"]
        [bans]
        multiple-versions = "warn"
        wildcards = "deny"
        allow-wildcard-paths = true
        [advisories]
        ignore = []
    "#;

    fn package(name: &str, version: &str, license: &str, source: Option<&str>) -> Package {
        Package {
            id: format!("{name}@{version}"),
            name: name.to_owned(),
            version: version.to_owned(),
            license: (!license.is_empty()).then(|| license.to_owned()),
            source: source.map(ToOwned::to_owned),
            dependencies: Vec::new(),
        }
    }

    fn found(packages: &[Package]) -> Vec<(Level, String)> {
        toml::from_str::<Policy>(POLICY).unwrap().check(packages)
    }

    #[test]
    fn licences_are_read_as_spdx() {
        let allowed = BTreeSet::from(["MIT", "Zlib", "A WITH B"].map(str::to_owned));
        for (expression, expected) in [
            ("MIT", true),
            ("GPL-3.0", false),
            ("GPL-3.0 OR MIT", true),
            ("GPL-3.0/MIT", true),
            ("GPL-3.0 AND MIT", false),
            ("(GPL-3.0 OR MIT) AND Zlib", true),
            ("GPL-3.0 OR MIT AND GPL-3.0", false),
            ("MIT OR GPL-3.0 AND GPL-3.0", true),
            ("A WITH B", true),
            ("A", false),
            ("MIT WITH B", false),
            ("MIT Zlib", false),
            ("(MIT", false),
            ("MIT OR", false),
            ("", false),
        ] {
            assert_eq!(is_allowed(expression, &allowed), expected, "{expression}");
        }
    }

    #[test]
    fn what_breaks_a_rule_is_found() {
        let known = Some("registry+https://registry");
        let mut ours = package("ours", "0.0.0", "MIT", None);
        for (name, path) in [("any", None), ("beside", Some("/beside".to_owned()))] {
            let dependency = Dependency { name: name.to_owned(), req: "*".to_owned(), path };
            ours.dependencies.push(dependency);
        }
        assert_eq!(
            found(&[
                ours,
                package("a", "1.0.0", "MIT", known),
                package("a", "2.0.0", "MIT", known),
                package("b", "1.0.0", "", known),
                package("c", "1.0.0", "GPL-3.0", known),
                package("d", "1.0.0", "MIT", Some("registry+https://other")),
                package("e", "1.0.0", "MIT", Some("git+https://registry?rev=1")),
            ]),
            [
                (Level::Deny, "`ours` takes any version of `any`".to_owned()),
                (Level::Deny, "`b` 1.0.0 is under ``".to_owned()),
                (Level::Deny, "`c` 1.0.0 is under `GPL-3.0`".to_owned()),
                (Level::Deny, "`d` comes from `registry+https://other`".to_owned()),
                (Level::Deny, "`e` comes from `git+https://registry?rev=1`".to_owned()),
                (Level::Warn, "`a` is there as 1.0.0 and 2.0.0".to_owned()),
            ]
        );
    }

    #[test]
    fn a_policy_that_is_not_checked_here_is_refused() {
        assert!(toml::from_str::<Policy>(&POLICY.replace("allow =", "deny =")).is_err());
        let text = fs::read_to_string(root().join("deny.toml")).unwrap();
        toml::from_str::<Policy>(&text).unwrap();
    }
}
