//! Compares a plan with the tree: what is implemented, missing, deviating, and extra.
//!
//! Names are compared in every spelling and are looked up in code, never in comments. The report is informational. The
//! gate fails a build that changed nothing, or changed no source although its plan is about components; a build in
//! which nothing of the plan exists; and, with `strict`, a build in which anything is missing or whose plan names
//! nothing that can be checked.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::names::{base_name, names, words};
use crate::outline::{Outline, Planned, PlannedKind};
use crate::rules::LoopRules;
use crate::tree::{SOURCES, SourceTree, has_extension, is_below};
use crate::tsx::SourceFacts;

/// The variables that identify a theme in a style sheet.
const THEME: [&str; 8] = [
    "--background",
    "--foreground",
    "--primary",
    "--secondary",
    "--muted",
    "--accent",
    "--border",
    "--ring",
];

/// The maximum number of files to read: a plan is about an application's own sources.
const MOST_FILES: usize = 2000;

/// The input of the comparison.
#[derive(Clone, Copy)]
pub(crate) struct DiffRequest<'a> {
    pub(crate) outline: &'a Outline,
    pub(crate) rules: &'a LoopRules,
    pub(crate) tree: &'a dyn SourceTree,
    /// Every path that changed since the task began.
    pub(crate) changed: &'a [String],
    /// The subset of `changed` that is new.
    pub(crate) added: &'a [String],
}

/// One line of the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiffEntry {
    /// The plan's name for the part, or the path of an extra file.
    pub what: String,
    pub line: Option<usize>,
    pub detail: String,
}

/// The result of comparing a tree with a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanDiff {
    pub implemented: Vec<DiffEntry>,
    pub deviating: Vec<DiffEntry>,
    pub missing: Vec<DiffEntry>,
    pub extra: Vec<DiffEntry>,
    /// Maps a file to the part of the plan that it belongs to.
    pub owners: BTreeMap<String, String>,
    /// Why the gate fails, if it does.
    pub failure: Option<String>,
}

enum Match {
    Implemented(String),
    Deviating(String),
    Missing(String),
}

/// Compares a plan with a tree.
pub(crate) fn diff(request: &DiffRequest<'_>) -> PlanDiff {
    let sources = Sources::of(request);
    let mut found = PlanDiff::default();
    let mut touched = false;
    for item in &request.outline.items {
        let (matched, claimed) = sources.look_for(item, request);
        touched |= item.kind != PlannedKind::Theme && sources.is_touched(item, request);
        for path in claimed {
            found.owners.entry(path).or_insert_with(|| item.title());
        }
        let (list, detail) = match matched {
            Match::Implemented(detail) => (&mut found.implemented, detail),
            Match::Deviating(detail) => (&mut found.deviating, detail),
            Match::Missing(detail) => (&mut found.missing, detail),
        };
        list.push(DiffEntry { what: item.title(), line: Some(item.line), detail });
    }
    let is_source = |path: &&String| sources.facts.contains_key(path.as_str());
    let unclaimed = request.added.iter().filter(is_source);
    for path in unclaimed.filter(|path| !found.owners.contains_key(path.as_str())) {
        let detail = "the plan does not name it".to_owned();
        found.extra.push(DiffEntry { what: path.clone(), line: None, detail });
    }
    found.failure = failure(&found, request, touched);
    found
}

/// Returns why the work does not match the plan; `touched` says whether a file of any planned part changed.
fn failure(found: &PlanDiff, request: &DiffRequest<'_>, touched: bool) -> Option<String> {
    let DiffRequest { outline, rules, changed, .. } = request;
    let parts: Vec<&Planned> =
        outline.items.iter().filter(|item| item.kind != PlannedKind::Theme).collect();
    let has_components = parts.iter().any(|item| is_component(item));
    let there = found.implemented.iter().chain(&found.deviating);
    let nothing_there =
        parts.iter().all(|part| !there.clone().any(|entry| entry.what == part.title()));
    if changed.is_empty() {
        Some("nothing was changed since the task began".to_owned())
    } else if has_components && !changed.iter().any(|path| is_source(path)) {
        Some("no source file was changed since the task began".to_owned())
    } else if !parts.is_empty() && nothing_there {
        Some("nothing of the plan is implemented".to_owned())
    } else if !parts.is_empty() && !touched {
        // Anything that existed before the task is not its work.
        Some("no file of any part of the plan was changed since the task began".to_owned())
    } else if rules.strict && parts.is_empty() {
        Some("the plan names no file and no component, so nothing can be compared".to_owned())
    } else if rules.strict && !found.missing.is_empty() {
        let verb =
            if found.missing.len() == 1 { "part of the plan is" } else { "parts of the plan are" };
        Some(format!("{} {verb} missing", found.missing.len()))
    } else {
        None
    }
}

fn is_component(item: &Planned) -> bool {
    matches!(item.kind, PlannedKind::Screen | PlannedKind::Section)
}

struct Sources {
    facts: BTreeMap<String, SourceFacts>,
    props: BTreeSet<String>,
}

impl Sources {
    fn of(request: &DiffRequest<'_>) -> Sources {
        // If the plan names nothing that sources could contain, skip reading them.
        let mut facts = BTreeMap::new();
        if request.outline.items.iter().any(is_component) {
            let inside = |path: &&String| is_below(path, &request.rules.source);
            let paths = request.tree.paths().iter().filter(inside).filter(|path| is_source(path));
            for path in paths.take(MOST_FILES) {
                let text = request.tree.read(path).unwrap_or_default();
                facts.insert(path.clone(), SourceFacts::of(&text));
            }
        }
        let props = facts.values().flat_map(|facts: &SourceFacts| facts.props.iter().cloned());
        let props = props.collect();
        Sources { facts, props }
    }

    /// Looks for a planned part and returns the files that belong to it.
    fn look_for(&self, item: &Planned, request: &DiffRequest<'_>) -> (Match, Vec<String>) {
        match item.kind {
            PlannedKind::Theme => (theme(request), vec![request.rules.css.clone()]),
            PlannedKind::NewFile | PlannedKind::ChangedFile => {
                (file(item, request), vec![item.name.clone()])
            }
            PlannedKind::Screen | PlannedKind::Section => self.component(item),
        }
    }

    /// Whether a file that contains a planned part changed.
    fn is_touched(&self, item: &Planned, request: &DiffRequest<'_>) -> bool {
        if !is_component(item) {
            return request.changed.contains(&item.name);
        }
        let wanted = words(&item.name);
        request.changed.iter().any(|path| {
            let facts = self.facts.get(path);
            facts.is_some_and(|facts| names(base_name(path), &wanted) || facts.mentions(&wanted))
        })
    }

    fn component(&self, item: &Planned) -> (Match, Vec<String>) {
        let wanted = words(&item.name);
        let named = |path: &&String| names(base_name(path), &wanted);
        let own: Vec<String> = self.facts.keys().filter(named).cloned().collect();
        // A file that renders nothing only has the name; it is not a component.
        let renders = |path: &&String| !self.facts[path.as_str()].tags.is_empty();
        let in_code = |path: &&String| self.facts[path.as_str()].mentions(&wanted);
        let in_code = || self.facts.keys().filter(renders).find(in_code);
        let place = match own.first() {
            Some(first) => own.iter().find(renders).ok_or(format!("{first} renders nothing")),
            None => in_code().ok_or("no source names it".to_owned()),
        };
        let place = match place {
            Ok(place) => place.clone(),
            Err(why) => return (Match::Missing(why), own),
        };
        let missing: Vec<&str> =
            item.fields.iter().map(String::as_str).filter(|field| !self.has_field(field)).collect();
        let matched = if missing.is_empty() {
            Match::Implemented(format!("in {place}"))
        } else {
            Match::Deviating(format!("in {place}, without {}", missing.join(", ")))
        };
        (matched, own)
    }

    /// Whether a planned field is a prop of some element, by name or by value.
    fn has_field(&self, field: &str) -> bool {
        self.props.contains(field)
            || self.facts.values().any(|facts| {
                facts.code.contains(&format!("\"{field}\""))
                    || facts.code.contains(&format!("'{field}'"))
            })
    }
}

fn is_source(path: &str) -> bool {
    has_extension(path, &SOURCES)
        && ![".test.", ".spec.", ".d."].iter().any(|part| path.contains(part))
}

fn theme(request: &DiffRequest<'_>) -> Match {
    let css = &request.rules.css;
    let Some(text) = request.tree.read(css) else {
        return Match::Missing(format!("{css} is missing"));
    };
    let missing: Vec<&str> =
        THEME.into_iter().filter(|variable| !text.contains(&format!("{variable}:"))).collect();
    if missing.is_empty() {
        Match::Implemented(format!("in {css}"))
    } else if missing.len() == THEME.len() {
        Match::Missing(format!("{css} declares none of its variables"))
    } else {
        Match::Deviating(format!("{css} lacks {}", missing.join(", ")))
    }
}

fn file(item: &Planned, request: &DiffRequest<'_>) -> Match {
    let is_there = request.tree.paths().binary_search(&item.name).is_ok();
    let is_changed = request.changed.contains(&item.name);
    match (item.kind, is_there, is_changed) {
        (PlannedKind::NewFile, false, _) => Match::Missing("it does not exist".to_owned()),
        (_, true, true) => Match::Implemented("changed".to_owned()),
        (PlannedKind::NewFile, true, false) if request.added.contains(&item.name) => {
            Match::Missing("it is empty".to_owned())
        }
        (_, true, false) => Match::Missing("it was not changed".to_owned()),
        (_, false, _) => Match::Deviating("it was removed".to_owned()),
    }
}

impl PlanDiff {
    /// Formats the report for `plan-diff.md`.
    pub fn report(&self) -> String {
        // Writing to a string cannot fail.
        let mut text = "# Plan Diff\n".to_owned();
        if let Some(failure) = &self.failure {
            let _ = writeln!(text, "\n{failure}.");
        }
        for (title, entries) in [
            ("Implemented", &self.implemented),
            ("Deviations", &self.deviating),
            ("Missing", &self.missing),
            ("Extra", &self.extra),
        ] {
            if entries.is_empty() {
                continue;
            }
            let _ = write!(text, "\n## {title}\n\n");
            for DiffEntry { what, line, detail } in entries {
                let line = line.map_or_else(String::new, |line| format!(" (plan, line {line})"));
                let _ = writeln!(text, "- {what}{line}: {detail}");
            }
        }
        text
    }

    /// Whether there is nothing to report except implemented parts.
    pub fn is_clean(&self) -> bool {
        self.failure.is_none()
            && self.deviating.is_empty()
            && self.missing.is_empty()
            && self.extra.is_empty()
    }
}

#[cfg(test)]
#[path = "diff_tests.rs"]
mod tests;
