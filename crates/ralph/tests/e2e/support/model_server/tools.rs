//! Maps a scripted act to a call of a tool that the agent offered in that very request.
//!
//! Names and arguments are read from the offer, so a renamed argument is handled and a missing shell is noticed: the
//! call is refused with a message that lists the offered tools.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// The tools of one request: name to argument schema.
pub(crate) type Offer = BTreeMap<String, Value>;

/// A call the model asks for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ToolCall {
    pub(crate) name: String,
    pub(crate) input: Value,
}

const SHELLS: [&str; 6] =
    ["exec_command", "shell_command", "shell", "Bash", "bash", "run_shell_command"];
const WRITERS: [&str; 3] = ["Write", "write", "write_file"];

/// Returns the call that runs `command` in the offered shell.
pub(crate) fn shell_call(command: &str, offer: &Offer) -> Result<ToolCall, String> {
    let (name, schema) = find(&SHELLS, offer).ok_or_else(|| {
        format!("no shell is offered, only {:?}", offer.keys().collect::<Vec<_>>())
    })?;
    let mut input = Map::new();
    for (property, shape) in properties(schema) {
        let value = match property.as_str() {
            "cmd" | "command" if shape["type"] == "array" => json!(["bash", "-lc", command]),
            "cmd" | "command" => json!(command),
            // The longest wait that codex supports: a short command then never becomes a background session.
            "yield_time_ms" => json!(30_000),
            "description" => json!("scripted command"),
            "is_background" | "run_in_background" => json!(false),
            _ => continue,
        };
        input.insert(property.clone(), value);
    }
    complete(name, schema, input)
}

/// Returns the call that writes a file, through the shell if no writing tool is offered.
pub(crate) fn write_call(path: &str, content: &str, offer: &Offer) -> Result<ToolCall, String> {
    let Some((name, schema)) = find(&WRITERS, offer) else {
        let command = format!("printf %s {} > {}", quoted(content), quoted(path));
        return shell_call(&command, offer);
    };
    let mut input = Map::new();
    for (property, _) in properties(schema) {
        let value = match property.as_str() {
            "file_path" | "filePath" | "path" => path,
            "content" => content,
            _ => continue,
        };
        input.insert(property.clone(), json!(value));
    }
    complete(name, schema, input)
}

/// Returns the last full commit name in a tool's output.
pub(crate) fn commit_in(printed: &str) -> Option<&str> {
    printed.rsplit(|c: char| !c.is_ascii_hexdigit()).find(|word| word.len() == 40)
}

fn find<'a>(wanted: &[&str], offer: &'a Offer) -> Option<(&'a str, &'a Value)> {
    wanted.iter().find_map(|name| offer.get_key_value(*name)).map(|(name, s)| (name.as_str(), s))
}

fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema["properties"].as_object().into_iter().flatten()
}

fn complete(name: &str, schema: &Value, input: Map<String, Value>) -> Result<ToolCall, String> {
    if input.is_empty() {
        return Err(format!("tool `{name}` takes no argument known here: {schema}"));
    }
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    for argument in required {
        if !input.contains_key(argument) {
            return Err(format!("tool `{name}` requires `{argument}`, which is not known here"));
        }
    }
    Ok(ToolCall { name: name.to_owned(), input: Value::Object(input) })
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
