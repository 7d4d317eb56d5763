//! Finds out whether checks or source use a file of the anchor. File names are not enough, so file contents are searched.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ralph_model::checks::{
    CheckClass, ComparedPath, ProjectLayout, can_help_tests, declares_test_module, imports,
    is_code_file, is_named_support, module_name, module_parents, names_rust_file,
    packages_for_tests, support_word,
};

use super::checks::{CheckSurvey, LIMIT, MOST_SCRIPTS, is_prose};
use crate::git::{GitError, Oid, shown};

/// For how many files it is looked who imports them.
const MOST_MODULES: usize = 50;

impl CheckSurvey<'_> {
    /// Marks the files of Rust that the anchor declares as modules for tests only, or includes in tests.
    pub(super) fn find_test_modules(&self, compared: &mut [ComparedPath]) -> Result<(), GitError> {
        let is_concerned = |path: &ComparedPath| path.in_anchor && is_rust(&path.path);
        if !compared.iter().any(is_concerned) {
            return Ok(());
        }
        let naming = self.texts_with(&["#[path", "include!"], is_rust)?;
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
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<Vec<(String, String)>, GitError> {
        let mut users: BTreeSet<PathBuf> = BTreeSet::new();
        for word in words {
            users.extend(self.git().files_with_word(self.anchor, word)?);
        }
        let users: Vec<PathBuf> =
            users.into_iter().filter(|user| is_wanted(&shown(user))).take(MOST_SCRIPTS).collect();
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
        let (mut wanted, mut helpers) = (BTreeSet::new(), BTreeSet::new());
        for path in compared.iter().filter(is_source).take(MOST_MODULES) {
            if !path.in_anchor && self.is_imported_by_checks(layout, &path.path)? {
                wanted.insert(path.path.clone());
            } else if path.in_anchor && self.is_helper_of_checks(layout, &path.path)? {
                helpers.insert(path.path.clone());
            }
        }
        layout.wanted_by_checks = wanted;
        layout.used_by_checks = helpers;
        Ok(())
    }

    /// Returns the files of the anchor that import a module.
    fn importers(&self, module: &str) -> Result<Vec<String>, GitError> {
        let texts = self.texts_with(&[module], |_| true)?;
        let importing = texts.into_iter().filter(|(_, text)| imports(text, module));
        Ok(importing.map(|(user, _)| user).collect())
    }

    /// Tells whether checks of the anchor import a module that the anchor has not. Interpreters that list directories do not
    /// look for it by a path.
    fn is_imported_by_checks(&self, layout: &ProjectLayout, path: &str) -> Result<bool, GitError> {
        let Some(module) = module_name(path) else { return Ok(false) };
        Ok(self.importers(module)?.iter().any(|user| is_check(layout, user)))
    }

    /// Tells whether a file outside the source is used by checks alone. Where all code is in the same directory, that is
    /// the product, and of a library only tests may make use.
    fn is_helper_of_checks(&self, layout: &ProjectLayout, path: &str) -> Result<bool, GitError> {
        let (Some(module), true) = (module_name(path), can_help_tests(path)) else {
            return Ok(false);
        };
        let top = path.split('/').next().unwrap_or(path);
        let is_outside = |other: &&String| other.split('/').next() != Some(top);
        let is_product = |other: &&String| {
            is_code_file(other) && layout.class_of(other, false) == CheckClass::Source
        };
        if !layout.tree.iter().filter(is_outside).any(|other| is_product(&other)) {
            return Ok(false);
        }
        let users = self.importers(module)?;
        let mut outside = users.iter().filter(is_outside);
        Ok(outside.clone().any(|user| is_check(layout, user))
            && !outside.any(|user| is_product(&user)))
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

fn is_check(layout: &ProjectLayout, user: &str) -> bool {
    let class = layout.class_of(user, false);
    !matches!(class, CheckClass::Source | CheckClass::Data | CheckClass::Ci)
}

fn is_rust(path: &str) -> bool {
    path.strip_suffix(".rs").is_some()
}
