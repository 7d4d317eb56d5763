//! The Codex CLI: `codex exec --json`.
//!
//! Its own sandbox cannot work inside Ralph's and prevents commits, so it is disabled. Usage covers the whole thread,
//! including resumed runs. A usage limit is reported in prose, with a local time of day; the session file, which
//! [`rollout`] reads, has it to the second.

use std::collections::HashSet;
use std::fs;

use camino::Utf8PathBuf;
use ralph_model::event::{AgentEvent, ErrorKind};
use ralph_model::run::{ProcessExit, UsageLimit};
use ralph_model::usage::Usage;
use serde::Deserialize;

use super::wire::{
    Count, Ending, Failure, LineHead, Str, Summary, kind_of_status, mentions, read, status_in,
    summary, text_of,
};
use super::{
    Adapter, AgentRequest, DecodeContext, Decoder, EnvLookup, Guarded, Invocation, Traits,
    directory_in, in_home, names, reset, rollout,
};

/// Its data files, as opposed to settings.
const DATA: [&str; 13] = [
    "sessions",
    "archived_sessions",
    "history.jsonl",
    "session_index.jsonl",
    "log",
    "logs",
    "*.sqlite*",
    "auth.json",
    "models_cache.json",
    "version.json",
    "installation_id",
    "internal_storage.json",
    "memories",
];

/// Files that it writes by itself.
const WRITTEN_BY_ITSELF: [&str; 9] = [
    "tmp",
    ".tmp",
    "cache",
    "shell_snapshots",
    "skills/.system",
    "vendor_imports",
    ".personality_migration",
    "ambient-suggestions",
    "thread-writer-locks",
];

pub(super) struct Codex;

impl Adapter for Codex {
    fn name(&self) -> &'static str {
        "codex"
    }

    fn program(&self) -> Option<&'static str> {
        Some("codex")
    }

    fn traits(&self) -> Traits {
        Traits {
            structured: true,
            announces_tools: true,
            compacts: true,
            resumes: true,
            reports_cost: false,
            reasoning: true,
            login: Some("run `codex login`, or set OPENAI_API_KEY"),
        }
    }

    fn invocation(&self, request: &AgentRequest<'_>) -> Invocation {
        let mut invocation = Invocation::default();
        // Every option precedes `resume`: that subcommand accepts only some of them. Ralph's come after the person's,
        // whose last option may take a variable number of values.
        invocation.args.push("exec".to_owned());
        invocation.args.extend_from_slice(request.extra_args);
        for flag in
            ["--json", "--dangerously-bypass-approvals-and-sandbox", "--skip-git-repo-check"]
        {
            invocation.flag(request, flag);
        }
        let has_directory = |arg: &String| arg == "-C" || arg == "--cd" || arg.starts_with("--cd=");
        if !request.extra_args.iter().any(has_directory) {
            invocation.option("-C", request.workspace.as_str());
        }
        // A login shell resets PATH, which removes `ralph` from it.
        if !request.extra_args.iter().any(|arg| arg.contains("allow_login_shell")) {
            invocation.option("-c", "allow_login_shell=false");
        }
        if let Some(model) = request.model {
            invocation.option("-m", model);
        }
        if let Some(reasoning) = request.reasoning {
            invocation.option("-c", &format!("model_reasoning_effort={reasoning:?}"));
        }
        if let Some(session) = request.resume {
            invocation.option("resume", session);
        }
        invocation.args.push("-".to_owned());
        if let Some(state) = request.isolated_state {
            invocation.set("CODEX_HOME", state.as_str());
        }
        invocation
    }

    fn decoder(&self, context: DecodeContext) -> Box<dyn Decoder> {
        Box::new(CodexDecoder {
            context,
            ending: Ending::default(),
            last_message: String::new(),
            open: HashSet::new(),
            told_of_auth: false,
        })
    }

    fn state_paths(&self, env: EnvLookup<'_>) -> Vec<Utf8PathBuf> {
        codex_home(env).into_iter().collect()
    }

    fn variables(&self, _: Option<&str>, args: &[String], env: EnvLookup<'_>) -> Vec<String> {
        let mut list = names(&["CODEX_*", "OPENAI_*"]);
        // A custom provider of the person names the variable with its key.
        let config =
            codex_home(env).map(|home| home.join("config.toml")).filter(|path| path.is_file());
        let config = config.and_then(|path| fs::read_to_string(path).ok());
        for text in config.iter().chain(args) {
            list.extend(text.split("env_key").skip(1).filter_map(|rest| {
                let rest = rest.trim_start().strip_prefix('=')?.trim_start().strip_prefix('"')?;
                rest.split_once('"').map(|(name, _)| name.to_owned())
            }));
        }
        list
    }

    fn guarded_files(&self, env: EnvLookup<'_>) -> Vec<Guarded> {
        let Some(home) = codex_home(env) else { return Vec::new() };
        let guarded = Guarded::directory(home, &DATA, &WRITTEN_BY_ITSELF);
        // It records the directories it worked in.
        vec![guarded.with_quiet_tables(&["projects", "notice"])]
    }

    fn recorded_limit(&self, session: &str, env: EnvLookup<'_>) -> Option<UsageLimit> {
        rollout::recorded_limit(&codex_home(env)?, session)
    }
}

fn codex_home(env: EnvLookup<'_>) -> Option<Utf8PathBuf> {
    directory_in(env, "CODEX_HOME").or_else(|| in_home(env, ".codex"))
}

struct CodexDecoder {
    context: DecodeContext,
    ending: Ending,
    last_message: String,
    open: HashSet<String>,
    told_of_auth: bool,
}

#[derive(Deserialize)]
struct ThreadLine<'a> {
    #[serde(borrow)]
    thread_id: Str<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ItemLine<'a> {
    #[serde(borrow, rename = "type")]
    kind: Str<'a>,
    #[serde(borrow)]
    item: Item<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Item<'a> {
    #[serde(borrow)]
    id: Str<'a>,
    #[serde(borrow, rename = "type")]
    kind: Str<'a>,
    #[serde(borrow)]
    text: Str<'a>,
    #[serde(borrow)]
    status: Str<'a>,
    #[serde(borrow)]
    server: Str<'a>,
    #[serde(borrow)]
    tool: Str<'a>,
    command: Summary,
    changes: Summary,
    query: Summary,
    arguments: Summary,
    prompt: Summary,
    aggregated_output: Summary,
    exit_code: Option<i64>,
}

#[derive(Deserialize)]
struct UsageLine {
    usage: CodexUsage,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CodexUsage {
    /// All input, cached or not.
    #[serde(rename = "input_tokens")]
    input: Count,
    #[serde(rename = "cached_input_tokens")]
    cache_read: Count,
    #[serde(rename = "cache_write_input_tokens")]
    cache_write: Count,
    /// All output, including reasoning.
    #[serde(rename = "output_tokens")]
    output: Count,
}

#[derive(Deserialize)]
struct FailedLine<'a> {
    #[serde(borrow)]
    error: Message<'a>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    message: Str<'a>,
}

impl Decoder for CodexDecoder {
    fn stdout_line(&mut self, line: &[u8], events: &mut Vec<AgentEvent>) {
        let text = text_of(line);
        // Nearly all lines are items: they are parsed in one pass, and the others once their type is known.
        match read::<ItemLine<'_>>(&text) {
            Some(line) if &*line.kind == "item.completed" => {
                return self.item_completed(line.item, events);
            }
            Some(line) if &*line.kind == "item.started" => {
                self.open_tool(&line.item, events);
                return;
            }
            _ => {}
        }
        let Some(head) = read::<LineHead<'_>>(&text) else { return };
        match &*head.kind {
            "thread.started" => {
                if let Some(ThreadLine { thread_id }) = read(&text) {
                    events.push(AgentEvent::Session { id: thread_id.into_owned(), model: None });
                }
            }
            "turn.completed" => {
                if let Some(UsageLine { usage }) = read(&text) {
                    events.push(AgentEvent::Usage { usage: usage.parts(), cumulative: true });
                }
                self.ending.completed(std::mem::take(&mut self.last_message));
            }
            "turn.failed" => {
                if let Some(FailedLine { error }) = read(&text) {
                    self.failed(&error.message);
                }
            }
            "error" => {
                if let Some(Message { message }) = read(&text) {
                    self.error(&message, events);
                }
            }
            _ => {}
        }
    }

    fn stderr_line(&mut self, line: &[u8], _: &mut Vec<AgentEvent>) {
        let line = text_of(line);
        if line.contains("no rollout found for thread id") {
            let message = summary(&line);
            self.ending.failed(Failure {
                kind: ErrorKind::UnknownSession,
                message,
                resets_at: None,
            });
        }
        self.ending.stderr(&line);
    }

    fn finish(&mut self, exit: Option<ProcessExit>, events: &mut Vec<AgentEvent>) {
        self.ending.tell(exit, events);
    }
}

impl CodexDecoder {
    /// Reports a tool call, unless the item is none or was reported already.
    fn open_tool(&mut self, item: &Item<'_>, events: &mut Vec<AgentEvent>) -> bool {
        let (name, summary) = match &*item.kind {
            "command_execution" => ("shell".to_owned(), &item.command),
            "file_change" => ("edit".to_owned(), &item.changes),
            "web_search" => ("web_search".to_owned(), &item.query),
            "mcp_tool_call" => (format!("{}/{}", &*item.server, &*item.tool), &item.arguments),
            "collab_tool_call" => (item.tool.to_string(), &item.prompt),
            _ => return false,
        };
        if self.open.insert(item.id.to_string()) {
            let summary = summary.0.clone();
            events.push(AgentEvent::ToolCall { id: item.id.to_string(), name, summary });
        }
        true
    }

    /// An item of type `error` is a warning: the turn continues.
    fn item_completed(&mut self, item: Item<'_>, events: &mut Vec<AgentEvent>) {
        if &*item.kind == "agent_message" {
            self.last_message = item.text.into_owned();
            events.push(AgentEvent::Text { text: self.last_message.clone() });
        } else if self.open_tool(&item, events) {
            let id = item.id.into_owned();
            self.open.remove(&id);
            let ok = !matches!(&*item.status, "failed" | "declined")
                && item.exit_code.is_none_or(|code| code == 0);
            events.push(AgentEvent::ToolResult { id, ok, summary: item.aggregated_output.0 });
        }
    }

    fn error(&mut self, message: &str, events: &mut Vec<AgentEvent>) {
        if !message.starts_with("Reconnecting") {
            return self.failed(message);
        }
        let status = status_in(message);
        events.push(AgentEvent::Retry { status, message: message.to_owned() });
        if matches!(status, Some(401 | 403)) && !self.told_of_auth {
            self.told_of_auth = true;
            let message = message.to_owned();
            events.push(AgentEvent::Error { kind: ErrorKind::Auth, message, fatal: true });
        }
    }

    fn failed(&mut self, message: &str) {
        let kind = kind_of(message);
        let resets_at = match kind {
            ErrorKind::UsageLimit => reset::reset_time(message, &self.context),
            _ => None,
        };
        self.ending.failed(Failure { kind, message: message.to_owned(), resets_at });
    }
}

impl CodexUsage {
    fn parts(&self) -> Usage {
        let (read, write) = (self.cache_read.0, self.cache_write.0);
        Usage {
            input: self.input.0.saturating_sub(read.saturating_add(write)),
            cache_read: read,
            cache_write: write,
            output: self.output.0,
        }
    }
}

/// Classifies a failure by its message. Codex reports most of them in prose only.
fn kind_of(message: &str) -> ErrorKind {
    let plain = message.replace('\u{2019}', "'");
    let told: [(&[&str], ErrorKind); 4] = [
        (&["hit your usage limit", "usage_limit_reached"], ErrorKind::UsageLimit),
        (&["quota exceeded", "insufficient_quota", "billing"], ErrorKind::Billing),
        (&["ran out of room", "context window", "context_length"], ErrorKind::Context),
        (&["log in again", "sign in again", "not logged in"], ErrorKind::Auth),
    ];
    if let Some((_, kind)) = told.into_iter().find(|(phrases, _)| mentions(&plain, phrases)) {
        return kind;
    }
    if let Some(kind) = status_in(&plain).and_then(|status| kind_of_status(status.into())) {
        return kind;
    }
    let guessed: [(&[&str], ErrorKind); 3] = [
        (&["high demand", "overloaded", "server error", "server_error"], ErrorKind::Server),
        (&["rate limit"], ErrorKind::UsageLimit),
        (
            &["stream disconnected", "connection", "error sending request", "network", "timed out"],
            ErrorKind::Network,
        ),
    ];
    let guess = guessed.into_iter().find(|(phrases, _)| mentions(&plain, phrases));
    guess.map_or(ErrorKind::Other, |(_, kind)| kind)
}

#[cfg(test)]
#[path = "codex_tests.rs"]
mod tests;
