//! Classifies paths as checks or source: by name, by location, and by what gates and manifests say about them.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::by_name::{
    is_artefact, is_beside_support, is_code, is_configuring, is_docs, is_in_source, is_lock,
    is_named_support, is_test, is_vendored,
};
use super::manifest::Manifest;
use super::names::{
    BUILD_DIRECTORIES, CI_DIRECTORIES, CI_FILES, IGNORES, LOCKS, PYTHON_MODULES, PYTHON_ROOTS,
    SEARCHED, SOURCE_ROOTS, TEST_DIRECTORIES,
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
    /// New files of source that take the place of one that is gone: `mul/index.js` of `mul.js`.
    pub moved: BTreeSet<String>,
    /// Directories from which gates have Python import modules, beside the usual ones.
    pub import_roots: BTreeSet<String>,
}

impl ProjectLayout {
    /// Returns the class of a file. A file that the anchor does not contain is new.
    pub fn class_of(&self, path: &str, is_new: bool) -> CheckClass {
        let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
        if CI_DIRECTORIES.iter().any(|ci| path.starts_with(ci)) || CI_FILES.contains(&name) {
            return self.class_in_ci(path, is_new);
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

    /// Classifies a file of CI: usually no gate runs it, but one can (`pre-commit run`, a script of the service).
    fn class_in_ci(&self, path: &str, is_new: bool) -> CheckClass {
        match &self.looked {
            _ if self.named.contains(path) || self.scripts.contains(path) => CheckClass::Script,
            Some(looked) if looked.opened.contains(path) => CheckClass::Data,
            Some(looked) if is_new && looked.missed(path) => CheckClass::Configuring,
            _ => CheckClass::Ci,
        }
    }

    /// Whether a gate looked for exactly this new file in vain. Rust resolves no name under several roots; of a module
    /// that only moves, another form was found.
    fn is_looked_up(&self, path: &str) -> bool {
        path.strip_suffix(".rs").is_none()
            && !self.moved.contains(path)
            && self.looked.as_ref().is_some_and(|looked| looked.missed.contains(path))
    }

    /// Classifies a file whose name does not say that it is a check, by how gates accessed its path.
    fn class_by_use(&self, path: &str, is_new: bool) -> CheckClass {
        let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
        let in_source = is_in_source(path);
        let is_ignored = |looked: &LookedFor| !looked.opened.contains(path) && !looked.missed(path);
        if LOCKS.contains(&name)
            || (in_source && is_code(name) && !(is_new && self.is_looked_up(path)))
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
        if !PYTHON_ROOTS.contains(&root) && !self.import_roots.contains(root) {
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
