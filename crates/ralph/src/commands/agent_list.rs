//! `ralph agent list`: the known agents, and which of them are installed.

use ralph_engine::detect::agents::{FoundAgent, find_agents};
use ralph_model::role::Role;
use serde::Serialize;

use super::print_either;
use crate::args::GlobalArgs;
use crate::error::CliError;
use crate::exit::Exit;
use crate::render::human::padded;
use crate::render::text::StyledLine;
use crate::render::{Tone, Ui, styled};
use crate::setup::Setup;

#[derive(Serialize)]
struct Row {
    name: String,
    /// Its path; `None` if it is not installed. `rehearsal` is built in.
    path: Option<String>,
    version: Option<String>,
    problem: Option<String>,
    usable: bool,
    /// The roles for which it is configured.
    roles: Vec<String>,
}

pub(crate) fn run(global: &GlobalArgs) -> Result<Exit, CliError> {
    let setup = Setup::load(global, &[])?;
    let found = find_agents(Some(&setup.config), &|program| setup.look_up(program));
    let mut rows: Vec<Row> = found.into_iter().map(|agent| installed(&setup, agent)).collect();
    rows.push(Row {
        roles: roles_of(&setup, "rehearsal"),
        name: "rehearsal".to_owned(),
        path: None,
        version: Some("built in".to_owned()),
        problem: None,
        usable: true,
    });
    let known: Vec<String> = rows.iter().map(|row| row.name.clone()).collect();
    for name in setup.config.agent_names().into_iter().filter(|name| !known.contains(name)) {
        rows.push(configured(&setup, name));
    }
    print_either(setup.ui, setup.json, &rows, || {
        rows.iter().map(|row| line(setup.ui, row)).collect()
    })?;
    Ok(Exit::Done)
}

fn installed(setup: &Setup, agent: FoundAgent) -> Row {
    Row {
        roles: roles_of(setup, &agent.name),
        usable: agent.is_usable(),
        path: agent.path.map(|path| path.to_string()),
        version: agent.version,
        problem: agent.problem,
        name: agent.name,
    }
}

/// An agent of `[agents.*]` with its own command.
fn configured(setup: &Setup, name: String) -> Row {
    let roles = roles_of(setup, &name);
    let unusable = |problem: String| Row {
        name: name.clone(),
        path: None,
        version: None,
        problem: Some(problem),
        usable: false,
        roles: roles.clone(),
    };
    let Some(program) = setup.config.command_of(&name).and_then(|argv| argv.into_iter().next())
    else {
        return unusable("its command is not trusted; `ralph trust` shows it".to_owned());
    };
    let Some(path) = setup.look_up(&program).map(|path| path.to_string()) else {
        return unusable(format!("its program `{program}` was not found"));
    };
    let version = Some("command".to_owned());
    Row { name, path: Some(path), version, problem: None, usable: true, roles }
}

fn roles_of(setup: &Setup, name: &str) -> Vec<String> {
    let plays = |role: &Role| setup.config.agent_for(*role).name == name;
    Role::ALL.into_iter().filter(plays).map(|role| role.to_string()).collect()
}

fn line(ui: Ui, row: &Row) -> StyledLine {
    let (tone, mark) = match (row.usable, &row.problem) {
        (true, _) => (Tone::Good, ui.symbol("✓", "ok")),
        (false, Some(_)) => (Tone::Bad, ui.symbol("✗", "!!")),
        (false, None) => (Tone::Faint, ui.symbol("·", "--")),
    };
    let state = match (&row.path, &row.version, &row.problem) {
        (_, _, Some(problem)) => problem.clone(),
        (Some(path), version, None) => {
            format!("{} {path}", version.as_deref().unwrap_or("unknown version"))
        }
        (None, Some(version), None) => version.clone(),
        (None, None, None) => "not installed".to_owned(),
    };
    let roles = match row.roles.len() {
        0 => String::new(),
        all if all == Role::ALL.len() => "  (every role)".to_owned(),
        _ => format!("  ({})", row.roles.join(", ")),
    };
    let name = padded(&row.name, 10);
    styled!("{} {name} {state}{}", ui.paint(tone, mark), ui.paint(Tone::Strong, &roles))
}
