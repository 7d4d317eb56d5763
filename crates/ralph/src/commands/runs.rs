//! `ralph runs`: the runs of agents, their results, and work that was not accepted.

mod show;
mod tail;
mod view;
mod work;

use ralph_engine::workflow::isolation::upkeep::LandedBranch;
use ralph_model::board::{Board, RunView};
use ralph_model::item_name::meant;

use super::print_either;
use crate::args::GlobalArgs;
use crate::args::runs::{RunsCommand, RunsListArgs};
use crate::error::CliError;
use crate::exit::Exit;
use crate::render::human::{local_time, one_line, padded, widest};
use crate::render::text::{Painted, StyledLine};
use crate::render::{self, Tone, Ui, styled};
use crate::setup::{Setup, now};

use self::view::state_of;
pub(super) use self::view::{JsonRun, log_file, outcome_of};

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

/// The person's selection: one run, or all runs of an item.
struct Chosen<'b> {
    /// `None` for a run without an item.
    item: Option<&'b str>,
    /// Never empty; latest last.
    runs: Vec<&'b RunView>,
    /// A run was named, not an item.
    is_run: bool,
}

fn item_of(run: &RunView) -> Option<&str> {
    run.started.as_ref().and_then(|(_, started)| started.item.as_deref())
}

/// Less of a run's id than its date tells nothing.
const SHORTEST_ID: usize = 8;

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
    let named = meant(&items, what);
    let items: Vec<&str> = named.into_iter().map(|at| items[at]).collect();
    // The ids of all runs begin alike, with their date: a short number is an item's.
    let is_short = !items.is_empty() && what.len() < SHORTEST_ID;
    let runs: Vec<&RunView> =
        board.runs().filter(|run| !is_short && run.id.as_str().starts_with(what)).collect();
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
            Err(CliError::usage(message).hint("give more of its characters"))
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
    let waiting = setup.waiting_to_land();
    let table = RunTable::new(setup.ui, &waiting, runs, RunIds::Shown);
    runs.iter().flat_map(|run| table.lines(run)).collect()
}

/// Whether a table of runs shows how each is called.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RunIds {
    Shown,
    Hidden,
}

/// Runs in lines: when, for which item, by whom, how each ended, and what was decided. Where the terminal is too narrow
/// for one of them in one line, all have several.
pub(super) struct RunTable<'s> {
    ui: Ui,
    waiting: &'s [LandedBranch],
    ids: RunIds,
    item_width: usize,
    is_narrow: bool,
}

/// The columns of a time with its date, and of an agent with its role.
const WHEN: usize = 16;
const WHO: usize = 22;

/// How far the further lines of a run are indented.
const INDENT: usize = 4;

impl<'s> RunTable<'s> {
    pub(super) fn new(
        ui: Ui,
        waiting: &'s [LandedBranch],
        runs: &[&RunView],
        ids: RunIds,
    ) -> RunTable<'s> {
        let item_width = widest(runs.iter().map(|run| item_of(run).unwrap_or("-"))).min(32);
        let table = RunTable { ui, waiting, ids, item_width, is_narrow: false };
        let room = render::room_after(0, usize::MAX);
        let is_narrow = runs.iter().any(|run| table.wide(run).columns() > room);
        RunTable { is_narrow, ..table }
    }

    pub(super) fn lines(&self, run: &RunView) -> Vec<StyledLine> {
        if self.is_narrow { self.narrow(run) } else { vec![self.wide(run)] }
    }

    /// Returns how far what is said of a run below its line is indented.
    pub(super) fn indent(&self) -> usize {
        if self.is_narrow { INDENT } else { WHEN + 2 }
    }

    fn wide(&self, run: &RunView) -> StyledLine {
        let (when, who) = times_and_agent(run);
        let item = padded(&self.item(run), self.item_width);
        let line = styled!("{when:>WHEN$}  {item}  {} {}", padded(&who, WHO), self.end(run));
        match self.ids {
            RunIds::Shown => styled!("{}  {line}", self.id(run)),
            RunIds::Hidden => line,
        }
    }

    fn narrow(&self, run: &RunView) -> Vec<StyledLine> {
        let room = render::room_after(0, usize::MAX);
        let (when, who) = times_and_agent(run);
        let (end, id) = (self.end(run), self.id(run));
        let mut lines = vec![styled!("{when}  {}  {who}", self.item(run))];
        match self.ids {
            RunIds::Hidden => lines.push(styled!("{:INDENT$}{end}", "")),
            RunIds::Shown => {
                let both = styled!("{:INDENT$}{id}  {end}", "");
                if both.columns() <= room {
                    lines.push(both);
                } else {
                    lines.extend([styled!("{:INDENT$}{id}", ""), styled!("{:INDENT$}{end}", "")]);
                }
            }
        }
        lines.into_iter().map(|line| line.cut(room)).collect()
    }

    fn id(&self, run: &RunView) -> Painted {
        self.ui.paint(Tone::Faint, run.id.as_str())
    }

    fn item(&self, run: &RunView) -> String {
        one_line(item_of(run).unwrap_or("-"), self.item_width)
    }

    /// How a run ended, and what was decided.
    fn end(&self, run: &RunView) -> StyledLine {
        let (tone, state) = state_of(run);
        let state = self.ui.paint(tone, &state);
        match view::decision(self.waiting, run) {
            Some((tone, text)) => {
                styled!("{state}{}", self.ui.paint(tone, &format!("; {text}")))
            }
            None => state.into(),
        }
    }
}

fn times_and_agent(run: &RunView) -> (String, String) {
    match &run.started {
        Some((at, started)) => {
            (local_time(*at, now()), format!("{} {}", started.role, started.agent))
        }
        None => Default::default(),
    }
}
