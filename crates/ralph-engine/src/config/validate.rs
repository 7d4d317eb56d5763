//! Problems that only show when all layers are merged: undefined names, settings that depend on each other.

use std::collections::{BTreeMap, BTreeSet};

use ralph_model::final_from::FinalFrom;

use super::agents::SESSION_MARK;
use super::armed::ArmedKeys;
use super::layer::{GateTable, Layer, Located, Rank};
use super::notify::KINDS;
use super::problem::{ConfigProblem, ConfigProblemKind, Origin};
use super::schema::{GATE, render_key};

/// The adapter that plays scripts.
const REHEARSAL: &str = "rehearsal";

/// Collects inconsistencies.
pub(super) fn check(
    settings: &Layer,
    adapters: &[&str],
    armed: ArmedKeys,
    problems: &mut Vec<ConfigProblem>,
) {
    check_agent_names(settings, adapters, problems);
    for (name, origin) in &settings.agents {
        check_agent(settings, adapters, armed, (name, origin), problems);
    }
    check_prices(settings, problems);
    check_trusted(settings, problems);
    check_notices(settings, problems);
    check_gates(settings.gates.as_deref().unwrap_or_default(), problems);
    let warn = settings.get(&["limits", "context_warn"]);
    let kill = settings.get(&["limits", "context_kill"]);
    if let (Some(warn), Some(kill)) = (warn, kill)
        && warn.count() > kill.count()
    {
        let reason = format!("it is above `limits.context_kill`, which is {}", kill.count());
        // If only the upper bound was set, report its line.
        let at = if warn.rank == Rank::Default { kill } else { warn };
        problems.push(bad("limits.context_warn".to_owned(), reason, &at.origin));
    }
}

fn check_agent_names(settings: &Layer, adapters: &[&str], problems: &mut Vec<ConfigProblem>) {
    for (key, value) in &settings.values {
        let names_agent = matches!(key.as_slice(), [agent] if agent == "agent")
            || matches!(key.as_slice(), [roles, _, agent] if roles == "roles" && agent == "agent");
        if !names_agent {
            continue;
        }
        let name = value.text();
        if adapters.contains(&name) || settings.agents.contains_key(name) {
            continue;
        }
        let own = settings.agents.keys().map(String::as_str);
        let known: BTreeSet<_> = adapters.iter().copied().chain(own).map(str::to_owned).collect();
        let kind = ConfigProblemKind::UnknownAgent {
            key: render(key),
            name: name.to_owned(),
            known: known.into_iter().collect(),
        };
        problems.push(ConfigProblem { origin: value.origin.clone(), kind });
    }
}

fn check_agent(
    settings: &Layer,
    adapters: &[&str],
    armed: ArmedKeys,
    (name, origin): (&str, &Origin),
    problems: &mut Vec<ConfigProblem>,
) {
    let mut forbid = |key: &str, reason: &str| {
        if let Some(value) = settings.get(&["agents", name, key]) {
            let key = render_key(["agents", name, key].into_iter());
            problems.push(bad(key, reason.to_owned(), &value.origin));
        }
    };
    if adapters.contains(&name) {
        forbid("command", "a built-in agent has no command; use `exe` and `args`");
    } else {
        forbid("exe", "only a built-in agent has it; use `command`");
    }
    if name != REHEARSAL {
        forbid("script", "only the agent `rehearsal` plays scripts");
    }
    if let Some(place) = settings.get(&["agents", name, "final"]) {
        let key = render_key(["agents", name, "final"].into_iter());
        if adapters.contains(&name) {
            problems.push(bad(key, "only a plain `command` has it".to_owned(), &place.origin));
        } else if FinalFrom::parse(place.text()).is_none() {
            let reason = "it is neither `last-line` nor `json:FIELD`".to_owned();
            problems.push(bad(key, reason, &place.origin));
        }
    }
    if let Some(place) = settings.get(&["agents", name, "session"]) {
        let key = render_key(["agents", name, "session"].into_iter());
        if adapters.contains(&name) {
            problems.push(bad(key, "only a plain `command` has it".to_owned(), &place.origin));
        } else if !matches!(FinalFrom::parse(place.text()), Some(FinalFrom::Json(_))) {
            problems.push(bad(key, "it is not `json:FIELD`".to_owned(), &place.origin));
        }
    }
    if let Some(resume) = settings.get(&["agents", name, "resume"]) {
        let key = render_key(["agents", name, "resume"].into_iter());
        if adapters.contains(&name) {
            problems.push(bad(key, "only a plain `command` has it".to_owned(), &resume.origin));
        } else if !resume.list().iter().any(|arg| arg.contains(SESSION_MARK)) {
            let reason = format!("none of its arguments contains `{SESSION_MARK}`");
            problems.push(bad(key, reason, &resume.origin));
        }
    }
    if let Some(patterns) = settings.get(&["agents", name, "limit_patterns"])
        && patterns.list().iter().any(|pattern| pattern.trim().is_empty())
    {
        let key = render_key(["agents", name, "limit_patterns"].into_iter());
        problems.push(bad(key, "a blank phrase is in every text".to_owned(), &patterns.origin));
    }
    let is_sound = problems.iter().all(|problem| !is_about(problem, name));
    let has_command = settings.get(&["agents", name, "command"]).is_some();
    if armed == ArmedKeys::Counted && !adapters.contains(&name) && !has_command && is_sound {
        let key = render_key(["agents", name].into_iter());
        let reason = format!("it needs a `command`; built in are only `{}`", adapters.join("`, `"));
        problems.push(bad(key, reason, origin));
    }
    for (key, value) in &settings.values {
        if let [agents, agent, env, variable] = key.as_slice()
            && (agents.as_str(), agent.as_str(), env.as_str()) == ("agents", name, "env")
            && (variable.is_empty() || variable.contains(['=', '\0']))
        {
            let reason = "no variable can have this name".to_owned();
            problems.push(bad(render(key), reason, &value.origin));
        }
    }
}

/// Whether a problem already concerns an agent's command, so that it is not also reported as missing.
fn is_about(problem: &ConfigProblem, agent: &str) -> bool {
    let command = render_key(["agents", agent, "command"].into_iter());
    match &problem.kind {
        ConfigProblemKind::WrongType { key, .. } | ConfigProblemKind::BadValue { key, .. } => {
            *key == command
        }
        ConfigProblemKind::UnknownKey { nearest, .. } => nearest.as_ref() == Some(&command),
        _ => false,
    }
}

fn check_prices(settings: &Layer, problems: &mut Vec<ConfigProblem>) {
    let mut models: BTreeMap<&str, &Located> = BTreeMap::new();
    for (key, value) in &settings.values {
        if let [table, model, _] = key.as_slice()
            && table == "prices"
        {
            models.entry(model).or_insert(value);
        }
    }
    for (model, value) in models {
        for needed in ["input", "output"] {
            if settings.get(&["prices", model, needed]).is_none() {
                let key = render_key(["prices", model, needed].into_iter());
                problems.push(bad(key, "every price needs it".to_owned(), &value.origin));
            }
        }
    }
}

fn check_notices(settings: &Layer, problems: &mut Vec<ConfigProblem>) {
    if let Some(webhook) = settings.get(&["notify", "webhook"])
        && !["http://", "https://"].iter().any(|scheme| webhook.text().starts_with(scheme))
    {
        let reason = "it must begin with `https://` or `http://`".to_owned();
        problems.push(bad("notify.webhook".to_owned(), reason, &webhook.origin));
    }
    let Some(on) = settings.get(&["notify", "on"]) else { return };
    if let Some(kind) = on.list().iter().find(|kind| !KINDS.contains(&kind.as_str())) {
        let reason = format!("unknown notice `{kind}`; known: `{}`", KINDS.join("`, `"));
        problems.push(bad("notify.on".to_owned(), reason, &on.origin));
    }
}

/// A relative path would apply to every checkout.
fn check_trusted(settings: &Layer, problems: &mut Vec<ConfigProblem>) {
    let Some(trusted) = settings.get(&["trust", "always"]) else { return };
    let is_named = |path: &String| path.starts_with('/') || path.starts_with("~/");
    if let Some(path) = trusted.list().iter().find(|path| !is_named(path)) {
        let reason = format!("`{path}` is not an absolute path");
        problems.push(bad("trust.always".to_owned(), reason, &trusted.origin));
    }
}

fn check_gates(gates: &[GateTable], problems: &mut Vec<ConfigProblem>) {
    let mut names = BTreeSet::new();
    for gate in gates {
        let Some(name) = gate.values.get("name") else { continue };
        if !names.insert(name.text()) {
            let reason = format!("another gate has the name `{}`", name.text());
            problems.push(bad(render_key([GATE, "name"].into_iter()), reason, &name.origin));
        }
    }
}

fn bad(key: String, reason: String, origin: &Origin) -> ConfigProblem {
    ConfigProblem { origin: origin.clone(), kind: ConfigProblemKind::BadValue { key, reason } }
}

fn render(key: &[String]) -> String {
    render_key(key.iter().map(String::as_str))
}
