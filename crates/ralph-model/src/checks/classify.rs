//! What a path is to the checks of a project: by its name, its place, and what gates and manifests say of it.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::manifest::Manifest;
use super::names::{
    ARTEFACT_DIRECTORIES, ARTEFACT_SUFFIXES, CI_DIRECTORIES, CI_FILES, CODE, CONFIGURING,
    CONFIGURING_STEMS, CONFIGURING_SUFFIXES, DOC_STEMS, DOCS, LOCKS, PYTHON_MODULES, PYTHON_ROOTS,
    SOURCE_ROOTS, SUPPORT_WORDS, TEST_DIRECTORIES,
};

/// What a file is to the checks of a project.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckClass {
    /// A test, its fixtures and snapshots.
    Test,
    /// Tests that stand inside a source file.
    InlineTest,
    /// Code that only tests use.
    Support,
    /// Configuration of runners, builds and linters.
    Configuring,
    /// A manifest: dependencies and settings of tests in one file.
    Manifest,
    /// What gates execute.
    Script,
    /// Files outside the source that are neither code nor documentation.
    Data,
    /// What tools make, committed.
    Artefact,
    /// What a CI service runs; no gate does.
    Ci,
    /// What is under test, documentation, and lock files.
    Source,
}

impl fmt::Display for CheckClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CheckClass::Test => "test",
            CheckClass::InlineTest => "tests inside a source file",
            CheckClass::Support => "code that only tests use",
            CheckClass::Configuring => "configuration of a runner or build",
            CheckClass::Manifest => "manifest",
            CheckClass::Script => "gate script",
            CheckClass::Data => "data",
            CheckClass::Artefact => "build product",
            CheckClass::Ci => "CI",
            CheckClass::Source => "source",
        })
    }
}

/// What is known of a project beside the names of its files, as the anchor has it.
#[derive(Clone, Debug, Default)]
pub struct ProjectLayout {
    /// All files.
    pub tree: BTreeSet<String>,
    /// What gates and `setup` execute by their own words.
    pub named: BTreeSet<String>,
    /// These, and what they and the recipes mention.
    pub scripts: BTreeSet<String>,
    /// Directories of packages that only tests depend on.
    pub support_directories: BTreeSet<String>,
    /// Files that are named like support of tests, and that source uses.
    pub used_by_source: BTreeSet<String>,
}

impl ProjectLayout {
    /// Returns what a file is. One that the anchor has not is new.
    pub fn class_of(&self, path: &str, is_new: bool) -> CheckClass {
        let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
        if CI_DIRECTORIES.iter().any(|ci| path.starts_with(ci)) || CI_FILES.contains(&name) {
            return CheckClass::Ci;
        }
        if is_artefact(path) {
            return CheckClass::Artefact;
        }
        if is_test(path) {
            return CheckClass::Test;
        }
        if is_configuring(path, name) || (is_new && self.shadows(directory, name)) {
            return CheckClass::Configuring;
        }
        if Manifest::of(name).is_some() {
            return CheckClass::Manifest;
        }
        let in_source = is_in_source(path);
        // The file that a gate's own command runs is never only source.
        if self.named.contains(path) {
            return CheckClass::Script;
        }
        if !in_source
            && (self.scripts.contains(path) || (is_new && self.is_beside_script(directory)))
        {
            return CheckClass::Script;
        }
        let in_support = |support: &String| {
            path.strip_prefix(support.as_str()).is_some_and(|rest| rest.starts_with('/'))
        };
        if self.support_directories.iter().any(in_support)
            || (is_named_support(path) && !self.used_by_source.contains(path))
        {
            return CheckClass::Support;
        }
        if in_source || is_code(name) || is_docs(path, name) || is_lock(name) {
            return CheckClass::Source;
        }
        CheckClass::Data
    }

    /// Whether a file is new and nothing that is known. Without knowing what a gate looked for in vain, it could be that;
    /// where the gate did not pass before, it may as well be the work.
    pub fn is_unknown(&self, path: &str, is_new: bool) -> bool {
        is_new && self.class_of(path, true) == CheckClass::Data
    }

    /// Whether a file is a script only because another one mentions it. It may as well be the source that is checked.
    pub fn is_mentioned_only(&self, path: &str) -> bool {
        self.class_of(path, false) == CheckClass::Script && !self.named.contains(path)
    }

    /// Whether a file among the source is what a gate's own command runs: it checks, and may be what is checked.
    pub fn is_entry_in_source(&self, path: &str) -> bool {
        self.named.contains(path)
            && self.class_of(path, false) == CheckClass::Script
            && is_in_source(path)
    }

    /// A directory that holds a script is one that the script may read as a whole.
    fn is_beside_script(&self, directory: &str) -> bool {
        let in_it = |script: &String| {
            script.rsplit_once('/').is_some_and(|(beside, _)| {
                directory == beside || directory.starts_with(&format!("{beside}/"))
            })
        };
        !directory.is_empty() && self.scripts.iter().any(in_it)
    }

    /// Tells whether a new module is found in the place of one of Python's, or of one in another directory of imports.
    fn shadows(&self, directory: &str, name: &str) -> bool {
        let (root, module) = match name.strip_suffix(".py") {
            Some("__init__") => match directory.rsplit_once('/') {
                Some((root, module)) => (root, module),
                None => ("", directory),
            },
            Some(module) => (directory, module),
            None => return false,
        };
        if !PYTHON_ROOTS.contains(&root) {
            return false;
        }
        let is_there = |root: &&&str| {
            let place = if root.is_empty() { String::new() } else { format!("{root}/") };
            self.tree.contains(&format!("{place}{module}.py"))
                || self.tree.contains(&format!("{place}{module}/__init__.py"))
        };
        PYTHON_MODULES.contains(&module)
            || PYTHON_ROOTS.iter().filter(|other| **other != root).any(|other| is_there(&other))
    }
}

/// Tells whether a file lies where the source is.
pub(super) fn is_in_source(path: &str) -> bool {
    let directories = path.rsplit_once('/').map_or("", |(directories, _)| directories);
    directories.split('/').any(|directory| SOURCE_ROOTS.contains(&directory))
}

/// Tells whether a file is named like code that only tests use. Whether other code uses it is to be looked up.
pub fn is_named_support(path: &str) -> bool {
    let (directories, name) = path.rsplit_once('/').unwrap_or(("", path));
    let stem = name.split('.').next().unwrap_or(name);
    is_code(name)
        && (SUPPORT_WORDS.contains(&stem)
            || directories.split('/').any(|directory| SUPPORT_WORDS.contains(&directory)))
}

/// Returns the word by which other code names a file that is named like support of tests.
pub fn support_word(path: &str) -> &str {
    let (directories, name) = path.rsplit_once('/').unwrap_or(("", path));
    let stem = name.split('.').next().unwrap_or(name);
    if SUPPORT_WORDS.contains(&stem) {
        return stem;
    }
    directories.split('/').find(|directory| SUPPORT_WORDS.contains(directory)).unwrap_or(stem)
}

fn is_artefact(path: &str) -> bool {
    let made = |part: &str| {
        ARTEFACT_DIRECTORIES.contains(&part)
            || ARTEFACT_SUFFIXES.iter().any(|suffix| part.ends_with(suffix))
    };
    path.split('/').any(made) || [".pyc", ".pyo"].iter().any(|end| path.ends_with(end))
}

fn is_test(path: &str) -> bool {
    let mut in_source = false;
    for part in path.split('/') {
        // Features of a program have directories of their own.
        if TEST_DIRECTORIES.contains(&part) && (part != "features" || !in_source) {
            return true;
        }
        in_source |= SOURCE_ROOTS.contains(&part);
    }
    let name = path.rsplit('/').next().unwrap_or(path);
    if [".snap", ".bats", ".feature", ".golden"].iter().any(|end| name.ends_with(end)) {
        return true;
    }
    let Some((stem, extension)) = name.rsplit_once('.') else { return false };
    if !is_code(name) {
        return false;
    }
    let lower = stem.to_ascii_lowercase();
    let marked = [".test", ".spec", ".tests", ".specs", ".e2e", ".cy"];
    match extension {
        "go" => lower.ends_with("_test"),
        "js" | "jsx" | "mjs" | "cjs" | "ts" | "tsx" | "mts" | "cts" | "vue" => {
            marked.iter().any(|end| lower.ends_with(end)) || lower == "test"
        }
        "java" | "kt" | "groovy" | "scala" | "cs" | "fs" | "swift" | "php" => {
            let ends = ["Test", "Tests", "TestCase", "Spec", "IT"];
            ends.iter().any(|end| stem.ends_with(end)) || lower.starts_with("test_")
        }
        _ => {
            let ends = ["_test", "_tests", "_spec", ".test", ".spec"];
            ends.iter().any(|end| lower.ends_with(end))
                || lower.starts_with("test_")
                || ["test", "tests"].contains(&lower.as_str())
        }
    }
}

fn is_configuring(path: &str, name: &str) -> bool {
    CONFIGURING.contains(&name)
        || CONFIGURING_STEMS.iter().any(|stem| name.starts_with(stem))
        || CONFIGURING_SUFFIXES.iter().any(|suffix| name.ends_with(suffix))
        || path.split('/').any(|part| part == ".cargo")
}

fn is_code(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(_, extension)| CODE.contains(&extension))
}

fn is_docs(path: &str, name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    name.rsplit_once('.').is_some_and(|(_, extension)| DOCS.contains(&extension))
        || DOC_STEMS.iter().any(|stem| lower.starts_with(stem))
        || ["docs/", "doc/"].iter().any(|docs| path.starts_with(docs))
}

fn is_lock(name: &str) -> bool {
    let is_list = name.strip_suffix(".txt").is_some_and(|stem| stem.starts_with("requirements"));
    LOCKS.contains(&name) || is_list
}
