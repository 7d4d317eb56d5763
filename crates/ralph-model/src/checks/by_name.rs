//! What the name of a file and its place say about it: test, settings, code, documentation, product of a build.
//!
//! Lists of names are never complete: [`classify`] adds what gates and manifests say.
//!
//! [`classify`]: super::classify

use std::collections::BTreeSet;

use super::manifest::Manifest;
use super::names::{
    ARTEFACT_DIRECTORIES, ARTEFACT_SUFFIXES, CAPITAL_LANGUAGES, CODE, CONFIGURING,
    CONFIGURING_STEMS, CONFIGURING_SUFFIXES, DOC_STEMS, DOCS, EXPECTED_WORDS, LOCKS,
    OUTER_TEST_DIRECTORIES, PAGES, SOURCE_ROOTS, SUPPORT_WORDS, TEST_DIRECTORIES,
    TEST_DIRECTORY_ENDS, TEST_SETUP_STEMS, TEST_WORDS, TOOL_DIRECTORIES, VENDOR_DIRECTORIES,
};

/// Whether a file is inside a source root.
pub(super) fn is_in_source(path: &str) -> bool {
    let directories = path.rsplit_once('/').map_or("", |(directories, _)| directories);
    directories.split('/').any(|directory| SOURCE_ROOTS.contains(&directory))
}

/// Whether a file is named like test-only code. The caller must check whether other code uses it.
pub fn is_named_support(path: &str) -> bool {
    is_surely_support(path) || is_beside_support(path)
}

pub(super) fn is_surely_support(path: &str) -> bool {
    let (directories, name) = path.rsplit_once('/').unwrap_or(("", path));
    let stem = name.split('.').next().unwrap_or(name);
    is_code(name) && (is_support_word(stem) || directories.split('/').any(is_support_word))
}

fn is_support_word(name: &str) -> bool {
    SUPPORT_WORDS.contains(&name.replace(['-', '_'], "").as_str())
}

/// Tells whether a file is code of others that is kept in the tree: a library of assertions, or what the product uses.
pub(super) fn is_vendored(path: &str) -> bool {
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
pub(super) fn is_beside_support(path: &str) -> bool {
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

/// Whether the class of a new file depends on what gates looked for in vain, though its name says that it is source.
pub fn can_be_looked_up(path: &str) -> bool {
    path.strip_suffix(".rs").is_none() && is_in_source(path) && is_code_file(path)
}

/// Returns the name by which a module is found, whichever form it has: a file, or a directory with an index.
pub fn module_key(path: &str) -> String {
    let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
    let stem = name.split('.').next().unwrap_or(name);
    if matches!(stem, "index" | "mod" | "__init__" | "init") {
        return directory.to_owned();
    }
    if directory.is_empty() { stem.to_owned() } else { format!("{directory}/{stem}") }
}

/// Returns the directories that a text names where it says from where Python imports modules.
pub fn import_roots_in(text: &str) -> BTreeSet<String> {
    const SETTINGS: [&str; 3] = ["PYTHONPATH", "pythonpath", "sys.path"];
    let is_part = |c: char| c.is_alphanumeric() || "_-./".contains(c);
    let mut roots = BTreeSet::new();
    for line in text.lines() {
        let after = SETTINGS.iter().filter_map(|setting| line.split_once(setting));
        for (_, rest) in after {
            let words = rest.split(|c: char| !is_part(c));
            let plain = words.map(|word| word.trim_start_matches("./").trim_matches('/'));
            roots.extend(plain.filter(|word| !word.is_empty()).map(str::to_owned));
        }
    }
    roots
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

pub(super) fn is_artefact(path: &str) -> bool {
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
        if is_test_directory(part, in_source) {
            return true;
        }
        in_source |= SOURCE_ROOTS.contains(&part);
    }
    let is_for_tests = |part: &str| TEST_DIRECTORY_ENDS.iter().any(|end| part.ends_with(end));
    // Gradle has a directory for each set of sources: `src/commonTest`.
    let sets = directories.split('/').zip(directories.split('/').skip(1));
    directories.split('/').any(is_for_tests)
        || sets.into_iter().any(|(parent, set)| parent == "src" && set.ends_with("Test"))
        || TEST_SETUP_STEMS.iter().any(|stem| name.starts_with(stem))
        || [".snap", ".bats", ".feature", ".golden"].iter().any(|end| name.ends_with(end))
        || is_expected_output(directories, name)
        || is_test_name(name)
}

/// Whether a directory is one of tests. Among the source only exact names count: `src/Test` may be the product.
fn is_test_directory(part: &str, in_source: bool) -> bool {
    if TEST_DIRECTORIES.contains(&part) {
        // `features` inside the source contains features of the program, not tests.
        return part != "features" || !in_source;
    }
    if in_source {
        return false;
    }
    let lower = part.to_ascii_lowercase();
    // A file of the root has a name of its own.
    let is_directory = !lower.contains('.');
    is_directory
        && (TEST_DIRECTORIES.contains(&&*lower)
            || OUTER_TEST_DIRECTORIES.contains(&&*lower)
            || lower.split(['-', '_']).any(|word| TEST_WORDS.contains(&word)))
}

/// Whether a page, a picture or a statement is what a test expects as output.
fn is_expected_output(directories: &str, name: &str) -> bool {
    let is_marker = |marker: &str| EXPECTED_WORDS.contains(&marker);
    let mut parts = name.rsplit('.');
    let is_page = parts.next().is_some_and(|extension| PAGES.contains(&extension));
    is_page
        && (parts.next().is_some_and(is_marker) && parts.next().is_some()
            || directories.split('/').any(is_marker))
}

/// Whether the name of a file of code says that it is a test.
fn is_test_name(name: &str) -> bool {
    let Some((stem, extension)) = name.rsplit_once('.') else { return false };
    if !is_code(name) {
        return false;
    }
    let lower = stem.to_ascii_lowercase();
    let marked = [".test", ".spec", ".tests", ".specs", ".e2e", ".cy"];
    let is_capital = |ends: &[&str]| ends.iter().any(|end| stem.ends_with(end));
    match extension {
        "go" => lower.ends_with("_test"),
        "js" | "jsx" | "mjs" | "cjs" | "ts" | "tsx" | "mts" | "cts" | "vue" => {
            marked.iter().any(|end| lower.ends_with(end)) || lower == "test"
        }
        "java" | "kt" | "groovy" | "scala" | "cs" | "fs" | "swift" | "php" => {
            is_capital(&["Test", "Tests", "TestCase", "Spec", "IT"]) || lower.starts_with("test_")
        }
        _ => {
            let lower = lower.replace('-', "_");
            let ends = ["_test", "_tests", "_spec", "_unittest", "_unittests", ".test", ".spec"];
            ends.iter().any(|end| lower.ends_with(end))
                || lower.starts_with("test_")
                || ["test", "tests"].contains(&lower.as_str())
                || (CAPITAL_LANGUAGES.contains(&extension)
                    && is_capital(&["Test", "Tests", "TestCase", "Spec"]))
        }
    }
}

pub(super) fn is_configuring(path: &str, name: &str) -> bool {
    CONFIGURING.contains(&name)
        || CONFIGURING_STEMS.iter().any(|stem| name.starts_with(stem))
        || CONFIGURING_SUFFIXES.iter().any(|suffix| name.ends_with(suffix))
        || path.split('/').any(|part| part == ".cargo" || part == "buildSrc")
        || is_tool_settings(path, name)
}

/// Whether a file of code has the name that tools give to their settings: `acme.config.ts`, `.acmerc.js`. Among the source
/// such a file may be the program's own.
fn is_tool_settings(path: &str, name: &str) -> bool {
    let Some((stem, extension)) = name.rsplit_once('.') else { return false };
    let is_script = ["js", "cjs", "mjs", "ts", "cts", "mts", "py", "rb", "lua"];
    is_script.contains(&extension)
        && ((stem.starts_with('.') && stem.ends_with("rc"))
            || (!is_in_source(path)
                && [".config", ".conf", ".setup", ".preset"].iter().any(|end| stem.ends_with(end))))
}

pub(super) fn is_code(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(_, extension)| CODE.contains(&extension))
}

pub(super) fn is_docs(path: &str, name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    name.rsplit_once('.').is_some_and(|(_, extension)| DOCS.contains(&extension))
        || DOC_STEMS.iter().any(|stem| lower.starts_with(stem))
        || ["docs/", "doc/"].iter().any(|docs| path.starts_with(docs))
}

pub(super) fn is_lock(name: &str) -> bool {
    let is_list = name.strip_suffix(".txt").is_some_and(|stem| stem.starts_with("requirements"));
    LOCKS.contains(&name) || is_list
}
