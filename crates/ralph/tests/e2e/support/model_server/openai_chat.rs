//! The chat-completions dialect, used by opencode with providers of its `openai-compatible` kind.

use serde_json::{Value, json};

use super::dialect::{Rendered, SseEvent, Turn};
use super::tools::Offer;

pub(crate) fn offer(request: &Value) -> Offer {
    let mut offer = Offer::new();
    for tool in request["tools"].as_array().into_iter().flatten() {
        if let Some(name) = tool["function"]["name"].as_str() {
            offer.insert(name.to_owned(), tool["function"]["parameters"].clone());
        }
    }
    offer
}

pub(crate) fn last_result(request: &Value) -> Value {
    let mut messages = request["messages"].as_array().into_iter().flatten().rev();
    let last = messages.find(|message| message["role"] == "tool");
    last.map(|message| message["content"].clone()).unwrap_or_default()
}

pub(crate) fn render(turn: &Turn, request: &Value) -> Rendered {
    let calls: Vec<Value> = turn
        .call
        .iter()
        .map(|call| {
            json!({
                "index": 0, "id": format!("call_{}", turn.id), "type": "function",
                "function": { "name": call.name, "arguments": call.input.to_string() },
            })
        })
        .collect();
    let finish = if calls.is_empty() { "stop" } else { "tool_calls" };
    if request["stream"] != json!(true) {
        let mut message = json!({ "role": "assistant", "content": turn.text });
        if !calls.is_empty() {
            message["tool_calls"] = json!(calls);
        }
        let mut whole = envelope(turn, request, "chat.completion");
        whole["choices"] = json!([{ "index": 0, "message": message, "finish_reason": finish }]);
        whole["usage"] = usage(turn);
        return Rendered::Whole(whole);
    }

    let chunk = |delta: Value, finish_reason: Option<&str>| {
        let mut chunk = envelope(turn, request, "chat.completion.chunk");
        chunk["choices"] = json!([{ "index": 0, "delta": delta, "finish_reason": finish_reason }]);
        SseEvent::unnamed(&chunk)
    };
    let opening = vec![chunk(json!({ "role": "assistant", "content": "" }), None)];
    let mut rest = Vec::new();
    if let Some(text) = &turn.text {
        rest.push(chunk(json!({ "content": text }), None));
    }
    if !calls.is_empty() {
        rest.push(chunk(json!({ "tool_calls": calls }), None));
    }
    rest.push(chunk(json!({}), Some(finish)));
    let mut last = envelope(turn, request, "chat.completion.chunk");
    last["choices"] = json!([]);
    last["usage"] = usage(turn);
    rest.push(SseEvent::unnamed(&last));
    rest.push(SseEvent { name: None, data: "[DONE]".to_owned() });
    Rendered::Stream { opening, rest }
}

fn envelope(turn: &Turn, request: &Value, object: &str) -> Value {
    json!({
        "id": format!("chatcmpl-{}", turn.id), "object": object, "created": 0,
        "model": request["model"],
    })
}

fn usage(turn: &Turn) -> Value {
    let tokens = turn.tokens;
    json!({
        "prompt_tokens": tokens.input,
        "completion_tokens": tokens.output,
        "total_tokens": tokens.input + tokens.output,
        "prompt_tokens_details": { "cached_tokens": tokens.cached },
        "completion_tokens_details": { "reasoning_tokens": tokens.reasoning },
    })
}
