//! `ralph slots`: the clones that agents work in.

use ralph_engine::workflow::isolation::upkeep::{SlotView, list_slots, prune_slots};

use super::print_either;
use crate::args::{GlobalArgs, SlotsCommand};
use crate::error::CliError;
use crate::exit::Exit;
use crate::render::human::{bytes, padded, widest};
use crate::render::text::StyledLine;
use crate::render::{Tone, Ui, styled};
use crate::setup::{Setup, now};

pub(crate) fn run(global: &GlobalArgs, command: Option<SlotsCommand>) -> Result<Exit, CliError> {
    let setup = Setup::load(global, &[])?;
    let state = setup.open_bare_state()?;
    let config = &setup.config;
    let (slots, nothing) = match command {
        None | Some(SlotsCommand::List) => (list_slots(&state, config), "no slots"),
        Some(SlotsCommand::Prune { all }) => {
            let pruned = prune_slots(&state, &setup.home, config, all, now()).map_err(|error| {
                CliError::failed(error).hint("wait for the workflow to end, or stop it")
            })?;
            let left =
                if all { list_slots(&state, config).unwrap_or_default() } else { Vec::new() };
            for slot in left {
                let item = slot.item.as_deref().unwrap_or("an item");
                let kept = format!(
                    "slot {}: a finished run of {item} has not been judged yet; continue its workflow first",
                    slot.number
                );
                setup.ui.labelled(Tone::Attention, "kept", &kept);
            }
            let removed =
                |slot: &SlotView| styled!("removed slot {} ({})", slot.number, bytes(slot.size));
            print_either(setup.ui, setup.json, &pruned, || match pruned.as_slice() {
                [] => vec![styled!("no slot to remove")],
                slots => slots.iter().map(removed).collect(),
            })?;
            return Ok(Exit::Done);
        }
    };
    let slots = slots.map_err(CliError::failed)?;
    print_either(setup.ui, setup.json, &slots, || lines(setup.ui, &slots, nothing))?;
    Ok(Exit::Done)
}

fn lines(ui: Ui, slots: &[SlotView], nothing: &str) -> Vec<StyledLine> {
    if slots.is_empty() {
        return vec![styled!("{nothing}")];
    }
    let item = |slot: &SlotView| slot.item.clone().unwrap_or_else(|| "free".to_owned());
    let items: Vec<String> = slots.iter().map(item).collect();
    let width = widest(items.iter().map(String::as_str));
    let line = |(slot, item): (&SlotView, &String)| {
        let size = bytes(slot.size);
        let path = ui.paint(Tone::Faint, slot.path.as_str());
        styled!("{:>3}  {}  {size:>10}  {path}", slot.number, padded(item, width))
    };
    slots.iter().zip(&items).map(line).collect()
}
