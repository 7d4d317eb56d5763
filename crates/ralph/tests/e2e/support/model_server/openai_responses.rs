//! The Responses dialect, used by codex; always a stream.

use serde_json::{Value, json};

use super::dialect::{Rendered, SseEvent, Turn};
use super::tools::Offer;

pub(crate) fn offer(request: &Value) -> Offer {
    let mut offer = Offer::new();
    for tool in request["tools"].as_array().into_iter().flatten() {
        // Some tools (web search, tool search) have no name, only a type.
        if let Some(name) = tool["name"].as_str().or(tool["type"].as_str()) {
            offer.insert(name.to_owned(), tool["parameters"].clone());
        }
    }
    offer
}

pub(crate) fn last_result(request: &Value) -> Value {
    let mut items = request["input"].as_array().into_iter().flatten().rev();
    let last = items.find(|item| item["type"] == "function_call_output");
    last.map(|item| item["output"].clone()).unwrap_or_default()
}

pub(crate) fn render(turn: &Turn) -> Rendered {
    let items: Vec<Value> = message(turn).into_iter().chain(function_call(turn)).collect();
    let mut rest = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let mut begun = item.clone();
        begun["status"] = json!("in_progress");
        rest.push(SseEvent::named(
            "response.output_item.added",
            json!({ "output_index": index, "item": begun }),
        ));
        if let Some(text) = item["content"][0]["text"].as_str() {
            rest.push(SseEvent::named(
                "response.output_text.delta",
                json!({ "item_id": item["id"], "output_index": index, "content_index": 0, "delta": text }),
            ));
        }
        rest.push(SseEvent::named(
            "response.output_item.done",
            json!({ "output_index": index, "item": item }),
        ));
    }
    let completed = json!({ "response": {
        "id": response_id(turn), "object": "response", "status": "completed", "output": items,
        "usage": usage(turn),
    }});
    rest.push(SseEvent::named("response.completed", completed));
    let created = json!({ "response": { "id": response_id(turn) } });
    Rendered::Stream { opening: vec![SseEvent::named("response.created", created)], rest }
}

pub(crate) fn error_event(turn: &Turn, error: &Value) -> SseEvent {
    SseEvent::named(
        "response.failed",
        json!({ "response": { "id": response_id(turn), "error": error } }),
    )
}

fn message(turn: &Turn) -> Option<Value> {
    turn.text.as_ref().map(|text| {
        json!({
            "type": "message", "role": "assistant", "id": format!("msg_{}", turn.id),
            "status": "completed",
            "content": [{ "type": "output_text", "text": text, "annotations": [] }],
        })
    })
}

fn function_call(turn: &Turn) -> Option<Value> {
    turn.call.as_ref().map(|call| {
        json!({
            "type": "function_call", "id": format!("fc_{}", turn.id),
            "call_id": format!("call_{}", turn.id), "name": call.name,
            "arguments": call.input.to_string(), "status": "completed",
        })
    })
}

fn usage(turn: &Turn) -> Value {
    let tokens = turn.tokens;
    json!({
        "input_tokens": tokens.input,
        "input_tokens_details": { "cached_tokens": tokens.cached },
        "output_tokens": tokens.output,
        "output_tokens_details": { "reasoning_tokens": tokens.reasoning },
        "total_tokens": tokens.input + tokens.output,
    })
}

fn response_id(turn: &Turn) -> String {
    format!("resp_{}", turn.id)
}
