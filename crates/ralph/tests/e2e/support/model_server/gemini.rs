//! Google's generateContent dialect, used by Gemini CLI; the path says whether it is a stream.

use serde_json::{Value, json};

use super::dialect::{Rendered, SseEvent, Turn};
use super::tools::Offer;

pub(crate) fn offer(request: &Value) -> Offer {
    let mut offer = Offer::new();
    for tool in request["tools"].as_array().into_iter().flatten() {
        for function in tool["functionDeclarations"].as_array().into_iter().flatten() {
            if let Some(name) = function["name"].as_str() {
                let schema = function.get("parametersJsonSchema").or(function.get("parameters"));
                offer.insert(name.to_owned(), schema.cloned().unwrap_or_default());
            }
        }
    }
    offer
}

pub(crate) fn last_result(request: &Value) -> Value {
    let contents = request["contents"].as_array().into_iter().flatten();
    let parts = contents.flat_map(|content| content["parts"].as_array().into_iter().flatten());
    let last = parts.filter_map(|part| part.get("functionResponse")).next_back();
    last.map(|called| called["response"].clone()).unwrap_or_default()
}

pub(crate) fn render(turn: &Turn, path: &str, request: &Value) -> Rendered {
    let mut parts: Vec<Value> = turn.text.iter().map(|text| json!({ "text": text })).collect();
    // The client's own requests (which model, which topic) expect JSON, and accept an empty object.
    if request["generationConfig"]["responseMimeType"] == "application/json" {
        parts = vec![json!({ "text": "{}" })];
    }
    parts.extend(turn.call.iter().map(|call| {
        json!({
            "functionCall": { "name": call.name, "args": call.input, "id": turn.id },
            "thoughtSignature": "c2ln",
        })
    }));
    let whole = answer(turn, &parts, Some("STOP"));
    if !path.ends_with(":streamGenerateContent") {
        return Rendered::Whole(whole);
    }
    let opening = answer(turn, &[], None);
    Rendered::Stream {
        opening: vec![SseEvent::unnamed(&opening)],
        rest: vec![SseEvent::unnamed(&whole)],
    }
}

fn answer(turn: &Turn, parts: &[Value], finish: Option<&str>) -> Value {
    let tokens = turn.tokens;
    let mut candidate = json!({ "content": { "role": "model", "parts": parts }, "index": 0 });
    if let Some(finish) = finish {
        candidate["finishReason"] = json!(finish);
    }
    json!({
        "candidates": [candidate],
        "usageMetadata": {
            "promptTokenCount": tokens.input,
            "candidatesTokenCount": tokens.output - tokens.reasoning,
            "cachedContentTokenCount": tokens.cached,
            "thoughtsTokenCount": tokens.reasoning,
            "totalTokenCount": tokens.input + tokens.output,
        },
        "modelVersion": "scripted", "responseId": turn.id,
    })
}
