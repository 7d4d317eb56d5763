//! Gemini CLI: `gemini --output-format stream-json`.
//!
//! It echoes the prompt, prints the answer in pieces, reports retries on stderr only, and loses the end of its stdout
//! after large tool output: a stream without a result is not a success, whatever the exit code. There is no option for
//! the reasoning effort, so a requested one is ignored.

use camino::Utf8PathBuf;
use ralph_model::event::{AgentEvent, ErrorKind};
use ralph_model::run::ProcessExit;
use ralph_model::usage::Usage;
use serde::Deserialize;

use super::wire::{
    Count, Ending, Failure, Str, Summary, kind_of_status, mentions, read, status_in, summary,
    text_of,
};
use super::{
    Adapter, AgentRequest, DecodeContext, Decoder, EnvLookup, Guarded, Invocation, Traits,
    directory_in, in_home, names, reset,
};

/// Its data files, as opposed to settings.
const DATA: [&str; 22] = [
    "tmp/*/chats",
    "tmp/*/logs.json",
    "tmp/*/logs",
    "tmp/*/checkpoints",
    "tmp/*/tool-outputs",
    "tmp/*/shell_history",
    "tmp/*/.project_root",
    // Repositories with snapshots of work trees. Their settings and hooks are not data: git executes what these name.
    "history/*/.git/COMMIT_EDITMSG",
    "history/*/.git/HEAD",
    "history/*/.git/description",
    "history/*/.git/index",
    "history/*/.git/info",
    "history/*/.git/logs",
    "history/*/.git/objects",
    "history/*/.git/refs",
    "history/*/.project_root",
    "logs",
    "google_accounts.json",
    "oauth_creds.json",
    "installation_id",
    "user_id",
    "projects.json*",
];

/// Files that it writes by itself.
const WRITTEN_BY_ITSELF: [&str; 5] = ["tmp", "state.json", "cache", "*.lock", "settings.json.orig"];

/// The exit code if no login method is configured.
const EXIT_AUTH: i32 = 41;

pub(super) struct Gemini;

impl Adapter for Gemini {
    fn name(&self) -> &'static str {
        "gemini"
    }

    fn program(&self) -> Option<&'static str> {
        Some("gemini")
    }

    fn traits(&self) -> Traits {
        Traits {
            structured: true,
            announces_tools: true,
            compacts: true,
            resumes: true,
            reports_cost: false,
            reasoning: false,
            login: Some("start `gemini` and log in, or set GEMINI_API_KEY"),
        }
    }

    fn invocation(&self, request: &AgentRequest<'_>) -> Invocation {
        let mut invocation = Invocation::default();
        invocation.option("--output-format", "stream-json");
        invocation.option("--approval-mode", "yolo");
        invocation.flag(request, "--skip-trust");
        if let Some(model) = request.model {
            invocation.option("-m", model);
        }
        if let Some(session) = request.resume {
            invocation.option("--resume", session);
        }
        invocation.args.extend_from_slice(request.extra_args);
        // Otherwise it restarts itself to get more memory, which costs a second.
        invocation.set("GEMINI_CLI_NO_RELAUNCH", "true");
        if let Some(state) = request.isolated_state {
            invocation.set("GEMINI_CLI_HOME", state.as_str());
        }
        invocation
    }

    fn decoder(&self, context: DecodeContext) -> Box<dyn Decoder> {
        Box::new(GeminiDecoder {
            context,
            ending: Ending::default(),
            since_tool: String::new(),
            piece: String::new(),
            told_of_auth: false,
        })
    }

    fn guarded_files(&self, env: EnvLookup<'_>) -> Vec<Guarded> {
        let homes = self.state_paths(env).into_iter();
        homes.map(|home| Guarded::directory(home, &DATA, &WRITTEN_BY_ITSELF)).collect()
    }

    fn variables(&self, _: Option<&str>, _: &[String], _: EnvLookup<'_>) -> Vec<String> {
        names(&["GEMINI_*", "GOOGLE_*"])
    }

    fn state_paths(&self, env: EnvLookup<'_>) -> Vec<Utf8PathBuf> {
        let home = directory_in(env, "GEMINI_CLI_HOME").map(|home| home.join(".gemini"));
        home.or_else(|| in_home(env, ".gemini")).into_iter().collect()
    }
}

struct GeminiDecoder {
    context: DecodeContext,
    ending: Ending,
    /// The text since the last tool result: the final message, if nothing follows.
    since_tool: String,
    /// The part of it not reported as text yet.
    piece: String,
    told_of_auth: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct InitLine<'a> {
    #[serde(borrow)]
    session_id: Str<'a>,
    #[serde(borrow)]
    model: Str<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct MessageLine<'a> {
    #[serde(borrow, rename = "type")]
    kind: Str<'a>,
    #[serde(borrow)]
    role: Str<'a>,
    #[serde(borrow)]
    content: Str<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ToolUseLine<'a> {
    #[serde(borrow)]
    tool_id: Str<'a>,
    #[serde(borrow)]
    tool_name: Str<'a>,
    parameters: Summary,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ToolResultLine<'a> {
    #[serde(borrow)]
    tool_id: Str<'a>,
    #[serde(borrow)]
    status: Str<'a>,
    output: Summary,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ResultLine<'a> {
    #[serde(borrow)]
    status: Str<'a>,
    #[serde(borrow)]
    error: Option<ErrorNote<'a>>,
    stats: Option<Stats>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ErrorNote<'a> {
    #[serde(borrow)]
    message: Str<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Stats {
    total_tokens: Count,
    /// All input, cached or not.
    input_tokens: Count,
    output_tokens: Count,
    cached: Count,
}

impl Decoder for GeminiDecoder {
    fn stdout_line(&mut self, line: &[u8], events: &mut Vec<AgentEvent>) {
        let text = text_of(line);
        let Some(line) = read::<MessageLine<'_>>(&text) else { return };
        match &*line.kind {
            "message" if &*line.role == "assistant" => {
                self.since_tool.push_str(&line.content);
                self.piece.push_str(&line.content);
            }
            "init" => {
                if let Some(InitLine { session_id, model }) = read(&text) {
                    let model = (!model.is_empty()).then(|| model.into_owned());
                    events.push(AgentEvent::Session { id: session_id.into_owned(), model });
                }
            }
            "tool_use" => {
                self.tell_piece(events);
                if let Some(ToolUseLine { tool_id, tool_name, parameters }) = read(&text) {
                    events.push(AgentEvent::ToolCall {
                        id: tool_id.into_owned(),
                        name: tool_name.into_owned(),
                        summary: parameters.0,
                    });
                }
            }
            "tool_result" => {
                self.tell_piece(events);
                self.since_tool.clear();
                if let Some(ToolResultLine { tool_id, status, output }) = read(&text) {
                    let (id, ok) = (tool_id.into_owned(), &*status == "success");
                    events.push(AgentEvent::ToolResult { id, ok, summary: output.0 });
                }
            }
            "result" => {
                self.tell_piece(events);
                if let Some(line) = read(&text) {
                    self.result(&line, events);
                }
            }
            _ => {}
        }
    }

    fn stderr_line(&mut self, line: &[u8], events: &mut Vec<AgentEvent>) {
        let line = text_of(line);
        if line.starts_with("Error resuming session") {
            let (kind, message) = (ErrorKind::UnknownSession, summary(&line));
            self.ending.failed(Failure { kind, message, resets_at: None });
        } else if line.starts_with("Attempt ") && line.contains(" failed") {
            self.retry(&line, events);
        }
        // Only stack frames of an exception are indented, and they are useless.
        if !line.starts_with(' ') {
            self.ending.stderr(&line);
        }
    }

    fn finish(&mut self, exit: Option<ProcessExit>, events: &mut Vec<AgentEvent>) {
        self.tell_piece(events);
        let first = events.len();
        self.ending.tell(exit, events);
        if exit == Some(ProcessExit::Code(EXIT_AUTH)) {
            for event in &mut events[first..] {
                if let AgentEvent::Error { kind: kind @ ErrorKind::Other, .. } = event {
                    *kind = ErrorKind::Auth;
                }
            }
        }
    }
}

impl GeminiDecoder {
    /// Reports the pieces since the last event as one text.
    fn tell_piece(&mut self, events: &mut Vec<AgentEvent>) {
        if !self.piece.is_empty() {
            events.push(AgentEvent::Text { text: std::mem::take(&mut self.piece) });
        }
    }

    fn retry(&mut self, line: &str, events: &mut Vec<AgentEvent>) {
        let is_limit = mentions(line, &["exhausted", "quota"]);
        let status = status_in(line).or(is_limit.then_some(429));
        events.push(AgentEvent::Retry { status, message: summary(line) });
        if matches!(status, Some(401 | 403)) && !self.told_of_auth {
            self.told_of_auth = true;
            let (kind, message) = (ErrorKind::Auth, summary(line));
            events.push(AgentEvent::Error { kind, message, fatal: true });
        }
    }

    fn result(&mut self, line: &ResultLine<'_>, events: &mut Vec<AgentEvent>) {
        if let Some(stats) = &line.stats {
            events.push(AgentEvent::Usage { usage: stats.parts(), cumulative: false });
        }
        if &*line.status == "success" {
            self.ending.completed(std::mem::take(&mut self.since_tool));
            return;
        }
        let message = line.error.as_ref().map_or("", |error| &error.message);
        let kind = kind_of(message);
        let resets_at = match kind {
            ErrorKind::UsageLimit => reset::reset_time(message, &self.context),
            _ => None,
        };
        self.ending.failed(Failure { kind, message: message.to_owned(), resets_at });
    }
}

impl Stats {
    /// The model's thoughts are included only in the total.
    fn parts(&self) -> Usage {
        let written = self.total_tokens.0.saturating_sub(self.input_tokens.0);
        Usage {
            input: self.input_tokens.0.saturating_sub(self.cached.0),
            cache_read: self.cached.0,
            cache_write: 0,
            output: self.output_tokens.0.max(written),
        }
    }
}

/// Node.js's messages for an unreachable or lost server: `terminated` is a truncated stream.
const NETWORK: [&str; 7] = [
    "fetch failed",
    "econnrefused",
    "econnreset",
    "etimedout",
    "enotfound",
    "socket hang up",
    "error: terminated",
];

/// Classifies a failure by its message: the CLI's prose, or the provider's JSON inside it.
fn kind_of(message: &str) -> ErrorKind {
    let told: [(&[&str], ErrorKind); 6] = [
        (&["api key not valid", "api_key_invalid", "unauthenticated"], ErrorKind::Auth),
        (&["quota", "resource has been exhausted", "resource_exhausted"], ErrorKind::UsageLimit),
        (&["billing"], ErrorKind::Billing),
        (&["token count exceeds", "context window"], ErrorKind::Context),
        (&NETWORK, ErrorKind::Network),
        (&["overloaded", "internal error", "unavailable"], ErrorKind::Server),
    ];
    let guess = told.into_iter().find(|(phrases, _)| mentions(message, phrases));
    guess.map(|(_, kind)| kind).or_else(|| kind_of_code(message)).unwrap_or(ErrorKind::Other)
}

fn kind_of_code(message: &str) -> Option<ErrorKind> {
    let (_, rest) = message.split_once("\"code\":")?;
    kind_of_status(rest.get(..3)?.parse().ok()?)
}

#[cfg(test)]
#[path = "gemini_tests.rs"]
mod tests;
