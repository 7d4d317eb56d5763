//! Overlays the anchor's checks on a candidate: which files are checks, and which tree the second run of the gates
//! gets.
//!
//! Paths that differ between anchor and candidate are classified ([`classify`]). Tests, configuration, scripts and data
//! are taken from the anchor, and new ones are removed; manifests and Rust's inline tests are spliced ([`manifest`],
//! [`rust`]); source is never reverted, because the anchor's own tree proves nothing about the candidate. Files that
//! are not certainly checks are tried both ways ([`trials`]), because removing them could hide a defect in them.
//! Touching a file is never a reason for rejection: the verdict decides on the result of the second run ([`finding`]).
//!
//! Lists of names are never complete. Hence the anchor, which an unapproved change does not move, and the question.

mod by_name;
mod classify;
mod finding;
mod go_mod;
mod hints;
mod manifest;
mod manifest_json;
mod names;
mod packages;
mod rust;
mod scripts;
mod trials;

use serde::{Deserialize, Serialize};

pub use by_name::{
    can_be_looked_up, can_help_tests, depends_on_trace, import_roots_in, is_code_file,
    is_named_support, is_product, is_test as is_test_file, module_key, support_word,
};
pub use classify::{CheckClass, LookedFor, ProjectLayout};
pub use finding::{
    AnchoredGate, AnchoredRuns, ChecksFinding, Measure, OverlayFinding, allow_lines,
};
pub use hints::{changes_examples, hints_in};
use manifest::{Manifest, Spliced};
pub use packages::{packages_for_tests, path_from};
use rust::InlineTests;
pub use scripts::{imported, mentioned, module_name, named_by, scripts_of};
pub use trials::{LeftPaths, Trials};

/// A path that differs between anchor and candidate, with its texts if they are needed.
#[derive(Clone, Debug)]
pub struct ComparedPath {
    pub path: String,
    /// Whether the anchor contains the path.
    pub in_anchor: bool,
    pub in_candidate: bool,
    /// The contents, for regular files whose text is needed ([`wants_text`]).
    pub anchor_text: Option<String>,
    pub candidate_text: Option<String>,
    /// A file of the anchor declares this one as a test module.
    pub is_test_module: bool,
}

/// The version of a path in the tree of the second run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Laid {
    /// The candidate's version.
    Candidate,
    /// The anchor's version, or absent.
    Anchor,
    Text(String),
}

/// How a check differs from the anchor's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckChange {
    New,
    Changed,
    Gone,
}

/// A check that differs from the anchor's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChangedCheck {
    pub path: String,
    pub class: CheckClass,
    pub change: CheckChange,
}

impl ChangedCheck {
    /// New tests do not change the old ones: they are removed for the second run.
    pub fn is_new_test(&self) -> bool {
        self.change == CheckChange::New
            && matches!(self.class, CheckClass::Test | CheckClass::InlineTest)
    }
}

/// Whether the name of a path alone says that it is a check.
pub fn is_check_by_name(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    is_test_file(path) || by_name::is_configuring(path, name)
}

/// Whether the texts of a path are needed to classify it.
pub fn wants_text(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    Manifest::of(name).is_some() || is_rust(path)
}

/// Returns the files that may declare a Rust file as a module, each with the module name it would use.
pub fn module_parents(path: &str) -> Vec<(String, String)> {
    let Some(stem) = path.strip_suffix(".rs") else { return Vec::new() };
    let (directory, name) = stem.rsplit_once('/').unwrap_or(("", stem));
    let at = |directory: &str, name: &str| {
        if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") }
    };
    let (place, module) = if name == "mod" {
        directory.rsplit_once('/').unwrap_or(("", directory))
    } else {
        (directory, name)
    };
    let mut parents = Vec::new();
    for parent in ["lib.rs", "main.rs", "mod.rs"] {
        parents.push((at(place, parent), module.to_owned()));
    }
    if !place.is_empty() {
        parents.push((format!("{place}.rs"), module.to_owned()));
    }
    // Through a `path` attribute.
    let file = path.rsplit('/').next().unwrap_or(path);
    let by_path: Vec<_> =
        parents.iter().map(|(parent, _)| (parent.clone(), file.to_owned())).collect();
    parents.extend(by_path);
    parents
}

/// Whether a file declares a module of this name that is compiled for tests only.
pub fn declares_test_module(text: &str, module: &str) -> bool {
    rust::declares_test_module(text, module)
}

/// Tells where a file of Rust names another one by a path, for a module or to include it: in tests, or elsewhere.
pub fn names_rust_file(path: &str, text: &str, file: &str) -> (bool, bool) {
    let (in_tests, elsewhere) = rust::names_file(text, file);
    if is_test_file(path) { (in_tests || elsewhere, false) } else { (in_tests, elsewhere) }
}

/// Chooses the version of each path for the second run, and returns the checks that differ.
pub fn lay_over(layout: &ProjectLayout, paths: &[ComparedPath]) -> (Vec<Laid>, Vec<ChangedCheck>) {
    let mut laid = Vec::new();
    let mut changed = Vec::new();
    for path in paths {
        let (class, becomes, change) = lay_one(layout, path, paths);
        if let Some(change) = change {
            changed.push(ChangedCheck { path: path.path.clone(), class, change });
        }
        laid.push(becomes);
    }
    (laid, changed)
}

fn lay_one(
    layout: &ProjectLayout,
    path: &ComparedPath,
    all: &[ComparedPath],
) -> (CheckClass, Laid, Option<CheckChange>) {
    let class = layout.class_of(&path.path, !path.in_anchor);
    let change = match (path.in_anchor, path.in_candidate) {
        (false, _) => CheckChange::New,
        (_, false) => CheckChange::Gone,
        _ => CheckChange::Changed,
    };
    match class {
        CheckClass::Source if path.is_test_module => (CheckClass::Test, Laid::Anchor, Some(change)),
        CheckClass::Source if is_rust(&path.path) => lay_rust(path, change),
        CheckClass::Source => (class, Laid::Candidate, None),
        CheckClass::Ci => (class, Laid::Candidate, Some(change)),
        CheckClass::Manifest => lay_manifest(path, change, all),
        _ => (class, Laid::Anchor, Some(change)),
    }
}

fn lay_rust(path: &ComparedPath, change: CheckChange) -> (CheckClass, Laid, Option<CheckChange>) {
    let anchor = path.anchor_text.as_deref().unwrap_or_default();
    if rust::is_gated_file(anchor) {
        return (CheckClass::Test, Laid::Anchor, Some(change));
    }
    let class = CheckClass::InlineTest;
    let candidate = path.candidate_text.as_deref().unwrap_or_default();
    match InlineTests::compare(anchor, candidate) {
        InlineTests::Same => (CheckClass::Source, Laid::Candidate, None),
        // The containing file is gone, so its tests have no place. Their names will be reported as lost.
        _ if !path.in_candidate => (class, Laid::Candidate, Some(CheckChange::Gone)),
        InlineTests::Added { text } => (class, Laid::Text(text), Some(CheckChange::New)),
        InlineTests::Changed { text } => (class, Laid::Text(text), Some(CheckChange::Changed)),
    }
}

fn lay_manifest(
    path: &ComparedPath,
    change: CheckChange,
    all: &[ComparedPath],
) -> (CheckClass, Laid, Option<CheckChange>) {
    let class = CheckClass::Manifest;
    let (directory, name) = path.path.rsplit_once('/').unwrap_or(("", path.path.as_str()));
    let Some(manifest) = Manifest::of(name).filter(|_| path.in_candidate) else {
        return (class, Laid::Anchor, Some(change));
    };
    if !path.in_anchor && matches!(manifest, Manifest::Cargo | Manifest::Package) {
        // A new package has its own code.
        let is_its_code = |other: &&ComparedPath| {
            let inside = other.path.strip_prefix(directory).and_then(|rest| rest.strip_prefix('/'));
            !other.in_anchor && inside.is_some_and(|inside| inside.starts_with("src/"))
        };
        let is_package = !directory.is_empty() && all.iter().any(|other| is_its_code(&other));
        return if is_package {
            (CheckClass::Source, Laid::Candidate, None)
        } else {
            (CheckClass::Configuring, Laid::Anchor, Some(change))
        };
    }
    let Some(candidate) = path.candidate_text.as_deref() else {
        return (class, Laid::Anchor, Some(change));
    };
    let anchor = path.anchor_text.as_deref().unwrap_or_default();
    match manifest.splice(anchor, candidate) {
        Spliced::Same => (CheckClass::Source, Laid::Candidate, None),
        Spliced::Text(text) => (class, Laid::Text(text), Some(change)),
        Spliced::Unreadable => (class, Laid::Anchor, Some(change)),
    }
}

fn is_rust(path: &str) -> bool {
    path.strip_suffix(".rs").is_some()
}

#[cfg(test)]
#[path = "checks_tests.rs"]
mod tests;
