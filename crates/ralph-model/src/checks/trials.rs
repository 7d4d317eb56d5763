//! Which trees the gates are tried on once more: the candidate with the anchor's checks, and with some of what that would hide.
//!
//! Laying the anchor's checks over a candidate takes something of the candidate away. Where that is the very thing that the
//! old checks would have refused (a forbidden file, bad data, a test that a linter rejects), the tree without it says nothing
//! of it. So what is not surely a check is tried both ways: as the anchor has it, which shows what it hides, and as the
//! candidate has it, which shows what is wrong with it. Every try must pass. What surely decides (recipes, scripts that a
//! gate names, settings of runners) is the anchor's in all of them, and so are the old tests where new ones are looked at.

use std::collections::{BTreeMap, BTreeSet};

use super::classify::{ProjectLayout, is_code, is_configuring, is_test};
use super::scripts::imports;
use super::{ChangedCheck, CheckChange, CheckClass, ComparedPath, Laid};

/// Up to how many uncertain things each is tried alone. More are tried in groups.
const MOST_ALONE: usize = 4;
/// How many uncertain things are told apart.
const MOST_THINGS: usize = 16;

/// Paths, by their place among those compared, that are left as the candidate has them; all others are the anchor's.
pub type LeftPaths = BTreeSet<usize>;

/// What is tried. The first is the tree with all of the anchor's checks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trials {
    /// For gates that passed at the base.
    pub green: Vec<LeftPaths>,
    /// For gates that did not: what is new and unknown may be the work, and is left in all of them.
    pub red: Vec<LeftPaths>,
    /// Further ones for gates that tell neither names nor numbers of tests: they may check the tests themselves, as
    /// linters do.
    pub plain: Vec<LeftPaths>,
}

/// What a check that differs can be beside a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Nothing: it decides what is run and how.
    Decides,
    OldTest,
    /// New code of tests. It may be what an old check refuses.
    NewTest,
    /// A file that scripts mention or stand beside, or that a gate looked for: a check as well as what is checked.
    Uncertain,
    OldData,
    /// New data and fixtures.
    NewData,
}

/// The checks that differ, by what they can be.
struct Sorted<'a> {
    layout: &'a ProjectLayout,
    paths: &'a [ComparedPath],
    standing: BTreeMap<usize, Standing>,
}

impl Trials {
    /// Says what is tried, given what becomes of each path and which of them are checks that differ.
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
            // It may be one that must not be there.
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

    /// New code of tests among the old tests. Where it uses a helper or fixture that was changed for it, that goes along;
    /// without such code all others are tried.
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

    /// All tests of the candidate, with what decides as the anchor has it.
    fn with_tests(&self) -> LeftPaths {
        let tests = self.with(&[Standing::NewTest, Standing::OldTest]);
        let data = self.with(&[Standing::NewData, Standing::OldData]);
        &(&tests | &data) | &self.uncertain_for(&tests)
    }

    /// What is uncertain and may be what these tests are about: code that is new or none of theirs, unless nothing of it is
    /// named by any of them.
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

    /// Whether a check was changed that tests use and no gate names.
    fn is_helper(&self, at: usize, standing: Standing) -> bool {
        let one = &self.paths[at];
        let name = one.path.rsplit('/').next().unwrap_or(&one.path);
        let is_helper = match name {
            "conftest.py" => true,
            name => standing == Standing::OldTest && one.in_anchor && !is_test(name),
        };
        is_helper && one.in_candidate && !self.layout.scripts.contains(&one.path)
    }

    /// Whether the text of a file names another one, or what was added to it.
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

    /// What is told apart: each path, but the files of a directory that is new are one, and so are new settings of which
    /// one names the other.
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

/// Returns which things are left in each try, so that for any two of them there is a try in which the one is left and the
/// other is not; few are left one at a time.
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

/// Returns the names of the functions that a text of Python defines.
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
