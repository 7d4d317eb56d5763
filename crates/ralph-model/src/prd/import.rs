//! Converts task lists of other loops to a PRD.
//!
//! Extra keys are dropped or moved to a story's notes, alternative names are recognised, and missing values are filled
//! in. Every change is listed: the person decides on the result, and nothing in the file is dropped silently.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::schema::type_name;
use super::{Prd, Story, utf8};

/// The default branch of a list that names none.
const USUAL_BRANCH: &str = "ralph/feature";

/// Alternative names in use, after the schema's own.
const BRANCH: &[&str] = &["branchName", "branch_name", "branch"];
const STORIES: &[&str] =
    &["userStories", "user_stories", "stories", "features", "items", "tasks", "requirements"];
const ID: &[&str] = &["id", "key", "number"];
const TITLE: &[&str] = &["title", "name", "summary", "story", "description"];
const CRITERIA: &[&str] = &[
    "acceptanceCriteria",
    "acceptance_criteria",
    "acceptance",
    "criteria",
    "steps",
    "verification",
];
const PRIORITY: &[&str] = &["priority", "order"];
const PASSES: &[&str] = &["passes", "passed", "done", "completed", "complete"];
const NOTES: &[&str] = &["notes", "note"];

/// A PRD made from another format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    pub prd: Prd,
    /// The differences from the original file, one per line.
    pub changes: Vec<String>,
}

/// The file contains no list of stories.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    #[error("{0}; convert the file to UTF-8 first, for example with iconv")]
    Encoding(String),
    #[error("invalid JSON: {0}")]
    Json(String),
    #[error("it is neither an object nor an array")]
    NotAList,
    #[error("it has no array of stories (looked for {})", STORIES.join(", "))]
    NoStories,
    #[error("story {number} is not an object (got: {found})")]
    NotAStory { number: usize, found: &'static str },
    #[error("story {number} has no title (looked for {})", TITLE.join(", "))]
    NoTitle { number: usize },
}

/// Converts a file.
pub fn import(bytes: impl AsRef<[u8]>) -> Result<Imported, ImportError> {
    let text = utf8(bytes.as_ref()).map_err(ImportError::Encoding)?;
    let value: Value = serde_json::from_str(text.trim_start_matches('\u{feff}'))
        .map_err(|error| ImportError::Json(error.to_string()))?;
    let mut changes = Vec::new();
    let (branch_name, stories) = match value {
        Value::Array(stories) => {
            changes.push(format!("branchName is {USUAL_BRANCH}: the file names none"));
            (USUAL_BRANCH.to_owned(), stories)
        }
        Value::Object(mut object) => {
            let (_, stories) =
                take(&mut object, STORIES, Value::is_array).ok_or(ImportError::NoStories)?;
            let Value::Array(stories) = stories else { return Err(ImportError::NoStories) };
            let branch = take(&mut object, BRANCH, is_text);
            let branch = branch.and_then(|(_, name)| name.as_str().map(str::to_owned));
            if branch.is_none() {
                changes.push(format!("branchName is {USUAL_BRANCH}: the file names none"));
            }
            changes.extend(object.keys().map(|key| format!("left out: {key}")));
            (branch.unwrap_or_else(|| USUAL_BRANCH.to_owned()), stories)
        }
        _ => return Err(ImportError::NotAList),
    };
    let stories = stories.into_iter().enumerate();
    let stories = stories.map(|(index, story)| import_story(index + 1, story, &mut changes));
    let user_stories = stories.collect::<Result<Vec<Story>, ImportError>>()?;
    Ok(Imported { prd: Prd { branch_name, user_stories }, changes })
}

fn import_story(
    number: usize,
    story: Value,
    changes: &mut Vec<String>,
) -> Result<Story, ImportError> {
    let mut story = match story {
        Value::Object(story) => story,
        Value::String(title) => Map::from_iter([("title".to_owned(), Value::String(title))]),
        other => return Err(ImportError::NotAStory { number, found: type_name(&other) }),
    };
    let is_id = |value: &Value| is_text(value) || value.is_i64();
    let id = match take(&mut story, ID, is_id) {
        Some((_, Value::String(id))) => id,
        Some((_, id)) => id.to_string(),
        None => {
            let id = format!("US-{number:03}");
            changes.push(format!("story {number} is called {id}"));
            id
        }
    };
    let (_, title) = take(&mut story, TITLE, is_text).ok_or(ImportError::NoTitle { number })?;
    let criteria = take(&mut story, CRITERIA, |value| value.is_array() || value.is_string());
    let acceptance_criteria = match criteria {
        Some((_, Value::Array(items))) => items.iter().map(text_of).collect(),
        Some((_, item)) => vec![text_of(&item)],
        None => {
            changes.push(format!("{id}: it has no acceptance criteria"));
            Vec::new()
        }
    };
    let priority = take(&mut story, PRIORITY, Value::is_i64).and_then(|(_, found)| found.as_i64());
    let priority = priority.unwrap_or_else(|| {
        changes.push(format!("{id}: priority is {number}, its place in the file"));
        i64::try_from(number).unwrap_or(i64::MAX)
    });
    let passes = take(&mut story, PASSES, Value::is_boolean);
    let passes = passes.and_then(|(_, found)| found.as_bool()).unwrap_or(false);
    let notes = take(&mut story, NOTES, Value::is_string);
    let mut notes = notes.map(|(_, notes)| text_of(&notes)).unwrap_or_default();
    for (key, value) in &story {
        if !notes.is_empty() {
            notes.push('\n');
        }
        write!(notes, "{key}: {}", text_of(value)).expect("a string takes any text");
        changes.push(format!("{id}: {key} is moved to the notes"));
    }
    Ok(Story { id, title: text_of(&title), acceptance_criteria, priority, passes, notes })
}

/// Takes the first of several names with a usable value.
fn take(
    object: &mut Map<String, Value>,
    names: &[&str],
    is_of_use: impl Fn(&Value) -> bool,
) -> Option<(String, Value)> {
    let name = names.iter().find(|name| object.get(**name).is_some_and(&is_of_use))?;
    object.remove_entry(*name)
}

fn is_text(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.trim().is_empty())
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
