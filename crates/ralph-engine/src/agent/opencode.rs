//! The `OpenCode` CLI: `opencode run --format json`.
//!
//! It has neither a first nor a last event, reports a tool call only when it has ended, and counts per step. While it
//! waits for a provider, possibly for hours, it only writes to its own log, which Ralph makes it print on stderr.

use camino::Utf8PathBuf;
use jiff::fmt::rfc2822;
use jiff::{SignedDuration, Timestamp};
use ralph_model::event::{AgentEvent, ErrorKind, LimitStatus};
use ralph_model::run::ProcessExit;
use ralph_model::usage::Usage;
use serde::Deserialize;

use super::wire::{
    Count, Ending, Failure, Money, Str, Summary, kind_of_status, mentions, read, status_in,
    summary, text_of, without_escapes,
};
use super::{
    Adapter, AgentRequest, DecodeContext, Decoder, EnvLookup, Guarded, Invocation, Traits,
    directory_in, in_home, names, reset,
};

/// The data and the self-written files in each of [`DIRECTORIES`].
const KEPT: [(&[&str], &[&str]); 4] = [
    (
        &[],
        &[
            "node_modules",
            "package.json",
            "package-lock.json",
            "bun.lock",
            "bun.lockb",
            ".gitignore",
        ],
    ),
    (
        &[
            "storage",
            "log",
            // Repositories with snapshots of work trees. Their settings and hooks are not data: git executes what these name.
            "snapshot/*/HEAD",
            "snapshot/*/description",
            "snapshot/*/index",
            "snapshot/*/info",
            "snapshot/*/objects",
            "snapshot/*/refs",
            "snapshot/*/*/HEAD",
            "snapshot/*/*/description",
            "snapshot/*/*/index",
            "snapshot/*/*/info",
            "snapshot/*/*/objects",
            "snapshot/*/*/refs",
            "tool-output",
            "project",
            "worktree",
            "*.db*",
            "mcp-auth.json",
        ],
        &["bin", "repos"],
    ),
    (&["*"], &[]),
    (
        &["version"],
        // The list of models names the package, or the file, that is loaded for each provider.
        &["models*.json", "node_modules", "bin", "packages", "package.json", "bun.lock", "plugin"],
    ),
];

/// What of its logins is not data: a login of the kind `wellknown` has it fetch settings, with programs in them, from the
/// address that is its name, and set a variable. Tokens that are renewed are elsewhere.
const LOGIN_KEYS: [&str; 3] = ["*.type", "*.key", "*.token"];

/// The variables with the keys of each provider.
const PROVIDER_KEYS: [(&str, &[&str]); 9] = [
    ("anthropic", &["ANTHROPIC_API_KEY"]),
    ("openai", &["OPENAI_API_KEY"]),
    ("google", &["GEMINI_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY"]),
    ("openrouter", &["OPENROUTER_API_KEY"]),
    ("groq", &["GROQ_API_KEY"]),
    ("mistral", &["MISTRAL_API_KEY"]),
    ("xai", &["XAI_API_KEY"]),
    ("deepseek", &["DEEPSEEK_API_KEY"]),
    ("amazon-bedrock", &["AWS_*"]),
];

pub(super) struct OpenCode;

/// Its state directories: the variable, the path in the home directory, and the path in an isolated state.
const DIRECTORIES: [(&str, &str, &str); 4] = [
    ("XDG_CONFIG_HOME", ".config", "config"),
    ("XDG_DATA_HOME", ".local/share", "data"),
    ("XDG_STATE_HOME", ".local/state", "state"),
    ("XDG_CACHE_HOME", ".cache", "cache"),
];

impl Adapter for OpenCode {
    fn name(&self) -> &'static str {
        "opencode"
    }

    fn program(&self) -> Option<&'static str> {
        Some("opencode")
    }

    fn traits(&self) -> Traits {
        Traits {
            structured: true,
            announces_tools: false,
            compacts: true,
            resumes: true,
            reports_cost: true,
            reasoning: true,
            login: Some("run `opencode auth login`"),
        }
    }

    fn invocation(&self, request: &AgentRequest<'_>) -> Invocation {
        let mut invocation = Invocation::default();
        invocation.args.push("run".to_owned());
        invocation.option("--format", "json");
        invocation.flag(request, "--auto");
        invocation.flag(request, "--print-logs");
        if !request.extra_args.iter().any(|arg| arg.starts_with("--log-level")) {
            invocation.option("--log-level", "ERROR");
        }
        if let Some(model) = request.model {
            invocation.option("-m", model);
        }
        if let Some(reasoning) = request.reasoning {
            invocation.option("--variant", reasoning);
        }
        if let Some(session) = request.resume {
            invocation.option("-s", session);
        }
        invocation.args.extend_from_slice(request.extra_args);
        if let Some(state) = request.isolated_state {
            for (variable, _, name) in DIRECTORIES {
                invocation.set(variable, state.join(name).as_str());
            }
            // Directories named in the person's environment would be read in addition.
            invocation.set("OPENCODE_CONFIG_DIR", state.join("config/opencode").as_str());
        }
        invocation
    }

    fn decoder(&self, context: DecodeContext) -> Box<dyn Decoder> {
        Box::new(OpenCodeDecoder {
            context,
            ending: Ending::default(),
            session: String::new(),
            retrying: false,
            step_text: String::new(),
            usage: Usage::default(),
            cost: 0.0,
        })
    }

    fn guarded_files(&self, env: EnvLookup<'_>) -> Vec<Guarded> {
        let directories = DIRECTORIES.iter().zip(&KEPT);
        let guarded = directories.filter_map(|((variable, at_home, _), (data, quiet))| {
            let base = directory_in(env, variable).or_else(|| in_home(env, at_home))?;
            Some(Guarded::directory(base.join("opencode"), data, quiet))
        });
        let guarded: Vec<Guarded> = guarded.collect();
        // The file comes first: the first of two entries for the same path counts.
        let logins =
            guarded.iter().map(|one| Guarded::keys(one.path.join("auth.json"), &LOGIN_KEYS));
        logins.chain(guarded.iter().cloned()).collect()
    }

    fn variables(&self, model: Option<&str>, _: &[String], _: EnvLookup<'_>) -> Vec<String> {
        let provider = model.and_then(|model| Some(model.split_once('/')?.0));
        let known = PROVIDER_KEYS.iter().find(|(name, _)| Some(*name) == provider);
        // The provider in its own configuration is not known here.
        let keys =
            PROVIDER_KEYS.iter().filter(|(name, _)| known.is_none_or(|(known, _)| known == name));
        let keys = keys.flat_map(|(_, keys)| names(keys));
        names(&["OPENCODE_*"]).into_iter().chain(keys).collect()
    }

    fn state_paths(&self, env: EnvLookup<'_>) -> Vec<Utf8PathBuf> {
        DIRECTORIES
            .iter()
            .filter_map(|(variable, at_home, _)| {
                let base = directory_in(env, variable).or_else(|| in_home(env, at_home))?;
                Some(base.join("opencode"))
            })
            .collect()
    }
}

struct OpenCodeDecoder {
    context: DecodeContext,
    ending: Ending,
    session: String,
    /// A request failed, and the model has not responded since.
    retrying: bool,
    /// The text since the step began.
    step_text: String,
    usage: Usage,
    cost: f64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Line<'a> {
    #[serde(borrow, rename = "type")]
    kind: Str<'a>,
    #[serde(borrow, rename = "sessionID")]
    session: Str<'a>,
    /// Milliseconds since the epoch.
    timestamp: Count,
    #[serde(borrow)]
    part: Option<Part<'a>>,
    #[serde(borrow)]
    error: Option<ErrorNote<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Part<'a> {
    #[serde(borrow)]
    text: Str<'a>,
    #[serde(borrow)]
    tool: Str<'a>,
    #[serde(borrow, rename = "callID")]
    call_id: Str<'a>,
    #[serde(borrow)]
    state: Option<ToolState<'a>>,
    #[serde(borrow)]
    reason: Str<'a>,
    tokens: Option<Tokens>,
    cost: Money,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ToolState<'a> {
    #[serde(borrow)]
    status: Str<'a>,
    input: Summary,
    output: Summary,
    error: Summary,
    metadata: Option<ToolMetadata>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ToolMetadata {
    exit: Count,
}

/// The counts do not overlap.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct Tokens {
    input: Count,
    output: Count,
    reasoning: Count,
    cache: CacheTokens,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct CacheTokens {
    read: Count,
    write: Count,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ErrorNote<'a> {
    #[serde(borrow)]
    name: Str<'a>,
    #[serde(borrow)]
    data: ErrorData<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ErrorData<'a> {
    #[serde(borrow)]
    message: Str<'a>,
    status_code: Count,
    #[serde(borrow)]
    response_headers: Option<Headers<'a>>,
    /// The provider's own JSON, as a string.
    #[serde(borrow)]
    response_body: Str<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Headers<'a> {
    #[serde(borrow, rename = "retry-after")]
    retry_after: Str<'a>,
}

impl Decoder for OpenCodeDecoder {
    fn stdout_line(&mut self, line: &[u8], events: &mut Vec<AgentEvent>) {
        let text = text_of(line);
        let Some(line) = read::<Line<'_>>(&text) else { return };
        if !line.session.is_empty() && *line.session != *self.session {
            self.session = line.session.into_owned();
            events.push(AgentEvent::Session { id: self.session.clone(), model: None });
        }
        match (&*line.kind, line.part, line.error) {
            ("step_start", ..) => {
                self.step_text.clear();
                if std::mem::take(&mut self.retrying) {
                    let status = LimitStatus::Allowed;
                    events.push(AgentEvent::RateLimit { status, resets_at: None });
                }
            }
            ("text", Some(part), _) => {
                if !self.step_text.is_empty() {
                    self.step_text.push('\n');
                }
                self.step_text.push_str(&part.text);
                events.push(AgentEvent::Text { text: part.text.into_owned() });
            }
            ("tool_use", Some(part), _) => tool_use(part, events),
            ("step_finish", Some(part), _) => self.step_finish(&part, events),
            ("error", _, Some(error)) => self.error(&error, line.timestamp.0),
            _ => {}
        }
    }

    fn stderr_line(&mut self, line: &[u8], events: &mut Vec<AgentEvent>) {
        let line = text_of(line);
        if line.starts_with("timestamp=") {
            return self.log_line(&line, events);
        }
        if mentions(&line, &["session not found"]) {
            let message = summary(&without_escapes(&line));
            let kind = ErrorKind::UnknownSession;
            self.ending.failed(Failure { kind, message, resets_at: None });
        }
        self.ending.stderr(&line);
    }

    fn finish(&mut self, exit: Option<ProcessExit>, events: &mut Vec<AgentEvent>) {
        self.ending.tell(exit, events);
    }
}

fn tool_use(part: Part<'_>, events: &mut Vec<AgentEvent>) {
    let state = part.state.unwrap_or_default();
    let id = part.call_id.into_owned();
    let exit = state.metadata.unwrap_or_default().exit.0;
    let ok = &*state.status == "completed" && exit == 0;
    events.push(AgentEvent::ToolCall {
        id: id.clone(),
        name: part.tool.into_owned(),
        summary: state.input.0,
    });
    let Summary(summary) = if state.output.0.is_empty() { state.error } else { state.output };
    events.push(AgentEvent::ToolResult { id, ok, summary });
}

impl OpenCodeDecoder {
    /// Parses a line of its log. A failed request will be retried; if not, an error follows on stdout.
    fn log_line(&mut self, line: &str, events: &mut Vec<AgentEvent>) {
        // Requests that generate the session's title are not reported.
        if !line.contains("message=\"stream error\"") || line.contains(" small=true ") {
            return;
        }
        let message = line.split_once(" error.error=").map_or(line, |(_, message)| message);
        let message = summary(message.trim_matches('"'));
        let limits =
            ["usage limit", "usage_limit", "rate limit", "rate_limit", "too many requests"];
        let status = status_in(&message).or(mentions(&message, &limits).then_some(429));
        self.retrying = true;
        events.push(AgentEvent::Retry { status, message });
    }

    fn step_finish(&mut self, part: &Part<'_>, events: &mut Vec<AgentEvent>) {
        if let Some(tokens) = part.tokens {
            self.usage += Usage {
                input: tokens.input.0,
                cache_read: tokens.cache.read.0,
                cache_write: tokens.cache.write.0,
                output: tokens.output.0.saturating_add(tokens.reasoning.0),
            };
            events.push(AgentEvent::Usage { usage: self.usage, cumulative: false });
            let cached = tokens.cache.read.0.saturating_add(tokens.cache.write.0);
            let used = tokens.input.0.saturating_add(cached);
            events.push(AgentEvent::Context { used, window: None });
        }
        if let Some(cost) = part.cost.0 {
            self.cost += cost;
            events.push(AgentEvent::Cost { usd: self.cost, cumulative: false });
        }
        if &*part.reason != "tool-calls" {
            self.ending.completed(std::mem::take(&mut self.step_text));
        }
    }

    fn error(&mut self, error: &ErrorNote<'_>, millisecond: u64) {
        let data = &error.data;
        let kind = error.kind();
        let message = match &*data.message {
            "" => error.name.to_string(),
            message => message.to_owned(),
        };
        let told_at = i64::try_from(millisecond).ok().filter(|millisecond| *millisecond > 0);
        let told_at = told_at.and_then(|millisecond| Timestamp::from_millisecond(millisecond).ok());
        let now = told_at.unwrap_or(self.context.now);
        let resets_at = match kind {
            ErrorKind::UsageLimit => {
                let headers = data.response_headers.as_ref();
                let context = DecodeContext { now, ..self.context.clone() };
                headers
                    .and_then(|headers| retry_time(&headers.retry_after, now))
                    .or_else(|| reset::reset_time(&data.response_body, &context))
            }
            _ => None,
        };
        self.ending.failed(Failure { kind, message, resets_at });
    }
}

/// Parses a `Retry-After` header: seconds or a date.
fn retry_time(value: &str, now: Timestamp) -> Option<Timestamp> {
    match value.trim().parse() {
        Ok(seconds) => now.checked_add(SignedDuration::from_secs(seconds)).ok(),
        Err(_) => rfc2822::DateTimeParser::new().parse_timestamp(value).ok(),
    }
}

impl ErrorNote<'_> {
    fn kind(&self) -> ErrorKind {
        let data = &self.data;
        if mentions(&data.response_body, &["insufficient_quota", "credit balance", "billing"]) {
            return ErrorKind::Billing;
        }
        let too_long = ["context length", "context window", "context_length", "too long"];
        match &*self.name {
            "ProviderAuthError" => ErrorKind::Auth,
            "MessageAbortedError" => ErrorKind::Interrupted,
            "ContextOverflowError" => ErrorKind::Context,
            _ if mentions(&data.message, &too_long) => ErrorKind::Context,
            // Without a status there was no response.
            "APIError" if data.status_code.0 == 0 => ErrorKind::Network,
            _ => kind_of_status(data.status_code.0).unwrap_or(ErrorKind::Other),
        }
    }
}

#[cfg(test)]
#[path = "opencode_tests.rs"]
mod tests;
