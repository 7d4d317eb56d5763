//! `ralph runs`: the runs of agents, what came of each, and the work of those that did not get through.

mod show;
mod tail;
mod view;
mod work;

use ralph_engine::workflow::isolation::upkeep::LandedBranch;
use ralph_model::board::{Board, RunView};

use super::print_either;
use crate::args::GlobalArgs;
use crate::args::runs::{RunsCommand, RunsListArgs};
use crate::error::CliError;
use crate::exit::Exit;
use crate::render::human::{local_time, one_line, padded, widest};
use crate::render::text::StyledLine;
use crate::render::{Tone, Ui, styled};
use crate::setup::{Setup, now};

use self::view::state_of;
pub(super) use self::view::{JsonRun, log_file};

pub(crate) fn run(global: &GlobalArgs, command: Option<&RunsCommand>) -> Result<Exit, CliError> {
    let setup = Setup::load(global, &[])?;
    let board = setup.board()?;
    match command {
        None => list(&setup, &board, &RunsListArgs { item: None, last: 20 }),
        Some(RunsCommand::List(args)) => list(&setup, &board, args),
        Some(RunsCommand::Show(args)) => show::run(&setup, &choose(&board, &args.what)?),
        Some(RunsCommand::Diff(args)) => {
            work::diff(&setup, &choose(&board, &args.choice.what)?, args.stat)
        }
        Some(RunsCommand::Take(args)) => {
            work::take(&setup, &choose(&board, &args.choice.what)?, args.branch.as_deref())
        }
        Some(RunsCommand::Tail(args)) => tail::run(&setup, &board, args),
    }
}

/// What a person named: one run, or all runs of an item.
struct Chosen<'b> {
    /// `None` for a run that was for nothing else.
    item: Option<&'b str>,
    /// Never empty; the latest last.
    runs: Vec<&'b RunView>,
    /// A run was named, not an item.
    is_run: bool,
}

fn item_of(run: &RunView) -> Option<&str> {
    run.started.as_ref().and_then(|(_, started)| started.item.as_deref())
}

/// Finds the run or the item that is meant: whole, or by a beginning that no other has.
fn choose<'b>(board: &'b Board, what: &str) -> Result<Chosen<'b>, CliError> {
    let of_item = |item: &'b str| Chosen {
        item: Some(item),
        runs: board.runs().filter(|run| item_of(run) == Some(item)).collect(),
        is_run: false,
    };
    let of_run = |run: &'b RunView| Chosen { item: item_of(run), runs: vec![run], is_run: true };
    let mut items: Vec<&str> = board.runs().filter_map(item_of).collect();
    items.sort_unstable();
    items.dedup();
    if let Some(item) = items.iter().find(|item| **item == what) {
        return Ok(of_item(item));
    }
    if let Some(run) = board.runs().find(|run| run.id.as_str() == what) {
        return Ok(of_run(run));
    }
    items.retain(|item| item.starts_with(what));
    let runs: Vec<&RunView> =
        board.runs().filter(|run| run.id.as_str().starts_with(what)).collect();
    match (items.as_slice(), runs.as_slice()) {
        ([item], []) => Ok(of_item(item)),
        ([], [run]) => Ok(of_run(run)),
        ([], []) => {
            let message = format!("run or item `{what}` not found");
            Err(CliError::usage(message).hint("`ralph runs` lists them"))
        }
        (items, runs) => {
            let found = items.iter().copied().chain(runs.iter().map(|run| run.id.as_str()));
            let found: Vec<&str> = found.take(5).collect();
            let message = format!("`{what}` is ambiguous: {}", found.join(", "));
            Err(CliError::usage(message).hint("type more of it"))
        }
    }
}

fn list(setup: &Setup, board: &Board, args: &RunsListArgs) -> Result<Exit, CliError> {
    let mut runs: Vec<&RunView> = match &args.item {
        Some(item) => choose(board, item)?.runs,
        None => board.runs().collect(),
    };
    runs.drain(..runs.len().saturating_sub(args.last));
    let json: Vec<JsonRun<'_>> = runs.iter().map(|run| JsonRun::new(setup, run)).collect();
    print_either(setup.ui, setup.json, &json, || lines(setup, &runs))?;
    Ok(Exit::Done)
}

fn lines(setup: &Setup, runs: &[&RunView]) -> Vec<StyledLine> {
    if runs.is_empty() {
        return vec![styled!("no runs yet")];
    }
    let width = item_width(runs.iter().copied());
    let waiting = setup.waiting_to_land();
    runs.iter().map(|run| line(setup.ui, &waiting, run, width)).collect()
}

/// One run in one line, with its id.
fn line(ui: Ui, waiting: &[LandedBranch], run: &RunView, width: usize) -> StyledLine {
    styled!("{}  {}", ui.paint(Tone::Faint, run.id.as_str()), summary(ui, waiting, run, width))
}

/// The columns that the items of some runs take.
pub(super) fn item_width<'b>(runs: impl IntoIterator<Item = &'b RunView>) -> usize {
    widest(runs.into_iter().map(|run| item_of(run).unwrap_or("-"))).min(32)
}

/// One run in one line: when, for which item, by whom, how it ended, and what was decided.
pub(super) fn summary(ui: Ui, waiting: &[LandedBranch], run: &RunView, width: usize) -> StyledLine {
    let (when, who) = match &run.started {
        Some((at, started)) => {
            (local_time(*at, now()), format!("{} {}", started.role, started.agent))
        }
        None => (String::new(), String::new()),
    };
    let (tone, state) = state_of(run);
    let item = padded(&one_line(item_of(run).unwrap_or("-"), width), width);
    let decided =
        view::decision(waiting, run).map(|(tone, text)| ui.paint(tone, &format!("; {text}")));
    let decided = decided.map_or_else(StyledLine::default, StyledLine::from);
    styled!("{when:>16}  {item}  {} {}{decided}", padded(&who, 22), ui.paint(tone, &state))
}
