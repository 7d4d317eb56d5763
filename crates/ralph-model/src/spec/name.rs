//! The name of a spec: its path below `specs/`, and all paths derived from it.
//!
//! Invariant: two specs never share a file. State directories mirror the areas, runs have a name that includes the
//! area, and a name that could collide with another spec's archived plan is refused.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Top-level directories of `specs/` that contain the harness's own files.
pub const STATE_DIRECTORIES: [&str; 4] = ["candidates", "done", "plans", "sessions"];

/// Files that are never specs.
const NO_SPECS: [&str; 2] = ["README.md", "done.md"];

const FEWEST_DIGITS: usize = 4;
const EXTENSION: &str = ".md";
const ARCHIVED: &str = ".attempt-";

/// The maximum length of the name of a spec's runs, in bytes: longer file names derive from it.
const LONGEST: usize = 200;

/// The path of a spec below `specs/`, such as `billing/0010-invoices.md`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SpecPath(String);

/// The text is not the path of a spec.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not the path of a spec: {reason}", on_one_line(path))]
pub struct InvalidSpecPath {
    pub path: String,
    pub reason: SpecPathFault,
}

/// What is wrong with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecPathFault {
    #[error("its name is not four or more digits, a dash, a name and `.md`")]
    NotNumbered,
    #[error("it has an empty part, `.` or `..`")]
    Part,
    #[error("it has a backslash or a control character")]
    Character,
    #[error("`{0}/` holds Ralph's own files")]
    StateDirectory(&'static str),
    #[error("a name that ends with `.attempt-` and a number is an archived plan's")]
    Archived,
    #[error("it is too long")]
    TooLong,
}

/// Whether a file of this name is meant as a spec, in any directory.
pub fn is_spec_name(name: &str) -> bool {
    number_of(name).is_some() && name.ends_with(EXTENSION) && !NO_SPECS.contains(&name)
}

/// Returns the leading digits of a name, if there are enough and a dash follows.
pub fn number_of(name: &str) -> Option<&str> {
    let digits = leading_digits(name);
    (digits.len() >= FEWEST_DIGITS && name[digits.len()..].starts_with('-')).then_some(digits)
}

fn leading_digits(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    &text[..end]
}

impl SpecPath {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the id that people and commits use: the file's stem.
    pub fn id(&self) -> &str {
        let name = self.file_name();
        name.strip_suffix(EXTENSION).unwrap_or(name)
    }

    pub(crate) fn file_name(&self) -> &str {
        self.0.rsplit_once('/').map_or(&*self.0, |(_, name)| name)
    }

    /// Returns the leading digits of the name.
    pub(crate) fn number(&self) -> &str {
        leading_digits(self.file_name())
    }

    /// Returns its directory below `specs/`, unless that is `specs/` itself.
    pub fn area(&self) -> Option<&str> {
        self.0.rsplit_once('/').map(|(area, _)| area)
    }

    /// Returns the path of the active plan below `specs/`.
    pub fn plan_md(&self) -> String {
        format!("plans/{}", self.0)
    }

    /// Returns the path of the plan's metadata below `specs/`.
    pub fn plan_json(&self) -> String {
        format!("plans/{}.json", self.stem())
    }

    /// Returns the archive path of the `n`th plan below `specs/`.
    pub fn archive(&self, n: u32) -> String {
        format!("plans/{}{ARCHIVED}{n}{EXTENSION}", self.stem())
    }

    /// Returns the path of the candidate below `specs/`.
    pub fn candidate(&self) -> String {
        format!("candidates/{}.json", self.stem())
    }

    /// Returns the path of its done marker below `specs/`.
    pub fn done(&self) -> String {
        format!("done/{}", self.0)
    }

    /// Returns the path of its session record below `specs/`.
    pub fn session(&self) -> String {
        format!("sessions/{}.json", self.stem())
    }

    /// Returns the directory name of its runs: the id, preceded by the areas.
    ///
    /// It is unique per spec: `~` represents only the slash.
    pub fn run_id(&self) -> String {
        let mut name = String::new();
        for character in self.stem().chars() {
            match character {
                '/' => name.push('~'),
                '~' => name.push_str("=t"),
                '=' => name.push_str("=e"),
                other => name.push(other),
            }
        }
        name
    }

    /// The path without its extension.
    fn stem(&self) -> &str {
        self.0.strip_suffix(EXTENSION).unwrap_or(&self.0)
    }
}

/// Returns a path with its control characters escaped: it may come from any file.
fn on_one_line(path: &str) -> String {
    let mut shown = String::new();
    for character in path.chars() {
        if character.is_control() {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

fn fault(path: &str) -> Option<SpecPathFault> {
    let strange = |c: char| c == '\\' || c.is_control();
    let (area, name) =
        path.rsplit_once('/').map_or((None, path), |(area, name)| (Some(area), name));
    let state_directory = || {
        let first = area?.split('/').next()?;
        STATE_DIRECTORIES.into_iter().find(|directory| *directory == first)
    };
    if !is_spec_name(name) {
        Some(SpecPathFault::NotNumbered)
    } else if path.split('/').any(|part| matches!(part, "" | "." | "..")) {
        Some(SpecPathFault::Part)
    } else if path.contains(strange) {
        Some(SpecPathFault::Character)
    } else if let Some(directory) = state_directory() {
        Some(SpecPathFault::StateDirectory(directory))
    } else if is_archive(name) {
        Some(SpecPathFault::Archived)
    } else if SpecPath(path.to_owned()).run_id().len() > LONGEST {
        Some(SpecPathFault::TooLong)
    } else {
        None
    }
}

fn is_archive(name: &str) -> bool {
    let stem = name.strip_suffix(EXTENSION).unwrap_or(name);
    let number = stem.rsplit_once(ARCHIVED).map(|(_, number)| number);
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

impl TryFrom<String> for SpecPath {
    type Error = InvalidSpecPath;

    fn try_from(path: String) -> Result<Self, InvalidSpecPath> {
        match fault(&path) {
            None => Ok(SpecPath(path)),
            Some(reason) => Err(InvalidSpecPath { path, reason }),
        }
    }
}

impl FromStr for SpecPath {
    type Err = InvalidSpecPath;

    fn from_str(path: &str) -> Result<Self, InvalidSpecPath> {
        SpecPath::try_from(path.to_owned())
    }
}

impl From<SpecPath> for String {
    fn from(path: SpecPath) -> String {
        path.0
    }
}

impl fmt::Display for SpecPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Specs are processed in this order: component by component, and by the value of a component's leading number, so that
/// 10000 comes after 9999.
impl Ord for SpecPath {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.split('/').map(Part).cmp(other.0.split('/').map(Part))
    }
}

impl PartialOrd for SpecPath {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[derive(PartialEq, Eq)]
struct Part<'a>(&'a str);

impl Ord for Part<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let (left, right) = (leading_digits(self.0), leading_digits(other.0));
        let by_number = if left.is_empty() || right.is_empty() {
            Ordering::Equal
        } else {
            compare_numbers(left, right)
        };
        by_number.then_with(|| self.0.cmp(other.0))
    }
}

impl PartialOrd for Part<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Compares digits by value, of any length.
pub(super) fn compare_numbers(left: &str, right: &str) -> Ordering {
    let (left, right) = (left.trim_start_matches('0'), right.trim_start_matches('0'));
    left.len().cmp(&right.len()).then_with(|| left.cmp(right))
}

/// Returns the file name for a new spec; `None` if the title has no letter and no digit.
pub fn new_file_name(number: u64, title: &str) -> Option<String> {
    let slug = slug(title)?;
    Some(format!("{number:0FEWEST_DIGITS$}-{slug}{EXTENSION}"))
}

/// Turns a title into lower-case words joined by dashes.
fn slug(title: &str) -> Option<String> {
    const LONGEST_SLUG: usize = 60;
    let lower = title.to_lowercase();
    let mut slug = String::new();
    for word in lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        let gap = usize::from(!slug.is_empty());
        if slug.len() + gap + word.len() > LONGEST_SLUG {
            if slug.is_empty() {
                let fits =
                    word.char_indices().take_while(|(at, c)| at + c.len_utf8() <= LONGEST_SLUG);
                slug.extend(fits.map(|(_, c)| c));
            }
            break;
        }
        slug.extend(std::iter::repeat_n('-', gap));
        slug.push_str(word);
    }
    (!slug.is_empty()).then_some(slug)
}

#[cfg(test)]
#[path = "name_tests.rs"]
mod tests;
