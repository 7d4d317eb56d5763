//! `ralph init`: a home and a `ralph.toml`, made from what is there; nothing is ever overwritten.

use camino::{Utf8Path, Utf8PathBuf};
use ralph_engine::detect::agents::find_agents;
use ralph_engine::git::{Git, GitError, GitProgram};
use ralph_engine::home::WorkspaceKind;
use ralph_engine::init::{InitRequest, StepOutcome, perform, plan_init};
use ralph_engine::plan_file::merge_driver;
use serde::Serialize;

use super::print_json;
use crate::args::{GlobalArgs, InitArgs};
use crate::error::CliError;
use crate::exit::Exit;
use crate::render::{Tone, styled};
use crate::setup::Scout;

#[derive(Serialize)]
struct Report {
    root: String,
    home: String,
    created: Vec<String>,
    kept: Vec<String>,
    agent: Option<String>,
    gates: Vec<Vec<String>>,
    notes: Vec<String>,
}

pub(crate) fn run(global: &GlobalArgs, args: &InitArgs) -> Result<Exit, CliError> {
    let root = global.root.as_deref().unwrap_or(&args.dir);
    let scout = Scout::look(global, Some(root))?;
    let config = scout.config.as_ref();
    let agents = find_agents(config.ok(), &|program| scout.look_up(program));
    let plan = plan_init(&InitRequest { workspace: &scout.workspace, config, agents: &agents })
        .map_err(|error| refused(&error))?;
    let steps = perform(&plan).map_err(|error| refused(&error))?;
    let driver = install_merge_driver(&scout, &plan.home);
    let with = |outcome: StepOutcome| {
        let steps = steps.iter().filter(move |step| step.outcome == outcome);
        steps.map(|step| step.path.to_string()).collect::<Vec<_>>()
    };
    let (created, kept) = (with(StepOutcome::Created), with(StepOutcome::Kept));
    let ui = scout.ui;
    for path in &created {
        ui.labelled(Tone::Good, "created", path);
    }
    for path in &kept {
        ui.labelled(Tone::Faint, "kept", path);
    }
    match &driver {
        Ok(true) => ui.labelled(
            Tone::Good,
            "merge",
            "plans are merged by record here; a clone is told so by a `ralph init` of its own",
        ),
        Ok(false) => {}
        Err(error) => ui.important(styled!(
            "{} git was not told how to merge plans and will merge their lines: {error}",
            ui.paint(Tone::Attention, "note:")
        )),
    }
    for gate in &plan.gates {
        ui.labelled(
            Tone::Active,
            "gate",
            &format!("{}: {} ({})", gate.name, gate.run.join(" "), gate.why),
        );
    }
    match &plan.agent {
        Some(agent) => ui.labelled(Tone::Active, "agent", agent),
        None => ui.labelled(
            Tone::Attention,
            "agent",
            "none found on the path; `ralph agent list` shows which Ralph knows",
        ),
    }
    for note in &plan.notes {
        ui.important(styled!("{} {note}", ui.paint(Tone::Attention, "note:")));
        if let Some(hint) = note.hint() {
            ui.important(styled!("{} {hint}", ui.paint(Tone::Attention, "hint:")));
        }
    }
    if global.json {
        print_json(&Report {
            root: plan.root.to_string(),
            home: plan.home.to_string(),
            created,
            kept,
            agent: plan.agent.clone(),
            gates: plan.gates.iter().map(|gate| gate.run.clone()).collect(),
            notes: plan.notes.iter().map(ToString::to_string).collect(),
        })?;
    } else if !created.is_empty() {
        ui.line("look ralph.toml over, then: ralph doctor");
    }
    Ok(Exit::Done)
}

/// Tells the repository that home lies in how to merge plans; `false` where it knows, or where there is none.
fn install_merge_driver(scout: &Scout, home: &Utf8Path) -> Result<bool, GitError> {
    if scout.workspace.kind == WorkspaceKind::Plain {
        return Ok(false);
    }
    let program = GitProgram::new("git", std::env::vars_os());
    match Git::discover(program, home) {
        Ok(git) => merge_driver::install(&git, &this_program()),
        Err(GitError::NotARepository { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns the path of this very program; its name alone where the path is no text.
pub(super) fn this_program() -> Utf8PathBuf {
    let path = std::env::current_exe().ok();
    path.and_then(|path| Utf8PathBuf::from_path_buf(path).ok()).unwrap_or_else(|| "ralph".into())
}

fn refused(error: &ralph_engine::init::InitError) -> CliError {
    let source = std::error::Error::source(error).map(|cause| format!(": {cause}"));
    let stopped = CliError::usage(format!("{error}{}", source.unwrap_or_default()));
    stopped.hints(error.hint())
}
