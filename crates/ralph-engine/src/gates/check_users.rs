//! Finds out whether checks or source use a file of the anchor. File names are not enough, so file contents are searched.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use ralph_model::checks::{
    CheckClass, ComparedPath, ProjectLayout, can_help_tests, declares_test_module, imported,
    is_code_file, is_named_support, is_test_file, module_key, module_name, module_parents,
    names_rust_file, packages_for_tests, path_from, support_word,
};
use ralph_model::gate::GateSpec;

use super::checks::{CheckSurvey, LIMIT, MOST_SCRIPTS, is_prose};
use crate::git::{GitError, Oid, shown};

/// How many files that import something are read.
const MOST_IMPORTERS: usize = 5000;
/// Manifests of packages that have their own checks.
const MANIFESTS: [&str; 4] = ["Cargo.toml", "package.json", "pyproject.toml", "go.mod"];

/// The importers of each module.
type Importers = BTreeMap<String, Vec<String>>;

impl CheckSurvey<'_> {
    /// Marks the files of Rust that the anchor declares as modules for tests only, or includes in tests.
    pub(super) fn find_test_modules(&self, compared: &mut [ComparedPath]) -> Result<(), GitError> {
        let is_concerned = |path: &ComparedPath| path.in_anchor && is_rust(&path.path);
        if !compared.iter().any(is_concerned) {
            return Ok(());
        }
        let naming = self.texts_with(&["#[path", "include!"], MOST_SCRIPTS, is_rust)?;
        for path in compared.iter_mut().filter(|path| is_concerned(path)) {
            let parents = module_parents(&path.path);
            let wanted: Vec<(&Oid, &Path)> = parents
                .iter()
                .map(|(parent, _)| (self.anchor, Path::new(parent.as_str())))
                .collect();
            let texts = self.git().files_at(&wanted, LIMIT)?;
            let is_declared = parents.iter().zip(texts).any(|((_, module), text)| {
                text.is_some_and(|text| {
                    declares_test_module(&String::from_utf8_lossy(&text), module)
                })
            });
            let name = path.path.rsplit('/').next().unwrap_or(&path.path);
            let named = naming.iter().map(|(user, text)| names_rust_file(user, text, name));
            let (in_tests, elsewhere) =
                named.fold((false, false), |all, one| (all.0 | one.0, all.1 | one.1));
            path.is_test_module = is_declared || (in_tests && !elsewhere);
        }
        Ok(())
    }

    /// Returns the files of the anchor that have one of some words, with their texts.
    fn texts_with(
        &self,
        words: &[&str],
        most: usize,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<Vec<(String, String)>, GitError> {
        let users = self.git().files_with_any(self.anchor, words)?.into_iter();
        let users: Vec<PathBuf> = users.filter(|user| is_wanted(&shown(user))).take(most).collect();
        let wanted: Vec<(&Oid, &Path)> =
            users.iter().map(|user| (self.anchor, user.as_path())).collect();
        let texts = self.git().files_at(&wanted, LIMIT)?;
        let both = users.iter().zip(texts);
        Ok(both
            .filter_map(|(user, text)| {
                Some((shown(user), String::from_utf8_lossy(&text?).into_owned()))
            })
            .collect())
    }

    /// Finds out which changed files source uses, which only checks use, and which new ones checks want.
    pub(super) fn find_users(
        &self,
        layout: &mut ProjectLayout,
        compared: &[ComparedPath],
    ) -> Result<(), GitError> {
        for path in compared.iter().filter(|path| is_named_support(&path.path)) {
            let users = self.git().files_with_word(self.anchor, support_word(&path.path))?;
            let is_source = |user: &PathBuf| {
                let user = shown(user);
                !is_named_support(&user)
                    && !is_prose(&user)
                    && layout.class_of(&user, false) == CheckClass::Source
            };
            if users.iter().any(is_source) {
                layout.used_by_source.insert(path.path.clone());
            }
        }
        let is_source = |path: &&ComparedPath| {
            (!path.in_anchor || can_help_tests(&path.path))
                && layout.class_of(&path.path, !path.in_anchor) == CheckClass::Source
        };
        let concerned: Vec<&ComparedPath> = compared.iter().filter(is_source).collect();
        let importers = self.importers(&concerned)?;
        let (mut wanted, mut helpers) = (BTreeSet::new(), BTreeSet::new());
        let mut run = BTreeMap::new();
        for path in concerned {
            if !path.in_anchor {
                if is_imported_by_checks(layout, &path.path, &importers) {
                    wanted.insert(path.path.clone());
                }
                continue;
            }
            let is_opened =
                layout.looked.as_ref().is_none_or(|looked| looked.opened.contains(&path.path));
            let is_helper = is_helper_of_checks(layout, &path.path, &importers);
            if is_helper || (is_opened && self.is_run_by_checks(layout, &path.path, &mut run)?) {
                helpers.insert(path.path.clone());
            }
        }
        wanted.retain(|path| !is_product_that_moved(layout, compared, &helpers, path));
        layout.wanted_by_checks = wanted;
        layout.used_by_checks = helpers;
        Ok(())
    }

    /// Returns the files of the anchor that import each of the modules that some files are.
    fn importers(&self, files: &[&ComparedPath]) -> Result<Importers, GitError> {
        let modules: BTreeSet<&str> =
            files.iter().filter_map(|file| module_name(&file.path)).collect();
        if modules.is_empty() {
            return Ok(Importers::new());
        }
        let words: Vec<&str> = modules.iter().copied().collect();
        let mut importers = Importers::new();
        for (user, text) in self.texts_with(&words, MOST_IMPORTERS, |_| true)? {
            for module in imported(&text).intersection(&modules) {
                importers.entry((*module).to_owned()).or_default().push(user.clone());
            }
        }
        Ok(importers)
    }

    /// Tells whether the code in a directory outside the source is run by checks alone, by the name of the directory
    /// (`for t in cases/*.sh`): it speaks of the product, and the product does not speak of it.
    fn is_run_by_checks(
        &self,
        layout: &ProjectLayout,
        path: &str,
        known: &mut BTreeMap<String, bool>,
    ) -> Result<bool, GitError> {
        let Some((top, _)) = path.split_once('/').filter(|_| can_help_tests(path)) else {
            return Ok(false);
        };
        if let Some(known) = known.get(top) {
            return Ok(*known);
        }
        let is_inside = |file: &str| file.split('/').next() == Some(top);
        let has_own_checks = layout.tree.iter().filter(|file| is_inside(file)).any(|file| {
            let name = file.rsplit('/').next().unwrap_or(file);
            is_test_file(file) || MANIFESTS.contains(&name)
        });
        let is_product =
            |file: &str| is_code_file(file) && layout.class_of(file, false) == CheckClass::Source;
        let is_named = |argv: &[String]| argv.iter().any(|word| word.contains(top));
        let found = !has_own_checks && {
            let users = self.git().files_with_word(self.anchor, top)?;
            let users: Vec<String> = users.iter().map(|user| shown(user)).collect();
            let mut outside = users.iter().filter(|user| !is_inside(user));
            let by_gates = self.pinned.gates.iter().map(GateSpec::argv).any(is_named);
            (by_gates || outside.clone().any(|user| is_check(layout, user)))
                && !outside.any(|user| is_product(user))
        };
        let found = found && {
            let products = layout.tree.iter().filter(|file| !is_inside(file) && is_product(file));
            let words: BTreeSet<&str> =
                products.filter_map(|file| file.split(['/', '.']).next()).collect();
            let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
            let speaking = self.git().files_with_any(self.anchor, &words)?;
            speaking.iter().any(|file| is_inside(&shown(file)))
        };
        known.insert(top.to_owned(), found);
        Ok(found)
    }

    /// Adds the files of source that links among the tests lead to.
    pub(super) fn find_linked<'p>(
        &self,
        layout: &mut ProjectLayout,
        compared: &[ComparedPath],
        links: impl Iterator<Item = &'p Path>,
    ) -> Result<(), GitError> {
        let links: Vec<&Path> = links.filter(|link| is_test_file(&shown(link))).collect();
        let wanted: Vec<(&Oid, &Path)> = links.iter().map(|link| (self.anchor, *link)).collect();
        let targets = self.git().files_at(&wanted, LIMIT)?;
        for (link, target) in links.iter().zip(targets) {
            let (link, target) = (shown(link), target.unwrap_or_default());
            let directory = link.rsplit_once('/').map_or("", |(directory, _)| directory);
            let target = path_from(directory, &String::from_utf8_lossy(&target));
            if compared.iter().any(|one| one.path == target && one.in_anchor) {
                layout.used_by_checks.insert(target);
            }
        }
        Ok(())
    }

    /// Returns the directories of packages that only development dependencies lead to.
    pub(super) fn support_directories(
        &self,
        tree: &BTreeSet<String>,
    ) -> Result<BTreeSet<String>, GitError> {
        let is_manifest = |path: &&String| {
            let name = path.rsplit('/').next();
            matches!(name, Some("Cargo.toml" | "package.json")) && !path.contains("node_modules/")
        };
        let manifests: Vec<&String> = tree.iter().filter(is_manifest).take(MOST_SCRIPTS).collect();
        let wanted: Vec<(&Oid, &Path)> =
            manifests.iter().map(|path| (self.anchor, Path::new(path.as_str()))).collect();
        let texts = self.git().files_at(&wanted, LIMIT)?;
        let read = |(path, text): (&String, Option<Vec<u8>>)| {
            (path.clone(), String::from_utf8_lossy(&text.unwrap_or_default()).into_owned())
        };
        let manifests: Vec<(String, String)> = manifests.into_iter().zip(texts).map(read).collect();
        Ok(packages_for_tests(&manifests))
    }
}

/// Tells whether checks of the anchor import a module that the anchor has not. Interpreters that list directories do not
/// look for it by a path.
fn is_imported_by_checks(layout: &ProjectLayout, path: &str, importers: &Importers) -> bool {
    let users = module_name(path).and_then(|module| importers.get(module));
    users.into_iter().flatten().any(|user| is_check(layout, user))
}

/// Tells whether a file outside the source is used by checks alone. Where all code is in the same directory, that is
/// the product, and of a library only tests may make use.
fn is_helper_of_checks(layout: &ProjectLayout, path: &str, importers: &Importers) -> bool {
    let users = module_name(path).and_then(|module| importers.get(module));
    let (Some(users), true) = (users, can_help_tests(path)) else { return false };
    let top = path.split('/').next().unwrap_or(path);
    let is_outside = |other: &&String| other.split('/').next() != Some(top);
    let is_product = |other: &&String| {
        is_code_file(other) && layout.class_of(other, false) == CheckClass::Source
    };
    let mut outside = users.iter().filter(is_outside);
    layout.tree.iter().filter(is_outside).any(|other| is_product(&other))
        && outside.clone().any(|user| is_check(layout, user))
        && !outside.any(|user| is_product(&user))
}

/// Tells whether a new file is a module of the product that checks found in another file, which is gone. A helper of the
/// checks that moves stays theirs.
fn is_product_that_moved(
    layout: &ProjectLayout,
    compared: &[ComparedPath],
    helpers: &BTreeSet<String>,
    path: &str,
) -> bool {
    let (key, extension) = (module_key(path), path.rsplit('.').next());
    let mut earlier = compared
        .iter()
        .filter(|one| one.in_anchor && module_key(&one.path) == key)
        .filter(|one| one.path.rsplit('.').next() == extension)
        .peekable();
    layout.moved.contains(path)
        && earlier.peek().is_some()
        && earlier.all(|one| {
            layout.class_of(&one.path, false) == CheckClass::Source && !helpers.contains(&one.path)
        })
}

fn is_check(layout: &ProjectLayout, user: &str) -> bool {
    let class = layout.class_of(user, false);
    !matches!(class, CheckClass::Source | CheckClass::Data | CheckClass::Ci)
}

fn is_rust(path: &str) -> bool {
    path.strip_suffix(".rs").is_some()
}
