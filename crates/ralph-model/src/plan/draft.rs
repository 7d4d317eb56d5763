//! Parses the argument of `task add`: a name, a JSON object, or a JSON array of objects.
//!
//! An agent's input is accepted completely or refused: an unknown field may be misspelt, and dropping it would lose
//! data.

use serde_json::{Map, Value};

use super::error::{PlanError, WishError};
use super::ids::TaskId;
use super::task_fields::Priority;

/// The allowed fields of a new task.
const FIELDS: &[&str] =
    &["name", "notes", "accept", "deps", "priority", "parent", "created_from", "supersedes", "id"];

/// A requested task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TaskDraft {
    pub(super) id: Option<String>,
    pub(super) name: String,
    pub(super) notes: Option<String>,
    pub(super) accept: Option<String>,
    pub(super) deps: Vec<String>,
    pub(super) priority: Option<Priority>,
    pub(super) parent: Option<String>,
    pub(super) created_from: Option<String>,
    pub(super) supersedes: Option<String>,
}

/// Parses all requested tasks in `text`; `spec` is the current one.
pub(super) fn task_drafts(text: &str, spec: &str) -> Result<Vec<TaskDraft>, PlanError> {
    let text = text.trim();
    let refused = |at: usize| move |why| PlanError::Wish { at, why };
    if !text.starts_with(['{', '[']) {
        if text.is_empty() {
            return Err(refused(1)(WishError::NoName));
        }
        return Ok(vec![TaskDraft { name: text.to_owned(), ..TaskDraft::default() }]);
    }
    let value: Value =
        serde_json::from_str(text).map_err(|error| PlanError::BadJson(error.to_string()))?;
    match value {
        Value::Array(items) if items.is_empty() => Err(PlanError::NoTask),
        Value::Array(items) => items
            .into_iter()
            .zip(1..)
            .map(|(item, at)| match item {
                Value::Object(object) => wish(object, spec).map_err(refused(at)),
                _ => Err(refused(at)(WishError::NotAnObject)),
            })
            .collect(),
        Value::Object(object) => Ok(vec![wish(object, spec).map_err(refused(1))?]),
        _ => Err(refused(1)(WishError::NotAnObject)),
    }
}

fn wish(object: Map<String, Value>, spec: &str) -> Result<TaskDraft, WishError> {
    let mut wish = TaskDraft::default();
    for (field, value) in object {
        // Null means absent.
        if value.is_null() {
            continue;
        }
        match field.as_str() {
            "name" | "desc" => wish.name = text(&field, value)?.unwrap_or_default(),
            "notes" => wish.notes = text(&field, value)?,
            "accept" => wish.accept = text(&field, value)?,
            "parent" => wish.parent = text(&field, value)?,
            "created_from" => wish.created_from = text(&field, value)?,
            "supersedes" => wish.supersedes = text(&field, value)?,
            "id" => {
                let id = text(&field, value)?;
                wish.id = id.map(|id| id.parse::<TaskId>()).transpose()?.map(Into::into);
            }
            "deps" => wish.deps = texts(&field, value)?,
            "priority" => {
                let name = text(&field, value)?;
                let unknown = WishError::WrongType { field, wanted: "`high`, `medium` or `low`" };
                let known = name.map(|name| Priority::of_name(&name).ok_or(unknown));
                wish.priority = known.transpose()?;
            }
            // Fields of a complete record are allowed if their value is true of a new task anyway.
            "t" if value == "task" => {}
            "s" if value == "p" => {}
            "t" => return Err(WishError::WrongType { field, wanted: "`task`" }),
            "s" => return Err(WishError::WrongType { field, wanted: "`p`" }),
            "spec" => match text(&field, value)? {
                Some(found) if found != spec => {
                    return Err(WishError::OtherSpec { found, current: spec.to_owned() });
                }
                _ => {}
            },
            _ => return Err(WishError::UnknownField { field, known: FIELDS }),
        }
    }
    if wish.name.is_empty() { Err(WishError::NoName) } else { Ok(wish) }
}

/// An empty text counts as absent.
fn text(field: &str, value: Value) -> Result<Option<String>, WishError> {
    match value {
        Value::String(text) => {
            let text = text.trim();
            Ok((!text.is_empty()).then(|| text.to_owned()))
        }
        _ => Err(WishError::WrongType { field: field.to_owned(), wanted: "a string" }),
    }
}

fn texts(field: &str, value: Value) -> Result<Vec<String>, WishError> {
    let wrong = || WishError::WrongType { field: field.to_owned(), wanted: "an array of strings" };
    let Value::Array(items) = value else { return Err(wrong()) };
    let mut texts: Vec<String> = Vec::with_capacity(items.len());
    for item in items {
        let Value::String(text) = item else { return Err(wrong()) };
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    Ok(texts)
}
