//! Checks of the workspace: configuration, home, mailbox, and the agents of its roles.

use std::collections::BTreeMap;

use ralph_model::role::Role;

use super::{Area, Checkup, Finding};
use crate::config::{AgentProgram, Config};
use crate::home::CONFIG_FILE;
use crate::mailbox::{self, MailboxState};
use crate::trust::TrustedBy;

/// The built-in adapter.
const REHEARSAL: &str = "rehearsal";

pub(super) fn examine(checkup: &Checkup<'_>) -> Vec<Finding> {
    let mut findings = examine_config(checkup);
    findings.extend(examine_trust(checkup));
    findings.push(examine_home(checkup));
    findings.extend(examine_mailbox(checkup));
    findings.extend(examine_agents(checkup));
    if let Ok(config) = checkup.config {
        findings.extend(examine_roles(checkup, config));
    }
    findings
}

fn examine_config(checkup: &Checkup<'_>) -> Vec<Finding> {
    let file = checkup.workspace.root.join(CONFIG_FILE);
    match checkup.config {
        Err(error) => {
            let problem = |problem: &crate::config::ConfigProblem| {
                let advice = "correct it; `ralph config` shows what is in force";
                Finding::problem(Area::Config, problem.to_string(), advice)
            };
            error.problems.iter().map(problem).collect()
        }
        Ok(_) if !file.is_file() => vec![Finding::note(
            Area::Config,
            format!("no `{file}`; using defaults"),
            "run `ralph init` to write one for this project",
        )],
        Ok(config) => {
            let mut findings = vec![Finding::ok(Area::Config, format!("`{file}` loads"))];
            match config.gates.len() {
                0 => findings.push(Finding::note(
                    Area::Config,
                    "no gates configured, so every result is `not proven`",
                    format!("add a `[[gate]]` to {CONFIG_FILE}; `ralph init` suggests some"),
                )),
                count => findings.push(Finding::ok(Area::Config, format!("gates: {count}"))),
            }
            findings.extend(examine_programs(checkup, config));
            findings
        }
    }
}

/// Looks up the programs of gates and `setup` on PATH, each once.
///
/// A program given by path is in the checkout, or created there by `setup`: only running it can tell.
fn examine_programs(checkup: &Checkup<'_>, config: &Config) -> Vec<Finding> {
    let setup = config.checkout.setup.iter().map(|argv| ("`setup`".to_owned(), argv));
    let gates = config.gates.iter().map(|gate| (format!("gate `{}`", gate.name), &gate.run));
    let mut missing: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (user, argv) in setup.chain(gates) {
        let Some(program) = argv.first().filter(|program| !program.contains('/')) else { continue };
        if (checkup.look_up)(program).is_none() {
            missing.entry(program).or_default().push(user);
        }
    }
    let finding = |(program, mut users): (&str, Vec<String>)| {
        users.dedup();
        let what = format!("program `{program}` not found, needed by {}", users.join(", "));
        let advice = format!("install it, or change `run` or `setup` in {CONFIG_FILE}");
        Finding::problem(Area::Config, what, advice)
    };
    missing.into_iter().map(finding).collect()
}

fn examine_trust(checkup: &Checkup<'_>) -> Option<Finding> {
    let trust = checkup.trust?;
    Some(match trust.by {
        Some(TrustedBy::NothingArmed) => return None,
        Some(by) => Finding::ok(Area::Config, format!("this repository's settings: {by}")),
        None => {
            let names: Vec<&str> = trust.items.iter().map(|item| item.name.as_str()).collect();
            let what = format!("not trusted, and not in force: {}", names.join(", "));
            Finding::problem(Area::Config, what, "`ralph trust` shows them and asks")
        }
    })
}

fn examine_home(checkup: &Checkup<'_>) -> Finding {
    let named = checkup.config.ok().and_then(|config| config.home.as_deref());
    let home = checkup.workspace.home(named);
    let by = if named.is_some() { "as configured" } else { "default location" };
    if home.exists {
        return Finding::ok(Area::Workspace, format!("home is `{}`, {by}", home.path));
    }
    let what = format!("no home at `{}` yet", home.path);
    Finding::note(Area::Workspace, what, "run `ralph init`")
}

fn examine_mailbox(checkup: &Checkup<'_>) -> Option<Finding> {
    let config = checkup.config.ok()?;
    match mailbox::inspect(&config.mailbox) {
        Ok(MailboxState::Free | MailboxState::Ours) => None,
        Ok(MailboxState::Foreign) => Some(Finding::problem(
            Area::Workspace,
            format!("`{}` belongs to another tool and is left alone", config.mailbox),
            format!("give Ralph a place of its own with `mailbox = \"…\"` in {CONFIG_FILE}"),
        )),
        Err(error) => Some(Finding::problem(
            Area::Workspace,
            format!("{error}: {}", error.source),
            "check its permissions",
        )),
    }
}

fn examine_agents(checkup: &Checkup<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for agent in checkup.agents {
        let Some(path) = &agent.path else { continue };
        let name = &agent.name;
        match (&agent.problem, &agent.version) {
            (Some(problem), _) => {
                // The problem ends with the advice.
                let (what, advice) =
                    problem.rsplit_once("; ").unwrap_or((problem, "install it again"));
                let what = format!("{name} at `{path}` {what}");
                findings.push(Finding::problem(Area::Agents, what, advice));
            }
            (None, version) => {
                let version = version.as_deref().unwrap_or("of unknown version");
                findings.push(Finding::ok(Area::Agents, format!("{name} {version} at `{path}`")));
            }
        }
    }
    if findings.is_empty() {
        let names: Vec<_> = checkup.agents.iter().map(|agent| agent.name.as_str()).collect();
        // Whether a role has no agent at all is checked separately.
        findings.push(Finding::note(
            Area::Agents,
            "no agent CLI found on PATH",
            format!(
                "install one ({}), or describe your own under `[agents.NAME]`; the built-in `rehearsal` needs none",
                names.join(", ")
            ),
        ));
    }
    findings
}

/// Checks the agents of the roles, each once with its roles.
fn examine_roles(checkup: &Checkup<'_>, config: &Config) -> Vec<Finding> {
    let mut roles: BTreeMap<String, (AgentProgram, Vec<&str>)> = BTreeMap::new();
    for role in Role::ALL {
        let choice = config.agent_for(role);
        let entry = roles.entry(choice.name).or_insert_with(|| (choice.program, Vec::new()));
        entry.1.push(role.as_str());
    }
    let mut findings = Vec::new();
    for (name, (program, roles)) in roles {
        let plays = if roles.len() == Role::ALL.len() {
            format!("all roles use `{name}`")
        } else {
            format!("{}: `{name}`", roles.join(", "))
        };
        let advice =
            format!("install it, or choose another with `agent` in {CONFIG_FILE} or `--agent`");
        let missing = match &program {
            AgentProgram::Adapter { adapter, .. } if adapter == REHEARSAL => None,
            AgentProgram::Adapter { adapter, .. } => {
                let found = checkup.agents.iter().find(|agent| agent.name == *adapter);
                match found {
                    Some(agent) if agent.is_usable() => None,
                    Some(agent) if agent.path.is_some() => Some("it does not work".to_owned()),
                    Some(agent) => Some(format!("`{}` was not found", agent.program)),
                    None => Some("it was not looked for".to_owned()),
                }
            }
            AgentProgram::Command { argv } => {
                let program = argv.first().map(String::as_str).unwrap_or_default();
                let is_found = (checkup.look_up)(program).is_some();
                (!is_found).then(|| format!("`{program}` was not found"))
            }
            AgentProgram::Untrusted => Some("its command is not trusted".to_owned()),
        };
        findings.push(match missing {
            None => Finding::ok(Area::Agents, plays),
            Some(why) => Finding::problem(Area::Agents, format!("{plays}, but {why}"), advice),
        });
    }
    findings
}
