//! Classifies paths as checks or source: by name, by location, and by what gates and manifests say about them.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::manifest::Manifest;
use super::names::{
    ARTEFACT_DIRECTORIES, ARTEFACT_SUFFIXES, BUILD_DIRECTORIES, CI_DIRECTORIES, CI_FILES, CODE,
    CONFIGURING, CONFIGURING_STEMS, CONFIGURING_SUFFIXES, DOC_STEMS, DOCS, IGNORES, LOCKS,
    PYTHON_MODULES, PYTHON_ROOTS, SEARCHED, SOURCE_ROOTS, SUPPORT_WORDS, TEST_DIRECTORIES,
    TEST_DIRECTORY_ENDS, TEST_SETUP_STEMS, TOOL_DIRECTORIES, VENDOR_DIRECTORIES,
};

/// The role of a file in a project's checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckClass {
    /// A test, its fixtures and snapshots.
    Test,
    /// Tests inside a source file.
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
    /// Build products that are committed.
    Artefact,
    /// What a CI service runs; no gate does.
    Ci,
    /// The code under test, documentation, and lock files.
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

/// The paths that gates accessed at the base, relative to the root of the repository.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LookedFor {
    /// Files they opened.
    pub opened: BTreeSet<String>,
    /// Paths that did not exist. A directory that they tried to list ends with a slash.
    pub missed: BTreeSet<String>,
}

impl LookedFor {
    /// Whether a gate looked in vain for this new file, or for a directory that contains it.
    fn missed(&self, path: &str) -> bool {
        let is_code = is_code(path.rsplit('/').next().unwrap_or(path));
        self.missed.contains(path)
            || path.match_indices('/').any(|(at, _)| {
                let directory = &path[..at];
                let name = directory.rsplit('/').next().unwrap_or(directory);
                // Code in a directory that the build picks up by itself is part of the build.
                let is_builds = BUILD_DIRECTORIES.contains(&name) || SOURCE_ROOTS.contains(&name);
                (self.missed.contains(&path[..=at]) && !(is_code && is_builds))
                    || (self.missed.contains(directory) && !is_code)
            })
    }

    fn opened_in(&self, directory: &str) -> bool {
        self.opened.iter().any(|file| {
            !directory.is_empty()
                && file.rsplit_once('/').is_some_and(|(beside, _)| beside == directory)
        })
    }
}

/// What is known about a project in addition to its file names, as of the anchor.
#[derive(Clone, Debug, Default)]
pub struct ProjectLayout {
    /// All files.
    pub tree: BTreeSet<String>,
    /// Files that the commands of gates and `setup` execute.
    pub named: BTreeSet<String>,
    /// Those files, and the files that they and the recipes mention.
    pub scripts: BTreeSet<String>,
    /// Directories of packages that only tests depend on.
    pub support_directories: BTreeSet<String>,
    /// Files named like test support that source uses.
    pub used_by_source: BTreeSet<String>,
    /// Files outside the source that only checks use, whatever they are called.
    pub used_by_checks: BTreeSet<String>,
    /// What gates looked for at the base; `None` where that cannot be told.
    pub looked: Option<LookedFor>,
    /// New files that the anchor's checks import although the anchor does not contain them.
    pub wanted_by_checks: BTreeSet<String>,
}

impl ProjectLayout {
    /// Returns the class of a file. A file that the anchor does not contain is new.
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
        if is_configuring(path, name)
            || (is_new && (self.shadows(directory, name) || self.shadows_check(path)))
        {
            return CheckClass::Configuring;
        }
        if Manifest::of(name).is_some() {
            return CheckClass::Manifest;
        }
        let in_source = is_in_source(path);
        // A file that a gate's own command runs is never just source.
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
        let for_tests = is_named_support(path) && !(is_new && is_beside_support(path));
        if self.support_directories.iter().any(in_support)
            || (for_tests && !self.used_by_source.contains(path))
            || self.used_by_checks.contains(path)
            || (is_vendored(path) && !is_new)
        {
            return CheckClass::Support;
        }
        self.class_by_use(path, is_new)
    }

    /// Classifies a file whose name does not say that it is a check, by how gates accessed its path.
    fn class_by_use(&self, path: &str, is_new: bool) -> CheckClass {
        let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
        let in_source = is_in_source(path);
        let is_ignored = |looked: &LookedFor| !looked.opened.contains(path) && !looked.missed(path);
        if LOCKS.contains(&name)
            || (in_source && is_code(name))
            || (IGNORES.contains(&name) && self.looked.as_ref().is_some_and(is_ignored))
        {
            return CheckClass::Source;
        }
        if is_new && self.is_looked_for(path) {
            return CheckClass::Configuring;
        }
        let is_opened = self.looked.as_ref().is_some_and(|looked| looked.opened.contains(path));
        if is_opened && !is_new && !is_code(name) {
            return CheckClass::Data;
        }
        if in_source || is_code(name) || is_docs(path, name) || is_lock(name) {
            return CheckClass::Source;
        }
        // No gate looked for it or reads similar files.
        let is_unread = self.looked.as_ref().is_some_and(|looked| !looked.opened_in(directory));
        if is_new && is_unread { CheckClass::Source } else { CheckClass::Data }
    }

    /// Whether the anchor's checks look for a file that the anchor does not contain.
    fn is_looked_for(&self, path: &str) -> bool {
        self.wanted_by_checks.contains(path)
            || self.looked.as_ref().is_some_and(|looked| looked.missed(path))
    }

    /// Whether a file is new and of no known class. If it is unknown what a gate looked for in vain, the file could be
    /// just that; if the gate did not pass before, the file may equally be the work itself.
    pub(super) fn is_unknown(&self, path: &str, is_new: bool) -> bool {
        let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
        is_new
            && match self.class_of(path, true) {
                CheckClass::Data => true,
                CheckClass::Configuring => {
                    !is_configuring(path, name) && !self.shadows(directory, name)
                }
                _ => false,
            }
    }

    /// Whether a file is a script only because another script mentions it. It may equally be the source under check.
    pub(super) fn is_mentioned_only(&self, path: &str) -> bool {
        match self.class_of(path, false) {
            CheckClass::Script => !self.named.contains(path),
            CheckClass::Support => {
                is_beside_support(path) || self.used_by_checks.contains(path) || is_vendored(path)
            }
            _ => false,
        }
    }

    /// Whether a source file is run by a gate's own command: it is a check, and may also be the code under check.
    pub fn is_entry_in_source(&self, path: &str) -> bool {
        self.named.contains(path)
            && self.class_of(path, false) == CheckClass::Script
            && is_in_source(path)
    }

    /// A script may read the whole directory that contains it.
    fn is_beside_script(&self, directory: &str) -> bool {
        let in_it = |script: &String| {
            script.rsplit_once('/').is_some_and(|(beside, _)| {
                directory == beside || directory.starts_with(&format!("{beside}/"))
            })
        };
        !directory.is_empty() && self.scripts.iter().any(in_it)
    }

    /// Whether a new source file has the place and name of a file of the tests under another root, where the language looks
    /// for one name under several roots (source paths, include directories): it may be found instead.
    fn shadows_check(&self, path: &str) -> bool {
        let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
        let is_searched =
            name.rsplit_once('.').is_some_and(|(_, extension)| SEARCHED.contains(&extension));
        if !is_searched || !is_in_source(path) {
            return false;
        }
        let place_of = |directory: &str| {
            let last = directory.rsplit('/').next().unwrap_or("").to_owned();
            let is_root = SOURCE_ROOTS.contains(&&*last) || TEST_DIRECTORIES.contains(&&*last);
            if is_root { String::new() } else { last }
        };
        let place = place_of(directory);
        // A root that becomes a package shadows nothing.
        if place.is_empty() && name == "__init__.py" {
            return false;
        }
        self.tree.iter().any(|other| {
            let (beside, other_name) = other.rsplit_once('/').unwrap_or(("", other));
            let is_in_root = !place.is_empty() || !beside.contains('/');
            other_name == name && is_in_root && is_test(other) && place_of(beside) == place
        })
    }

    /// Whether a new module shadows one of Python's, or one in another import root.
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

/// Whether a file is inside a source root.
pub(super) fn is_in_source(path: &str) -> bool {
    let directories = path.rsplit_once('/').map_or("", |(directories, _)| directories);
    directories.split('/').any(|directory| SOURCE_ROOTS.contains(&directory))
}

/// Whether a file is named like test-only code. The caller must check whether other code uses it.
pub fn is_named_support(path: &str) -> bool {
    is_surely_support(path) || is_beside_support(path)
}

fn is_surely_support(path: &str) -> bool {
    let (directories, name) = path.rsplit_once('/').unwrap_or(("", path));
    let stem = name.split('.').next().unwrap_or(name);
    is_code(name) && (is_support_word(stem) || directories.split('/').any(is_support_word))
}

fn is_support_word(name: &str) -> bool {
    SUPPORT_WORDS.contains(&name.replace(['-', '_'], "").as_str())
}

/// Tells whether a file is code of others that is kept in the tree: a library of assertions, or what the product uses.
fn is_vendored(path: &str) -> bool {
    let directories = path.rsplit_once('/').map_or("", |(directories, _)| directories);
    directories.split('/').any(|directory| VENDOR_DIRECTORIES.contains(&directory))
}

/// Tells whether a file may be one that only tests use though no name says so: code in a directory of its own, beside the
/// source and not in it.
pub fn can_help_tests(path: &str) -> bool {
    path.contains('/') && is_code_file(path) && !is_in_source(path)
}

/// Tells whether a path is one of code that is no documentation.
pub fn is_code_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    is_code(name) && !is_docs(path, name)
}

/// Whether a file is in a tools directory: it may support tests, or be under test.
fn is_beside_support(path: &str) -> bool {
    let (directories, name) = path.rsplit_once('/').unwrap_or(("", path));
    is_code(name)
        && !is_surely_support(path)
        && !is_in_source(path)
        && directories.split('/').any(|directory| TOOL_DIRECTORIES.contains(&directory))
}

/// Whether the class of a changed file may depend on what gates looked for.
pub fn depends_on_trace(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let is_known = is_product(path)
        || is_test(path)
        || is_configuring(path, name)
        || Manifest::of(name).is_some()
        || LOCKS.contains(&name)
        || (is_in_source(path) && is_code(name));
    !is_known
}

/// Whether a path is where tools put their output.
pub fn is_product(path: &str) -> bool {
    is_artefact(path)
}

/// Returns the word by which other code refers to a file named like test support.
pub fn support_word(path: &str) -> &str {
    let (directories, name) = path.rsplit_once('/').unwrap_or(("", path));
    let stem = name.split('.').next().unwrap_or(name);
    if is_support_word(stem) {
        return stem;
    }
    let is_word =
        |directory: &&str| is_support_word(directory) || TOOL_DIRECTORIES.contains(directory);
    directories.split('/').find(is_word).unwrap_or(stem)
}

fn is_artefact(path: &str) -> bool {
    let made = |part: &str| {
        ARTEFACT_DIRECTORIES.contains(&part)
            || ARTEFACT_SUFFIXES.iter().any(|suffix| part.ends_with(suffix))
    };
    path.split('/').any(made) || [".pyc", ".pyo"].iter().any(|end| path.ends_with(end))
}

/// Tells whether a path is one of a test, its fixtures or its snapshots.
pub fn is_test(path: &str) -> bool {
    let mut in_source = false;
    let (directories, name) = path.rsplit_once('/').unwrap_or(("", path));
    for part in path.split('/') {
        // `features` inside the source contains features of the program, not tests.
        if TEST_DIRECTORIES.contains(&part) && (part != "features" || !in_source) {
            return true;
        }
        in_source |= SOURCE_ROOTS.contains(&part);
    }
    let is_for_tests = |part: &str| TEST_DIRECTORY_ENDS.iter().any(|end| part.ends_with(end));
    // Gradle has a directory for each set of sources: `src/commonTest`.
    let sets = directories.split('/').zip(directories.split('/').skip(1));
    if directories.split('/').any(is_for_tests)
        || sets.into_iter().any(|(parent, set)| parent == "src" && set.ends_with("Test"))
        || TEST_SETUP_STEMS.iter().any(|stem| name.starts_with(stem))
    {
        return true;
    }
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

pub(super) fn is_configuring(path: &str, name: &str) -> bool {
    CONFIGURING.contains(&name)
        || CONFIGURING_STEMS.iter().any(|stem| name.starts_with(stem))
        || CONFIGURING_SUFFIXES.iter().any(|suffix| name.ends_with(suffix))
        || path.split('/').any(|part| part == ".cargo")
}

pub(super) fn is_code(name: &str) -> bool {
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
