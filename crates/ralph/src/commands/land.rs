//! `ralph land`: updates the checkout to work that has landed but could not reach it.

use ralph_engine::workflow::isolation::upkeep::{LandedBranch, bring_along};

use super::print_either;
use crate::args::GlobalArgs;
use crate::error::CliError;
use crate::exit::Exit;
use crate::render::text::StyledLine;
use crate::render::{Tone, Ui, styled};
use crate::setup::Setup;

pub(crate) fn run(global: &GlobalArgs) -> Result<Exit, CliError> {
    let setup = Setup::load(global, &[])?;
    setup.require_repository()?;
    let state = setup.open_bare_state()?;
    let Setup { workspace, home, config, .. } = &setup;
    let branches = bring_along(&setup.git(), &state, &workspace.root, home, config)
        .map_err(CliError::failed)?;
    print_either(setup.ui, setup.json, &branches, || lines(setup.ui, &branches))?;
    let waits = branches.iter().any(|branch| branch.waits.is_some());
    Ok(if waits { Exit::Unfinished } else { Exit::Done })
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

fn lines(ui: Ui, branches: &[LandedBranch]) -> Vec<StyledLine> {
    if branches.is_empty() {
        return vec![styled!("nothing to land")];
    }
    let line = |branch: &LandedBranch| match (&branch.waits, &branch.unchecked_merge) {
        (Some(why), _) => styled!("{}  {}", name(branch), ui.paint(Tone::Attention, why)),
        (None, Some(merge)) => {
            let merge = merge.get(..10).unwrap_or(merge);
            let said = format!(
                "up to date, by a merge with your newer commits that no gate has checked ({merge}): run `ralph gates run`"
            );
            styled!("{}  {}", name(branch), ui.paint(Tone::Attention, &said))
        }
        (None, None) => styled!("{}  {}", name(branch), ui.paint(Tone::Good, "up to date")),
    };
    branches.iter().map(line).collect()
}
