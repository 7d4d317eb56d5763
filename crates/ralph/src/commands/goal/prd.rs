//! `ralph prd import`: converts another loop's story list to a PRD, if the person agrees.

use std::io::IsTerminal;

use ralph_engine::files::read_optional;
use ralph_engine::workflow::goal::store::GoalStore;
use ralph_engine::workflow::home_committer::HomeCommitter;
use ralph_model::prd::{Imported, Prd, import};
use serde::Serialize;

use crate::args::GlobalArgs;
use crate::args::goal::{PrdCommand, PrdImportArgs};
use crate::commands::print_json;
use crate::error::CliError;
use crate::exit::Exit;
use crate::render::{self, Tone};
use crate::setup::{Setup, now};

#[derive(Serialize)]
struct JsonImport<'a> {
    result: &'a str,
    prd: &'a Prd,
    changes: &'a [String],
}

pub(crate) fn prd(global: &GlobalArgs, command: &PrdCommand) -> Result<Exit, CliError> {
    match command {
        PrdCommand::Import(args) => convert(global, args),
    }
}

fn convert(global: &GlobalArgs, args: &PrdImportArgs) -> Result<Exit, CliError> {
    let setup = Setup::load(global, &[])?;
    setup.require_repository()?;
    let store = GoalStore::new(&setup.home.path);
    let target = store.prd_path();
    let source = args.file.as_ref().map_or_else(|| target.clone(), |file| setup.cwd.join(file));
    let bytes = read_optional(&source).map_err(CliError::usage)?;
    let bytes = bytes.ok_or_else(|| CliError::usage(format!("file `{source}` not found")))?;
    if source == target && Prd::parse(&bytes).is_ok() {
        setup.ui.line("it is a valid PRD already; nothing was changed");
        return Ok(Exit::Done);
    }
    let Imported { prd, changes } =
        import(&bytes).map_err(|error| CliError::usage(format!("`{source}`: {error}")))?;
    let ui = setup.ui;
    for line in prd.summary() {
        ui.important(format!("  {line}"));
    }
    for change in &changes {
        ui.labelled(Tone::Attention, "changes", change);
    }
    if !args.yes {
        if !std::io::stdin().is_terminal() {
            return Err(CliError::person_needed(format!("`{target}` would become the PRD above"))
                .hint(format!("`ralph prd import {source} --yes` writes it")));
        }
        if !render::confirm(&format!("Write this PRD to `{target}`?")) {
            ui.line("nothing was changed");
            return Ok(Exit::Done);
        }
    }
    let git = &setup.config.git;
    let committer = HomeCommitter::open(&setup.git(), &setup.home.path, git);
    let message = "ralph: save home before importing a PRD";
    if let Some(kept) = store.keep_prd(&committer, message, now()).map_err(CliError::failed)? {
        ui.note(&format!("the previous PRD is kept as `{kept}`"));
    }
    std::fs::create_dir_all(&setup.home.path).map_err(CliError::failed)?;
    store.write_prd(&prd).map_err(CliError::failed)?;
    let committer = HomeCommitter::open(&setup.git(), &setup.home.path, git);
    committer.commit("ralph: import a PRD").map_err(CliError::failed)?;
    ui.labelled(Tone::Good, "written", target.as_str());
    if setup.json {
        print_json(&JsonImport { result: "imported", prd: &prd, changes: &changes })?;
    }
    Ok(Exit::Done)
}
