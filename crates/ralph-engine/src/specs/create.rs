//! Creates a new spec: the next free number, a name from its title, and a template.

use std::fs;

use camino::Utf8Path;
use ralph_model::spec::check::template;
use ralph_model::spec::name::{InvalidSpecPath, SpecPath, new_file_name, number_of};

use crate::files::{Creation, PathError, create_directory, create_new};

/// How often another number is tried because another process took the free one.
const MOST_TRIES: u64 = 100;

/// How deep specs and state are searched for used numbers.
const DEEPEST: usize = 32;

/// A spec to create.
#[derive(Clone, Copy, Debug)]
pub struct NewSpec<'a> {
    pub title: &'a str,
    /// Its directory below `specs/`.
    pub area: Option<&'a str>,
}

/// Why no spec was created.
#[derive(Debug, thiserror::Error)]
pub enum NewSpecError {
    #[error("the title `{title}` has no letters or digits for a file name")]
    Title { title: String },
    #[error(transparent)]
    Area(#[from] InvalidSpecPath),
    #[error("`{area}` leads through a link or a file")]
    NotADirectory { area: String },
    #[error("no number left after {last}")]
    NoNumber { last: u64 },
    #[error(transparent)]
    Path(#[from] PathError),
}

/// Creates a new spec, with the number after the highest one ever used here.
pub fn create(specs: &Utf8Path, new: NewSpec<'_>) -> Result<SpecPath, NewSpecError> {
    let area = new.area.map(|area| area.replace('\\', "/"));
    let area = area.as_deref().map(|area| area.trim_matches('/')).filter(|area| !area.is_empty());
    create_directory(specs)?;
    let last = highest_number(specs, DEEPEST);
    for number in (last..last.saturating_add(MOST_TRIES)).map(|before| before + 1) {
        let name = new_file_name(number, new.title)
            .ok_or_else(|| NewSpecError::Title { title: new.title.to_owned() })?;
        let path = area.map_or_else(|| name.clone(), |area| format!("{area}/{name}"));
        let spec: SpecPath = path.parse()?;
        if let Some(area) = spec.area() {
            prepare_area(specs, area)?;
        }
        let text = template(new.title);
        if create_new(&specs.join(spec.as_str()), text.as_bytes())? == Creation::Created {
            return Ok(spec);
        }
    }
    Err(NewSpecError::NoNumber { last })
}

/// Creates the directories of an area. None of them may be a symlink: specs are not discovered behind one.
fn prepare_area(specs: &Utf8Path, area: &str) -> Result<(), NewSpecError> {
    let mut directory = specs.to_owned();
    for part in area.split('/') {
        directory.push(part);
        let is_taken = |found: fs::Metadata| !found.is_dir();
        if fs::symlink_metadata(&directory).is_ok_and(is_taken) {
            return Err(NewSpecError::NotADirectory { area: area.to_owned() });
        }
    }
    Ok(create_directory(&directory)?)
}

/// Returns the highest number in use. State counts, too: a new spec must not be considered done because of a removed
/// one.
fn highest_number(directory: &Utf8Path, depth: usize) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let numbers = entries.map(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && depth > 0 => {
                highest_number(&directory.join(name), depth - 1)
            }
            Ok(kind) if !kind.is_dir() => {
                number_of(&name).and_then(|number| number.parse().ok()).unwrap_or(0)
            }
            _ => 0,
        }
    });
    numbers.max().unwrap_or(0)
}
