//! Claude Code: `claude -p --output-format stream-json`.
//!
//! Its results have `"subtype":"success"` for errors too, so only `is_error` counts, and it exits with 0 after an
//! interrupt. Messages of the model `<synthetic>` are the CLI's own error texts. Newer and older versions report the
//! usage of a resumed run in different places.

mod lines;

use camino::Utf8PathBuf;
use ralph_model::event::{AgentEvent, ErrorKind};
use ralph_model::run::ProcessExit;
use ralph_model::usage::Usage;

use self::lines::{InitLine, LimitLine, MessageLine, ResultLine, RetryLine};
use super::wire::{Ending, Failure, LineHead, kind_of_status, mentions, read, text_of};
use super::{
    Adapter, AgentRequest, DecodeContext, Decoder, EnvLookup, Guarded, Invocation, Traits,
    directory_in, in_home, names, reset,
};

/// Its data files, as opposed to settings.
const DATA: [&str; 20] = [
    "projects",
    "todos",
    "tasks",
    "sessions",
    "history.jsonl",
    "file-history",
    "statsig",
    "telemetry",
    "usage-data",
    "stats-cache.json",
    "logs",
    "debug",
    "paste-cache",
    "image-cache",
    "plans",
    "teams",
    ".credentials.json",
    ".claude.json.*",
    "*.lock",
    "ide",
];

/// Files that it writes by itself.
const WRITTEN_BY_ITSELF: [&str; 9] = [
    // Scripts that its shells read when a session goes on.
    "session-env",
    "shell-snapshots",
    "backups",
    "cache",
    "downloads",
    "plugins/installed_plugins.json",
    "plugins/known_marketplaces.json",
    "plugins/config.json",
    "plugins/blocklist.json",
];

/// What in its file of data names a program, or lets one of a repository run without a question.
const GUARDED_KEYS: [&str; 11] = [
    "apiKeyHelper",
    "bypassPermissionsModeAccepted",
    "env",
    "hooks",
    "mcpServers",
    "projects.*.allowedTools",
    "projects.*.enableAllProjectMcpServers",
    "projects.*.enabledMcpjsonServers",
    "projects.*.hasClaudeMdExternalIncludesApproved",
    "projects.*.hasTrustDialogAccepted",
    "projects.*.mcpServers",
];

pub(super) struct Claude;

impl Adapter for Claude {
    fn name(&self) -> &'static str {
        "claude"
    }

    fn program(&self) -> Option<&'static str> {
        Some("claude")
    }

    fn traits(&self) -> Traits {
        Traits {
            structured: true,
            announces_tools: true,
            compacts: true,
            resumes: true,
            reports_cost: true,
            reasoning: true,
            login: Some("start `claude` and log in with `/login`, or set ANTHROPIC_API_KEY"),
        }
    }

    fn invocation(&self, request: &AgentRequest<'_>) -> Invocation {
        invocation(request, rustix::process::geteuid().is_root())
    }

    fn decoder(&self, context: DecodeContext) -> Box<dyn Decoder> {
        Box::new(ClaudeDecoder {
            context,
            ending: Ending::default(),
            model: String::new(),
            has_key: false,
            told_of_auth: false,
            knows_reset: false,
            failure_named: String::new(),
            usage: Usage::default(),
            cost: 0.0,
            context_used: 0,
            unsettled: Usage::default(),
            last_message_id: String::new(),
        })
    }

    fn variables(&self, _: Option<&str>, _: &[String], env: EnvLookup<'_>) -> Vec<String> {
        let mut list = names(&[
            "ANTHROPIC_*",
            "CLAUDE_*",
            "IS_SANDBOX",
            "DISABLE_*",
            "MAX_THINKING_TOKENS",
            "MCP_*",
            "BASH_DEFAULT_TIMEOUT_MS",
            "BASH_MAX_TIMEOUT_MS",
        ]);
        for (switch, provider) in [
            ("CLAUDE_CODE_USE_BEDROCK", &["AWS_*"][..]),
            ("CLAUDE_CODE_USE_VERTEX", &["GOOGLE_*", "CLOUD_ML_REGION", "VERTEX_*"]),
        ] {
            if env(switch).is_some() {
                list.extend(names(provider));
            }
        }
        list
    }

    fn guarded_files(&self, env: EnvLookup<'_>) -> Vec<Guarded> {
        let own = directory_in(env, "CLAUDE_CONFIG_DIR");
        let Some(home) = own.clone().or_else(|| in_home(env, ".claude")) else {
            return Vec::new();
        };
        // It counts its own starts in the file that lists its servers.
        let file = own.map(|own| own.join(".claude.json")).or_else(|| in_home(env, ".claude.json"));
        let file = file.map(|file| Guarded::keys(file, &GUARDED_KEYS));
        // The file comes first: the first of two entries for the same path counts.
        let home = Guarded::directory(home, &DATA, &WRITTEN_BY_ITSELF);
        file.into_iter().chain([home]).collect()
    }

    fn state_paths(&self, env: EnvLookup<'_>) -> Vec<Utf8PathBuf> {
        // The file next to the directory is rewritten in place if files cannot be created there.
        match directory_in(env, "CLAUDE_CONFIG_DIR") {
            Some(directory) => vec![directory],
            None => {
                in_home(env, ".claude").into_iter().chain(in_home(env, ".claude.json")).collect()
            }
        }
    }
}

fn invocation(request: &AgentRequest<'_>, is_root: bool) -> Invocation {
    let mut invocation = Invocation::default();
    invocation.args.push("-p".to_owned());
    invocation.option("--output-format", "stream-json");
    invocation.flag(request, "--verbose");
    invocation.flag(request, "--dangerously-skip-permissions");
    if let Some(model) = request.model {
        invocation.option("--model", model);
    }
    if let Some(reasoning) = request.reasoning {
        invocation.option("--effort", reasoning);
    }
    if let Some(session) = request.resume {
        invocation.option("--resume", session);
    }
    invocation.args.extend_from_slice(request.extra_args);
    if is_root {
        // As root it refuses to work without prompts unless it is confined, which Ralph ensures.
        invocation.set("IS_SANDBOX", "1");
    }
    if let Some(state) = request.isolated_state {
        invocation.set("CLAUDE_CONFIG_DIR", state.as_str());
    }
    invocation
}

struct ClaudeDecoder {
    context: DecodeContext,
    ending: Ending,
    /// The model of the last message, which determines the context window.
    model: String,
    /// Whether it uses an API key rather than a renewable login.
    has_key: bool,
    told_of_auth: bool,
    /// Whether the reset time was given to the second; the message truncates it to the minute.
    knows_reset: bool,
    /// The CLI's own name of the error, from its synthetic message.
    failure_named: String,
    /// The totals of the results so far: each turn caused by a background task has another one.
    usage: Usage,
    cost: f64,
    context_used: u64,
    /// The minimum usage since the last result, for a run that ends without one.
    unsettled: Usage,
    last_message_id: String,
}

impl Decoder for ClaudeDecoder {
    fn stdout_line(&mut self, line: &[u8], events: &mut Vec<AgentEvent>) {
        let text = text_of(line);
        // Nearly all lines are messages: they are parsed in one pass, and the others once their type is known.
        match read::<MessageLine<'_>>(&text) {
            Some(line) if &*line.kind == "assistant" => return self.assistant(line, events),
            Some(line) if &*line.kind == "user" => return tool_results(line, events),
            _ => {}
        }
        let Some(head) = read::<LineHead<'_>>(&text) else { return };
        match (&*head.kind, &*head.subtype) {
            ("system", "init") => {
                if let Some(line) = read(&text) {
                    self.init(line, events);
                }
            }
            ("system", "api_retry") => {
                if let Some(line) = read(&text) {
                    self.retry(&line, events);
                }
            }
            ("rate_limit_event", _) => {
                if let Some(LimitLine { rate_limit_info }) = read(&text) {
                    let event = rate_limit_info.event();
                    self.knows_reset |=
                        matches!(event, Some(AgentEvent::RateLimit { resets_at: Some(_), .. }));
                    events.extend(event);
                }
            }
            ("result", _) => {
                if let Some(line) = read(&text) {
                    self.result(line, events);
                }
            }
            _ => {}
        }
    }

    fn stderr_line(&mut self, line: &[u8], _: &mut Vec<AgentEvent>) {
        self.ending.stderr(&text_of(line));
    }

    fn finish(&mut self, exit: Option<ProcessExit>, events: &mut Vec<AgentEvent>) {
        if self.unsettled != Usage::default() {
            self.usage += self.unsettled;
            events.push(AgentEvent::Usage { usage: self.usage, cumulative: false });
        }
        self.ending.tell(exit, events);
    }
}

impl ClaudeDecoder {
    fn init(&mut self, line: InitLine<'_>, events: &mut Vec<AgentEvent>) {
        self.has_key = !matches!(&*line.api_key_source, "" | "none");
        self.model = line.model.into_owned();
        let model = (!self.model.is_empty()).then(|| self.model.clone());
        events.push(AgentEvent::Session { id: line.session_id.into_owned(), model });
    }

    /// A refused API key stays refused, although the CLI keeps trying for minutes. A login is renewed after its first
    /// refusal, so there the second one counts.
    fn retry(&mut self, line: &RetryLine<'_>, events: &mut Vec<AgentEvent>) {
        let status = u16::try_from(line.error_status.0).ok().filter(|status| *status > 0);
        let message = line.error.to_string();
        events.push(AgentEvent::Retry { status, message: message.clone() });
        let is_refused = matches!(status, Some(401 | 403)) && (self.has_key || line.attempt.0 > 1);
        if is_refused && !self.told_of_auth {
            self.told_of_auth = true;
            events.push(AgentEvent::Error { kind: ErrorKind::Auth, message, fatal: true });
        }
    }

    fn assistant(&mut self, line: MessageLine<'_>, events: &mut Vec<AgentEvent>) {
        let message = line.message;
        if &*message.model == "<synthetic>" {
            let text: Vec<&str> = message.content.iter().map(|block| &*block.text).collect();
            if !line.error.is_empty() {
                self.failure_named = line.error.to_string();
                self.fail(0, text.join("\n"));
            }
            return;
        }
        let is_main = line.parent_tool_use_id.is_empty();
        // There is one line per content block of a message, and each repeats the usage of the whole.
        if *message.id != *self.last_message_id {
            self.last_message_id = message.id.into_owned();
            self.unsettled += message.usage.parts();
        }
        for block in message.content {
            match &*block.kind {
                "text" if is_main => {
                    events.push(AgentEvent::Text { text: block.text.into_owned() });
                }
                "tool_use" => events.push(AgentEvent::ToolCall {
                    id: block.id.into_owned(),
                    name: block.name.into_owned(),
                    summary: block.input.0,
                }),
                _ => {}
            }
        }
        let used = message.usage.context();
        if is_main && used > 0 {
            if *message.model != *self.model {
                self.model = message.model.into_owned();
            }
            if used != self.context_used {
                self.context_used = used;
                events.push(AgentEvent::Context { used, window: None });
            }
        }
    }

    fn result(&mut self, line: ResultLine<'_>, events: &mut Vec<AgentEvent>) {
        self.settle(&line, events);
        let message = match &*line.result {
            "" => line.errors.0,
            result => result.to_owned(),
        };
        if line.is_error != Some(true) {
            self.ending.completed(message);
        } else if line.terminal_reason.starts_with("aborted") {
            let kind = ErrorKind::Interrupted;
            self.ending.failed(Failure { kind, message, resets_at: None });
        } else {
            self.fail(line.api_error_status.0, message);
        }
    }

    /// Adds the usage of the turn. The figures of newer versions cover all models and only this turn; `usage` may be
    /// empty if a response was not streamed.
    fn settle(&mut self, line: &ResultLine<'_>, events: &mut Vec<AgentEvent>) {
        let told = line.usage.unwrap_or_default().parts();
        let (usage, cost) = match &line.model_usage_since_last_result {
            Some(models) => (models.usage(), Some(models.cost())),
            None if told == Usage::default() => (line.model_usage.usage(), line.total_cost_usd.0),
            None => (told, line.total_cost_usd.0),
        };
        self.unsettled = Usage::default();
        self.usage += usage;
        events.push(AgentEvent::Usage { usage: self.usage, cumulative: false });
        if let Some(cost) = cost {
            self.cost += cost;
            events.push(AgentEvent::Cost { usd: self.cost, cumulative: false });
        }
        if let Some(window) = line.model_usage.window(&self.model) {
            let used = self.context_used;
            events.push(AgentEvent::Context { used, window: Some(window) });
        }
    }

    fn fail(&mut self, status: u64, message: String) {
        let kind = kind_of(&self.failure_named, status, &message);
        let resets_at = match kind {
            ErrorKind::UsageLimit if !self.knows_reset => {
                reset::reset_time(&message, &self.context)
            }
            _ => None,
        };
        self.ending.failed(Failure { kind, message, resets_at });
    }
}

/// Classifies a failure by the CLI's own name for it, the HTTP status and the message.
fn kind_of(name: &str, status: u64, message: &str) -> ErrorKind {
    if mentions(message, &["no conversation found"]) {
        return ErrorKind::UnknownSession;
    }
    if mentions(message, &["prompt is too long", "context window", "context limit"]) {
        return ErrorKind::Context;
    }
    if mentions(message, &["unable to connect", "connection error", "request timed out"]) {
        return ErrorKind::Network;
    }
    match name {
        "rate_limit" => ErrorKind::UsageLimit,
        "authentication_failed" => ErrorKind::Auth,
        "billing_error" => ErrorKind::Billing,
        "server_error" | "overloaded" => ErrorKind::Server,
        _ => kind_of_status(status).unwrap_or(ErrorKind::Other),
    }
}

fn tool_results(line: MessageLine<'_>, events: &mut Vec<AgentEvent>) {
    let results = line.message.content.into_iter().filter(|block| &*block.kind == "tool_result");
    events.extend(results.map(|block| AgentEvent::ToolResult {
        id: block.tool_use_id.into_owned(),
        ok: block.is_error != Some(true),
        summary: block.content.0,
    }));
}

#[cfg(test)]
#[path = "claude_tests.rs"]
mod tests;
