//! Scope markers: a plan's statements on how much of a part changes, compared with the snapshot before the task.
//!
//! | marker | compared with the snapshot |
//! |---|---|
//! | `TASK-n [ADD]: k …` | more items than before, or it fails; fewer than k more: a warning |
//! | `EXISTING k … PRESERVED` | at least as many items as before, or it fails |
//! | `NO CHANGES for task-n` | the file as it was, or a warning |
//!
//! If there is no snapshot or no file to compare with, the result is a warning.

use crate::finding::{PlanFinding, report};
use crate::names::{base_name, names, words};
use crate::outline::Outline;
use crate::tree::{SOURCES, SourceTree, has_extension};
use crate::tsx::SourceFacts;

/// A marker, and the part of the plan it appears under.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScopeMarker {
    pub kind: MarkerKind,
    pub line: usize,
    pub target: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkerKind {
    Add { task: u32, items: Option<u32> },
    Preserved { items: Option<u32> },
    NoChanges { task: u32 },
}

impl MarkerKind {
    const fn task(self) -> Option<u32> {
        match self {
            MarkerKind::Add { task, .. } | MarkerKind::NoChanges { task } => Some(task),
            MarkerKind::Preserved { .. } => None,
        }
    }

    /// Parses a marker from a comment line.
    pub(crate) fn read(line: &str) -> Option<MarkerKind> {
        let line = line.trim().trim_start_matches(['*', '/', '-', '<', '!', ' ']);
        let upper = line.to_ascii_uppercase();
        if let Some(rest) = upper.strip_prefix("TASK-") {
            let (task, rest) = number(rest)?;
            let rest = rest.trim_start().strip_prefix("[ADD]")?;
            let items = number(rest.trim_start_matches([':', ' ', '+'])).map(|(items, _)| items);
            return Some(MarkerKind::Add { task, items });
        }
        if let Some(rest) = upper.strip_prefix("EXISTING ") {
            let items = number(rest.trim_start()).map(|(items, _)| items);
            return rest.contains("PRESERVED").then_some(MarkerKind::Preserved { items });
        }
        let rest = upper.strip_prefix("NO CHANGES FOR TASK-")?;
        number(rest).map(|(task, _)| MarkerKind::NoChanges { task })
    }
}

fn number(text: &str) -> Option<(u32, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

/// The result of the comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScopeReport {
    pub(crate) passed: bool,
    /// The findings, one per line.
    pub(crate) text: String,
}

/// Compares a plan's markers with the snapshot before the task; `before` is `None` without one.
pub(crate) fn compare(
    outline: &Outline,
    before: Option<&dyn SourceTree>,
    now: &dyn SourceTree,
) -> ScopeReport {
    // Markers of earlier tasks are history.
    let latest = outline.markers.iter().filter_map(|marker| marker.kind.task()).max();
    let is_current =
        |marker: &&ScopeMarker| marker.kind.task().is_none_or(|task| Some(task) == latest);
    let mut findings = Vec::new();
    for marker in outline.markers.iter().filter(is_current) {
        findings.extend(compare_one(marker, before, now));
    }
    let passed = findings.iter().all(|finding| finding.level != crate::finding::PlanLevel::Fail);
    ScopeReport { passed, text: report(&findings) }
}

fn compare_one(
    marker: &ScopeMarker,
    before: Option<&dyn SourceTree>,
    now: &dyn SourceTree,
) -> Option<PlanFinding> {
    let line = marker.line;
    let warn = |message: String| Some(PlanFinding::warn("scope", line, message));
    let fail = |message: String| Some(PlanFinding::fail("scope", line, message));
    let Some(target) = &marker.target else {
        return warn("the marker is not below a section or a screen".to_owned());
    };
    let Some(path) = file_of(target, now).or_else(|| before.and_then(|tree| file_of(target, tree)))
    else {
        return warn(format!("no file of `{target}` was found to compare"));
    };
    let Some(old) = before.and_then(|tree| tree.read(&path)) else {
        return warn(format!("no earlier `{path}` to compare with"));
    };
    let Some(new) = now.read(&path) else {
        return match marker.kind {
            MarkerKind::Add { .. } | MarkerKind::Preserved { .. } => {
                fail(format!("`{path}` of `{target}` is gone"))
            }
            MarkerKind::NoChanges { .. } => warn(format!("`{path}` of `{target}` is gone")),
        };
    };
    let (had, has) = (count_items(&old), count_items(&new));
    match marker.kind {
        MarkerKind::Add { .. } if has <= had => fail(format!(
            "`{path}` of `{target}` was to get more items: it had {had} and has {has}"
        )),
        MarkerKind::Add { items: Some(items), .. } if has - had < items as usize => {
            warn(format!("`{path}` of `{target}` was to get {items} items and got {}", has - had))
        }
        MarkerKind::Preserved { .. } if has < had => fail(format!(
            "`{path}` of `{target}` was to keep its items: it had {had} and has {has}"
        )),
        MarkerKind::NoChanges { .. } if old != new => {
            warn(format!("`{path}` of `{target}` was to stay as it is and differs"))
        }
        _ => None,
    }
}

/// Returns the file named after a part of a plan.
fn file_of(target: &str, tree: &dyn SourceTree) -> Option<String> {
    let wanted = words(target);
    if let Some(path) = tree.paths().iter().find(|path| path.as_str() == target) {
        return Some(path.clone());
    }
    let is_source = |path: &&String| has_extension(path, &SOURCES);
    tree.paths().iter().filter(is_source).find(|path| names(base_name(path), &wanted)).cloned()
}

/// Counts the items in a source: the most repeated capitalised tag, or the objects in the longest array literal.
fn count_items(text: &str) -> usize {
    let facts = SourceFacts::of(text);
    let mut tags: Vec<&String> =
        facts.tags.iter().filter(|tag| tag.starts_with(char::is_uppercase)).collect();
    tags.sort();
    let repeated = tags.chunk_by(|one, other| one == other).map(<[_]>::len).max().unwrap_or(0);
    repeated.max(most_objects_in_array(&facts.code))
}

/// Counts the objects directly in each array and returns the maximum. Brackets in strings do not count.
fn most_objects_in_array(code: &str) -> usize {
    let (mut most, mut open, mut quote) = (0, Vec::<(char, usize)>::new(), None);
    let mut escaped = false;
    for c in code.chars() {
        if let Some(end) = quote {
            if escaped {
                escaped = false;
            } else if c == '\\' {
                escaped = true;
            } else if c == end || c == '\n' && end != '`' {
                quote = None;
            }
            continue;
        }
        match c {
            '"' | '`' => quote = Some(c),
            '{' => {
                if let Some(('[', objects)) = open.last_mut() {
                    *objects += 1;
                    most = most.max(*objects);
                }
                open.push((c, 0));
            }
            '[' | '(' => open.push((c, 0)),
            '}' | ']' | ')' => {
                open.pop();
            }
            _ => {}
        }
    }
    most
}

#[cfg(test)]
#[path = "scope_tests.rs"]
mod tests;
