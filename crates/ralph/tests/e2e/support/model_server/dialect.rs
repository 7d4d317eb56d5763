//! The four wire dialects: their paths, the tools a request offers, and rendering a turn.
//!
//! Rendering is pure. Truncating or corrupting a stream is up to the connection, so a rendered turn has two parts: the
//! start of the stream and its completion.

use serde_json::Value;

use super::script::Tokens;
use super::tools::{Offer, ToolCall};
use super::{anthropic, gemini, openai_chat, openai_responses};

/// A vendor's protocol for talking to a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    OpenAiResponses,
    Anthropic,
    OpenAiChat,
    Gemini,
}

/// One turn of the model, independent of the dialect.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    /// Unique among all turns of all servers of this process, because a resumed session contains turns of two servers.
    pub(crate) id: String,
    pub(crate) text: Option<String>,
    pub(crate) call: Option<ToolCall>,
    pub(crate) tokens: Tokens,
}

/// One server-sent event.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SseEvent {
    pub(crate) name: Option<&'static str>,
    pub(crate) data: String,
}

impl SseEvent {
    /// Creates an event named by the `type` of its data, as two of the vendors do.
    pub(crate) fn named(name: &'static str, mut data: Value) -> Self {
        data["type"] = Value::from(name);
        SseEvent { name: Some(name), data: data.to_string() }
    }

    pub(crate) fn unnamed(data: &Value) -> Self {
        SseEvent { name: None, data: data.to_string() }
    }

    pub(crate) fn render(&self) -> String {
        let name = self.name.map(|name| format!("event: {name}\n")).unwrap_or_default();
        format!("{name}data: {}\n\n", self.data)
    }
}

/// A turn in its dialect.
#[derive(Clone, Debug)]
pub(crate) enum Rendered {
    Whole(Value),
    Stream { opening: Vec<SseEvent>, rest: Vec<SseEvent> },
}

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A turn of the conversation: it offers tools and consumes a step.
    Main,
    /// A title, a summary, a probe: no tools, answered outside the script.
    Aux,
    /// Asks for the number of tokens of a text.
    CountTokens,
    /// Asks for the list of models.
    Models,
    /// A connectivity check.
    Head,
    /// Requests a web socket, which is refused.
    Upgrade,
    /// Anything else, refused.
    Unknown,
}

impl Dialect {
    /// Returns the dialect of a POST to `path` (without its query), and whether it requests a turn or a count.
    pub(crate) fn of_post(path: &str) -> Option<(Dialect, Kind)> {
        let endings = [
            ("/responses", Dialect::OpenAiResponses, Kind::Main),
            ("/messages", Dialect::Anthropic, Kind::Main),
            ("/messages/count_tokens", Dialect::Anthropic, Kind::CountTokens),
            ("/chat/completions", Dialect::OpenAiChat, Kind::Main),
            (":streamGenerateContent", Dialect::Gemini, Kind::Main),
            (":generateContent", Dialect::Gemini, Kind::Main),
            (":countTokens", Dialect::Gemini, Kind::CountTokens),
        ];
        endings
            .into_iter()
            .find(|(ending, ..)| path.ends_with(ending))
            .map(|(_, dialect, kind)| (dialect, kind))
    }

    /// Returns the tools offered by a request.
    pub(crate) fn offer(self, request: &Value) -> Offer {
        match self {
            Dialect::OpenAiResponses => openai_responses::offer(request),
            Dialect::Anthropic => anthropic::offer(request),
            Dialect::OpenAiChat => openai_chat::offer(request),
            Dialect::Gemini => gemini::offer(request),
        }
    }

    /// Returns the result of the last tool call in the request; null if there is none yet.
    pub(crate) fn last_result(self, request: &Value) -> Value {
        match self {
            Dialect::OpenAiResponses => openai_responses::last_result(request),
            Dialect::Anthropic => anthropic::last_result(request),
            Dialect::OpenAiChat => openai_chat::last_result(request),
            Dialect::Gemini => gemini::last_result(request),
        }
    }

    /// Returns `turn` as the response to `request`.
    pub(crate) fn render(self, turn: &Turn, path: &str, request: &Value) -> Rendered {
        match self {
            Dialect::OpenAiResponses => openai_responses::render(turn),
            Dialect::Anthropic => anthropic::render(turn, request),
            Dialect::OpenAiChat => openai_chat::render(turn, request),
            Dialect::Gemini => gemini::render(turn, path, request),
        }
    }

    /// Returns the event that reports `error` inside a stream.
    pub(crate) fn error_event(self, turn: &Turn, error: &Value) -> SseEvent {
        match self {
            Dialect::OpenAiResponses => openai_responses::error_event(turn, error),
            Dialect::Anthropic => anthropic::error_event(error),
            Dialect::OpenAiChat | Dialect::Gemini => {
                SseEvent::unnamed(&serde_json::json!({ "error": error }))
            }
        }
    }

    /// Returns the response to a token count request.
    pub(crate) fn token_count(self) -> Value {
        match self {
            Dialect::Gemini => serde_json::json!({ "totalTokens": 100 }),
            Dialect::OpenAiResponses | Dialect::Anthropic | Dialect::OpenAiChat => {
                serde_json::json!({ "input_tokens": 100 })
            }
        }
    }
}
