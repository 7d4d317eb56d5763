//! The optional survey after an accepted task: JSON in the agent's final message.

use serde::{Deserialize, Serialize};

/// A line of `reflections.jsonl`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReflectionLine {
    task_id: String,
    timestamp: String,
    #[serde(flatten)]
    reflection: Reflection,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reflection {
    difficulty: Difficulty,
    #[serde(default)]
    friction: Vec<Friction>,
    #[serde(default)]
    wished_for: Vec<String>,
    #[serde(default)]
    confusing_parts: Vec<String>,
    #[serde(default)]
    workarounds: Vec<String>,
    #[serde(default)]
    runtime_errors: Vec<String>,
    #[serde(default)]
    would_recommend: Option<bool>,
    one_sentence_summary: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    freeform_comments: Option<String>,
}

/// Each from 1 (easy) to 5.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Difficulty {
    overall: u8,
    #[serde(default)]
    finding_commands: Option<u8>,
    #[serde(default)]
    file_operations: Option<u8>,
    #[serde(default)]
    debugging: Option<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Friction {
    #[serde(default)]
    command: String,
    #[serde(default)]
    expected: String,
    #[serde(default)]
    actual: String,
    #[serde(default)]
    suggestion: String,
}

/// The longest reply that is read.
const LONGEST: usize = 64 << 10;

/// Returns the line of `reflections.jsonl` for a reply; `None` if the reply cannot be parsed.
pub fn reflection_line(reply: &str, task_id: &str, timestamp: &str) -> Option<String> {
    let (task_id, timestamp) = (task_id.to_owned(), timestamp.to_owned());
    let line = ReflectionLine { task_id, timestamp, reflection: read_reflection(reply)? };
    serde_json::to_string(&line).ok()
}

/// Parses a reply: a JSON object, optionally in a fence, with or without text around it.
fn read_reflection(reply: &str) -> Option<Reflection> {
    if reply.len() > LONGEST {
        return None;
    }
    let (start, end) = (reply.find('{')?, reply.rfind('}')?);
    let found: Reflection = serde_json::from_str(reply.get(start..=end)?).ok()?;
    let Difficulty { overall, finding_commands, file_operations, debugging } = found.difficulty;
    let others = [finding_commands, file_operations, debugging];
    let is_grade = |grade: u8| (1..=5).contains(&grade);
    (is_grade(overall) && others.into_iter().flatten().all(is_grade)).then_some(found)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const REPLY: &str = r#"{"difficulty":{"overall":2,"debugging":4},"friction":[{"command":"ls"}],
        "wishedFor":["a map"],"oneSentenceSummary":"It went well."}"#;

    #[test]
    fn a_reply_is_read_bare_and_fenced_and_anything_else_is_dropped() {
        let bare = read_reflection(REPLY).unwrap();
        assert_eq!(bare.one_sentence_summary, "It went well.");
        let fenced = format!("Here it is:\n```json\n{REPLY}\n```\n");
        assert_eq!(read_reflection(&fenced), Some(bare.clone()));
        let six = REPLY.replace(":2,", ":6,");
        for other in ["", "It was fine.", "{}", "}{", six.as_str()] {
            assert_eq!(read_reflection(other), None, "{other}");
        }
        let text = reflection_line(REPLY, "loop-1", "now").unwrap();
        assert!(text.starts_with(r#"{"taskId":"loop-1","timestamp":"now","difficulty""#), "{text}");
        let line: ReflectionLine = serde_json::from_str(&text).unwrap();
        assert_eq!(line.reflection, bare);
    }

    proptest! {
        #[test]
        fn any_reply_is_read_or_dropped(reply in "(\\PC|[{}\"\n]){0,80}") {
            read_reflection(&reply);
        }
    }
}
