//! Resolves a typed name to a spec.
//!
//! The path below `specs/` wins, then the file name, then the number. An ambiguous name is refused: guessing would
//! start work on the wrong spec.

use std::cmp::Ordering;

use crate::nearest::nearest;

use super::name::{SpecPath, compare_numbers};

/// How many specs an error lists.
const MOST_LISTED: usize = 5;

/// The typed name matches no spec, or several.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    #[error("spec `{typed}` not found{}", listed("; did you mean ", nearest))]
    Unknown { typed: String, nearest: Vec<String> },
    #[error("`{typed}` matches several specs{}", listed(": ", candidates))]
    Ambiguous { typed: String, candidates: Vec<String> },
}

fn listed(before: &str, paths: &[String]) -> String {
    let mut quoted: Vec<String> =
        paths.iter().take(MOST_LISTED).map(|path| format!("`{path}`")).collect();
    if paths.len() > MOST_LISTED {
        quoted.push(format!("and {} more", paths.len() - MOST_LISTED));
    }
    if quoted.is_empty() { String::new() } else { format!("{before}{}", quoted.join(", ")) }
}

/// Finds the typed spec: by number, by name with or without `.md`, or by a path that may contain `specs/`.
pub fn select<'a>(specs: &'a [SpecPath], typed: &str) -> Result<&'a SpecPath, SelectError> {
    select_index(specs, typed).map(|at| &specs[at])
}

fn select_index(specs: &[SpecPath], typed: &str) -> Result<usize, SelectError> {
    let wish = Wish::read(typed);
    for fits in [Wish::is_path, Wish::is_name, Wish::is_number, Wish::is_name_alone] {
        let found: Vec<usize> = (0..specs.len()).filter(|at| fits(&wish, &specs[*at])).collect();
        match found[..] {
            [] => {}
            [at] => return Ok(at),
            _ => {
                let candidates = found.iter().map(|at| specs[*at].to_string()).collect();
                return Err(SelectError::Ambiguous { typed: typed.to_owned(), candidates });
            }
        }
    }
    Err(SelectError::Unknown { typed: typed.to_owned(), nearest: wish.near(specs) })
}

/// The typed text, split.
struct Wish {
    directories: Vec<String>,
    /// Without `.md`.
    name: String,
}

impl Wish {
    fn read(typed: &str) -> Wish {
        let typed = typed.trim().replace('\\', "/");
        let mut parts: Vec<String> =
            typed.split('/').filter(|part| !matches!(*part, "" | ".")).map(str::to_owned).collect();
        let name = parts.pop().unwrap_or_default();
        let name = name.strip_suffix(".md").unwrap_or(&name).to_owned();
        Wish { directories: parts, name }
    }

    /// Lists likely specs: those with a similar name, otherwise with a similar number, otherwise those that contain it.
    fn near(&self, specs: &[SpecPath]) -> Vec<String> {
        let like = |part: fn(&SpecPath) -> &str| {
            let mut words = nearest(&self.name, specs.iter().map(part));
            words.dedup();
            let fits = words.into_iter().flat_map(|word| {
                specs.iter().filter(move |spec| part(spec) == word).map(ToString::to_string)
            });
            fits.take(MOST_LISTED).collect::<Vec<_>>()
        };
        let containing = || {
            let fits = specs.iter().filter(|spec| {
                !self.name.is_empty() && spec.as_str().contains(&self.name.to_lowercase())
            });
            fits.take(MOST_LISTED).map(ToString::to_string).collect()
        };
        [like(SpecPath::id), like(SpecPath::number)]
            .into_iter()
            .find(|found| !found.is_empty())
            .unwrap_or_else(containing)
    }

    fn is_path(&self, spec: &SpecPath) -> bool {
        self.is_in_area(spec) && self.name == spec.id()
    }

    fn is_name(&self, spec: &SpecPath) -> bool {
        self.directories.is_empty() && self.name == spec.id()
    }

    fn is_number(&self, spec: &SpecPath) -> bool {
        let is_number = !self.name.is_empty() && self.name.bytes().all(|b| b.is_ascii_digit());
        is_number
            && (self.directories.is_empty() || self.is_in_area(spec))
            && compare_numbers(&self.name, spec.number()) == Ordering::Equal
    }

    /// Whether it is the name without its number.
    fn is_name_alone(&self, spec: &SpecPath) -> bool {
        let name = spec.id().strip_prefix(spec.number()).map(|rest| rest.trim_start_matches('-'));
        let is_name = name.is_some_and(|name| !name.is_empty() && name == self.name);
        is_name && (self.directories.is_empty() || self.is_in_area(spec))
    }

    /// Whether the directories match the spec's area, relative to `specs/` or through any directory of that name.
    fn is_in_area(&self, spec: &SpecPath) -> bool {
        let area: Vec<&str> = spec.area().map_or_else(Vec::new, |area| area.split('/').collect());
        let Some(outside) = self.directories.len().checked_sub(area.len()) else { return false };
        let (before, inside) = self.directories.split_at(outside);
        inside == area && before.last().is_none_or(|last| last == "specs")
    }
}

#[cfg(test)]
#[path = "select_tests.rs"]
mod tests;
