//! Answers supplied in advance: the file of `--answers`.
//!
//! It is JSON: an object from questions to answers, or an array of answers that are used in order. A key of an object
//! is a question, its id, or a part of a question; the longest matching part counts, because an agent phrases its
//! questions differently each time.

use serde_json::Value;

/// Answers that a person supplied in advance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    by_question: Vec<(String, String)>,
    in_order: Vec<String>,
}

/// The file contains no answers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswersError {
    #[error("it is not valid JSON: {0}")]
    Json(String),
    #[error("it is neither an object from questions to answers nor an array of answers")]
    Shape,
    #[error("the answer to `{0}` is not a string, a number or a boolean")]
    Answer(String),
}

impl Answers {
    /// Parses the file.
    pub fn parse(text: &str) -> Result<Answers, AnswersError> {
        let value: Value = serde_json::from_str(text.trim_start_matches('\u{feff}'))
            .map_err(|error| AnswersError::Json(error.to_string()))?;
        let mut answers = Answers::default();
        match value {
            Value::Object(object) => {
                for (question, answer) in &object {
                    let text = answer_text(answer)
                        .ok_or_else(|| AnswersError::Answer(question.clone()))?;
                    answers.by_question.push((question.trim().to_lowercase(), text));
                }
            }
            Value::Array(list) => {
                for (index, answer) in list.iter().enumerate() {
                    let text = answer_text(answer)
                        .ok_or_else(|| AnswersError::Answer((index + 1).to_string()))?;
                    answers.in_order.push(text);
                }
            }
            _ => return Err(AnswersError::Shape),
        }
        Ok(answers)
    }

    /// Returns the answer to a question.
    pub(super) fn named(&self, id: &str, question: &str) -> Option<String> {
        let question = question.trim().to_lowercase();
        let exact = |(key, _): &&(String, String)| *key == question || *key == id.to_lowercase();
        let found = self.by_question.iter().find(exact).or_else(|| {
            let parts = self.by_question.iter();
            let parts = parts.filter(|(key, _)| !key.is_empty() && question.contains(key.as_str()));
            parts.max_by_key(|(key, _)| key.len())
        });
        found.map(|(_, answer)| answer.clone())
    }

    /// Takes the next answer of an ordered list.
    pub(super) fn next(&mut self) -> Option<String> {
        (!self.in_order.is_empty()).then(|| self.in_order.remove(0))
    }
}

/// Returns an answer as text: people write numbers and booleans without quotes.
fn answer_text(answer: &Value) -> Option<String> {
    match answer {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(true) => Some("yes".to_owned()),
        Value::Bool(false) => Some("no".to_owned()),
        _ => None,
    }
}
