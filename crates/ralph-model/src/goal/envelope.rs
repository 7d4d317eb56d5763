//! An interviewer's reply: one JSON object with exactly four keys.
//!
//! The reply may be inside a single code fence, because many models always add one; anything else around it makes it
//! invalid. The draft inside is not checked here: it has its own schema.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::prd::{key_errors, repeated_keys};

const KEYS: [&str; 4] = ["questions", "uncertainties", "prdDraft", "recommendUnderstand"];

/// The content of one turn of the interviewer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannerEnvelope {
    pub questions: Vec<String>,
    pub uncertainties: Vec<Uncertainty>,
    /// `None` if it is not ready to draft.
    pub prd_draft: Option<Value>,
    pub recommend_understand: UnderstandAdvice,
}

/// Something that the interviewer could not find out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Uncertainty {
    pub topic: String,
    pub reason: String,
    pub evidence_missing: String,
}

/// Whether the interviewer recommends mapping the code first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UnderstandAdvice {
    pub should_run: bool,
    pub reasons: Vec<String>,
}

/// A reply that is not an envelope.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    #[error("the answer is empty")]
    Empty,
    #[error("the answer is not valid JSON: {0}")]
    Json(String),
    #[error(
        "the answer is not valid JSON: there is text around the object; answer with the object alone"
    )]
    Surrounded,
    #[error("the answer must be a JSON object")]
    NotAnObject,
    #[error("{0}")]
    Keys(String),
    #[error("{0}")]
    Type(String),
}

impl PlannerEnvelope {
    /// Parses the final message of a turn.
    pub fn parse(message: &str) -> Result<PlannerEnvelope, EnvelopeError> {
        let text = unfenced(message.trim_start_matches('\u{feff}').trim());
        if text.is_empty() {
            return Err(EnvelopeError::Empty);
        }
        let value: Value = serde_json::from_str(text).map_err(|error| {
            let is_surrounded = !text.starts_with('{') && text.contains('{');
            let invalid = || EnvelopeError::Json(error.to_string());
            if is_surrounded { EnvelopeError::Surrounded } else { invalid() }
        })?;
        let repeated = repeated_keys(text);
        if !repeated.is_empty() {
            return Err(EnvelopeError::Keys(repeated.join("; ")));
        }
        let Value::Object(mut object) = value else { return Err(EnvelopeError::NotAnObject) };
        let (missing, unexpected) = key_errors(&object, &KEYS);
        let missing = missing.map(|keys| format!("missing required keys: {keys}"));
        let unexpected = unexpected.map(|keys| format!("unexpected keys: {keys}"));
        let wrong: Vec<String> = missing.into_iter().chain(unexpected).collect();
        if !wrong.is_empty() {
            return Err(EnvelopeError::Keys(wrong.join("; ")));
        }
        let draft = object.remove("prdDraft").filter(|draft| !draft.is_null());
        let questions = strings(&object["questions"], "questions")?;
        let is_said = |question: &String| !question.trim().is_empty();
        Ok(PlannerEnvelope {
            questions: questions.into_iter().filter(is_said).collect(),
            uncertainties: uncertainties(&object["uncertainties"])?,
            prd_draft: draft,
            recommend_understand: advice(&object["recommendUnderstand"])?,
        })
    }
}

fn wrong<T>(place: &str, expected: &str) -> Result<T, EnvelopeError> {
    Err(EnvelopeError::Type(format!("`{place}` must be {expected}")))
}

fn string(value: &Value, place: &str) -> Result<String, EnvelopeError> {
    match value {
        Value::String(text) => Ok(text.clone()),
        _ => wrong(place, "a string"),
    }
}

fn strings(value: &Value, place: &str) -> Result<Vec<String>, EnvelopeError> {
    let Value::Array(values) = value else { return wrong(place, "an array of strings") };
    let strings = values.iter().enumerate();
    strings.map(|(at, value)| string(value, &format!("{place}[{at}]"))).collect()
}

/// Returns an object that has exactly these keys.
fn object<'v>(
    value: &'v Value,
    place: &str,
    keys: &[&str],
) -> Result<&'v Map<String, Value>, EnvelopeError> {
    let expected = || format!("an object with exactly these keys: {}", keys.join(", "));
    let Value::Object(object) = value else { return wrong(place, &expected()) };
    match key_errors(object, keys) {
        (None, None) => Ok(object),
        _ => wrong(place, &expected()),
    }
}

fn uncertainties(value: &Value) -> Result<Vec<Uncertainty>, EnvelopeError> {
    let Value::Array(values) = value else {
        return wrong("uncertainties", "an array of objects");
    };
    let mut found = Vec::new();
    for (at, value) in values.iter().enumerate() {
        let place = format!("uncertainties[{at}]");
        let fields = object(value, &place, &["topic", "reason", "evidenceMissing"])?;
        let field = |name: &str| string(&fields[name], &format!("{place}.{name}"));
        let (topic, reason) = (field("topic")?, field("reason")?);
        found.push(Uncertainty { topic, reason, evidence_missing: field("evidenceMissing")? });
    }
    Ok(found)
}

fn advice(value: &Value) -> Result<UnderstandAdvice, EnvelopeError> {
    let fields = object(value, "recommendUnderstand", &["shouldRun", "reasons"])?;
    let Value::Bool(should_run) = fields["shouldRun"] else {
        return wrong("recommendUnderstand.shouldRun", "true or false");
    };
    let reasons = strings(&fields["reasons"], "recommendUnderstand.reasons")?;
    Ok(UnderstandAdvice { should_run, reasons })
}

/// Removes the code fence from a text that is exactly one fenced block.
fn unfenced(text: &str) -> &str {
    let fenced = || {
        let inside = text.strip_prefix("```")?.strip_suffix("```")?;
        let (language, body) = inside.split_once('\n')?;
        (!language.contains('`') && !body.contains("\n```")).then_some(body.trim())
    };
    fenced().unwrap_or(text)
}
