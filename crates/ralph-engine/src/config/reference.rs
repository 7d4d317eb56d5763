//! The reference of all settings: purpose, type, default and environment variables of each.
//!
//! Generated from the table of settings, so that it cannot get out of date; a test checks that the descriptions are
//! complete. `ralph config --reference` prints it; `docs/configuration.md` and `ralph.toml(5)` are generated from it.

use super::schema::{GATE, GATE_SETTINGS, SETTINGS, Setting};
use super::value::Kind;

/// The description of one setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReferenceRow {
    pub key: String,
    pub takes: String,
    pub default: Option<&'static str>,
    pub env: Vec<&'static str>,
    pub description: &'static str,
}

/// Returns a row for every setting, in table order, the gates' last.
pub fn reference() -> Vec<ReferenceRow> {
    let general = SETTINGS.iter().map(|setting| row(setting, setting.key.to_owned()));
    let gates = GATE_SETTINGS.iter().map(|setting| row(setting, format!("{GATE}.{}", setting.key)));
    general.chain(gates).collect()
}

fn row(setting: &Setting, key: String) -> ReferenceRow {
    let description = DESCRIPTIONS.iter().find(|(known, _)| *known == key);
    ReferenceRow {
        takes: takes(setting.kind),
        default: setting.default,
        env: setting.env.iter().map(|variable| variable.name).collect(),
        description: description.map_or("", |(_, text)| text),
        key,
    }
}

fn takes(kind: Kind) -> String {
    match kind {
        Kind::Text => "string".to_owned(),
        Kind::AnyText => "string, may be empty".to_owned(),
        Kind::Choice(choices) => choices.join(", "),
        Kind::Bool => "true, false".to_owned(),
        Kind::Count => "whole number".to_owned(),
        Kind::Percent => "percentage".to_owned(),
        Kind::Number => "number".to_owned(),
        Kind::Duration | Kind::Timeout => "duration, such as \"30m\"".to_owned(),
        Kind::Size => "size, such as \"1GiB\"".to_owned(),
        Kind::List => "list of strings".to_owned(),
        Kind::Command => "program and arguments, as a list".to_owned(),
        Kind::Commands => "list of commands, each a list".to_owned(),
    }
}

const DESCRIPTIONS: &[(&str, &str)] = &[
    (
        "agent",
        "Agent for every role without one of its own: a built-in adapter or a name from [agents.*].",
    ),
    (
        "agent_cmd",
        "Shell command that reads the prompt from stdin; replaces the agent of every role.",
    ),
    ("model", "Model, as the agent names it."),
    ("reasoning", "Reasoning effort, as the agent names it."),
    ("timeout", "Maximum time of one run."),
    (
        "idle_timeout",
        "Maximum time without output. Paused while a tool call is open; off for text agents.",
    ),
    ("isolate", "Give each run an empty state directory of the agent instead of your own."),
    (
        "boundary",
        "Sandbox mode. `auto` uses what the kernel offers; `kernel` and `strict` refuse to run without Landlock, or without Landlock and namespaces; `detect` only compares after each run.",
    ),
    ("isolation", "Where agents work: in a clone, or in your checkout."),
    (
        "follow",
        "When your checkout follows landed work: after each landing if clean, at the end, or only on `ralph land`.",
    ),
    ("writable", "Further paths that agents and gates may write."),
    ("unix_sockets", "Let agents use Unix sockets."),
    (
        "sandbox.show",
        "Further paths in your home directory that agents and gates may read; the rest of it is hidden from them.",
    ),
    (
        "sandbox.unix",
        "`own`: let agents and gates use Unix sockets among themselves, as browser tests do. Needs namespaces.",
    ),
    (
        "sandbox.namespaces",
        "`off`: do without the second layer of the sandbox, which hides your files and other processes.",
    ),
    ("home", "Directory of Ralph's committed files."),
    ("mailbox", "Directory through which `ralph loop` and its agent exchange files."),
    ("log_format", "Format of `ralph.log` in home."),
    ("roles.<role>.agent", "Agent of one role."),
    ("roles.<role>.model", "Model of one role."),
    ("roles.<role>.reasoning", "Reasoning effort of one role."),
    ("roles.<role>.timeout", "Maximum time of one run of this role."),
    ("roles.<role>.idle_timeout", "Maximum time without output for this role."),
    ("agents.*.exe", "Program of a built-in adapter, if not found on PATH by its own name."),
    ("agents.*.args", "Further arguments for a built-in adapter."),
    ("agents.*.env.*", "Environment variable for this agent."),
    (
        "agents.*.command",
        "Makes any program an agent: it reads the prompt from stdin and answers in text.",
    ),
    ("agents.*.model", "Model of this agent."),
    ("agents.*.reasoning", "Reasoning effort of this agent."),
    ("agents.*.isolate", "Give each run of this agent an empty state directory."),
    ("agents.*.context_window", "Context window in tokens, if the agent does not report it."),
    ("agents.*.script", "Script that the `rehearsal` agent plays."),
    (
        "agents.*.state",
        "Directories where this agent keeps its own state; they are created, and stay writable in the sandbox.",
    ),
    (
        "agents.*.pass",
        "Names of your environment variables that this agent gets; `*` at the end stands for any.",
    ),
    (
        "agents.*.limit_patterns",
        "Phrases in the output of this agent that mean a usage limit, in any case, in addition to the built-in ones.",
    ),
    (
        "agents.*.final",
        "Where a plain command prints its final message: `last-line`, or `json:FIELD` for a field of JSON output; by default all of stdout.",
    ),
    (
        "agents.*.resume",
        "Arguments that make a plain command resume a session, as in `[\"--resume\", \"{session}\"]`.",
    ),
    (
        "agents.*.session",
        "Where a plain command prints the id of its session: `json:FIELD` for a field of JSON output; by default in a line `session id: ID`.",
    ),
    (
        "env.pass",
        "Names of your environment variables that agents and gates get; `*` at the end stands for any.",
    ),
    (
        "checkout.setup",
        "Commands that prepare a checkout, run when it is new or a lock file changed.",
    ),
    ("checkout.cache", "Directories that stay between gate runs."),
    ("checkout.copy", "Ignored files of the workspace that a checkout needs, such as `.env.test`."),
    ("slots.dir", "Directory for the clones that agents work in."),
    ("protect.allow", "Check files that agents may change without a question, as globs."),
    ("limits.wait", "Wait for a usage limit to reset instead of stopping."),
    (
        "limits.remember",
        "Wait at the start for a usage limit that an earlier command met; --ignore-limit turns it off once.",
    ),
    ("limits.margin", "Extra wait after a usage limit resets."),
    ("limits.max_wait", "Longest single wait when the reset time is unknown."),
    ("limits.backoff", "Longest pause after a failed run."),
    (
        "limits.troubles",
        "Runs of one item that may fail for reasons outside the work, before it stops.",
    ),
    ("limits.rejections", "Rejections of one task before you are asked."),
    ("limits.repeats", "Equal failures or claims in a row before an item stops."),
    ("limits.rounds", "Rounds of `ralph build` without a net gain before it stops."),
    ("limits.interrupt_grace", "Time an agent has to end after SIGINT."),
    ("limits.terminate_grace", "Time an agent has to end after SIGTERM."),
    ("limits.log", "Size above which only head and tail of a log are kept."),
    ("limits.context_warn", "Context fill at which a warning is shown, in percent."),
    (
        "limits.context_kill",
        "Context fill at which an agent that does not compact is stopped, in percent.",
    ),
    ("budget.tokens", "Start no new run after this many tokens."),
    ("budget.cost", "Start no new run after this cost, in US dollars."),
    ("budget.wall", "Start no new run after this much agent time."),
    ("budget.iterations", "Start no new run after this many."),
    ("budget.failures", "Stop after this many failed runs in a row."),
    ("prices.*.input", "US dollars per million input tokens of a model."),
    ("prices.*.output", "US dollars per million output tokens."),
    ("prices.*.cache_read", "US dollars per million input tokens read from the cache."),
    ("prices.*.cache_write", "US dollars per million tokens written to the cache."),
    ("loop.preset", "Set of gates for `ralph loop`."),
    ("loop.strict", "Fail `plan-diff` when planned items are missing."),
    ("loop.reflect", "After a task is accepted, have the agent write down what it learned."),
    ("loop.build", "Build command of the preset."),
    ("loop.source", "Directory of the application's source."),
    ("loop.app", "File of the application's root component."),
    ("loop.css", "Style sheet that the theme is checked in."),
    ("loop.stack", "Packages that count as the expected stack."),
    ("loop.scaffold", "Files of an untouched scaffold."),
    ("loop.registry.moods", "Known moods of `plan.tsx`."),
    ("loop.registry.presets", "Known theme presets of `plan.tsx`."),
    ("loop.registry.fonts", "Known fonts of `plan.tsx`."),
    ("loop.registry.gumdrops", "Known recipes of `plan.tsx`."),
    ("loop.registry.grid_heavy", "Recipes that need a grid."),
    ("loop.registry.stateful", "Recipes that keep state."),
    ("loop.registry.theme_variables", "CSS variables that a theme must define."),
    ("trust.always", "Checkouts whose settings you always trust. Only your own file counts."),
    (
        "notify.on",
        "What to notify you of: question, finished, failed, budget, limit; by default the first three. Only your own file counts, as for all of `notify`.",
    ),
    ("notify.after", "Send no notice before a workflow has run this long."),
    ("notify.terminal", "Notification through the terminal."),
    ("notify.command", "Command that gets each notice as JSON on stdin."),
    ("notify.webhook", "URL that each notice is posted to as JSON, with curl."),
    (
        "judge.changed_checks",
        "If the work fails with the original checks: reject it, ask the verifier, or ask you.",
    ),
    (
        "judge.cache",
        "What `checkout.cache` holds when work is judged: what accepted commits left, nothing, or what any run left.",
    ),
    ("git.commit_home", "Commit Ralph's files; `false` excludes them from git."),
    ("git.sign", "Sign Ralph's own commits."),
    ("ui.mode", "Progress display."),
    ("ui.color", "Colours."),
    ("ui.ascii", "ASCII symbols only."),
    ("gate.name", "Name of the gate."),
    ("gate.run", "Command of the gate; no shell."),
    ("gate.timeout", "Maximum time of one gate run."),
    ("gate.paths", "Run the gate only when one of these globs changed."),
    ("gate.fast", "Run before the other gates."),
    ("gate.repo", "Repository of a workspace with several that the gate runs for."),
    ("gate.net", "Allow network access."),
    ("gate.unix", "Allow Unix sockets."),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_described_once_and_nothing_else_is() {
        let rows = reference();
        let missing: Vec<&str> = rows
            .iter()
            .filter(|row| row.description.is_empty())
            .map(|row| row.key.as_str())
            .collect();
        assert_eq!(missing, [""; 0], "describe these");
        let known: Vec<&str> = rows.iter().map(|row| row.key.as_str()).collect();
        let stale: Vec<&str> =
            DESCRIPTIONS.iter().map(|(key, _)| *key).filter(|key| !known.contains(key)).collect();
        assert_eq!(stale, [""; 0], "these are no settings");
        assert_eq!(rows.len(), DESCRIPTIONS.len());
    }
}
