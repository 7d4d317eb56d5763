//! `prd.json`: the stories of a goal, and which of them pass.
//!
//! The schema is strict in both directions: exactly its keys, exactly its types. Violations are errors whose text is
//! shown to people and agents unchanged. Only the harness sets `passes`: an agent's draft never does. The engine reads
//! and writes the file.

mod import;
mod repeated;
mod schema;
mod summary;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use import::{ImportError, Imported, import};
pub(crate) use repeated::repeated_keys;
pub(crate) use schema::key_errors;
use schema::schema_errors;

/// The file's name in home.
pub const PRD_FILE: &str = "prd.json";

/// A product requirements document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Prd {
    /// The branch on which the stories are implemented.
    pub branch_name: String,
    pub user_stories: Vec<Story>,
}

/// One requirement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Story {
    pub id: String,
    pub title: String,
    pub acceptance_criteria: Vec<String>,
    /// The lowest comes first.
    pub priority: i64,
    pub passes: bool,
    pub notes: String,
}

/// A file that is not a PRD, with all its errors.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .errors.join("\n"))]
pub struct PrdError {
    pub errors: Vec<String>,
}

/// Returns a file as text, or an error that names the first line that is not UTF-8.
pub(crate) fn utf8(bytes: &[u8]) -> Result<&str, String> {
    str::from_utf8(bytes).map_err(|error| {
        let line = bytes[..error.valid_up_to()].split(|byte| *byte == b'\n').count();
        format!("line {line} is not valid UTF-8")
    })
}

impl Story {
    /// Whether another version of the story has the same requirements, so that a proof of one holds for the other.
    pub(crate) fn asks_for_the_same(&self, other: &Story) -> bool {
        self.id == other.id
            && self.title == other.title
            && self.acceptance_criteria == other.acceptance_criteria
    }
}

impl Prd {
    /// Parses a PRD file. One that is not UTF-8 is refused: rewriting it would damage it.
    pub fn parse(bytes: impl AsRef<[u8]>) -> Result<Prd, PrdError> {
        let text = utf8(bytes.as_ref()).map_err(|error| PrdError { errors: vec![error] })?;
        let text = text.trim_start_matches('\u{feff}');
        let value: Value = serde_json::from_str(text)
            .map_err(|error| PrdError { errors: vec![format!("Invalid JSON: {error}")] })?;
        let errors = repeated_keys(text);
        if !errors.is_empty() {
            return Err(PrdError { errors });
        }
        Prd::from_value(&value)
    }

    /// Parses a PRD from JSON.
    pub(crate) fn from_value(value: &Value) -> Result<Prd, PrdError> {
        let errors = schema_errors(value);
        if !errors.is_empty() {
            return Err(PrdError { errors });
        }
        Prd::deserialize(value).map_err(|error| PrdError { errors: vec![error.to_string()] })
    }

    /// Returns the file's text.
    pub fn render(&self) -> String {
        let json = serde_json::to_string_pretty(self).expect("a PRD is plain data");
        format!("{json}\n")
    }

    /// Returns the stories that do not pass yet, in execution order: lowest priority first, ties in file order.
    pub fn failing(&self) -> Vec<&Story> {
        let mut failing: Vec<&Story> =
            self.user_stories.iter().filter(|story| !story.passes).collect();
        failing.sort_by_key(|story| story.priority);
        failing
    }

    /// Takes `passes` from an earlier version: a story passes if it passed there and has the same requirements.
    ///
    /// Without an earlier version nothing passes.
    #[must_use]
    pub fn with_passes_of(mut self, earlier: Option<&Prd>) -> Prd {
        for story in &mut self.user_stories {
            let known = earlier.map(|earlier| &earlier.user_stories).into_iter().flatten();
            let mut known = known.filter(|known| known.asks_for_the_same(story));
            story.passes = known.next().is_some_and(|known| known.passes);
        }
        self
    }

    /// Clears `passes` of stories that another version marks as failing: a person wants them done again.
    #[must_use]
    pub fn without_failing_of(mut self, other: &Prd) -> Prd {
        for story in &mut self.user_stories {
            let mut known =
                other.user_stories.iter().filter(|known| known.asks_for_the_same(story));
            story.passes &= known.next().is_none_or(|known| known.passes);
        }
        self
    }

    /// Returns the name of each story, in file order: its id, with a number appended if the id is not unique.
    pub fn story_names(&self) -> Vec<String> {
        let name = |index: usize, story: &Story| {
            let same = self.user_stories[..index].iter().filter(|other| other.id == story.id);
            match same.count() {
                0 => story.id.clone(),
                earlier => format!("{}#{}", story.id, earlier + 1),
            }
        };
        self.user_stories.iter().enumerate().map(|(index, story)| name(index, story)).collect()
    }

    /// Whether the branch name is valid in git.
    pub fn has_valid_branch(&self) -> bool {
        is_branch_name(&self.branch_name)
    }

    /// Returns the problems of a draft that matches the schema but cannot be worked on.
    pub(crate) fn draft_errors(&self) -> Vec<String> {
        let mut errors = Vec::new();
        if self.user_stories.is_empty() {
            errors.push("userStories must not be empty".to_owned());
        }
        if !self.has_valid_branch() {
            errors.push(format!("branchName is not a valid git branch name: {}", self.branch_name));
        }
        errors
    }

    /// Returns the ids that several stories have.
    pub fn repeated_ids(&self) -> Vec<&str> {
        let mut ids: Vec<&str> = self.user_stories.iter().map(|story| story.id.as_str()).collect();
        ids.sort_unstable();
        let mut repeated: Vec<&str> =
            ids.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
        repeated.dedup();
        repeated
    }
}

/// Whether an agent's copy of the PRD marks a story as passing. Nothing else in it counts, so it need not match the
/// schema.
pub fn claims_to_pass(copy: &str, id: &str) -> bool {
    let Ok(value) = serde_json::from_str::<Value>(copy.trim_start_matches('\u{feff}')) else {
        return false;
    };
    let stories = value.get("userStories").and_then(Value::as_array);
    stories.is_some_and(|stories| {
        stories.iter().any(|story| {
            story.get("id").and_then(Value::as_str) == Some(id)
                && story.get("passes").and_then(Value::as_bool) == Some(true)
        })
    })
}

/// Whether git accepts a branch name.
fn is_branch_name(name: &str) -> bool {
    let forbidden = |c: char| c.is_ascii_control() || " ~^:?*[\\".contains(c);
    let part = |part: &str| {
        !part.is_empty() && !part.starts_with('.') && part.strip_suffix(".lock").is_none()
    };
    !name.starts_with('-')
        && !name.ends_with('.')
        && !name.contains(forbidden)
        && !name.contains("..")
        && !name.contains("@{")
        && name != "@"
        && name != "HEAD"
        && name.split('/').all(part)
}

#[cfg(test)]
#[path = "prd_tests.rs"]
mod tests;
