//! The strict schema, and the errors for JSON that does not match it.
//!
//! Wrong keys hide all errors below them; otherwise all errors are reported at once, in document order.

use serde_json::{Map, Value};

const PRD_KEYS: [&str; 2] = ["branchName", "userStories"];
const STORY_KEYS: [&str; 6] = ["id", "title", "acceptanceCriteria", "priority", "passes", "notes"];

/// Returns all errors of a PRD, as messages for people and agents; empty if it matches.
pub(super) fn schema_errors(prd: &Value) -> Vec<String> {
    let Value::Object(prd) = prd else {
        return vec!["PRD must be a JSON object".to_owned()];
    };
    let (missing, unexpected) = key_errors(prd, &PRD_KEYS);
    if missing.is_some() || unexpected.is_some() {
        let missing = missing.map(|keys| format!("Missing required keys: {keys}"));
        let unexpected = unexpected.map(|keys| format!("Unexpected keys: {keys}"));
        return missing.into_iter().chain(unexpected).collect();
    }
    let mut errors = Vec::new();
    match &prd["branchName"] {
        Value::String(name) if name.is_empty() => {
            errors.push("branchName must be non-empty".to_owned());
        }
        Value::String(_) => {}
        other => errors.push(format!("branchName must be a string (got: {})", type_name(other))),
    }
    match &prd["userStories"] {
        Value::Array(stories) => {
            for (index, story) in stories.iter().enumerate() {
                story_errors(&format!("userStories[{index}]"), story, &mut errors);
            }
        }
        other => errors.push(format!("userStories must be an array (got: {})", type_name(other))),
    }
    errors
}

fn story_errors(place: &str, story: &Value, errors: &mut Vec<String>) {
    let Value::Object(story) = story else {
        errors.push(format!("{place}: must be an object"));
        return;
    };
    let (missing, unexpected) = key_errors(story, &STORY_KEYS);
    if missing.is_some() || unexpected.is_some() {
        errors.extend(missing.map(|keys| format!("{place}: missing keys: {keys}")));
        errors.extend(unexpected.map(|keys| format!("{place}: unexpected keys: {keys}")));
        return;
    }
    for key in STORY_KEYS {
        let value = &story[key];
        let problem = match key {
            "acceptanceCriteria" => match value {
                Value::Array(items) if items.iter().all(Value::is_string) => None,
                Value::Array(_) => Some("all items must be strings"),
                _ => Some("must be an array"),
            },
            // JSON has one kind of number; a float is not an integer, even without a fraction.
            "priority" => (!value.is_i64()).then_some("must be an integer"),
            "id" if value.as_str() == Some("") => Some("must be non-empty"),
            // It becomes part of names: of refs, of directories, in the environment.
            "id" if value.as_str().is_some_and(|id| id.contains(char::is_control)) => {
                Some("must not contain control characters")
            }
            "passes" => (!value.is_boolean()).then_some("must be a boolean"),
            _ => (!value.is_string()).then_some("must be a string"),
        };
        errors.extend(problem.map(|problem| format!("{place}.{key}: {problem}")));
    }
}

/// Returns the missing and the unexpected keys, each sorted and joined.
pub(crate) fn key_errors(
    object: &Map<String, Value>,
    expected: &[&str],
) -> (Option<String>, Option<String>) {
    let list = |mut keys: Vec<&str>| {
        keys.sort_unstable();
        (!keys.is_empty()).then(|| keys.join(", "))
    };
    let missing = expected.iter().copied().filter(|key| !object.contains_key(*key)).collect();
    let unexpected =
        object.keys().map(String::as_str).filter(|key| !expected.contains(key)).collect();
    (list(missing), list(unexpected))
}

/// Returns the JSON name of a value's type.
pub(crate) const fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
