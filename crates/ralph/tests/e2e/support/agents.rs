//! The real agent CLIs, as installed for the tests, and how each is connected to the scripted model.
//!
//! They come from the npm registry at pinned versions (`tests/agents`). A test that needs a missing one is skipped
//! visibly: one line on stderr, one line in the file that `RALPH_SKIP_LOG` names.

use std::env;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::model_server::script::Script;

/// An agent CLI that the tests drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RealAgent {
    Codex,
    Claude,
    OpenCode,
    Gemini,
}

/// How the agent is logged in, as seen by the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Account {
    /// With a key, billed by use.
    Key,
    /// With a subscription, which has usage limits that reset (only claude distinguishes the two).
    Subscription,
}

/// How often the agent retries a failed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retries {
    /// At most once, if configurable: a test cannot wait for minutes.
    Few,
    /// The vendor's default.
    AsShipped,
}

/// The agent's access to the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) account: Account,
    pub(crate) retries: Retries,
}

impl RealAgent {
    pub(crate) fn name(self) -> &'static str {
        match self {
            RealAgent::Codex => "codex",
            RealAgent::Claude => "claude",
            RealAgent::OpenCode => "opencode",
            RealAgent::Gemini => "gemini",
        }
    }

    /// Returns the installed program.
    pub(crate) fn executable(self) -> Option<PathBuf> {
        let program = match self {
            RealAgent::Codex => "codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex",
            RealAgent::Claude => "@anthropic-ai/claude-code-linux-x64/claude",
            RealAgent::OpenCode => "opencode-linux-x64/bin/opencode",
            RealAgent::Gemini => ".bin/gemini",
        };
        let program = install_dir().join("node_modules").join(program);
        program.is_file().then_some(program)
    }

    /// Returns the variables that connect the agent to the model at `url`.
    pub(crate) fn environment(self, url: &str, access: Access) -> Vec<(&'static str, String)> {
        match self {
            RealAgent::Codex => vec![("MODEL_KEY", "dummy".into())],
            RealAgent::Claude => {
                let key = match access.account {
                    Account::Key => "ANTHROPIC_API_KEY",
                    Account::Subscription => "CLAUDE_CODE_OAUTH_TOKEN",
                };
                let mut variables = vec![
                    (key, "dummy-not-a-secret".into()),
                    ("ANTHROPIC_BASE_URL", url.into()),
                    ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".into()),
                ];
                if access.retries == Retries::Few {
                    variables.push(("CLAUDE_CODE_MAX_RETRIES", "1".into()));
                }
                variables
            }
            RealAgent::OpenCode => vec![
                ("OPENCODE_CONFIG_CONTENT", opencode_config(url).to_string()),
                ("OPENCODE_DISABLE_AUTOUPDATE", "1".into()),
                ("OPENCODE_DISABLE_DEFAULT_PLUGINS", "1".into()),
                ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1".into()),
                ("OPENCODE_DISABLE_MODELS_FETCH", "1".into()),
            ],
            RealAgent::Gemini => {
                vec![("GEMINI_API_KEY", "dummy".into()), ("GOOGLE_GEMINI_BASE_URL", url.into())]
            }
        }
    }

    /// Returns the arguments that connect the agent to the model at `url`.
    pub(crate) fn config_args(self, url: &str, access: Access) -> Vec<String> {
        if self != RealAgent::Codex {
            return Vec::new();
        }
        let retries = match access.retries {
            Retries::Few => ",request_max_retries=0,stream_max_retries=1",
            Retries::AsShipped => "",
        };
        let provider = format!(
            "model_providers.scripted={{name=\"scripted\",base_url=\"{url}/v1\",\
             env_key=\"MODEL_KEY\",wire_api=\"responses\"{retries}}}"
        );
        // The last two avoid seconds of network lookups at the end of a run.
        let settings = [
            "model_provider=\"scripted\"",
            &provider,
            "analytics.enabled=false",
            "features.plugins=false",
        ];
        settings.into_iter().flat_map(|setting| ["-c".to_owned(), setting.to_owned()]).collect()
    }

    /// Returns files of a person's home, by path, that connect the agent to the model at `url` instead of arguments.
    pub(crate) fn home_settings(self, url: &str) -> Vec<(&'static str, String)> {
        match self {
            RealAgent::Codex => {
                let config = format!(
                    "model_provider = \"scripted\"\n\
                     [model_providers.scripted]\n\
                     name = \"scripted\"\n\
                     base_url = \"{url}/v1\"\n\
                     env_key = \"MODEL_KEY\"\n\
                     wire_api = \"responses\"\n\
                     [analytics]\n\
                     enabled = false\n\
                     [features]\n\
                     plugins = false\n"
                );
                vec![(".codex/config.toml", config)]
            }
            RealAgent::Claude => {
                let settings = json!({ "env": { "ANTHROPIC_BASE_URL": url } });
                let memory = json!({ "hasCompletedOnboarding": true, "editorMode": "vim" });
                vec![
                    (".claude/settings.json", settings.to_string()),
                    (".claude.json", memory.to_string()),
                ]
            }
            RealAgent::OpenCode => {
                vec![(".config/opencode/opencode.json", opencode_config(url).to_string())]
            }
            RealAgent::Gemini => vec![(".gemini/.env", format!("GOOGLE_GEMINI_BASE_URL={url}\n"))],
        }
    }

    /// Returns the model to request: one the agent knows, so that it behaves as with a vendor's.
    pub(crate) fn model(self) -> &'static str {
        match self {
            RealAgent::Codex => "gpt-5.5",
            RealAgent::Claude => "claude-sonnet-4-5",
            RealAgent::OpenCode => "scripted/scripted",
            RealAgent::Gemini => "gemini-2.5-flash",
        }
    }

    /// Writes the files that the agent needs in its home to start at all.
    pub(crate) fn prepare_home(self, home: &Path) {
        if self == RealAgent::Gemini {
            let settings = json!({
                "security": { "auth": { "selectedType": "gemini-api-key" } },
                "general": { "enableAutoUpdate": false },
                "privacy": { "usageStatisticsEnabled": false },
            });
            fs::create_dir_all(home.join(".gemini")).unwrap();
            fs::write(home.join(".gemini/settings.json"), settings.to_string()).unwrap();
        }
    }

    /// Adds the response with which this agent's vendor reports a usage limit until `resets_at` (Unix time).
    pub(crate) fn usage_limit(self, script: Script, resets_at: i64) -> Script {
        let reset = resets_at.to_string();
        match self {
            RealAgent::Codex => {
                let error = json!({
                    "type": "usage_limit_reached", "message": "The usage limit has been reached",
                    "plan_type": "plus", "resets_at": resets_at,
                });
                let headers = [
                    ("x-codex-primary-used-percent", "100"),
                    ("x-codex-primary-window-minutes", "300"),
                    ("x-codex-primary-reset-at", reset.as_str()),
                ];
                script.http(429, &headers, json!({ "error": error }))
            }
            RealAgent::Claude => {
                let headers = [
                    ("anthropic-ratelimit-unified-status", "rejected"),
                    ("anthropic-ratelimit-unified-reset", &reset),
                    ("anthropic-ratelimit-unified-representative-claim", "five_hour"),
                    ("x-should-retry", "false"),
                ];
                let error = json!({
                    "type": "rate_limit_error", "message": "This request would exceed your limit",
                });
                script.http(429, &headers, json!({ "type": "error", "error": error }))
            }
            RealAgent::OpenCode => {
                // It retries the request, each time after this delay.
                let error = json!({
                    "type": "usage_limit_reached", "message": "The usage limit has been reached",
                    "resets_at": resets_at,
                });
                script.http(429, &[("retry-after-ms", "10")], json!({ "error": error }))
            }
            RealAgent::Gemini => {
                let violation = json!({
                    "quotaMetric": "generativelanguage.googleapis.com/generate_requests",
                    "quotaId": "GenerateRequestsPerDayPerProjectPerModel",
                });
                let details = json!([{
                    "@type": "type.googleapis.com/google.rpc.QuotaFailure",
                    "violations": [violation],
                }]);
                let error = json!({
                    "code": 429, "status": "RESOURCE_EXHAUSTED", "details": details,
                    "message": "You exceeded your current quota",
                });
                script.http(429, &[], json!({ "error": error }))
            }
        }
    }
}

/// Returns the program of `agent`, or reports visibly that the calling test is skipped.
///
/// With `RALPH_REQUIRE_AGENTS=1` a missing program is a panic instead.
pub(crate) fn require(agent: RealAgent) -> Option<PathBuf> {
    let name = agent.name();
    let Some(program) = agent.executable() else {
        let required = env::var_os("RALPH_REQUIRE_AGENTS").is_some_and(|value| value == "1");
        assert!(!required, "{name} is not installed in {}", install_dir().display());
        skip(&format!("{name} is not installed (run cargo xtask test)"));
        return None;
    };
    // Distributions still ship a Node.js on which the current gemini does not start.
    if agent == RealAgent::Gemini && node_version().is_none_or(|major| major < 20) {
        skip("gemini needs Node.js 20 or later");
        return None;
    }
    Some(program)
}

/// Reports that a test is skipped, bypassing the test harness, which captures the output of passing tests.
pub(crate) fn skip(reason: &str) {
    let line = format!("SKIPPED: {reason}\n");
    #[expect(clippy::disallowed_methods, reason = "a test tells whoever runs it")]
    std::io::stderr().write_all(line.as_bytes()).unwrap();
    if let Some(log) = env::var_os("RALPH_SKIP_LOG") {
        let mut log = fs::OpenOptions::new().append(true).create(true).open(log).unwrap();
        log.write_all(line.as_bytes()).unwrap();
    }
}

/// Returns the major version of the installed Node.js.
fn node_version() -> Option<u32> {
    let output = Command::new("node").arg("--version").output().ok()?;
    let version = String::from_utf8(output.stdout).ok()?;
    version.strip_prefix('v')?.split('.').next()?.parse().ok()
}

/// Returns the directory that holds the agents' `node_modules`.
fn install_dir() -> PathBuf {
    env::var_os("RALPH_TEST_AGENTS").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/agents"),
        PathBuf::from,
    )
}

fn opencode_config(url: &str) -> Value {
    let model = json!({
        "tool_call": true,
        "limit": { "context": 200_000, "output": 8_000 },
        "cost": { "input": 1, "output": 2 },
    });
    json!({
        "autoupdate": false,
        "share": "disabled",
        "provider": { "scripted": {
            "npm": "@ai-sdk/openai-compatible",
            "options": { "baseURL": format!("{url}/v1"), "apiKey": "dummy" },
            "models": { "scripted": model },
        }},
        "model": "scripted/scripted",
        "small_model": "scripted/scripted",
    })
}
