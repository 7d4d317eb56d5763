//! Anthropic's Messages dialect, used by Claude Code; a stream, or one document after a truncated stream.

use serde_json::{Value, json};

use super::dialect::{Rendered, SseEvent, Turn};
use super::tools::Offer;

pub(crate) fn offer(request: &Value) -> Offer {
    let mut offer = Offer::new();
    for tool in request["tools"].as_array().into_iter().flatten() {
        if let Some(name) = tool["name"].as_str() {
            offer.insert(name.to_owned(), tool["input_schema"].clone());
        }
    }
    offer
}

pub(crate) fn last_result(request: &Value) -> Value {
    let messages = request["messages"].as_array().into_iter().flatten();
    let mut blocks =
        messages.flat_map(|message| message["content"].as_array().into_iter().flatten());
    let last = blocks.rfind(|block| block["type"] == "tool_result");
    last.map(|block| block["content"].clone()).unwrap_or_default()
}

pub(crate) fn render(turn: &Turn, request: &Value) -> Rendered {
    let blocks = blocks(turn);
    let stop = if turn.call.is_some() { "tool_use" } else { "end_turn" };
    let message = json!({
        "id": format!("msg_{}", turn.id), "type": "message", "role": "assistant",
        "model": request["model"], "content": blocks, "stop_reason": stop,
        "stop_sequence": null, "usage": usage(turn),
    });
    if request["stream"] != json!(true) {
        return Rendered::Whole(message);
    }
    let mut begun = message;
    begun["content"] = json!([]);
    begun["stop_reason"] = Value::Null;
    begun["usage"]["output_tokens"] = json!(1);
    let opening = vec![SseEvent::named("message_start", json!({ "message": begun }))];

    let mut rest = Vec::new();
    for (index, block) in blocks.iter().enumerate() {
        let mut empty = block.clone();
        let delta = if block["type"] == "text" {
            empty["text"] = json!("");
            json!({ "type": "text_delta", "text": block["text"] })
        } else {
            empty["input"] = json!({});
            json!({ "type": "input_json_delta", "partial_json": block["input"].to_string() })
        };
        rest.push(SseEvent::named(
            "content_block_start",
            json!({ "index": index, "content_block": empty }),
        ));
        rest.push(SseEvent::named(
            "content_block_delta",
            json!({ "index": index, "delta": delta }),
        ));
        rest.push(SseEvent::named("content_block_stop", json!({ "index": index })));
    }
    let end =
        json!({ "delta": { "stop_reason": stop, "stop_sequence": null }, "usage": usage(turn) });
    rest.push(SseEvent::named("message_delta", end));
    rest.push(SseEvent::named("message_stop", json!({})));
    Rendered::Stream { opening, rest }
}

pub(crate) fn error_event(error: &Value) -> SseEvent {
    SseEvent::named("error", json!({ "error": error }))
}

fn blocks(turn: &Turn) -> Vec<Value> {
    let text = turn.text.as_ref().map(|text| json!({ "type": "text", "text": text }));
    let call = turn.call.as_ref().map(|call| {
        json!({
            "type": "tool_use", "id": format!("toolu_{}", turn.id), "name": call.name,
            "input": call.input,
        })
    });
    text.into_iter().chain(call).collect()
}

fn usage(turn: &Turn) -> Value {
    let tokens = turn.tokens;
    json!({
        "input_tokens": tokens.input - tokens.cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": tokens.cached,
        "output_tokens": tokens.output,
    })
}
