//! `ralph land`: updates the checkout to work that has landed but could not reach it.

use ralph_engine::gates::GateError;
use ralph_engine::gates::assess::Assessment;
use ralph_engine::gates::pin::PinnedGates;
use ralph_engine::workflow::isolation::newer::{CheckedMerge, NewerMerge};
use ralph_engine::workflow::isolation::upkeep::{LandedBranch, bring_along};
use ralph_model::proof::ProofLevel;

use super::gates::{GateRoom, not_run};
use super::print_either;
use crate::args::GlobalArgs;
use crate::error::CliError;
use crate::exit::Exit;
use crate::render::gates::GateScreen;
use crate::render::text::StyledLine;
use crate::render::{Tone, Ui, styled};
use crate::setup::Setup;

pub(crate) fn run(global: &GlobalArgs) -> Result<Exit, CliError> {
    let setup = Setup::load(global, &[])?;
    setup.require_repository()?;
    let state = setup.open_bare_state()?;
    let Setup { workspace, home, config, .. } = &setup;
    let check = |newer: &NewerMerge<'_>| check(&setup, newer);
    let branches = bring_along(&setup.git(), &state, &workspace.root, home, config, check)?;
    print_either(setup.ui, setup.json, &branches, || lines(setup.ui, &branches))?;
    let waits = branches.iter().any(|branch| branch.waits.is_some());
    Ok(if waits { Exit::Unfinished } else { Exit::Done })
}

/// Runs the gates at a merge of landed work with newer commits.
fn check(setup: &Setup, newer: &NewerMerge<'_>) -> Result<Assessment, CliError> {
    let pinned = PinnedGates::of(&setup.config);
    if pinned.gates.is_empty() {
        return Ok(Assessment::default());
    }
    let room = GateRoom::open_trusted(setup, &newer.worktree())?;
    let context = room.context(setup, "ralph land");
    let screen = GateScreen::start(setup.ui, newer.merge.as_str(), room.boundary);
    let assessment =
        newer.assess(&context, &pinned, &mut screen.tell()).map_err(|error| match error {
            GateError::Interrupted => CliError::interrupted(),
            error => not_run(error),
        })?;
    screen.conclude(&assessment, true);
    Ok(assessment)
}

fn name(branch: &LandedBranch) -> String {
    match branch.repository.as_str() {
        "" => branch.branch.clone(),
        repository => format!("{repository}: {}", branch.branch),
    }
}

/// Describes a branch, and what to do so that work can land on it.
pub(super) fn described(branch: &LandedBranch) -> String {
    let why = branch.waits.as_deref().unwrap_or("it is up to date");
    if branch.repository.is_empty() { why.to_owned() } else { format!("{}: {why}", name(branch)) }
}

fn tone(merge: &CheckedMerge) -> Tone {
    match merge.level {
        ProofLevel::GatesPassed => Tone::Good,
        ProofLevel::ChecksChanged | ProofLevel::NotProven => Tone::Attention,
    }
}

fn lines(ui: Ui, branches: &[LandedBranch]) -> Vec<StyledLine> {
    if branches.is_empty() {
        return vec![styled!("nothing to land")];
    }
    let line = |branch: &LandedBranch| match (&branch.waits, &branch.merge) {
        (Some(why), _) => styled!("{}  {}", name(branch), ui.paint(Tone::Attention, why)),
        (None, Some(merge)) => {
            let said = format!("up to date; {}", merge.says());
            styled!("{}  {}", name(branch), ui.paint(tone(merge), &said))
        }
        (None, None) => styled!("{}  {}", name(branch), ui.paint(Tone::Good, "up to date")),
    };
    branches.iter().map(line).collect()
}
