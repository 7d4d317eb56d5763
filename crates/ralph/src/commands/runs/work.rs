//! `ralph runs diff` and `take`: work that is not on the branch.

use ralph_engine::git::patch::PatchForm;
use ralph_engine::workflow::isolation::kept::{KeptQuery, KeptWork, TakenBranch, find_kept};
use ralph_model::board::RunView;
use ralph_model::journal::VerdictKind;
use serde::Serialize;

use super::Chosen;
use super::view::commit_of;
use crate::commands::print_either;
use crate::error::CliError;
use crate::exit::Exit;
use crate::render::{raw_data, styled};
use crate::setup::Setup;

/// Finds the work of the selection: the commit claimed or judged last, otherwise the content of the item's clone.
pub(super) fn find(setup: &Setup, chosen: &Chosen<'_>) -> Result<Option<KeptWork>, CliError> {
    setup.require_repository()?;
    let state = setup.open_bare_state()?;
    let commit = chosen.runs.iter().rev().find_map(|run| commit_of(run));
    // Only the last runs of an item can have worked in its current clone.
    let item = chosen.item;
    let query = KeptQuery { item, commit };
    find_kept(&setup.git(), &state, &setup.config, &setup.workspace.root, query)
        .map_err(CliError::failed)
}

fn require(setup: &Setup, chosen: &Chosen<'_>) -> Result<KeptWork, CliError> {
    find(setup, chosen)?.ok_or_else(|| {
        let name = match (chosen.is_run, chosen.item) {
            (false, Some(item)) => item,
            _ => chosen.runs[0].id.as_str(),
        };
        let message =
            format!("no work of `{name}` is kept: it claimed no commit and its clone has none");
        CliError::failed(message).hint(format!("`ralph runs show {name}` says what happened"))
    })
}

/// Says what was decided on a work, and whether the person has it already.
fn decision(work: &KeptWork, chosen: &Chosen<'_>) -> &'static str {
    let mut of_it = chosen.runs.iter().filter(|run| commit_of(run) == Some(work.commit.as_str()));
    let is_accepted = |run: &&RunView| {
        let verdict = run.verdict.as_ref().map(|verdict| verdict.verdict);
        run.landed.is_some() || verdict == Some(VerdictKind::Accepted)
    };
    match (work.has_receipt || of_it.any(is_accepted), work.is_on_branch) {
        (true, true) => "it was accepted, and your branch has it",
        (true, false) => "it was accepted",
        (false, true) => "it was not accepted; your branch has it below the work that was",
        (false, false) => "it was not accepted",
    }
}

pub(super) fn diff(setup: &Setup, chosen: &Chosen<'_>, stat: bool) -> Result<Exit, CliError> {
    let work = require(setup, chosen)?;
    let form = if stat { PatchForm::Summary } else { PatchForm::Whole };
    raw_data(&work.patch(form).map_err(CliError::failed)?)?;
    Ok(Exit::Done)
}

#[derive(Serialize)]
struct JsonTaken<'w> {
    branch: &'w str,
    commit: &'w str,
    repository: &'w str,
}

pub(super) fn take(
    setup: &Setup,
    chosen: &Chosen<'_>,
    branch: Option<&str>,
) -> Result<Exit, CliError> {
    let work = require(setup, chosen)?;
    let name = chosen.item.unwrap_or(chosen.runs[0].id.as_str());
    let branch = branch.map_or_else(|| format!("ralph/{name}"), str::to_owned);
    let branch = branch.strip_prefix("refs/heads/").unwrap_or(&branch);
    let taken = work.take(branch).map_err(CliError::failed)?;
    if taken == TakenBranch::InTheWay {
        let message =
            format!("branch `{branch}` already exists at another commit; it was not moved");
        let hint = format!("choose another name: ralph runs take {name} BRANCH");
        return Err(CliError::usage(message).hint(hint));
    }
    let json = JsonTaken { branch, commit: &work.commit, repository: &work.repository };
    print_either(setup.ui, setup.json, &json, || {
        let place = if work.repository.is_empty() { "" } else { &work.repository };
        let at = if place.is_empty() { String::new() } else { format!(" in {place}") };
        let done = match taken {
            TakenBranch::AlreadyThere => "is there already, at",
            _ => "stands at",
        };
        vec![
            styled!("the branch `{branch}`{at} {done} {}", work.commit),
            styled!("`git switch {branch}` checks it out; {}", decision(&work, chosen)),
        ]
    })?;
    Ok(Exit::Done)
}
