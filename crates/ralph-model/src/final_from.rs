//! Where to find the final message of a plain command: all of its text, its last line, or a field of its JSON.

use serde_json::Value;

/// Where to find the final message of a plain command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FinalFrom {
    /// All of stdout, as far as it is kept.
    #[default]
    Text,
    /// The last line that is not blank.
    LastLine,
    /// A string in a JSON object, given as a path of names.
    Json(Vec<String>),
}

impl FinalFrom {
    /// Parses `last-line` or `json:FIELD`, where dots separate nested fields.
    pub fn parse(text: &str) -> Option<FinalFrom> {
        if text == "last-line" {
            return Some(FinalFrom::LastLine);
        }
        let path: Vec<String> = text.strip_prefix("json:")?.split('.').map(str::to_owned).collect();
        path.iter().all(|name| !name.is_empty()).then_some(FinalFrom::Json(path))
    }

    /// Returns the final message in an output.
    pub fn message(&self, output: &str) -> Option<String> {
        match self {
            FinalFrom::Text => Some(output.to_owned()),
            FinalFrom::LastLine => {
                let mut lines = output.lines().rev().map(str::trim);
                lines.find(|line| !line.is_empty()).map(str::to_owned)
            }
            FinalFrom::Json(path) => std::iter::once(output)
                .chain(output.lines().rev())
                .find_map(|text| text_at(&serde_json::from_str(text.trim()).ok()?, path)),
        }
    }
}

/// Returns the text at a path; for an array, of its last element that has one.
fn text_at(value: &Value, path: &[String]) -> Option<String> {
    match (value, path) {
        (Value::Array(items), _) => items.iter().rev().find_map(|item| text_at(item, path)),
        (Value::String(text), []) => Some(text.clone()),
        (Value::Object(fields), [name, rest @ ..]) => text_at(fields.get(name)?, rest),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_is_where_the_configuration_says() {
        let found = |from: &str, output: &str| FinalFrom::parse(from).unwrap().message(output);
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(FinalFrom::Text.message("a\nb"), some("a\nb"));
        assert_eq!(found("last-line", "noise\n the end \n\n"), some("the end"));
        assert_eq!(found("last-line", " \n"), None);
        let stream = "{\"result\":\"first\"}\nnoise\n{\"type\":\"x\",\"result\":\"last\"}\n{}\n";
        assert_eq!(found("json:result", stream), some("last"));
        assert_eq!(found("json:a.b", "{\n \"a\": {\"b\": \"deep\"}\n}"), some("deep"));
        let list = r#"[{"result":"one"},{"result":"two"},{"type":"end"}]"#;
        assert_eq!(found("json:result", list), some("two"));
        assert_eq!(found("json:result", "plain text"), None);
        assert_eq!(found("json:result", "{\"result\":5}"), None);
    }

    #[test]
    fn other_words_are_no_place() {
        for text in ["", "json:", "json:a..b", "first-line", "text"] {
            assert_eq!(FinalFrom::parse(text), None, "{text}");
        }
    }
}
