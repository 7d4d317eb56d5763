//! Detects the project's own checks from its files: the commands a person would use to test it, as suggested gates.
//!
//! Invariant: nothing is executed. Files are only read, up to a size limit, so that an untrusted repository can be
//! examined. The suggestions are for a person to review and change.
//!
//! Precedence among several files:
//! - Each ecosystem yields one test command. A `justfile` or `Makefile` usually wraps the same one, so its `test` (or
//!   `check`) is used only if no ecosystem of that directory has tests; its `lint` only if none has a linter.
//! - Directories one level down (two, if the first is not a project: `services/api`) are separate projects, unless the
//!   root's project covers them (a cargo workspace, npm workspaces, a maven reactor), or the root's recipes test
//!   everything.
//! - Checks are distinguished by directory (`frontend-tests`), and by ecosystem where that is not enough (`cargo-tests`).

mod cargo;
mod jvm;
mod node;
mod others;
mod project;
mod python;
mod recipes;

use std::collections::BTreeMap;

use camino::Utf8Path;

use self::project::DetectedProject;

/// A gate suggested by the project's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuggestedGate {
    pub name: String,
    /// Run at the root of the workspace, or of its repository.
    pub run: Vec<String>,
    /// The directory of that repository, in a workspace of several.
    pub(crate) repo: Option<String>,
    /// Worth running before the others.
    pub(crate) fast: bool,
    /// The file it is based on, as a sentence fragment.
    pub why: String,
}

/// How to prepare a fresh checkout of the project.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SuggestedCheckout {
    pub(crate) setup: Vec<Vec<String>>,
    pub(crate) cache: Vec<String>,
}

/// Everything the project's files suggest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Suggestions {
    pub(crate) gates: Vec<SuggestedGate>,
    pub(crate) checkout: SuggestedCheckout,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CheckKind {
    Types,
    Lint,
    Vet,
    Build,
    Tests,
}

impl CheckKind {
    const fn name(self) -> &'static str {
        match self {
            CheckKind::Types => "types",
            CheckKind::Lint => "lint",
            CheckKind::Vet => "vet",
            CheckKind::Build => "build",
            CheckKind::Tests => "tests",
        }
    }

    const fn is_fast(self) -> bool {
        matches!(self, CheckKind::Types | CheckKind::Lint | CheckKind::Vet)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Check {
    kind: CheckKind,
    run: Vec<String>,
    why: String,
}

impl Check {
    fn new(kind: CheckKind, run: &[&str], why: String) -> Self {
        Check { kind, run: words(run), why }
    }
}

/// The result of one ecosystem for one directory.
#[derive(Clone, Debug, Default)]
struct Found {
    ecosystem: &'static str,
    /// The directory; empty for the root.
    place: String,
    checks: Vec<Check>,
    setup: Vec<Vec<String>>,
    cache: Vec<String>,
    /// Whether its checks cover the directories below.
    covers_below: bool,
}

impl Found {
    fn new(ecosystem: &'static str, project: &DetectedProject<'_>) -> Self {
        Found { ecosystem, place: project.place.to_owned(), ..Found::default() }
    }

    fn has(&self, kind: CheckKind) -> bool {
        self.checks.iter().any(|check| check.kind == kind)
    }
}

/// Directories whose subdirectories are test data, tools or pages rather than projects.
const NOT_ENTERED: [&str; 7] = ["bench", "benchmarks", "e2e", "scripts", "spec", "test", "tests"];

/// All known ecosystems, each with its detection function.
const ECOSYSTEMS: &[fn(&DetectedProject<'_>) -> Option<Found>] = &[
    cargo::examine,
    node::examine,
    python::examine,
    others::examine_go,
    jvm::examine,
    others::examine_ruby,
    others::examine_php,
    others::examine_dotnet,
    others::examine_deno,
    others::examine_mix,
];

/// Detects the checks of the project in a directory.
pub(crate) fn detect_checks(root: &Utf8Path) -> Suggestions {
    let project = DetectedProject::root(root);
    let mut found = examine(&project);
    if !found.iter().any(|found| found.ecosystem == recipes::NAME && found.has(CheckKind::Tests)) {
        for place in project.directories() {
            let outer = DetectedProject { root, place: &place };
            let mut below = examine(&outer);
            if below.is_empty() && !NOT_ENTERED.contains(&place.as_str()) {
                for inner in outer.directories() {
                    let place = format!("{place}/{inner}");
                    below.extend(examine(&DetectedProject { root, place: &place }));
                }
            }
            let is_covered = |inner: &Found| {
                let same = |outer: &&Found| outer.ecosystem == inner.ecosystem;
                found.iter().filter(same).any(|outer| outer.place.is_empty() && outer.covers_below)
            };
            let new: Vec<_> = below.into_iter().filter(|inner| !is_covered(inner)).collect();
            found.extend(new);
        }
    }
    // Setup commands serve a project's checks; without checks they only cost time.
    let checked: Vec<_> = found.iter().filter(|found| !found.checks.is_empty()).collect();
    let checked: Vec<_> = checked.iter().map(|found| found.ecosystem).collect();
    found.retain(|found| checked.contains(&found.ecosystem));
    suggest(found)
}

/// Detects the checks of several sibling repositories: each has its own.
///
/// The checkout setup is shared by all of them, so only what they agree on is suggested.
pub(crate) fn detect_in_repositories(root: &Utf8Path, names: &[String]) -> Suggestions {
    let mut all = Suggestions::default();
    let mut setups = Vec::new();
    for name in names {
        let found = detect_checks(&root.join(name));
        all.gates.extend(found.gates.into_iter().map(|gate| SuggestedGate {
            name: join(name, &gate.name),
            repo: Some(name.clone()),
            why: format!("in `{name}`, {}", gate.why),
            ..gate
        }));
        setups.push(found.checkout.setup);
        for path in found.checkout.cache {
            if !all.checkout.cache.contains(&path) {
                all.checkout.cache.push(path);
            }
        }
    }
    if let Some(first) = setups.first()
        && setups.iter().all(|setup| setup == first)
    {
        all.checkout.setup.clone_from(first);
    }
    make_names_differ(&mut all.gates);
    all
}

/// Examines one directory: its ecosystems, then its recipes for anything missing.
fn examine(project: &DetectedProject<'_>) -> Vec<Found> {
    let mut found: Vec<_> = ECOSYSTEMS.iter().filter_map(|examine| examine(project)).collect();
    let lacks = |kind| !found.iter().any(|found: &Found| found.has(kind));
    let wanted: Vec<_> =
        [CheckKind::Lint, CheckKind::Tests].into_iter().filter(|k| lacks(*k)).collect();
    found.extend(recipes::examine(project, &wanted));
    found
}

fn suggest(found: Vec<Found>) -> Suggestions {
    let base = |found: &Found, kind: CheckKind| join(&found.place, kind.name());
    let mut uses: BTreeMap<String, usize> = BTreeMap::new();
    for found in &found {
        for check in &found.checks {
            *uses.entry(base(found, check.kind)).or_default() += 1;
        }
    }
    let mut suggestions = Suggestions::default();
    for found in found {
        for check in &found.checks {
            let name = base(&found, check.kind);
            let is_alone = uses.get(&name) == Some(&1);
            let name = if is_alone {
                name
            } else {
                join(&found.place, &join(found.ecosystem, check.kind.name()))
            };
            suggestions.gates.push(SuggestedGate {
                name,
                run: check.run.clone(),
                repo: None,
                fast: check.kind.is_fast(),
                why: check.why.clone(),
            });
        }
        suggestions.checkout.setup.extend(found.setup);
        for path in found.cache {
            let path =
                if found.place.is_empty() { path } else { format!("{}/{path}", found.place) };
            if !suggestions.checkout.cache.contains(&path) {
                suggestions.checkout.cache.push(path);
            }
        }
    }
    make_names_differ(&mut suggestions.gates);
    suggestions
}

/// Numbers names that are still equal: directories can have any name, even `frontend-cargo`.
fn make_names_differ(gates: &mut [SuggestedGate]) {
    for index in 1..gates.len() {
        let mut name = gates[index].name.clone();
        let mut number = 2;
        while gates[..index].iter().any(|other| other.name == name) {
            name = format!("{}-{number}", gates[index].name);
            number += 1;
        }
        gates[index].name = name;
    }
}

fn join(before: &str, after: &str) -> String {
    let before = before.replace('/', "-");
    if before.is_empty() { after.to_owned() } else { format!("{before}-{after}") }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[cfg(test)]
#[path = "checks_tests.rs"]
mod tests;
