//! Chooses the trees for additional gate runs: the candidate with the anchor's checks, and variants that keep what that
//! overlay would hide.
//!
//! Overlaying the anchor's checks removes something of the candidate. If that is exactly what the old checks would have
//! refused (a forbidden file, bad data, a test that a linter rejects), the tree without it proves nothing about it. So
//! files that are not certainly checks are tried both ways: the anchor's version shows what they hide, and the
//! candidate's version shows what is wrong with them. Every trial must pass. Files that certainly decide (recipes,
//! scripts that a gate names, runner settings) are the anchor's in all trials, and so are the old tests when new ones
//! are tried.

use std::collections::{BTreeMap, BTreeSet};

use super::by_name::{is_code, is_configuring, is_test};
use super::classify::ProjectLayout;
use super::scripts::imports;
use super::{ChangedCheck, CheckChange, CheckClass, ComparedPath, Laid};

/// Up to this number of uncertain units, each is tried alone. More are tried in groups.
const MOST_ALONE: usize = 4;
/// The maximum number of uncertain units that are distinguished.
const MOST_THINGS: usize = 16;

/// Indices of the compared paths that keep the candidate's version; all others are the anchor's.
pub type LeftPaths = BTreeSet<usize>;

/// The trials. The first is the tree with all of the anchor's checks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trials {
    /// For gates that passed at the base.
    pub green: Vec<LeftPaths>,
    /// For gates that did not: new files of unknown class may be the work, and are kept in all trials.
    pub red: Vec<LeftPaths>,
    /// Additional trials for gates that report neither names nor numbers of tests: they may check the tests themselves,
    /// as linters do.
    pub plain: Vec<LeftPaths>,
}

/// What a differing check can be in addition to a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Nothing else: it decides what runs and how.
    Decides,
    OldTest,
    /// New test code. An old check may refuse it.
    NewTest,
    /// A file that scripts mention, that is in a script's directory, or that a gate looked for: both a check and under
    /// check.
    Uncertain,
    OldData,
    /// New data and fixtures.
    NewData,
}

/// The differing checks, by standing.
struct Sorted<'a> {
    layout: &'a ProjectLayout,
    paths: &'a [ComparedPath],
    standing: BTreeMap<usize, Standing>,
}

impl Trials {
    /// Returns the trials, given the version chosen for each path and the checks that differ.
    pub fn of(
        layout: &ProjectLayout,
        paths: &[ComparedPath],
        laid: &[Laid],
        changed: &[ChangedCheck],
    ) -> Trials {
        let changed: BTreeMap<&str, &ChangedCheck> =
            changed.iter().map(|check| (check.path.as_str(), check)).collect();
        let mut standing = BTreeMap::new();
        for (at, (path, laid)) in paths.iter().zip(laid).enumerate() {
            if let Some(check) =
                changed.get(path.path.as_str()).filter(|_| *laid != Laid::Candidate)
            {
                standing.insert(at, Standing::of(layout, check));
            }
        }
        let sorted = Sorted { layout, paths, standing };
        let green = sorted.green();
        let is_unknown = |at: &usize| layout.is_unknown(&paths[*at].path, !paths[*at].in_anchor);
        let unknown: LeftPaths = sorted.standing.keys().copied().filter(is_unknown).collect();
        let red = green.iter().map(|left| left | &unknown).collect();
        Trials { green, red, plain: vec![sorted.with_tests()] }
    }
}

impl Standing {
    fn of(layout: &ProjectLayout, check: &ChangedCheck) -> Standing {
        let (path, is_new) = (check.path.as_str(), check.change == CheckChange::New);
        let name = path.rsplit('/').next().unwrap_or(path);
        let of_test = if is_new { Standing::NewTest } else { Standing::OldTest };
        match check.class {
            CheckClass::Configuring if layout.is_unknown(path, is_new) => Standing::Uncertain,
            // It may be a file that must not exist.
            CheckClass::Artefact if is_new => Standing::Uncertain,
            _ if is_configuring(path, name) && is_new => Standing::Uncertain,
            _ if is_configuring(path, name) => Standing::Decides,
            _ if layout.is_mentioned_only(path) || layout.is_entry_in_source(path) => {
                Standing::Uncertain
            }
            CheckClass::Script if is_new => Standing::Uncertain,
            CheckClass::Test if is_new && !is_code(name) => Standing::NewData,
            CheckClass::Test | CheckClass::InlineTest | CheckClass::Support => of_test,
            CheckClass::Data if is_new => Standing::NewData,
            CheckClass::Data => Standing::OldData,
            _ => Standing::Decides,
        }
    }
}

impl Sorted<'_> {
    fn with(&self, wanted: &[Standing]) -> LeftPaths {
        let fits = self.standing.iter().filter(|(_, standing)| wanted.contains(standing));
        fits.map(|(at, _)| *at).collect()
    }

    fn green(&self) -> Vec<LeftPaths> {
        let new_data = self.with(&[Standing::NewData]);
        let data = self.with(&[Standing::NewData, Standing::OldData]);
        let uncertain = self.with(&[Standing::Uncertain]);
        let mut trials = vec![LeftPaths::new(), &data | &uncertain];
        trials.extend([new_data, data]);
        trials.extend(told_apart(&self.things(&uncertain)));
        trials.extend(self.with_new_tests());
        let mut seen = BTreeSet::new();
        trials.retain(|left| seen.insert(left.clone()));
        trials
    }

    /// New test code with the old tests, in two trials: without the tests that use a changed helper, and all of it
    /// together with those helpers.
    fn with_new_tests(&self) -> Vec<LeftPaths> {
        let new = self.with(&[Standing::NewTest]);
        if new.is_empty() {
            return Vec::new();
        }
        let beside =
            &self.with(&[Standing::NewData, Standing::OldData]) | &self.uncertain_for(&new);
        let mut helpers = LeftPaths::new();
        let mut helped = LeftPaths::new();
        for (at, standing) in &self.standing {
            let users: LeftPaths =
                new.iter().copied().filter(|user| self.uses(*user, *at)).collect();
            if self.is_helper(*at, *standing) && !users.is_empty() {
                helpers.insert(*at);
                helped.extend(users);
            }
        }
        vec![&(&new - &helped) | &beside, &(&new | &helpers) | &beside]
    }

    /// All tests of the candidate, with the deciding files from the anchor.
    fn with_tests(&self) -> LeftPaths {
        let tests = self.with(&[Standing::NewTest, Standing::OldTest]);
        let data = self.with(&[Standing::NewData, Standing::OldData]);
        &(&tests | &data) | &self.uncertain_for(&tests)
    }

    /// The uncertain files that these tests may be about: new code, and the existing files if the tests refer to any
    /// uncertain file.
    fn uncertain_for(&self, tests: &LeftPaths) -> LeftPaths {
        let uncertain = self.with(&[Standing::Uncertain]);
        let is_used = |at: &usize| tests.iter().any(|test| self.uses(*test, *at));
        let any_used = uncertain.iter().any(is_used);
        let is_left = |at: &usize| {
            let one = &self.paths[*at];
            let name = one.path.rsplit('/').next().unwrap_or(&one.path);
            if one.in_anchor { any_used } else { is_code(name) && !is_configuring(&one.path, name) }
        };
        uncertain.into_iter().filter(is_left).collect()
    }

    /// Whether a changed check is used by tests and not named by a gate.
    fn is_helper(&self, at: usize, standing: Standing) -> bool {
        let one = &self.paths[at];
        let name = one.path.rsplit('/').next().unwrap_or(&one.path);
        let is_helper = match name {
            "conftest.py" => true,
            name => standing == Standing::OldTest && one.in_anchor && !is_test(name),
        };
        is_helper && one.in_candidate && !self.layout.scripts.contains(&one.path)
    }

    /// Whether the text of a file refers to another file, or to something added to it.
    fn uses(&self, user: usize, helper: usize) -> bool {
        let Some(text) = self.paths[user].candidate_text.as_deref() else { return false };
        let helper = &self.paths[helper];
        let name = helper.path.rsplit('/').next().unwrap_or(&helper.path);
        if !is_code(name) {
            return text.contains(name);
        }
        if name == "conftest.py" {
            let before = helper.anchor_text.as_deref().unwrap_or_default();
            let after = helper.candidate_text.as_deref().unwrap_or_default();
            return defined(after).difference(&defined(before)).any(|word| has_word(text, word));
        }
        let stem = name.split('.').next().unwrap_or(name);
        let module = if matches!(stem, "mod" | "index") {
            helper.path.rsplit('/').nth(1).unwrap_or(stem)
        } else {
            stem
        };
        let is_module =
            text.lines().any(|line| line.trim_end_matches(';').ends_with(&format!("mod {module}")));
        text.contains(name) || is_module || imports(text, module)
    }

    /// The units to distinguish: each path is one, but the files of a new directory form one unit, and so do new
    /// settings that refer to each other.
    fn things(&self, paths: &LeftPaths) -> Vec<LeftPaths> {
        let mut things: BTreeMap<String, LeftPaths> = BTreeMap::new();
        for at in paths {
            let one = &self.paths[*at];
            let is_old = |directory: &str| {
                let inside = format!("{directory}/");
                self.layout
                    .tree
                    .range(inside.clone()..)
                    .next()
                    .is_some_and(|file| file.starts_with(&inside))
            };
            let new_directory = one.path.match_indices('/').map(|(end, _)| &one.path[..end]);
            let key = new_directory.filter(|_| !one.in_anchor).find(|directory| !is_old(directory));
            let mut key = key.unwrap_or(&one.path).to_owned();
            if !things.contains_key(&key) && things.len() >= MOST_THINGS {
                key = things.keys().next_back().cloned().unwrap_or(key);
            }
            things.entry(key).or_default().insert(*at);
        }
        let mut joined: Vec<LeftPaths> = Vec::new();
        for thing in things.into_values() {
            let is_joined = |other: &LeftPaths| {
                let settings = |at: &&usize| {
                    let path = &self.paths[**at].path;
                    is_configuring(path, path.rsplit('/').next().unwrap_or(path))
                };
                let names = |user: &LeftPaths, used: &LeftPaths| {
                    user.iter()
                        .filter(settings)
                        .any(|user| used.iter().any(|at| self.uses(*user, *at)))
                };
                names(&thing, other) || names(other, &thing)
            };
            match joined.iter_mut().find(|other| is_joined(other)) {
                Some(other) => other.extend(thing),
                None => joined.push(thing),
            }
        }
        joined
    }
}

/// Returns the units kept in each trial, such that for any two units some trial keeps one and not the other; a few
/// units are kept one at a time.
fn told_apart(things: &[LeftPaths]) -> Vec<LeftPaths> {
    if things.len() <= MOST_ALONE {
        return things.to_vec();
    }
    let mut tries = Vec::new();
    let mut bit = 1;
    while bit < things.len() {
        for wanted in [true, false] {
            let left = things.iter().enumerate().filter(|(at, _)| (at & bit != 0) == wanted);
            tries.push(left.flat_map(|(_, thing)| thing.iter().copied()).collect());
        }
        bit *= 2;
    }
    tries
}

/// Returns the names of the functions that a Python text defines.
fn defined(text: &str) -> BTreeSet<&str> {
    let names = text.lines().filter_map(|line| {
        let line = line.trim_start();
        let rest = line.strip_prefix("async ").unwrap_or(line).strip_prefix("def ")?;
        rest.split(|letter: char| !(letter.is_alphanumeric() || letter == '_')).next()
    });
    names.filter(|name| !name.is_empty()).collect()
}

fn has_word(text: &str, word: &str) -> bool {
    text.split(|letter: char| !(letter.is_alphanumeric() || letter == '_')).any(|one| one == word)
}

#[cfg(test)]
#[path = "trials_tests.rs"]
mod tests;
